//! The kernel's own books of the devices under a round: what they did in the measured window.
//!
//! The counters run on through warm-up and cool-down, and nobody wakes up to read them at the
//! very edges of the window. They are read with every report of progress, and what they stood at
//! an edge is taken from the readings on both sides of it, as if they had risen evenly between.

use crate::measure::DeviceUse;
use crate::os::blockdev::{DeviceCounters, DeviceNumber, Sysfs};
use crate::plan::{Limit, Workload};
use crate::units::Nanos;

/// The books of one round.
pub(super) struct Books<'r> {
    sysfs: &'r Sysfs,
    devices: Vec<DeviceNumber>,
    start: Edge,
    /// `None` where the load ends with the window: then the last reading is the one of its end.
    end: Option<Edge>,
    cooldown: Nanos,
}

/// An edge of the window, and the readings nearest to it.
struct Edge {
    at: Nanos,
    before: Reading,
    after: Option<Reading>,
}

/// The counters of all devices at a time since the start line.
#[derive(Debug, Clone)]
struct Reading {
    at: Nanos,
    counters: Vec<DeviceCounters>,
}

impl<'r> Books<'r> {
    /// Opens them just before the start line. `devices` are those under the members of the
    /// setup; there are no books where one of them is on no device, or on one without counters.
    pub(super) fn open(
        sysfs: &'r Sysfs,
        devices: impl Iterator<Item = Option<DeviceNumber>>,
        workload: &Workload,
    ) -> Option<Self> {
        let mut devices: Vec<_> = devices.collect::<Option<_>>()?;
        devices.sort_unstable();
        devices.dedup();
        if devices.is_empty() {
            return None;
        }
        // Until the start line the round does no I/O: these are the counters at time 0.
        let first = Reading { at: Nanos(0), counters: read(sysfs, &devices)? };
        let edge = |at| Edge { at, before: first.clone(), after: None };
        let Workload { warmup, cooldown, limit, .. } = workload;
        let end = match limit {
            Limit::Runtime(time) if *cooldown > Nanos(0) => {
                Some(edge(Nanos(warmup.0.saturating_add(time.0))))
            }
            _ => None,
        };
        Some(Self { sysfs, devices, start: edge(*warmup), end, cooldown: *cooldown })
    }

    /// Reads the counters, so long after the start line.
    pub(super) fn look(&mut self, elapsed: Nanos) {
        let edges = std::iter::once(&mut self.start).chain(&mut self.end);
        let open: Vec<_> = edges.filter(|edge| edge.after.is_none()).collect();
        if open.is_empty() {
            return;
        }
        // A reading that fails is one less; the last one is missed.
        let Some(counters) = read(self.sysfs, &self.devices) else { return };
        for edge in open {
            let reading = Reading { at: elapsed, counters: counters.clone() };
            if elapsed <= edge.at {
                edge.before = reading;
            } else {
                edge.after = Some(reading);
            }
        }
    }

    /// What the devices did in the window, which was so long. `None` of a window without a
    /// length, or when the counters can't be read any more.
    pub(super) fn close(self, window: Nanos) -> Option<DeviceUse> {
        if window == Nanos(0) {
            return None;
        }
        let all = [self.start.at, window, self.cooldown].iter().fold(0_u64, |sum, span| {
            sum.saturating_add(span.0) // times of a plan are far below 2^63 together
        });
        let last = Reading { at: Nanos(all), counters: read(self.sysfs, &self.devices)? };
        let from = self.start.counters(&last);
        let to = self.end.map_or_else(|| last.counters.clone(), |end| end.counters(&last));
        let mut used = DeviceUse::default();
        for (from, to) in from.iter().zip(&to) {
            used.read_bytes += to.read_bytes.saturating_sub(from.read_bytes);
            used.written_bytes += to.written_bytes.saturating_sub(from.written_bytes);
            let busy_ns = to.busy_ns.saturating_sub(from.busy_ns) as f64;
            let percent = busy_ns / window.0 as f64 * 100.0;
            used.utilization_percent = used.utilization_percent.max(percent.min(100.0));
        }
        Some(used)
    }
}

