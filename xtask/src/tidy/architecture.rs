//! ARCHITECTURE.md as a machine reads it: the tree of files and the table of layers.
//!
//! The tree is the block that begins with ```` ```tree ````. Two spaces are one folder deeper; a
//! line has one name or several with one space between them, and may have a description behind
//! two spaces or more. A folder ends in `/`. One with anything beneath it lists all that is in
//! it, but for `mod.rs`, which the folder stands for; one with nothing beneath it may hold
//! anything. The table of layers is the one with a column `may import`.

use std::collections::{BTreeMap, BTreeSet};

use super::Violation;
use super::repository::Repository;

/// The file that is read.
pub(super) const FILE: &str = "ARCHITECTURE.md";

/// A row of the table of layers.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Layer {
    /// The module.
    pub module: String,
    /// Where its row stands.
    pub line: usize,
    /// Modules and crates that it may import; `None` for all.
    pub may_import: Option<BTreeSet<String>>,
}

/// The table of layers; empty when there is none.
pub(super) fn layers(text: &str) -> Vec<Layer> {
    let mut column = None;
    let mut layers = Vec::new();
    for (line, text) in (1..).zip(text.lines()) {
        let Some(inside) = text.strip_prefix('|') else {
            column = None;
            continue;
        };
        let cells: Vec<_> = inside.split('|').map(str::trim).collect();
        let Some(column) = column else {
            column = cells.iter().position(|cell| *cell == "may import");
            continue;
        };
        let module = cells.first().map(|cell| words(cell)).unwrap_or_default();
        let (Some(module), Some(cell)) = (module.into_iter().next(), cells.get(column)) else {
            continue;
        };
        let may_import = (*cell != "all").then(|| words(cell).into_iter().collect());
        layers.push(Layer { module, line, may_import });
    }
    layers
}

/// The words in backticks.
fn words(cell: &str) -> Vec<String> {
    cell.split('`').skip(1).step_by(2).map(str::to_owned).collect()
}

/// Where the tree and the files differ.
pub(super) fn tree(repository: &Repository) -> Vec<Violation> {
    let Some(text) = repository.text(FILE) else {
        return vec![Violation::new(FILE, 1, "is missing: it has the tree and the layers")];
    };
    let (listed, mut found) = parse_tree(text);
    if listed.is_empty() {
        found.push(Violation::new(FILE, 1, "has no block that begins with ```tree"));
        return found;
    }
    let complete: BTreeSet<&str> = listed.keys().map(|entry| folder_of(entry)).collect();
    for (entry, line) in &listed {
        if !repository.has(entry) {
            let sentence = format!("the tree has {entry}, which is not there");
            found.push(Violation::new(FILE, *line, sentence));
        }
    }
    for path in repository.paths() {
        let mut entries = ancestors(path).filter(|entry| complete.contains(folder_of(entry)));
        let missing = entries.find(|entry| !listed.contains_key(*entry));
        if let Some(entry) = missing.filter(|entry| !entry.ends_with("/mod.rs")) {
            let sentence = format!("the tree in {FILE} lacks {entry}");
            found.push(Violation::new(entry, 1, sentence));
        }
    }
    found
}

/// Every entry of the tree by its path, folders with `/` behind it, and its line.
fn parse_tree(text: &str) -> (BTreeMap<String, usize>, Vec<Violation>) {
    let mut listed = BTreeMap::new();
    let mut found = Vec::new();
    let mut folders: Vec<String> = Vec::new();
    let mut lines = (1..).zip(text.lines()).skip_while(|(_, text)| *text != "```tree").skip(1);
    for (line, text) in lines.by_ref().take_while(|(_, text)| *text != "```") {
        let bare = text.trim_start();
        if bare.is_empty() {
            continue;
        }
        let depth = (text.len() - bare.len()) / 2;
        if depth > folders.len() {
            let sentence = "the tree's line is deeper than any folder above it";
            found.push(Violation::new(FILE, line, sentence));
            continue;
        }
        folders.truncate(depth);
        let names = bare.split("  ").next().unwrap_or(bare);
        for name in names.split(' ') {
            let path = format!("{}{name}", folders.concat());
            if listed.insert(path, line).is_some() {
                found.push(Violation::new(FILE, line, format!("the tree has {name} twice")));
            }
        }
        if let Some(folder) = names.split(' ').next_back().filter(|name| name.ends_with('/')) {
            folders.push(folder.to_owned());
        }
    }
    (listed, found)
}

