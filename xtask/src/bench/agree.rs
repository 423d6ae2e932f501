//! `cargo xtask agree`: fio and diskproof on a disk whose speed the kernel caps, so that the disk
//! and not the tool decides, and both have to say the same.
//!
//! The disk is a loop device over a file in memory, capped for a control group of the programs'
//! own (cgroup v1's `blkio.throttle`). The kernel lets through what a tenth of a second may have
//! and holds the rest back until the next; so the depths here are such that every I/O waits, since
//! otherwise a percentile would lie on the edge between those that do and those that don't, where
//! fio doesn't agree with itself either.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use clap::Args;
use serde_json::Value;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use super::diskproof::disk;
use super::figures::median;
use super::places::{Places, Spot};
use super::process::{self, Manner};
use super::rows::Place;
use crate::cargo;

/// Where the kernel has its control groups of block I/O.
const GROUPS: &str = "/sys/fs/cgroup/blkio";

/// How far apart they may be.
const BOUND: f64 = 0.03;

/// What is compared.
const NAMES: [&str; 5] = ["IOPS", "mean", "p50", "p99", "p99.9"];

/// How long a run is
#[derive(Debug, Args)]
pub(crate) struct Options {
    /// Rounds of fio, diskproof and fio again
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=1000))]
    rounds: u32,
    /// Seconds of each run, after one that is not counted
    #[arg(long, default_value_t = 6)]
    seconds: u32,
}

