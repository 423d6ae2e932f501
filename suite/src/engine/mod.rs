//! Moves bytes and counts.
//!
//! [`run`] takes a [`Job`], plain numbers and open files, and returns a
//! [`Measurement`]. It allocates before the start line and not after
//! it; in the loop there is no lock, no formatting, no system call but the one that moves data,
//! and no branch that the job could have settled. Nothing here knows plans or expectations, or
//! where a file came from.
//!
//! What the figures mean:
//! - **Time line.** All workers start together; warm-up; the measured window; cool-down, during
//!   which the load goes on; then what is in flight is waited for. A job that ends after an
//!   amount, or with an `fsync`, has a window that closes when everything is done, the flush of
//!   every member included, and no cool-down.
//! - **Amount.** Exactly the bytes asked for, all workers together, rounded down to whole blocks
//!   and taken from when the window opens. Workers that have parts of the region for themselves
//!   have equal shares of it. A sequential load that reaches the end of its region starts over.
//! - **The flush at the end** is one I/O, which ends with the last member's.
//! - **Latency** is from just before an I/O's batch is handed to the kernel until just after it is
//!   reaped: the total that fio calls `lat`. An I/O that a stripe cuts into parts ends with its
//!   last part.
//! - **Failed I/Os** are counted wherever in the run they happen. They have no latency. After 1000
//!   of one worker the whole job ends early.
//! - **Stopping** ends the load at once: the window then ends there too.
//! - **I/Os that never return** end the run with an error when none has come back for 20 seconds,
//!   or for 10 after it was asked to stop. Their threads, buffers and files stay as they are.

mod access;
mod aio;
mod batch;
mod board;
mod buffer;
mod crew;
mod driver;
mod files;
mod flight;
mod footprint;
mod guard;
mod job;
mod last_flush;
mod meter;
mod offsets;
mod outcome;
mod pace;
#[doc(hidden)]
pub mod parts;
mod payload;
mod permutation;
mod probe;
mod requests;
mod seed;
mod series;
mod sim;
mod stripe;
mod sync;
mod tally;
mod trim;
mod uring;
pub mod verify;
mod watch;

#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use rayon::{ThreadPool, ThreadPoolBuilder};

use crate::measure::{CpuUse, Measurement};
use crate::os::cpu::Affinity;

use job::Patience;

pub use access::Access;
pub use footprint::Footprint;
pub use job::{
    Arrivals, Backend, Control, DeviceFile, EngineError, Flush, Job, Length, Mix, Pace, Payload,
    Progress, Rate, RingOptions, Storage, Target, WriteSync, parts_max, prefers_ring,
};
pub use probe::{ProbeResult, cannot_poll, probe, probe_libaio};

/// Threads that stay from job to job.
#[derive(Debug, Default)]
pub struct Engine {
    /// A pool for each number of workers that was asked for.
    pools: HashMap<u32, ThreadPool>,
    /// Where the program may run: where workers go that are not pinned.
    anywhere: Option<Affinity>,
}

