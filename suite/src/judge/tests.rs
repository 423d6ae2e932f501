//! Tests of the rules of judging: each by records made by hand, of which the truth is known.

mod streams;

use proptest::prelude::*;

use super::build::{ERRORS, IOPS, MEAN, MEASURES, at_least, at_most, percentile, plan, times};
use super::{Circumstances, conclude, judge, open_cases};
use crate::measure::{IoKind, Measurement};
use crate::plan::{
    Against, Cache, Comparison, EngineChoice, Inconclusive, Measure, Metric, Plan, Test,
};
use crate::record::sample::{case, fault, reads, record, steady};
use crate::record::{CaseRecord, Conclusion, Outcome, Record, RoundRecord, Verdict};
use crate::units::{Nanos, Percentile};
use Outcome::{Error, Fail, Pass, Skipped};

const LRS: &str = "lrs/read";
const ZRS: &str = "zrs/read";

/// The verdict on one condition on one case with these rounds.
fn verdict(metric: Metric, test: Test, rounds: Vec<Measurement>) -> Verdict {
    only(&plan(&[LRS]).expecting(0, metric, test), &[case(LRS, rounds)], None)
}

fn only(plan: &Plan, cases: &[CaseRecord], baseline: Option<&Record>) -> Verdict {
    let mut verdicts = judge(plan, &record(cases.to_vec()), baseline);
    assert_eq!(verdicts.len(), 1);
    verdicts.remove(0)
}

fn reason(verdict: &Verdict) -> &str {
    verdict.evidence.reason.as_deref().unwrap_or_default()
}

/// `zrs` against `lrs`, with these rounds.
fn compared(metric: Metric, test: Test, zrs: Vec<Measurement>, lrs: Vec<Measurement>) -> Verdict {
    let plan = plan(&[LRS, ZRS]).expecting(1, metric, test);
    only(&plan, &[case(LRS, lrs), case(ZRS, zrs)], None)
}

/// A second of reads that each took this long; IOPS as given.
fn latency(nanoseconds: u64, iops: u64) -> Measurement {
    reads((0..iops).map(|_| nanoseconds))
}

#[test]
fn the_verdict_carries_what_the_plan_said_and_its_evidence() {
    let verdict = verdict(IOPS, at_least(900.0), vec![steady(1000), steady(1200)]);
    assert_eq!(verdict.outcome, Pass);
    assert_eq!((verdict.case.as_str(), verdict.line, verdict.gate), (LRS, 7, true));
    assert_eq!(verdict.condition, "iops as expected");
    assert_eq!(verdict.why.as_deref(), Some("of the test"));
    let evidence = verdict.evidence;
    assert_eq!(evidence.metric, "iops");
    assert_eq!((evidence.kind, evidence.percentile), (None, None));
    assert_eq!(evidence.comparison, ">=");
    assert_eq!(evidence.measured, Some(1100.0), "2200 in two seconds");
    assert_eq!(evidence.rounds, [Some(1000.0), Some(1200.0)]);
    assert_eq!(evidence.limits, [900.0]);
    assert_eq!(evidence.higher_is_better, Some(true));
    assert_eq!(evidence.reason, None);
}

#[test]
fn a_limit_is_met_or_missed_to_the_last_digit() {
    let at = |comparison, limit| {
        verdict(IOPS, Test::Constant(comparison, limit), vec![steady(1000)]).outcome
    };
    assert_eq!(at(Comparison::LessOrEqual, 1000.0), Pass);
    assert_eq!(at(Comparison::Less, 1000.0), Fail);
    assert_eq!(at(Comparison::GreaterOrEqual, 1000.0), Pass);
    assert_eq!(at(Comparison::Greater, 1000.0), Fail);
    assert_eq!(at(Comparison::Equal, 1000.0), Pass);
    assert_eq!(at(Comparison::Less, 1000.0_f64.next_up()), Pass);
    assert_eq!(at(Comparison::Greater, 1000.0_f64.next_down()), Pass);
    assert_eq!(at(Comparison::GreaterOrEqual, 1000.0_f64.next_up()), Fail);
}

#[test]
fn between_and_within_include_both_ends() {
    let between = |low, high| verdict(IOPS, Test::Between(low, high), vec![steady(1000)]).outcome;
    assert_eq!(between(1000.0, 2000.0), Pass);
    assert_eq!(between(500.0, 1000.0), Pass);
    assert_eq!(between(1000.0, 1000.0), Pass);
    assert_eq!(between(1000.5, 2000.0), Fail);
    assert_eq!(between(500.0, 999.5), Fail);
    let within = |iops| {
        let test = Test::Within(0.25, Against::Case(0, "lrs".to_owned()));
        compared(IOPS, test, vec![steady(iops)], vec![steady(1000)])
    };
    for (iops, outcome) in [(749, Fail), (750, Pass), (1000, Pass), (1250, Pass), (1251, Fail)] {
        let verdict = within(iops);
        assert_eq!(verdict.outcome, outcome, "{iops}");
        assert_eq!(verdict.evidence.limits, [750.0, 1250.0]);
    }
}

