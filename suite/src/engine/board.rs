//! Which I/Os of a worker the kernel has at the moment, for others to see: when none returns any
//! more, somebody has to say which.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use super::stripe::Extent;

/// In what units offsets are noted: those of the smallest sectors.
const UNIT_SHIFT: u32 = 9;

/// Bits of a note that are an offset; the rest is the member's number.
const OFFSET_BITS: u32 = 54;

/// The offset of a flush, which has none: the largest, at which nothing lies.
const FLUSH: u64 = (1 << OFFSET_BITS) - 1;

/// The note of nothing.
const NONE: u64 = u64::MAX;

/// The notes of one worker, one for each part of an I/O that can be in flight. The worker writes
/// them, relaxed: two stores for a part. Whoever reads them while it runs sees what was true a
/// moment ago, each for itself.
#[derive(Debug, Default)]
pub(super) struct Board(Box<[AtomicU64]>);

/// Where an I/O is that has not returned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Outstanding {
    pub(super) member: u32,
    /// Byte offset there, rounded down to 512; `None` of a flush.
    pub(super) offset: Option<u64>,
}

impl Board {
    /// One for so many parts in flight.
    pub(super) fn new(parts: usize) -> Self {
        Self(std::iter::repeat_with(|| AtomicU64::new(NONE)).take(parts).collect())
    }

    /// A part goes to the kernel; one without a length is a flush.
    #[inline]
    pub(super) fn launched(&self, index: usize, extent: Extent) {
        let offset = if extent.len == 0 { FLUSH } else { extent.offset >> UNIT_SHIFT };
        if let Some(note) = self.0.get(index) {
            note.store((u64::from(extent.member) << OFFSET_BITS) | offset, Relaxed);
        }
    }

    /// A part of the first member that has a length goes to the kernel.
    #[inline]
    pub(super) fn launched_at(&self, index: usize, offset: u64) {
        if let Some(note) = self.0.get(index) {
            note.store(offset >> UNIT_SHIFT, Relaxed);
        }
    }

    /// It is back.
    #[inline]
    pub(super) fn landed(&self, index: usize) {
        if let Some(note) = self.0.get(index) {
            note.store(NONE, Relaxed);
        }
    }

    /// Those that are not back.
    pub(super) fn outstanding(&self) -> impl Iterator<Item = Outstanding> {
        self.0.iter().map(|note| note.load(Relaxed)).filter(|note| *note != NONE).map(|note| {
            let offset = note & FLUSH;
            Outstanding {
                member: (note >> OFFSET_BITS) as u32,
                offset: (offset != FLUSH).then_some(offset << UNIT_SHIFT),
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_launched_and_has_not_landed_is_there() {
        let board = Board::new(3);
        let extent = |member, offset, len| Extent { member, offset, at: 0, len };
        board.launched(0, extent(1000, (1 << 62) + 512, 4096));
        board.launched(1, extent(2, 4096, 4096));
        board.launched(2, extent(7, 0, 0));
        board.landed(1);
        let found: Vec<_> = board.outstanding().collect();
        let data = Outstanding { member: 1000, offset: Some((1 << 62) + 512) };
        assert_eq!(found, [data, Outstanding { member: 7, offset: None }]);
        board.landed(0);
        board.landed(2);
        assert_eq!(board.outstanding().count(), 0);
    }
}
