//! `diskproof init`: a commented plan to start from.

use std::fs::OpenOptions;
use std::io::Write;
use std::path::PathBuf;

use clap::ValueEnum;

use crate::cli::{load, out};
use crate::diag::Source;
use crate::plan::NAME_MAX;
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
    let path = PathBuf::from(format!("{}.toml", args.name));
    let text = args.template.text().replace(PLACEHOLDER, &args.name);
    // The language has the last word on names.
    let source = Source { name: path.display().to_string(), text };
    if !args.name.chars().all(allowed) || load::checked(&source, None).is_err() {
        out::error(&format!(
            "`{}` can't be a plan's name\n  help: use at most {NAME_MAX} of a-z, 0-9 and -, with a \
             letter or a digit first",
            args.name
        ));
        return ExitCode::Invalid;
    }
    let opened = OpenOptions::new().write(true).create_new(true).open(&path);
    match opened.and_then(|mut file| file.write_all(source.text.as_bytes())) {
        Ok(()) => {
            out::print(&format!("wrote {}\n", path.display()));
            out::say(&format!("next: diskproof show {}", path.display()));
            ExitCode::Passed
        }
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {
            out::error(&format!(
                "{} is there already, and stays as it is\n  help: choose another name, or move it \
                 away",
                path.display()
            ));
            ExitCode::Invalid
        }
        Err(error) => {
            out::error(&format!(
                "can't write {}: {error}\n  help: go to a folder you may write to",
                path.display()
            ));
            ExitCode::NotMeasured
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
