//! Whole jobs on simulated disks, where the truth is known.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use super::*;
use crate::engine::seed::{Stream, sub_seed};
use crate::measure::{Histogram, IoKind};
use crate::model::{Disk, ErrorOdds, Latency, Operation, Stall};
use crate::units::Percentile;

const MS: u64 = 1_000_000;

pub(super) fn fixed(ns: u64) -> DiskModel {
    let latency = Latency::Fixed(Nanos(ns));
    DiskModel {
        read: latency.clone(),
        write: latency.clone(),
        trim: None,
        flush: latency,
        ns_per_byte: 0.0,
        iops_cap: None,
        bandwidth_cap: None,
        parallel: 1024,
        errors: Vec::new(),
        stalls: Vec::new(),
    }
}

pub(super) fn on(model: DiskModel) -> Job {
    let mut job = job();
    job.storage.target = Target::Simulated(vec![("disk".to_owned(), model)]);
    job
}

pub(super) fn measured(job: &Job) -> Measurement {
    run(job, &Control::default(), &mut |_| {}).unwrap()
}

fn seconds(seconds: u64) -> Length {
    Length::Time(Nanos(seconds * 1000 * MS))
}

/// |X * R - L| / L: Little's law for what was measured.
fn little(m: &Measurement) -> f64 {
    let rate = m.completed(None) as f64 / m.duration_ns.as_secs();
    let time = m.latency(None).mean().unwrap() / 1e9;
    (rate * time - m.queue_depth_achieved).abs() / m.queue_depth_achieved
}

#[test]
fn a_fixed_latency_is_measured_exactly() {
    let mut job = on(fixed(100_000));
    job.queue_depth = 4;
    let m = measured(&job);
    let latency = m.latency(None);
    assert_eq!((latency.min(), latency.max()), (Some(100_000), Some(100_000)));
    assert_eq!(latency.percentile(Percentile(990_000)), Some(100_000));
    // The last four complete at the first nanosecond after the window.
    assert_eq!(m.completed(None), 4 * 10_000 - 4);
    assert_eq!(m.bytes(None), 4096 * (4 * 10_000 - 4));
    assert!((m.queue_depth_achieved - 4.0).abs() < 1e-9);
    assert_eq!(m.duration_ns, Nanos(1000 * MS));
    assert_eq!((m.cpu, m.device), (None, None));
    assert_eq!((m.backend.name.as_str(), m.faults.len()), ("sim", 0));
    assert_eq!(m.series.completed.iter().sum::<u64>(), m.completed(None));
    assert_eq!(m.series.bytes.iter().sum::<u64>(), m.bytes(None));
    assert_eq!(m.series.completed.len(), 10);
}

#[test]
fn percentiles_are_those_of_the_samples_drawn() {
    let models = [
        Latency::LogNormal { median: Nanos(80_000), sigma: 0.8 },
        Latency::Uniform { low: Nanos(10_000), high: Nanos(90_000) },
        Latency::Table(vec![(0.5, Nanos(50_000)), (0.99, Nanos(90_000)), (1.0, Nanos(5_000_000))]),
    ];
    for read in models {
        let job = on(DiskModel { read, ..fixed(1) });
        let Target::Simulated(disks) = &job.storage.target else { unreachable!() };
        // One at a time and without caps, the disk's own stream gives the same latencies.
        let mut disk = Disk::new(disks[0].1.clone(), sub_seed(job.seed, Stream::Disk, 0));
        let (mut now, mut samples) = (0, Vec::new());
        while now < 1000 * MS {
            let end = disk.serve(Nanos(now), Operation::Read, 4096).at.0;
            samples.push(end - now);
            now = end;
        }
        samples.sort_unstable();
        let latency = measured(&job).latency(None);
        assert_eq!(latency.count(), samples.len() as u64);
        for percentile in [500_000, 900_000, 990_000, 999_000].map(Percentile) {
            let truth = samples[percentile.rank(latency.count()) as usize - 1];
            let found = latency.percentile(percentile).unwrap();
            assert!(found >= truth && found - truth <= truth / 256, "{found} for {truth}");
        }
    }
}

