//! I/Os that never return: on a file system that is frozen while a job writes to it.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use tempfile::TempDir;

use super::real::open;
use super::*;
use crate::engine::job::Patience;
use crate::testing::skip;

const MIB: u64 = 1 << 20;

/// Short ones, for tests.
const PATIENCE: Patience = Patience { running: Nanos(1_500_000_000), stopping: Nanos(500_000_000) };

/// An ext4 file system of its own, on a loop device. Dropping it thaws and unmounts it.
struct Frozen {
    folder: TempDir,
}

impl Frozen {
    /// `None` where it can't be made, which is said.
    fn new(test: &str) -> Option<Self> {
        let folder = tempfile::tempdir().unwrap();
        let image = folder.path().join("image");
        File::create(&image).unwrap().set_len(64 * MIB).unwrap();
        std::fs::create_dir(folder.path().join("mounted")).unwrap();
        let frozen = Self { folder };
        let mounted = frozen.mounted();
        let made = call("mkfs.ext4", &["-q".as_ref(), &image])
            && call("mount", &["-o".as_ref(), "loop".as_ref(), &image, &mounted]);
        if !made || !frozen.freeze() {
            skip(
                test,
                "no file system can be mounted and frozen",
                "run as root with a loop driver",
            );
            return None;
        }
        frozen.thaw();
        Some(frozen)
    }

    fn mounted(&self) -> PathBuf {
        self.folder.path().join("mounted")
    }

    fn freeze(&self) -> bool {
        call("fsfreeze", &["-f".as_ref(), &self.mounted()])
    }

    fn thaw(&self) {
        call("fsfreeze", &["-u".as_ref(), &self.mounted()]);
    }
}

impl Drop for Frozen {
    fn drop(&mut self) {
        self.thaw();
        // Those that were left behind need a moment to come back and let go.
        let mounted = self.mounted();
        let gone = (0..100).any(|_| {
            std::thread::sleep(Duration::from_millis(50));
            call("umount", &[&mounted])
        });
        assert!(gone || std::thread::panicking(), "what was left behind ends after the thaw");
    }
}

fn call(program: &str, arguments: &[&Path]) -> bool {
    Command::new(program).args(arguments).output().is_ok_and(|output| output.status.success())
}

/// A job that writes 4 KiB at random to a file there, for a minute.
fn writer(folder: &Path, (backend, queue_depth, direct): (Backend, u32, bool)) -> Job {
    let path = folder.join("file");
    std::fs::write(&path, vec![1; 4 << 20]).unwrap();
    let mut job = job();
    job.storage.target = Target::Files(vec![DeviceFile {
        name: "data".to_owned(),
        file: Arc::new(open(&path, true, direct).unwrap()),
        memory_align: 512,
        offset_align: if direct { 512 } else { 1 },
    }]);
    (job.backend, job.queue_depth, job.read_percent) = (backend, queue_depth, 0);
    (job.len, job.storage.member_bytes) = (4 * MIB, 4 * MIB);
    job.length = Length::Time(Nanos(60_000_000_000));
    job
}

/// Runs a job while its file system is frozen after a moment, and, if so wished, while it is
/// stopped a little later. Returns what came of it, and how long after the freeze.
fn run_frozen(
    engine: &mut Engine,
    job: &Job,
    disk: &Frozen,
    stop_after: Option<Duration>,
) -> (Result<Measurement, EngineError>, Duration) {
    let stop = Arc::new(AtomicBool::new(false));
    let control = Control::new(Arc::clone(&stop)).with_patience(PATIENCE);
    std::thread::scope(|scope| {
        let freezer = scope.spawn(|| {
            std::thread::sleep(Duration::from_millis(300));
            let frozen = Instant::now();
            assert!(disk.freeze());
            if let Some(after) = stop_after {
                std::thread::sleep(after);
                stop.store(true, Ordering::SeqCst);
            }
            frozen
        });
        let outcome = engine.run(job, &control, &mut |_| {});
        (outcome, freezer.join().unwrap().elapsed())
    })
}

fn ways(test: &str) -> Vec<(Backend, u32, bool)> {
    let mut ways = super::real::ways(test);
    ways.retain(|(backend, depth, _)| *backend == Backend::Sync || *depth > 1);
    ways
}

#[test]
fn ios_that_never_return_end_the_run_and_harm_no_later_one() {
    let test = "ios_that_never_return_end_the_run_and_harm_no_later_one";
    for way in ways(test) {
        let Some(disk) = Frozen::new(test) else { return };
        let job = writer(&disk.mounted(), way);
        let mut engine = Engine::new();
        let (outcome, after) = run_frozen(&mut engine, &job, &disk, None);
        let error = outcome.unwrap_err();
        let EngineError::Stuck { disks, offset, silence, in_flight } = &error else {
            panic!("{error}")
        };
        assert_eq!(disks, &["data"]);
        assert!(offset.unwrap() < 4 * MIB && offset.unwrap() % 4096 == 0);
        assert!((1..=way.1 as usize).contains(in_flight), "{in_flight} outstanding");
        assert!(silence.0 >= PATIENCE.running.0 && after < Duration::from_secs(8), "{after:?}");
        // The same engine, on storage that answers: with threads of its own.
        let other = tempfile::tempdir().unwrap();
        let mut healthy = writer(other.path(), way);
        healthy.length = Length::Bytes(Bytes(MIB));
        let measured = engine.run(&healthy, &Control::default(), &mut |_| {}).unwrap();
        assert_eq!((measured.bytes(None), measured.faults.len()), (MIB, 0));
    }
}

#[test]
fn a_stop_does_not_wait_for_ios_that_never_return() {
    let test = "a_stop_does_not_wait_for_ios_that_never_return";
    for way in ways(test) {
        let Some(disk) = Frozen::new(test) else { return };
        let job = writer(&disk.mounted(), way);
        let stop_after = Some(Duration::from_millis(100));
        let (outcome, after) = run_frozen(&mut Engine::new(), &job, &disk, stop_after);
        assert!(matches!(outcome, Err(EngineError::Stuck { .. })));
        assert!(after < Duration::from_secs(6), "{after:?}");
    }
}

#[test]
fn what_was_frozen_only_for_a_moment_is_a_slow_io() {
    let test = "what_was_frozen_only_for_a_moment_is_a_slow_io";
    for way in ways(test) {
        let Some(disk) = Frozen::new(test) else { return };
        let mut job = writer(&disk.mounted(), way);
        job.length = Length::Time(Nanos(1_500_000_000));
        let measured = std::thread::scope(|scope| {
            scope.spawn(|| {
                std::thread::sleep(Duration::from_millis(300));
                assert!(disk.freeze());
                // Until well after the load is to end, on a machine that has much else to do.
                std::thread::sleep(Duration::from_millis(2700));
                disk.thaw();
            });
            run(&job, &Control::default(), &mut |_| {}).unwrap()
        });
        assert!(measured.latency(None).max().unwrap() > 500_000_000);
        assert!(measured.drain_ns.0 > 200_000_000, "{}", measured.drain_ns);
        assert_eq!(measured.faults.len(), 0);
    }
}
