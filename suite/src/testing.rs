//! What tests share: how a test says that it can't run here.

use std::fs::OpenOptions;
use std::io::Write;

/// Says that a test can't run here, and what would let it. With `DISKPROOF_REQUIRE_ALL=1` that
/// is a failure; else a line (test, reason, remedy, with tabs between) goes to the file that
/// `DISKPROOF_SKIP_LOG` names, so that nothing is passed over in silence.
///
/// # Panics
/// When every test has to run.
pub(crate) fn skip(test: &str, reason: &str, remedy: &str) {
    let required = std::env::var_os("DISKPROOF_REQUIRE_ALL").is_some_and(|value| value == "1");
    assert!(!required, "{test} can't run here: {reason}; {remedy}");
    println!("skipped {test}: {reason}; {remedy}");
    if let Some(log) = std::env::var_os("DISKPROOF_SKIP_LOG") {
        let line = format!("{test}\t{reason}\t{remedy}\n");
        let opened = OpenOptions::new().create(true).append(true).open(&log);
        let written = opened.and_then(|mut file| file.write_all(line.as_bytes()));
        written.unwrap_or_else(|error| panic!("can't write to {}: {error}", log.display()));
    }
}
