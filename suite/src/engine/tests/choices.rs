//! What comes next, against what was asked for: shares, spread, coverage, amounts.

use std::collections::{HashMap, HashSet};

use proptest::prelude::*;

use super::*;
use crate::engine::offsets::Positions;
use crate::engine::requests::{Amount, Request, Source, source};
use crate::measure::IoKind;

fn draw(source: &mut dyn Source, count: usize) -> Vec<Request> {
    let mut out = vec![Request::FLUSH; count];
    // In pieces of odd sizes, as a worker asks for them.
    out.chunks_mut(7).for_each(|piece| source.fill(piece));
    out
}

pub(super) fn first(job: &Job, count: usize) -> Vec<Request> {
    of_worker(job, 0, count)
}

pub(super) fn of_worker(job: &Job, worker: u32, count: usize) -> Vec<Request> {
    draw(&mut *source(job, worker, &Positions::default()), count)
}

pub(super) fn blocks(len: u64, count: u64) -> Job {
    let mut job = job();
    job.blocks = vec![Mix { block: Bytes(len), weight: 1 }];
    (job.granularity, job.start, job.len) = (Bytes(len), 3 * len, len * count);
    job
}

pub(super) fn mixed(weights: &[(u64, u32)]) -> Job {
    let mut job = blocks(4096, 1000);
    job.blocks = weights
        .iter()
        .map(|(block, weight)| Mix { block: Bytes(*block), weight: *weight })
        .collect();
    job
}

fn chi_square(counts: impl IntoIterator<Item = u64>, expected: f64) -> f64 {
    counts.into_iter().map(|count| (count as f64 - expected).powi(2) / expected).sum()
}

#[test]
fn random_offsets_are_whole_blocks_of_the_region_evenly() {
    let job = blocks(4096, 100);
    let mut counts = vec![0; 100];
    for request in first(&job, 100_000) {
        assert_eq!((request.len, request.kind), (4096, IoKind::Read));
        let block = request.offset / 4096 - 3;
        assert_eq!(request.offset % 4096, 0);
        counts[block as usize] += 1;
    }
    let off = chi_square(counts, 1000.0);
    assert!(off < 148.2, "99 degrees of freedom at 0.001: {off}");
}

#[test]
fn random_offsets_of_a_large_region_follow_the_even_distribution() {
    let job = blocks(4096, 1 << 40);
    let mut places: Vec<f64> = first(&job, 50_000)
        .into_iter()
        .map(|request| (request.offset / 4096 - 3) as f64 / (1_u64 << 40) as f64)
        .collect();
    places.sort_by(f64::total_cmp);
    let n = places.len() as f64;
    let off = places.iter().enumerate().map(|(rank, place)| (place - rank as f64 / n).abs());
    let off = off.fold(0.0, f64::max);
    assert!(off < 1.95 / n.sqrt(), "Kolmogorov and Smirnov at 0.001: {off}");
}

#[test]
fn successive_offsets_know_nothing_of_each_other() {
    let job = blocks(4096, 10);
    let mut pairs = vec![0; 100];
    for pair in first(&job, 100_000).chunks(2) {
        let [a, b] = [pair[0], pair[1]].map(|request| request.offset / 4096 - 3);
        pairs[(a * 10 + b) as usize] += 1;
    }
    let off = chi_square(pairs, 500.0);
    assert!(off < 148.2, "99 degrees of freedom at 0.001: {off}");
}

#[test]
fn reads_have_exactly_their_share() {
    for percent in 0..=100 {
        let mut job = job();
        job.read_percent = percent;
        let requests = first(&job, 1000);
        let reads = requests.iter().filter(|request| request.kind == IoKind::Read).count();
        assert_eq!(reads, 10 * usize::from(percent));
    }
}

#[test]
fn block_sizes_have_exactly_their_shares() {
    let job = mixed(&[(4096, 60), (16_384, 39), (65_536, 1)]);
    let mut counts = HashMap::new();
    for request in first(&job, 2000) {
        *counts.entry(u64::from(request.len)).or_insert(0) += 1;
        let end = request.offset + u64::from(request.len);
        assert!(request.offset >= job.start && end <= job.start + job.len);
        assert_eq!(request.offset % 4096, 0);
    }
    assert_eq!(counts, HashMap::from([(4096, 1200), (16_384, 780), (65_536, 20)]));
}

#[test]
fn kinds_and_sizes_come_in_random_order_and_apart_from_each_other() {
    let mut job = mixed(&[(4096, 1), (8192, 1)]);
    job.read_percent = 50;
    let mut counts = [0; 4];
    let mut runs = 0;
    let requests = first(&job, 40_000);
    for pair in requests.windows(2) {
        let read = usize::from(pair[0].kind == IoKind::Read);
        counts[read * 2 + usize::from(pair[0].len == 4096)] += 1;
        runs += u32::from(pair[0].kind != pair[1].kind);
    }
    let off = chi_square(counts, 10_000.0);
    assert!(off < 16.3, "3 degrees of freedom at 0.001: {off}");
    // Half of all neighbours differ, and a few more in decks that must come out even.
    assert!((19_500..20_900).contains(&runs), "{runs} changes");
}

