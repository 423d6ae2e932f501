//! Rules on dependencies: all in one table, each with a reason, all from one place.

use toml::{Table, Value};

use super::Violation;
use super::repository::Repository;

/// Where the lock file's packages come from: cargo's name for its own registry.
const REGISTRY: &str = concat!("registry+https://github.com/rust-lang/crates", ".io-index");

/// Every breach in the manifests and the lock file.
pub(super) fn check(repository: &Repository) -> Vec<Violation> {
    let mut found = Vec::new();
    for (path, text) in repository.texts() {
        match path {
            "Cargo.toml" => found.extend(without_reason(path, text)),
            "Cargo.lock" => found.extend(from_elsewhere(path, text)),
            _ if path.ends_with("/Cargo.toml") && !path.starts_with("fixtures/") => {
                found.extend(outside_the_table(path, text));
            }
            _ => {}
        }
    }
    found
}

/// Dependencies of the workspace's table whose line has no comment.
fn without_reason(path: &str, text: &str) -> Vec<Violation> {
    let mut in_table = false;
    let mut found = Vec::new();
    // The entry that has had no comment so far; one may take several lines.
    let mut open: Option<(usize, &str)> = None;
    for (number, line) in (1..).zip(text.lines()) {
        let begins = line.starts_with(|c: char| c.is_alphanumeric() || c == '[');
        if begins {
            found.extend(open.take().map(|(line, name)| no_reason(path, line, name)));
        }
        if line.starts_with('[') {
            in_table = line.trim() == "[workspace.dependencies]";
        } else if in_table && begins {
            open = Some((number, line.split([' ', '=', '.']).next().unwrap_or(line)));
        }
        if !line.starts_with('#') && has_comment(line) {
            open = None;
        }
    }
    found.extend(open.map(|(line, name)| no_reason(path, line, name)));
    found
}

fn no_reason(path: &str, line: usize, name: &str) -> Violation {
    let sentence = format!("the dependency `{name}` has no comment that says what it is for");
    Violation::new(path, line, sentence)
}

/// Whether words stand behind a `#` that is not within a string.
fn has_comment(line: &str) -> bool {
    let mut quoted = false;
    let hash = line.char_indices().find(|(_, c)| {
        quoted ^= *c == '"';
        *c == '#' && !quoted
    });
    hash.is_some_and(|(at, _)| !line[at + 1..].trim().is_empty())
}

/// Dependencies of a package that don't come from the workspace's table.
fn outside_the_table(path: &str, text: &str) -> Vec<Violation> {
    let manifest: Table = match text.parse() {
        Ok(manifest) => manifest,
        Err(error) => return vec![Violation::new(path, 1, format!("can't be read: {error}"))],
    };
    let mut found = Vec::new();
    for kind in ["dependencies", "dev-dependencies", "build-dependencies"] {
        let table = manifest.get(kind).and_then(Value::as_table);
        for (name, value) in table.into_iter().flatten() {
            if value.get("workspace").and_then(Value::as_bool) != Some(true) {
                let line = text.lines().position(|line| line.starts_with(name.as_str()));
                let sentence = format!("`{name}` doesn't come from the workspace's table");
                found.push(Violation::new(path, line.map_or(1, |at| at + 1), sentence));
            }
        }
    }
    found
}

/// Packages of the lock file that come from another place than cargo's own registry.
fn from_elsewhere(path: &str, text: &str) -> Vec<Violation> {
    let sources = (1..).zip(text.lines()).filter(|(_, line)| line.starts_with("source = "));
    let others = sources.filter(|(_, line)| line.split('"').nth(1) != Some(REGISTRY));
    let sentence = "the package doesn't come from cargo's own registry";
    others.map(|(line, _)| Violation::new(path, line, sentence)).collect()
}

#[cfg(test)]
mod tests {
    use super::super::sentences;
    use super::*;

    fn said(path: &str, text: &str) -> Vec<String> {
        sentences(&check(&Repository::of(&[(path, text)])))
    }

    #[test]
    fn each_dependency_says_what_it_is_for() {
        let text = "[package]\nname = \"x\"\n[workspace.dependencies]\n# A group.\n\
                    a = \"1\" # why\nb = { version = \"1\", features = [\n  \"x#y\",\n] }\n\
                    c.version = \"1\" #\nd = [\n  \"x\",\n] # why\n[profile.dev]\ne = 1";
        assert_eq!(
            said("Cargo.toml", text),
            [
                "Cargo.toml:6: the dependency `b` has no comment that says what it is for",
                "Cargo.toml:9: the dependency `c` has no comment that says what it is for",
            ]
        );
    }

    #[test]
    fn packages_take_from_the_table() {
        let text = "[dependencies]\na.workspace = true\nb = { workspace = true, features = [] }\n\
                    [dev-dependencies]\nc = \"1\"";
        assert_eq!(
            said("suite/Cargo.toml", text),
            ["suite/Cargo.toml:5: `c` doesn't come from the workspace's table"]
        );
    }

    #[test]
    fn the_lock_file_names_one_registry() {
        let good = format!("source = \"{REGISTRY}\"");
        let bad = "source = \"registry+https://mirror.example/index\"";
        assert_eq!(said("Cargo.lock", &format!("{good}\n{bad}\n")).len(), 1);
    }
}
