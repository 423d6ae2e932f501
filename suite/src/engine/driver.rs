//! What a worker does in every back end: keeps to the run's time line, draws what comes next,
//! and counts.
//!
//! The time line: all start together; warm-up; the measured window; cool-down, during which the
//! load goes on; then nothing more is submitted and what is in flight is waited for. A job that
//! ends after an amount has no cool-down: its load ends with the amount.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use super::offsets::Positions;
use super::pace::{Schedule, mean_len};
use super::requests::{Amount, Request, Source, source};
use super::tally::{Counted, Failure, Lane, NEVER, Tally};
use crate::engine::{Job, Length};
use crate::measure::{IoKind, Verified};

/// After so many failed I/Os of one worker the whole job ends early: it can't pass any more, and
/// a device that fails at once would otherwise be asked as fast as the machine can.
pub(super) const ERRORS_MAX: u64 = 1000;

/// The most I/Os that are drawn before the first of them is begun.
pub(super) const AHEAD: usize = 16;

/// What the workers of a run share.
#[derive(Debug)]
pub(super) struct Common {
    /// When to stop submitting, on the run's clock. Set back to stop early. Jobs side by side
    /// have one end.
    end: Arc<AtomicU64>,
    /// What is left of the amount: one for all workers, or one for each.
    amounts: Box<[Amount]>,
    positions: Positions,
}

impl Common {
    /// That of a run of this job.
    pub(super) fn new(job: &Job) -> Self {
        Self {
            end: Arc::new(AtomicU64::new(NEVER)),
            amounts: Amount::of(job),
            positions: Positions::default(),
        }
    }

    /// Those of jobs that run side by side, and end together.
    pub(super) fn of_all(jobs: &[Job]) -> Vec<Self> {
        let end = Arc::new(AtomicU64::new(NEVER));
        jobs.iter().map(|job| Self { end: Arc::clone(&end), ..Self::new(job) }).collect()
    }

    /// The start line is at `start`. Called once, before any worker begins.
    pub(super) fn start(&self, job: &Job, start: u64) {
        if let Length::Time(length) = job.length {
            let cooldown = if job.fsync_at_end { 0 } else { job.cooldown.0 };
            self.stop(start + job.warmup.0 + length.0 + cooldown);
        }
    }

    /// Nothing is to be submitted from this moment on.
    pub(super) fn stop(&self, at: u64) {
        self.end.fetch_min(at, Relaxed);
    }

    /// Bytes of a shared amount that are left for each I/O that may be drawn ahead: half of what
    /// there is goes to all workers alike.
    fn for_each_ahead(&self, job: &Job) -> u64 {
        let largest = job.blocks.iter().map(|mix| mix.block.0).max().unwrap_or(1);
        let sharers = if self.amounts.len() > 1 { 1 } else { u64::from(job.workers) };
        match sharers {
            1 => 1,
            _ => largest.saturating_mul(2 * sharers).max(1),
        }
    }

    /// What this worker takes from.
    fn amount(&self, worker: u32) -> &Amount {
        &self.amounts[worker as usize % self.amounts.len()]
    }

    /// When the load ends, or ended.
    pub(super) fn end(&self) -> u64 {
        self.end.load(Relaxed)
    }
}

/// How many I/Os a worker may draw at a time. Where all take turns at one order, another would do
/// later ones first.
fn ahead(job: &Job) -> usize {
    let in_turn = job.once || !job.random;
    if in_turn && job.workers > 1 && !job.partitioned { 1 } else { AHEAD }
}

/// How far a worker is along the time line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Warmup,
    Window,
    After,
}

/// What one worker has done, when all of its I/Os are done.
#[derive(Debug)]
pub(super) struct Done {
    pub(super) counted: Counted,
}

/// The common part of one worker.
pub(super) struct Driver<'run> {
    common: &'run Common,
    amount: &'run Amount,
    source: Box<dyn Source>,
    /// When the next is due; `None` where I/Os follow each other.
    schedule: Option<Schedule>,
    /// Mean length of the I/Os, for those that are never begun.
    mean_len: u32,
    /// I/Os to draw ahead of the one that is begun, and the bytes of an amount for each of them
    /// that leave as many for every other worker.
    ahead: usize,
    for_each_ahead: u64,
    tally: Tally<'run>,
    phase: Phase,
    /// When the phase ends.
    next_edge: u64,
    /// The same while that phase is the window, and 0 in all others.
    within_until: u64,
    /// When the load ends, as in what is common to all.
    end: Arc<AtomicU64>,
    submitting: bool,
    by_amount: bool,
}

impl<'run> Driver<'run> {
    /// The driver of a worker of this job. The start line is set by [`start`](Self::start).
    pub(super) fn new(
        job: &Job,
        worker: u32,
        members: usize,
        common: &'run Common,
        lane: &'run Lane,
    ) -> Self {
        Self {
            common,
            amount: common.amount(worker),
            source: source(job, worker, &common.positions),
            schedule: Schedule::new(job, worker),
            mean_len: mean_len(job),
            ahead: ahead(job),
            for_each_ahead: common.for_each_ahead(job),
            tally: Tally::new(lane, job, members),
            phase: Phase::Warmup,
            next_edge: 0,
            within_until: 0,
            end: Arc::clone(&common.end),
            submitting: true,
            by_amount: matches!(job.length, Length::Bytes(_)),
        }
    }

