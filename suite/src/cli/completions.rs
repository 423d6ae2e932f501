//! `diskproof completions`: what a shell needs to complete our commands.

use crate::cli::out;
use crate::record::ExitCode;

/// Arguments of `completions`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  diskproof completions bash > \
                        ~/.local/share/bash-completion/completions/diskproof")]
pub(super) struct Args {
    /// The shell
    #[arg(value_enum)]
    shell: clap_complete::Shell,
}

pub(super) fn run(args: &Args, mut command: clap::Command) -> ExitCode {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut command, "diskproof", &mut script);
    out::print(&String::from_utf8_lossy(&script));
    ExitCode::Passed
}
