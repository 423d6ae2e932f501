//! `cargo xtask bench`: diskproof beside fio and a bare loop, in turn.
//!
//! A first pass finds the fastest fio for each row. Then every round runs each row's programs one
//! after the other, in an order that changes, so that drift hits all alike; fio with its defaults
//! runs twice, which says how much of a difference is noise. The page says which targets are
//! reached.

pub(crate) mod agree;
mod diskproof;
mod extras;
mod figures;
mod fio;
mod floor;
mod places;
mod process;
mod rows;
mod sides;
pub(crate) mod soak;
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
use extras::Extra;
use figures::Comparison;
use places::Places;
use rows::{Figure, Place, ROWS, Row};
use sides::{Contest, Length, Programs, Turn};
use table::Page;

/// What `cargo xtask bench` takes.
#[derive(Debug, Args)]
pub(crate) struct Options {
    /// Rounds; each runs every row's programs in turn
    #[arg(long, default_value_t = 7, value_parser = clap::value_parser!(u32).range(1..=1000))]
    rounds: u32,
    /// Length of one run in seconds
    #[arg(long, default_value = "1", value_parser = parse_seconds)]
    seconds: f64,
    /// Run this row alone; may be given several times
    #[arg(long, value_name = "ROW", value_parser = parse_key)]
    only: Vec<String>,
    /// Size of the file on the disk that is read, a power of two in MiB or GiB
    #[arg(long, default_value = "512MiB", value_parser = parse_size)]
    file_size: u64,
    /// Folder for the files, on the disk to measure [default: target/bench]
    #[arg(long)]
    dir: Option<PathBuf>,
    /// CPU that all run on [default: the last]
    #[arg(long)]
    cpu: Option<usize>,
    /// Run the benches of the loop's parts as well
    #[arg(long)]
    criterion: bool,
}

impl Options {
    fn wants(&self, key: &str) -> bool {
        self.only.is_empty() || self.only.iter().any(|only| only == key)
    }

    fn microseconds(&self) -> u64 {
        std::time::Duration::from_secs_f64(self.seconds).as_micros() as u64
    }
}

/// Compares, prints the page, and writes it to target/bench/engine.md. Fails when a target is
/// missed by more than what fio is behind itself.
pub(crate) fn run(options: &Options) -> Result<ExitCode> {
    let stop = stopped_by_signals()?;
    let fio = fio::version()?;
    let program = cargo::build_release("diskproof")?;
    let floor = cargo::build_release("xtask")?;
    let cpu = options.cpu.map_or_else(process::last_cpu, Ok)?;
    let out = cargo::root().join("target/bench");
    let folder = options.dir.clone().unwrap_or_else(|| out.clone());
    std::fs::create_dir_all(&out)?;
    let mut page = {
        let places = Places::new(&folder, options.file_size, &stop)?;
        let diskproof = Diskproof::new(&program, places.folder())?;
        let programs = Programs { diskproof, floor, cpu };
        let compared = compare_all(options, &programs, &places, &stop);
        // The signal reaches the program that runs just then too, which fails of it.
        if stop.load(Ordering::Relaxed) {
            bail!("stopped; the files and the loop device are removed");
        }
        compared?
    };
    page.about = about(options, &fio, &program, &folder, cpu)?;
    let text = page.markdown();
    print!("{text}");
    let path = out.join("engine.md");
    std::fs::write(&path, &text).with_context(|| format!("can't write {}", path.display()))?;
    if options.criterion {
        let (shell, cargo) = (Shell::new()?, cargo::program());
        shell.change_dir(cargo::root());
        cmd!(shell, "{cargo} bench --package diskproof").run()?;
    }
    Ok(if page.is_good() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// What a signal sets that asks for the end.
fn stopped_by_signals() -> Result<Arc<AtomicBool>> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        signal_hook::flag::register(signal, Arc::clone(&stop))?;
    }
    Ok(stop)
}

fn compare_all(
    options: &Options,
    programs: &Programs,
    places: &Places<'_>,
    stop: &AtomicBool,
) -> Result<Page> {
    let mut page = Page::default();
    for row in ROWS.iter().filter(|row| options.wants(row.key)) {
        eprintln!("first pass  {}", row.name);
        match prepare(options, programs, places, row) {
            Ok(contest) => page.compared.push((contest, Comparison::new(row))),
            Err(error) => page.missing.push((row.name, format!("{error:#}"))),
        }
        go_on(stop)?;
    }
    let length = Length::Microseconds(options.microseconds());
    for round in 0..options.rounds as usize {
        for (contest, comparison) in &mut page.compared {
            if let Err(error) = programs.round(contest, comparison, round, length) {
                go_on(stop)?;
                return Err(error.context(format!("in the row {}", contest.row.key)));
            }
            go_on(stop)?;
            progress(round + 1, options.rounds, comparison);
        }
    }
    for extra in Extra::ALL.into_iter().filter(|extra| options.wants(extra.key())) {
        eprintln!("{}", extra.name());
        match extra.measure(programs, places) {
            Ok(amounts) => page.extras.push((extra, amounts)),
            Err(error) => page.missing.push((extra.name(), format!("{error:#}"))),
        }
        go_on(stop)?;
    }
    Ok(page)
}

