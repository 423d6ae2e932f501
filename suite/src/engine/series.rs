//! Completions over time, in memory that was had before the start.
//!
//! The number of intervals is bounded: a window that outlasts them has each two neighbours made
//! one, so that a series is coarser for a longer run and never larger.

use crate::measure::Series;
use crate::units::Nanos;

use super::tally::Count;

/// How many intervals there are room for: 27 minutes in steps of 100 ms, 256 KiB a worker.
const ROOM: usize = 1 << 14;

/// Counts of equal intervals from the start of a window.
#[derive(Debug)]
pub(super) struct Intervals {
    start: u64,
    interval: u64,
    counts: Box<[Count]>,
    /// The one that is being counted into, and the moment at which the next begins.
    current: usize,
    current_end: u64,
    /// All that was counted before it.
    before: Count,
}

impl Intervals {
    pub(super) fn new(interval: u64) -> Self {
        let interval = interval.max(1);
        Self {
            start: 0,
            interval,
            counts: vec![Count::default(); ROOM].into(),
            current: 0,
            current_end: interval,
            before: Count::default(),
        }
    }

    /// The window begins at `start`. Nothing has been counted before.
    pub(super) fn begin(&mut self, start: u64) {
        self.start = start;
        self.current_end = start + self.interval;
    }

    /// Whether the current interval is over at `now`, so that it is to be [`close`](Self::close)d.
    #[inline]
    pub(super) fn is_over(&self, now: u64) -> bool {
        now >= self.current_end
    }

    /// What was counted since the last time belongs to the current interval; `total` is all that
    /// was counted so far. So there is nothing to do for each I/O.
    pub(super) fn close(&mut self, total: Count) {
        let current = &mut self.counts[self.current];
        current.ios += total.ios - self.before.ios;
        current.bytes += total.bytes - self.before.bytes;
        self.before = total;
    }

    /// Adds what another worker did in the same window.
    pub(super) fn merge(&mut self, mut other: Self) {
        // Both are the job's interval, doubled some times.
        while self.interval < other.interval {
            self.fold();
        }
        while other.interval < self.interval {
            other.fold();
        }
        for (mine, theirs) in self.counts.iter_mut().zip(&other.counts) {
            mine.ios += theirs.ios;
            mine.bytes += theirs.bytes;
        }
    }

    /// The series of a window of this length; the job asked for intervals of `asked`.
    pub(super) fn finish(mut self, window: u64, asked: u64) -> Series {
        debug_assert!(self.interval >= asked);
        while window.div_ceil(self.interval) > ROOM as u64 {
            self.fold();
        }
        // What was reaped at the very end lies at the border of the interval after it.
        let len = window.div_ceil(self.interval) as usize;
        let (kept, beyond) = self.counts.split_at_mut(len);
        if let Some(last) = kept.last_mut() {
            last.ios += beyond.iter().map(|count| count.ios).sum::<u64>();
            last.bytes += beyond.iter().map(|count| count.bytes).sum::<u64>();
        }
        Series {
            interval_ns: Nanos(self.interval),
            window_ns: Nanos(window),
            completed: kept.iter().map(|count| count.ios).collect(),
            bytes: kept.iter().map(|count| count.bytes).collect(),
        }
    }

    /// Makes the interval that holds `now`, which is not before the start, the current one.
    pub(super) fn move_to(&mut self, now: u64) {
        while (now - self.start) / self.interval >= ROOM as u64 {
            self.fold();
        }
        self.current = ((now - self.start) / self.interval) as usize;
        self.current_end = self.start + (self.current as u64 + 1) * self.interval;
    }

    /// Makes each two neighbours one.
    fn fold(&mut self) {
        for index in 0..ROOM / 2 {
            let (a, b) = (self.counts[2 * index], self.counts[2 * index + 1]);
            self.counts[index] = Count { ios: a.ios + b.ios, bytes: a.bytes + b.bytes };
        }
        self.counts[ROOM / 2..].fill(Count::default());
        self.interval *= 2;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Counts completions of so many bytes.
    struct Counting {
        intervals: Intervals,
        total: Count,
    }

    impl Counting {
        fn new(interval: u64) -> Self {
            Self { intervals: Intervals::new(interval), total: Count::default() }
        }

        fn add(&mut self, now: u64, bytes: u64) {
            if self.intervals.is_over(now) {
                self.intervals.close(self.total);
                self.intervals.move_to(now);
            }
            self.total.add(bytes);
        }

        fn done(mut self) -> Intervals {
            self.intervals.close(self.total);
            self.intervals
        }
    }

    #[test]
    fn completions_fall_into_their_intervals() {
        let mut counting = Counting::new(100);
        counting.intervals.begin(1000);
        for now in [1000, 1099, 1100, 1350] {
            counting.add(now, 10);
        }
        let series = counting.done().finish(350, 100);
        assert_eq!(series.completed, [2, 1, 0, 1]);
        assert_eq!(series.bytes, [20, 10, 0, 10]);
        assert_eq!((series.interval_ns, series.window_ns), (Nanos(100), Nanos(350)));
    }

    #[test]
    fn the_last_completion_of_an_open_window_is_not_lost() {
        let mut counting = Counting::new(100);
        counting.add(300, 7);
        let series = counting.done().finish(300, 100);
        assert_eq!(series.completed, [0, 0, 1]);
    }

    #[test]
    fn a_long_window_has_coarser_intervals_and_loses_nothing() {
        let mut long = Counting::new(1);
        let mut short = Counting::new(1);
        for now in 0..100_000 {
            long.add(now, 1);
            if now < 1000 {
                short.add(now, 1);
            }
        }
        let mut short = short.done();
        short.merge(long.done());
        let series = short.finish(100_000, 1);
        assert_eq!(series.interval_ns, Nanos(8));
        assert_eq!(series.completed.len(), 12_500);
        assert_eq!(series.completed[..125], [16; 125]);
        assert!(series.completed[125..].iter().all(|count| *count == 8));
    }

    #[test]
    fn a_window_of_no_length_has_no_intervals() {
        assert_eq!(Intervals::new(0).finish(0, 0).completed, [0_u64; 0]);
    }
}
