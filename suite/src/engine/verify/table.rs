//! What each block of a storage should hold, and who uses it just now.
//!
//! One word of 32 bits a block:
//!
//! | bits | what |
//! | --- | --- |
//! | 0 to 23 | its generation: how often it was written; 0 where nobody vouches for it |
//! | 24 to 29 | I/Os that read it just now |
//! | 30 | a write to it is on its way |

use std::fs::File;
use std::io;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};

use crate::os::shared::SharedWords;

const GENERATION: u32 = (1 << 24) - 1;
const READER: u32 = 1 << 24;
const READERS: u32 = 63 << 24;
const WRITER: u32 = 1 << 30;

/// Words before the table in a file: what it is of.
const HEAD: usize = 4;
const MAGIC: u32 = 0x7c_44_50_74;

/// The table of one storage.
#[derive(Debug)]
pub struct Generations {
    words: SharedWords,
    /// Words that are no block.
    head: usize,
    block: u64,
    run: u32,
}

impl Generations {
    /// That of a storage of so many bytes, nothing of which was written, in blocks of this size.
    /// `run` tells the stamps of this run from those of others.
    pub fn new(bytes: u64, block: u64, run: u32) -> io::Result<Self> {
        let words = SharedWords::new(count(bytes, block)?)?;
        Ok(Self { words, head: 0, block, run })
    }

    /// As [`new`](Self::new), kept in a file from where [`reopen`](Self::reopen) has it again,
    /// though the process be killed.
    pub fn kept_in(file: &File, bytes: u64, block: u64, run: u32) -> io::Result<Self> {
        let words = SharedWords::of_file(file, HEAD + count(bytes, block)?)?;
        let block_word = u32::try_from(block).map_err(io::Error::other)?;
        for (word, value) in words.words().iter().zip([MAGIC, run, block_word, 0]) {
            word.store(value, Relaxed);
        }
        Ok(Self { words, head: HEAD, block, run })
    }

    /// A copy of the table that a file keeps, of a storage of so many bytes: what was on its way
    /// when its process ended may or may not have arrived, and nobody vouches for it.
    ///
    /// # Errors
    /// When the file holds no table of such a storage.
    pub fn reopen(file: &File, bytes: u64) -> io::Result<Self> {
        let wrong = |why: &str| io::Error::new(io::ErrorKind::InvalidData, why.to_owned());
        let len = file.metadata()?.len() as usize / size_of::<u32>();
        if len <= HEAD {
            return Err(wrong("it holds no table of generations"));
        }
        let mut raw = vec![0; len * size_of::<u32>()];
        std::os::unix::fs::FileExt::read_exact_at(file, &mut raw, 0)?;
        let (kept, _) = raw.as_chunks::<{ size_of::<u32>() }>();
        let kept: Vec<u32> = kept.iter().map(|word| u32::from_le_bytes(*word)).collect();
        let (run, block) = (kept[1], u64::from(kept[2]));
        if kept[0] != MAGIC || block == 0 {
            return Err(wrong("it holds no table of generations"));
        }
        if count(bytes, block)? != len - HEAD {
            return Err(wrong("its table is of a storage of another size"));
        }
        let table = Self::new(bytes, block, run)?;
        for (word, kept) in table.table().iter().zip(&kept[HEAD..]) {
            if kept & WRITER == 0 {
                word.store(kept & GENERATION, Relaxed);
            }
        }
        Ok(table)
    }

    /// The run whose stamps count.
    #[must_use]
    pub fn run(&self) -> u32 {
        self.run
    }

    /// Size of a block.
    #[must_use]
    pub fn block(&self) -> u64 {
        self.block
    }

    /// How many blocks have been written, and are vouched for.
    #[must_use]
    pub fn vouched_for(&self) -> usize {
        self.table().iter().filter(|word| word.load(Relaxed) & GENERATION != 0).count()
    }

    /// Nobody vouches for anything any more: somebody else has written there.
    pub fn forget_all(&self) {
        self.table().iter().for_each(|word| word.store(0, Relaxed));
    }

    fn table(&self) -> &[AtomicU32] {
        &self.words.words()[self.head..]
    }

    /// The words of the blocks of an I/O.
    #[inline]
    fn of(&self, offset: u64, len: u32) -> &[AtomicU32] {
        let first = (offset / self.block) as usize;
        let blocks = (u64::from(len) / self.block) as usize;
        &self.table()[first..first + blocks]
    }

    /// Begins a write, if nobody else uses its blocks.
    #[inline]
    #[must_use]
    pub fn begin_write(&self, offset: u64, len: u32) -> bool {
        let free = |word: u32| (word & (WRITER | READERS) == 0).then_some(word | WRITER);
        take_all(self.of(offset, len), free, |word| word & !WRITER)
    }

    /// The generation that a block of a write on its way will have: never 0.
    #[inline]
    #[must_use]
    pub fn next_generation(&self, offset: u64) -> u32 {
        let word = self.table()[(offset / self.block) as usize].load(Relaxed);
        next(word & GENERATION)
    }