#[test]
fn every_metric_has_its_value_in_its_unit() {
    let mut round = reads([1000, 2000, 6000]);
    round.duration_ns = Nanos(2_000_000_000);
    let value = |kind, measure| {
        let verdict = verdict(Metric { kind, measure }, at_most(1e18), vec![round.clone()]);
        verdict.evidence.measured
    };
    let read = Some(IoKind::Read);
    assert_eq!(value(None, Measure::Iops), Some(1.5));
    assert_eq!(value(read, Measure::Bandwidth), Some(3.0 * 4096.0 / 2.0));
    assert_eq!(value(read, Measure::LatencyMin), Some(1000.0));
    assert_eq!(value(read, Measure::LatencyMean), Some(3000.0));
    assert_eq!(value(None, Measure::LatencyMax), Some(6000.0));
    assert!(value(read, Measure::LatencyStddev).is_some_and(|s| (s - 2160.2).abs() < 10.0));
    assert_eq!(value(None, Measure::Errors), Some(0.0));
    assert_eq!(value(None, Measure::CpuUser), Some(5.0), "percent of one processor");
    assert_eq!(value(None, Measure::CpuSystem), Some(10.0));
    assert_eq!(value(None, Measure::CpuPerIo), Some(1e8), "300 ms for 3");
    assert_eq!(value(None, Measure::DeviceUtilization), Some(97.25));
    assert_eq!(value(Some(IoKind::Write), Measure::Iops), None);
}

#[test]
fn rounds_that_disagree_are_inconclusive() {
    let of = |rounds: &[u64], limit| {
        let rounds = rounds.iter().map(|iops| steady(*iops)).collect();
        verdict(IOPS, at_least(limit), rounds)
    };
    let split = of(&[1000, 1000, 1000, 900], 950.0);
    assert_eq!(split.outcome, Outcome::Inconclusive);
    assert_eq!(reason(&split), "3 of 4 rounds hold: the limit lies within their spread");
    assert_eq!(of(&[1000, 1000, 1000, 900], 899.0).outcome, Pass);
    assert_eq!(of(&[1000, 1000, 1000, 900], 1001.0).outcome, Fail);
    assert_eq!(of(&[1000], 950.0).outcome, Pass, "with one round, that one decides");
    assert_eq!(of(&[900], 950.0).outcome, Fail);
}

#[test]
fn rounds_and_their_sum_that_disagree_are_inconclusive() {
    // Simpson's paradox: faster in each round, but most of its I/Os are of the slow round.
    let lrs = vec![latency(101, 1000), latency(1001, 10)];
    let zrs = vec![latency(100, 10), latency(1000, 1000)];
    let test = || times(Comparison::LessOrEqual, 1.0, 0);
    let paradox = compared(MEAN, test(), zrs.clone(), lrs.clone());
    assert_eq!(paradox.outcome, Outcome::Inconclusive);
    assert_eq!(reason(&paradox), "each of 2 rounds holds, but all of them together don't");
    let reverse = compared(MEAN, times(Comparison::Less, 1.0, 0), lrs, zrs);
    assert_eq!(reverse.outcome, Outcome::Inconclusive);
    assert_eq!(reason(&reverse), "none of 2 rounds holds, but all of them together do");
}

#[test]
fn what_was_observed_once_is_decided_by_it() {
    let rounds = || vec![reads([5, 10]), reads([6, 2000]), reads([7, 11])];
    let max = Metric { kind: None, measure: Measure::LatencyMax };
    let min = Metric { kind: None, measure: Measure::LatencyMin };
    assert_eq!(verdict(max, at_most(1000.0), rounds()).outcome, Fail);
    assert_eq!(verdict(max, at_most(2000.0), rounds()).outcome, Pass);
    assert_eq!(verdict(min, at_least(6.0), rounds()).outcome, Fail);
    assert_eq!(verdict(min, at_least(5.0), rounds()).outcome, Pass);
}

#[test]
fn percentiles_are_merged_and_never_averaged() {
    // The mean of the two p99 is 500,050; the p99 of both together is 100.
    let fast = reads(std::iter::repeat_n(100, 100_000));
    let slow = reads(std::iter::repeat_n(1_000_000, 400));
    let verdict = verdict(percentile(990_000), at_most(500.0), vec![fast, slow]);
    assert_eq!(verdict.evidence.measured, Some(100.0));
    assert_eq!(verdict.evidence.rounds[1], Some(1_000_000.0));
}

#[test]
fn a_percentile_without_enough_samples_is_an_error() {
    let short = verdict(percentile(999_000), at_most(1e9), vec![steady(3687)]);
    assert_eq!(short.outcome, Error);
    assert_eq!(reason(&short), "insufficient samples: 3687 of the 3688 that p99.9 needs");
    assert_eq!(verdict(percentile(999_000), at_most(1e9), vec![steady(3688)]).outcome, Pass);
    assert_eq!(short.evidence.percentile, Some(Percentile(999_000)));
    let low = verdict(percentile(1), at_least(1.0), vec![steady(2)]);
    assert_eq!(low.outcome, Error, "the lower end needs samples below it");
    assert_eq!(reason(&low), "insufficient samples: 2 of the 3688878 that p0.0001 needs");
}

#[test]
fn a_slow_round_has_its_say_however_few_its_samples() {
    let rounds = vec![latency(100, 200), latency(100, 200)];
    let merged = verdict(percentile(990_000), at_most(100.0), rounds);
    assert_eq!(merged.outcome, Pass, "{}", reason(&merged));
    assert_eq!(merged.evidence.rounds, [Some(100.0), Some(100.0)]);
    assert_eq!(merged.evidence.measured, Some(100.0));
    // Both rounds together are fast, since the slow one has so few I/Os to show for itself.
    let fast = reads(std::iter::repeat_n(100, 10_000));
    let stalled = reads(std::iter::repeat_n(9_000_000, 20));
    let gated = verdict(percentile(990_000), at_most(500.0), vec![fast, stalled]);
    assert_eq!(gated.evidence.measured, Some(100.0));
    assert_eq!(gated.outcome, Outcome::Inconclusive, "{}", reason(&gated));
}

