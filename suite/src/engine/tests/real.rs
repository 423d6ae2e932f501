//! Whole jobs on real files, through each back end.

use std::collections::HashSet;
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::libc;
use tempfile::TempDir;

use super::*;
use crate::engine::buffer::Buffers;
use crate::engine::stripe::StripeMap;
use crate::measure::IoKind;
use crate::testing::skip;

const MIB: u64 = 1 << 20;

/// The ways that a test goes: back end, depth, direct or buffered.
pub(super) fn ways(test: &str) -> Vec<(Backend, u32, bool)> {
    let folder = tempfile::tempdir().unwrap();
    let probe_file = folder.path().join("probe");
    std::fs::write(&probe_file, [0; 4096]).unwrap();
    let direct = open(&probe_file, true, true).is_ok();
    if !direct {
        skip(test, "the folder for temporary files has no direct I/O", "set TMPDIR to one on ext4");
    }
    let ring = probe();
    let libaio = probe_libaio();
    for (name, probed) in [("io_uring", &ring), ("libaio", &libaio)] {
        if let Some(reason) = &probed.reason {
            skip(test, &format!("{name} can't be used"), reason);
        }
    }
    let mut ways = Vec::new();
    for direct in [true, false].into_iter().filter(|wanted| direct || !wanted) {
        ways.push((Backend::Sync, 1, direct));
        if ring.usable {
            ways.push((Backend::IoUring, 1, direct));
            ways.push((Backend::IoUring, 16, direct));
        }
        if libaio.usable {
            ways.push((Backend::Libaio, 1, direct));
            ways.push((Backend::Libaio, 16, direct));
        }
    }
    ways
}

/// Whether there is io_uring here; where there isn't, the test is skipped.
pub(in crate::engine) fn can_ring(test: &str) -> bool {
    let reason = probe().reason;
    if let Some(reason) = &reason {
        skip(test, "io_uring can't be used", reason);
    }
    reason.is_none()
}

pub(super) fn open(path: &Path, write: bool, direct: bool) -> std::io::Result<File> {
    let flags = if direct { libc::O_DIRECT } else { 0 };
    OpenOptions::new().read(true).write(write).custom_flags(flags).open(path)
}

/// A folder with files of one size full of one byte, and a job on them.
struct Scene {
    folder: TempDir,
    files: usize,
    job: Job,
}

const FILLED: u8 = 0xa5;

impl Scene {
    fn new(way: (Backend, u32, bool), files: usize, bytes: u64) -> Self {
        let folder = tempfile::tempdir().unwrap();
        for number in 0..files {
            let mut file = File::create(folder.path().join(number.to_string())).unwrap();
            file.write_all(&vec![FILLED; bytes as usize]).unwrap();
        }
        let mut scene = Self { folder, files, job: job() };
        let (backend, queue_depth, direct) = way;
        scene.open(true, direct);
        scene.job = Job {
            backend,
            queue_depth,
            len: bytes * files as u64,
            length: Length::Time(Nanos(100_000_000)),
            ..scene.job
        };
        scene.job.storage.member_bytes = bytes;
        scene.job.storage.chunk = (files > 1).then_some(Bytes(8192));
        scene
    }

    fn open(&mut self, write: bool, direct: bool) {
        let device = |number: usize| DeviceFile {
            name: format!("disk.{number}"),
            file: Arc::new(open(&self.path(number), write, direct).unwrap()),
            memory_align: 512,
            offset_align: if direct { 512 } else { 1 },
        };
        self.job.storage.target = Target::Files((0..self.files).map(device).collect());
    }

    fn path(&self, number: usize) -> std::path::PathBuf {
        self.folder.path().join(number.to_string())
    }

    fn blocks(&mut self, block: u64) {
        self.job.blocks = vec![Mix { block: Bytes(block), weight: 1 }];
        self.job.granularity = Bytes(block);
    }

    fn run(&self) -> Measurement {
        run(&self.job, &Control::default(), &mut |_| {}).unwrap()
    }