impl Engine {
    /// One without any threads yet. Workers that are not pinned will run on the CPUs on which
    /// the calling thread of the first job may run.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Runs one job to its end, and calls `progress` on this thread about four times a second.
    ///
    /// # Panics
    /// With a job that makes no sense: whoever builds one has checked it.
    pub fn run(
        &mut self,
        job: &Job,
        control: &Control,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<Measurement, EngineError> {
        let (mut measured, cpu) =
            self.run_together(std::slice::from_ref(job), control, progress)?;
        let only = measured.pop().expect("there is one measurement for each job");
        Ok(Measurement { cpu, ..only })
    }

    /// Runs jobs side by side from one start line to their common end, on the storage of the
    /// first, and returns what each measured, and the processor time of all together. They have
    /// one time line, which ends after a time; their workers are their own, and so is the way to
    /// the kernel that is chosen for each.
    ///
    /// # Panics
    /// Without a job, and with jobs that make no sense, alone or beside each other: whoever builds
    /// them has checked that.
    pub fn run_together(
        &mut self,
        jobs: &[Job],
        control: &Control,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<(Vec<Measurement>, Option<CpuUse>), EngineError> {
        jobs.iter().for_each(assert_sound);
        assert_one_time_line(jobs);
        match &jobs[0].storage.target {
            Target::Simulated(disks) => Ok((sim::run(jobs, disks, control, progress), None)),
            Target::Files(files) => {
                let anywhere = self.anywhere()?;
                let workers = jobs.iter().map(|job| job.workers).sum();
                let outcome =
                    crew::run(self.pool(workers)?, anywhere, jobs, files, control, progress);
                if let Err(EngineError::Stuck { .. }) = outcome {
                    // Some of its threads may never come back; the others end with it.
                    self.pools.remove(&workers);
                }
                outcome.map(|(measured, cpu)| (measured, Some(cpu)))
            }
        }
    }

    fn anywhere(&mut self) -> Result<Affinity, EngineError> {
        if let Some(known) = self.anywhere {
            return Ok(known);
        }
        let asked = Affinity::of_this_thread().map_err(|error| EngineError::Workers {
            reason: format!("the kernel doesn't say on which CPUs they may run: {error}"),
        })?;
        Ok(*self.anywhere.insert(asked))
    }

    /// The pool of so many threads.
    fn pool(&mut self, workers: u32) -> Result<&ThreadPool, EngineError> {
        match self.pools.entry(workers) {
            Entry::Occupied(known) => Ok(known.into_mut()),
            Entry::Vacant(place) => {
                let pool = ThreadPoolBuilder::new()
                    .num_threads(workers as usize)
                    .thread_name(|number| format!("worker {number}"))
                    .build()
                    .map_err(|error| crew::no_threads(&error))?;
                Ok(place.insert(pool))
            }
        }
    }
}

/// Runs one job on threads of its own. For several jobs, an [`Engine`] keeps them.
///
/// # Panics
/// With a job that makes no sense: whoever builds one has checked it.
pub fn run(
    job: &Job,
    control: &Control,
    progress: &mut dyn FnMut(Progress),
) -> Result<Measurement, EngineError> {
    Engine::new().run(job, control, progress)
}

/// Asserts that jobs can run side by side.
fn assert_one_time_line(jobs: &[Job]) {
    let line = |job: &Job| (job.warmup, job.length, job.cooldown, job.series_interval);
    let same = jobs.iter().all(|job| line(job) == line(&jobs[0]));
    let ends = |job: &Job| matches!(job.length, Length::Time(_)) && !job.fsync_at_end;
    assert!(!jobs.is_empty() && same, "jobs side by side with time lines of their own");
    assert!(jobs.len() == 1 || jobs.iter().all(ends), "which of the jobs ends the others?");
}

/// Asserts what the fields of a job promise.
fn assert_sound(job: &Job) {
    let members = match &job.storage.target {
        Target::Files(files) => files.len(),
        Target::Simulated(disks) => disks.len(),
    };
    assert!(job.workers > 0 && job.queue_depth > 0, "a job without I/Os in flight");
    assert!(members > 0, "a job without storage");
    assert!(members == 1 || job.storage.chunk.is_some(), "{members} disks without a stripe");
    assert!(job.granularity.0 > 0 && !job.blocks.is_empty(), "a job without block sizes");
    assert!(job.blocks.iter().any(|mix| mix.weight > 0), "block sizes without shares");
    let region = offsets::Region::of(job, 0);
    for mix in &job.blocks {
        assert!((1..=u64::from(u32::MAX)).contains(&mix.block.0), "a block of {}", mix.block);
        assert!(mix.block.0 <= region.len, "a block of {} in {} bytes", mix.block, region.len);
    }
    assert!(!job.once || job.blocks.len() == 1, "each block once, of several sizes");
    let asks_of_ring = job.ring != RingOptions::default();
    assert!(!asks_of_ring || job.backend == Backend::IoUring, "asked of a ring, and no ring");
    let flushes = job.flush_every.is_some();
    assert!(!job.ring.polled || !job.trim && !flushes, "trims and flushes can't be polled for");
    let uniform = job.access == Access::Uniform;
    assert!(uniform || job.random && !job.once, "favoured places in a set order");
}
