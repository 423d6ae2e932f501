//! What was measured, as plain data: histograms, series, counts, and the figures that follow.
//!
//! Everything here can be merged, written to a record and read back without loss. Nothing here
//! knows about plans or devices, or has an opinion on a figure.

mod fault;
mod histogram;
mod series;
#[cfg(test)]
mod tests;
mod together;
mod verified;

use serde::{Deserialize, Serialize};

pub(crate) use fault::merged as merged_faults;
pub use histogram::{Histogram, Recorder};
pub use series::Series;
pub use verified::{Verified, VerifyFind, VerifyKind};

use crate::units::Nanos;

/// A kind of I/O whose figures are kept apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum IoKind {
    /// Data read.
    Read,
    /// Data written.
    Write,
    /// Data given up: the discard of a device, the punching of a hole in a file.
    Trim,
    /// `fsync` and `fdatasync`: no bytes, but a latency.
    Sync,
}

impl IoKind {
    /// Every kind, in the order in which reports show them.
    pub const ALL: [Self; 4] = [Self::Read, Self::Write, Self::Trim, Self::Sync];

    /// Those that concern bytes, and that are meant where no kind is named.
    pub const DATA: [Self; 3] = [Self::Read, Self::Write, Self::Trim];

    /// The word of the plan language for it.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::Trim => "trim",
            Self::Sync => "sync",
        }
    }
}

/// One value for each kind of I/O.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(bound(
    serialize = "T: Serialize + Default + PartialEq",
    deserialize = "T: Deserialize<'de> + Default"
))]
pub struct PerKind<T> {
    /// Of reads.
    pub read: T,
    /// Of writes.
    pub write: T,
    /// Of trims. Not in a record where there were none.
    #[serde(default, skip_serializing_if = "is_default")]
    pub trim: T,
    /// Of syncs.
    pub sync: T,
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

impl<T> std::ops::Index<IoKind> for PerKind<T> {
    type Output = T;
    fn index(&self, kind: IoKind) -> &T {
        match kind {
            IoKind::Read => &self.read,
            IoKind::Write => &self.write,
            IoKind::Trim => &self.trim,
            IoKind::Sync => &self.sync,
        }
    }
}

impl<T> std::ops::IndexMut<IoKind> for PerKind<T> {
    fn index_mut(&mut self, kind: IoKind) -> &mut T {
        match kind {
            IoKind::Read => &mut self.read,
            IoKind::Write => &mut self.write,
            IoKind::Trim => &mut self.trim,
            IoKind::Sync => &mut self.sync,
        }
    }
}

/// What one kind of I/O did in the measured window.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct KindFigures {
    /// I/Os that completed within the window: what IOPS is made of.
    pub completed: u64,
    /// Bytes that those moved.
    pub bytes: u64,
    /// Latency of every I/O *started* within the window, however late it ended, so that a stall
    /// over the end is never lost. Differs from `completed` by the queue depth at most.
    pub latency_ns: Histogram,
}

/// Processor time that the workers used in the measured window.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CpuUse {
    /// In the program.
    pub user_ns: u64,
    /// In the kernel on the program's behalf.
    pub system_ns: u64,
}

/// I/Os that failed in one way.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct IoFault {
    /// What was asked for.
    pub kind: IoKind,
    /// The kernel's error number; 0 for a transfer that ended without an error and without data.
    pub errno: i32,
    /// How often.
    pub count: u64,
    /// Name of the disk on which it was seen first.
    pub disk: String,
    /// Byte offset on that disk, of the first.
    pub first_offset: u64,
}

/// The share of one worker or one stripe member in what was done: shows unfairness.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Share {
    /// Whose share: `worker 0`, or the disk's name.
    pub name: String,
    /// I/Os completed in the window.
    pub completed: u64,
    /// Bytes that those moved.
    pub bytes: u64,
}

/// By which way the I/Os went to the kernel.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BackendUsed {
    /// `io_uring`, `libaio`, `sync` or `sim`.
    pub name: String,
    /// Why this one: a sentence for the reader of the report.
    pub why: String,
    /// What of it was in use: `registered files`, `fixed buffers` …
    pub features: Vec<String>,
}

