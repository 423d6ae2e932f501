//! `diskproof run`: build, measure, judge, and write the reports.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use clap::builder::FalseyValueParser;

use crate::cli::folder::{self, Denied, Folder};
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
    /// Folder for the files of loopback disks [env: DISKPROOF_WORK_DIR=] [default: /var/tmp]
    #[arg(long, value_name = "DIR")]
    work_dir: Option<PathBuf>,
    /// Simulated disks in virtual time: to try a plan, not a disk
    #[arg(long, conflicts_with = "disks")]
    simulate: bool,
}

impl RunArgs {
    /// The same again, as words of a command line.
    pub(super) fn words(&self) -> Vec<String> {
        let lossy = |text: &OsString| text.to_string_lossy().into_owned();
        let mut words = Vec::new();
        let mut say = |option: &str, value: String| words.extend([option.to_owned(), value]);
        self.disks.iter().for_each(|disk| say("--disk", lossy(disk)));
        self.profile.iter().for_each(|name| say("--profile", name.clone()));
        self.cases.iter().for_each(|case| say("--case", case.clone()));
        self.skip.iter().for_each(|case| say("--skip", case.clone()));
        self.work_dir.iter().for_each(|dir| say("--work-dir", lossy(&dir.clone().into())));
        words.extend(self.simulate.then(|| "--simulate".to_owned()));
        words
    }
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
    ///
    /// What an earlier run left in DIR is replaced as soon as this one begins. One that can't begin
    /// says so in the reports there, and keeps the earlier record as record.old.json.
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// An earlier record.json, for conditions that compare with `baseline`
    #[arg(long, value_name = "FILE")]
    baseline: Option<PathBuf>,
    /// Make a case that can't run here an error rather than a skip
    #[arg(long, env = "DISKPROOF_REQUIRE_ALL", value_parser = FalseyValueParser::new())]
    require_all: bool,
    /// How progress is shown, on standard error; SIGUSR1 asks for it at any time
    #[arg(long, value_enum, value_name = "HOW", default_value_t = Setting::Auto)]
    progress: Setting,
    /// Only say what would happen, as `diskproof show` does
    #[arg(long)]
    dry_run: bool,
}

pub(super) fn run(args: &Args) -> ExitCode {
    let mut name = args.plan.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    match begin(args, &mut name) {
        Ok(code) => code,
        Err(code) => {
            if let Some(out) = args.out.as_deref().filter(|_| !args.dry_run) {
                let plan = args.plan.display().to_string();
                folder::outdate(out, &session::not_begun(&name, &plan, code));
            }
            code
        }
    }
}

/// Runs what the command line says. `name` becomes the plan's, once it is known.
///
/// # Errors
/// The exit code of a run that could not begin, with the reason said.
fn begin(args: &Args, name: &mut String) -> Result<ExitCode, ExitCode> {
    let loaded = load::load(&args.plan, args.common.profile.as_deref())?;
    loaded.plan.name.clone_into(name);
    let mut request = request(loaded, &args.common, args.baseline.as_deref())?;
    request.require_all = args.require_all;
    if args.dry_run {
        return Ok(dry_run(&request));
    }
    let folder = Folder::claim(args.out.as_deref(), &request.plan.name).map_err(|denied| {
        let (Denied::InUse(message) | Denied::Unusable(message)) = denied;
        out::error(&message);
        ExitCode::NotMeasured
    })?;
    request.record_path = Some(folder.record());
    measure(&request, &folder, args.progress).inspect_err(|_| folder.give_up())
}

/// What is asked for, from the command line and the plan.
///
/// # Errors
/// The exit code, with the reason said.
pub(super) fn request(
    loaded: Loaded,
    args: &RunArgs,
    baseline: Option<&Path>,
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
        work_dir: work_dir(args.work_dir.as_ref()),
        record_path: None,
        require_all: false,
    })
}

/// What was given; else what the environment says, where empty is nothing, as elsewhere.
fn work_dir(given: Option<&PathBuf>) -> PathBuf {
    let environment = || std::env::var_os("DISKPROOF_WORK_DIR").filter(|path| !path.is_empty());
    let other = || environment().map_or_else(|| session::WORK_DIR.into(), PathBuf::from);
    given.cloned().unwrap_or_else(other)
}

/// Says why a run could not begin.
pub(super) fn complain(error: &SessionError) -> ExitCode {
    match error {
        SessionError::NothingSelected(_) => {
            out::error(&error.to_string());
            ExitCode::NothingDecided
        }
        SessionError::Usage(found) => show::troubles(found),
        SessionError::Unanswerable(conditions) => unanswerable(&error.to_string(), conditions),
        SessionError::NotKept(_) => {
            out::error(&format!(
                "{}\n  help: choose another folder for the reports with `--out DIR`",
                session::with_causes(error)
            ));
            ExitCode::NotMeasured
        }
    }
}

/// Names the conditions that no measurement could answer.
fn unanswerable(message: &str, conditions: &[String]) -> ExitCode {
    let list = conditions.join("\n  ");
    out::error(&format!(
        "{message}:\n  {list}\n  \
         help: give a record of the same cases with `--baseline FILE`; to make the \
         first one, give these conditions `level = \"warn\"` for a run"
    ));
    ExitCode::Invalid
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
            match session::unanswerable(request, &preview) {
                none if none.is_empty() => show::troubles(&preview.troubles),
                some => complain(&SessionError::Unanswerable(some)),
            }
        }
        Err(error) => complain(&error),
    }
}

/// Runs what is asked for and writes its reports.
///
/// # Errors
/// The exit code of a run that could not begin, with the reason said.
fn measure(request: &Request, folder: &Folder, progress: Setting) -> Result<ExitCode, ExitCode> {
    let undo = Undo::new();
    let asked = signals::watch(undo.clone()).map_err(|error| {
        out::error(&format!("can't watch for signals: {error}"));
        ExitCode::NotMeasured
    })?;
    let mut display = Display::new(progress, asked.state);
    let ended = session::run(request, &asked.stop, &undo, &mut |event| {
        match event {
            Event::Previewed(preview) => out::say(&show::text(&request.plan, preview)),
            Event::Begun(record) => begun(record, folder),
            _ => {}
        }
        display.show(event);
    });
    display.finish();
    let finished = ended.map_err(|error| complain(&error))?;
    show::troubles(&finished.troubles);
    let written = report::write(&finished.record, &folder.path);
    let mut lost = !written.lost.is_empty();
    if let Some(error) = &finished.save_error {
        out::error(&format!("the record is lost: {}", session::with_causes(error)));
        lost = true;
    }
    for trouble in &finished.left_behind {
        out::error(trouble);
        lost = true;
    }
    let record = request.record_path.as_deref().filter(|_| finished.save_error.is_none());
    out::print(&report::terminal(&finished.record, &written, record));
    Ok(exit_code(&finished.record, lost))
}

/// From now on the folder tells of this run, however it ends: reports of an earlier one go, even
/// where those that say that this one is not over can't be written.
fn begun(record: &Record, folder: &Folder) {
    for name in report::write(record, &folder.path).lost {
        let _ = std::fs::remove_file(folder.path.join(name));
    }
    folder.begun();
}

/// The record's own exit code, unless something was lost on the way and it would say that all is
/// well.
fn exit_code(record: &Record, lost: bool) -> ExitCode {
    let told = ExitCode::ALL.into_iter().find(|one| one.code() == record.conclusion.exit_code);
    let told = told.unwrap_or(ExitCode::NotMeasured);
    if lost && told.rank() < ExitCode::NotMeasured.rank() { ExitCode::NotMeasured } else { told }
}
