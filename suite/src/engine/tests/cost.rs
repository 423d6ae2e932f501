//! The processor time of a run, against the kernel's word on a process that does nothing else.

use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use super::real::open;
use super::*;
use crate::os::cpu::process_time;
use crate::testing::skip;

/// Where the test finds that it is the child, and the folder that it is to write in.
const FOLDER: &str = "DISKPROOF_TEST_COST_IN";

/// A job that the kernel hands to threads of its own: buffered writes, several in flight.
fn writer(folder: &Path) -> Job {
    let path = folder.join("file");
    std::fs::write(&path, vec![1; 4 << 20]).unwrap();
    let mut job = job();
    job.storage.target = Target::Files(vec![DeviceFile {
        name: "data".to_owned(),
        file: Arc::new(open(&path, true, false).unwrap()),
        memory_align: 1,
        offset_align: 1,
    }]);
    (job.backend, job.queue_depth, job.read_percent) = (Backend::IoUring, 8, 0);
    (job.len, job.storage.member_bytes) = (4 << 20, 4 << 20);
    job.flush_every = Some((64, Flush::Fsync));
    job.length = Length::Time(Nanos(1_500_000_000));
    job
}

/// Runs the job in a process where nothing else runs, as a test of its own.
fn alone(test: &str, folder: &Path) {
    let status = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", &format!("engine::tests::cost::{test}"), "--nocapture"])
        .env(FOLDER, folder)
        .output()
        .unwrap();
    let talk = String::from_utf8_lossy(&status.stdout).into_owned();
    assert!(status.status.success() && talk.contains("1 passed"), "{talk}");
}

#[test]
fn the_kernels_own_threads_are_part_of_the_cost() {
    let test = "the_kernels_own_threads_are_part_of_the_cost";
    if let Some(folder) = std::env::var_os(FOLDER) {
        let job = writer(Path::new(&folder));
        // What others do to the machine can lengthen what is beside the measured time: of a few
        // tries one is to be close.
        let close = (0..5).any(|_| {
            let before = process_time().unwrap();
            let measured = run(&job, &Control::default(), &mut |_| {}).unwrap();
            let after = process_time().unwrap();
            assert_eq!(measured.faults.len(), 0);
            let used = after.user_ns + after.system_ns - before.user_ns - before.system_ns;
            let told = measured.cpu.unwrap();
            let told = told.user_ns + told.system_ns;
            let off = (told as f64 - used as f64).abs() / used as f64;
            println!("{told} ns of {used} ns, {:.1} % off", off * 100.0);
            off < 0.1
        });
        assert!(close, "never within a tenth");
        return;
    }
    if let Some(reason) = probe().reason {
        return skip(test, "io_uring can't be used", &reason);
    }
    for parent in ["/var/tmp", "/dev/shm"] {
        match tempfile::tempdir_in(parent) {
            Ok(folder) => alone(test, folder.path()),
            Err(error) => skip(test, &format!("{parent}: {error}"), "make it writable"),
        }
    }
}
