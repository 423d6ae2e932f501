//! Records that could have been measured, made from a seed.

use crate::measure::{
    BackendUsed, CpuUse, DeviceUse, Histogram, IoFault, IoKind, KindFigures, Measurement, PerKind,
    Recorder, Series, Share,
};
use crate::record::{
    CaseRecord, Conclusion, DiskRecord, Evidence, FORMAT, Host, Outcome, PlanRecord, Record,
    RoundRecord, Selection, Verdict,
};
use crate::units::{Nanos, Percentile, Unit};

/// SplitMix64 (Steele, Lea and Flood 2014): a stream that is the same everywhere.
struct Chance(u64);

impl Chance {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// `value`, up to `percent` higher or lower.
    fn about(&mut self, value: f64, percent: f64) -> f64 {
        let unit = (self.next() >> 11) as f64 / (1_u64 << 53) as f64;
        value * (1.0 + (2.0 * unit - 1.0) * percent / 100.0)
    }

    #[expect(clippy::cast_sign_loss, reason = "of counts")]
    fn count(&mut self, value: f64, percent: f64) -> u64 {
        self.about(value, percent).round() as u64
    }
}

/// Latencies with most around `typical` and a long tail: each step is 6 % slower than the one
/// before, and below the middle each is fuller, above it emptier.
fn latencies(chance: &mut Chance, samples: u64, typical: f64) -> Histogram {
    let recorder = Recorder::default();
    let (mut left, mut value, mut share) = (samples, typical * 0.72, 0.01);
    for step in 0..90 {
        let count = chance.count(samples as f64 * share, 20.0).min(left);
        recorder.record_times(
            chance.count(value, 1.0),
            count.max(u64::from(step % 5 == 0 && left > 0)),
        );
        left = left.saturating_sub(count.max(1));
        value *= if step < 20 { 1.03 } else { 1.055 };
        share *= if step < 8 { 1.4 } else { 0.74 };
    }
    recorder.record_times(chance.count(typical, 1.0), left);
    recorder.snapshot()
}

/// What a round is made of.
#[derive(Clone)]
pub(super) struct Load {
    pub(super) seconds: u64,
    /// Kind, IOPS and typical latency in nanoseconds.
    pub(super) kinds: Vec<(IoKind, f64, f64)>,
    pub(super) block: u64,
    pub(super) depth: f64,
    pub(super) workers: u32,
    pub(super) members: Vec<String>,
    pub(super) simulated: bool,
}

impl Load {
    pub(super) fn reads(iops: f64, latency_us: f64, block: u64) -> Self {
        Self {
            seconds: 2,
            kinds: vec![(IoKind::Read, iops, latency_us * 1e3)],
            block,
            depth: (iops * latency_us / 1e6).max(1.0),
            workers: 1,
            members: vec!["scratch".to_owned()],
            simulated: false,
        }
    }

    pub(super) fn measure(&self, seed: u64) -> Measurement {
        let chance = &mut Chance(seed);
        let mut kinds = PerKind::<KindFigures>::default();
        let drift = chance.about(1.0, 3.0);
        for (kind, iops, typical) in &self.kinds {
            let completed = chance.count(iops * drift * self.seconds as f64, 1.0);
            kinds[*kind] = KindFigures {
                completed,
                bytes: if *kind == IoKind::Sync { 0 } else { completed * self.block },
                latency_ns: latencies(chance, completed, *typical / drift),
            };
        }
        let total = kinds.read.completed + kinds.write.completed;
        let series = self.series(chance, total);
        let backend = if self.simulated {
            ("sim", "every disk of the run is simulated", vec![])
        } else {
            let features = vec!["registered files".to_owned(), "fixed buffers".to_owned()];
            ("io_uring", "the kernel lets us use it", features)
        };
        Measurement {
            duration_ns: Nanos(self.seconds * 1_000_000_000),
            drain_ns: Nanos(0),
            series,
            queue_depth_achieved: chance.about(self.depth, 0.5),
            cpu: (!self.simulated).then(|| CpuUse {
                user_ns: chance.count(total as f64 * 900.0, 5.0),
                system_ns: chance.count(total as f64 * 2600.0, 5.0),
            }),
            device: (!self.simulated).then(|| DeviceUse {
                read_bytes: kinds.read.bytes + 8192,
                written_bytes: kinds.write.bytes + 65_536,
                utilization_percent: 97.5,
            }),
            open: None,
            verified: None,
            faults: vec![],
            short_transfers: 0,
            clock_anomalies: 0,
            workers: shares(
                chance,
                total,
                self.block,
                (0..self.workers).map(|n| format!("worker {n}")),
            ),
            members: shares(chance, total, self.block, self.members.iter().cloned()),
            backend: BackendUsed {
                name: backend.0.to_owned(),
                why: backend.1.to_owned(),
                features: backend.2,
            },
            kinds,
            streams: Vec::new(),
        }
    }

