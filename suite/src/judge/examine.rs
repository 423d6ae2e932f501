//! One condition on one case: from figures to an outcome with its evidence.

use std::collections::HashMap;

use super::seen::seen;
use super::value::{Figures, trouble};
use crate::measure::IoKind;
use crate::plan::{Against, Assertion, Level, Measure, Metric, Plan, Test};
use crate::record::{CaseRecord, Evidence, Outcome, Record, Verdict};

/// Below this share of the bytes at the device, figures are not the device's.
const TOO_FEW_BYTES: f64 = 0.5;

/// What all conditions of a plan are judged on.
pub(super) struct Court<'a> {
    pub(super) plan: &'a Plan,
    pub(super) record: &'a Record,
    pub(super) baseline: Option<&'a Record>,
    cases: HashMap<&'a str, &'a CaseRecord>,
    /// Streams, by their names.
    streams: HashMap<String, CaseRecord>,
}

/// A verdict, and whether more rounds could change it.
pub(super) struct Ruling {
    pub(super) verdict: Verdict,
    pub(super) open: bool,
}

/// Why a condition neither passes nor fails plainly.
pub(super) struct Stop {
    pub(super) outcome: Outcome,
    pub(super) reason: String,
    /// Whether more rounds could change it.
    open: bool,
}

impl Stop {
    fn new(outcome: Outcome, reason: impl Into<String>) -> Self {
        Self { outcome, reason: reason.into(), open: false }
    }

    pub(super) fn error(reason: impl Into<String>) -> Self {
        Self::new(Outcome::Error, reason)
    }

    pub(super) fn skipped(reason: impl Into<String>) -> Self {
        Self::new(Outcome::Skipped, reason)
    }

    fn open(reason: impl Into<String>) -> Self {
        Self { open: true, ..Self::new(Outcome::Inconclusive, reason) }
    }
}

/// A value, and what it is compared with where the condition is relative.
#[derive(Clone, Copy)]
pub(super) struct Pair {
    pub(super) value: f64,
    pub(super) reference: Option<f64>,
}

/// What a condition is decided on.
pub(super) struct Matter {
    /// All rounds together.
    pub(super) whole: Pair,
    /// Each round that has a value.
    pub(super) rounds: Vec<Pair>,
    /// How many rounds were measured, with or without a value of their own.
    pub(super) measured: usize,
    /// Why the figures can't be judged whatever they are, as half a sentence each.
    pub(super) doubts: Vec<String>,
}

impl<'a> Court<'a> {
    pub(super) fn new(plan: &'a Plan, record: &'a Record, baseline: Option<&'a Record>) -> Self {
        let cases = record.cases.iter().map(|case| (case.id.as_str(), case)).collect();
        let streams = record.cases.iter().flat_map(CaseRecord::streams_as_cases);
        let streams = streams.map(|case| (case.id.clone(), case)).collect();
        Self { plan, record, baseline, cases, streams }
    }

