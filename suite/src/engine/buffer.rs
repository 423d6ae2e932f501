//! Memory for I/Os, and what is written from it.
//!
//! One mapping a worker: page-aligned, populated before the start line, and given back when no
//! I/O can touch it any more. Each I/O in flight has its own part of it, so that a part never
//! changes while the kernel reads it.

use std::num::NonZeroUsize;
use std::ptr::NonNull;

use nix::sys::mman::{MapFlags, ProtFlags, mmap_anonymous, munmap};
use rand_xoshiro::rand_core::Rng;

use super::payload::Contents;
use super::requests::{Choice, Deck};
use super::seed::{Random, Stream, draw_below, random};
use crate::engine::{EngineError, Job, Payload};

/// What a mapping begins at a multiple of.
const PAGE: usize = 4096;

/// How many blocks the repeating ones are taken from.
const REPEATED: usize = 4;

/// Anonymous memory.
#[derive(Debug)]
pub(super) struct Arena {
    mapping: NonNull<u8>,
    mapped: NonZeroUsize,
    /// First byte of the mapping with the alignment that was asked for.
    base: NonNull<u8>,
    len: usize,
    /// Whether the mapping is to stay for ever.
    leaked: bool,
}

// SAFETY: an arena owns its mapping, which any thread may use and unmap.
unsafe impl Send for Arena {}

impl Arena {
    /// `len` bytes of zeros, whose first is at a multiple of `align`, a power of two.
    pub(super) fn new(len: usize, align: usize) -> Result<Self, EngineError> {
        let no_memory = |_| EngineError::NoMemory { bytes: len as u64 };
        let spare = if align > PAGE { align } else { 0 };
        let mapped = NonZeroUsize::new(len.max(1) + spare).unwrap_or(NonZeroUsize::MIN);
        // SAFETY: a new private mapping at an address of the kernel's choice touches no memory
        // that is in use.
        let mapping = unsafe {
            mmap_anonymous(
                None,
                mapped,
                ProtFlags::PROT_READ | ProtFlags::PROT_WRITE,
                MapFlags::MAP_PRIVATE | MapFlags::MAP_POPULATE,
            )
        };
        let mapping = mapping.map_err(no_memory)?.cast::<u8>();
        let skip = mapping.as_ptr().align_offset(align);
        assert!(skip <= spare, "a mapping begins at a page");
        // SAFETY: `skip` is at most `spare`, by which the mapping is longer than `len`.
        let base = unsafe { mapping.add(skip) };
        Ok(Self { mapping, mapped, base, len, leaked: false })
    }

    /// The address of a part, which must lie within.
    #[inline]
    pub(super) fn address(&self, at: usize, len: usize) -> *mut u8 {
        assert!(at <= self.len && len <= self.len - at, "a buffer within the arena");
        // SAFETY: `at` is within the mapping, by the line above.
        unsafe { self.base.add(at).as_ptr() }
    }

    /// A part, to look at it.
    #[cfg(test)]
    pub(super) fn part(&self, at: usize, len: usize) -> &[u8] {
        // SAFETY: the part lies within the mapping, which was zeroed by the kernel and lives as
        // long as `self`; whoever hands a part to the kernel to read into keeps away from it
        // until that is done.
        unsafe { std::slice::from_raw_parts(self.address(at, len), len) }
    }

    /// A part, to change it.
    #[inline]
    pub(super) fn part_mut(&mut self, at: usize, len: usize) -> &mut [u8] {
        // SAFETY: as above, and `&mut self` makes it the only reference.
        unsafe { std::slice::from_raw_parts_mut(self.address(at, len), len) }
    }

    /// How many bytes there are.
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Leaves the memory mapped for ever: the kernel may still write to it.
    pub(super) fn leak(&mut self) {
        self.leaked = true;
    }
}

