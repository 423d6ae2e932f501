//! What several reports say, put into words once: the headline, the figures of a case, the ground
//! of a verdict, what went wrong without any verdict, and the command that runs it again.

use std::collections::BTreeSet;

use super::text::shell_word;
use crate::measure::{IoKind, Measurement};
use crate::record::{CaseRecord, Evidence, Outcome, Record, Verdict};
use crate::units::{Percentile, Unit, counted, human, human_short};

/// How a verdict or a whole run is shown. Ordered by how much it asks for the reader's eye.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Mark {
    Pass,
    Skipped,
    /// A condition with `level = "warn"` that doesn't hold or can't be told.
    Warning,
    Inconclusive,
    Error,
    Fail,
}

impl Mark {
    pub(super) fn of(verdict: &Verdict) -> Self {
        match verdict.outcome {
            Outcome::Pass => Self::Pass,
            Outcome::Skipped => Self::Skipped,
            Outcome::Fail | Outcome::Inconclusive if !verdict.gate => Self::Warning,
            Outcome::Fail => Self::Fail,
            Outcome::Inconclusive => Self::Inconclusive,
            Outcome::Error => Self::Error,
        }
    }

    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Pass => "pass",
            Self::Skipped => "skipped",
            Self::Warning => "warning",
            Self::Inconclusive => "inconclusive",
            Self::Error => "error",
            Self::Fail => "fail",
        }
    }

    /// A sign that says the same without colour.
    pub(super) fn sign(self) -> &'static str {
        match self {
            Self::Pass => "\u{2713}",
            Self::Skipped => "\u{2013}",
            Self::Warning => "\u{25b3}",
            Self::Inconclusive => "?",
            Self::Error => "!",
            Self::Fail => "\u{2717}",
        }
    }
}

/// The run in one line.
pub(super) struct Headline {
    pub(super) mark: Mark,
    /// `Failed`.
    pub(super) word: &'static str,
    /// `1 of 4 conditions`.
    pub(super) rest: String,
}

/// What the conclusion says, in words.
pub(super) fn headline(record: &Record) -> Headline {
    let conclusion = &record.conclusion;
    let total = counted(record.verdicts.len(), "condition");
    let of_total = |count: usize| format!("{count} of {total}");
    let (mark, word, rest) = match conclusion.exit_code {
        _ if record.interrupted => {
            let measured = record.cases.iter().flat_map(|case| &case.rounds);
            let measured = measured.filter(|round| round.measurement.is_some()).count();
            let rest = format!("stopped before its end, after {}", counted(measured, "round"));
            (Mark::Error, "Interrupted", rest)
        }
        0 if conclusion.passed == record.verdicts.len() => match conclusion.passed {
            1 => (Mark::Pass, "Passed", "the one condition holds".to_owned()),
            _ => (Mark::Pass, "Passed", format!("all {total} hold")),
        },
        0 => (Mark::Pass, "Passed", format!("{} hold", of_total(conclusion.passed))),
        1 if conclusion.failed > 0 => (Mark::Fail, "Failed", of_total(conclusion.failed)),
        1 => {
            let open = of_total(conclusion.inconclusive_count);
            (Mark::Fail, "Failed", format!("{open} inconclusive, which this plan counts as failed"))
        }
        3 if conclusion.errors > 0 => {
            let errors = of_total(conclusion.errors);
            let failed = match conclusion.failed {
                0 => String::new(),
                failed => format!(", {failed} failed"),
            };
            (Mark::Error, "Error", format!("{errors} could not be measured{failed}"))
        }
        3 => (Mark::Error, "Error", "not everything could be measured".to_owned()),
        4 => (Mark::Skipped, "Nothing judged", "no condition was put to the test".to_owned()),
        5 if conclusion.inconclusive_count > 0 => {
            let open = of_total(conclusion.inconclusive_count);
            (Mark::Inconclusive, "Inconclusive", format!("{open} can't be told"))
        }
        7 => {
            let broken: u64 = record.cases.iter().map(CaseRecord::verify_errors).sum();
            let blocks = counted(usize::try_from(broken).unwrap_or(usize::MAX), "block");
            (Mark::Fail, "Data broken", format!("{blocks} read back not as written"))
        }
        6 => (Mark::Error, "Refused", "nothing was touched".to_owned()),
        code => (Mark::Error, "Not passed", format!("the run ended with exit code {code}")),
    };
    Headline { mark, word, rest }
}

