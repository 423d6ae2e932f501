//! What can stand between a plan and its storage, in words, with what would help.

use std::fmt;
use std::io;
use std::path::PathBuf;

use nix::errno::Errno;
use thiserror::Error;

use super::Identity;
use crate::units::{Bytes, counted};

/// What a trouble means for the run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Category {
    /// What the person wrote can't be meant.
    Usage,
    /// The machine lacks something that some cases need: those are skipped, others can run.
    MissingRequirement,
    /// It could be done and will not be, because data would be at risk.
    Refusal,
    /// The machine is not ready, or refused.
    Machine,
    /// The run was stopped.
    Interrupted,
}

/// Why storage can't be had as the plan asks for it.
#[derive(Debug, Error)]
pub enum RigError {
    /// A `--disk` that is no `NAME=PATH`.
    #[error("`{text}` binds no disk: write NAME=PATH, or NAME=PATH,PATH for a disk with a count")]
    MalformedBinding {
        /// As given.
        text: String,
    },
    /// A name that the plan doesn't have.
    #[error("no disk of the plan is called `{name}`{}", listed(known))]
    UnknownDisk {
        /// As given.
        name: String,
        /// The plan's names.
        known: Vec<String>,
        /// The one that was meant, if one is close.
        nearest: Option<String>,
    },
    /// Two bindings of one name.
    #[error("the disk `{name}` is bound twice")]
    BoundTwice {
        /// The disk.
        name: String,
    },
    /// Nothing between two commas, or after the `=`.
    #[error("a path of the disk `{name}` is empty")]
    EmptyPath {
        /// The disk.
        name: String,
    },
    /// As many paths as the disk has no members.
    #[error(
        "the disk `{name}` has {}, but {} given",
        counted(*members, "member"),
        if *paths == 1 { "1 path is".to_owned() } else { format!("{paths} paths are") }
    )]
    WrongCount {
        /// The disk.
        name: String,
        /// How many disks it stands for.
        members: usize,
        /// How many paths were given.
        paths: usize,
    },
    /// One path for two members of a disk, or one device for two disks of a setup.
    #[error("{path} stands for both `{first}` and `{second}`", path = path.display())]
    SamePath {
        /// The path.
        path: PathBuf,
        /// One disk.
        first: String,
        /// The other.
        second: String,
    },
    /// A directory, and no size for the test file in it.
    #[error(
        "{path} is a directory, and the plan gives the disk `{disk}` no size for a test file",
        path = path.display()
    )]
    SizeMissing {
        /// The disk.
        disk: String,
        /// What it is bound to.
        path: PathBuf,
    },
    /// Nothing is there.
    #[error("{path} doesn't exist{}", for_disk(disk.as_ref()), path = path.display())]
    NotFound {
        /// For which disk; `None` for the work directory.
        disk: Option<String>,
        /// What was looked for.
        path: PathBuf,
    },
    /// Something is there that can't be a disk, or not this one.
    #[error("{path} is {found}{}", for_disk(disk.as_ref()), path = path.display())]
    WrongKind {
        /// For which disk; `None` for the work directory.
        disk: Option<String>,
        /// Where.
        path: PathBuf,
        /// What it is: `a FIFO`.
        found: String,
        /// What it should be: `a block device or a regular file`.
        wanted: &'static str,
    },
    /// A directory in which no file can be made.
    #[error("can't make a file in {path}", path = path.display())]
    NotWritable {
        /// The directory.
        path: PathBuf,
        /// The kernel's answer.
        #[source]
        source: io::Error,
    },
    /// A file system without direct I/O.
    #[error(
        "the disk `{disk}` needs direct I/O, which {filesystem} at {path} doesn't have",
        path = path.display()
    )]
    NoDirectIo {
        /// The disk.
        disk: String,
        /// Where it lies.
        path: PathBuf,
        /// Type of the file system.
        filesystem: String,
    },
    /// A block size that the device can't be asked for.
    #[error(
        "a block size of {block} can't be used on the disk `{disk}` with direct I/O: {path} \
         works in blocks of {align}",
        path = path.display()
    )]
    BlockSize {
        /// The disk.
        disk: String,
        /// What stands for it.
        path: PathBuf,
        /// The size that doesn't fit.
        block: Bytes,
        /// What it would have to be a multiple of.
        align: Bytes,
    },
    /// Less space than the run would fill.
    #[error(
        "{needed} are needed in {path}, of which {free} are free",
        path = path.display()
    )]
    TooLittleSpace {
        /// A directory in that file system.
        path: PathBuf,
        /// What all files there take together, with some room left.
        needed: Bytes,
        /// What is free for us.
        free: Bytes,
        /// Whether `--work-dir` would put it elsewhere.
        in_work_dir: bool,
    },
    /// A file larger than this process may make.
    #[error("the disk `{disk}` is a file of {size}, and this process may make none above {limit}")]
    FileSizeLimit {
        /// The disk.
        disk: String,
        /// Its size.
        size: Bytes,
        /// `RLIMIT_FSIZE`.
        limit: Bytes,
    },
    /// Not one block.
    #[error(
        "{path} has {bytes}, too little for the disk `{disk}`: one block is {block}",
        path = path.display()
    )]
    TooSmall {
        /// The disk.
        disk: String,
        /// What stands for it.
        path: PathBuf,
        /// Its size.
        bytes: Bytes,
        /// The block.
        block: Bytes,
    },
    /// A case would write to something that was there before.
    #[error(
        "will not write to {path}, which is there already: the disk `{disk}` is {found}, and \
         those are opened for reading alone",
        path = path.display()
    )]
    WouldOverwrite {
        /// The disk.
        disk: String,
        /// What stands for it.
        path: PathBuf,
        /// `a block device` or `an existing file`.
        found: &'static str,
    },
    /// What was looked at before is not what is there now.
    #[error("{path} is not what it was: it was {was} and is {is}", path = path.display())]
    Changed {
        /// Where.
        path: PathBuf,
        /// At the survey.
        was: Identity,
        /// Now.
        is: Identity,
    },
    /// A file with holes.
    #[error(
        "only {allocated} of the {bytes} of {path} hold data: reads of the rest would not reach \
         the disk",
        path = path.display()
    )]
    Sparse {
        /// The file.
        path: PathBuf,
        /// Its length.
        bytes: Bytes,
        /// What the file system says it takes.
        allocated: Bytes,
    },
    /// A system call that had to work didn't.
    #[error("can't {operation} {path}", path = path.display())]
    System {
        /// Which: `write`.
        operation: &'static str,
        /// On what.
        path: PathBuf,
        /// The kernel's answer.
        #[source]
        source: io::Error,
    },
    /// The run was stopped while its storage was being made.
    #[error("stopped while the disks were being made")]
    Interrupted,
}

