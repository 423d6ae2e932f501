//! Asynchronous I/O by the kernel's older calls, which is what everybody calls `libaio`: many
//! I/Os in flight by one thread where a ring can't be had.
//!
//! One `io_submit` hands over a batch, and completions are read from the memory that the kernel
//! puts them in; `io_getevents` is called only to wait for more. No other call is made between the
//! start line and the last I/O, but for flushes on kernels before Linux 4.18, which don't take
//! them here: those are done by a plain `fsync`, during which the worker does nothing else, and
//! which counts into the flush's latency.
//!
//! Only direct I/O is asynchronous by this way. Through the page cache, or where a file system has
//! to allocate, `io_submit` returns when the I/O is done.
//!
//! The kernel takes about 35 ms to destroy a context (a grace period of its RCU), so those that
//! are not in use any more wait for the next worker.

use std::cell::Cell;
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::ptr::{NonNull, null};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use nix::errno::Errno;
use nix::libc;

use super::batch::Batch;
use super::board::Board;
use super::buffer::{Arena, Buffers};
use super::driver::{Done, Driver};
use super::files::Files;
use super::flight::{ENTRIES_MAX, Flight, Queue, Submission};
use super::probe::{Way, refusal};
use crate::engine::{EngineError, Flush, Job};
use crate::measure::IoKind;

// Commands of a control block (`IOCB_CMD_*` in linux/aio_abi.h).
const READ: u16 = 0;
const WRITE: u16 = 1;
const FSYNC: u16 = 2;
const FDSYNC: u16 = 3;

/// What the head of a completion ring says when this program may read it (fs/aio.c).
const MAGIC: u32 = 0xa10a_10a1;

/// A control block: one submission, as linux/aio_abi.h has it.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
struct ControlBlock {
    /// Comes back with the completion: the number of the part.
    data: u64,
    /// What the kernel writes to, and the `RWF_*` flags, the other way round on big-endian
    /// machines.
    #[cfg(target_endian = "little")]
    key: u32,
    flags: i32,
    #[cfg(target_endian = "big")]
    key: u32,
    command: u16,
    priority: i16,
    descriptor: u32,
    address: u64,
    len: u64,
    offset: i64,
    reserved: u64,
    block_flags: u32,
    event_descriptor: u32,
}

/// A completion, as linux/aio_abi.h has it.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
struct Event {
    data: u64,
    block: u64,
    result: i64,
    more: i64,
}

/// The beginning of a completion ring, which [`Event`]s follow (`struct aio_ring` in fs/aio.c).
#[repr(C)]
struct Header {
    id: u32,
    /// How many events there is room for.
    len: u32,
    /// Where the next is to be read: ours to write.
    head: AtomicU32,
    /// Where the kernel writes the next.
    tail: AtomicU32,
    magic: u32,
    compatible_features: u32,
    incompatible_features: u32,
    own_len: u32,
}

/// Contexts without anything in flight that no worker has.
static SPARE: Mutex<Vec<Context>> = Mutex::new(Vec::new());

/// What the kernel knows a worker's I/Os by.
#[derive(Debug)]
struct Context {
    /// Also the address of its completion ring.
    id: libc::c_ulong,
    /// How many I/Os may be in flight.
    entries: usize,
}

impl Context {
    fn new(entries: usize) -> nix::Result<Self> {
        let mut id: libc::c_ulong = 0;
        // SAFETY: the kernel writes to `id` alone.
        let made = unsafe { libc::syscall(libc::SYS_io_setup, entries, &raw mut id) };
        Errno::result(made)?;
        Ok(Self { id, entries })
    }

    /// Its completion ring, if the kernel has put one into our memory.
    fn ring(&self) -> Option<NonNull<Header>> {
        let ring = NonNull::new(self.id as *mut Header)?;
        // SAFETY: a context's number is the address of its ring, which stays mapped as long as
        // the context lives; where there is none, it is that of a page of zeros.
        (unsafe { (*ring.as_ptr()).magic } == MAGIC).then_some(ring)
    }

