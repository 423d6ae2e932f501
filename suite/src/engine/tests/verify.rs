//! Verified jobs on real files: honest ones, whatever overlaps, and a thousand faults.

use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::sync::Arc;

use rand_xoshiro::rand_core::Rng;

use super::pace::ways;
use super::*;
use crate::engine::seed::{Stream, draw_below, random};
use crate::engine::verify::Generations;
use crate::measure::VerifyKind;
use crate::os::io::memory_file;

/// A storage of so many bytes in memory, and the table of what it should hold.
type Storage = (Arc<File>, Arc<Generations>);

fn storage(bytes: u64, block: u64) -> Storage {
    let file = memory_file("test").unwrap();
    file.set_len(bytes).unwrap();
    (Arc::new(file), Arc::new(Generations::new(bytes, block, 7).unwrap()))
}

fn member(name: String, file: Arc<File>) -> DeviceFile {
    DeviceFile { name, file, memory_align: 1, offset_align: 1 }
}

/// A verified job on it.
fn verified((file, table): &Storage, (backend, queue_depth): (Backend, u32)) -> Job {
    let bytes = file.metadata().unwrap().len();
    let mut job = job();
    job.storage.target = Target::Files(vec![member("memory".to_owned(), Arc::clone(file))]);
    (job.len, job.storage.member_bytes) = (bytes, bytes);
    (job.backend, job.queue_depth) = (backend, queue_depth);
    job.verify = Some(Arc::clone(table));
    job
}

fn measured(job: &Job) -> Measurement {
    run(job, &Control::default(), &mut |_| {}).unwrap()
}

/// How many I/Os honest runs have in all: ten million where somebody asks for it.
fn honest_ios() -> u64 {
    let asked = std::env::var("DISKPROOF_HONEST_IOS").ok().and_then(|text| text.parse().ok());
    asked.unwrap_or(300_000)
}

#[test]
fn honest_storage_is_never_accused() {
    let ways = ways("honest_storage_is_never_accused");
    let each = honest_ios() / ways.len() as u64 / 4;
    let mix_of = |block, weight| Mix { block: Bytes(block), weight };
    for way in ways {
        for (workers, mixed) in [(1, true), (4, true), (4, false), (2, false)] {
            // Small enough that writes meet each other all the time.
            let storage = storage(256 << 10, 512);
            let mut job = verified(&storage, way);
            (job.workers, job.read_percent, job.granularity) = (workers, 50, Bytes(512));
            job.blocks = vec![mix_of(512, 50)];
            if mixed {
                job.blocks.push(mix_of(4096, 50));
            }
            job.length = Length::Bytes(Bytes(each * if mixed { 2304 } else { 512 }));
            let measured = measured(&job);
            let told = measured.verified.as_ref().unwrap();
            assert_eq!(told.finds, [], "{way:?}, {workers} workers");
            assert!(told.checked > each / 4, "{way:?}: {}", told.checked);
            assert!(measured.faults.is_empty());
            let done = measured.completed(None);
            assert!(done >= each / 2, "{way:?}: {done} of {each}");
        }
    }
}

const BLOCK: u64 = 4096;
const BLOCKS: u64 = 4096;

/// Makes a block differ from what it should hold in this way, with what was there after each of
/// three passes of writes.
fn spoil(
    file: &File,
    states: &[Vec<u8>],
    kind: VerifyKind,
    (at, other): (u64, u64),
    random: &mut impl Rng,
) {
    let copy = |state: &[u8], from: u64, len: usize| {
        file.write_all_at(&state[from as usize..][..len], at).unwrap();
    };
    match kind {
        VerifyKind::Corrupt => {
            let bit = random.next_u64() % (BLOCK * 8);
            let place = at + bit / 8;
            let byte = states[2][place as usize] ^ (1 << (bit % 8));
            file.write_all_at(&[byte], place).unwrap();
        }
        VerifyKind::Misplaced => copy(&states[2], other, BLOCK as usize),
        VerifyKind::Torn => copy(&states[1], at, 512 * (1 + random.next_u64() as usize % 7)),
        VerifyKind::Lost => copy(&states[1], at, BLOCK as usize),
        VerifyKind::Stale => copy(&states[0], at, BLOCK as usize),
    }
}

