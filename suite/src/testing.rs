//! What tests share.

use std::io::Write as _;

/// Says that a test could not run here, why, and what would let it. With `DISKPROOF_REQUIRE_ALL=1`
/// that is a failure; else it is noted in the file that `DISKPROOF_SKIP_LOG` names.
///
/// # Panics
/// When every test is required to run, or the note can't be written.
pub(crate) fn skip(test: &str, reason: &str, remedy: &str) {
    assert!(
        std::env::var("DISKPROOF_REQUIRE_ALL").as_deref() != Ok("1"),
        "{test} can't run here: {reason}; {remedy}"
    );
    if let Some(path) = std::env::var_os("DISKPROOF_SKIP_LOG") {
        let mut log = std::fs::OpenOptions::new()
            .create(true)
            .append(true)
            .open(path)
            .expect("the log of skipped tests can be opened");
        writeln!(log, "{test}\t{reason}\t{remedy}").expect("the log can be written to");
    }
    println!("skipped {test}: {reason}; {remedy}");
}
