//! The runs whose reports are kept as files: what a reader may have to read.

use super::records::{Load, against, case, io_errors, parameters, record, verdict};
use crate::measure::IoKind;
use crate::record::{CaseRecord, DiskRecord, Outcome, Record, RoundRecord, Verdict};
use crate::units::Unit;

const MIB: f64 = 1_048_576.0;

/// Everything holds.
pub(super) fn passed() -> Record {
    let read = case("local/random-read", "random 4 KiB reads, depth 1", &small(), 3, 1);
    let write = Load {
        kinds: vec![(IoKind::Write, 14_200.0, 2_200e3), (IoKind::Sync, 444.0, 900e3)],
        depth: 32.0,
        workers: 4,
        ..small()
    };
    let write = case("local/random-write", "random 4 KiB writes, depth 8, 4 workers", &write, 3, 2);
    let sequential = Load { depth: 8.0, ..Load::reads(2_950.0, 2_700.0, 1 << 20) };
    let sequential =
        case("local/sequential-read", "sequential 1 MiB reads, depth 8", &sequential, 3, 3);
    let mut verdicts = vec![
        verdict(&read, "read.latency.p99 < 20ms", Outcome::Pass, Unit::Nanoseconds, &[20e6]),
        verdict(&read, "read.iops >= 5k", Outcome::Pass, Unit::Iops, &[5e3]),
        verdict(&write, "write.iops >= 10k", Outcome::Pass, Unit::Iops, &[1e4]),
        verdict(&write, "errors = 0", Outcome::Pass, Unit::Count, &[0.0]),
        verdict(
            &sequential,
            "read.bandwidth between 1GiB/s and 4GiB/s",
            Outcome::Pass,
            Unit::BytesPerSecond,
            &[1024.0 * MIB, 4096.0 * MIB],
        ),
    ];
    verdicts[0].why = Some("a page fault must not be noticed".to_owned());
    let mut record = record("first", vec![read, write, sequential], verdicts);
    record.plan.description = Some("Does direct I/O on a loopback file work here?".to_owned());
    record.plan.text = "# What it proves: that direct I/O works here. Ten seconds, no root.\n\
        name = \"first\"\n\n[disks.scratch]\nsize = \"256MiB\"\n\n[setups.local]\n\
        disks = [\"scratch\"]\n"
        .to_owned();
    record
}

fn small() -> Load {
    Load::reads(11_800.0, 82.0, 4096)
}

/// Text that wants to get out of every report.
pub(super) const NASTY: &str = "a\u{1b}[31mred\u{1b}[0m b\0c ]]> & <script>alert(1)</script> \
    \u{fffe} `tick` | pipe \"quoted\" 'single' {{ braces }} line\nbreak \u{202e}turned\u{202c} \
    \u{5d0}\u{5d1}\u{5d2} \u{1f4be} end";