    /// Asserts that every page of every file was written, and each with something of its own.
    fn assert_written(&self) {
        let mut seen = HashSet::new();
        for number in 0..self.files {
            for page in std::fs::read(self.path(number)).unwrap().chunks(4096) {
                assert_ne!(page, [FILLED; 4096], "a page was not written");
                assert!(seen.insert(page.to_vec()), "a page came twice");
            }
        }
    }
}

#[test]
fn reads_through_every_back_end() {
    for way in ways("reads_through_every_back_end") {
        let mut scene = Scene::new(way, 1, 4 * MIB);
        scene.job.warmup = Nanos(20_000_000);
        let m = scene.run();
        assert_eq!((m.faults.len(), m.short_transfers, m.clock_anomalies), (0, 0, 0));
        assert!(m.completed(Some(IoKind::Read)) > 10);
        assert_eq!(m.completed(Some(IoKind::Write)), 0);
        assert_eq!(m.bytes(None), 4096 * m.completed(None));
        assert_eq!(m.duration_ns, Nanos(100_000_000));
        assert!(m.latency(None).count().abs_diff(m.completed(None)) <= u64::from(way.1));
        assert!(m.queue_depth_achieved > 0.0 && m.queue_depth_achieved <= f64::from(way.1));
        assert!(m.cpu.is_some() && m.device.is_none());
        let names = [(Backend::Sync, "sync"), (Backend::Libaio, "libaio")];
        let name = names.into_iter().find(|(backend, _)| *backend == way.0);
        assert_eq!(m.backend.name, name.map_or("io_uring", |(_, name)| name));
        assert!(!m.backend.features.is_empty());
        assert_eq!(std::fs::read(scene.path(0)).unwrap(), vec![FILLED; 4 << 20]);
    }
}

#[test]
fn time_in_flight_obeys_littles_law() {
    for way in ways("time_in_flight_obeys_littles_law") {
        // What is in flight at both ends of a short run is not in all three figures, and on a busy
        // machine it may be a tenth of the run: the closest of a few counts.
        let off = || {
            let mut scene = Scene::new(way, 1, 4 * MIB);
            scene.job.length = Length::Time(Nanos(300_000_000));
            let m = scene.run();
            let rate = m.completed(None) as f64 / m.duration_ns.as_secs();
            let inside = rate * m.latency(None).mean().unwrap() / 1e9;
            (inside - m.queue_depth_achieved).abs() / m.queue_depth_achieved
        };
        assert!((0..5).any(|_| off() < 0.1), "{way:?}: further off than a tenth, five times");
    }
}

#[test]
fn a_sequential_write_pass_lands_everywhere() {
    for way in ways("a_sequential_write_pass_lands_everywhere") {
        for workers in [1, 3] {
            let mut scene = Scene::new(way, 1, 2 * MIB);
            scene.blocks(16_384);
            scene.job.length = Length::Bytes(Bytes(2 * MIB));
            (scene.job.random, scene.job.read_percent) = (false, 0);
            scene.job.workers = workers;
            let m = scene.run();
            assert_eq!((m.bytes(None), m.completed(None)), (2 * MIB, 128));
            assert_eq!((m.faults.len(), m.latency(None).count()), (0, 128));
            assert_eq!(m.workers.iter().map(|share| share.completed).sum::<u64>(), 128);
            scene.assert_written();
        }
    }
}

#[test]
fn a_random_pass_over_each_block_once_lands_everywhere() {
    for way in ways("a_random_pass_over_each_block_once_lands_everywhere") {
        for partitioned in [false, true] {
            let mut scene = Scene::new(way, 1, 2 * MIB);
            scene.job.length = Length::Bytes(Bytes(2 * MIB));
            (scene.job.once, scene.job.read_percent) = (true, 0);
            scene.job.workers = 2;
            scene.job.partitioned = partitioned;
            let m = scene.run();
            assert_eq!((m.bytes(None), m.faults.len()), (2 * MIB, 0));
            scene.assert_written();
        }
    }
}

