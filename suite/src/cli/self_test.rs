//! `diskproof self-test`: what the engine could do here if no disk were in its way.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use crate::cli::out;
use crate::os::host::HostFacts;
use crate::record::ExitCode;
use crate::session::{self, Line};
use crate::units::{Unit, human};

/// Arguments of `self-test`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  diskproof self-test\n  diskproof self-test --json")]
pub(super) struct Args {
    /// Print as JSON
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: &Args) -> ExitCode {
    let host = HostFacts::read();
    if !args.json {
        out::print(&format!(
            "What the engine can do without a disk, one worker, 4 KiB:\n{}, {} CPUs, Linux {}\n\n",
            host.cpu_model, host.cpus, host.kernel
        ));
    }
    let mut lines = Vec::new();
    // Nothing is made that would have to be unmade: a signal may end it where it stands.
    session::self_test(&Arc::new(AtomicBool::new(false)), &mut |line| {
        if args.json {
            lines.push(as_json(line));
        } else {
            out::print(&as_text(line));
        }
    });
    if args.json {
        let host = serde_json::json!({
            "cpu_model": host.cpu_model, "cpus": host.cpus, "kernel": host.kernel,
        });
        let all = serde_json::json!({ "host": host, "lines": lines });
        out::print(&format!("{all:#}\n"));
    } else {
        out::print(
            "\nA case that comes within 20 % of what the engine could do with it is marked as \
             limited\nby the tool or the CPU: its figures are not its disk's.\n",
        );
    }
    ExitCode::Passed
}

fn as_text(line: &Line) -> String {
    let told = match (line.rate, &line.reason) {
        (Some(rate), _) => human(rate, line.unit).replace(" IOPS", " a second"),
        (None, Some(reason)) => format!("not here: {reason}"),
        (None, None) => "not measured".to_owned(),
    };
    let cost = line
        .cpu_ns
        .map_or_else(String::new, |cost| format!("{} of CPU each", human(cost, Unit::Nanoseconds)));
    format!("  {:<34} {told:<16} {cost}", line.what).trim_end().to_owned() + "\n"
}

fn as_json(line: &Line) -> serde_json::Value {
    let unit = match line.unit {
        Unit::BytesPerSecond => "rate_bytes_per_s",
        _ => "rate_per_s",
    };
    serde_json::json!({
        "what": line.what, unit: line.rate, "cpu_ns": line.cpu_ns, "reason": line.reason,
    })
}
