//! Records for tests, made by hand: every figure is known.

use super::{
    CaseRecord, Conclusion, DiskRecord, Evidence, FORMAT, Host, Outcome, PlanRecord, Record,
    RoundRecord, Selection, StreamRecord, Verdict,
};
use crate::measure::{
    BackendUsed, CpuUse, DeviceUse, IoFault, IoKind, KindFigures, Measurement, PerKind, Recorder,
    Series, Share, StreamMeasurement,
};
use crate::units::{Nanos, Unit};

/// One second during which these reads completed, each with its latency in nanoseconds.
pub(crate) fn reads(latencies: impl IntoIterator<Item = u64>) -> Measurement {
    let recorder = Recorder::default();
    latencies.into_iter().for_each(|latency| recorder.record(latency));
    let latency_ns = recorder.snapshot();
    let completed = latency_ns.count();
    let figures = KindFigures { completed, bytes: completed * 4096, latency_ns };
    Measurement {
        duration_ns: Nanos(1_000_000_000),
        drain_ns: Nanos(0),
        kinds: PerKind { read: figures, ..PerKind::default() },
        series: even_series(completed),
        queue_depth_achieved: 1.0,
        cpu: Some(CpuUse { user_ns: 100_000_000, system_ns: 200_000_000 }),
        device: Some(DeviceUse {
            read_bytes: completed * 4096,
            written_bytes: 0,
            utilization_percent: 97.25,
        }),
        open: None,
        verified: None,
        faults: Vec::new(),
        short_transfers: 0,
        clock_anomalies: 0,
        workers: vec![Share { name: "worker 0".to_owned(), completed, bytes: completed * 4096 }],
        members: vec![Share { name: "lrs".to_owned(), completed, bytes: completed * 4096 }],
        backend: BackendUsed {
            name: "io_uring".to_owned(),
            why: "the kernel lets it".to_owned(),
            features: vec!["registered files".to_owned()],
        },
        streams: Vec::new(),
    }
}

/// One second with this many reads of the same latency, one after the other: depth 1.
pub(crate) fn steady(completed: u64) -> Measurement {
    let latency = 1_000_000_000 / completed.max(1);
    reads((0..completed).map(|_| latency))
}

/// A second of ten intervals that share `completed` evenly.
pub(crate) fn even_series(completed: u64) -> Series {
    let each: Vec<u64> = (0..10).map(|i| completed * (i + 1) / 10 - completed * i / 10).collect();
    Series {
        interval_ns: Nanos(100_000_000),
        window_ns: Nanos(1_000_000_000),
        bytes: each.iter().map(|count| count * 4096).collect(),
        completed: each,
    }
}

/// A failed read.
pub(crate) fn fault(errno: i32, count: u64) -> IoFault {
    IoFault { kind: IoKind::Read, errno, count, disk: "lrs".to_owned(), first_offset: 8192 }
}

/// A case with these rounds, numbered from 1.
pub(crate) fn case(id: &str, rounds: Vec<Measurement>) -> CaseRecord {
    let (setup, workload) = id.split_once('/').unwrap_or((id, ""));
    CaseRecord {
        id: id.to_owned(),
        setup: setup.to_owned(),
        workload: workload.to_owned(),
        disks: vec!["lrs".to_owned()],
        what: "random 4 KiB reads, depth 1".to_owned(),
        parameters: vec![
            ("rw".to_owned(), "randread".to_owned()),
            ("block_size".to_owned(), "4KiB".to_owned()),
            ("queue_depth".to_owned(), "1".to_owned()),
            ("cache".to_owned(), "direct".to_owned()),
        ],
        skipped: Vec::new(),
        rounds: (1..).zip(rounds).map(|(round, measured)| round_record(round, measured)).collect(),
        warnings: Vec::new(),
        engine_iops_max: None,
        streams: Vec::new(),
        stream_of: None,
    }
}

/// A measured round.
pub(crate) fn round_record(round: u32, measurement: Measurement) -> RoundRecord {
    RoundRecord {
        round,
        seed: 0x9e37_79b9_7f4a_7c15 ^ u64::from(round),
        measurement: Some(measurement),
        error: None,
    }
}