#[test]
fn writes_of_a_stripe_lie_where_raid_0_puts_them() {
    for way in ways("writes_of_a_stripe_lie_where_raid_0_puts_them") {
        let mut scene = Scene::new(way, 3, 98_304);
        // Blocks of three chunks less one page, so that borders fall everywhere.
        scene.blocks(20_480);
        scene.job.granularity = Bytes(4096);
        (scene.job.random, scene.job.read_percent) = (false, 0);
        scene.job.payload = Payload::Duplicate(100);
        scene.job.length = Length::Bytes(Bytes(20_480 * 14));
        scene.job.len = 20_480 * 14;
        let m = scene.run();
        assert_eq!((m.completed(None), m.faults.len()), (14, 0));
        let members: u64 = m.members.iter().map(|share| share.bytes).sum();
        assert_eq!(members, m.bytes(None));
        let map = StripeMap::new(8192, 3);
        let files: Vec<File> = (0..3).map(|n| File::open(scene.path(n)).unwrap()).collect();
        // All blocks are of those that repeat, which the seed decides, and so their order.
        let mut buffers = Buffers::new(&scene.job, 0, 512).unwrap();
        for block in 0..14 {
            let at = buffers.write_buffer(0, 20_480);
            for page in 0..5 {
                let (member, offset) = map.locate(block * 20_480 + page * 4096);
                let mut found = [0; 4096];
                files[member as usize].read_exact_at(&mut found, offset).unwrap();
                let expected = buffers.arena().part(at + page as usize * 4096, 4096);
                assert!(found == expected, "page {page} of block {block}");
            }
        }
    }
}

#[test]
fn a_flush_at_the_end_reaches_every_member() {
    for way in ways("a_flush_at_the_end_reaches_every_member") {
        for files in [1, 3] {
            let mut scene = Scene::new(way, files, MIB);
            (scene.job.random, scene.job.read_percent) = (false, 0);
            scene.job.fsync_at_end = true;
            scene.job.length = Length::Bytes(Bytes(MIB * files as u64));
            let m = scene.run();
            assert_eq!((m.kinds.sync.completed, m.kinds.sync.latency_ns.count()), (1, 1));
            assert_eq!(m.kinds.write.bytes, MIB * files as u64);
            let slowest = m.kinds.sync.latency_ns.max().unwrap();
            assert!(m.duration_ns.0 >= slowest);
            assert_eq!(m.faults.len(), 0);
            scene.assert_written();
        }
    }
}

#[test]
fn an_amount_is_moved_exactly_after_a_warm_up_of_many_in_flight() {
    for (backend, depth, direct) in ways("an_amount_is_moved_exactly_after_a_warm_up") {
        let mut scene = Scene::new((backend, depth, direct), 1, 4 * MIB);
        scene.job.read_percent = 0;
        (scene.job.workers, scene.job.length) = (8, Length::Bytes(Bytes(MIB)));
        for warmup in 5..15 {
            scene.job.warmup = Nanos(warmup * 1_000_000);
            let m = scene.run();
            assert_eq!((m.bytes(None), m.latency(None).count()), (MIB, MIB / 4096));
        }
    }
}

#[test]
fn flushes_and_write_through_are_done_and_counted() {
    for way in ways("flushes_and_write_through_are_done_and_counted") {
        for (sync, flush) in [
            (WriteSync::Dsync, Flush::Fdatasync),
            (WriteSync::Sync, Flush::Fsync),
            (WriteSync::None, Flush::Fsync),
        ] {
            for files in [1, 2] {
                let mut scene = Scene::new(way, files, MIB);
                scene.job.read_percent = 0;
                (scene.job.write_sync, scene.job.flush_every) = (sync, Some((10, flush)));
                scene.job.length = Length::Bytes(Bytes(4096 * 60));
                let m = scene.run();
                assert_eq!((m.kinds.write.completed, m.kinds.sync.completed), (60, 6));
                assert_eq!(m.kinds.sync.latency_ns.count(), 6);
                assert_eq!(m.faults.len(), 0);
            }
        }
    }
}

