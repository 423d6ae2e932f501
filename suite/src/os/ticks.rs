//! The monotonic clock by the processor's time-stamp counter, for threads that read it all the
//! time: about half of what the kernel's own way costs.
//!
//! The counter is used where the kernel itself keeps time by it, and so has found it to run evenly
//! and alike on all processors. Every ten milliseconds the kernel's clock is read beside it, so
//! that what time servers do to that clock is followed, and nothing adds up.

use std::fs;
use std::path::Path;
use std::sync::OnceLock;

use super::clock::monotonic_ns;

/// What the kernel keeps time by.
const CLOCK_SOURCE: &str = "/sys/devices/system/clocksource/clocksource0/current_clocksource";

/// How long the counter is believed without a look at the kernel's clock, in nanoseconds.
const TRUSTED_NS: u64 = 10_000_000;

/// How long it is watched to see how fast it runs, in nanoseconds.
const WATCHED_NS: u64 = 1_000_000;

/// Fraction bits of the nanoseconds that a tick takes: a product with the ticks of a few
/// [`TRUSTED_NS`] is far from 2^64 for any processor above 1 MHz.
const SCALE_BITS: u32 = 32;

/// Tries to read both clocks at the same time.
const TRIES: usize = 4;

/// A reader of [`monotonic_ns`] for one thread. What it says never goes back, and is no further
/// from the kernel's own reading than two calls of that are apart: a few tens of nanoseconds.
#[derive(Debug)]
pub struct TickClock {
    /// The last look at both clocks; `None` where the counter is not to be trusted.
    seen: Option<Both>,
    /// What is said of that moment, which may be a little later.
    anchor: Both,
    /// Nanoseconds a tick, in units of 2^-32.
    scale: u64,
    /// So many ticks after the anchor both are looked at again.
    span: u64,
}

/// A reading of both clocks.
#[derive(Debug, Clone, Copy, Default)]
struct Both {
    ticks: u64,
    ns: u64,
}

impl Both {
    /// The closest of some readings, so that a thread that had to wait between the two does no
    /// harm.
    fn read() -> Self {
        let reading = || {
            let (before, ns, after) = (ticks(), monotonic_ns(), ticks());
            let apart = after.wrapping_sub(before);
            (apart, Self { ticks: before.wrapping_add(apart / 2), ns })
        };
        let readings = std::iter::repeat_with(reading).take(TRIES);
        readings.min_by_key(|(apart, _)| *apart).map_or_else(Self::default, |(_, both)| both)
    }

    /// Nanoseconds a tick from an earlier reading to this one, in units of 2^-32.
    fn scale_since(self, earlier: Self) -> Option<u64> {
        let ticks = u128::from(self.ticks.checked_sub(earlier.ticks)?);
        let ns = u128::from(self.ns.checked_sub(earlier.ns)?) << SCALE_BITS;
        u64::try_from(ns.checked_div(ticks)?).ok().filter(|scale| *scale > 0)
    }
}

impl TickClock {
    /// One for the calling thread. The first of a process takes a millisecond to see how fast the
    /// counter runs.
    #[must_use]
    pub fn new() -> Self {
        static SCALE: OnceLock<Option<u64>> = OnceLock::new();
        let scale = SCALE.get_or_init(|| {
            if !is_trusted(Path::new(CLOCK_SOURCE)) {
                return None;
            }
            let first = Both::read();
            while monotonic_ns() < first.ns + WATCHED_NS {
                std::hint::spin_loop();
            }
            Both::read().scale_since(first)
        });
        let mut clock = Self { seen: None, anchor: Both::default(), scale: 0, span: 0 };
        if let Some(scale) = *scale {
            let now = Both::read();
            (clock.seen, clock.anchor) = (Some(now), now);
            clock.believe(scale);
        }
        clock
    }

    /// Whether it reads the counter.
    #[must_use]
    pub fn by_counter(&self) -> bool {
        self.seen.is_some()
    }

    /// What [`monotonic_ns`] would say.
    #[inline]
    pub fn now(&mut self) -> u64 {
        let passed = ticks().wrapping_sub(self.anchor.ticks);
        if passed >= self.span {
            return self.look();
        }
        self.anchor.ns + self.ns(passed)
    }

