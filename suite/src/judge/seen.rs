//! What the devices under a case saw of its I/O, by the kernel's own books.
//!
//! A cache, a hole in a file or a file system that compresses may answer direct I/O in place of
//! the device. The books show it, where they can be held against the I/Os at all:
//!
//! * Direct I/O alone is meant to reach the device each time.
//! * On a file system that may span several devices, or that lies in memory, the device that the
//!   books are of need not be the one that did the work.
//! * The books of a window between warm-up and cool-down are partly an estimate, since nobody reads
//!   them at its very edges: a window under a second says nothing then.

use super::scene;
use crate::measure::{IoKind, Measurement};
use crate::plan::{Cache, Workload};
use crate::record::{CaseRecord, Record};
use crate::units::{Bytes, Nanos, human_bytes};

/// File systems whose data need not lie on the one device that they are mounted from.
const ELSEWHERE: [&str; 6] = ["btrfs", "bcachefs", "f2fs", "zfs", "tmpfs", "ramfs"];

/// The shortest window whose estimated books say anything.
const WINDOW: Nanos = Nanos(1_000_000_000);

/// One kind of I/O, at the program and at the device.
pub(super) struct Seen {
    pub(super) kind: IoKind,
    /// Bytes that completed I/Os moved.
    pub(super) moved: Bytes,
    /// Bytes that the device counted, of whomever.
    pub(super) counted: Bytes,
}

/// Reads and writes of a case as the device counted them; empty where that says nothing.
pub(super) fn seen(record: &Record, case: &CaseRecord, workload: &Workload) -> Vec<Seen> {
    let rounds = case.measured();
    let estimated = workload.warmup > Nanos(0) || workload.cooldown > Nanos(0);
    let too_short = estimated && rounds.iter().any(|round| round.duration_ns < WINDOW);
    let elsewhere = scene::disks(record, case).is_none_or(|disks| {
        let filesystems = disks.iter().filter_map(|disk| disk.filesystem.as_deref());
        filesystems.into_iter().any(|filesystem| ELSEWHERE.contains(&filesystem))
    });
    if workload.cache != Cache::Direct || too_short || elsewhere {
        return Vec::new();
    }
    let Some(merged) = Measurement::merged(&rounds) else { return Vec::new() };
    let Some(device) = merged.device else { return Vec::new() };
    let counted = [(IoKind::Read, device.read_bytes), (IoKind::Write, device.written_bytes)];
    let seen = counted.into_iter().map(|(kind, counted)| Seen {
        kind,
        moved: Bytes(merged.bytes(Some(kind))),
        counted: Bytes(counted),
    });
    seen.collect()
}

impl Seen {
    /// Whether the device counted less than this share of what was moved.
    pub(super) fn is_below(&self, share: f64) -> bool {
        (self.counted.0 as f64) < share * self.moved.0 as f64
    }

    /// What the device missed, as half a sentence.
    pub(super) fn describe(&self) -> String {
        let (done, answer) = match self.kind {
            IoKind::Read => ("read", "a cache or a hole answered"),
            IoKind::Write | IoKind::Trim | IoKind::Sync => {
                ("written", "a cache or a compression took them")
            }
        };
        format!(
            "the device under it saw {} of the {} {done}: {answer}",
            human_bytes(self.counted),
            human_bytes(self.moved)
        )
    }
}
