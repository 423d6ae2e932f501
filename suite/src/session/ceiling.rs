//! What the engine could do with a case if no disk were in its way.
//!
//! The same requests go by the same back end, with the same depth and workers, to a device that
//! takes all and does nothing (`/dev/null`). A case that comes near to that was not limited by its
//! disk but by the tool or the processor, and its figures say so.
//!
//! Reads are stood for by writes of zeros that nobody makes: both cost the engine the same, and
//! the null device has nothing to read. So a mix takes two measurements, of which follows what
//! both together come to.

use std::collections::HashMap;
use std::fs::{File, OpenOptions};
use std::io;
use std::sync::Arc;

use crate::engine::{
    Backend, Control, DeviceFile, Engine, EngineError, Job, Length, Pace, Payload, RingOptions,
    Storage, Target, WriteSync,
};
use crate::measure::{IoKind, Measurement};
use crate::units::Nanos;

/// The device that takes all and does nothing.
const NULL: &str = "/dev/null";

/// How long one measurement takes: some ten thousand I/Os.
const WINDOW: Nanos = Nanos(20_000_000);

/// The load before it, in which the threads and caches get warm.
const WARMUP: Nanos = Nanos(2_000_000);

/// Below this share of the workers' time no processor is the limit, and nothing is compared.
const BUSY: f64 = 0.5;

/// What the engine can do here, measured when somebody asks.
#[derive(Default)]
pub(super) struct Ceilings {
    /// By what the cost of an I/O follows from.
    known: HashMap<String, Option<f64>>,
}

/// What each load of a case did: its streams, or all of it.
pub(super) fn of_loads(measured: &Measurement) -> impl Iterator<Item = &Measurement> {
    let whole = measured.streams.is_empty().then_some(measured);
    whole.into_iter().chain(measured.streams.iter().map(|stream| &stream.measurement))
}

/// How busy the workers of a load were, as a share of the time that they had; `None` where nobody
/// knows. Of streams, whose processor time is not told apart, the most that it can have been.
pub(super) fn busy(measured: &Measurement, load: usize) -> Option<f64> {
    let (cpu, one) = (measured.cpu?, of_loads(measured).nth(load)?);
    let there = one.duration_ns.0 as f64 * one.workers.len() as f64;
    (there > 0.0).then(|| (cpu.user_ns + cpu.system_ns) as f64 / there)
}

/// Whether such a load of a case could have been limited by the engine or the processor at all.
pub(super) fn is_worth_a_look(measured: &Measurement, load: usize) -> bool {
    let completed = of_loads(measured).nth(load).map_or(0, |one| one.completed(None));
    busy(measured, load).is_some_and(|share| share >= BUSY) && completed > 0
}

/// The job with nothing but numbers: what of it the engine's own cost follows from, with the back
/// end that it went by. `None` of a simulated one.
pub(super) fn stripped(job: &Job, measured: &Measurement) -> Option<Job> {
    let Target::Files(files) = &job.storage.target else { return None };
    if job.trim {
        return None; // the null device takes no trims
    }
    Some(Job {
        storage: Storage {
            target: Target::Files(null_files(files.len()).ok()?),
            ..job.storage.clone()
        },
        pace: Pace::Closed,
        warmup: WARMUP,
        length: Length::Time(WINDOW),
        cooldown: Nanos(0),
        write_sync: WriteSync::None,
        flush_every: None,
        fsync_at_end: false,
        verify: None,
        backend: backend(&measured.backend.name)?,
        // The null device can't be polled.
        ring: RingOptions { polled: false, ..job.ring },
        series_interval: WINDOW,
        ..job.clone()
    })
}

impl Ceilings {
    /// How many I/Os a second the engine could do of a stripped job, with the share of reads that
    /// were measured.
    pub(super) fn of(
        &mut self,
        engine: &mut Engine,
        control: &Control,
        job: &Job,
        measured: &Measurement,
    ) -> Option<f64> {
        let all = measured.completed(None) as f64;
        let reads = measured.completed(Some(IoKind::Read)) as f64 / all;
        let mut cost = 0.0;
        for (share, payload) in [(reads, Payload::Zero), (1.0 - reads, job.payload)] {
            if share > 0.0 {
                cost += share / self.with(engine, control, job, payload)?;
            }
        }
        (cost > 0.0).then(|| 1.0 / cost)
    }