#[test]
fn rounds_and_workers_go_different_ways() {
    let job = blocks(4096, 1 << 30);
    let positions = Positions::default();
    let mut seen = HashSet::new();
    for seed in 0..4 {
        for worker in 0..8 {
            let job = Job { seed, workers: 8, ..job.clone() };
            let way = draw(&mut *source(&job, worker, &positions), 16);
            assert!(seen.insert(way.iter().map(|request| request.offset).collect::<Vec<_>>()));
        }
    }
    assert_eq!(first(&job, 100), first(&job, 100));
}

#[test]
fn sequential_goes_block_by_block_and_starts_over() {
    let mut job = blocks(4096, 5);
    job.random = false;
    let offsets: Vec<u64> = first(&job, 12).iter().map(|request| request.offset / 4096).collect();
    assert_eq!(offsets, [3, 4, 5, 6, 7, 3, 4, 5, 6, 7, 3, 4]);
}

#[test]
fn each_direction_has_a_position_of_its_own() {
    let mut job = blocks(4096, 5);
    (job.random, job.read_percent) = (false, 30);
    for workers in [1, 2] {
        job.workers = workers;
        let mut next = [0, 0];
        for request in first(&job, 1000) {
            let next = &mut next[usize::from(request.kind == IoKind::Write)];
            assert_eq!(request.offset / 4096, 3 + *next % 5);
            *next += 1;
        }
        assert_eq!(next, [300, 700]);
    }
}

/// What several workers draw, in turns of uneven length.
fn together(job: &Job, count: usize) -> Vec<Request> {
    let positions = Positions::default();
    let mut sources: Vec<_> =
        (0..job.workers).map(|worker| source(job, worker, &positions)).collect();
    let mut all = Vec::new();
    for turn in 0.. {
        let one = turn % sources.len();
        let some = (turn * turn % 5 + 1).min(count - all.len());
        all.extend(draw(&mut *sources[one], some));
        if all.len() == count {
            break;
        }
    }
    all
}

#[test]
fn workers_share_a_sequence() {
    let mut job = blocks(4096, 7);
    (job.random, job.workers) = (false, 3);
    for (turn, request) in together(&job, 100).iter().enumerate() {
        assert_eq!(request.offset / 4096, 3 + turn as u64 % 7);
    }
}

#[test]
fn workers_share_a_sequence_of_several_sizes_without_gap_or_overlap() {
    let mut job = mixed(&[(4096, 2), (12_288, 1)]);
    (job.random, job.workers) = (false, 3);
    job.len = 4096 * 10;
    let mut next = job.start;
    for request in together(&job, 500) {
        let len = u64::from(request.len);
        let expected = if next + len > job.start + job.len { job.start } else { next };
        assert_eq!(request.offset, expected);
        next = expected + len;
    }
}

#[test]
fn partitions_are_equal_and_apart() {
    let mut job = blocks(4096, 10);
    (job.partitioned, job.workers) = (true, 3);
    for random in [false, true] {
        job.random = random;
        for worker in 0..3 {
            let own = draw(&mut *source(&job, worker, &Positions::default()), 300);
            let blocks: HashSet<u64> = own.iter().map(|request| request.offset / 4096).collect();
            let start = 3 + 3 * u64::from(worker);
            assert_eq!(blocks, (start..start + 3).collect());
        }
    }
}

#[test]
fn once_is_each_block_once_in_a_pass() {
    for workers in [1, 3] {
        let mut job = blocks(4096, 101);
        (job.once, job.workers, job.read_percent) = (true, workers, 50);
        let mut orders = HashSet::new();
        for pass in together(&job, 5 * 101).chunks(101) {
            let order: Vec<u64> = pass.iter().map(|request| request.offset / 4096 - 3).collect();
            assert_eq!(order.iter().copied().collect::<HashSet<_>>(), (0..101).collect());
            assert!(orders.insert(order), "two passes in one order");
        }
    }
}

#[test]
fn once_in_partitions_is_each_block_of_the_partition_once() {
    let mut job = blocks(4096, 100);
    (job.once, job.partitioned, job.workers) = (true, true, 4);
    let positions = Positions::default();
    for worker in 0..4 {
        let mut own = source(&job, worker, &positions);
        for _ in 0..3 {
            let pass: HashSet<u64> =
                draw(&mut *own, 25).iter().map(|request| request.offset / 4096 - 3).collect();
            let start = 25 * u64::from(worker);
            assert_eq!(pass, (start..start + 25).collect());
        }
    }
}

