//! The ring: many I/Os in flight by one thread.
//!
//! One system call hands over a batch and waits for completions; none other is made between the
//! start line and the last I/O, and the thread polls where the job asks for it alone.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::time::Duration;

use io_uring::types::{Fd, Fixed, FsyncFlags, SubmitArgs, Timespec};
use io_uring::{IoUring, Submitter, cqueue, opcode, squeue};
use nix::errno::Errno;
use nix::libc;

use super::batch::{BATCH_MAX, Batch};
use super::board::Board;
use super::buffer::{Arena, Buffers};
use super::driver::{Done, Driver};
use super::files::Files;
use super::flight::{ENTRIES_MAX, Flight, Queue, Submission};
use super::probe::{Way, refusal};
use crate::engine::{EngineError, Flush, Job, RingOptions};
use crate::measure::IoKind;
use crate::os::clock::monotonic_ns;
use crate::os::io::PUNCH_HOLE;

/// The most bytes that can be registered as one buffer.
const FIXED_BYTES_MAX: usize = 1 << 30;

/// How long a thread of the kernel looks for submissions before it sleeps, in milliseconds.
const IDLE_MS: u32 = 100;

/// What a kernel may know of rings, which is not to be found out but by asking for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Made {
    /// Linux 6.0: one thread alone submits.
    single_issuer: bool,
    /// Linux 6.1: completions are run when that thread asks for them.
    deferred: bool,
    /// Linux 6.6: submissions are taken in their order, with no array between.
    in_order: bool,
}

impl Made {
    /// From what the newest kernels know to what all do. A thread of the kernel that submits runs
    /// completions by itself.
    fn all(options: RingOptions) -> impl Iterator<Item = Self> {
        [(true, true, true), (true, true, false), (true, false, false), (false, false, false)]
            .into_iter()
            .map(move |(single_issuer, deferred, in_order)| Self {
                single_issuer,
                deferred: deferred && !options.kernel_thread,
                in_order,
            })
    }

    /// With room for the completions of so many submissions on their way.
    fn ring(self, options: RingOptions, entries: usize) -> io::Result<IoUring> {
        let mut builder = IoUring::builder();
        builder.setup_cqsize(entries as u32);
        if self.single_issuer {
            builder.setup_single_issuer();
        }
        if self.deferred {
            builder.setup_defer_taskrun();
        }
        if self.in_order {
            builder.setup_no_sqarray();
        }
        if options.polled {
            builder.setup_iopoll();
        }
        if options.kernel_thread {
            builder.setup_sqpoll(IDLE_MS);
        }
        // A call takes all that is queued: more than a batch would only be memory to walk through.
        builder.build(entries.min(BATCH_MAX) as u32)
    }

    /// What it is, for the record.
    fn features(self, options: RingOptions) -> Vec<&'static str> {
        let all = [
            (self.single_issuer, "single issuer"),
            (self.deferred, "deferred task work"),
            (self.in_order, "no submission array"),
            (options.polled, "hipri"),
            (options.kernel_thread, "sqpoll"),
        ];
        all.into_iter().filter_map(|(has, name)| has.then_some(name)).collect()
    }
}

/// A ring, and what of it this kernel has.
pub(super) struct Ring {
    queues: IoUring,
    /// How many submissions may be on their way, so that there is room for their completions.
    entries: usize,
    /// What is in use, for the record.
    pub(super) features: Vec<&'static str>,
}

impl Ring {
    /// A ring for so many submissions at a time. To be made by the thread that uses it.
    pub(super) fn new(entries: usize, options: RingOptions) -> io::Result<Self> {
        let mut refused = Errno::EINVAL.into();
        for made in Made::all(options) {
            match Self::made(made, entries, options) {
                Err(error) if error.raw_os_error() == Some(Errno::EINVAL as i32) => refused = error,
                other => return other,
            }
        }
        Err(refused)
    }

    fn made(made: Made, entries: usize, options: RingOptions) -> io::Result<Self> {
        let entries = entries.clamp(1, ENTRIES_MAX).next_power_of_two();
        let queues = made.ring(options, entries)?;
        Ok(Self { queues, entries, features: made.features(options) })
    }

