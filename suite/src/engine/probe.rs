//! Whether io_uring can be used here, and which back end a job gets.

use std::io;

use nix::errno::Errno;

use super::buffer::Arena;
use super::files::Files;
use super::uring::{ENTRIES_MAX, Ring};
use crate::engine::{Backend, EngineError, Job, prefers_ring};

/// Where the administrator can forbid rings.
const DISABLED: &str = "/proc/sys/kernel/io_uring_disabled";

/// What a probe for io_uring found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProbeResult {
    /// Whether a ring can be made and turns.
    pub usable: bool,
    /// What of it this kernel has: `single issuer`, `deferred task work`.
    pub features: Vec<String>,
    /// Why not, with the remedy, where it can't be used.
    pub reason: Option<String>,
}

/// Makes a ring and lets it turn once.
#[must_use]
pub fn probe() -> ProbeResult {
    match Ring::new(8).and_then(|mut ring| ring.turn().map(|()| ring)) {
        Ok(ring) => ProbeResult {
            usable: true,
            features: ring.features.into_iter().map(str::to_owned).collect(),
            reason: None,
        },
        Err(error) => {
            ProbeResult { usable: false, features: Vec::new(), reason: Some(explain(&error)) }
        }
    }
}

/// The back end of a job on files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Way {
    IoUring,
    Sync,
}

impl Way {
    /// Its name in a record.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::IoUring => "io_uring",
            Self::Sync => "sync",
        }
    }
}

/// Chooses the back end, with a sentence that says why.
///
/// At depth 1 a ring has nothing to gain: it costs more system work for each I/O than `pread`,
/// and on file systems that can't complete it at once the kernel hands it to a thread of its own
/// (4 to 10 times slower on tmpfs). So `auto` takes it for depths above 1, and where a stripe
/// cuts I/Os into parts, which a ring sends out side by side.
pub(super) fn choose(job: &Job, files: &Files) -> Result<(Way, String), EngineError> {
    let parts = job.parts_max(files.members.len());
    match job.backend {
        Backend::Sync => {
            assert!(job.queue_depth == 1, "one I/O at a time: depth {}", job.queue_depth);
            Ok((Way::Sync, "as the plan asks".to_owned()))
        }
        Backend::IoUring => match try_target(job, files) {
            Ok(()) => Ok((Way::IoUring, "as the plan asks".to_owned())),
            Err(reason) => Err(EngineError::NoRing { reason }),
        },
        Backend::Auto if !prefers_ring(job.queue_depth, parts) => {
            Ok((Way::Sync, "one I/O at a time costs least by pread and pwrite".to_owned()))
        }
        Backend::Auto | Backend::AutoWithRing => match try_target(job, files) {
            Ok(()) if job.queue_depth > 1 => {
                Ok((Way::IoUring, "several I/Os in flight by one thread".to_owned()))
            }
            Ok(()) if parts > 1 => {
                Ok((Way::IoUring, "the parts of an I/O go out side by side".to_owned()))
            }
            Ok(()) => Ok((Way::IoUring, "as what it is compared with".to_owned())),
            Err(reason) if job.queue_depth == 1 => {
                Ok((Way::Sync, format!("io_uring can't be used: {reason}")))
            }
            Err(reason) => {
                Err(EngineError::DepthNeedsRing { queue_depth: job.queue_depth, reason })
            }
        },
    }
}

/// The error of a worker whose ring was refused, though the probe's was not.
pub(super) fn refusal(job: &Job, error: &io::Error) -> EngineError {
    let (queue_depth, reason) = (job.queue_depth, explain(error));
    match job.backend {
        Backend::Auto | Backend::AutoWithRing if queue_depth > 1 => {
            EngineError::DepthNeedsRing { queue_depth, reason }
        }
        _ => EngineError::NoRing { reason },
    }
}

