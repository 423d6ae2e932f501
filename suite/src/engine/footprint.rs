//! How much memory a job takes, told before it starts: nothing of it grows while it runs.

use super::buffer::Layout;
use crate::engine::{Backend, Job, Target};
use crate::units::Bytes;

/// What the program takes whatever the job: itself, its libraries, reports.
const PROGRAM: u64 = 8 << 20;

/// What a worker takes for its counts, its series, its histograms and its stack.
const WORKER: u64 = 416 << 10;

/// What it takes for each I/O in flight.
const IN_FLIGHT: u64 = 88;
/// And besides, where I/Os are due at times of their own, or are verified and may have to wait.
const WITH_CARE: u64 = 40;

/// What it takes for each part of one, with its completion in a ring, or in `libaio`'s queues.
const PART: u64 = 64;
const PART_BY_LIBAIO: u64 = 64 + 192;

/// The most memory that a job takes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Footprint {
    /// The buffers of the I/Os in flight.
    pub buffers: Bytes,
    /// All else but the table of a job that verifies: 8 MiB, and about one for each worker. Depths
    /// of thousands in stripes, or by `libaio`, take more.
    pub beside: Bytes,
}

impl Footprint {
    /// That of jobs that run side by side: the program is there once.
    #[must_use]
    pub fn of(jobs: &[Job]) -> Self {
        let mut sum = Self { buffers: Bytes(0), beside: Bytes(PROGRAM) };
        for job in jobs {
            let workers = u64::from(job.workers);
            let (align, members) = match &job.storage.target {
                Target::Files(files) => {
                    (files.iter().map(|file| file.memory_align).fold(1, usize::max), files.len())
                }
                Target::Simulated(disks) => (1, disks.len()),
            };
            let part = if job.backend == Backend::IoUring { PART } else { PART_BY_LIBAIO };
            let parts = job.parts_max(members) as u64;
            let careful = job.verify.is_some() || job.pace != super::Pace::Closed;
            let each = IN_FLIGHT + if careful { WITH_CARE } else { 0 } + parts * part;
            let buffers = Layout::of(job, align).bytes() as u64;
            sum.buffers.0 += buffers.saturating_mul(workers);
            // Those that are in one of these wait for the next job: never less than a whole one.
            let worker = (WORKER + u64::from(job.queue_depth) * each).max(1 << 20);
            sum.beside.0 += worker * workers;
        }
        sum
    }
}
