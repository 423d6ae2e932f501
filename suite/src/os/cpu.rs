//! Where a thread runs, and what processor time it has used.

use std::io;

use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeVal;
use nix::unistd::Pid;

/// Processor time that a thread has used since it was started.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ThreadTime {
    /// In the program, in nanoseconds.
    pub user_ns: u64,
    /// In the kernel on the thread's behalf, in nanoseconds.
    pub system_ns: u64,
}

/// A set of CPUs on which a thread may run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Affinity(CpuSet);

impl Affinity {
    /// That of the calling thread.
    pub fn of_this_thread() -> io::Result<Self> {
        Ok(Self(sched_getaffinity(Pid::from_raw(0))?))
    }

    /// One CPU alone.
    pub fn one(cpu: usize) -> io::Result<Self> {
        let mut set = CpuSet::new();
        set.set(cpu)?;
        Ok(Self(set))
    }

    /// How many CPUs are in it.
    #[must_use]
    pub fn count(&self) -> usize {
        (0..CpuSet::count()).filter(|cpu| self.0.is_set(*cpu).unwrap_or(false)).count()
    }

    /// Confines the calling thread to it.
    pub fn apply(&self) -> io::Result<()> {
        Ok(sched_setaffinity(Pid::from_raw(0), &self.0)?)
    }
}

/// Processor time of the calling thread (`RUSAGE_THREAD`). Work that the kernel does for it on
/// threads of its own is not in it.
pub fn thread_time() -> io::Result<ThreadTime> {
    let usage = getrusage(UsageWho::RUSAGE_THREAD)?;
    Ok(ThreadTime { user_ns: nanos(usage.user_time()), system_ns: nanos(usage.system_time()) })
}

fn nanos(time: TimeVal) -> u64 {
    time.tv_sec().unsigned_abs() * 1_000_000_000 + time.tv_usec().unsigned_abs() * 1_000
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_can_be_confined_and_set_free() {
        let before = Affinity::of_this_thread().unwrap();
        let first = (0..CpuSet::count()).find(|cpu| before.0.is_set(*cpu).unwrap()).unwrap();
        Affinity::one(first).unwrap().apply().unwrap();
        assert_eq!(Affinity::of_this_thread().unwrap().count(), 1);
        before.apply().unwrap();
        assert_eq!(Affinity::of_this_thread().unwrap(), before);
    }

    #[test]
    fn a_cpu_that_is_not_there_is_refused() {
        assert!(Affinity::one(1_000_000).is_err());
        // The highest that a set can hold exists on no machine that runs tests.
        assert!(Affinity::one(CpuSet::count() - 1).unwrap().apply().is_err());
    }

    #[test]
    fn work_shows_in_the_thread_time() {
        let before = thread_time().unwrap();
        let mut x = 1_u64;
        while thread_time().unwrap().user_ns < before.user_ns + 20_000_000 {
            for _ in 0..100_000 {
                x = std::hint::black_box(x.wrapping_mul(3));
            }
        }
        assert!(thread_time().unwrap().user_ns > before.user_ns);
    }
}
