//! The engine's own stripe: one address space over equal members, as RAID 0 maps it.
//!
//! Chunk `k` of the whole lies on member `k mod n` as that member's chunk `k div n`: what md does
//! with members of one size (drivers/md/raid0.c), and dm-stripe always. No kernel layer stands
//! between, so this is the stripe without overhead that others are compared with.

/// The map from an offset of the whole to a member and an offset there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StripeMap {
    chunk_shift: u32,
    members: u64,
    /// `floor(2^64 / members) + 1`: multiplying by it and dropping 64 bits divides by `members`.
    reciprocal: u64,
}

/// The part of an I/O that lies on one member.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Extent {
    /// Which member.
    pub member: u32,
    /// Byte offset on that member.
    pub offset: u64,
    /// Byte offset within the I/O.
    pub at: u32,
    /// Length in bytes.
    pub len: u32,
}

impl StripeMap {
    /// A stripe of `members` disks in chunks of `chunk_bytes`.
    ///
    /// # Panics
    /// With a chunk that is not a power of two of at least 512 bytes, or with fewer members than
    /// two or more than 1024: whoever builds a job has checked that.
    #[must_use]
    pub fn new(chunk_bytes: u64, members: usize) -> Self {
        assert!(chunk_bytes.is_power_of_two() && chunk_bytes >= 512, "a chunk of {chunk_bytes} B");
        assert!((2..=1024).contains(&members), "a stripe of {members} members");
        let members = members as u64;
        Self {
            chunk_shift: chunk_bytes.trailing_zeros(),
            members,
            reciprocal: u64::MAX / members + 1,
        }
    }

    /// Where a byte lies: member, and offset on it.
    #[inline]
    #[must_use]
    pub fn locate(&self, offset: u64) -> (u32, u64) {
        let chunk = offset >> self.chunk_shift;
        // The reciprocal is too large by at most members / 2^64, so the quotient is exact while
        // chunk * members < 2^64: an offset below 2^63 lies in a chunk below 2^54, and there are
        // at most 2^10 members.
        let row = ((u128::from(chunk) * u128::from(self.reciprocal)) >> 64) as u64;
        let member = chunk - row * self.members;
        let within = offset & ((1 << self.chunk_shift) - 1);
        (member as u32, (row << self.chunk_shift) | within)
    }

    /// The parts of an I/O, cut at chunk borders, in the order of the whole.
    #[inline]
    pub fn split(&self, offset: u64, len: u32) -> impl Iterator<Item = Extent> + use<> {
        let map = *self;
        let chunk = 1_u64 << map.chunk_shift;
        let mut at = 0;
        std::iter::from_fn(move || {
            (at < len).then(|| {
                let from = offset + u64::from(at);
                let (member, member_offset) = map.locate(from);
                let room = chunk - (from & (chunk - 1));
                let part = u64::from(len - at).min(room) as u32;
                let extent = Extent { member, offset: member_offset, at, len: part };
                at += part;
                extent
            })
        })
    }

    /// The most parts that an I/O of `len` bytes can fall into, at offsets that are multiples of
    /// `unit`.
    #[must_use]
    pub fn parts_max(&self, len: u32, unit: u64) -> usize {
        let chunk = 1_u64 << self.chunk_shift;
        // A chunk is a power of two, so what both divide is one too.
        let common = 1_u64 << unit.trailing_zeros().min(self.chunk_shift);
        // The latest that an I/O can start within a chunk is one such step before its end.
        (chunk - common + u64::from(len)).div_ceil(chunk).max(1) as usize
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use proptest::prelude::*;

    use super::*;

    const KIB: u64 = 1024;

    #[test]
    fn the_vectors_of_eight_disks() {
        let map = StripeMap::new(256 * KIB, 8);
        assert_eq!(map.locate(0), (0, 0));
        assert_eq!(map.locate(262_144), (1, 0));
        assert_eq!(map.locate(2_097_152), (0, 262_144));
    }

    #[test]
    fn the_vectors_of_the_zone_that_all_members_have() {
        // In units of 512 bytes: 8 to a chunk, 4 members.
        let map = StripeMap::new(8 * 512, 4);
        for (sector, member, offset) in [(0, 0, 0), (31, 3, 7), (63, 3, 15)] {
            assert_eq!(map.locate(sector * 512), (member, offset * 512));
        }
    }

    #[test]
    fn every_chunk_is_mapped_once_and_none_is_left_out() {
        for members in [2, 3, 5, 7, 8, 128] {
            let map = StripeMap::new(4 * KIB, members);
            let rows = 9;
            let mut seen = HashSet::new();
            for chunk in 0..members as u64 * rows {
                let (member, offset) = map.locate(chunk * 4 * KIB);
                assert!((member as usize) < members && offset < rows * 4 * KIB);
                assert!(seen.insert((member, offset)));
            }
        }
    }

    #[test]
    fn an_io_over_a_border_is_cut_there() {
        let map = StripeMap::new(4 * KIB, 3);
        let parts: Vec<_> = map.split(2 * KIB, 8 * 1024).collect();
        let expected = [(0, 2048, 0, 2048), (1, 0, 2048, 4096), (2, 0, 6144, 2048)];
        let expected = expected.map(|(member, offset, at, len)| Extent { member, offset, at, len });
        assert_eq!(parts, expected);
        assert_eq!(map.parts_max(8 * 1024, 512), 3);
        assert_eq!(map.parts_max(8 * 1024, 4096), 2, "whole chunks");
        assert_eq!(map.parts_max(1, 1), 1);
        assert_eq!(map.parts_max(2, 1), 2);
    }

    proptest! {
        #[test]
        fn the_map_is_division(
            shift in 9_u32..21, members in 2_usize..=1024, offset in 0_u64..(1 << 63),
        ) {
            let chunk = 1_u64 << shift;
            let map = StripeMap::new(chunk, members);
            let (number, n) = (offset / chunk, members as u64);
            let expected = ((number % n) as u32, number / n * chunk + offset % chunk);
            prop_assert_eq!(map.locate(offset), expected);
        }

        #[test]
        fn parts_are_the_whole(
            shift in 9_u32..17, members in 2_usize..40, offset in 0_u64..(1 << 40),
            len in 1_u32..2_000_000,
        ) {
            let map = StripeMap::new(1 << shift, members);
            let mut at = 0;
            let mut parts = 0;
            for part in map.split(offset, len) {
                prop_assert_eq!(part.at, at);
                prop_assert!(part.len > 0 && part.len <= 1 << shift);
                prop_assert_eq!((part.member, part.offset), map.locate(offset + u64::from(at)));
                at += part.len;
                parts += 1;
            }
            prop_assert_eq!(at, len);
            prop_assert!(parts <= map.parts_max(len, 1));
        }
    }
}
