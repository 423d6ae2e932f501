//! Memory for I/Os, and what is written from it.
//!
//! One mapping a worker: page-aligned, populated before the start line, and given back when no
//! I/O can touch it any more. Each I/O in flight has its own part of it, so that a part never
//! changes while the kernel reads it.

use std::num::NonZeroUsize;
use std::ptr::NonNull;

use nix::errno::Errno;
use nix::libc;
use nix::sys::mman::{MapFlags, MmapAdvise, ProtFlags, madvise, mmap_anonymous, munmap};
use nix::sys::resource::{UsageWho, getrusage};
use rand_xoshiro::rand_core::Rng;

use super::payload::Contents;
use super::requests::{Choice, Deck};
use super::seed::{Random, Stream, draw_below, random};
use crate::engine::{EngineError, Job, Payload};

/// What a mapping begins at a multiple of.
const PAGE: usize = 4096;

/// A huge page where the kernel has them without being told a size: x86-64, and arm64 with pages of
/// 4 KiB. Elsewhere the wish comes to nothing.
const HUGE: usize = 2 << 20;

/// How many blocks the repeating ones are taken from.
const REPEATED: usize = 4;

/// Anonymous memory, in huge pages where it is long enough for one and there are some.
#[derive(Debug)]
pub(super) struct Arena {
    mapping: Mapping,
    /// First byte of the mapping with the alignment that was asked for.
    base: NonNull<u8>,
    len: usize,
    /// In which pages it lies, for the record; `None` of ordinary ones.
    pages: Option<&'static str>,
}

// SAFETY: an arena owns its mapping, which any thread may use and unmap.
unsafe impl Send for Arena {}

impl Arena {
    /// `len` bytes of zeros, whose first is at a multiple of `align`, a power of two.
    pub(super) fn new(len: usize, align: usize) -> Result<Self, EngineError> {
        let no_memory = |_| EngineError::NoMemory { bytes: len as u64 };
        let (mapping, pages) = if len >= HUGE && align <= HUGE {
            match Mapping::reserved(len) {
                Some(mapping) => (mapping, Some("huge pages")),
                None => Mapping::aligned(len).map_err(no_memory)?,
            }
        } else {
            let spare = if align > PAGE { align } else { 0 };
            let bytes = len.max(1).checked_add(spare).ok_or_else(|| no_memory(Errno::ENOMEM))?;
            (Mapping::new(bytes, MapFlags::MAP_POPULATE).map_err(no_memory)?, None)
        };
        let skip = mapping.start.as_ptr().align_offset(align);
        assert!(skip <= mapping.len.get() - len, "a mapping begins at a page");
        // SAFETY: `skip` is at most that by which the mapping is longer than `len`.
        let base = unsafe { mapping.start.add(skip) };
        Ok(Self { mapping, base, len, pages })
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
        self.mapping.leaked = true;
    }
}

/// Private memory of zeros that goes when it is dropped, unless it is leaked.
#[derive(Debug)]
struct Mapping {
    start: NonNull<u8>,
    len: NonZeroUsize,
    /// Whether it is to stay for ever.
    leaked: bool,
}

impl Mapping {
    fn new(len: usize, flags: MapFlags) -> nix::Result<Self> {
        let len = NonZeroUsize::new(len).ok_or(Errno::EINVAL)?;
        let access = ProtFlags::PROT_READ | ProtFlags::PROT_WRITE;
        // SAFETY: a new private mapping at an address of the kernel's choice touches no memory
        // that is in use.
        let start = unsafe { mmap_anonymous(None, len, access, MapFlags::MAP_PRIVATE | flags) }?;
        Ok(Self { start: start.cast(), len, leaked: false })
    }

    /// One of the huge pages that the administrator has set aside, if there are enough.
    fn reserved(len: usize) -> Option<Self> {
        let len = len.checked_next_multiple_of(HUGE)?;
        let huge = Self::new(len, MapFlags::MAP_HUGETLB | MapFlags::MAP_POPULATE).ok()?;
        // Those that are promised may still be refused by a limit of the control group, and whoever
        // touches them then is killed. All that are there were given by the call.
        huge.is_resident().then_some(huge)
    }

    /// One that begins where a huge page does, and lies in such pages if the kernel finds some.
    /// No more memory is taken than was asked for.
    fn aligned(len: usize) -> nix::Result<(Self, Option<&'static str>)> {
        let len = len.checked_next_multiple_of(PAGE).ok_or(Errno::ENOMEM)?;
        let long = len.checked_add(HUGE).ok_or(Errno::ENOMEM)?;
        let mut mapping = Self::new(long, MapFlags::empty())?;
        mapping.cut(len)?;
        // SAFETY: advice changes nothing that could be read from the mapping, which is ours.
        let advised =
            unsafe { madvise(mapping.start.cast(), mapping.len.get(), MmapAdvise::MADV_HUGEPAGE) };
        let before = faults();
        for at in (0..len).step_by(PAGE) {
            // SAFETY: the byte lies in the mapping, which nobody else has seen yet.
            unsafe { mapping.start.add(at).write_volatile(0) };
        }
        // A huge page takes one fault, any other one for each page.
        let expected = len / HUGE + len % HUGE / PAGE;
        let few = faults() - before < 2 * expected as u64 + 64;
        Ok((mapping, (advised.is_ok() && few).then_some("transparent huge pages")))
    }

