//! What the engine is asked to do, and what it says while it does it.

use std::fs::File;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use thiserror::Error;

use super::access::Access;
use super::stripe::StripeMap;
use super::verify::Generations;
use crate::model::DiskModel;
use crate::units::{Bytes, Nanos};

/// One round of one case, in plain numbers. All sizes are whole multiples of what the target can
/// address; whoever builds a job has checked that.
#[derive(Debug, Clone)]
pub struct Job {
    /// What the I/Os go to.
    pub storage: Storage,
    /// First byte of the region that is used.
    pub start: u64,
    /// Length of the region in bytes: a whole multiple of `granularity`.
    pub len: u64,
    /// Whether offsets are random.
    pub random: bool,
    /// Whether a pass visits every block exactly once, in an order that a seed decides.
    pub once: bool,
    /// Which places random I/Os favour; `Uniform` in sequence and with `once`.
    pub access: Access,
    /// Whether each worker has an equal part of the region for itself.
    pub partitioned: bool,
    /// Share of reads, 0 to 100.
    pub read_percent: u8,
    /// Whether what is no read is a trim in place of a write.
    pub trim: bool,
    /// Block sizes with their shares.
    pub blocks: Vec<Mix>,
    /// What all offsets are multiples of: the smallest block size.
    pub granularity: Bytes,
    /// I/Os in flight for each worker.
    pub queue_depth: u32,
    /// Workers.
    pub workers: u32,
    /// CPUs to which they are pinned in turn; empty for none.
    pub cpus: Vec<usize>,
    /// When I/Os are begun.
    pub pace: Pace,
    /// Time before the measured window.
    pub warmup: Nanos,
    /// Length of the measured window.
    pub length: Length,
    /// Time after it, during which the load goes on.
    pub cooldown: Nanos,
    /// What each write asks of the device.
    pub write_sync: WriteSync,
    /// A flush after every so many writes of a worker.
    pub flush_every: Option<(u32, Flush)>,
    /// Whether an `fsync` at the end counts into the time.
    pub fsync_at_end: bool,
    /// What is written.
    pub payload: Payload,
    /// Whether what is read is held against what was written, and the table of that.
    pub verify: Option<Arc<Generations>>,
    /// By which way.
    pub backend: Backend,
    /// What is asked of a ring; all of it with `Backend::IoUring` alone.
    pub ring: RingOptions,
    /// Seed of every random choice of this round.
    pub seed: u64,
    /// Length of one interval of the series.
    pub series_interval: Nanos,
}

impl Job {
    /// The most parts that one of its I/Os falls into on so many members: over those when it
    /// crosses chunks, and one for each of them when it is a flush.
    pub(super) fn parts_max(&self, members: usize) -> usize {
        let largest = self.blocks.iter().map(|mix| mix.block).max().unwrap_or_default();
        let flushes = self.flush_every.is_some();
        parts_max(self.storage.chunk, members, (largest, self.granularity), flushes)
    }
}

/// The most parts that an I/O falls into on `members` disks in stripes of `chunk`, of blocks that
/// are at most `largest` and lie at multiples of `granularity`. With `flushes` among them, those
/// have a part for each member.
#[must_use]
pub fn parts_max(
    chunk: Option<Bytes>,
    members: usize,
    (largest, granularity): (Bytes, Bytes),
    flushes: bool,
) -> usize {
    let Some(chunk) = chunk.filter(|_| members > 1) else { return 1 };
    let parts = StripeMap::new(chunk.0, members).parts_max(largest.0 as u32, granularity.0);
    parts.max(if flushes { members } else { 1 })
}

/// Whether [`Backend::Auto`] takes a ring where there is one, or `libaio`: several I/Os in flight
/// need one of them, and the parts of an I/O go out side by side through them.
#[must_use]
pub fn prefers_ring(queue_depth: u32, parts_max: usize) -> bool {
    queue_depth > 1 || parts_max > 1
}

/// A block size and its share among the others of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mix {
    /// The block size.
    pub block: Bytes,
    /// Its share, relative to the sum of all.
    pub weight: u32,
}

/// When a job's I/Os are begun.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Pace {
    /// As soon as one before is done: so many are always in flight.
    Closed,
    /// At times that are set before the run. Latency counts from those.
    Open {
        /// How many, all workers together.
        rate: Rate,
        /// How they lie in time.
        arrivals: Arrivals,
        /// What could not be begun by then is passed over and counted; `None` for never.
        max_lateness: Option<Nanos>,
    },
    /// After so many I/Os of a worker, when all of them are done, none is begun for a while.
    Think {
        /// For how long.
        pause: Nanos,
        /// I/Os of a burst.
        after: u32,
    },
}

/// How much is due a second; above 0.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Rate {
    /// So many I/Os.
    Ios(f64),
    /// So many bytes.
    Bytes(f64),
}

