//! The processor time of a run.
//!
//! The workers' threads are not all that works: what a ring can't do at once, such as a buffered
//! write, the kernel does on threads of its own (`iou-wrk-…`), which come and go. They belong to
//! the process and count in its time, and in no other thread's. So the time of a run is that of
//! the whole process in the measured window, less that of the thread that watches over the run:
//! whatever else the process does meanwhile would be in it.
//!
//! The watcher reads it when the window opens and when it closes. It is woken for that a moment
//! late at both ends; the kernel's own book of a thread that runs is a tick old at most.

use super::tally::{NEVER, Window};
use crate::measure::CpuUse;
use crate::os::cpu::{CpuTime, process_time, thread_time};

/// Reads the processor time at the edges of a window. To be used by the watching thread.
#[derive(Debug)]
pub(super) struct Meter {
    window: Window,
    before: Option<CpuTime>,
    after: Option<CpuTime>,
}

impl Meter {
    pub(super) fn new(window: Window) -> Self {
        Self { window, before: None, after: None }
    }

    /// When the next reading is due; [`NEVER`] when none is before the end of the run.
    pub(super) fn next(&self) -> u64 {
        match (&self.before, &self.after) {
            (None, _) => self.window.start,
            (Some(_), None) => self.window.end,
            (Some(_), Some(_)) => NEVER,
        }
    }

    /// It is `now`, and the load ends, or ended, at `end`.
    pub(super) fn look(&mut self, now: u64, end: u64) {
        if self.before.is_none() && now >= self.window.start {
            self.before = others_time();
        }
        // A window that closes with the work is not over with the load.
        let over = self.window.end != NEVER && now >= self.window.end.min(end);
        if over && self.before.is_some() && self.after.is_none() {
            self.after = others_time();
        }
    }

    /// The run is over.
    pub(super) fn finish(self) -> CpuUse {
        let after = self.after.or_else(others_time);
        let Some((before, after)) = self.before.zip(after) else { return CpuUse::default() };
        CpuUse {
            user_ns: after.user_ns.saturating_sub(before.user_ns),
            system_ns: after.system_ns.saturating_sub(before.system_ns),
        }
    }
}

/// What the process has used but for the calling thread; `None` if the kernel doesn't say.
fn others_time() -> Option<CpuTime> {
    let (all, own) = process_time().ok().zip(thread_time().ok())?;
    Some(CpuTime {
        user_ns: all.user_ns.saturating_sub(own.user_ns),
        system_ns: all.system_ns.saturating_sub(own.system_ns),
    })
}
