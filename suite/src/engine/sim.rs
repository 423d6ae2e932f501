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
use super::tally::{Failure, Lane};
use super::watch::Watch;
use crate::engine::{Control, Job, Progress, WriteSync};
use crate::measure::{BackendUsed, IoKind, Measurement};
use crate::model::{Disk, DiskModel, Operation};
use crate::units::Nanos;

/// After how many events the simulation looks up from its work.
const LOOK_UP: u64 = 4096;

/// How often it reports, in real time.
const REPORT_EVERY: Duration = Duration::from_millis(250);

/// Runs a job on simulated disks.
pub(super) fn run(
    job: &Job,
    disks: &[(String, DiskModel)],
    control: &Control,
    progress: &mut dyn FnMut(Progress),
) -> Measurement {
    let common = Common::new(job);
    let lanes: Vec<Lane> = (0..job.workers).map(|_| Lane::default()).collect();
    let mut simulation = Simulation::new(job, disks, &common, &lanes);
    common.start(job, 0);
    simulation.start();
    let mut watch = Watch::new(job, &lanes, 0);
    let mut reported = Instant::now();
    let mut events: u64 = 0;
    while let Some(now) = simulation.step() {
        events += 1;
        if events.is_multiple_of(LOOK_UP) {
            if control.stopped() {
                common.stop(now);
            }
            if reported.elapsed() >= REPORT_EVERY {
                reported = Instant::now();
                progress(watch.report(now));
            }
        }
    }
    let mut disks_after = simulation.disks;
    let outcome = Outcome {
        job,
        members: disks.iter().map(|(name, _)| name.clone()).collect(),
        start: 0,
        common: &common,
        lanes: &lanes,
        workers: simulation.workers.into_iter().map(|worker| worker.driver.finish()).collect(),
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
    outcome.measurement(&syncs, None)
}

fn final_sync(disk: &mut Disk, now: u64) -> FinalSync {
    let served = disk.serve(Nanos(now), Operation::Flush, 0);
    FinalSync { started: now, ended: served.at.0, errno: served.errno }
}

/// Disks and workers, and what is going to happen.
struct Simulation<'run> {
    job: &'run Job,
    disks: Vec<Disk>,
    stripe: Option<StripeMap>,
    /// Whether every write is followed by a flush of its disk before it counts as done.
    write_through: bool,
    workers: Vec<SimWorker<'run>>,
    events: BinaryHeap<Reverse<Event>>,
    made: u64,
    requests: Vec<Request>,
}

struct SimWorker<'run> {
    driver: Driver<'run>,
    slots: Vec<Slot>,
    free: Vec<u32>,
}

#[derive(Debug, Clone, Copy)]
struct Slot {
    request: Request,
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
        job: &'run Job,
        disks: &[(String, DiskModel)],
        common: &'run Common,
        lanes: &'run [Lane],
    ) -> Self {
        let chunk = job.storage.chunk.filter(|_| disks.len() > 1);
        let slot = Slot { request: Request::FLUSH, started: 0, parts_left: 0, failure: None };
        let depth = job.queue_depth;
        let workers = (0..job.workers).zip(lanes).map(|(worker, lane)| SimWorker {
            driver: Driver::new(job, worker, disks.len(), common, lane),
            slots: vec![slot; depth as usize],
            free: (0..depth).rev().collect(),
        });
        let disk = |(index, (_, model)): (usize, &(String, DiskModel))| {
            Disk::new(model.clone(), sub_seed(job.seed, Stream::Disk, index as u64))
        };
        Self {
            job,
            disks: disks.iter().enumerate().map(disk).collect(),
            stripe: chunk.map(|chunk| StripeMap::new(chunk.0, disks.len())),
            write_through: job.write_sync != WriteSync::None,
            workers: workers.collect(),
            events: BinaryHeap::with_capacity(depth as usize * job.workers as usize),
            made: 0,
            requests: vec![Request::FLUSH; depth as usize],
        }
    }

    /// All workers begin, at time 0.
    fn start(&mut self) {
        for worker in 0..self.workers.len() as u32 {
            self.workers[worker as usize].driver.start(self.job, 0);
            self.submit(worker, self.job.queue_depth as usize, 0);
        }
    }

    /// What happens next. Returns its time; `None` when nothing more does.
    fn step(&mut self) -> Option<u64> {
        let Reverse(event) = self.events.pop()?;
        let now = event.at;
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
            let Slot { request, started, failure, .. } = *slot;
            worker.free.push(event.slot);
            self.land(event.worker, request, started, failure, now);
            self.submit(event.worker, 1, now);
        }
        Some(now)
    }

    /// All parts of an I/O are done.
    fn land(
        &mut self,
        worker: u32,
        request: Request,
        started: u64,
        failure: Option<Failure>,
        now: u64,
    ) {
        let driver = &mut self.workers[worker as usize].driver;
        driver.reaped(now);
        if let Some(failure) = failure {
            driver.failed(request.kind, failure, now);
        } else {
            driver.completed(request.kind, started, u64::from(request.len));
            if let Some(stripe) = self.stripe {
                for part in stripe.split(request.offset, request.len) {
                    driver.part_completed(part.member, started, u64::from(part.len));
                }
            }
        }
        driver.reported();
    }

    /// A worker hands over its next I/Os.
    fn submit(&mut self, worker: u32, ios: usize, now: u64) {
        let mut requests = std::mem::take(&mut self.requests);
        let driver = &mut self.workers[worker as usize].driver;
        let drawn = driver.draw(&mut requests[..ios]);
        let started = driver.submitted(now, drawn as u64);
        for request in &requests[..drawn] {
            self.launch(worker, *request, started, now);
        }
        self.requests = requests;
    }

    fn launch(&mut self, worker: u32, request: Request, started: u64, now: u64) {
        let of = &mut self.workers[worker as usize];
        // As many are drawn as there are free slots.
        let Some(slot) = of.free.pop() else { return };
        of.slots[slot as usize] = Slot { request, started, parts_left: 0, failure: None };
        let operation = match request.kind {
            IoKind::Read => Operation::Read,
            IoKind::Write => Operation::Write,
            IoKind::Sync => Operation::Flush,
        };
        let then_flush = self.write_through && request.kind == IoKind::Write;
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