#[test]
fn before_the_smallest_number_of_rounds_nothing_is_decided() {
    let mut plan =
        plan(&[LRS]).expecting(0, IOPS, at_least(900.0)).expecting(0, IOPS, at_least(9000.0));
    plan.run.rounds.min = 4;
    let cases = [case(LRS, vec![steady(1000); 3])];
    for verdict in judge(&plan, &record(cases.to_vec()), None) {
        assert_eq!(verdict.outcome, Outcome::Inconclusive);
        assert_eq!(reason(&verdict), "3 of 4 rounds were measured");
    }
    let cases = [case(LRS, vec![steady(1000); 4])];
    let outcomes: Vec<_> =
        judge(&plan, &record(cases.to_vec()), None).iter().map(|v| v.outcome).collect();
    assert_eq!(outcomes, [Pass, Fail]);
}

#[test]
fn a_case_with_failed_ios_can_not_pass() {
    let mut round = steady(1000);
    round.faults = vec![fault(5, 3)];
    let iops = verdict(IOPS, at_least(1.0), vec![steady(1000), round.clone()]);
    assert_eq!(iops.outcome, Error);
    assert_eq!(
        reason(&iops),
        "3 reads failed with EIO (input/output error), the first on disk lrs at byte 8192"
    );
    assert_eq!(iops.evidence.measured, Some(1000.0), "what was measured is shown all the same");
    let missed = verdict(IOPS, at_least(9e9), vec![round.clone()]);
    assert_eq!(missed.outcome, Error, "a broken disk is no slow disk");

    let none = verdict(ERRORS, Test::Constant(Comparison::Equal, 0.0), vec![round.clone()]);
    assert_eq!(none.outcome, Fail);
    assert!(reason(&none).contains("EIO"));
    let few = verdict(ERRORS, at_most(5.0), vec![round.clone()]);
    assert_eq!(few.outcome, Error, "within the author's limit, and yet not a sound case");
    let writes = Metric { kind: Some(IoKind::Write), measure: Measure::Errors };
    assert_eq!(verdict(writes, at_most(0.0), vec![round]).outcome, Error);
}

#[test]
fn no_errors_on_a_sound_case_pass() {
    let none = verdict(ERRORS, Test::Constant(Comparison::Equal, 0.0), vec![steady(10)]);
    assert_eq!(none.outcome, Pass);
    let idle = verdict(ERRORS, Test::Constant(Comparison::Equal, 0.0), vec![steady(0)]);
    assert_eq!(idle.outcome, Error, "nothing was tried");
}

#[test]
fn a_round_that_could_not_be_measured_is_an_error() {
    let mut broken = case(LRS, vec![steady(1000)]);
    broken.rounds.push(RoundRecord {
        round: 2,
        seed: 1,
        measurement: None,
        error: Some("no memory for 4096 bytes of I/O buffers".to_owned()),
    });
    let verdict = only(&plan(&[LRS]).expecting(0, IOPS, at_least(1.0)), &[broken], None);
    assert_eq!(verdict.outcome, Error);
    assert_eq!(
        reason(&verdict),
        "round 2 could not be measured: no memory for 4096 bytes of I/O buffers"
    );
}

#[test]
fn missing_figures_are_errors_with_their_reason() {
    let told = |metric, round: Measurement| {
        let verdict = verdict(metric, at_most(1e18), vec![round]);
        assert_eq!(verdict.outcome, Error);
        reason(&verdict).to_owned()
    };
    let metric = |measure| Metric { kind: None, measure };
    let mut round = steady(100);
    round.cpu = None;
    round.device = None;
    assert_eq!(
        told(metric(Measure::DeviceUtilization), round.clone()),
        "the kernel keeps no book for this disk"
    );
    assert_eq!(told(metric(Measure::CpuUser), round), "there is no processor time in this run");
    let mut instant = steady(100);
    instant.duration_ns = Nanos(0);
    assert_eq!(told(IOPS, instant), "the measured window has no length");
    assert_eq!(told(IOPS, steady(0)), "no I/O completed");
    let writes = Metric { kind: Some(IoKind::Write), measure: Measure::LatencyMean };
    assert_eq!(told(writes, steady(100)), "no write completed");
    let mut unwell = steady(100);
    unwell.device = unwell.device.map(|mut device| {
        device.utilization_percent = f64::NAN;
        device
    });
    assert_eq!(told(metric(Measure::DeviceUtilization), unwell), "the figure is not a number");
    let verdict = verdict(MEAN, at_most(1e18), vec![steady(100), steady(0)]);
    assert_eq!((verdict.outcome, reason(&verdict)), (Error, "no read completed in round 2"));
}

#[test]
fn a_skipped_case_is_skipped_with_every_reason() {
    let mut absent = case(LRS, Vec::new());
    absent.skipped = vec!["no io_uring".to_owned(), "too little memory".to_owned()];
    let verdict = only(&plan(&[LRS]).expecting(0, IOPS, at_least(1.0)), &[absent], None);
    assert_eq!((verdict.outcome, reason(&verdict)), (Skipped, "no io_uring; too little memory"));
}