/// A cap, and the load that is held against it.
#[derive(Debug, Clone, Copy)]
struct Case {
    name: &'static str,
    /// The kernel's file of the cap, and its value.
    cap: (&'static str, u64),
    block_kib: u32,
    depth: u32,
}

const CASES: [Case; 4] = [
    Case { name: "100 IOPS, 4 KiB, depth 16", cap: ("read_iops", 100), block_kib: 4, depth: 16 },
    Case { name: "400 IOPS, 4 KiB, depth 64", cap: ("read_iops", 400), block_kib: 4, depth: 64 },
    Case {
        name: "1000 IOPS, 4 KiB, depth 128",
        cap: ("read_iops", 1000),
        block_kib: 4,
        depth: 128,
    },
    Case {
        name: "20 MiB/s, 64 KiB, depth 64",
        cap: ("read_bps", 20 << 20),
        block_kib: 64,
        depth: 64,
    },
];

/// IOPS, and in nanoseconds the mean and the percentiles, as [`NAMES`] has them.
type Figures = [f64; NAMES.len()];

/// Compares, and prints the table. Fails when the two are further apart than [`BOUND`] where fio
/// is not as far from itself.
pub(crate) fn run(options: &Options) -> Result<ExitCode> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        signal_hook::flag::register(signal, Arc::clone(&stop))?;
    }
    let program = cargo::build_release("diskproof")?;
    let parent = cargo::root().join("target/bench");
    fs::create_dir_all(&parent)?;
    let places = Places::new(&parent, 0, &stop)?;
    let spot = places.spot(Place::Loop)?;
    println!("| capped at | figure | fio | diskproof | ratio | fio by itself | within 3 % |");
    println!("| --- | --- | --- | --- | --- | --- | --- |");
    let mut good = true;
    for case in CASES {
        let group = Group::new(&spot.path, case.cap)?;
        let bench = Agreement { program: &program, folder: places.folder(), spot: &spot, case };
        let mut rounds = Vec::new();
        for _ in 0..options.rounds {
            rounds.push(bench.round(&group, options.seconds, rounds.len() % 2 == 1)?);
            if stop.load(Ordering::Relaxed) {
                bail!("stopped; the device and the control group are removed");
            }
        }
        good &= print(case.name, &rounds);
    }
    Ok(if good { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Prints a case's rows; false when one is out of bounds.
fn print(name: &str, rounds: &[[Figures; 3]]) -> bool {
    let mut good = true;
    for (index, figure) in NAMES.iter().enumerate() {
        let of = |who: usize| median(rounds.iter().map(move |round| round[who][index]));
        let ratio = median(rounds.iter().map(|round| round[1][index] / round[0][index]));
        let itself = rounds.iter().map(|round| round[2][index] / round[0][index]);
        let (low, high) = itself
            .fold((f64::MAX, f64::MIN), |(low, high), ratio| (low.min(ratio), high.max(ratio)));
        let within = (ratio - 1.0).abs() <= BOUND;
        let by_noise = (low..=high).contains(&ratio);
        good &= within || by_noise;
        let told = match (within, by_noise) {
            (true, _) => "yes",
            (false, true) => "as far as fio from itself",
            (false, false) => "NO",
        };
        let (fio, ours) = (of(0), of(1));
        let unit = |value: f64| match index {
            0 => format!("{value:.1}"),
            _ => format!("{:.3} ms", value / 1e6),
        };
        println!(
            "| {name} | {figure} | {} | {} | {ratio:.4} | {low:.3} … {high:.3} | {told} |",
            unit(fio),
            unit(ours)
        );
    }
    good
}

/// One comparison.
struct Agreement<'a> {
    program: &'a Path,
    folder: &'a Path,
    spot: &'a Spot,
    case: Case,
}

impl Agreement<'_> {
    /// fio, diskproof, and fio again, in this order or backwards.
    fn round(&self, group: &Group, seconds: u32, backwards: bool) -> Result<[Figures; 3]> {
        let mut figures = [[0.0; NAMES.len()]; 3];
        let order = if backwards { [2, 1, 0] } else { [0, 1, 2] };
        for who in order {
            figures[who] =
                if who == 1 { self.ours(group, seconds)? } else { self.fio(group, seconds)? };
        }
        Ok(figures)
    }

    fn fio(&self, group: &Group, seconds: u32) -> Result<Figures> {
        let mut command = Command::new("fio");
        command.args(["--name=agree", "--direct=1", "--rw=randread", "--ioengine=io_uring"]);
        command.args(["--time_based", "--ramp_time=1", "--output-format=json", "--eta=never"]);
        // The total latency, as ours is, and not that from the end of the submission on.
        command.args(["--lat_percentiles=1", "--percentile_list=50:99:99.9"]);
        command.arg(format!("--filename={}", self.spot.path.display()));
        command.arg(format!("--bs={}k", self.case.block_kib));
        command.arg(format!("--iodepth={}", self.case.depth));
        command.arg(format!("--runtime={seconds}"));
        let ended = process::run(&mut group.inside(&command), Manner::default())?;
        let output: Value = serde_json::from_str(&ended.stdout).context("fio wrote no JSON")?;
        let number = |path: &str| {
            let value = output.pointer(&format!("/jobs/0/read/{path}")).and_then(Value::as_f64);
            value.with_context(|| format!("fio said no {path}"))
        };
        Ok([
            number("iops")?,
            number("lat_ns/mean")?,
            number("lat_ns/percentile/50.000000")?,
            number("lat_ns/percentile/99.000000")?,
            number("lat_ns/percentile/99.900000")?,
        ])
    }

    fn ours(&self, group: &Group, seconds: u32) -> Result<Figures> {
        let Case { block_kib, depth, .. } = self.case;
        let plan = format!(
            "{}[setups.disk]\ndisks = ['disk']\n[workloads.load]\nrw = 'randread'\n\
             block_size = '{block_kib}KiB'\nqueue_depth = {depth}\nengine = 'io_uring'\n\
             warmup = '1s'\nruntime = '{seconds}s'\n[[expect]]\ncase = '*'\n\
             that = 'errors = 0'\n[run]\nrounds = 1\n",
            disk(self.spot)?
        );
        let (path, out) = (self.folder.join("agree.toml"), self.folder.join("agree"));
        fs::write(&path, plan)?;
        let mut command = Command::new(self.program);
        command.arg("run").arg(&path).arg("--out").arg(&out).args(["--progress", "none"]);
        process::run(&mut group.inside(&command), Manner::default())?;
        let record: Value = serde_json::from_str(&fs::read_to_string(out.join("record.json"))?)?;
        figures_of(&record)
    }
}

