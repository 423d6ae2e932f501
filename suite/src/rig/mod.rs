//! What a plan's disks become on this machine.
//!
//! [`survey()`] looks and touches nothing; it names everything that stands in the way at once.
//! [`build()`] makes the files that stand for disks, writes them in full and proves that direct
//! I/O on them works. [`Rig::open`] gives what a workload runs on. Everything made is removed
//! again, last first, when the [`Rig`] goes or [`Undo::now`] is called, and is known by what it is
//! and not by its name.
//!
//! Promises: what was there before is opened for reading alone; nothing is left behind on any way
//! out; nothing is sparse. This module does not know workloads or expectations, and needs `/proc`
//! to open once more what is open already.

mod binding;
mod build;
mod disk;
mod error;
mod fill;
mod identity;
mod live;
mod place;
mod prove;
mod refill;
mod space;
mod survey;
#[cfg(test)]
mod tests;
mod undo;

pub use binding::Binding;
pub use build::{BuildEvent, build};
pub use disk::{DiskKind, SurveyedDisk};
pub use error::{Category, RigError};
pub use identity::Identity;
pub use live::{Access, Beside, Member, Rig};
pub use survey::{HostView, Need, SpaceUse, Survey, Trouble, survey};
pub use undo::{Undo, UndoError};
