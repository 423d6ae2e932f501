//! A Rust file with its syntax tree's facts, and which files are tests.

use std::collections::BTreeSet;

use super::Violation;
use super::facts::Facts;
use super::repository::{Repository, extension};

/// A Rust file.
#[derive(Debug)]
pub(super) struct Source<'r> {
    /// Its path from the root.
    pub path: &'r str,
    /// Its text.
    pub text: &'r str,
    /// Its module's path in the crate: `["plan", "check"]`; empty for the crate's root.
    pub module: Vec<String>,
    /// Whether all of it is test code.
    pub is_test: bool,
    /// What stands in it.
    pub facts: Facts,
}

impl Source<'_> {
    /// Whether it belongs to the product's library or program.
    pub(super) fn is_product(&self) -> bool {
        self.path.starts_with("suite/src/")
    }

    /// The line, counted from 1; empty past the end.
    pub(super) fn line(&self, number: usize) -> &str {
        self.text.lines().nth(number.wrapping_sub(1)).unwrap_or_default()
    }
}

/// Every Rust file that parses, and a violation for each that doesn't.
pub(super) fn parse_all(repository: &Repository) -> (Vec<Source<'_>>, Vec<Violation>) {
    let mut sources = Vec::new();
    let mut violations = Vec::new();
    for (path, text) in repository.texts().filter(|(path, _)| is_ours(path)) {
        let module = module_of(path);
        match syn::parse_file(text) {
            Ok(file) => {
                let facts = Facts::of(&file, &module);
                let is_test = path.contains("/tests/") || path.ends_with("/tests.rs");
                sources.push(Source { path, text, module, is_test, facts });
            }
            Err(error) => {
                let line = error.span().start().line;
                violations.push(Violation::new(path, line, format!("can't be parsed: {error}")));
            }
        }
    }
    mark_test_files(&mut sources);
    (sources, violations)
}

/// Rust files outside the fixtures, which may be anything.
fn is_ours(path: &str) -> bool {
    extension(path) == Some("rs") && !path.starts_with("fixtures/")
}

/// A file that is declared as `#[cfg(test)] mod name;` is test code, whatever its name.
fn mark_test_files(sources: &mut [Source<'_>]) {
    let mut declared = BTreeSet::new();
    for source in sources.iter() {
        let folder = source.path.rsplit_once('/').map_or("", |(folder, _)| folder);
        for file in &source.facts.test_files {
            if let Some(relative) = &file.at {
                declared.insert(format!("{folder}/{relative}"));
                continue;
            }
            let root = crate_root(source.path);
            let module = [root, &source.module.join("/"), &file.name];
            let module: Vec<_> = module.into_iter().filter(|part| !part.is_empty()).collect();
            declared.insert(format!("{}.rs", module.join("/")));
            declared.insert(format!("{}/mod.rs", module.join("/")));
        }
    }
    for source in sources {
        source.is_test |= declared.contains(source.path);
    }
}

/// The folder of the crate's root file: `suite/src`.
fn crate_root(path: &str) -> &str {
    path.find("/src/").map_or("", |at| &path[..at + "/src".len()])
}

/// The module's path in its crate, from the file's path.
fn module_of(path: &str) -> Vec<String> {
    let Some((_, inside)) = path.split_once("/src/") else { return Vec::new() };
    let inside = inside.trim_end_matches(".rs");
    let inside = inside.strip_suffix("/mod").unwrap_or(inside);
    if matches!(inside, "lib" | "main") {
        return Vec::new();
    }
    inside.split('/').map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_knows_its_module() {
        assert_eq!(module_of("suite/src/plan/check.rs"), ["plan", "check"]);
        assert_eq!(module_of("suite/src/plan/mod.rs"), ["plan"]);
        assert_eq!(module_of("suite/src/units.rs"), ["units"]);
        assert!(module_of("suite/src/lib.rs").is_empty());
        assert!(module_of("suite/tests/it/main.rs").is_empty());
    }

    #[test]
    fn test_files_are_known_by_their_declaration() {
        let repository = Repository::of(&[
            ("suite/src/lib.rs", "#[cfg(test)] mod testing; mod plan;"),
            ("suite/src/testing.rs", ""),
            ("suite/src/plan/mod.rs", "#[cfg(test)] #[path = \"odd.rs\"] mod tests; mod check;"),
            ("suite/src/plan/odd.rs", ""),
            ("suite/src/plan/check.rs", "#[cfg(test)] mod cases;"),
            ("suite/src/plan/check/cases.rs", ""),
        ]);
        let (sources, violations) = parse_all(&repository);
        assert!(violations.is_empty());
        let tests: Vec<_> = sources.iter().filter(|s| s.is_test).map(|s| s.path).collect();
        assert_eq!(
            tests,
            ["suite/src/plan/check/cases.rs", "suite/src/plan/odd.rs", "suite/src/testing.rs"]
        );
    }

    #[test]
    fn what_does_not_parse_is_said() {
        let repository = Repository::of(&[("suite/src/lib.rs", "\nfn main( {}")]);
        let (_, violations) = parse_all(&repository);
        assert_eq!(violations.len(), 1);
        assert_eq!(violations[0].line, 2);
    }
}
