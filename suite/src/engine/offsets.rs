//! Where the next I/O goes.
//!
//! A sequential mix of reads and writes keeps a position for each direction, as fio does (its
//! `last_pos` of each direction): both walk the whole region, each at its own pace.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use super::permutation::Permutation;
use super::requests::Request;
use super::seed::{Random, Stream, draw_below, mix, random, sub_seed};
use crate::engine::Job;
use crate::measure::IoKind;

/// A counter that workers share, on a cache line of its own.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(super) struct Counter(AtomicU64);

/// The positions that all workers of a job share: of reads, and of writes.
pub(super) type Positions = Arc<[Counter; 2]>;

/// Chooses offsets.
pub(super) trait Place {
    /// The offset of the next I/O, of the block size with this index, to be read or written.
    fn place(&mut self, block: usize, write: bool) -> u64;

    /// Sets the offset of each of these, whose kinds are set, and which are of the one block size
    /// that there is.
    #[inline]
    fn place_all(&mut self, requests: &mut [Request]) {
        for request in requests {
            request.offset = self.place(0, request.kind != IoKind::Read);
        }
    }
}

/// The part of the storage in which a worker works: all of the region, or its own part of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Region {
    pub(super) start: u64,
    pub(super) len: u64,
}

impl Region {
    /// That of one worker. Parts are equal and of whole multiples of the granularity; what is
    /// left over at the end of the region belongs to nobody.
    pub(super) fn of(job: &Job, worker: u32) -> Self {
        if !job.partitioned {
            return Self { start: job.start, len: job.len };
        }
        let granularity = job.granularity.0;
        let len = job.len / granularity / u64::from(job.workers) * granularity;
        Self { start: job.start + u64::from(worker) * len, len }
    }
}

/// Anywhere, evenly over all multiples of the granularity from which the block still fits.
#[derive(Debug)]
pub(super) struct Uniform {
    random: Random,
    start: u64,
    granularity: u64,
    /// For each block size, how many such places there are.
    places: Box<[u64]>,
}

impl Uniform {
    pub(super) fn new(job: &Job, worker: u32) -> Self {
        let region = Region::of(job, worker);
        let places =
            job.blocks.iter().map(|mix| (region.len - mix.block.0) / job.granularity.0 + 1);
        Self {
            random: random(job.seed, Stream::Offsets, u64::from(worker)),
            start: region.start,
            granularity: job.granularity.0,
            places: places.collect(),
        }
    }
}

impl Place for Uniform {
    #[inline]
    fn place(&mut self, block: usize, _: bool) -> u64 {
        self.start + draw_below(&mut self.random, self.places[block]) * self.granularity
    }

    fn place_all(&mut self, requests: &mut [Request]) {
        // Copies are kept in registers.
        let (mut random, places) = (self.random.clone(), self.places[0]);
        for request in requests {
            request.offset = self.start + draw_below(&mut random, places) * self.granularity;
        }
        self.random = random;
    }
}

/// One block behind the other, by one worker alone. A block that would pass the end starts over.
#[derive(Debug)]
pub(super) struct Sequential {
    region: Region,
    sizes: Box<[u64]>,
    next: [u64; 2],
}

impl Sequential {
    pub(super) fn new(job: &Job, worker: u32) -> Self {
        Self { region: Region::of(job, worker), sizes: sizes(job), next: [0; 2] }
    }
}

impl Place for Sequential {
    #[inline]
    fn place(&mut self, block: usize, write: bool) -> u64 {
        let size = self.sizes[block];
        let next = &mut self.next[usize::from(write)];
        let at = if *next + size > self.region.len { 0 } else { *next };
        *next = at + size;
        self.region.start + at
    }
}

/// One block behind the other, whichever worker comes first: blocks of one size.
#[derive(Debug)]
pub(super) struct SharedSequential {
    region: Region,
    size: u64,
    turns: [Turns; 2],
}

