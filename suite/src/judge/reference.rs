//! What a relative condition is compared with: another case of the run, or an earlier record.

use std::borrow::Cow;

use super::examine::{Court, Matter, Pair, Stop};
use super::scene;
use super::value::{Figures, Missing, trouble};
use crate::plan::{Assertion, EngineChoice, Metric, Workload};
use crate::record::{CaseRecord, Evidence, Record};

const BASELINE: &str = "the baseline";
const NO_BASELINE: &str = "no baseline was given: --baseline FILE";

impl Court<'_> {
    /// The case paired by round with another one.
    pub(super) fn against_case(
        &self,
        assertion: &Assertion,
        case: &CaseRecord,
        (other, stream): (usize, Option<&str>),
        evidence: &mut Evidence,
    ) -> Result<Matter, Stop> {
        let id = self.plan.cases.get(other).map(|other| other.id.clone());
        let Some(id) = id else {
            return Err(Stop::error("the case to compare with is not in the plan"));
        };
        let name = stream.map_or_else(|| id.to_string(), |stream| format!("{id}/{stream}"));
        evidence.reference = Some(name.clone());
        let Some(other_case) = self.part(other, stream) else {
            return Err(Stop::error(format!(
                "{name}, the case to compare with, was not selected: add --case '{id}'"
            )));
        };
        if !other_case.skipped.is_empty() {
            let reasons = other_case.skipped.join("; ");
            return Err(Stop::skipped(format!(
                "{name}, the case to compare with, was skipped: {reasons}"
            )));
        }
        if let Some(trouble) = trouble(other_case) {
            return Err(Stop::error(format!("{name}, the case to compare with: {trouble}")));
        }
        let mine = (assertion.case, assertion.stream.as_deref());
        if self.left_to_us(mine) || self.left_to_us((other, stream)) {
            same_backend(case, other_case, &name)?;
        }
        let metric = assertion.condition.metric;
        // Of the case itself this was looked at before: what is missing is an error on either
        // side, in a round that has no partner too.
        if let Some(gap) = Figures::of(metric, other_case, |_| true).gap() {
            return Err(Stop::error(format!("{name}: {gap}")));
        }
        let mine = Figures::of(metric, case, |round| measured_in(other_case, round));
        let theirs = Figures::of(metric, other_case, |round| measured_in(case, round));
        let whole = mine.whole.clone();
        let whole = Pair {
            value: whole.map_err(|missing| Stop::error(missing.reason()))?,
            reference: Some(reference_value(&theirs, &name)?),
        };
        let pairs = mine.rounds.iter().filter_map(|(round, value)| {
            let (_, reference) = theirs.rounds.iter().find(|(other, _)| other == round)?;
            let (value, reference) = value.clone().ok().zip(reference.clone().ok())?;
            Some(Pair { value, reference: Some(reference) })
        });
        let theirs = self.doubts(metric, other, self.record, other_case).into_iter();
        Ok(Matter {
            whole,
            rounds: pairs.collect(),
            measured: mine.rounds.len(),
            doubts: theirs.map(|doubt| format!("{name}: {doubt}")).collect(),
        })
    }

    /// Each round of the case against all rounds that the baseline has of it.
    pub(super) fn against_baseline(
        &self,
        assertion: &Assertion,
        case: &CaseRecord,
        figures: &Figures,
        evidence: &mut Evidence,
    ) -> Result<Matter, Stop> {
        evidence.reference = Some("baseline".to_owned());
        let Some(baseline) = self.baseline else {
            return Err(Stop::error(NO_BASELINE));
        };
        let earlier = &*comparable(self.record, case, baseline)?;
        if self.left_to_us((assertion.case, assertion.stream.as_deref())) {
            same_backend(case, earlier, BASELINE)?;
        }
        let metric = assertion.condition.metric;
        let theirs = Figures::of(metric, earlier, |_| true);
        let reference = Some(reference_value(&theirs, BASELINE)?);
        let whole = figures.whole.clone().map_err(|missing| Stop::error(missing.reason()))?;
        let rounds = figures.rounds.iter().filter_map(|(_, value)| value.clone().ok());
        let differences = scene::differences(self.record, case, baseline, earlier);
        let elsewhere = (!differences.is_empty()).then(|| {
            format!("the baseline is of another machine or other disks: {}", differences.join(", "))
        });
        let unseen = self.doubts(metric, assertion.case, baseline, earlier).into_iter();
        let unseen = unseen.map(|doubt| format!("{BASELINE}: {doubt}"));
        Ok(Matter {
            doubts: elsewhere.into_iter().chain(unseen).collect(),
            whole: Pair { value: whole, reference },
            rounds: rounds.map(|value| Pair { value, reference }).collect(),
            measured: figures.rounds.len(),
        })
    }

    /// Whether the plan leaves the way to the kernel to the program: of a case, or of a stream.
    fn left_to_us(&self, (case, stream): (usize, Option<&str>)) -> bool {
        let Some(case) = self.plan.cases.get(case) else { return false };
        let auto = |workload: &Workload| workload.engine == EngineChoice::Auto;
        match stream {
            Some(name) => {
                let mut streams = case.workload.streams.iter();
                streams.any(|stream| stream.name == name && auto(&stream.workload))
            }
            None => case.workload.loads().into_iter().any(auto),
        }
    }
}

