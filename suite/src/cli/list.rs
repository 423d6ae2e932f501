//! `diskproof list`: plans, their cases, how long they take, and what they would destroy.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use crate::cli::show::about;
use crate::cli::{load, out};
use crate::plan::{Assertion, Plan};
use crate::record::ExitCode;
use crate::session;
use crate::units::{counted, escaped};

/// Arguments of `list`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  diskproof list\n  diskproof list plans/stripe.toml --json")]
pub(super) struct Args {
    /// Plans, or folders of plans
    #[arg(value_name = "PATH", default_value = "plans")]
    paths: Vec<PathBuf>,
    /// Print as JSON
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: &Args) -> ExitCode {
    let paths = match plan_files(&args.paths) {
        Ok(paths) if paths.is_empty() => {
            if args.json {
                out::print("[]\n");
            }
            out::error(
                "no plan was found: a plan is a file whose name ends in .toml\n  \
                 help: write one to start from with `diskproof init NAME`",
            );
            return ExitCode::NothingDecided;
        }
        Ok(paths) => paths,
        Err(message) => {
            out::error(&message);
            return ExitCode::Invalid;
        }
    };
    let mut code = ExitCode::Passed;
    let mut objects = Vec::new();
    for path in paths {
        let plan = match load::load(&path, None) {
            Ok(loaded) => loaded.plan,
            Err(failed) => {
                code = failed;
                continue;
            }
        };
        if args.json {
            objects.push(as_json(&path, &plan));
        } else {
            out::print(&as_text(&path, &plan));
        }
    }
    if args.json {
        out::print(&format!("{:#}\n", serde_json::Value::from(objects)));
    }
    code
}

fn as_text(path: &Path, plan: &Plan) -> String {
    let (least, most) = session::expected_time(plan);
    let mut text = format!(
        "{}: {}{}, {}, destroys nothing that exists\n",
        escaped(&path.to_string_lossy()),
        plan.description.as_ref().map_or(String::new(), |words| format!("{}. ", escaped(words))),
        counted(plan.cases.len(), "case"),
        about(least, most),
    );
    for (index, case) in plan.cases.iter().enumerate() {
        let conditions = plan.assertions.iter().filter(|one| one.case == index).count();
        let _ = writeln!(
            text,
            "  {:<44} {}; {}",
            case.id.to_string(),
            session::heading(&case.workload),
            counted(conditions, "condition"),
        );
        for (name, what) in session::streams_in_words(&case.workload) {
            let _ = writeln!(text, "      {name:<40} {what}");
        }
    }
    text
}

fn as_json(path: &Path, plan: &Plan) -> serde_json::Value {
    let (least, most) = session::expected_time(plan);
    let cases: Vec<_> = plan
        .cases
        .iter()
        .enumerate()
        .map(|(index, case)| {
            let conditions = plan.assertions.iter().filter(|one| one.case == index);
            let conditions: Vec<_> = conditions.map(Assertion::with_stream).collect();
            serde_json::json!({
                "id": case.id.to_string(),
                "what": session::sentence(&case.workload),
                "conditions": conditions,
            })
        })
        .collect();
    serde_json::json!({
        "path": path.display().to_string(),
        "name": plan.name,
        "description": plan.description,
        "expected_ns_min": least,
        "expected_ns_max": most,
        "destroys": [],
        "cases": cases,
    })
}

/// The files named, and those ending in `.toml` in the folders named, by name.
fn plan_files(paths: &[PathBuf]) -> Result<Vec<PathBuf>, String> {
    let mut files = Vec::new();
    for path in paths {
        if !path.is_dir() {
            files.push(path.clone());
            continue;
        }
        let problem = |error| format!("can't list the folder {}: {error}", path.display());
        let mut found = Vec::new();
        for entry in std::fs::read_dir(path).map_err(problem)? {
            let file = entry.map_err(problem)?.path();
            if file.extension().is_some_and(|ending| ending == "toml") && file.is_file() {
                found.push(file);
            }
        }
        found.sort();
        files.append(&mut found);
    }
    Ok(files)
}