#[test]
fn conditions_on_cases_that_were_not_selected_have_no_verdict() {
    let plan =
        plan(&[LRS, ZRS]).expecting(0, IOPS, at_least(1.0)).expecting(1, IOPS, at_least(1.0));
    let verdicts = judge(&plan, &record(vec![case(ZRS, vec![steady(10)])]), None);
    assert_eq!(verdicts.len(), 1);
    assert_eq!(verdicts[0].case, ZRS);
}

#[test]
fn a_comparison_is_paired_by_round() {
    // The machine slows down by half over the run: unpaired, the arms would overlap.
    let lrs = vec![latency(100, 10), latency(150, 10), latency(200, 10)];
    let zrs = vec![latency(200, 10), latency(300, 10), latency(400, 10)];
    let pass = compared(MEAN, times(Comparison::LessOrEqual, 2.0, 0), zrs.clone(), lrs.clone());
    assert_eq!(pass.outcome, Pass, "{}", reason(&pass));
    assert_eq!(pass.evidence.reference.as_deref(), Some(LRS));
    assert_eq!(pass.evidence.reference_value, Some(150.0));
    assert_eq!(pass.evidence.measured, Some(300.0));
    assert_eq!(pass.evidence.limits, [300.0]);
    assert_eq!(pass.evidence.ratio, Some(2.0));
    let fail = compared(MEAN, times(Comparison::LessOrEqual, 1.9, 0), zrs, lrs);
    assert_eq!(fail.outcome, Fail);
}

#[test]
fn rounds_without_a_partner_are_left_out_of_a_comparison() {
    let lrs = vec![latency(100, 10), latency(100, 10)];
    let zrs = vec![latency(200, 10), latency(200, 10), latency(9000, 10)];
    let verdict = compared(MEAN, times(Comparison::LessOrEqual, 2.0, 0), zrs, lrs);
    assert_eq!(verdict.outcome, Pass);
    assert_eq!(verdict.evidence.measured, Some(200.0));
    assert_eq!(verdict.evidence.rounds.len(), 3, "every round is shown");
}

#[test]
fn a_round_without_data_counts_against_a_reference_with_or_without_a_partner() {
    let lrs = vec![steady(1000), steady(0)];
    let verdict = compared(IOPS, times(Comparison::LessOrEqual, 2.0, 0), vec![steady(1000)], lrs);
    assert_eq!(verdict.outcome, Error);
    assert_eq!(reason(&verdict), "lrs/read: no I/O completed in round 2");
}

#[test]
fn a_comparison_needs_a_sound_partner() {
    let plan = plan(&[LRS, ZRS]).expecting(1, IOPS, times(Comparison::GreaterOrEqual, 0.5, 0));
    let mine = || case(ZRS, vec![steady(1000)]);

    let verdict = only(&plan, &[mine()], None);
    assert_eq!(verdict.outcome, Error);
    assert_eq!(
        reason(&verdict),
        "lrs/read, the case to compare with, was not selected: add --case 'lrs/read'"
    );

    let mut skipped = case(LRS, Vec::new());
    skipped.skipped = vec!["no io_uring".to_owned()];
    let verdict = only(&plan, &[skipped, mine()], None);
    assert_eq!(verdict.outcome, Skipped);
    assert!(reason(&verdict).ends_with("was skipped: no io_uring"), "{}", reason(&verdict));

    let mut broken = steady(1000);
    broken.faults = vec![fault(5, 1)];
    let verdict = only(&plan, &[case(LRS, vec![broken]), mine()], None);
    assert_eq!(verdict.outcome, Error);
    assert!(reason(&verdict).starts_with("lrs/read, the case to compare with: 1 read failed"));

    let verdict = only(&plan, &[case(LRS, Vec::new()), mine()], None);
    assert_eq!(verdict.outcome, Error);

    let mut other_way = steady(1000);
    other_way.backend.name = "sync".to_owned();
    let cases = [case(LRS, vec![other_way]), mine()];
    let verdict = only(&plan, &cases, None);
    assert_eq!(verdict.outcome, Error);
    assert!(reason(&verdict).contains("io_uring, but lrs/read through sync"));
    let mut chosen = plan.clone();
    chosen.cases[0].workload.engine = EngineChoice::Sync;
    chosen.cases[1].workload.engine = EngineChoice::IoUring;
    assert_eq!(only(&chosen, &cases, None).outcome, Pass, "the author compares the two ways");
}

#[test]
fn a_ratio_with_nothing_is_an_error() {
    let still = vec![latency(100, 10)];
    let stddev = Metric { kind: None, measure: Measure::LatencyStddev };
    let test = times(Comparison::LessOrEqual, 2.0, 0);
    let verdict = compared(stddev, test, still.clone(), still);
    assert_eq!(verdict.outcome, Error);
    assert_eq!(reason(&verdict), "lrs/read has 0 there, with which nothing can be compared");
}

fn against_baseline(rounds: Vec<Measurement>, baseline: Option<&Record>) -> Verdict {
    let test = Test::Times(Comparison::GreaterOrEqual, 0.9, Against::Baseline);
    only(&plan(&[LRS]).expecting(0, IOPS, test), &[case(LRS, rounds)], baseline)
}

