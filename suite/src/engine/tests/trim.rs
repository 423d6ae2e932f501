//! Trims: in virtual time, and on files whose holes the kernel shows afterwards.

use std::fs::File;
use std::io::Write as _;
use std::os::unix::fs::FileExt as _;
use std::process::Command;
use std::sync::Arc;

use super::*;
use crate::measure::{IoKind, Measurement};
use crate::model::Latency;
use crate::os::extents::written_bytes;
use crate::testing::skip;

const FILE_BYTES: u64 = 4 << 20;

fn measured(job: &Job) -> Measurement {
    run(job, &Control::default(), &mut |_| {}).unwrap()
}

/// Trims of 64 KiB in sequence, of all members, from 1 MiB on, 2 MiB of each.
fn trims(files: &[Arc<File>], depth: u32, backend: Backend) -> Job {
    let members = files.iter().enumerate().map(|(number, file)| DeviceFile {
        name: format!("disk.{number}"),
        file: Arc::clone(file),
        memory_align: 1,
        offset_align: 1,
    });
    let mut job = job();
    let count = files.len() as u64;
    job.storage = Storage {
        target: Target::Files(members.collect()),
        chunk: (count > 1).then_some(Bytes(32 << 10)),
        member_bytes: FILE_BYTES,
    };
    (job.start, job.len) = (count << 20, count << 21);
    (job.random, job.trim, job.read_percent) = (false, true, 0);
    job.blocks = vec![Mix { block: Bytes(64 << 10), weight: 1 }];
    (job.granularity, job.queue_depth, job.backend) = (Bytes(64 << 10), depth, backend);
    job.length = Length::Bytes(Bytes(count << 21));
    job
}

/// Written in full; `None` where the file system shows no extents or can't punch holes.
fn full_file(test: &str) -> Option<Arc<File>> {
    let file = tempfile::tempfile_in("/var/tmp").unwrap();
    file.write_all_at(&vec![7; FILE_BYTES as usize], 0).unwrap();
    let can = written_bytes(&file).unwrap().is_some()
        && crate::os::io::punch_hole(&file, 0, 4096).is_ok();
    if !can {
        skip(test, "no holes or no extent maps in /var/tmp", "put /var/tmp on ext4, xfs or btrfs");
        return None;
    }
    file.write_all_at(&[7; 4096], 0).unwrap();
    file.sync_all().unwrap();
    Some(Arc::new(file))
}

/// Asserts that the middle of the file is a hole, and nothing else.
fn has_its_hole(file: &File) {
    let mut all = vec![0; FILE_BYTES as usize];
    file.read_exact_at(&mut all, 0).unwrap();
    let (from, to) = (1 << 20, 3 << 20);
    assert!(all[..from].iter().chain(&all[to..]).all(|byte| *byte == 7));
    assert!(all[from..to].iter().all(|byte| *byte == 0));
    assert_eq!(written_bytes(file).unwrap(), Some(2 << 20));
}

#[test]
fn what_was_trimmed_is_a_hole_by_every_back_end() {
    let test = "engine::tests::trim::what_was_trimmed_is_a_hole_by_every_back_end";
    let mut ways = vec![(Backend::Sync, 1, "sync"), (Backend::Auto, 1, "sync")];
    match probe().reason {
        None => {
            let ring = [(Backend::Auto, 8), (Backend::IoUring, 1), (Backend::AutoWithRing, 1)];
            ways.extend(ring.map(|(backend, depth)| (backend, depth, "io_uring")));
        }
        Some(reason) => skip(test, "no io_uring", &reason),
    }
    for (backend, depth, name) in ways {
        for members in [1, 2] {
            let files: Option<Vec<_>> = (0..members).map(|_| full_file(test)).collect();
            let Some(files) = files else { return };
            let m = measured(&trims(&files, depth, backend));
            let striped_by_ring = members > 1 && backend == Backend::Auto && probe().usable;
            let name = if striped_by_ring { "io_uring" } else { name };
            assert_eq!(m.backend.name, name, "{backend:?} {depth}: {:?}", m.backend.why);
            assert_eq!((m.completed(None), m.errors(None)), (32 * members, 0), "{:?}", m.faults);
            assert_eq!(m.bytes(Some(IoKind::Trim)), members << 21);
            assert_eq!(m.latency(Some(IoKind::Trim)).count(), 32 * members);
            assert_eq!((m.kinds.write.completed, m.short_transfers), (0, 0));
            assert!(m.members.iter().all(|share| share.bytes == 2 << 20), "{:?}", m.members);
            for file in &files {
                has_its_hole(file);
            }
        }
    }
}

