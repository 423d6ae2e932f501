//! `cargo xtask soak`: memory over a long run at full speed, which must not grow.

use std::fs;
use std::process::{Child, Command, ExitCode, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use clap::Args;

use super::figures::median;
use super::process::memory_of;
use crate::cargo;

/// How often the memory is looked at.
const LOOK: Duration = Duration::from_secs(1);

/// What the start takes: from then on nothing may be added.
const SETTLED: Duration = Duration::from_secs(20);

/// The most that is taken for noise, in bytes: a page of code that was not needed before is 4 KiB.
const GROWTH_MAX: f64 = 64.0 * 1024.0;

/// The runs, side by side: an engine, and its depth.
const RUNS: [(&str, u32); 2] = [("io_uring", 128), ("sync", 1)];

/// How long a run is
#[derive(Debug, Args)]
pub(crate) struct Options {
    /// Minutes under load
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=1440))]
    minutes: u32,
}

/// Runs the null device at full speed, and fails when memory grew.
pub(crate) fn run(options: &Options) -> Result<ExitCode> {
    let program = cargo::build_release("diskproof")?;
    let folder = cargo::root().join(format!("target/bench/soak-{}", std::process::id()));
    fs::create_dir_all(&folder)?;
    let mut runs = Vec::new();
    for (engine, depth) in RUNS {
        let path = folder.join(format!("{engine}.toml"));
        fs::write(&path, plan(engine, depth, options.minutes))?;
        let mut command = Command::new(&program);
        command.arg("run").arg(&path).arg("--out").arg(folder.join(engine));
        command.args(["--progress", "none"]).stdout(Stdio::null());
        runs.push((engine, Watched { child: command.spawn()?, seen: Vec::new() }));
    }
    let started = Instant::now();
    // What fails does so at once, and has said why.
    thread::sleep(LOOK);
    if !runs.iter_mut().all(|(_, run)| run.is_running()) {
        bail!("a run ended at once");
    }
    while runs.iter_mut().any(|(_, run)| run.is_running()) {
        thread::sleep(LOOK);
        for (_, run) in &mut runs {
            run.look(started.elapsed());
        }
    }
    let mut good = true;
    println!("| engine | PSS after 20 s | at the end | growth |");
    println!("| --- | --- | --- | --- |");
    for (engine, run) in &mut runs {
        let [first, last] = run.ends()?;
        good &= run.child.wait()?.success() && last - first <= GROWTH_MAX;
        let kib = |bytes: f64| format!("{:.0} KiB", bytes / 1024.0);
        println!("| {engine} | {} | {} | {} |", kib(first), kib(last), kib(last - first));
    }
    fs::remove_dir_all(&folder)?;
    Ok(if good { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn plan(engine: &str, depth: u32, minutes: u32) -> String {
    format!(
        "name = 'soak'\ndisks.disk = {{ null = true, size = '1GiB' }}\nsetups.s.disks = ['disk']\n\
         [workloads.load]\nrw = 'randwrite'\ncache = 'buffered'\nqueue_depth = {depth}\n\
         engine = '{engine}'\nruntime = '{minutes}m'\n\
         [[expect]]\ncase = '*'\nthat = 'errors = 0'\n[run]\nrounds = 1\n"
    )
}

/// A run, and its memory so far. Dropping it ends it.
struct Watched {
    child: Child,
    seen: Vec<f64>,
}

impl Watched {
    fn is_running(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }

    fn look(&mut self, after: Duration) {
        let bytes = memory_of(self.child.id());
        if after >= SETTLED && bytes > 0 {
            self.seen.push(bytes as f64);
        }
    }

    /// The memory at the beginning and before the end, when the reports are made.
    fn ends(&self) -> Result<[f64; 2]> {
        let count = self.seen.len();
        if count < 20 {
            bail!("it ran for too short a time to tell: {count} looks at its memory");
        }
        let (first, last) = (&self.seen[..10], &self.seen[count - 15..count - 5]);
        Ok([first, last].map(|some| median(some.iter().copied())))
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
