//! Where the next I/O goes, and whether it reads: one multiplication for both.

use anyhow::{Result, bail};

use super::{Kind, Options};

/// Multiplier and increment of Knuth's MMIX generator, whose high bits pass as random (The Art of
/// Computer Programming, volume 2, section 3.3.4).
const MULTIPLIER: u64 = 6_364_136_223_846_793_005;
const INCREMENT: u64 = 1_442_695_040_888_963_407;

/// Of 65536, those that read in a mix: 70 %.
const READS: u64 = 45_875;

/// The places of all I/Os, one after the other.
#[derive(Debug, Clone, Copy)]
pub(super) struct Offsets {
    state: u64,
    /// What is added: 1 in sequence, where the multiplier is 1 too.
    increment: u64,
    multiplier: u64,
    /// Takes the high bits of a random state, or the low ones of a counter.
    shift: u32,
    mask: u64,
    block: u64,
    /// A state's bits below this bring a read.
    reads: u64,
}

impl Offsets {
    /// For a run. The blocks have to be a power of two, two of them at least.
    pub(super) fn new(options: &Options) -> Result<Self> {
        let block = u64::from(options.block.max(1));
        let blocks = options.size / block;
        if !blocks.is_power_of_two() || blocks < 2 {
            bail!("{blocks} blocks are no power of two from 2");
        }
        let random = options.rw != Kind::Read;
        Ok(Self {
            state: if random { INCREMENT } else { u64::MAX },
            increment: if random { INCREMENT } else { 1 },
            multiplier: if random { MULTIPLIER } else { 1 },
            shift: if random { 64 - blocks.trailing_zeros() } else { 0 },
            mask: blocks - 1,
            block,
            reads: match options.rw {
                Kind::Read | Kind::Randread => 1 << 16,
                Kind::Randwrite => 0,
                Kind::Randrw => READS,
            },
        })
    }

    /// The next place in bytes, and whether it is read.
    #[inline]
    pub(super) fn next(&mut self) -> (u64, bool) {
        self.state = self.state.wrapping_mul(self.multiplier).wrapping_add(self.increment);
        let block = (self.state >> self.shift) & self.mask;
        // These bits are none of the block's where there are fewer than 2^28 blocks.
        let choice = (self.state >> 20) & 0xffff;
        (block * self.block, choice < self.reads)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn offsets(rw: Kind, size: u64) -> Result<Offsets> {
        Offsets::new(&Options {
            file: "x".into(),
            size,
            rw,
            block: 4096,
            depth: None,
            batch: 1,
            wait: 1,
            direct: false,
            microseconds: None,
            count: Some(1),
        })
    }

    #[test]
    fn a_sequence_begins_at_the_start_and_wraps() {
        let mut offsets = offsets(Kind::Read, 4 * 4096).unwrap();
        let places: Vec<_> = (0..5).map(|_| offsets.next()).collect();
        let expected = [0, 4096, 8192, 12288, 0].map(|place| (place, true));
        assert_eq!(places, expected);
    }

    #[test]
    fn random_places_are_even_and_seven_of_ten_read() {
        let mut offsets = offsets(Kind::Randrw, 64 * 4096).unwrap();
        let (mut hits, mut reads) = ([0_i32; 64], 0);
        for _ in 0..64_000 {
            let (place, read) = offsets.next();
            assert_eq!(place % 4096, 0);
            hits[usize::try_from(place / 4096).unwrap()] += 1;
            reads += i32::from(read);
        }
        // Six standard deviations of a binomial distribution: 31 and 116.
        assert!(hits.iter().all(|count| (count - 1000).abs() < 190), "{hits:?}");
        assert!((reads - 44_800).abs() < 700, "{reads}");
    }

    #[test]
    fn other_sizes_are_refused() {
        assert!(offsets(Kind::Read, 3 * 4096).is_err());
        assert!(offsets(Kind::Read, 4096).is_err());
    }
}
