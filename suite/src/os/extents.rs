//! Which parts of a file hold data on its disk: `FS_IOC_FIEMAP`
//! (Documentation/filesystems/fiemap.rst).

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;

use nix::errno::Errno;
use nix::libc;

/// Extents that one call may return. A fragmented file takes several calls.
const BATCH: usize = 128;

/// Write out first what has no place yet.
const FIEMAP_FLAG_SYNC: u32 = 0x1;
/// The last extent of the file.
const FIEMAP_EXTENT_LAST: u32 = 0x1;
/// Allocated, but never written: reads of it are zeros that no disk was asked for.
const FIEMAP_EXTENT_UNWRITTEN: u32 = 0x800;

/// `struct fiemap_extent` of linux/fiemap.h.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Extent {
    logical: u64,
    physical: u64,
    length: u64,
    reserved64: [u64; 2],
    flags: u32,
    reserved: [u32; 3],
}

/// `struct fiemap` of linux/fiemap.h, with room for its extents.
#[repr(C)]
struct Request {
    start: u64,
    length: u64,
    flags: u32,
    mapped_extents: u32,
    extent_count: u32,
    reserved: u32,
    extents: [Extent; BATCH],
}

/// What the kernel's headers say that these are, without the extents.
const HEADER_BYTES: usize = 32;
const _: () = assert!(size_of::<Extent>() == 56);
const _: () = assert!(std::mem::offset_of!(Request, extents) == HEADER_BYTES);

mod raw {
    use super::HEADER_BYTES;
    use nix::libc;

    // The number is that of the header alone: `_IOWR('f', 11, struct fiemap)`.
    nix::ioctl_readwrite_bad!(
        fiemap,
        nix::request_code_readwrite!(b'f', 11, HEADER_BYTES),
        libc::c_void
    );
}

/// Bytes of a file that were written and have a place on its disk: holes don't count, nor do
/// extents that were allocated and never written. `None` where the file system keeps no such map.
///
/// # Errors
/// What the kernel refused for another reason.
pub fn written_bytes(file: &File) -> io::Result<Option<u64>> {
    let mut written = 0_u64;
    let mut start = 0_u64;
    loop {
        let mut request = Request {
            start,
            length: u64::MAX - start,
            flags: FIEMAP_FLAG_SYNC,
            mapped_extents: 0,
            extent_count: BATCH as u32,
            reserved: 0,
            extents: [Extent::default(); BATCH],
        };
        let pointer = (&raw mut request).cast::<libc::c_void>();
        // SAFETY: the kernel writes to the request alone, which has room for as many extents as
        // it says, and lives until the call has returned.
        match unsafe { raw::fiemap(file.as_raw_fd(), pointer) } {
            Ok(_) => {}
            Err(Errno::EOPNOTSUPP | Errno::ENOTTY | Errno::EINVAL) => return Ok(None),
            Err(errno) => return Err(errno.into()),
        }
        let found = &request.extents[..(request.mapped_extents as usize).min(BATCH)];
        let of_data = found.iter().filter(|extent| extent.flags & FIEMAP_EXTENT_UNWRITTEN == 0);
        written += of_data.map(|extent| extent.length).sum::<u64>();
        match found.last() {
            Some(last) if last.flags & FIEMAP_EXTENT_LAST == 0 => {
                start = last.logical + last.length;
            }
            _ => return Ok(Some(written)),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use nix::fcntl::{FallocateFlags, fallocate};

    use super::*;

    #[test]
    fn what_is_allocated_and_not_written_holds_no_data() {
        let mut file = tempfile::tempfile_in("/var/tmp").unwrap();
        if written_bytes(&file).unwrap().is_none() {
            let remedy = "put /var/tmp on ext4, xfs or btrfs";
            crate::testing::skip("what_is_allocated", "no extent maps in /var/tmp", remedy);
            return;
        }
        fallocate(&file, FallocateFlags::empty(), 0, 1 << 20).unwrap();
        assert_eq!(written_bytes(&file).unwrap(), Some(0));
        file.write_all(&vec![7; 1 << 18]).unwrap();
        assert_eq!(written_bytes(&file).unwrap(), Some(1 << 18));
    }

    #[test]
    fn a_file_in_many_pieces_is_counted_to_its_end() {
        use std::os::unix::fs::FileExt;
        let file = tempfile::tempfile_in("/var/tmp").unwrap();
        let pieces = 3 * BATCH as u64;
        for piece in 0..pieces {
            file.write_all_at(&[1; 4096], piece * 8192).unwrap();
        }
        if let Some(written) = written_bytes(&file).unwrap() {
            assert_eq!(written, pieces * 4096);
        }
    }
}