/// `4 conditions: 2 passed, 1 failed, 1 inconclusive`.
pub(super) fn counts(record: &Record) -> String {
    let conclusion = &record.conclusion;
    let parts = [
        (conclusion.passed, "passed"),
        (conclusion.failed, "failed"),
        (conclusion.errors, "could not be measured"),
        (conclusion.inconclusive_count, "inconclusive"),
        (conclusion.skipped, "skipped"),
        (conclusion.warnings, if conclusion.warnings == 1 { "warning" } else { "warnings" }),
    ];
    let said: Vec<_> = parts
        .iter()
        .filter(|(count, _)| *count > 0)
        .map(|(count, what)| format!("{count} {what}"))
        .collect();
    let total = counted(record.verdicts.len(), "condition");
    match said.len() {
        0 => total,
        1 if conclusion.passed > 0 => format!("{total} on {}", counted(record.cases.len(), "case")),
        _ => format!("{total}: {}", said.join(", ")),
    }
}

/// What a reader has to know before any figure: in which way this is not a full run of real
/// disks.
pub(super) fn notices(record: &Record) -> Vec<String> {
    let mut notices = Vec::new();
    if record.interrupted && record.conclusion.note.is_none() {
        notices
            .push("The run was stopped before its end: what is missing was not measured.".into());
    }
    if record.simulated {
        notices.push("Simulated: every disk is a model, and no figure is of a real device.".into());
    } else {
        let emulated: Vec<_> = record.disks.iter().filter(|disk| disk.kind == "emulated").collect();
        if !emulated.is_empty() {
            let names: Vec<_> = emulated.iter().map(|disk| disk.name.as_str()).collect();
            notices.push(format!("Emulated disks: {}.", names.join(", ")));
        }
    }
    if let Some(profile) = &record.plan.profile {
        notices.push(format!("Run with the profile {profile}."));
    }
    let selection = &record.plan.selection;
    if !selection.cases.is_empty() || !selection.skip.is_empty() {
        notices.push(format!("Only a selection was run: {} of the plan.", {
            counted(record.cases.len(), "case")
        }));
    }
    notices.extend(record.conclusion.note.clone());
    notices
}

/// The verdicts with the ones that matter most first; within each kind as in the plan.
pub(super) fn verdicts_worst_first(record: &Record) -> Vec<&Verdict> {
    let mut verdicts: Vec<_> = record.verdicts.iter().collect();
    verdicts.sort_by_key(|verdict| std::cmp::Reverse(Mark::of(verdict)));
    verdicts
}

/// The figures of one case over all its rounds, ready to be shown; `None` is no such figure.
pub(super) struct Figures {
    /// Measured rounds.
    pub(super) rounds: usize,
    /// I/Os in flight, as a mean over time.
    pub(super) depth: String,
    /// Processor time, in hundredths of one processor.
    pub(super) cpu: Option<String>,
    /// One row for each kind of I/O that there was.
    pub(super) rows: Vec<KindRow>,
}

/// One kind of I/O of a case.
pub(super) struct KindRow {
    pub(super) kind: IoKind,
    pub(super) samples: u64,
    pub(super) iops: Option<String>,
    pub(super) bandwidth: Option<String>,
    pub(super) mean: Option<String>,
    pub(super) p50: Option<String>,
    pub(super) p99: Option<String>,
    pub(super) p999: Option<String>,
    pub(super) max: Option<String>,
}

/// The figures of a measurement; of a whole case, give it the case's merged one.
pub(super) fn figures(rounds: usize, merged: &Measurement) -> Figures {
    let seconds = merged.duration_ns.as_secs();
    let rate = |count: u64, unit| {
        (seconds > 0.0 && count > 0).then(|| human(count as f64 / seconds, unit))
    };
    let time = |nanos: Option<u64>| nanos.map(|nanos| human(nanos as f64, Unit::Nanoseconds));
    let rows = IoKind::ALL.into_iter().filter_map(|kind| {
        let of = &merged.kinds[kind];
        let percentile =
            |millionths| time(of.latency_ns.quotable_percentile(Percentile(millionths)));
        (of.completed > 0 || of.latency_ns.count() > 0).then(|| KindRow {
            kind,
            samples: of.latency_ns.count(),
            iops: rate(of.completed, Unit::Iops).map(|iops| iops.replace(" IOPS", "")),
            bandwidth: rate(of.bytes, Unit::BytesPerSecond),
            mean: of.latency_ns.mean().map(|mean| human(mean, Unit::Nanoseconds)),
            p50: percentile(500_000),
            p99: percentile(990_000),
            p999: percentile(999_000),
            max: time(of.latency_ns.max()),
        })
    });
    let cpu = merged.cpu.filter(|_| seconds > 0.0).map(|cpu| {
        let share = (cpu.user_ns + cpu.system_ns) as f64 / 1e7 / seconds;
        format!("{share:.0} %")
    });
    let depth = human(merged.queue_depth_achieved, Unit::Ratio).replace(" x", "");
    Figures { rounds, depth, cpu, rows: rows.collect() }
}

