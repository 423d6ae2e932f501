//! What one worker counts, and what of it lies in the measured window.
//!
//! Time moves in steps: a worker reads the clock before it hands a batch to the kernel and after
//! it has reaped one, and all I/Os of a batch share that reading. So the questions of the window
//! are asked once a batch.
//!
//! A completion counts if it falls into the window. A latency counts if its I/O was *started* in
//! the window, however late it ends. A window without a set end (of a job that ends after an
//! amount, or with an `fsync`) counts what was started in it, and closes when all of that is done.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use super::board::Board;
use super::series::Intervals;
use crate::engine::{Job, Length, Pace};
use crate::measure::{IoKind, Recorder, Verified};

/// How long counts may wait to be seen, in nanoseconds, while I/Os come back.
const PUBLISH_EVERY: u64 = 10_000_000;

/// A moment that doesn't come.
pub(super) const NEVER: u64 = u64::MAX;

/// The measured window, in nanoseconds of the run's clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Window {
    /// Its first nanosecond.
    pub start: u64,
    /// The first one after it; [`NEVER`] when it closes with the work.
    pub end: u64,
    /// Completions of I/Os that were started before this don't count.
    pub started_from: u64,
}

impl Window {
    /// That of a job whose start line is at `start`.
    pub(super) fn of(job: &Job, start: u64) -> Self {
        let start = start + job.warmup.0;
        match job.length {
            Length::Time(length) if !job.fsync_at_end => {
                Self { start, end: start + length.0, started_from: 0 }
            }
            _ => Self { start, end: NEVER, started_from: start },
        }
    }
}

/// What the caller sees of a worker while it runs. One writer, relaxed.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(super) struct Lane {
    /// Latencies of the measured window.
    pub latency: [Recorder; IoKind::ALL.len()],
    /// What an open loop has besides.
    pub open: Option<Box<OpenLane>>,
    /// Reads, writes and trims completed since the start line.
    pub completed: AtomicU64,
    /// Bytes that they moved.
    pub bytes: AtomicU64,
    /// Bytes moved in the measured window.
    pub bytes_measured: AtomicU64,
    /// I/Os that came back since the start line: of every kind, and those that failed too.
    pub returned: AtomicU64,
    /// Where the I/Os are that have not.
    pub board: Board,
}

/// Where the time of I/Os that were due at times of their own went, of the measured window.
#[derive(Debug, Default)]
pub(super) struct OpenLane {
    /// From the start of an I/O to its end.
    pub service: Recorder,
    /// From when it was due to its start.
    pub lateness: Recorder,
}

impl Lane {
    /// That of a worker of this job whose I/Os in flight have at most so many parts.
    pub(super) fn new(job: &Job, parts: usize) -> Self {
        let open = matches!(job.pace, Pace::Open { .. }).then(Box::default);
        Self { board: Board::new(parts), open, ..Self::default() }
    }
}

/// I/Os and bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Count {
    pub(super) ios: u64,
    pub(super) bytes: u64,
}

impl Count {
    #[inline]
    pub(super) fn add(&mut self, bytes: u64) {
        self.ios += 1;
        self.bytes += bytes;
    }

    #[inline]
    fn add_all(&mut self, more: Self) {
        self.ios += more.ios;
        self.bytes += more.bytes;
    }
}

/// I/Os of one kind that came back together, and were started together.
#[derive(Debug, Clone, Copy, Default)]
struct Run {
    started: u64,
    count: Count,
}

/// Reads, writes and trims of these counts together.
#[inline]
pub(super) fn data(kinds: &[Count; IoKind::ALL.len()]) -> Count {
    let of = |kind| kinds[kind as usize];
    IoKind::DATA.into_iter().map(of).fold(Count::default(), |sum, one| Count {
        ios: sum.ios + one.ios,
        bytes: sum.bytes + one.bytes,
    })
}

/// Why an I/O failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Failure {
    /// The kernel's error number; 0 where a transfer ended early without one.
    pub(super) errno: i32,
    /// On which member.
    pub(super) member: u32,
    /// Byte offset there.
    pub(super) offset: u64,
}

/// Failures of one kind: how many, and the first of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Fault {
    pub(super) kind: IoKind,
    pub(super) first: Failure,
    pub(super) count: u64,
}