    fn series(&self, chance: &mut Chance, total: u64) -> Series {
        let count = 20;
        let weights: Vec<f64> = (0..count).map(|_| chance.about(1.0, 6.0)).collect();
        let sum: f64 = weights.iter().sum();
        let mut completed: Vec<u64> =
            weights.iter().map(|weight| chance.count(total as f64 * weight / sum, 0.0)).collect();
        let others: u64 = completed[1..].iter().sum();
        completed[0] = total.saturating_sub(others);
        let bytes = completed.iter().map(|ios| ios * self.block).collect();
        let window = Nanos(self.seconds * 1_000_000_000);
        Series { interval_ns: Nanos(window.0 / count), window_ns: window, completed, bytes }
    }
}

fn shares(
    chance: &mut Chance,
    total: u64,
    block: u64,
    names: impl ExactSizeIterator<Item = String>,
) -> Vec<Share> {
    let even = total as f64 / names.len().max(1) as f64;
    names
        .map(|name| {
            let completed = chance.count(even, 4.0);
            Share { name, completed, bytes: completed * block }
        })
        .collect()
}

/// A case with as many measured rounds.
pub(super) fn case(id: &str, what: &str, load: &Load, rounds: u32, seed: u64) -> CaseRecord {
    let (setup, workload) = id.split_once('/').unwrap_or((id, ""));
    let rounds = (1..=rounds).map(|round| RoundRecord {
        round,
        seed: seed + u64::from(round),
        measurement: Some(load.measure(seed * 100 + u64::from(round))),
        error: None,
    });
    CaseRecord {
        id: id.to_owned(),
        setup: setup.to_owned(),
        workload: workload.to_owned(),
        disks: load.members.clone(),
        what: what.to_owned(),
        parameters: parameters(&[
            ("block_size", &format!("{}KiB", load.block >> 10)),
            ("queue_depth", &format!("{:.0}", load.depth.ceil())),
            ("workers", &load.workers.to_string()),
            ("runtime", &format!("{}s", load.seconds)),
            ("cache", "direct"),
            ("engine", "auto"),
        ]),
        skipped: vec![],
        rounds: rounds.collect(),
        warnings: vec![],
        engine_iops_max: None,
        streams: Vec::new(),
        stream_of: None,
    }
}

pub(super) fn parameters(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
    pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
}

/// A verdict on a case, with evidence taken from it. The limit is for the eye of the reader of a
/// report: nothing here judges.
pub(super) fn verdict(
    case: &CaseRecord,
    condition: &str,
    outcome: Outcome,
    unit: Unit,
    limits: &[f64],
) -> Verdict {
    let metric = condition.split(' ').next().unwrap_or("iops").to_owned();
    let kind = IoKind::ALL.into_iter().find(|kind| metric.starts_with(kind.word()));
    let percentile = metric.rsplit_once(".p").map(|(_, rank)| Percentile::parse(rank).unwrap());
    let comparison = condition.split(' ').nth(1).unwrap_or_default();
    let value = |round: &Measurement| -> Option<f64> {
        let seconds = round.duration_ns.as_secs();
        Some(match unit {
            Unit::Iops => round.completed(kind) as f64 / seconds,
            Unit::BytesPerSecond => round.bytes(kind) as f64 / seconds,
            Unit::Count => round.errors(kind) as f64,
            _ => match percentile {
                Some(percentile) => round.latency(kind).percentile(percentile)? as f64,
                None => round.latency(kind).mean()?,
            },
        })
    };
    let rounds: Vec<_> = case.rounds.iter().map(|r| value(r.measurement.as_ref()?)).collect();
    Verdict {
        case: case.id.clone(),
        condition: condition.to_owned(),
        why: None,
        line: 20,
        gate: true,
        outcome,
        evidence: Evidence {
            metric: metric.clone(),
            kind,
            percentile,
            comparison: if limits.len() == 1 { comparison.to_owned() } else { String::new() },
            unit,
            measured: case.merged().as_ref().and_then(value),
            rounds,
            limits: limits.to_vec(),
            reference: None,
            reference_value: None,
            ratio: None,
            higher_is_better: Some(matches!(unit, Unit::Iops | Unit::BytesPerSecond)),
            reason: None,
        },
    }
}

