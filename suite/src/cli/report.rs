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
    let written = write(&record, &folder);
    out::print(&terminal(&record, &written, Some(&args.record)));
    if written.lost.is_empty() { ExitCode::Passed } else { ExitCode::NotMeasured }
}

/// Name of the record in the folder of a run.
pub(super) const RECORD: &str = "record.json";

/// Names of the reports that stand beside it.
pub(super) const FILES: [&str; 3] = ["junit.xml", "report.html", "summary.md"];

/// What became of the reports that are files.
#[derive(Debug, Default)]
pub(super) struct Written {
    /// The page, where it was written.
    pub(super) page: Option<PathBuf>,
    /// Names of those that were not.
    pub(super) lost: Vec<&'static str>,
}

/// Writes every report of a record that is a file. What goes wrong is said.
pub(super) fn write(record: &Record, folder: &Path) -> Written {
    let mut written = Written::default();
    for name in FILES {
        let text = match name {
            "junit.xml" => report::junit(record),
            "report.html" => report::html(record),
            _ => report::markdown(record),
        };
        let path = folder.join(name);
        match record::write_file(&path, text.as_bytes()) {
            Ok(()) if name == "report.html" => written.page = Some(path),
            Ok(()) => {}
            Err(error) => {
                out::error(&session::with_causes(&error));
                written.lost.push(name);
            }
        }
    }
    written
}

/// The table for the terminal, with the paths of the page and the record, as far as they are
/// there.
pub(super) fn terminal(record: &Record, written: &Written, record_path: Option<&Path>) -> String {
    let style = Style { color: true, width: out::width() };
    let paths = [("report", written.page.as_deref()), ("record", record_path)];
    let there = paths.into_iter().filter_map(|(name, path)| Some((name, path?)));
    let there = there.map(|(name, path)| (name.to_owned(), path.display().to_string()));
    report::terminal(record, style, &ReportPaths(there.collect()))
}
