//! The exit codes, in one place: the program's answer to a script.

/// How a run ended, as the number that a script sees.
///
/// Where several apply the one with the highest [`rank`](Self::rank) is told. Never a count:
/// those wrap around at 256.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum ExitCode {
    /// Every gate passed, and there was at least one.
    Passed = 0,
    /// A gate failed.
    Failed = 1,
    /// The command line or the plan can't be understood; nothing was touched.
    Invalid = 2,
    /// Set-up, I/O or measurement failed, so that a gate can't be answered.
    NotMeasured = 3,
    /// Nothing was selected, everything was skipped, or there is no gate to pass.
    NothingDecided = 4,
    /// The measurement can't tell whether a gate holds.
    Inconclusive = 5,
    /// The run would have written to something that it must not; nothing was touched.
    Refused = 6,
    /// Data that were read are not those that had been written.
    VerifyFailed = 7,
    /// Stopped by a signal; everything was undone and what was measured is in the record.
    Interrupted = 130,
}

impl ExitCode {
    /// Every code, in the order of their numbers.
    pub const ALL: [Self; 9] = [
        Self::Passed,
        Self::Failed,
        Self::Invalid,
        Self::NotMeasured,
        Self::NothingDecided,
        Self::Inconclusive,
        Self::Refused,
        Self::VerifyFailed,
        Self::Interrupted,
    ];

    /// The number.
    #[must_use]
    pub fn code(self) -> u8 {
        self as u8
    }

    /// What it means, as a phrase for the help text.
    #[must_use]
    pub fn meaning(self) -> &'static str {
        match self {
            Self::Passed => "every gate passed",
            Self::Failed => "at least one gate failed",
            Self::Invalid => "the command line or the plan is invalid; nothing was touched",
            Self::NotMeasured => "set-up, I/O or measuring failed",
            Self::NothingDecided => "nothing selected, all skipped, or no gate to pass",
            Self::Inconclusive => "the measurement can't tell whether a gate holds",
            Self::Refused => "refused for safety; nothing was touched",
            Self::VerifyFailed => "verification failed: data are not what was written",
            Self::Interrupted => "interrupted; all undone, what was measured is in the record",
        }
    }

    /// Which of several is told: the higher one.
    #[must_use]
    pub fn rank(self) -> u8 {
        match self {
            Self::Passed => 0,
            Self::NothingDecided => 1,
            Self::Inconclusive => 2,
            Self::Failed => 3,
            Self::NotMeasured => 4,
            Self::Refused => 5,
            // Stands alone: where the text is invalid, nothing else happens.
            Self::Invalid => 6,
            Self::VerifyFailed => 7,
            Self::Interrupted => 8,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_numbers_are_the_documented_ones() {
        let numbers: Vec<_> = ExitCode::ALL.iter().map(|exit| exit.code()).collect();
        assert_eq!(numbers, [0, 1, 2, 3, 4, 5, 6, 7, 130]);
    }

    #[test]
    fn the_precedence_is_the_documented_one() {
        let mut codes = ExitCode::ALL.to_vec();
        codes.retain(|exit| *exit != ExitCode::Invalid);
        codes.sort_by_key(|exit| std::cmp::Reverse(exit.rank()));
        let numbers: Vec<_> = codes.iter().map(|exit| exit.code()).collect();
        assert_eq!(numbers, [130, 7, 6, 3, 1, 5, 4, 0]);
    }

    #[test]
    fn each_meaning_fits_a_line_of_help() {
        for exit in ExitCode::ALL {
            assert!(exit.meaning().len() <= 70, "{}", exit.meaning());
        }
    }
}
