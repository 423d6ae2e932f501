//! The largest of everything: workers, depths, members of a stripe, sizes, and runtimes.

use std::collections::HashSet;
use std::fs::OpenOptions;
use std::sync::Arc;

use proptest::prelude::*;

use super::simulated::{fixed, measured, on};
use super::*;
use crate::engine::permutation::Permutation;
use crate::measure::IoKind;
use crate::testing::skip;

const MS: u64 = 1_000_000;

/// Larger than any device that there is: offsets are below.
const END: u64 = 1 << 63;

#[test]
fn a_million_ios_in_flight() {
    // Without optimisation that takes a minute or two, and each of the two by itself a second.
    let sizes: &[(u32, u32)] =
        if cfg!(debug_assertions) { &[(256, 32), (2, 4096)] } else { &[(256, 4096)] };
    for &(workers, depth) in sizes {
        let all = workers * depth;
        let mut model = fixed(MS);
        model.parallel = all;
        let mut job = on(model);
        (job.workers, job.queue_depth) = (workers, depth);
        job.length = Length::Time(Nanos(MS + 1));
        job.series_interval = Nanos(MS);
        let m = measured(&job);
        assert_eq!(m.completed(None), u64::from(all));
        assert_eq!((m.latency(None).min(), m.latency(None).max()), (Some(MS), Some(MS)));
        assert!((m.queue_depth_achieved - f64::from(all)).abs() < 1e-6);
        assert_eq!(m.workers.len(), workers as usize);
        assert!(m.workers.iter().all(|worker| worker.completed == u64::from(depth)));
    }
}

#[test]
fn a_stripe_of_128_members_up_to_the_last_byte_that_there_can_be() {
    let chunk = 64 << 10;
    let disks = (0..128).map(|number| (format!("disk.{number}"), fixed(1000)));
    let mut job = job();
    job.storage = Storage {
        target: Target::Simulated(disks.collect()),
        chunk: Some(Bytes(chunk)),
        member_bytes: END / 128,
    };
    (job.random, job.read_percent, job.queue_depth) = (false, 0, 64);
    // Three rows of chunks at the very end, in blocks that cross a border each.
    job.len = 128 * chunk * 3;
    job.start = END - job.len;
    job.blocks = vec![Mix { block: Bytes(2 * chunk), weight: 1 }];
    job.granularity = Bytes(2 * chunk);
    job.length = Length::Bytes(Bytes(job.len));
    let m = measured(&job);
    assert_eq!((m.bytes(None), m.faults.len()), (job.len, 0));
    assert_eq!(m.members.len(), 128);
    assert!(m.members.iter().all(|member| member.bytes == 3 * chunk));
}

#[test]
fn a_month_has_a_series_that_is_no_longer_than_others() {
    let mut model = fixed(MS);
    model.iops_cap = Some(0.01);
    let mut job = on(model);
    let month = 720 * 3600 * 1000 * MS;
    (job.length, job.series_interval) = (Length::Time(Nanos(month)), Nanos(10 * MS));
    let m = measured(&job);
    assert!(m.completed(None) > 25_000);
    assert_eq!(m.series.completed.iter().sum::<u64>(), m.completed(None));
    assert!(m.series.completed.len() <= 1 << 14, "{} intervals", m.series.completed.len());
    assert_eq!(m.series.window_ns, Nanos(month));
}

