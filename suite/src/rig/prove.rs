//! Looking whether storage is what it is taken for, before anything is measured on it.

use std::fs::File;
use std::io;
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::path::Path;

use nix::errno::Errno;
use nix::fcntl::OFlag;
use nix::unistd::syncfs;

use super::error::RigError;
use super::fill::AlignedBuffer;
use super::identity;
use crate::os::direct::DirectAlign;
use crate::os::extents;
use crate::units::Bytes;

/// `st_blocks` counts in these, whatever the file system's own blocks are (inode(7)).
const STAT_BLOCK_BYTES: u64 = 512;

/// What is tried where the first guess of an alignment was too small: the logical blocks of large
/// disks.
const LARGE_BLOCK_BYTES: u32 = 4096;

/// Checks that all of a file was written: reads of holes, and of what was allocated and never
/// written, are measured in memory, and so are first writes to them.
pub(super) fn no_holes(file: &File, path: &Path) -> Result<(), RigError> {
    let failed = |source| RigError::system("look at", path, source);
    let (bytes, mut allocated) = allocation(file).map_err(failed)?;
    if allocated < bytes {
        // Some file systems (ZFS) count only when all of theirs has been written out.
        syncfs(file).map_err(|errno| RigError::system("write out", path, errno))?;
        (_, allocated) = allocation(file).map_err(failed)?;
    }
    if let Some(written) = extents::written_bytes(file).map_err(failed)? {
        allocated = allocated.min(written);
    }
    if allocated < bytes {
        let (bytes, allocated) = (Bytes(bytes), Bytes(allocated));
        return Err(RigError::Sparse { path: path.to_owned(), bytes, allocated });
    }
    Ok(())
}

fn allocation(file: &File) -> io::Result<(u64, u64)> {
    let facts = file.metadata()?;
    Ok((facts.len(), facts.blocks().saturating_mul(STAT_BLOCK_BYTES)))
}

/// Moves one block by direct I/O at the least alignment that `likely` allows, and returns the
/// alignment that this proves: `likely`, or the one of large disks where that was a guess too low.
/// With `writes`, what was read is written back. `None` where there is no direct I/O after all.
pub(super) fn direct_transfer(
    file: &File,
    likely: DirectAlign,
    bytes: u64,
    writes: bool,
) -> io::Result<Option<DirectAlign>> {
    let access = if writes { OFlag::O_RDWR } else { OFlag::O_RDONLY };
    let refused = |error: &io::Error| error.raw_os_error() == Some(Errno::EINVAL as i32);
    let direct = match identity::reopen(file, access | OFlag::O_DIRECT) {
        Ok(direct) => direct,
        Err(error) if refused(&error) => return Ok(None),
        Err(error) => return Err(error),
    };
    let larger = DirectAlign {
        memory_bytes: likely.memory_bytes.max(LARGE_BLOCK_BYTES),
        offset_bytes: likely.offset_bytes.max(LARGE_BLOCK_BYTES),
    };
    for align in [likely, larger] {
        if bytes < align.offset_bytes.into() {
            continue;
        }
        match move_block(&direct, align, bytes, writes) {
            Ok(()) => return Ok(Some(align)),
            Err(error) if refused(&error) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(None)
}

/// One block, at an address and an offset that are multiples of the alignment and of nothing more.
fn move_block(file: &File, align: DirectAlign, bytes: u64, writes: bool) -> io::Result<()> {
    let (block, memory) = (u64::from(align.offset_bytes), align.memory_bytes as usize);
    let offset = if bytes >= 2 * block { block } else { 0 };
    let mut buffer = AlignedBuffer::new(memory + block as usize, 2 * memory);
    let piece = &mut buffer.bytes()[memory..];
    file.read_exact_at(piece, offset)?;
    if writes {
        file.write_all_at(piece, offset)?;
    }
    Ok(())
}
