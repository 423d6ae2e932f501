//! What exists, what would be made, and everything that stands in the way: the dry run.
//!
//! A survey reads. It opens devices and files that exist for reading alone, and makes nothing
//! that has a name.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use nix::fcntl::OFlag;

use super::binding::{self, Binding, Wanted};
use super::error::RigError;
use super::identity::{self, Identity, Kind, Want};
use super::place::{self, Place, Under};
use super::space;
use crate::os::blockdev::{BlockDevice, DeviceNumber, Sysfs, stable_id};
use crate::os::direct::{DirectAlign, DirectIo};
use crate::os::mounts::Mounts;
use crate::plan::Plan;
use crate::units::Bytes;

/// What one case asks of its setup's storage.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Need {
    /// Index into [`Plan::setups`].
    pub setup: usize,
    /// Whether it writes.
    pub writes: bool,
    /// Whether it passes the page cache by; if not, it goes through it.
    pub direct: bool,
    /// Whether each round starts on a fresh file where the disk is a directory.
    pub fresh: bool,
    /// Its block sizes.
    pub block_sizes: Vec<Bytes>,
}

/// Where to look on this machine. The paths are parameters so that captured trees can stand in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostView {
    /// Where loopback disks are made.
    pub work_dir: PathBuf,
    /// `/sys`
    pub sysfs: PathBuf,
    /// `/proc/self/mountinfo`
    pub mountinfo: PathBuf,
    /// `/dev/disk/by-id`
    pub by_id: PathBuf,
}

impl HostView {
    /// The running machine.
    #[must_use]
    pub fn new(work_dir: impl Into<PathBuf>) -> Self {
        Self {
            work_dir: work_dir.into(),
            sysfs: "/sys".into(),
            mountinfo: "/proc/self/mountinfo".into(),
            by_id: "/dev/disk/by-id".into(),
        }
    }
}

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
    /// Index into [`Plan::disks`].
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

/// The disks of a setup that a need asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct SurveyedSetup {
    /// Index into [`Plan::setups`].
    pub setup: usize,
    /// Indices into [`Plan::disks`].
    pub disks: Vec<usize>,
    pub chunk: Option<Bytes>,
}

/// What the run takes of one file system.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SpaceUse {
    /// The first directory of the run in it.
    pub path: PathBuf,
    /// Its type.
    pub filesystem: String,
    /// Most that the run's files take at any moment.
    pub created: Bytes,
    /// What has to stay free beside them.
    pub margin: Bytes,
    /// What is free for us now.
    pub free: Bytes,
}

/// One thing that stands in the way.
#[derive(Debug)]
pub struct Trouble {
    /// What it is.
    pub error: RigError,
    /// Indices of the needs that it concerns; empty when it concerns the whole run.
    pub needs: Vec<usize>,
}

/// What exists, what would be made, and what stands in the way.
#[derive(Debug)]
pub struct Survey {
    /// The disks that the needs reach and that can be had, in the plan's order.
    pub disks: Vec<SurveyedDisk>,
    /// What is taken of each file system.
    pub space: Vec<SpaceUse>,
    /// Everything that stands in the way. [`build`](super::build) takes a survey without any. Those
    /// of [`Category::MissingRequirement`](super::Category::MissingRequirement) go away when their
    /// needs are left out of another survey: those cases are skipped.
    pub troubles: Vec<Trouble>,
    pub(super) setups: Vec<SurveyedSetup>,
}

impl Survey {
    /// What would be lost, in words. Whatever exists is opened for reading alone, and a case that
    /// would write to it is a trouble: there is no other answer.
    #[must_use]
    pub fn destroys(&self) -> &'static str {
        "nothing that exists"
    }

    /// Bytes that all files together take.
    #[must_use]
    pub fn created(&self) -> Bytes {
        Bytes(self.space.iter().map(|space| space.created.0).sum())
    }
}

/// What is read of the machine once.
#[derive(Debug)]
pub(super) struct Host {
    pub mounts: Mounts,
    pub sysfs: Sysfs,
    pub by_id: PathBuf,
}

