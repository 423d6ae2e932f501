//! A job on files: its workers, their start line, and who watches over them.
//!
//! Workers own a share of all that they use. When I/Os never return, the watcher leaves them to
//! themselves: what the kernel may still read or write stays where it is, for ever.

use std::any::Any;
use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::Ordering::Relaxed;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

use rayon::ThreadPool;

use super::aio::AioWorker;
use super::buffer::Buffers;
use super::driver::{Common, Done, Driver};
use super::files::Files;
use super::guard::Guard;
use super::last_flush::last_flush;
use super::meter::Meter;
use super::outcome::Outcome;
use super::probe::{Way, choose};
use super::sync::SyncWorker;
use super::tally::{Lane, Window};
use super::uring::RingWorker;
use super::verify::read_back;
use super::watch::Watch;
use crate::engine::{Control, DeviceFile, EngineError, Job, Pace, Progress};
use crate::measure::{BackendUsed, CpuUse, Measurement};
use crate::os::clock::monotonic_ns;
use crate::os::cpu::{Affinity, thread_limits};
use crate::units::Nanos;

/// How often the watcher looks whether the job is to be stopped.
pub(super) const LOOK_EVERY: Duration = Duration::from_millis(50);

/// How often it reports, in nanoseconds.
pub(super) const REPORT_EVERY: u64 = 250_000_000;

/// Runs jobs side by side on the same files, with one thread of the pool for each worker, and
/// returns what each measured and the processor time of all. Workers that are not pinned run where
/// `anywhere` lets them. When it returns, its files are closed and its memory is given back, unless
/// [`EngineError::Stuck`] says otherwise: then the pool can't be used again.
pub(super) fn run(
    pool: &ThreadPool,
    anywhere: Affinity,
    jobs: &[Job],
    files: &[DeviceFile],
    control: &Control,
    progress: &mut dyn FnMut(Progress),
) -> Result<(Vec<Measurement>, CpuUse), EngineError> {
    let mut teams = Vec::with_capacity(jobs.len());
    for (job, common) in jobs.iter().zip(Common::of_all(jobs)) {
        teams.push(Team::new(job, common, files, control)?);
    }
    let crew = Arc::new(Crew { teams, anywhere, line: StartLine::default() });
    let (sender, news) = channel();
    send_out(pool, &crew, sender);
    let finished = crew.supervise(&news, control, progress)?;
    let mut workers = finished.workers.into_iter();
    let mut outcomes = Vec::with_capacity(jobs.len());
    for (team, features) in crew.teams.iter().zip(finished.features) {
        let outcome = Outcome {
            job: &team.job,
            members: team.files.members.iter().map(|member| member.name.clone()).collect(),
            start: finished.start,
            common: &team.common,
            lanes: &team.lanes,
            workers: workers.by_ref().take(team.lanes.len()).collect(),
            backend: BackendUsed {
                name: team.way.name().to_owned(),
                why: team.why.clone(),
                features: features.into_iter().map(str::to_owned).collect(),
            },
        };
        let flush = team.job.fsync_at_end && !control.stopped();
        let syncs = if flush { last_flush(&team.files, control)? } else { Vec::new() };
        outcomes.push((team, outcome, syncs));
    }
    let cpu = finished.meter.finish();
    let mut measured = Vec::with_capacity(jobs.len());
    for (team, outcome, syncs) in outcomes {
        let mut one = outcome.measurement(&syncs, None);
        team.read_back(&mut one, control, progress)?;
        measured.push(one);
    }
    Ok((measured, cpu))
}

/// The error of threads that could not be made: what may limit them, and what to do about it.
pub(super) fn no_threads(error: &dyn std::error::Error) -> EngineError {
    let limits = thread_limits();
    let limit = |limit: Option<u64>, option, of| match limit {
        Some(limit) => format!("`ulimit -{option}` allows {limit} {of}"),
        None => format!("`ulimit -{option}` sets no limit"),
    };
    let threads = limit(limits.threads, 'u', "processes and threads of this user");
    let memory = limit(limits.memory_kib, 'v', "KiB of address space");
    EngineError::Workers {
        reason: format!(
            "no more threads can be made ({error}): {threads}, {memory}, and the control group \
             may have a `pids.max` of its own; raise what is too low, or ask for fewer workers"
        ),
    }
}

/// What is called at the start line.
#[derive(Debug, Clone, Copy)]
enum Call {
    /// The run has begun, at this time.
    Start(u64),
    /// There will be none.
    Off,
}

