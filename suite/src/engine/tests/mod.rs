//! Whole jobs: on the simulated disk, where the truth is known, and on real files.

mod access;
mod choices;
mod cost;
mod pace;
pub(super) mod real;
mod scale;
mod simulated;
mod stuck;
mod together;
mod trim;
mod verify;

use super::*;
use crate::model::DiskModel;
use crate::units::{Bytes, Nanos};

/// A job on one simulated disk: random reads of 4 KiB, one at a time.
pub(super) fn job() -> Job {
    Job {
        storage: Storage {
            target: Target::Simulated(vec![("disk".to_owned(), DiskModel::default())]),
            chunk: None,
            member_bytes: 1 << 30,
        },
        start: 0,
        len: 1 << 30,
        random: true,
        once: false,
        access: Access::Uniform,
        partitioned: false,
        read_percent: 100,
        trim: false,
        blocks: vec![Mix { block: Bytes(4096), weight: 1 }],
        granularity: Bytes(4096),
        queue_depth: 1,
        workers: 1,
        cpus: Vec::new(),
        pace: Pace::Closed,
        warmup: Nanos(0),
        length: Length::Time(Nanos(1_000_000_000)),
        cooldown: Nanos(0),
        write_sync: WriteSync::None,
        flush_every: None,
        fsync_at_end: false,
        payload: Payload::Random,
        verify: None,
        backend: Backend::Auto,
        ring: RingOptions::default(),
        seed: 1,
        series_interval: Nanos(100_000_000),
    }
}