    /// The start line was at `start`.
    pub(super) fn start(&mut self, job: &Job, start: u64) {
        self.tally.begin(job, start);
        if let Some(schedule) = &mut self.schedule {
            schedule.start(start);
        }
        self.next_edge = self.tally.window().start;
        self.look_at(start);
    }

    /// Whether there is more to submit.
    #[inline]
    pub(super) fn submitting(&self) -> bool {
        self.submitting
    }

    /// Draws the next I/Os and returns how many there are; fewer than asked for only when
    /// nothing more is to be submitted.
    #[inline]
    pub(super) fn draw(&mut self, out: &mut [Request]) -> usize {
        if !self.submitting {
            return 0;
        }
        if self.by_amount && self.phase == Phase::Window {
            let drawn = self.source.fill_within(self.amount, out);
            self.submitting = drawn == out.len();
            return drawn;
        }
        self.source.fill(out);
        out.len()
    }

    /// As [`draw`](Self::draw), for a worker that does one after another: as many as nobody else
    /// could want, since what is drawn by one is done by no other.
    pub(super) fn draw_ahead(&mut self, out: &mut [Request]) -> usize {
        let most = match (self.by_amount, self.phase) {
            (false, _) => self.ahead,
            // What is drawn before the window is not of the amount, and must be begun before it.
            (true, Phase::Warmup) => 1,
            (true, _) => {
                let fair = self.amount.left() / self.for_each_ahead;
                self.ahead.min(usize::try_from(fair).unwrap_or(usize::MAX)).max(1)
            }
        };
        let most = out.len().min(most);
        self.draw(&mut out[..most])
    }

    /// Whether I/Os are due at times of their own, so that they are to be drawn by
    /// [`draw_due`](Self::draw_due).
    pub(super) fn is_paced(&self) -> bool {
        self.schedule.is_some()
    }

    /// Draws the next I/Os as far as they are due, and says when each was. There may be fewer than
    /// asked for though more are to be submitted later.
    pub(super) fn draw_due(&mut self, now: u64, out: &mut [Request], dues: &mut [u64]) -> usize {
        self.look_at(now);
        let Some(mut schedule) = self.schedule.take() else {
            let due = self.in_its_phase(now);
            dues.fill(due);
            return self.draw(out);
        };
        let mut drawn = 0;
        while drawn < out.len() && self.submitting {
            while let Some(due) = schedule.pass_over(now, self.mean_len) {
                self.tally.dropped(due, 1);
            }
            let due = schedule.due(now, self.tally.in_flight() + drawn as u64);
            if due > now || self.draw(&mut out[drawn..=drawn]) == 0 {
                break;
            }
            let Request { kind, len, .. } = out[drawn];
            schedule.begun(kind, len);
            dues[drawn] = self.in_its_phase(due);
            drawn += 1;
        }
        self.schedule = Some(schedule);
        drawn
    }

    /// When there is something to do next, at the latest: an I/O is due, or the load ends.
    pub(super) fn next_due(&mut self, now: u64) -> u64 {
        let in_flight = self.tally.in_flight();
        let due = self.schedule.as_mut().map_or(now, |schedule| schedule.due(now, in_flight));
        due.min(self.common.end())
    }

    /// So many of them go to the kernel now. Returns the time at which they count as started: what
    /// was drawn in the warm-up and so is not part of an amount stays in the warm-up, though the
    /// window may have opened since it was drawn.
    #[inline]
    pub(super) fn submitted(&mut self, now: u64, ios: u64) -> u64 {
        self.tally.submitted(now, ios);
        let started = self.in_its_phase(now);
        self.look_at(now);
        started
    }

    /// A time, or the last one of the warm-up if what was drawn then is not part of an amount.
    #[inline]
    pub(super) fn in_its_phase(&self, now: u64) -> u64 {
        let before = self.by_amount && self.phase == Phase::Warmup;
        if before { now.min(self.tally.window().start.saturating_sub(1)) } else { now }
    }

    /// An I/O that was the only one in flight succeeded, from its start to now. Returns whether
    /// the load may go on.
    #[expect(clippy::inline_always, reason = "a call for each I/O, from one place of the loop")]
    #[inline(always)]
    pub(super) fn completed_alone(
        &mut self,
        kind: IoKind,
        started: u64,
        now: u64,
        bytes: u64,
    ) -> bool {
        // Where no edge of the time line comes, all of it lies in the window if its end does.
        if now < self.within_until && now < self.end.load(Relaxed) {
            self.tally.completed_alone(kind, started, now, bytes);
            return true;
        }
        self.completed_at_an_edge(kind, started, now, bytes)
    }

