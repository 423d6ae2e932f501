//! Favoured places, against the exact odds of each.

use proptest::prelude::*;

use super::choices::{blocks, first, mixed};
use super::*;
use crate::engine::access::{Around, CHUNKS_MAX, Ranks, scatter};
use crate::engine::requests::Request;
use crate::engine::seed::{Stream, random};

const DRAWS: u64 = 100_000;

/// The largest number of places: of 512 bytes, of the largest region.
const MOST: u64 = 1 << 54;

/// Kolmogorov and Smirnov at 0.001, of so many draws.
fn ks_limit(draws: u64) -> f64 {
    1.95 / (draws as f64).sqrt()
}

/// The quantile of chi square at 0.001 (Wilson and Hilferty, 1931).
fn chi_square_limit(degrees: f64) -> f64 {
    let spread = 2.0 / (9.0 * degrees);
    degrees * (1.0 - spread + 3.0902 * spread.sqrt()).powi(3)
}

/// How far counts are from shares. Neighbours that are too rare are taken together.
fn assert_shares(counts: &[u64], shares: &[f64], what: &str) {
    let (total, sum) = (counts.iter().sum::<u64>() as f64, shares.iter().sum::<f64>());
    let mut cells = vec![(0.0, 0.0)];
    for (count, share) in counts.iter().zip(shares) {
        if cells[cells.len() - 1].1 >= 20.0 {
            cells.push((0.0, 0.0));
        }
        let last = cells.len() - 1;
        cells[last].0 += *count as f64;
        cells[last].1 += share / sum * total;
    }
    let last = cells.len() - 1;
    if last > 0 && cells[last].1 < 20.0 {
        let (count, expected) = cells.remove(last);
        cells[last - 1] = (cells[last - 1].0 + count, cells[last - 1].1 + expected);
    }
    assert!(cells.len() > 1, "{what}: one cell shows nothing");
    let off: f64 = cells.iter().map(|(count, share)| (count - share).powi(2) / share).sum();
    let limit = chi_square_limit((cells.len() - 1) as f64);
    assert!(off < limit, "{what}: chi square {off} of {} cells, {limit} at 0.001", cells.len());
}

/// The largest distance between what was drawn and its cumulative shares: `below(x)` is the share
/// of all that is less than `x`.
fn assert_cumulative(mut drawn: Vec<u64>, below: impl Fn(u64) -> f64, what: &str) {
    drawn.sort_unstable();
    let n = drawn.len() as f64;
    let mut off = 0.0_f64;
    let mut rank = 0;
    for run in drawn.chunk_by(|a, b| a == b) {
        let (before, after) = (rank as f64 / n, (rank + run.len()) as f64 / n);
        rank += run.len();
        off = off.max((before - below(run[0])).abs()).max((after - below(run[0] + 1)).abs());
    }
    let limit = ks_limit(drawn.len() as u64);
    assert!(off < limit, "{what}: {off} off, {limit} at 0.001");
}

fn drawn(ranks: &Ranks) -> Vec<u64> {
    let mut random = random(5, Stream::Offsets, 0);
    (0..DRAWS).map(|_| ranks.draw(&mut random)).collect()
}

/// Sums of `1 / k^theta`: the first 256 one by one, the rest by Euler and Maclaurin.
struct Harmonic {
    theta: f64,
    alone: Vec<f64>,
}

impl Harmonic {
    fn new(theta: f64) -> Self {
        let add = |sum: &mut f64, k: i32| {
            *sum += f64::from(k).powf(-theta);
            Some(*sum)
        };
        Self { theta, alone: std::iter::once(0.0).chain((1..=256).scan(0.0, add)).collect() }
    }

    fn sum(&self, count: u64) -> f64 {
        let last = self.alone.len() - 1;
        if count as usize <= last {
            return self.alone[count as usize];
        }
        let (theta, a, b) = (self.theta, last as f64, count as f64);
        let integral = if (theta - 1.0).abs() < 1e-12 {
            (b / a).ln()
        } else {
            (b.powf(1.0 - theta) - a.powf(1.0 - theta)) / (1.0 - theta)
        };
        let ends = (b.powf(-theta) - a.powf(-theta)) / 2.0;
        let slopes = -theta * (b.powf(-theta - 1.0) - a.powf(-theta - 1.0)) / 12.0;
        self.alone[last] + integral + ends + slopes
    }
}

/// The share of a normal distribution below `x` (Marsaglia, "Evaluating the normal distribution",
/// 2004).
fn below_normal(x: f64) -> f64 {
    if x.abs() > 7.0 {
        return f64::from(u8::from(x > 0.0));
    }
    let (mut sum, mut term, mut k) = (x, x, 1.0);
    while term.abs() > f64::EPSILON / 8.0 {
        k += 2.0;
        term *= x * x / k;
        sum += term;
    }
    0.5 + sum * (-0.5 * x * x).exp() / std::f64::consts::TAU.sqrt()
}

