//! What a worker does next: kind, size and place of each I/O.
//!
//! All that the job settles is settled when a source is built; what is left in it is arithmetic.
//! A source is asked for a batch at a time, so that the one indirect call is shared.
//!
//! Shares are exact: kinds and sizes are drawn from a deck that holds each as often as its share
//! says, without putting back, and shuffled anew when it is empty. So after every whole deck of
//! a worker (100 I/Os for reads and writes) the proportions are those that were asked for.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use super::access::{Hot, Normal, Scattered};
use super::offsets::{
    Once, Place, Positions, Sequential, SharedSequential, SharedSequentialMix, Uniform,
};
use super::seed::{Random, Stream, draw_below, random};
use crate::engine::{Access, Job, Length};
use crate::measure::IoKind;
use crate::units::Bytes;

/// One I/O to be done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Request {
    /// What.
    pub kind: IoKind,
    /// Length in bytes; 0 of a flush.
    pub len: u32,
    /// Byte offset in the storage; 0 of a flush.
    pub offset: u64,
}

impl Request {
    /// A flush; also what a list of requests is filled with before there are any.
    pub const FLUSH: Self = Self { kind: IoKind::Sync, len: 0, offset: 0 };
}

/// Says what comes next.
pub trait Source: Send {
    /// Fills `out`.
    fn fill(&mut self, out: &mut [Request]);

    /// Fills `out` as far as the amount that is left reaches, and returns how far that was.
    fn fill_within(&mut self, amount: &Amount, out: &mut [Request]) -> usize;
}

/// Bytes that workers take from until nothing is left.
#[derive(Debug)]
#[repr(align(128))]
pub struct Amount {
    left: AtomicU64,
}

impl Amount {
    /// What the workers of a job take from: one for all, or, where each has a part of the region
    /// for itself, equal shares in whole blocks, of which the first workers have the odd ones.
    pub(super) fn of(job: &Job) -> Box<[Self]> {
        let Length::Bytes(Bytes(bytes)) = job.length else { return Box::new([Self::new(0)]) };
        if !job.partitioned {
            return Box::new([Self::new(bytes)]);
        }
        let (blocks, workers) = (bytes / job.granularity.0, u64::from(job.workers));
        let share = |worker| blocks / workers + u64::from(worker < blocks % workers);
        (0..workers).map(|worker| Self::new(share(worker) * job.granularity.0)).collect()
    }

    /// So many bytes.
    #[must_use]
    pub fn new(bytes: u64) -> Self {
        Self { left: AtomicU64::new(bytes) }
    }

    /// Takes so many bytes, if they are there.
    #[inline]
    fn take(&self, bytes: u64) -> bool {
        self.left.fetch_update(Relaxed, Relaxed, |left| left.checked_sub(bytes)).is_ok()
    }

    /// Takes up to so many blocks of this size, as many as are there, and returns their number.
    fn take_blocks(&self, most: u64, size: u64) -> u64 {
        let taken = |left: u64| most.min(left / size);
        let rest = |left| Some(left - taken(left) * size);
        self.left.fetch_update(Relaxed, Relaxed, rest).map_or(0, taken)
    }

    /// Bytes that are left.
    pub(super) fn left(&self) -> u64 {
        self.left.load(Relaxed)
    }
}

/// The source of one worker of a job.
pub(super) fn source(job: &Job, worker: u32, positions: &Positions) -> Box<dyn Source> {
    let alone = job.workers == 1 || job.partitioned;
    match (job.random, job.once, alone) {
        (_, true, _) => with_place(job, worker, Once::new(job, worker, positions)),
        (true, false, _) => random_source(job, worker),
        (false, _, true) => with_place(job, worker, Sequential::new(job, worker)),
        (false, _, false) if job.blocks.len() == 1 => {
            with_place(job, worker, SharedSequential::new(job, positions))
        }
        (false, _, false) => with_place(job, worker, SharedSequentialMix::new(job, positions)),
    }
}

fn random_source(job: &Job, worker: u32) -> Box<dyn Source> {
    match job.access {
        Access::Uniform => with_place(job, worker, Uniform::new(job, worker)),
        Access::Zipf(theta) => with_place(job, worker, Scattered::zipf(job, worker, theta)),
        Access::Pareto(h) => with_place(job, worker, Scattered::pareto(job, worker, h)),
        Access::Normal(percent) => with_place(job, worker, Normal::new(job, worker, percent)),
        Access::Hot { ios, region } => with_place(job, worker, Hot::new(job, worker, ios, region)),
    }
}

