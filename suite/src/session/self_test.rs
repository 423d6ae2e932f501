//! The engine on this machine without a disk: what it could do at all.
//!
//! Every line is the median of several short measurements: a moment in which somebody else had
//! the processor is not the machine's limit.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use super::ceiling::null_files;
use crate::engine::{
    Access, Backend, Control, DeviceFile, Engine, Job, Length, Mix, Pace, Payload, RingOptions,
    Storage, Target, WriteSync, parts,
};
use crate::measure::Measurement;
use crate::os::clock::monotonic_ns;
use crate::os::io::memory_file;
use crate::units::{Bytes, Nanos, Unit};

/// Measurements of which each line is the median.
const TIMES: usize = 5;

/// How long one of them takes.
const WINDOW: Nanos = Nanos(80_000_000);

/// Size of the file in memory that is read: small enough for every machine, larger than caches.
const MEMORY: Bytes = Bytes(64 << 20);

/// No-ops handed over at a time.
const NO_OPS: usize = 32;

/// What was found out about one thing.
#[derive(Debug, Clone, PartialEq)]
pub struct Line {
    /// What was done: `null device, io_uring, depth 32`.
    pub what: String,
    /// How much of it a second, in `unit`; `None` where it can't be done here.
    pub rate: Option<f64>,
    /// Unit of the rate.
    pub unit: Unit,
    /// Processor time for each, in nanoseconds; `None` where nobody knows.
    pub cpu_ns: Option<f64>,
    /// Why it can't be done here.
    pub reason: Option<String>,
}

/// Measures the engine without a disk, and tells each line as soon as it is known. Ends early when
/// `stop` becomes true.
pub fn self_test(stop: &Arc<AtomicBool>, tell: &mut dyn FnMut(&Line)) {
    let control = Control::new(Arc::clone(stop));
    let mut engine = Engine::new();
    if !control.stopped() {
        tell(&no_ops());
    }
    let ways = [
        (Backend::Sync, "sync", 1),
        (Backend::IoUring, "io_uring", 1),
        (Backend::IoUring, "io_uring", 32),
        (Backend::IoUring, "io_uring", 128),
        (Backend::Libaio, "libaio", 32),
    ];
    for (backend, name, depth) in ways {
        let job = null_files(1).map(|files| job(files, 1 << 40, (backend, depth), 0));
        let what = format!("null device, {name}, depth {depth}");
        measure(what, &mut engine, &control, job, tell);
    }
    for (backend, name, depth) in [ways[0], ways[2]] {
        let job = memory().map(|files| job(files, MEMORY.0, (backend, depth), 100));
        measure(format!("memory, {name}, depth {depth}"), &mut engine, &control, job, tell);
    }
    if !control.stopped() {
        tell(&contents());
    }
}

/// Measures one job, and tells what came of it.
fn measure(
    what: String,
    engine: &mut Engine,
    control: &Control,
    job: std::io::Result<Job>,
    tell: &mut dyn FnMut(&Line),
) {
    let mut line = Line { what, rate: None, unit: Unit::Iops, cpu_ns: None, reason: None };
    let mut rounds = Vec::new();
    match job {
        Err(error) => line.reason = Some(error.to_string()),
        Ok(job) => {
            while rounds.len() < TIMES && line.reason.is_none() {
                match engine.run(&job, control, &mut |_| {}) {
                    _ if control.stopped() => return,
                    Ok(measured) => rounds.push(measured),
                    Err(error) => line.reason = Some(error.to_string()),
                }
            }
        }
    }
    if line.reason.is_none() {
        line.rate = median(rounds.iter().map(rate));
        line.cpu_ns = median(rounds.iter().filter_map(cpu_ns));
    }
    tell(&line);
}

fn rate(measured: &Measurement) -> f64 {
    measured.completed(None) as f64 / measured.duration_ns.as_secs()
}

fn cpu_ns(measured: &Measurement) -> Option<f64> {
    let (cpu, ios) = (measured.cpu?, measured.completed(None));
    (ios > 0).then(|| (cpu.user_ns + cpu.system_ns) as f64 / ios as f64)
}

