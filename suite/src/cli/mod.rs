//! The command line: clap's types, progress, exit codes. Speaks with the person, decides nothing.
//!
//! Standard output carries what was asked for, standard error all talk. Exit codes are those of
//! [`ExitCode`] and nothing else.

mod check;
mod completions;
mod folder;
mod init;
mod list;
mod load;
mod out;
mod progress;
mod report;
mod run;
mod self_test;
mod show;
mod signals;

use clap::{CommandFactory, Parser, Subcommand, ValueEnum};
use nix::sys::resource::{Resource, getrlimit, setrlimit};

use crate::record::ExitCode;

/// The declarative test suite for storage performance.
#[derive(Debug, Parser)]
#[command(
    name = "diskproof",
    version,
    about = "Builds what a plan describes, measures it past the page cache, and judges it.",
    after_help = EXAMPLES,
    after_long_help = long_after(),
    disable_help_subcommand = true,
    max_term_width = 100
)]
pub struct Cli {
    /// When to use colour
    #[arg(long, global = true, value_enum, default_value_t = Color::Auto, value_name = "WHEN")]
    color: Color,

    #[command(subcommand)]
    command: Command,
}

const EXAMPLES: &str = "\
Examples:
  diskproof run plans/first.toml                    measure, judge, write the reports
  diskproof show plans/stripe.toml                  what would happen here, and what would be lost
  diskproof run plans/stripe.toml --disk single=/mnt/a --case 'single/*'";

/// Examples, and what each exit code means.
fn long_after() -> String {
    let codes = ExitCode::ALL.map(|exit| format!("  {:<4} {}", exit.code(), exit.meaning()));
    format!("{EXAMPLES}\n\nExit codes:\n{}", codes.join("\n"))
}

/// When to use colour.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Color {
    /// On a terminal, unless NO_COLOR is set
    Auto,
    /// Always
    Always,
    /// Never
    Never,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Is a plan well-formed and meaningful? Touches no disk
    Check(check::Args),
    /// What would happen here, how long it takes, and what would be lost? Reads only
    Show(show::Args),
    /// Build, measure, judge, and write the reports
    Run(run::Args),
    /// Draw the reports of a record again
    Report(report::Args),
    /// List plans and their cases
    List(list::Args),
    /// Write a commented plan to start from
    Init(init::Args),
    /// What could the engine do on this machine if there were no disk? Touches none
    SelfTest(self_test::Args),
    /// Print completions for a shell
    Completions(completions::Args),
}

/// Runs the program: reads the command line, does it, says how it ended.
#[must_use]
pub fn main() -> std::process::ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return usage(&error),
    };
    out::set_color(cli.color);
    if let Err(error) = signals::outlive_file_size_limit() {
        out::error(&format!("can't prepare for the limit on file sizes: {error}"));
        return out::finish(ExitCode::NotMeasured);
    }
    raise_open_files();
    let code = match cli.command {
        Command::Check(args) => check::run(&args),
        Command::Show(args) => show::run(&args),
        Command::Run(args) => run::run(&args),
        Command::Report(args) => report::run(&args),
        Command::List(args) => list::run(&args),
        Command::Init(args) => init::run(&args),
        Command::SelfTest(args) => self_test::run(&args),
        Command::Completions(args) => completions::run(&args, Cli::command()),
    };
    out::finish(code)
}

/// Lets the process open as many files as it ever may: the usual soft limit is for the sake of
/// programs that use select(2), and less than many disks and rings need. Where it stays as it is,
/// an open that fails says so.
fn raise_open_files() {
    if let Ok((soft, hard)) = getrlimit(Resource::RLIMIT_NOFILE)
        && soft < hard
    {
        let _ = setrlimit(Resource::RLIMIT_NOFILE, hard, hard);
    }
}

/// Help and version go to standard output with code 0, mistakes to standard error with code 2.
fn usage(error: &clap::Error) -> std::process::ExitCode {
    let text = error.render().ansi().to_string();
    if error.use_stderr() {
        out::say(text.trim_end());
        return out::finish(ExitCode::Invalid);
    }
    out::print(&text);
    out::finish(ExitCode::Passed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }
}
