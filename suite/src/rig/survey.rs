//! What exists, what would be made, and everything that stands in the way: the dry run.
//!
//! A survey reads. It opens devices and files that exist for reading alone, and makes nothing
//! that has a name.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::binding::{self, Binding, Wanted};
use super::disk::{self, Demand, DiskKind, SurveyedDisk};
use super::error::RigError;
use super::identity::Want;
use super::place::Place;
use super::space;
use crate::os::blockdev::Sysfs;
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
    /// What is free for us now; `None` where the file system doesn't count.
    pub free: Option<Bytes>,
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
    /// Everything that stands in the way. [`build`](super::build()) takes a survey without any.
    /// Those of [`Category::MissingRequirement`](super::Category::MissingRequirement) go away when
    /// their needs are left out of another survey: those cases are skipped.
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
                disk::in_directory(disk, name, DiskKind::Loopback, &place, *size, demand.clone())
            }
            Wanted::Directory { path, size } => {
                let place = self.place(Some(&name), path, &demand)?;
                disk::in_directory(disk, name, DiskKind::Directory, &place, *size, demand.clone())
            }
            Wanted::Bound { path, size } if path.is_dir() => match size {
                Some(size) => {
                    let place = self.place(Some(&name), path, &demand)?;
                    disk::in_directory(
                        disk,
                        name,
                        DiskKind::Directory,
                        &place,
                        *size,
                        demand.clone(),
                    )
                }
                None => Err(RigError::SizeMissing {
                    disk: self.plan.disks[disk].group.clone(),
                    path: path.clone(),
                }),
            },
            Wanted::Null { size } => disk::null(disk, name, *size, demand.clone()),
            Wanted::Existing { path } => {
                disk::existing(&self.host, disk, name, path, Want::Existing, demand.clone())
            }
            Wanted::Bound { path, .. } => {
                disk::existing(&self.host, disk, name, path, Want::Any, demand.clone())
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
        if disk.demand.writes && !disk.kind.is_created() && disk.kind != DiskKind::Null {
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
            let error = disk::no_direct_io(disk);
            found.push(Trouble { error, needs: of_needs(&|need| need.direct) });
        }
        if let Some(align) = disk.align {
            for error in disk::unfit_blocks(disk, align) {
                let RigError::BlockSize { block, .. } = error else { continue };
                let needs = of_needs(&|need| need.direct && need.block_sizes.contains(&block));
                found.push(Trouble { error, needs });
            }
        }
        self.troubles.append(&mut found);
    }
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
            if disk.kind.is_created() || disk.kind == DiskKind::Null {
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
