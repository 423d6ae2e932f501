//! `diskproof check`: is a plan well-formed and meaningful?

use std::path::PathBuf;

use crate::cli::{load, out};
use crate::plan;
use crate::record::ExitCode;
use crate::report::shell_word;
use crate::units::counted;

/// Arguments of `check`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  diskproof check plans/*.toml\n  diskproof check p.toml --json"
)]
pub(super) struct Args {
    /// Plans to check
    #[arg(required = true, value_name = "PLAN")]
    plans: Vec<PathBuf>,
    /// Check with this profile applied (all of a plan's profiles are looked at in any case)
    #[arg(long, value_name = "NAME")]
    profile: Option<String>,
    /// Print the diagnostics as JSON, one array for all plans
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: &Args) -> ExitCode {
    if args.json {
        return as_json(args);
    }
    let mut code = ExitCode::Passed;
    for path in &args.plans {
        match load::load(path, args.profile.as_deref()) {
            Ok(loaded) => {
                let (cases, conditions) = (loaded.plan.cases.len(), loaded.plan.assertions.len());
                out::print(&format!(
                    "{}: sound: {} on {}\n",
                    loaded.source.name,
                    counted(conditions, "condition"),
                    counted(cases, "case"),
                ));
            }
            Err(failed) => code = failed,
        }
    }
    if let (ExitCode::Passed, [only]) = (code, args.plans.as_slice()) {
        out::say(&format!("next: diskproof show {}", shell_word(&only.to_string_lossy())));
    }
    code
}

fn as_json(args: &Args) -> ExitCode {
    let mut all = Vec::new();
    for path in &args.plans {
        match load::read(path) {
            Err(message) => all.push(serde_json::json!({
                "file": path.display().to_string(), "code": "plan::unreadable", "message": message,
            })),
            Ok(source) => {
                let found = plan::parse(&source)
                    .and_then(|raw| plan::check(&raw, args.profile.as_deref()).map(drop));
                let found = found.err().unwrap_or_default();
                all.extend(found.iter().map(|one| serde_json::json!(one.located(&source))));
            }
        }
    }
    out::print(&format!("{:#}\n", serde_json::Value::from(all.clone())));
    if all.is_empty() { ExitCode::Passed } else { ExitCode::Invalid }
}