#[test]
fn each_round_is_set_against_all_of_the_baseline() {
    let earlier = record(vec![case(LRS, vec![steady(900), steady(1100)])]);
    let rounds = |iops: &[u64]| iops.iter().map(|iops| steady(*iops)).collect();
    let verdict = against_baseline(rounds(&[950, 900]), Some(&earlier));
    assert_eq!(verdict.outcome, Pass);
    assert_eq!(verdict.evidence.reference.as_deref(), Some("baseline"));
    assert_eq!(verdict.evidence.reference_value, Some(1000.0));
    assert_eq!(verdict.evidence.limits, [900.0]);
    let split = against_baseline(rounds(&[950, 890]), Some(&earlier));
    assert_eq!(split.outcome, Outcome::Inconclusive);
    assert_eq!(against_baseline(rounds(&[800, 890]), Some(&earlier)).outcome, Fail);
}

#[test]
fn a_baseline_that_can_not_be_compared_with_is_an_error() {
    let told = |baseline: Option<&Record>| {
        let verdict = against_baseline(vec![steady(1000)], baseline);
        assert_eq!(verdict.outcome, Error);
        assert_eq!(verdict.evidence.reference.as_deref(), Some("baseline"));
        reason(&verdict).to_owned()
    };
    let changed = |change: fn(&mut Record)| {
        let mut earlier = record(vec![case(LRS, vec![steady(1000)])]);
        change(&mut earlier);
        told(Some(&earlier))
    };
    assert_eq!(told(None), "no baseline was given: --baseline FILE");
    assert_eq!(
        changed(|earlier| earlier.interrupted = true),
        "the baseline is of a run that was stopped before its end"
    );
    assert_eq!(
        changed(|earlier| earlier.simulated = true),
        "this is a real run, and the baseline a simulated one"
    );
    assert_eq!(
        changed(|earlier| earlier.cases[0].id = ZRS.to_owned()),
        "the baseline has no case lrs/read"
    );
    assert_eq!(
        changed(|earlier| earlier.cases[0].parameters[1].1 = "8KiB".to_owned()),
        "the baseline did other work: block_size was 8KiB there and is 4KiB here"
    );
    assert_eq!(
        changed(|earlier| drop(earlier.cases[0].parameters.pop())),
        "the baseline did other work: cache was not set there and is direct here"
    );
    assert_eq!(
        changed(|earlier| earlier.cases[0].skipped.push("no ring".to_owned())),
        "the baseline skipped this case: no ring"
    );
    assert_eq!(
        changed(|earlier| earlier.cases[0].rounds.clear()),
        "the baseline could not measure this case: it was not measured"
    );
    assert_eq!(
        changed(|earlier| earlier.cases[0].rounds[0] = case(LRS, vec![steady(0)]).rounds.remove(0)),
        "the baseline: no I/O completed in round 1"
    );
}

#[test]
fn the_seed_is_no_other_work() {
    let mut earlier = record(vec![case(LRS, vec![steady(1000)])]);
    earlier.cases[0].parameters.push(("seed".to_owned(), "7".to_owned()));
    assert_eq!(against_baseline(vec![steady(1000)], Some(&earlier)).outcome, Pass);
}

#[test]
fn a_baseline_of_another_scene_is_inconclusive_whatever_the_figures() {
    let told = |change: fn(&mut Record)| {
        let mut earlier = record(vec![case(LRS, vec![steady(1000)])]);
        change(&mut earlier);
        let fast = against_baseline(vec![steady(1000)], Some(&earlier));
        let slow = against_baseline(vec![steady(10)], Some(&earlier));
        assert_eq!(fast.outcome, slow.outcome);
        assert_eq!(slow.evidence.ratio, Some(0.01), "what was measured is shown all the same");
        (fast.outcome, reason(&fast).to_owned())
    };
    let host = |earlier: &mut Record| earlier.host.clone().expect("the sample has a host");
    let same = |change: fn(&mut Record)| {
        let mut earlier = record(vec![case(LRS, vec![steady(1000)])]);
        change(&mut earlier);
        assert_eq!(against_baseline(vec![steady(1000)], Some(&earlier)).outcome, Pass);
    };
    let start = "the baseline is of another machine or other disks: ";
    let doubt = |change: fn(&mut Record), difference: &str| {
        assert_eq!(told(change), (Outcome::Inconclusive, format!("{start}{difference}")));
    };
    assert_eq!(host(&mut record(Vec::new())).kernel, "6.12.0");
    same(|earlier| {
        let host = earlier.host.as_mut().unwrap();
        (host.name, host.kernel) = ("another".to_owned(), "6.12.99-generic".to_owned());
        (host.cpus, host.memory_bytes) = (1, 1);
        earlier.disks[0].path = Some("/elsewhere".to_owned());
        earlier.disks[0].block_device = Some("8:0 nvme7n1".to_owned());
        earlier.disks[0].driver = None;
        earlier.plan.text.clear();
    });
    doubt(
        |earlier| {
            let host = earlier.host.as_mut().unwrap();
            (host.kernel, host.cpu_model) = ("6.1.4".to_owned(), "B".to_owned());
        },
        "the processor was B there and is A Processor \"X\" here, the kernel series was 6.1 there \
         and is 6.12 here",
    );
    doubt(
        |earlier| {
            let disk = &mut earlier.disks[0];
            (disk.kind, disk.size_bytes) = ("loopback".to_owned(), 1 << 20);
            (disk.filesystem, disk.driver) = (None, Some("sd".to_owned()));
        },
        "the kind of disk lrs was loopback there and is directory here, the file system of disk \
         lrs was none there and is ext4 here, the size of disk lrs was 1MiB there and is 1GiB \
         here, the driver of disk lrs was sd there and is nvme here",
    );
    doubt(|earlier| earlier.host = None, "the machine is not known of both");
    let unknown = "the disks of the case are not known of both";
    doubt(|earlier| earlier.cases[0].disks.clear(), unknown);
    doubt(|earlier| earlier.disks.clear(), unknown);
}

