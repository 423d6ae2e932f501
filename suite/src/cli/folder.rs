//! The folder of one run's reports: its own while the run lasts, and never with an older success
//! in it that could be taken for this run's.

use std::fs::{self, File, OpenOptions};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use nix::errno::Errno;
use nix::fcntl::{Flock, FlockArg};

use crate::cli::report;
use crate::record::{Record, RecordError};

/// Where the record of a run that never began leaves an older one.
const OLDER: &str = "record.old.json";

/// Runs of one plan that may begin in one second.
const SUFFIXES: std::ops::RangeInclusive<u32> = 2..=1000;

/// A folder that no other run writes to.
#[derive(Debug)]
pub(super) struct Folder {
    /// Where it is.
    pub(super) path: PathBuf,
    /// Whether its name was ours to choose.
    chosen: bool,
    /// What was made for it, the innermost first.
    made: Vec<PathBuf>,
    /// Held until the process ends, however that comes; `None` where there are no locks.
    _lock: Option<Flock<File>>,
}

/// Why a folder can't be had.
#[derive(Debug)]
pub(super) enum Denied {
    /// Another run has it at this moment.
    InUse(String),
    /// It can't be made, or nothing can be written to it.
    Unusable(String),
}

impl Folder {
    /// Makes the folder where it is not there, takes it for this run alone, and proves that the
    /// reports can be written, before an hour of measuring is lost for want of a place.
    ///
    /// `out` is the folder that the person named; without one it is a new folder under
    /// `target/runs` with the plan's name and the time.
    ///
    /// # Errors
    /// Why not, with what would help.
    pub(super) fn claim(out: Option<&Path>, plan: &str) -> Result<Self, Denied> {
        let wanted = out.map_or_else(|| by_time(plan), Path::to_path_buf);
        let absent = wanted.ancestors().take_while(|path| !path.exists());
        let absent = absent.filter(|path| !path.as_os_str().is_empty());
        let mut made: Vec<_> = absent.map(Path::to_path_buf).collect();
        let path = match out {
            Some(_) => fs::create_dir_all(&wanted).map(|()| wanted.clone()),
            None => new_folder(&wanted),
        };
        let path = path.map_err(|error| unusable("make the folder", &wanted, &error))?;
        if out.is_none() {
            made.retain(|made| *made != wanted);
            made.insert(0, path.clone());
        }
        let lock = lock(&path)?;
        let folder = Self { path, chosen: out.is_none(), made, _lock: lock };
        match folder.prove() {
            Ok(()) => Ok(folder),
            Err(denied) => {
                folder.give_up();
                Err(denied)
            }
        }
    }

    /// Where the record goes.
    pub(super) fn record(&self) -> PathBuf {
        self.path.join(report::RECORD)
    }

    /// The run has begun: where the name was ours to choose, `latest` beside it leads to it from
    /// now on.
    pub(super) fn begun(&self) {
        if self.chosen {
            point_latest_at(&self.path);
        }
    }

    /// Removes what was made for it: nothing was begun, so nothing stays. Folders that are not
    /// empty are not ours alone, and do.
    pub(super) fn give_up(&self) {
        for folder in &self.made {
            let _ = fs::remove_dir(folder);
        }
    }

    fn prove(&self) -> Result<(), Denied> {
        let names = report::FILES.into_iter().chain([report::RECORD]);
        if let Some(taken) = names.map(|name| self.path.join(name)).find(|path| path.is_dir()) {
            return Err(Denied::Unusable(format!(
                "{} is a folder, and a report of that name is to be written\n  \
                 help: move it away, or choose another folder for the reports with `--out DIR`",
                taken.display()
            )));
        }
        let path = self.path.join(format!(".diskproof-{}.tmp", std::process::id()));
        OpenOptions::new()
            .write(true)
            .create_new(true)
            .open(&path)
            .and_then(|_| fs::remove_file(&path))
            .map_err(|error| unusable("write to the folder", &self.path, &error))
    }
}