fn with_place<P: Place + Send + 'static>(job: &Job, worker: u32, place: P) -> Box<dyn Source> {
    if let [_] = job.blocks[..] {
        return with_blocks(job, worker, place, Always(0));
    }
    let weights = job.blocks.iter().map(|mix| mix.weight).collect();
    let random = random(job.seed, Stream::Blocks, u64::from(worker));
    with_blocks(job, worker, place, Deck::new(weights, random))
}

fn with_blocks<P, B>(job: &Job, worker: u32, place: P, blocks: B) -> Box<dyn Source>
where
    P: Place + Send + 'static,
    B: Choice + Send + 'static,
{
    let reads = u32::from(job.read_percent.min(100));
    match reads {
        0 if job.trim => with_kinds(job, place, blocks, Always(IoKind::Trim as usize)),
        0 => with_kinds(job, place, blocks, Always(1)),
        100 => with_kinds(job, place, blocks, Always(0)),
        _ => {
            let random = random(job.seed, Stream::Kinds, u64::from(worker));
            with_kinds(job, place, blocks, Pair::new([reads, 100 - reads], random))
        }
    }
}

fn with_kinds<P, B, K>(job: &Job, place: P, blocks: B, kinds: K) -> Box<dyn Source>
where
    P: Place + Send + 'static,
    B: Choice + Send + 'static,
    K: Choice + Send + 'static,
{
    let sizes: Box<[u32]> = job.blocks.iter().map(|mix| mix.block.0 as u32).collect();
    let mut falling: Box<[usize]> = (0..sizes.len()).collect();
    falling.sort_by_key(|index| std::cmp::Reverse(sizes[*index]));
    let mixer = Mixer { place, blocks, kinds, sizes, falling };
    match job.flush_every {
        Some((writes, _)) => Box::new(WithFlushes { mixer, every: writes.max(1), since: 0 }),
        None => Box::new(mixer),
    }
}

/// Chooses one of several by its share.
pub(super) trait Choice {
    fn next(&mut self) -> usize;

    /// As many choices as there are requests, each told to one.
    #[inline]
    fn choose(&mut self, requests: &mut [Request], tell: impl Fn(&mut Request, usize)) {
        for request in requests {
            tell(request, self.next());
        }
    }
}

/// The only one there is.
struct Always(usize);

impl Choice for Always {
    #[inline]
    fn next(&mut self) -> usize {
        self.0
    }
}

/// A shuffled deck that holds each choice as often as its share says.
#[derive(Debug)]
pub(super) struct Deck {
    random: Random,
    full: Box<[u64]>,
    left: Box<[u64]>,
    left_total: u64,
}

impl Deck {
    /// A deck by these shares, of at least 100 cards so that its order stays a random one.
    pub(super) fn new(weights: Vec<u32>, random: Random) -> Self {
        let total: u64 = weights.iter().map(|weight| u64::from(*weight)).sum();
        let times = 100_u64.div_ceil(total.max(1));
        let full: Box<[u64]> =
            weights.into_iter().map(|weight| u64::from(weight) * times).collect();
        Self { random, left: full.clone(), left_total: total * times, full }
    }
}

impl Choice for Deck {
    #[inline]
    fn next(&mut self) -> usize {
        if self.left_total == 0 {
            self.left.copy_from_slice(&self.full);
            self.left_total = self.full.iter().sum();
        }
        let mut drawn = draw_below(&mut self.random, self.left_total);
        self.left_total -= 1;
        let mut index = 0;
        while drawn >= self.left[index] {
            drawn -= self.left[index];
            index += 1;
        }
        self.left[index] -= 1;
        index
    }
}

/// A deck of two choices, and of a hundred cards, which needs no search.
#[derive(Debug, Clone)]
struct Pair {
    random: Random,
    full: [u64; 2],
    left: [u64; 2],
}

impl Pair {
    fn new(shares: [u32; 2], random: Random) -> Self {
        let full = shares.map(u64::from);
        Self { random, full, left: full }
    }
}

impl Pair {
    /// The next card of a deck that is not empty: whether it is of the second kind.
    #[inline]
    fn card(&mut self) -> bool {
        let [first, second] = &mut self.left;
        let is_second = draw_below(&mut self.random, *first + *second) >= *first;
        *first -= u64::from(!is_second);
        *second -= u64::from(is_second);
        is_second
    }

