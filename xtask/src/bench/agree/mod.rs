//! `cargo xtask agree`: the figures of diskproof and of fio on a disk that the kernel caps.
//!
//! On a fast disk the two may well differ, since one has less overhead than the other. Where the
//! kernel lets only so many I/Os through in a second, the disk decides, and two honest programs
//! come to the same figures. Every round runs fio, fio again and diskproof, in an order that
//! changes; how far fio is from itself says what can be asked of the other.

mod cap;
mod figures;
mod table;

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use anyhow::{Context, Result};
use clap::Args;

use super::diskproof::{self, Diskproof};
use super::fio::{self, Way};
use super::places::Folder;
use super::rows::{Backend, Work};
use super::sides::Length;
use super::{go_on, stopped_by_signals};
use crate::cargo;
use cap::{Cap, CappedDisk};
use figures::{Figure, Round, Sample, compare};
use table::Page;

/// The time under load before the measured time: ten and a half of the kernel's slices of 100 ms,
/// so that a run of whole slices begins and ends where nothing is let through.
const WARM_UP: Duration = Duration::from_millis(1050);

/// What `cargo xtask agree` takes.
#[derive(Debug, Args)]
pub(crate) struct Options {
    /// Rounds; each runs every row's programs in turn
    #[arg(long, default_value_t = 7, value_parser = clap::value_parser!(u32).range(1..=1000))]
    rounds: u32,
    /// Length of one run in seconds
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=600))]
    seconds: u32,
    /// Run this row alone; may be given several times
    #[arg(long, value_name = "ROW", value_parser = parse_key)]
    only: Vec<String>,
}

/// A row: a pattern under a cap.
#[derive(Debug)]
struct Row {
    key: &'static str,
    name: &'static str,
    cap: Cap,
    work: Work,
}