    /// Hands over control blocks, and returns how many were taken.
    fn submit(&self, blocks: &[*mut ControlBlock]) -> nix::Result<usize> {
        // SAFETY: the kernel reads the blocks during the call, and writes their keys; the memory
        // that they point to belongs to one submission alone, and whoever made it keeps it until
        // the kernel has done with it.
        let taken =
            unsafe { libc::syscall(libc::SYS_io_submit, self.id, blocks.len(), blocks.as_ptr()) };
        Ok(Errno::result(taken)?.cast_unsigned() as usize)
    }

    /// Waits for so many completions, or until the time is over, and returns how many were written
    /// to `events`.
    fn wait(
        &self,
        least: usize,
        events: &mut [Event],
        time: Option<&libc::timespec>,
    ) -> io::Result<usize> {
        // SAFETY: the kernel writes to `events` during the call, and no more than there is room
        // for; it reads the time then too.
        let come = unsafe {
            libc::syscall(
                libc::SYS_io_getevents,
                self.id,
                least,
                events.len(),
                events.as_mut_ptr(),
                time.map_or(null(), std::ptr::from_ref),
            )
        };
        match Errno::result(come) {
            Ok(come) => Ok(come.cast_unsigned() as usize),
            Err(Errno::EINTR) => Ok(0),
            Err(error) => Err(error.into()),
        }
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        // SAFETY: nobody uses the context after this, nor its ring. The kernel waits for what is
        // in flight.
        unsafe { libc::syscall(libc::SYS_io_destroy, self.id) };
    }
}

/// A context in use, with what goes to it and comes from it.
pub(super) struct Aio {
    /// `None` once it is among the spare ones.
    context: Option<Context>,
    ring: Option<NonNull<Header>>,
    /// The first `queued` of these are to be handed over.
    blocks: Box<[Cell<ControlBlock>]>,
    /// Where each of them lies.
    addresses: Box<[*mut ControlBlock]>,
    queued: usize,
    /// Those from `taken` to `ready` are completions.
    events: Box<[Event]>,
    ready: usize,
    taken: usize,
    /// How many I/Os the kernel has.
    in_flight: usize,
}

impl Aio {
    /// For so many submissions at a time.
    pub(super) fn new(entries: usize) -> io::Result<Self> {
        let entries = entries.clamp(1, ENTRIES_MAX);
        let context = match take_spare(entries) {
            Some(context) => context,
            None => Context::new(entries).or_else(|errno| match errno {
                // Those that wait are too small, and take what there is of places.
                Errno::EAGAIN => {
                    spare().clear();
                    Context::new(entries)
                }
                other => Err(other),
            })?,
        };
        let blocks: Box<[_]> = vec![Cell::new(ControlBlock::default()); entries].into();
        Ok(Self {
            ring: context.ring(),
            context: Some(context),
            addresses: blocks.iter().map(Cell::as_ptr).collect(),
            blocks,
            queued: 0,
            events: vec![Event::default(); entries].into(),
            ready: 0,
            taken: 0,
            in_flight: 0,
        })
    }

    /// Fills the arena from the beginning of a file, to see that I/O goes this way.
    pub(super) fn read(&mut self, file: &File, arena: &mut Arena) -> io::Result<u32> {
        let len = arena.len();
        self.add(ControlBlock {
            command: READ,
            descriptor: file.as_raw_fd().cast_unsigned(),
            address: arena.address(0, len) as u64,
            len: len as u64,
            ..ControlBlock::default()
        });
        if let Some((_, errno)) = self.hand_over() {
            return Err(errno.into());
        }
        loop {
            self.collect(1, None)?;
            if let Some(event) = self.take() {
                return u32::try_from(event.result)
                    .map_err(|_| io::Error::from_raw_os_error(-event.result as i32));
            }
        }
    }

