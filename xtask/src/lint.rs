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
    eprintln!("lint: format");
    cmd!(shell, "{cargo} fmt --all --check")
        .quiet()
        .run()
        .context("some files are not formatted: run `cargo fmt`")?;
    eprintln!("lint: clippy");
    cmd!(shell, "{cargo} clippy --workspace --all-targets -- -D warnings")
        .quiet()
        .run()
        .context("clippy complains")?;
    eprintln!("lint: documentation");
    cmd!(shell, "{cargo} doc --workspace --no-deps")
        .env("RUSTDOCFLAGS", "-D warnings")
        .quiet()
        .run()
        .context("rustdoc complains")?;
    eprintln!("lint: all in order");
    Ok(ExitCode::SUCCESS)
}
