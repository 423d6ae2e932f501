//! I/Os in flight: what a back end with a queue does, whichever queue that is.
//!
//! Each I/O has a slot, and each part of it a submission of its own that is known by the part's
//! number: without a stripe both numbers are the same. I/Os go out in batches, completions are
//! waited for in batches, and a part that is not done in one go is gone on with.

mod careful;
mod slot;

use std::io;

use self::slot::{Part, Slot, Trouble};
use super::batch::Batch;
use super::board::Board;
use super::buffer::Buffers;
use super::driver::Driver;
use super::files::Files;
use super::requests::Request;
use super::stripe::Extent;
use super::tally::Failure;
use super::verify::Verifier;
use crate::engine::{Job, Pace};
use crate::measure::IoKind;
use crate::os::ticks::TickClock;

/// The most submissions on their way at a time: what a ring holds (`IORING_MAX_ENTRIES`).
pub(super) const ENTRIES_MAX: usize = 32_768;

/// Where submissions go, and completions come from.
pub(super) trait Queue {
    /// Queues a submission.
    fn push(&mut self, submission: Submission) -> io::Result<()>;

    /// Hands over what is queued, and waits for so many completions. Returns how many are there;
    /// they may be fewer when the call was interrupted.
    fn enter(&mut self, wait: usize) -> io::Result<usize>;

    /// As [`enter`](Self::enter), but waits for one completion at most, and for no longer than so
    /// many nanoseconds.
    fn enter_for(&mut self, time_ns: u64) -> io::Result<usize>;

    /// The next of those completions: the number of its part, and the kernel's answer, which is
    /// bytes moved or a negative error number.
    fn next(&mut self) -> Option<(usize, i32)>;
}

/// The extent of a flush; and of what is not in parts, but for its offset and length.
const WHOLE: Extent = Extent { member: 0, offset: 0, at: 0, len: 0 };

/// What the kernel is asked to do: a part, or the rest of it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Submission {
    /// Number of the part.
    pub(super) part: usize,
    pub(super) kind: IoKind,
    pub(super) member: u32,
    /// Memory that the flight keeps until the submission is completed, for it alone.
    pub(super) address: *mut u8,
    pub(super) len: u32,
    pub(super) offset: u64,
}

/// The I/Os in flight of one worker.
pub(super) struct Flight<'run> {
    files: &'run Files,
    board: &'run Board,
    /// Given back only when the kernel has done with them.
    buffers: Buffers,
    clock: TickClock,
    slots: Box<[Slot]>,
    /// For each slot, when its I/O was due; empty where I/Os follow each other.
    dues: Box<[u64]>,
    verifier: Option<Verifier<'run>>,
    /// Numbers of the slots that are free: the first `free_count` of these.
    free: Box<[u32]>,
    free_count: usize,
    parts: Box<[Part]>,
    parts_max: usize,
    /// Of a stripe, submissions that the kernel has, or will have with the next call.
    parts_outstanding: usize,
    /// The most of them that the queue has room for.
    entries: usize,
}

impl<'run> Flight<'run> {
    /// None yet, of a worker of this job whose queue has room for so many submissions.
    pub(super) fn new(
        job: &'run Job,
        files: &'run Files,
        board: &'run Board,
        buffers: Buffers,
        entries: usize,
    ) -> Self {
        let (depth, parts_max) = (job.queue_depth, job.parts_max(files.members.len()));
        let parts = (0..depth).flat_map(|slot| std::iter::repeat_n(Part::free(slot), parts_max));
        Self {
            files,
            board,
            buffers,
            clock: TickClock::new(),
            slots: vec![Slot::FREE; depth as usize].into(),
            dues: match (job.pace, &job.verify) {
                (Pace::Closed, None) => Box::default(),
                _ => vec![0; depth as usize].into(),
            },
            verifier: job.verify.as_deref().map(|table| Verifier::new(table, depth as usize)),
            // Those that were used last are used next, while the caches still know them.
            free: (0..depth).rev().collect(),
            free_count: depth as usize,
            parts: parts.collect(),
            parts_max,
            parts_outstanding: 0,
            entries,
        }
    }

    /// From the start line to the end of the last I/O.
    pub(super) fn run(
        &mut self,
        driver: &mut Driver<'_>,
        batch: &mut Batch,
        queue: &mut impl Queue,
    ) -> io::Result<()> {
        let careful = driver.is_paced() || self.verifier.is_some();
        match (self.files.stripe.is_some(), careful) {
            (false, false) => self.work::<false>(driver, batch, queue),
            (true, false) => self.work::<true>(driver, batch, queue),
            (false, true) => self.work_with_care::<false>(driver, batch, queue),
            (true, true) => self.work_with_care::<true>(driver, batch, queue),
        }
    }

