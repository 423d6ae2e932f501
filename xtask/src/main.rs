//! The tasks of those who work on diskproof, as `cargo xtask TASK`.
//!
//! Nothing here is linked with the suite: what xtask measures or runs is the release binary, so
//! that no figure ever comes from an unoptimised build.

mod bench;
mod cargo;
mod floor;
mod lint;
mod pictures;
mod run_plan;
mod test;
mod tidy;

use std::ffi::OsString;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// The tasks of those who work on diskproof.
#[derive(Debug, Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
struct Cli {
    #[command(subcommand)]
    task: Task,
}

#[derive(Debug, Subcommand)]
enum Task {
    /// Build the release binary and run a plan with it: `diskproof run PLAN …`
    #[command(disable_help_flag = true)]
    RunPlan {
        /// What `diskproof run` is given: the plan and any of its options
        #[arg(value_name = "PLAN", trailing_var_arg = true, allow_hyphen_values = true)]
        #[arg(required = true)]
        args: Vec<OsString>,
    },
    /// Run every test there is, and say which were skipped and what would let them run
    Test(test::Options),
    /// Check the format, clippy's advice and the documentation
    Lint,
    /// Check the rules of the house: imports, unsafe code, lengths, words, links
    Tidy,
    /// Draw the README's pictures of the terminal from real runs
    Pictures,
    /// Compare with fio and with a bare loop, in turn, and print the table of the ratios
    Bench(bench::Options),
    /// Compare figures with fio's on a disk that the kernel caps, where both have to say the same
    Agree(bench::agree::Options),
    /// Run at full speed for minutes, and see that memory doesn't grow
    Soak(bench::soak::Options),
    /// Move blocks in a bare loop, which `bench` compares with
    #[command(hide = true)]
    Floor(floor::Options),
}

fn main() -> ExitCode {
    let done = match Cli::parse().task {
        Task::RunPlan { args } => run_plan::run(&args),
        Task::Test(options) => test::run(&options),
        Task::Lint => lint::run(),
        Task::Tidy => tidy::run(),
        Task::Pictures => pictures::run(),
        Task::Bench(options) => bench::run(&options),
        Task::Agree(options) => bench::agree::run(&options),
        Task::Soak(options) => bench::soak::run(&options),
        Task::Floor(options) => floor::run(&options),
    };
    done.unwrap_or_else(|error| {
        eprintln!("error: {error:#}");
        ExitCode::FAILURE
    })
}
