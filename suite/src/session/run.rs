//! From a request to a record: build, rounds, judge, save, unmake.

use std::mem::ManuallyDrop;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant, SystemTime};

use super::rounds::{self, Bench};
use super::schedule::Schedule;
use super::{Event, Preview, Request, SessionError, job, opening, preview};
use crate::judge::{self, Circumstances};
use crate::measure::Measurement;
use crate::os::io::too_many_open_files;
use crate::plan::CaseId;
use crate::record::{Record, RecordError, RoundRecord};
use crate::rig::{self, BuildEvent, Category, Rig, RigError, Undo, UndoError};
use crate::units::{Bytes, Nanos, Unit, human};

/// How long unmaking is waited for when disks don't answer.
const UNDO_TIME: Duration = Duration::from_secs(3);

/// Keeping the record takes at most one part in so many of a run's time.
const KEEPING_SHARE: u32 = 20;

/// How long the engine's own limits may be looked for after the rounds: a tenth of their time, but
/// not less or more than this.
const ENGINE_TIME_MIN: Duration = Duration::from_millis(100);
const ENGINE_TIME_MAX: Duration = Duration::from_secs(5);

/// How a run ended that could be begun.
#[derive(Debug)]
pub struct Finished {
    /// Everything measured and decided.
    pub record: Record,
    /// Why the record on disk is not this one, if so.
    pub save_error: Option<RecordError>,
    /// What stood in the way of the whole run, so that nothing was measured.
    pub troubles: Vec<RigError>,
    /// What could not be unmade, a sentence each; empty unless something is left behind.
    pub left_behind: Vec<String>,
}

/// Runs a plan: builds its storage, measures its cases in turn, judges them, and unmakes what was
/// built, on every way out.
///
/// `stop` ends the run early and in good order. `undo` learns of all that is made, so that
/// another thread can unmake it when the run hangs.
///
/// # Errors
/// When the request can't be meant, or the record can't be written. What else the machine refuses
/// is in the record instead, as the error of the cases that it concerns.
pub fn run(
    request: &Request,
    stop: &Arc<AtomicBool>,
    undo: &Undo,
    tell: &mut dyn FnMut(&Event<'_>),
) -> Result<Finished, SessionError> {
    let looked = preview(request)?;
    let (usage, troubles): (Vec<_>, Vec<_>) =
        looked.troubles.into_iter().partition(|trouble| trouble.category() == Category::Usage);
    if !usage.is_empty() {
        return Err(SessionError::Usage(usage));
    }
    let looked = Preview { troubles, ..looked };
    let unanswerable = unanswerable(request, &looked);
    if !unanswerable.is_empty() {
        return Err(SessionError::Unanswerable(unanswerable));
    }
    tell(&Event::Previewed(&looked));
    let record = opening::record(request, &looked);
    let mut story = Story {
        request,
        stop,
        tell,
        record,
        planned: looked.cases.iter().map(|outlined| outlined.case).collect(),
        started: Instant::now(),
        kept_last: None,
        save_error: None,
        troubles: looked.troubles,
        refused: false,
        stuck: false,
    };
    story.begin()?;
    let rig = story.build(looked.survey, undo);
    if story.troubles.is_empty() {
        story.rounds(rig.as_ref());
    }
    // Before anything is unmade, which can take its time where storage is slow to answer.
    story.finish();
    let left_behind = unmake(rig, undo, story.stuck);
    Ok(Finished {
        record: story.record,
        save_error: story.save_error,
        troubles: story.troubles,
        left_behind,
    })
}

/// The gates that no measurement could answer, as they are known before a run: a sentence each,
/// without a full stop.
#[must_use]
pub fn unanswerable(request: &Request, looked: &Preview) -> Vec<String> {
    let record = opening::record(request, looked);
    let found = judge::unanswerable(&request.plan, &record, request.baseline.as_ref());
    let told = found.into_iter().map(|(assertion, reason)| {
        let whole = &request.plan.cases[assertion.case].id;
        let case = CaseId { stream: assertion.stream.clone(), ..whole.clone() };
        let (text, line) = (&assertion.text, assertion.line);
        format!("`{text}` on {case} ({}:{line}): {reason}", request.plan_path)
    });
    told.collect()
}

/// Unmakes what was made. Returns what is left, a sentence each.
///
/// Where disks don't answer, removing what lies on them may never end. It is tried on a thread of
/// its own then, which is left to itself after a while.
fn unmake(rig: Option<Rig>, undo: &Undo, stuck: bool) -> Vec<String> {
    let told = |troubles: Vec<UndoError>| troubles.iter().map(ToString::to_string).collect();
    if !stuck {
        drop(rig);
        // Asked of the journal and not of the rig: what a build that failed left is there too.
        return told(undo.now());
    }
    let (done, wait) = mpsc::channel();
    let (rig, journal) = (ManuallyDrop::new(rig), undo.clone());
    let work = move || {
        drop(ManuallyDrop::into_inner(rig));
        // Nobody waits any more if it took too long.
        let _ = done.send(journal.now());
    };
    let thread = std::thread::Builder::new().name("undo".to_owned()).spawn(work);
    if let Some(troubles) = thread.ok().and_then(|_| wait.recv_timeout(UNDO_TIME).ok()) {
        return told(troubles);
    }
    let words =
        |path: PathBuf| format!("{} is left behind: its disk doesn't answer", path.display());
    undo.pending().into_iter().map(words).collect()
}

/// A run in its course.
struct Story<'r> {
    request: &'r Request,
    stop: &'r Arc<AtomicBool>,
    tell: &'r mut dyn FnMut(&Event<'_>),
    record: Record,
    /// For each case of the record, its index in the plan.
    planned: Vec<usize>,
    started: Instant,
    /// When the record was kept last between rounds, and how long that took.
    kept_last: Option<(Instant, Duration)>,
    save_error: Option<RecordError>,
    troubles: Vec<RigError>,
    refused: bool,
    /// Whether there are disks that don't answer.
    stuck: bool,
}

