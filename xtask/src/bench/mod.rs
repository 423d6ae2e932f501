//! `cargo xtask bench`: diskproof against fio on one file, in turn.
//!
//! Every round runs each pattern three times: fio, fio again, and diskproof, in an order that
//! changes from round to round, so that drift hits all alike. fio against itself says how much of
//! a difference is noise.

mod diskproof;
mod figures;
mod fio;
mod scratch;
mod table;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context, Result, bail};
use clap::Args;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use xshell::{Shell, cmd};

use crate::cargo;
use diskproof::Diskproof;
use figures::{Comparison, Figures};
use fio::Fio;
use scratch::Scratch;

/// What `cargo xtask bench` takes.
#[derive(Debug, Args)]
pub(crate) struct Options {
    /// Rounds; each runs every pattern three times
    #[arg(long, default_value_t = 7, value_parser = clap::value_parser!(u32).range(1..=1000))]
    rounds: u32,
    /// Size of the file, in MiB or GiB
    #[arg(long, default_value = "512MiB", value_parser = parse_size)]
    file_size: u64,
    /// Folder for the file, on the disk to measure [default: target/bench]
    #[arg(long)]
    dir: Option<PathBuf>,
    /// Length of one run in seconds
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..=3600))]
    seconds: u32,
    /// Run the benches of the loop's parts as well
    #[arg(long)]
    criterion: bool,
}

/// One pattern of I/O, in the words of both programs.
#[derive(Debug, Clone, Copy)]
struct Pattern {
    /// What it is called in the table.
    name: &'static str,
    /// `rw` of both.
    rw: &'static str,
    /// Block size in KiB.
    block_kib: u32,
    /// I/Os in flight.
    depth: u32,
}

/// The patterns that are compared.
const PATTERNS: [Pattern; 3] = [
    Pattern { name: "4 KiB random reads, depth 1", rw: "randread", block_kib: 4, depth: 1 },
    Pattern { name: "4 KiB random reads, depth 32", rw: "randread", block_kib: 4, depth: 32 },
    Pattern { name: "128 KiB sequential reads", rw: "read", block_kib: 128, depth: 1 },
];

/// Who runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Turn {
    Fio,
    FioAgain,
    Diskproof,
}

/// Every order of the three, so that over six rounds each has each place and each neighbour
/// equally often.
const ORDERS: [[Turn; 3]; 6] = [
    [Turn::Fio, Turn::Diskproof, Turn::FioAgain],
    [Turn::Diskproof, Turn::FioAgain, Turn::Fio],
    [Turn::FioAgain, Turn::Fio, Turn::Diskproof],
    [Turn::FioAgain, Turn::Diskproof, Turn::Fio],
    [Turn::Fio, Turn::FioAgain, Turn::Diskproof],
    [Turn::Diskproof, Turn::Fio, Turn::FioAgain],
];