    /// What is in use, for the record.
    fn features(&self) -> Vec<&'static str> {
        match self.ring {
            Some(_) => vec!["io_submit", "completions read from shared memory"],
            None => vec!["io_submit", "io_getevents"],
        }
    }

    /// Queues a control block. There is a place for each that may be in flight.
    #[inline]
    fn add(&mut self, block: ControlBlock) {
        self.blocks[self.queued].set(block);
        self.queued += 1;
    }

    /// Hands over what is queued, up to what the kernel refuses: that is returned, and is to be
    /// answered. What it has no room for at the moment stays queued.
    #[inline]
    fn hand_over(&mut self) -> Option<(ControlBlock, Errno)> {
        let mut sent = 0;
        let mut refused = None;
        while let Some(context) = &self.context
            && sent < self.queued
        {
            match context.submit(&self.addresses[sent..self.queued]) {
                Ok(taken) => {
                    sent += taken;
                    self.in_flight += taken;
                }
                Err(Errno::EAGAIN) if self.in_flight > 0 => break,
                Err(errno) => {
                    refused = Some((self.blocks[sent].get(), errno));
                    sent += 1;
                    break;
                }
            }
        }
        for left in sent..self.queued {
            self.blocks[left - sent].set(self.blocks[left].get());
        }
        self.queued -= sent;
        refused
    }

    /// Makes a completion of what the kernel refused.
    #[cold]
    fn answer(&mut self, block: &ControlBlock, result: i32) {
        self.events[self.ready] =
            Event { data: block.data, result: i64::from(result), ..Event::default() };
        self.ready += 1;
    }

    /// Collects completions, and waits until there are so many of them, nothing is in flight, or
    /// the time is over, if there is one.
    /// Returns how many there are; they may be fewer when the call was interrupted.
    #[inline]
    fn collect(&mut self, wait: usize, time: Option<&libc::timespec>) -> io::Result<usize> {
        let before = self.ready;
        self.collect_from_ring();
        self.in_flight -= self.ready - before;
        let wait = wait.min(self.ready + self.in_flight);
        if let Some(context) = &self.context
            && self.ready < wait
        {
            let come = context.wait(wait - self.ready, &mut self.events[self.ready..], time)?;
            self.ready += come;
            self.in_flight -= come;
        }
        Ok(self.ready)
    }

    #[inline]
    fn collect_from_ring(&mut self) {
        let Some(ring) = self.ring else { return };
        // SAFETY: the ring is mapped as long as the context lives, and what of it the kernel
        // changes is atomic here.
        let header = unsafe { ring.as_ref() };
        let mut head = header.head.load(Ordering::Relaxed);
        // The kernel has written the events before it moves the tail.
        let tail = header.tail.load(Ordering::Acquire);
        while head != tail && self.ready < self.events.len() {
            // SAFETY: events follow the header, as many as it says, and head is one of them. The
            // kernel doesn't write to it until head has moved on.
            self.events[self.ready] =
                unsafe { ring.add(1).cast::<Event>().add(head as usize).read() };
            self.ready += 1;
            head = if head + 1 == header.len { 0 } else { head + 1 };
        }
        header.head.store(head, Ordering::Release);
    }

    /// The next completion.
    #[inline]
    fn take(&mut self) -> Option<Event> {
        if self.taken == self.ready {
            (self.taken, self.ready) = (0, 0);
            return None;
        }
        self.taken += 1;
        Some(self.events[self.taken - 1])
    }
}

impl Drop for Aio {
    fn drop(&mut self) {
        if let Some(context) = self.context.take().filter(|_| self.in_flight == 0) {
            spare().push(context);
        }
    }
}

fn spare() -> MutexGuard<'static, Vec<Context>> {
    SPARE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The smallest of the spare contexts that has enough room.
fn take_spare(entries: usize) -> Option<Context> {
    let mut spare = spare();
    let enough = spare.iter().enumerate().filter(|(_, context)| context.entries >= entries);
    let (index, _) = enough.min_by_key(|(_, context)| context.entries)?;
    Some(spare.swap_remove(index))
}

/// A context as a flight uses it.
struct AioQueue<'run> {
    aio: Aio,
    files: &'run Files,
    /// How a flush is done: the command, and the call where the kernel knows no such command.
    flush: (u16, fn(&File) -> io::Result<()>),
}

