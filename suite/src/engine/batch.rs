//! How many I/Os are handed over at a time, and how many completions are waited for.
//!
//! Handing over all that is free at once starves a real disk: it has nothing to do while the
//! batch is put together, and the kernel may hold it back until its end. So the free ones go in
//! batches of at most a quarter of the depth.

/// The most I/Os in one batch: the cost of a system call is well shared by then.
const BATCH_MAX: usize = 32;

/// The batches of one worker.
#[derive(Debug)]
pub(super) struct Batch {
    submit_max: usize,
    wait_for: usize,
}

impl Batch {
    /// For a worker with so many I/Os in flight.
    pub(super) fn new(depth: usize) -> Self {
        let submit_max = (depth / 4).clamp(1, BATCH_MAX);
        let wait_for = std::env::var("WAIT").ok().and_then(|w| w.parse().ok()).unwrap_or(1);
        let submit_max =
            std::env::var("SUBMIT").ok().and_then(|w| w.parse().ok()).unwrap_or(submit_max);
        Self { submit_max, wait_for }
    }

    /// How many I/Os to hand over at a time.
    pub(super) fn submit_max(&self) -> usize {
        self.submit_max
    }

    /// How many completions to wait for.
    pub(super) fn wait_for(&self) -> usize {
        self.wait_for
    }

    pub(super) fn reaped(&mut self, _completions: usize, _now: u64) {}
}
