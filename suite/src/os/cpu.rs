//! Where a thread runs, and what processor time it has used.

use std::fmt;
use std::io;

use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::sys::resource::{RLIM_INFINITY, Resource, UsageWho, getrlimit, getrusage};
use nix::sys::time::TimeVal;
use nix::unistd::Pid;

/// Processor time that a thread or a process has used since it was started.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CpuTime {
    /// In the program, in nanoseconds.
    pub user_ns: u64,
    /// In the kernel on its behalf, in nanoseconds.
    pub system_ns: u64,
}

/// What limits the threads that this process can make.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ThreadLimits {
    /// Processes and threads of the user, as `ulimit -u` says; `None` without a limit.
    pub threads: Option<u64>,
    /// Address space in KiB, as `ulimit -v` says; `None` without a limit.
    pub memory_kib: Option<u64>,
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
        (0..CpuSet::count()).filter(|cpu| self.contains(*cpu)).count()
    }

    /// Whether this CPU is in it.
    #[must_use]
    pub fn contains(&self, cpu: usize) -> bool {
        self.0.is_set(cpu).unwrap_or(false)
    }

    /// Confines the calling thread to it.
    pub fn apply(&self) -> io::Result<()> {
        Ok(sched_setaffinity(Pid::from_raw(0), &self.0)?)
    }
}

impl fmt::Display for Affinity {
    /// As ranges: `0-3,8`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut ranges: Vec<(usize, usize)> = Vec::new();
        for cpu in (0..CpuSet::count()).filter(|cpu| self.contains(*cpu)) {
            match ranges.last_mut() {
                Some((_, last)) if *last + 1 == cpu => *last = cpu,
                _ => ranges.push((cpu, cpu)),
            }
        }
        let texts = ranges.into_iter().map(|(first, last)| match last - first {
            0 => first.to_string(),
            _ => format!("{first}-{last}"),
        });
        f.write_str(&texts.collect::<Vec<_>>().join(","))
    }
}

/// Processor time of the calling thread (`RUSAGE_THREAD`). Work that the kernel does for it on
/// threads of its own is not in it.
pub fn thread_time() -> io::Result<CpuTime> {
    time_of(UsageWho::RUSAGE_THREAD)
}

/// Processor time of the whole process (`RUSAGE_SELF`): of all its threads, those that have ended
/// and those that the kernel works with on its behalf (`iou-wrk-…` of `io_uring`) too.
pub fn process_time() -> io::Result<CpuTime> {
    time_of(UsageWho::RUSAGE_SELF)
}

/// What limits the threads of this process, as far as the process knows.
#[must_use]
pub fn thread_limits() -> ThreadLimits {
    let soft = |resource| {
        let limit = getrlimit(resource).ok().map(|(soft, _)| soft);
        limit.filter(|limit| *limit != RLIM_INFINITY)
    };
    ThreadLimits {
        threads: soft(Resource::RLIMIT_NPROC),
        memory_kib: soft(Resource::RLIMIT_AS).map(|bytes| bytes / 1024),
    }
}

fn time_of(who: UsageWho) -> io::Result<CpuTime> {
    let usage = getrusage(who)?;
    Ok(CpuTime { user_ns: nanos(usage.user_time()), system_ns: nanos(usage.system_time()) })
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
    fn a_set_is_shown_as_ranges() {
        let mut set = CpuSet::new();
        for cpu in [0, 1, 2, 5, 8, 9] {
            set.set(cpu).unwrap();
        }
        let set = Affinity(set);
        assert_eq!((set.to_string().as_str(), set.count()), ("0-2,5,8-9", 6));
        assert!(set.contains(9) && !set.contains(3) && !set.contains(1_000_000));
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
        assert!(process_time().unwrap().user_ns >= before.user_ns + 20_000_000);
    }
}
