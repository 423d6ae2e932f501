//! Whether io_uring and libaio can be used here, and which back end a job gets.

use std::fs::File;
use std::io::{self, Write as _};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::mpsc::{RecvTimeoutError, channel};

use nix::errno::Errno;

use super::aio::Aio;
use super::buffer::Arena;
use super::crew::{LOOK_EVERY, no_threads};
use super::files::Files;
use super::flight::ENTRIES_MAX;
use super::guard::Guard;
use super::trim;
use super::uring::Ring;
use crate::engine::{Backend, Control, EngineError, Job, RingOptions, prefers_ring};
use crate::os::blockdev::{DeviceNumber, Sysfs};
use crate::os::clock::monotonic_ns;
use crate::units::Nanos;

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
    match Ring::new(8, RingOptions::default()).and_then(|mut ring| ring.turn().map(|()| ring)) {
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
///
/// # Errors
/// When the machine lacks what the job asks for; [`EngineError::Stuck`] when a disk doesn't answer.
pub(super) fn choose(
    job: &Job,
    files: &Files,
    control: &Control,
) -> Result<(Way, String), EngineError> {
    if job.trim {
        return trim::choose(job, files, control);
    }
    let asked = |way| (way, "as the plan asks".to_owned());
    let parts = job.parts_max(files.members.len());
    match job.backend {
        Backend::Sync => {
            assert!(job.queue_depth == 1, "one I/O at a time: depth {}", job.queue_depth);
            Ok(asked(Way::Sync))
        }
        Backend::IoUring => match try_way(Way::IoUring, job, files, control)? {
            Ok(()) => Ok(asked(Way::IoUring)),
            Err(reason) if job.ring.polled => Err(EngineError::NoPolling { reason }),
            Err(reason) => Err(EngineError::NoRing { reason }),
        },
        Backend::Libaio => match try_way(Way::Libaio, job, files, control)? {
            Ok(()) => Ok(asked(Way::Libaio)),
            Err(reason) => Err(EngineError::NoLibaio { reason }),
        },
        Backend::Auto if !prefers_ring(job.queue_depth, parts) => {
            Ok((Way::Sync, "one I/O at a time costs least by pread and pwrite".to_owned()))
        }
        Backend::Auto | Backend::AutoWithRing | Backend::AutoWithLibaio => {
            choose_queue(job, files, control, parts)
        }
    }
}

/// Chooses what takes several I/Os at a time, else `sync` where there is one alone.
fn choose_queue(
    job: &Job,
    files: &Files,
    control: &Control,
    parts: usize,
) -> Result<(Way, String), EngineError> {
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
        let tried = if way == Way::Libaio && !libaio_serves(job, files, parts) {
            Err("through the page cache it does one I/O at a time".to_owned())
        } else {
            try_way(way, job, files, control)?
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

/// Makes a queue of the job's size, and reads one block of each member through it. Returns why that
/// can't be done.
pub(super) fn try_way(
    way: Way,
    job: &Job,
    files: &Files,
    control: &Control,
) -> Result<Result<(), String>, EngineError> {
    let parts = job.parts_max(files.members.len());
    if parts > ENTRIES_MAX {
        return Ok(Err(format!(
            "an I/O falls into up to {parts} parts, and a queue holds {ENTRIES_MAX}: use larger \
             chunks or smaller blocks"
        )));
    }
    let trial = Trial {
        way,
        entries: job.queue_depth as usize * parts,
        options: job.ring,
        bytes: job.granularity.0 as usize,
        align: files.memory_align,
        members: files.members.iter().map(|one| (one.name.clone(), one.file.clone())).collect(),
        done: Arc::default(),
    };
    let done = Arc::clone(&trial.done);
    let (sender, tried) = channel();
    // On a thread of its own: if a disk never answers it is left to itself with all that it uses.
    let attempt = move || {
        let outcome = trial.make();
        // Let go of before the caller hears of it, who may want to close the files then.
        drop(trial);
        let _ = sender.send(outcome);
    };
    let thread = std::thread::Builder::new().name("probe".to_owned());
    thread.spawn(attempt).map_err(|error| no_threads(&error))?;
    let mut guard = Guard::new(control.patience(), monotonic_ns());
    loop {
        match tried.recv_timeout(LOOK_EVERY) {
            Ok(outcome) => return Ok(outcome),
            Err(RecvTimeoutError::Disconnected) => {
                return Ok(Err("trying it broke down".to_owned()));
            }
            Err(RecvTimeoutError::Timeout) => {}
        }
        let read = done.load(Relaxed);
        if let Some(silence) = guard.look(monotonic_ns(), read as u64, control.stopped())
            && let Some(member) = files.members.get(read)
        {
            return Err(EngineError::Stuck {
                disks: vec![member.name.clone()],
                offset: Some(0),
                silence: Nanos(silence),
                in_flight: 1,
            });
        }
    }
}

/// A trial of a ring or of libaio, with all that it needs.
struct Trial {
    way: Way,
    entries: usize,
    options: RingOptions,
    bytes: usize,
    align: usize,
    members: Vec<(String, Arc<File>)>,
    /// How many members were read.
    done: Arc<AtomicUsize>,
}

impl Trial {
    fn make(&self) -> Result<(), String> {
        let explain = |error| explain(self.way, &error);
        if self.way == Way::Libaio {
            let mut aio = Aio::new(self.entries).map_err(explain)?;
            return self.read_all(|file, arena| aio.read(file, arena));
        }
        let mut ring = Ring::new(self.entries, self.options).map_err(explain)?;
        if self.options.polled {
            self.members.iter().try_for_each(|(name, file)| can_poll(name, file))?;
        } else {
            ring.turn().map_err(explain)?; // which some kernels can't poll for
        }
        self.read_all(|file, arena| ring.read(file, arena))
    }

    fn read_all(
        &self,
        mut read: impl FnMut(&File, &mut Arena) -> io::Result<u32>,
    ) -> Result<(), String> {
        let mut arena = Arena::new(self.bytes, self.align).map_err(|error| error.to_string())?;
        // What a `pread` would meet too is the disk's trouble, to be met when it is measured.
        let of_way = [Errno::EINVAL, Errno::EOPNOTSUPP, Errno::ENOSYS, Errno::EPERM, Errno::EACCES];
        for (name, file) in &self.members {
            let errno = read(file, &mut arena).err().and_then(|error| error.raw_os_error());
            if let Some(errno) = errno.map(Errno::from_raw).filter(|one| of_way.contains(one)) {
                let error = io::Error::from(errno);
                return Err(if self.options.polled {
                    no_queues(name, &format!("a polled read failed with: {error}"))
                } else {
                    format!("a read through it failed on {name}: {error}")
                });
            }
            self.done.fetch_add(1, Relaxed);
        }
        Ok(())
    }
}

/// Asks the kernel whether a member's device has queues that can be polled. Before Linux 6.12 it
/// takes polled transfers where there are none, and completes them by interrupts.
fn can_poll(name: &str, file: &File) -> Result<(), String> {
    let Ok(metadata) = file.metadata() else { return Ok(()) };
    let of_device = metadata.file_type().is_block_device();
    let number = if of_device { metadata.rdev() } else { metadata.dev() };
    match Sysfs::new("/sys").can_poll(DeviceNumber::from_raw(number)) {
        Some(false) => Err(cannot_poll(name)),
        _ => Ok(()),
    }
}

/// Why a disk can't be polled whose device has no queues for it by the kernel's word, and what to
/// do about it.
#[must_use]
pub fn cannot_poll(name: &str) -> String {
    no_queues(name, "`queue/io_poll` of its device is 0")
}

/// Why a member can't be polled, and what to do about it.
fn no_queues(name: &str, found: &str) -> String {
    format!(
        "the disk {name} has no queues that can be polled for `hipri` ({found}): load its driver \
         with some (as in `nvme.poll_queues=2` on the kernel's command line), or take `hipri` out \
         of the plan"
    )
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