/// Where workers wait until all of them are ready.
#[derive(Debug, Default)]
struct StartLine {
    /// What was called, once it was.
    call: Mutex<Option<Call>>,
    called: Condvar,
}

impl StartLine {
    fn call(&self, what: Call) {
        *self.call.lock().unwrap_or_else(PoisonError::into_inner) = Some(what);
        self.called.notify_all();
    }

    fn wait(&self) -> Call {
        let mut call = self.call.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            if let Some(called) = *call {
                return called;
            }
            call = self.called.wait(call).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

/// What a worker tells the watcher.
enum News {
    /// This worker is ready, with these features of its back end, or can't be.
    Ready(u32, Result<Vec<&'static str>, EngineError>),
    /// This worker has done its last I/O, if it had any, and let go of all that it used.
    Left(u32, Option<Result<Box<Done>, EngineError>>),
    /// A worker broke down, in this panic.
    Lost(Box<dyn Any + Send>),
}

/// Ends the load when the watcher panics, in what listens to it: nobody would hear of the end.
struct Leash<'run>(&'run Crew);

impl Drop for Leash<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.stop(monotonic_ns());
        }
    }
}

/// What all workers of a job share.
struct Team {
    job: Job,
    files: Files,
    way: Way,
    /// Why that way.
    why: String,
    common: Common,
    lanes: Box<[Lane]>,
}

impl Team {
    fn new(
        job: &Job,
        common: Common,
        files: &[DeviceFile],
        control: &Control,
    ) -> Result<Self, EngineError> {
        let files = Files::new(job, files);
        let (way, why) = choose(job, &files, control)?;
        let parts = job.queue_depth as usize * job.parts_max(files.members.len());
        let lanes = (0..job.workers).map(|_| Lane::new(job, parts)).collect();
        Ok(Self { job: job.clone(), files, way, why, common, lanes })
    }

    /// Holds what a job left behind against what it should be, where that was asked for.
    fn read_back(
        &self,
        measured: &mut Measurement,
        control: &Control,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<(), EngineError> {
        if let Some(table) = self.job.verify.as_ref().filter(|_| self.job.read_percent < 100)
            && !control.stopped()
        {
            let back = read_back(&self.job, &self.files, table, control, progress)?;
            back.add_to(measured);
        }
        Ok(())
    }
}

/// All workers of all jobs, numbered through.
struct Crew {
    teams: Vec<Team>,
    anywhere: Affinity,
    line: StartLine,
}

/// All workers, when they are done.
struct Finished {
    start: u64,
    workers: Vec<Done>,
    /// Of each job, those that all of its workers have.
    features: Vec<Vec<&'static str>>,
    meter: Meter,
}

/// The workers that have left, and how.
#[derive(Default)]
struct Gone {
    count: u32,
    outcomes: Vec<(u32, Result<Box<Done>, EngineError>)>,
    panic: Option<Box<dyn Any + Send>>,
}

impl Gone {
    /// Takes note of what a worker told; false when the others had better stop.
    fn is_well(&mut self, news: News) -> bool {
        match news {
            News::Ready(..) => true,
            News::Left(number, outcome) => {
                self.count += 1;
                let well = matches!(outcome, Some(Ok(_)));
                self.outcomes.extend(outcome.map(|outcome| (number, outcome)));
                well
            }
            News::Lost(payload) => {
                self.count += 1;
                self.panic = Some(payload);
                false
            }
        }
    }

