//! A job on files: its workers, their start line, and who watches over them.

use std::fs::File;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

use rayon::ThreadPool;

use super::buffer::Buffers;
use super::driver::{Common, Done, Driver};
use super::files::Files;
use super::outcome::{FinalSync, Outcome};
use super::probe::{Way, choose};
use super::sync::SyncWorker;
use super::tally::Lane;
use super::uring::RingWorker;
use super::watch::Watch;
use crate::engine::{Control, DeviceFile, EngineError, Job, Progress};
use crate::measure::{BackendUsed, CpuUse, Measurement};
use crate::os::clock::monotonic_ns;
use crate::os::cpu::{Affinity, thread_time};

/// How often the watcher looks whether the job is to be stopped.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// How often it reports, in nanoseconds.
const REPORT_EVERY: u64 = 250_000_000;

/// Runs a job on files, with one thread of the pool for each worker. Workers that are not pinned
/// run where `anywhere` lets them.
pub(super) fn run(
    pool: &ThreadPool,
    anywhere: Affinity,
    job: &Job,
    files: &[DeviceFile],
    control: &Control,
    progress: &mut dyn FnMut(Progress),
) -> Result<Measurement, EngineError> {
    let files = Files::new(job, files);
    let (way, why) = choose(job, &files)?;
    let common = Common::new(job);
    let lanes: Vec<Lane> = (0..job.workers).map(|_| Lane::default()).collect();
    let crew = Crew { job, files: &files, way, common: &common, lanes: &lanes, anywhere };
    let line = StartLine::default();
    let (sender, news) = channel();
    let finished = pool.in_place_scope(|scope| {
        let (crew, line, sender) = (&crew, &line, &sender);
        scope.spawn_broadcast(move |_, context| {
            crew.work(context.index() as u32, line, sender);
        });
        crew.supervise(line, &news, control, progress)
    })?;
    let outcome = Outcome {
        job,
        members: files.members.iter().map(|member| member.name.clone()).collect(),
        start: finished.start,
        common: &common,
        lanes: &lanes,
        workers: finished.workers,
        backend: BackendUsed {
            name: way.name().to_owned(),
            why,
            features: finished.features.into_iter().map(str::to_owned).collect(),
        },
    };
    let syncs = if job.fsync_at_end && !control.stopped() { sync_all(&files) } else { Vec::new() };
    Ok(outcome.measurement(&syncs, true))
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
    /// It is ready, with these features of its back end, or can't be.
    Ready(Result<Vec<&'static str>, EngineError>),
    /// This worker has done its last I/O.
    Done(u32, Result<Done, EngineError>),
    /// It panicked. The pool raises that again when all others are done.
    Lost,
}

/// Tells the watcher when its worker panics, so that nobody waits for it.
struct Lifeline<'run>(&'run Sender<News>);

impl Drop for Lifeline<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            // The receiver outlives the workers; if it doesn't, nobody is waiting.
            let _ = self.0.send(News::Lost);
        }
    }
}

/// Ends the load when the watcher panics, in what listens to it: nobody would hear of the end.
struct Leash<'run>(&'run Common);

impl Drop for Leash<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.stop(monotonic_ns());
        }
    }
}

/// What all workers of a job know.
struct Crew<'run> {
    job: &'run Job,
    files: &'run Files,
    way: Way,
    common: &'run Common,
    lanes: &'run [Lane],
    anywhere: Affinity,
}

/// All workers, when they are done.
struct Finished {
    start: u64,
    workers: Vec<Done>,
    features: Vec<&'static str>,
}

