//! An order of all numbers below a count in which each comes exactly once, without a table.

use super::seed::mix;

/// A bijection of `0..count` that a seed decides.
///
/// An alternating Feistel network over the smallest power of two that holds the count: the upper
/// bits are xored with a hash of the lower ones, then the lower with one of the upper, and each
/// such step undoes itself. A result beyond the count goes through again until it is within
/// (cycle walking; Black and Rogaway, "Ciphers with arbitrary finite domains", 2002). The walk
/// ends, since it can't leave the cycle on which it began, and takes fewer than two turns on
/// average, since more than half of the power of two is within the count.
#[derive(Debug, Clone, Copy)]
pub struct Permutation {
    count: u64,
    low_bits: u32,
    low_mask: u64,
    high_mask: u64,
    keys: [u64; ROUNDS],
}

/// Four rounds make a Feistel network a pseudo-random permutation (Luby and Rackoff, 1988); two
/// more, since on few bits the halves are small.
const ROUNDS: usize = 6;

impl Permutation {
    /// The bijection of `0..count` for this seed.
    ///
    /// # Panics
    /// With a count of 0, which has no numbers to order.
    #[must_use]
    pub fn new(count: u64, seed: u64) -> Self {
        assert!(count > 0, "an order of no numbers");
        let bits = 64 - (count - 1).leading_zeros();
        let low_bits = bits / 2;
        let mut key = seed;
        Self {
            count,
            low_bits,
            low_mask: (1 << low_bits) - 1,
            high_mask: (1 << (bits - low_bits)) - 1,
            keys: std::array::from_fn(|_| {
                key = mix(key);
                key
            }),
        }
    }

    /// The number at `index` of the order; `index` is below the count.
    #[inline]
    #[must_use]
    pub fn at(&self, index: u64) -> u64 {
        debug_assert!(index < self.count);
        let mut value = index;
        loop {
            value = self.turn(value);
            if value < self.count {
                return value;
            }
        }
    }

    #[inline]
    fn turn(&self, value: u64) -> u64 {
        let (mut low, mut high) = (value & self.low_mask, value >> self.low_bits);
        for pair in self.keys.chunks_exact(2) {
            high ^= hash(low ^ pair[0]) & self.high_mask;
            low ^= hash(high ^ pair[1]) & self.low_mask;
        }
        (high << self.low_bits) | low
    }
}

/// One multiplication and a fold, so that the low bits depend on all others.
#[inline]
fn hash(value: u64) -> u64 {
    let value = value.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (value ^ (value >> 32)).wrapping_mul(0xd134_2543_de82_ef95) >> 32
}

#[cfg(test)]
mod tests {
    use super::super::seed::{Random, Stream, draw_below, random};
    use super::*;

    fn assert_bijection(count: u64, seed: u64) {
        let order = Permutation::new(count, seed);
        let mut taken = vec![false; count as usize];
        for index in 0..count {
            let value = order.at(index) as usize;
            assert!(!taken[value], "{value} comes twice of {count} with seed {seed}");
            taken[value] = true;
        }
    }

    #[test]
    fn every_count_to_4096_is_covered_once() {
        for count in 1..=4096 {
            assert_bijection(count, count.wrapping_mul(0x1234_5678_9abc_def1));
        }
    }

    #[test]
    fn random_counts_are_covered_once() {
        let mut random: Random = random(7, Stream::Offsets, 0);
        for seed in 0..20 {
            assert_bijection(4096 + draw_below(&mut random, 200_000), seed);
        }
    }

    #[test]
    fn counts_to_ten_million_are_covered_once() {
        // Without optimisation two hundred of them take ten minutes.
        let counts = if cfg!(debug_assertions) { 4 } else { 200 };
        let mut random: Random = random(8, Stream::Offsets, 0);
        for seed in 0..counts {
            assert_bijection(1 + draw_below(&mut random, 10_000_000), seed);
        }
    }

    #[test]
    fn the_order_is_not_one_that_a_disk_could_use() {
        let order = Permutation::new(100_000, 3);
        let values: Vec<u64> = (0..100_000).map(|index| order.at(index)).collect();
        let neighbours = values.windows(2).filter(|pair| pair[0].abs_diff(pair[1]) <= 8).count();
        // 16 of 100,000 places are that near: 16 pairs are expected, 40 are six deviations off.
        assert!(neighbours < 40, "{neighbours} neighbours");
        let ups = values.windows(2).filter(|pair| pair[0] < pair[1]).count();
        assert!((49_000..51_000).contains(&ups), "{ups} steps upwards");
        // Each tenth of the order is spread over all of the range.
        for tenth in values.chunks(10_000) {
            let mut counts = [0_u32; 10];
            for value in tenth {
                counts[(value / 10_000) as usize] += 1;
            }
            let off = |count: u32| (f64::from(count) - 1000.0).powi(2) / 1000.0;
            let chi_square: f64 = counts.into_iter().map(off).sum();
            assert!(chi_square < 33.7, "9 degrees of freedom at 0.0001: {chi_square}");
        }
    }

    #[test]
    fn seeds_give_different_orders() {
        let of = |seed| {
            let order = Permutation::new(1000, seed);
            (0..1000).map(|index| order.at(index)).collect::<Vec<_>>()
        };
        assert_eq!(of(1), of(1));
        let same = of(1).iter().zip(of(2)).filter(|(a, b)| **a == *b).count();
        assert!(same < 12, "{same} of 1000 at the same place");
    }
}