#[test]
fn a_block_device_discards_by_one_call_after_another() {
    let test = "engine::tests::trim::a_block_device_discards_by_one_call_after_another";
    let mut image = tempfile::NamedTempFile::new_in("/var/tmp").unwrap();
    image.write_all(&vec![7; FILE_BYTES as usize]).unwrap();
    let attach = ["--direct-io=off", "-f", "--show"];
    let attached = Command::new("losetup").args(attach).arg(image.path()).output();
    let Some(attached) = attached.ok().filter(|output| output.status.success()) else {
        let remedy = "run as root with losetup and /dev/loop*";
        return skip(test, "no loop device can be had", remedy);
    };
    let path = String::from_utf8(attached.stdout).unwrap();
    let path = path.trim();
    let device = Arc::new(File::options().read(true).write(true).open(path).unwrap());
    let ran =
        run(&trims(&[Arc::clone(&device)], 1, Backend::Auto), &Control::default(), &mut |_| {});
    let deep =
        run(&trims(&[Arc::clone(&device)], 4, Backend::Auto), &Control::default(), &mut |_| {});
    drop(device);
    assert!(Command::new("losetup").args(["-d", path]).status().unwrap().success());
    let m = ran.unwrap();
    if m.faults.iter().any(|fault| fault.errno == 95) {
        return skip(test, "loop devices can't discard here", "put /var/tmp on ext4 or xfs");
    }
    assert_eq!(
        (m.backend.name.as_str(), &*m.backend.features),
        ("sync", &["BLKDISCARD".into()][..])
    );
    assert_eq!((m.completed(Some(IoKind::Trim)), m.errors(None)), (32, 0), "{:?}", m.faults);
    has_its_hole(image.as_file());
    // Never a depth of 1 in silence.
    let refused = deep.unwrap_err();
    assert!(refused.is_missing_requirement(), "{refused}");
    let told = refused.to_string();
    assert!(told.starts_with("a queue depth of 4 can't be had for trims: a block dev"), "{told}");
}

#[test]
fn what_cannot_trim_is_refused_and_what_cannot_be_trimmed_is_an_error_with_a_remedy() {
    let (reader, _writer) = std::io::pipe().unwrap();
    let pipe = Arc::new(File::from(std::os::fd::OwnedFd::from(reader)));
    let error =
        run(&trims(&[Arc::clone(&pipe)], 1, Backend::Libaio), &Control::default(), &mut |_| {});
    assert!(matches!(error, Err(EngineError::NoLibaio { .. })), "{error:?}");
    // A file that lies in a system without holes answers as this: /proc is one that is everywhere.
    let file = File::options().write(true).open("/proc/self/comm").unwrap();
    let m = measured(&trims(&[Arc::new(file)], 1, Backend::Sync));
    assert_eq!((m.completed(None), m.errors(Some(IoKind::Trim))), (0, 32));
    let told = m.faults[0].describe();
    assert!(told.contains("EOPNOTSUPP") && told.contains("can't punch holes"), "{told}");
}

#[test]
fn simulated_trims_have_their_own_latency_or_that_of_writes_and_move_nothing() {
    let fixed = |ns| Latency::Fixed(Nanos(ns));
    let plain = DiskModel { write: fixed(50_000), iops_cap: None, ..DiskModel::default() };
    let own = DiskModel { trim: Some(fixed(7_000)), ..plain.clone() };
    for (model, latency) in [(plain, 50_000), (own, 7_000)] {
        let mut job = job();
        job.storage.target = Target::Simulated(vec![("disk".to_owned(), model)]);
        (job.trim, job.read_percent) = (true, 0);
        let m = measured(&job);
        assert_eq!(m.kinds.trim.latency_ns.max(), Some(latency));
        assert_eq!(m.completed(Some(IoKind::Trim)), 999_999_999 / latency);
        assert_eq!(m.completed(None), m.kinds.trim.completed);
        assert_eq!(m.completed(Some(IoKind::Write)), 0);
    }
}