/// Makes a ring of the job's size, and reads one block of each member through it.
fn try_target(job: &Job, files: &Files) -> Result<(), String> {
    let parts = job.parts_max(files.members.len());
    if parts > ENTRIES_MAX {
        return Err(format!(
            "an I/O falls into up to {parts} parts, and a ring holds {ENTRIES_MAX}: use larger \
             chunks or smaller blocks"
        ));
    }
    let entries = job.queue_depth as usize * parts;
    let mut ring = Ring::new(entries).map_err(|error| explain(&error))?;
    ring.turn().map_err(|error| explain(&error))?;
    let mut arena = Arena::new(job.granularity.0 as usize, files.memory_align)
        .map_err(|error| error.to_string())?;
    for member in &files.members {
        let Err(error) = ring.read(&member.file, &mut arena) else { continue };
        // What a `pread` would meet too is the disk's trouble, to be met when it is measured.
        let of_ring =
            [Errno::EINVAL, Errno::EOPNOTSUPP, Errno::ENOSYS, Errno::EPERM, Errno::EACCES];
        if error.raw_os_error().is_some_and(|errno| of_ring.contains(&Errno::from_raw(errno))) {
            return Err(format!("a read through it failed on {}: {error}", member.name));
        }
    }
    Ok(())
}

/// What a refusal means, and what to do about it.
fn explain(error: &io::Error) -> String {
    let disabled = std::fs::read_to_string(DISABLED).unwrap_or_default();
    explained(error, disabled.trim())
}

fn explained(error: &io::Error, disabled: &str) -> String {
    match (error.raw_os_error().map(Errno::from_raw), disabled) {
        (Some(Errno::ENOSYS), _) => "this kernel, or the sandbox around this program, has no \
            io_uring: it needs Linux 5.6 or later, and a seccomp profile that allows \
            io_uring_setup, io_uring_enter and io_uring_register (docker run --security-opt \
            seccomp=…)"
            .to_owned(),
        (Some(Errno::EPERM | Errno::EACCES), "2") => "the administrator has switched it off: \
            `sysctl kernel.io_uring_disabled=0` switches it on"
            .to_owned(),
        (Some(Errno::EPERM | Errno::EACCES), "1") => "the administrator leaves it to privileged \
            processes and one group: run as root, join the group of `sysctl \
            kernel.io_uring_group`, or set `sysctl kernel.io_uring_disabled=0`"
            .to_owned(),
        (Some(Errno::EPERM | Errno::EACCES), _) => "the sandbox around this program forbids it: \
            allow io_uring_setup, io_uring_enter and io_uring_register in its seccomp profile \
            (docker run --security-opt seccomp=…)"
            .to_owned(),
        (Some(Errno::ENOMEM), _) => "there is not enough memory that may be locked for its \
            queues: raise the limit with `ulimit -l`, or ask for less queue depth or fewer workers"
            .to_owned(),
        (Some(Errno::EMFILE | Errno::ENFILE), _) => "there are too many open files: raise the \
            limit with `ulimit -n`, or ask for fewer workers"
            .to_owned(),
        _ => format!("making it failed with: {error}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_refusal_names_its_remedy() {
        let of = |errno: Errno, disabled| explained(&errno.into(), disabled);
        assert!(of(Errno::ENOSYS, "").contains("Linux 5.6"));
        assert!(of(Errno::EPERM, "0").contains("seccomp"));
        assert!(of(Errno::EPERM, "").contains("seccomp"));
        assert!(of(Errno::EPERM, "1").contains("io_uring_group"));
        assert!(of(Errno::EPERM, "2").contains("kernel.io_uring_disabled=0"));
        assert!(of(Errno::ENOMEM, "0").contains("ulimit -l"));
        assert!(of(Errno::EMFILE, "0").contains("ulimit -n"));
        assert!(of(Errno::EIO, "0").contains("Input/output error"));
    }

    #[test]
    fn a_probe_gives_features_or_a_reason() {
        let found = probe();
        assert_eq!(found.usable, found.reason.is_none());
        assert!(found.usable || found.features.is_empty());
    }
}