    /// The case with this index in the plan, if it was selected.
    pub(super) fn case(&self, index: usize) -> Option<&'a CaseRecord> {
        let id = self.plan.cases.get(index)?.id.to_string();
        self.cases.get(id.as_str()).copied()
    }

    /// The same, or the stream of it with this name.
    pub(super) fn part(&self, index: usize, stream: Option<&str>) -> Option<&CaseRecord> {
        let Some(stream) = stream else { return self.case(index) };
        let id = format!("{}/{stream}", self.plan.cases.get(index)?.id);
        self.streams.get(&id)
    }

    /// The verdict on one condition; `None` if its case was not selected.
    pub(super) fn rule(&self, assertion: &Assertion) -> Option<Ruling> {
        let case = self.part(assertion.case, assertion.stream.as_deref())?;
        let mut evidence = nothing_yet(assertion);
        let (outcome, open) = match self.examine(assertion, case, &mut evidence) {
            Ok(outcome) => (outcome, false),
            Err(Stop { outcome, reason, open }) => {
                evidence.reason = Some(reason);
                (outcome, open)
            }
        };
        let verdict = Verdict {
            case: case.id.clone(),
            condition: assertion.text.clone(),
            why: assertion.why.clone(),
            line: assertion.line,
            gate: assertion.level == Level::Gate,
            outcome,
            evidence,
        };
        Some(Ruling { verdict, open })
    }

    /// Why a figure of a case in a record would not be one of its disks, as half a sentence each.
    /// `index` is the case's in the plan.
    pub(super) fn doubts(
        &self,
        metric: Metric,
        index: usize,
        record: &Record,
        case: &CaseRecord,
    ) -> Vec<String> {
        let of_disks = matches!(
            metric.measure,
            Measure::Iops
                | Measure::Bandwidth
                | Measure::LatencyMin
                | Measure::LatencyMean
                | Measure::LatencyMax
                | Measure::LatencyStddev
                | Measure::LatencyPercentile(_)
        );
        let Some(planned) = self.plan.cases.get(index).filter(|_| of_disks) else {
            return Vec::new();
        };
        // The books are of all that was done on the device.
        let case = record.whole_of(&case.id).unwrap_or(case);
        let seen = seen(record, case, &planned.workload).into_iter();
        let of_kind = |kind: IoKind| metric.kind.is_none_or(|wanted| wanted == kind);
        seen.filter(|seen| of_kind(seen.kind) && seen.is_below(TOO_FEW_BYTES))
            .map(|seen| seen.describe())
            .collect()
    }

    /// The outcome, with the evidence filled in as far as it goes.
    fn examine(
        &self,
        assertion: &Assertion,
        case: &CaseRecord,
        evidence: &mut Evidence,
    ) -> Result<Outcome, Stop> {
        if !case.skipped.is_empty() {
            return Err(Stop::skipped(case.skipped.join("; ")));
        }
        let test = &assertion.condition.test;
        let metric = assertion.condition.metric;
        let figures = Figures::of(metric, case, |_| true);
        evidence.rounds = figures.rounds.iter().map(|(_, value)| value.clone().ok()).collect();
        evidence.measured = figures.whole.clone().ok();
        evidence.limits = constant_limits(test);
        if let Some(trouble) = trouble(case) {
            return Err(of_troubled(assertion, evidence, trouble));
        }
        let whole = figures.whole.clone().map_err(|missing| Stop::error(missing.reason()))?;
        if let Some(gap) = figures.gap() {
            return Err(Stop::error(gap));
        }
        let mut matter = match test {
            Test::Constant(..) | Test::Between(..) => Matter::constant(whole, &figures),
            Test::Times(_, _, Against::Case(other, _))
            | Test::Within(_, Against::Case(other, _)) => {
                self.against_case(assertion, case, (*other, None), evidence)?
            }
            Test::Times(_, _, Against::Stream(other, stream, _))
            | Test::Within(_, Against::Stream(other, stream, _)) => {
                self.against_case(assertion, case, (*other, Some(stream)), evidence)?
            }
            Test::Times(_, _, Against::Baseline) | Test::Within(_, Against::Baseline) => {
                self.against_baseline(assertion, case, &figures, evidence)?
            }
        };
        let own = self.doubts(metric, assertion.case, self.record, case);
        matter.doubts.splice(0..0, own);
        self.decide(assertion, &matter, evidence)
    }

    /// The rule in the module's doc.
    fn decide(
        &self,
        assertion: &Assertion,
        matter: &Matter,
        evidence: &mut Evidence,
    ) -> Result<Outcome, Stop> {
        let test = &assertion.condition.test;
        let Pair { value, reference } = matter.whole;
        evidence.measured = Some(value);
        evidence.limits = limits(test, matter.whole);
        evidence.reference_value = reference;
        evidence.ratio =
            reference.map(|reference| value / reference).filter(|ratio| ratio.is_finite());
        if evidence.limits.iter().any(|limit| !limit.is_finite()) {
            evidence.limits.clear();
            return Err(Stop::error("the limit is not a number"));
        }
        if !matter.doubts.is_empty() {
            return Err(Stop::new(Outcome::Inconclusive, matter.doubts.join("; ")));
        }
        let wanted = usize::try_from(self.plan.run.rounds.min).unwrap_or(usize::MAX);
        if matter.measured < wanted {
            let reason = format!("{} of {wanted} rounds were measured", matter.measured);
            return Err(Stop::open(reason));
        }
        let holds = holds(test, matter.whole);
        let rounds = match assertion.condition.metric.measure {
            Measure::LatencyMin | Measure::LatencyMax | Measure::Errors | Measure::VerifyErrors => {
                [].as_slice()
            }
            _ => &matter.rounds,
        };
        let of = rounds.len();
        let held = rounds.iter().filter(|round| self::holds(test, **round)).count();
        let reason = match (holds, held) {
            (true, held) if held == of => return Ok(Outcome::Pass),
            (false, 0) => return Ok(Outcome::Fail),
            (true, 0) => format!("none of {of} rounds holds, but all of them together do"),
            (false, held) if held == of => {
                format!("each of {of} rounds holds, but all of them together don't")
            }
            _ => format!("{held} of {of} rounds hold: the limit lies within their spread"),
        };
        Err(Stop::open(reason))
    }
}

