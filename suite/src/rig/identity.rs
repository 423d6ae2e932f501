//! What something is, apart from what it is called; and the question what lies at a path.

use std::fmt;
use std::fs::{self, File, Metadata};
use std::io;
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::fcntl::OFlag;
use nix::sys::stat::{major, minor};

use super::error::RigError;
use crate::os::blockdev::{self, DeviceNumber};
use crate::units::Bytes;

/// What something is. Two looks that give the same were at the same thing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Identity {
    kind: Kind,
    device: u64,
    /// Of a device, which of the media that it has had since the boot: a loop device keeps its
    /// number when the file behind it is changed.
    inode: u64,
    bytes: u64,
}

/// The kinds of things that can be a disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Directory,
    BlockDevice,
    File,
    /// The one character device that can be written to without harm.
    Null,
}

/// Where the null device lies.
pub(super) const NULL: &str = "/dev/null";

/// Its number, on every Linux (Documentation/admin-guide/devices.txt).
const NULL_DEVICE: (u64, u64) = (1, 3);

impl Identity {
    /// That of an open file, directory or device. A device is known by its number, everything else
    /// by its inode; devices and files by their size too.
    pub(super) fn of(file: &File) -> io::Result<Self> {
        let facts = file.metadata()?;
        let kind = kind(&facts)
            .map_err(|found| io::Error::new(io::ErrorKind::InvalidInput, format!("is {found}")))?;
        Ok(match kind {
            Kind::Directory => Self { kind, device: facts.dev(), inode: facts.ino(), bytes: 0 },
            Kind::File => {
                Self { kind, device: facts.dev(), inode: facts.ino(), bytes: facts.len() }
            }
            Kind::Null => Self { kind, device: facts.rdev(), inode: 0, bytes: 0 },
            Kind::BlockDevice => {
                let bytes = blockdev::device_bytes(file)?;
                let inode = blockdev::disk_sequence(file)?.unwrap_or(0);
                Self { kind, device: facts.rdev(), inode, bytes }
            }
        })
    }

    /// Kind of the thing.
    pub(super) fn kind(&self) -> Kind {
        self.kind
    }

    /// Size in bytes; 0 for a directory.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Of a device its own number, else that of the file system.
    pub(super) fn device(&self) -> DeviceNumber {
        DeviceNumber::from_raw(self.device)
    }
}

impl fmt::Display for Identity {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (device, inode) = (self.device(), self.inode);
        match self.kind {
            Kind::Directory => write!(out, "directory {inode} of file system {device}"),
            Kind::File => {
                write!(out, "file {inode} of file system {device} with {}", Bytes(self.bytes))
            }
            Kind::Null => write!(out, "the null device"),
            Kind::BlockDevice => {
                write!(out, "block device {device}, medium {inode}, with {}", Bytes(self.bytes))
            }
        }
    }
}

/// What a path may lead to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Want {
    Directory,
    /// A block device or a regular file.
    Existing,
    /// Either of them, or a directory (which is opened elsewhere).
    Any,
    /// The null device.
    Null,
}

impl Want {
    fn takes(self, kind: Kind) -> bool {
        (self == Self::Directory) == (kind == Kind::Directory)
            && (self == Self::Null) == (kind == Kind::Null)
    }

    fn words(self) -> &'static str {
        match self {
            Self::Directory => "a directory",
            Self::Existing => "a block device or a regular file",
            Self::Any => "a block device, a regular file or a directory",
            Self::Null => "the null device",
        }
    }
}

/// Opens what `path` leads to with `flags`, if it is what is wanted. Nothing else is ever opened:
/// opening a FIFO waits for its other end, and opening some devices does things. `disk` is named
/// in errors; `None` for the work directory.
pub(super) fn open(
    disk: Option<&str>,
    path: &Path,
    flags: OFlag,
    want: Want,
) -> Result<File, RigError> {
    let wrong = |found: &str| RigError::WrongKind {
        disk: disk.map(str::to_owned),
        path: path.to_owned(),
        found: found.to_owned(),
        wanted: want.words(),
    };
    let opened = with_flags(path, OFlag::O_PATH);
    let place =
        opened.map_err(|source| match Errno::from_raw(source.raw_os_error().unwrap_or(0)) {
            Errno::ENOENT | Errno::ENOTDIR => {
                RigError::NotFound { disk: disk.map(str::to_owned), path: path.to_owned() }
            }
            Errno::ELOOP => wrong("a loop of symbolic links"),
            _ => RigError::system("open", path, source),
        })?;
    let facts = place.metadata().map_err(|source| RigError::system("look at", path, source))?;
    let kind = kind(&facts).map_err(wrong)?;
    if !matches!(kind, Kind::BlockDevice | Kind::Null) && is_in_dev(path, &facts) {
        return Err(wrong(match kind {
            Kind::Directory => "a folder of device names",
            _ => "a regular file among the device names: a mistyped device, left by some program",
        }));
    }
    if !want.takes(kind) {
        return Err(wrong(match kind {
            Kind::Directory => "a directory",
            Kind::BlockDevice => "a block device",
            Kind::File => "a regular file",
            Kind::Null => "a character device",
        }));
    }
    reopen(&place, flags).map_err(|source| RigError::system("open", path, source))
}

/// Opens the very thing that `file` has open once more, with `flags`. No name is looked up, so
/// it can't be something else.
pub(super) fn reopen(file: &File, flags: OFlag) -> io::Result<File> {
    with_flags(&PathBuf::from(format!("/proc/self/fd/{}", file.as_raw_fd())), flags)
}

fn with_flags(path: &Path, flags: OFlag) -> io::Result<File> {
    let access = flags & OFlag::O_ACCMODE;
    fs::OpenOptions::new()
        .read(access != OFlag::O_WRONLY)
        .write(access != OFlag::O_RDONLY)
        .custom_flags((flags - OFlag::O_ACCMODE).bits())
        .open(path)
}

fn kind(facts: &Metadata) -> Result<Kind, &'static str> {
    let kind = facts.file_type();
    if kind.is_dir() {
        Ok(Kind::Directory)
    } else if kind.is_block_device() {
        Ok(Kind::BlockDevice)
    } else if kind.is_file() {
        Ok(Kind::File)
    } else if kind.is_char_device() && (major(facts.rdev()), minor(facts.rdev())) == NULL_DEVICE {
        Ok(Kind::Null)
    } else if kind.is_char_device() {
        Err("a character device")
    } else if kind.is_fifo() {
        Err("a FIFO")
    } else {
        Err("a socket")
    }
}

/// Whether something lies in the very file system of device names, not in one mounted below it
/// (`/dev/shm`).
fn is_in_dev(path: &Path, facts: &Metadata) -> bool {
    let in_tree = fs::canonicalize(path).is_ok_and(|path| path.starts_with("/dev"));
    in_tree && fs::metadata("/dev").is_ok_and(|dev| dev.dev() == facts.dev())
}
