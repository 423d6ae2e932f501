//! From a case of the plan to a job of the engine: names become numbers.

use std::sync::Arc;

use crate::engine::verify::Generations;
use crate::engine::{
    Access as Places, Arrivals, Backend, Flush, Job, Length, Mix, Pace, Payload, Progress, Rate,
    RingOptions, Storage, WriteSync,
};
use crate::plan::{
    self, Access, Cache, Data, Extent, Layout, Limit, Pace as Tempo, Sync, ThinkTime, Workload,
};
use crate::units::{Bytes, Nanos, Percent};

/// The job for one round of a load on `storage`, whose capacity is `capacity_bytes`.
///
/// # Errors
/// When the case's region holds not one block there, in words: the plan could not know the size
/// of a bound disk.
pub(super) fn job(
    workload: &Workload,
    storage: Storage,
    capacity_bytes: u64,
    backend: Backend,
    seed: u64,
    verify: Option<Arc<Generations>>,
) -> Result<Job, String> {
    let region = region(workload, capacity_bytes)?;
    Ok(Job {
        storage,
        start: region.start,
        len: region.len,
        random: workload.rw.is_random(),
        once: workload.once,
        access: match workload.access {
            Access::Uniform => Places::Uniform,
            Access::Zipf(theta) => Places::Zipf(theta),
            Access::Pareto(share) => Places::Pareto(share),
            Access::Normal(percent) => Places::Normal(percent),
            Access::Hot { ios, region } => Places::Hot { ios: ios.0, region: region.0 },
        },
        partitioned: workload.layout == Layout::Partitioned,
        read_percent: workload.read_percent.0,
        trim: workload.trims(),
        blocks: workload.blocks.0.iter().map(|&(block, weight)| Mix { block, weight }).collect(),
        granularity: workload.blocks.smallest(),
        queue_depth: workload.queue_depth,
        workers: workload.workers,
        cpus: workload.cpus.clone(),
        pace: pace(workload),
        warmup: workload.warmup,
        length: match workload.limit {
            Limit::Runtime(time) => Length::Time(time),
            Limit::Amount(bytes) => Length::Bytes(bytes),
        },
        cooldown: workload.cooldown,
        write_sync: match workload.sync {
            Sync::None => WriteSync::None,
            Sync::Dsync => WriteSync::Dsync,
            Sync::Sync => WriteSync::Sync,
        },
        flush_every: workload.flush.map(|flush| {
            (flush.writes, if flush.data_only { Flush::Fdatasync } else { Flush::Fsync })
        }),
        fsync_at_end: workload.fsync_at_end,
        payload: match workload.data {
            Data::Random => Payload::Random,
            Data::Zero => Payload::Zero,
            Data::Compressible(Percent(share)) => Payload::Compressible(share),
            Data::Duplicate(Percent(share)) => Payload::Duplicate(share),
        },
        verify,
        backend,
        ring: RingOptions { polled: workload.hipri, kernel_thread: workload.sqpoll },
        seed,
        series_interval: series_interval(workload),
    })
}

fn pace(workload: &Workload) -> Pace {
    match workload.pace {
        Tempo::Closed => Pace::Closed,
        Tempo::Open { rate, arrivals, max_lateness } => Pace::Open {
            rate: match rate {
                plan::Rate::Iops(rate) => Rate::Ios(rate),
                plan::Rate::Bandwidth(rate) => Rate::Bytes(rate),
            },
            arrivals: match arrivals {
                plan::Arrivals::Even => Arrivals::Even,
                plan::Arrivals::Poisson => Arrivals::Poisson,
            },
            max_lateness,
        },
        Tempo::Think(ThinkTime { pause, after }) => Pace::Think { pause, after },
    }
}

/// Where a workload works on a setup of `capacity_bytes`: room for a block of each worker.
fn region(workload: &Workload, capacity_bytes: u64) -> Result<Extent, String> {
    let (smallest, largest) = (workload.blocks.smallest().0, workload.blocks.largest());
    let capacity = Bytes(capacity_bytes);
    let region = workload.region.on(capacity_bytes, smallest);
    let region = region.filter(|region| region.len >= largest.0).ok_or_else(|| {
        format!(
            "the workload's region does not fit the setup, which has {capacity} and needs room \
             for at least one block of {largest}: mend `offset` and `size`, or bind a larger disk"
        )
    })?;
    let workers = workload.workers;
    let parted = workload.layout == Layout::Partitioned;
    if parted && region.part_len(workers, smallest) < largest.0 {
        return Err(format!(
            "a part of the setup, which has {capacity}, for each of {workers} workers holds no \
             block of {largest}: take fewer `workers`, or bind a larger disk"
        ));
    }
    Ok(region)
}

/// Whether a case passes the page cache by.
pub(super) fn is_direct(workload: &Workload) -> bool {
    workload.cache == Cache::Direct
}

/// Whether each round of a case starts on a new file, where its disks are directories: what a
/// sequential write with an end does when a person copies a file.
pub(super) fn wants_fresh_file(workload: &Workload) -> bool {
    let sequential_writer = workload.writes() && !workload.reads() && !workload.rw.is_random();
    sequential_writer && matches!(workload.limit, Limit::Amount(_))
}

