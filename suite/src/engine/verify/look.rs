//! What a block holds against what it should hold.

use super::stamp::{SECTOR, Sector, read};
use crate::measure::{VerifyFind, VerifyKind};

/// How a block differs from what it should hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Finding {
    /// In which way.
    pub kind: VerifyKind,
    /// Byte offset in the storage of the first sector that shows it.
    pub offset: u64,
    /// The generation that the sector has, if it is sound and of this run.
    pub generation: Option<u32>,
    /// The place that the sector was written to, if that is another.
    pub written_to: Option<u64>,
}

impl Finding {
    /// For the measurement: with the generation that the block should have.
    pub(super) fn find(self, expected: u32) -> VerifyFind {
        VerifyFind {
            kind: self.kind,
            offset: self.offset,
            expected_generation: expected,
            found_generation: self.generation,
            written_to: self.written_to,
        }
    }
}

/// Looks at the block that was read from `offset` and should have this generation, which is not 0.
/// `None` when all is well.
///
/// Generations are compared modulo 2^24, as the table keeps them.
#[must_use]
pub fn examine(block: &[u8], offset: u64, run: u32, expected: u32) -> Option<Finding> {
    let (sectors, _) = block.as_chunks::<SECTOR>();
    let all = || sectors.iter().zip((offset..).step_by(SECTOR));
    let is_right = |(sector, at): (&[u8; SECTOR], u64)| {
        read(sector, run) == Sector::Stamped { offset: at, generation: expected }
    };
    if all().all(is_right) {
        return None;
    }
    let find = |kind, at, sector| match sector {
        Sector::Stamped { offset: written_to, generation } => Finding {
            kind,
            offset: at,
            generation: Some(generation),
            written_to: (written_to != at).then_some(written_to),
        },
        _ => Finding { kind, offset: at, generation: None, written_to: None },
    };
    let stands = || all().map(|(sector, at)| (read(sector, run), at));
    if let Some((sector, at)) = stands().find(|(sector, _)| *sector == Sector::Damaged) {
        return Some(find(VerifyKind::Corrupt, at, sector));
    }
    let elsewhere = |(sector, at): &(Sector, u64)| match sector {
        Sector::Stamped { offset, .. } => offset != at,
        _ => false,
    };
    if let Some((sector, at)) = stands().find(elsewhere) {
        return Some(find(VerifyKind::Misplaced, at, sector));
    }
    let generation = |sector| match sector {
        Sector::Stamped { generation, .. } => Some(generation),
        _ => None,
    };
    let (first, at) = stands().next()?;
    if let Some((sector, at)) = stands().find(|(one, _)| generation(*one) != generation(first)) {
        // Which of the two is the wrong one: the one that is not what it should be.
        let (sector, at) =
            if generation(sector) == Some(expected) { (first, offset) } else { (sector, at) };
        return Some(find(VerifyKind::Torn, at, sector));
    }
    let before = if expected == 1 { None } else { Some(expected - 1) };
    let kind = if generation(first) == before { VerifyKind::Lost } else { VerifyKind::Stale };
    Some(find(kind, at, first))
}

#[cfg(test)]
mod tests {
    use super::super::stamp;
    use super::*;

    const RUN: u32 = 9;

    /// A block of 4 KiB as it is written for the n-th time.
    fn block(offset: u64, generation: u32) -> Vec<u8> {
        let mut block = vec![u8::try_from(generation % 251).unwrap(); 4096];
        stamp(&mut block, offset, 4096, RUN, |_| generation);
        block
    }

    fn kind(block: &[u8], expected: u32) -> Option<VerifyKind> {
        examine(block, 8192, RUN, expected).map(|finding| finding.kind)
    }

    #[test]
    fn each_difference_has_its_name() {
        let sound = block(8192, 5);
        assert_eq!(kind(&sound, 5), None);
        let mut flipped = sound.clone();
        flipped[3000] ^= 1;
        assert_eq!(kind(&flipped, 5), Some(VerifyKind::Corrupt));
        assert_eq!(kind(&block(4096, 5), 5), Some(VerifyKind::Misplaced));
        assert_eq!(kind(&block(8192, 4), 5), Some(VerifyKind::Lost));
        assert_eq!(kind(&block(8192, 3), 5), Some(VerifyKind::Stale));
        for sectors in 1..8 {
            let mut torn = sound.clone();
            torn[sectors * 512..].copy_from_slice(&block(8192, 4)[sectors * 512..]);
            assert_eq!(kind(&torn, 5), Some(VerifyKind::Torn));
        }
    }

    #[test]
    fn a_first_write_that_is_lost_leaves_what_was_there() {
        assert_eq!(kind(&[7; 4096], 1), Some(VerifyKind::Lost));
        assert_eq!(kind(&[7; 4096], 2), Some(VerifyKind::Stale));
        let mut torn = block(8192, 1);
        torn[512..1024].fill(0);
        assert_eq!(kind(&torn, 1), Some(VerifyKind::Torn));
    }

    #[test]
    fn a_finding_says_where_and_what() {
        let mut block = block(8192, 5);
        block[1024..1536].copy_from_slice(&super::tests::block(16_384, 2)[..512]);
        let finding = examine(&block, 8192, RUN, 5).unwrap();
        let at = Finding {
            kind: VerifyKind::Misplaced,
            offset: 8192 + 1024,
            generation: Some(2),
            written_to: Some(16_384),
        };
        assert_eq!(finding, at);
    }
}