/// What the block device under the target counted over the measured window, by the kernel's own
/// books (`/sys/dev/block/*/stat`); where there are several members, their sum and busiest.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct DeviceUse {
    /// Bytes read from it by anybody.
    pub read_bytes: u64,
    /// Bytes written to it by anybody.
    pub written_bytes: u64,
    /// Share of the window during which the busiest member had I/O in flight, 0 to 100.
    pub utilization_percent: f64,
}

/// What an open loop, whose I/Os are due at set times, measured besides.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct OpenLoop {
    /// I/Os that were due in the window, and didn't fail.
    pub due: u64,
    /// Those of them that were never begun: they came too late, or their turn didn't come before
    /// the load ended.
    pub dropped: u64,
    /// From the start of an I/O to its end. The latency of its kind counts from when it was due.
    pub service_ns: Histogram,
    /// From when an I/O was due to its start.
    pub lateness_ns: Histogram,
}

impl OpenLoop {
    /// Whether more were dropped than may be: a hundredth of them, and one for each worker, whose
    /// last one may fall to the end of the load.
    #[must_use]
    pub fn drops_too_many(&self, workers: usize) -> bool {
        self.dropped > self.due / 100 + workers as u64
    }

    fn add(&mut self, other: &Self) {
        self.due += other.due;
        self.dropped += other.dropped;
        self.service_ns.merge(&other.service_ns);
        self.lateness_ns.merge(&other.lateness_ns);
    }
}

/// Everything that one round of one case measured.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Measurement {
    /// Length of the measured window.
    pub duration_ns: Nanos,
    /// How long after the end of the load its last I/O came back. Of a job that ends after an
    /// amount 0, unless it was stopped. A device that takes much longer than a moment for it was
    /// asked for more than it can do in time. Of several rounds together, the longest.
    #[serde(default)]
    pub drain_ns: Nanos,
    /// Figures of each kind of I/O.
    pub kinds: PerKind<KindFigures>,
    /// Completions over time.
    pub series: Series,
    /// I/Os in flight, all workers together, as a mean over the window's time.
    pub queue_depth_achieved: f64,
    /// Processor time; `None` in virtual time.
    pub cpu: Option<CpuUse>,
    /// What the kernel counted at the device; `None` where there is no device or no such book.
    pub device: Option<DeviceUse>,
    /// Of an open loop: where the time of its I/Os went, and what was dropped. `None` of a closed
    /// one, where each I/O is begun when another is done and so is never late.
    #[serde(default)]
    pub open: Option<OpenLoop>,
    /// What was held against what had been written, where that was asked for.
    #[serde(default)]
    pub verified: Option<Verified>,
    /// Failed I/Os. With one of them a case can't pass.
    pub faults: Vec<IoFault>,
    /// Transfers that the kernel cut short and that were finished by asking again.
    pub short_transfers: u64,
    /// Completions stamped earlier than their start; counted with a latency of 0.
    pub clock_anomalies: u64,
    /// Share of each worker.
    pub workers: Vec<Share>,
    /// Share of each disk of the setup.
    pub members: Vec<Share>,
    /// By which way the I/Os went.
    pub backend: BackendUsed,
    /// Of several streams side by side, each; empty of a load of one kind. All above is of them
    /// together.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub streams: Vec<StreamMeasurement>,
}

/// What one of several streams measured.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StreamMeasurement {
    /// Its name.
    pub name: String,
    /// Its figures. Processor and device are not told apart by streams.
    pub measurement: Measurement,
}

impl Measurement {
    /// Failed I/Os of the given kind, or of any.
    #[must_use]
    pub fn errors(&self, kind: Option<IoKind>) -> u64 {
        let of_kind = self.faults.iter().filter(|fault| kind.is_none_or(|kind| fault.kind == kind));
        of_kind.map(|fault| fault.count).sum()
    }

