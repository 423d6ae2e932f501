//! Trims: which back end does them, and by which call.
//!
//! In a file a trim punches a hole, which a ring does as well as a system call; libaio has no
//! command for it. A block device discards by an `ioctl`, one range after another.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileTypeExt as _;

use super::files::Files;
use super::probe::{Way, try_way};
use crate::engine::{Backend, Control, EngineError, Job, prefers_ring};
use crate::os::blockdev::discard;
use crate::os::io::punch_hole;

/// Why a ring isn't taken for a block device.
const ONE_BY_ONE: &str =
    "a block device is asked to discard by BLKDISCARD, which returns when that is done";

/// Why libaio never is.
const NOT_BY_LIBAIO: &str = "it has no command for trims: use the engine `io_uring` or `sync`";

/// Gives up so many bytes from an offset on.
pub(super) type Trim = fn(&File, u64, u64) -> io::Result<()>;

/// How a file or device is trimmed by a system call.
pub(super) fn call_for(file: &File) -> Trim {
    if is_device(file) { discard } else { punch_hole }
}

/// That call, for the record.
pub(super) fn feature(files: &Files) -> &'static str {
    if has_device(files) { "BLKDISCARD" } else { "fallocate with FALLOC_FL_PUNCH_HOLE" }
}

/// Chooses the back end of a job that trims, with a sentence that says why.
///
/// # Errors
/// When the machine lacks what the job asks for; [`EngineError::Stuck`] when a disk doesn't answer.
pub(super) fn choose(
    job: &Job,
    files: &Files,
    control: &Control,
) -> Result<(Way, String), EngineError> {
    let asked = |way| Ok((way, "as the plan asks".to_owned()));
    match job.backend {
        Backend::Libaio => Err(EngineError::NoLibaio { reason: NOT_BY_LIBAIO.to_owned() }),
        Backend::Sync => asked(Way::Sync),
        Backend::IoUring if has_device(files) => {
            Err(EngineError::NoRing { reason: format!("{ONE_BY_ONE}: use the engine `sync`") })
        }
        Backend::IoUring => match try_way(Way::IoUring, job, files, control)? {
            Ok(()) => asked(Way::IoUring),
            Err(reason) => Err(EngineError::NoRing { reason }),
        },
        Backend::Auto | Backend::AutoWithRing | Backend::AutoWithLibaio => {
            choose_best(job, files, control)
        }
    }
}

fn choose_best(job: &Job, files: &Files, control: &Control) -> Result<(Way, String), EngineError> {
    let queue_depth = job.queue_depth;
    let too_deep = |reason: String| {
        let reason = format!("{reason}; use more `workers` in its place");
        Err(EngineError::DepthOfTrims { queue_depth, reason })
    };
    if has_device(files) {
        return match queue_depth {
            1 => Ok((Way::Sync, ONE_BY_ONE.to_owned())),
            _ => too_deep(ONE_BY_ONE.to_owned()),
        };
    }
    let ring = prefers_ring(queue_depth, job.parts_max(files.members.len()));
    if !ring && job.backend != Backend::AutoWithRing {
        return Ok((Way::Sync, "one trim at a time costs least by fallocate".to_owned()));
    }
    match (try_way(Way::IoUring, job, files, control)?, queue_depth) {
        (Ok(()), _) => Ok((Way::IoUring, "several trims in flight by one thread".to_owned())),
        (Err(reason), 1) => Ok((Way::Sync, format!("io_uring can't be used: {reason}"))),
        (Err(reason), _) => too_deep(format!("io_uring can't be used: {reason}")),
    }
}

fn has_device(files: &Files) -> bool {
    files.members.iter().any(|member| is_device(&member.file))
}

fn is_device(file: &File) -> bool {
    file.metadata().is_ok_and(|facts| facts.file_type().is_block_device())
}
