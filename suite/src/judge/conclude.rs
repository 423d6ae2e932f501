//! What the verdicts of a run come to, and the exit code that tells it.

use super::value::trouble;
use crate::plan::Inconclusive;
use crate::record::{CaseRecord, Conclusion, ExitCode, Outcome, Verdict};
use crate::units::counted;

/// What the figures can't say about a run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Circumstances {
    /// Whether it was stopped before its end.
    pub interrupted: bool,
    /// Whether it was refused for safety, before anything was touched.
    pub refused: bool,
    /// Whether a skip counts as not measured (`--require-all`).
    pub require_all: bool,
}

/// What the verdicts come to. `inconclusive` is the plan's own word on those.
///
/// Exit code 0 needs a gate that passed. A case that could not be measured, or had failed I/Os,
/// makes exit code 3 even when no condition looks at it. Without any gate to pass nothing was
/// proven: that is exit code 4, as is a run in which everything was skipped.
#[must_use]
pub fn conclude(
    inconclusive: Inconclusive,
    verdicts: &[Verdict],
    cases: &[CaseRecord],
    circumstances: Circumstances,
) -> Conclusion {
    let tally = Tally::of(inconclusive, verdicts, cases, circumstances);
    let exit = tally.exit();
    let count = |wanted: fn(&Verdict) -> bool| verdicts.iter().filter(|v| wanted(v)).count();
    Conclusion {
        exit_code: exit.code(),
        inconclusive: match inconclusive {
            Inconclusive::Open => "open",
            Inconclusive::Fail => "fail",
            Inconclusive::Pass => "pass",
        }
        .to_owned(),
        passed: count(|v| v.outcome == Outcome::Pass),
        failed: tally.failed,
        inconclusive_count: tally.inconclusive,
        errors: count(|v| v.outcome == Outcome::Error),
        skipped: count(|v| v.outcome == Outcome::Skipped),
        warnings: count(|v| !v.gate && matches!(v.outcome, Outcome::Fail | Outcome::Inconclusive)),
        note: tally.note(exit),
    }
}

/// What decides the exit code.
struct Tally {
    circumstances: Circumstances,
    rule: Inconclusive,
    cases: usize,
    /// Cases that were skipped.
    cases_skipped: usize,
    /// Cases with failed I/Os or rounds, or without a round.
    cases_troubled: usize,
    /// Whether data were found that are not what was written.
    verify_failed: bool,
    gates: usize,
    passed: usize,
    failed: usize,
    inconclusive: usize,
    errors: usize,
    skipped: usize,
}

impl Tally {
    fn of(
        rule: Inconclusive,
        verdicts: &[Verdict],
        cases: &[CaseRecord],
        circumstances: Circumstances,
    ) -> Self {
        let gates = || verdicts.iter().filter(|verdict| verdict.gate);
        let count = |outcome| gates().filter(|verdict| verdict.outcome == outcome).count();
        let is_skipped = |case: &&CaseRecord| !case.skipped.is_empty();
        let troubled = cases.iter().filter(|case| !is_skipped(case) && trouble(case).is_some());
        Self {
            circumstances,
            rule,
            cases: cases.len(),
            cases_skipped: cases.iter().filter(is_skipped).count(),
            cases_troubled: troubled.count(),
            verify_failed: cases.iter().any(|case| case.verify_errors() > 0),
            gates: gates().count(),
            passed: count(Outcome::Pass),
            failed: count(Outcome::Fail),
            inconclusive: count(Outcome::Inconclusive),
            errors: count(Outcome::Error),
            skipped: count(Outcome::Skipped),
        }
    }

    fn exit(&self) -> ExitCode {
        let Circumstances { interrupted, refused, .. } = self.circumstances;
        let open = |rule| self.inconclusive > 0 && self.rule == rule;
        let applies = |exit: &ExitCode| match exit {
            ExitCode::Interrupted => interrupted,
            ExitCode::Refused => refused,
            ExitCode::VerifyFailed => self.verify_failed,
            ExitCode::NotMeasured => {
                self.errors + self.cases_troubled + self.skips_that_count() > 0
            }
            ExitCode::Failed => self.failed > 0 || open(Inconclusive::Fail),
            ExitCode::Inconclusive => open(Inconclusive::Open),
            ExitCode::Passed => self.passed > 0 || open(Inconclusive::Pass),
            ExitCode::NothingDecided | ExitCode::Invalid => false,
        };
        let applying = ExitCode::ALL.into_iter().filter(applies);
        applying.max_by_key(|exit| exit.rank()).unwrap_or(ExitCode::NothingDecided)
    }

    /// Skipped cases, or gates, where those count as not measured.
    fn skips_that_count(&self) -> usize {
        if self.circumstances.require_all { self.cases_skipped.max(self.skipped) } else { 0 }
    }

    fn note(&self, exit: ExitCode) -> Option<String> {
        let cases = |count| counted(count, "case");
        let gates = |count: usize| {
            let verb = if count == 1 { "counts" } else { "count" };
            format!("{} {verb}", counted(count, "inconclusive gate"))
        };
        match exit {
            ExitCode::Interrupted => {
                Some("the run was stopped: what was measured until then is here".to_owned())
            }
            ExitCode::Refused => Some("the run was refused: nothing was touched".to_owned()),
            ExitCode::NotMeasured if self.cases_troubled > 0 => Some(format!(
                "{} could not be measured or had I/O errors",
                cases(self.cases_troubled)
            )),
            ExitCode::NotMeasured if self.errors == 0 => Some(format!(
                "{} skipped, which --require-all counts as not measured",
                cases(self.skips_that_count())
            )),
            ExitCode::NothingDecided if self.cases == 0 => Some("no case was selected".to_owned()),
            ExitCode::NothingDecided if self.cases == self.cases_skipped => {
                Some("every case was skipped".to_owned())
            }
            ExitCode::NothingDecided if self.gates == 0 => Some(
                "nothing was proven: no expectation that could fail applies to what was run"
                    .to_owned(),
            ),
            ExitCode::NothingDecided => Some("every gate was skipped".to_owned()),
            ExitCode::Failed if self.inconclusive > 0 && self.rule == Inconclusive::Fail => {
                Some(format!("{} as failed", gates(self.inconclusive)))
            }
            ExitCode::Passed if self.inconclusive > 0 => {
                Some(format!("{} as passed", gates(self.inconclusive)))
            }
            _ => None,
        }
    }
}