#[test]
fn caps_hold_and_littles_law_with_them() {
    for (depth, workers) in [(256, 1), (32, 8)] {
        let mut job = on(DiskModel { iops_cap: Some(5140.0), ..DiskModel::default() });
        (job.queue_depth, job.workers, job.length) = (depth, workers, seconds(10));
        job.warmup = Nanos(100 * MS);
        let m = measured(&job);
        let iops = m.completed(None) as f64 / 10.0;
        assert!((iops / 5140.0 - 1.0).abs() < 0.001, "{iops}");
        assert!((m.queue_depth_achieved - 256.0).abs() < 0.01, "{}", m.queue_depth_achieved);
        assert!(little(&m) < 0.01, "{}", little(&m));
        // Depth beyond the cap shows as latency.
        let mean = m.latency(None).mean().unwrap() / 1e9;
        assert!((mean / (256.0 / 5140.0) - 1.0).abs() < 0.01, "{mean}");
    }
    let mut job = on(DiskModel { bandwidth_cap: Some(68e6), ..DiskModel::default() });
    (job.queue_depth, job.read_percent, job.length) = (16, 0, seconds(5));
    let m = measured(&job);
    let bandwidth = m.bytes(Some(IoKind::Write)) as f64 / 5.0;
    assert!((bandwidth / 68e6 - 1.0).abs() < 0.001, "{bandwidth}");
}

#[test]
fn littles_law_holds_without_caps() {
    for depth in [1, 8, 64] {
        let mut job = on(DiskModel::default());
        (job.queue_depth, job.read_percent) = (depth, 70);
        let m = measured(&job);
        assert!(little(&m) < 0.01, "{} at {depth}", little(&m));
    }
}

#[test]
fn the_same_job_gives_the_same_bytes() {
    let mut job = on(DiskModel::default());
    (job.queue_depth, job.workers, job.read_percent) = (8, 3, 50);
    job.flush_every = Some((100, Flush::Fsync));
    let text = |job: &Job| serde_json::to_string(&measured(job)).unwrap();
    let first = text(&job);
    assert_eq!(first, text(&job));
    assert_eq!(serde_json::from_str::<Measurement>(&first).unwrap(), measured(&job));
    job.seed += 1;
    assert_ne!(first, text(&job));
}

#[test]
fn warm_up_and_cool_down_are_not_counted() {
    let mut job = on(fixed(MS));
    (job.warmup, job.cooldown) = (Nanos(500 * MS), Nanos(300 * MS));
    let m = measured(&job);
    // Completions at 500 ms to 1499 ms; starts likewise.
    assert_eq!((m.completed(None), m.latency(None).count()), (1000, 1000));
    assert_eq!(m.duration_ns, Nanos(1000 * MS));
    assert_eq!(m.series.completed, [100; 10]);
    assert!((m.queue_depth_achieved - 1.0).abs() < 1e-9);
}

#[test]
fn a_stall_over_the_end_is_not_lost() {
    let stall = Stall { at: Nanos(999 * MS + 1), length: Nanos(5000 * MS) };
    let mut job = on(DiskModel { stalls: vec![stall], ..fixed(2 * MS) });
    job.queue_depth = 3;
    let m = measured(&job);
    assert_eq!(m.latency(None).max(), Some(5002 * MS));
    let difference = m.latency(None).count() - m.completed(None);
    assert_eq!(difference, 3);
    assert_eq!(m.duration_ns, Nanos(1000 * MS));
}

#[test]
fn a_stall_within_is_one_slow_io_and_silence() {
    let stall = Stall { at: Nanos(300 * MS), length: Nanos(250 * MS) };
    let m = measured(&on(DiskModel { stalls: vec![stall], ..fixed(10 * MS - 1) }));
    assert_eq!(m.series.completed[3..5], [0, 0]);
    assert_eq!(m.latency(None).max(), Some(260 * MS - 1));
}

