//! `cargo xtask run-plan`: builds the release binary, then becomes it.

use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode};

use anyhow::{Context, Result};

use crate::cargo;

/// Runs `diskproof run` with `args` in the person's own folder.
///
/// The program takes this process's place, so that its exit code is ours, a signal reaches it
/// once, and nobody is left behind who could end before it. (`cargo run` does the same with us.)
pub(crate) fn run(args: &[OsString]) -> Result<ExitCode> {
    let program = cargo::build_release("diskproof")?;
    let error = Command::new(&program).arg("run").args(args).exec();
    Err(error).with_context(|| format!("can't run {}", program.display()))
}
