//! The story of a run: select, survey, build, rounds, judge, record. Told as [`Event`]s.
//!
//! Whoever listens draws the events; nothing here knows a terminal or a report's form. The record
//! is written before anything is made and again between rounds, as often as that takes a
//! twentieth of the time at most, and says that it is not over: whatever ends a run early, what was
//! measured until then is kept (but for the last moments of one that is killed), and no older
//! record stays in its place.

mod backends;
mod books;
mod ceiling;
mod events;
mod job;
mod memory;
mod opening;
mod preview;
mod rounds;
mod run;
mod schedule;
mod self_test;
mod tables;
mod words;

use std::collections::BTreeSet;
use std::path::PathBuf;

use thiserror::Error;

pub use events::Event;
pub use memory::Memory;
pub use opening::not_begun;
pub use preview::{CasePreview, Preview, expected_time, preview};
pub use run::{Finished, run, unanswerable, with_causes};
pub use self_test::{Line, self_test};
pub use words::{heading, sentence, streams_in_words};

use crate::model::DiskModel;
use crate::plan::{self, Case, Plan};
use crate::record::{Record, RecordError, Selection};
use crate::rig::{Binding, RigError};
use crate::units::counted;

/// Folder for loopback files where nothing else is asked for: on a disk, where `/tmp` often is
/// not.
pub const WORK_DIR: &str = "/var/tmp";

/// What is to be run, and how.
#[derive(Debug, Clone)]
pub struct Request {
    /// The plan.
    pub plan: Plan,
    /// Its path as the person gave it.
    pub plan_path: String,
    /// Its text.
    pub plan_text: String,
    /// Which of its cases.
    pub selection: Selection,
    /// What the command line puts in place of the plan's disks.
    pub bindings: Vec<Binding>,
    /// Simulated disks in virtual time in place of all others: how each behaves.
    pub simulate: Option<DiskModel>,
    /// An earlier record to compare with.
    pub baseline: Option<Record>,
    /// Its path as the person gave it.
    pub baseline_path: Option<String>,
    /// Folder for loopback files.
    pub work_dir: PathBuf,
    /// Where the record is kept up to date; `None` to keep none.
    pub record_path: Option<PathBuf>,
    /// Whether a case that can't run here makes the run an error.
    pub require_all: bool,
}

/// Why a run could not begin.
#[derive(Debug, Error)]
pub enum SessionError {
    /// The selection leaves no case.
    #[error("no case is left to run: {0}")]
    NothingSelected(String),
    /// The command line or the plan asks for what can't be meant here: everything that is wrong.
    #[error("the disks that were asked for can't be used")]
    Usage(Vec<RigError>),
    /// Conditions that no measurement could answer: each with its reason, a sentence each.
    #[error("{} can't be answered by anything that is measured", counted(.0.len(), "condition"))]
    Unanswerable(Vec<String>),
    /// The record can't be written, so that whatever is measured would be lost.
    #[error("the record can't be kept")]
    NotKept(#[source] RecordError),
}

/// The cases that a request selects, as indices into its plan's.
///
/// # Errors
/// When a pattern matches nothing, or nothing is left.
fn selected(plan: &Plan, selection: &Selection) -> Result<Vec<usize>, SessionError> {
    let names = || plan.cases.iter().map(|case| case.id.to_string()).collect::<Vec<_>>().join(", ");
    let takes = |pattern: &str, case: &Case| plan::case_is_wanted(pattern, case);
    let skips = |pattern: &str, case: &Case| plan::case_matches(pattern, &case.id);
    let asked = selection.cases.iter().map(|pattern| (pattern, takes as fn(&str, &Case) -> bool));
    let passed_over = selection.skip.iter().map(|pattern| (pattern, skips as _));
    for (pattern, matches) in asked.chain(passed_over) {
        if !plan.cases.iter().any(|case| matches(pattern, case)) {
            let reason = format!("`{pattern}` matches none of {}", names());
            return Err(SessionError::NothingSelected(reason));
        }
    }
    let wanted = |index: &usize| {
        let case = &plan.cases[*index];
        let asked = selection.cases.iter().any(|pattern| takes(pattern, case));
        (selection.cases.is_empty() || asked)
            && !selection.skip.iter().any(|pattern| skips(pattern, case))
    };
    let left: BTreeSet<_> = (0..plan.cases.len()).filter(wanted).collect();
    if left.is_empty() {
        return Err(SessionError::NothingSelected(format!("all were skipped, of {}", names())));
    }
    Ok(with_references(plan, left))
}

/// Adds the cases that the given ones are compared with: a comparison needs both sides.
fn with_references(plan: &Plan, mut cases: BTreeSet<usize>) -> Vec<usize> {
    for assertion in &plan.assertions {
        if let Some(other) = assertion.condition.test.other_case()
            && cases.contains(&assertion.case)
        {
            cases.insert(other);
        }
    }
    cases.into_iter().collect()
}