/// How due times lie in time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Arrivals {
    /// At equal distances.
    Even,
    /// As independent events: a Poisson process.
    Poisson,
}

/// When the measured window ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Length {
    /// After this time.
    Time(Nanos),
    /// After this many bytes, all workers together.
    Bytes(Bytes),
}

/// What a write asks of the device before it is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WriteSync {
    /// Nothing.
    None,
    /// `RWF_DSYNC`.
    Dsync,
    /// `RWF_SYNC`.
    Sync,
}

/// How a flush is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Flush {
    /// `fsync`.
    Fsync,
    /// `fdatasync`.
    Fdatasync,
}

/// What is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Payload {
    /// Incompressible, and different in every block.
    Random,
    /// Zeros.
    Zero,
    /// This share, in percent, can be compressed away.
    Compressible(u8),
    /// This share of the blocks, in percent, repeats one of a few.
    Duplicate(u8),
}

/// By which way the I/Os go to the kernel. On simulated storage the answer is always `sim`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Backend {
    /// For several I/Os in flight, or parts of one side by side: `io_uring` where the kernel lets
    /// it, else `libaio` without the page cache, else `sync` where the depth is 1. Otherwise
    /// `sync`.
    Auto,
    /// As `Auto`, but not by `sync` where it would do and another can be had: what the job is
    /// compared with goes that way, and one way is not to be held against another.
    AutoWithRing,
    /// As `AutoWithRing`, but by `libaio` before `io_uring`.
    AutoWithLibaio,
    /// `io_uring` or an error.
    IoUring,
    /// `libaio` or an error. Through the page cache it does one I/O at a time, whatever the depth.
    Libaio,
    /// `pread` and `pwrite`; depth 1.
    Sync,
}

/// What is asked of a ring beyond what it has wherever the kernel knows it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RingOptions {
    /// Whether the device's queues are polled for completions (`IORING_SETUP_IOPOLL`). No flush and
    /// no trim goes through such a ring.
    pub polled: bool,
    /// Whether a thread of the kernel takes what is submitted (`IORING_SETUP_SQPOLL`): one for
    /// each worker, which keeps a processor busy.
    pub kernel_thread: bool,
}

/// What the I/Os go to: members, and how they are made one address space.
#[derive(Debug, Clone)]
pub struct Storage {
    /// What the members are.
    pub target: Target,
    /// Chunk of the stripe over them; `None` with one member.
    pub chunk: Option<Bytes>,
    /// Usable bytes of each member, a whole multiple of the chunk.
    pub member_bytes: u64,
}

/// What the members of a storage are.
#[derive(Debug, Clone)]
pub enum Target {
    /// Open files or devices.
    Files(Vec<DeviceFile>),
    /// Simulated disks: a name and a behaviour each.
    Simulated(Vec<(String, DiskModel)>),
}

/// One open member.
#[derive(Debug, Clone)]
pub struct DeviceFile {
    /// The disk's name, for errors and shares.
    pub name: String,
    /// Opened as the job needs it: with or without `O_DIRECT`, for writing or not.
    pub file: Arc<File>,
    /// What buffer addresses must be multiples of; a power of two.
    pub memory_align: usize,
    /// What offsets and lengths must be multiples of; 1 through the page cache.
    pub offset_align: u32,
}

/// A job's strings to the outside.
#[derive(Debug, Clone, Default)]
pub struct Control {
    stop: Arc<AtomicBool>,
    patience: Patience,
}

impl Control {
    /// One that stops when `stop` becomes true: workers stop submitting, drain, and return.
    #[must_use]
    pub fn new(stop: Arc<AtomicBool>) -> Self {
        Self { stop, patience: Patience::default() }
    }

    /// Whether it was asked to stop.
    #[must_use]
    pub fn stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// For how long nothing may come back.
    pub(super) fn patience(&self) -> Patience {
        self.patience
    }

    /// As it is, but for its patience.
    #[cfg(test)]
    pub(super) fn with_patience(self, patience: Patience) -> Self {
        Self { patience, ..self }
    }
}

/// For how long I/Os may be in flight without one of them coming back.
#[derive(Debug, Clone, Copy)]
pub(super) struct Patience {
    /// While the job runs and drains.
    pub(super) running: Nanos,
    /// After it was asked to stop.
    pub(super) stopping: Nanos,
}

impl Default for Patience {
    fn default() -> Self {
        // The person is to hear of it within 30 s.
        Self { running: Nanos(20_000_000_000), stopping: Nanos(10_000_000_000) }
    }
}

