//! The clock that latencies are read from.

use nix::time::{ClockId, clock_gettime};

/// `CLOCK_MONOTONIC` in nanoseconds: answered without entering the kernel where the kernel trusts
/// the time-stamp counter, and never set back by an administrator.
#[inline]
#[must_use]
#[expect(clippy::missing_panics_doc, reason = "every kernel has this clock")]
pub fn monotonic_ns() -> u64 {
    // The call fails for an unknown clock alone, and the kernel has had this one since 2.6.
    let now = clock_gettime(ClockId::CLOCK_MONOTONIC).expect("CLOCK_MONOTONIC exists");
    now.tv_sec().unsigned_abs() * 1_000_000_000 + now.tv_nsec().unsigned_abs()
}
