//! Open loops and think time: exact on simulated disks, and on real files by every back end.

use std::sync::Arc;

use super::*;
use crate::engine::probe::{probe, probe_libaio};
use crate::model::{Latency, Stall};
use crate::os::io::memory_file;
use crate::testing::skip;
use crate::units::Percentile;

const MS: u64 = 1_000_000;

fn fixed(ns: u64, stalls: Vec<Stall>) -> DiskModel {
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
        stalls,
    }
}

fn simulated(model: DiskModel, pace: Pace) -> Measurement {
    let mut job = job();
    job.storage.target = Target::Simulated(vec![("disk".to_owned(), model)]);
    (job.pace, job.length) = (pace, Length::Time(Nanos(10_000 * MS)));
    run(&job, &Control::default(), &mut |_| {}).unwrap()
}

fn even(rate: f64) -> Pace {
    Pace::Open { rate: Rate::Ios(rate), arrivals: Arrivals::Even, max_lateness: None }
}

#[test]
fn a_stall_is_in_the_response_of_all_that_was_due_meanwhile() {
    // One I/O of a thousand takes a second: the storage's own figures hardly show it.
    let stall = Stall { at: Nanos(2000 * MS + MS / 2), length: Nanos(999 * MS) };
    let measured = simulated(fixed(MS, vec![stall]), even(100.0));
    let open = measured.open.as_ref().unwrap();
    assert_eq!((open.due, open.dropped), (1000, 0));
    let p99 = Percentile(990_000);
    let response = measured.latency(None);
    let service = open.service_ns.percentile(p99).unwrap();
    assert!((MS..MS + MS / 256).contains(&service), "{service}");
    assert_eq!(open.service_ns.max(), Some(1000 * MS));
    let (told, truth) = (response.percentile(p99).unwrap(), 910 * MS);
    assert!(told >= truth && told < truth + truth / 256, "{told}");
    assert_eq!(response.count(), 1000);
    // Each is late by what the stall had left: 991 ms and so on, by 9 less each, for 110 of them.
    assert_eq!(open.lateness_ns.max(), Some(990 * MS));
    assert_eq!(measured.completed(None), 1000);
}

#[test]
fn what_the_storage_can_t_take_is_dropped_and_counted() {
    let measured = simulated(fixed(2 * MS, Vec::new()), even(1000.0));
    let open = measured.open.as_ref().unwrap();
    assert_eq!(open.due, 10_000);
    assert!(open.dropped.abs_diff(5000) <= 1, "{}", open.dropped);
    assert!(open.drops_too_many(1));
    let pace = Pace::Open {
        rate: Rate::Ios(1000.0),
        arrivals: Arrivals::Even,
        max_lateness: Some(Nanos(10 * MS)),
    };
    let measured = simulated(fixed(2 * MS, Vec::new()), pace);
    let open = measured.open.unwrap();
    assert!(open.lateness_ns.max().unwrap() <= 10 * MS);
    assert!(open.dropped.abs_diff(5000) <= 10, "{}", open.dropped);
}

#[test]
fn poisson_arrivals_on_one_server_wait_as_the_formula_says() {
    // M/D/1 (Pollaczek and Khinchine): at a load of one half the mean wait is half a service.
    let pace =
        Pace::Open { rate: Rate::Ios(500.0), arrivals: Arrivals::Poisson, max_lateness: None };
    let mut job = job();
    let mut model = fixed(MS, Vec::new());
    model.parallel = 1;
    job.storage.target = Target::Simulated(vec![("disk".to_owned(), model)]);
    (job.pace, job.length) = (pace, Length::Time(Nanos(400_000 * MS)));
    let measured = run(&job, &Control::default(), &mut |_| {}).unwrap();
    let mean = measured.latency(None).mean().unwrap();
    assert!((mean / (1.5 * MS as f64) - 1.0).abs() < 0.03, "{mean}");
    let rate = measured.completed(None) as f64 / 400.0;
    assert!((rate / 500.0 - 1.0).abs() < 3.0 / 200_000_f64.sqrt(), "{rate}");
}