/// Looks at everything that the needs reach, and reports all troubles at once.
#[must_use]
pub fn survey(plan: &Plan, needs: &[Need], bindings: &[Binding], view: &HostView) -> Survey {
    let (wanted, binding_troubles) = binding::resolve(plan, bindings);
    let mut surveyor = Surveyor {
        plan,
        needs,
        view,
        host: Host {
            // Without it no file system is known by name, which hinders nothing.
            mounts: Mounts::read(&view.mountinfo).unwrap_or_default(),
            sysfs: Sysfs::new(&view.sysfs),
            by_id: view.by_id.clone(),
        },
        places: BTreeMap::new(),
        troubles: Vec::new(),
    };
    for error in binding_troubles {
        surveyor.troubles.push(Trouble { error, needs: Vec::new() });
    }
    let demands = demands(plan, needs);
    let mut disks = Vec::new();
    for (disk, demand) in demands {
        disks.extend(surveyor.disk(disk, &wanted[disk], demand));
    }
    let Surveyor { places, mut troubles, .. } = surveyor;
    for (place, users) in places.into_values() {
        if let Err(error) = place {
            troubles.push(Trouble { error, needs: users });
        }
    }
    let setups = wanted_setups(plan, needs);
    troubles.extend(twice_in_one_setup(&setups, &disks));
    let (space, space_troubles) = space::add_up(&disks, &view.work_dir);
    troubles.extend(space_troubles);
    Survey { disks, space, troubles, setups }
}

struct Surveyor<'a> {
    plan: &'a Plan,
    needs: &'a [Need],
    view: &'a HostView,
    host: Host,
    /// Directories looked at, each once, with the needs that they serve.
    places: BTreeMap<PathBuf, (Result<Place, RigError>, Vec<usize>)>,
    troubles: Vec<Trouble>,
}

impl Surveyor<'_> {
    /// Looks at one disk; `None` with a trouble noted if it can't be had at all.
    fn disk(&mut self, disk: usize, wanted: &Wanted, demand: Demand) -> Option<SurveyedDisk> {
        let name = self.plan.disks[disk].name.clone();
        let surveyed = match wanted {
            Wanted::Loopback { size } => {
                let place = self.place(None, &self.view.work_dir.clone(), &demand)?;
                in_directory(disk, name, DiskKind::Loopback, &place, *size, demand.clone())
            }
            Wanted::Directory { path, size } => {
                let place = self.place(Some(&name), path, &demand)?;
                in_directory(disk, name, DiskKind::Directory, &place, *size, demand.clone())
            }
            Wanted::Bound { path, size } if path.is_dir() => match size {
                Some(size) => {
                    let place = self.place(Some(&name), path, &demand)?;
                    in_directory(disk, name, DiskKind::Directory, &place, *size, demand.clone())
                }
                None => Err(RigError::SizeMissing {
                    disk: self.plan.disks[disk].group.clone(),
                    path: path.clone(),
                }),
            },
            Wanted::Existing { path } => {
                existing(&self.host, disk, name, path, Want::Existing, demand.clone())
            }
            Wanted::Bound { path, .. } => {
                existing(&self.host, disk, name, path, Want::Any, demand.clone())
            }
        };
        match surveyed {
            Ok(surveyed) => {
                self.hold_against(&surveyed);
                Some(surveyed)
            }
            Err(error) => {
                self.troubles.push(Trouble { error, needs: demand.needs });
                None
            }
        }
    }

    /// Looks at a directory, once. What is wrong with it is told once, for all who need it.
    fn place(&mut self, disk: Option<&str>, path: &Path, demand: &Demand) -> Option<Place> {
        let host = &self.host;
        let (place, users) = self
            .places
            .entry(path.to_owned())
            .or_insert_with(|| (Place::look(disk, path, host), Vec::new()));
        users.extend(&demand.needs);
        users.sort_unstable();
        users.dedup();
        place.as_ref().ok().cloned()
    }

    /// Notes what the needs ask of a disk that it can't give.
    fn hold_against(&mut self, disk: &SurveyedDisk) {
        let of_needs = |wanted: &dyn Fn(&Need) -> bool| -> Vec<usize> {
            disk.demand.needs.iter().copied().filter(|need| wanted(&self.needs[*need])).collect()
        };
        let mut found = Vec::new();
        if disk.demand.writes && !disk.kind.is_created() {
            let error = RigError::WouldOverwrite {
                disk: disk.name.clone(),
                path: disk.path.clone(),
                found: match disk.kind {
                    DiskKind::Device => "a block device",
                    _ => "an existing file",
                },
            };
            found.push(Trouble { error, needs: of_needs(&|need| need.writes) });
        }
        if disk.demand.direct && disk.align.is_none() {
            let error = no_direct_io(disk);
            found.push(Trouble { error, needs: of_needs(&|need| need.direct) });
        }
        if let Some(align) = disk.align {
            for error in unfit_blocks(disk, align) {
                let RigError::BlockSize { block, .. } = error else { continue };
                let needs = of_needs(&|need| need.direct && need.block_sizes.contains(&block));
                found.push(Trouble { error, needs });
            }
        }
        self.troubles.append(&mut found);
    }
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
    let unfit = |block: &&Bytes| block.0 % u64::from(align.offset_bytes) != 0;
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