/// The counts of one worker.
#[derive(Debug)]
pub(super) struct Tally<'lane> {
    lane: &'lane Lane,
    window: Window,
    /// The last reading of the clock.
    now: u64,
    /// Whether that lies in the window.
    in_window: bool,
    in_flight: u64,
    /// I/Os in flight, integrated over the window.
    depth_ns: u128,
    /// The same of those that were alone, which can't overlap.
    alone_ns: u64,
    /// What came back and is not counted yet, of each kind.
    runs: [Run; IoKind::ALL.len()],
    /// What counts in the window.
    kinds: [Count; IoKind::ALL.len()],
    /// Reads, writes and trims that don't.
    outside: Count,
    /// Syncs that don't.
    syncs_outside: u64,
    /// When the counts are to be seen again.
    next_publish: u64,
    series: Intervals,
    members: Vec<Count>,
    faults: Vec<Fault>,
    errors: u64,
    short_transfers: u64,
    clock_anomalies: u64,
    /// I/Os that were due in the window and begun.
    due: u64,
    /// I/Os that were due in the window and never begun.
    dropped: u64,
    verified: Option<Verified>,
}

/// The counts of one worker when all of its I/Os are done.
#[derive(Debug)]
pub(super) struct Counted {
    pub(super) kinds: [Count; IoKind::ALL.len()],
    pub(super) series: Intervals,
    pub(super) members: Vec<Count>,
    pub(super) faults: Vec<Fault>,
    pub(super) depth_ns: u128,
    pub(super) short_transfers: u64,
    pub(super) clock_anomalies: u64,
    pub(super) due: u64,
    pub(super) dropped: u64,
    pub(super) verified: Option<Verified>,
    /// The last reading of the clock.
    pub(super) ended: u64,
}

impl<'lane> Tally<'lane> {
    /// One that writes its latencies to `lane`, for a start line at 0 until [`begin`] says
    /// better. Allocates all that counting will need, except for more than 64 ways to fail.
    ///
    /// [`begin`]: Self::begin
    pub(super) fn new(lane: &'lane Lane, job: &Job, members: usize) -> Self {
        Self {
            lane,
            window: Window::of(job, 0),
            now: 0,
            in_window: false,
            in_flight: 0,
            depth_ns: 0,
            alone_ns: 0,
            runs: [Run::default(); IoKind::ALL.len()],
            kinds: [Count::default(); IoKind::ALL.len()],
            outside: Count::default(),
            syncs_outside: 0,
            next_publish: 0,
            series: Intervals::new(job.series_interval.0),
            members: vec![Count::default(); members],
            faults: Vec::with_capacity(64),
            errors: 0,
            short_transfers: 0,
            clock_anomalies: 0,
            due: 0,
            dropped: 0,
            verified: None,
        }
    }

    /// The start line of the job is at `start`: its window follows from that.
    pub(super) fn begin(&mut self, job: &Job, start: u64) {
        self.now = start;
        self.window = Window::of(job, start);
        self.series.begin(self.window.start);
    }

    /// The window begins: what completes now counts.
    pub(super) fn open(&mut self) {
        self.in_window = true;
    }

    /// The window, as it stands.
    pub(super) fn window(&self) -> Window {
        self.window
    }

    /// I/Os that the kernel has.
    #[inline]
    pub(super) fn in_flight(&self) -> u64 {
        self.in_flight
    }

    /// I/Os that failed so far.
    #[inline]
    pub(super) fn errors(&self) -> u64 {
        self.errors
    }

    /// The window ends at `end` if it had a set end, and that was later.
    pub(super) fn close(&mut self, end: u64) {
        if self.window.end != NEVER {
            self.window.end = self.window.end.min(end).max(self.window.start);
        }
    }

    /// So many I/Os go to the kernel now.
    #[inline]
    pub(super) fn submitted(&mut self, now: u64, ios: u64) {
        self.advance(now);
        self.in_flight += ios;
    }

    /// Completions were reaped now; what they were follows.
    #[inline]
    pub(super) fn reaped(&mut self, now: u64) {
        self.advance(now);
        self.in_window = now >= self.window.start && now < self.window.end;
        if self.in_window && self.series.is_over(now) {
            self.next_interval(now);
        }
    }

