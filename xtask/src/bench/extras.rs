//! The rows without a rate: start, memory, whole plans, and instructions.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail};

use super::diskproof;
use super::figures::median;
use super::fio::Way;
use super::floor::Batches;
use super::places::{Places, Spot};
use super::process::{self, Manner};
use super::rows::{Backend, Place, Work};
use super::sides::{Length, Programs};

/// Rounds of what takes moments.
const ROUNDS: usize = 5;

/// I/Os of a run that is watched for its first one.
const FEW: u64 = 4;

/// The two lengths whose difference is what an I/O costs: long, since a report with a little more
/// in it costs some instructions too.
const COUNTS: [u64; 2] = [40_000, 160_000];

/// The points of the plan of a hundred cases, and the length of each.
const BLOCKS_KIB: [u32; 10] = [4, 8, 12, 16, 20, 24, 28, 32, 36, 40];
const DEPTHS: [u32; 10] = [1, 2, 3, 4, 6, 8, 12, 16, 24, 32];
const CASE: Duration = Duration::from_millis(50);

/// A row without a rate, of which less is better.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Extra {
    /// Instructions of the program for one I/O, by ring.
    InstructionsRing,
    /// The same, one I/O at a time.
    InstructionsSync,
    /// From the start of the process to its first measured I/O.
    Start,
    /// Memory beside the I/O buffers.
    Memory,
    /// A hundred cases.
    Plan,
}

/// What it came to; none of those who don't take part.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Amounts {
    /// The bare loop's.
    pub floor: Option<f64>,
    /// fio's with defaults.
    pub default: Option<f64>,
    /// The best fio's.
    pub best: Option<f64>,
    /// diskproof's.
    pub ours: f64,
}

impl Extra {
    /// All, in the table's order.
    pub(super) const ALL: [Self; 5] =
        [Self::InstructionsRing, Self::InstructionsSync, Self::Start, Self::Memory, Self::Plan];

    /// What `--only` calls it.
    pub(super) fn key(self) -> &'static str {
        match self {
            Self::InstructionsRing => "instructions-32",
            Self::InstructionsSync => "instructions-sync",
            Self::Start => "start",
            Self::Memory => "memory",
            Self::Plan => "plan",
        }
    }

    /// What the table calls it.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::InstructionsRing => "user instructions per I/O, random 70/30 mix, depth 32",
            Self::InstructionsSync => "user instructions per I/O, random 70/30 mix, sync",
            Self::Start => "start of the process to first I/O",
            Self::Memory => "memory (PSS) beside the I/O buffers, depth 32",
            Self::Plan => "100 cases of 50 ms on a loop device",
        }
    }

    /// The most that diskproof may have.
    pub(super) fn limit(self) -> f64 {
        match self {
            Self::InstructionsRing => 300.0,
            Self::InstructionsSync => 180.0,
            Self::Start => 0.025,
            Self::Memory => 8.0 * f64::from(1 << 20),
            Self::Plan => 100.0 * CASE.as_secs_f64() + 1.5,
        }
    }

    /// An amount for the eye.
    pub(super) fn shown(self, amount: f64) -> String {
        match self {
            Self::InstructionsRing | Self::InstructionsSync => format!("{amount:.0}"),
            Self::Start => format!("{:.1} ms", amount * 1e3),
            Self::Memory => format!("{:.2} MiB", amount / f64::from(1 << 20)),
            Self::Plan => format!("{amount:.2} s"),
        }
    }

    /// Measures it. An error is why it can't be had here.
    pub(super) fn measure(self, programs: &Programs, places: &Places<'_>) -> Result<Amounts> {
        match self {
            Self::InstructionsRing => instructions(programs, places, 32, Backend::Ring),
            Self::InstructionsSync => instructions(programs, places, 1, Backend::Sync),
            Self::Start => start(programs, places),
            Self::Memory => memory(programs, places),
            Self::Plan => plan(programs, places),
        }
    }
}

/// The command of each: fio's default, the best fio's, diskproof's.
fn commands(
    programs: &Programs,
    work: &Work,
    spot: &Spot,
    length: Length,
    cpu: Option<usize>,
) -> Result<[Command; 3]> {
    let best = Way::lean_of(work);
    Ok([
        Way::default(work).command(work, spot, length)?,
        best.command(work, spot, length)?,
        programs.diskproof.command(&diskproof::plan(work, spot, length, cpu)?)?,
    ])
}

