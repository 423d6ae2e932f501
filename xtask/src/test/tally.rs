//! How many tests passed, failed and were skipped, over all test programs.

use std::fmt;

/// The sum.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    passed: usize,
    failed: usize,
    skipped: usize,
}

impl Tally {
    /// Counts a line of a harness's output, if it is the one with the result.
    pub(crate) fn add_line(&mut self, line: &str) {
        let Some(counts) = line.strip_prefix("test result: ") else { return };
        for part in counts.split([';', '.']) {
            let Some((number, word)) = part.trim().split_once(' ') else { continue };
            let Ok(number) = number.parse::<usize>() else { continue };
            match word {
                "passed" => self.passed += number,
                "failed" => self.failed += number,
                "ignored" => self.skipped += number,
                _ => {}
            }
        }
    }

    /// Counts a test that no harness told of and that passed.
    pub(crate) fn add_pass(&mut self) {
        self.passed += 1;
    }

    /// Counts a failure that no harness told of.
    pub(crate) fn add_failure(&mut self) {
        self.failed += 1;
    }

    /// Counts as skipped what the harness took for passed.
    pub(crate) fn move_to_skipped(&mut self, count: usize) {
        self.passed = self.passed.saturating_sub(count);
        self.skipped += count;
    }

    /// How many failed so far.
    pub(crate) fn failed(&self) -> usize {
        self.failed
    }

    /// Whether something passed and nothing failed.
    pub(crate) fn all_well(&self) -> bool {
        self.failed == 0 && self.passed > 0
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{} passed, {} failed, {} skipped", self.passed, self.failed, self.skipped)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_results_of_all_programs_are_added() {
        let mut tally = Tally::default();
        for line in [
            "running 3 tests",
            "test a ... ok",
            "test result: ok. 12 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; \
             finished in 1.02s",
            "test result: FAILED. 3 passed; 2 failed; 0 ignored; 0 measured; 7 filtered out",
        ] {
            tally.add_line(line);
        }
        tally.move_to_skipped(4);
        assert_eq!(tally.to_string(), "11 passed, 2 failed, 5 skipped");
        assert!(!tally.all_well());
    }

    #[test]
    fn nothing_run_is_not_well() {
        let mut tally = Tally::default();
        tally.add_line("test result: ok. 1 passed; 0 failed; 0 ignored");
        assert!(tally.all_well());
        tally.move_to_skipped(1);
        assert!(!tally.all_well());
    }
}
