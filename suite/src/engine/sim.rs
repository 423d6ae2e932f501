//! The simulated back end: all workers in one thread, in virtual time.
//!
//! Everything but the disks is what real runs have: what comes next, the window, the counts.
//! Events are taken in the order of their times, and of their making where times are equal, so
//! the same job gives the same measurement, byte for byte. Handing over an I/O takes no time.

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;
use std::time::{Duration, Instant};

use super::driver::{Common, Driver};
use super::outcome::{FinalSync, Outcome};
use super::requests::Request;
use super::seed::{Stream, sub_seed};
use super::stripe::{Extent, StripeMap};
use super::tally::{Failure, Lane, NEVER};
use super::watch::Watch;
use crate::engine::{Control, Job, Progress, WriteSync};
use crate::measure::{BackendUsed, IoKind, Measurement};
use crate::model::{Disk, DiskModel, Operation};
use crate::units::Nanos;

/// After how many events the simulation looks up from its work.
const LOOK_UP: u64 = 4096;

/// The slot of an event that is no I/O: a worker is to look at the clock.
const ALARM: u32 = u32::MAX;

/// How often it reports, in real time.
const REPORT_EVERY: Duration = Duration::from_millis(250);

/// Runs jobs side by side on the same simulated disks, and returns what each measured.
pub(super) fn run(
    jobs: &[Job],
    disks: &[(String, DiskModel)],
    control: &Control,
    progress: &mut dyn FnMut(Progress),
) -> Vec<Measurement> {
    let commons = Common::of_all(jobs);
    let of_job = |job: &Job| -> Vec<Lane> { (0..job.workers).map(|_| Lane::new(job, 0)).collect() };
    let lanes: Vec<Vec<Lane>> = jobs.iter().map(of_job).collect();
    let mut simulation = Simulation::new(jobs, disks, &commons, &lanes);
    for (job, common) in jobs.iter().zip(&commons) {
        common.start(job, 0);
    }
    simulation.start();
    let mut watch = Watch::new(&jobs[0], lanes.iter().flatten().collect(), 0);
    let mut reported = Instant::now();
    let mut events: u64 = 0;
    while let Some(now) = simulation.step() {
        events += 1;
        if events.is_multiple_of(LOOK_UP) {
            if control.stopped() {
                commons[0].stop(now);
            }
            if reported.elapsed() >= REPORT_EVERY {
                reported = Instant::now();
                progress(watch.report(now));
            }
        }
    }
    let mut disks_after = simulation.disks;
    let mut workers = simulation.workers.into_iter().map(|worker| worker.driver.finish());
    let mut measured = Vec::with_capacity(jobs.len());
    for ((job, common), lanes) in jobs.iter().zip(&commons).zip(&lanes) {
        let outcome = Outcome {
            job,
            members: disks.iter().map(|(name, _)| name.clone()).collect(),
            start: 0,
            common,
            lanes,
            workers: workers.by_ref().take(lanes.len()).collect(),
            backend: BackendUsed {
                name: "sim".to_owned(),
                why: "the disks are simulated".to_owned(),
                features: Vec::new(),
            },
        };
        let ended = outcome.ended();
        let syncs: Vec<FinalSync> = if job.fsync_at_end && !control.stopped() {
            disks_after.iter_mut().map(|disk| final_sync(disk, ended)).collect()
        } else {
            Vec::new()
        };
        measured.push(outcome.measurement(&syncs, None));
    }
    measured
}

fn final_sync(disk: &mut Disk, now: u64) -> FinalSync {
    let served = disk.serve(Nanos(now), Operation::Flush, 0);
    FinalSync { started: now, ended: served.at.0, errno: served.errno }
}

/// Disks and workers, and what is going to happen.
struct Simulation<'run> {
    disks: Vec<Disk>,
    stripe: Option<StripeMap>,
    /// Those of all jobs, one job's after another's.
    workers: Vec<SimWorker<'run>>,
    events: BinaryHeap<Reverse<Event>>,
    made: u64,
    requests: Vec<Request>,
    dues: Vec<u64>,
}

