//! Random places of which some are asked for more often than others.
//!
//! A distribution becomes a table when a worker is made ready: the places are put into chunks, a
//! chunk is drawn by its exact share, and a place evenly within it. The draw is two random
//! numbers and one look at the table (Walker's alias method, 1977; built after Vose, 1991);
//! neither its cost nor the table grows with the region beyond [`CHUNKS_MAX`].
//!
//! A region of any size is described that way to within what a run could show: single places
//! where the distribution is steep, and chunks so narrow in proportion elsewhere that it hardly
//! changes across one.

use rand_xoshiro::rand_core::Rng;

use super::offsets::{Place, Region};
use super::permutation::Permutation;
use super::seed::{Random, Stream, draw_below, random};
use crate::engine::Job;

/// Which places of the region random I/Os favour. Places are multiples of the job's granularity.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Access {
    /// None.
    Uniform,
    /// The place of rank k, from 1, is drawn in proportion to `1 / k^theta`. Ranks are scattered
    /// over the region, in the same way in every round and for every worker.
    Zipf(f64),
    /// Of any part of the ranks that starts with the first, the share `h` gets `1 - h` of the
    /// I/Os, and so does the same share of that share (the self-similar distribution of Gray et
    /// al., "Quickly generating billion-record synthetic databases", 1994, which fio calls
    /// pareto). From above 0 to one half, which is uniform. Scattered as those of `Zipf`.
    Pareto(f64),
    /// Around the middle of the region, with this standard deviation in percent of the region,
    /// cut off at the region's ends.
    Normal(f64),
    /// So many percent of the I/Os go to so many percent of the region, at its start, and the
    /// others to the rest; evenly in each.
    Hot {
        /// Share of the I/Os, 1 to 99.
        ios: u8,
        /// Share of the region, 1 to 99.
        region: u8,
    },
}

/// The most chunks that a table has: 8 bytes each.
pub(super) const CHUNKS_MAX: usize = 1 << 14;

/// Chunks of a normal distribution, over [`REACH`] standard deviations to both sides.
const NORMAL_CHUNKS: u64 = 4096;

/// Beyond so many standard deviations lies less than 1e-14 of a normal distribution.
const REACH: f64 = 8.0;

/// Chunks to each doubling of the rank; all ranks below twice as many are alone in theirs.
const PER_OCTAVE: u64 = 1 << OCTAVE_BITS;
const OCTAVE_BITS: u32 = 8;

/// What the order of the scattered ranks is made from: the same in every job.
const SCATTER: u64 = 0x5ca7_7e12;

/// The region of a worker as places, to which a drawn one is brought.
#[derive(Debug)]
struct Places {
    start: u64,
    granularity: u64,
    count: u64,
    /// For each block size, the last place from which it still fits.
    last: Box<[u64]>,
}

impl Places {
    fn new(job: &Job, worker: u32) -> Self {
        let region = Region::of(job, worker);
        let granularity = job.granularity.0;
        let last = job.blocks.iter().map(|mix| (region.len - mix.block.0) / granularity);
        let count = region.len / granularity;
        Self { start: region.start, granularity, count, last: last.collect() }
    }

    /// Where an I/O starts that is to cover this place: there, or so far before that it fits.
    #[inline]
    fn offset(&self, place: u64, block: usize) -> u64 {
        self.start + place.min(self.last[block]) * self.granularity
    }
}

/// Ranks by a falling distribution, scattered over the region.
#[derive(Debug)]
pub(super) struct Scattered {
    random: Random,
    places: Places,
    ranks: Ranks,
    order: Permutation,
}

impl Scattered {
    pub(super) fn zipf(job: &Job, worker: u32, theta: f64) -> Self {
        Self::new(job, worker, |count| Ranks::zipf(count, theta))
    }

    pub(super) fn pareto(job: &Job, worker: u32, h: f64) -> Self {
        Self::new(job, worker, |count| Ranks::pareto(count, h))
    }

    fn new(job: &Job, worker: u32, ranks: impl FnOnce(u64) -> Ranks) -> Self {
        let places = Places::new(job, worker);
        Self {
            random: random(job.seed, Stream::Offsets, u64::from(worker)),
            ranks: ranks(places.count),
            order: scatter(places.count),
            places,
        }
    }
}

impl Place for Scattered {
    #[inline]
    fn place(&mut self, block: usize, _: bool) -> u64 {
        let rank = self.ranks.draw(&mut self.random);
        self.places.offset(self.order.at(rank), block)
    }
}