#[test]
fn an_amount_is_moved_exactly_and_timed_to_its_last_io() {
    let mut job = on(fixed(MS));
    job.length = Length::Bytes(Bytes(4096 * 1001 + 100));
    (job.queue_depth, job.workers, job.random) = (5, 2, false);
    job.warmup = Nanos(50 * MS);
    let m = measured(&job);
    assert_eq!(m.completed(None), 1001);
    assert_eq!(m.latency(None).count(), 1001);
    assert_eq!(m.bytes(None), 4096 * 1001);
    // Ten at a time of 1 ms each; those of the warm-up end as the window opens.
    assert_eq!(m.duration_ns, Nanos(101 * MS));
    assert_eq!(m.series.completed.iter().sum::<u64>(), 1001);
    assert_eq!(m.series.window_ns, m.duration_ns);
}

#[test]
fn the_time_of_the_drain_is_told() {
    let mut job = on(DiskModel { parallel: 1, ..fixed(MS) });
    (job.queue_depth, job.length) = (500, Length::Time(Nanos(100 * MS)));
    let m = measured(&job);
    // 500 in flight at the end, one a millisecond.
    assert_eq!((m.completed(None), m.drain_ns), (99, Nanos(499 * MS)));
    job.length = Length::Bytes(Bytes(4096));
    assert_eq!(measured(&job).drain_ns, Nanos(0));
}

#[test]
fn a_flush_at_the_end_is_in_the_time() {
    let mut job = on(DiskModel { flush: Latency::Fixed(Nanos(70 * MS)), ..fixed(MS) });
    (job.read_percent, job.fsync_at_end) = (0, true);
    job.length = Length::Bytes(Bytes(4096 * 30));
    let m = measured(&job);
    assert_eq!(m.duration_ns, Nanos(100 * MS));
    assert_eq!((m.kinds.sync.completed, m.kinds.write.completed), (1, 30));
    assert_eq!(m.kinds.sync.latency_ns.max(), Some(70 * MS));
    // By time: the load ends at 1 s, the window when the last write and the flush are done.
    job.length = Length::Time(Nanos(1000 * MS));
    job.cooldown = Nanos(1000 * MS);
    let m = measured(&job);
    assert_eq!(m.duration_ns, Nanos(1070 * MS));
    assert_eq!(m.kinds.write.completed, 1000);
}

#[test]
fn flushes_are_counted_apart() {
    let mut job = on(DiskModel { flush: Latency::Fixed(Nanos(5 * MS)), ..fixed(MS) });
    (job.read_percent, job.flush_every) = (0, Some((5, Flush::Fdatasync)));
    let m = measured(&job);
    assert_eq!((m.kinds.write.completed, m.kinds.sync.completed), (500, 99));
    assert_eq!(m.kinds.sync.latency_ns.min(), Some(5 * MS));
    assert_eq!(m.completed(None), 500);
    assert_eq!(m.series.completed.iter().sum::<u64>(), 500);
}

#[test]
fn write_through_waits_for_the_medium() {
    let mut job = on(DiskModel { flush: Latency::Fixed(Nanos(3 * MS)), ..fixed(MS) });
    (job.read_percent, job.write_sync) = (50, WriteSync::Dsync);
    let m = measured(&job);
    let of = |kind| {
        let latency: &Histogram = &m.kinds[kind].latency_ns;
        (latency.min(), latency.max())
    };
    assert_eq!(of(IoKind::Read), (Some(MS), Some(MS)));
    assert_eq!(of(IoKind::Write), (Some(4 * MS), Some(4 * MS)));
    assert_eq!(m.kinds.sync.completed, 0);
}

