//! `diskproof init`: a commented plan to start from.

use std::fs::OpenOptions;
use std::io::Write;
use std::path::PathBuf;

use clap::ValueEnum;

use crate::cli::out;
use crate::record::ExitCode;

/// Arguments of `init`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  diskproof init my-disk --template directory")]
pub(super) struct Args {
    /// Name of the plan, of a-z, 0-9 and -; NAME.toml is written in this folder
    #[arg(value_name = "NAME")]
    name: String,
    /// What to start from
    #[arg(long, value_enum, default_value_t = Template::First)]
    template: Template,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Template {
    /// One loopback disk, two workloads
    First,
    /// A test file in a directory on a mounted file system
    Directory,
    /// One disk against a stripe of several
    Stripe,
    /// An existing block device or file, for reading only
    Device,
}

impl Template {
    fn text(self) -> &'static str {
        match self {
            Self::First => include_str!("templates/first.toml"),
            Self::Directory => include_str!("templates/directory.toml"),
            Self::Stripe => include_str!("templates/stripe.toml"),
            Self::Device => include_str!("templates/device.toml"),
        }
    }
}

/// Stands in the templates for the plan's name.
const PLACEHOLDER: &str = "@name@";

pub(super) fn run(args: &Args) -> ExitCode {
    let allowed = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    if args.name.is_empty() || !args.name.chars().all(allowed) {
        out::error(&format!(
            "`{}` can't be a plan's name: use a-z, 0-9 and -",
            args.name.escape_default()
        ));
        return ExitCode::Invalid;
    }
    let path = PathBuf::from(format!("{}.toml", args.name));
    let text = args.template.text().replace(PLACEHOLDER, &args.name);
    let opened = OpenOptions::new().write(true).create_new(true).open(&path);
    match opened.and_then(|mut file| file.write_all(text.as_bytes())) {
        Ok(()) => {
            out::print(&format!("wrote {}\n", path.display()));
            out::say(&format!("next: diskproof show {}", path.display()));
            ExitCode::Passed
        }
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {
            out::error(&format!("{} is there already, and stays as it is", path.display()));
            ExitCode::Invalid
        }
        Err(error) => {
            out::error(&format!("can't write {}: {error}", path.display()));
            ExitCode::NotMeasured
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::load;
    use crate::diag::Source;

    #[test]
    fn every_template_is_a_sound_plan() {
        for template in Template::value_variants() {
            let text = template.text().replace(PLACEHOLDER, "my-plan");
            let source = Source { name: format!("{template:?}"), text };
            let plan = load::checked(&source, None).unwrap_or_else(|text| panic!("{text}"));
            assert_eq!(plan.name, "my-plan");
            assert!(!plan.assertions.is_empty(), "{template:?} expects nothing");
        }
    }
}
