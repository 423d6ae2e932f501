//! The clock that latencies are read from.

use nix::sys::prctl::set_timerslack;
use nix::sys::time::TimeSpec;
use nix::time::{ClockId, ClockNanosleepFlags, clock_gettime, clock_nanosleep};

/// `CLOCK_MONOTONIC` in nanoseconds: answered without entering the kernel where the kernel trusts
/// the time-stamp counter, and never set back by an administrator.
///
/// # Panics
/// Never: the kernel has had this clock since 2.6.
#[inline]
#[must_use]
pub fn monotonic_ns() -> u64 {
    let now =
        clock_gettime(ClockId::CLOCK_MONOTONIC).expect("the call fails for an unknown clock alone");
    now.tv_sec().unsigned_abs() * 1_000_000_000 + now.tv_nsec().unsigned_abs()
}

/// Lets the calling thread sleep until [`monotonic_ns`] is at `due`, or a signal comes.
pub fn sleep_until(due: u64) {
    let (seconds, rest) = (due / 1_000_000_000, due % 1_000_000_000);
    let time = TimeSpec::new(seconds.cast_signed(), rest.cast_signed());
    // A signal ends it early, which the caller sees by the clock.
    let _ = clock_nanosleep(ClockId::CLOCK_MONOTONIC, ClockNanosleepFlags::TIMER_ABSTIME, &time);
}

/// Asks the kernel to wake the calling thread on time. Without it, timers may be late by 50 us on
/// purpose, to save power.
pub fn wake_on_time() {
    // Where it can't be had, the thread is woken later by that.
    let _ = set_timerslack(1);
}