impl Story<'_> {
    /// Puts the record of a run that is not over in the place of whatever was there.
    fn begin(&mut self) -> Result<(), SessionError> {
        self.judge();
        if let Some(path) = &self.request.record_path {
            // There is nothing in it yet that a power cut could take.
            self.record.save_unsynced(path).map_err(SessionError::NotKept)?;
        }
        (self.tell)(&Event::Begun(&self.record));
        Ok(())
    }

    /// Makes the storage; `None` with simulated disks, with nothing to run, or in trouble.
    fn build(&mut self, survey: Option<rig::Survey>, undo: &Undo) -> Option<Rig> {
        for case in self.record.cases.iter().filter(|case| !case.skipped.is_empty()) {
            (self.tell)(&Event::Skipped { case: &case.id, reasons: &case.skipped });
        }
        let nothing_to_run = self.record.cases.iter().all(|case| !case.skipped.is_empty());
        if self.troubles.is_empty() && !nothing_to_run {
            let tell = &mut *self.tell;
            let built =
                rig::build(survey?, undo, self.stop, &mut |event| filling(&mut *tell, &event));
            match built {
                Ok(rig) => {
                    self.record.disks = rig.disks().map(opening::disk).collect();
                    return Some(rig);
                }
                Err(RigError::Interrupted) => return None,
                Err(error) => self.troubles.push(error),
            }
        }
        self.note_troubles();
        None
    }

    /// What stands in the way of the whole run is the error of every case that would have run.
    fn note_troubles(&mut self) {
        let Some(first) = self.troubles.first() else { return };
        self.refused = self.troubles.iter().any(|one| one.category() == Category::Refusal);
        let more = match self.troubles.len() - 1 {
            0 => String::new(),
            count => format!(" (and {count} more)"),
        };
        let reason = format!("the storage can't be had: {}{more}", with_help(first));
        for case in self.record.cases.iter_mut().filter(|case| case.skipped.is_empty()) {
            case.rounds.push(RoundRecord {
                round: 1,
                seed: 0,
                measurement: None,
                error: Some(reason.clone()),
            });
        }
    }

    fn rounds(&mut self, rig: Option<&Rig>) {
        let mut bench = Bench::new(self.request, rig, self.stop);
        let mut schedule = Schedule::new(self.request.plan.run);
        let mut open: Vec<usize> = (0..self.record.cases.len()).collect();
        let mut position = (0, 0);
        loop {
            open.retain(|case| rounds::can_go_on(&self.record.cases[*case]));
            let Some(batch) = schedule.next(&open) else {
                self.compare_with_engine(&mut bench);
                return;
            };
            position.1 += batch.iter().map(|(_, cases)| cases.len()).sum::<usize>();
            for (round, cases) in batch {
                for case in cases {
                    if self.stop.load(Ordering::SeqCst) {
                        return;
                    }
                    if rounds::can_go_on(&self.record.cases[case]) {
                        self.round(&mut bench, case, round, position);
                    }
                    position.0 += 1;
                }
            }
            let (plan, baseline) = (&self.request.plan, self.request.baseline.as_ref());
            let undecided = judge::open_cases(plan, &self.record, baseline);
            open = (0..self.planned.len())
                .filter(|case| undecided.contains(&self.planned[*case]))
                .collect();
        }
    }

    /// Holds every case that kept its workers busy against what the engine can do at all, as far
    /// as a tenth of the run's time reaches: what was measured comes first.
    fn compare_with_engine(&mut self, bench: &mut Bench<'_>) {
        let most = (self.started.elapsed() / 10).clamp(ENGINE_TIME_MIN, ENGINE_TIME_MAX);
        let begun = Instant::now();
        for (case, planned) in self.record.cases.iter_mut().zip(&self.planned) {
            if begun.elapsed() > most || self.stop.load(Ordering::SeqCst) || bench.is_stuck() {
                return;
            }
            let Some(merged) = case.merged() else { continue };
            let ceilings = bench.ceilings(*planned, &merged);
            if case.streams.is_empty() {
                case.engine_iops_max = ceilings.into_iter().flatten().next();
            } else {
                let streams = case.streams.iter_mut().zip(ceilings);
                streams.for_each(|(stream, most)| stream.engine_iops_max = most);
            }
        }
    }

    /// One round of one case, kept at once.
    fn round(&mut self, bench: &mut Bench<'_>, case: usize, round: u32, position: (usize, usize)) {
        let planned = self.planned[case];
        let workload = &self.request.plan.cases[planned].workload;
        let expected = job::known_time(workload);
        let name = self.record.cases[case].id.clone();
        let tell = &mut *self.tell;
        let ready = bench.make_ready(planned, &mut |event| filling(tell, &event));
        let outcome = ready.and_then(|()| {
            tell(&Event::RoundStarted { case: &name, round, position, expected });
            bench.measure(planned, round, &mut |progress| {
                let done = job::share_done(workload, &progress);
                tell(&Event::RoundProgress { case: &name, expected, done, progress });
            })
        });
        self.stuck = bench.is_stuck();
        let (measurement, error) = self.kept(outcome);
        (self.tell)(&Event::RoundFinished {
            case: &name,
            round,
            outcome: match (&measurement, &error) {
                (_, Some(reason)) => Err(reason),
                (Some(measured), None) => Ok(measured),
                (None, None) => Err("nothing was measured"),
            },
        });
        let seed = job::round_seed(workload.seed, round);
        self.record.cases[case].rounds.push(RoundRecord { round, seed, measurement, error });
        self.record.schedule.push((case, round));
        // Until it is over the record says that it is not: a run that is killed leaves no record
        // that could be taken for a whole one.
        self.record.interrupted = true;
        self.keep();
    }

    /// Writes down what there is so far: after every round, unless that would take more than its
    /// share of the time. A record grows with every round, and is always written whole.
    fn keep(&mut self) {
        let now = Instant::now();
        let due = self.kept_last.is_none_or(|(when, took)| now - when >= took * KEEPING_SHARE);
        if due {
            self.judge();
            self.save(Record::save_unsynced);
            self.kept_last = Some((Instant::now(), now.elapsed()));
        }
    }

    /// What is kept of a round. One that was cut short keeps its figures, for the eye: they stand
    /// for less than the plan asked for, so that no verdict is built on them.
    fn kept(&self, outcome: Result<Measurement, String>) -> (Option<Measurement>, Option<String>) {
        let stopped = self.stop.load(Ordering::SeqCst);
        match outcome {
            Ok(measured) if stopped && measured.duration_ns == Nanos(0) => {
                (None, Some("the run was stopped before the round had begun to count".to_owned()))
            }
            Ok(measured) if stopped => {
                let time = human(measured.duration_ns.0 as f64, Unit::Nanoseconds);
                let reason = format!("the run was stopped after {time} of the round");
                (Some(measured), Some(reason))
            }
            Ok(measured) => (Some(measured), None),
            Err(reason) => (None, Some(reason)),
        }
    }

    fn finish(&mut self) {
        self.record.interrupted = self.stop.load(Ordering::SeqCst);
        let cases = &self.request.plan.cases;
        let planned = self.record.cases.iter().zip(&self.planned);
        let warnings: Vec<_> = planned
            .map(|(case, planned)| judge::warnings(&self.record, case, &cases[*planned].workload))
            .collect();
        for (case, warnings) in self.record.cases.iter_mut().zip(warnings) {
            case.warnings = warnings;
        }
        self.judge();
        self.save(Record::save);
    }

    fn judge(&mut self) {
        let (plan, baseline) = (&self.request.plan, self.request.baseline.as_ref());
        self.record.verdicts = judge::judge(plan, &self.record, baseline);
        let circumstances = Circumstances {
            interrupted: self.record.interrupted,
            refused: self.refused,
            require_all: self.request.require_all,
        };
        self.record.conclusion = judge::conclude(
            plan.run.inconclusive,
            &self.record.verdicts,
            &self.record.cases,
            circumstances,
        );
    }

    fn save(&mut self, save: fn(&Record, &Path) -> Result<(), RecordError>) {
        if self.request.simulate.is_none() {
            let elapsed = self.started.elapsed().as_millis();
            self.record.elapsed_ms = u64::try_from(elapsed).ok();
        }
        let Some(path) = &self.request.record_path else { return };
        self.save_error = save(&self.record, path).err();
        if let Some(error) = &self.save_error {
            (self.tell)(&Event::SaveFailed(error));
        }
    }
}