impl RigError {
    /// What it means for the run.
    #[must_use]
    pub fn category(&self) -> Category {
        match self {
            Self::MalformedBinding { .. }
            | Self::UnknownDisk { .. }
            | Self::BoundTwice { .. }
            | Self::EmptyPath { .. }
            | Self::WrongCount { .. }
            | Self::SamePath { .. }
            | Self::SizeMissing { .. }
            | Self::WrongKind { .. } => Category::Usage,
            Self::NoDirectIo { .. } | Self::BlockSize { .. } => Category::MissingRequirement,
            Self::WouldOverwrite { .. } | Self::Changed { .. } => Category::Refusal,
            Self::NotFound { .. }
            | Self::NotWritable { .. }
            | Self::TooLittleSpace { .. }
            | Self::FileSizeLimit { .. }
            | Self::TooSmall { .. }
            | Self::Sparse { .. }
            | Self::System { .. } => Category::Machine,
            Self::Interrupted => Category::Interrupted,
        }
    }

    /// What the person can do about it, as a sentence without a full stop.
    #[must_use]
    pub fn help(&self) -> Option<String> {
        let help = match self {
            Self::UnknownDisk { nearest: Some(name), .. } => format!("did you mean `{name}`?"),
            Self::UnknownDisk { known, .. } => {
                format!("bind it as `--disk {}=PATH`", known.first()?)
            }
            Self::MalformedBinding { .. } => {
                "the names are those of the plan: `diskproof show PLAN` lists them".into()
            }
            Self::EmptyPath { name } => {
                format!("commas divide paths, with one on both sides: `--disk {name}=/a,/b`")
            }
            Self::SamePath { .. } => {
                "bind each to a device or a file of its own, or all to one directory".into()
            }
            Self::BoundTwice { name } => format!("give `--disk {name}=…` once"),
            Self::WrongCount { name, .. } => {
                format!(
                    "commas divide paths: give as many as that, or one directory for all: \
                     `--disk {name}=/mnt/somewhere`; a path with a comma in it needs a link \
                     without one"
                )
            }
            Self::SizeMissing { disk, .. } => {
                format!("add `size = \"1GiB\"` to `[disks.{disk}]` in the plan")
            }
            Self::NotFound { disk: None, .. } => "choose another with `--work-dir DIR`".into(),
            Self::NotFound { disk: Some(disk), .. } => {
                format!("bind the disk to what is there: `--disk {}=PATH`", group(disk))
            }
            Self::WrongKind { wanted, .. } => format!("it has to be {wanted}"),
            Self::NotWritable { .. } => {
                "choose a directory you may write to, with `--work-dir DIR` or `--disk NAME=DIR`"
                    .into()
            }
            Self::NoDirectIo { .. } => {
                "use a directory on a disk's file system (ext4, xfs, …) with \
                 `--work-dir DIR` or `--disk NAME=DIR`, or `cache = \"buffered\"` in the plan"
                    .into()
            }
            Self::BlockSize { align, .. } => {
                format!("use block sizes that are multiples of {align}, or another disk")
            }
            Self::TooLittleSpace { in_work_dir: true, .. } => "free some space, choose another \
                 place with `--work-dir DIR`, or a smaller `size` in the plan or by a `--profile`"
                .into(),
            Self::TooLittleSpace { .. } => "free some space, bind another directory with `--disk \
                 NAME=DIR`, or a smaller `size` in the plan or by a `--profile`"
                .into(),
            Self::FileSizeLimit { .. } => "raise it with `ulimit -f unlimited`".into(),
            Self::WouldOverwrite { disk, .. } => format!(
                "bind a directory on it, in which a test file is made: `--disk {}=DIR`",
                group(disk)
            ),
            Self::Sparse { .. } => {
                "write it in full, on a file system that doesn't compress".into()
            }
            Self::System { operation, source, .. } => match system_help(source) {
                Some(help) => help.into(),
                None if operation.starts_with("make") => {
                    "choose another directory, with `--work-dir DIR` or `--disk NAME=DIR`".into()
                }
                None => return None,
            },
            _ => return None,
        };
        Some(help)
    }

