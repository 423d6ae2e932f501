//! Verdicts: conditions on one side, figures on the other, and what they come to.
//!
//! Pure: no clock, no files, no devices, no formats of reports. What it promises: **missing data
//! is an error and never a pass**. A case with a failed I/O, or with a round that could not be
//! measured, can't pass either, whatever the condition looks at.
//!
//! # The rule
//!
//! A condition is judged on the value of all rounds together (counts added, histograms merged;
//! percentiles are never averaged) and on the value of each round:
//!
//! * it **passes** when the merged value and every round's value satisfy it,
//! * it **fails** when the merged value and every round's value violate it,
//! * otherwise it is **inconclusive**, and more rounds are worth their time.
//!
//! The range of n independent rounds covers the true median with probability 1 − 2^(1−n): a
//! verdict needs the limit to lie outside of that range. With one round, that one decides.
//!
//! * Of `latency.min`, `latency.max` and `errors` the merged value alone decides: they are what
//!   was observed, and no round could take it back.
//! * A percentile needs samples (`Percentile::samples_needed`) in all rounds together; without
//!   them it is an error. A single round's percentile has its say with fewer: the rounds with the
//!   fewest samples are the slowest ones, which must not drop out.
//! * A comparison with another case is paired by round, so that what drifts over a run hits both
//!   sides alike: round r against round r, and the paired rounds of one merged against those of
//!   the other. One with a baseline sets each round against all of the baseline's rounds merged.
//! * What would not say what it seems to say is inconclusive, whatever the figures: there is a
//!   *doubt*. A baseline of another scene (processor, kernel series, kind, file system, size or
//!   driver of the case's disks) is one, and so are rates and latencies of direct I/O of which the
//!   device under it counted less than half the bytes: something else answered. See `scene` and
//!   `seen` for what is compared, and for where the device's books say nothing.
//! * Before the plan's smallest number of rounds is there, as in a run that was stopped, nothing
//!   passes and nothing fails but `errors`.

#[cfg(test)]
mod build;
mod conclude;
mod examine;
mod reference;
mod scene;
mod seen;
#[cfg(test)]
mod tests;
mod value;
mod warnings;

use std::collections::BTreeSet;

pub use conclude::{Circumstances, conclude};
pub use warnings::warnings;

use examine::Court;

use crate::plan::{Assertion, CaseId, Level, Plan};
use crate::record::{Record, Verdict};

/// A verdict on every condition whose case is in the record, in the plan's order. The record is
/// looked at for its machine, its disks and its cases as far as those were measured. Cases are
/// found by their names; one that was not selected is absent, and so are its verdicts.
#[must_use]
pub fn judge(plan: &Plan, record: &Record, baseline: Option<&Record>) -> Vec<Verdict> {
    let court = Court::new(plan, record, baseline);
    let rulings = plan.assertions.iter().filter_map(|assertion| court.rule(assertion));
    rulings.map(|ruling| ruling.verdict).collect()
}

/// The gates that no measurement could answer, for want of something to compare with: what is
/// wrong with the baseline beside each. For before a run, whose record has no rounds so far.
#[must_use]
pub fn unanswerable<'p>(
    plan: &'p Plan,
    record: &Record,
    baseline: Option<&Record>,
) -> Vec<(&'p Assertion, String)> {
    let gates = plan.assertions.iter().filter(|assertion| {
        assertion.level == Level::Gate && assertion.condition.test.needs_baseline()
    });
    let answers = gates.filter_map(|assertion| {
        let whole = &plan.cases[assertion.case].id;
        let id = CaseId { stream: assertion.stream.clone(), ..whole.clone() }.to_string();
        let case = record.case(&id).filter(|case| case.skipped.is_empty())?;
        let metric = assertion.condition.metric;
        Some((assertion, reference::without_answer(record, &case, metric, baseline)?))
    });
    answers.collect()
}

/// The cases that more rounds could decide, as rising indices into [`Plan::cases`]: those with an
/// inconclusive condition, and the cases that it compares them with, so that both sides of a
/// comparison have their rounds side by side. What is inconclusive for a doubt stays so in any
/// number of rounds and is not among them.
#[must_use]
pub fn open_cases(plan: &Plan, record: &Record, baseline: Option<&Record>) -> Vec<usize> {
    let court = Court::new(plan, record, baseline);
    let mut open = BTreeSet::new();
    for assertion in &plan.assertions {
        if court.rule(assertion).is_none_or(|ruling| !ruling.open) {
            continue;
        }
        open.insert(assertion.case);
        open.extend(assertion.condition.test.other_case());
    }
    open.into_iter().collect()
}