/// Tells how far a disk is written.
fn filling(tell: &mut dyn FnMut(&Event<'_>), event: &BuildEvent<'_>) {
    let BuildEvent { disk, written, total } = *event;
    tell(&Event::Filling { disk, written: Bytes(written), total: Bytes(total) });
}

/// A trouble with storage, what caused it, and what would help.
pub(super) fn with_help(trouble: &RigError) -> String {
    let help = trouble.help().map_or_else(String::new, |help| format!("; {help}"));
    with_causes(trouble) + &help
}

/// An error with everything that caused it.
#[must_use]
pub fn with_causes(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(error.source(), |cause| cause.source());
    let text = causes.clone().fold(error.to_string(), |text, cause| format!("{text}: {cause}"));
    let system = causes.filter_map(|cause| cause.downcast_ref::<std::io::Error>()).last();
    if system.is_some_and(too_many_open_files) {
        return format!("{text}; raise the limit with `ulimit -n`");
    }
    text
}

/// The moment at which a run starts, in UTC.
pub(super) fn now() -> String {
    humantime::format_rfc3339_seconds(SystemTime::now()).to_string()
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::PathBuf;

    use super::*;
    use crate::diag::Source;
    use crate::plan;
    use crate::record::{ExitCode, Selection};

    fn request(work_dir: PathBuf) -> Request {
        let text = "name = 'one'\ndisks.single = { size = '1MiB' }\n\
                    setups.single = { disks = ['single'] }\n\
                    [workloads.read]\nrw = 'randread'\ncache = 'buffered'\nruntime = '10ms'\n\
                    [[expect]]\ncase = '*'\nthat = 'errors = 0'\n";
        let source = Source { name: "one.toml".to_owned(), text: text.to_owned() };
        let checked = plan::parse(&source).and_then(|raw| plan::check(&raw, None));
        Request {
            plan: checked.expect("a sound plan"),
            plan_path: source.name,
            plan_text: source.text,
            selection: Selection::default(),
            bindings: Vec::new(),
            simulate: None,
            baseline: None,
            baseline_path: None,
            work_dir,
            record_path: None,
            require_all: false,
        }
    }

    #[test]
    fn what_a_stopped_build_left_behind_is_told() {
        let work = tempfile::tempdir_in("/var/tmp").unwrap();
        let stop = Arc::new(AtomicBool::new(false));
        let undo = Undo::new();
        let finished = run(&request(work.path().to_owned()), &stop, &undo, &mut |event| {
            if matches!(event, Event::Filling { .. }) && !stop.swap(true, Ordering::SeqCst) {
                let folder = fs::read_dir(work.path()).unwrap().next().unwrap().unwrap().path();
                fs::remove_file(folder.join("single.img")).unwrap();
                fs::write(folder.join("single.img"), "another's").unwrap();
            }
        });
        let finished = finished.unwrap();
        assert_eq!(finished.record.conclusion.exit_code, ExitCode::Interrupted.code());
        let [image, folder] = finished.left_behind.as_slice() else {
            panic!("{:?}", finished.left_behind)
        };
        assert!(image.ends_with("something else has that name now"), "{image}");
        assert!(folder.ends_with("files that are not ours are in it"), "{folder}");
    }
}