/// One of every outcome, and nasty texts wherever an author or a machine can put one.
pub(super) fn mixed() -> Record {
    let load = Load {
        kinds: vec![(IoKind::Read, 8_000.0, 110e3), (IoKind::Write, 3_400.0, 240e3)],
        depth: 4.0,
        ..small()
    };
    let mut fast = case("local/fast", "random 4 KiB reads and writes, 70 % reads", &load, 5, 11);
    fast.warnings.push("throughput still fell at the end (-6 % in 10 s): raise `warmup`".into());
    let slow = Load { kinds: vec![(IoKind::Write, 950.0, 4_600e3)], depth: 4.4, ..small() };
    let slow = case("remote/commit[block_size=8KiB]", "random 8 KiB writes", &slow, 5, 12);
    let mut broken = case("local/broken", "random 4 KiB reads", &small(), 2, 13);
    if let Some(round) = broken.rounds[0].measurement.as_mut() {
        round.faults.push(io_errors(3));
    }
    broken.rounds.push(RoundRecord {
        round: 3,
        seed: 16,
        measurement: None,
        error: Some(format!("pread failed on scratch: {NASTY}")),
    });
    let mut skipped = case("local/deep", "random 4 KiB reads, depth 256", &small(), 0, 14);
    skipped.skipped = vec![
        "depth 256 needs io_uring, which kernel.io_uring_disabled=2 forbids".to_owned(),
        "nothing else here can keep 256 I/Os in flight".to_owned(),
    ];
    let long = format!("local/{}", "very-long-name-".repeat(14));
    let nasty = case(&long, NASTY, &small(), 2, 15);
    let cases = vec![fast, slow, broken, skipped, nasty];
    let verdicts = mixed_verdicts(&cases);
    let mut record = record("mixed", cases, verdicts);
    record.plan.description = Some(NASTY.to_owned());
    record.plan.text = format!("name = \"mixed\"\n# {NASTY}\n");
    record.plan.path = "plans/it's mixed.toml".to_owned();
    record.plan.profile = Some("smoke".to_owned());
    record.plan.bindings = vec![("remote".to_owned(), vec!["/mnt/zone two".to_owned()])];
    record.elapsed_ms = Some(103_400);
    record.disks.push(DiskRecord {
        name: "remote".to_owned(),
        kind: "directory".to_owned(),
        path: Some(format!("/mnt/zone two/{NASTY}")),
        size_bytes: 2 << 30,
        filesystem: Some("xfs".to_owned()),
        block_device: None,
        driver: None,
        offset_align_bytes: 4096,
        memory_align_bytes: 512,
    });
    record
}

fn mixed_verdicts(cases: &[CaseRecord]) -> Vec<Verdict> {
    let [fast, slow, broken, skipped, nasty] = cases else { panic!("five cases") };
    let mut verdicts = vec![
        verdict(fast, "read.iops >= 5k", Outcome::Pass, Unit::Iops, &[5e3]),
        verdict(fast, "read.latency.p99 < 4ms", Outcome::Pass, Unit::Nanoseconds, &[4e6]),
        verdict(fast, "write.latency.p99.9 < 1ms", Outcome::Fail, Unit::Nanoseconds, &[1e6]),
        verdict(slow, "write.latency.p99 <= 4ms", Outcome::Fail, Unit::Nanoseconds, &[4e6]),
        verdict(slow, "write.latency.p99 <= 4ms", Outcome::Fail, Unit::Nanoseconds, &[4e6]),
        verdict(
            fast,
            "read.latency.mean < 125us",
            Outcome::Inconclusive,
            Unit::Nanoseconds,
            &[125e3],
        ),
        verdict(broken, "errors = 0", Outcome::Error, Unit::Count, &[0.0]),
        verdict(skipped, "read.iops >= 100k", Outcome::Skipped, Unit::Iops, &[1e5]),
        verdict(nasty, "read.iops >= 1k", Outcome::Pass, Unit::Iops, &[1e3]),
    ];
    let fast_mean = verdict(fast, "latency.mean < 1s", Outcome::Pass, Unit::Nanoseconds, &[1e9]);
    let compared = verdict(
        slow,
        "latency.mean <= 2.6 x local/fast",
        Outcome::Fail,
        Unit::Nanoseconds,
        &[2.6 * fast_mean.evidence.measured.unwrap_or(0.0)],
    );
    verdicts.push(against(compared, fast, &fast_mean));
    for (line, verdict) in verdicts.iter_mut().enumerate() {
        verdict.line = 31 + 2 * line;
    }
    verdicts[2].gate = false;
    verdicts[3].why = Some("a commit waits for every zone, and a person waits for it".to_owned());
    verdicts[5].evidence.reason =
        Some("the 95 % interval from 117 us to 131 us has the limit within it".to_owned());
    verdicts[6].evidence.reason = Some("3 reads failed: a case with errors can't pass".to_owned());
    verdicts[8].why = Some(NASTY.to_owned());
    verdicts[8].condition = format!("read.iops >= 1k {NASTY}");
    verdicts
}

