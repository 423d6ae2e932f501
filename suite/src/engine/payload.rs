//! What is written: made anew for every write, so that nothing of it was ever written before.
//!
//! A worker has a pool of random words. Each page that it writes is a page of the pool, combined
//! by exclusive or with keys of its own: a number that no page had before, and which grows by an
//! odd constant from word to word. So the words of two pages from one place of the pool differ
//! at every place, and all others are unrelated random words. No piece of 512 bytes, nor of 8,
//! comes back, and nothing that looks for repeats finds one, at any distance.

use std::hash::{BuildHasher, RandomState};

use rand_xoshiro::rand_core::Rng;

use super::seed::{Stream, mix, random};
use crate::engine::{Job, Payload};

/// Size of the pages that have keys of their own.
const PAGE: usize = 4096;

/// In stretches of this length compressible data are partly random and partly zero, so that they
/// compress by the same share whatever is compressed as a piece, a sector or a megabyte.
const STRETCH: usize = 512;

/// Random bytes that a stretch has at least, so that it differs from all others.
const RANDOM_MIN: usize = 8;

/// Words that are combined at a time.
const LANES: usize = 8;

/// Bytes that they are.
const GROUP: usize = LANES * size_of::<u64>();

/// Groups of a page.
const GROUPS: usize = PAGE / GROUP;

/// Pages of the pool: few enough for the caches to keep them.
const POOL_PAGES: usize = 16;

/// By which keys grow from word to word: odd, so that a page has none twice.
const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

/// Makes what one worker writes.
#[derive(Debug)]
pub(super) struct Contents {
    pool: Box<[[u64; LANES]]>,
    /// What sets the keys of this worker apart from those of all others.
    salt: u64,
    /// Pages so far.
    pages: u64,
    /// Random bytes of each stretch of a page; `None` where all are.
    random: Option<[usize; PAGE / STRETCH]>,
}

impl Contents {
    /// That of a worker of this job.
    ///
    /// Not the seed alone decides on it: what another case or an earlier run has left on the
    /// device would otherwise be the same, and storage that knows what it holds would be done
    /// with it at once.
    pub(super) fn new(job: &Job, worker: u32) -> Self {
        let fresh = job.seed ^ RandomState::new().hash_one(worker);
        let mut random = random(fresh, Stream::Payload, u64::from(worker));
        let mut group = || std::array::from_fn(|_| random.next_u64());
        Self {
            pool: std::iter::repeat_with(&mut group).take(POOL_PAGES * GROUPS).collect(),
            salt: mix(fresh),
            pages: 0,
            random: match job.payload {
                Payload::Compressible(percent) => Some(random_parts(percent)),
                _ => None,
            },
        }
    }

    /// Fills a buffer with what was never there before. Bytes that are to be zero are left alone:
    /// the buffer is one that was zero when it was new.
    #[expect(clippy::inline_always, reason = "it is compiled once for each kind of processor")]
    #[inline(always)]
    pub(super) fn fill(&mut self, buffer: &mut [u8]) {
        for page in buffer.chunks_mut(PAGE) {
            // Another number for each page, since the finisher is a bijection.
            let key = mix(self.salt.wrapping_add(self.pages));
            let at = self.pages as usize % POOL_PAGES * GROUPS;
            let pool = &self.pool[at..at + GROUPS];
            self.pages += 1;
            match &self.random {
                None => combine(page, pool, key),
                Some(random) => {
                    let stretches = page.chunks_mut(STRETCH).zip(pool.chunks(STRETCH / GROUP));
                    for ((stretch, pool), (random, number)) in stretches.zip(random.iter().zip(0..))
                    {
                        let len = stretch.len().min(*random);
                        let words = (STRETCH / size_of::<u64>()) as u64 * number;
                        let key = key.wrapping_add(STEP.wrapping_mul(words));
                        combine(&mut stretch[..len], pool, key);
                    }
                }
            }
        }
    }
}

impl Contents {
    /// As [`fill`](Self::fill), by the wider registers of most x86 processors: a fourth of the
    /// instructions.
    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx2")]
    pub(super) fn fill_wide(&mut self, buffer: &mut [u8]) {
        self.fill(buffer);
    }
}

/// Random bytes of each stretch of a page, so many percent of which are to be zero.
fn random_parts(percent: u8) -> [usize; PAGE / STRETCH] {
    let zeros_to = |stretches| stretches * STRETCH * usize::from(percent.min(100)) / 100;
    std::array::from_fn(|number| {
        let zeros = zeros_to(number + 1) - zeros_to(number);
        (STRETCH - zeros).max(RANDOM_MIN)
    })
}

