//! Storage that is there and proved: what workloads run on.

use std::fs::File;
use std::os::unix::fs::FileTypeExt as _;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use nix::fcntl::{OFlag, PosixFadviseAdvice, posix_fadvise};

use super::build::{private_name, same_as_surveyed};
use super::disk::{DiskKind, SurveyedDisk, block_of};
use super::error::RigError;
use super::identity::{self, Want};
use super::survey::SurveyedSetup;
use super::undo::{Folder, Scrap, UndoOnDrop};
use crate::os::blockdev::DeviceNumber;
use crate::units::Bytes;

/// All storage of a run. Dropping it removes what was made for it; what could not be removed is
/// told by [`Undo::now`](super::Undo::now).
#[derive(Debug)]
pub struct Rig {
    pub(super) disks: Vec<Live>,
    pub(super) setups: Vec<SurveyedSetup>,
    pub(super) undo: UndoOnDrop,
}

/// One disk.
#[derive(Debug)]
pub(super) struct Live {
    pub surveyed: SurveyedDisk,
    /// Open through the page cache: for reading and writing where we made it, else for reading.
    pub file: Arc<File>,
    pub path: PathBuf,
    /// `None` for what was there before.
    pub made: Option<Made>,
}

/// A file that we made.
#[derive(Debug)]
pub(super) struct Made {
    pub folder: Folder,
    pub bytes: u64,
    /// Whether it is of the disk's full size, to be used from round to round.
    pub standing: bool,
    /// What trims may have left in it.
    pub trimmed: Left,
}

/// What trims leave in a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Trimmed {
    Nothing,
    Holes,
    /// Zeros too, which no one can tell from what was written.
    Zeros,
}

/// What has been left in a file so far.
#[derive(Debug, Default)]
pub(super) struct Left {
    holes: AtomicBool,
    zeros: AtomicBool,
}

impl Left {
    pub(super) fn get(&self) -> Trimmed {
        match (self.zeros.load(Ordering::Relaxed), self.holes.load(Ordering::Relaxed)) {
            (true, _) => Trimmed::Zeros,
            (false, true) => Trimmed::Holes,
            (false, false) => Trimmed::Nothing,
        }
    }

    /// More may be left from now on.
    pub(super) fn note(&self, more: Trimmed) {
        self.holes.fetch_or(more >= Trimmed::Holes, Ordering::Relaxed);
        self.zeros.fetch_or(more == Trimmed::Zeros, Ordering::Relaxed);
    }

    /// All has been written again.
    pub(super) fn forget(&self) {
        self.holes.store(false, Ordering::Relaxed);
        self.zeros.store(false, Ordering::Relaxed);
    }
}

/// How a case uses its storage.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Access {
    /// Past the page cache.
    pub direct: bool,
    /// For writing too.
    pub write: bool,
    /// On a new and empty file where the disk is a directory. A loopback disk stands for a device,
    /// which has no new files.
    pub fresh: bool,
}

/// One disk of a setup, open.
#[derive(Debug)]
pub struct Member {
    /// The disk's name.
    pub name: String,
    /// Open as it was asked for.
    pub file: Arc<File>,
    /// Bytes that can be used: the same for all members of a setup, and whole chunks where it is
    /// striped.
    pub bytes: u64,
    /// What addresses of buffers have to be multiples of; 1 through the page cache.
    pub memory_align: usize,
    /// What offsets and lengths have to be multiples of; 1 through the page cache.
    pub offset_align: u32,
    /// The block device that it is or lies on, where there is one.
    pub block_device: Option<DeviceNumber>,
    path: PathBuf,
    /// Removes a fresh file with the last of its members.
    _scrap: Option<Scrap>,
}

/// A file beside a disk's own.
#[derive(Debug)]
pub enum Beside {
    /// Made for the run.
    Made(Arc<File>),
    /// There before it; open for reading.
    Found(File),
    /// There is none, and none can be made.
    Nothing,
}

impl Rig {
    /// The disks as they turned out: sizes and alignments are proved.
    pub fn disks(&self) -> impl Iterator<Item = &SurveyedDisk> {
        self.disks.iter().map(|disk| &disk.surveyed)
    }

    /// Opens the disks of a setup, in their order.
    ///
    /// # Errors
    /// What the machine refused; [`RigError::Changed`] when a device is not what was surveyed.
    ///
    /// # Panics
    /// When the survey was not told of a need for this setup and this access.
    pub fn open(&self, setup: usize, access: Access) -> Result<Vec<Member>, RigError> {
        let setup = self.setups.iter().find(|surveyed| surveyed.setup == setup);
        let setup = setup.expect("the survey was told of every setup that is used");
        let mut members = Vec::new();
        for index in &setup.disks {
            let disk = self.disks.iter().find(|disk| disk.surveyed.disk == *index);
            let disk = disk.expect("a survey without troubles has all disks of its setups");
            members.push(self.open_disk(disk, access)?);
        }
        let smallest = members.iter().map(|member| member.bytes).min().unwrap_or(0);
        let chunk = setup.chunk.map_or(1, |chunk| chunk.0);
        let bytes = smallest / chunk * chunk;
        for member in &mut members {
            if bytes == 0 {
                return Err(RigError::TooSmall {
                    disk: member.name.clone(),
                    path: member.path.clone(),
                    bytes: Bytes(smallest),
                    block: Bytes(chunk),
                });
            }
            member.bytes = bytes;
        }
        Ok(members)
    }

