//! The checked plan: what is left when every question about the text has been answered.
//!
//! A [`Plan`] is made by [`check`](super::check()) alone. Names have become indices, defaults and
//! profiles are applied, sweeps are expanded; what the check settled is not optional any more.

use std::fmt;
use std::path::PathBuf;

use super::assertion::Assertion;
use super::pace::Pace;
use crate::units::{Bytes, Nanos, Percent};

/// A sound plan.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    /// Its name, `[a-z0-9-]+`.
    pub name: String,
    /// What it is to prove.
    pub description: Option<String>,
    /// The profile that was applied.
    pub profile: Option<String>,
    /// Every disk; a counted one (`data`) stands here as `data.0`, `data.1` …
    pub disks: Vec<Disk>,
    /// Every setup; a swept one stands here once for each point.
    pub setups: Vec<Setup>,
    /// Every workload on every setup that it runs on, points expanded, in the order of the text:
    /// setups outside, workloads inside.
    pub cases: Vec<Case>,
    /// Every condition of every case that it applies to, in the order of the text.
    pub assertions: Vec<Assertion>,
    /// How it is run.
    pub run: RunOptions,
}

/// One piece of storage.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Disk {
    /// `lrs`, or `data.0` of a counted one.
    pub name: String,
    /// The name in the plan: `data` of `data.0`. What `--disk` binds.
    pub group: String,
    /// What it is, unless the command line binds another.
    pub source: DiskSource,
}

/// What a disk is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DiskSource {
    /// A file of this size, made for the run and removed after it.
    Loopback {
        /// Its size.
        size: Bytes,
    },
    /// A directory in which a test file of this size is made, and removed after the run.
    Directory {
        /// Where.
        path: PathBuf,
        /// Size of the test file.
        size: Bytes,
    },
    /// The null device: takes all that is written, and does nothing.
    Null {
        /// How large it is said to be.
        size: Bytes,
    },
    /// A block device or a regular file that is there already, opened for reading only.
    Device {
        /// Where.
        path: PathBuf,
        /// The plan's `size`, for when the command line binds a directory in its place.
        size: Option<Bytes>,
    },
}

/// Disks put together: what a workload runs on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Setup {
    /// Its name in the plan.
    pub name: String,
    /// Its point, where it is swept.
    pub point: Point,
    /// Indices into [`Plan::disks`]; more than one only with a stripe.
    pub disks: Vec<usize>,
    /// How several disks are made one.
    pub stripe: Option<Stripe>,
}

/// Striping over a setup's disks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stripe {
    /// Who stripes.
    pub driver: StripeDriver,
    /// Bytes on one disk before the next one's turn; a power of two.
    pub chunk: Bytes,
}

/// Who stripes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StripeDriver {
    /// The program itself, with the address map of RAID 0.
    Engine,
}

/// The values that tell one point of a sweep from the others, as `key=value` in the plan's own
/// spelling. Empty where nothing is swept.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Point(pub Vec<(String, String)>);

impl fmt::Display for Point {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() {
            return Ok(());
        }
        let pairs: Vec<_> = self.0.iter().map(|(key, value)| format!("{key}={value}")).collect();
        write!(out, "[{}]", pairs.join(","))
    }
}

/// A case's name: `setup[point]/workload[point]`, and behind it that of a stream if it is one.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CaseId {
    /// The setup's name.
    pub setup: String,
    /// The setup's point.
    pub setup_point: Point,
    /// The workload's name.
    pub workload: String,
    /// The workload's point.
    pub workload_point: Point,
    /// One of its streams; `None` of the whole.
    pub stream: Option<String>,
}

impl fmt::Display for CaseId {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { setup, setup_point, workload, workload_point, stream } = self;
        write!(out, "{setup}{setup_point}/{workload}{workload_point}")?;
        stream.as_ref().map_or(Ok(()), |stream| write!(out, "/{stream}"))
    }
}

/// A workload on a setup.
#[derive(Debug, Clone, PartialEq)]
pub struct Case {
    /// Its name.
    pub id: CaseId,
    /// Index into [`Plan::setups`].
    pub setup: usize,
    /// What to do there.
    pub workload: Workload,
}