impl Edge {
    /// What the counters stood at; `last` is the last reading of the round.
    fn counters(&self, last: &Reading) -> Vec<DeviceCounters> {
        let (before, after) = (&self.before, self.after.as_ref().unwrap_or(last));
        let between = after.at.0.saturating_sub(before.at.0);
        let share = match between {
            0 => 1.0,
            _ => (self.at.0.saturating_sub(before.at.0) as f64 / between as f64).min(1.0),
        };
        #[expect(clippy::cast_sign_loss, reason = "a share of a difference, neither below 0")]
        let at = |from: u64, to: u64| from + (to.saturating_sub(from) as f64 * share) as u64;
        let pairs = before.counters.iter().zip(&after.counters);
        pairs
            .map(|(from, to)| DeviceCounters {
                read_bytes: at(from.read_bytes, to.read_bytes),
                written_bytes: at(from.written_bytes, to.written_bytes),
                busy_ns: at(from.busy_ns, to.busy_ns),
            })
            .collect()
    }
}

fn read(sysfs: &Sysfs, devices: &[DeviceNumber]) -> Option<Vec<DeviceCounters>> {
    devices.iter().map(|device| sysfs.counters(*device).ok()).collect()
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::session::job::tests::workload;

    const SECOND: u64 = 1_000_000_000;

    /// A device whose counters can be set: 512-byte sectors read, milliseconds of being busy.
    struct Device(tempfile::TempDir, Sysfs);

    impl Device {
        fn new() -> Self {
            let folder = tempfile::tempdir().unwrap();
            fs::create_dir_all(folder.path().join("dev/block/8:0")).unwrap();
            let sysfs = Sysfs::new(folder.path());
            let device = Self(folder, sysfs);
            device.set(0, 0);
            device
        }

        fn set(&self, sectors: u64, busy_ms: u64) {
            let text = format!("1 0 {sectors} 0 0 0 0 0 0 {busy_ms} 0\n");
            fs::write(self.0.path().join("dev/block/8:0/stat"), text).unwrap();
        }

        fn books(&self, keys: &str) -> Books<'_> {
            let number = std::iter::once(DeviceNumber::parse("8:0"));
            Books::open(&self.1, number, &workload(keys)).unwrap()
        }
    }

    #[test]
    fn warm_up_and_cool_down_are_not_in_the_books() {
        let device = Device::new();
        let mut books = device.books("runtime = '2s'\nwarmup = '1s'\ncooldown = '1s'");
        // 1000 sectors and 500 ms a second, with readings at odd moments.
        for (sectors, tenths) in [(400, 4), (800, 8), (1200, 12), (2800, 28), (3200, 32)] {
            device.set(sectors, sectors / 2);
            books.look(Nanos(tenths * SECOND / 10));
        }
        device.set(4000, 2000);
        let used = books.close(Nanos(2 * SECOND)).unwrap();
        assert_eq!(used.read_bytes, 2000 * 512);
        assert!((used.utilization_percent - 50.0).abs() < 0.1, "{used:?}");
    }

    #[test]
    fn a_round_shorter_than_a_report_has_its_share() {
        let device = Device::new();
        let books = device.books("runtime = '100ms'\nwarmup = '100ms'");
        device.set(1000, 200);
        let used = books.close(Nanos(SECOND / 10)).unwrap();
        assert_eq!(used.read_bytes, 500 * 512);
        assert!((used.utilization_percent - 100.0).abs() < 0.1, "{used:?}");
    }

    #[test]
    fn without_warm_up_all_is_in_the_books_and_no_share_is_above_the_whole() {
        let device = Device::new();
        device.set(10, 10);
        let mut books = device.books("amount = '1MiB'");
        device.set(1010, 900);
        books.look(Nanos(SECOND / 4));
        device.set(2010, 1510);
        let used = books.close(Nanos(SECOND)).unwrap();
        assert_eq!((used.read_bytes, used.written_bytes), (2000 * 512, 0));
        assert!((used.utilization_percent - 100.0).abs() < 1e-9, "{used:?}");
    }

    #[test]
    fn no_window_and_no_device_have_no_books() {
        let device = Device::new();
        assert_eq!(device.books("runtime = '1s'").close(Nanos(0)), None);
        let load = workload("runtime = '1s'");
        assert!(Books::open(&device.1, std::iter::once(None), &load).is_none());
        assert!(Books::open(&device.1, std::iter::empty(), &load).is_none());
        let books = device.books("runtime = '1s'");
        fs::remove_file(device.0.path().join("dev/block/8:0/stat")).unwrap();
        assert_eq!(books.close(Nanos(SECOND)), None);
    }
}
