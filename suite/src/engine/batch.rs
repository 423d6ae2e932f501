//! How many I/Os are handed over at a time, and how many completions are waited for.
//!
//! Handing over all that is free at once starves a real disk: it has nothing to do while the
//! batch is put together, and the kernel may hold it back until its end. One at a time costs a
//! system call each. So what is free goes in batches of at most a quarter of the depth; unless
//! again and again nothing is left in flight when completions are looked for. What completes as
//! it is handed over, such as reads of the page cache, waits for nothing but the system call, and
//! goes in whole depths.
//!
//! Completions that come in a bunch may as well be waited for together: that saves system calls
//! and takes nothing from the disk. Those that come singly may not: the disk would have less to
//! do than was asked for. So the number waited for follows what comes: it grows while at least
//! twice as many are there as were waited for, and shrinks when there are no more than those.

/// The most I/Os in one batch: the cost of a system call is well shared by then.
const QUARTER_MAX: usize = 32;

/// The most of all, where nothing is left in flight: beyond it the call doesn't count any more, and
/// the caches do.
pub(super) const BATCH_MAX: usize = 256;

/// The batches of one worker.
#[derive(Debug)]
pub(super) struct Batch {
    depth: usize,
    /// The most I/Os to hand over at a time: a quarter of the depth, or all of it.
    max: usize,
    wait_for: usize,
    /// How often in a row nothing was left in flight.
    emptied: u32,
}

/// After so many times that nothing was left in flight, that is taken to be how it goes.
const OFTEN: u32 = 16;

impl Batch {
    /// For a worker with so many I/Os in flight.
    pub(super) fn new(depth: usize) -> Self {
        Self { depth, max: quarter(depth), wait_for: 1, emptied: 0 }
    }

    /// How many I/Os to hand over at a time.
    pub(super) fn submit_max(&self) -> usize {
        self.max
    }

    /// How many completions to wait for.
    #[inline]
    pub(super) fn wait_for(&self) -> usize {
        self.wait_for
    }

    /// So many completions were there after the last wait, and so many I/Os are left in flight.
    #[inline]
    pub(super) fn reaped(&mut self, completions: usize, left: usize) {
        if left > 0 {
            if self.emptied > 0 {
                (self.emptied, self.max) = (0, quarter(self.depth));
            }
        } else if self.emptied < OFTEN {
            self.emptied += 1;
        } else {
            self.max = self.depth.min(BATCH_MAX);
        }
        if completions >= 2 * self.wait_for {
            self.wait_for = (self.wait_for + 1).min(self.max);
        } else if completions <= self.wait_for {
            self.wait_for = (self.wait_for - 1).max(1);
        }
    }
}

/// A quarter of the depth, within bounds.
fn quarter(depth: usize) -> usize {
    (depth / 4).clamp(1, QUARTER_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is waited for after many waits, when completions come in bunches of this size.
    fn settled(depth: usize, bunch: usize) -> usize {
        let mut batch = Batch::new(depth);
        for _ in 0..1000 {
            let waited = batch.wait_for();
            assert!((1..=batch.submit_max()).contains(&waited));
            batch.reaped(waited.next_multiple_of(bunch), 1);
        }
        batch.wait_for()
    }

    #[test]
    fn batches_are_a_quarter_of_the_depth() {
        for (depth, max) in [(1, 1), (3, 1), (4, 1), (8, 2), (32, 8), (128, 32), (4096, 32)] {
            assert_eq!(Batch::new(depth).submit_max(), max);
        }
    }

    #[test]
    fn what_comes_singly_is_waited_for_singly() {
        for depth in [1, 2, 32, 4096] {
            assert_eq!(settled(depth, 1), 1);
        }
    }

    #[test]
    fn what_comes_in_bunches_is_waited_for_together_and_never_two_bunches() {
        assert_eq!(settled(32, 4), 3);
        assert_eq!(settled(32, 8), 5);
        assert_eq!(settled(32, 30), 8);
        assert_eq!(settled(128, 8), 5);
    }

    #[test]
    fn what_completes_at_once_goes_in_whole_depths_until_something_does_not() {
        for (depth, most) in [(1, 1), (32, 32), (128, 128), (4096, BATCH_MAX)] {
            let mut batch = Batch::new(depth);
            for _ in 0..100 {
                batch.reaped(batch.submit_max(), 0);
            }
            assert_eq!(batch.submit_max(), most);
            batch.reaped(1, 1);
            assert_eq!(batch.submit_max(), quarter(depth));
        }
    }
}
