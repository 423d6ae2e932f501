//! When a worker begins its I/Os, where it is not "as soon as one is done".
//!
//! **Open loop.** The times at which I/Os are due are set before the run, by the rate and the
//! seed, and nothing that the storage does moves them: I/Os that it kept waiting count from the
//! moment at which they were due. Workers share one rate. Even arrivals are dealt out to them in
//! turn, so that together they are even again; Poisson arrivals are split at random, which makes
//! each worker's Poisson arrivals of its own, with a rate of its share.
//!
//! **Think time.** After a burst of I/Os, when all of them are done, nothing is begun for a while.

use rand_xoshiro::rand_core::Rng;

use super::seed::{Random, Stream, random};
use super::tally::NEVER;
use crate::engine::{Arrivals, Job, Pace, Rate};
use crate::measure::IoKind;
use crate::os::clock::sleep_until;

/// So close to the time that is waited for a worker stays awake: to be woken takes the kernel some
/// tens of microseconds, which would count as lateness.
const AWAKE_NS: u64 = 50_000;

/// Nobody sleeps for longer than this without a look at the run's end.
pub(super) const LOOK_NS: u64 = 50_000_000;

/// When the I/Os of one worker are due.
#[derive(Debug)]
pub(super) enum Schedule {
    Open(Open),
    Think(Think),
}

/// Due times by a rate.
#[derive(Debug)]
pub(super) struct Open {
    /// The start line.
    start: f64,
    /// When the next I/O is due, in nanoseconds after the start line.
    next: f64,
    /// Mean time from one to the next for each I/O.
    ns_per_io: f64,
    /// And for each of its bytes.
    ns_per_byte: f64,
    /// Draws the gaps; `None` where they are even.
    random: Option<Random>,
    /// Later than this an I/O isn't begun any more.
    lateness_max: u64,
}

/// Pauses after bursts.
#[derive(Debug)]
pub(super) struct Think {
    pause: u64,
    after: u32,
    /// I/Os left of this burst.
    left: u32,
    /// When the pause after it ends, once it has begun.
    resume: Option<u64>,
}

impl Schedule {
    /// That of a worker of this job; `None` where I/Os follow each other.
    pub(super) fn new(job: &Job, worker: u32) -> Option<Self> {
        match job.pace {
            Pace::Closed => None,
            Pace::Open { rate, arrivals, max_lateness } => {
                Some(Self::Open(Open::new(job, worker, rate, arrivals, max_lateness.map(|n| n.0))))
            }
            Pace::Think { pause, after } => {
                let after = after.max(1);
                Some(Self::Think(Think { pause: pause.0, after, left: after, resume: None }))
            }
        }
    }

    /// The start line was at `start`.
    pub(super) fn start(&mut self, start: u64) {
        if let Self::Open(open) = self {
            open.start = start as f64;
        }
    }

    /// When the next I/O is due, with so many in flight; [`NEVER`] when one of those has to be
    /// done first.
    #[inline]
    pub(super) fn due(&mut self, now: u64, in_flight: u64) -> u64 {
        match self {
            Self::Open(open) => open.due(),
            Self::Think(think) if think.left > 0 => now,
            Self::Think(_) if in_flight > 0 => NEVER,
            Self::Think(think) => *think.resume.get_or_insert(now.saturating_add(think.pause)),
        }
    }

    /// The I/O that was due is begun, and what is it.
    #[inline]
    pub(super) fn begun(&mut self, kind: IoKind, len: u32) {
        match self {
            // A flush belongs to the write before it and has no time of its own.
            _ if kind == IoKind::Sync => {}
            Self::Open(open) => open.next(len),
            Self::Think(think) => {
                if think.resume.take().is_some() {
                    think.left = think.after;
                }
                think.left = think.left.saturating_sub(1);
            }
        }
    }

    /// Passes over an I/O that is too late to be begun, and returns when it was due.
    #[inline]
    pub(super) fn pass_over(&mut self, now: u64, len: u32) -> Option<u64> {
        let Self::Open(open) = self else { return None };
        let due = open.due();
        (now > due.saturating_add(open.lateness_max)).then(|| {
            open.next(len);
            due
        })
    }

    /// How many I/Os of this length were due from `from` to `to` and were never begun.
    pub(super) fn left_over(&mut self, from: u64, to: u64, len: u32) -> u64 {
        let Self::Open(open) = self else { return 0 };
        let mut count = 0;
        while open.due() < to {
            count += u64::from(open.due() >= from);
            open.next(len);
        }
        count
    }
}