/// Stopped in the second round of the first case.
pub(super) fn interrupted() -> Record {
    let mut first = case("local/random-read", "random 4 KiB reads, depth 1", &small(), 1, 21);
    first.rounds.push(RoundRecord {
        round: 2,
        seed: 23,
        measurement: None,
        error: Some("stopped by Ctrl-C".to_owned()),
    });
    let second = case("local/random-write", "random 4 KiB writes, depth 1", &small(), 0, 22);
    let open = |case, condition, limit| {
        let mut verdict = verdict(case, condition, Outcome::Error, Unit::Iops, &[limit]);
        verdict.evidence.measured = None;
        verdict.evidence.reason = Some("the run was stopped before it was measured".to_owned());
        verdict
    };
    let verdicts =
        vec![open(&first, "read.iops >= 5k", 5e3), open(&second, "write.iops >= 5k", 5e3)];
    let mut record = record("first", vec![first, second], verdicts);
    record.interrupted = true;
    record.conclusion.exit_code = 130;
    record.conclusion.note = Some("Stopped by Ctrl-C; nothing was left behind.".to_owned());
    record.plan.text = "name = \"first\"\n".to_owned();
    record
}

/// A simulated sweep of a stripe against one disk: 24 cases.
pub(super) fn sweep() -> Record {
    let disks: Vec<String> = (0..8).map(|index| format!("data.{index}")).collect();
    let mut cases = vec![];
    let mut verdicts = vec![];
    for (at, block) in [4_u64, 8, 16].into_iter().enumerate() {
        for (nth, depth) in [1_u32, 4, 16, 64].into_iter().enumerate() {
            let point = format!("copy[block_size={block}KiB,queue_depth={depth}]");
            let what = format!("sequential {block} KiB writes, depth {depth}");
            let iops = 900.0 * f64::from(depth).sqrt();
            let load = |speed: f64, members: Vec<String>| Load {
                kinds: vec![(IoKind::Write, iops * speed, f64::from(depth) / iops / speed * 1e9)],
                block: block << 10,
                depth: f64::from(depth),
                members,
                simulated: true,
                ..small()
            };
            let seed = 40 + 4 * at as u64 + nth as u64;
            let one = load(1.0, vec!["single".to_owned()]);
            let single = case(&format!("single/{point}"), &what, &one, 3, seed);
            let faster = if depth < 4 { 3.1 } else { 7.2 };
            let many = load(faster, disks.clone());
            let array = format!("array[chunk=256KiB]/{point}");
            let array = case(&array, &what, &many, 3, seed + 20);
            let base = verdict(&single, "write.bandwidth > 0B/s", Outcome::Pass, RATE, &[0.0]);
            let limit = 5.0 * base.evidence.measured.unwrap_or(0.0);
            let outcome = if depth < 4 { Outcome::Fail } else { Outcome::Pass };
            let condition = "write.bandwidth >= 5 x single";
            let judged = verdict(&array, condition, outcome, RATE, &[limit]);
            verdicts.push(against(judged, &single, &base));
            cases.extend([single, array]);
        }
    }
    let mut record = record("stripe", cases, verdicts);
    record.simulated = true;
    (record.started, record.elapsed_ms, record.host) = (None, None, None);
    record.plan.description = Some("Eight disks as one: are they five times as fast?".to_owned());
    record.plan.text = "name = \"stripe\"\n\n[disks.data]\ncount = 8\nsize = \"512MiB\"\n".into();
    record.disks = ["single".to_owned()].into_iter().chain(disks).map(simulated).collect();
    for case in &mut record.cases {
        case.parameters.extend(parameters(&[("chunk", "256KiB")]));
    }
    record
}

const RATE: Unit = Unit::BytesPerSecond;

fn simulated(name: String) -> DiskRecord {
    DiskRecord {
        name,
        kind: "simulated".to_owned(),
        path: None,
        size_bytes: 512 << 20,
        filesystem: None,
        block_device: None,
        driver: None,
        offset_align_bytes: 512,
        memory_align_bytes: 512,
    }
}
