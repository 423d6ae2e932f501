//! What is compared: each row's work, where it runs, and what diskproof has to reach in it.

use std::fmt;

/// A row of the table.
#[derive(Debug, Clone, Copy)]
pub(super) struct Row {
    /// What `--only` calls it.
    pub key: &'static str,
    /// What the table calls it.
    pub name: &'static str,
    /// What it runs on.
    pub place: Place,
    /// The pattern, in the words of all programs.
    pub work: Work,
    /// What diskproof has to reach.
    pub targets: &'static [Target],
}

/// What rows run on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    /// `/dev/null`.
    Null,
    /// A file on the disk whose pages stay in the page cache.
    Cached,
    /// A file on tmpfs.
    Tmpfs,
    /// A loop device over a file on tmpfs.
    Loop,
    /// A file on the disk, which is read.
    Disk,
    /// A smaller one, which is written; diskproof makes one of that size anew for every run.
    Written,
}

/// A pattern.
#[derive(Debug, Clone, Copy)]
pub(super) struct Work {
    /// `read`, `randread`, `randwrite` or `randrw`, which reads 70 %.
    pub rw: &'static str,
    /// Block size in KiB.
    pub block_kib: u32,
    /// I/Os in flight.
    pub depth: u32,
    /// How the I/Os go out.
    pub backend: Backend,
}

/// How I/Os go out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Backend {
    /// By `pread` and `pwrite`.
    Sync,
    /// By io_uring.
    Ring,
    /// As diskproof chooses; fio and the bare loop by `pread` and `pwrite`.
    Chosen,
}

/// One of what is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Figure {
    /// I/Os a second.
    Iops,
    /// Mean latency from before the submission to after the completion.
    Latency,
    /// Processor time of program and kernel for one I/O.
    CpuPerIo,
}

/// Whom diskproof is compared with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Other {
    /// The bare loop.
    Floor,
    /// fio with its defaults.
    Default,
    /// The best fio.
    Best,
    /// Of these two, the one with more IOPS.
    BetterFio,
}

/// What has to be reached: IOPS of at least, all else at most this times the other's.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Target {
    /// Of what.
    pub figure: Figure,
    /// Compared with whom.
    pub other: Other,
    /// The factor.
    pub factor: f64,
}

impl Figure {
    /// All, in the table's order.
    pub(super) const ALL: [Self; 3] = [Self::Iops, Self::CpuPerIo, Self::Latency];

    /// Whether more of it is better.
    pub(super) fn more_is_better(self) -> bool {
        self == Self::Iops
    }
}

impl fmt::Display for Figure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Iops => "IOPS",
            Self::Latency => "mean latency",
            Self::CpuPerIo => "CPU per I/O",
        })
    }
}

impl fmt::Display for Other {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Floor => "bare loop",
            Self::Default => "fio default",
            Self::Best => "fio best",
            Self::BetterFio => "better fio",
        })
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sign = if self.figure.more_is_better() { '≥' } else { '≤' };
        write!(f, "{} {sign} {} x {}", self.figure, self.factor, self.other)
    }
}

impl Place {
    /// Whether the page cache is passed by.
    pub(super) fn is_direct(self) -> bool {
        !matches!(self, Self::Null | Self::Cached)
    }
}

impl Work {
    /// Bytes of a block.
    pub(super) fn block_bytes(&self) -> u64 {
        u64::from(self.block_kib) << 10
    }

    /// Whether nothing is written.
    pub(super) fn only_reads(&self) -> bool {
        matches!(self.rw, "read" | "randread")
    }

    /// Bytes of the I/Os in flight.
    pub(super) fn buffer_bytes(&self) -> u64 {
        self.block_bytes() * u64::from(self.depth)
    }
}

const fn target(figure: Figure, other: Other, factor: f64) -> Target {
    Target { figure, other, factor }
}

const fn work(rw: &'static str, block_kib: u32, depth: u32, backend: Backend) -> Work {
    Work { rw, block_kib, depth, backend }
}

const NULL_RING: &[Target] = &[
    target(Figure::Iops, Other::Floor, 0.85),
    target(Figure::Iops, Other::Default, 4.0),
    target(Figure::Iops, Other::Best, 1.5),
];
const LOOP: &[Target] =
    &[target(Figure::Iops, Other::Best, 0.98), target(Figure::CpuPerIo, Other::Best, 0.85)];