impl Open {
    fn new(
        job: &Job,
        worker: u32,
        rate: Rate,
        arrivals: Arrivals,
        lateness_max: Option<u64>,
    ) -> Self {
        let workers = f64::from(job.workers);
        let (ns_per_io, ns_per_byte) = match rate {
            Rate::Ios(rate) => (1e9 / rate * workers, 0.0),
            Rate::Bytes(rate) => (0.0, 1e9 / rate * workers),
        };
        let mut open = Self {
            start: 0.0,
            next: 0.0,
            ns_per_io,
            ns_per_byte,
            random: match arrivals {
                Arrivals::Even => None,
                Arrivals::Poisson => Some(random(job.seed, Stream::Arrivals, u64::from(worker))),
            },
            lateness_max: lateness_max.unwrap_or(NEVER),
        };
        let first = mean_len(job);
        match arrivals {
            Arrivals::Even => {
                open.next = open.gap(f64::from(first)) / workers * f64::from(worker);
            }
            // The time to the first arrival of a Poisson process is one of its gaps.
            Arrivals::Poisson => open.next(first),
        }
        open
    }

    #[inline]
    #[expect(clippy::cast_sign_loss, reason = "neither the start nor a gap is below 0")]
    fn due(&self) -> u64 {
        (self.start + self.next) as u64
    }

    /// The mean time that an I/O of this length takes of the rate.
    #[inline]
    fn gap(&self, len: f64) -> f64 {
        self.ns_per_io + self.ns_per_byte * len
    }

    #[inline]
    fn next(&mut self, len: u32) {
        let mean = self.gap(f64::from(len));
        self.next += match &mut self.random {
            None => mean,
            Some(random) => mean * exponential(random),
        };
    }
}

/// Mean length of the I/Os of a job, by their shares.
#[expect(clippy::cast_sign_loss, reason = "a mean of lengths is one")]
pub(super) fn mean_len(job: &Job) -> u32 {
    let weight: f64 = job.blocks.iter().map(|mix| f64::from(mix.weight)).sum();
    let bytes: f64 = job.blocks.iter().map(|mix| mix.block.0 as f64 * f64::from(mix.weight)).sum();
    (bytes / weight.max(1.0)) as u32
}

/// A draw from the exponential distribution with mean 1, by inversion: `-ln(u)` of a `u` that is
/// even over 0 to 1, without 0.
#[inline]
fn exponential(random: &mut Random) -> f64 {
    let even = ((random.next_u64() >> 11) + 1) as f64 / (1_u64 << 53) as f64;
    -even.ln()
}

/// Lets the thread be until shortly before `due`, or at most for a while. To be called again until
/// it has come.
pub(super) fn wait_for(due: u64, now: u64) {
    match sleep_ns(due, now) {
        0 => std::hint::spin_loop(),
        time => sleep_until(now + time),
    }
}

