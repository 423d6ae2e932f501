//! `diskproof run`: build, measure, judge, and write the reports.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use clap::builder::FalseyValueParser;

use crate::cli::load::{self, Loaded};
use crate::cli::progress::{Display, Setting};
use crate::cli::{out, report, show, signals};
use crate::model::DiskModel;
use crate::record::{ExitCode, Record, Selection};
use crate::rig::{Binding, Category, RigError, Undo};
use crate::session::{self, Event, Request, SessionError};

/// What `run` and `show` have in common.
#[derive(Debug, clap::Args)]
pub(super) struct RunArgs {
    /// Put a directory, a device or a file in the place of a disk of the plan; several, with
    /// commas between them, for a disk with a count
    #[arg(long = "disk", value_name = "NAME=PATH")]
    disks: Vec<OsString>,
    /// Apply a profile of the plan
    #[arg(long, value_name = "NAME")]
    pub(super) profile: Option<String>,
    /// Only the cases that match (* and ? match anything; a name without brackets, every point)
    #[arg(long = "case", value_name = "GLOB")]
    cases: Vec<String>,
    /// Not the cases that match
    #[arg(long, value_name = "GLOB")]
    skip: Vec<String>,
    /// Folder for the files of loopback disks
    #[arg(long, value_name = "DIR", env = "DISKPROOF_WORK_DIR", default_value = "/var/tmp")]
    work_dir: PathBuf,
    /// Simulated disks in virtual time: to try a plan, not a disk
    #[arg(long, conflicts_with = "disks")]
    simulate: bool,
}

/// Arguments of `run`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  diskproof run plans/first.toml
  diskproof run plans/zone-redundancy.toml --disk lrs=/mnt/lrs --disk zrs=/mnt/zrs --case '*/read'
  diskproof run p.toml --baseline last/record.json --out now")]
pub(super) struct Args {
    /// The plan
    #[arg(value_name = "PLAN")]
    plan: PathBuf,
    #[command(flatten)]
    common: RunArgs,
    /// Folder for record.json and the reports [default: target/runs/PLAN/TIME]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// An earlier record.json, for conditions that compare with `baseline`
    #[arg(long, value_name = "FILE")]
    baseline: Option<PathBuf>,
    /// Make a case that can't run here an error rather than a skip
    #[arg(long, env = "DISKPROOF_REQUIRE_ALL", value_parser = FalseyValueParser::new())]
    require_all: bool,
    /// How progress is shown, on standard error
    #[arg(long, value_enum, value_name = "HOW", default_value_t = Setting::Auto)]
    progress: Setting,
    /// Only say what would happen, as `diskproof show` does
    #[arg(long)]
    dry_run: bool,
}

pub(super) fn run(args: &Args) -> ExitCode {
    let loaded = match load::load(&args.plan, args.common.profile.as_deref()) {
        Ok(loaded) => loaded,
        Err(code) => return code,
    };
    let folder = match &args.out {
        Some(folder) => folder.clone(),
        None => default_folder(&loaded.plan.name),
    };
    let record_path = folder.join("record.json");
    let prepared = request(loaded, &args.common, args.baseline.as_deref(), Some(&record_path));
    let request = match prepared {
        Ok(request) => Request { require_all: args.require_all, ..request },
        Err(code) => return code,
    };
    if args.dry_run {
        return dry_run(&request);
    }
    let made = match make_folder(&folder) {
        Ok(made) => made,
        Err(message) => {
            out::error(&message);
            return ExitCode::NotMeasured;
        }
    };
    match measure(&request, &folder, &record_path, args.progress) {
        Ok(code) => {
            if args.out.is_none() {
                point_latest_at(&folder);
            }
            code
        }
        Err(code) => {
            // Nothing was begun, so nothing stays: folders that are not empty are not ours alone.
            for folder in made {
                let _ = std::fs::remove_dir(folder);
            }
            code
        }
    }
}

/// What is asked for, from the command line and the plan.
///
/// # Errors
/// The exit code, with the reason said.
pub(super) fn request(
    loaded: Loaded,
    args: &RunArgs,
    baseline: Option<&Path>,
    record_path: Option<&Path>,
) -> Result<Request, ExitCode> {
    let mut bindings = Vec::new();
    for text in &args.disks {
        match Binding::parse(text) {
            Ok(binding) => bindings.push(binding),
            Err(trouble) => return Err(show::troubles(&[trouble])),
        }
    }
    let baseline_path = baseline.map(|path| path.display().to_string());
    let baseline = match baseline.map(Record::load).transpose() {
        Ok(baseline) => baseline,
        Err(error) => {
            out::error(&format!("the baseline can't be used: {}", session::with_causes(&error)));
            return Err(ExitCode::Invalid);
        }
    };
    Ok(Request {
        plan: loaded.plan,
        plan_path: loaded.source.name,
        plan_text: loaded.source.text,
        selection: Selection { cases: args.cases.clone(), skip: args.skip.clone() },
        bindings,
        simulate: args.simulate.then(DiskModel::default),
        baseline,
        baseline_path,
        work_dir: args.work_dir.clone(),
        record_path: record_path.map(Path::to_path_buf),
        require_all: false,
    })
}