#[test]
fn a_mix_of_everything_leaves_reads_and_writes_apart() {
    for way in ways("a_mix_of_everything_leaves_reads_and_writes_apart") {
        let mut scene = Scene::new(way, 1, 4 * MIB);
        scene.job.blocks = [(4096, 3), (65_536, 1)]
            .map(|(block, weight)| Mix { block: Bytes(block), weight })
            .into();
        scene.job.read_percent = 70;
        scene.job.workers = 2;
        scene.job.length = Length::Bytes(Bytes(400 * (3 * 4096 + 65_536) / 4));
        let m = scene.run();
        assert_eq!(m.faults.len(), 0);
        assert!(m.kinds.read.completed > m.kinds.write.completed);
        assert_eq!(m.bytes(None), 400 * (3 * 4096 + 65_536) / 4);
    }
}

#[test]
fn the_byte_behind_the_last_block_is_a_fault_and_no_endless_loop() {
    for way in ways("the_byte_behind_the_last_block_is_a_fault_and_no_endless_loop") {
        let mut scene = Scene::new(way, 1, 10 * MIB + 1);
        scene.blocks(4096);
        (scene.job.start, scene.job.len) = (10 * MIB - 8192, 3 * 4096);
        scene.job.random = false;
        scene.job.length = Length::Bytes(Bytes(3 * 4096));
        let m = scene.run();
        assert_eq!(m.completed(None), 2);
        assert_eq!((m.faults.len(), m.errors(None)), (1, 1));
        assert_eq!((m.faults[0].errno, m.faults[0].kind), (0, IoKind::Read));
        assert_eq!(m.faults[0].first_offset / 4096, 10 * MIB / 4096);
        assert_eq!((m.latency(None).count(), m.short_transfers), (2, 0));
    }
}

#[test]
fn reading_past_the_end_of_a_cut_file_is_a_fault() {
    for way in ways("reading_past_the_end_of_a_cut_file_is_a_fault") {
        let mut scene = Scene::new(way, 1, MIB);
        File::options().write(true).open(scene.path(0)).unwrap().set_len(MIB / 2).unwrap();
        scene.job.once = true;
        scene.job.length = Length::Bytes(Bytes(MIB));
        let m = scene.run();
        assert_eq!((m.completed(None), m.errors(None)), (128, 128));
        assert_eq!((m.faults[0].errno, m.faults[0].disk.as_str()), (0, "disk.0"));
    }
}

#[test]
fn writes_to_a_file_opened_for_reading_fail_and_end_early() {
    for way in ways("writes_to_a_file_opened_for_reading_fail_and_end_early") {
        let mut scene = Scene::new(way, 1, MIB);
        scene.open(false, way.2);
        scene.job.read_percent = 0;
        scene.job.length = Length::Time(Nanos(60_000_000_000));
        let begun = Instant::now();
        let m = scene.run();
        assert!(begun.elapsed() < Duration::from_secs(20));
        let fault = &m.faults[0];
        assert_eq!((m.faults.len(), fault.errno), (1, Errno::EBADF as i32));
        assert_eq!(fault.kind, IoKind::Write);
        assert!((1000..1000 + 64).contains(&fault.count), "{}", fault.count);
        assert_eq!((m.completed(None), m.latency(None).count()), (0, 0));
        assert!(m.duration_ns.0 < 20_000_000_000);
    }
}

#[test]
fn a_stopped_job_ends_soon_and_returns_what_there_is() {
    for way in ways("a_stopped_job_ends_soon_and_returns_what_there_is") {
        let mut scene = Scene::new(way, 1, 4 * MIB);
        scene.job.length = Length::Time(Nanos(60_000_000_000));
        scene.job.workers = 2;
        let stop = Arc::new(AtomicBool::new(false));
        let control = Control::new(stop.clone());
        let begun = Instant::now();
        let m = std::thread::scope(|scope| {
            scope.spawn(move || {
                std::thread::sleep(Duration::from_millis(100));
                stop.store(true, std::sync::atomic::Ordering::Relaxed);
            });
            run(&scene.job, &control, &mut |_| {}).unwrap()
        });
        assert!(begun.elapsed() < Duration::from_secs(20));
        assert!(m.completed(None) > 0 && m.duration_ns.0 < 20_000_000_000);
        assert!(m.latency(None).count().abs_diff(m.completed(None)) <= 2 * u64::from(way.1));
    }
}