    #[cold]
    fn completed_at_an_edge(&mut self, kind: IoKind, started: u64, now: u64, bytes: u64) -> bool {
        let started = self.in_its_phase(started);
        self.tally.submitted(started, 1);
        self.reaped(now);
        self.completed(kind, started, bytes);
        self.reported();
        !self.is_over(now)
    }

    /// Completions were reaped now; what they were follows, and then [`reported`].
    ///
    /// [`reported`]: Self::reported
    #[inline]
    pub(super) fn reaped(&mut self, now: u64) {
        self.look_at(now);
        self.tally.reaped(now);
    }

    /// One of them succeeded.
    #[inline]
    pub(super) fn completed(&mut self, kind: IoKind, started: u64, bytes: u64) {
        self.tally.completed(kind, started, bytes);
    }

    /// One of them succeeded that was due at a time of its own.
    #[inline]
    pub(super) fn completed_due(&mut self, kind: IoKind, due: u64, started: u64, bytes: u64) {
        self.tally.completed_due(kind, due, started, bytes);
    }

    /// The part of one on one member of a stripe succeeded.
    #[inline]
    pub(super) fn part_completed(&mut self, member: u32, started: u64, bytes: u64) {
        self.tally.part_completed(member, started, bytes);
    }

    /// One of them failed.
    #[cold]
    pub(super) fn failed(&mut self, kind: IoKind, failure: Failure, now: u64) {
        self.tally.failed(kind, failure);
        if self.tally.errors() >= ERRORS_MAX {
            self.common.stop(now);
        }
    }

    /// Whether the load has ended, by its time or early. An amount that is drawn in full is no
    /// such end: what was drawn of it is to be done.
    #[inline]
    pub(super) fn is_over(&self, now: u64) -> bool {
        now >= self.end.load(Relaxed)
    }

    /// One that was due then, and drawn, will never be begun.
    #[cold]
    pub(super) fn given_up(&mut self, due: u64) {
        if self.is_paced() {
            self.tally.dropped(due, 1);
        }
    }

    /// What was held against what had been written.
    pub(super) fn verified(&mut self, verified: Verified) {
        self.tally.verified(verified);
    }

    /// A transfer that was cut short was finished by asking for the rest.
    #[cold]
    pub(super) fn short_transfer(&mut self) {
        self.tally.short_transfer();
    }

    /// All completions that were reaped have been told.
    #[inline]
    pub(super) fn reported(&mut self) {
        self.tally.reported();
    }

    /// All I/Os are done.
    pub(super) fn finish(mut self) -> Done {
        let window = self.tally.window();
        if let Some(schedule) = &mut self.schedule
            && window.end != NEVER
        {
            let left = schedule.left_over(window.start, window.end, self.mean_len);
            self.tally.dropped(window.start, left);
        }
        Done { counted: self.tally.finish() }
    }

    #[inline]
    fn look_at(&mut self, now: u64) {
        if now >= self.next_edge || now >= self.end.load(Relaxed) {
            self.cross(now);
        }
    }

    /// Something of the time line has come.
    #[cold]
    fn cross(&mut self, now: u64) {
        let end = self.common.end();
        if now >= end {
            self.submitting = false;
            self.tally.close(end);
        }
        let window = self.tally.window();
        if self.phase == Phase::Warmup && now >= window.start {
            self.phase = Phase::Window;
            self.tally.open();
        }
        if self.phase == Phase::Window && now >= window.end {
            self.phase = Phase::After;
        }
        self.next_edge = match self.phase {
            Phase::Warmup => window.start,
            Phase::Window => window.end,
            Phase::After => NEVER,
        };
        self.within_until = if self.phase == Phase::Window { self.next_edge } else { 0 };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::tests::job;
    use crate::units::{Bytes, Nanos};

    #[test]
    fn what_was_drawn_in_the_warm_up_stays_there_where_an_amount_counts() {
        let mut job = job();
        job.warmup = Nanos(1000);
        for (length, started) in
            [(Length::Bytes(Bytes(4096)), 1099), (Length::Time(Nanos(1000)), 1107)]
        {
            job.length = length;
            let (common, lane) = (Common::new(&job), Lane::default());
            common.start(&job, 100);
            let mut driver = Driver::new(&job, 0, 1, &common, &lane);
            driver.start(&job, 100);
            assert_eq!(driver.draw(&mut [Request::FLUSH]), 1);
            // The window opened at 1100, between the drawing and the submitting.
            assert_eq!(driver.submitted(1107, 1), started);
            assert_eq!(driver.draw(&mut [Request::FLUSH]), 1);
            assert_eq!(driver.submitted(1108, 1), 1108);
        }
    }

    #[test]
    fn the_end_is_seen_while_nothing_completes() {
        let job = job();
        let (common, lane) = (Common::new(&job), Lane::default());
        common.start(&job, 0);
        let mut driver = Driver::new(&job, 0, 1, &common, &lane);
        driver.start(&job, 0);
        common.stop(500);
        driver.submitted(499, 1);
        assert!(driver.submitting());
        driver.submitted(500, 1);
        assert!(!driver.submitting());
    }
}