#[test]
fn disks_of_other_cases_are_no_other_scene() {
    let mut earlier = record(vec![case(LRS, vec![steady(1000)])]);
    let mut other = earlier.disks[0].clone();
    (other.name, other.size_bytes) = ("zrs".to_owned(), 7);
    earlier.disks.push(other);
    assert_eq!(against_baseline(vec![steady(1000)], Some(&earlier)).outcome, Pass);
}

/// A second of reads of which the device saw this many.
fn cached(iops: u64, at_the_device: u64) -> Measurement {
    let mut round = steady(iops);
    round.device = round.device.map(|mut device| {
        device.read_bytes = at_the_device * 4096;
        device
    });
    round
}

#[test]
fn direct_io_that_the_device_never_saw_is_inconclusive() {
    for (metric, test) in
        [(IOPS, at_least(1.0)), (MEAN, at_most(1e9)), (IOPS, at_least(1e9)), (MEAN, at_most(1.0))]
    {
        let verdict = verdict(metric, test, vec![cached(1000, 0)]);
        assert_eq!(verdict.outcome, Outcome::Inconclusive);
        assert_eq!(
            reason(&verdict),
            "the device under it saw 0 B of the 3.91 MiB read: a cache or a hole answered"
        );
        assert!(verdict.evidence.measured.is_some());
    }
    let share = |seen| verdict(IOPS, at_least(1.0), vec![cached(1000, seen)]).outcome;
    assert_eq!([share(499), share(500), share(9000)], [Outcome::Inconclusive, Pass, Pass]);
    let other = |metric| verdict(metric, at_most(1e18), vec![cached(1000, 0)]).outcome;
    assert_eq!(other(ERRORS), Pass, "no figure of the disk");
    assert_eq!(other(Metric { kind: None, measure: Measure::CpuUser }), Pass);
    let mut unknown = cached(1000, 0);
    unknown.device = None;
    assert_eq!(verdict(IOPS, at_least(1.0), vec![unknown, cached(1000, 0)]).outcome, Pass);
}

#[test]
fn books_that_say_nothing_raise_no_doubt() {
    let plan = plan(&[LRS]).expecting(0, IOPS, at_least(1.0));
    let told = |plan: &Plan, filesystem: Option<&str>| {
        let mut record = record(vec![case(LRS, vec![cached(1000, 0)])]);
        record.disks[0].filesystem = filesystem.map(str::to_owned);
        judge(plan, &record, None)[0].outcome
    };
    assert_eq!(told(&plan, None), Outcome::Inconclusive, "a device");
    assert_eq!(told(&plan, Some("xfs")), Outcome::Inconclusive);
    assert_eq!([told(&plan, Some("btrfs")), told(&plan, Some("tmpfs"))], [Pass, Pass]);
    let mut buffered = plan;
    buffered.cases[0].workload.cache = Cache::Buffered;
    assert_eq!(told(&buffered, Some("xfs")), Pass, "a cache is what was asked for");
}

#[test]
fn of_mixed_ios_the_doubt_is_of_the_kind_that_was_not_seen() {
    let mut round = cached(1000, 1000);
    round.kinds.write = round.kinds.read.clone();
    let of = |kind| {
        let metric = Metric { kind, measure: Measure::Iops };
        verdict(metric, at_least(1.0), vec![round.clone()])
    };
    assert_eq!(of(Some(IoKind::Read)).outcome, Pass);
    let both = of(None);
    assert_eq!(both.outcome, of(Some(IoKind::Write)).outcome);
    let start = "the device under it saw 0 B of the 3.91 MiB written: ";
    assert!(reason(&both).starts_with(start), "{}", reason(&both));
}

#[test]
fn either_side_of_a_comparison_can_be_the_doubtful_one() {
    let test = || times(Comparison::GreaterOrEqual, 0.5, 0);
    let other = compared(IOPS, test(), vec![steady(1000)], vec![cached(1000, 0)]);
    assert_eq!(other.outcome, Outcome::Inconclusive);
    assert!(reason(&other).starts_with("lrs/read: the device under it saw 0 B"));
    let earlier = record(vec![case(LRS, vec![cached(1000, 0)])]);
    let baseline = against_baseline(vec![steady(1000)], Some(&earlier));
    assert_eq!(baseline.outcome, Outcome::Inconclusive);
    assert!(reason(&baseline).starts_with("the baseline: the device under it saw 0 B"));
}

#[test]
fn more_rounds_do_not_take_a_doubt_away() {
    let plan = plan(&[LRS]).expecting(0, IOPS, at_least(950.0));
    let open = |rounds| open_cases(&plan, &record(vec![case(LRS, rounds)]), None);
    assert_eq!(open(vec![steady(1000), steady(900)]), [0]);
    assert_eq!(open(vec![cached(1000, 0), cached(900, 0)]), [0; 0]);
}