    /// What comes back from now on belongs to a later interval of the series.
    #[cold]
    fn next_interval(&mut self, now: u64) {
        self.series.close(self.data());
        self.series.move_to(now);
    }

    /// One of them succeeded. Those that were started together have one latency, and are counted
    /// together.
    #[inline]
    pub(super) fn completed(&mut self, kind: IoKind, started: u64, bytes: u64) {
        let mut run = self.runs[kind as usize];
        if run.started != started {
            self.settle(kind);
            run = Run { started, ..Run::default() };
        }
        run.count.add(bytes);
        self.runs[kind as usize] = run;
    }

    /// Counts those of a kind that were started together.
    fn settle(&mut self, kind: IoKind) {
        let run = &mut self.runs[kind as usize];
        let (started, count) = (run.started, std::mem::take(&mut run.count));
        if count.ios > 0 {
            self.count(kind, started, count);
            if self.is_within(started) {
                let latency = self.since(started, count.ios);
                self.lane.latency[kind as usize].record_times(latency, count.ios);
            }
        }
    }

    /// All completions that were reaped have been told: counts them, and lets others see it.
    #[inline]
    pub(super) fn reported(&mut self) {
        for kind in IoKind::ALL {
            if self.runs[kind as usize].count.ios > 0 {
                self.settle(kind);
            }
        }
        self.publish_in_time();
    }

    #[inline]
    fn publish_in_time(&mut self) {
        if self.now >= self.next_publish {
            self.next_publish = self.now + PUBLISH_EVERY;
            self.publish();
        }
    }

    /// One of them succeeded that was due at a time of its own: its latency counts from then.
    #[inline]
    pub(super) fn completed_due(&mut self, kind: IoKind, due: u64, started: u64, bytes: u64) {
        self.count(kind, started, Count { ios: 1, bytes });
        if self.is_within(due) {
            let response = self.since(due, 1);
            self.lane.latency[kind as usize].record(response);
            if let Some(open) = &self.lane.open
                && kind != IoKind::Sync
            {
                self.due += 1;
                open.service.record(self.now.saturating_sub(started));
                open.lateness.record(started.saturating_sub(due));
            }
        }
    }

    /// So many I/Os that were due then, or later in the window, are never begun.
    #[cold]
    pub(super) fn dropped(&mut self, due: u64, count: u64) {
        if self.is_within(due) {
            self.dropped += count;
        }
    }

    /// What was held against what had been written.
    pub(super) fn verified(&mut self, verified: Verified) {
        self.verified = Some(verified);
    }

    /// One succeeded that was alone in flight, from its start to now, all of that in the window:
    /// what [`submitted`](Self::submitted), [`reaped`](Self::reaped),
    /// [`completed`](Self::completed) and [`reported`](Self::reported) do together.
    #[expect(clippy::inline_always, reason = "a call for each I/O, from one place of the loop")]
    #[inline(always)]
    pub(super) fn completed_alone(&mut self, kind: IoKind, started: u64, now: u64, bytes: u64) {
        let latency = now.saturating_sub(started);
        if self.series.is_over(now) {
            self.next_interval(now);
        }
        self.now = now;
        self.alone_ns += latency;
        self.kinds[kind as usize].add(bytes);
        self.lane.latency[kind as usize].record(latency);
        self.publish_in_time();
    }

    #[inline]
    fn count(&mut self, kind: IoKind, started: u64, count: Count) {
        self.in_flight -= count.ios;
        if self.counts(started) {
            self.kinds[kind as usize].add_all(count);
        } else if kind == IoKind::Sync {
            self.syncs_outside += count.ios;
        } else {
            self.outside.add_all(count);
        }
    }

    /// Whether a time is within the window.
    #[inline]
    fn is_within(&self, time: u64) -> bool {
        time >= self.window.start && time < self.window.end
    }

    /// The time since then, for so many I/Os.
    #[inline]
    fn since(&mut self, time: u64, ios: u64) -> u64 {
        let since = self.now.checked_sub(time);
        if since.is_none() {
            self.clock_anomalies += ios;
        }
        since.unwrap_or(0)
    }