#[test]
fn progress_is_told_while_it_runs() {
    for way in ways("progress_is_told_while_it_runs").into_iter().take(2) {
        let mut scene = Scene::new(way, 1, 4 * MIB);
        (scene.job.warmup, scene.job.length) =
            (Nanos(300_000_000), Length::Time(Nanos(600_000_000)));
        let mut told = Vec::new();
        let m = run(&scene.job, &Control::default(), &mut |progress| told.push(progress)).unwrap();
        assert!((2..=4).contains(&told.len()), "{told:?}");
        assert!(told.windows(2).all(|pair| pair[0].elapsed < pair[1].elapsed));
        assert!(!told[0].measuring && told[0].bytes_measured == 0 && told[0].completed > 0);
        let last = told.last().unwrap();
        assert!(last.measuring && (1..=m.bytes(None)).contains(&last.bytes_measured));
        // The two are read one after the other, and an I/O may be counted in between.
        assert!(last.bytes.abs_diff(4096 * last.completed) <= 4096, "{last:?}");
    }
}

#[test]
fn an_engine_serves_one_job_after_another() {
    let mut engine = Engine::new();
    for way in ways("an_engine_serves_one_job_after_another") {
        for workers in [1, 4, 1] {
            let mut scene = Scene::new(way, 1, MIB);
            scene.job.length = Length::Bytes(Bytes(64 * 4096));
            scene.job.workers = workers;
            let m = engine.run(&scene.job, &Control::default(), &mut |_| {}).unwrap();
            assert_eq!((m.completed(None), m.workers.len()), (64, workers as usize));
        }
    }
    assert_eq!(engine.pools.len(), 2);
}

#[test]
fn a_cpu_that_is_not_there_is_an_error_and_harms_no_later_job() {
    let mut engine = Engine::new();
    let mut scene = Scene::new((Backend::Sync, 1, false), 1, MIB);
    scene.job.length = Length::Bytes(Bytes(4096));
    (scene.job.workers, scene.job.cpus) = (3, vec![1023]);
    let mut run = |job: &Job| engine.run(job, &Control::default(), &mut |_| {});
    let error = run(&scene.job).unwrap_err();
    assert!(matches!(&error, EngineError::Workers { .. }) && !error.is_missing_requirement());
    assert!(error.to_string().contains("CPU 1023"), "{error}");
    scene.job.cpus = Vec::new();
    assert_eq!(run(&scene.job).unwrap().completed(None), 1);
}

#[test]
fn auto_takes_what_costs_least() {
    let ways = ways("auto_takes_what_costs_least");
    let ring = ways.iter().any(|way| way.0 == Backend::IoUring);
    for (depth, files, name) in [(1, 1, "sync"), (8, 1, "io_uring"), (1, 2, "io_uring")] {
        let mut scene = Scene::new((Backend::Auto, depth, false), files, MIB);
        scene.blocks(16_384);
        scene.job.length = Length::Bytes(Bytes(16_384 * 8));
        match run(&scene.job, &Control::default(), &mut |_| {}) {
            Ok(m) => {
                assert_eq!(m.backend.name, if ring { name } else { "sync" });
                assert!(!m.backend.why.is_empty());
            }
            Err(error) => assert!(!ring && error.is_missing_requirement(), "{error}"),
        }
    }
}