    /// Whether a setup's disks are directories, in which each round can have a new file.
    #[must_use]
    pub fn has_fresh_files(&self, setup: usize) -> bool {
        self.first_of(setup).is_some_and(|disk| disk.surveyed.kind == DiskKind::Directory)
    }

    /// A file beside that of a setup's first disk, named as it is with this ending: a new one where
    /// the disk was made for the run, which goes with it; of one that was there, the one that is
    /// there too.
    ///
    /// # Errors
    /// What the machine refused.
    pub fn beside(&self, setup: usize, ending: &str) -> Result<Beside, RigError> {
        let Some(disk) = self.first_of(setup) else { return Ok(Beside::Nothing) };
        let mut path = disk.path.clone().into_os_string();
        path.push(ending);
        let path = PathBuf::from(path);
        match (&disk.made, path.file_name()) {
            (Some(made), Some(name)) => {
                match self.undo.0.make_file(&made.folder, name, OFlag::empty()) {
                    Ok((file, _)) => Ok(Beside::Made(file)),
                    // Another setup has the same disk, and its file.
                    Err(_) if path.exists() => Ok(Beside::Nothing),
                    Err(error) => Err(error),
                }
            }
            _ if disk.surveyed.kind == DiskKind::File && path.is_file() => {
                let file = identity::open(None, &path, OFlag::O_RDONLY, Want::Existing)?;
                Ok(Beside::Found(file))
            }
            _ => Ok(Beside::Nothing),
        }
    }

    fn first_of(&self, setup: usize) -> Option<&Live> {
        let setup = self.setups.iter().find(|surveyed| surveyed.setup == setup)?;
        self.disks.iter().find(|disk| Some(&disk.surveyed.disk) == setup.disks.first())
    }

    fn open_disk(&self, disk: &Live, access: Access) -> Result<Member, RigError> {
        let surveyed = &disk.surveyed;
        let mut flags = if access.write { OFlag::O_RDWR } else { OFlag::O_RDONLY };
        if access.direct {
            flags |= OFlag::O_DIRECT;
        }
        let fresh = access.fresh && surveyed.kind == DiskKind::Directory;
        let standing = disk.made.as_ref().is_none_or(|made| made.standing);
        assert!(fresh || standing, "the survey was told of every access to {}", surveyed.name);
        assert!(
            !access.write || disk.made.is_some() || surveyed.kind == DiskKind::Null,
            "a survey without troubles writes to nothing that exists: {}",
            surveyed.name
        );
        let (file, path, scrap) = match &disk.made {
            Some(made) if fresh => self.fresh_file(disk, made, flags)?,
            _ => {
                let file = identity::reopen(&disk.file, flags)
                    .map_err(|source| RigError::system("open", &disk.path, source))?;
                if disk.made.is_none() {
                    same_as_surveyed(surveyed, &file)?;
                }
                (Arc::new(file), disk.path.clone(), None)
            }
        };
        let align = surveyed.align.filter(|_| access.direct);
        let block = block_of(surveyed.align).0;
        Ok(Member {
            name: surveyed.name.clone(),
            file,
            bytes: surveyed.size.0 / block * block,
            memory_align: align.map_or(1, |align| align.memory_bytes as usize),
            offset_align: align.map_or(1, |align| align.offset_bytes),
            block_device: surveyed.block_device.as_ref().map(|device| device.number),
            path,
            _scrap: scrap,
        })
    }

    fn fresh_file(
        &self,
        disk: &Live,
        made: &Made,
        flags: OFlag,
    ) -> Result<(Arc<File>, PathBuf, Option<Scrap>), RigError> {
        let name = private_name(&format!(".diskproof-{{}}-{}-fresh", disk.surveyed.name));
        let undo = self.undo.0.clone();
        let (file, number) = undo.make_file(&made.folder, &name, flags & OFlag::O_DIRECT)?;
        Ok((file, made.folder.path.join(name), Some(Scrap { undo, number })))
    }
}

impl Member {
    /// Makes the page cache forget this file or device, so that reads of it come from the disk.
    ///
    /// # Errors
    /// What the kernel returns.
    pub fn drop_cache(&self) -> Result<(), RigError> {
        if self.file.metadata().is_ok_and(|facts| facts.file_type().is_char_device()) {
            return Ok(()); // the null device keeps nothing
        }
        // Pages that are not on the disk yet are kept by the advice.
        self.file
            .sync_data()
            .map_err(|source| RigError::system("write out", &self.path, source))?;
        posix_fadvise(&self.file, 0, 0, PosixFadviseAdvice::POSIX_FADV_DONTNEED)
            .map_err(|errno| RigError::system("drop the page cache of", &self.path, errno))
    }
}
