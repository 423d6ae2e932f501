//! What came of holding what was read against what was written.

use serde::{Deserialize, Serialize};

/// Findings that are kept one by one; the others are counted.
const KEPT: usize = 16;

/// How a block can differ from what it should hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum VerifyKind {
    /// A sector's checksum doesn't fit its contents.
    Corrupt,
    /// It holds what was written to another place.
    Misplaced,
    /// Its sectors are of different writes.
    Torn,
    /// It holds what was there before its last write, as if that had never been.
    Lost,
    /// It holds something older than that.
    Stale,
}

impl VerifyKind {
    /// Every kind, in the order in which reports show them.
    pub const ALL: [Self; 5] =
        [Self::Corrupt, Self::Misplaced, Self::Torn, Self::Lost, Self::Stale];

    /// Its word in reports.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Corrupt => "corrupt",
            Self::Misplaced => "misplaced",
            Self::Torn => "torn",
            Self::Lost => "lost",
            Self::Stale => "stale",
        }
    }
}

/// One block that was not what it should be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct VerifyFind {
    /// In which way.
    pub kind: VerifyKind,
    /// Byte offset in the setup's storage of the first sector that shows it.
    pub offset: u64,
    /// How often the block should have been written.
    pub expected_generation: u32,
    /// How often what it holds says; `None` where that can't be read.
    pub found_generation: Option<u32>,
    /// Byte offset that what it holds was written to, if that is another.
    pub written_to: Option<u64>,
}

impl VerifyFind {
    /// What was found, as a sentence without a full stop.
    #[must_use]
    pub fn describe(&self) -> String {
        let Self { kind, offset, expected_generation: expected, .. } = self;
        match (kind, self.written_to, self.found_generation) {
            (VerifyKind::Misplaced, Some(other), _) => {
                format!("byte {offset} holds what was written to byte {other}")
            }
            (VerifyKind::Lost, _, Some(_)) => {
                format!(
                    "byte {offset} holds what was there before its last write (number {expected})"
                )
            }
            (VerifyKind::Stale, _, Some(found)) => format!(
                "byte {offset} holds its write number {found}, where number {expected} should be"
            ),
            // Without a stamp it may be what was there before, or something else altogether.
            (VerifyKind::Lost, _, None) => {
                format!("byte {offset} was written once, and holds no stamp of that")
            }
            (VerifyKind::Stale, _, None) => {
                format!("byte {offset} holds no stamp of any of its {expected} writes")
            }
            (VerifyKind::Torn, _, Some(found)) => format!(
                "the block with byte {offset} holds its write number {found} there and another \
                 elsewhere, where number {expected} should be"
            ),
            (VerifyKind::Torn, _, None) => format!(
                "the block with byte {offset} holds no stamp of any write there and one \
                 elsewhere, where number {expected} should be"
            ),
            _ => format!("what byte {offset} holds doesn't fit its checksum"),
        }
    }
}

/// What was verified, and what was found.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Verified {
    /// Blocks that were read and held against what they should be.
    pub checked: u64,
    /// Blocks that were read and that nobody vouched for: not written with stamps before.
    pub unchecked: u64,
    /// How many differed, of each kind.
    pub errors: Vec<(VerifyKind, u64)>,
    /// The first of them.
    pub finds: Vec<VerifyFind>,
}

impl Verified {
    /// How many blocks differed.
    #[must_use]
    pub fn error_count(&self) -> u64 {
        self.errors.iter().map(|(_, count)| count).sum()
    }

    /// Notes one that did.
    pub fn found(&mut self, find: VerifyFind) {
        self.count(find.kind, 1);
        if self.finds.len() < KEPT {
            self.finds.push(find);
        }
    }

    /// Adds what was verified elsewhere.
    pub fn add(&mut self, other: &Self) {
        self.checked += other.checked;
        self.unchecked += other.unchecked;
        for (kind, count) in &other.errors {
            self.count(*kind, *count);
        }
        let room = KEPT - self.finds.len().min(KEPT);
        self.finds.extend(other.finds.iter().take(room));
    }

    fn count(&mut self, kind: VerifyKind, count: u64) {
        if let Some((_, sum)) = self.errors.iter_mut().find(|(known, _)| *known == kind) {
            *sum += count;
        } else {
            self.errors.push((kind, count));
            self.errors.sort_unstable();
        }
    }

    /// What was found, in words: `1 torn, 2 lost`.
    #[must_use]
    pub fn describe(&self) -> String {
        let words: Vec<_> =
            self.errors.iter().map(|(kind, count)| format!("{count} {}", kind.word())).collect();
        words.join(", ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_found_is_a_plain_sentence() {
        let told = |kind, found_generation, written_to| {
            let offset = 8192;
            VerifyFind { kind, offset, expected_generation: 5, found_generation, written_to }
                .describe()
        };
        for (told, expected) in [
            (
                told(VerifyKind::Corrupt, None, None),
                "what byte 8192 holds doesn't fit its checksum",
            ),
            (
                told(VerifyKind::Misplaced, Some(2), Some(4096)),
                "byte 8192 holds what was written to byte 4096",
            ),
            (
                told(VerifyKind::Lost, Some(4), None),
                "byte 8192 holds what was there before its last write (number 5)",
            ),
            (
                told(VerifyKind::Stale, Some(2), None),
                "byte 8192 holds its write number 2, where number 5 should be",
            ),
            (
                told(VerifyKind::Stale, None, None),
                "byte 8192 holds no stamp of any of its 5 writes",
            ),
            (
                told(VerifyKind::Torn, Some(4), None),
                "the block with byte 8192 holds its write number 4 there and another elsewhere, \
                 where number 5 should be",
            ),
        ] {
            assert_eq!(told, expected);
        }
    }

    #[test]
    fn sums_keep_every_count_and_the_first_finds() {
        let find = |offset| VerifyFind {
            kind: VerifyKind::Torn,
            offset,
            expected_generation: 2,
            found_generation: Some(1),
            written_to: None,
        };
        let (mut one, mut other) = (Verified::default(), Verified::default());
        (0..10).for_each(|offset| one.found(find(offset)));
        (10..30).for_each(|offset| other.found(find(offset)));
        other.found(VerifyFind { kind: VerifyKind::Corrupt, ..find(30) });
        one.add(&other);
        assert_eq!(one.describe(), "1 corrupt, 30 torn");
        assert_eq!((one.error_count(), one.finds.len()), (31, 16));
        assert!(one.finds.iter().map(|find| find.offset).eq(0..16));
    }
}