/// Says why a run could not begin.
pub(super) fn complain(error: &SessionError) -> ExitCode {
    match error {
        SessionError::NothingSelected(_) => {
            out::error(&error.to_string());
            ExitCode::NothingDecided
        }
        SessionError::Usage(found) => show::troubles(found),
    }
}

/// The exit code for a trouble with storage.
pub(super) fn exit_of(trouble: &RigError) -> ExitCode {
    match trouble.category() {
        Category::Usage => ExitCode::Invalid,
        Category::Refusal => ExitCode::Refused,
        Category::MissingRequirement | Category::Machine => ExitCode::NotMeasured,
        Category::Interrupted => ExitCode::Interrupted,
    }
}

fn dry_run(request: &Request) -> ExitCode {
    match session::preview(request) {
        Ok(preview) => {
            out::print(&show::text(&request.plan, &preview));
            show::troubles(&preview.troubles)
        }
        Err(error) => complain(&error),
    }
}

/// Runs what is asked for and writes its reports.
///
/// # Errors
/// The exit code of a run that could not begin, with the reason said.
fn measure(
    request: &Request,
    folder: &Path,
    record_path: &Path,
    progress: Setting,
) -> Result<ExitCode, ExitCode> {
    let undo = Undo::new();
    let asked = signals::watch(undo.clone()).map_err(|error| {
        out::error(&format!("can't watch for signals: {error}"));
        ExitCode::NotMeasured
    })?;
    let mut display = Display::new(progress, asked.state);
    let ended = session::run(request, &asked.stop, &undo, &mut |event| {
        if let Event::Previewed(preview) = event {
            out::say(&show::text(&request.plan, preview));
        }
        display.show(event);
    });
    display.finish();
    let finished = ended.map_err(|error| complain(&error))?;
    show::troubles(&finished.troubles);
    let mut lost = report::write(&finished.record, folder);
    if let Some(error) = &finished.save_error {
        out::error(&format!("the record is lost: {}", session::with_causes(error)));
        lost = true;
    }
    for trouble in &finished.left_behind {
        out::error(trouble);
        lost = true;
    }
    out::print(&report::terminal(&finished.record, folder, record_path));
    Ok(exit_code(&finished.record, lost))
}

/// The record's own exit code, unless something was lost on the way and it would say that all is
/// well.
fn exit_code(record: &Record, lost: bool) -> ExitCode {
    let told = ExitCode::ALL.into_iter().find(|one| one.code() == record.conclusion.exit_code);
    let told = told.unwrap_or(ExitCode::NotMeasured);
    if lost && told.rank() < ExitCode::NotMeasured.rank() { ExitCode::NotMeasured } else { told }
}

/// `target/runs/PLAN/2026-12-01T03-07-51Z`: colons are a nuisance in paths.
fn default_folder(plan: &str) -> PathBuf {
    let now = humantime::format_rfc3339_seconds(SystemTime::now()).to_string();
    Path::new("target/runs").join(plan).join(now.replace(':', "-"))
}

/// Makes the folder for the reports and proves that a file can be made in it, before an hour of
/// measuring is lost for want of one. Returns what it made, the innermost first.
fn make_folder(folder: &Path) -> Result<Vec<PathBuf>, String> {
    let problem = |what: &str, error: std::io::Error| {
        format!(
            "can't {what} {}: {error}\n  \
             help: choose another folder for the reports with `--out DIR`",
            folder.display()
        )
    };
    let new = folder.ancestors().take_while(|path| !path.exists());
    let new = new.filter(|path| !path.as_os_str().is_empty()).map(Path::to_path_buf).collect();
    std::fs::create_dir_all(folder).map_err(|error| problem("make the folder", error))?;
    tempfile_in(folder).map_err(|error| problem("write to the folder", error))?;
    Ok(new)
}

fn tempfile_in(folder: &Path) -> std::io::Result<()> {
    let path = folder.join(format!(".diskproof-{}.tmp", std::process::id()));
    std::fs::OpenOptions::new().write(true).create_new(true).open(&path)?;
    std::fs::remove_file(&path)
}

/// `latest` beside the runs leads to the last one. It is a convenience: where links can't be made
/// the run is none the worse.
fn point_latest_at(folder: &Path) {
    let (Some(parent), Some(name)) = (folder.parent(), folder.file_name()) else { return };
    let (link, fresh) = (parent.join("latest"), parent.join(".latest.tmp"));
    let _ = std::fs::remove_file(&fresh);
    if std::os::unix::fs::symlink(name, &fresh).is_ok() {
        let _ = std::fs::rename(&fresh, &link);
    }
}
