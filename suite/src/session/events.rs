//! What a run says of itself while it goes on.

use super::Preview;
use crate::engine::Progress;
use crate::measure::Measurement;
use crate::record::{Record, RecordError};
use crate::units::{Bytes, Nanos};

/// One step of a run. Borrowed: a listener that keeps something clones it.
#[derive(Debug)]
pub enum Event<'a> {
    /// Everything was looked at, and nothing touched yet.
    Previewed(&'a Preview),
    /// The run begins: its record is there, says that it is not over, and holds no figure yet.
    Begun(&'a Record),
    /// A disk is being written in full.
    Filling {
        /// Which one.
        disk: &'a str,
        /// Bytes written so far, of all disks.
        written: Bytes,
        /// Bytes to write, of all disks.
        total: Bytes,
    },
    /// A round of a case starts.
    RoundStarted {
        /// The case's name.
        case: &'a str,
        /// Round, from 1.
        round: u32,
        /// Rounds and cases done before this one, and known to come in all.
        position: (usize, usize),
        /// How long it will take from start to end; `None` where it ends after an amount.
        expected: Option<Nanos>,
    },
    /// It goes on.
    RoundProgress {
        /// The case's name.
        case: &'a str,
        /// How long it will take from start to end; `None` where it ends after an amount.
        expected: Option<Nanos>,
        /// The share of it that is done, 0 to 1: of its time, or of its amount.
        done: f64,
        /// How it is doing.
        progress: Progress,
    },
    /// It is over.
    RoundFinished {
        /// The case's name.
        case: &'a str,
        /// Round, from 1.
        round: u32,
        /// What was measured, or why nothing was.
        outcome: Result<&'a Measurement, &'a str>,
    },
    /// A case is not run here.
    Skipped {
        /// The case's name.
        case: &'a str,
        /// Every reason.
        reasons: &'a [String],
    },
    /// The record could not be written; the run goes on, and tries again after the next round.
    SaveFailed(&'a RecordError),
}
