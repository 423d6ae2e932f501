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
//! and takes nothing from the storage. Those that come singly may not: each would be seen late by
//! the time until the last of them. So the number waited for follows what comes: it grows while
//! at least twice as many are there as were waited for, and shrinks when there are no more. Where
//! they come faster than they are worth a system call each, a few are waited for in any case: so
//! few that the mean latency grows by less than 1 %.

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
    /// When completions were there last, and the mean time for each since then and before.
    last: u64,
    each_ns: u64,
    /// How often in a row nothing was left in flight.
    emptied: u32,
}

/// Completions that come within this time may be waited for together: several times what a system
/// call costs.
const TOGETHER_NS: u64 = 50_000;

/// What is taken for the distance of completions before any is known: of slow ones.
const SLOW_NS: u64 = 1_000_000;

/// How many of the last completions say how fast they come.
const REMEMBERED: u64 = 64;

/// After so many times that nothing was left in flight, that is taken to be how it goes.
const OFTEN: u32 = 16;

impl Batch {
    /// For a worker with so many I/Os in flight.
    pub(super) fn new(depth: usize) -> Self {
        Self { depth, max: quarter(depth), wait_for: 1, last: 0, each_ns: SLOW_NS, emptied: 0 }
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

    /// So many completions were there at `now`, after the last wait, and so many I/Os are left in
    /// flight.
    #[inline]
    pub(super) fn reaped(&mut self, now: u64, completions: usize, left: usize) {
        if left > 0 {
            if self.emptied > 0 {
                (self.emptied, self.max) = (0, quarter(self.depth));
            }
        } else if self.emptied < OFTEN {
            self.emptied += 1;
        } else {
            self.max = self.depth.min(BATCH_MAX);
        }
        // A batch that is as large as what is remembered weighs as much.
        let passed = if self.last == 0 { SLOW_NS } else { now.saturating_sub(self.last) };
        self.last = now;
        let (seen, known) = (completions as u64, REMEMBERED);
        self.each_ns = (self.each_ns.saturating_mul(known).saturating_add(passed)) / (known + seen);
        let at_least = match TOGETHER_NS / self.each_ns.max(1) {
            slow if slow < 2 => 1,
            fast => (fast as usize).min(few(self.depth)),
        };
        let wanted = if completions >= 2 * self.wait_for {
            self.wait_for + 1
        } else if completions <= self.wait_for {
            self.wait_for - 1
        } else {
            self.wait_for
        };
        self.wait_for = wanted.clamp(at_least, quarter(self.depth).max(at_least));
    }
}

/// So many completions of a depth that waiting for them all makes the mean latency less than 1 %
/// longer: of `n`, each waits for half of the others on average, and all of the depth passes in
/// one latency, so that `(n - 1) / 2 <= depth / 100`.
fn few(depth: usize) -> usize {
    (1 + depth / 50).min(QUARTER_MAX)
}

/// A quarter of the depth, within bounds.
fn quarter(depth: usize) -> usize {
    (depth / 4).clamp(1, QUARTER_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is waited for after many waits, when completions come in bunches of this size, at this
    /// distance for each of them.
    fn settled(depth: usize, bunch: usize, each_ns: u64) -> usize {
        let mut batch = Batch::new(depth);
        let mut now = 1_000_000;
        for _ in 0..10_000 {
            let waited = batch.wait_for();
            assert!((1..=batch.submit_max()).contains(&waited));
            let come = waited.next_multiple_of(bunch);
            now += each_ns * come as u64;
            batch.reaped(now, come, 1);
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
    fn what_comes_singly_is_waited_for_singly_unless_it_comes_fast() {
        for depth in [1, 2, 8, 32, 4096] {
            for each in [26_000, 100_000, 1_000_000, 1_000_000_000_000] {
                assert_eq!(settled(depth, 1, each), 1);
            }
        }
        for (depth, each, waited) in
            [(32, 100, 1), (49, 100, 1), (50, 100, 2), (128, 10_000, 3), (4096, 1000, 32)]
        {
            assert_eq!(settled(depth, 1, each), waited, "depth {depth}");
        }
    }

    #[test]
    fn what_comes_in_bunches_is_waited_for_together_and_never_two_bunches() {
        for each in [1000, 100_000] {
            assert_eq!(settled(32, 4, each), 3);
            assert_eq!(settled(32, 8, each), 5);
            assert_eq!(settled(32, 30, each), 8);
        }
    }

    #[test]
    fn a_storage_that_becomes_slow_is_no_longer_kept_waiting() {
        let mut batch = Batch::new(1000);
        let mut now = 0;
        let mut one_by_one = |each: u64| {
            for _ in 0..2000 {
                let waited = batch.wait_for();
                now += waited as u64 * each;
                batch.reaped(now, waited, 1);
            }
            batch.wait_for()
        };
        assert_eq!([one_by_one(1000), one_by_one(1_000_000)], [21, 1]);
    }

    #[test]
    fn what_completes_at_once_goes_in_whole_depths_until_something_does_not() {
        for (depth, most) in [(1, 1), (32, 32), (128, 128), (4096, BATCH_MAX)] {
            let mut batch = Batch::new(depth);
            for _ in 0..100 {
                batch.reaped(1, batch.submit_max(), 0);
            }
            assert_eq!(batch.submit_max(), most);
            batch.reaped(2, 1, 1);
            assert_eq!(batch.submit_max(), quarter(depth));
        }
    }
}
