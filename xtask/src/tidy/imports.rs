//! The rule of layers: a module imports what its row in ARCHITECTURE.md lets it, and no more.
//!
//! `use`, and every path in code, types, patterns, macros and attributes; tests are exempt. The
//! crate's root is too: it holds the modules and no code.

use std::collections::{BTreeMap, BTreeSet};

use toml::Table;

use super::Violation;
use super::architecture::{self, Layer};
use super::facts::PathUse;
use super::repository::Repository;
use super::source::Source;

/// Every import that the table doesn't list, every module without a row, every row without a
/// module.
pub(super) fn check(repository: &Repository, sources: &[Source<'_>]) -> Vec<Violation> {
    let text = repository.text(architecture::FILE).unwrap_or_default();
    let layers = architecture::layers(text);
    let crates = dependencies(repository.text("suite/Cargo.toml").unwrap_or_default());
    let product = sources.iter().filter(|source| source.is_product() && !source.is_test);
    let product: Vec<_> = product.filter(|source| !source.module.is_empty()).collect();
    let modules: BTreeMap<&str, &str> =
        product.iter().rev().map(|source| (&*source.module[0], source.path)).collect();
    let mut found = rows(&layers, &modules);
    for source in product {
        let Some(layer) = layers.iter().find(|layer| layer.module == source.module[0]) else {
            continue;
        };
        let Some(may_import) = &layer.may_import else { continue };
        for path in &source.facts.paths {
            let sentence = refused(path, &source.module[0], may_import, &modules, &crates);
            found.extend(sentence.map(|text| Violation::new(source.path, path.line, text)));
        }
    }
    found
}

/// Whether table and modules speak of the same things.
fn rows(layers: &[Layer], modules: &BTreeMap<&str, &str>) -> Vec<Violation> {
    let mut found = Vec::new();
    for layer in layers {
        if !modules.contains_key(&*layer.module) {
            let sentence = format!("the layer `{}` is no module of the suite", layer.module);
            found.push(Violation::new(architecture::FILE, layer.line, sentence));
        }
    }
    for (module, path) in modules {
        if !layers.iter().any(|layer| layer.module == *module) {
            let sentence = format!("the module `{module}` has no row in {}", architecture::FILE);
            found.push(Violation::new(path, 1, sentence));
        }
    }
    found
}

/// Why the path may not stand in the module, if so.
fn refused(
    path: &PathUse,
    module: &str,
    may_import: &BTreeSet<String>,
    modules: &BTreeMap<&str, &str>,
    crates: &BTreeMap<String, String>,
) -> Option<String> {
    let first = path.parts.first()?.as_str();
    let what = if !path.in_crate {
        crates.get(first)?.as_str()
    } else if first == "*" {
        return Some(format!("`{module}` imports all of the crate's root"));
    } else if first == module || !modules.contains_key(first) {
        return None;
    } else {
        first
    };
    let sentence = format!("`{module}` may not import `{what}` (see {})", architecture::FILE);
    (!may_import.contains(what)).then_some(sentence)
}

/// The suite's dependencies: the name in code, and the name in the manifest.
fn dependencies(manifest: &str) -> BTreeMap<String, String> {
    let manifest: Table = manifest.parse().unwrap_or_default();
    let dependencies = manifest.get("dependencies").and_then(toml::Value::as_table);
    let names = dependencies.into_iter().flat_map(Table::keys);
    names.map(|name| (name.replace('-', "_"), name.clone())).collect()
}

#[cfg(test)]
mod tests {
    use super::super::sentences;
    use super::super::source::parse_all;
    use super::*;

    const PAGE: &str = "\
| module | may import |
| --- | --- |
| `os` | `nix` |
| `units` | |
| `plan` | `units` |
| `cli` | all |
";

    fn said(files: &[(&str, &str)]) -> Vec<String> {
        let manifest = "[dependencies]\nnix = \"1\"\nio-uring = \"1\"\nclap = \"1\"";
        let mut all = vec![
            ("ARCHITECTURE.md", PAGE),
            ("suite/Cargo.toml", manifest),
            ("suite/src/lib.rs", "use plan::Plan; use nix::x;"),
            ("suite/src/os/mod.rs", "use std::fs; use nix::fcntl;"),
            ("suite/src/units.rs", ""),
            ("suite/src/plan/mod.rs", ""),
            ("suite/src/cli/mod.rs", "use clap::Parser; use crate::{plan, os};"),
        ];
        all.extend_from_slice(files);
        let repository = Repository::of(&all);
        let (sources, violations) = parse_all(&repository);
        assert!(violations.is_empty());
        sentences(&check(&repository, &sources))
    }

    #[test]
    fn what_the_table_lists_is_in_order() {
        let text = "use crate::units::Bytes; use super::Plan; use std::fmt; fn f() { parse::x() }";
        assert_eq!(said(&[("suite/src/plan/check.rs", text)]), Vec::<String>::new());
    }

    #[test]
    fn what_it_does_not_list_is_refused_wherever_it_stands() {
        let text = "use super::super::os::x;\nfn f() -> io_uring::Ring { crate::cli::f() }\n\
                    #[cfg(test)]\nmod tests { use crate::cli; }";
        assert_eq!(
            said(&[("suite/src/plan/check.rs", text)]),
            [
                "suite/src/plan/check.rs:1: `plan` may not import `os` (see ARCHITECTURE.md)",
                "suite/src/plan/check.rs:2: `plan` may not import `io-uring` (see ARCHITECTURE.md)",
                "suite/src/plan/check.rs:2: `plan` may not import `cli` (see ARCHITECTURE.md)",
            ]
        );
        let glob = said(&[("suite/src/plan/check.rs", "use crate::*;")]);
        assert_eq!(glob, ["suite/src/plan/check.rs:1: `plan` imports all of the crate's root"]);
    }

    #[test]
    fn rows_and_modules_are_the_same() {
        let found = said(&[("suite/src/rig/mod.rs", ""), ("suite/src/rig/undo.rs", "")]);
        assert_eq!(
            found,
            ["suite/src/rig/mod.rs:1: the module `rig` has no row in ARCHITECTURE.md"]
        );
    }
}
