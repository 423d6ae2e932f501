//! One disk of the plan: what it is on this machine, or what it would be made as.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use nix::fcntl::OFlag;

use super::error::RigError;
use super::identity::{self, Identity, Kind, Want};
use super::place::{self, Place, Under};
use super::prove;
use super::survey::Host;
use crate::os::blockdev::{BlockDevice, DeviceNumber, stable_id};
use crate::os::direct::{DirectAlign, DirectIo};
use crate::units::Bytes;

/// What a disk of the plan is on this machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DiskKind {
    /// A file that is made in the work directory and stands for a device.
    Loopback,
    /// A directory in which a test file is made.
    Directory,
    /// A block device that is there.
    Device,
    /// A regular file that is there.
    File,
    /// The null device, which takes all that is written and does nothing.
    Null,
}

impl DiskKind {
    /// Its word in records and listings.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Loopback => "loopback",
            Self::Directory => "directory",
            Self::Device => "device",
            Self::File => "file",
            Self::Null => "null",
        }
    }

    /// Whether its storage is made for the run and removed after it.
    #[must_use]
    pub fn is_created(self) -> bool {
        matches!(self, Self::Loopback | Self::Directory)
    }
}

/// One disk, as it is or would be made.
#[derive(Debug, Clone)]
pub struct SurveyedDisk {
    /// Index into [`Plan::disks`](crate::plan::Plan::disks).
    pub disk: usize,
    /// Its name in the plan.
    pub name: String,
    /// What it is.
    pub kind: DiskKind,
    /// The thing itself, or for what is made the directory that it is made in.
    pub path: PathBuf,
    /// Its size: of what is there, or of what will be.
    pub size: Bytes,
    /// Most that it takes at any moment of what is free; 0 for what is there already.
    pub created: Bytes,
    /// Type of the file system that it lies on; `None` for a device.
    pub filesystem: Option<String>,
    /// The block device that it is or lies on, where there is one.
    pub block_device: Option<BlockDevice>,
    /// What direct I/O has to be multiples of; `None` where there is no direct I/O. For what is yet
    /// to be made this is the kernel's word or a likely value, and is proved when it is made.
    pub align: Option<DirectAlign>,
    /// A name of the device that stays: that of its link in `/dev/disk/by-id`.
    pub stable_id: Option<String>,
    /// What uses a device: `mounted at /srv`, `part of md0`. No hindrance to reading.
    pub used_by: Vec<String>,
    /// What a reader should know before believing its figures.
    pub note: Option<String>,
    pub(super) identity: Identity,
    pub(super) demand: Demand,
}

/// What all cases together ask of one disk.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Demand {
    /// Indices of the needs that reach it.
    pub needs: Vec<usize>,
    pub writes: bool,
    pub direct: bool,
    /// Block sizes of direct I/O.
    pub direct_blocks: Vec<Bytes>,
    /// Whether some need uses the file that stands from round to round.
    pub standing: bool,
    pub fresh: bool,
}

/// The trouble of a disk that has no direct I/O.
pub(super) fn no_direct_io(disk: &SurveyedDisk) -> RigError {
    RigError::NoDirectIo {
        disk: disk.name.clone(),
        path: disk.path.clone(),
        filesystem: disk.filesystem.clone().unwrap_or_else(|| "the driver".to_owned()),
    }
}

/// A trouble for each block size of direct I/O that an alignment rules out.
pub(super) fn unfit_blocks(disk: &SurveyedDisk, align: DirectAlign) -> Vec<RigError> {
    let unfit = |block: &&Bytes| !block.0.is_multiple_of(align.offset_bytes.into());
    disk.demand
        .direct_blocks
        .iter()
        .filter(unfit)
        .map(|block| RigError::BlockSize {
            disk: disk.name.clone(),
            path: disk.path.clone(),
            block: *block,
            align: Bytes(align.offset_bytes.into()),
        })
        .collect()
}