/// One I/O pattern with its length.
#[derive(Debug, Clone, PartialEq)]
pub struct Workload {
    /// Direction and order.
    pub rw: Rw,
    /// Share of reads: 100 for a pure reader, 0 for what only writes or trims.
    pub read_percent: Percent,
    /// Block sizes with their shares.
    pub blocks: Blocks,
    /// I/Os in flight for each worker.
    pub queue_depth: u32,
    /// Workers.
    pub workers: u32,
    /// Whether workers share the region or have a part each.
    pub layout: Layout,
    /// The part of the target that is used.
    pub region: Region,
    /// Which places random I/Os favour; `Uniform` in sequence and with `once`.
    pub access: Access,
    /// Whether every block is visited exactly once in a pass.
    pub once: bool,
    /// When it ends.
    pub limit: Limit,
    /// When its I/Os are begun.
    pub pace: Pace,
    /// Time before the measured window.
    pub warmup: Nanos,
    /// Time after the measured window during which the load goes on.
    pub cooldown: Nanos,
    /// Whether the page cache is passed by.
    pub cache: Cache,
    /// What each write asks of the device.
    pub sync: Sync,
    /// Flushes between writes.
    pub flush: Option<FlushEvery>,
    /// Whether an `fsync` at the end counts into the time.
    pub fsync_at_end: bool,
    /// What is written.
    pub data: Data,
    /// Whether what it reads is held against what was written, and what it writes can be.
    pub verify: bool,
    /// By which way; `IoUring` with one of the next two.
    pub engine: EngineChoice,
    /// Whether completions are polled for.
    pub hipri: bool,
    /// Whether a thread of the kernel takes the submissions.
    pub sqpoll: bool,
    /// CPUs to which the workers are pinned, in turn; empty for none.
    pub cpus: Vec<usize>,
    /// Seed of every random choice.
    pub seed: u64,
    /// Loads side by side; empty where it is one load. With streams, what shapes a load is theirs,
    /// and here stands what they have together: every block size, the deepest queue, all workers.
    pub streams: Vec<Stream>,
}

/// One of several loads side by side.
#[derive(Debug, Clone, PartialEq)]
pub struct Stream {
    /// Its name.
    pub name: String,
    /// What it does, with the time line of all of them.
    pub workload: Workload,
}

impl Workload {
    /// What runs side by side: its streams, or itself.
    #[must_use]
    pub fn loads(&self) -> Vec<&Self> {
        match self.streams.as_slice() {
            [] => vec![self],
            streams => streams.iter().map(|stream| &stream.workload).collect(),
        }
    }

    /// Whether it reads.
    #[must_use]
    pub fn reads(&self) -> bool {
        self.loads().iter().any(|load| load.read_percent.0 > 0)
    }

    /// Whether it writes.
    #[must_use]
    pub fn writes(&self) -> bool {
        self.loads().iter().any(|load| load.read_percent.0 < 100 && !load.rw.is_trim())
    }

    /// Whether it trims. A load that does does nothing else.
    #[must_use]
    pub fn trims(&self) -> bool {
        self.loads().iter().any(|load| load.rw.is_trim())
    }

    /// Whether what is on the disk is another thing afterwards.
    #[must_use]
    pub fn changes(&self) -> bool {
        self.writes() || self.trims()
    }

    /// Whether it syncs: between writes, or at the end.
    #[must_use]
    pub fn syncs(&self) -> bool {
        self.loads().iter().any(|load| load.flush.is_some() || load.fsync_at_end)
    }
}

/// Direction and order of a workload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "the words of the plan language")]
pub enum Rw {
    Read,
    Write,
    RandRead,
    RandWrite,
    ReadWrite,
    RandRw,
    Trim,
    RandTrim,
}

impl Rw {
    /// Whether it reads and writes, in shares that `read_percent` decides.
    #[must_use]
    pub fn is_mixed(self) -> bool {
        matches!(self, Self::ReadWrite | Self::RandRw)
    }

    /// Whether offsets are random.
    #[must_use]
    pub fn is_random(self) -> bool {
        matches!(self, Self::RandRead | Self::RandWrite | Self::RandRw | Self::RandTrim)
    }

    /// Whether it gives up what is there.
    #[must_use]
    pub fn is_trim(self) -> bool {
        matches!(self, Self::Trim | Self::RandTrim)
    }
}

/// Block sizes with their shares: at least one, each share above 0.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Blocks(pub Vec<(Bytes, u32)>);

impl Blocks {
    /// The largest.
    #[must_use]
    pub fn largest(&self) -> Bytes {
        self.0.iter().map(|(size, _)| *size).max().unwrap_or_default()
    }

    /// The smallest, which all offsets are multiples of.
    #[must_use]
    pub fn smallest(&self) -> Bytes {
        self.0.iter().map(|(size, _)| *size).min().unwrap_or_default()
    }
}