/// A value of an evidence as a person would say it; `None` when there is none or it isn't finite.
pub(super) fn figure(value: Option<f64>, unit: Unit) -> Option<String> {
    value.filter(|value| value.is_finite()).map(|value| human(value, unit))
}

/// The same in the unit that it is kept in, with all that can matter of it.
pub(super) fn exact(value: f64, unit: Unit) -> String {
    if !value.is_finite() {
        return "-".to_owned();
    }
    let number = format!("{value:.3}");
    let number = number.trim_end_matches('0').trim_end_matches('.');
    let unit = match unit {
        Unit::Iops => " IOPS",
        Unit::BytesPerSecond => " B/s",
        Unit::Nanoseconds => " ns",
        Unit::Count => "",
        Unit::Percent => " %",
        Unit::Ratio => " x",
    };
    format!("{number}{unit}")
}

/// Whether rounding makes a measured value and its limit look equal that are not.
pub(super) fn blurred(verdict: &Verdict) -> bool {
    let Evidence { measured, limits, unit, .. } = &verdict.evidence;
    #[expect(clippy::float_cmp, reason = "the question is whether they differ at all")]
    measured.is_some_and(|value| {
        limits.iter().any(|&limit| value != limit && human(value, *unit) == human(limit, *unit))
    })
}

/// What was measured and what it had to be. Rounded for the eye, unless that would make two
/// different values look equal: then both are exact.
pub(super) fn measured_and_limit(verdict: &Verdict) -> (Option<String>, Option<String>) {
    let Evidence { measured, limits, unit, comparison, .. } = &verdict.evidence;
    let measured = measured.filter(|value| value.is_finite());
    let limits: Vec<f64> = limits.iter().copied().filter(|limit| limit.is_finite()).collect();
    let blurred = blurred(verdict);
    let say = |value: f64| if blurred { exact(value, *unit) } else { human(value, *unit) };
    let set = |value: f64| if blurred { exact(value, *unit) } else { human_short(value, *unit) };
    let limit = match limits[..] {
        [limit] => Some(format!("{comparison} {}", set(limit)).trim().to_owned()),
        [low, high] => Some(format!("{} to {}", set(low), set(high))),
        _ => None,
    };
    (measured.map(say), limit)
}

/// Why a verdict came out as it did, where that is not plain: every reason of a skip.
pub(super) fn reason(record: &Record, verdict: &Verdict) -> Option<String> {
    if verdict.outcome == Outcome::Skipped {
        let case = record.whole_of(&verdict.case);
        let reasons = case.map(|case| case.skipped.join("; "));
        if let Some(reasons) = reasons.filter(|reasons| !reasons.is_empty()) {
            return Some(reasons);
        }
    }
    verdict.evidence.reason.clone()
}

/// `2.47 x lrs/sync-write (1.30 ms)`: what a relative condition was held against; `None` where that
/// has no value, which the verdict's reason explains.
pub(super) fn compared(evidence: &Evidence) -> Option<String> {
    let reference = evidence.reference.as_ref()?;
    let value = figure(evidence.reference_value, evidence.unit)?;
    Some(match figure(evidence.ratio, Unit::Ratio) {
        Some(ratio) => format!("{ratio} {reference} ({value})"),
        None => format!("{reference} ({value})"),
    })
}

/// The least and the most of the rounds, where there are several.
pub(super) fn range(evidence: &Evidence) -> Option<(String, String)> {
    let rounds = || evidence.rounds.iter().flatten().copied();
    let low = rounds().fold(f64::INFINITY, f64::min);
    let high = rounds().fold(f64::NEG_INFINITY, f64::max);
    let said = (figure(Some(low), evidence.unit)?, figure(Some(high), evidence.unit)?);
    (rounds().count() > 1).then_some(said)
}