/// Which place has which rank, of so many.
pub(super) fn scatter(count: u64) -> Permutation {
    Permutation::new(count, SCATTER)
}

/// Around the middle of the region.
#[derive(Debug)]
pub(super) struct Normal {
    random: Random,
    places: Places,
    around: Around,
}

impl Normal {
    pub(super) fn new(job: &Job, worker: u32, percent: f64) -> Self {
        let places = Places::new(job, worker);
        Self {
            random: random(job.seed, Stream::Offsets, u64::from(worker)),
            around: Around::new(places.count, percent),
            places,
        }
    }
}

impl Place for Normal {
    #[inline]
    fn place(&mut self, block: usize, _: bool) -> u64 {
        self.places.offset(self.around.draw(&mut self.random), block)
    }
}

/// A hot part at the start of the region, and a cold rest.
#[derive(Debug)]
pub(super) struct Hot {
    random: Random,
    places: Places,
    /// Percent of the I/Os that go to the hot part.
    ios: u64,
    /// Places of the hot part.
    len: u64,
}

impl Hot {
    pub(super) fn new(job: &Job, worker: u32, ios: u8, region: u8) -> Self {
        let places = Places::new(job, worker);
        let len = (u128::from(places.count) * u128::from(region) / 100) as u64;
        // A region of one place has no cold part.
        let (len, ios) = match places.count {
            1 => (1, 100),
            count => (len.clamp(1, count - 1), u64::from(ios)),
        };
        let random = random(job.seed, Stream::Offsets, u64::from(worker));
        Self { random, places, ios, len }
    }
}

impl Place for Hot {
    #[inline]
    fn place(&mut self, block: usize, _: bool) -> u64 {
        let hot = draw_below(&mut self.random, 100) < self.ios;
        let (first, len) =
            if hot { (0, self.len) } else { (self.len, self.places.count - self.len) };
        self.places.offset(first + draw_below(&mut self.random, len), block)
    }
}

/// Draws ranks, of which the first is the most frequent.
///
/// The chunks are those of a logarithmic histogram: up to twice [`PER_OCTAVE`] ranks have one of
/// their own, and from there on each doubling has as many chunks of one length. Across a chunk
/// the frequency changes by less than theta/256, and its own share is exact, so that no
/// cumulative share is off by more than a few millionths.
#[derive(Debug)]
pub(super) struct Ranks {
    count: u64,
    table: Alias,
}

impl Ranks {
    /// By Zipf's law, for a theta above 0.
    pub(super) fn zipf(count: u64, theta: f64) -> Self {
        // From rank 512 on a sum is an integral, to one part in a hundred thousand.
        Self::new(count, |first, len| {
            let from = first as f64 + 0.5;
            match len {
                1 => (first as f64 + 1.0).powf(-theta),
                _ => power_integral(from, from + len as f64, -theta),
            }
        })
    }

    /// By self-similarity: the first `x` of all ranks get `x^q` of the draws, with such a `q`
    /// that the first `h` get `1 - h`.
    pub(super) fn pareto(count: u64, h: f64) -> Self {
        let q = (-h).ln_1p() / h.ln();
        Self::new(count, |first, len| {
            let (from, to) = (first as f64, (first + len) as f64);
            // The unit is the whole: of the first rank too the share doesn't vanish.
            let unit = count as f64;
            match first {
                0 => (to / unit).powf(q),
                _ => (from / unit).powf(q) * (q * (len as f64 / from).ln_1p()).exp_m1(),
            }
        })
    }

    fn new(count: u64, share: impl Fn(u64, u64) -> f64) -> Self {
        let chunks = chunk_of(count - 1) + 1;
        let shares = (0..chunks).map(|index| {
            let (first, len) = chunk(index, count);
            share(first, len)
        });
        Self { count, table: Alias::new(&shares.collect::<Vec<_>>()) }
    }

    #[inline]
    pub(super) fn draw(&self, random: &mut Random) -> u64 {
        let (first, len) = chunk(self.table.draw(random), self.count);
        first + draw_below(random, len)
    }

    /// How many chunks there are.
    #[cfg(test)]
    pub(super) fn chunks(&self) -> usize {
        self.table.slots.len()
    }
}

/// The chunk in which a rank is.
fn chunk_of(rank: u64) -> u64 {
    let octave = u64::from(rank.max(PER_OCTAVE).ilog2() - OCTAVE_BITS);
    octave * PER_OCTAVE + (rank >> octave)
}