/// A record of these cases without a verdict.
pub(crate) fn record(cases: Vec<CaseRecord>) -> Record {
    Record {
        format: FORMAT,
        diskproof: "0.1.0".to_owned(),
        simulated: false,
        interrupted: false,
        started: Some("2026-12-01T03:07:51Z".to_owned()),
        elapsed_ms: Some(4_250),
        host: Some(Host {
            name: "bench-1".to_owned(),
            kernel: "6.12.0".to_owned(),
            cpu_model: "A Processor \"X\"".to_owned(),
            cpus: 8,
            memory_bytes: 34_359_738_368,
        }),
        plan: PlanRecord {
            name: "sample".to_owned(),
            description: Some("What a record looks like.".to_owned()),
            path: "plans/sample.toml".to_owned(),
            text: "name = \"sample\"\n# \u{fc}ber\n".to_owned(),
            profile: None,
            baseline: None,
            bindings: vec![("lrs".to_owned(), vec!["/mnt/lrs".to_owned()])],
            selection: Selection { cases: vec!["lrs/*".to_owned()], skip: Vec::new() },
            work_dir: Some("/var/tmp".to_owned()),
            require_all: true,
        },
        disks: vec![DiskRecord {
            name: "lrs".to_owned(),
            kind: "directory".to_owned(),
            path: Some("/mnt/lrs".to_owned()),
            size_bytes: 1 << 30,
            filesystem: Some("ext4".to_owned()),
            block_device: Some("259:1 nvme0n1".to_owned()),
            driver: Some("nvme".to_owned()),
            offset_align_bytes: 512,
            memory_align_bytes: 4,
        }],
        schedule: cases.iter().enumerate().map(|(index, _)| (index, 1)).collect(),
        cases,
        verdicts: Vec::new(),
        conclusion: Conclusion {
            exit_code: 0,
            inconclusive: "open".to_owned(),
            passed: 0,
            failed: 0,
            inconclusive_count: 0,
            errors: 0,
            skipped: 0,
            warnings: 0,
            note: None,
        },
    }
}

/// A case of these streams, with a round in which each did this.
pub(crate) fn side_by_side(id: &str, streams: Vec<(&str, Measurement)>) -> CaseRecord {
    let measured = streams.into_iter().map(|(name, measurement)| StreamMeasurement {
        name: name.to_owned(),
        measurement: Measurement { cpu: None, device: None, ..measurement },
    });
    let cpu = Some(CpuUse { user_ns: 100_000_000, system_ns: 200_000_000 });
    let whole = Measurement::together(measured.collect(), cpu).expect("a stream at least");
    let names: Vec<_> = whole.streams.iter().map(|stream| stream.name.clone()).collect();
    let mut case = case(id, vec![whole]);
    case.parameters.insert(0, ("streams".to_owned(), names.join(", ")));
    let record = |name| StreamRecord {
        name,
        what: "random 4 KiB reads, depth 1".to_owned(),
        parameters: case.parameters[1..].to_vec(),
        engine_iops_max: None,
    };
    case.streams = names.into_iter().map(record).collect();
    case
}

/// [`full`] with what has come to the format since.
pub(crate) fn newest() -> Record {
    let mut record = full();
    let mut both = side_by_side("lrs/both", vec![("log", steady(20)), ("data", steady(500))]);
    both.streams[1].engine_iops_max = Some(1.25e6);
    record.schedule.push((record.cases.len(), 1));
    record.cases.push(both);
    record
}

/// A record that uses every type of the format, as it was at first, at least once.
pub(crate) fn full() -> Record {
    let mut faulty = reads([]);
    faulty.cpu = None;
    faulty.device = None;
    faulty.faults = vec![fault(5, 3)];
    faulty.queue_depth_achieved = 0.1 + 0.2;
    let mut broken = case("lrs/write", vec![faulty]);
    broken.rounds.push(RoundRecord {
        round: 2,
        seed: u64::MAX,
        measurement: None,
        error: Some("io_uring can't be used: it is switched off".to_owned()),
    });
    let mut absent = case("zrs/read", Vec::new());
    absent.skipped = vec!["a queue depth of 32 needs io_uring".to_owned()];
    let read = case("lrs/read", vec![reads([100, 700, 70_000, u64::MAX / 3]), steady(1000)]);
    let mut record = record(vec![read, broken, absent]);
    record.schedule = vec![(0, 1), (1, 1), (1, 2), (0, 2)];
    record.verdicts = vec![Verdict {
        case: "lrs/read".to_owned(),
        condition: "read.latency.mean <= 2.6 x zrs".to_owned(),
        why: Some("it is the nearer one".to_owned()),
        line: 12,
        gate: true,
        outcome: Outcome::Skipped,
        evidence: Evidence {
            metric: "read.latency.mean".to_owned(),
            kind: Some(IoKind::Read),
            percentile: None,
            comparison: "<=".to_owned(),
            unit: Unit::Nanoseconds,
            measured: Some(1.0 / 3.0),
            rounds: vec![Some(1e300), None],
            limits: vec![2.6],
            reference: Some("zrs/read".to_owned()),
            reference_value: Some(5e-324),
            ratio: None,
            higher_is_better: Some(false),
            reason: Some("zrs/read was skipped".to_owned()),
        },
    }];
    record.conclusion.skipped = 1;
    record.conclusion.exit_code = 3;
    record.conclusion.note = Some("2 cases could not be measured".to_owned());
    record
}