/// By callgrind, marginal: of two runs of different lengths, and of the thread that grew most.
/// The others watch by the clock, which goes on while callgrind makes all some fifty times slower.
fn instructions(
    programs: &Programs,
    places: &Places<'_>,
    depth: u32,
    backend: Backend,
) -> Result<Amounts> {
    let work = Work { rw: "randrw", block_kib: 4, depth, backend };
    let spot = places.spot(Place::Written)?;
    let manner = programs.manner();
    let folder = places.folder().join("callgrind");
    let out = format!("--callgrind-out-file={}/%p", folder.display());
    let counted = |ios| -> Result<Vec<Vec<f64>>> {
        let length = Length::Ios(ios);
        let floor = Batches::some(&work).command(&programs.floor, &work, &spot, length);
        let [default, best, ours] = commands(programs, &work, &spot, length, manner.cpu)?;
        let count = |command: &Command| {
            fs::create_dir(&folder)?;
            let tool = ["valgrind", "--tool=callgrind", "--separate-threads=yes", &out];
            process::run(&mut under(&tool, command), manner)?;
            let counts = counts_of_threads(&folder)?;
            fs::remove_dir_all(&folder)?;
            Ok(counts)
        };
        [floor, default, best, ours].iter().map(count).collect()
    };
    let [short, long] = COUNTS;
    let (before, after) = (counted(short)?, counted(long)?);
    let each = |index: usize| -> Result<f64> {
        Ok(most_growth(&before[index], &after[index])? / (long - short) as f64)
    };
    Ok(Amounts {
        floor: Some(each(0)?),
        default: Some(each(1)?),
        best: Some(each(2)?),
        ours: each(3)?,
    })
}

/// What callgrind counted of each thread, in the order in which processes and threads began: the
/// files are called PROCESS-THREAD.
fn counts_of_threads(folder: &Path) -> Result<Vec<f64>> {
    let mut threads = Vec::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        let name = path.file_name().and_then(|name| name.to_str()?.split_once('-'));
        let Some((process, thread)) = name else { continue };
        let text = String::from_utf8_lossy(&fs::read(&path)?).into_owned();
        let count = text.lines().find_map(|line| line.strip_prefix("totals: "));
        let count: f64 = count.context("callgrind told no count")?.trim().parse()?;
        threads.push((process.parse::<u32>()?, thread.parse::<u32>()?, count));
    }
    threads.sort_by_key(|(process, thread, _)| (*process, *thread));
    Ok(threads.into_iter().map(|(_, _, count)| count).collect())
}

fn most_growth(before: &[f64], after: &[f64]) -> Result<f64> {
    if before.len() != after.len() {
        bail!("one run had {} threads, the other {}", before.len(), after.len());
    }
    let growth = before.iter().zip(after).map(|(before, after)| after - before);
    growth.max_by(f64::total_cmp).context("callgrind wrote no file")
}

/// By strace of the calls that read the file. They run on all CPUs, as a person starts them.
fn start(programs: &Programs, places: &Places<'_>) -> Result<Amounts> {
    let work = Work { rw: "randread", block_kib: 4, depth: 1, backend: Backend::Sync };
    let spot = places.spot(Place::Disk)?;
    let trace = places.folder().join("trace");
    let trace_name = trace.to_str().context("the path of the trace is not UTF-8")?;
    let mut seconds = [const { Vec::new() }; 3];
    for _ in 0..ROUNDS {
        let all = commands(programs, &work, &spot, Length::Ios(FEW), None)?;
        for (command, seconds) in all.iter().zip(&mut seconds) {
            let tool = ["strace", "-f", "--seccomp-bpf", "-y", "-ttt", "-o", trace_name];
            let calls = ["-e", "trace=execve,pread64,preadv,preadv2"];
            process::run(&mut under(&[&tool[..], &calls].concat(), command), Manner::default())?;
            let text = String::from_utf8_lossy(&fs::read(&trace)?).into_owned();
            let first = first_io(&text, &spot.path, FEW as usize);
            seconds.push(first.context("strace saw no I/O on the file")?);
        }
    }
    let [default, best, ours] = seconds.map(|seconds| median(seconds.into_iter()));
    Ok(Amounts { floor: None, default: Some(default), best: Some(best), ours })
}

/// From the first `execve` to the first of the last `ios` reads of the file, in seconds: what
/// reads it before those looks whether it can be read.
fn first_io(trace: &str, path: &Path, ios: usize) -> Option<f64> {
    let moment = |line: &str| line.split_whitespace().nth(1)?.parse::<f64>().ok();
    let of_file = format!("<{}>", path.display());
    let started = trace.lines().find(|line| line.contains(" execve("))?;
    let reads = trace.lines().filter(|line| line.contains(" pread") && line.contains(&of_file));
    let reads: Vec<_> = reads.collect();
    let first = reads.len().checked_sub(ios).and_then(|index| reads.get(index))?;
    Some(moment(first)? - moment(started)?)
}

/// By the most that `smaps_rollup` said of a run of a second.
fn memory(programs: &Programs, places: &Places<'_>) -> Result<Amounts> {
    let work = Work { rw: "randread", block_kib: 4, depth: 32, backend: Backend::Ring };
    let spot = places.spot(Place::Disk)?;
    let manner = Manner { watched: true, ..programs.manner() };
    let mut bytes = [const { Vec::new() }; 3];
    for _ in 0..ROUNDS {
        let length = Length::Microseconds(500_000);
        let mut all = commands(programs, &work, &spot, length, manner.cpu)?;
        for (command, bytes) in all.iter_mut().zip(&mut bytes) {
            let most = process::run(command, manner)?.memory_bytes;
            bytes.push(most.saturating_sub(work.buffer_bytes()) as f64);
        }
    }
    let [default, best, ours] = bytes.map(|bytes| median(bytes.into_iter()));
    Ok(Amounts { floor: None, default: Some(default), best: Some(best), ours })
}

