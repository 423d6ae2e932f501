//! The file that both programs read: made once, written in full with random data, and removed on
//! every way out.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context, Result, bail};

/// What is written at a time.
const CHUNK_BYTES: usize = 1 << 20;

/// A folder of our own with the file in it; dropping it removes both.
#[derive(Debug)]
pub(super) struct Scratch {
    folder: PathBuf,
    file: PathBuf,
}

impl Scratch {
    /// Makes the file of `bytes` in a new folder within `parent`. Stops early when `stop` is set.
    pub(super) fn new(parent: &Path, bytes: u64, stop: &AtomicBool) -> Result<Self> {
        let folder = parent.join(format!("diskproof-bench-{}", std::process::id()));
        fs::create_dir(&folder).with_context(|| format!("can't make {}", folder.display()))?;
        // Programs with another folder of their own have to find it too.
        let folder = folder.canonicalize()?;
        let scratch = Self { file: folder.join("data"), folder };
        scratch.fill(bytes, stop).with_context(|| {
            format!("can't write {} MiB to {}", bytes >> 20, scratch.file.display())
        })?;
        Ok(scratch)
    }

    /// The file.
    pub(super) fn file(&self) -> &Path {
        &self.file
    }

    /// The folder, for what else is needed for as long.
    pub(super) fn folder(&self) -> &Path {
        &self.folder
    }

    fn fill(&self, bytes: u64, stop: &AtomicBool) -> Result<()> {
        let mut random = File::open("/dev/urandom").context("can't open /dev/urandom")?;
        let mut file = File::create_new(&self.file)?;
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
        Ok(file.sync_all()?)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_dir_all(&self.folder) {
            eprintln!("can't remove {}: {error}", self.folder.display());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_is_full_and_goes_away() {
        let parent = tempfile::tempdir().unwrap();
        let bytes = 3 * CHUNK_BYTES as u64 / 2;
        let scratch = Scratch::new(parent.path(), bytes, &AtomicBool::new(false)).unwrap();
        let data = fs::read(scratch.file()).unwrap();
        assert_eq!(data.len() as u64, bytes);
        assert!(data.chunks(4096).all(|block| block.iter().any(|byte| *byte != 0)));
        drop(scratch);
        assert_eq!(fs::read_dir(parent.path()).unwrap().count(), 0);
    }

    #[test]
    fn stopping_leaves_nothing() {
        let parent = tempfile::tempdir().unwrap();
        let stopped = Scratch::new(parent.path(), 1 << 20, &AtomicBool::new(true));
        assert!(format!("{:#}", stopped.unwrap_err()).ends_with("stopped"));
        assert_eq!(fs::read_dir(parent.path()).unwrap().count(), 0);
    }
}