/// How several workers divide the region.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Layout {
    /// All of them use all of it.
    Shared,
    /// An equal part each.
    Partitioned,
}

/// A position or a length on a target whose size the plan may not know.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// In bytes.
    Bytes(Bytes),
    /// As a share of the target.
    Percent(Percent),
}

/// The part of the target that a workload uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Region {
    /// Where it starts.
    pub offset: Place,
    /// How long it is; `None` to the end.
    pub size: Option<Place>,
}

/// A region resolved on a target.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Extent {
    /// First byte.
    pub start: u64,
    /// Length in bytes.
    pub len: u64,
}

impl Extent {
    /// Length of the part that each of `workers` has of it, in whole multiples of `block_bytes`.
    /// What is left over at the end belongs to nobody.
    #[must_use]
    pub fn part_len(&self, workers: u32, block_bytes: u64) -> u64 {
        self.len / block_bytes / u64::from(workers) * block_bytes
    }
}

impl Region {
    /// This region on a target of `target_bytes`, cut down to whole multiples of `block_bytes`
    /// (which the start is rounded down to as well). `None` when not one block fits.
    #[must_use]
    pub fn on(&self, target_bytes: u64, block_bytes: u64) -> Option<Extent> {
        let resolve = |place: Place| match place {
            Place::Bytes(bytes) => bytes.0,
            Place::Percent(percent) => percent.of(target_bytes),
        };
        let start = resolve(self.offset) / block_bytes * block_bytes;
        let rest = target_bytes.checked_sub(start)?;
        let len = match self.size.map(resolve) {
            Some(len) if len > rest => return None,
            Some(len) => len,
            None => rest,
        };
        let len = len / block_bytes * block_bytes;
        (len > 0).then_some(Extent { start, len })
    }
}

/// Which places of the region random I/Os favour.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Access {
    /// None.
    Uniform,
    /// The block of rank k is asked for in proportion to `1 / k^theta`, with this theta.
    Zipf(f64),
    /// This share of the blocks gets all I/Os but this share, and so on within it.
    Pareto(f64),
    /// Around the middle, with this standard deviation in percent of the region.
    Normal(f64),
    /// A part at the start of the region gets more than its share.
    Hot {
        /// Share of the I/Os.
        ios: Percent,
        /// Share of the region.
        region: Percent,
    },
}

/// When a workload ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Limit {
    /// After this time.
    Runtime(Nanos),
    /// After this many bytes, all workers together.
    Amount(Bytes),
}

/// Whether the page cache is passed by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cache {
    /// `O_DIRECT`.
    Direct,
    /// Through the page cache, which is dropped for the target before each round.
    Buffered,
}

/// What each write asks of the device before it is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sync {
    /// Nothing.
    None,
    /// The data is on stable storage (`RWF_DSYNC`).
    Dsync,
    /// The data and all of the file's metadata are (`RWF_SYNC`).
    Sync,
}

/// A flush after every so many writes of a worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FlushEvery {
    /// Writes between two flushes; above 0.
    pub writes: u32,
    /// `fdatasync` in place of `fsync`.
    pub data_only: bool,
}

/// What is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Data {
    /// Incompressible, and different in every block.
    Random,
    /// Zeros.
    Zero,
    /// This share of it can be compressed away.
    Compressible(Percent),
    /// This share of the blocks repeats earlier ones.
    Duplicate(Percent),
}

/// By which way the I/Os go to the kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EngineChoice {
    /// `io_uring` or `libaio` where the kernel and the sandbox let it, else `sync` where the depth
    /// allows it.
    Auto,
    /// `io_uring` or an error.
    IoUring,
    /// The kernel's older asynchronous calls; without the page cache alone.
    Libaio,
    /// `pread` and `pwrite`.
    Sync,
}

/// How a plan is run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RunOptions {
    /// How many rounds.
    pub rounds: Rounds,
    /// In which order.
    pub order: Order,
    /// What an inconclusive gate makes of the run.
    pub inconclusive: Inconclusive,
}

/// How many rounds: at least `min`, and more up to `max` while a verdict is open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rounds {
    /// At least this many, above 0.
    pub min: u32,
    /// At most this many.
    pub max: u32,
}

/// The order of cases over the rounds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// A B, B A, A B …: every other round backwards, so that a steady drift cancels out.
    Balanced,
    /// A B, A B …
    Interleaved,
}

/// What an inconclusive gate makes of the run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Inconclusive {
    /// Exit code 5, an `error` in JUnit.
    Open,
    /// As a failure: exit code 1.
    Fail,
    /// As a pass.
    Pass,
}
