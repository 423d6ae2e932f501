//! Open members as the back ends of the kernel see them, and what to do after a transfer that
//! the kernel cut short.

use std::fs::File;
use std::sync::Arc;

use nix::errno::Errno;

use super::stripe::StripeMap;
use crate::engine::{DeviceFile, Job, WriteSync};
use crate::os::io::{RWF_DSYNC, RWF_SYNC};

/// How often a transfer is tried again that the kernel refused for the moment.
const ATTEMPTS_MAX: u32 = 1000;

/// The members of a job's storage.
#[derive(Debug)]
pub(super) struct Files {
    pub(super) members: Vec<Member>,
    /// How they are one address space; `None` with one member.
    pub(super) stripe: Option<StripeMap>,
    /// What all of them want buffer addresses to be multiples of.
    pub(super) memory_align: usize,
    /// `RWF_*` flags of every write.
    pub(super) write_flags: i32,
}

/// One of them.
#[derive(Debug)]
pub(super) struct Member {
    pub(super) name: String,
    pub(super) file: Arc<File>,
    /// What offsets have to be multiples of; 1 through the page cache.
    pub(super) align: u32,
}

/// What follows a transfer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum After {
    /// It is complete.
    Complete,
    /// So many bytes of it are done, and the rest is to be asked for.
    Again(u32),
    /// It can't go on, though the kernel reported no error.
    Ended,
}

impl Files {
    /// Those of a job.
    pub(super) fn new(job: &Job, files: &[DeviceFile]) -> Self {
        let members = files.iter().map(|file| Member {
            name: file.name.clone(),
            file: Arc::clone(&file.file),
            align: file.offset_align,
        });
        let chunk = job.storage.chunk.filter(|_| files.len() > 1);
        Self {
            members: members.collect(),
            stripe: chunk.map(|chunk| StripeMap::new(chunk.0, files.len())),
            memory_align: files.iter().map(|file| file.memory_align).fold(1, usize::max),
            write_flags: match job.write_sync {
                WriteSync::None => 0,
                WriteSync::Dsync => RWF_DSYNC,
                WriteSync::Sync => RWF_SYNC,
            },
        }
    }
}

impl Member {
    /// What follows when `done` bytes of `len` were done before and `moved` more are now. A rest
    /// that direct I/O couldn't address is asked for from the last place that it can, and only if
    /// that is progress: no transfer is repeated for ever.
    pub(super) fn after(&self, done: u32, moved: u32, len: u32) -> After {
        let total = done + moved;
        if total >= len {
            return After::Complete;
        }
        let aligned = total - total % self.align;
        if aligned > done { After::Again(aligned) } else { After::Ended }
    }
}

/// Whether a transfer that failed so is to be tried again: it was interrupted, or the kernel was
/// short of something for a moment. `attempts` counts how often that happened to it.
pub(super) fn is_passing(errno: i32, attempts: &mut u32) -> bool {
    *attempts += 1;
    *attempts < ATTEMPTS_MAX && matches!(Errno::from_raw(errno), Errno::EINTR | Errno::EAGAIN)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn member(align: u32) -> Member {
        let file = Arc::new(tempfile::tempfile().unwrap());
        Member { name: "disk".into(), file, align }
    }

    #[test]
    fn a_short_transfer_goes_on_where_it_can() {
        let buffered = member(1);
        assert_eq!(buffered.after(0, 4096, 4096), After::Complete);
        assert_eq!(buffered.after(0, 1, 4096), After::Again(1));
        assert_eq!(buffered.after(1, 4095, 4096), After::Complete);
        assert_eq!(buffered.after(1, 0, 4096), After::Ended);
        assert_eq!(buffered.after(0, 0, 4096), After::Ended);
    }

    #[test]
    fn direct_io_goes_on_at_aligned_offsets_and_with_progress() {
        let direct = member(4096);
        assert_eq!(direct.after(0, 5000, 16_384), After::Again(4096));
        assert_eq!(direct.after(4096, 12_288, 16_384), After::Complete);
        // The one byte behind the last whole block of a file: asking again brings it again.
        assert_eq!(direct.after(0, 1, 4096), After::Ended);
        // A sector at a time is progress on a disk of small sectors.
        let small = member(512);
        assert_eq!(small.after(0, 512, 4096), After::Again(512));
        assert_eq!(small.after(512, 600, 4096), After::Again(1024));
        assert_eq!(small.after(512, 100, 4096), After::Ended);
    }

    #[test]
    fn passing_refusals_are_tried_again_and_not_for_ever() {
        let mut attempts = 0;
        assert!(is_passing(Errno::EINTR as i32, &mut attempts));
        assert!(is_passing(Errno::EAGAIN as i32, &mut attempts));
        assert!(!is_passing(Errno::EIO as i32, &mut attempts));
        attempts = ATTEMPTS_MAX - 1;
        assert!(!is_passing(Errno::EAGAIN as i32, &mut attempts));
    }
}
