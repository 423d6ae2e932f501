//! The rule of links: what the pages point to is there.

use super::Violation;
use super::repository::{Repository, extension};

/// Every link and every named plan in the pages that leads nowhere.
pub(super) fn check(repository: &Repository) -> Vec<Violation> {
    let pages = repository.texts().filter(|(path, _)| is_page(path));
    let mut found = Vec::new();
    for (path, text) in pages {
        let folder = path.rfind('/').map_or("", |at| &path[..=at]);
        for (number, line) in (1..).zip(text.lines()) {
            for link in links(line) {
                if !repository.has(&joined(folder, link)) {
                    let sentence = format!("the link to {link} leads nowhere");
                    found.push(Violation::new(path, number, sentence));
                }
            }
            for plan in plans(line).filter(|plan| !repository.has(plan)) {
                found.push(Violation::new(path, number, format!("there is no {plan}")));
            }
        }
    }
    found
}

fn is_page(path: &str) -> bool {
    extension(path) == Some("md") && !path.starts_with("fixtures/")
}

/// The targets of Markdown links to files of ours, without what follows `#`.
fn links(line: &str) -> impl Iterator<Item = &str> {
    let targets = line.split("](").skip(1).filter_map(|rest| rest.split([')', ' ']).next());
    let files = targets.map(|target| target.split('#').next().unwrap_or_default());
    files.filter(|file| !file.is_empty() && !file.contains(':'))
}

/// Words that name a plan of ours: `plans/….toml`.
fn plans(line: &str) -> impl Iterator<Item = &str> {
    let is_part = |c: char| c.is_alphanumeric() || matches!(c, '/' | '.' | '-' | '_' | '*' | '…');
    let words = line.split(move |c| !is_part(c)).map(|word| word.trim_end_matches(['.', ':']));
    words.filter(|word| {
        let plan = word.strip_prefix("plans/").and_then(|rest| rest.strip_suffix(".toml"));
        plan.is_some_and(|name| !name.contains(['*', '…']))
    })
}

/// The path from the root of what a page in `folder` calls `link`.
fn joined(folder: &str, link: &str) -> String {
    let mut parts: Vec<&str> = folder.split('/').filter(|part| !part.is_empty()).collect();
    for part in link.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()),
            name => parts.push(name),
        }
    }
    parts.join("/")
}

#[cfg(test)]
mod tests {
    use super::super::sentences;
    use super::*;

    #[test]
    fn links_lead_somewhere() {
        let readme = "\
See [the shape](ARCHITECTURE.md#layers), [plans](plans/) and [a site](https://example.org/x).
Run `cargo xtask run-plan plans/first.toml`, or plans/none.toml, or plans/*.toml.
[gone](docs/gone.md) and [here](#here)
";
        let page = "[up](../README.md) [wrong](../x.md)";
        let repository = Repository::of(&[
            ("README.md", readme),
            ("ARCHITECTURE.md", ""),
            ("plans/first.toml", ""),
            ("plans/about.md", page),
        ]);
        assert_eq!(
            sentences(&check(&repository)),
            [
                "README.md:2: there is no plans/none.toml",
                "README.md:3: the link to docs/gone.md leads nowhere",
                "plans/about.md:1: the link to ../x.md leads nowhere",
            ]
        );
    }
}
