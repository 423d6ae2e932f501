//! What the caller is told while a job runs.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use super::tally::{Lane, Window};
use crate::engine::{Job, Progress};
use crate::measure::{Histogram, IoKind};
use crate::units::{Nanos, Percentile};

/// The percentile that is shown.
const P99: Percentile = Percentile(990_000);

/// Reads the lanes of a run, and remembers what was reported last.
pub(super) struct Watch<'run> {
    lanes: Vec<&'run Lane>,
    start: u64,
    window_start: u64,
    last: u64,
    completed: u64,
    bytes: u64,
}

impl<'run> Watch<'run> {
    /// One for a run whose start line was at `start`.
    pub(super) fn new(job: &Job, lanes: Vec<&'run Lane>, start: u64) -> Self {
        let window_start = Window::of(job, start).start;
        Self { lanes, start, window_start, last: start, completed: 0, bytes: 0 }
    }

    /// How the run is doing now.
    pub(super) fn report(&mut self, now: u64) -> Progress {
        let sum = |of: fn(&Lane) -> &AtomicU64| {
            self.lanes.iter().map(|lane| of(lane).load(Relaxed)).sum::<u64>()
        };
        let (completed, bytes) = (sum(|lane| &lane.completed), sum(|lane| &lane.bytes));
        let progress = Progress {
            elapsed: Nanos(now.saturating_sub(self.start)),
            measuring: now >= self.window_start,
            completed: completed - self.completed,
            bytes: bytes - self.bytes,
            since_last: Nanos(now.saturating_sub(self.last)),
            bytes_measured: sum(|lane| &lane.bytes_measured),
            p99_ns: self.latency().quotable_percentile(P99),
            read_back: None,
        };
        (self.last, self.completed, self.bytes) = (now, completed, bytes);
        progress
    }

    /// Latencies of reads, writes and trims so far.
    fn latency(&self) -> Histogram {
        let mut all = Histogram::default();
        for lane in &self.lanes {
            for kind in IoKind::DATA {
                all.merge(&lane.latency[kind as usize].snapshot());
            }
        }
        all
    }
}
