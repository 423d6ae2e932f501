//! `diskproof report`: the reports of a record, drawn again.

use std::path::{Path, PathBuf};

use crate::cli::out;
use crate::record::{self, ExitCode, Record};
use crate::report::{self, ReportPaths, Style};
use crate::session;

/// Arguments of `report`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  diskproof report target/runs/first/latest/record.json
  diskproof report record.json --out /tmp/again")]
pub(super) struct Args {
    /// A record.json that `diskproof run` wrote
    #[arg(value_name = "RECORD")]
    record: PathBuf,
    /// Folder for junit.xml, report.html and summary.md [default: the record's own]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
}

pub(super) fn run(args: &Args) -> ExitCode {
    let record = match Record::load(&args.record) {
        Ok(record) => record,
        Err(error) => {
            out::error(&session::with_causes(&error));
            return ExitCode::Invalid;
        }
    };
    let beside = args.record.parent().map(Path::to_path_buf).unwrap_or_default();
    let folder = args.out.clone().unwrap_or(beside);
    if let Err(message) = std::fs::create_dir_all(&folder)
        .map_err(|error| format!("can't make the folder {}: {error}", folder.display()))
    {
        out::error(&message);
        return ExitCode::NotMeasured;
    }
    let lost = write(&record, &folder);
    out::print(&terminal(&record, &folder, &args.record));
    if lost { ExitCode::NotMeasured } else { ExitCode::Passed }
}

/// Writes every report of a record that is a file. Returns whether one of them was lost; what
/// went wrong is said.
pub(super) fn write(record: &Record, folder: &Path) -> bool {
    let mut lost = false;
    for (name, text) in [
        ("junit.xml", report::junit(record)),
        ("report.html", report::html(record)),
        ("summary.md", report::markdown(record)),
    ] {
        if let Err(error) = record::write_file(&folder.join(name), text.as_bytes()) {
            out::error(&session::with_causes(&error));
            lost = true;
        }
    }
    lost
}

/// The table for the terminal, with the paths of the other reports.
pub(super) fn terminal(record: &Record, folder: &Path, record_path: &Path) -> String {
    let style = Style { color: true, width: out::width() };
    let path = |name: &str, path: PathBuf| (name.to_owned(), path.display().to_string());
    let paths = ReportPaths(vec![
        path("report", folder.join("report.html")),
        path("record", record_path.to_owned()),
    ]);
    report::terminal(record, style, &paths)
}
