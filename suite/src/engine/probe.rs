//! Whether io_uring and libaio can be used here, and which back end a job gets.

use std::fs::File;
use std::io::{self, Write as _};
use std::os::fd::OwnedFd;

use nix::errno::Errno;

use super::aio::Aio;
use super::buffer::Arena;
use super::files::Files;
use super::flight::ENTRIES_MAX;
use super::uring::Ring;
use crate::engine::{Backend, EngineError, Job, prefers_ring};

/// Where the administrator can forbid rings.
const DISABLED: &str = "/proc/sys/kernel/io_uring_disabled";

/// Where the kernel counts the places for asynchronous I/Os, of all processes together, and says
/// how many there may be.
const AIO_TAKEN: &str = "/proc/sys/fs/aio-nr";
const AIO_MAX: &str = "/proc/sys/fs/aio-max-nr";

/// What a probe for a back end found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProbeResult {
    /// Whether it can be made and does something.
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
        Err(error) => ProbeResult {
            usable: false,
            features: Vec::new(),
            reason: Some(explain(Way::IoUring, &error)),
        },
    }
}

/// Reads a byte through libaio.
#[must_use]
pub fn probe_libaio() -> ProbeResult {
    let read = || -> io::Result<u32> {
        let mut aio = Aio::new(1)?;
        let (reader, mut writer) = io::pipe()?;
        writer.write_all(&[0])?;
        let mut arena = Arena::new(1, 1).map_err(|_| Errno::ENOMEM)?;
        aio.read(&File::from(OwnedFd::from(reader)), &mut arena)
    };
    let reason = read().err().map(|error| explain(Way::Libaio, &error));
    ProbeResult { usable: reason.is_none(), features: Vec::new(), reason }
}

/// The back end of a job on files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Way {
    IoUring,
    Libaio,
    Sync,
}

impl Way {
    /// Its name in a record.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::IoUring => "io_uring",
            Self::Libaio => "libaio",
            Self::Sync => "sync",
        }
    }
}

/// Chooses the back end, with a sentence that says why.
///
/// At depth 1 a ring has nothing to gain: it costs more system work for each I/O than `pread`,
/// and on file systems that can't complete it at once the kernel hands it to a thread of its own
/// (4 to 10 times slower on tmpfs). So `auto` takes it for depths above 1, and where a stripe
/// cuts I/Os into parts, which a ring sends out side by side. Where there is no ring, `libaio`
/// does the same without the page cache.
pub(super) fn choose(job: &Job, files: &Files) -> Result<(Way, String), EngineError> {
    let asked = |way| (way, "as the plan asks".to_owned());
    let parts = job.parts_max(files.members.len());
    match job.backend {
        Backend::Sync => {
            assert!(job.queue_depth == 1, "one I/O at a time: depth {}", job.queue_depth);
            Ok(asked(Way::Sync))
        }
        Backend::IoUring => match try_ring(job, files) {
            Ok(()) => Ok(asked(Way::IoUring)),
            Err(reason) => Err(EngineError::NoRing { reason }),
        },
        Backend::Libaio => match try_libaio(job, files) {
            Ok(()) => Ok(asked(Way::Libaio)),
            Err(reason) => Err(EngineError::NoLibaio { reason }),
        },
        Backend::Auto if !prefers_ring(job.queue_depth, parts) => {
            Ok((Way::Sync, "one I/O at a time costs least by pread and pwrite".to_owned()))
        }
        Backend::Auto | Backend::AutoWithRing | Backend::AutoWithLibaio => {
            choose_queue(job, files, parts)
        }
    }
}

/// Chooses what takes several I/Os at a time, else `sync` where there is one alone.
fn choose_queue(job: &Job, files: &Files, parts: usize) -> Result<(Way, String), EngineError> {
    let mut ways = [Way::IoUring, Way::Libaio];
    if job.backend == Backend::AutoWithLibaio {
        ways.reverse();
    }
    let purpose = match (job.queue_depth, parts) {
        (1, 1) => "as what it is compared with",
        (1, _) => "the parts of an I/O go out side by side",
        _ => "several I/Os in flight by one thread",
    };
    let mut refusals = Vec::new();
    for way in ways {
        let tried = match way {
            Way::IoUring => try_ring(job, files),
            _ if !libaio_serves(job, files, parts) => {
                Err("through the page cache it does one I/O at a time".to_owned())
            }
            _ => try_libaio(job, files),
        };
        match tried {
            Ok(()) => {
                let why = [vec![purpose.to_owned()], refusals].concat().join("; ");
                return Ok((way, why));
            }
            Err(reason) => refusals.push(format!("{} can't be used: {reason}", way.name())),
        }
    }
    let reason = refusals.join("; ");
    match job.queue_depth {
        1 => Ok((Way::Sync, reason)),
        queue_depth => Err(EngineError::DepthNeedsRing { queue_depth, reason }),
    }
}

/// Whether `libaio` may be taken without having been asked for. Through the page cache it does as
/// `sync`, so that a job of one I/O at a time takes it there for the sake of what it is compared
/// with alone.
fn libaio_serves(job: &Job, files: &Files, parts: usize) -> bool {
    let compared = job.backend != Backend::Auto;
    files.are_direct() || job.queue_depth == 1 && (compared || parts == 1)
}