    /// A write is done. One that failed may have arrived in part: nobody vouches for its blocks.
    #[inline]
    pub fn end_write(&self, offset: u64, len: u32, arrived: bool) {
        for word in self.of(offset, len) {
            let generation = word.load(Relaxed) & GENERATION;
            // The writer has the block for itself.
            word.store(if arrived { next(generation) } else { 0 }, Release);
        }
    }

    /// Begins a read, if nobody writes to its blocks.
    #[inline]
    #[must_use]
    pub fn begin_read(&self, offset: u64, len: u32) -> bool {
        let free = |word: u32| {
            (word & WRITER == 0 && word & READERS != READERS).then_some(word.wrapping_add(READER))
        };
        take_all(self.of(offset, len), free, |word| word - READER)
    }

    /// A read is done.
    #[inline]
    pub fn end_read(&self, offset: u64, len: u32) {
        for word in self.of(offset, len) {
            word.fetch_sub(READER, Release);
        }
    }

    /// The generation of the block at `offset`; `None` where nobody vouches for it.
    #[inline]
    #[must_use]
    pub fn expected(&self, offset: u64) -> Option<u32> {
        let word = self.table()[(offset / self.block) as usize].load(Acquire);
        Some(word & GENERATION).filter(|generation| *generation != 0)
    }
}

fn count(bytes: u64, block: u64) -> io::Result<usize> {
    usize::try_from(bytes / block.max(1)).map_err(io::Error::other)
}

/// The generation after this one; 0 is nobody's.
#[inline]
fn next(generation: u32) -> u32 {
    if generation == GENERATION { 1 } else { generation + 1 }
}

/// Changes all words, or none when one can't be.
#[inline]
fn take_all(
    words: &[AtomicU32],
    take: impl Fn(u32) -> Option<u32>,
    give_back: impl Fn(u32) -> u32,
) -> bool {
    for (number, word) in words.iter().enumerate() {
        if word.fetch_update(AcqRel, Relaxed, &take).is_err() {
            for taken in &words[..number] {
                // Others may have joined as readers meanwhile.
                let _ = taken.fetch_update(AcqRel, Relaxed, |word| Some(give_back(word)));
            }
            return false;
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> Generations {
        Generations::new(1 << 20, 4096, 1).unwrap()
    }

    #[test]
    fn a_write_has_its_blocks_for_itself() {
        let table = table();
        assert!(table.begin_write(4096, 8192));
        for (offset, len) in [(0, 8192), (4096, 4096), (8192, 8192)] {
            assert!(!table.begin_write(offset, len));
            assert!(!table.begin_read(offset, len));
        }
        assert!(table.begin_write(0, 4096) && table.begin_read(12_288, 4096));
        assert_eq!(table.next_generation(4096), 1);
        table.end_write(4096, 8192, true);
        assert_eq!(table.expected(8192), Some(1));
        assert!(table.begin_write(4096, 4096));
        table.end_write(4096, 4096, true);
        assert_eq!(table.expected(4096), Some(2));
    }

    #[test]
    fn readers_share_and_keep_writers_out() {
        let table = table();
        for _ in 0..63 {
            assert!(table.begin_read(0, 4096));
        }
        assert!(!table.begin_read(0, 8192), "no more than can be counted");
        assert!(table.begin_write(4096, 4096), "what was taken in vain is given back");
        assert!(!table.begin_write(0, 4096));
        (0..63).for_each(|_| table.end_read(0, 4096));
        assert!(table.begin_write(0, 4096));
    }

    #[test]
    fn a_failed_write_vouches_for_nothing() {
        let table = table();
        for arrived in [true, false] {
            assert!(table.begin_write(0, 4096));
            table.end_write(0, 4096, arrived);
        }
        assert_eq!(table.expected(0), None);
    }

    #[test]
    fn generations_begin_anew_at_one() {
        assert_eq!(next(0), 1);
        assert_eq!(next(GENERATION), 1);
    }

    #[test]
    fn a_file_keeps_all_but_what_was_on_its_way() {
        let file = tempfile::tempfile().unwrap();
        let table = Generations::kept_in(&file, 1 << 20, 4096, 77).unwrap();
        for offset in [0, 4096] {
            assert!(table.begin_write(offset, 4096));
            table.end_write(offset, 4096, true);
        }
        assert!(table.begin_write(4096, 4096) && table.begin_read(0, 4096));
        drop(table); // the process is killed
        let again = Generations::reopen(&file, 1 << 20).unwrap();
        assert_eq!((again.run(), again.block(), again.vouched_for()), (77, 4096, 1));
        assert_eq!(again.expected(0), Some(1));
        assert_eq!(again.expected(4096), None);
        assert!(Generations::reopen(&file, 2 << 20).is_err());
        assert!(Generations::reopen(&tempfile::tempfile().unwrap(), 1 << 20).is_err());
    }
}
