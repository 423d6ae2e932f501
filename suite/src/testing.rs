//! What tests share: how one says that it can't run here.

use std::io::Write;

/// Says that `test` can't run here, why, and what would let it: appended to the file that
/// `DISKPROOF_SKIP_LOG` names, and printed.
///
/// # Panics
/// When `DISKPROOF_REQUIRE_ALL` is 1: then a test that can't run is a failure.
pub(crate) fn skip(test: &str, reason: &str, remedy: &str) {
    let required = std::env::var("DISKPROOF_REQUIRE_ALL").is_ok_and(|value| value == "1");
    assert!(!required, "{test} can't run: {reason}; {remedy}");
    if let Some(path) = std::env::var_os("DISKPROOF_SKIP_LOG") {
        let log = std::fs::OpenOptions::new().create(true).append(true).open(path);
        // One write, so that lines of tests in other processes don't mix with it.
        let line = format!("{test}\t{reason}\t{remedy}\n");
        log.and_then(|mut log| log.write_all(line.as_bytes())).expect("the skip log takes a line");
    }
    println!("skipped {test}: {reason}; {remedy}");
}