/// The path of the folder that an entry is in, with `/` behind it; empty for the root.
fn folder_of(entry: &str) -> &str {
    let bare = entry.trim_end_matches('/');
    bare.rfind('/').map_or("", |at| &bare[..=at])
}

/// The folders on the way to a path and the path itself: `a/`, `a/b/`, `a/b/c.rs`.
fn ancestors(path: &str) -> impl Iterator<Item = &str> {
    let folders = path.match_indices('/').map(|(at, _)| &path[..=at]);
    folders.chain([path])
}

#[cfg(test)]
mod tests {
    use super::super::sentences;
    use super::*;

    const PAGE: &str = "\
# Architecture

| word | meaning |
| --- | --- |
| `disk` | storage |

| module | what it is | may import | must not know |
| --- | --- | --- | --- |
| `os` | the kernel | `nix` | all |
| `plan` | the text | `units`, `os` | `rig` |
| `cli` | talk | all | nothing |

```tree
ARCHITECTURE.md Cargo.toml
suite/
  src/         the package
    lib.rs
    plan/      text
      check.rs model.rs
    units.rs   quantities
fixtures/      inputs of tests
```
";

    fn files() -> Vec<(&'static str, &'static str)> {
        vec![
            (FILE, PAGE),
            ("Cargo.toml", ""),
            ("suite/src/lib.rs", ""),
            ("suite/src/plan/mod.rs", ""),
            ("suite/src/plan/check.rs", ""),
            ("suite/src/plan/model.rs", ""),
            ("suite/src/units.rs", ""),
            ("fixtures/plans/a.toml", ""),
        ]
    }

    #[test]
    fn the_table_of_layers_is_read() {
        let layers = layers(PAGE);
        let modules: Vec<_> = layers.iter().map(|layer| (&*layer.module, layer.line)).collect();
        assert_eq!(modules, [("os", 9), ("plan", 10), ("cli", 11)]);
        let may_import = ["os".to_owned(), "units".to_owned()];
        assert_eq!(layers[1].may_import, Some(may_import.into()));
        assert_eq!(layers[2].may_import, None);
    }

    #[test]
    fn a_true_tree_is_in_order() {
        assert_eq!(tree(&Repository::of(&files())), []);
    }

    #[test]
    fn what_differs_is_said_on_both_sides() {
        let mut files = files();
        files.retain(|(path, _)| *path != "suite/src/units.rs");
        files.extend([
            ("suite/src/plan/raw.rs", ""),
            ("suite/src/rig/mod.rs", ""),
            ("README.md", ""),
            ("plans/first.toml", ""),
        ]);
        let mut found = tree(&Repository::of(&files));
        found.sort();
        assert_eq!(
            sentences(&found),
            [
                "ARCHITECTURE.md:20: the tree has suite/src/units.rs, which is not there",
                "README.md:1: the tree in ARCHITECTURE.md lacks README.md",
                "plans/:1: the tree in ARCHITECTURE.md lacks plans/",
                "suite/src/plan/raw.rs:1: the tree in ARCHITECTURE.md lacks suite/src/plan/raw.rs",
                "suite/src/rig/:1: the tree in ARCHITECTURE.md lacks suite/src/rig/",
            ]
        );
    }

    #[test]
    fn a_page_without_a_tree_is_said() {
        assert_eq!(tree(&Repository::of(&[(FILE, "# A")])).len(), 1);
        assert_eq!(tree(&Repository::of(&[])).len(), 1);
    }
}