/// The merged value to compare with; not 0, with which nothing can be compared.
fn reference_value(theirs: &Figures, name: &str) -> Result<f64, Stop> {
    let missing = |missing: Missing| Stop::error(format!("{name}: {}", missing.reason()));
    if let Some(gap) = theirs.gap() {
        return Err(Stop::error(format!("{name}: {gap}")));
    }
    match theirs.whole.clone().map_err(missing)? {
        0.0 => Err(Stop::error(format!("{name} has 0 there, with which nothing can be compared"))),
        value => Ok(value),
    }
}

fn measured_in(case: &CaseRecord, round: u32) -> bool {
    case.rounds.iter().any(|known| known.round == round && known.measurement.is_some())
}

fn backend(case: &CaseRecord) -> Option<&str> {
    case.measured().first().map(|measurement| measurement.backend.name.as_str())
}

/// A comparison of two ways to the kernel is not one of two disks.
fn same_backend(case: &CaseRecord, other: &CaseRecord, name: &str) -> Result<(), Stop> {
    match (backend(case), backend(other)) {
        (Some(mine), Some(theirs)) if mine != theirs => Err(Stop::error(format!(
            "it was measured through {mine}, but {name} through {theirs}: set `engine` for both"
        ))),
        _ => Ok(()),
    }
}

/// The same case in an earlier record, if its figures can be compared with these.
fn comparable<'r>(
    record: &Record,
    case: &CaseRecord,
    baseline: &'r Record,
) -> Result<Cow<'r, CaseRecord>, Stop> {
    if baseline.interrupted {
        return Err(Stop::error("the baseline is of a run that was stopped before its end"));
    }
    if record.simulated != baseline.simulated {
        let word = |simulated| if simulated { "a simulated" } else { "a real" };
        return Err(Stop::error(format!(
            "this is {} run, and the baseline {} one",
            word(record.simulated),
            word(baseline.simulated)
        )));
    }
    let Some(earlier) = baseline.case(&case.id) else {
        return Err(Stop::error(format!("the baseline has no case {}", case.id)));
    };
    if !earlier.skipped.is_empty() {
        let reasons = earlier.skipped.join("; ");
        return Err(Stop::error(format!("the baseline skipped this case: {reasons}")));
    }
    if let Some(trouble) = trouble(&earlier) {
        return Err(Stop::error(format!("the baseline could not measure this case: {trouble}")));
    }
    let beside = || {
        let (now, then) = (case.stream_of.as_ref()?, earlier.stream_of.as_ref()?);
        difference(&now.parameters, &then.parameters)
    };
    match difference(&case.parameters, &earlier.parameters).or_else(beside) {
        Some(difference) => Err(Stop::error(format!("the baseline did other work: {difference}"))),
        None => Ok(earlier),
    }
}

/// Why nothing that could be measured of `case` in the run of `record` would answer a question
/// about `metric` in comparison with the baseline, as far as that is known before any round.
pub(super) fn without_answer(
    record: &Record,
    case: &CaseRecord,
    metric: Metric,
    baseline: Option<&Record>,
) -> Option<String> {
    let answer = baseline.ok_or_else(|| Stop::error(NO_BASELINE)).and_then(|baseline| {
        let earlier = comparable(record, case, baseline)?;
        reference_value(&Figures::of(metric, &earlier, |_| true), BASELINE)
    });
    answer.err().map(|stop| stop.reason)
}

/// The first parameter of the load that differs. Seeds choose among equal loads, and may.
fn difference(now: &[(String, String)], then: &[(String, String)]) -> Option<String> {
    let load = |parameters: &[(String, String)]| -> Vec<(String, String)> {
        parameters.iter().filter(|(key, _)| key != "seed").cloned().collect()
    };
    let (now, then) = (load(now), load(then));
    let value = |of: &[(String, String)], key: &str| {
        let found = of.iter().find(|(known, _)| known == key);
        found.map_or_else(|| "not set".to_owned(), |(_, value)| value.clone())
    };
    let mut keys = now.iter().chain(&then).map(|(key, _)| key);
    let key = keys.find(|key| value(&now, key) != value(&then, key))?;
    Some(format!("{key} was {} there and is {} here", value(&then, key), value(&now, key)))
}
