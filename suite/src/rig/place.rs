//! Directories in which files are to be made: whether they can be, and what lies under them.
//!
//! The only thing that this makes is a file that has no name (`O_TMPFILE`) and is gone when it is
//! closed, whatever happens: a real answer to three questions that can't be answered by looking.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::fcntl::OFlag;
use nix::sys::stat::Mode;
use nix::unistd::{AccessFlags, eaccess};

use super::error::RigError;
use super::identity::{self, Identity, Want};
use super::survey::Host;
use crate::os::blockdev::{BlockDevice, DeviceNumber, logical_block_bytes};
use crate::os::direct::{DirectAlign, DirectIo, direct_io};

/// Of what has no logical blocks to ask for, direct I/O is tried with these offsets: the least
/// that any disk has had.
const LEAST_BLOCK_BYTES: u32 = 512;

/// Memory at page borders suits every device.
const PAGE_BYTES: u32 = 4096;

/// A directory in which files can be made.
#[derive(Debug, Clone)]
pub(super) struct Place {
    /// As given.
    pub path: PathBuf,
    pub identity: Identity,
    pub under: Under,
    /// `None` where there is no direct I/O.
    pub align: Option<DirectAlign>,
}

/// What lies under a file or a directory.
#[derive(Debug, Clone)]
pub(super) struct Under {
    /// Type of the file system.
    pub filesystem: Option<String>,
    /// The block device, where there is one.
    pub device: Option<BlockDevice>,
}

impl Place {
    /// Looks at the directory `path`.
    pub(super) fn look(disk: Option<&str>, path: &Path, host: &Host) -> Result<Self, RigError> {
        let directory = identity::open(disk, path, OFlag::O_DIRECTORY, Want::Directory)?;
        let failed = |operation| move |source| RigError::system(operation, path, source);
        let under = Under::find(host, path, &directory).map_err(failed("look at"))?;
        let align = match probe(&directory, path)? {
            DirectIo::Aligned(align) => Some(align),
            DirectIo::Unsupported => None,
            DirectIo::Unknown => Some(likely_align(&directory, under.device.as_ref())),
        };
        Ok(Self {
            path: path.to_owned(),
            identity: Identity::of(&directory).map_err(failed("look at"))?,
            under,
            align,
        })
    }

    /// The name of its file system's type, for a person.
    pub(super) fn filesystem(&self) -> String {
        self.under.filesystem.clone().unwrap_or_else(|| "the file system".to_owned())
    }
}

impl Under {
    /// Finds what `file`, which is at `path`, lies on.
    pub(super) fn find(host: &Host, path: &Path, file: &File) -> io::Result<Self> {
        let number = DeviceNumber::from_raw(file.metadata()?.dev());
        let path = fs::canonicalize(path)?;
        let mount = host.mounts.under(&path, number);
        let device = host.sysfs.device(number).or_else(|| {
            // btrfs and others give files a number that no device has; what is mounted does.
            let source = DeviceNumber::of_block_device(&mount?.source)?;
            host.sysfs.device(source)
        });
        Ok(Self { filesystem: mount.map(|mount| mount.filesystem.clone()), device })
    }
}

/// What to try where the kernel doesn't say what direct I/O wants: the logical block of the device
/// that `file` is, or else of the one that it lies on.
pub(super) fn likely_align(file: &File, device: Option<&BlockDevice>) -> DirectAlign {
    let offset_bytes = logical_block_bytes(file)
        .ok()
        .or_else(|| device.map(|device| device.logical_block_bytes))
        .filter(|bytes| bytes.is_power_of_two())
        .unwrap_or(LEAST_BLOCK_BYTES);
    DirectAlign { memory_bytes: PAGE_BYTES, offset_bytes }
}

/// The kernel's word on direct I/O on a file; where it says nothing, whether the flag is taken.
pub(super) fn direct_io_of(file: &File) -> io::Result<DirectIo> {
    let says = direct_io(file)?;
    if says != DirectIo::Unknown {
        return Ok(says);
    }
    match identity::reopen(file, OFlag::O_DIRECT) {
        Ok(_) => Ok(DirectIo::Unknown),
        Err(error) if error.raw_os_error() == Some(Errno::EINVAL as i32) => {
            Ok(DirectIo::Unsupported)
        }
        Err(error) => Err(error),
    }
}

/// Whether a file can be made in `directory`, and what direct I/O on it would want.
fn probe(directory: &File, path: &Path) -> Result<DirectIo, RigError> {
    let flags = OFlag::O_TMPFILE | OFlag::O_RDWR | OFlag::O_CLOEXEC;
    let made = nix::fcntl::openat(directory, ".", flags, Mode::S_IRUSR | Mode::S_IWUSR);
    let not_writable =
        |errno: Errno| RigError::NotWritable { path: path.to_owned(), source: errno.into() };
    match made {
        Ok(file) => direct_io_of(&File::from(file))
            .map_err(|source| RigError::system("ask for the alignment of", path, source)),
        // This file system can't make a file without a name, or has no room for one more: the
        // question is put to the permissions alone, and the rest to the file that is made later.
        Err(Errno::EOPNOTSUPP | Errno::EISDIR | Errno::EINVAL | Errno::ENOSPC | Errno::EDQUOT) => {
            eaccess(path, AccessFlags::W_OK | AccessFlags::X_OK).map_err(not_writable)?;
            Ok(DirectIo::Unknown)
        }
        Err(errno) => Err(not_writable(errno)),
    }
}