/// `3 rounds from 4.80 ms to 5.50 ms`, where there are several.
pub(super) fn spread(evidence: &Evidence) -> Option<String> {
    let (low, high) = range(evidence)?;
    let rounds = counted(evidence.rounds.iter().flatten().count(), "round");
    let alike = low == high;
    Some(if alike {
        format!("{rounds} at {low}")
    } else {
        format!("{rounds} from {low} to {high}")
    })
}

/// What went wrong with a case, whether a condition was put on it or not. What a reader should
/// know besides is among its warnings. Of streams nothing: all is said of the whole case.
pub(super) fn troubles(record: &Record, case: &CaseRecord) -> Vec<String> {
    if case.stream_of.is_some() {
        return Vec::new();
    }
    let said = record.verdicts.iter().any(|verdict| {
        case.is_or_has(&verdict.case)
            && matches!(verdict.outcome, Outcome::Error | Outcome::Skipped)
    });
    if case.rounds.is_empty() && case.skipped.is_empty() && !said {
        let why = if record.interrupted { "the run was stopped before it" } else { "not measured" };
        return vec![format!("no round was run: {why}")];
    }
    case.troubles()
}

/// The troubles of a case that no verdict on it, or on a stream of it, has as its reason, for a
/// report that shows both.
pub(super) fn untold_troubles(record: &Record, case: &CaseRecord) -> Vec<String> {
    let mut troubles = troubles(record, case);
    if troubles.is_empty() {
        return troubles; // of nearly every case; the search below looks at all verdicts
    }
    let own = record.verdicts.iter().filter(|verdict| case.is_or_has(&verdict.case));
    let said: Vec<_> = own.filter_map(|own| own.evidence.reason.as_deref()).collect();
    troubles.retain(|trouble| !said.iter().any(|said| said.contains(trouble.as_str())));
    troubles
}

/// Above this many cases a command that names each would be of no use to anybody.
const RERUN_CASES: usize = 40;

/// The command that runs the plan again as it was run.
pub(super) fn rerun(record: &Record) -> String {
    let Record { plan, .. } = record;
    command(record, &plan.selection.cases, &plan.selection.skip)
}

/// The command that runs again only what didn't pass, with the cases that those are compared
/// with; `None` when everything passed or was skipped.
pub(super) fn rerun_failed(record: &Record) -> Option<String> {
    let open = record.verdicts.iter().filter(|verdict| {
        matches!(Mark::of(verdict), Mark::Fail | Mark::Error | Mark::Inconclusive)
    });
    let mut wanted: BTreeSet<&str> = BTreeSet::new();
    for verdict in open {
        wanted.insert(&verdict.case);
        wanted.extend(verdict.evidence.reference.as_deref());
    }
    let troubled = record.cases.iter().filter(|case| !troubles(record, case).is_empty());
    wanted.extend(troubled.map(|case| case.id.as_str()));
    let cases: Vec<String> = record
        .cases
        .iter()
        .filter(|case| wanted.iter().any(|id| case.is_or_has(id)))
        .map(|case| case.id.clone())
        .collect();
    match cases.len() {
        _ if wanted.is_empty() => None,
        count if count == record.cases.len() || count > RERUN_CASES => Some(rerun(record)),
        _ => Some(command(record, &cases, &[])),
    }
}

fn command(record: &Record, cases: &[String], skip: &[String]) -> String {
    let plan = &record.plan;
    let mut words = vec!["diskproof".to_owned(), "run".to_owned(), shell_word(&plan.path)];
    let mut option = |name: &str, value: &str| {
        words.extend([name.to_owned(), shell_word(value)]);
    };
    for case in cases {
        option("--case", case);
    }
    for pattern in skip {
        option("--skip", pattern);
    }
    if let Some(profile) = &plan.profile {
        option("--profile", profile);
    }
    for (name, paths) in &plan.bindings {
        option("--disk", &format!("{name}={}", paths.join(",")));
    }
    if let Some(baseline) = &plan.baseline {
        option("--baseline", baseline);
    }
    if let Some(work_dir) = &plan.work_dir {
        option("--work-dir", work_dir);
    }
    let flags = [("--simulate", record.simulated), ("--require-all", plan.require_all)];
    words.extend(flags.iter().filter(|(_, given)| *given).map(|(flag, _)| (*flag).to_owned()));
    words.join(" ")
}
