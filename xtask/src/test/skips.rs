//! What was skipped, why, and what would let it run.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context, Result};

/// Every test that was skipped, by name; a test may have several reasons.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Skips(BTreeMap<String, Vec<Reason>>);

#[derive(Debug, Clone, PartialEq, Eq)]
struct Reason {
    why: String,
    remedy: String,
}

impl Skips {
    /// Reads the log. None at all means that no test was skipped.
    pub(crate) fn read(path: &Path) -> Result<Self> {
        match std::fs::read_to_string(path) {
            Ok(text) => Ok(Self::parse(&text)),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Self::default()),
            Err(error) => Err(error).with_context(|| format!("can't read {}", path.display())),
        }
    }

    fn parse(text: &str) -> Self {
        let mut skips = BTreeMap::<String, Vec<Reason>>::new();
        for line in text.lines().filter(|line| !line.is_empty()) {
            let mut parts = line.splitn(3, '\t').map(|part| part.trim().to_owned());
            let mut next = || parts.next().unwrap_or_default();
            let name = next();
            let reason = Reason { why: next(), remedy: next() };
            let reasons = skips.entry(name).or_default();
            if !reasons.contains(&reason) {
                reasons.push(reason);
            }
        }
        Self(skips)
    }

    /// How many tests were skipped.
    pub(crate) fn count(&self) -> usize {
        self.0.len()
    }

    /// Prints, test by test, what was skipped and why, under what would let it run.
    pub(crate) fn print(&self, packages: &[String]) {
        for line in self.lines(packages) {
            println!("{line}");
        }
    }

    fn lines(&self, packages: &[String]) -> Vec<String> {
        let mut by_remedy = BTreeMap::<&str, Vec<String>>::new();
        for (test, reasons) in &self.0 {
            for reason in reasons {
                let line = format!("    {test}: {}", reason.why);
                by_remedy.entry(&reason.remedy).or_default().push(line);
            }
        }
        let mut lines = Vec::new();
        for (remedy, tests) in &by_remedy {
            let remedy = if remedy.is_empty() { "nothing is known to help" } else { remedy };
            lines.push(format!("\nskipped; what would let them run: {remedy}"));
            lines.extend(tests.iter().cloned());
        }
        let mut missing: Vec<_> =
            by_remedy.keys().flat_map(|remedy| packages_in(remedy, packages)).collect();
        missing.sort_unstable();
        missing.dedup();
        if !missing.is_empty() {
            lines.push(format!("\napt-get install {}", missing.join(" ")));
        }
        lines
    }
}

/// The names in a list of packages: one a line, comments behind `#`.
pub(crate) fn package_names(list: &str) -> Vec<String> {
    let bare = list.lines().map(|line| line.split('#').next().unwrap_or_default().trim());
    bare.filter(|name| !name.is_empty()).map(str::to_owned).collect()
}

/// The listed packages that a remedy speaks of: `fio`, `apt-get install fio`, "install fio".
fn packages_in(remedy: &str, packages: &[String]) -> Vec<String> {
    let is_part = |c: char| c.is_alphanumeric() || matches!(c, '-' | '.' | '+');
    let words = remedy.split(|c| !is_part(c)).map(|word| word.trim_end_matches('.'));
    words.filter(|word| packages.iter().any(|name| name == word)).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIST: &str = "\
# what tests need
fio            # the yardstick
libxml2-utils  # xmllint
chromium
";

    #[test]
    fn packages_are_names_without_comments() {
        assert_eq!(package_names(LIST), ["fio", "libxml2-utils", "chromium"]);
    }

    #[test]
    fn a_test_with_two_reasons_is_one_test() {
        let log = "a\tno fio\tinstall fio\nb\tno root\trun as root\na\tno xmllint\t\
                   apt-get install libxml2-utils\na\tno fio\tinstall fio\n";
        let skips = Skips::parse(log);
        assert_eq!(skips.count(), 2);
        let lines = skips.lines(&package_names(LIST));
        assert_eq!(
            lines.join("\n").trim(),
            "skipped; what would let them run: apt-get install libxml2-utils
    a: no xmllint

skipped; what would let them run: install fio
    a: no fio

skipped; what would let them run: run as root
    b: no root

apt-get install fio libxml2-utils"
        );
    }

    #[test]
    fn a_remedy_may_be_missing() {
        let lines = Skips::parse("a\tno ring\n").lines(&[]);
        assert_eq!(
            lines,
            ["\nskipped; what would let them run: nothing is known to help", "    a: no ring"]
        );
    }

    #[test]
    fn no_log_is_no_skip() {
        let skips = Skips::read(Path::new("/nonexistent/log")).unwrap();
        assert_eq!(skips, Skips::default());
    }
}
