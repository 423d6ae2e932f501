//! From a survey to live storage: makes what has to be made, writes it in full, and proves it.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::File;
use std::panic::resume_unwind;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

use nix::fcntl::OFlag;

use super::disk::{DiskKind, SurveyedDisk, block_of, no_direct_io, unfit_blocks};
use super::error::RigError;
use super::fill::{Fill, random_number};
use super::identity::{self, Identity, Want};
use super::live::{Left, Live, Made, Rig};
use super::place::direct_io_of;
use super::prove;
use super::survey::Survey;
use super::undo::{Folder, Undo, UndoOnDrop};
use crate::os::direct::{DirectAlign, DirectIo};
use crate::units::Bytes;

/// Four reports a second: often enough for a bar.
const REPORT_EVERY: Duration = Duration::from_millis(250);

/// The file that stands in a directory whose cases all start on fresh ones: enough to prove
/// alignment on.
const PROOF_BYTES: u64 = 1 << 20;

/// How far a disk's file is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BuildEvent<'a> {
    /// The disk's name.
    pub disk: &'a str,
    /// Bytes written so far.
    pub written: u64,
    /// Bytes to write.
    pub total: u64,
}

/// Called before each step that changes anything, with what it does and where; an error ends the
/// build there.
type Checkpoint<'a> = &'a (dyn Fn(&'static str, &Path) -> Result<(), RigError> + Sync);

/// Makes all storage of a survey. Each disk's file is written in full, past the page cache where
/// that can be; disks on different file systems are written at once, those on one file system one
/// after the other. `on_event` is called from this thread a few times a second. Everything made is
/// noted in `undo`, which is undone when this fails and when the [`Rig`] is dropped.
///
/// # Errors
/// The survey's first trouble, if it has any; what the machine refused;
/// [`RigError::Interrupted`] soon after `stop` becomes true. Nothing is left behind, or what is
/// can be had from [`Undo::now`].
pub fn build(
    survey: Survey,
    undo: &Undo,
    stop: &AtomicBool,
    on_event: &mut dyn FnMut(BuildEvent<'_>),
) -> Result<Rig, RigError> {
    build_with(survey, undo, stop, on_event, &|_, _| Ok(()))
}

/// [`build`] with a say before every step.
pub(super) fn build_with(
    mut survey: Survey,
    undo: &Undo,
    stop: &AtomicBool,
    on_event: &mut dyn FnMut(BuildEvent<'_>),
    checkpoint: Checkpoint<'_>,
) -> Result<Rig, RigError> {
    if !survey.troubles.is_empty() {
        return Err(survey.troubles.remove(0).error);
    }
    let undo = UndoOnDrop(undo.clone());
    let mut maker = Maker { undo: &undo.0, checkpoint, folders: BTreeMap::new() };
    let mut disks = Vec::new();
    for disk in survey.disks {
        if stop.load(Ordering::Relaxed) {
            return Err(RigError::Interrupted);
        }
        disks.push(maker.disk(disk)?);
    }
    fill_all(&disks, stop, on_event, checkpoint)?;
    for disk in &mut disks {
        if stop.load(Ordering::Relaxed) {
            return Err(RigError::Interrupted);
        }
        checkpoint("prove", &disk.path)?;
        prove_disk(disk)?;
    }
    Ok(Rig { disks, setups: survey.setups, undo })
}

struct Maker<'a> {
    undo: &'a Undo,
    checkpoint: Checkpoint<'a>,
    /// Our own folder in each work directory.
    folders: BTreeMap<PathBuf, Folder>,
}

impl Maker<'_> {
    /// Makes a disk's empty file, or opens what is there.
    fn disk(&mut self, disk: SurveyedDisk) -> Result<Live, RigError> {
        if !disk.kind.is_created() {
            let want = if disk.kind == DiskKind::Null { Want::Null } else { Want::Existing };
            let file = open_as_surveyed(&disk, want, OFlag::O_RDONLY)?;
            let path = disk.path.clone();
            return Ok(Live { file: Arc::new(file), path, made: None, surveyed: disk });
        }
        let directory = open_as_surveyed(&disk, Want::Directory, OFlag::O_DIRECTORY)?;
        let directory = Folder::new(directory, &disk.path);
        let (folder, name) = match disk.kind {
            DiskKind::Loopback => {
                (self.own_folder(&directory)?, OsString::from(format!("{}.img", disk.name)))
            }
            _ => (directory, private_name(&format!(".diskproof-{{}}-{}", disk.name))),
        };
        let path = folder.path.join(&name);
        (self.checkpoint)("make the file", &path)?;
        let (file, _) = self.undo.make_file(&folder, &name, OFlag::empty())?;
        let align = match direct_io_of(&file)
            .map_err(|source| RigError::system("ask for the alignment of", &path, source))?
        {
            DirectIo::Aligned(align) => Some(align),
            DirectIo::Unsupported => None,
            DirectIo::Unknown => disk.align,
        };
        let standing = disk.kind == DiskKind::Loopback || disk.demand.standing;
        let bytes = if standing { disk.size.0 } else { disk.size.0.min(PROOF_BYTES) };
        let block = block_of(align).0;
        let bytes = bytes / block * block;
        let made = Made { folder, bytes, standing, trimmed: Left::default() };
        Ok(Live { file, path, made: Some(made), surveyed: SurveyedDisk { align, ..disk } })
    }

    fn own_folder(&mut self, work_dir: &Folder) -> Result<Folder, RigError> {
        if let Some(folder) = self.folders.get(&work_dir.path) {
            return Ok(folder.clone());
        }
        let name = private_name("diskproof-{}");
        (self.checkpoint)("make the folder", &work_dir.path.join(&name))?;
        let folder = self.undo.make_folder(work_dir, &name)?;
        self.folders.insert(work_dir.path.clone(), folder.clone());
        Ok(folder)
    }
}

/// Opens what a disk was surveyed at, if it is still the same.
pub(super) fn open_as_surveyed(
    disk: &SurveyedDisk,
    want: Want,
    flags: OFlag,
) -> Result<File, RigError> {
    let file = identity::open(Some(&disk.name), &disk.path, flags, want)?;
    same_as_surveyed(disk, &file)?;
    Ok(file)
}

/// Refuses what is not what was surveyed.
pub(super) fn same_as_surveyed(disk: &SurveyedDisk, file: &File) -> Result<(), RigError> {
    let is =
        Identity::of(file).map_err(|source| RigError::system("look at", &disk.path, source))?;
    if is != disk.identity {
        return Err(RigError::Changed { path: disk.path.clone(), was: disk.identity, is });
    }
    Ok(())
}

/// A name that nobody else has: our process and a number that nobody can foresee in place of `{}`.
pub(super) fn private_name(form: &str) -> OsString {
    form.replace("{}", &format!("{}-{:016x}", std::process::id(), random_number())).into()
}

/// Writes the files of all disks in full: one thread for each file system.
fn fill_all(
    disks: &[Live],
    stop: &AtomicBool,
    on_event: &mut dyn FnMut(BuildEvent<'_>),
    checkpoint: Checkpoint<'_>,
) -> Result<(), RigError> {
    let made: Vec<(&Live, &Made, AtomicU64)> = disks
        .iter()
        .filter_map(|disk| Some((disk, disk.made.as_ref()?, AtomicU64::new(0))))
        .collect();
    let mut groups: BTreeMap<_, Vec<usize>> = BTreeMap::new();
    for (index, (disk, ..)) in made.iter().enumerate() {
        groups.entry(disk.surveyed.identity.device()).or_default().push(index);
    }
    let given_up = AtomicBool::new(false);
    let halted = || stop.load(Ordering::Relaxed) || given_up.load(Ordering::Relaxed);
    let fill_group = |group: Vec<usize>| {
        group.into_iter().try_for_each(|index| {
            let (disk, Made { bytes, .. }, written) = &made[index];
            let Live { file, path, surveyed, .. } = disk;
            checkpoint("write", path)?;
            Fill { file, path, bytes: *bytes, align: surveyed.align, written }.run(&halted)
        })
    };
    let mut reported = vec![None; made.len()];
    let mut report = || {
        for ((disk, Made { bytes, .. }, written), reported) in made.iter().zip(&mut reported) {
            let written = written.load(Ordering::Relaxed);
            if reported.replace(written) != Some(written) {
                on_event(BuildEvent { disk: &disk.surveyed.name, written, total: *bytes });
            }
        }
    };
    thread::scope(|scope| {
        // Whatever ends this scope, by error or panic, the threads have not long to go.
        let _give_up = SetOnDrop(&given_up);
        let (done, finished) = channel::<()>();
        let mut threads = Vec::new();
        for group in groups.into_values() {
            let (fill_group, given_up, done) = (&fill_group, &given_up, done.clone());
            let work = move || {
                let _done = done; // the channel ends with the last thread
                let result = fill_group(group);
                if result.is_err() {
                    given_up.store(true, Ordering::Relaxed);
                }
                result
            };
            let spawned = thread::Builder::new().name("fill".into()).spawn_scoped(scope, work);
            threads.push(spawned.map_err(|source| {
                RigError::system("start a thread to write in", &disks[0].path, source)
            })?);
        }
        drop(done);
        report();
        while finished.recv_timeout(REPORT_EVERY) == Err(RecvTimeoutError::Timeout) {
            report();
        }
        report();
        let results = threads.into_iter().map(|t| t.join().unwrap_or_else(|p| resume_unwind(p)));
        first_cause(results.collect())
    })
}

/// The first error that is a cause: when one thread fails, the others are interrupted.
fn first_cause(results: Vec<Result<(), RigError>>) -> Result<(), RigError> {
    let errors: Vec<RigError> = results.into_iter().filter_map(Result::err).collect();
    let cause = errors.iter().position(|error| !matches!(error, RigError::Interrupted));
    match errors.into_iter().nth(cause.unwrap_or(0)) {
        Some(error) => Err(error),
        None => Ok(()),
    }
}

struct SetOnDrop<'a>(&'a AtomicBool);

impl Drop for SetOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Looks whether a disk is what the survey said, by its allocation and by one real transfer.
fn prove_disk(disk: &mut Live) -> Result<(), RigError> {
    if disk.made.is_some() {
        prove::no_holes(&disk.file, &disk.path)?;
    }
    let bytes = disk.made.as_ref().map_or(disk.surveyed.size.0, |made| made.bytes);
    let proved = match disk.surveyed.align {
        Some(likely) => prove::direct_transfer(&disk.file, likely, bytes, disk.made.is_some())
            .map_err(|source| {
                RigError::system("move one block by direct I/O on", &disk.path, source)
            })?,
        None => None,
    };
    disk.surveyed.align = proved;
    if disk.surveyed.demand.direct {
        let align = proved.ok_or_else(|| no_direct_io(&disk.surveyed))?;
        if let Some(error) = unfit_blocks(&disk.surveyed, align).into_iter().next() {
            return Err(error);
        }
    }
    cut_to(&mut disk.surveyed.size, proved);
    Ok(())
}

/// Cuts a size down to whole blocks.
fn cut_to(size: &mut Bytes, align: Option<DirectAlign>) {
    let block = block_of(align).0;
    size.0 = size.0 / block * block;
}
