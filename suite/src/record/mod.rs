//! The archive: everything that one run of a plan measured and decided, as one JSON document.
//!
//! Reports are drawn from this and nothing else, so that they can be drawn again, byte for byte,
//! on a machine without disks. Units stand in the names of the fields, integers are exact, and
//! `null` means that there is no such figure (never 0). A record knows nothing of how it came to
//! be: not the plan's model, not the disks, not the engine.
//!
//! # Versions
//!
//! `format` is read before anything else. [`FORMAT`] counts up when a reader of the old form would
//! misread the new one: a field changes its meaning or its unit, or goes away. It stays when a
//! field is added: older programs pass over fields that they don't know, and a new field takes a
//! `#[serde(default)]` that says what its absence means, so that older records still load. When it
//! does count up, the old types stay, in a module that is named for their version and turns them
//! into these, and `fixtures/records/format-N.json` of every version must load for ever. A record
//! of a version that is not known yet is refused with both numbers, never guessed at.

mod exit;
mod file;
mod flaws;
mod layout;
#[cfg(test)]
pub(crate) mod sample;
mod streams;
#[cfg(test)]
mod tests;

use serde::{Deserialize, Serialize};
use thiserror::Error;

pub use exit::ExitCode;
pub use file::write_file;
pub use streams::{StreamRecord, Whole};

use crate::measure::{IoFault, IoKind, Measurement, Verified, VerifyFind, merged_faults};
use crate::units::{Percentile, Unit};

/// Version of the form of the document.
pub const FORMAT: u32 = 1;

/// One run of a plan.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// [`FORMAT`] of the program that wrote it.
    pub format: u32,
    /// Version of that program.
    pub diskproof: String,
    /// Whether the disks were simulated: no figure is of a real device then.
    pub simulated: bool,
    /// Whether the run was stopped before its end.
    pub interrupted: bool,
    /// Start in UTC, as `2026-12-01T03:07:51Z`; `None` in virtual time.
    pub started: Option<String>,
    /// How long it has taken so far; `None` in virtual time.
    pub elapsed_ms: Option<u64>,
    /// Where it ran; `None` in virtual time.
    pub host: Option<Host>,
    /// What was run.
    pub plan: PlanRecord,
    /// What the disks really were.
    pub disks: Vec<DiskRecord>,
    /// Every case of the plan that was selected, in the plan's order.
    pub cases: Vec<CaseRecord>,
    /// The order in which rounds were run: index into `cases`, and round from 1.
    pub schedule: Vec<(usize, u32)>,
    /// Every condition, in the plan's order.
    pub verdicts: Vec<Verdict>,
    /// What the verdicts come to.
    pub conclusion: Conclusion,
}

/// The machine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Host {
    /// Its name.
    pub name: String,
    /// Kernel release.
    pub kernel: String,
    /// Model of the processor.
    pub cpu_model: String,
    /// Processors that the run may use.
    pub cpus: u32,
    /// Main memory.
    pub memory_bytes: u64,
}

/// The plan, as it was run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlanRecord {
    /// Its name.
    pub name: String,
    /// What it is to prove.
    pub description: Option<String>,
    /// Path as given on the command line.
    pub path: String,
    /// The whole text.
    pub text: String,
    /// The profile that was applied.
    pub profile: Option<String>,
    /// `--disk` as given: name and paths.
    pub bindings: Vec<(String, Vec<String>)>,
    /// `--baseline` as given.
    pub baseline: Option<String>,
    /// Case patterns that were asked for and passed over.
    pub selection: Selection,
    /// `--work-dir` as given; `None` for the usual one.
    #[serde(default)]
    pub work_dir: Option<String>,
    /// Whether a case that could not run there was to be an error (`--require-all`).
    #[serde(default)]
    pub require_all: bool,
}

/// Which cases were asked for.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Selection {
    /// `--case`; empty for all.
    pub cases: Vec<String>,
    /// `--skip`.
    pub skip: Vec<String>,
}

/// What a disk really was.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DiskRecord {
    /// Its name in the plan.
    pub name: String,
    /// `loopback`, `directory`, `device`, `file` or `simulated`.
    pub kind: String,
    /// Where; for what was made for the run, the folder it was made in.
    pub path: Option<String>,
    /// Size in bytes.
    pub size_bytes: u64,
    /// Type of the file system that it lies on, where it does.
    pub filesystem: Option<String>,
    /// The block device under it: `259:1 nvme0n1`.
    pub block_device: Option<String>,
    /// The kind of driver of that device, by the kernel's names: `nvme`, `sd`, `dm`. `None` where
    /// there is no device or nothing is known of it.
    #[serde(default)]
    pub driver: Option<String>,
    /// What direct I/O offsets and lengths must be multiples of.
    pub offset_align_bytes: u32,
    /// What direct I/O buffer addresses must be multiples of.
    pub memory_align_bytes: u32,
}