#[test]
fn many_workers_and_great_depths_on_the_null_device() {
    let test = "many_workers_and_great_depths_on_the_null_device";
    let null = OpenOptions::new().read(true).write(true).open("/dev/null").unwrap();
    let null = Arc::new(null);
    let (ring, libaio) = (probe().reason, probe_libaio().reason);
    for (backend, workers, depth, reason) in [
        (Backend::IoUring, 256, 16, &ring),
        (Backend::IoUring, 4, 4096, &ring),
        // Of asynchronous I/Os there are 65,536 by default, for all processes together.
        (Backend::Libaio, 32, 64, &libaio),
        (Backend::Libaio, 1, 4096, &libaio),
        (Backend::Sync, 256, 1, &None),
    ] {
        if let Some(reason) = reason {
            skip(test, &format!("{backend:?} can't be used"), reason);
            continue;
        }
        let device = |number: u32| DeviceFile {
            name: format!("null.{number}"),
            file: Arc::clone(&null),
            memory_align: 1,
            offset_align: 1,
        };
        let mut job = job();
        job.storage = Storage {
            target: Target::Files((0..128).map(device).collect()),
            chunk: Some(Bytes(4096)),
            member_bytes: END / 128,
        };
        (job.start, job.len) = (END / 2, END / 2);
        (job.backend, job.workers, job.queue_depth) = (backend, workers, depth);
        (job.read_percent, job.payload) = (0, Payload::Zero);
        job.length = Length::Time(Nanos(100 * MS));
        let m = run(&job, &Control::default(), &mut |_| {}).unwrap();
        assert!(m.faults.is_empty(), "{:?}", m.faults);
        assert!(m.completed(Some(IoKind::Write)) > 0);
        assert_eq!(m.workers.len(), workers as usize);
        let bytes: u64 = m.members.iter().map(|member| member.bytes).sum();
        assert_eq!(bytes, m.bytes(None));
        assert!(m.queue_depth_achieved <= f64::from(workers * depth));
    }
}

fn any_order() -> impl Strategy<Value = (bool, bool, Access)> {
    prop_oneof![
        Just((false, false, Access::Uniform)),
        Just((true, true, Access::Uniform)),
        Just((true, false, Access::Uniform)),
        (0.01_f64..10.0).prop_map(|theta| (true, false, Access::Zipf(theta))),
        (0.01_f64..=0.5).prop_map(|share| (true, false, Access::Pareto(share))),
        (0.1_f64..=100.0).prop_map(|percent| (true, false, Access::Normal(percent))),
        (1_u8..=99, 1_u8..=99).prop_map(|(ios, region)| (true, false, Access::Hot { ios, region })),
    ]
}

proptest! {
    #[test]
    fn no_offset_is_out_of_the_region_however_large(
        (random, once, access) in any_order(), seed: u64, shift in 9_u32..31,
        blocks in prop_oneof![64_u64..4096, 64_u64..1 << 30, 1_u64 << 50..1 << 54],
        partitioned: bool,
    ) {
        let block = 1_u64 << shift;
        let mut job = job();
        job.len = (blocks.min(END >> shift)) << shift;
        // The region ends where offsets do.
        job.start = END - job.len;
        job.blocks = vec![Mix { block: Bytes(block), weight: 1 }];
        job.granularity = Bytes(block);
        (job.random, job.once, job.access, job.seed) = (random, once, access, seed);
        (job.workers, job.partitioned, job.read_percent) = (64, partitioned, 50);
        for worker in [0, 1, 63] {
            let mut out = [crate::engine::parts::Request::FLUSH; 64];
            let shared = crate::engine::offsets::Positions::default();
            crate::engine::requests::source(&job, worker, &shared).fill(&mut out);
            for request in out {
                prop_assert_eq!(request.offset % block, 0);
                prop_assert!(request.offset >= job.start);
                prop_assert!(request.offset <= END - u64::from(request.len));
            }
        }
    }

    #[test]
    fn a_permutation_of_any_count_repeats_nothing(
        count in prop_oneof![1_u64..5000, 1_u64..1 << 40, 1_u64 << 53..END], seed: u64, start: u64,
    ) {
        let order = Permutation::new(count, seed);
        let some = count.min(2000);
        let first = start % (count - some + 1);
        let values: HashSet<u64> = (first..first + some).map(|index| order.at(index)).collect();
        prop_assert_eq!(values.len() as u64, some);
        prop_assert!(values.iter().all(|value| *value < count));
    }
}