    /// The part of one of them on one member of a stripe is done.
    #[inline]
    pub(super) fn part_completed(&mut self, member: u32, started: u64, bytes: u64) {
        if self.counts(started) {
            self.members[member as usize].add(bytes);
        }
    }

    /// One of them failed. It has no latency: what came of it isn't what was asked for.
    #[cold]
    pub(super) fn failed(&mut self, kind: IoKind, failure: Failure) {
        self.in_flight -= 1;
        self.errors += 1;
        let same = |fault: &&mut Fault| fault.kind == kind && fault.first.errno == failure.errno;
        match self.faults.iter_mut().find(same) {
            Some(fault) => fault.count += 1,
            None => self.faults.push(Fault { kind, first: failure, count: 1 }),
        }
    }

    /// The kernel cut a transfer short, and it was finished by asking for the rest.
    #[cold]
    pub(super) fn short_transfer(&mut self) {
        self.short_transfers += 1;
    }

    /// Lets the caller see the counts.
    fn publish(&self) {
        let measured = self.data();
        let syncs = self.syncs_outside + self.kinds[IoKind::Sync as usize].ios;
        let completed = measured.ios + self.outside.ios;
        self.lane.completed.store(completed, Relaxed);
        self.lane.bytes.store(measured.bytes + self.outside.bytes, Relaxed);
        self.lane.bytes_measured.store(measured.bytes, Relaxed);
        self.lane.returned.store(completed + syncs + self.errors, Relaxed);
    }

    /// All is done. The depth was 0 from the last reading of the clock on.
    pub(super) fn finish(mut self) -> Counted {
        self.reported();
        self.publish();
        self.series.close(self.data());
        if self.members.len() == 1 {
            self.members[0] = self.data();
        }
        Counted {
            kinds: self.kinds,
            series: self.series,
            members: self.members,
            faults: self.faults,
            depth_ns: self.depth_ns + u128::from(self.alone_ns),
            short_transfers: self.short_transfers,
            clock_anomalies: self.clock_anomalies,
            due: self.due,
            dropped: self.dropped,
            verified: self.verified,
            ended: self.now,
        }
    }

    /// All of the window but syncs.
    #[inline]
    fn data(&self) -> Count {
        data(&self.kinds)
    }

    #[inline]
    fn counts(&self, started: u64) -> bool {
        self.in_window && started >= self.window.started_from
    }