#[test]
fn a_thousand_faults_are_found_and_rightly_named() {
    for way in ways("a_thousand_faults_are_found_and_rightly_named") {
        let storage = storage(BLOCKS * BLOCK, BLOCK);
        let mut job = verified(&storage, way);
        (job.once, job.read_percent) = (true, 0);
        job.length = Length::Bytes(Bytes(BLOCKS * BLOCK));
        let mut states = Vec::new();
        for seed in 1..=3 {
            job.seed = seed;
            let told = measured(&job).verified.unwrap();
            assert_eq!((told.checked, told.error_count()), (BLOCKS, 0));
            let mut state = vec![0; (BLOCKS * BLOCK) as usize];
            storage.0.read_exact_at(&mut state, 0).unwrap();
            states.push(state);
        }
        // A thousand blocks, no two the same, in an order of their own.
        let mut random = random(11, Stream::Offsets, 0);
        let mut blocks: Vec<u64> = (0..BLOCKS).collect();
        for last in (1..blocks.len()).rev() {
            blocks.swap(last, draw_below(&mut random, last as u64 + 1) as usize);
        }
        let mut expected = Vec::new();
        for (number, block) in blocks[..1000].iter().enumerate() {
            let (at, kind) = (block * BLOCK, VerifyKind::ALL[number % 5]);
            let other = blocks[2000 + number] * BLOCK;
            spoil(&storage.0, &states, kind, (at, other), &mut random);
            expected.push((at, kind));
        }
        (job.read_percent, job.seed) = (100, 9);
        let told = measured(&job).verified.unwrap();
        assert_eq!((told.checked, told.unchecked), (BLOCKS, 0));
        assert_eq!(told.errors, VerifyKind::ALL.map(|kind| (kind, 200)), "{way:?}");
        assert_eq!(told.finds.len(), 16);
        for find in &told.finds {
            let found = (find.offset / BLOCK * BLOCK, find.kind);
            assert!(expected.contains(&found), "{find:?}");
        }
    }
}

#[test]
fn what_was_never_written_is_not_checked() {
    let storage = storage(1 << 20, 4096);
    let mut job = verified(&storage, (Backend::Sync, 1));
    job.length = Length::Bytes(Bytes(1 << 20));
    let told = measured(&job).verified.unwrap();
    assert_eq!((told.checked, told.unchecked, told.error_count()), (0, 256, 0));
}

#[test]
fn shares_and_passes_stay_whole_though_requests_are_put_off() {
    for way in ways("shares_and_passes_stay_whole_though_requests_are_put_off") {
        let storage = storage(64 << 10, 4096);
        let mut job = verified(&storage, way);
        (job.workers, job.once, job.read_percent) = (3, true, 0);
        // A hundred passes over sixteen blocks, by up to 24 writes at a time.
        job.length = Length::Bytes(Bytes(100 * (64 << 10)));
        let measured = measured(&job);
        assert_eq!(measured.completed(None), 1600);
        for block in 0..16 {
            assert_eq!(storage.1.expected(block * 4096), Some(100), "{way:?}");
        }
        assert_eq!(measured.verified.unwrap().error_count(), 0);
    }
}

#[test]
fn a_stripe_is_verified_as_one() {
    let members: Vec<_> = (0..3).map(|_| Arc::new(memory_file("test").unwrap())).collect();
    for member in &members {
        member.set_len(1 << 20).unwrap();
    }
    let files = members
        .iter()
        .zip(0..)
        .map(|(file, number)| member(format!("memory.{number}"), Arc::clone(file)));
    let mut job = job();
    job.storage = crate::engine::Storage {
        target: Target::Files(files.collect()),
        chunk: Some(Bytes(4096)),
        member_bytes: 1 << 20,
    };
    (job.len, job.once, job.read_percent) = (3 << 20, true, 0);
    (job.blocks, job.granularity) = (vec![Mix { block: Bytes(8192), weight: 1 }], Bytes(8192));
    job.length = Length::Bytes(Bytes(3 << 20));
    job.verify = Some(Arc::new(Generations::new(3 << 20, 8192, 7).unwrap()));
    let told = measured(&job).verified.unwrap();
    assert_eq!((told.checked, told.error_count()), (384, 0));
    // A byte of one member is a byte of the whole: chunk 4 is the second one of member 1.
    members[1].write_all_at(&[0xff, 0xee, 0xdd], 4096 + 100).unwrap();
    job.read_percent = 100;
    let told = measured(&job).verified.unwrap();
    assert_eq!(told.errors, [(VerifyKind::Corrupt, 1)]);
    assert_eq!(told.finds[0].offset, 4 * 4096);
}
