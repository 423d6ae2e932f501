//! The files of the repository: those that git knows or would take, by path and with their text.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context, Result};
use xshell::{Shell, cmd};

/// All files, by path from the root with `/` between folders.
#[derive(Debug)]
pub(super) struct Repository(BTreeMap<String, Option<String>>);

impl Repository {
    /// Reads what git tracks or would add; without git, all but hidden folders and `target`.
    pub(super) fn read(root: &Path) -> Result<Self> {
        let paths = git_files(root).map_or_else(|| walk(root), Ok)?;
        let mut files = BTreeMap::new();
        for path in paths {
            let full = root.join(&path);
            // A file may be gone that git still knows; a link is not ours to follow.
            let is_file = full.symlink_metadata().is_ok_and(|metadata| metadata.is_file());
            if is_file {
                let bytes = std::fs::read(&full).with_context(|| format!("can't read {path}"))?;
                files.insert(path, String::from_utf8(bytes).ok());
            }
        }
        Ok(Self(files))
    }

    /// The path of every file, sorted.
    pub(super) fn paths(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }

    /// Path and text of every file that is text.
    pub(super) fn texts(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().filter_map(|(path, text)| Some((path.as_str(), text.as_deref()?)))
    }

    /// The text of one file.
    pub(super) fn text(&self, path: &str) -> Option<&str> {
        self.0.get(path)?.as_deref()
    }

    /// Whether there is a file or a folder of this path.
    pub(super) fn has(&self, path: &str) -> bool {
        let path = path.trim_end_matches('/');
        let folder = format!("{path}/");
        path.is_empty() || self.0.contains_key(path) || self.paths().any(|p| p.starts_with(&folder))
    }

    /// One with the given files, for tests of rules.
    #[cfg(test)]
    pub(super) fn of(files: &[(&str, &str)]) -> Self {
        let owned = files.iter().map(|(path, text)| ((*path).into(), Some((*text).into())));
        Self(owned.collect())
    }
}

/// What stands behind the last dot of a file's name.
pub(super) fn extension(path: &str) -> Option<&str> {
    Path::new(path).extension()?.to_str()
}

fn git_files(root: &Path) -> Option<Vec<String>> {
    let shell = Shell::new().ok()?;
    shell.change_dir(root);
    let list = cmd!(shell, "git ls-files -z --cached --others --exclude-standard");
    let paths = list.quiet().ignore_stderr().read().ok()?;
    Some(paths.split('\0').filter(|path| !path.is_empty()).map(str::to_owned).collect())
}

fn walk(root: &Path) -> Result<Vec<String>> {
    let mut paths = Vec::new();
    let mut folders = vec![String::new()];
    while let Some(folder) = folders.pop() {
        let entries = std::fs::read_dir(root.join(&folder))
            .with_context(|| format!("can't list {folder}"))?;
        for entry in entries {
            let entry = entry?;
            let name = entry.file_name().to_string_lossy().into_owned();
            let path = if folder.is_empty() { name.clone() } else { format!("{folder}/{name}") };
            if !entry.file_type()?.is_dir() {
                paths.push(path);
            } else if name != ".git" && path != "target" {
                folders.push(path);
            }
        }
    }
    Ok(paths)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_build_and_hidden_books_are_no_files_of_ours() {
        let root = tempfile::tempdir().unwrap();
        for path in ["a.md", "b/c.rs", "target/x.rs", ".git/config", "b/target/y.rs"] {
            let path = root.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, "text").unwrap();
        }
        let mut paths = walk(root.path()).unwrap();
        paths.sort();
        assert_eq!(paths, ["a.md", "b/c.rs", "b/target/y.rs"]);
    }

    #[test]
    fn folders_are_there_through_their_files() {
        let repository = Repository::of(&[("plans/first.toml", "")]);
        assert!(repository.has("plans"));
        assert!(repository.has("plans/"));
        assert!(repository.has("plans/first.toml"));
        assert!(!repository.has("plan"));
    }
}