    /// How many cards there are, of a new deck if this one is empty.
    #[inline]
    fn cards(&mut self) -> usize {
        if self.left == [0; 2] {
            self.left = self.full;
        }
        (self.left[0] + self.left[1]) as usize
    }
}

impl Choice for Pair {
    #[inline]
    fn next(&mut self) -> usize {
        self.cards();
        usize::from(self.card())
    }

    fn choose(&mut self, mut requests: &mut [Request], tell: impl Fn(&mut Request, usize)) {
        // A copy is kept in registers.
        let mut deck = self.clone();
        while !requests.is_empty() {
            let (some, rest) = requests.split_at_mut(deck.cards().min(requests.len()));
            for request in some {
                tell(request, usize::from(deck.card()));
            }
            requests = rest;
        }
        *self = deck;
    }
}

/// Reads and writes, or trims.
struct Mixer<P, B, K> {
    place: P,
    blocks: B,
    kinds: K,
    sizes: Box<[u32]>,
    /// Indices of the sizes, the largest first.
    falling: Box<[usize]>,
}

impl<P: Place, B: Choice, K: Choice> Mixer<P, B, K> {
    #[inline]
    fn of_block(&mut self, block: usize) -> Request {
        let kind = IoKind::DATA[self.kinds.next()];
        Request {
            kind,
            len: self.sizes[block],
            offset: self.place.place(block, kind != IoKind::Read),
        }
    }

    #[inline]
    fn one(&mut self) -> Request {
        let block = self.blocks.next();
        self.of_block(block)
    }

    /// One I/O of what is left of an amount. Where the size that was drawn is too large for the
    /// rest, the largest that fits is taken; `None` when not even the smallest does.
    #[inline]
    fn one_within(&mut self, amount: &Amount) -> Option<Request> {
        let drawn = self.blocks.next();
        let fits = |block: &usize| amount.take(u64::from(self.sizes[*block]));
        let block = std::iter::once(drawn).chain(self.falling.iter().copied()).find(fits)?;
        Some(self.of_block(block))
    }
}

impl<P: Place + Send, B: Choice + Send, K: Choice + Send> Source for Mixer<P, B, K> {
    fn fill(&mut self, out: &mut [Request]) {
        if let [size] = self.sizes[..] {
            self.kinds.choose(out, |request, kind| {
                (request.kind, request.len) = (IoKind::DATA[kind], size);
            });
            self.place.place_all(out);
            return;
        }
        for request in out {
            *request = self.one();
        }
    }

    fn fill_within(&mut self, amount: &Amount, out: &mut [Request]) -> usize {
        if let [size] = self.sizes[..] {
            let count = amount.take_blocks(out.len() as u64, u64::from(size)) as usize;
            self.fill(&mut out[..count]);
            return count;
        }
        for (filled, request) in out.iter_mut().enumerate() {
            match self.one_within(amount) {
                Some(next) => *request = next,
                None => return filled,
            }
        }
        out.len()
    }
}

/// Reads and writes, with a flush after every so many writes that were issued, as fio counts
/// them: at a depth above 1 the flush goes out while writes before it may still be on their way.
struct WithFlushes<P, B, K> {
    mixer: Mixer<P, B, K>,
    every: u32,
    since: u32,
}

impl<P: Place, B: Choice, K: Choice> WithFlushes<P, B, K> {
    #[inline]
    fn is_due(&mut self) -> bool {
        let due = self.since == self.every;
        if due {
            self.since = 0;
        }
        due
    }

    #[inline]
    fn counted(&mut self, request: Request) -> Request {
        self.since += u32::from(request.kind == IoKind::Write);
        request
    }
}

impl<P: Place + Send, B: Choice + Send, K: Choice + Send> Source for WithFlushes<P, B, K> {
    fn fill(&mut self, out: &mut [Request]) {
        for request in out {
            *request = if self.is_due() {
                Request::FLUSH
            } else {
                let next = self.mixer.one();
                self.counted(next)
            };
        }
    }

    fn fill_within(&mut self, amount: &Amount, out: &mut [Request]) -> usize {
        for (filled, request) in out.iter_mut().enumerate() {
            if self.is_due() {
                *request = Request::FLUSH;
                continue;
            }
            match self.mixer.one_within(amount) {
                Some(next) => *request = self.counted(next),
                None => return filled,
            }
        }
        out.len()
    }
}
