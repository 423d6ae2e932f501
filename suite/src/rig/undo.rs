//! Undoing: what was made is removed, last first, on every way out.
//!
//! Nothing is made but through [`Undo`], which notes it before anyone else can learn of it. What
//! is removed is known by its identity: the descriptor of everything made is kept, so that its
//! inode can't be given to another file, and a name that has come to mean something else is
//! left alone and reported.

use std::ffi::{OsStr, OsString};
use std::fs::{File, Metadata};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use nix::errno::Errno;
use nix::fcntl::{AtFlags, OFlag, openat};
use nix::sys::stat::{Mode, fstatat, mkdirat};
use nix::unistd::{UnlinkatFlags, unlinkat};
use thiserror::Error;

use super::error::RigError;

/// Something that could not be undone.
#[derive(Debug, Error)]
#[error("{path} is left behind: {reason}", path = path.display())]
pub struct UndoError {
    /// What is still there.
    pub path: PathBuf,
    /// Why.
    pub reason: String,
}

/// The list of what to undo, shared by all its clones: a thread that handles signals can hold one
/// from before the first step.
#[derive(Debug, Clone, Default)]
pub struct Undo {
    journal: Arc<Mutex<Journal>>,
    /// What the journal holds or is about to, by name. Never locked during a system call.
    names: Arc<Mutex<Vec<(StepNumber, PathBuf)>>>,
}

#[derive(Debug, Default)]
struct Journal {
    steps: Vec<Step>,
    made_so_far: u64,
    /// Whether all was undone: nothing can be made any more.
    closed: bool,
}

#[derive(Debug)]
struct Step {
    number: StepNumber,
    what: What,
    parent: Arc<File>,
    name: OsString,
    path: PathBuf,
    /// Keeps the inode from being used again.
    made: Arc<File>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum What {
    File,
    Folder,
}

/// Which step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct StepNumber(u64);

/// A directory that is open, and where it was found.
#[derive(Debug, Clone)]
pub(super) struct Folder {
    pub handle: Arc<File>,
    pub path: PathBuf,
}

impl Undo {
    /// One with nothing to undo.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Undoes everything, last first, and returns what could not be undone; nothing can be made
    /// afterwards. Calling it again tries again what failed, and returns what still does. It can be
    /// called from any thread at any time.
    #[must_use]
    pub fn now(&self) -> Vec<UndoError> {
        let mut journal = lock(&self.journal);
        journal.closed = true;
        let mut errors = Vec::new();
        let mut left = Vec::new();
        while let Some(step) = journal.steps.pop() {
            match step.undo() {
                Ok(()) => self.forget(step.number),
                Err(error) => {
                    errors.push(error);
                    left.push(step);
                }
            }
        }
        left.reverse();
        journal.steps = left;
        errors
    }

    /// What was made or is just being made, and is not undone so far, in the order in which it was
    /// made. Unlike [`now`](Self::now) it never waits: neither for a file system that does not
    /// answer, nor for a thread that waits for one.
    #[must_use]
    pub fn pending(&self) -> Vec<PathBuf> {
        lock(&self.names).iter().map(|(_, path)| path.clone()).collect()
    }

    /// Makes a new file in `folder`, for its owner alone, open for reading and writing and with
    /// `flags`.
    pub(super) fn make_file(
        &self,
        folder: &Folder,
        name: &OsStr,
        flags: OFlag,
    ) -> Result<(Arc<File>, StepNumber), RigError> {
        let flags = flags
            | OFlag::O_CREAT
            | OFlag::O_EXCL
            | OFlag::O_RDWR
            | OFlag::O_NOFOLLOW
            | OFlag::O_CLOEXEC;
        self.make(What::File, folder, name, || {
            openat(&folder.handle, name, flags, Mode::S_IRUSR | Mode::S_IWUSR)
        })
    }

    /// Makes a new folder in `folder`, for its owner alone.
    pub(super) fn make_folder(&self, folder: &Folder, name: &OsStr) -> Result<Folder, RigError> {
        let path = folder.path.join(name);
        let flags = OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
        let (handle, _) = self.make(What::Folder, folder, name, || {
            mkdirat(&folder.handle, name, Mode::S_IRWXU)?;
            openat(&folder.handle, name, flags, Mode::empty()).inspect_err(|_| {
                // Only an empty folder can be removed in this way: the one just made.
                let _ = unlinkat(&folder.handle, name, UnlinkatFlags::RemoveDir);
            })
        })?;
        Ok(Folder { handle, path })
    }