/// First rank and length of a chunk, of which the last is cut off at `count`.
#[inline]
fn chunk(index: u64, count: u64) -> (u64, u64) {
    let octave = (index >> OCTAVE_BITS).saturating_sub(1);
    let first = (index - octave * PER_OCTAVE) << octave;
    (first, (1 << octave).min(count - first))
}

/// The integral of `x^power` from above 0, without loss where the power is about -1 or both ends
/// are close to each other.
fn power_integral(from: f64, to: f64, power: f64) -> f64 {
    let (s, growth) = (power + 1.0, (to / from).ln());
    if s.abs() < 1e-9 { growth } else { from.powf(s) * (s * growth).exp_m1() / s }
}

/// Draws places around the middle of so many, by the normal distribution.
#[derive(Debug)]
pub(super) struct Around {
    first: u64,
    end: u64,
    /// Places in a chunk.
    width: u64,
    table: Alias,
}

impl Around {
    /// With a standard deviation in percent of the whole.
    #[expect(clippy::cast_sign_loss, reason = "places are not negative")]
    pub(super) fn new(count: u64, percent: f64) -> Self {
        let (middle, deviation) = (count as f64 / 2.0, count as f64 * percent / 100.0);
        let first = (middle - REACH * deviation).max(0.0) as u64;
        let end = ((middle + REACH * deviation).ceil() as u64).clamp(first + 1, count);
        let width = (end - first).div_ceil(NORMAL_CHUNKS);
        let shares = (first..end).step_by(width as usize).map(|from| {
            let to = from.saturating_add(width).min(end);
            let at = |place: u64| (place as f64 - middle) / deviation;
            bell(at(from), at(to))
        });
        Self { first, end, width, table: Alias::new(&shares.collect::<Vec<_>>()) }
    }

    #[inline]
    pub(super) fn draw(&self, random: &mut Random) -> u64 {
        let first = self.first + self.table.draw(random) * self.width;
        first + draw_below(random, self.width.min(self.end - first))
    }
}

/// The area under `exp(-x^2 / 2)`, by Simpson's rule in steps of a sixteenth or less, which is
/// exact to nine digits.
fn bell(from: f64, to: f64) -> f64 {
    let mut panels = 1;
    while to - from > f64::from(panels) / 8.0 {
        panels *= 2;
    }
    let step = (to - from) / f64::from(2 * panels);
    let height = |index| (-0.5 * (from + f64::from(index) * step).powi(2)).exp();
    let panel = |index| height(2 * index) + 4.0 * height(2 * index + 1) + height(2 * index + 2);
    (0..panels).map(panel).sum::<f64>() * step / 3.0
}

/// Draws one of several by their shares in constant time.
#[derive(Debug)]
struct Alias {
    slots: Box<[Slot]>,
}

/// Every slot is hit as often as any other; a part of its hits belong to another choice.
#[derive(Debug, Clone, Copy)]
struct Slot {
    /// The part that is its own, in units of 2^-32.
    own: u32,
    other: u32,
}

impl Alias {
    /// For shares of any sum above 0.
    #[expect(clippy::cast_sign_loss, reason = "shares are not negative")]
    fn new(shares: &[f64]) -> Self {
        assert!(shares.len() <= CHUNKS_MAX, "a table of {}", shares.len());
        let mean = shares.iter().sum::<f64>() / shares.len() as f64;
        let mut left: Vec<f64> = shares.iter().map(|share| share / mean).collect();
        let slot = |index| Slot { own: u32::MAX, other: index };
        let mut slots: Box<[Slot]> = (0..left.len() as u32).map(slot).collect();
        let (mut small, mut large): (Vec<u32>, Vec<u32>) =
            (0..left.len() as u32).partition(|index| left[*index as usize] < 1.0);
        // Each small one is filled up from a large one, which may become small by that. What is
        // left when either is used up is whole but for rounding.
        while let (Some(poor), Some(rich)) = (small.last().copied(), large.last().copied()) {
            small.pop();
            let own = left[poor as usize];
            slots[poor as usize] = Slot { own: (own * 2_f64.powi(32)) as u32, other: rich };
            left[rich as usize] -= 1.0 - own;
            if left[rich as usize] < 1.0 {
                large.pop();
                small.push(rich);
            }
        }
        Self { slots }
    }

    #[inline]
    fn draw(&self, random: &mut Random) -> u64 {
        // The upper half of the product says which slot, the lower how far within it.
        let product = u128::from(random.next_u64()) * self.slots.len() as u128;
        let index = (product >> 64) as u64;
        let Slot { own, other } = self.slots[index as usize];
        if ((product as u64) >> 32) < u64::from(own) { index } else { u64::from(other) }
    }
}