#[test]
fn a_worker_thinks_after_each_burst() {
    let think = |after| Pace::Think { pause: Nanos(4 * MS), after };
    let one = simulated(fixed(MS, Vec::new()), think(1));
    assert_eq!((one.completed(None), one.open), (2000, None));
    // Three of 1 ms each and then 4 ms, one at a time: in 10 s 1428 whole turns, and the rest.
    let three = simulated(fixed(MS, Vec::new()), think(3));
    assert_eq!(three.completed(None), 1428 * 3 + 3);
    assert_eq!(three.latency(None).max(), Some(MS));
}

/// Every back end that can be had here, with a depth that it can have.
pub(super) fn ways(test: &str) -> Vec<(Backend, u32)> {
    let mut ways = vec![(Backend::Sync, 1)];
    match probe().reason {
        None => ways.push((Backend::IoUring, 8)),
        Some(reason) => skip(test, "io_uring can't be used", &reason),
    }
    match probe_libaio().reason {
        None => ways.push((Backend::Libaio, 8)),
        Some(reason) => skip(test, "libaio can't be used", &reason),
    }
    ways
}

/// What comes of this job on a file in memory.
fn real((backend, depth): (Backend, u32), pace: Pace, ms: u64) -> Measurement {
    let file = memory_file("test").unwrap();
    file.set_len(1 << 20).unwrap();
    let mut job = job();
    job.storage.target = Target::Files(vec![DeviceFile {
        name: "memory".to_owned(),
        file: Arc::new(file),
        memory_align: 1,
        offset_align: 1,
    }]);
    (job.len, job.storage.member_bytes) = (1 << 20, 1 << 20);
    (job.backend, job.queue_depth, job.pace) = (backend, depth, pace);
    job.length = Length::Time(Nanos(ms * MS));
    run(&job, &Control::default(), &mut |_| {}).unwrap()
}

#[test]
fn a_rate_is_kept_by_every_back_end() {
    for way in ways("a_rate_is_kept_by_every_back_end") {
        // What others do to the machine in a moment may hold up the last few: of three tries one is
        // to be in order.
        let kept = |measured: &Measurement| {
            measured.open.as_ref().is_some_and(|open| open.dropped <= 20)
                && measured.completed(None).abs_diff(1000) <= 20
        };
        let mut tries = (0..3).map(|_| real(way, even(2000.0), 500));
        let measured = tries.find(kept).unwrap_or_else(|| panic!("{way:?}: not kept"));
        let open = measured.open.as_ref().unwrap();
        assert_eq!(open.due, 1000, "{way:?}");
        let service = open.service_ns.mean().unwrap();
        let lateness = open.lateness_ns.mean().unwrap();
        let response = measured.latency(None).mean().unwrap();
        assert!((service + lateness - response).abs() < 1.0, "{way:?}");
    }
}

#[test]
fn pauses_are_kept_by_every_back_end() {
    for way in ways("pauses_are_kept_by_every_back_end") {
        let pace = Pace::Think { pause: Nanos(5 * MS), after: 4 };
        // A hundred turns of four, and the one that is begun, at the most: no load makes them more.
        // It can make them fewer, but of a few tries one is to have half of them.
        let mut tries = (0..10).map(|_| real(way, pace, 500).completed(None));
        let enough = tries.find(|done| {
            assert!(*done <= 404, "{way:?}: {done}");
            *done >= 200
        });
        assert!(enough.is_some(), "{way:?}: always fewer than half");
    }
}

#[test]
fn a_long_pause_is_no_silence_of_the_disk() {
    let patience = job::Patience { running: Nanos(300 * MS), stopping: Nanos(300 * MS) };
    for way in ways("a_long_pause_is_no_silence_of_the_disk") {
        let file = memory_file("test").unwrap();
        file.set_len(1 << 20).unwrap();
        let mut job = job();
        job.storage.target = Target::Files(vec![DeviceFile {
            name: "memory".to_owned(),
            file: Arc::new(file),
            memory_align: 1,
            offset_align: 1,
        }]);
        (job.len, job.storage.member_bytes) = (1 << 20, 1 << 20);
        (job.backend, job.queue_depth) = way;
        job.pace = Pace::Think { pause: Nanos(700 * MS), after: 1 };
        job.length = Length::Time(Nanos(1600 * MS));
        let control = Control::default().with_patience(patience);
        let measured = run(&job, &control, &mut |_| {}).unwrap();
        assert!((2..=3).contains(&measured.completed(None)), "{way:?}");
    }
}
