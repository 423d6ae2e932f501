//! Seeds of a job's streams of random numbers.
//!
//! Each stream of each worker has its own seed, derived from the job's. No two streams share
//! numbers, and one that draws more or fewer of them moves no other.

use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};

/// The generator of every random choice: its stream for a seed will be the same in ten years.
pub(super) type Random = Xoshiro256PlusPlus;

/// What random numbers are drawn for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stream {
    /// Where I/Os go.
    Offsets = 1,
    /// Which of them are reads.
    Kinds,
    /// How large they are.
    Blocks,
    /// What is written.
    Payload,
    /// Which written blocks repeat, and which block they repeat.
    Repeats,
    /// What repeating blocks are made of: common to all workers.
    Repeated,
    /// When I/Os are due.
    Arrivals,
    /// How simulated disks behave: a stream for each disk.
    Disk,
}

/// The seed of one stream of one worker or disk.
pub(super) fn sub_seed(seed: u64, stream: Stream, index: u64) -> u64 {
    mix(mix(seed ^ mix(stream as u64)) ^ index.wrapping_mul(0xd134_2543_de82_ef95))
}

/// The generator of one stream of one worker or disk.
pub(super) fn random(seed: u64, stream: Stream, index: u64) -> Random {
    Random::seed_from_u64(sub_seed(seed, stream, index))
}

/// A number from 0 to `below - 1`, evenly: the high half of one multiplication (Lemire, "Fast
/// random integer generation in an interval", 2019). Without his rejection step a value's odds
/// are off by less than `below / 2^64`, far under what any run could show.
#[inline]
pub(super) fn draw_below(random: &mut Random, below: u64) -> u64 {
    ((u128::from(random.next_u64()) * u128::from(below)) >> 64) as u64
}

/// The finisher of SplitMix64: a bijection in which every input bit moves every output bit.
#[inline]
pub(super) fn mix(value: u64) -> u64 {
    let value = value.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn no_two_streams_share_a_seed() {
        let streams = [Stream::Offsets, Stream::Kinds, Stream::Blocks, Stream::Payload];
        let mut seen = HashSet::new();
        for seed in 0..50 {
            for stream in streams {
                for index in 0..256 {
                    assert!(seen.insert(sub_seed(seed, stream, index)));
                }
            }
        }
    }

    #[test]
    fn draws_are_even() {
        let mut random = random(1, Stream::Offsets, 0);
        let mut counts = [0_u32; 7];
        for _ in 0..70_000 {
            counts[draw_below(&mut random, 7) as usize] += 1;
        }
        let off = |count: u32| (f64::from(count) - 10_000.0).powi(2) / 10_000.0;
        let chi_square: f64 = counts.into_iter().map(off).sum();
        assert!(chi_square < 22.46, "6 degrees of freedom at 0.001: {chi_square}");
    }
}