/// Compares, prints the table, and writes it to target/bench/fio.md. Fails when diskproof is
/// behind fio by more than 5 % and by more than fio is behind itself.
pub(crate) fn run(options: &Options) -> Result<ExitCode> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        signal_hook::flag::register(signal, Arc::clone(&stop))?;
    }
    let fio = Fio::find()?;
    let program = cargo::build_release()?;
    let out = cargo::root().join("target/bench");
    let folder = options.dir.clone().unwrap_or_else(|| out.clone());
    std::fs::create_dir_all(&out)?;
    let comparisons = {
        let scratch = Scratch::new(&folder, options.file_size, &stop)?;
        let diskproof = Diskproof::new(&program, &scratch)?;
        let compared = compare_all(options, &fio, &diskproof, scratch.file(), &stop);
        // The signal reaches the program that runs just then too, which fails of it.
        if stop.load(Ordering::Relaxed) {
            bail!("stopped; the file is removed");
        }
        compared?
    };
    let about = about(options, &fio, &program, &folder)?;
    let text = table::markdown(&about, &comparisons);
    print!("{text}");
    let path = out.join("fio.md");
    std::fs::write(&path, &text).with_context(|| format!("can't write {}", path.display()))?;
    if options.criterion {
        let (shell, cargo) = (Shell::new()?, cargo::program());
        shell.change_dir(cargo::root());
        cmd!(shell, "{cargo} bench --package diskproof").run()?;
    }
    let good = comparisons.iter().all(Comparison::is_good);
    Ok(if good { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn compare_all(
    options: &Options,
    fio: &Fio,
    diskproof: &Diskproof,
    file: &Path,
    stop: &AtomicBool,
) -> Result<Vec<Comparison>> {
    let mut comparisons: Vec<_> =
        PATTERNS.iter().map(|pattern| Comparison::new(pattern.name)).collect();
    // One run that isn't counted: it finds out whether fio and the file work at all, and drops
    // from the page cache what the making of the file left there.
    fio.run(&PATTERNS[0], file, 1)?;
    for (round, order) in (1..=options.rounds).zip(ORDERS.iter().cycle()) {
        for (pattern, comparison) in PATTERNS.iter().zip(&mut comparisons) {
            let mut measured = [Figures::default(); 3];
            for turn in order {
                measured[*turn as usize] = match turn {
                    Turn::Fio | Turn::FioAgain => fio.run(pattern, file, options.seconds)?,
                    Turn::Diskproof => diskproof.run(pattern, file, options.seconds)?,
                };
                if stop.load(Ordering::Relaxed) {
                    return Ok(comparisons);
                }
            }
            let [first, again, ours] = measured;
            eprintln!(
                "round {round}/{}  {:<28}  fio {:.0} and {:.0} IOPS, diskproof {:.0} IOPS",
                options.rounds, pattern.name, first.iops, again.iops, ours.iops
            );
            comparison.add(first, again, ours);
        }
    }
    Ok(comparisons)
}

/// What was compared, where, with which versions: one line each.
fn about(options: &Options, fio: &Fio, program: &Path, folder: &Path) -> Result<Vec<String>> {
    let shell = Shell::new()?;
    let version = cmd!(shell, "{program} --version").quiet().read()?;
    let filesystem = cmd!(shell, "findmnt --noheadings --output FSTYPE,SOURCE --target {folder}");
    let filesystem = filesystem.quiet().ignore_status().read()?;
    let kernel = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let cpus = std::thread::available_parallelism().map_or(1, usize::from);
    Ok(vec![
        format!("{version} against {}, both with io_uring and direct I/O", fio.version()),
        format!("{} CPUs, {}, Linux {}", cpus, cpu_model(), kernel.trim()),
        format!(
            "one file of {} MiB on {}, {} rounds of {} s",
            options.file_size >> 20,
            filesystem.split_whitespace().collect::<Vec<_>>().join(" of "),
            options.rounds,
            options.seconds
        ),
    ])
}

fn cpu_model() -> String {
    let text = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("model name"));
    let model = line.and_then(|line| line.split_once(':')).map(|(_, model)| model.trim());
    model.unwrap_or("unknown processor").to_owned()
}

fn parse_size(text: &str) -> Result<u64, String> {
    let units = [("MiB", 1_u64 << 20), ("GiB", 1 << 30)];
    let size = units.iter().find_map(|(unit, factor)| {
        text.strip_suffix(unit)?.parse::<u64>().ok()?.checked_mul(*factor)
    });
    let size = size.filter(|size| (1 << 20..=1 << 40).contains(size));
    size.ok_or_else(|| format!("`{text}` is not a size such as 512MiB, of 1 TiB at most"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn over_six_rounds_every_turn_has_every_place_twice() {
        for place in 0..3 {
            for turn in [Turn::Fio, Turn::FioAgain, Turn::Diskproof] {
                let count = ORDERS.iter().filter(|order| order[place] == turn).count();
                assert_eq!(count, 2, "{turn:?} at {place}");
            }
        }
    }

    #[test]
    fn a_size_has_a_unit_and_a_limit() {
        assert_eq!(parse_size("512MiB"), Ok(512 << 20));
        assert_eq!(parse_size("1GiB"), Ok(1 << 30));
        for wrong in ["512", "0MiB", "1.5GiB", "512M", "99999999999GiB", "2048GiB"] {
            assert!(parse_size(wrong).is_err(), "{wrong}");
        }
    }
}