/// How fast a ring turns when nothing is asked of anybody.
fn no_ops() -> Line {
    let line = Line {
        what: format!("ring, no-ops, {NO_OPS} at a time"),
        rate: None,
        unit: Unit::Iops,
        cpu_ns: None,
        reason: None,
    };
    let made = parts::no_ops(NO_OPS);
    let measured = made.and_then(|mut turn| repeated(&mut || turn().map(|done| done as u64)));
    match measured {
        Ok(rate) => Line { rate, cpu_ns: rate.map(|rate| 1e9 / rate), ..line },
        Err(error) => Line { reason: Some(error.to_string()), ..line },
    }
}

/// How fast new contents for writes are made.
fn contents() -> Line {
    let line = Line {
        what: "contents of writes, made anew".to_owned(),
        rate: None,
        unit: Unit::BytesPerSecond,
        cpu_ns: None,
        reason: None,
    };
    let measured = || -> Result<Option<f64>, String> {
        let files = null_files(1).map_err(|error| error.to_string())?;
        let job = Job { payload: Payload::Random, ..job(files, 1 << 40, (Backend::Sync, 1), 0) };
        let mut write = parts::writer(&job).map_err(|error| error.to_string())?;
        let mut once = || {
            std::hint::black_box(write(4096));
            Ok(4096)
        };
        repeated(&mut once).map_err(|error| error.to_string())
    };
    match measured() {
        Ok(rate) => Line { rate, ..line },
        Err(reason) => Line { reason: Some(reason), ..line },
    }
}

/// How much a second comes of doing this over and over.
fn repeated(once: &mut dyn FnMut() -> std::io::Result<u64>) -> std::io::Result<Option<f64>> {
    let mut rates = Vec::new();
    for _ in 0..TIMES {
        let (start, mut done) = (monotonic_ns(), 0);
        let mut now = start;
        while now - start < WINDOW.0 {
            for _ in 0..100 {
                done += once()?;
            }
            now = monotonic_ns();
        }
        rates.push(done as f64 * 1e9 / (now - start) as f64);
    }
    Ok(median(rates.into_iter()))
}

/// A file in memory, written in full.
fn memory() -> std::io::Result<Vec<DeviceFile>> {
    let file = memory_file("diskproof-self-test")?;
    let block = vec![1; 1 << 20];
    for number in 0..MEMORY.0 >> 20 {
        std::os::unix::fs::FileExt::write_all_at(&file, &block, number << 20)?;
    }
    Ok(vec![DeviceFile {
        name: "memory".to_owned(),
        file: Arc::new(file),
        memory_align: 1,
        offset_align: 1,
    }])
}

/// Random I/Os of 4 KiB, one worker.
fn job(files: Vec<DeviceFile>, len: u64, (backend, depth): (Backend, u32), reads: u8) -> Job {
    Job {
        storage: Storage { target: Target::Files(files), chunk: None, member_bytes: len },
        start: 0,
        len,
        random: true,
        once: false,
        access: Access::Uniform,
        partitioned: false,
        read_percent: reads,
        trim: false,
        blocks: vec![Mix { block: Bytes(4096), weight: 1 }],
        granularity: Bytes(4096),
        queue_depth: depth,
        workers: 1,
        cpus: Vec::new(),
        pace: Pace::Closed,
        warmup: Nanos(5_000_000),
        length: Length::Time(WINDOW),
        cooldown: Nanos(0),
        write_sync: WriteSync::None,
        flush_every: None,
        fsync_at_end: false,
        payload: Payload::Zero,
        verify: None,
        backend,
        ring: RingOptions::default(),
        seed: 1,
        series_interval: WINDOW,
    }
}

fn median(values: impl Iterator<Item = f64>) -> Option<f64> {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_has_a_rate_or_a_reason() {
        let mut lines = Vec::new();
        self_test(&Arc::default(), &mut |line| lines.push(line.clone()));
        assert_eq!(lines.len(), 9);
        for line in &lines {
            assert_eq!(line.rate.is_some(), line.reason.is_none(), "{line:?}");
            assert!(line.rate.is_none_or(|rate| rate > 1000.0), "{line:?}");
        }
        assert!(lines.iter().any(|line| line.what.contains("sync") && line.rate.is_some()));
    }

    #[test]
    fn one_that_is_stopped_ends_at_once() {
        let mut lines = 0;
        self_test(&Arc::new(AtomicBool::new(true)), &mut |_| lines += 1);
        assert_eq!(lines, 0);
    }
}
