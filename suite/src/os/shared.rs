//! Memory that several threads read and write at once, and that can outlive the process.

use std::fs::File;
use std::io;
use std::num::NonZeroUsize;
use std::ptr::NonNull;
use std::sync::atomic::AtomicU32;

use nix::sys::mman::{MapFlags, ProtFlags, mmap, mmap_anonymous, munmap};

/// Numbers of 32 bits, each of which can be changed by any thread at any time.
#[derive(Debug)]
pub struct SharedWords {
    memory: NonNull<AtomicU32>,
    count: usize,
    mapped: NonZeroUsize,
}

// SAFETY: the mapping belongs to this value alone, and is used through atomics only.
unsafe impl Send for SharedWords {}
// SAFETY: as above.
unsafe impl Sync for SharedWords {}

impl SharedWords {
    /// So many zeros. Memory is taken where they are changed.
    pub fn new(count: usize) -> io::Result<Self> {
        let mapped = bytes(count)?;
        // SAFETY: a new mapping at an address of the kernel's choice.
        let memory = unsafe {
            mmap_anonymous(
                None,
                mapped,
                ProtFlags::PROT_READ | ProtFlags::PROT_WRITE,
                MapFlags::MAP_PRIVATE | MapFlags::MAP_NORESERVE,
            )
        }?;
        Ok(Self { memory: memory.cast(), count, mapped })
    }

    /// Those that a file holds, which is made as long as they are: what is changed here is changed
    /// there, and stays when the process is killed.
    pub fn of_file(file: &File, count: usize) -> io::Result<Self> {
        let mapped = bytes(count)?;
        file.set_len(mapped.get() as u64)?;
        // SAFETY: a new mapping at an address of the kernel's choice; the file is as long as it.
        let memory = unsafe {
            mmap(
                None,
                mapped,
                ProtFlags::PROT_READ | ProtFlags::PROT_WRITE,
                MapFlags::MAP_SHARED,
                file,
                0,
            )
        }?;
        Ok(Self { memory: memory.cast(), count, mapped })
    }

    /// All of them.
    #[inline]
    #[must_use]
    pub fn words(&self) -> &[AtomicU32] {
        // SAFETY: the mapping holds so many, is aligned to a page and lives as long as `self`.
        // Whatever bits it has are a number.
        unsafe { std::slice::from_raw_parts(self.memory.as_ptr(), self.count) }
    }
}

impl Drop for SharedWords {
    fn drop(&mut self) {
        // SAFETY: the mapping was made by `new` or `of_file`, and no reference to it is left.
        let _ = unsafe { munmap(self.memory.cast(), self.mapped.get()) };
    }
}

fn bytes(count: usize) -> io::Result<NonZeroUsize> {
    let bytes = count.max(1).checked_mul(size_of::<AtomicU32>()).and_then(NonZeroUsize::new);
    bytes.ok_or_else(|| io::Error::from(io::ErrorKind::OutOfMemory))
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering::Relaxed;

    use super::*;

    #[test]
    fn what_is_in_a_file_is_there_again() {
        let file = tempfile::tempfile().unwrap();
        let words = SharedWords::of_file(&file, 1000).unwrap();
        words.words()[999].store(7, Relaxed);
        drop(words);
        let again = SharedWords::of_file(&file, 1000).unwrap();
        assert_eq!(again.words()[999].load(Relaxed), 7);
        assert_eq!(again.words().len(), 1000);
    }

    #[test]
    fn new_ones_are_zero() {
        let words = SharedWords::new(1 << 20).unwrap();
        assert!(words.words().iter().all(|word| word.load(Relaxed) == 0));
        assert!(SharedWords::new(usize::MAX).is_err());
    }
}