const fn row(
    key: &'static str,
    name: &'static str,
    cap: Cap,
    (rw, block_kib, depth): (&'static str, u32, u32),
) -> Row {
    Row { key, name, cap, work: Work { rw, block_kib, depth, backend: Backend::Ring } }
}

/// A slice lets a tenth of a second's I/Os through at once. With more in flight than that every
/// one of them waits, and the cap decides the median too.
const ROWS: [Row; 9] = [
    row("reads-1", "2,000 reads/s, depth 1", Cap::Ios(2000), ("randread", 4, 1)),
    row("reads-32", "2,000 reads/s, depth 32", Cap::Ios(2000), ("randread", 4, 32)),
    row("reads-128", "1,000 reads/s, depth 128", Cap::Ios(1000), ("randread", 4, 128)),
    row("fast-32", "10,000 reads/s, depth 32", Cap::Ios(10_000), ("randread", 4, 32)),
    row("writes-8", "2,000 writes/s, depth 8", Cap::Ios(2000), ("randwrite", 4, 8)),
    row("writes-128", "1,000 writes/s, depth 128", Cap::Ios(1000), ("randwrite", 4, 128)),
    row("mix-8", "2,000 reads/s in a 70/30 mix, depth 8", Cap::Ios(2000), ("randrw", 4, 8)),
    row("mix-32", "2,000 reads/s in a 70/30 mix, depth 32", Cap::Ios(2000), ("randrw", 4, 32)),
    row("bytes-64", "20 MiB/s of 64 KiB reads, depth 64", Cap::Mebibytes(20), ("randread", 64, 64)),
];

/// Compares, prints the page, and writes it to target/bench/agreement.md. Fails where a figure
/// that the cap decides is another than fio's by more than fio's is from itself.
pub(crate) fn run(options: &Options) -> Result<ExitCode> {
    let stop = stopped_by_signals()?;
    let fio = fio::version()?;
    let program = cargo::build_release("diskproof")?;
    let out = cargo::root().join("target/bench");
    std::fs::create_dir_all(&out)?;
    let rows = {
        let folder = Folder::new(&out)?;
        let disk = CappedDisk::new(&folder.path, &stop)?;
        let diskproof = Diskproof::new(&program, &folder.path)?;
        // The disk goes before the folder that it is mounted in.
        let sides = Sides { diskproof, disk, folder };
        sides.all(options, &stop)?
    };
    let about = vec![
        format!("{} rounds of {} s after {} ms", options.rounds, options.seconds, {
            WARM_UP.as_millis()
        }),
        format!("against {fio}; all by io_uring on ext4 on a loop device in memory"),
    ];
    let page = Page { about, rows };
    let text = page.markdown();
    print!("{text}");
    let path: PathBuf = out.join("agreement.md");
    std::fs::write(&path, &text).with_context(|| format!("can't write {}", path.display()))?;
    Ok(if page.is_good() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Both programs and what they run on.
struct Sides {
    diskproof: Diskproof,
    disk: CappedDisk,
    folder: Folder,
}

impl Sides {
    fn all(&self, options: &Options, stop: &AtomicBool) -> Result<Vec<(&'static str, Vec<Round>)>> {
        let wanted =
            |row: &&Row| options.only.is_empty() || options.only.iter().any(|key| key == row.key);
        let mut rows: Vec<_> = ROWS.iter().filter(wanted).map(|row| (row, Vec::new())).collect();
        for number in 0..options.rounds as usize {
            for (row, rounds) in &mut rows {
                let round = self.round(row, number, options.seconds);
                go_on(stop)?;
                rounds.push(round.with_context(|| format!("in the row {}", row.key))?);
                let of = |figure| compare(rounds, figure);
                let (iops, tail) = (of(Figure::Iops), of(Figure::P999));
                eprintln!(
                    "round {}/{}  {:<40}  medians: fio {:.0} IOPS, p99.9 {:.1} ms, diskproof \
                     {:.0}, {:.1}",
                    number + 1,
                    options.rounds,
                    row.name,
                    iops.fio,
                    tail.fio / 1e6,
                    iops.ours,
                    tail.ours / 1e6
                );
            }
        }
        Ok(rows.into_iter().map(|(row, rounds)| (row.name, rounds)).collect())
    }

    /// Each of the three has each place in three rounds.
    fn round(&self, row: &Row, number: usize, seconds: u32) -> Result<Round> {
        self.disk.set(row.cap)?;
        let mut round = Round::default();
        for turn in (0..3).map(|place| (place + number) % 3) {
            if turn == 2 {
                round.ours = self.ours(row, seconds)?;
            } else {
                (round.fio[turn], round.summary[turn]) = self.fio(row, seconds)?;
            }
        }
        Ok(round)
    }

    /// What it measured within the time, and what it says itself.
    fn fio(&self, row: &Row, seconds: u32) -> Result<(Sample, Sample)> {
        let length = Length::Microseconds(u64::from(seconds) * 1_000_000);
        let spot = self.disk.spot(&row.work);
        let mut command = Way::default(&row.work).command(&row.work, &spot, length)?;
        command.arg(format!("--ramp_time={}us", WARM_UP.as_micros()));
        // The total latency, from before the submission: by a ring, the completion latency begins
        // when the submitting call has returned.
        command.args(["--lat_percentiles=1", "--clat_percentiles=0"]);
        command.args(["--percentile_list=50:99:99.9", "--unified_rw_reporting=1"]);
        command.args(["--norandommap", "--thread"]);
        let log = self.folder.path.join("fio");
        command.arg(format!("--write_lat_log={}", log.display()));
        let ended = self.disk.run(&command)?;
        // fio appends the kind of the log and the number of the job.
        let log = log.with_file_name("fio_lat.1.log");
        let text = std::fs::read_to_string(&log)?;
        std::fs::remove_file(&log)?; // so that it is never taken for the next run's
        Ok((figures::of_log(&text, seconds)?, figures::of_fio(&ended.stdout)?))
    }

    fn ours(&self, row: &Row, seconds: u32) -> Result<Sample> {
        let length = Length::Microseconds(u64::from(seconds) * 1_000_000);
        let spot = self.disk.spot(&row.work);
        let warm_up = format!("warmup = \"{}us\"", WARM_UP.as_micros());
        let plan = diskproof::plan_with(&row.work, &spot, length, None, &[warm_up])?;
        self.disk.run(&self.diskproof.command(&plan)?)?;
        let record = self.diskproof.record();
        let text = std::fs::read_to_string(&record)?;
        std::fs::remove_file(&record)?; // so that it is never taken for the next run's
        figures::of_record(&text)
    }
}

fn parse_key(text: &str) -> Result<String, String> {
    let keys = ROWS.map(|row| row.key);
    if keys.contains(&text) {
        return Ok(text.to_owned());
    }
    Err(format!("`{text}` is none of {}", keys.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_differ_and_are_known_by_their_keys() {
        for (index, row) in ROWS.iter().enumerate() {
            assert!(ROWS[..index].iter().all(|other| other.key != row.key));
            assert_eq!(parse_key(row.key).as_deref(), Ok(row.key));
        }
        assert!(parse_key("x").unwrap_err().contains("mix-32"));
    }
}
