//! Writing files in full with data that nothing can compress or find twice.

use std::fs::File;
use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use nix::errno::Errno;
use nix::fcntl::OFlag;
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng as _, SeedableRng as _};

use super::error::RigError;
use super::identity;
use crate::os::direct::DirectAlign;

/// One write. Large enough for every device's full bandwidth at a depth of one, small enough that a
/// stop is heard within a moment on a slow one.
const PIECE_BYTES: usize = 4 << 20;

/// Through the page cache, so much is written before it has to have reached the disk: else all of
/// it would wait for the end, and progress would be a lie.
const SYNC_EVERY_BYTES: u64 = 64 << 20;

/// A file to be written in full.
#[derive(Debug)]
pub(super) struct Fill<'a> {
    /// Open for reading and writing, through the page cache.
    pub file: &'a File,
    pub path: &'a Path,
    /// Where to end: a whole multiple of the alignment.
    pub bytes: u64,
    pub align: Option<DirectAlign>,
    /// How far it is.
    pub written: &'a AtomicU64,
}

impl Fill<'_> {
    /// Writes it, and sees to it that it has reached the disk. `halted` is asked between pieces.
    pub(super) fn run(&self, halted: &dyn Fn() -> bool) -> Result<(), RigError> {
        let mut pen = Pen::new(self.file, self.path, self.align);
        pen.write(0, self.bytes, self.written, halted)?;
        pen.finish()
    }
}

/// What writes random data to places of a file.
#[derive(Debug)]
pub(super) struct Pen<'a> {
    file: &'a File,
    path: &'a Path,
    /// The file past the page cache, where that can be had.
    direct: Option<File>,
    buffer: AlignedBuffer,
    random: Xoshiro256PlusPlus,
    /// Bytes that lie in the page cache.
    unsynced: u64,
}

impl<'a> Pen<'a> {
    /// For a file that is open for reading and writing, through the page cache.
    pub(super) fn new(file: &'a File, path: &'a Path, align: Option<DirectAlign>) -> Self {
        Self {
            file,
            path,
            direct: align.and_then(|_| identity::reopen(file, direct_write()).ok()),
            buffer: AlignedBuffer::new(PIECE_BYTES, memory_bytes(align)),
            random: Xoshiro256PlusPlus::seed_from_u64(random_number()),
            unsynced: 0,
        }
    }

    /// Writes from one place to another, both whole multiples of the alignment. `written` is told
    /// how far it is, and `halted` is asked, between pieces.
    pub(super) fn write(
        &mut self,
        from: u64,
        to: u64,
        written: &AtomicU64,
        halted: &dyn Fn() -> bool,
    ) -> Result<(), RigError> {
        let path = self.path;
        let failed = |operation| move |source| RigError::system(operation, path, source);
        let mut at = from;
        while at < to {
            if halted() {
                return Err(RigError::Interrupted);
            }
            let length = (to - at).min(PIECE_BYTES as u64);
            let piece = &mut self.buffer.bytes()[..length as usize];
            self.random.fill_bytes(piece);
            if !write_direct(self.direct.as_ref(), piece, at).map_err(failed("write"))? {
                self.file.write_all_at(piece, at).map_err(failed("write"))?;
                self.unsynced += length;
            }
            at += length;
            if self.unsynced >= SYNC_EVERY_BYTES {
                self.file.sync_data().map_err(failed("write out"))?;
                self.unsynced = 0;
            }
            written.store(at, Ordering::Relaxed);
        }
        Ok(())
    }

    /// Sees to it that all has reached the disk.
    pub(super) fn finish(self) -> Result<(), RigError> {
        let failed = |source| RigError::system("write out", self.path, source);
        self.file.sync_all().map_err(failed)
    }
}

/// Bytes at an address that direct I/O takes.
#[derive(Debug)]
pub(super) struct AlignedBuffer {
    storage: Vec<u8>,
    start: usize,
    length: usize,
}

impl AlignedBuffer {
    /// `length` zeros at an address that is a multiple of `align`, a power of two.
    pub(super) fn new(length: usize, align: usize) -> Self {
        let storage = vec![0; length + align];
        let start = storage.as_ptr().addr().next_multiple_of(align) - storage.as_ptr().addr();
        Self { storage, start, length }
    }

    pub(super) fn bytes(&mut self) -> &mut [u8] {
        &mut self.storage[self.start..self.start + self.length]
    }
}

/// A number that nobody can foresee: the standard library seeds its maps from the kernel.
pub(super) fn random_number() -> u64 {
    RandomState::new().build_hasher().finish()
}

/// Writes a piece past the page cache; `false` if that can't be done here, or not to the end.
fn write_direct(file: Option<&File>, piece: &[u8], at: u64) -> io::Result<bool> {
    let Some(file) = file else { return Ok(false) };
    match file.write_all_at(piece, at) {
        Ok(()) => Ok(true),
        Err(error) if error.raw_os_error() == Some(Errno::EINVAL as i32) => Ok(false),
        Err(error) => Err(error),
    }
}

fn direct_write() -> OFlag {
    OFlag::O_WRONLY | OFlag::O_DIRECT
}

fn memory_bytes(align: Option<DirectAlign>) -> usize {
    align.map_or(1, |align| align.memory_bytes as usize)
}