/// A worker of either back end.
enum Worker<'run> {
    Ring(Box<RingWorker<'run>>),
    Sync(Box<SyncWorker<'run>>),
}

impl<'run> Crew<'run> {
    /// The life of one worker, on its thread.
    fn work(&self, number: u32, line: &StartLine, news: &Sender<News>) {
        let _lifeline = Lifeline(news);
        // Sending fails when the receiver is gone, which outlives the workers.
        let tell = |item| drop(news.send(item));
        let worker = match self.prepare(number) {
            Ok((worker, features)) => {
                tell(News::Ready(Ok(features)));
                worker
            }
            Err(error) => return tell(News::Ready(Err(error))),
        };
        if let Call::Start(start) = line.wait() {
            let done = match worker {
                Worker::Ring(worker) => worker.run(self.job, start),
                Worker::Sync(worker) => Ok(worker.run(self.job, start)),
            };
            tell(News::Done(number, done));
        }
    }

    /// Pins the thread, and allocates all that the worker will need.
    fn prepare(&self, number: u32) -> Result<(Worker<'run>, Vec<&'static str>), EngineError> {
        self.pin(number)?;
        let lane = &self.lanes[number as usize];
        let members = self.files.members.len();
        let driver = Driver::new(self.job, number, members, self.common, lane, cpu_time);
        let buffers = Buffers::new(self.job, number, self.files.memory_align)?;
        Ok(match self.way {
            Way::IoUring => {
                let worker = RingWorker::new(self.job, self.files, driver, buffers)?;
                let features = worker.features();
                (Worker::Ring(Box::new(worker)), features)
            }
            Way::Sync => {
                let worker = SyncWorker::new(self.job, self.files, driver, buffers);
                (Worker::Sync(Box::new(worker)), SyncWorker::features(self.job))
            }
        })
    }

    fn pin(&self, number: u32) -> Result<(), EngineError> {
        let cpus = &self.job.cpus;
        let pinned = match cpus.len() {
            0 => self.anywhere.apply(),
            some => Affinity::one(cpus[number as usize % some]).and_then(|cpu| cpu.apply()),
        };
        pinned.map_err(|error| EngineError::Workers {
            reason: match cpus.len() {
                0 => format!("worker {number} can't be moved back to all CPUs: {error}"),
                some => {
                    let cpu = cpus[number as usize % some];
                    format!("worker {number} can't be pinned to CPU {cpu}: {error}")
                }
            },
        })
    }

    /// Starts the workers when all are ready, and looks after them until all are done.
    fn supervise(
        &self,
        line: &StartLine,
        news: &Receiver<News>,
        control: &Control,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<Finished, EngineError> {
        let features = match self.gather(news) {
            Ok(features) => features,
            Err(error) => {
                line.call(Call::Off);
                return Err(error);
            }
        };
        let start = monotonic_ns();
        self.common.start(self.job, start);
        line.call(Call::Start(start));
        let _leash = Leash(self.common);
        let mut watch = Watch::new(self.job, self.lanes, start);
        let mut next_report = start + REPORT_EVERY;
        let mut done: Vec<(u32, Result<Done, EngineError>)> = Vec::new();
        let mut left = self.job.workers;
        while left > 0 {
            match news.recv_timeout(LOOK_EVERY) {
                Ok(News::Done(number, outcome)) => {
                    if outcome.is_err() {
                        self.common.stop(monotonic_ns());
                    }
                    done.push((number, outcome));
                    left -= 1;
                    continue;
                }
                Ok(News::Lost) => {
                    self.common.stop(monotonic_ns());
                    left -= 1;
                }
                Ok(News::Ready(_)) | Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break,
            }
            let now = monotonic_ns();
            if control.stopped() {
                self.common.stop(now);
            }
            if now >= next_report {
                next_report = now + REPORT_EVERY;
                progress(watch.report(now));
            }
        }
        done.sort_by_key(|(number, _)| *number);
        let workers = done.into_iter().map(|(_, outcome)| outcome).collect::<Result<_, _>>()?;
        Ok(Finished { start, workers, features })
    }

    /// Waits until every worker is ready or can't be. Returns the features that all have.
    fn gather(&self, news: &Receiver<News>) -> Result<Vec<&'static str>, EngineError> {
        let mut common: Option<Vec<&'static str>> = None;
        let mut failed = None;
        for _ in 0..self.job.workers {
            match news.recv() {
                Ok(News::Ready(Ok(features))) => match &mut common {
                    None => common = Some(features),
                    Some(common) => common.retain(|feature| features.contains(feature)),
                },
                Ok(News::Ready(Err(error))) => failed = failed.or(Some(error)),
                Ok(News::Done(..) | News::Lost) | Err(_) => {
                    let reason = "one of them broke down before the start".to_owned();
                    failed = failed.or(Some(EngineError::Workers { reason }));
                }
            }
        }
        failed.map_or_else(|| Ok(common.unwrap_or_default()), Err)
    }
}

/// Flushes all members side by side, each on a thread of its own where there are several.
fn sync_all(files: &Files) -> Vec<FinalSync> {
    if let [member] = &files.members[..] {
        let before = cpu_time().unwrap_or_default();
        let mut sync = sync_one(&member.file);
        sync.cpu.user_ns -= before.user_ns.min(sync.cpu.user_ns);
        sync.cpu.system_ns -= before.system_ns.min(sync.cpu.system_ns);
        return vec![sync];
    }
    std::thread::scope(|scope| {
        let threads: Vec<_> =
            files.members.iter().map(|member| scope.spawn(|| sync_one(&member.file))).collect();
        threads
            .into_iter()
            .map(|thread| thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
            .collect()
    })
}

/// Flushes one, and says what the thread has used in all.
fn sync_one(file: &File) -> FinalSync {
    let started = monotonic_ns();
    let errno = file.sync_all().err().map(|error| error.raw_os_error().unwrap_or(0));
    FinalSync { started, ended: monotonic_ns(), errno, cpu: cpu_time().unwrap_or_default() }
}

/// Processor time of the calling thread.
fn cpu_time() -> Option<CpuUse> {
    let time = thread_time().ok()?;
    Some(CpuUse { user_ns: time.user_ns, system_ns: time.system_ns })
}
