//! `--disk NAME=PATH[,PATH…]`: what stands for a disk of the plan on this machine.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::PathBuf;

use super::error::RigError;
use crate::diag::nearest;
use crate::plan::{DiskSource, Plan};
use crate::units::Bytes;

/// One `--disk`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Binding {
    /// The disk's name in the plan.
    pub name: String,
    /// What stands for it, in the order of its members.
    pub paths: Vec<PathBuf>,
}

impl Binding {
    /// Reads `NAME=PATH` or `NAME=PATH,PATH…`. A comma can't be part of a path.
    ///
    /// # Errors
    /// When there is no `=` or no name, or a path is empty.
    pub fn parse(text: &OsStr) -> Result<Self, RigError> {
        let malformed = || RigError::MalformedBinding { text: text.to_string_lossy().into_owned() };
        let bytes = text.as_bytes();
        let equals = bytes.iter().position(|byte| *byte == b'=').ok_or_else(malformed)?;
        let name = std::str::from_utf8(&bytes[..equals]).map_err(|_| malformed())?.to_owned();
        if name.is_empty() {
            return Err(malformed());
        }
        let paths: Vec<PathBuf> = bytes[equals + 1..]
            .split(|byte| *byte == b',')
            .map(|path| PathBuf::from(OsString::from_vec(path.to_vec())))
            .collect();
        if paths.iter().any(|path| path.as_os_str().is_empty()) {
            return Err(RigError::EmptyPath { name });
        }
        Ok(Self { name, paths })
    }
}

/// What stands for a disk, before anyone has looked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Wanted {
    /// A file in the work directory.
    Loopback { size: Bytes },
    /// A directory, by the plan's word.
    Directory { path: PathBuf, size: Bytes },
    /// The null device.
    Null { size: Bytes },
    /// A device or a regular file, by the plan's word.
    Existing { path: PathBuf },
    /// Whatever it turns out to be: the command line may bind either.
    Bound { path: PathBuf, size: Option<Bytes> },
}

/// What stands for each disk of the plan, in its order, and everything that is wrong with the
/// bindings. A disk whose binding is wrong is left as the plan has it.
pub(super) fn resolve(plan: &Plan, bindings: &[Binding]) -> (Vec<Wanted>, Vec<RigError>) {
    let mut wanted: Vec<Wanted> = plan.disks.iter().map(|disk| as_planned(&disk.source)).collect();
    let mut troubles = Vec::new();
    let mut groups: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
    for (index, disk) in plan.disks.iter().enumerate() {
        groups.entry(&disk.group).or_default().push(index);
    }
    let mut seen: Vec<&str> = Vec::new();
    for binding in bindings {
        if seen.contains(&binding.name.as_str()) {
            troubles.push(RigError::BoundTwice { name: binding.name.clone() });
            continue;
        }
        seen.push(&binding.name);
        let Some(members) = groups.get(binding.name.as_str()) else {
            troubles.push(unknown(&binding.name, groups.keys()));
            continue;
        };
        match paths_of(binding, plan, members) {
            Ok(paths) => {
                for (member, path) in members.iter().zip(paths) {
                    let size = planned_size(&plan.disks[*member].source);
                    wanted[*member] = Wanted::Bound { path, size };
                }
            }
            Err(trouble) => troubles.push(trouble),
        }
    }
    (wanted, troubles)
}

/// One path for each member.
fn paths_of(binding: &Binding, plan: &Plan, members: &[usize]) -> Result<Vec<PathBuf>, RigError> {
    let Binding { name, paths } = binding;
    if paths.is_empty() || paths.iter().any(|path| path.as_os_str().is_empty()) {
        return Err(RigError::EmptyPath { name: name.clone() });
    }
    if let [path] = paths.as_slice()
        && (members.len() == 1 || path.is_dir())
    {
        return Ok(vec![path.clone(); members.len()]);
    }
    if paths.len() != members.len() {
        return Err(RigError::WrongCount {
            name: name.clone(),
            members: members.len(),
            paths: paths.len(),
        });
    }
    for (index, path) in paths.iter().enumerate() {
        if let Some(earlier) = paths[..index].iter().position(|other| other == path) {
            return Err(RigError::SamePath {
                path: path.clone(),
                first: plan.disks[members[earlier]].name.clone(),
                second: plan.disks[members[index]].name.clone(),
            });
        }
    }
    Ok(paths.clone())
}

fn as_planned(source: &DiskSource) -> Wanted {
    match source {
        DiskSource::Loopback { size } => Wanted::Loopback { size: *size },
        DiskSource::Directory { path, size } => {
            Wanted::Directory { path: path.clone(), size: *size }
        }
        DiskSource::Null { size } => Wanted::Null { size: *size },
        DiskSource::Device { path, .. } => Wanted::Existing { path: path.clone() },
    }
}

fn planned_size(source: &DiskSource) -> Option<Bytes> {
    match source {
        DiskSource::Loopback { size }
        | DiskSource::Directory { size, .. }
        | DiskSource::Null { size } => Some(*size),
        DiskSource::Device { size, .. } => *size,
    }
}

fn unknown<'a>(name: &str, known: impl Iterator<Item = &'a &'a str> + Clone) -> RigError {
    RigError::UnknownDisk {
        name: name.to_owned(),
        nearest: nearest(name, known.clone().copied()).map(str::to_owned),
        known: known.map(|name| (*name).to_owned()).collect(),
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn bindings_are_read() {
        let binding = Binding::parse("data=/a,/b b".as_ref()).unwrap();
        assert_eq!(binding.name, "data");
        assert_eq!(binding.paths, [Path::new("/a"), Path::new("/b b")]);
        assert_eq!(Binding::parse("a=/x=y".as_ref()).unwrap().paths, [Path::new("/x=y")]);
        for wrong in ["data", "=/a", ""] {
            let error = Binding::parse(OsStr::new(wrong)).unwrap_err();
            assert!(matches!(error, RigError::MalformedBinding { .. }), "{wrong}");
        }
        for wrong in ["data=", "data=/a,", "data=,/a"] {
            let error = Binding::parse(OsStr::new(wrong)).unwrap_err();
            assert!(matches!(error, RigError::EmptyPath { .. }), "{wrong}");
        }
    }
}
