//! Rules on any text: how wide a line may be, and words that don't belong here.

use super::Violation;
use super::repository::{Repository, extension};

/// Columns of a line.
const COLUMNS: usize = 100;

/// Words, and why they don't belong here. They are put together so that this file has none.
const FORBIDDEN: [(&str, &str); 5] = [
    (concat!("/wo", "rk/"), "a path of one machine"),
    (concat!("/ro", "ot/"), "a path of one machine"),
    (concat!("/ho", "me/"), "a path of one machine"),
    (concat!("crates", ".io"), "the host of a registry"),
    (concat!("py", "pi.org"), "the host of a registry"),
];

/// Marks of work that isn't done.
const MARKERS: [&str; 3] = [concat!("TO", "DO"), concat!("FIX", "ME"), concat!("X", "XX")];

/// Every breach in any text.
pub(super) fn check(repository: &Repository) -> Vec<Violation> {
    let mut found = Vec::new();
    for (path, text) in repository.texts() {
        let fixture = path.starts_with("fixtures/");
        for (number, line) in (1..).zip(text.lines()) {
            let mut say = |sentence| found.push(Violation::new(path, number, sentence));
            if is_written_by_hand(path) && !fixture {
                too_wide(path, line).map(&mut say);
            }
            if path != "Cargo.lock" {
                forbidden(line).map(&mut say);
            }
            if path != "Cargo.lock" && !fixture {
                marker(line).map(&mut say);
            }
        }
    }
    found
}

/// Whether people write it and read it line by line. Manifests have a comment on each long line.
fn is_written_by_hand(path: &str) -> bool {
    matches!(extension(path), Some("rs" | "md") | None)
        || (extension(path) == Some("toml") && path.starts_with("plans/"))
}

fn too_wide(path: &str, line: &str) -> Option<String> {
    let columns = line.chars().count();
    let has_address = line.contains("https://") || line.contains("http://");
    // A row of a table can't be broken.
    let is_row = extension(path) == Some("md") && line.starts_with('|');
    let wide = columns > COLUMNS && !has_address && !is_row;
    wide.then(|| format!("the line has {columns} columns; {COLUMNS} are the limit"))
}

fn forbidden(line: &str) -> Option<String> {
    FORBIDDEN.iter().find_map(|(word, what)| {
        // Behind a name it is a folder of ours.
        let absolute = |at: usize| !line[..at].ends_with(|c: char| is_path_part(c));
        let stands = line.match_indices(word).any(|(at, _)| !word.starts_with('/') || absolute(at));
        stands.then(|| format!("`{word}` is {what}"))
    })
}

fn is_path_part(c: char) -> bool {
    c.is_alphanumeric() || matches!(c, '.' | '_' | '-' | '/' | '}' | '*' | ')' | '$')
}

fn marker(line: &str) -> Option<String> {
    let words = line.split(|c: char| !c.is_alphanumeric() && c != '_');
    let marker = words.into_iter().find(|word| MARKERS.contains(word))?;
    Some(format!("`{marker}` marks work that isn't done"))
}

#[cfg(test)]
mod tests {
    use super::super::sentences;
    use super::*;

    fn said(path: &str, text: &str) -> Vec<String> {
        sentences(&check(&Repository::of(&[(path, text)])))
    }

    #[test]
    fn lines_have_100_columns() {
        let wide = "x".repeat(101);
        assert!(said("suite/src/a.rs", &"ü".repeat(100)).is_empty());
        for path in ["suite/src/a.rs", "README.md", ".ci/run", "plans/a.toml"] {
            let expected = format!("{path}:2: the line has 101 columns; 100 are the limit");
            assert_eq!(said(path, &format!("\n{wide}")), [expected]);
        }
        for path in ["fixtures/a.rs", "Cargo.lock", "suite/src/report/page.html"] {
            assert!(said(path, &wide).is_empty());
        }
        assert!(said("README.md", &format!("| {wide} |")).is_empty());
        assert!(said("README.md", &format!("https://{wide}")).is_empty());
    }

    #[test]
    fn paths_of_a_machine_do_not_belong_here() {
        for place in ["wo rk", "ro ot", "ho me"].map(|place| place.replace(' ', "")) {
            assert_eq!(said("fixtures/a", &format!("cd /{place}/x")).len(), 1);
            assert_eq!(said("a.md", &format!("`/{place}/`")).len(), 1);
            assert!(said("a.md", &format!("{place}/x target/{place}/x /{place}")).is_empty());
        }
        assert_eq!(said("a.md", concat!("https://crates", ".io/")).len(), 1);
        assert!(said("Cargo.lock", concat!("https://crates", ".io/")).is_empty());
    }

    #[test]
    fn marks_of_undone_work_do_not_belong_here() {
        assert_eq!(said("a.rs", concat!("//! TO", "DO")).len(), 1);
        assert_eq!(said("a.rs", concat!("// FIX", "ME: x")).len(), 1);
        assert!(said("a.rs", "mktemp XXXXXX; a todo list").is_empty());
    }
}