/// The error of a worker that was refused a ring or a context, though the probe was not.
pub(super) fn refusal(job: &Job, way: Way, error: &io::Error) -> EngineError {
    let (queue_depth, reason) = (job.queue_depth, explain(way, error));
    match (job.backend, way) {
        (Backend::Auto | Backend::AutoWithRing | Backend::AutoWithLibaio, _) if queue_depth > 1 => {
            let reason = format!("{} can't be used by all workers: {reason}", way.name());
            EngineError::DepthNeedsRing { queue_depth, reason }
        }
        (_, Way::Libaio) => EngineError::NoLibaio { reason },
        _ => EngineError::NoRing { reason },
    }
}

/// Makes a ring of the job's size, and reads one block of each member through it.
fn try_ring(job: &Job, files: &Files) -> Result<(), String> {
    let entries = entries(job, files)?;
    let explain = |error| explain(Way::IoUring, &error);
    let mut ring = Ring::new(entries).map_err(explain)?;
    ring.turn().map_err(explain)?;
    try_reads(job, files, |file, arena| ring.read(file, arena))
}

/// Makes a context of the job's size, and reads one block of each member through it.
fn try_libaio(job: &Job, files: &Files) -> Result<(), String> {
    let entries = entries(job, files)?;
    let mut aio = Aio::new(entries).map_err(|error| explain(Way::Libaio, &error))?;
    try_reads(job, files, |file, arena| aio.read(file, arena))
}

/// How many submissions a worker of the job has on their way at most.
fn entries(job: &Job, files: &Files) -> Result<usize, String> {
    let parts = job.parts_max(files.members.len());
    if parts > ENTRIES_MAX {
        return Err(format!(
            "an I/O falls into up to {parts} parts, and a queue holds {ENTRIES_MAX}: use larger \
             chunks or smaller blocks"
        ));
    }
    Ok(job.queue_depth as usize * parts)
}

/// Reads one block of each member by this way.
fn try_reads(
    job: &Job,
    files: &Files,
    mut read: impl FnMut(&File, &mut Arena) -> io::Result<u32>,
) -> Result<(), String> {
    let mut arena = Arena::new(job.granularity.0 as usize, files.memory_align)
        .map_err(|error| error.to_string())?;
    for member in &files.members {
        let Err(error) = read(&member.file, &mut arena) else { continue };
        // What a `pread` would meet too is the disk's trouble, to be met when it is measured.
        let of_way = [Errno::EINVAL, Errno::EOPNOTSUPP, Errno::ENOSYS, Errno::EPERM, Errno::EACCES];
        if error.raw_os_error().is_some_and(|errno| of_way.contains(&Errno::from_raw(errno))) {
            return Err(format!("a read through it failed on {}: {error}", member.name));
        }
    }
    Ok(())
}

/// What a refusal means, and what to do about it.
fn explain(way: Way, error: &io::Error) -> String {
    let read = |path| std::fs::read_to_string(path).unwrap_or_default().trim().to_owned();
    match way {
        Way::Libaio => explained_libaio(error, &read(AIO_TAKEN), &read(AIO_MAX)),
        _ => explained(error, &read(DISABLED)),
    }
}

fn explained_libaio(error: &io::Error, taken: &str, max: &str) -> String {
    match error.raw_os_error().map(Errno::from_raw) {
        Some(Errno::EAGAIN) => format!(
            "there are not enough places for asynchronous I/Os ({taken} of {max} are taken): \
             raise their number with `sysctl fs.aio-max-nr=1048576`, or ask for less queue depth \
             or fewer workers"
        ),
        Some(Errno::ENOSYS | Errno::EPERM | Errno::EACCES) => "this kernel, or the sandbox around \
            this program, forbids it: allow io_setup, io_submit, io_getevents and io_destroy in \
            its seccomp profile (docker run --security-opt seccomp=…)"
            .to_owned(),
        Some(Errno::ENOMEM) => "there is not enough memory for its queue: ask for less queue \
            depth or fewer workers"
            .to_owned(),
        _ => format!("making it failed with: {error}"),
    }
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
    fn each_refusal_of_libaio_names_its_remedy() {
        let of = |errno: Errno| explained_libaio(&errno.into(), "65000", "65536");
        assert!(of(Errno::EAGAIN).contains("65000 of 65536"));
        assert!(of(Errno::EAGAIN).contains("sysctl fs.aio-max-nr="));
        assert!(of(Errno::ENOSYS).contains("seccomp") && of(Errno::EPERM).contains("io_setup"));
        assert!(of(Errno::ENOMEM).contains("less queue depth"));
        assert!(of(Errno::EIO).contains("Input/output error"));
    }

    #[test]
    fn a_probe_gives_features_or_a_reason() {
        for found in [probe(), probe_libaio()] {
            assert_eq!(found.usable, found.reason.is_none());
            assert!(found.usable || found.features.is_empty());
        }
    }
}