impl Queue for AioQueue<'_> {
    #[expect(clippy::inline_always, reason = "it would be a call, and a copy, for each I/O")]
    #[inline(always)]
    fn push(&mut self, submission: Submission) -> io::Result<()> {
        let Submission { part, kind, member, address, len, offset } = submission;
        let file = &self.files.members[member as usize].file;
        let mut block = ControlBlock {
            data: part as u64,
            command: self.flush.0,
            descriptor: file.as_raw_fd().cast_unsigned(),
            ..ControlBlock::default()
        };
        if kind != IoKind::Sync {
            (block.command, block.flags) = match kind {
                IoKind::Write => (WRITE, self.files.write_flags),
                _ => (READ, 0),
            };
            (block.address, block.len) = (address as u64, u64::from(len));
            block.offset = offset.cast_signed();
        }
        self.aio.add(block);
        Ok(())
    }

    #[inline]
    fn enter(&mut self, wait: usize) -> io::Result<usize> {
        self.hand_over();
        self.aio.collect(wait, None)
    }

    fn enter_for(&mut self, time_ns: u64) -> io::Result<usize> {
        self.hand_over();
        let time = libc::timespec {
            tv_sec: (time_ns / 1_000_000_000).cast_signed(),
            tv_nsec: (time_ns % 1_000_000_000).cast_signed(),
        };
        self.aio.collect(1, Some(&time))
    }

    #[inline]
    fn next(&mut self) -> Option<(usize, i32)> {
        let event = self.aio.take()?;
        // An I/O is shorter than 2 GiB, and error numbers are small.
        Some((event.data as usize, event.result as i32))
    }
}

impl AioQueue<'_> {
    /// Hands over all that is queued, and answers what the kernel refuses.
    #[inline]
    fn hand_over(&mut self) {
        while let Some((block, errno)) = self.aio.hand_over() {
            let result = self.refused(&block, errno);
            self.aio.answer(&block, result);
        }
    }

    /// What comes of a submission that the kernel refused: a flush is done by a call of its own
    /// where there is no such command.
    #[cold]
    fn refused(&self, block: &ControlBlock, errno: Errno) -> i32 {
        let (command, flush) = self.flush;
        let of_block = |file: &&File| file.as_raw_fd().cast_unsigned() == block.descriptor;
        let mut files = self.files.members.iter().map(|member| &*member.file);
        match files.find(of_block) {
            Some(file) if block.command == command && errno == Errno::EINVAL => {
                flush(file).map_or_else(|error| -error.raw_os_error().unwrap_or(0), |()| 0)
            }
            _ => -(errno as i32),
        }
    }
}

/// One worker, ready to start.
pub(super) struct AioWorker<'run> {
    driver: Driver<'run>,
    queue: AioQueue<'run>,
    flight: Flight<'run>,
    batch: Batch,
}

impl<'run> AioWorker<'run> {
    /// To be called by the thread that will run it.
    pub(super) fn new(
        job: &'run Job,
        files: &'run Files,
        driver: Driver<'run>,
        buffers: Buffers,
        board: &'run Board,
    ) -> Result<Self, EngineError> {
        let depth = job.queue_depth as usize;
        let aio = Aio::new(depth * job.parts_max(files.members.len()))
            .map_err(|error| refusal(job, Way::Libaio, &error))?;
        let flush: (u16, fn(&File) -> io::Result<()>) = match job.flush_every {
            Some((_, Flush::Fdatasync)) => (FDSYNC, File::sync_data),
            _ => (FSYNC, File::sync_all),
        };
        Ok(Self {
            flight: Flight::new(job, files, board, buffers, aio.blocks.len()),
            driver,
            queue: AioQueue { aio, files, flush },
            batch: Batch::new(depth),
        })
    }

    /// What is in use.
    pub(super) fn features(&self) -> Vec<&'static str> {
        self.queue.aio.features()
    }

    /// Runs from the start line to the end of its last I/O.
    pub(super) fn run(mut self, job: &Job, start: u64) -> Result<Done, EngineError> {
        self.driver.start(job, start);
        match self.flight.run(&mut self.driver, &mut self.batch, &mut self.queue) {
            Ok(()) => Ok(self.driver.finish()),
            Err(source) => Err(EngineError::System {
                operation: "io_getevents",
                disk: self.queue.files.members[0].name.clone(),
                source,
            }),
        }
    }
}