    /// Wraps the kernel's answer to `operation` on `path`.
    pub(super) fn system(
        operation: &'static str,
        path: impl Into<PathBuf>,
        source: impl Into<io::Error>,
    ) -> Self {
        Self::System { operation, path: path.into(), source: source.into() }
    }
}

impl fmt::Display for Category {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Self::Usage => "usage",
            Self::MissingRequirement => "missing requirement",
            Self::Refusal => "refusal",
            Self::Machine => "machine",
            Self::Interrupted => "interrupted",
        })
    }
}

/// The plan's name of a disk: `data` of `data.0`.
fn group(disk: &str) -> &str {
    disk.split_once('.').map_or(disk, |(group, _)| group)
}

fn for_disk(disk: Option<&String>) -> String {
    disk.map_or_else(
        || ", and can't be the work directory".to_owned(),
        |disk| format!(", and can't be the disk `{disk}`"),
    )
}

fn listed(names: &[String]) -> String {
    match names {
        [] => ", which has none".to_owned(),
        [only] => format!(", whose only disk is `{only}`"),
        several => {
            let names: Vec<_> = several.iter().map(|name| format!("`{name}`")).collect();
            format!(", whose disks are {}", names.join(", "))
        }
    }
}

fn system_help(source: &io::Error) -> Option<&'static str> {
    match Errno::from_raw(source.raw_os_error()?) {
        Errno::ENOSPC | Errno::EDQUOT => Some(
            "the space ran out while it was written: free some, or choose another place with \
             `--work-dir DIR` or `--disk NAME=DIR`",
        ),
        Errno::EFBIG => Some("this file system has no files of that size: use a smaller `size`"),
        Errno::EACCES | Errno::EPERM => Some("run as a user who may, or bind another disk"),
        Errno::EMFILE | Errno::ENFILE => {
            Some("there are too many open files: raise the limit with `ulimit -n`")
        }
        Errno::ENOMEM => Some("there is too little memory: end other programs, or use fewer disks"),
        Errno::EIO => Some("the disk failed: see the kernel's log (`dmesg`)"),
        _ => None,
    }
}