impl Drop for Arena {
    fn drop(&mut self) {
        if self.leaked {
            return;
        }
        // SAFETY: this is the mapping that `new` made, and no reference to it outlives `self`.
        // A failure would leave memory mapped, which is all that could be done about it anyway.
        let _ = unsafe { munmap(self.mapping.cast(), self.mapped.get()) };
    }
}

/// The buffers of one worker: for each I/O in flight one to read into and one to write from.
#[derive(Debug)]
pub(super) struct Buffers {
    arena: Arena,
    /// Distance between buffers.
    stride: usize,
    /// Where the buffers to write from begin.
    writes_at: usize,
    /// Where the blocks that repeat are, and when one is due.
    repeats: Option<Repeats>,
    /// Whether each I/O writes from memory of its own.
    apart: bool,
    /// Whether the processor has the registers that fill them fastest.
    #[cfg(target_arch = "x86_64")]
    wide: bool,
    /// What fills the buffers; `None` where they stay zero.
    contents: Option<Contents>,
}

#[derive(Debug)]
struct Repeats {
    at: usize,
    due: Deck,
    which: Random,
}

impl Buffers {
    /// Those of a worker of this job, of whose members the one with the coarsest wish for memory
    /// wants `align`.
    pub(super) fn new(job: &Job, worker: u32, align: usize) -> Result<Self, EngineError> {
        let largest = job.blocks.iter().map(|mix| mix.block.0 as usize).max().unwrap_or(0);
        let stride = largest.next_multiple_of(align.max(PAGE));
        let depth = job.queue_depth as usize;
        let reads = if job.read_percent > 0 { depth } else { 0 };
        let writes = match job.payload {
            _ if job.read_percent >= 100 || job.trim => 0,
            // They are the same for all, and nobody changes them, but for stamps.
            Payload::Zero if job.verify.is_none() => 1,
            _ => depth,
        };
        let percent = match job.payload {
            Payload::Duplicate(percent) if writes > 0 => Some(percent),
            _ => None,
        };
        let repeated = percent.map_or(0, |_| REPEATED);
        let bytes = (reads + writes + repeated).checked_mul(stride).unwrap_or(usize::MAX >> 1);
        let mut arena = Arena::new(bytes, align)?;
        let repeats = percent.map(|percent| {
            let at = (reads + writes) * stride;
            let contents = arena.part_mut(at, repeated * stride);
            fill(contents, &mut random(job.seed, Stream::Repeated, 0));
            Repeats::new(job, worker, at, percent)
        });
        let contents =
            (writes > 0 && job.payload != Payload::Zero).then(|| Contents::new(job, worker));
        let (writes_at, apart) = (reads * stride, writes > 1);
        Ok(Self {
            arena,
            stride,
            writes_at,
            repeats,
            apart,
            #[cfg(target_arch = "x86_64")]
            wide: is_x86_feature_detected!("avx2"),
            contents,
        })
    }

    /// The memory that all of them lie in.
    #[inline]
    pub(super) fn arena(&self) -> &Arena {
        &self.arena
    }

    /// That memory, to read into.
    #[inline]
    pub(super) fn arena_mut(&mut self) -> &mut Arena {
        &mut self.arena
    }

    /// Where the buffer to read into lies, for the I/O in this slot.
    #[inline]
    pub(super) fn read_buffer(&self, slot: usize) -> usize {
        slot * self.stride
    }

    /// Whether what is written is made for each write.
    #[inline]
    pub(super) fn are_made(&self) -> bool {
        self.contents.is_some()
    }

    /// Where the next `len` bytes to be written lie, for the I/O in this slot, whose last one is
    /// done. Unless they repeat or are zero, they were never written before.
    #[inline]
    pub(super) fn write_buffer(&mut self, slot: usize, len: usize) -> usize {
        if self.are_made() {
            return self.make(slot, len);
        }
        self.writes_at + if self.apart { slot * self.stride } else { 0 }
    }