/// What the needs ask of each disk that they reach.
fn demands(plan: &Plan, needs: &[Need]) -> BTreeMap<usize, Demand> {
    let mut demands: BTreeMap<usize, Demand> = BTreeMap::new();
    for (index, need) in needs.iter().enumerate() {
        for disk in &plan.setups[need.setup].disks {
            let demand = demands.entry(*disk).or_default();
            demand.needs.push(index);
            demand.writes |= need.writes;
            demand.direct |= need.direct;
            demand.standing |= !need.fresh;
            demand.fresh |= need.fresh;
            if need.direct {
                demand.direct_blocks.extend(&need.block_sizes);
            }
        }
    }
    for demand in demands.values_mut() {
        demand.direct_blocks.sort_unstable();
        demand.direct_blocks.dedup();
    }
    demands
}

fn wanted_setups(plan: &Plan, needs: &[Need]) -> Vec<SurveyedSetup> {
    let mut indices: Vec<usize> = needs.iter().map(|need| need.setup).collect();
    indices.sort_unstable();
    indices.dedup();
    indices
        .into_iter()
        .map(|setup| SurveyedSetup {
            setup,
            disks: plan.setups[setup].disks.clone(),
            chunk: plan.setups[setup].stripe.map(|stripe| stripe.chunk),
        })
        .collect()
}

/// A setup of one thing under two names would measure something else than it says. Two files in
/// one directory are two things.
fn twice_in_one_setup(setups: &[SurveyedSetup], disks: &[SurveyedDisk]) -> Vec<Trouble> {
    let mut troubles = Vec::new();
    for setup in setups {
        let mut seen: Vec<&SurveyedDisk> = Vec::new();
        for disk in disks.iter().filter(|disk| setup.disks.contains(&disk.disk)) {
            if disk.kind.is_created() {
                continue;
            }
            if let Some(first) = seen.iter().find(|other| other.identity == disk.identity) {
                let error = RigError::SamePath {
                    path: disk.path.clone(),
                    first: first.name.clone(),
                    second: disk.name.clone(),
                };
                troubles.push(Trouble { error, needs: disk.demand.needs.clone() });
            }
            seen.push(disk);
        }
    }
    troubles
}

fn in_directory(
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

/// Looks at a device or a regular file that has to be there.
fn existing(
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
        Kind::BlockDevice => (DiskKind::Device, None, host.sysfs.device(identity.device())),
        Kind::File | Kind::Directory => {
            super::prove::no_holes(&file, path)?;
            let under = Under::find(host, path, &file).map_err(failed)?;
            (DiskKind::File, under.filesystem, under.device)
        }
    };
    let align = match place::direct_io_of(&file).map_err(failed)? {
        DirectIo::Aligned(align) => Some(align),
        DirectIo::Unsupported => None,
        DirectIo::Unknown => Some(place::likely_align(block_device.as_ref())),
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