#[test]
fn failures_are_counted_and_have_no_latency() {
    let error = ErrorOdds { operation: Operation::Read, odds: 0.01, errno: 5 };
    let mut job = on(DiskModel { errors: vec![error], ..fixed(MS / 10) });
    job.read_percent = 60;
    let m = measured(&job);
    let failed = m.errors(Some(IoKind::Read));
    assert!((30..90).contains(&failed), "60 of 6000 expected: {failed}");
    assert_eq!((m.faults.len(), m.faults[0].errno), (1, 5));
    assert_eq!(m.faults[0].disk, "disk");
    assert_eq!(m.errors(None), failed);
    // All but the one in flight at the end are either.
    assert_eq!(m.completed(None) + failed, 9999);
    assert_eq!(m.latency(None).count() + failed, 10_000);
}

#[test]
fn a_disk_that_always_fails_ends_the_job_early() {
    let error = ErrorOdds { operation: Operation::Read, odds: 1.0, errno: 5 };
    let mut job = on(DiskModel { errors: vec![error], ..fixed(1000) });
    (job.queue_depth, job.workers, job.length) = (4, 2, seconds(3600));
    let m = measured(&job);
    let errors = m.errors(None);
    assert!((1000..2 * 1000 + 8).contains(&errors), "{errors}");
    assert_eq!((m.completed(None), m.latency(None).count()), (0, 0));
    assert!(m.duration_ns.0 < MS);
}

#[test]
fn a_stopped_job_returns_what_there_is() {
    let stop = Arc::new(AtomicBool::new(true));
    let mut job = on(fixed(MS));
    (job.length, job.queue_depth, job.fsync_at_end) = (seconds(3600), 64, false);
    let m = run(&job, &Control::new(stop.clone()), &mut |_| {}).unwrap();
    // The simulation looks up every 4096 events.
    assert!((4000..5000).contains(&m.completed(None)), "{}", m.completed(None));
    assert_eq!(m.duration_ns, Nanos(64 * MS));
    // In the warm-up there is nothing yet.
    job.warmup = Nanos(3_600_000 * MS);
    let m = run(&job, &Control::new(stop), &mut |_| {}).unwrap();
    assert_eq!((m.completed(None), m.latency(None).count(), m.duration_ns), (0, 0, Nanos(0)));
    assert_eq!(m.series.completed.len(), 0);
    assert!(m.queue_depth_achieved.abs() < 1e-9);
}

fn stripe(members: usize, block: u64) -> Job {
    let mut job = job();
    let disks = (0..members).map(|number| (format!("data.{number}"), fixed(MS)));
    job.storage.target = Target::Simulated(disks.collect());
    job.storage.chunk = Some(Bytes(65_536));
    (job.granularity, job.random) = (Bytes(block), false);
    job.blocks = vec![Mix { block: Bytes(block), weight: 1 }];
    job
}

#[test]
fn a_stripe_shares_the_load_among_its_members() {
    let mut job = stripe(4, 65_536);
    job.length = Length::Bytes(Bytes(65_536 * 400));
    let m = measured(&job);
    let names: Vec<&str> = m.members.iter().map(|share| share.name.as_str()).collect();
    assert_eq!(names, ["data.0", "data.1", "data.2", "data.3"]);
    assert!(m.members.iter().all(|share| share.completed == 100));
    assert_eq!(m.members.iter().map(|share| share.bytes).sum::<u64>(), m.bytes(None));
    assert_eq!(m.workers[0].completed, 400);
}

#[test]
fn an_io_over_several_chunks_ends_with_its_last_part() {
    let mut job = stripe(3, 196_608);
    let Target::Simulated(disks) = &mut job.storage.target else { unreachable!() };
    disks[1].1 = fixed(9 * MS);
    job.length = Length::Bytes(Bytes(196_608 * 50));
    let m = measured(&job);
    assert_eq!((m.completed(None), m.duration_ns), (50, Nanos(450 * MS)));
    let latency = m.latency(None);
    assert_eq!((latency.min(), latency.max()), (Some(9 * MS), Some(9 * MS)));
    assert!(m.members.iter().all(|share| share.completed == 50));
}

