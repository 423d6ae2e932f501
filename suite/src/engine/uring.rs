//! The ring: many I/Os in flight by one thread.
//!
//! Each I/O has a slot, and each part of it a submission of its own, whose `user_data` is the
//! part's number: without a stripe both numbers are the same. One system call hands over a batch
//! and waits for completions; none other is made between the start line and the last I/O, and the
//! thread never polls.

use std::fs::File;
use std::io;
use std::mem::ManuallyDrop;
use std::os::fd::AsRawFd;

use io_uring::types::{Fd, Fixed, FsyncFlags};
use io_uring::{IoUring, Submitter, opcode, squeue};
use nix::errno::Errno;
use nix::libc;

use super::batch::Batch;
use super::board::Board;
use super::buffer::{Arena, Buffers};
use super::driver::{Done, Driver};
use super::files::Files;
use super::flight::{Part, Slot};
use super::probe::refusal;
use super::requests::Request;
use super::stripe::Extent;
use crate::engine::{EngineError, Flush, Job};
use crate::measure::IoKind;
use crate::os::clock::monotonic_ns;

/// The most submissions that a ring holds (`IORING_MAX_ENTRIES`).
pub(super) const ENTRIES_MAX: usize = 32_768;

/// The most bytes that can be registered as one buffer.
const FIXED_BYTES_MAX: usize = 1 << 30;

/// A ring, and what of it this kernel has.
pub(super) struct Ring {
    queues: IoUring,
    /// How many submissions may be on their way, so that no queue is ever full.
    entries: usize,
    /// What is in use, for the record.
    pub(super) features: Vec<&'static str>,
}

impl Ring {
    /// A ring for so many submissions at a time. To be made by the thread that uses it.
    pub(super) fn new(entries: usize) -> io::Result<Self> {
        let entries = entries.clamp(1, ENTRIES_MAX).next_power_of_two() as u32;
        // Linux 6.1 runs completions when this thread asks for them; 6.0 knows of the one thread;
        // before that there is neither, which is answered with EINVAL.
        let mut builder = IoUring::builder();
        builder.setup_single_issuer().setup_defer_taskrun();
        let is_unknown = |error: &io::Error| error.raw_os_error() == Some(Errno::EINVAL as i32);
        let (queues, features) = match builder.build(entries) {
            Err(error) if is_unknown(&error) => {
                match IoUring::builder().setup_single_issuer().build(entries) {
                    Err(error) if is_unknown(&error) => (IoUring::new(entries), vec![]),
                    built => (built, vec!["single issuer"]),
                }
            }
            built => (built, vec!["single issuer", "deferred task work"]),
        };
        Ok(Self { queues: queues?, entries: entries as usize, features })
    }

    /// Makes the members known to the ring, so that no I/O has to look its file up.
    fn register_files(&mut self, files: &Files) -> io::Result<()> {
        let descriptors: Vec<_> =
            files.members.iter().map(|member| member.file.as_raw_fd()).collect();
        self.queues.submitter().register_files(&descriptors)?;
        self.features.push("registered files");
        Ok(())
    }

    /// Makes the buffers known to the ring, so that no I/O has to look its pages up. Returns
    /// whether that could be had: it needs memory that may be locked.
    fn register_buffers(&mut self, buffers: &Buffers) -> bool {
        let arena = buffers.arena();
        let whole = libc::iovec { iov_base: arena.address(0, 0).cast(), iov_len: arena.len() };
        if arena.len() > FIXED_BYTES_MAX {
            return false;
        }
        // SAFETY: the arena lives until the ring's last I/O is done: whoever owns both leaks it
        // rather than free it earlier.
        let registered = unsafe { self.queues.submitter().register_buffers(&[whole]) }.is_ok();
        if registered {
            self.features.push("fixed buffers");
        }
        registered
    }

    /// Does one no-op, to see that the ring turns.
    pub(super) fn turn(&mut self) -> io::Result<()> {
        // SAFETY: a no-op touches no memory.
        unsafe { self.queues.submission().push(&opcode::Nop::new().build()) }
            .map_err(|_| Errno::ENOBUFS)?;
        self.wait_for_one().map(drop)
    }