/// Sees to it that no reports of an earlier run in `out` can be taken for those of one that could
/// not begin, of which `record` tells. An older record stays as `record.old.json`, and what is not
/// diskproof's stays as it is, as does everything while another run is at it.
pub(super) fn outdate(out: &Path, record: &Record) {
    let path = out.join(report::RECORD);
    let older = match Record::load(&path) {
        Ok(older) => Some(older),
        Err(RecordError::Version { .. }) => None,
        Err(_) => return,
    };
    let Ok(_lock) = lock(out) else { return };
    if older.is_none_or(|older| !older.cases.is_empty()) {
        // Where this fails the older one is replaced all the same: it must not be mistaken.
        let _ = fs::rename(&path, out.join(OLDER));
    }
    let written = report::write(record, out);
    let unsaved = record.save(&path).is_err().then_some(path);
    let stale = written.lost.into_iter().map(|name| out.join(name)).chain(unsaved);
    for path in stale {
        // There is no room for a new one, but there is for none.
        let _ = fs::remove_file(path);
    }
}

/// Takes a folder for this process alone, until it ends.
fn lock(folder: &Path) -> Result<Option<Flock<File>>, Denied> {
    let file = File::open(folder).map_err(|error| unusable("open the folder", folder, &error))?;
    match Flock::lock(file, FlockArg::LockExclusiveNonblock) {
        Ok(lock) => Ok(Some(lock)),
        Err((_, Errno::EWOULDBLOCK)) => Err(Denied::InUse(format!(
            "another run is writing its reports to {} at this moment\n  \
             help: wait for its end, or choose another folder for the reports with `--out DIR`",
            folder.display()
        ))),
        // Some network file systems have no locks for folders.
        Err(_) => Ok(None),
    }
}

fn unusable(what: &str, folder: &Path, error: &std::io::Error) -> Denied {
    Denied::Unusable(format!(
        "can't {what} {}: {error}\n  help: choose another folder for the reports with `--out DIR`",
        folder.display()
    ))
}

/// `target/runs/PLAN/2026-12-01T03-07-51Z`: colons are a nuisance in paths.
fn by_time(plan: &str) -> PathBuf {
    let now = humantime::format_rfc3339_seconds(SystemTime::now()).to_string();
    Path::new("target/runs").join(plan).join(now.replace(':', "-"))
}

/// Makes a folder that was not there before: `wanted`, or with `-2`, `-3` … behind its name.
fn new_folder(wanted: &Path) -> std::io::Result<PathBuf> {
    if let Some(parent) = wanted.parent() {
        fs::create_dir_all(parent)?;
    }
    let name = wanted.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let others = SUFFIXES.map(|number| wanted.with_file_name(format!("{name}-{number}")));
    for path in std::iter::once(wanted.to_path_buf()).chain(others) {
        match fs::create_dir(&path) {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            made => return made.map(|()| path),
        }
    }
    Err(ErrorKind::AlreadyExists.into())
}

/// `latest` beside the runs leads to the last one. It is a convenience: where links can't be made
/// the run is none the worse.
fn point_latest_at(folder: &Path) {
    let (Some(parent), Some(name)) = (folder.parent(), folder.file_name()) else { return };
    let fresh = parent.join(format!(".latest-{}.tmp", std::process::id()));
    let _ = fs::remove_file(&fresh);
    if std::os::unix::fs::symlink(name, &fresh).is_ok() {
        let _ = fs::rename(&fresh, parent.join("latest"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_of_one_second_are_not_shared() {
        let scratch = tempfile::tempdir().unwrap();
        let wanted = scratch.path().join("plan/2026-12-01T03-07-51Z");
        let made: Vec<_> = (0..3).map(|_| new_folder(&wanted).unwrap()).collect();
        let names: Vec<_> = made.iter().map(|path| path.file_name().unwrap()).collect();
        let first = "2026-12-01T03-07-51Z";
        assert_eq!(names, [first, &format!("{first}-2"), &format!("{first}-3")]);
    }

    #[test]
    fn a_folder_is_one_run_s_and_goes_if_that_never_begins() {
        let scratch = tempfile::tempdir().unwrap();
        let out = scratch.path().join("far/away");
        let folder = Folder::claim(Some(&out), "plan").unwrap();
        let Err(Denied::InUse(words)) = Folder::claim(Some(&out), "plan") else { panic!() };
        assert!(words.contains("far/away at this moment"), "{words}");
        folder.give_up();
        drop(folder);
        assert!(!scratch.path().join("far").exists());
        fs::create_dir_all(out.join("junit.xml")).unwrap();
        let Err(Denied::Unusable(words)) = Folder::claim(Some(&out), "plan") else { panic!() };
        assert!(words.contains("junit.xml is a folder"), "{words}");
    }
}
