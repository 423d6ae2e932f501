//! Transfers as the kernel knows them, some of which the standard library has no function for, and
//! what their errors mean.
//!
//! The calls are made without the C library, whose own ones are points at which a thread may be
//! cancelled: with those, a call of the null device costs a fifth more.

use std::fs::File;
use std::io;
use std::io::IoSlice;

use nix::fcntl::{FallocateFlags, fallocate};
use nix::libc;
use nix::sys::memfd::{MFdFlags, memfd_create};
pub use rustix::io::Errno;
use rustix::io::ReadWriteFlags;

/// `RWF_DSYNC`: the write is done when its data are on the medium.
pub const RWF_DSYNC: i32 = libc::RWF_DSYNC;
/// `RWF_SYNC`: as that, and all metadata too.
pub const RWF_SYNC: i32 = libc::RWF_SYNC;

/// `pread64`: returns the bytes read, which may be fewer than asked for.
#[inline]
pub fn read_at(file: &File, buffer: &mut [u8], offset: u64) -> Result<usize, Errno> {
    rustix::io::pread(file, buffer, offset)
}

/// `pwrite64`: returns the bytes written, which may be fewer than asked for.
#[inline]
pub fn write_at(file: &File, buffer: &[u8], offset: u64) -> Result<usize, Errno> {
    rustix::io::pwrite(file, buffer, offset)
}

/// `pwritev2` of one buffer, with `RWF_*` flags. Returns the bytes written, which may be fewer
/// than asked for.
#[inline]
pub fn write_at_with_flags(
    file: &File,
    buffer: &[u8],
    offset: u64,
    flags: i32,
) -> Result<usize, Errno> {
    let flags = ReadWriteFlags::from_bits_retain(flags.cast_unsigned());
    rustix::io::pwritev2(file, &[IoSlice::new(buffer)], offset, flags)
}

/// Mode of `fallocate` that makes a hole and leaves the size as it is.
pub const PUNCH_HOLE: i32 = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE;

/// Gives back the blocks that lie wholly in a range of a file; what is left of it reads as zeros.
pub fn punch_hole(file: &File, offset: u64, len: u64) -> io::Result<()> {
    let mode = FallocateFlags::from_bits_retain(PUNCH_HOLE);
    Ok(fallocate(file, mode, offset.cast_signed(), len.cast_signed())?)
}

/// A new file that lies in memory and has no name in any folder (`memfd_create`); `name` is for
/// those who look at the process.
pub fn memory_file(name: &str) -> io::Result<File> {
    Ok(memfd_create(name, MFdFlags::MFD_CLOEXEC)?.into())
}

/// Whether a call failed since this process, or the whole system, may open no more files.
#[must_use]
pub fn too_many_open_files(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EMFILE | libc::ENFILE))
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use super::*;

    #[test]
    fn flagged_writes_land_at_their_offset() {
        let mut file = tempfile::tempfile().unwrap();
        for flags in [0, RWF_DSYNC, RWF_SYNC] {
            assert_eq!(write_at_with_flags(&file, b"abc", 5, flags).unwrap(), 3);
        }
        let mut all = Vec::new();
        file.read_to_end(&mut all).unwrap();
        assert_eq!(all, b"\0\0\0\0\0abc");
    }

    #[test]
    fn a_refused_write_says_why() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        std::fs::write(&path, b"x").unwrap();
        let readable = File::open(&path).unwrap();
        let error = write_at_with_flags(&readable, b"abc", 0, RWF_DSYNC).unwrap_err();
        assert_eq!(error.raw_os_error(), libc::EBADF);
    }
}