    #[inline(never)]
    fn make(&mut self, slot: usize, len: usize) -> usize {
        let Some(contents) = &mut self.contents else { return 0 };
        if let Some(repeats) = &mut self.repeats
            && repeats.due.next() == 1
        {
            let which = draw_below(&mut repeats.which, REPEATED as u64);
            return repeats.at + which as usize * self.stride;
        }
        let at = self.writes_at + slot * self.stride;
        let memory = self.arena.part_mut(at, len);
        #[cfg(target_arch = "x86_64")]
        if self.wide {
            // SAFETY: the processor has what it needs: `new` has asked it.
            unsafe { contents.fill_wide(memory) };
            return at;
        }
        contents.fill(memory);
        at
    }
}

impl Repeats {
    /// For `percent` of the writes of a worker; what repeats lies at `at`.
    fn new(job: &Job, worker: u32, at: usize, percent: u8) -> Self {
        let percent = u32::from(percent.min(100));
        let stream = |index| random(job.seed, Stream::Repeats, index);
        Self {
            at,
            due: Deck::new(vec![100 - percent, percent], stream(2 * u64::from(worker))),
            which: stream(2 * u64::from(worker) + 1),
        }
    }
}

/// Random bytes.
fn fill(buffer: &mut [u8], random: &mut Random) {
    for word in buffer.chunks_mut(8) {
        word.copy_from_slice(&random.next_u64().to_le_bytes()[..word.len()]);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;
    use crate::engine::Mix;
    use crate::engine::tests::job;
    use crate::units::Bytes;

    fn writer(payload: Payload, block: u64, depth: u32) -> Job {
        let mut job = job();
        (job.read_percent, job.payload, job.queue_depth) = (0, payload, depth);
        job.blocks = vec![Mix { block: Bytes(block), weight: 1 }];
        job
    }

    /// What a worker writes with its I/Os one after another over its slots.
    fn written(job: &Job, worker: u32, ios: usize) -> Vec<Vec<u8>> {
        let mut buffers = Buffers::new(job, worker, 512).unwrap();
        let len = job.blocks[0].block.0 as usize;
        (0..ios)
            .map(|io| {
                let at = buffers.write_buffer(io % job.queue_depth as usize, len);
                buffers.arena().part(at, len).to_vec()
            })
            .collect()
    }

    /// How much a greedy compressor with a window of all that came before saves, in percent:
    /// the share of bytes that lie in repeats of 8 bytes or more. LZ4 finds no more than this.
    fn saved(data: &[u8]) -> f64 {
        let mut seen = std::collections::HashMap::new();
        let (mut at, mut matched) = (0, 0);
        while at + 8 <= data.len() {
            let key = <[u8; 8]>::try_from(&data[at..at + 8]).unwrap();
            let before: Option<usize> = seen.insert(key, at);
            let Some(before) = before else {
                at += 1;
                continue;
            };
            let same = |n: &usize| data.get(at + n).is_some_and(|byte| *byte == data[before + n]);
            let len = (0..data.len()).take_while(same).count();
            matched += len;
            at += len;
        }
        100.0 * matched as f64 / data.len() as f64
    }

    #[test]
    fn parts_are_aligned_as_asked_and_zero() {
        for align in [512, 4096, 1 << 16] {
            let arena = Arena::new(10_000, align).unwrap();
            assert_eq!(arena.address(0, 0).align_offset(align), 0);
            assert!(arena.part(0, 10_000).iter().all(|byte| *byte == 0));
        }
    }

    #[test]
    #[should_panic(expected = "within the arena")]
    fn a_part_beyond_the_end_is_not_given_out() {
        let arena = Arena::new(4096, 512).unwrap();
        let _ = arena.part(4000, 200);
    }

    #[test]
    fn memory_that_is_not_there_is_an_error() {
        let error = Arena::new(usize::MAX >> 1, 512).unwrap_err();
        assert!(matches!(error, EngineError::NoMemory { .. }));
    }

    #[test]
    fn buffers_of_ios_in_flight_are_apart() {
        let mut job = writer(Payload::Random, 8192, 16);
        job.read_percent = 50;
        let mut buffers = Buffers::new(&job, 0, 512).unwrap();
        let mut starts: Vec<usize> = (0..16).map(|slot| buffers.read_buffer(slot)).collect();
        starts.extend((0..16).map(|slot| buffers.write_buffer(slot, 8192)));
        starts.sort_unstable();
        assert!(starts.windows(2).all(|pair| pair[1] - pair[0] >= 8192));
        assert!(starts.last().unwrap() + 8192 <= buffers.arena().len());
    }

    #[test]
    fn every_page_differs_from_all_before() {
        let mut seen = HashSet::new();
        for worker in 0..3 {
            for seed in [1, 2] {
                let mut job = writer(Payload::Random, 16_384, 4);
                job.seed = seed;
                for block in written(&job, worker, 500) {
                    for page in block.chunks(PAGE) {
                        assert!(seen.insert(page.to_vec()), "a page came twice");
                    }
                }
            }
        }
        assert_eq!(seen.len(), 3 * 2 * 500 * 4);
    }

    #[test]
    fn random_data_do_not_compress_within_a_block_or_across_blocks() {
        for (block, depth, ios) in [(512, 3, 600), (4096, 1, 100), (131_072, 2, 4)] {
            let stream = written(&writer(Payload::Random, block, depth), 0, ios).concat();
            assert!(saved(&stream) < 1e-9, "{} % of blocks of {block}", saved(&stream));
        }
    }

    #[test]
    fn compressible_data_compress_by_their_share_at_every_size() {
        for percent in [10, 25, 50, 75, 90] {
            let job = writer(Payload::Compressible(percent), 16_384, 2);
            let stream = written(&job, 0, 8).concat();
            for piece in [PAGE, 16_384, 131_072] {
                for part in stream.chunks(piece) {
                    let saved = saved(part);
                    let off = (saved - f64::from(percent)).abs();
                    // A match finder needs 8 bytes before it sees a repeat.
                    assert!(off < 3.0, "{saved} % of {percent} % in {piece} bytes");
                    let zeros = part.iter().map(|byte| usize::from(*byte == 0)).sum::<usize>();
                    let exact = piece * usize::from(percent) / 100;
                    // Random bytes are zero once in 256.
                    assert!(zeros.abs_diff(exact) <= (piece - exact) / 256 + piece / 100);
                }
            }
            // Half random, half zero in one run would be found here.
            let run = stream.split(|byte| *byte != 0).map(<[u8]>::len).max().unwrap();
            assert!(run <= 512, "a run of {run} zeros");
        }
    }

    #[test]
    fn compressible_by_100_percent_is_zero_but_for_what_sets_sectors_apart() {
        let mut seen = HashSet::new();
        for block in written(&writer(Payload::Compressible(100), 8192, 1), 0, 3) {
            let data = block.iter().enumerate().filter(|(_, byte)| **byte != 0);
            assert!(data.map(|(at, _)| at % 512).all(|at| at < 8));
            assert!(block.chunks(512).all(|sector| seen.insert(sector.to_vec())));
        }
    }

    #[test]
    fn zeros_are_zeros() {
        for block in written(&writer(Payload::Zero, 8192, 4), 0, 9) {
            assert!(block.iter().all(|byte| *byte == 0));
        }
    }

    #[test]
    fn duplicates_come_exactly_as_often_as_asked() {
        let mut repeated = HashSet::new();
        let mut fresh = HashSet::new();
        for worker in 0..2 {
            let blocks = written(&writer(Payload::Duplicate(30), 4096, 8), worker, 1000);
            let mut seen = HashSet::new();
            let again: HashSet<_> =
                blocks.iter().filter(|block| !seen.insert(*block)).cloned().collect();
            let repeats = blocks.iter().filter(|block| again.contains(*block)).count();
            assert_eq!(repeats, 300);
            fresh.extend(blocks.into_iter().filter(|block| !again.contains(block)));
            repeated.extend(again);
        }
        assert_eq!((repeated.len(), fresh.len()), (REPEATED, 1400));
    }
}
