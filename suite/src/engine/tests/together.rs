//! Jobs side by side: on the simulated disk, where the truth is known, and on real files.

use std::os::unix::fs::FileExt as _;
use std::sync::Arc;

use super::*;
use crate::measure::{IoKind, Measurement, StreamMeasurement};
use crate::model::Latency;
use crate::testing::skip;

const MS: u64 = 1_000_000;

fn together(jobs: &[Job]) -> Vec<Measurement> {
    Engine::new().run_together(jobs, &Control::default(), &mut |_| {}).unwrap().0
}

fn named(measured: &[Measurement]) -> Vec<StreamMeasurement> {
    let names = ["log", "data", "more"].into_iter().zip(measured);
    names
        .map(|(name, one)| StreamMeasurement { name: name.to_owned(), measurement: one.clone() })
        .collect()
}

/// A disk that serves so many side by side, each in exactly 1 ms.
fn disk(parallel: u32) -> Target {
    let latency = Latency::Fixed(Nanos(MS));
    let model = DiskModel {
        read: latency.clone(),
        write: latency,
        ns_per_byte: 0.0,
        iops_cap: None,
        bandwidth_cap: None,
        parallel,
        ..DiskModel::default()
    };
    Target::Simulated(vec![("disk".to_owned(), model)])
}

/// Sequential writes of 16 KiB in the first half, one at a time.
fn log(target: Target) -> Job {
    let mut job = job();
    job.storage.target = target;
    (job.random, job.read_percent, job.len) = (false, 0, 1 << 29);
    job.blocks = vec![Mix { block: Bytes(16 << 10), weight: 1 }];
    job.granularity = Bytes(16 << 10);
    job
}

/// A mix of 4 KiB in the second half, by two workers, seven at a time each.
fn data(target: Target) -> Job {
    let mut job = job();
    job.storage.target = target;
    (job.read_percent, job.queue_depth, job.workers) = (70, 7, 2);
    (job.start, job.len, job.seed) = (1 << 29, 1 << 29, 7);
    job
}

#[test]
fn streams_share_the_simulated_disk() {
    // With room for all 15 each I/O takes a millisecond, as if the others were not there.
    let wide = together(&[log(disk(15)), data(disk(15))]);
    let rates: Vec<_> = wide.iter().map(|one| one.completed(None)).collect();
    assert_eq!(rates, [999, 999 * 14]);
    // With one slot they stand in one line: a thousand a second in all, and latencies of 15 ms.
    let narrow = together(&[log(disk(1)), data(disk(1))]);
    let rates: Vec<_> = narrow.iter().map(|one| one.completed(None)).collect();
    assert_eq!(rates.iter().sum::<u64>(), 999);
    assert!((66..=67).contains(&rates[0]), "one of fifteen: {rates:?}");
    assert_eq!(narrow[0].latency(None).max(), Some(15 * MS));
}

#[test]
fn the_total_is_the_sum_of_the_streams_to_the_last_bit() {
    let model = || Target::Simulated(vec![("disk".to_owned(), DiskModel::default())]);
    let measured = together(&[log(model()), data(model())]);
    let total = Measurement::together(named(&measured), None).unwrap();
    for kind in IoKind::ALL {
        let sum = |of: fn(&Measurement, IoKind) -> u64| measured.iter().map(|m| of(m, kind)).sum();
        let (completed, bytes, samples): (u64, u64, u64) = (
            sum(|m, kind| m.completed(Some(kind))),
            sum(|m, kind| m.bytes(Some(kind))),
            sum(|m, kind| m.latency(Some(kind)).count()),
        );
        let of_total = &total.kinds[kind];
        assert_eq!((of_total.completed, of_total.bytes), (completed, bytes), "{kind:?}");
        assert_eq!(of_total.latency_ns.count(), samples, "{kind:?}");
    }
    assert!(total.completed(None) > 100_000);
    let series: u64 = total.series.completed.iter().sum();
    assert_eq!(series, total.completed(None));
    let workers: Vec<_> = total.workers.iter().map(|share| share.name.as_str()).collect();
    assert_eq!(workers, ["log worker 0", "data worker 0", "data worker 1"]);
    assert_eq!(total.members[0].completed, total.completed(None));
    assert!((total.queue_depth_achieved - 15.0).abs() < 0.01, "{}", total.queue_depth_achieved);
    assert_eq!(total.duration_ns, Nanos(1000 * MS));
    // Two streams of one job's pattern are what two workers of it are.
    let mut twice = data(disk(3));
    twice.partitioned = false;
    let mut halves = [twice.clone(), twice.clone()];
    for half in &mut halves {
        half.workers = 1;
    }
    let (one, two) = (together(&[twice]), together(&halves));
    let two = Measurement::together(named(&two), None).unwrap();
    assert_eq!(one[0].completed(None), two.completed(None));
    assert_eq!(one[0].latency(None), two.latency(None));
}

#[test]
fn one_job_beside_none_is_what_it_is_alone_and_the_same_streams_are_the_same_figures() {
    let alone = run(&log(disk(2)), &Control::default(), &mut |_| {}).unwrap();
    assert_eq!(together(&[log(disk(2))]), [alone]);
    let jobs = [log(disk(2)), data(disk(2))];
    assert_eq!(together(&jobs), together(&jobs));
}

#[test]
fn streams_on_a_file_go_each_its_way_and_end_together() {
    if let Some(reason) = probe().reason {
        let test = "engine::tests::together::streams_on_a_file_go_each_its_way_and_end_together";
        return skip(test, "no io_uring", &reason);
    }
    let file = tempfile::tempfile_in("/var/tmp").unwrap();
    file.write_all_at(&vec![1; 4 << 20], 0).unwrap();
    let files = Target::Files(vec![DeviceFile {
        name: "disk".to_owned(),
        file: Arc::new(file),
        memory_align: 1,
        offset_align: 1,
    }]);
    let (mut log, mut data) = (log(files.clone()), data(files));
    for job in [&mut log, &mut data] {
        job.storage.member_bytes = 4 << 20;
        (job.warmup, job.length) = (Nanos(50 * MS), Length::Time(Nanos(200 * MS)));
        job.len = 2 << 20;
    }
    data.start = 2 << 20;
    let mut engine = Engine::new();
    let jobs = [log, data];
    let (measured, cpu) = engine.run_together(&jobs, &Control::default(), &mut |_| {}).unwrap();
    assert!(cpu.is_some_and(|cpu| cpu.user_ns + cpu.system_ns > 0));
    assert_eq!(measured[0].backend.name, "sync");
    assert_eq!(measured[1].backend.name, "io_uring", "{}", measured[1].backend.why);
    for one in &measured {
        assert_eq!((one.duration_ns, one.errors(None), one.cpu), (Nanos(200 * MS), 0, None));
        assert!(one.completed(None) > 0);
    }
    assert_eq!(measured[0].completed(Some(IoKind::Read)), 0);
    assert!(measured[1].completed(Some(IoKind::Read)) > measured[1].completed(Some(IoKind::Write)));
    let total = Measurement::together(named(&measured), cpu).unwrap();
    assert_eq!(total.backend.name, "io_uring and sync");
}
