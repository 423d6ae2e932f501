//! One I/O in flight, its parts, and what becomes of those that are not done in one go.

use super::WHOLE;
use crate::engine::driver::Driver;
use crate::engine::files::{After, Member, is_passing};
use crate::engine::requests::Request;
use crate::engine::stripe::Extent;
use crate::engine::tally::Failure;
use crate::measure::IoKind;

/// One I/O in flight.
#[derive(Debug, Clone, Copy)]
pub(super) struct Slot {
    pub(super) request: Request,
    /// Where its buffer lies.
    pub(super) buffer: usize,
    pub(super) started: u64,
    /// Parts that are not done, of several.
    pub(super) parts_left: u32,
    /// How many there were, of several.
    pub(super) parts: u32,
    pub(super) trouble: Trouble,
}

/// What became of the parts of an I/O besides being done in one go.
#[derive(Debug, Clone, Copy)]
pub(super) enum Trouble {
    None,
    /// Some were gone on with.
    Mended,
    /// The first that failed did so.
    Failed(Failure),
}

/// What one submission is to do.
#[derive(Debug, Clone, Copy)]
pub(super) struct Part {
    pub(super) slot: u32,
    pub(super) extent: Extent,
    /// Bytes of the extent that are done.
    pub(super) done: u32,
    pub(super) attempts: u32,
}

impl Slot {
    /// One that is free.
    pub(super) const FREE: Self = Self {
        request: Request::FLUSH,
        buffer: 0,
        started: 0,
        parts_left: 0,
        parts: 0,
        trouble: Trouble::None,
    };
}

impl Part {
    /// One that belongs to a free slot.
    pub(super) fn free(slot: u32) -> Self {
        Self { slot, extent: WHOLE, done: 0, attempts: 0 }
    }

    /// Decides whether to go on with a part that was not done in one go, when the kernel's answer
    /// to the last submission is `result`: bytes moved, or a negative error number. If not, it is
    /// finished now, or its I/O has failed.
    #[cold]
    pub(super) fn mend(
        &mut self,
        slot: &mut Slot,
        member: &Member,
        result: i32,
        driver: &mut Driver<'_>,
    ) -> bool {
        let errno = if result < 0 {
            if is_passing(-result, &mut self.attempts) {
                return true;
            }
            -result
        } else if slot.request.kind == IoKind::Trim {
            // Done as a whole, and answered with 0.
            return false;
        } else {
            match member.after(self.done, result.unsigned_abs(), self.extent.len) {
                After::Complete => {
                    driver.short_transfer();
                    return false;
                }
                After::Again(done) => {
                    self.done = done;
                    return true;
                }
                After::Ended => 0,
            }
        };
        let offset = self.extent.offset + u64::from(self.done);
        if !matches!(slot.trouble, Trouble::Failed(_)) {
            slot.trouble = Trouble::Failed(Failure { errno, member: self.extent.member, offset });
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use nix::errno::Errno;

    use super::*;
    use crate::engine::driver::Common;
    use crate::engine::tally::Lane;
    use crate::engine::tests::job;

    /// Feeds the answers to one read of 16 KiB. Returns after which of them it goes on, how much
    /// is done in the end, why it failed, and how many short transfers were counted.
    fn fed(align: u32, answers: &[i32]) -> (Vec<bool>, u32, Option<Failure>, u64) {
        let (job, lane) = (job(), Lane::default());
        let common = Common::new(&job);
        let mut driver = Driver::new(&job, 0, 1, &common, &lane);
        let file = Arc::new(tempfile::tempfile().unwrap());
        let member = Member { name: "disk".to_owned(), file, align };
        let mut slot = Slot { parts_left: 1, parts: 1, ..Slot::FREE };
        let mut part = Part::free(0);
        part.extent = Extent { member: 0, offset: 1 << 20, at: 0, len: 16_384 };
        let goes_on = answers
            .iter()
            .map(|answer| part.mend(&mut slot, &member, *answer, &mut driver))
            .collect();
        let failure = match slot.trouble {
            Trouble::Failed(failure) => Some(failure),
            Trouble::Mended | Trouble::None => None,
        };
        (goes_on, part.done, failure, driver.finish().counted.short_transfers)
    }

    #[test]
    fn a_transfer_that_was_cut_short_is_finished_and_counted_once() {
        let (goes_on, done, failure, short) = fed(1, &[1000, 384, 15_000]);
        assert_eq!((goes_on, done, failure), (vec![true, true, false], 1384, None));
        assert_eq!(short, 1);
        // By direct I/O from the last aligned place, which brings some of it twice.
        let (goes_on, done, failure, short) = fed(4096, &[5000, 12_288]);
        assert_eq!((goes_on, done, failure, short), (vec![true, false], 4096, None, 1));
    }

    #[test]
    fn no_progress_is_a_failure_without_a_number() {
        let failure =
            |offset: u64| Some(Failure { errno: 0, member: 0, offset: (1 << 20) + offset });
        assert_eq!(fed(1, &[0]), (vec![false], 0, failure(0), 0));
        assert_eq!(fed(1, &[100, 0]), (vec![true, false], 100, failure(100), 0));
        assert_eq!(fed(4096, &[8192, 1]), (vec![true, false], 8192, failure(8192), 0));
    }

    #[test]
    fn an_error_fails_and_an_interruption_does_not() {
        let interrupted = -(Errno::EINTR as i32);
        let (goes_on, _, failure, short) = fed(1, &[interrupted, interrupted, -5]);
        assert_eq!((goes_on, short), (vec![true, true, false], 0));
        assert_eq!(failure, Some(Failure { errno: 5, member: 0, offset: 1 << 20 }));
        let (goes_on, ..) = fed(1, &[-(Errno::EAGAIN as i32); 2000]);
        assert_eq!(goes_on.iter().filter(|goes_on| **goes_on).count(), 999);
    }
}