#[test]
fn a_flush_comes_after_every_so_many_writes() {
    let mut job = job();
    (job.read_percent, job.flush_every) = (40, Some((3, Flush::Fsync)));
    let mut writes = 0;
    let mut flushes = 0;
    for request in first(&job, 1000) {
        match request.kind {
            IoKind::Write => writes += 1,
            IoKind::Sync => {
                assert_eq!((request.len, writes), (0, 3));
                (writes, flushes) = (0, flushes + 1);
            }
            IoKind::Read | IoKind::Trim => {}
        }
        assert!(writes <= 3);
    }
    assert!(flushes > 160);
}

fn within(job: &Job, amount: u64) -> Vec<Request> {
    let amount = Amount::new(amount);
    let mut source = source(job, 0, &Positions::default());
    let mut all = Vec::new();
    loop {
        let mut out = [Request::FLUSH; 7];
        let filled = source.fill_within(&amount, &mut out);
        all.extend_from_slice(&out[..filled]);
        if filled < out.len() {
            return all;
        }
    }
}

#[test]
fn an_amount_is_moved_exactly_by_workers_at_once() {
    let mut job = mixed(&[(4096, 3), (65_536, 1)]);
    job.workers = 4;
    let total = 4096 * 10_007;
    let amount = Amount::new(total + 4095);
    let positions = Positions::default();
    let moved: u64 = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..4)
            .map(|worker| {
                let mut source = source(&job, worker, &positions);
                let amount = &amount;
                scope.spawn(move || {
                    let mut out = [Request::FLUSH; 5];
                    let mut bytes = 0;
                    loop {
                        let filled = source.fill_within(amount, &mut out);
                        bytes += out[..filled].iter().map(|r| u64::from(r.len)).sum::<u64>();
                        if filled < out.len() {
                            return bytes;
                        }
                    }
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).sum()
    });
    assert_eq!(moved, total);
}

#[test]
fn an_amount_of_so_many_passes_visits_every_block_so_often_in_partitions_too() {
    let mut job = blocks(4096, 120);
    (job.once, job.workers, job.length) = (true, 4, Length::Bytes(Bytes(3 * 120 * 4096)));
    for partitioned in [false, true] {
        job.partitioned = partitioned;
        let (amounts, positions) = (Amount::of(&job), Positions::default());
        let mut visits = HashMap::new();
        // The last worker comes first, and takes all that it is given.
        for worker in (0..4).rev() {
            let amount = &amounts[worker as usize % amounts.len()];
            let mut out = [Request::FLUSH; 400];
            let filled = source(&job, worker, &positions).fill_within(amount, &mut out);
            out[..filled]
                .iter()
                .for_each(|request| *visits.entry(request.offset).or_insert(0) += 1);
        }
        assert_eq!(visits.len(), 120);
        assert!(visits.values().all(|visits| *visits == 3));
    }
}

#[test]
fn partitions_share_an_amount_in_whole_blocks() {
    let mut job = mixed(&[(4096, 1), (8192, 1)]);
    (job.partitioned, job.workers) = (true, 3);
    for (bytes, blocks) in [(4096 * 11 + 7, [4, 4, 3]), (4096 * 2, [1, 1, 0]), (100, [0, 0, 0])] {
        job.length = Length::Bytes(Bytes(bytes));
        let amounts = Amount::of(&job);
        let shares: Vec<usize> = amounts
            .iter()
            .zip(0..)
            .map(|(amount, worker)| {
                let mut out = [Request::FLUSH; 20];
                let filled =
                    source(&job, worker, &Positions::default()).fill_within(amount, &mut out);
                out[..filled].iter().map(|request| request.len as usize / 4096).sum()
            })
            .collect();
        assert_eq!(shares, blocks);
    }
}

#[test]
fn an_amount_below_one_block_is_none() {
    assert_eq!(within(&blocks(4096, 10), 4095), []);
}

proptest! {
    #[test]
    fn an_amount_is_rounded_down_to_whole_blocks(
        amount in 0_u64..10_000_000, sizes in prop::collection::vec(1_u64..40, 1..4),
        flush in prop::option::of(1_u32..5), percent in 0_u8..=100,
    ) {
        let smallest = 4096;
        let mut weights: Vec<_> = sizes.iter().map(|size| (size * smallest, 2)).collect();
        weights.push((smallest, 1));
        let mut job = mixed(&weights);
        job.flush_every = flush.map(|every| (every, Flush::Fdatasync));
        job.read_percent = percent;
        let moved: u64 = within(&job, amount).iter().map(|request| u64::from(request.len)).sum();
        prop_assert_eq!(moved, amount / smallest * smallest);
    }
}
