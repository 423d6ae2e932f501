//! Reports of whole runs, against files and against what their readers take.

mod records;
mod scenes;

use std::path::{Path, PathBuf};

use super::{ReportPaths, Style, html, junit, markdown, terminal};
use crate::record::{Outcome, Record};
use scenes::NASTY;

fn scenes() -> [(&'static str, Record); 4] {
    [
        ("passed", scenes::passed()),
        ("mixed", scenes::mixed()),
        ("interrupted", scenes::interrupted()),
        ("sweep", scenes::sweep()),
    ]
}

fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../fixtures/reports")
}

fn paths(name: &str) -> ReportPaths {
    let files = [("record", "record.json"), ("junit", "junit.xml"), ("report", "report.html")];
    let at = |(what, file): &(&str, &str)| {
        ((*what).to_owned(), format!("target/diskproof/{name}/latest/{file}"))
    };
    ReportPaths(files.iter().map(at).collect())
}

fn plain(record: &Record) -> String {
    terminal(record, Style { color: false, width: 80 }, &paths(&record.plan.name))
}

/// Compares with a file, which `SNAPSHOTS=overwrite` writes anew.
fn assert_is(file: &Path, actual: String) {
    let expected = snapbox::Data::read_from(file, Some(snapbox::data::DataFormat::Text)).raw();
    let actual = snapbox::Data::text(actual).raw();
    let check = snapbox::Assert::new().action_env("SNAPSHOTS").normalize_paths(false);
    check.eq(actual, expected);
}

#[test]
fn reports_are_as_they_were() {
    for (name, record) in scenes() {
        let folder = fixtures().join(name);
        std::fs::create_dir_all(&folder).expect("the fixtures are writable");
        let stored = serde_json::to_string(&record).expect("a record is JSON") + "\n";
        assert!(stored.len() < 300_000, "{name} is too large a fixture: {}", stored.len());
        assert_is(&folder.join("record.json"), stored.clone());
        assert_is(&folder.join("junit.xml"), junit(&record));
        assert_is(&folder.join("report.html"), html(&record));
        assert_is(&folder.join("summary.md"), markdown(&record));
        assert_is(&folder.join("terminal.txt"), plain(&record));
        // Drawn again from what was stored, they are the same.
        let again: Record = serde_json::from_str(&stored).expect("a record is read back");
        assert_eq!(again, record);
        assert!(html(&again) == html(&record), "{name}: another page from the stored record");
        assert_eq!(junit(&again), junit(&record));
        assert_eq!(plain(&again), plain(&record));
    }
}
