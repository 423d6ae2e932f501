//! A disk that the kernel caps: a loop device with a file system, and a control group whose
//! processes may do so much on it a second. Both are unmade on every way out.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::AtomicBool;
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, bail};

use super::super::places::{self, Folder, LoopDevice, Spot, TMPFS};
use super::super::process::{self, Ended, Manner};
use super::super::rows::{Place, Work};

/// Of the file that both programs know.
const FILE_BYTES: u64 = 64 << 20;

/// Of the device: that file, one that diskproof makes, and what the file system needs.
const DEVICE_BYTES: u64 = 192 << 20;

/// Where the kernel says what is mounted.
const MOUNTS: &str = "/proc/self/mounts";

/// What a process had in use is in use for a moment after its end: how often, and after how long,
/// it is tried again to take it away.
const TRIES: u32 = 150;
const PAUSE: Duration = Duration::from_millis(20);

/// How much a second, of reads and of writes each.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Cap {
    /// I/Os.
    Ios(u32),
    /// MiB.
    Mebibytes(u32),
}

/// The disk with its group. What is made last goes first.
#[derive(Debug)]
pub(super) struct CappedDisk {
    group: Group,
    mount: Mount,
    _device: LoopDevice,
    _memory: Folder,
    number: String,
}

impl CappedDisk {
    /// Makes all of it. `folder` is one of ours, for mounts.
    pub(super) fn new(folder: &Path, stop: &AtomicBool) -> Result<Self> {
        let memory = Folder::new(Path::new(TMPFS))?;
        let backing = memory.path.join("capped");
        places::fill(&backing, DEVICE_BYTES, stop)?;
        let device = LoopDevice::new(&backing)?;
        // Without a journal, which would take its share of the cap.
        let mut make = Command::new("mkfs.ext4");
        make.args(["-q", "-F", "-O", "^has_journal", "-E", "lazy_itable_init=0,nodiscard"]);
        process::run(make.arg(&device.path), Manner::default())?;
        let options = ["-t", "ext4", "-o", "noatime,lazytime"];
        let mount = Mount::new(folder.join("disk"), &device.path, &options)?;
        places::fill(&mount.path.join("data"), FILE_BYTES, stop)?;
        let name = device.path.file_name().context("losetup named no device")?;
        let number = fs::read_to_string(Path::new("/sys/block").join(name).join("dev"))?;
        let group = Group::new(folder)?;
        let number = number.trim().to_owned();
        Ok(Self { group, mount, _device: device, _memory: memory, number })
    }

    /// Sets the cap.
    pub(super) fn set(&self, cap: Cap) -> Result<()> {
        self.group.set(&self.number, cap)
    }

    /// What a pattern runs on. What is written is a file of diskproof's own beside fio's.
    pub(super) fn spot(&self, work: &Work) -> Spot {
        let place = if work.only_reads() { Place::Disk } else { Place::Written };
        Spot { place, path: self.mount.path.join("data"), bytes: FILE_BYTES }
    }

    /// Runs a command under the cap.
    pub(super) fn run(&self, command: &Command) -> Result<Ended> {
        let mut shell = Command::new("sh");
        shell.args(["-c", "echo $$ > \"$1\" && shift && exec \"$@\"", "sh"]);
        shell.arg(self.group.path.join("cgroup.procs"));
        shell.arg(command.get_program()).args(command.get_args());
        process::run(&mut shell, Manner::default())
    }
}

/// Something mounted; dropping it unmounts it.
#[derive(Debug)]
struct Mount {
    path: PathBuf,
}

impl Mount {
    fn new(path: PathBuf, what: &Path, options: &[&str]) -> Result<Self> {
        fs::create_dir(&path)?;
        let mut mount = Command::new("mount");
        process::run(mount.args(options).arg(what).arg(&path), Manner::default())?;
        Ok(Self { path })
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        let mut unmount = Command::new("umount");
        unmount.arg(&self.path);
        if let Err(error) = patiently(|| process::run(&mut unmount, Manner::default())) {
            eprintln!("can't unmount {}: {error:#}", self.path.display());
        }
    }
}

/// A control group of our own; dropping it removes it.
#[derive(Debug)]
struct Group {
    path: PathBuf,
    second: bool,
    _mount: Option<Mount>,
}

