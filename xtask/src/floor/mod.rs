//! `xtask floor`: the least that a program can do to move blocks, for `bench` to compare with.
//!
//! One file, one worker, one kind of block; the place of an I/O by one multiplication; no
//! latencies, no histogram, no checks but for errors. It runs as a process of its own, built with
//! optimisations, and prints one line of JSON: how many I/Os in how many nanoseconds.

mod cached;
mod offsets;
mod ring;
mod sync;

use std::fs::{File, OpenOptions};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use clap::{Args, ValueEnum};
use nix::fcntl::OFlag;

pub(crate) use cached::Cached;
use offsets::Offsets;

/// What a buffer is aligned to: pages, which every file and device takes.
const PAGE_BYTES: usize = 4096;

/// The clock is read once for so many I/Os of the loop without a ring.
const IOS_BETWEEN_CLOCKS: u64 = 64;

/// One run.
#[derive(Debug, Args)]
pub(crate) struct Options {
    /// The file or device
    #[arg(long)]
    file: PathBuf,
    /// Bytes of it that are used: a power of two of blocks
    #[arg(long)]
    size: u64,
    /// Kind of I/O
    #[arg(long)]
    rw: Kind,
    /// Bytes of a block
    #[arg(long, default_value_t = 4096)]
    block: u32,
    /// I/Os in flight; without it, pread and pwrite in place of a ring
    #[arg(long)]
    depth: Option<u32>,
    /// Submitted at a time
    #[arg(long, default_value_t = 1)]
    batch: u32,
    /// Waited for at a time
    #[arg(long, default_value_t = 1)]
    wait: u32,
    /// Past the page cache
    #[arg(long)]
    direct: bool,
    /// Length of the run
    #[arg(long, required_unless_present = "count", conflicts_with = "count")]
    microseconds: Option<u64>,
    /// Number of I/Os, in place of a length
    #[arg(long)]
    count: Option<u64>,
}

/// Kinds of I/O.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Kind {
    /// In sequence.
    Read,
    /// At random.
    Randread,
    /// At random.
    Randwrite,
    /// At random, 70 % of them reads.
    Randrw,
}

/// When a run ends.
#[derive(Debug, Clone, Copy)]
struct End {
    started: Instant,
    length: Duration,
    ios: u64,
}

impl End {
    /// Starts the clock.
    fn new(options: &Options) -> Self {
        Self {
            started: Instant::now(),
            length: options.microseconds.map_or(Duration::MAX, Duration::from_micros),
            ios: options.count.unwrap_or(u64::MAX),
        }
    }

    /// Whether the time is over or the I/Os are done.
    fn is_over(&self, done: u64) -> bool {
        done >= self.ios || self.started.elapsed() >= self.length
    }
}

/// The memory of one I/O: zeros that begin at a page, all of them touched.
#[derive(Debug)]
struct Buffer {
    memory: Vec<u8>,
    skipped: usize,
    bytes: usize,
}

impl Buffer {
    fn new(bytes: u32) -> Self {
        let bytes = bytes as usize;
        let mut memory = vec![1; bytes + PAGE_BYTES];
        memory.fill(0);
        // Less than a page: the alignment is a power of two, and that of a byte is 1.
        let skipped = memory.as_ptr().align_offset(PAGE_BYTES).min(PAGE_BYTES);
        Self { memory, skipped, bytes }
    }

    fn bytes(&mut self) -> &mut [u8] {
        &mut self.memory[self.skipped..self.skipped + self.bytes]
    }
}

/// Runs and prints.
pub(crate) fn run(options: &Options) -> Result<ExitCode> {
    let offsets = Offsets::new(options)?;
    let file = open(options)?;
    let (ios, elapsed) = match options.depth {
        Some(depth) => ring::run(options, depth, &file, offsets)?,
        None => sync::run(options, &file, offsets)?,
    };
    println!("{{\"ios\":{ios},\"ns\":{}}}", elapsed.as_nanos());
    Ok(ExitCode::SUCCESS)
}

fn open(options: &Options) -> Result<File> {
    let mut how = OpenOptions::new();
    how.read(options.rw != Kind::Randwrite);
    how.write(matches!(options.rw, Kind::Randwrite | Kind::Randrw));
    if options.direct {
        how.custom_flags(OFlag::O_DIRECT.bits());
    }
    let name = options.file.display();
    let file = how.open(&options.file).with_context(|| format!("can't open {name}"))?;
    if options.block == 0 || options.batch == 0 || options.wait == 0 || options.depth == Some(0) {
        bail!("a block, a batch, a wait and a depth are at least 1");
    }
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Command {
        #[command(flatten)]
        options: Options,
    }

    /// How many I/Os a run on a file of 64 KiB did.
    fn done(args: &[&str]) -> u64 {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("data");
        std::fs::write(&path, vec![7; 64 << 10]).unwrap();
        let path = path.to_str().unwrap();
        let fixed = ["floor", "--size", "65536", "--file", path];
        let options = Command::parse_from(fixed.iter().chain(args)).options;
        let (offsets, file) = (Offsets::new(&options).unwrap(), open(&options).unwrap());
        let ran = match options.depth {
            Some(depth) => ring::run(&options, depth, &file, offsets),
            None => sync::run(&options, &file, offsets),
        };
        let left = std::fs::read(path).unwrap();
        let zeros = left.chunks(4096).filter(|block| block.iter().all(|byte| *byte == 0)).count();
        match options.rw {
            Kind::Read | Kind::Randread => assert_eq!(zeros, 0),
            Kind::Randwrite => assert!(zeros > 0),
            // It may write what it read before, as fio's does, and read what is half written.
            Kind::Randrw => {}
        }
        ran.unwrap().0
    }

    #[test]
    fn as_many_as_asked_for_are_done_one_at_a_time() {
        assert_eq!(done(&["--rw", "randread", "--count", "1000"]), 1000);
        assert_eq!(done(&["--rw", "randrw", "--count", "1000"]), 1000);
        assert!(done(&["--rw", "randwrite", "--microseconds", "2000"]) > 0);
        assert_eq!(done(&["--rw", "randwrite", "--count", "1", "--depth", "1"]), 1);
    }

    #[test]
    fn every_io_of_the_ring_is_counted_whatever_the_batch() {
        for (batch, wait) in [("1", "1"), ("8", "8"), ("32", "1"), ("32", "32"), ("5", "3")] {
            let batches = ["--depth", "32", "--batch", batch, "--wait", wait];
            let run = |rw, count| done(&[&["--rw", rw, "--count", count], &batches[..]].concat());
            assert_eq!(run("randrw", "1000"), 1000, "{batch} {wait}");
            assert_eq!(run("randwrite", "40"), 40, "{batch} {wait}");
            assert_eq!(run("randread", "7"), 7, "{batch} {wait}");
        }
    }
}
