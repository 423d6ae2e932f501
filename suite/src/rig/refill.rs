//! Writing again what trims gave up, so that nothing is measured on holes.
//!
//! A read of a hole is answered from memory, and a trim of one does nothing: neither says anything
//! of a disk. So a file that was trimmed is written in full again before the next round on it.

use std::fs::File;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};

use nix::errno::Errno;
use nix::unistd::{Whence, lseek};

use super::error::RigError;
use super::fill::Fill;
use super::live::{Live, Rig};
use super::prove::no_holes;

impl Rig {
    /// Makes the disks of a setup ready for a round: holes of trims before are written again. With
    /// `trims`, it is kept in mind that the round will leave some. `halted` is asked now and then.
    ///
    /// # Errors
    /// What the machine refused; [`RigError::Interrupted`].
    pub fn refill(
        &self,
        setup: usize,
        trims: bool,
        halted: &dyn Fn() -> bool,
    ) -> Result<(), RigError> {
        let setups = self.setups.iter().filter(|surveyed| surveyed.setup == setup);
        for index in setups.flat_map(|surveyed| &surveyed.disks) {
            let disks = self.disks.iter().filter(|disk| disk.surveyed.disk == *index);
            disks.clone().try_for_each(|disk| refill(disk, halted))?;
            for made in disks.filter_map(|disk| disk.made.as_ref()) {
                made.holes.fetch_or(trims, Ordering::Relaxed);
            }
        }
        Ok(())
    }
}

fn refill(disk: &Live, halted: &dyn Fn() -> bool) -> Result<(), RigError> {
    let Some(made) = &disk.made else { return Ok(()) };
    if !made.holes.load(Ordering::Relaxed) {
        return Ok(());
    }
    let failed = |source| RigError::system("look for holes in", &disk.path, source);
    let (file, path, align) = (&disk.file, &disk.path, disk.surveyed.align);
    let (written, mut at) = (AtomicU64::new(0), 0);
    while let Some((from, to)) = next_hole(file, at, made.bytes).map_err(failed)? {
        Fill { file, path, from, bytes: to, align, written: &written }.run(halted)?;
        at = to;
    }
    no_holes(file, path)?;
    made.holes.store(false, Ordering::Relaxed);
    Ok(())
}

/// The next hole of a file of so many bytes that ends behind `at`: where it begins and ends.
fn next_hole(file: &File, at: u64, bytes: u64) -> io::Result<Option<(u64, u64)>> {
    let seek = |at: u64, whence| match lseek(file, at.cast_signed(), whence) {
        Ok(found) => Ok(found.cast_unsigned().min(bytes)),
        // Nothing of that kind follows.
        Err(Errno::ENXIO) => Ok(bytes),
        Err(errno) => Err(io::Error::from(errno)),
    };
    let hole = seek(at, Whence::SeekHole)?;
    if hole >= bytes {
        return Ok(None);
    }
    Ok(Some((hole, seek(hole, Whence::SeekData)?)))
}