    fn with(
        &mut self,
        engine: &mut Engine,
        control: &Control,
        job: &Job,
        payload: Payload,
    ) -> Option<f64> {
        let job = Job { read_percent: 0, payload, ..job.clone() };
        *self
            .known
            .entry(shape(&job))
            .or_insert_with(|| rate(engine, control, &job).ok().filter(|rate| *rate > 0.0))
    }
}

/// What the cost of an I/O follows from, as one name.
fn shape(job: &Job) -> String {
    let Job { backend, queue_depth, workers, cpus, random, once, access, blocks, ring, .. } = job;
    let members = match &job.storage.target {
        Target::Files(files) => files.len(),
        Target::Simulated(disks) => disks.len(),
    };
    let chunk = job.storage.chunk;
    format!(
        "{backend:?} {queue_depth} {workers} {cpus:?} {random} {once} {access:?} {blocks:?} \
         {members} {chunk:?} {ring:?} {:?}",
        job.payload
    )
}

/// I/Os a second of a job.
pub(super) fn rate(engine: &mut Engine, control: &Control, job: &Job) -> Result<f64, EngineError> {
    let measured = engine.run(job, control, &mut |_| {})?;
    Ok(measured.completed(None) as f64 / measured.duration_ns.as_secs())
}

/// As many members that take all and do nothing.
pub(super) fn null_files(count: usize) -> io::Result<Vec<DeviceFile>> {
    let file: Arc<File> = Arc::new(OpenOptions::new().write(true).open(NULL)?);
    let member = |number| DeviceFile {
        name: format!("null.{number}"),
        file: Arc::clone(&file),
        memory_align: 512,
        offset_align: 1,
    };
    Ok((0..count).map(member).collect())
}

/// The back end of this name.
fn backend(name: &str) -> Option<Backend> {
    match name {
        "io_uring" => Some(Backend::IoUring),
        "libaio" => Some(Backend::Libaio),
        "sync" => Some(Backend::Sync),
        _ => None,
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::engine::{Access, Mix, probe};
    use crate::testing::skip;
    use crate::units::Bytes;

    /// Random I/Os of 4 KiB over a terabyte that isn't there.
    pub(in crate::session) fn job(backend: Backend, depth: u32) -> Job {
        Job {
            storage: Storage {
                target: Target::Files(null_files(1).unwrap()),
                chunk: None,
                member_bytes: 1 << 40,
            },
            start: 0,
            len: 1 << 40,
            random: true,
            once: false,
            access: Access::Uniform,
            partitioned: false,
            read_percent: 0,
            trim: false,
            blocks: vec![Mix { block: Bytes(4096), weight: 1 }],
            granularity: Bytes(4096),
            queue_depth: depth,
            workers: 1,
            cpus: Vec::new(),
            pace: Pace::Closed,
            warmup: WARMUP,
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

    #[test]
    fn what_does_nothing_else_is_at_its_own_ceiling() {
        let mut ways = vec![(Backend::Sync, 1)];
        match probe().reason {
            None => ways.push((Backend::IoUring, 32)),
            Some(reason) => skip("what_does_nothing_else_is_…", "no io_uring", &reason),
        }
        for (backend, depth) in ways {
            // Others may leave one of two windows too little of a processor, or both: one pair of
            // many is to be of one size.
            let mut ratios = Vec::new();
            while !ratios.iter().any(|ratio| (0.2..5.0).contains(ratio)) {
                assert!(ratios.len() < 40, "{backend:?}: of its ceiling {ratios:?}");
                ratios.push(of_its_ceiling(&job(backend, depth)));
            }
        }
    }

    /// The rate of a job by the ceiling that is found for it; 0 where none could be found.
    fn of_its_ceiling(job: &Job) -> f64 {
        let (mut engine, control) = (Engine::new(), Control::default());
        let measured = engine.run(job, &control, &mut |_| {}).unwrap();
        let stripped = stripped(job, &measured).unwrap();
        let mut ceilings = Ceilings::default();
        let Some(most) = ceilings.of(&mut engine, &control, &stripped, &measured) else {
            return 0.0;
        };
        let asked_again = ceilings.of(&mut engine, &control, &stripped, &measured);
        assert_eq!(asked_again, Some(most), "it is measured once");
        measured.completed(None) as f64 / measured.duration_ns.as_secs() / most
    }
}