    /// Undoes one step before its time.
    pub(super) fn one(&self, number: StepNumber) -> Result<(), UndoError> {
        let mut journal = lock(&self.journal);
        let Some(index) = journal.steps.iter().position(|step| step.number == number) else {
            return Ok(()); // all was undone already
        };
        journal.steps[index].undo()?;
        journal.steps.remove(index);
        self.forget(number);
        Ok(())
    }

    /// Makes something and notes it, in one: the journal is locked before the thing exists, and has
    /// room for the note, so that nobody can come between.
    fn make(
        &self,
        what: What,
        folder: &Folder,
        name: &OsStr,
        creation: impl FnOnce() -> nix::Result<std::os::fd::OwnedFd>,
    ) -> Result<(Arc<File>, StepNumber), RigError> {
        let path = folder.path.join(name);
        let mut journal = lock(&self.journal);
        if journal.closed {
            return Err(RigError::Interrupted);
        }
        journal.steps.reserve(1);
        let number = StepNumber(journal.made_so_far);
        let (parent, name) = (Arc::clone(&folder.handle), name.to_owned());
        lock(&self.names).push((number, path.clone()));
        journal.made_so_far += 1;
        let made = creation().map_err(|errno| {
            self.forget(number);
            let operation = match what {
                What::File => "make the file",
                What::Folder => "make the folder",
            };
            RigError::system(operation, &path, errno)
        })?;
        let made = Arc::new(File::from(made));
        journal.steps.push(Step { number, what, parent, name, path, made: Arc::clone(&made) });
        Ok((made, number))
    }

    fn forget(&self, number: StepNumber) {
        lock(&self.names).retain(|(other, _)| *other != number);
    }
}

fn lock<T>(what: &Mutex<T>) -> MutexGuard<'_, T> {
    // Nothing panics while it is held; and what is noted has to be undone whatever happened.
    what.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Step {
    fn undo(&self) -> Result<(), UndoError> {
        let left = |reason: String| UndoError { path: self.path.clone(), reason };
        let there = match fstatat(&self.parent, self.name.as_os_str(), AtFlags::AT_SYMLINK_NOFOLLOW)
        {
            Ok(there) => there,
            Err(Errno::ENOENT) => return Ok(()),
            Err(errno) => return Err(left(format!("can't look at it: {}", errno.desc()))),
        };
        let made =
            self.made.metadata().map_err(|error| left(format!("can't look at it: {error}")))?;
        if !is_same(&made, there.st_dev, there.st_ino) {
            return Err(left("something else has that name now".to_owned()));
        }
        let flag = match self.what {
            What::File => UnlinkatFlags::NoRemoveDir,
            What::Folder => UnlinkatFlags::RemoveDir,
        };
        match unlinkat(&self.parent, self.name.as_os_str(), flag) {
            Ok(()) | Err(Errno::ENOENT) => Ok(()),
            Err(Errno::ENOTEMPTY | Errno::EEXIST) => {
                Err(left("files that are not ours are in it".to_owned()))
            }
            Err(errno) => Err(left(format!("can't remove it: {}", errno.desc()))),
        }
    }
}

fn is_same(made: &Metadata, device: u64, inode: u64) -> bool {
    made.dev() == device && made.ino() == inode
}

/// Undoes everything when it goes out of scope, by return, error or panic.
#[derive(Debug)]
pub(super) struct UndoOnDrop(pub Undo);

impl Drop for UndoOnDrop {
    fn drop(&mut self) {
        // What fails stays in the journal, for whoever asks there.
        let _ = self.0.now();
    }
}

/// A file that goes with the last who uses it.
#[derive(Debug)]
pub(super) struct Scrap {
    pub undo: Undo,
    pub number: StepNumber,
}

impl Drop for Scrap {
    fn drop(&mut self) {
        let _ = self.undo.one(self.number);
    }
}

impl Folder {
    /// The folder `path`, which is open as `handle`.
    pub(super) fn new(handle: File, path: &Path) -> Self {
        Self { handle: Arc::new(handle), path: path.to_owned() }
    }
}