/// Writes the pool, each word combined with its key.
#[expect(clippy::inline_always, reason = "as what calls it")]
#[inline(always)]
fn combine(out: &mut [u8], pool: &[[u64; LANES]], key: u64) {
    // Side by side, so that the compiler makes vectors of them.
    let mut keys: [u64; LANES] =
        std::array::from_fn(|lane| key.wrapping_add(STEP.wrapping_mul(lane as u64)));
    let (groups, rest) = out.as_chunks_mut::<GROUP>();
    let mut pool = pool.iter();
    for (group, words) in groups.iter_mut().zip(&mut pool) {
        *group = combined(words, &mut keys);
    }
    if let Some(words) = pool.next() {
        rest.copy_from_slice(&combined(words, &mut keys)[..rest.len()]);
    }
}

#[expect(clippy::inline_always, reason = "as what calls it")]
#[inline(always)]
fn combined(words: &[u64; LANES], keys: &mut [u64; LANES]) -> [u8; GROUP] {
    let mut out = [0; GROUP];
    let (places, _) = out.as_chunks_mut::<{ size_of::<u64>() }>();
    for ((place, word), key) in places.iter_mut().zip(words).zip(keys) {
        *place = (word ^ *key).to_le_bytes();
        *key = key.wrapping_add(STEP.wrapping_mul(LANES as u64));
    }
    out
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;
    use crate::engine::tests::job;

    /// `bytes` of what a worker writes in blocks of this size.
    fn written(payload: Payload, block: usize, bytes: usize) -> Vec<u8> {
        let mut job = job();
        job.payload = payload;
        let mut contents = Contents::new(&job, 0);
        let mut all = vec![0; bytes];
        all.chunks_mut(block).for_each(|block| contents.fill(block));
        all
    }

    /// How many of the aligned words of 8 bytes came before, zeros aside: what a compressor with
    /// a window of all the data looks for.
    fn repeated_words(data: &[u8]) -> usize {
        let (words, _) = data.as_chunks::<8>();
        let slots = (words.len() * 2).next_power_of_two();
        let mut seen = vec![0; slots];
        let mut repeated = 0;
        for word in words.iter().map(|word| u64::from_le_bytes(*word)).filter(|word| *word != 0) {
            let mut slot = mix(word) as usize % slots;
            while seen[slot] != 0 && seen[slot] != word {
                slot = (slot + 1) % slots;
            }
            repeated += usize::from(seen[slot] == word);
            seen[slot] = word;
        }
        repeated
    }

    #[test]
    fn nothing_comes_back_in_64_mib() {
        let data = written(Payload::Random, 4096, 64 << 20);
        let pieces: HashSet<&[u8]> = data.chunks(512).collect();
        assert_eq!(pieces.len(), (64 << 20) / 512);
        assert_eq!(repeated_words(&data), 0);
        for payload in [Payload::Compressible(50), Payload::Compressible(97)] {
            let data = written(payload, 16_384, 16 << 20);
            let pieces: HashSet<&[u8]> = data.chunks(512).collect();
            assert_eq!(pieces.len(), (16 << 20) / 512);
            assert_eq!(repeated_words(&data), 0);
        }
    }

    #[test]
    fn nothing_comes_back_in_another_worker_or_run() {
        let runs: Vec<u8> = (0..8).flat_map(|_| written(Payload::Random, 4096, 1 << 20)).collect();
        assert_eq!(repeated_words(&runs), 0);
    }

    #[test]
    fn bytes_and_bits_are_balanced() {
        let data = written(Payload::Random, 4096, 8 << 20);
        for lane in 0..8 {
            let mut counts = [0_u32; 256];
            data.iter().skip(lane).step_by(8).for_each(|byte| counts[usize::from(*byte)] += 1);
            let expected = f64::from(1_u32 << 20) / 256.0;
            let off = |count: &u32| (f64::from(*count) - expected).powi(2) / expected;
            let chi_square: f64 = counts.iter().map(off).sum();
            assert!(chi_square < 347.7, "255 degrees of freedom at 0.0001: {chi_square}");
        }
    }

    #[test]
    fn every_length_is_filled_to_its_last_byte() {
        for len in [1, 7, 8, 63, 64, 65, 512, 1000, 4095, 4096, 4097, 10_000] {
            let mut job = job();
            job.payload = Payload::Random;
            let mut contents = Contents::new(&job, 0);
            // A byte is zero once in 256: not each time in 20.
            let mut set = vec![0; len];
            for _ in 0..20 {
                let mut data = vec![0; len];
                contents.fill(&mut data);
                set.iter_mut().zip(data).for_each(|(set, byte)| *set |= byte);
            }
            assert!(set.iter().all(|byte| *byte != 0), "{len} bytes");
        }
    }

    #[test]
    fn random_parts_have_their_share_and_stretches_differ() {
        for percent in 0..=98 {
            let random: usize = random_parts(percent).iter().sum();
            assert_eq!(PAGE - random, PAGE * usize::from(percent) / 100);
        }
        assert_eq!(random_parts(100), [RANDOM_MIN; 8]);
    }
}