    /// Makes the members known to the ring, so that no I/O has to look its file up.
    fn register_files(&mut self, files: &Files) -> io::Result<()> {
        let descriptors: Vec<_> =
            files.members.iter().map(|member| member.file.as_raw_fd()).collect();
        self.queues.submitter().register_files(&descriptors)?;
        self.features.push("registered files");
        Ok(())
    }

    /// Looks whether this thread can make the ring itself known, so that no call has to look it
    /// up (Linux 5.18).
    fn try_registering_itself(&mut self) {
        let mut submitter = self.queues.submitter();
        if submitter.register_ring_fd().is_ok() && submitter.unregister_ring_fd().is_ok() {
            self.features.push("registered ring");
        }
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

    /// Does as many no-ops at once as go out by one call, but no more than these, and returns how
    /// many came back.
    pub(super) fn turn_many(&mut self, count: usize) -> io::Result<usize> {
        let count = count.min(BATCH_MAX);
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
    fixed: bool,
    options: RingOptions,
    files: &'run Files,
    flight: Flight<'run>,
    batch: Batch,
}

/// The ring as a flight uses it.
struct RingQueue<'ring, const FIXED: bool> {
    submitter: Submitter<'ring>,
    submissions: squeue::SubmissionQueue<'ring>,
    completions: cqueue::CompletionQueue<'ring>,
    write_flags: i32,
    flush: FsyncFlags,
    polled: bool,
}

impl<'run> RingWorker<'run> {
    /// To be called by the thread that will run it.
    pub(super) fn new(
        job: &'run Job,
        files: &'run Files,
        driver: Driver<'run>,
        buffers: Buffers,
        board: &'run Board,
    ) -> Result<Self, EngineError> {
        let depth = job.queue_depth as usize;
        let refused = |error: io::Error| refusal(job, Way::IoUring, &error);
        let entries = depth * job.parts_max(files.members.len());
        let mut ring = Ring::new(entries, job.ring).map_err(refused)?;
        ring.register_files(files).map_err(refused)?;
        ring.try_registering_itself();
        Ok(Self {
            fixed: ring.register_buffers(&buffers),
            options: job.ring,
            flight: Flight::new(job, files, board, buffers, ring.entries),
            driver,
            ring,
            files,
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
        let outcome = if self.fixed { self.work::<true>(job) } else { self.work::<false>(job) };
        match outcome {
            Ok(()) => Ok(self.driver.finish()),
            Err(source) => Err(EngineError::System {
                operation: "io_uring_enter",
                disk: self.files.members[0].name.clone(),
                source,
            }),
        }
    }

    fn work<const FIXED: bool>(&mut self, job: &Job) -> io::Result<()> {
        let (mut submitter, submissions, completions) = self.ring.queues.split();
        // Where that can't be had, each call looks the ring up.
        let registered = submitter.register_ring_fd().is_ok();
        let mut queue = RingQueue::<FIXED> {
            submitter,
            submissions,
            completions,
            write_flags: self.files.write_flags,
            flush: match job.flush_every {
                Some((_, Flush::Fdatasync)) => FsyncFlags::DATASYNC,
                _ => FsyncFlags::empty(),
            },
            polled: self.options.polled,
        };
        let outcome = self.flight.run(&mut self.driver, &mut self.batch, &mut queue);
        if registered {
            // A thread has places for some rings alone, and works for many jobs.
            let _ = queue.submitter.unregister_ring_fd();
        }
        outcome
    }
}

impl<const FIXED: bool> Queue for RingQueue<'_, FIXED> {
    /// Hands over what is queued when there is no room.
    #[expect(clippy::inline_always, reason = "it would be a call, and a copy, for each I/O")]
    #[inline(always)]
    fn push(&mut self, submission: Submission) -> io::Result<()> {
        let Submission { part, kind, member, address, len, offset } = submission;
        let (file, flags) = (Fixed(member), self.write_flags);
        let entry = match (kind, FIXED) {
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
            (IoKind::Trim, _) => {
                opcode::Fallocate::new(file, u64::from(len)).offset(offset).mode(PUNCH_HOLE).build()
            }
            (IoKind::Sync, _) => opcode::Fsync::new(file).flags(self.flush).build(),
        }
        .user_data(part as u64);
        // SAFETY: the memory that the entry points to belongs to this submission alone, and the
        // flight that made it keeps it until the kernel has done with it.
        while unsafe { self.submissions.push(&entry) }.is_err() {
            self.enter(0)?;
            self.submissions.sync();
        }
        Ok(())
    }

    #[inline]
    fn enter(&mut self, wait: usize) -> io::Result<usize> {
        self.submissions.sync();
        match self.submitter.submit_and_wait(wait) {
            Ok(_) => {}
            // Completions that overflowed (EBUSY) or memory that is short (EAGAIN): what is in
            // flight will make room.
            Err(error) => match error.raw_os_error().map(Errno::from_raw) {
                Some(Errno::EINTR | Errno::EAGAIN | Errno::EBUSY) => {}
                _ => return Err(error),
            },
        }
        self.completions.sync();
        Ok(self.completions.len())
    }

    fn enter_for(&mut self, time_ns: u64) -> io::Result<usize> {
        if self.polled {
            return self.poll_for(time_ns);
        }
        self.submissions.sync();
        let time = Timespec::from(Duration::from_nanos(time_ns));
        match self.submitter.submit_with_args(1, &SubmitArgs::new().timespec(&time)) {
            Ok(_) => {}
            Err(error) => match error.raw_os_error().map(Errno::from_raw) {
                Some(Errno::ETIME | Errno::EINTR | Errno::EAGAIN | Errno::EBUSY) => {}
                _ => return Err(error),
            },
        }
        self.completions.sync();
        Ok(self.completions.len())
    }

    #[inline]
    fn next(&mut self) -> Option<(usize, i32)> {
        let completion = self.completions.next()?;
        Some((completion.user_data() as usize, completion.result()))
    }
}

impl<const FIXED: bool> RingQueue<'_, FIXED> {
    /// Polls for one completion, for so long at most: the kernel's own polling knows no time.
    fn poll_for(&mut self, time_ns: u64) -> io::Result<usize> {
        let end = monotonic_ns().saturating_add(time_ns);
        loop {
            let ready = self.enter(0)?;
            if ready > 0 || monotonic_ns() >= end {
                return Ok(ready);
            }
            std::hint::spin_loop();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;
    use crate::engine::tests::real::can_ring;

    /// The first bytes of a file, read through a ring.
    fn read_by(ring: &mut Ring) -> Vec<u8> {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&[7; 4096]).unwrap();
        let mut arena = Arena::new(4096, 4096).unwrap();
        assert_eq!(ring.read(&file, &mut arena).unwrap(), 4096);
        arena.part(0, 4096).to_vec()
    }

    #[test]
    fn whatever_of_it_the_kernel_lacks_the_rest_does() {
        if !can_ring("whatever_of_it_the_kernel_lacks_the_rest_does") {
            return;
        }
        for kernel_thread in [false, true] {
            let options = RingOptions { kernel_thread, ..RingOptions::default() };
            let mut worked = Vec::new();
            for made in Made::all(options) {
                let Ok(mut ring) = Ring::made(made, 8, options) else { continue };
                ring.turn().unwrap();
                ring.try_registering_itself();
                assert_eq!(read_by(&mut ring), [7; 4096]);
                assert_eq!(ring.turn_many(8).unwrap(), 8);
                assert_eq!(ring.features.contains(&"sqpoll"), kernel_thread);
                worked.push(made);
            }
            // What every kernel has is the last that is tried, and what the first one that is made
            // has is what a job gets.
            let oldest = Made { single_issuer: false, deferred: false, in_order: false };
            assert_eq!(worked.last(), Some(&oldest));
            let ring = Ring::new(8, options).unwrap();
            assert_eq!(ring.features, worked[0].features(options));
        }
    }

    #[test]
    fn a_thread_of_the_kernel_never_runs_completions_of_another() {
        let options = RingOptions { kernel_thread: true, ..RingOptions::default() };
        assert!(Made::all(options).all(|made| !made.deferred));
        assert!(Made::all(RingOptions::default()).next().is_some_and(|made| made.deferred));
    }
}