impl Matter {
    fn constant(whole: f64, figures: &Figures) -> Self {
        let pair = |value| Pair { value, reference: None };
        let rounds = figures.rounds.iter().filter_map(|(_, value)| value.clone().ok());
        Self {
            whole: pair(whole),
            rounds: rounds.map(pair).collect(),
            measured: figures.rounds.len(),
            doubts: Vec::new(),
        }
    }
}

/// A case with failed I/Os or rounds can't pass. It can fail, by its count of errors alone: that
/// is what the author asked about, and no round could take it back.
fn of_troubled(assertion: &Assertion, evidence: &Evidence, trouble: String) -> Stop {
    let counts_errors =
        matches!(assertion.condition.metric.measure, Measure::Errors | Measure::VerifyErrors);
    let test = &assertion.condition.test;
    let constant = matches!(test, Test::Constant(..) | Test::Between(..));
    let violates = |value| !holds(test, Pair { value, reference: None });
    let failed = counts_errors && constant && evidence.measured.is_some_and(violates);
    Stop::new(if failed { Outcome::Fail } else { Outcome::Error }, trouble)
}

/// The evidence before anything was looked at.
fn nothing_yet(assertion: &Assertion) -> Evidence {
    let metric = assertion.condition.metric;
    Evidence {
        metric: metric.to_string(),
        kind: metric.kind,
        percentile: match metric.measure {
            Measure::LatencyPercentile(percentile) => Some(percentile),
            _ => None,
        },
        comparison: match &assertion.condition.test {
            Test::Constant(comparison, _) | Test::Times(comparison, ..) => comparison.to_string(),
            Test::Between(..) | Test::Within(..) => String::new(),
        },
        unit: metric.measure.unit(),
        measured: None,
        rounds: Vec::new(),
        limits: constant_limits(&assertion.condition.test),
        reference: None,
        reference_value: None,
        ratio: None,
        higher_is_better: metric.measure.higher_is_better(),
        reason: None,
    }
}

/// The limits, where no reference is needed for them.
fn constant_limits(test: &Test) -> Vec<f64> {
    let mut limits = match *test {
        Test::Constant(_, limit) => vec![limit],
        Test::Between(low, high) => vec![low, high],
        Test::Times(..) | Test::Within(..) => Vec::new(),
    };
    limits.retain(|limit| limit.is_finite());
    limits
}

/// The limit, or the lower and the upper one, in the metric's unit.
fn limits(test: &Test, pair: Pair) -> Vec<f64> {
    let reference = pair.reference.unwrap_or(f64::NAN);
    match *test {
        Test::Constant(_, limit) => vec![limit],
        Test::Between(low, high) => vec![low, high],
        Test::Times(_, factor, _) => vec![factor * reference],
        Test::Within(share, _) => vec![(1.0 - share) * reference, (1.0 + share) * reference],
    }
}

/// Whether the value satisfies the test. Never true of anything that is not a number.
fn holds(test: &Test, pair: Pair) -> bool {
    let value = pair.value;
    match (test, limits(test, pair).as_slice()) {
        (Test::Constant(comparison, _) | Test::Times(comparison, ..), [limit]) => {
            comparison.holds(value, *limit)
        }
        (_, [low, high]) => *low <= value && value <= *high,
        _ => false,
    }
}