/// One case: what was asked, and what came of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CaseRecord {
    /// `setup[point]/workload[point]`.
    pub id: String,
    /// The setup with its point.
    pub setup: String,
    /// The workload with its point.
    pub workload: String,
    /// Names of the disks that it ran on, in the order of the setup; empty where not known.
    #[serde(default)]
    pub disks: Vec<String>,
    /// What it did, in one line: `random 4 KiB reads, depth 32`.
    pub what: String,
    /// Every parameter that shaped the load, in the plan's spelling, in the plan's order.
    pub parameters: Vec<(String, String)>,
    /// Why it was not run, if so: every reason.
    pub skipped: Vec<String>,
    /// Its rounds.
    pub rounds: Vec<RoundRecord>,
    /// What a reader should know before believing the figures.
    pub warnings: Vec<String>,
    /// I/Os a second that the engine could do of this case on this machine if no disk were in its
    /// way; `None` where the workers were idle for most of the time, so that neither the tool nor
    /// the processor could be the limit, and where it was not measured.
    #[serde(default)]
    pub engine_iops_max: Option<f64>,
    /// The loads that it had side by side; empty where it was one load.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub streams: Vec<StreamRecord>,
    /// Where it is one of those, made a case of its own: what it is of. Never in a document.
    #[serde(skip)]
    pub stream_of: Option<Whole>,
}

/// One timed run of one case.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RoundRecord {
    /// From 1.
    pub round: u32,
    /// Seed of its random choices.
    pub seed: u64,
    /// What was measured; `None` when it could not be.
    pub measurement: Option<Measurement>,
    /// Why it could not be measured.
    pub error: Option<String>,
}

/// What to say of data that are not what was written.
fn broken(verified: &Verified) -> String {
    let (found, checked) = (verified.describe(), verified.checked);
    let first = verified.finds.first().map(VerifyFind::describe).unwrap_or_default();
    format!("verification failed: {found} of {checked} blocks; the first: {first}")
}

impl RoundRecord {
    /// What to say of a round whose rate was not held: too many I/Os were due and never begun.
    fn rate_not_held(&self) -> Option<String> {
        let measured = self.measurement.as_ref()?;
        let open = measured.open.as_ref().filter(|o| o.drops_too_many(measured.workers.len()))?;
        let (round, dropped, due) = (self.round, open.dropped, open.due);
        Some(format!(
            "the rate was not held in round {round}: of {due} I/Os that were due, {dropped} were \
             never begun; ask for a lower `rate`, or more `queue_depth` or `workers`"
        ))
    }
}

impl CaseRecord {
    /// The measured rounds.
    #[must_use]
    pub fn measured(&self) -> Vec<&Measurement> {
        self.rounds.iter().filter_map(|round| round.measurement.as_ref()).collect()
    }

    /// Why its figures can't be trusted, a sentence without a full stop each: rounds that could
    /// not be measured, then failed I/Os, of streams with their names. Empty of a sound case, and
    /// of one without any round. A stream has those of the whole: what ran beside it is a part of
    /// its load.
    #[must_use]
    pub fn troubles(&self) -> Vec<String> {
        if let Some(whole) = &self.stream_of {
            return whole.troubles.clone();
        }
        let unmeasured = self.rounds.iter().filter_map(|round| {
            let why = match (&round.error, &round.measurement) {
                (Some(error), _) => error.as_str(),
                (None, None) => "no reason was recorded",
                (None, Some(_)) => return None,
            };
            Some(format!("round {} could not be measured: {why}", round.round))
        });
        let mut of_streams = self.troubles_of_streams();
        if of_streams.is_empty() {
            of_streams = self.troubles_of_figures();
        }
        let verified = self.verified();
        let nothing = verified.filter(|all| all.checked == 0).map(|_| {
            "nothing was verified: none of the blocks that were read had been written with \
             `verify` before, by this case or another on this setup"
                .to_owned()
        });
        unmeasured.chain(of_streams).chain(nothing).collect()
    }

    /// What is wrong with its figures: failed I/Os, rates that were not held, broken data.
    pub(super) fn troubles_of_figures(&self) -> Vec<String> {
        let faults = merged_faults(self.measured().iter().flat_map(|round| &round.faults));
        let failed = faults.iter().filter(|fault| fault.count > 0).map(IoFault::describe);
        let late = self.rounds.iter().filter_map(RoundRecord::rate_not_held);
        let all = self.verified().filter(|all| all.error_count() > 0);
        failed.chain(late).chain(all.as_ref().map(broken)).collect()
    }

    /// What all rounds verified; `None` where none did.
    fn verified(&self) -> Option<Verified> {
        let measured = self.measured();
        let mut verified = measured.iter().filter_map(|round| round.verified.as_ref());
        let first = verified.next()?.clone();
        Some(verified.fold(first, |mut all, one| {
            all.add(one);
            all
        }))
    }