/// A disk whose file would be made in `place`.
pub(super) fn in_directory(
    disk: usize,
    name: String,
    kind: DiskKind,
    place: &Place,
    size: Bytes,
    demand: Demand,
) -> Result<SurveyedDisk, RigError> {
    let block = block_of(place.align);
    if size < block {
        return Err(RigError::TooSmall {
            disk: name,
            path: place.path.clone(),
            bytes: size,
            block,
        });
    }
    let size = Bytes(size.0 / block.0 * block.0);
    // A loopback disk stands for a device: there is one, whatever is asked of it.
    let standing = kind == DiskKind::Loopback || demand.standing;
    let fresh = kind == DiskKind::Directory && demand.fresh;
    let in_memory = matches!(place.under.filesystem.as_deref(), Some("tmpfs" | "ramfs"));
    Ok(SurveyedDisk {
        disk,
        name,
        kind,
        path: place.path.clone(),
        size,
        created: Bytes(size.0.saturating_mul(u64::from(standing) + u64::from(fresh))),
        filesystem: place.under.filesystem.clone(),
        block_device: place.under.device.clone(),
        align: place.align,
        stable_id: None,
        used_by: Vec::new(),
        note: in_memory.then(|| {
            format!("{} lies in main memory: its figures are memory's", place.filesystem())
        }),
        identity: place.identity,
        demand,
    })
}

/// What offsets of direct I/O are multiples of; one byte where there is none.
pub(super) fn block_of(align: Option<DirectAlign>) -> Bytes {
    Bytes(align.map_or(1, |align| align.offset_bytes.into()))
}

/// The null device as a disk of this size.
pub(super) fn null(
    disk: usize,
    name: String,
    size: Bytes,
    demand: Demand,
) -> Result<SurveyedDisk, RigError> {
    let path = PathBuf::from(identity::NULL);
    let file = identity::open(Some(&name), &path, OFlag::O_RDONLY, Want::Null)?;
    let identity =
        Identity::of(&file).map_err(|source| RigError::system("look at", &path, source))?;
    Ok(SurveyedDisk {
        disk,
        name,
        kind: DiskKind::Null,
        path,
        size,
        created: Bytes(0),
        filesystem: None,
        block_device: None,
        align: None,
        stable_id: None,
        used_by: Vec::new(),
        note: Some("there is no disk: the figures are the program's own and the kernel's".into()),
        identity,
        demand,
    })
}

/// Looks at a device or a regular file that has to be there.
pub(super) fn existing(
    host: &Host,
    disk: usize,
    name: String,
    path: &Path,
    want: Want,
    demand: Demand,
) -> Result<SurveyedDisk, RigError> {
    let failed = |source: io::Error| RigError::system("look at", path, source);
    let file = identity::open(Some(&name), path, OFlag::O_RDONLY, want)?;
    let identity = Identity::of(&file).map_err(failed)?;
    let (kind, filesystem, block_device) = match identity.kind() {
        Kind::BlockDevice => {
            // What a loop device stands on may lie out of sight (in another mount namespace); then
            // there is nothing to look at.
            if let Some(backing) = host.sysfs.backing_file(identity.device())
                && let Ok(image) = File::open(&backing)
            {
                prove::no_holes(&image, &backing)?;
            }
            (DiskKind::Device, None, host.sysfs.device(identity.device()))
        }
        Kind::File | Kind::Directory | Kind::Null => {
            prove::no_holes(&file, path)?;
            let under = Under::find(host, path, &file).map_err(failed)?;
            (DiskKind::File, under.filesystem, under.device)
        }
    };
    let align = match place::direct_io_of(&file).map_err(failed)? {
        DirectIo::Aligned(align) => Some(align),
        DirectIo::Unsupported => None,
        DirectIo::Unknown => Some(place::likely_align(&file, block_device.as_ref())),
    };
    let (bytes, block) = (Bytes(identity.bytes()), block_of(align));
    if bytes < block {
        return Err(RigError::TooSmall { disk: name, path: path.into(), bytes, block });
    }
    Ok(SurveyedDisk {
        disk,
        name,
        kind,
        path: path.to_owned(),
        size: bytes,
        created: Bytes(0),
        filesystem,
        stable_id: (kind == DiskKind::Device)
            .then(|| stable_id(&host.by_id, identity.device()))
            .flatten(),
        used_by: match (kind, &block_device) {
            (DiskKind::Device, Some(device)) => users(host, device),
            _ => Vec::new(),
        },
        block_device,
        align,
        note: None,
        identity,
        demand,
    })
}

/// What uses a device or a partition of it.
fn users(host: &Host, device: &BlockDevice) -> Vec<String> {
    let ours =
        |number: DeviceNumber| number == device.number || device.partitions.contains(&number);
    let mounted = host.mounts.0.iter().filter(|mount| {
        ours(mount.device) || DeviceNumber::of_block_device(&mount.source).is_some_and(ours)
    });
    mounted
        .map(|mount| format!("mounted at {}", mount.point.display()))
        .chain(device.holders.iter().map(|holder| format!("part of {holder}")))
        .collect()
}