    #[inline]
    fn ns(&self, ticks: u64) -> u64 {
        (ticks * self.scale) >> SCALE_BITS
    }

    fn believe(&mut self, scale: u64) {
        self.scale = scale.max(1);
        self.span = (TRUSTED_NS << SCALE_BITS) / self.scale;
    }

    /// Looks at both clocks, and goes on from there.
    #[cold]
    fn look(&mut self) -> u64 {
        let Some(seen) = self.seen else { return monotonic_ns() };
        let now = Both::read();
        // What was said last was of the end of the span at the latest.
        let said = self.anchor.ns + self.ns(self.span);
        (self.seen, self.anchor) = (Some(now), Both { ns: now.ns.max(said), ..now });
        if let Some(scale) = now.scale_since(seen) {
            // What is ahead is caught up with by the next look, if that can be.
            let ahead = (self.anchor.ns - now.ns).min(TRUSTED_NS / 2);
            self.believe(scale - scale * ahead / TRUSTED_NS);
        }
        self.anchor.ns
    }
}

impl Default for TickClock {
    fn default() -> Self {
        Self::new()
    }
}

/// Whether the kernel keeps time by the counter, by this file.
fn is_trusted(source: &Path) -> bool {
    cfg!(target_arch = "x86_64")
        && fs::read_to_string(source).is_ok_and(|source| source.trim() == "tsc")
}

#[cfg(target_arch = "x86_64")]
#[inline]
fn ticks() -> u64 {
    // SAFETY: every processor of this architecture has the instruction, which reads a register.
    unsafe { core::arch::x86_64::_rdtsc() }
}

#[cfg(not(target_arch = "x86_64"))]
#[inline]
fn ticks() -> u64 {
    0
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;

    #[test]
    fn it_tells_the_time_and_never_goes_back() {
        let mut clock = TickClock::new();
        let end = Instant::now() + Duration::from_millis(50);
        let mut last = 0;
        let mut off = Vec::new();
        while Instant::now() < end {
            let before = monotonic_ns();
            let now = clock.now();
            let after = monotonic_ns();
            assert!(now >= last, "{now} after {last}");
            last = now;
            // As far outside of the two as it is.
            off.push(before.saturating_sub(now).max(now.saturating_sub(after)));
        }
        off.sort_unstable();
        assert!(off[off.len() / 2] < 200, "{} ns off in the middle", off[off.len() / 2]);
        assert!(off[off.len() * 99 / 100] < 20_000, "{} ns off", off[off.len() * 99 / 100]);
    }

    #[test]
    fn a_clock_that_is_ahead_is_caught_up_with() {
        let mut clock = TickClock::new();
        if !clock.by_counter() {
            return; // there is nothing to catch up with
        }
        clock.anchor.ns += 1_000_000;
        let mut last = 0;
        let end = Instant::now() + Duration::from_millis(100);
        while Instant::now() < end {
            let now = clock.now();
            assert!(now >= last);
            last = now;
        }
        let ahead = clock.now().saturating_sub(monotonic_ns());
        assert!(ahead < 100_000, "{ahead} ns ahead");
    }

    #[test]
    fn a_long_pause_is_as_long_as_it_was() {
        let mut clock = TickClock::new();
        let (start, real) = (clock.now(), monotonic_ns());
        std::thread::sleep(Duration::from_millis(30));
        let (end, real_end) = (clock.now(), monotonic_ns());
        let off = (end - start).abs_diff(real_end - real);
        assert!(off < 5_000_000, "{off} ns off");
    }

    #[test]
    fn the_counter_is_used_only_where_the_kernel_does() {
        let folder = tempfile::tempdir().unwrap();
        let source = folder.path().join("current_clocksource");
        assert!(!is_trusted(&source));
        for (name, trusted) in [("tsc\n", cfg!(target_arch = "x86_64")), ("hpet\n", false)] {
            fs::write(&source, name).unwrap();
            assert_eq!(is_trusted(&source), trusted);
        }
    }

    #[test]
    fn without_the_counter_it_is_the_clock_of_the_kernel() {
        let mut clock = TickClock { seen: None, anchor: Both::default(), scale: 0, span: 0 };
        let before = monotonic_ns();
        assert!((before..before + 1_000_000_000).contains(&clock.now()));
        assert!(!clock.by_counter());
    }
}
