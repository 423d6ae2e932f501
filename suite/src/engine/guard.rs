//! Whether a run still moves: I/Os that never return must not keep a person waiting for ever.
//!
//! While I/Os come back the storage answers, however many are still queued. It doesn't when none
//! has come back for a while though some are in flight. A flush, and a write through the page
//! cache, can rightly take longer than that: the kernel may have gigabytes to write first. Those
//! are waited for as long as the devices under them move bytes.

use std::os::unix::fs::{FileTypeExt, MetadataExt};

use super::files::Files;
use crate::engine::{Job, Patience};
use crate::os::blockdev::{DeviceNumber, Sysfs};

/// A watcher that was not woken for so long was stopped, and the workers with it: that they did
/// nothing then says nothing.
const SLEPT_NS: u64 = 2_000_000_000;

/// How many times longer is waited for what may rightly be slow, where no device tells whether it
/// goes on.
const UNKNOWN_TIMES: u64 = 6;

/// How many times longer is waited for it at most, whatever the devices tell: what they do may be
/// for others.
const SLOW_TIMES: u64 = 30;

/// Watches over one run.
#[derive(Debug)]
pub(super) struct Guard {
    patience: Patience,
    /// Under files whose I/Os may rightly be slow; `None` where none of the run's may.
    slow: Option<Vec<DeviceNumber>>,
    sysfs: Sysfs,
    /// I/Os that had come back at the last look.
    returned: u64,
    /// When it was.
    looked: u64,
    /// When something came back last.
    came_back: u64,
    /// When there was a sign of life last: that, or bytes that a device moved.
    alive: u64,
    /// When the run was asked to stop.
    stopped: Option<u64>,
    /// What the devices had moved halfway through the silence.
    moved: Option<u64>,
}

impl Guard {
    /// One from `now` on, for I/Os that have to come back soon.
    pub(super) fn new(patience: Patience, now: u64) -> Self {
        Self {
            patience,
            slow: None,
            sysfs: Sysfs::new("/sys"),
            returned: 0,
            looked: now,
            came_back: now,
            alive: now,
            stopped: None,
            moved: None,
        }
    }

    /// One for I/Os that may rightly be slow, on these files.
    pub(super) fn of_slow(patience: Patience, files: &Files, now: u64) -> Self {
        Self { slow: Some(devices(files)), ..Self::new(patience, now) }
    }

    /// One for the I/Os of a job.
    pub(super) fn of(patience: Patience, job: &Job, files: &Files, now: u64) -> Self {
        let buffered = files.members.iter().any(|member| member.align == 1);
        if buffered || job.flush_every.is_some() {
            Self::of_slow(patience, files, now)
        } else {
            Self::new(patience, now)
        }
    }

    /// Nothing is in flight: that nothing comes back says nothing.
    pub(super) fn idle(&mut self, now: u64) {
        (self.came_back, self.alive, self.moved) = (now, now, None);
    }

    /// Looks: `returned` I/Os have come back so far, and the run was asked to stop or not.
    /// Returns for how long nothing has come back if that is too long.
    pub(super) fn look(&mut self, now: u64, returned: u64, stopping: bool) -> Option<u64> {
        let slept = now.saturating_sub(self.looked) > SLEPT_NS;
        self.looked = now;
        if slept || returned != self.returned {
            self.returned = returned;
            (self.came_back, self.alive, self.moved) = (now, now, None);
        }
        if stopping && self.stopped.is_none() {
            self.stopped = Some(now);
            self.moved = None;
        }
        let (from, limit) = self.limit();
        let silent = now.saturating_sub(from);
        if silent * 2 >= limit && self.moved.is_none() {
            self.moved = self.bytes_moved();
        }
        if silent < limit {
            return None;
        }
        let silence = now - self.came_back;
        let moves = self.moved.take() != self.bytes_moved();
        if moves && silence < limit * SLOW_TIMES {
            self.alive = now;
            return None;
        }
        Some(silence)
    }

