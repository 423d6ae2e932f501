//! A file that stays in the page cache, whoever advises the kernel to drop it.

use std::fs::File;
use std::num::NonZeroUsize;
use std::path::Path;
use std::ptr::NonNull;

use anyhow::{Context, Result};
use nix::libc::c_void;
use nix::sys::mman::{MapFlags, ProtFlags, mmap, munmap};

/// A file, all of whose pages are mapped, which `POSIX_FADV_DONTNEED` leaves alone: both fio and
/// diskproof drop what is cached before they read through the cache.
#[derive(Debug)]
pub(crate) struct Cached {
    address: NonNull<c_void>,
    bytes: NonZeroUsize,
}

impl Cached {
    /// Reads the file into the page cache and keeps it there as long as this lives.
    pub(crate) fn new(path: &Path) -> Result<Self> {
        let file = File::open(path)?;
        let bytes = NonZeroUsize::new(usize::try_from(file.metadata()?.len())?);
        let bytes = bytes.with_context(|| format!("{} is empty", path.display()))?;
        let flags = MapFlags::MAP_SHARED | MapFlags::MAP_POPULATE;
        // SAFETY: a new mapping at an address of the kernel's choice, which nobody reads through.
        let address = unsafe { mmap(None, bytes, ProtFlags::PROT_READ, flags, &file, 0) }?;
        Ok(Self { address, bytes })
    }
}

impl Drop for Cached {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours, of this length, and no reference into it was ever given.
        let _ = unsafe { munmap(self.address, self.bytes.get()) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_mapped_and_an_empty_one_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("data");
        std::fs::write(&path, "").unwrap();
        assert!(Cached::new(&path).is_err());
        std::fs::write(&path, [7; 10_000]).unwrap();
        drop(Cached::new(&path).unwrap());
    }
}