/// By the clock on the wall: one plan, and one fio for each of its cases. They run on all CPUs.
fn plan(programs: &Programs, places: &Places<'_>) -> Result<Amounts> {
    let spot = places.spot(Place::Loop)?;
    let plan = plan_of_cases(&spot)?;
    let mut seconds = Vec::new();
    for _ in 0..ROUNDS {
        let ended = programs.diskproof.run_plan(&plan, Manner::default())?;
        seconds.push(ended.wall.as_secs_f64());
    }
    let length = Length::Microseconds(CASE.as_micros() as u64);
    let mut by_fio = 0.0;
    for block_kib in BLOCKS_KIB {
        for depth in DEPTHS {
            let work = Work { rw: "randread", block_kib, depth, backend: Backend::Ring };
            let mut command = Way::default(&work).command(&work, &spot, length)?;
            by_fio += process::run(&mut command, Manner::default())?.wall.as_secs_f64();
        }
    }
    let ours = median(seconds.into_iter());
    Ok(Amounts { floor: None, default: Some(by_fio), best: None, ours })
}

fn plan_of_cases(spot: &Spot) -> Result<String> {
    let blocks: Vec<_> = BLOCKS_KIB.iter().map(|block| format!("\"{block}KiB\"")).collect();
    let depths: Vec<_> = DEPTHS.iter().map(u32::to_string).collect();
    Ok(format!(
        "{}\n[setups.disk]\ndisks = [\"disk\"]\n\n[workloads.load]\nrw = \"randread\"\n\
         block_size = [{}]\nqueue_depth = [{}]\nruntime = \"{}ms\"\nengine = \"io_uring\"\n{}",
        diskproof::disk(spot)?,
        blocks.join(", "),
        depths.join(", "),
        CASE.as_millis(),
        diskproof::END
    ))
}

/// A command under a tool.
fn under(tool: &[&str], command: &Command) -> Command {
    let mut outer = Command::new(tool[0]);
    outer.args(&tool[1..]).arg(command.get_program()).args(command.get_args());
    outer
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_are_told_apart_and_the_one_that_grew_counts() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, count: u32| {
            let text = format!("summary: {count}\n\ntotals: {count}\n");
            fs::write(folder.path().join(name), text).unwrap();
        };
        write("999-01", 10);
        write("1000-01", 30);
        write("999-02", 20);
        write("999", 60);
        let before = counts_of_threads(folder.path()).unwrap();
        assert!(before.iter().zip([10.0, 20.0, 30.0]).all(|(a, b)| (a - b).abs() < 0.5));
        write("999-02", 120);
        let after = counts_of_threads(folder.path()).unwrap();
        assert!((most_growth(&before, &after).unwrap() - 100.0).abs() < 0.5);
        assert!(most_growth(&before, &after[1..]).is_err());
        assert!(most_growth(&[], &[]).is_err());
    }

    #[test]
    fn the_first_io_is_the_first_of_the_last() {
        let trace = "\
10 100.000000 execve(\"/usr/bin/x\", [\"x\"], 0x7f /* 9 vars */) = 0
10 100.001000 pread64(3</lib/libc.so.6>, \"..\", 784, 64) = 784
10 100.010000 pread64(4</d/data>, \"..\", 4096, 0) = 4096
11 100.020000 pread64(5</d/data>,  <unfinished ...>
11 100.020500 <... pread64 resumed>\"..\", 4096, 8192) = 4096
11 100.021000 pread64(5</d/data>, \"..\", 4096, 4096) = 4096
";
        let first = |ios| first_io(trace, Path::new("/d/data"), ios);
        assert!((first(2).unwrap() - 0.02).abs() < 1e-6);
        assert!((first(3).unwrap() - 0.01).abs() < 1e-6);
        assert_eq!(first(4), None);
        assert_eq!(first_io("", Path::new("/d/data"), 1), None);
    }

    #[test]
    fn the_plan_has_a_hundred_cases() {
        let spot = Spot { place: Place::Loop, path: "/dev/loop9".into(), bytes: 1 << 28 };
        let plan: toml::Table = plan_of_cases(&spot).unwrap().parse().unwrap();
        let load = &plan["workloads"]["load"];
        let values = |key: &str| load[key].as_array().unwrap().len();
        assert_eq!(values("block_size") * values("queue_depth"), 100);
        assert!((Extra::Plan.limit() - 6.5).abs() < 1e-9);
    }

    #[test]
    fn a_command_goes_under_a_tool_with_all_its_arguments() {
        let mut command = Command::new("a");
        command.args(["b", "c"]);
        let outer = under(&["t", "-x"], &command);
        assert_eq!(outer.get_program(), "t");
        assert_eq!(outer.get_args().collect::<Vec<_>>(), ["-x", "a", "b", "c"]);
    }
}