    #[inline]
    fn work<const STRIPED: bool>(
        &mut self,
        driver: &mut Driver<'_>,
        batch: &mut Batch,
        queue: &mut impl Queue,
    ) -> io::Result<()> {
        let mut requests = vec![Request::FLUSH; self.slots.len()];
        loop {
            let room = self.room::<STRIPED>().min(batch.submit_max());
            let drawn = driver.draw(&mut requests[..room]);
            for request in &requests[..drawn] {
                self.launch::<STRIPED, false>(*request, queue)?;
            }
            if drawn > 0 {
                let started = driver.submitted(self.clock.now(), drawn as u64);
                self.stamp(drawn, started);
            }
            if self.outstanding() == 0 {
                return Ok(());
            }
            let more = driver.submitting() && self.room::<STRIPED>() > 0;
            let wait = if more { 0 } else { batch.wait_for().min(self.outstanding()) };
            let ready = queue.enter(wait)?;
            if ready > 0 {
                let now = self.clock.now();
                batch.reaped(now, ready, self.outstanding().saturating_sub(ready));
                self.reap::<STRIPED, false>(now, driver, queue)?;
            }
        }
    }

    /// Takes in the completions that are there now.
    #[expect(clippy::inline_always, reason = "a part of two loops, each with its own constants")]
    #[inline(always)]
    fn reap<const STRIPED: bool, const CAREFUL: bool>(
        &mut self,
        now: u64,
        driver: &mut Driver<'_>,
        queue: &mut impl Queue,
    ) -> io::Result<()> {
        driver.reaped(now);
        while let Some((part, result)) = queue.next() {
            // Without a stripe an I/O is its only part.
            let len =
                if STRIPED { self.parts[part].extent.len } else { self.slots[part].request.len };
            let whole = result == len.cast_signed();
            if whole || !self.mend(part, result, driver) {
                self.land::<STRIPED, CAREFUL>(part, driver, now);
            } else {
                self.go_on(part, queue)?;
            }
        }
        driver.reported();
        Ok(())
    }

    /// Submissions that the kernel has, or will have with the next call.
    #[inline]
    fn outstanding(&self) -> usize {
        if self.files.stripe.is_some() {
            self.parts_outstanding
        } else {
            self.slots.len() - self.free_count
        }
    }

    /// How many more I/Os can be launched now.
    #[inline]
    fn room<const STRIPED: bool>(&self) -> usize {
        if STRIPED {
            self.free_count.min((self.entries - self.parts_outstanding) / self.parts_max)
        } else {
            self.free_count
        }
    }

    /// Puts one I/O on its way, but for its start time.
    #[inline]
    fn launch<const STRIPED: bool, const CAREFUL: bool>(
        &mut self,
        request: Request,
        queue: &mut impl Queue,
    ) -> io::Result<()> {
        self.free_count -= 1;
        let slot = self.free[self.free_count];
        let Request { kind, len, offset } = request;
        let buffer = match kind {
            IoKind::Read => self.buffers.read_buffer(slot as usize),
            IoKind::Write => self.buffers.write_buffer(slot as usize, len as usize),
            IoKind::Trim | IoKind::Sync => {
                return self.launch_without_data::<STRIPED>(slot, request, queue);
            }
        };
        if CAREFUL
            && kind == IoKind::Write
            && let Some(verifier) = &self.verifier
        {
            let memory = self.buffers.arena_mut().part_mut(buffer, len as usize);
            verifier.stamp(request, memory);
        }
        let known = &mut self.slots[slot as usize];
        (known.request, known.buffer) = (request, buffer);
        if STRIPED {
            return self.launch_parts(slot, queue);
        }
        self.board.launched_at(slot as usize, offset);
        let address = self.buffers.arena().address(buffer, len as usize);
        queue.push(Submission { part: slot as usize, kind, member: 0, address, len, offset })
    }

    /// Puts one that moves no data on its way.
    #[cold]
    fn launch_without_data<const STRIPED: bool>(
        &mut self,
        slot: u32,
        request: Request,
        queue: &mut impl Queue,
    ) -> io::Result<()> {
        let known = &mut self.slots[slot as usize];
        (known.request, known.buffer) = (request, 0);
        if STRIPED {
            return self.launch_parts(slot, queue);
        }
        let Request { kind, len, offset } = request;
        self.board.launched(slot as usize, Extent { offset, len, ..WHOLE });
        let address = std::ptr::null_mut();
        queue.push(Submission { part: slot as usize, kind, member: 0, address, len, offset })
    }

    /// Puts the parts of an I/O on their way.
    fn launch_parts(&mut self, slot: u32, queue: &mut impl Queue) -> io::Result<()> {
        let Some(stripe) = self.files.stripe else { return Ok(()) };
        let request = self.slots[slot as usize].request;
        let first = slot as usize * self.parts_max;
        let mut next = first;
        let mut set = |extent| {
            self.parts[next].extent = extent;
            self.board.launched(next, extent);
            next += 1;
        };
        if request.kind == IoKind::Sync {
            for member in 0..self.files.members.len() as u32 {
                set(Extent { member, ..WHOLE });
            }
        } else {
            stripe.split(request.offset, request.len).for_each(set);
        }
        let known = &mut self.slots[slot as usize];
        known.parts = (next - first) as u32;
        known.parts_left = known.parts;
        for part in first..next {
            self.parts_outstanding += 1;
            queue.push(self.submission(part))?;
        }
        Ok(())
    }

