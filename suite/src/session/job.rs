//! From a case of the plan to a job of the engine: names become numbers.

use crate::engine::{Backend, Flush, Job, Length, Mix, Payload, Storage, WriteSync};
use crate::plan::{Cache, Case, Data, Layout, Limit, Sync, Workload};
use crate::units::{Bytes, Nanos, Percent};

/// The job for one round of `case` on `storage`, whose capacity is `capacity_bytes`.
///
/// # Errors
/// When the case's region holds not one block there, in words: the plan could not know the size
/// of a bound disk.
pub(super) fn job(
    case: &Case,
    storage: Storage,
    capacity_bytes: u64,
    backend: Backend,
    seed: u64,
) -> Result<Job, String> {
    let workload = &case.workload;
    let largest = workload.blocks.largest();
    let region = workload.region.on(capacity_bytes, workload.blocks.smallest().0);
    let region = region.filter(|region| region.len >= largest.0);
    let region = region.ok_or_else(|| {
        format!(
            "the workload's region does not fit the setup, which has {} and needs room for at \
             least one block of {}: mend `offset` and `size`, or bind a larger disk",
            Bytes(capacity_bytes),
            largest,
        )
    })?;
    Ok(Job {
        storage,
        start: region.start,
        len: region.len,
        random: workload.rw.is_random(),
        once: workload.once,
        partitioned: workload.layout == Layout::Partitioned,
        read_percent: workload.read_percent.0,
        blocks: workload.blocks.0.iter().map(|&(block, weight)| Mix { block, weight }).collect(),
        granularity: workload.blocks.smallest(),
        queue_depth: workload.queue_depth,
        workers: workload.workers,
        cpus: workload.cpus.clone(),
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
        backend,
        seed,
        series_interval: series_interval(workload),
    })
}

/// Whether a case passes the page cache by.
pub(super) fn is_direct(workload: &Workload) -> bool {
    workload.cache == Cache::Direct
}

/// Whether each round of a case starts on a new file, where its disks are directories: what a
/// sequential write with an end does when a person copies a file.
pub(super) fn wants_fresh_file(workload: &Workload) -> bool {
    let sequential_writer = !workload.reads() && !workload.rw.is_random();
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

/// How long a case is expected to run: its whole timeline, or an amount at a modest 200 MB/s.
pub(super) fn expected_time(workload: &Workload) -> Nanos {
    let measured = match workload.limit {
        Limit::Runtime(time) => time.0,
        Limit::Amount(bytes) => bytes.0.saturating_mul(5),
    };
    Nanos(measured.saturating_add(workload.warmup.0).saturating_add(workload.cooldown.0))
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
mod tests {
    use super::*;

    #[test]
    fn rounds_have_seeds_of_their_own() {
        let mut seeds: Vec<_> = (1..=1000).map(|round| round_seed(42, round)).collect();
        seeds.extend((1..=1000).map(|round| round_seed(43, round)));
        seeds.sort_unstable();
        seeds.dedup();
        assert_eq!(seeds.len(), 2000);
    }
}
