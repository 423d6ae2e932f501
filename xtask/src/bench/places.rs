//! What rows run on: files and a loop device, made when the first row needs them and removed on
//! every way out.

use std::cell::OnceCell;
use std::fs::{self, File, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context, Result, bail};
use nix::fcntl::{OFlag, PosixFadviseAdvice, posix_fadvise};
use nix::sys::statfs::{TMPFS_MAGIC, statfs};

use super::process::{self, Manner};
use super::rows::Place;
use crate::floor::Cached;

/// What is written at a time.
const CHUNK_BYTES: usize = 1 << 20;

/// Of the files that are in memory, and of the null device as all take it.
pub(super) const SMALL_BYTES: u64 = 256 << 20;

/// Of the file that is written: diskproof makes one of this size anew for every run, and a disk
/// that allows so many bytes a minute must not spend them on that.
pub(super) const WRITTEN_BYTES: u64 = 128 << 20;

/// Where a file is in memory.
pub(super) const TMPFS: &str = "/dev/shm";

/// A file or device to run on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Spot {
    /// Which it is.
    pub place: Place,
    /// Its path.
    pub path: PathBuf,
    /// The bytes of it that are used.
    pub bytes: u64,
}

/// All of them, as far as they were needed.
#[derive(Debug)]
pub(super) struct Places<'a> {
    stop: &'a AtomicBool,
    disk_bytes: u64,
    // The device goes before the file that it lies on.
    device: OnceCell<LoopDevice>,
    cached: OnceCell<Cached>,
    memory: OnceCell<Folder>,
    disk: Folder,
}

impl<'a> Places<'a> {
    /// Makes a folder in `parent`, on the disk to measure, for a file of `disk_bytes` and others.
    pub(super) fn new(parent: &Path, disk_bytes: u64, stop: &'a AtomicBool) -> Result<Self> {
        Ok(Self {
            stop,
            disk_bytes,
            device: OnceCell::new(),
            cached: OnceCell::new(),
            memory: OnceCell::new(),
            disk: Folder::new(parent)?,
        })
    }

    /// The folder on the disk, for what else is needed for as long.
    pub(super) fn folder(&self) -> &Path {
        &self.disk.path
    }

    /// One of the places; an error is why it can't be had here.
    pub(super) fn spot(&self, place: Place) -> Result<Spot> {
        let (path, bytes) = match place {
            Place::Null => ("/dev/null".into(), SMALL_BYTES),
            Place::Cached => {
                let path = self.disk.file("cached", SMALL_BYTES, self.stop)?;
                or_make(&self.cached, || Cached::new(&path))?;
                (path, SMALL_BYTES)
            }
            Place::Tmpfs => (self.in_memory()?, SMALL_BYTES),
            Place::Loop => {
                let file = self.in_memory()?;
                let device = or_make(&self.device, || LoopDevice::new(&file))?;
                (device.path.clone(), SMALL_BYTES)
            }
            Place::Disk => (self.disk.file("data", self.disk_bytes, self.stop)?, self.disk_bytes),
            Place::Written => (self.disk.file("written", WRITTEN_BYTES, self.stop)?, WRITTEN_BYTES),
        };
        Ok(Spot { place, path, bytes })
    }

    fn in_memory(&self) -> Result<PathBuf> {
        let folder = or_make(&self.memory, || {
            let folder = Path::new(TMPFS);
            if statfs(folder)?.filesystem_type() != TMPFS_MAGIC {
                bail!("{TMPFS} is no tmpfs");
            }
            Folder::new(folder)
        })?;
        let path = folder.file("data", SMALL_BYTES, self.stop)?;
        let direct = OpenOptions::new().read(true).custom_flags(OFlag::O_DIRECT.bits()).open(&path);
        direct.context("tmpfs has no direct I/O before Linux 6.6")?;
        Ok(path)
    }
}

/// What the cell holds, made now if it holds nothing.
fn or_make<T>(cell: &OnceCell<T>, make: impl FnOnce() -> Result<T>) -> Result<&T> {
    if let Some(made) = cell.get() {
        return Ok(made);
    }
    let new = make()?;
    Ok(cell.get_or_init(|| new))
}

/// A folder of our own; dropping it removes all in it.
#[derive(Debug)]
pub(super) struct Folder {
    /// Where it is.
    pub path: PathBuf,
}