const DISK: &[Target] =
    &[target(Figure::Iops, Other::BetterFio, 0.98), target(Figure::CpuPerIo, Other::Default, 0.6)];
/// What held before there was a bare loop to compare with.
const AS_GOOD: &[Target] =
    &[target(Figure::Iops, Other::Default, 0.95), target(Figure::Latency, Other::Default, 1.05)];

/// All rows with a rate.
pub(super) const ROWS: [Row; 12] = [
    Row {
        key: "null-sync",
        name: "/dev/null, random writes, sync",
        place: Place::Null,
        work: work("randwrite", 4, 1, Backend::Sync),
        targets: &[
            target(Figure::Iops, Other::Floor, 0.85),
            target(Figure::Iops, Other::Default, 2.2),
        ],
    },
    Row {
        key: "null-32",
        name: "/dev/null, random writes, depth 32",
        place: Place::Null,
        work: work("randwrite", 4, 32, Backend::Ring),
        targets: NULL_RING,
    },
    Row {
        key: "null-128",
        name: "/dev/null, random writes, depth 128",
        place: Place::Null,
        work: work("randwrite", 4, 128, Backend::Ring),
        targets: NULL_RING,
    },
    Row {
        key: "cached",
        name: "page cache, buffered random reads, depth 32",
        place: Place::Cached,
        work: work("randread", 4, 32, Backend::Ring),
        targets: &[target(Figure::Iops, Other::Floor, 0.85)],
    },
    Row {
        key: "tmpfs",
        name: "tmpfs, direct random reads, depth 1",
        place: Place::Tmpfs,
        work: work("randread", 4, 1, Backend::Chosen),
        targets: &[target(Figure::Iops, Other::Floor, 0.9)],
    },
    Row {
        key: "loop-32",
        name: "loop device, direct random reads, depth 32",
        place: Place::Loop,
        work: work("randread", 4, 32, Backend::Ring),
        targets: LOOP,
    },
    Row {
        key: "loop-128",
        name: "loop device, direct random reads, depth 128",
        place: Place::Loop,
        work: work("randread", 4, 128, Backend::Ring),
        targets: LOOP,
    },
    Row {
        key: "disk-reads",
        name: "disk, direct random reads, depth 32",
        place: Place::Disk,
        work: work("randread", 4, 32, Backend::Ring),
        targets: DISK,
    },
    Row {
        key: "disk-writes",
        name: "disk, direct random writes, depth 32",
        place: Place::Written,
        work: work("randwrite", 4, 32, Backend::Ring),
        targets: DISK,
    },
    Row {
        key: "disk-mix",
        name: "disk, direct random 70/30 mix, depth 32",
        place: Place::Written,
        work: work("randrw", 4, 32, Backend::Ring),
        targets: DISK,
    },
    Row {
        key: "disk-depth-1",
        name: "disk, direct random reads, depth 1",
        place: Place::Disk,
        work: work("randread", 4, 1, Backend::Ring),
        targets: AS_GOOD,
    },
    Row {
        key: "disk-sequential",
        name: "disk, direct 128 KiB reads in sequence, depth 1",
        place: Place::Disk,
        work: work("read", 128, 1, Backend::Ring),
        targets: AS_GOOD,
    },
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_differ_in_key_and_name_and_all_have_targets() {
        for (index, row) in ROWS.iter().enumerate() {
            assert!(!row.targets.is_empty(), "{}", row.key);
            let earlier = &ROWS[..index];
            assert!(earlier.iter().all(|other| other.key != row.key && other.name != row.name));
        }
    }

    #[test]
    fn a_target_reads_as_it_is_meant() {
        assert_eq!(ROWS[0].targets[1].to_string(), "IOPS ≥ 2.2 x fio default");
        assert_eq!(LOOP[1].to_string(), "CPU per I/O ≤ 0.85 x fio best");
    }

    #[test]
    fn what_is_written_is_a_file_of_diskproofs_own_or_no_file() {
        for row in ROWS {
            let of_its_own = matches!(row.place, Place::Null | Place::Written);
            assert_eq!(of_its_own, !row.work.only_reads(), "{}", row.key);
        }
    }
}