    /// Gives back what lies before the first huge page, and behind `len` bytes from there on.
    fn cut(&mut self, len: usize) -> nix::Result<()> {
        let skip = self.start.as_ptr().align_offset(HUGE);
        // SAFETY: both ends lie in the mapping, which is longer than `len` by a huge page: the
        // start of one is at most that far away. Nobody has seen any of it.
        let (start, end) = unsafe { (self.start.add(skip), self.start.add(skip + len)) };
        let behind = self.len.get() - skip - len;
        for (from, bytes) in [(self.start, skip), (end, behind)] {
            if bytes > 0 {
                // SAFETY: as above.
                unsafe { munmap(from.cast(), bytes) }?;
            }
        }
        self.start = start;
        self.len = NonZeroUsize::new(len).ok_or(Errno::EINVAL)?;
        Ok(())
    }

    /// Whether all of its pages are there.
    fn is_resident(&self) -> bool {
        let mut pages = vec![0_u8; self.len.get().div_ceil(PAGE)];
        // SAFETY: the kernel writes a byte for each page of the mapping, and no more.
        let told = unsafe {
            libc::mincore(self.start.as_ptr().cast(), self.len.get(), pages.as_mut_ptr())
        };
        told == 0 && pages.iter().all(|page| page & 1 == 1)
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        if self.leaked {
            return;
        }
        // SAFETY: this is the mapping that was made, and no reference to it outlives `self`.
        // A failure would leave memory mapped, which is all that could be done about it anyway.
        let _ = unsafe { munmap(self.start.cast(), self.len.get()) };
    }
}

/// How often this thread met a page that was not there yet.
fn faults() -> u64 {
    let usage = getrusage(UsageWho::RUSAGE_THREAD).map(|usage| usage.minor_page_faults());
    usage.unwrap_or_default().cast_unsigned()
}

/// How many buffers a worker has, and how far they are apart.
#[derive(Debug, Clone, Copy)]
pub(super) struct Layout {
    stride: usize,
    reads: usize,
    writes: usize,
    repeated: usize,
}

impl Layout {
    /// That of a worker of this job, of whose members the one with the coarsest wish for memory
    /// wants `align`.
    pub(super) fn of(job: &Job, align: usize) -> Self {
        let largest = job.blocks.iter().map(|mix| mix.block.0 as usize).max().unwrap_or(0);
        let depth = job.queue_depth as usize;
        let writes = match job.payload {
            _ if job.read_percent >= 100 || job.trim => 0,
            // They are the same for all, and nobody changes them, but for stamps.
            Payload::Zero if job.verify.is_none() => 1,
            _ => depth,
        };
        Self {
            stride: largest.next_multiple_of(align.max(PAGE)),
            reads: if job.read_percent > 0 { depth } else { 0 },
            writes,
            repeated: repeated_percent(job).filter(|_| writes > 0).map_or(0, |_| REPEATED),
        }
    }

    /// What all of them take.
    pub(super) fn bytes(self) -> usize {
        let count = self.reads + self.writes + self.repeated;
        count.checked_mul(self.stride).unwrap_or(usize::MAX >> 1)
    }
}

/// What share of a job's writes repeats one of a few blocks.
fn repeated_percent(job: &Job) -> Option<u8> {
    match job.payload {
        Payload::Duplicate(percent) => Some(percent),
        _ => None,
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
        let Layout { stride, reads, writes, repeated } = Layout::of(job, align);
        let mut arena = Arena::new(Layout::of(job, align).bytes(), align)?;
        let repeats = repeated_percent(job).filter(|_| repeated > 0).map(|percent| {
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

    /// In which pages they lie, for the record; `None` of ordinary ones.
    pub(super) fn pages(&self) -> Option<&'static str> {
        self.arena.pages
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
    use crate::testing::skip;
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
    fn long_memory_is_in_huge_pages_or_not_but_always_of_its_length() {
        for (len, align) in [(HUGE, 512), (3 * HUGE + 5000, 4096), (HUGE, 1 << 16)] {
            let mut arena = Arena::new(len, align).unwrap();
            assert_eq!(arena.address(0, 0).align_offset(align.max(PAGE)), 0);
            assert!(arena.part(0, len).iter().all(|byte| *byte == 0));
            arena.part_mut(0, len).fill(1);
            let reserved = arena.pages == Some("huge pages");
            let mapped = arena.mapping.len.get();
            let expected = if reserved { HUGE } else { PAGE };
            assert_eq!(mapped, len.next_multiple_of(expected));
        }
        assert_eq!(Arena::new(HUGE - 1, 512).unwrap().pages, None, "no memory is wasted");
    }

    #[test]
    fn huge_pages_are_what_the_kernel_says() {
        let test = "huge_pages_are_what_the_kernel_says";
        let (arena, pages) = Mapping::aligned(8 * HUGE).unwrap();
        let maps = std::fs::read_to_string("/proc/self/smaps").unwrap();
        let start = format!("{:x}-", arena.start.as_ptr().addr());
        let own = maps.split_once(&start).map_or("", |(_, own)| own);
        let Some((_, huge)) = own.split_once("AnonHugePages:") else {
            return skip(test, "the kernel doesn't tell of huge pages", "use one that has them");
        };
        let huge: usize = huge.split_whitespace().next().unwrap().parse().unwrap();
        assert_eq!(pages.is_some(), huge << 10 >= 7 * HUGE, "{pages:?}, {huge} KiB");
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
