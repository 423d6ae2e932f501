//! `cargo xtask lint`: format, clippy and documentation, all without a warning.

use std::process::ExitCode;

use anyhow::{Context, Result};
use xshell::{Shell, cmd};

use crate::cargo;

/// Runs all three and stops at the first that complains.
pub(crate) fn run() -> Result<ExitCode> {
    let shell = Shell::new()?;
    shell.change_dir(cargo::root());
    let cargo = cargo::program();
    cmd!(shell, "{cargo} fmt --all --check")
        .run()
        .context("some files are not formatted: run `cargo fmt`")?;
    cmd!(shell, "{cargo} clippy --workspace --all-targets -- -D warnings").run()?;
    cmd!(shell, "{cargo} doc --workspace --no-deps").env("RUSTDOCFLAGS", "-D warnings").run()?;
    Ok(ExitCode::SUCCESS)
}
