//! Writing again what trims gave up, so that nothing is measured on holes.
//!
//! A read of a hole is answered from memory, and a trim of one does nothing: neither says anything
//! of a disk. So a file that was trimmed is written in full again before the next round on it:
//! its holes, and with what lies between those that are near each other. Where trims may have been
//! of parts of the file system's blocks, which become zeros and no holes, all of it.

use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::sync::atomic::AtomicU64;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::unistd::{Whence, lseek};

use super::build::BuildEvent;
use super::error::RigError;
use super::fill::Pen;
use super::live::{Live, Made, Rig, Trimmed};
use super::prove::no_holes;

/// Holes no further apart than this are written as one: a write more costs more than this much of
/// one.
const GAP_BYTES: u64 = 256 << 10;

/// The most that is written before it is told how far it is: a whole number of every file system's
/// blocks.
const STRETCH_BYTES: u64 = 64 << 20;

/// As often as the first fill tells how far it is.
const REPORT_EVERY: Duration = Duration::from_millis(250);

impl Rig {
    /// Makes the disks of a setup ready for a round: holes of trims before are written again.
    /// `trims` are the sizes of what the round will trim itself, which is kept in mind; empty where
    /// it trims nothing. `halted` is asked, and `on_event` called, now and then.
    ///
    /// # Errors
    /// What the machine refused; [`RigError::Interrupted`].
    pub fn refill(
        &self,
        setup: usize,
        trims: &[u64],
        halted: &dyn Fn() -> bool,
        on_event: &mut dyn FnMut(BuildEvent<'_>),
    ) -> Result<(), RigError> {
        let setups = self.setups.iter().filter(|surveyed| surveyed.setup == setup);
        for index in setups.flat_map(|surveyed| &surveyed.disks) {
            for disk in self.disks.iter().filter(|disk| disk.surveyed.disk == *index) {
                if let Some(made) = &disk.made {
                    refill(disk, made, halted, on_event)?;
                    made.trimmed.note(leaves(&disk.file, trims));
                }
            }
        }
        Ok(())
    }
}

/// What trims of these sizes leave in a file.
fn leaves(file: &File, trims: &[u64]) -> Trimmed {
    // Where the file system doesn't tell its block size, no trim is known to be of whole ones.
    let block = file.metadata().map_or(u64::MAX, |facts| facts.blksize().max(1));
    match trims {
        [] => Trimmed::Nothing,
        sizes if sizes.iter().all(|size| size.is_multiple_of(block)) => Trimmed::Holes,
        _ => Trimmed::Zeros,
    }
}

fn refill(
    disk: &Live,
    made: &Made,
    halted: &dyn Fn() -> bool,
    on_event: &mut dyn FnMut(BuildEvent<'_>),
) -> Result<(), RigError> {
    let trimmed = made.trimmed.get();
    if trimmed == Trimmed::Nothing {
        return Ok(());
    }
    let (file, path, bytes) = (&*disk.file, &disk.path, made.bytes);
    let mut pen = Pen::new(file, path, disk.surveyed.align);
    let mut told: Option<Instant> = None;
    let mut at = 0;
    loop {
        let stretch = match trimmed {
            Trimmed::Zeros => (at < bytes).then_some((at, bytes.min(at + STRETCH_BYTES))),
            _ => next_stretch(file, at, bytes)
                .map_err(|source| RigError::system("look for holes in", path, source))?,
        };
        let Some((from, to)) = stretch else { break };
        if told.is_none_or(|told| told.elapsed() >= REPORT_EVERY) {
            told = Some(Instant::now());
            on_event(BuildEvent { disk: &disk.surveyed.name, written: from, total: bytes });
        }
        pen.write(from, to, &AtomicU64::new(0), halted)?;
        at = to;
    }
    pen.finish()?;
    no_holes(file, path)?;
    made.trimmed.forget();
    Ok(())
}

/// The next holes that lie near each other, as one, up to a piece that is soon written.
fn next_stretch(file: &File, at: u64, bytes: u64) -> io::Result<Option<(u64, u64)>> {
    let Some((from, mut to)) = next_hole(file, at, bytes)? else { return Ok(None) };
    to = to.min(from + STRETCH_BYTES);
    while to - from < STRETCH_BYTES
        && let Some((next, end)) = next_hole(file, to, bytes)?
        && next - to <= GAP_BYTES
    {
        to = end.min(from + STRETCH_BYTES);
    }
    Ok(Some((from, to)))
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