    #[inline]
    fn advance(&mut self, now: u64) {
        debug_assert!(self.runs.iter().all(|run| run.count.ios == 0), "all is counted");
        let (from, to) = (self.now.max(self.window.start), now.min(self.window.end));
        self.depth_ns += u128::from(self.in_flight) * u128::from(to.saturating_sub(from));
        self.now = now;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::tests::job;
    use crate::units::{Bytes, Nanos};

    fn timed() -> Job {
        let mut job = job();
        (job.warmup, job.length) = (Nanos(100), Length::Time(Nanos(1000)));
        job.series_interval = Nanos(250);
        job
    }

    #[test]
    fn the_window_follows_the_warm_up() {
        assert_eq!(Window::of(&timed(), 5), Window { start: 105, end: 1105, started_from: 0 });
        let mut amount = timed();
        amount.length = Length::Bytes(Bytes(4096));
        let open = Window { start: 105, end: NEVER, started_from: 105 };
        assert_eq!(Window::of(&amount, 5), open);
        let mut flushed = timed();
        flushed.fsync_at_end = true;
        assert_eq!(Window::of(&flushed, 5), open);
    }

    /// Starts one I/O at the first time and completes it at the second.
    fn one(tally: &mut Tally, started: u64, ended: u64) {
        tally.submitted(started, 1);
        tally.reaped(ended);
        tally.completed(IoKind::Read, started, 10);
        tally.reported();
    }

    #[test]
    fn completions_count_by_their_end_and_latencies_by_their_start() {
        let lane = Lane::default();
        let mut tally = Tally::new(&lane, &timed(), 1);
        tally.begin(&timed(), 0);
        one(&mut tally, 0, 99); // before the window
        one(&mut tally, 99, 100); // completes at its first nanosecond
        one(&mut tally, 100, 1099); // within
        one(&mut tally, 1099, 5000); // a stall over the end
        one(&mut tally, 5000, 5001); // after it
        let counted = tally.finish();
        assert_eq!(counted.kinds[0], Count { ios: 2, bytes: 20 });
        assert_eq!(counted.members[0], Count { ios: 2, bytes: 20 });
        let latency = lane.latency[0].snapshot();
        assert_eq!((latency.count(), latency.max()), (2, Some(3901)));
        assert_eq!(lane.completed.load(Relaxed), 5);
        assert_eq!(lane.bytes_measured.load(Relaxed), 20);
        // One in flight all through the window.
        assert_eq!(counted.depth_ns, 1000);
        assert_eq!(counted.series.finish(1000, 250).completed, [1, 0, 0, 1]);
    }

    #[test]
    fn an_open_window_counts_all_that_was_started_in_it() {
        let lane = Lane::default();
        let mut job = timed();
        job.length = Length::Bytes(Bytes(4096));
        let mut tally = Tally::new(&lane, &job, 1);
        one(&mut tally, 50, 200); // started in the warm-up
        one(&mut tally, 200, 9_000);
        tally.close(300); // has no say here
        one(&mut tally, 9_000, 10_100);
        let counted = tally.finish();
        assert_eq!(counted.kinds[0].ios, 2);
        assert_eq!(lane.latency[0].snapshot().count(), 2);
        assert_eq!(counted.depth_ns, 10_000);
        assert_eq!(counted.ended, 10_100);
    }

    #[test]
    fn a_stop_moves_the_end_nearer_and_never_before_the_start() {
        let lane = Lane::default();
        let mut tally = Tally::new(&lane, &timed(), 1);
        tally.close(600);
        one(&mut tally, 500, 601);
        assert_eq!(tally.window().end, 600);
        tally.close(20);
        assert_eq!(tally.window().end, 100);
        assert_eq!(tally.finish().kinds[0].ios, 0);
    }

    #[test]
    fn depth_is_integrated_over_the_window_alone() {
        let lane = Lane::default();
        let mut tally = Tally::new(&lane, &timed(), 1);
        tally.submitted(0, 4); // 4 from 100 to 600
        tally.reaped(600);
        tally.completed(IoKind::Read, 0, 1);
        tally.completed(IoKind::Read, 0, 1); // 2 from 600 to 1100
        tally.reported();
        tally.reaped(2000);
        assert_eq!(tally.in_flight, 2);
        assert_eq!(tally.finish().depth_ns, 4 * 500 + 2 * 500);
    }

    #[test]
    fn a_clock_that_goes_back_is_counted_and_harms_nothing() {
        let lane = Lane::default();
        let mut tally = Tally::new(&lane, &timed(), 1);
        for step in [1, 1_000_000_000] {
            let started = 200 + step;
            tally.submitted(started, 1);
            tally.reaped(200);
            tally.completed(IoKind::Write, started.min(1000), 1);
            tally.reported();
        }
        let counted = tally.finish();
        assert_eq!(counted.clock_anomalies, 2);
        let latency = lane.latency[1].snapshot();
        assert_eq!((latency.count(), latency.max()), (2, Some(0)));
        assert_eq!(counted.depth_ns, 0);
    }

    #[test]
    fn failures_are_counted_by_kind_and_number() {
        let lane = Lane::default();
        let mut tally = Tally::new(&lane, &timed(), 2);
        let failure = |errno, offset| Failure { errno, member: 1, offset };
        tally.submitted(200, 4);
        tally.reaped(300);
        tally.failed(IoKind::Read, failure(5, 4096));
        tally.failed(IoKind::Read, failure(5, 8192));
        tally.failed(IoKind::Read, failure(0, 0));
        tally.failed(IoKind::Write, failure(5, 12288));
        assert_eq!((tally.errors(), tally.in_flight), (4, 0));
        let counts: Vec<_> =
            tally.finish().faults.iter().map(|f| (f.kind, f.first, f.count)).collect();
        assert_eq!(
            counts,
            [
                (IoKind::Read, failure(5, 4096), 2),
                (IoKind::Read, failure(0, 0), 1),
                (IoKind::Write, failure(5, 12288), 1),
            ]
        );
        assert_eq!(lane.latency[0].snapshot().count(), 0);
    }
}