    /// I/Os of data completed in the window, of the given kind, or of all but syncs together.
    /// Syncs count only when asked for by name: they move nothing.
    #[must_use]
    pub fn completed(&self, kind: Option<IoKind>) -> u64 {
        self.sum(kind, |figures| figures.completed)
    }

    /// Bytes moved in the window, of the given kind or of all.
    #[must_use]
    pub fn bytes(&self, kind: Option<IoKind>) -> u64 {
        self.sum(kind, |figures| figures.bytes)
    }

    /// Latencies of the given kind, or of reads, writes and trims merged.
    #[must_use]
    pub fn latency(&self, kind: Option<IoKind>) -> Histogram {
        if let Some(kind) = kind {
            return self.kinds[kind].latency_ns.clone();
        }
        let mut merged = self.kinds.read.latency_ns.clone();
        merged.merge(&self.kinds.write.latency_ns);
        merged.merge(&self.kinds.trim.latency_ns);
        merged
    }

    /// All rounds of a case as one: counts added, histograms merged, means weighted by time.
    /// The series are not joined, since rounds are apart in time; `None` without rounds.
    #[must_use]
    pub fn merged(rounds: &[&Self]) -> Option<Self> {
        let (first, rest) = rounds.split_first()?;
        let mut sum = (*first).clone();
        for round in rest {
            sum.add(round);
        }
        Some(sum)
    }

    fn sum(&self, kind: Option<IoKind>, of: impl Fn(&KindFigures) -> u64) -> u64 {
        match kind {
            Some(kind) => of(&self.kinds[kind]),
            None => IoKind::DATA.into_iter().map(|kind| of(&self.kinds[kind])).sum(),
        }
    }

    fn add(&mut self, other: &Self) {
        let (mine, theirs) = (self.duration_ns.as_secs(), other.duration_ns.as_secs());
        let weigh = |a: f64, b: f64| match mine + theirs {
            0.0 => 0.0,
            both => (a * mine + b * theirs) / both,
        };
        self.queue_depth_achieved = weigh(self.queue_depth_achieved, other.queue_depth_achieved);
        self.device = match (self.device, other.device) {
            (Some(a), Some(b)) => Some(DeviceUse {
                read_bytes: a.read_bytes + b.read_bytes,
                written_bytes: a.written_bytes + b.written_bytes,
                utilization_percent: weigh(a.utilization_percent, b.utilization_percent),
            }),
            _ => None,
        };
        self.cpu = self.cpu.zip(other.cpu).map(|(a, b)| CpuUse {
            user_ns: a.user_ns + b.user_ns,
            system_ns: a.system_ns + b.system_ns,
        });
        self.duration_ns.0 += other.duration_ns.0;
        for kind in IoKind::ALL {
            let (figures, more) = (&mut self.kinds[kind], &other.kinds[kind]);
            figures.completed += more.completed;
            figures.bytes += more.bytes;
            figures.latency_ns.merge(&more.latency_ns);
        }
        match (&mut self.open, &other.open) {
            (Some(open), Some(other)) => open.add(other),
            (open, _) => *open = None,
        }
        match (&mut self.verified, &other.verified) {
            (Some(mine), Some(theirs)) => mine.add(theirs),
            (mine, theirs) => *mine = mine.take().or_else(|| theirs.clone()),
        }
        self.faults = merged_faults(self.faults.iter().chain(&other.faults));
        self.drain_ns = self.drain_ns.max(other.drain_ns);
        self.short_transfers += other.short_transfers;
        self.clock_anomalies += other.clock_anomalies;
        add_shares(&mut self.workers, &other.workers);
        add_shares(&mut self.members, &other.members);
        for stream in &mut self.streams {
            if let Some(other) = other.streams.iter().find(|other| other.name == stream.name) {
                stream.measurement.add(&other.measurement);
            }
        }
    }
}

fn add_shares(mine: &mut Vec<Share>, theirs: &[Share]) {
    for share in theirs {
        match mine.iter_mut().find(|known| known.name == share.name) {
            Some(known) => {
                known.completed += share.completed;
                known.bytes += share.bytes;
            }
            None => mine.push(share.clone()),
        }
    }
}