#[test]
fn one_bad_member_fails_its_ios_alone() {
    let mut job = stripe(4, 65_536);
    let Target::Simulated(disks) = &mut job.storage.target else { unreachable!() };
    disks[2].1.errors = vec![ErrorOdds { operation: Operation::Read, odds: 1.0, errno: 5 }];
    job.length = Length::Bytes(Bytes(65_536 * 400));
    let m = measured(&job);
    assert_eq!((m.errors(None), m.completed(None)), (100, 300));
    assert_eq!(m.faults[0].disk, "data.2");
    assert_eq!(m.faults[0].first_offset, 0);
    assert_eq!(m.members[2].completed, 0);
}

#[test]
fn a_flush_goes_to_every_member() {
    let mut job = stripe(4, 65_536);
    (job.read_percent, job.fsync_at_end) = (0, true);
    job.flush_every = Some((10, Flush::Fsync));
    let Target::Simulated(disks) = &mut job.storage.target else { unreachable!() };
    disks[3].1.flush = Latency::Fixed(Nanos(8 * MS));
    job.length = Length::Bytes(Bytes(65_536 * 100));
    let m = measured(&job);
    // Ten on the way and one at the end, each over with its slowest member.
    assert_eq!(m.kinds.sync.completed, 10 + 1);
    assert_eq!(m.duration_ns, Nanos((100 + 10 * 8 + 8) * MS));
    let slow = m.kinds.sync.latency_ns.bars().last().unwrap();
    assert_eq!((m.kinds.sync.latency_ns.max(), slow.2), (Some(8 * MS), 11));
}

#[test]
fn a_flush_at_the_end_that_fails_on_some_members_is_one_fault() {
    let mut job = stripe(4, 65_536);
    (job.read_percent, job.fsync_at_end) = (0, true);
    job.length = Length::Bytes(Bytes(65_536 * 4));
    let Target::Simulated(disks) = &mut job.storage.target else { unreachable!() };
    for (member, flush) in [(1, 8), (2, 2)] {
        disks[member].1 = DiskModel {
            flush: Latency::Fixed(Nanos(flush * MS)),
            errors: vec![ErrorOdds { operation: Operation::Flush, odds: 1.0, errno: 5 }],
            ..fixed(MS)
        };
    }
    let m = measured(&job);
    assert_eq!((m.kinds.sync.completed, m.errors(Some(IoKind::Sync))), (0, 1));
    // Named is the one that failed first.
    assert_eq!(m.faults[0].disk, "data.2");
}

#[test]
fn shares_of_workers_add_up() {
    let mut job = on(DiskModel::default());
    (job.workers, job.queue_depth) = (5, 3);
    let m = measured(&job);
    assert_eq!(m.workers.len(), 5);
    assert_eq!(m.workers[4].name, "worker 4");
    assert_eq!(m.workers.iter().map(|share| share.completed).sum::<u64>(), m.completed(None));
    assert_eq!(m.members[0].bytes, m.bytes(None));
}

#[test]
fn many_workers_deep_queues_and_wide_stripes_are_simulated() {
    let mut job = stripe(128, 4096);
    (job.workers, job.queue_depth, job.random) = (16, 4096, true);
    (job.len, job.length) = (1 << 62, Length::Time(Nanos(2 * MS)));
    let m = measured(&job);
    assert_eq!(m.latency(None).count(), 2 * 16 * 4096);
    assert!(m.members.iter().all(|share| share.completed > 0));
    let mut job = on(fixed(MS));
    (job.workers, job.length) = (256, Length::Time(Nanos(3 * MS)));
    assert_eq!(measured(&job).latency(None).count(), 3 * 256);
}

#[test]
#[should_panic(expected = "a block of 8KiB in 4096 bytes")]
fn a_block_larger_than_its_region_is_our_mistake() {
    let mut job = job();
    job.len = 4096;
    job.blocks = vec![Mix { block: Bytes(8192), weight: 1 }];
    measured(&job);
}