    /// The I/Os that were launched last were handed over at this time.
    #[inline]
    fn stamp(&mut self, launched: usize, started: u64) {
        for slot in &self.free[self.free_count..self.free_count + launched] {
            self.slots[*slot as usize].started = started;
        }
    }

    /// A part is finished, or has failed.
    #[expect(clippy::inline_always, reason = "a call for each I/O, from one place of each loop")]
    #[inline(always)]
    fn land<const STRIPED: bool, const CAREFUL: bool>(
        &mut self,
        index: usize,
        driver: &mut Driver<'_>,
        now: u64,
    ) {
        let number = if STRIPED { self.parts[index].slot } else { index as u32 };
        if STRIPED {
            self.parts_outstanding -= 1;
        }
        self.board.landed(index);
        let slot = &mut self.slots[number as usize];
        if STRIPED {
            slot.parts_left -= 1;
            if slot.parts_left > 0 {
                return;
            }
        }
        let Slot { request, started, parts, .. } = *slot;
        let smooth = matches!(slot.trouble, Trouble::None);
        self.free[self.free_count] = number;
        self.free_count += 1;
        let failure = if smooth { None } else { self.reset(number) };
        if CAREFUL && let Some(verifier) = &mut self.verifier {
            let at = self.buffers.read_buffer(number as usize);
            let memory = match request.kind {
                IoKind::Read => &*self.buffers.arena_mut().part_mut(at, request.len as usize),
                _ => &[],
            };
            verifier.done(request, failure.is_none(), memory);
        }
        if let Some(failure) = failure {
            driver.failed(request.kind, failure, now);
            return;
        }
        if CAREFUL {
            let due = if driver.is_paced() { self.dues[number as usize] } else { started };
            driver.completed_due(request.kind, due, started, u64::from(request.len));
        } else {
            driver.completed(request.kind, started, u64::from(request.len));
        }
        if STRIPED && request.kind != IoKind::Sync {
            let first = number as usize * self.parts_max;
            for part in &self.parts[first..first + parts as usize] {
                driver.part_completed(part.extent.member, started, u64::from(part.extent.len));
            }
        }
    }

    /// As [`Part::mend`], for the part with this index.
    #[cold]
    fn mend(&mut self, index: usize, result: i32, driver: &mut Driver<'_>) -> bool {
        let part = &mut self.parts[index];
        let slot = &mut self.slots[part.slot as usize];
        if self.files.stripe.is_none() {
            let Request { offset, len, .. } = slot.request;
            part.extent = Extent { offset, len, ..WHOLE };
        }
        if matches!(slot.trouble, Trouble::None) {
            slot.trouble = Trouble::Mended;
        }
        let member = &self.files.members[part.extent.member as usize];
        part.mend(slot, member, result, driver)
    }

    /// Forgets what was mended of an I/O that is over, and returns how it failed, if it did.
    #[cold]
    fn reset(&mut self, number: u32) -> Option<Failure> {
        let first = number as usize * self.parts_max;
        for part in &mut self.parts[first..first + self.parts_max] {
            (part.done, part.attempts) = (0, 0);
        }
        let slot = &mut self.slots[number as usize];
        match std::mem::replace(&mut slot.trouble, Trouble::None) {
            Trouble::Failed(failure) => Some(failure),
            Trouble::Mended | Trouble::None => None,
        }
    }

    /// Asks for the rest of a part.
    #[cold]
    fn go_on(&self, index: usize, queue: &mut impl Queue) -> io::Result<()> {
        queue.push(self.submission(index))
    }

    /// What does a part, or the rest of it.
    #[inline]
    fn submission(&self, index: usize) -> Submission {
        let Part { slot, extent, done, .. } = self.parts[index];
        let Slot { request, buffer, .. } = self.slots[slot as usize];
        let (kind, len) = (request.kind, extent.len - done);
        Submission {
            part: index,
            kind,
            member: extent.member,
            address: match kind {
                IoKind::Trim | IoKind::Sync => std::ptr::null_mut(),
                _ => {
                    self.buffers.arena().address(buffer + (extent.at + done) as usize, len as usize)
                }
            },
            len,
            offset: extent.offset + u64::from(done),
        }
    }
}

impl Drop for Flight<'_> {
    fn drop(&mut self) {
        // After an error, or in a panic, the kernel may still write to the buffers of I/Os in
        // flight: memory that is lost is better than memory that changes under its next owner.
        if self.outstanding() > 0 {
            self.buffers.arena_mut().leak();
        }
    }
}