/// For how long a thread that is to go on at `due` may sleep; 0 when it has to stay awake.
pub(super) fn sleep_ns(due: u64, now: u64) -> u64 {
    due.saturating_sub(now).saturating_sub(AWAKE_NS).min(LOOK_NS)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::Mix;
    use crate::engine::tests::job;
    use crate::os::clock::{monotonic_ns, wake_on_time};
    use crate::units::{Bytes, Nanos};

    fn open(rate: Rate, arrivals: Arrivals, workers: u32) -> Job {
        let mut job = job();
        job.workers = workers;
        job.pace = Pace::Open { rate, arrivals, max_lateness: None };
        job
    }

    /// The times at which the I/Os of all workers are due, in order.
    fn dues(job: &Job, each: usize, len: u32) -> Vec<u64> {
        let mut all: Vec<u64> = (0..job.workers)
            .flat_map(|worker| {
                let mut schedule = Schedule::new(job, worker).unwrap();
                schedule.start(1_000_000);
                (0..each)
                    .map(|_| {
                        let due = schedule.due(0, 7);
                        schedule.begun(IoKind::Read, len);
                        due - 1_000_000
                    })
                    .collect::<Vec<_>>()
            })
            .collect();
        all.sort_unstable();
        all
    }

    #[test]
    fn even_arrivals_of_several_workers_are_even_together() {
        let all = dues(&open(Rate::Ios(5000.0), Arrivals::Even, 3), 1000, 4096);
        for (number, due) in all.iter().enumerate() {
            assert!(due.abs_diff(number as u64 * 200_000) <= 1, "{number}: {due}");
        }
    }

    #[test]
    fn a_rate_of_bytes_is_kept_by_bytes() {
        let job = open(Rate::Bytes(4096.0 * 1000.0), Arrivals::Even, 2);
        let all = dues(&job, 500, 4096);
        assert!(all.iter().zip(0..).all(|(due, n)| due.abs_diff(n * 1_000_000) <= 1));
        // Larger ones take more of it.
        assert_eq!(dues(&job, 3, 8192)[2..], [4_000_000, 5_000_000, 8_000_000, 9_000_000]);
    }

    #[test]
    fn a_flush_takes_nothing_of_the_rate() {
        let mut schedule = Schedule::new(&open(Rate::Ios(1e3), Arrivals::Even, 1), 0).unwrap();
        schedule.begun(IoKind::Write, 4096);
        schedule.begun(IoKind::Sync, 0);
        assert_eq!(schedule.due(0, 0), 1_000_000);
    }

    /// The Kolmogorov–Smirnov distance of gaps from the exponential distribution of this mean.
    fn distance(gaps: &mut [f64], mean: f64) -> f64 {
        gaps.sort_by(f64::total_cmp);
        let count = gaps.len() as f64;
        let off = |(number, gap): (usize, &f64)| {
            let expected = 1.0 - (-gap / mean).exp();
            let (low, high) = (number as f64 / count, (number + 1) as f64 / count);
            (expected - low).abs().max((expected - high).abs())
        };
        gaps.iter().enumerate().map(off).fold(0.0, f64::max)
    }

    #[test]
    fn poisson_arrivals_have_exponential_gaps_whatever_the_workers() {
        for workers in [1, 2, 16] {
            let job = open(Rate::Ios(1e6), Arrivals::Poisson, workers);
            let each = 200_000 / workers as usize;
            let all = dues(&job, each, 4096);
            // Behind the last arrival of the slowest worker the others are missing.
            let all = &all[..all.len() * 9 / 10];
            let mut gaps: Vec<f64> = all.windows(2).map(|w| (w[1] - w[0]) as f64).collect();
            let count = gaps.len() as f64;
            let mean = gaps.iter().sum::<f64>() / count;
            assert!((mean / 1000.0 - 1.0).abs() < 3.0 / count.sqrt(), "{workers}: {mean}");
            let variance = gaps.iter().map(|gap| (gap - mean).powi(2)).sum::<f64>() / count;
            let cv = variance.sqrt() / mean;
            assert!((cv - 1.0).abs() < 3.0 / count.sqrt(), "{workers}: {cv}");
            // Times are whole nanoseconds of gaps of 1000: a step of 0.001 at most.
            let distance = distance(&mut gaps, 1000.0);
            assert!(distance < 1.95 / count.sqrt() + 0.001, "{workers}: {distance}");
        }
    }

    #[test]
    fn what_is_late_is_passed_over_and_what_is_left_is_counted() {
        let mut job = open(Rate::Ios(1000.0), Arrivals::Even, 1);
        let pace = |max_lateness| Pace::Open {
            rate: Rate::Ios(1000.0),
            arrivals: Arrivals::Even,
            max_lateness,
        };
        job.pace = pace(Some(Nanos(5_000_000)));
        let mut schedule = Schedule::new(&job, 0).unwrap();
        assert_eq!(schedule.pass_over(5_000_000, 4096), None);
        assert_eq!(schedule.pass_over(5_000_001, 4096), Some(0));
        assert_eq!(schedule.pass_over(5_000_001, 4096), None);
        assert_eq!(schedule.left_over(3_000_000, 10_000_000, 4096), 7);
        job.pace = pace(None);
        let mut schedule = Schedule::new(&job, 0).unwrap();
        assert_eq!(schedule.pass_over(u64::MAX - 1, 4096), None);
    }

    #[test]
    fn a_pause_begins_when_the_burst_is_done() {
        let mut job = job();
        job.pace = Pace::Think { pause: Nanos(1000), after: 2 };
        let mut schedule = Schedule::new(&job, 0).unwrap();
        assert_eq!(schedule.due(10, 0), 10);
        schedule.begun(IoKind::Read, 4096);
        assert_eq!(schedule.due(11, 1), 11);
        schedule.begun(IoKind::Read, 4096);
        assert_eq!(schedule.due(12, 2), NEVER);
        assert_eq!(schedule.due(50, 0), 1050);
        assert_eq!(schedule.due(60, 0), 1050);
        schedule.begun(IoKind::Read, 4096);
        assert_eq!(schedule.due(1051, 1), 1051, "the second of the next burst");
    }

    #[test]
    fn the_mean_length_is_by_shares() {
        let mut job = job();
        let mix = |block, weight| Mix { block: Bytes(block), weight };
        job.blocks = vec![mix(4096, 60), mix(65_536, 40)];
        assert_eq!(mean_len(&job), 28_672);
    }

    #[test]
    fn a_wait_ends_on_time() {
        wake_on_time();
        let due = monotonic_ns() + 3_000_000;
        let mut now = monotonic_ns();
        while now < due {
            wait_for(due, now);
            now = monotonic_ns();
        }
        assert_eq!(sleep_ns(due, due + 1), 0);
        assert_eq!(sleep_ns(1_000_000_000, 0), LOOK_NS);
        assert_eq!(sleep_ns(1_000_000, 0), 950_000);
    }
}