struct SimWorker<'run> {
    job: &'run Job,
    driver: Driver<'run>,
    /// When it is to be woken, where its next I/O isn't due yet.
    alarm: Option<u64>,
    slots: Vec<Slot>,
    free: Vec<u32>,
}

#[derive(Debug, Clone, Copy)]
struct Slot {
    request: Request,
    /// When it was due; its start where I/Os follow each other.
    due: u64,
    started: u64,
    parts_left: u32,
    failure: Option<Failure>,
}

/// A part of an I/O is done on its disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Event {
    at: u64,
    number: u64,
    worker: u32,
    slot: u32,
    extent: Extent,
    errno: Option<i32>,
    then_flush: bool,
}

impl Ord for Event {
    fn cmp(&self, other: &Self) -> Ordering {
        (self.at, self.number).cmp(&(other.at, other.number))
    }
}

impl PartialOrd for Event {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<'run> Simulation<'run> {
    fn new(
        jobs: &'run [Job],
        disks: &[(String, DiskModel)],
        commons: &'run [Common],
        lanes: &'run [Vec<Lane>],
    ) -> Self {
        // They are on the same storage.
        let chunk = jobs[0].storage.chunk.filter(|_| disks.len() > 1);
        let slot =
            Slot { request: Request::FLUSH, due: 0, started: 0, parts_left: 0, failure: None };
        let of_job = |((job, common), lanes): ((&'run Job, &'run Common), &'run Vec<Lane>)| {
            (0..job.workers).zip(lanes).map(move |(worker, lane)| SimWorker {
                job,
                driver: Driver::new(job, worker, disks.len(), common, lane),
                alarm: None,
                slots: vec![slot; job.queue_depth as usize],
                free: (0..job.queue_depth).rev().collect(),
            })
        };
        let workers: Vec<_> = jobs.iter().zip(commons).zip(lanes).flat_map(of_job).collect();
        let depth = jobs.iter().map(|job| job.queue_depth as usize).max().unwrap_or(1);
        let disk = |(index, (_, model)): (usize, &(String, DiskModel))| {
            Disk::new(model.clone(), sub_seed(jobs[0].seed, Stream::Disk, index as u64))
        };
        Self {
            disks: disks.iter().enumerate().map(disk).collect(),
            stripe: chunk.map(|chunk| StripeMap::new(chunk.0, disks.len())),
            events: BinaryHeap::with_capacity(depth * workers.len()),
            workers,
            made: 0,
            requests: vec![Request::FLUSH; depth],
            dues: vec![0; depth],
        }
    }

    /// All workers begin, at time 0.
    fn start(&mut self) {
        for worker in 0..self.workers.len() as u32 {
            let of = &mut self.workers[worker as usize];
            of.driver.start(of.job, 0);
            self.submit(worker, 0);
        }
    }

    /// What happens next. Returns its time; `None` when nothing more does.
    fn step(&mut self) -> Option<u64> {
        let Reverse(event) = self.events.pop()?;
        let now = event.at;
        if event.slot == ALARM {
            self.workers[event.worker as usize].alarm = None;
            self.submit(event.worker, now);
            return Some(now);
        }
        if event.then_flush && event.errno.is_none() {
            let event = Event { then_flush: false, ..event };
            self.serve(event, Operation::Flush, 0, now);
            return Some(now);
        }
        let worker = &mut self.workers[event.worker as usize];
        let slot = &mut worker.slots[event.slot as usize];
        if let Some(errno) = event.errno {
            let Extent { member, offset, .. } = event.extent;
            slot.failure.get_or_insert(Failure { errno, member, offset });
        }
        slot.parts_left -= 1;
        if slot.parts_left == 0 {
            let landed = *slot;
            worker.free.push(event.slot);
            self.land(event.worker, landed, now);
            self.submit(event.worker, now);
        }
        Some(now)
    }