#[test]
fn open_are_the_inconclusive_cases_and_their_partners() {
    let plan = plan(&[LRS, ZRS, "other/read"])
        .expecting(1, IOPS, times(Comparison::GreaterOrEqual, 0.95, 0))
        .warning_only()
        .expecting(2, IOPS, at_least(1.0));
    let cases = |zrs: &[u64]| {
        let zrs = zrs.iter().map(|iops| steady(*iops)).collect();
        let other = case("other/read", vec![steady(1000), steady(1000)]);
        record(vec![case(LRS, vec![steady(1000), steady(1000)]), case(ZRS, zrs), other])
    };
    assert_eq!(open_cases(&plan, &cases(&[1000, 900]), None), [0, 1]);
    assert_eq!(open_cases(&plan, &cases(&[1000, 960]), None), [0; 0]);
    assert_eq!(open_cases(&plan, &cases(&[800, 900]), None), [0; 0]);
}

/// A plan with a gate for each outcome wanted, and the cases that give them.
fn conclusion(
    outcomes: &[(Outcome, bool)],
    rule: Inconclusive,
    circumstances: Circumstances,
) -> Conclusion {
    let template = verdict(IOPS, at_least(1.0), vec![steady(10)]);
    let verdicts: Vec<_> = outcomes
        .iter()
        .map(|(outcome, gate)| Verdict { outcome: *outcome, gate: *gate, ..template.clone() })
        .collect();
    conclude(rule, &verdicts, &[case(LRS, vec![steady(1000)])], circumstances)
}

#[test]
fn the_exit_code_follows_the_worst_that_happened() {
    const OPEN: Outcome = Outcome::Inconclusive;
    let none = Circumstances::default();
    let interrupted = Circumstances { interrupted: true, ..none };
    let refused = Circumstances { refused: true, ..none };
    let both = Circumstances { interrupted: true, refused: true, ..none };
    let strict = Circumstances { require_all: true, ..none };
    let (open, fail, pass) = (Inconclusive::Open, Inconclusive::Fail, Inconclusive::Pass);
    let all = [Pass, Fail, OPEN, Error, Skipped];
    let table: [(&[Outcome], Inconclusive, Circumstances, u8); 20] = [
        (&[Pass], open, none, 0),
        (&[Pass, Skipped], open, none, 0),
        (&[Pass, OPEN], open, none, 5),
        (&[Pass, OPEN], fail, none, 1),
        (&[Pass, OPEN], pass, none, 0),
        (&[OPEN], pass, none, 0),
        (&[OPEN, Skipped], open, none, 5),
        (&[Pass, Fail], open, none, 1),
        (&[Fail, OPEN], open, none, 1),
        (&[Fail, OPEN], pass, none, 1),
        (&[Fail, Error], open, none, 3),
        (&all, open, none, 3),
        (&[Skipped], open, none, 4),
        (&[], open, none, 4),
        (&[Pass, Skipped], open, strict, 3),
        (&[Fail, Skipped], open, strict, 3),
        (&all, open, refused, 6),
        (&all, open, interrupted, 130),
        (&all, open, both, 130),
        (&[Pass], open, interrupted, 130),
    ];
    for (outcomes, rule, circumstances, code) in table {
        let gates: Vec<_> = outcomes.iter().map(|outcome| (*outcome, true)).collect();
        let told = conclusion(&gates, rule, circumstances);
        assert_eq!(told.exit_code, code, "{outcomes:?} {rule:?} {circumstances:?}");
        let warned: Vec<_> = all.iter().map(|outcome| (*outcome, false)).chain(gates).collect();
        let with_warnings = conclusion(&warned, rule, circumstances);
        if circumstances != strict {
            assert_eq!(with_warnings.exit_code, code, "a warning never changes the code");
        }
    }
}

#[test]
fn the_counts_add_up_to_the_verdicts() {
    let outcomes = [Pass, Fail, Outcome::Inconclusive, Error, Skipped];
    let all: Vec<_> = outcomes.iter().flat_map(|o| [(*o, true), (*o, false)]).collect();
    let told = conclusion(&all, Inconclusive::Open, Circumstances::default());
    assert_eq!((told.passed, told.failed, told.inconclusive_count), (2, 1, 1));
    assert_eq!((told.errors, told.skipped, told.warnings), (2, 2, 2));
}

#[test]
fn what_no_count_says_is_said_in_a_note() {
    let note = |verdicts: &[Verdict], cases: &[CaseRecord], circumstances| {
        let told = conclude(Inconclusive::Open, verdicts, cases, circumstances);
        (told.exit_code, told.note.unwrap_or_default())
    };
    let usual = Circumstances::default();
    let passed = [verdict(IOPS, at_least(1.0), vec![steady(10)])];
    let sound = case(LRS, vec![steady(10)]);
    assert_eq!(note(&passed, std::slice::from_ref(&sound), usual), (0, String::new()));
    assert_eq!(note(&[], &[], usual), (4, "no case was selected".to_owned()));
    let mut skipped = case(ZRS, Vec::new());
    skipped.skipped = vec!["no ring".to_owned()];
    assert_eq!(note(&[], &[skipped.clone()], usual), (4, "every case was skipped".to_owned()));
    let (code, text) = note(&[], std::slice::from_ref(&sound), usual);
    assert_eq!(code, 4);
    assert!(text.starts_with("nothing was proven"), "{text}");
    let mut broken = steady(10);
    broken.faults = vec![fault(5, 1)];
    let broken = case(ZRS, vec![broken]);
    let (code, text) = note(&passed, &[sound.clone(), broken], usual);
    assert_eq!((code, text.as_str()), (3, "1 case could not be measured or had I/O errors"));
    let strict = Circumstances { require_all: true, ..usual };
    let (code, text) = note(&passed, &[sound.clone(), skipped], strict);
    assert_eq!(code, 3);
    assert!(text.contains("--require-all"), "{text}");
    let unmeasured = case(ZRS, Vec::new());
    assert_eq!(note(&passed, &[sound, unmeasured], usual).0, 3, "a case without a round");
}