/// How often each place of a small region is asked for.
fn counts(job: &Job, count: usize) -> Vec<u64> {
    let mut counts = vec![0; (job.len / job.granularity.0) as usize];
    for request in first(job, count) {
        assert_eq!((request.offset - job.start) % job.granularity.0, 0);
        counts[((request.offset - job.start) / job.granularity.0) as usize] += 1;
    }
    counts
}

/// By rank, where a job has the counts by place.
fn by_rank(counts: &[u64]) -> Vec<u64> {
    let order = scatter(counts.len() as u64);
    (0..counts.len() as u64).map(|rank| counts[order.at(rank) as usize]).collect()
}

fn with(access: Access, count: u64) -> Job {
    Job { access, ..blocks(4096, count) }
}

#[test]
fn zipf_gives_each_block_its_exact_share() {
    for count in [1, 2, 513, 3000, 70_000] {
        for theta in [0.01, 0.99, 1.0, 1.1, 2.5, 10.0] {
            let found = counts(&with(Access::Zipf(theta), count), DRAWS as usize);
            let shares: Vec<_> = (1..=count).map(|k| (k as f64).powf(-theta)).collect();
            if count > 1 && theta < 5.0 {
                assert_shares(&by_rank(&found), &shares, &format!("{theta} of {count}"));
            } else {
                let share = found[scatter(count).at(0) as usize] as f64 / DRAWS as f64;
                let expected = 1.0 / Harmonic::new(theta).sum(count);
                assert!((share - expected).abs() < 0.01, "{share} for {expected}");
            }
        }
    }
}

#[test]
fn zipf_holds_over_any_region() {
    for count in [1 << 20, 1_000_000_007, 1 << 28, 1 << 40, MOST] {
        for theta in [0.1, 0.8, 1.0, 1.1, 3.0] {
            let harmonic = Harmonic::new(theta);
            let below = |rank| harmonic.sum(rank) / harmonic.sum(count);
            let drawn = drawn(&Ranks::zipf(count, theta));
            assert_cumulative(drawn, below, &format!("{theta} of {count}"));
        }
    }
}

#[test]
fn pareto_holds_over_any_region() {
    for count in [1, 100, 70_000, 1 << 28, MOST] {
        for h in [0.01, 0.1, 0.2, 0.5] {
            let q = (1.0_f64 - h).ln() / f64::ln(h);
            let below = |rank: u64| (rank as f64 / count as f64).powf(q);
            assert_cumulative(drawn(&Ranks::pareto(count, h)), below, &format!("{h} of {count}"));
        }
    }
    let shares: Vec<_> = (0..5000)
        .map(|rank| [rank, rank + 1].map(|x| (f64::from(x) / 5000.0).powf(0.8_f64.log(0.2))))
        .map(|[from, to]| to - from)
        .collect();
    let found = counts(&with(Access::Pareto(0.2), 5000), DRAWS as usize);
    assert_shares(&by_rank(&found), &shares, "0.2 of 5000");
}

/// That so many of so many are within the binomial bounds of a share at 0.001.
fn assert_binomial(hits: u64, of: u64, share: f64) {
    let (expected, deviation) = (share * of as f64, (share * (1.0 - share) * of as f64).sqrt());
    let off = (hits as f64 - expected).abs();
    assert!(off < 3.2905 * deviation, "{hits} of {of} for {share}");
}

#[test]
fn pareto_gives_a_fifth_of_the_blocks_four_fifths_and_so_on_within() {
    let count = 5_u64.pow(12);
    let drawn = drawn(&Ranks::pareto(count, 0.2));
    for level in 1..8 {
        let first = count / 5_u64.pow(level);
        let hits = drawn.iter().filter(|rank| **rank < first).count() as u64;
        assert_binomial(hits, DRAWS, 0.8_f64.powi(level.cast_signed()));
    }
}

#[test]
fn normal_is_around_the_middle_and_cut_off_at_the_ends() {
    for count in [1, 2, 7, 100, 5000, 1_000_003, 1 << 40, MOST] {
        for percent in [0.1, 10.0, 33.3, 100.0] {
            let around = Around::new(count, percent);
            let mut random = random(6, Stream::Offsets, 0);
            let drawn: Vec<_> = (0..DRAWS).map(|_| around.draw(&mut random)).collect();
            assert!(drawn.iter().all(|place| *place < count));
            let end = 50.0 / percent;
            let (low, high) = (below_normal(-end), below_normal(end));
            let below = |place: u64| {
                let x = (place as f64 / count as f64 - 0.5) * 100.0 / percent;
                (below_normal(x) - low) / (high - low)
            };
            assert_cumulative(drawn, below, &format!("{percent} % of {count}"));
        }
    }
    let shares: Vec<_> = (0..200)
        .map(|place| [place, place + 1].map(|x| below_normal((f64::from(x) - 100.0) / 20.0)))
        .map(|[from, to]| to - from)
        .collect();
    let found = counts(&with(Access::Normal(10.0), 200), DRAWS as usize);
    assert_shares(&found, &shares, "10 % of 200");
}