impl Group {
    /// In the hierarchy of `blkio`, mounted in `folder` where it is not mounted; else in the
    /// second version's, where that has `io`.
    fn new(folder: &Path) -> Result<Self> {
        let mounts = fs::read_to_string(MOUNTS)?;
        let (parent, second, mount) = if let Some(path) = mounted(&mounts, "cgroup", "blkio") {
            (path, false, None)
        } else if let Some(path) = second_version(&mounts)? {
            (path, true, None)
        } else {
            let options = ["-t", "cgroup", "-o", "blkio"];
            let mount = Mount::new(folder.join("blkio"), Path::new("none"), &options);
            let mount = mount.context("this kernel has no control groups that cap disks")?;
            (mount.path.clone(), false, Some(mount))
        };
        let path = parent.join(format!("diskproof-agree-{}", std::process::id()));
        fs::create_dir(&path).with_context(|| {
            format!("no control group can be made in {}, which root may", parent.display())
        })?;
        Ok(Self { path, second, _mount: mount })
    }

    /// Caps a device; all other caps of it go.
    fn set(&self, device: &str, cap: Cap) -> Result<()> {
        let (ios, bytes) = match cap {
            Cap::Ios(ios) => (u64::from(ios), 0),
            Cap::Mebibytes(mebibytes) => (0, u64::from(mebibytes) << 20),
        };
        let write = |file: &str, line: String| {
            let path = self.path.join(file);
            fs::write(&path, line).with_context(|| format!("can't write {}", path.display()))
        };
        if self.second {
            let or_max = |n: u64| if n == 0 { "max".to_owned() } else { n.to_string() };
            let (ios, bytes) = (or_max(ios), or_max(bytes));
            let line = format!("{device} rbps={bytes} wbps={bytes} riops={ios} wiops={ios}");
            return write("io.max", line);
        }
        // 0 takes a cap away.
        for (what, most) in [("iops", ios), ("bps", bytes)] {
            for kind in ["read", "write"] {
                write(&format!("blkio.throttle.{kind}_{what}_device"), format!("{device} {most}"))?;
            }
        }
        Ok(())
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        if let Err(error) = patiently(|| fs::remove_dir(&self.path)) {
            eprintln!("can't remove {}: {error}", self.path.display());
        }
    }
}

/// The first success, or the last failure.
fn patiently<T, E>(mut attempt: impl FnMut() -> Result<T, E>) -> Result<T, E> {
    for _ in 1..TRIES {
        match attempt() {
            Err(_) => thread::sleep(PAUSE),
            done => return done,
        }
    }
    attempt()
}

/// Where a file system of a kind is mounted with an option.
fn mounted(mounts: &str, kind: &str, option: &str) -> Option<PathBuf> {
    mounts.lines().find_map(|line| {
        let mut fields = line.split_whitespace().skip(1);
        let (path, found, options) = (fields.next()?, fields.next()?, fields.next()?);
        let has = options.split(',').any(|one| one == option);
        (found == kind && has).then(|| path.into())
    })
}

/// The second version's hierarchy, if its groups can cap disks.
fn second_version(mounts: &str) -> Result<Option<PathBuf>> {
    let Some(root) = mounted(mounts, "cgroup2", "rw") else { return Ok(None) };
    let has_io = |file: &str| -> Result<bool> {
        Ok(fs::read_to_string(root.join(file))?.split_whitespace().any(|name| name == "io"))
    };
    if !has_io("cgroup.controllers")? {
        return Ok(None);
    }
    let control = "cgroup.subtree_control";
    if !has_io(control)? {
        // It stays: others may have begun to rely on it when we go.
        fs::write(root.join(control), "+io").context("groups can't be given `io`")?;
    }
    if !has_io(control)? {
        bail!("{} has no `io` for its groups", root.display());
    }
    Ok(Some(root))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hierarchy_is_known_by_its_option() {
        let mounts = "tmpfs /sys/fs/cgroup tmpfs rw 0 0\n\
                      cgroup /c/cpu cgroup rw,relatime,cpu 0 0\n\
                      cgroup /c/blkio cgroup rw,relatime,blkio 0 0\n\
                      cgroup2 /c/two cgroup2 rw,nosuid 0 0\n";
        assert_eq!(mounted(mounts, "cgroup", "blkio"), Some("/c/blkio".into()));
        assert_eq!(mounted(mounts, "cgroup2", "rw"), Some("/c/two".into()));
        assert_eq!(mounted(mounts, "cgroup", "memory"), None);
    }
}