/// The figures of a record with one case of one round of reads.
fn figures_of(record: &Value) -> Result<Figures> {
    let round = record.pointer("/cases/0/rounds/0/measurement").context("no measurement")?;
    let number = |path: &str| {
        let value = round.pointer(path).and_then(Value::as_f64);
        value.with_context(|| format!("the record has no {path}"))
    };
    let latency = round.pointer("/kinds/read/latency_ns/buckets").and_then(Value::as_array);
    let pair = |bucket: &Value| Some((bucket.get(0)?.as_u64()?, bucket.get(1)?.as_f64()?));
    let buckets: Vec<_> = latency.context("no buckets")?.iter().filter_map(pair).collect();
    let count = number("/kinds/read/latency_ns/count")?;
    // The nearest rank, by the definition that the record's page gives.
    let percentile = |percent: f64| {
        let rank = (count * percent / 100.0).ceil();
        let mut seen = 0.0;
        let found = buckets.iter().find(|(_, many)| {
            seen += many;
            seen >= rank
        });
        found.map(|(bucket, _)| upper_edge(*bucket)).context("an empty histogram")
    };
    let sum = number("/kinds/read/latency_ns/sum/0")? * 2_f64.powi(64)
        + number("/kinds/read/latency_ns/sum/1")?;
    let seconds = number("/duration_ns")? / 1e9;
    Ok([
        number("/kinds/read/completed")? / seconds,
        sum / count,
        percentile(50.0)?,
        percentile(99.0)?,
        percentile(99.9)?,
    ])
}

/// The greatest value of a bucket: 512 of one value each, and then 256 to each power of two.
fn upper_edge(bucket: u64) -> f64 {
    if bucket < 512 {
        return bucket as f64;
    }
    let shift = bucket / 256 - 1;
    ((bucket - shift * 256 + 1) as f64).mul_add(2_f64.powi(shift as i32), -1.0)
}

/// A control group of our own in which a device is capped. Dropping it lifts the cap and removes
/// it.
struct Group {
    path: PathBuf,
    /// The file of the cap, and what lifts it.
    cap: PathBuf,
    lifted: String,
}

impl Group {
    fn new(device: &Path, (kind, value): (&str, u64)) -> Result<Self> {
        let parent = Path::new(GROUPS);
        if !parent.join("blkio.throttle.read_iops_device").exists() {
            bail!("{GROUPS} has no blkio.throttle: a kernel with cgroup v1's blkio is needed");
        }
        let number = fs::metadata(device)?.rdev();
        let (major, minor) = (nix::sys::stat::major(number), nix::sys::stat::minor(number));
        let path = parent.join(format!("diskproof-agree-{}", std::process::id()));
        fs::create_dir(&path).with_context(|| format!("can't make {}", path.display()))?;
        let cap = path.join(format!("blkio.throttle.{kind}_device"));
        let group = Self { path, cap, lifted: format!("{major}:{minor} 0") };
        fs::write(&group.cap, format!("{major}:{minor} {value}"))?;
        Ok(group)
    }

    /// The command, run in the group.
    fn inside(&self, command: &Command) -> Command {
        let mut inside = Command::new("sh");
        let procs = self.path.join("cgroup.procs");
        inside.args(["-c", "echo $$ > \"$0\" && exec \"$@\""]).arg(procs);
        inside.arg(command.get_program()).args(command.get_args());
        inside
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        let lifted = fs::write(&self.cap, &self.lifted);
        // Processes that have ended leave it a moment later.
        let mut removed = fs::remove_dir(&self.path);
        for _ in 0..50 {
            if removed.is_ok() {
                break;
            }
            thread::sleep(Duration::from_millis(100));
            removed = fs::remove_dir(&self.path);
        }
        if let Err(error) = lifted.and(removed) {
            eprintln!("can't remove {}: {error}", self.path.display());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_end_where_the_definition_says() {
        for (bucket, edge) in [(0, 0.0), (511, 511.0), (512, 513.0), (767, 1023.0), (768, 1027.0)] {
            assert!((upper_edge(bucket) - edge).abs() < 0.5, "{bucket}: {}", upper_edge(bucket));
        }
    }

    #[test]
    fn figures_are_read_from_a_record() {
        let read = serde_json::json!({
            "completed": 20, "latency_ns":
            { "count": 10, "sum": [0, 1000], "buckets": [[90, 5], [100, 4], [200, 1]] }
        });
        let round = serde_json::json!({ "duration_ns": 2e9, "kinds": { "read": read } });
        let record = serde_json::json!({ "cases": [{ "rounds": [{ "measurement": round }] }] });
        let whole = figures_of(&record).unwrap().map(|figure| figure.round() as i64);
        assert_eq!(whole, [10, 100, 90, 200, 200]);
        assert!(figures_of(&Value::Null).is_err());
    }
}
