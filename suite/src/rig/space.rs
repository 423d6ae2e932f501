//! Whether there is room for everything that will be made.

use std::path::Path;

use nix::sys::resource::{Resource, getrlimit};
use nix::sys::statvfs::statvfs;

use super::disk::SurveyedDisk;
use super::error::RigError;
use super::survey::{SpaceUse, Trouble};
use crate::os::blockdev::DeviceNumber;
use crate::units::Bytes;

/// What stays free is at most this; of small file systems, a twentieth.
const MARGIN_BYTES: u64 = 64 << 20;

const MIB: u64 = 1 << 20;

/// Adds up what the disks take of each file system, and holds it against what is free.
pub(super) fn add_up(disks: &[SurveyedDisk], work_dir: &Path) -> (Vec<SpaceUse>, Vec<Trouble>) {
    let mut uses: Vec<(DeviceNumber, SpaceUse, Vec<usize>)> = Vec::new();
    let mut troubles = Vec::new();
    for disk in disks.iter().filter(|disk| disk.kind.is_created()) {
        troubles.extend(above(disk, file_size_limit()));
        let number = disk.identity.device();
        if let Some((_, space, needs)) = uses.iter_mut().find(|(other, ..)| *other == number) {
            space.created.0 = space.created.0.saturating_add(disk.created.0);
            needs.extend(&disk.demand.needs);
            continue;
        }
        match room(disk) {
            Ok(space) => uses.push((number, space, disk.demand.needs.clone())),
            Err(error) => troubles.push(Trouble { error, needs: disk.demand.needs.clone() }),
        }
    }
    let mut spaces = Vec::new();
    for (_, space, mut needs) in uses {
        let needed = space.created.0.saturating_add(space.margin.0);
        if let Some(free) = space.free.filter(|free| needed > free.0) {
            needs.sort_unstable();
            needs.dedup();
            let error = RigError::TooLittleSpace {
                path: space.path.clone(),
                // Whole MiB, on the safe side: exact figures would be unreadable.
                needed: Bytes(needed.div_ceil(MIB).saturating_mul(MIB)),
                free: Bytes(free.0 / MIB * MIB),
                in_work_dir: space.path == work_dir,
            };
            troubles.push(Trouble { error, needs });
        }
        spaces.push(space);
    }
    (spaces, troubles)
}

/// What one disk takes of its file system.
fn room(disk: &SurveyedDisk) -> Result<SpaceUse, RigError> {
    let facts = statvfs(&disk.path)
        .map_err(|errno| RigError::system("read the free space of", &disk.path, errno))?;
    let bytes = |blocks: u64| blocks.saturating_mul(facts.fragment_size());
    Ok(SpaceUse {
        path: disk.path.clone(),
        filesystem: disk.filesystem.clone().unwrap_or_else(|| "unknown".to_owned()),
        created: disk.created,
        margin: Bytes((bytes(facts.blocks()) / 20).min(MARGIN_BYTES)),
        free: (facts.blocks() > 0).then(|| Bytes(bytes(facts.blocks_available()))),
    })
}

/// The largest file that this process may make. Writing beyond it ends the process with a signal.
fn file_size_limit() -> Bytes {
    Bytes(getrlimit(Resource::RLIMIT_FSIZE).map_or(u64::MAX, |(soft, _)| soft))
}

/// The trouble of a disk whose file would be above the limit.
pub(super) fn above(disk: &SurveyedDisk, limit: Bytes) -> Option<Trouble> {
    (disk.size > limit).then(|| Trouble {
        error: RigError::FileSizeLimit { disk: disk.name.clone(), size: disk.size, limit },
        needs: disk.demand.needs.clone(),
    })
}
