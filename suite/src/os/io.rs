//! Transfers that the standard library has no function for, and what their errors mean.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;

use nix::fcntl::{FallocateFlags, fallocate};
use nix::libc;
use nix::sys::memfd::{MFdFlags, memfd_create};

/// `RWF_DSYNC`: the write is done when its data are on the medium.
pub const RWF_DSYNC: i32 = libc::RWF_DSYNC;
/// `RWF_SYNC`: as that, and all metadata too.
pub const RWF_SYNC: i32 = libc::RWF_SYNC;

/// `pwritev2` of one buffer, with `RWF_*` flags. Returns the bytes written, which may be fewer
/// than asked for.
#[inline]
pub fn write_at_with_flags(
    file: &File,
    buffer: &[u8],
    offset: u64,
    flags: i32,
) -> io::Result<usize> {
    let vector = libc::iovec { iov_base: buffer.as_ptr().cast_mut().cast(), iov_len: buffer.len() };
    // By number, since not every C library has a wrapper. The offset comes in two words, of which
    // 64-bit kernels read the first alone.
    // SAFETY: the vector points to one live buffer that the kernel reads from during the call and
    // not after it, and the descriptor is open as long as `file` lives.
    let written = unsafe {
        libc::syscall(
            libc::SYS_pwritev2,
            file.as_raw_fd(),
            &raw const vector,
            1_usize,
            offset,
            0_usize,
            flags,
        )
    };
    usize::try_from(written).map_err(|_| io::Error::last_os_error())
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
        assert_eq!(error.raw_os_error(), Some(libc::EBADF));
    }
}
