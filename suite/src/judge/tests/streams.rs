//! Conditions on streams.

use super::super::build::{IOPS, at_least, plan, workload};
use super::{only, reason};
use crate::measure::{DeviceUse, Measurement};
use crate::plan::{Against, Comparison, Metric, Plan, Stream, Test};
use crate::record::sample::{fault, record, side_by_side, steady};
use crate::record::{CaseRecord, Outcome};
use Outcome::{Error, Fail, Inconclusive, Pass};

/// A plan with streams `log` and `data`, and one condition on the first.
fn on_log(metric: Metric, test: Test) -> Plan {
    let mut plan = plan(&["lrs/both"]).expecting(0, metric, test);
    plan.assertions[0].stream = Some("log".to_owned());
    let stream = |name: &str| Stream { name: name.to_owned(), workload: workload() };
    plan.cases[0].workload.streams = vec![stream("log"), stream("data")];
    plan
}

fn both(log: Measurement, data: Measurement) -> CaseRecord {
    side_by_side("lrs/both", vec![("log", log), ("data", data)])
}

#[test]
fn a_stream_is_judged_by_its_own_figures() {
    let plan = on_log(IOPS, at_least(900.0));
    assert_eq!(only(&plan, &[both(steady(1000), steady(5))], None).outcome, Pass);
    let failed = only(&plan, &[both(steady(5), steady(1000))], None);
    assert_eq!((failed.outcome, failed.case.as_str()), (Fail, "lrs/both/log"));
    assert_eq!(failed.evidence.measured, Some(5.0));
}

#[test]
fn no_stream_passes_beside_one_that_failed() {
    let mut failing = steady(500);
    failing.faults = vec![fault(5, 3)];
    let plan = on_log(IOPS, at_least(900.0));
    let verdict = only(&plan, &[both(steady(1000), failing)], None);
    assert_eq!(verdict.outcome, Error);
    assert!(reason(&verdict).starts_with("stream data: 3 reads failed"), "{}", reason(&verdict));
}

#[test]
fn a_stream_of_which_the_device_saw_nothing_is_no_pass() {
    let plan = on_log(IOPS, at_least(900.0));
    let mut case = both(steady(1000), steady(500));
    let mut device = |read_bytes| {
        let round = case.rounds[0].measurement.as_mut().unwrap();
        let seen = DeviceUse { read_bytes, ..DeviceUse::default() };
        round.device = Some(seen);
        only(&plan, &[case.clone()], None).outcome
    };
    assert_eq!(device(1500 * 4096), Pass, "the books are of both streams");
    assert_eq!(device(4096), Inconclusive);
}

#[test]
fn a_baseline_is_none_where_other_streams_ran_beside() {
    let test = Test::Times(Comparison::GreaterOrEqual, 0.9, Against::Baseline);
    let plan = on_log(IOPS, test);
    let now = [both(steady(1000), steady(500))];
    let before = |change: &dyn Fn(&mut CaseRecord)| {
        let mut case = both(steady(1000), steady(500));
        change(&mut case);
        only(&plan, &now, Some(&record(vec![case])))
    };
    assert_eq!(before(&|_| {}).outcome, Pass);
    let other = before(&|case| case.parameters[0].1 = "log, data, backup".to_owned());
    assert_eq!(other.outcome, Error);
    let said = "did other work: streams was log, data, backup there and is log, data here";
    assert!(reason(&other).contains(said), "{}", reason(&other));
    let gone = before(&|case| drop(case.streams.remove(0)));
    assert!(reason(&gone).contains("has no case lrs/both/log"), "{}", reason(&gone));
}