#[test]
fn payloads_arrive_as_they_are_asked_for() {
    for way in ways("payloads_arrive_as_they_are_asked_for") {
        for payload in [Payload::Zero, Payload::Compressible(50), Payload::Duplicate(50)] {
            let mut scene = Scene::new(way, 1, MIB);
            (scene.job.random, scene.job.read_percent) = (false, 0);
            (scene.job.payload, scene.job.length) = (payload, Length::Bytes(Bytes(MIB)));
            assert_eq!(scene.run().faults.len(), 0);
            let data = std::fs::read(scene.path(0)).unwrap();
            let zeros = data.iter().map(|byte| usize::from(*byte == 0)).sum::<usize>();
            let pages = data.chunks(4096).collect::<HashSet<_>>().len();
            match payload {
                Payload::Zero => assert_eq!(zeros, data.len()),
                Payload::Compressible(_) => {
                    assert!(zeros.abs_diff(data.len() / 2) < data.len() / 100);
                    assert_eq!(pages, 256);
                }
                // Half of 256 blocks (whole decks of 100 and a part of one) repeat one of 4.
                _ => assert!((100..165).contains(&pages), "{pages} different pages"),
            }
        }
    }
}

#[test]
fn a_thread_of_the_kernel_takes_reads_writes_and_flushes() {
    let test = "a_thread_of_the_kernel_takes_reads_writes_and_flushes";
    for way in ways(test).into_iter().filter(|way| way.0 == Backend::IoUring) {
        let mut scene = Scene::new(way, 1, 4 * MIB);
        scene.job.ring.kernel_thread = true;
        scene.job.read_percent = 50;
        scene.job.flush_every = Some((64, Flush::Fdatasync));
        let some = |m: &Measurement, kind| m.completed(Some(kind)) > 0;
        // A thread of the kernel that has to share its processor may not come to its turn in time.
        let mut tries = (0..20).map(|_| scene.run());
        let m = tries.find(|m| {
            assert_eq!((m.faults.len(), m.short_transfers), (0, 0));
            [IoKind::Read, IoKind::Write].into_iter().all(|kind| some(m, kind))
        });
        let m = m.expect("both kinds once");
        assert!(m.backend.features.iter().any(|feature| feature == "sqpoll"));
        assert!(!m.backend.features.iter().any(|feature| feature == "deferred task work"));
    }
}

#[test]
fn paced_ios_go_out_by_a_thread_of_the_kernel_too() {
    let test = "paced_ios_go_out_by_a_thread_of_the_kernel_too";
    for way in ways(test).into_iter().filter(|way| way.0 == Backend::IoUring) {
        let mut scene = Scene::new(way, 1, 4 * MIB);
        scene.job.ring.kernel_thread = true;
        let rate = Rate::Ios(1000.0);
        scene.job.pace = Pace::Open { rate, arrivals: Arrivals::Even, max_lateness: None };
        let mut tries = (0..20).map(|_| scene.run());
        let done = tries.find_map(|m| {
            assert_eq!(m.open.as_ref().map(|open| open.due), Some(100));
            (m.completed(None) > 0).then_some(())
        });
        assert_eq!(done, Some(()), "none ever went out");
    }
}

#[test]
fn what_has_no_queues_to_poll_is_told_with_the_remedy_or_polled() {
    let test = "what_has_no_queues_to_poll_is_told_with_the_remedy_or_polled";
    let of_ring = |way: &(Backend, u32, bool)| way.0 == Backend::IoUring && way.2;
    for way in ways(test).into_iter().filter(of_ring) {
        let mut scene = Scene::new(way, 1, 4 * MIB);
        scene.job.ring.polled = true;
        for pace in [Pace::Closed, Pace::Think { pause: Nanos(1_000_000), after: 4 }] {
            scene.job.pace = pace;
            match run(&scene.job, &Control::default(), &mut |_| {}) {
                Ok(m) => {
                    assert!(m.completed(None) > 10 && m.faults.is_empty());
                    assert!(m.backend.features.iter().any(|feature| feature == "hipri"));
                }
                Err(error) => {
                    assert!(error.is_missing_requirement());
                    let told = error.to_string();
                    for words in ["disk.0", "`hipri`", "nvme.poll_queues"] {
                        assert!(told.contains(words), "{told}");
                    }
                }
            }
        }
    }
}