#[test]
fn the_hot_part_is_at_the_start_and_has_its_share() {
    for (ios, region) in [(90, 10), (80, 20), (99, 1), (2, 1), (60, 30)] {
        let access = Access::Hot { ios, region };
        let found = counts(&with(access, 1000), DRAWS as usize);
        let hot = 10 * usize::from(region);
        let hits = found[..hot].iter().sum();
        assert_binomial(hits, DRAWS, f64::from(ios) / 100.0);
        assert_shares(&found[..hot], &vec![1.0; hot], "within the hot part");
        assert_shares(&found[hot..], &vec![1.0; 1000 - hot], "within the rest");
        // Each worker has one in its own part.
        let job = Job { partitioned: true, workers: 4, ..with(access, 4000) };
        let part = job.len / 4;
        for worker in 0..4 {
            let start = job.start + u64::from(worker) * part;
            let own = choices::of_worker(&job, worker, 20_000);
            let inside =
                |request: &&Request| request.offset - start < part / 100 * u64::from(region);
            let hits = own.iter().filter(inside).count() as u64;
            assert_binomial(hits, 20_000, f64::from(ios) / 100.0);
        }
    }
    // The smallest regions that have both parts, and the one that can't.
    let hot = Access::Hot { ios: 90, region: 10 };
    assert_binomial(counts(&with(hot, 2), DRAWS as usize)[0], DRAWS, 0.9);
    assert_eq!(counts(&with(hot, 1), 100), [100]);
}

#[test]
fn frequent_blocks_are_no_neighbours_and_the_same_for_all() {
    let job = with(Access::Zipf(1.1), 1 << 20);
    let most = |job: &Job, worker| {
        let mut counts = std::collections::HashMap::new();
        for request in choices::of_worker(job, worker, DRAWS as usize) {
            *counts.entry(request.offset).or_insert(0) += 1;
        }
        let mut counts: Vec<(u64, u32)> = counts.into_iter().collect();
        counts.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
        let mut offsets: Vec<_> = counts[..8].iter().map(|(offset, _)| *offset).collect();
        offsets.sort_unstable();
        offsets
    };
    let hot = most(&job, 0);
    assert!(hot.windows(2).all(|pair| pair[1] - pair[0] > 64 * 4096), "{hot:?}");
    assert!(hot[0] < job.start + job.len / 2 && hot[7] > job.start + job.len / 2, "{hot:?}");
    let other = Job { seed: 99, workers: 3, ..job };
    assert_eq!(most(&other, 2), hot);
}

#[test]
fn successive_places_know_nothing_of_each_other() {
    let job = with(Access::Zipf(0.5), 6);
    let mut pairs = vec![0; 36];
    for pair in first(&job, 2 * DRAWS as usize).chunks(2) {
        let [a, b] = [0, 1].map(|one: usize| pair[one].offset / 4096 - 3);
        pairs[(a * 6 + b) as usize] += 1;
    }
    let mut share = [0.0; 6];
    for rank in 0..6 {
        share[scatter(6).at(rank) as usize] = (rank as f64 + 1.0).powf(-0.5);
    }
    let shares: Vec<_> = share.iter().flat_map(|a| share.map(|b| a * b)).collect();
    assert_shares(&pairs, &shares, "pairs");
}

#[test]
fn a_table_is_small_whatever_the_region() {
    for bits in 0..=54 {
        for count in [(1_u64 << bits) - u64::from(bits > 0), 1 << bits] {
            let chunks = Ranks::zipf(count, 1.1).chunks();
            assert!(chunks <= CHUNKS_MAX && chunks as u64 <= count, "{chunks} of {count}");
        }
    }
}

fn any_access() -> impl Strategy<Value = Access> {
    prop_oneof![
        (0.01_f64..10.0).prop_map(Access::Zipf),
        (0.01_f64..=0.5).prop_map(Access::Pareto),
        (0.1_f64..=100.0).prop_map(Access::Normal),
        (1_u8..=99, 1_u8..=99).prop_map(|(ios, region)| Access::Hot { ios, region }),
    ]
}

proptest! {
    #[test]
    fn the_region_is_never_left(
        access in any_access(), sizes in prop::collection::vec(1_u64..9, 1..4), seed: u64,
        count in prop_oneof![30_u64..100, 30_u64..1_000_000, 30_u64..1 << 50], partitioned: bool,
    ) {
        let sizes = sizes.iter().chain([&1]);
        let weights: Vec<_> = sizes.map(|size| (size * 4096, 1)).collect();
        let mut job = mixed(&weights);
        (job.access, job.seed, job.len) = (access, seed, count * 4096);
        (job.workers, job.partitioned) = (3, partitioned);
        for worker in 0..3 {
            let region = crate::engine::offsets::Region::of(&job, worker);
            for request in choices::of_worker(&job, worker, 200) {
                prop_assert_eq!(request.offset % 4096, 0);
                prop_assert!(request.offset >= region.start);
                let end = request.offset + u64::from(request.len);
                prop_assert!(end <= region.start + region.len);
            }
        }
    }
}
