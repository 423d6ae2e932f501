//! Whole processes: pinned to one CPU, with the processor time that the kernel counted, and with
//! the memory that they had at most.

use std::fs;
use std::io::Read;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::sys::resource::{UsageWho, getrusage};
use nix::unistd::Pid;

/// How often the memory of a process is looked at.
const LOOK: Duration = Duration::from_millis(10);

/// A process that ended well.
#[derive(Debug)]
pub(super) struct Ended {
    /// What it printed.
    pub stdout: String,
    /// User and system time of it and of the processes that it waited for, in nanoseconds.
    pub cpu_ns: f64,
    /// From before its start to after its end.
    pub wall: Duration,
    /// The most memory that it was seen to have, where that was asked for: PSS in bytes, with that
    /// of its children.
    pub memory_bytes: u64,
}

/// How a process is run.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Manner {
    /// The CPU that it and its children are pinned to.
    pub cpu: Option<usize>,
    /// Whether its memory is looked at, which costs it a little time.
    pub watched: bool,
}

/// Runs a program to its end. One that fails is an error with what it said.
pub(super) fn run(command: &mut Command, manner: Manner) -> Result<Ended> {
    let name = command.get_program().to_string_lossy().into_owned();
    let before = children_cpu_ns()?;
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let started = Instant::now();
    let mut child = spawn(command, manner.cpu).with_context(|| format!("can't run {name}"))?;
    let said = child.stderr.take().map(|pipe| thread::spawn(move || read_all(pipe)));
    let printed = child.stdout.take().map(|pipe| thread::spawn(move || read_all(pipe)));
    let mut memory_bytes = 0;
    while manner.watched && child.try_wait()?.is_none() {
        memory_bytes = memory_bytes.max(memory_of(child.id()));
        thread::sleep(LOOK);
    }
    let status = child.wait()?;
    let wall = started.elapsed();
    let text = |thread: Option<thread::JoinHandle<String>>| {
        thread.and_then(|thread| thread.join().ok()).unwrap_or_default()
    };
    let (stdout, stderr) = (text(printed), text(said));
    if !status.success() {
        bail!("{name} failed: {status}\n{}\n{}", stdout.trim(), stderr.trim());
    }
    // Nobody else of ours ends meanwhile: processes are run one after the other.
    let cpu_ns = children_cpu_ns()? - before;
    Ok(Ended { stdout, cpu_ns, wall, memory_bytes })
}

/// The CPU that is taken where none was asked for: the last that we may use, since the first
/// serves most interrupts.
pub(super) fn last_cpu() -> Result<usize> {
    let allowed = sched_getaffinity(Pid::from_raw(0))?;
    let last = (0..CpuSet::count()).rev().find(|cpu| allowed.is_set(*cpu) == Ok(true));
    last.context("we may use no CPU")
}

/// A child has the CPUs of the thread that starts it.
fn spawn(command: &mut Command, cpu: Option<usize>) -> Result<Child> {
    let Some(cpu) = cpu else { return Ok(command.spawn()?) };
    let this = Pid::from_raw(0);
    let ours = sched_getaffinity(this)?;
    let mut one = CpuSet::new();
    one.set(cpu)?;
    sched_setaffinity(this, &one).with_context(|| format!("can't pin to CPU {cpu}"))?;
    let child = command.spawn();
    sched_setaffinity(this, &ours)?;
    Ok(child?)
}

fn read_all(mut pipe: impl Read) -> String {
    let mut bytes = Vec::new();
    let _ = pipe.read_to_end(&mut bytes);
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Of all children that were waited for, and theirs.
fn children_cpu_ns() -> Result<f64> {
    let usage = getrusage(UsageWho::RUSAGE_CHILDREN)?;
    let times = [usage.user_time(), usage.system_time()];
    Ok(times.iter().map(|time| (time.tv_sec() * 1_000_000 + time.tv_usec()) as f64 * 1e3).sum())
}

/// PSS of a process and its children, 0 for one that is gone.
pub(super) fn memory_of(process: u32) -> u64 {
    let text = |file: String| fs::read_to_string(file).unwrap_or_default();
    let children = text(format!("/proc/{process}/task/{process}/children"));
    let children: Vec<u32> = children.split_whitespace().flat_map(str::parse).collect();
    let own = pss_bytes(&text(format!("/proc/{process}/smaps_rollup")));
    own + children.into_iter().map(memory_of).sum::<u64>()
}

/// From `smaps_rollup`, see proc(5).
fn pss_bytes(text: &str) -> u64 {
    let line = text.lines().find_map(|line| line.strip_prefix("Pss:"));
    let kib = line.and_then(|line| line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok());
    kib.unwrap_or(0) << 10
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_proportional_share_is_found() {
        let text = "55f0 [rollup]\nRss:       5132 kB\nPss:       2048 kB\nPss_Dirty:   9 kB\n";
        assert_eq!(pss_bytes(text), 2 << 20);
        assert_eq!(pss_bytes(""), 0);
    }

    #[test]
    fn a_process_runs_where_it_was_pinned_and_its_memory_is_seen() {
        let cpu = last_cpu().unwrap();
        let mut command = Command::new("sh");
        command.args(["-c", "grep Cpus_allowed_list /proc/self/status; sleep 0.1"]);
        let ended = run(&mut command, Manner { cpu: Some(cpu), watched: true }).unwrap();
        assert_eq!(ended.stdout.split_whitespace().last(), Some(cpu.to_string().as_str()));
        assert!(ended.memory_bytes > 0);
        assert!(ended.wall >= Duration::from_millis(100));
    }

    #[test]
    fn a_failure_comes_with_what_was_said() {
        let mut command = Command::new("sh");
        command.args(["-c", "echo why >&2; exit 3"]);
        let error = run(&mut command, Manner::default()).unwrap_err().to_string();
        assert!(error.contains("why") && error.contains('3'), "{error}");
    }
}