/// The same as compared with another case.
pub(super) fn against(mut verdict: Verdict, reference: &CaseRecord, of: &Verdict) -> Verdict {
    let value = of.evidence.measured;
    verdict.evidence.reference = Some(reference.id.clone());
    verdict.evidence.reference_value = value;
    verdict.evidence.ratio = verdict.evidence.measured.zip(value).map(|(mine, its)| mine / its);
    verdict
}

/// A record of these cases and verdicts, with the conclusion that they come to.
pub(super) fn record(name: &str, cases: Vec<CaseRecord>, verdicts: Vec<Verdict>) -> Record {
    let count = |outcome, gate: Option<bool>| {
        let counted = verdicts.iter().filter(|verdict| {
            verdict.outcome == outcome && gate.is_none_or(|gate| gate == verdict.gate)
        });
        counted.count()
    };
    let mut conclusion = Conclusion {
        exit_code: 0,
        inconclusive: "open".to_owned(),
        passed: count(Outcome::Pass, None),
        failed: count(Outcome::Fail, Some(true)),
        inconclusive_count: count(Outcome::Inconclusive, Some(true)),
        errors: count(Outcome::Error, None),
        skipped: count(Outcome::Skipped, None),
        warnings: count(Outcome::Fail, Some(false)),
        note: None,
    };
    conclusion.exit_code = match &conclusion {
        Conclusion { errors: 1.., .. } => 3,
        Conclusion { failed: 1.., .. } => 1,
        Conclusion { inconclusive_count: 1.., .. } => 5,
        Conclusion { passed: 1.., .. } => 0,
        _ => 4,
    };
    let schedule = cases.iter().enumerate();
    let schedule =
        schedule.flat_map(|(index, case)| case.rounds.iter().map(move |r| (index, r.round)));
    Record {
        format: FORMAT,
        diskproof: "0.1.0".to_owned(),
        simulated: false,
        interrupted: false,
        started: Some("2026-12-01T03:07:51Z".to_owned()),
        elapsed_ms: Some(8_420),
        host: Some(Host {
            name: "bench-07".to_owned(),
            kernel: "6.18.2-generic".to_owned(),
            cpu_model: "AMD EPYC 7763 64-Core Processor".to_owned(),
            cpus: 4,
            memory_bytes: 16 << 30,
        }),
        plan: PlanRecord {
            name: name.to_owned(),
            description: None,
            path: format!("plans/{name}.toml"),
            text: String::new(),
            profile: None,
            baseline: None,
            bindings: vec![],
            selection: Selection::default(),
            work_dir: None,
            require_all: false,
        },
        disks: vec![scratch()],
        schedule: schedule.collect(),
        cases,
        verdicts,
        conclusion,
    }
}

/// The disk that most cases ran on.
fn scratch() -> DiskRecord {
    DiskRecord {
        name: "scratch".to_owned(),
        kind: "loopback".to_owned(),
        path: Some("/var/tmp".to_owned()),
        size_bytes: 256 << 20,
        filesystem: Some("ext4".to_owned()),
        block_device: Some("259:1 nvme0n1".to_owned()),
        driver: Some("nvme".to_owned()),
        offset_align_bytes: 512,
        memory_align_bytes: 4,
    }
}

/// A read error of a disk.
pub(super) fn io_errors(count: u64) -> IoFault {
    IoFault {
        kind: IoKind::Read,
        errno: 5,
        count,
        disk: "scratch".to_owned(),
        first_offset: 1 << 20,
    }
}
