//! The clock that latencies are read from.

use nix::time::{ClockId, clock_gettime};

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