    /// Does so many no-ops at once, and returns how many came back.
    pub(super) fn turn_many(&mut self, count: usize) -> io::Result<usize> {
        let mut submissions = self.queues.submission();
        for _ in 0..count {
            // SAFETY: a no-op touches no memory.
            unsafe { submissions.push(&opcode::Nop::new().build()) }.map_err(|_| Errno::ENOBUFS)?;
        }
        drop(submissions);
        self.queues.submit_and_wait(count)?;
        Ok(self.queues.completion().count())
    }

    /// Fills the arena from the beginning of a file, to see that the ring can reach it.
    pub(super) fn read(&mut self, file: &File, arena: &mut Arena) -> io::Result<u32> {
        let len = arena.len();
        let address = arena.address(0, len);
        let entry = opcode::Read::new(Fd(file.as_raw_fd()), address, len as u32).build();
        // SAFETY: the buffer and the file live until the read is done, which is waited for below.
        unsafe { self.queues.submission().push(&entry) }.map_err(|_| Errno::ENOBUFS)?;
        self.wait_for_one()
    }

    fn wait_for_one(&mut self) -> io::Result<u32> {
        loop {
            match self.queues.submit_and_wait(1) {
                Err(error) if error.raw_os_error() == Some(Errno::EINTR as i32) => {}
                Err(error) => return Err(error),
                Ok(_) => {
                    if let Some(entry) = self.queues.completion().next() {
                        return u32::try_from(entry.result())
                            .map_err(|_| io::Error::from_raw_os_error(-entry.result()));
                    }
                }
            }
        }
    }
}

/// One worker, ready to start.
pub(super) struct RingWorker<'run> {
    driver: Driver<'run>,
    ring: Ring,
    flight: Flight<'run>,
    batch: Batch,
}

/// The I/Os in flight.
struct Flight<'run> {
    files: &'run Files,
    board: &'run Board,
    /// Dropped only when the kernel has done with them.
    buffers: ManuallyDrop<Buffers>,
    fixed: bool,
    flush: FsyncFlags,
    slots: Box<[Slot]>,
    /// Numbers of the slots that are free: the first `free_count` of these.
    free: Box<[u32]>,
    free_count: usize,
    parts: Box<[Part]>,
    parts_max: usize,
    /// Submissions that the kernel has, or will have with the next call.
    outstanding: usize,
    /// The most of them that the ring has room for.
    entries: usize,
}

impl<'run> RingWorker<'run> {
    /// To be called by the thread that will run it.
    pub(super) fn new(
        job: &Job,
        files: &'run Files,
        driver: Driver<'run>,
        buffers: Buffers,
        board: &'run Board,
    ) -> Result<Self, EngineError> {
        let depth = job.queue_depth as usize;
        let refused = |error: io::Error| refusal(job, &error);
        let mut ring = Ring::new(depth * job.parts_max(files.members.len())).map_err(refused)?;
        ring.register_files(files).map_err(refused)?;
        let fixed = ring.register_buffers(&buffers);
        Ok(Self {
            flight: Flight::new(job, files, board, buffers, fixed, ring.entries),
            driver,
            ring,
            batch: Batch::new(depth),
        })
    }

    /// What of the ring is in use.
    pub(super) fn features(&self) -> Vec<&'static str> {
        self.ring.features.clone()
    }

    /// Runs from the start line to the end of its last I/O.
    pub(super) fn run(mut self, job: &Job, start: u64) -> Result<Done, EngineError> {
        self.driver.start(job, start);
        let outcome = match (self.flight.files.stripe.is_some(), self.flight.fixed) {
            (false, false) => self.work::<false, false>(),
            (false, true) => self.work::<false, true>(),
            (true, false) => self.work::<true, false>(),
            (true, true) => self.work::<true, true>(),
        };
        match outcome {
            Ok(()) => Ok(self.driver.finish()),
            Err(source) => Err(EngineError::System {
                operation: "io_uring_enter",
                disk: self.flight.files.members[0].name.clone(),
                source,
            }),
        }
    }

    fn work<const STRIPED: bool, const FIXED: bool>(&mut self) -> io::Result<()> {
        let Self { driver, ring, flight, batch } = self;
        let (submitter, mut submissions, mut completions) = ring.queues.split();
        let mut requests = vec![Request::FLUSH; batch.submit_max()];
        loop {
            let room = flight.room::<STRIPED>().min(requests.len());
            let drawn = driver.draw(&mut requests[..room]);
            for request in &requests[..drawn] {
                flight.launch::<STRIPED, FIXED>(*request, &submitter, &mut submissions)?;
            }
            submissions.sync();
            if drawn > 0 {
                let started = driver.submitted(monotonic_ns(), drawn as u64);
                flight.stamp(drawn, started);
            }
            if flight.outstanding == 0 {
                return Ok(());
            }
            let more = driver.submitting() && flight.room::<STRIPED>() > 0;
            let wait = if more { 0 } else { batch.wait_for().min(flight.outstanding) };
            enter(&submitter, wait)?;
            completions.sync();
            if completions.is_empty() {
                continue;
            }
            let now = monotonic_ns();
            driver.reaped(now);
            batch.reaped(completions.len());
            for completion in &mut completions {
                let part = completion.user_data() as usize;
                if let Some(retry) =
                    flight.land::<STRIPED, FIXED>(part, completion.result(), driver, now)
                {
                    push(&submitter, &mut submissions, &retry)?;
                }
            }
            driver.reported();
        }
    }
}

