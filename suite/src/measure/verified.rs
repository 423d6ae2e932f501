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
            (VerifyKind::Lost, _, None) => {
                format!("byte {offset} was written, and holds what was there before")
            }
            (VerifyKind::Stale, _, Some(found)) => format!(
                "byte {offset} holds its write number {found}, where number {expected} should be"
            ),
            (VerifyKind::Stale, _, None) => format!(
                "byte {offset} holds what was there before the first of its {expected} writes"
            ),
            (VerifyKind::Torn, ..) => {
                format!("the block with byte {offset} is a part of one write and a part of another")
            }
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

    /// What was found, in words: `2 lost and 1 torn`.
    #[must_use]
    pub fn describe(&self) -> String {
        let words: Vec<_> =
            self.errors.iter().map(|(kind, count)| format!("{count} {}", kind.word())).collect();
        words.join(", ")
    }
}