    /// The share of what the engine could do here at all that was done, where that is known.
    #[must_use]
    pub fn share_of_engine(&self) -> Option<f64> {
        let (most, merged) = (self.engine_iops_max?, self.merged()?);
        let seconds = merged.duration_ns.as_secs();
        (most > 0.0 && seconds > 0.0).then(|| merged.completed(None) as f64 / seconds / most)
    }

    /// How many blocks were not what had been written.
    #[must_use]
    pub fn verify_errors(&self) -> u64 {
        let verified = self.measured().into_iter().filter_map(|round| round.verified.as_ref());
        verified.map(Verified::error_count).sum()
    }

    /// All measured rounds as one; `None` without any.
    #[must_use]
    pub fn merged(&self) -> Option<Measurement> {
        Measurement::merged(&self.measured())
    }
}

/// What became of one condition on one case.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Verdict {
    /// The case's name.
    pub case: String,
    /// The condition as written.
    pub condition: String,
    /// Why it is expected.
    pub why: Option<String>,
    /// Line in the plan.
    pub line: usize,
    /// Whether it can fail the run (`false` for `level = "warn"`).
    pub gate: bool,
    /// What it came to.
    pub outcome: Outcome,
    /// On which ground.
    pub evidence: Evidence,
}

/// What a condition came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// It holds.
    Pass,
    /// It doesn't.
    Fail,
    /// The measurement can't tell.
    Inconclusive,
    /// It could not be measured.
    Error,
    /// The case was not run here.
    Skipped,
}

impl Outcome {
    /// Its word in reports.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Pass => "pass",
            Self::Fail => "fail",
            Self::Inconclusive => "inconclusive",
            Self::Error => "error",
            Self::Skipped => "skipped",
        }
    }
}

/// The ground of a verdict.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Evidence {
    /// The metric: `read.latency.p99`.
    pub metric: String,
    /// The kind of I/O that the metric is of; `None` for reads and writes together.
    #[serde(default)]
    pub kind: Option<IoKind>,
    /// The percentile that the metric is, if it is one.
    #[serde(default)]
    pub percentile: Option<Percentile>,
    /// How it was to compare with its limit: `<`, `<=`, `=`, `>=` or `>`. Empty where two limits
    /// are the ends of a range, and where it is not known.
    #[serde(default)]
    pub comparison: String,
    /// Unit of `measured`, `rounds`, `limits` and `reference_value`.
    pub unit: Unit,
    /// Value of all rounds together.
    pub measured: Option<f64>,
    /// Value of each round.
    pub rounds: Vec<Option<f64>>,
    /// The limit or limits in the metric's own unit: one for a comparison, low and high for a
    /// range. Of a relative condition, worked out from the reference. Empty where it can't be.
    pub limits: Vec<f64>,
    /// What it was compared with: a case's name or `baseline`.
    pub reference: Option<String>,
    /// Its value.
    pub reference_value: Option<f64>,
    /// `measured / reference_value`.
    pub ratio: Option<f64>,
    /// Whether more of the metric is better; `None` where neither is.
    pub higher_is_better: Option<bool>,
    /// One sentence: why it came out as it did. Always there unless it passed or failed plainly.
    pub reason: Option<String>,
}

/// What the verdicts come to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Conclusion {
    /// Exit code of the run: the number of an [`ExitCode`].
    pub exit_code: u8,
    /// What an inconclusive gate counts as: `open`, `fail` or `pass`.
    pub inconclusive: String,
    /// Conditions that hold.
    pub passed: usize,
    /// Gates that don't hold.
    pub failed: usize,
    /// Gates that can't be told.
    pub inconclusive_count: usize,
    /// Conditions that could not be measured.
    pub errors: usize,
    /// Conditions whose case was not run.
    pub skipped: usize,
    /// Conditions with `level = "warn"` that don't hold or can't be told.
    pub warnings: usize,
    /// One sentence when there is more to say than the counts: a run that was stopped, a plan
    /// without a gate that passed.
    pub note: Option<String>,
}

/// Why a record can't be used.
#[derive(Debug, Error)]
pub enum RecordError {
    /// It can't be read or written.
    #[error("can't {operation} {path}")]
    Io {
        /// `read` or `write`.
        operation: &'static str,
        /// Where.
        path: String,
        /// The kernel's answer.
        #[source]
        source: std::io::Error,
    },
    /// It is not a record.
    #[error("{path} is not a record of diskproof: {reason}")]
    Malformed {
        /// Where.
        path: String,
        /// Why.
        reason: String,
    },
    /// It would not be read back as it is, so that it was not written.
    #[error("{path} was not written: {reason}; this is a fault in diskproof")]
    Unsound {
        /// Where.
        path: String,
        /// Why.
        reason: String,
    },
    /// It is one of another version.
    #[error("{path} is a record of format {found}; this diskproof reads format {FORMAT}")]
    Version {
        /// Where.
        path: String,
        /// Its format.
        found: u64,
    },
}