impl<'run> Flight<'run> {
    fn new(
        job: &Job,
        files: &'run Files,
        board: &'run Board,
        buffers: Buffers,
        fixed: bool,
        entries: usize,
    ) -> Self {
        let (depth, parts_max) = (job.queue_depth, job.parts_max(files.members.len()));
        let parts = (0..depth).flat_map(|slot| std::iter::repeat_n(Part::free(slot), parts_max));
        Self {
            files,
            board,
            buffers: ManuallyDrop::new(buffers),
            fixed,
            flush: match job.flush_every {
                Some((_, Flush::Fdatasync)) => FsyncFlags::DATASYNC,
                _ => FsyncFlags::empty(),
            },
            slots: vec![Slot::FREE; depth as usize].into(),
            // Those that were used last are used next, while the caches still know them.
            free: (0..depth).rev().collect(),
            free_count: depth as usize,
            parts: parts.collect(),
            parts_max,
            outstanding: 0,
            entries,
        }
    }

    /// How many more I/Os can be launched now.
    #[inline]
    fn room<const STRIPED: bool>(&self) -> usize {
        if STRIPED {
            self.free_count.min((self.entries - self.outstanding) / self.parts_max)
        } else {
            self.free_count
        }
    }

    /// Puts one I/O on its way, but for its start time.
    #[inline]
    fn launch<const STRIPED: bool, const FIXED: bool>(
        &mut self,
        request: Request,
        submitter: &Submitter<'_>,
        submissions: &mut squeue::SubmissionQueue<'_>,
    ) -> io::Result<()> {
        self.free_count -= 1;
        let slot = self.free[self.free_count];
        let buffer = match request.kind {
            IoKind::Read => self.buffers.read_buffer(slot as usize),
            IoKind::Write => self.buffers.write_buffer(slot as usize, request.len as usize),
            IoKind::Sync => 0,
        };
        let first = slot as usize * self.parts_max;
        let mut parts = 0;
        if STRIPED && let Some(stripe) = self.files.stripe {
            if request.kind == IoKind::Sync {
                for member in 0..self.files.members.len() as u32 {
                    let extent = Extent { member, offset: 0, at: 0, len: 0 };
                    self.set_part(first + parts, buffer, extent);
                    parts += 1;
                }
            } else {
                for extent in stripe.split(request.offset, request.len) {
                    self.set_part(first + parts, buffer, extent);
                    parts += 1;
                }
            }
        } else {
            let extent = Extent { member: 0, offset: request.offset, at: 0, len: request.len };
            self.set_part(first, buffer, extent);
            parts = 1;
        }
        let count = parts as u32;
        self.slots[slot as usize] =
            Slot { request, started: 0, parts_left: count, parts: count, failure: None };
        for part in first..first + parts {
            let entry = self.entry::<FIXED>(part, request.kind);
            push(submitter, submissions, &entry)?;
            self.outstanding += 1;
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

    /// Takes note of a completion. Returns what is to be submitted to go on with it, if it is
    /// not the end of its part.
    #[inline]
    fn land<const STRIPED: bool, const FIXED: bool>(
        &mut self,
        index: usize,
        result: i32,
        driver: &mut Driver<'_>,
        now: u64,
    ) -> Option<squeue::Entry> {
        let part = &self.parts[index];
        let number = part.slot;
        if result != part.extent.len.cast_signed() && self.mend(index, result, driver) {
            return Some(self.entry::<FIXED>(index, self.slots[number as usize].request.kind));
        }
        self.outstanding -= 1;
        self.board.landed(index);
        let slot = &mut self.slots[number as usize];
        slot.parts_left -= 1;
        if slot.parts_left > 0 {
            return None;
        }
        let Slot { request, started, parts, failure, .. } = *slot;
        self.free[self.free_count] = number;
        self.free_count += 1;
        if let Some(failure) = failure {
            driver.failed(request.kind, failure, now);
            return None;
        }
        driver.completed(request.kind, started, u64::from(request.len));
        if STRIPED && request.kind != IoKind::Sync {
            let first = number as usize * self.parts_max;
            for part in &self.parts[first..first + parts as usize] {
                driver.part_completed(part.extent.member, started, u64::from(part.extent.len));
            }
        }
        None
    }

    /// As [`Part::mend`], for the part with this index.
    #[cold]
    fn mend(&mut self, index: usize, result: i32, driver: &mut Driver<'_>) -> bool {
        let part = &mut self.parts[index];
        let member = &self.files.members[part.extent.member as usize];
        part.mend(&mut self.slots[part.slot as usize], member, result, driver)
    }

    /// Prepares a part that is about to go to the kernel.
    #[inline]
    fn set_part(&mut self, index: usize, buffer: usize, extent: Extent) {
        let part = &mut self.parts[index];
        (part.extent, part.buffer, part.done, part.attempts) = (extent, buffer, 0, 0);
        self.board.launched(index, extent);
    }

    /// The submission that does a part, or the rest of it.
    #[inline]
    fn entry<const FIXED: bool>(&self, index: usize, kind: IoKind) -> squeue::Entry {
        let Part { extent, buffer, done, .. } = self.parts[index];
        let file = Fixed(extent.member);
        let len = extent.len - done;
        let offset = extent.offset + u64::from(done);
        let address =
            self.buffers.arena().address(buffer + (extent.at + done) as usize, len as usize);
        let flags = self.files.write_flags;
        match (kind, FIXED) {
            (IoKind::Read, true) => {
                opcode::ReadFixed::new(file, address, len, 0).offset(offset).build()
            }
            (IoKind::Read, false) => opcode::Read::new(file, address, len).offset(offset).build(),
            (IoKind::Write, true) => opcode::WriteFixed::new(file, address, len, 0)
                .offset(offset)
                .rw_flags(flags)
                .build(),
            (IoKind::Write, false) => {
                opcode::Write::new(file, address, len).offset(offset).rw_flags(flags).build()
            }
            (IoKind::Sync, _) => opcode::Fsync::new(file).flags(self.flush).build(),
        }
        .user_data(index as u64)
    }
}

impl Drop for Flight<'_> {
    fn drop(&mut self) {
        // After an error, or in a panic, the kernel may still write to the buffers of I/Os in
        // flight: memory that is lost is better than memory that changes under its next owner.
        if self.outstanding == 0 {
            // SAFETY: nothing uses the buffers after this, and they are dropped here alone.
            unsafe { ManuallyDrop::drop(&mut self.buffers) }
        }
    }
}

/// Queues a submission; hands over what is queued when there is no room.
#[inline]
fn push(
    submitter: &Submitter<'_>,
    submissions: &mut squeue::SubmissionQueue<'_>,
    entry: &squeue::Entry,
) -> io::Result<()> {
    // SAFETY: the memory that the entry points to belongs to the arena, in a part that no other
    // I/O in flight has, and `Flight` keeps it until the kernel has done with it.
    while unsafe { submissions.push(entry) }.is_err() {
        submissions.sync();
        enter(submitter, 0)?;
        submissions.sync();
    }
    Ok(())
}

/// Hands over what is queued and waits for so many completions; fewer may have come when the
/// call was interrupted.
#[inline]
fn enter(submitter: &Submitter<'_>, wait: usize) -> io::Result<()> {
    match submitter.submit_and_wait(wait) {
        Ok(_) => Ok(()),
        // Completions that overflowed (EBUSY) or memory that is short (EAGAIN): what is in
        // flight will make room.
        Err(error) => match error.raw_os_error().map(Errno::from_raw) {
            Some(Errno::EINTR | Errno::EAGAIN | Errno::EBUSY) => Ok(()),
            _ => Err(error),
        },
    }
}