fn progress(round: usize, rounds: u32, comparison: &Comparison) {
    let iops = |turn| comparison.median(turn, Figure::Iops);
    eprintln!(
        "round {round}/{rounds}  {:<48}  medians: bare loop {:.0}, fio {:.0} and {:.0}, \
         diskproof {:.0}",
        comparison.row.name,
        iops(Turn::Floor),
        iops(Turn::Default),
        iops(Turn::Best),
        iops(Turn::Diskproof)
    );
}

/// A row's first pass; an error is why it can't be measured here.
fn prepare(
    options: &Options,
    programs: &Programs,
    places: &Places<'_>,
    row: &'static Row,
) -> Result<Contest> {
    let spot = places.spot(row.place)?;
    if row.place == Place::Null && !programs.diskproof.has_null(&row.work, &spot)? {
        bail!("no null disk in this build");
    }
    programs.contest(row, spot, options.microseconds())
}

fn go_on(stop: &AtomicBool) -> Result<()> {
    if stop.load(Ordering::Relaxed) {
        bail!("stopped");
    }
    Ok(())
}

/// What was compared, where, with which versions: one line each.
fn about(
    options: &Options,
    fio: &str,
    program: &Path,
    folder: &Path,
    cpu: usize,
) -> Result<Vec<String>> {
    let shell = Shell::new()?;
    let version = cmd!(shell, "{program} --version").quiet().read()?;
    let filesystem = cmd!(shell, "findmnt --noheadings --output FSTYPE,SOURCE --target {folder}");
    let filesystem = filesystem.quiet().ignore_status().read()?;
    let kernel = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let cpus = std::thread::available_parallelism().map_or(1, usize::from);
    Ok(vec![
        format!("{version} against {fio}"),
        format!("{cpus} CPUs, {}, Linux {}; all on CPU {cpu}", cpu_model(), kernel.trim()),
        format!(
            "disk: {}, a file of {} MiB to read and one of {} MiB to write; in memory {} MiB",
            filesystem.split_whitespace().collect::<Vec<_>>().join(" of "),
            options.file_size >> 20,
            places::WRITTEN_BYTES >> 20,
            places::SMALL_BYTES >> 20
        ),
        format!("{} rounds of {} s", options.rounds, options.seconds),
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
    let size = size.filter(|size| size.is_power_of_two() && (1 << 20..=1 << 40).contains(size));
    size.ok_or_else(|| format!("`{text}` is not a power of two such as 512MiB, of 1 TiB at most"))
}

fn parse_seconds(text: &str) -> Result<f64, String> {
    let seconds = text.parse::<f64>().ok().filter(|seconds| (0.02..=3600.0).contains(seconds));
    seconds.ok_or_else(|| format!("`{text}` is not a number of seconds from 0.02 to 3600"))
}

fn parse_key(text: &str) -> Result<String, String> {
    let rows = ROWS.iter().map(|row| row.key);
    let keys: Vec<_> = rows.chain(Extra::ALL.into_iter().map(Extra::key)).collect();
    if keys.contains(&text) {
        return Ok(text.to_owned());
    }
    Err(format!("`{text}` is none of {}", keys.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_size_has_a_unit_and_a_limit() {
        assert_eq!(parse_size("512MiB"), Ok(512 << 20));
        assert_eq!(parse_size("1GiB"), Ok(1 << 30));
        for wrong in ["512", "0MiB", "1.5GiB", "512M", "500MiB", "99999999999GiB", "2048GiB"] {
            assert!(parse_size(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn rows_are_known_by_their_keys() {
        assert!(parse_key("loop-128").is_ok() && parse_key("memory").is_ok());
        assert!(parse_key("x").unwrap_err().contains("null-sync"));
    }

    #[test]
    fn a_run_has_a_length() {
        assert_eq!(parse_seconds("0.5"), Ok(0.5));
        for wrong in ["0", "-1", "NaN", "inf", "x"] {
            assert!(parse_seconds(wrong).is_err(), "{wrong}");
        }
    }
}