    /// From when on silence counts, and how long it may last.
    fn limit(&self) -> (u64, u64) {
        let unknown = self.slow.as_ref().is_some_and(Vec::is_empty);
        let times = if unknown { UNKNOWN_TIMES } else { 1 };
        let running = (self.alive, self.patience.running.0 * times);
        match self.stopped {
            Some(stopped) => {
                let stopping = (self.alive.max(stopped), self.patience.stopping.0 * times);
                [running, stopping].into_iter().min_by_key(|(from, limit)| from + limit)
            }
            None => None,
        }
        .unwrap_or(running)
    }

    /// What the devices have moved, where that says something.
    fn bytes_moved(&self) -> Option<u64> {
        let devices = self.slow.as_ref()?;
        let counters = devices.iter().filter_map(|number| self.sysfs.counters(*number).ok());
        Some(counters.map(|counters| counters.read_bytes + counters.written_bytes).sum())
    }
}

/// The devices that the members are or lie on, those of which the kernel keeps books.
fn devices(files: &Files) -> Vec<DeviceNumber> {
    let sysfs = Sysfs::new("/sys");
    let device = |metadata: std::fs::Metadata| {
        let is_device = metadata.file_type().is_block_device();
        DeviceNumber::from_raw(if is_device { metadata.rdev() } else { metadata.dev() })
    };
    let found = files.members.iter().filter_map(|member| member.file.metadata().ok().map(device));
    let mut found: Vec<_> = found.filter(|number| sysfs.counters(*number).is_ok()).collect();
    found.sort_unstable();
    found.dedup();
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::Nanos;

    const S: u64 = 1_000_000_000;

    fn guard(slow: Option<Vec<DeviceNumber>>) -> Guard {
        let patience = Patience { running: Nanos(20 * S), stopping: Nanos(10 * S) };
        Guard { slow, ..Guard::new(patience, 0) }
    }

    /// Looks every second from the first to the last, and returns when silence was too long.
    fn found(guard: &mut Guard, seconds: std::ops::Range<u64>, stopping: bool) -> Option<u64> {
        seconds.into_iter().find_map(|now| guard.look(now * S, guard.returned, stopping))
    }

    #[test]
    fn silence_is_found_after_its_time_and_no_sooner() {
        assert_eq!(found(&mut guard(None), 1..60, false), Some(20 * S));
        let mut slow = guard(None);
        for now in 1..100 {
            // Something comes back every 19 s.
            assert_eq!(slow.look(now * S, now / 19, false), None);
        }
    }

    #[test]
    fn after_a_stop_it_is_found_sooner() {
        let mut stopped = guard(None);
        assert_eq!(found(&mut stopped, 1..3, false), None);
        assert_eq!(found(&mut stopped, 3..60, true), Some(13 * S));
        let mut late = guard(None);
        assert_eq!(found(&mut late, 1..15, false), None);
        assert_eq!(found(&mut late, 15..60, true), Some(20 * S));
    }

    #[test]
    fn a_process_that_was_stopped_itself_starts_anew() {
        let mut guard = guard(None);
        assert_eq!(guard.look(S, 0, false), None);
        assert_eq!(guard.look(100 * S, 0, false), None);
        assert_eq!(found(&mut guard, 101..200, false), Some(20 * S));
    }

    #[test]
    fn what_may_be_slow_has_longer_where_nothing_tells_and_not_where_a_device_rests() {
        assert_eq!(found(&mut guard(Some(Vec::new())), 1..200, false), Some(120 * S));
        let nowhere = DeviceNumber { major: 0, minor: 9999 };
        assert_eq!(found(&mut guard(Some(vec![nowhere])), 1..200, false), Some(20 * S));
    }

    #[test]
    fn a_device_that_moves_bytes_is_waited_for_and_not_for_ever() {
        let root = tempfile::tempdir().unwrap();
        let folder = root.path().join("dev/block/7:1");
        std::fs::create_dir_all(&folder).unwrap();
        let mut guard = guard(Some(vec![DeviceNumber { major: 7, minor: 1 }]));
        guard.sysfs = Sysfs::new(root.path());
        let first = (1..2000).find_map(|now| {
            let sectors = 100 * now.min(900);
            let stat = format!("1 0 0 0 1 0 {sectors} 0 0 0 0\n");
            std::fs::write(folder.join("stat"), stat).unwrap();
            guard.look(now * S, 0, false)
        });
        assert_eq!(first, Some(20 * 30 * S));
    }
}