    /// All parts of an I/O are done.
    fn land(&mut self, worker: u32, slot: Slot, now: u64) {
        let Slot { request, due, started, failure, .. } = slot;
        let driver = &mut self.workers[worker as usize].driver;
        driver.reaped(now);
        if let Some(failure) = failure {
            driver.failed(request.kind, failure, now);
        } else {
            if driver.is_paced() {
                driver.completed_due(request.kind, due, started, u64::from(request.len));
            } else {
                driver.completed(request.kind, started, u64::from(request.len));
            }
            if let Some(stripe) = self.stripe {
                for part in stripe.split(request.offset, request.len) {
                    driver.part_completed(part.member, started, u64::from(part.len));
                }
            }
        }
        driver.reported();
    }

    /// A worker hands over its next I/Os: as many as there are free slots, and are due.
    fn submit(&mut self, worker: u32, now: u64) {
        let mut requests = std::mem::take(&mut self.requests);
        let mut dues = std::mem::take(&mut self.dues);
        let of = &mut self.workers[worker as usize];
        let ios = of.free.len();
        let paced = of.driver.is_paced();
        let drawn = if paced {
            of.driver.draw_due(now, &mut requests[..ios], &mut dues[..ios])
        } else {
            of.driver.draw(&mut requests[..ios])
        };
        let started = of.driver.submitted(now, drawn as u64);
        for (request, due) in requests[..drawn].iter().zip(&dues) {
            let due = if paced { *due } else { started };
            self.launch(worker, *request, (due, started), now);
        }
        (self.requests, self.dues) = (requests, dues);
        if paced {
            self.set_alarm(worker, now);
        }
    }

    /// Sees to it that a worker is woken when its next I/O is due, if there is room for that.
    fn set_alarm(&mut self, worker: u32, now: u64) {
        let of = &mut self.workers[worker as usize];
        if !of.driver.submitting() || of.free.is_empty() {
            return;
        }
        let due = of.driver.next_due(now);
        if due == NEVER || of.alarm.is_some_and(|alarm| alarm <= due) {
            return;
        }
        of.alarm = Some(due);
        self.made += 1;
        let extent = Extent { member: 0, offset: 0, at: 0, len: 0 };
        let (at, number) = (due, self.made);
        let event =
            Event { at, number, worker, slot: ALARM, extent, errno: None, then_flush: false };
        self.events.push(Reverse(event));
    }

    fn launch(&mut self, worker: u32, request: Request, (due, started): (u64, u64), now: u64) {
        let of = &mut self.workers[worker as usize];
        // As many are drawn as there are free slots.
        let Some(slot) = of.free.pop() else { return };
        of.slots[slot as usize] = Slot { request, due, started, parts_left: 0, failure: None };
        let operation = match request.kind {
            IoKind::Read => Operation::Read,
            IoKind::Write => Operation::Write,
            IoKind::Trim => Operation::Trim,
            IoKind::Sync => Operation::Flush,
        };
        // A write-through write is followed by a flush of its disk before it counts as done.
        let write_through = of.job.write_sync != WriteSync::None;
        let then_flush = write_through && request.kind == IoKind::Write;
        let (stripe, members) = (self.stripe, self.disks.len() as u32);
        let mut parts = 0;
        let mut serve = |extent| {
            let event = Event { at: now, number: 0, worker, slot, extent, errno: None, then_flush };
            self.serve(event, operation, u64::from(extent.len), now);
            parts += 1;
        };
        let whole = Extent { member: 0, offset: request.offset, at: 0, len: request.len };
        match (stripe, operation) {
            (None, _) => serve(whole),
            (Some(_), Operation::Flush) => {
                (0..members).for_each(|member| serve(Extent { member, ..whole }));
            }
            (Some(stripe), _) => stripe.split(request.offset, request.len).for_each(serve),
        }
        self.workers[worker as usize].slots[slot as usize].parts_left = parts;
    }

    /// A disk serves a part, and what comes of it becomes an event.
    fn serve(&mut self, event: Event, operation: Operation, bytes: u64, now: u64) {
        let disk = &mut self.disks[event.extent.member as usize];
        let served = disk.serve(Nanos(now), operation, bytes);
        self.made += 1;
        let (at, number, errno) = (served.at.0, self.made, served.errno);
        self.events.push(Reverse(Event { at, number, errno, ..event }));
    }
}
