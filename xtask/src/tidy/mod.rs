//! `cargo xtask tidy`: the rules of the house, checked on the files as they are.
//!
//! Each rule is a function from the repository to violations and knows nothing of the others.
//! CONTRIBUTING.md lists the rules for people.

mod architecture;
mod code;
mod facts;
mod imports;
mod links;
mod manifests;
mod repository;
mod source;
mod texts;

use std::fmt;
use std::path::Path;
use std::process::ExitCode;

use anyhow::{Result, bail};

use crate::cargo;
use repository::Repository;

/// One breach of a rule.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Violation {
    path: String,
    line: usize,
    sentence: String,
}

impl Violation {
    fn new(path: &str, line: usize, sentence: impl Into<String>) -> Self {
        Self { path: path.to_owned(), line, sentence: sentence.into() }
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}:{}: {}", self.path, self.line, self.sentence)
    }
}

/// Checks, prints, and fails when anything was found.
pub(crate) fn run() -> Result<ExitCode> {
    let violations = check(cargo::root())?;
    print(&violations);
    Ok(if violations.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Every violation in the repository at `root`, in the order of files and lines.
pub(crate) fn check(root: &Path) -> Result<Vec<Violation>> {
    let repository = Repository::read(root)?;
    if repository.paths().next().is_none() {
        bail!("there are no files in {}", root.display());
    }
    Ok(violations(&repository))
}

/// Prints what was found, one a line, and how much.
pub(crate) fn print(violations: &[Violation]) {
    for violation in violations {
        println!("{violation}");
    }
    match violations.len() {
        0 => println!("tidy: all in order"),
        1 => println!("tidy: 1 violation"),
        many => println!("tidy: {many} violations"),
    }
}

fn violations(repository: &Repository) -> Vec<Violation> {
    let (sources, mut found) = source::parse_all(repository);
    found.extend(architecture::tree(repository));
    found.extend(imports::check(repository, &sources));
    found.extend(sources.iter().flat_map(code::check));
    found.extend(manifests::check(repository));
    found.extend(texts::check(repository));
    found.extend(links::check(repository));
    found.sort();
    found.dedup();
    found
}

/// What a rule says about files that exist in a test alone.
#[cfg(test)]
fn sentences(violations: &[Violation]) -> Vec<String> {
    violations.iter().map(Violation::to_string).collect()
}
