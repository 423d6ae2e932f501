//! From a path on the command line to a checked plan, with everything that is wrong said.

use std::io::ErrorKind;
use std::path::Path;

use crate::cli::out;
use crate::diag::{self, Source};
use crate::plan::{self, Plan};
use crate::record::ExitCode;

/// More text than any plan has; a device or a record given by mistake is larger.
const LONGEST_PLAN_BYTES: u64 = 1 << 20;

/// A plan that was found sound, with the text that it came from.
#[derive(Debug)]
pub(super) struct Loaded {
    pub(super) plan: Plan,
    pub(super) source: Source,
}

/// Reads and checks a plan. What is wrong is said on standard error.
///
/// # Errors
/// The exit code for a plan that can't be used.
pub(super) fn load(path: &Path, profile: Option<&str>) -> Result<Loaded, ExitCode> {
    let source = read(path).map_err(|message| {
        out::error(&message);
        ExitCode::Invalid
    })?;
    match checked(&source, profile) {
        Ok(plan) => Ok(Loaded { plan, source }),
        Err(text) => {
            out::say(&text);
            Err(ExitCode::Invalid)
        }
    }
}

/// Checks a plan's text.
///
/// # Errors
/// Every diagnostic, drawn.
pub(super) fn checked(source: &Source, profile: Option<&str>) -> Result<Plan, String> {
    let color = true; // stripped by the stream where it is not wanted
    let draw = |found: &[diag::Diagnostic]| diag::render_all(found, source, color);
    let raw = plan::parse(source).map_err(|found| draw(&found))?;
    let known: Vec<_> = raw.profiles().collect();
    if let Some(name) = profile.filter(|name| !known.contains(name)) {
        return Err(unknown_profile(name, &known, &source.name));
    }
    plan::check(&raw, profile).map_err(|found| draw(&found))
}

/// Reads a plan's text.
///
/// # Errors
/// Why it can't be read, with what would help.
pub(super) fn read(path: &Path) -> Result<Source, String> {
    let name = path.display().to_string();
    let problem = |reason: &str| format!("can't read the plan {name}: {reason}");
    let refused = |error: std::io::Error| problem(&format!("{error}\n  help: {}", help(&error)));
    let facts = std::fs::metadata(path).map_err(refused)?;
    if facts.is_dir() {
        return Err(problem("it is a folder; name one plan in it (`diskproof list` shows them)"));
    }
    if !facts.is_file() {
        return Err(problem("it is not a regular file"));
    }
    if facts.len() > LONGEST_PLAN_BYTES {
        return Err(problem("it is larger than 1 MiB, which no plan is"));
    }
    let bytes = std::fs::read(path).map_err(refused)?;
    let text = String::from_utf8(bytes).map_err(|error| {
        let at = error.utf8_error().valid_up_to();
        problem(&format!("it is not UTF-8 text (first wrong byte at offset {at})"))
    })?;
    Ok(Source { name, text })
}

fn help(error: &std::io::Error) -> &'static str {
    match error.kind() {
        ErrorKind::PermissionDenied => "run as a user who may read it, or `chmod +r` it",
        _ => {
            "`diskproof list FOLDER` shows the plans in a folder, `diskproof init NAME` writes one"
        }
    }
}

fn unknown_profile(name: &str, known: &[&str], plan: &str) -> String {
    let more = match (diag::nearest(name, known.iter().copied()), known) {
        (Some(near), _) => format!("; did you mean `{near}`?"),
        (None, []) => ": it has none at all".to_owned(),
        (None, known) => format!(": it has {}", known.join(", ")),
    };
    format!("error: {plan} has no profile `{name}`{more}")
}
