//! `cargo xtask test`: every test there is, and an honest count of them.
//!
//! A test that can't run somewhere notes that in the file which `DISKPROOF_SKIP_LOG` names, one
//! line `test\treason\tremedy`; the harness takes it for passed, this count doesn't. With
//! `DISKPROOF_REQUIRE_ALL=1` such a test fails instead.

mod skips;
mod tally;

use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Command, ExitCode, Stdio};

use anyhow::{Context, Result};
use clap::Args;

use crate::{cargo, tidy};
use skips::Skips;
use tally::Tally;

/// Set to 1, it makes a test that can't run fail rather than skip.
const REQUIRE_ALL: &str = "DISKPROOF_REQUIRE_ALL";

/// Names the file to which tests that can't run append why.
const SKIP_LOG: &str = "DISKPROOF_SKIP_LOG";

/// What `cargo xtask test` takes.
#[derive(Debug, Args)]
pub(crate) struct Options {
    /// Let a test that can't run here fail (as does DISKPROOF_REQUIRE_ALL=1)
    #[arg(long)]
    require_all: bool,
    /// What the test harness is given: the part of a name, to run the tests with that part alone
    #[arg(last = true)]
    harness: Vec<String>,
}

/// Runs all tests, the long ones too, and the rules of the house as one more; prints what was
/// skipped and the sum. With arguments for the harness, runs the chosen tests alone.
pub(crate) fn run(options: &Options) -> Result<ExitCode> {
    let everything = options.harness.is_empty();
    let skip_log = SkipLog::new();
    let mut tally = Tally::default();
    if everything {
        cargo::build_release("diskproof")?;
    }
    for targets in target_sets() {
        let mut command = cargo_test(options, &targets);
        command.env(SKIP_LOG, &skip_log.0);
        run_one(&mut command, &mut tally)?;
    }
    if everything {
        let violations = tidy::check(cargo::root())?;
        tidy::print(&violations);
        if violations.is_empty() { tally.add_pass() } else { tally.add_failure() }
    }
    let skips = Skips::read(&skip_log.0)?;
    tally.move_to_skipped(skips.count());
    skips.print(&packages()?);
    println!("\n{tally}");
    Ok(if tally.all_well() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// The targets of each call of cargo. Documentation tests can't share a call with others; benches
/// are run once each, without measuring, so that they can't rot. All name the whole workspace, so
/// that dependencies have the same features and are built once.
fn target_sets() -> Vec<Vec<&'static str>> {
    let mut sets = vec![vec!["--workspace", "--tests"], vec!["--workspace", "--doc"]];
    if cargo::root().join("suite/benches").is_dir() {
        sets.insert(1, vec!["--workspace", "--bench", "*"]);
    }
    sets
}

fn cargo_test(options: &Options, targets: &[&str]) -> Command {
    let mut command = Command::new(cargo::program());
    command.current_dir(cargo::root()).arg("test").arg("--no-fail-fast").args(targets);
    let has_long_tests = targets.contains(&"--tests");
    command.arg("--");
    if has_long_tests && !options.harness.iter().any(|argument| argument.contains("ignored")) {
        command.arg("--include-ignored");
    }
    command.args(&options.harness);
    if options.require_all {
        command.env(REQUIRE_ALL, "1");
    }
    command
}

/// Runs one call of cargo, shows its output as it comes, and counts.
fn run_one(command: &mut Command, tally: &mut Tally) -> Result<()> {
    let mut child = command.stdout(Stdio::piped()).spawn().context("can't start cargo")?;
    let output = child.stdout.take().context("cargo has no stdout")?;
    let failed_before = tally.failed();
    for line in BufReader::new(output).split(b'\n') {
        let line = line?;
        let line = String::from_utf8_lossy(&line);
        println!("{line}");
        tally.add_line(&line);
    }
    let status = child.wait().context("can't wait for cargo")?;
    if !status.success() && tally.failed() == failed_before {
        // What doesn't compile, crashes, or has another harness has no line to count.
        tally.add_failure();
    }
    Ok(())
}

/// The packages that tests need, as .ci/packages lists them.
fn packages() -> Result<Vec<String>> {
    let path = cargo::root().join(".ci/packages");
    let text =
        std::fs::read_to_string(&path).with_context(|| format!("can't read {}", path.display()))?;
    Ok(skips::package_names(&text))
}

/// The file to which tests write why they can't run; removed at the end.
struct SkipLog(PathBuf);

impl SkipLog {
    fn new() -> Self {
        let name = format!("diskproof-skipped-{}", std::process::id());
        Self(std::env::temp_dir().join(name))
    }
}

impl Drop for SkipLog {
    fn drop(&mut self) {
        // When no test was skipped there is none.
        let _ = std::fs::remove_file(&self.0);
    }
}
