//! Direct I/O: what the kernel says about its alignment.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd as _};

use nix::errno::Errno;
use nix::libc;

/// What direct I/O on a file has to be multiples of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DirectAlign {
    /// Buffer addresses, in bytes; a power of two.
    pub memory_bytes: u32,
    /// Offsets and lengths, in bytes; a power of two.
    pub offset_bytes: u32,
}

/// The kernel's word on direct I/O on a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DirectIo {
    /// It can be done with this alignment.
    Aligned(DirectAlign),
    /// The file system has none.
    Unsupported,
    /// This kernel (before 6.1) or this file system doesn't say.
    Unknown,
}

/// Asks `statx` for `STATX_DIOALIGN` of an open file or block device.
///
/// # Errors
/// What `statx` returns.
pub fn direct_io(file: impl AsFd) -> io::Result<DirectIo> {
    let mut facts = MaybeUninit::<libc::statx>::zeroed();
    // SAFETY: the descriptor is open while it is borrowed, the path is a C string, and the kernel
    // writes one `statx` into memory of that size.
    let result = unsafe {
        libc::statx(
            file.as_fd().as_raw_fd(),
            c"".as_ptr(),
            libc::AT_EMPTY_PATH,
            libc::STATX_DIOALIGN,
            facts.as_mut_ptr(),
        )
    };
    Errno::result(result)?;
    // SAFETY: all bytes are initialised, with zeros where the kernel wrote nothing, and every
    // field is an integer.
    let facts = unsafe { facts.assume_init() };
    if facts.stx_mask & libc::STATX_DIOALIGN == 0 {
        return Ok(DirectIo::Unknown);
    }
    let align = DirectAlign {
        memory_bytes: facts.stx_dio_mem_align,
        offset_bytes: facts.stx_dio_offset_align,
    };
    // Both are 0 where there is no direct I/O (statx(2)).
    if align.memory_bytes.is_power_of_two() && align.offset_bytes.is_power_of_two() {
        Ok(DirectIo::Aligned(align))
    } else {
        Ok(DirectIo::Unsupported)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn alignment_is_powers_of_two() {
        let file = tempfile::tempfile_in("/var/tmp").unwrap();
        match direct_io(&file).unwrap() {
            DirectIo::Aligned(align) => {
                assert!(align.memory_bytes.is_power_of_two());
                assert!(align.offset_bytes.is_power_of_two());
            }
            other => crate::testing::skip(
                "os::direct::alignment_is_powers_of_two",
                &format!("the file system of /var/tmp says {other:?}"),
                "run on ext4 or xfs with Linux 6.1 or later",
            ),
        }
    }
}