/// Seed of one round. It depends on the workload and the round, not on the setup: what is
/// compared with each other meets the same sequence of requests.
pub(super) fn round_seed(workload_seed: u64, round: u32) -> u64 {
    // splitmix64, Steele, Lea and Flood 2014: neighbouring inputs give unrelated outputs.
    let mut z = workload_seed.wrapping_add(u64::from(round).wrapping_mul(0x9E37_79B9_7F4A_7C15));
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

/// The seed of one of several streams of a round. The first has the round's own.
pub(super) fn stream_seed(seed: u64, stream: usize) -> u64 {
    // The golden ratio's bits are a distance that no round is apart by.
    seed ^ (stream as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15)
}

/// How long a case is expected to run: its whole timeline, or an amount at a modest 200 MB/s.
pub(super) fn expected_time(workload: &Workload) -> Nanos {
    let measured = match workload.limit {
        Limit::Runtime(time) => time.0,
        Limit::Amount(bytes) => bytes.0.saturating_mul(5),
    };
    Nanos(measured.saturating_add(workload.warmup.0).saturating_add(workload.cooldown.0))
}

/// How long a round takes from start to end; `None` where it ends after an amount.
pub(super) fn known_time(workload: &Workload) -> Option<Nanos> {
    matches!(workload.limit, Limit::Runtime(_)).then(|| expected_time(workload))
}

/// The share of a round that is done, 0 to 1: of its time, or of its amount.
pub(super) fn share_done(workload: &Workload, progress: &Progress) -> f64 {
    let (done, whole) = match workload.limit {
        Limit::Runtime(_) => (progress.elapsed.0, expected_time(workload).0),
        Limit::Amount(bytes) => (progress.bytes_measured, bytes.0),
    };
    (done as f64 / (whole as f64).max(1.0)).min(1.0)
}

/// About two hundred points for a chart, in a round length of time between 10 ms and a minute.
fn series_interval(workload: &Workload) -> Nanos {
    const STEPS_MS: [u64; 10] = [10, 20, 50, 100, 200, 500, 1_000, 5_000, 10_000, 60_000];
    let measured = match workload.limit {
        Limit::Runtime(time) => time.0,
        Limit::Amount(_) => expected_time(workload).0,
    };
    let wanted_ms = measured / 200 / 1_000_000;
    let step_ms = STEPS_MS.into_iter().find(|step| *step >= wanted_ms).unwrap_or(60_000);
    Nanos(step_ms * 1_000_000)
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::diag::Source;

    /// A workload that reads a device at random, with these keys.
    pub(in crate::session) fn workload(keys: &str) -> Workload {
        let text = format!(
            "name = 'one'\ndisks.single = {{ device = '/dev/sda' }}\n\
             setups.single = {{ disks = ['single'] }}\n[[expect]]\ncase = '*'\n\
             that = 'errors = 0'\n[workloads.read]\nrw = 'randread'\n{keys}\n"
        );
        let source = Source { name: "one.toml".to_owned(), text };
        let plan = plan::parse(&source).and_then(|raw| plan::check(&raw, None));
        plan.expect("a sound plan").cases.remove(0).workload
    }

    #[test]
    fn a_bound_disk_too_small_for_the_parts_of_its_workers_is_said_and_no_job() {
        let workload = &workload(
            "block_size = { '8KiB' = 50, '12KiB' = 50 }\nworkers = 2\nlayout = 'partitioned'",
        );
        // 24 KiB are 3 blocks of 8 KiB: one for each worker, and none takes the 12 KiB.
        let told = region(workload, 24 << 10).unwrap_err();
        assert!(told.starts_with("a part of the setup, which has 24KiB, for each of 2"), "{told}");
        assert!(region(workload, 8 << 10).unwrap_err().starts_with("the workload's region does"));
        assert_eq!(region(workload, 32 << 10), Ok(Extent { start: 0, len: 32 << 10 }));
    }

    #[test]
    fn a_round_is_as_far_as_its_time_or_its_amount() {
        let progress = Progress {
            elapsed: Nanos(3_000_000_000),
            measuring: true,
            completed: 0,
            bytes: 0,
            since_last: Nanos(0),
            bytes_measured: 1 << 20,
            p99_ns: None,
            read_back: None,
        };
        let done = |keys| share_done(&workload(keys), &progress);
        assert!((done("runtime = '2s'\nwarmup = '2s'") - 0.75).abs() < 1e-9);
        assert!((done("runtime = '2s'") - 1.0).abs() < 1e-9, "it is late");
        assert!((done("amount = '4MiB'") - 0.25).abs() < 1e-9);
    }

    #[test]
    fn rounds_have_seeds_of_their_own() {
        let mut seeds: Vec<_> = (1..=1000).map(|round| round_seed(42, round)).collect();
        seeds.extend((1..=1000).map(|round| round_seed(43, round)));
        seeds.sort_unstable();
        seeds.dedup();
        assert_eq!(seeds.len(), 2000);
    }
}