/// How a running job is doing, a few times a second, from the thread that called [`run`].
///
/// [`run`]: super::run
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Progress {
    /// Time since the start line.
    pub elapsed: Nanos,
    /// Whether the measured window has begun.
    pub measuring: bool,
    /// Reads, writes and trims completed since the last report.
    pub completed: u64,
    /// Bytes that they moved.
    pub bytes: u64,
    /// Time since the last report.
    pub since_last: Nanos,
    /// Bytes moved in the measured window so far, for jobs that end after an amount.
    pub bytes_measured: u64,
    /// p99 latency of reads, writes and trims so far in nanoseconds, once there are samples for it.
    pub p99_ns: Option<u64>,
    /// After the load of a verified job, while what was written is read back: how many bytes of
    /// its region are behind, and how many there are. Of the other figures, `elapsed` is from the
    /// beginning of that, and `bytes` are these.
    pub read_back: Option<(u64, u64)>,
}

/// Why a job could not be run at all. Failed I/Os are not this: they are counted.
#[derive(Debug, Error)]
pub enum EngineError {
    /// The ring could not be made.
    #[error("io_uring can't be used: {reason}")]
    NoRing {
        /// Why, with the remedy.
        reason: String,
    },
    /// Completions can't be polled for.
    #[error("completions can't be polled for: {reason}")]
    NoPolling {
        /// Why, with the remedy.
        reason: String,
    },
    /// The kernel refused `libaio`.
    #[error("libaio can't be used: {reason}")]
    NoLibaio {
        /// Why, with the remedy.
        reason: String,
    },
    /// What is trimmed takes one trim at a time.
    #[error("a queue depth of {queue_depth} can't be had for trims: {reason}")]
    DepthOfTrims {
        /// What was asked.
        queue_depth: u32,
        /// Why, with the remedy.
        reason: String,
    },
    /// The way that is left can't do what the job asks.
    #[error("a queue depth of {queue_depth} needs io_uring or libaio: {reason}")]
    DepthNeedsRing {
        /// What was asked.
        queue_depth: u32,
        /// Why there is neither, with the remedies.
        reason: String,
    },
    /// Memory for buffers could not be had.
    #[error(
        "no memory for {bytes} bytes of I/O buffers of a worker; ask for fewer workers, less queue \
         depth or smaller blocks, or raise a limit that `ulimit -v` or the control group sets"
    )]
    NoMemory {
        /// How much was asked for.
        bytes: u64,
    },
    /// Threads could not be made or pinned.
    #[error("can't start the workers: {reason}")]
    Workers {
        /// Why.
        reason: String,
    },
    /// A system call that has to work didn't.
    #[error("{operation} failed on {disk}")]
    System {
        /// Which one.
        operation: &'static str,
        /// On which disk.
        disk: String,
        /// The kernel's answer.
        #[source]
        source: std::io::Error,
    },
    /// I/Os don't return. Their threads, buffers and files are left as they are.
    #[error("{}", not_answering(disks, *offset, *silence, *in_flight))]
    Stuck {
        /// The disks on which some are outstanding, first that of the first.
        disks: Vec<String>,
        /// Byte offset of the first there; `None` when it is a flush.
        offset: Option<u64>,
        /// For how long none has come back.
        silence: Nanos,
        /// How many are outstanding, each part of one that a stripe cut counted.
        in_flight: usize,
    },
}

impl EngineError {
    /// Whether the machine lacks something that the job needs, so that the case is skipped with
    /// this reason rather than an error.
    #[must_use]
    pub fn is_missing_requirement(&self) -> bool {
        matches!(
            self,
            Self::DepthNeedsRing { .. } | Self::DepthOfTrims { .. } | Self::NoPolling { .. }
        )
    }
}

/// Which disks don't answer, what is outstanding there, and where to look.
fn not_answering(
    disks: &[String],
    offset: Option<u64>,
    silence: Nanos,
    in_flight: usize,
) -> String {
    let (plural, verb) = if disks.len() > 1 { ("s", "don't") } else { ("", "doesn't") };
    let names = disks.join(", ");
    let ios = if in_flight == 1 { "I/O is" } else { "I/Os are" };
    let first = match offset {
        Some(offset) => format!("the first at byte {offset}"),
        None => "the first a flush".to_owned(),
    };
    format!(
        "disk{plural} {names} {verb} answer: {in_flight} {ios} outstanding, {first}, and none has \
         come back for {:.0} s; the device or its file system hangs or is frozen, and `dmesg` may \
         say why",
        silence.as_secs()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_does_not_answer_is_a_sentence() {
        let stuck = |disks: &[&str], offset, in_flight| EngineError::Stuck {
            disks: disks.iter().map(ToString::to_string).collect(),
            offset,
            silence: Nanos(20_030_000_000),
            in_flight,
        };
        assert_eq!(
            stuck(&["data"], Some(4096), 1).to_string(),
            "disk data doesn't answer: 1 I/O is outstanding, the first at byte 4096, and none has \
             come back for 20 s; the device or its file system hangs or is frozen, and `dmesg` may \
             say why"
        );
        let two = stuck(&["a.1", "a.0"], None, 2).to_string();
        assert!(
            two.starts_with("disks a.1, a.0 don't answer: 2 I/Os are outstanding, the first a")
        );
    }
}