fn metrics() -> impl Strategy<Value = Metric> {
    let kinds = vec![None, Some(IoKind::Read), Some(IoKind::Write), Some(IoKind::Sync)];
    (prop::sample::select(kinds), prop::sample::select(MEASURES.to_vec()))
        .prop_map(|(kind, measure)| Metric { kind, measure })
}

fn tests() -> impl Strategy<Value = Test> {
    let comparison = prop::sample::select(vec![
        Comparison::Less,
        Comparison::LessOrEqual,
        Comparison::Equal,
        Comparison::GreaterOrEqual,
        Comparison::Greater,
    ]);
    let limit = prop_oneof![Just(0.0), 0.0..1e12_f64, Just(f64::INFINITY), Just(f64::NAN)];
    prop_oneof![
        (comparison.clone(), limit).prop_map(|(c, limit)| Test::Constant(c, limit)),
        (0.0..1e6_f64, 0.0..1e18_f64).prop_map(|(low, high)| Test::Between(low, high)),
        (comparison.clone(), 0.0..1e6_f64).prop_map(|(c, factor)| times(c, factor, 0)),
        (0.0..1e6_f64).prop_map(|share| Test::Within(share, Against::Baseline)),
        (comparison, 0.0..1e6_f64).prop_map(|(c, f)| Test::Times(c, f, Against::Baseline)),
    ]
}

/// Rounds in which anything may be missing.
fn rounds() -> impl Strategy<Value = Vec<RoundRecord>> {
    let counts = prop::sample::select(vec![0_u64, 1, 10, 367, 368, 5000]);
    let measured = (counts, any::<[bool; 5]>(), 0..3_u8).prop_map(|(count, missing, faults)| {
        let mut round = steady(count);
        if missing[0] {
            round.duration_ns = Nanos(0);
        }
        if missing[1] {
            round.cpu = None;
        }
        if missing[2] {
            round.device = None;
        } else if let (true, Some(device)) = (missing[3], &mut round.device) {
            device.utilization_percent = f64::NAN;
        }
        if faults == 1 {
            round.faults = vec![fault(5, 2)];
        }
        (!missing[4]).then_some(round)
    });
    prop::collection::vec(measured, 0..4).prop_map(|rounds| {
        let numbered = (1..).zip(rounds);
        numbered
            .map(|(round, measurement)| RoundRecord { round, seed: 1, measurement, error: None })
            .collect()
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn missing_data_never_passes(
        metric in metrics(),
        test in tests(),
        mine in rounds(),
        theirs in rounds(),
        has_baseline: bool,
    ) {
        let relative = !matches!(test, Test::Constant(..) | Test::Between(..));
        let plan = plan(&[LRS, ZRS]).expecting(1, metric, test);
        let mut cases = [case(LRS, Vec::new()), case(ZRS, Vec::new())];
        cases[0].rounds = theirs;
        cases[1].rounds = mine;
        let mut earlier = record(vec![cases[0].clone()]);
        earlier.cases[0].id = ZRS.to_owned();
        let verdict = only(&plan, &cases, has_baseline.then_some(&earlier));
        let sound = |case: &CaseRecord| {
            !case.rounds.is_empty()
                && case.rounds.iter().all(|round| round.measurement.as_ref().is_some_and(|m| {
                    m.duration_ns.0 > 0 && m.faults.is_empty() && m.completed(metric.kind) > 0
                }))
        };
        let evidence = &verdict.evidence;
        if verdict.outcome == Pass {
            prop_assert!(sound(&cases[1]));
            prop_assert!(evidence.measured.is_some());
            prop_assert!(!evidence.limits.is_empty());
            prop_assert!(!relative || sound(&cases[0]) && evidence.reference_value.is_some());
        }
        if verdict.outcome == Fail && metric.measure != Measure::Errors {
            prop_assert!(sound(&cases[1]));
        }
        if !matches!(verdict.outcome, Pass | Fail) {
            prop_assert!(evidence.reason.is_some());
        }
        let figures = evidence.rounds.iter().flatten().chain(&evidence.limits)
            .chain(&evidence.measured).chain(&evidence.reference_value).chain(&evidence.ratio);
        prop_assert!(figures.into_iter().all(|figure| figure.is_finite()));
    }

    #[test]
    fn better_figures_never_turn_a_pass_into_a_failure(
        iops in prop::collection::vec(1..5000_u64, 1..5),
        more in 0..5000_u64,
        limit in 1.0..10_000.0_f64,
    ) {
        let rounds = |extra| iops.iter().map(|iops| steady(iops + extra)).collect::<Vec<_>>();
        let rank = |outcome| match outcome {
            Pass => 2,
            Outcome::Inconclusive => 1,
            _ => 0,
        };
        let before = verdict(IOPS, at_least(limit), rounds(0)).outcome;
        let after = verdict(IOPS, at_least(limit), rounds(more)).outcome;
        prop_assert!(rank(after) >= rank(before));
        // More IOPS one after the other are shorter latencies.
        let before = verdict(MEAN, at_most(1e9 / limit), rounds(0)).outcome;
        let after = verdict(MEAN, at_most(1e9 / limit), rounds(more)).outcome;
        prop_assert!(rank(after) >= rank(before));
    }
}