impl SharedSequential {
    pub(super) fn new(job: &Job, positions: &Positions) -> Self {
        let size = job.blocks[0].block.0;
        let blocks = job.len / size;
        let turns = [0, 1].map(|write| Turns::new(positions.clone(), write, blocks));
        Self { region: Region::of(job, 0), size, turns }
    }
}

impl Place for SharedSequential {
    #[inline]
    fn place(&mut self, _: usize, write: bool) -> u64 {
        self.region.start + self.turns[usize::from(write)].take().0 * self.size
    }
}

/// One block behind the other, whichever worker comes first: blocks of several sizes.
#[derive(Debug)]
pub(super) struct SharedSequentialMix {
    region: Region,
    sizes: Box<[u64]>,
    positions: Positions,
}

impl SharedSequentialMix {
    pub(super) fn new(job: &Job, positions: &Positions) -> Self {
        Self { region: Region::of(job, 0), sizes: sizes(job), positions: positions.clone() }
    }
}

impl Place for SharedSequentialMix {
    #[inline]
    fn place(&mut self, block: usize, write: bool) -> u64 {
        let size = self.sizes[block];
        let Counter(next) = &self.positions[usize::from(write)];
        let start = |next| if next + size > self.region.len { 0 } else { next };
        let mut seen = next.load(Relaxed);
        // Where a block starts depends on all sizes before it, so that one addition can't do.
        while let Err(now) = next.compare_exchange_weak(seen, start(seen) + size, Relaxed, Relaxed)
        {
            seen = now;
        }
        self.region.start + start(seen)
    }
}

/// Every block of the region once, in random order; then again in another order. Workers that
/// share the region share each pass.
#[derive(Debug)]
pub(super) struct Once {
    region: Region,
    size: u64,
    seed: u64,
    pass: u64,
    order: Permutation,
    turns: Turns,
}

impl Once {
    pub(super) fn new(job: &Job, worker: u32, positions: &Positions) -> Self {
        let region = Region::of(job, worker);
        let size = job.blocks[0].block.0;
        let (positions, owner) =
            if job.partitioned { (Positions::default(), worker) } else { (positions.clone(), 0) };
        let seed = sub_seed(job.seed, Stream::Offsets, u64::from(owner));
        let blocks = region.len / size;
        Self {
            region,
            size,
            seed,
            pass: 0,
            order: Permutation::new(blocks, mix(seed)),
            turns: Turns::new(positions, 0, blocks),
        }
    }
}

impl Place for Once {
    #[inline]
    fn place(&mut self, _: usize, _: bool) -> u64 {
        let (index, pass) = self.turns.take();
        if pass != self.pass {
            self.pass = pass;
            self.order = Permutation::new(self.turns.blocks, mix(self.seed.wrapping_add(pass)));
        }
        self.region.start + self.order.at(index) * self.size
    }
}

/// Turns at the blocks of a region, from a counter that may be shared: each block once in a pass.
#[derive(Debug)]
struct Turns {
    positions: Positions,
    which: usize,
    blocks: u64,
    /// The turn with which the pass began that this worker was in last.
    pass_start: u64,
    pass: u64,
}

impl Turns {
    fn new(positions: Positions, which: usize, blocks: u64) -> Self {
        Self { positions, which, blocks, pass_start: 0, pass: 0 }
    }

    /// The next turn: its number within its pass, and the pass.
    #[inline]
    fn take(&mut self) -> (u64, u64) {
        let Counter(next) = &self.positions[self.which];
        let turn = next.fetch_add(1, Relaxed);
        // A worker's turns rise, so a comparison does what a division would.
        while turn - self.pass_start >= self.blocks {
            self.pass_start += self.blocks;
            self.pass += 1;
        }
        (turn - self.pass_start, self.pass)
    }
}

fn sizes(job: &Job) -> Box<[u64]> {
    job.blocks.iter().map(|mix| mix.block.0).collect()
}