impl Folder {
    /// Makes it in `parent`.
    pub(super) fn new(parent: &Path) -> Result<Self> {
        let path = parent.join(format!("diskproof-bench-{}", std::process::id()));
        fs::create_dir(&path).with_context(|| format!("can't make {}", path.display()))?;
        // Programs with another folder of their own have to find it too.
        Ok(Self { path: path.canonicalize()? })
    }

    /// A file in it, full of random bytes; made at the first call for it. Stops early when `stop`
    /// is set.
    fn file(&self, name: &str, bytes: u64, stop: &AtomicBool) -> Result<PathBuf> {
        let path = self.path.join(name);
        if !path.exists() {
            fill(&path, bytes, stop).with_context(|| {
                let _ = fs::remove_file(&path); // half a file is none
                format!("can't write {} MiB to {}", bytes >> 20, path.display())
            })?;
        }
        Ok(path)
    }
}

/// Makes a file of random bytes.
pub(super) fn fill(path: &Path, bytes: u64, stop: &AtomicBool) -> Result<()> {
    let mut random = File::open("/dev/urandom").context("can't open /dev/urandom")?;
    let mut file = File::create_new(path)?;
    let mut chunk = vec![0; CHUNK_BYTES];
    let mut left = bytes;
    while left > 0 {
        if stop.load(Ordering::Relaxed) {
            bail!("stopped");
        }
        let length = left.min(CHUNK_BYTES as u64);
        let part = &mut chunk[..usize::try_from(length)?];
        random.read_exact(part)?;
        file.write_all(part)?;
        left -= length;
    }
    file.sync_all()?;
    // Direct I/O has to look after pages that are in the cache.
    Ok(posix_fadvise(&file, 0, 0, PosixFadviseAdvice::POSIX_FADV_DONTNEED)?)
}

impl Drop for Folder {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_dir_all(&self.path) {
            eprintln!("can't remove {}: {error}", self.path.display());
        }
    }
}

/// A loop device of our own, with direct I/O on its file; dropping it removes it.
#[derive(Debug)]
pub(super) struct LoopDevice {
    /// Where it is.
    pub path: PathBuf,
}

impl LoopDevice {
    /// Makes it over a file.
    pub(super) fn new(file: &Path) -> Result<Self> {
        let mut command = Command::new("losetup");
        command.args(["--find", "--show", "--direct-io=on"]).arg(file);
        let made = process::run(&mut command, Manner::default());
        let made = made.context("no loop device can be made, which root may")?;
        let device = Self { path: made.stdout.trim().into() };
        let name = device.path.file_name().context("losetup named no device")?;
        let direct = Path::new("/sys/block").join(name).join("loop/dio");
        if fs::read_to_string(&direct)?.trim() != "1" {
            bail!("the loop device has no direct I/O on its file");
        }
        Ok(device)
    }
}

impl Drop for LoopDevice {
    fn drop(&mut self) {
        let mut command = Command::new("losetup");
        command.arg("--detach").arg(&self.path);
        if let Err(error) = process::run(&mut command, Manner::default()) {
            eprintln!("can't remove {}: {error:#}", self.path.display());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_full_and_goes_away() {
        let parent = tempfile::tempdir().unwrap();
        let bytes = 3 * CHUNK_BYTES as u64 / 2;
        let stop = AtomicBool::new(false);
        let places = Places::new(parent.path(), bytes, &stop).unwrap();
        let spot = places.spot(Place::Disk).unwrap();
        assert_eq!(spot, places.spot(Place::Disk).unwrap());
        let data = fs::read(spot.path).unwrap();
        assert_eq!(data.len() as u64, bytes);
        assert!(data.chunks(4096).all(|block| block.iter().any(|byte| *byte != 0)));
        drop(places);
        assert_eq!(fs::read_dir(parent.path()).unwrap().count(), 0);
    }

    #[test]
    fn stopping_leaves_nothing() {
        let parent = tempfile::tempdir().unwrap();
        let stop = AtomicBool::new(true);
        let places = Places::new(parent.path(), 1 << 20, &stop).unwrap();
        let stopped = places.spot(Place::Disk).unwrap_err();
        assert!(format!("{stopped:#}").ends_with("stopped"));
        drop(places);
        assert_eq!(fs::read_dir(parent.path()).unwrap().count(), 0);
    }
}