    /// What they did, in the order of their numbers. Goes on with the panic of one that had one.
    fn workers(mut self) -> Result<Vec<Done>, EngineError> {
        if let Some(payload) = self.panic {
            resume_unwind(payload);
        }
        self.outcomes.sort_by_key(|(number, _)| *number);
        self.outcomes.into_iter().map(|(_, outcome)| outcome.map(|done| *done)).collect()
    }
}

/// A worker of any back end.
enum Worker<'run> {
    Ring(Box<RingWorker<'run>>),
    Aio(Box<AioWorker<'run>>),
    Sync(Box<SyncWorker<'run>>),
}

/// Puts every thread of the pool to work.
fn send_out(pool: &ThreadPool, crew: &Arc<Crew>, sender: Sender<News>) {
    // The pool keeps this closure a little longer than its last thread works. A worker has its
    // share of the crew while it works and no longer: when all have left, the files can be closed.
    let crew = Arc::downgrade(crew);
    pool.spawn_broadcast(move |context| {
        let number = context.index() as u32;
        let work = || crew.upgrade().and_then(|crew| crew.work(number, &sender));
        let left = match catch_unwind(AssertUnwindSafe(work)) {
            Ok(done) => News::Left(number, done.map(|done| done.map(Box::new))),
            Err(panic) => News::Lost(panic),
        };
        // Nobody listens any more when the run was given up.
        let _ = sender.send(left);
    });
}

impl Crew {
    /// The life of one worker, on its thread.
    fn work(&self, number: u32, news: &Sender<News>) -> Option<Result<Done, EngineError>> {
        let job = &self.team(number).0.job;
        let (worker, ready) = match self.prepare(number) {
            Ok((worker, features)) => (Some(worker), Ok(features)),
            Err(error) => (None, Err(error)),
        };
        let _ = news.send(News::Ready(number, ready));
        match (worker?, self.line.wait()) {
            (_, Call::Off) => None,
            (Worker::Ring(worker), Call::Start(start)) => Some(worker.run(job, start)),
            (Worker::Aio(worker), Call::Start(start)) => Some(worker.run(job, start)),
            (Worker::Sync(worker), Call::Start(start)) => Some(Ok(worker.run(job, start))),
        }
    }

    /// Pins the thread, and allocates all that the worker will need.
    fn prepare(&self, number: u32) -> Result<(Worker<'_>, Vec<&'static str>), EngineError> {
        let (team, own) = self.team(number);
        self.pin(number, &team.job.cpus, own)?;
        let (job, files, lane) = (&team.job, &team.files, &team.lanes[own as usize]);
        let driver = Driver::new(job, own, files.members.len(), &team.common, lane);
        let buffers = Buffers::new(job, own, files.memory_align)?;
        let pages = buffers.pages();
        let (mut features, worker) = match team.way {
            Way::IoUring => {
                let worker = RingWorker::new(job, files, driver, buffers, &lane.board)?;
                (worker.features(), Worker::Ring(Box::new(worker)))
            }
            Way::Libaio => {
                let worker = AioWorker::new(job, files, driver, buffers, &lane.board)?;
                (worker.features(), Worker::Aio(Box::new(worker)))
            }
            Way::Sync => {
                let worker = SyncWorker::new(job, files, driver, buffers, &lane.board);
                (SyncWorker::features(job, files), Worker::Sync(Box::new(worker)))
            }
        };
        features.extend(pages);
        Ok((worker, features))
    }

    /// The team of a worker, and the worker's number in it.
    fn team(&self, number: u32) -> (&Team, u32) {
        let index = self.team_index(number);
        let before: u32 = self.teams[..index].iter().map(|team| team.job.workers).sum();
        (&self.teams[index], number - before)
    }

    /// Which team a worker is in: there is a thread for each worker of each job, and no other.
    fn team_index(&self, number: u32) -> usize {
        let ends = self.teams.iter().scan(0, |end, team| {
            *end += team.job.workers;
            Some(*end)
        });
        ends.take_while(|end| *end <= number).count()
    }

    /// How many workers there are.
    fn workers(&self) -> u32 {
        self.teams.iter().map(|team| team.job.workers).sum()
    }

    fn lanes(&self) -> impl Iterator<Item = &Lane> {
        self.teams.iter().flat_map(|team| &team.lanes)
    }

    /// Nothing is to be submitted from this moment on, by any job.
    fn stop(&self, at: u64) {
        self.teams.iter().for_each(|team| team.common.stop(at));
    }

    fn pin(&self, number: u32, cpus: &[usize], own: u32) -> Result<(), EngineError> {
        let pinned = match cpus.len() {
            0 => self.anywhere.apply(),
            some => Affinity::one(cpus[own as usize % some]).and_then(|cpu| cpu.apply()),
        };
        pinned.map_err(|error| EngineError::Workers {
            reason: match cpus.len() {
                0 => format!("worker {number} can't be moved back to all CPUs: {error}"),
                some => format!(
                    "worker {number} can't be pinned to CPU {}: {error}; CPUs that this process \
                     may use are {}",
                    cpus[own as usize % some],
                    self.anywhere
                ),
            },
        })
    }

    /// Starts the workers when all are ready, and looks after them until all are done.
    fn supervise(
        &self,
        news: &Receiver<News>,
        control: &Control,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<Finished, EngineError> {
        let mut left = self.workers();
        let features = self.gather(news, &mut left)?;
        let start = monotonic_ns();
        for team in &self.teams {
            team.common.start(&team.job, start);
        }
        if control.stopped() {
            self.stop(start);
        }
        self.line.call(Call::Start(start));
        let _leash = Leash(self);
        // Jobs side by side have one time line, and one storage.
        let first = &self.teams[0];
        let mut watch = Watch::new(&first.job, self.lanes().collect(), start);
        let slow = |team: &&Team| team.job.flush_every.is_some();
        let slowest = self.teams.iter().find(slow).unwrap_or(first);
        let mut guard = Guard::of(control.patience(), &slowest.job, &slowest.files, start);
        let mut meter = Meter::new(Window::of(&first.job, start));
        let paced = self.teams.iter().any(|team| team.job.pace != Pace::Closed);
        let mut next_report = start + REPORT_EVERY;
        let mut gone = Gone::default();
        while gone.count < left {
            let edge = Duration::from_nanos(meter.next().saturating_sub(monotonic_ns()));
            match news.recv_timeout(LOOK_EVERY.min(edge)) {
                Ok(news) => {
                    if !gone.is_well(news) {
                        self.stop(monotonic_ns());
                    }
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break,
            }
            let now = monotonic_ns();
            if control.stopped() {
                self.stop(now);
            }
            meter.look(now, first.common.end());
            if paced && self.is_idle() {
                guard.idle(now);
            }
            if let Some(silence) = guard.look(now, self.returned(), control.stopped())
                && let Some(error) = self.stuck(silence)
            {
                self.stop(now);
                return Err(error);
            }
            if now >= next_report && gone.count < left {
                next_report = now + REPORT_EVERY;
                progress(watch.report(now));
            }
        }
        Ok(Finished { start, workers: gone.workers()?, features, meter })
    }

    /// Waits until every worker is ready or can't be. Returns the features that all of a job have.
    /// When one can't be, the others go too, and are waited for.
    fn gather(
        &self,
        news: &Receiver<News>,
        left: &mut u32,
    ) -> Result<Vec<Vec<&'static str>>, EngineError> {
        let mut common: Vec<Option<Vec<&'static str>>> = vec![None; self.teams.len()];
        let (mut failed, mut panic) = (None, None);
        let mut awaited = self.workers();
        while awaited > 0 || ((failed.is_some() || panic.is_some()) && *left > 0) {
            match news.recv() {
                Ok(News::Ready(number, ready)) => {
                    awaited -= 1;
                    match ready {
                        Err(error) => failed = failed.or(Some(error)),
                        Ok(features) => match &mut common[self.team_index(number)] {
                            known @ None => *known = Some(features),
                            Some(common) => common.retain(|one| features.contains(one)),
                        },
                    }
                }
                Ok(News::Left(..)) => *left -= 1,
                Ok(News::Lost(payload)) => {
                    // It broke down before it was ready: there is nothing else to do until then.
                    (awaited, *left) = (awaited - 1, *left - 1);
                    panic = Some(payload);
                }
                Err(_) => break,
            }
            if awaited == 0 && (failed.is_some() || panic.is_some()) {
                self.line.call(Call::Off);
            }
        }
        if let Some(payload) = panic {
            resume_unwind(payload);
        }
        let common = common.into_iter().map(Option::unwrap_or_default).collect();
        failed.map_or(Ok(common), Err)
    }

    /// Whether no I/O is in flight.
    fn is_idle(&self) -> bool {
        self.lanes().all(|lane| lane.board.outstanding().next().is_none())
    }

    /// How many I/Os have come back so far.
    fn returned(&self) -> u64 {
        self.lanes().map(|lane| lane.returned.load(Relaxed)).sum()
    }

    /// What is wrong when nothing has come back for so long; `None` when nothing is in flight.
    fn stuck(&self, silence: u64) -> Option<EngineError> {
        let outstanding = || self.lanes().flat_map(|lane| lane.board.outstanding());
        let first = outstanding().next()?;
        let members: BTreeSet<u32> = outstanding().map(|one| one.member).collect();
        let name = |member: u32| self.teams[0].files.members[member as usize].name.clone();
        let others = members.iter().filter(|member| **member != first.member);
        Some(EngineError::Stuck {
            disks: std::iter::once(&first.member).chain(others).map(|one| name(*one)).collect(),
            offset: first.offset,
            silence: Nanos(silence),
            in_flight: outstanding().count(),
        })
    }
}
