//! The parts of the engine's loop, one by one: what each costs an I/O, in nanoseconds.

use std::hint::black_box;
use std::time::Duration;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};

use diskproof::engine::parts::{Permutation, Request, StripeMap, no_ops, source, writer};
use diskproof::engine::verify::{examine, stamp};
use diskproof::engine::{
    Access, Backend, Control, Job, Length, Mix, Pace, Payload, RingOptions, Storage, Target,
    WriteSync, run,
};
use diskproof::measure::Recorder;
use diskproof::model::DiskModel;
use diskproof::units::{Bytes, Nanos};

const BATCH: usize = 32;

/// Random reads of 4 KiB over 1 TiB of a simulated disk.
fn job() -> Job {
    Job {
        storage: Storage {
            target: Target::Simulated(vec![("disk".to_owned(), DiskModel::default())]),
            chunk: None,
            member_bytes: 1 << 40,
        },
        start: 0,
        len: 1 << 40,
        random: true,
        once: false,
        access: Access::Uniform,
        partitioned: false,
        read_percent: 100,
        trim: false,
        blocks: vec![Mix { block: Bytes(4096), weight: 1 }],
        granularity: Bytes(4096),
        queue_depth: 32,
        workers: 1,
        cpus: Vec::new(),
        pace: Pace::Closed,
        warmup: Nanos(0),
        length: Length::Time(Nanos(1_000_000_000)),
        cooldown: Nanos(0),
        write_sync: WriteSync::None,
        flush_every: None,
        fsync_at_end: false,
        payload: Payload::Random,
        verify: None,
        backend: Backend::Auto,
        ring: RingOptions::default(),
        seed: 1,
        series_interval: Nanos(100_000_000),
    }
}

fn histogram(bench: &mut Criterion) {
    let recorder = Recorder::default();
    let mut value = 1_u64;
    bench.bench_function("histogram/record", |run| {
        run.iter(|| {
            value = value.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            // 16 us to 278 us, all over the buckets there.
            recorder.record(black_box(16_384 + (value >> 46)));
        });
    });
}

fn offsets(bench: &mut Criterion) {
    let mut group = bench.benchmark_group("offsets");
    group.throughput(Throughput::Elements(BATCH as u64));
    let shared = Job { random: false, workers: 2, ..job() };
    let sizes = [(4096, 60), (16_384, 40)];
    let sizes = sizes.map(|(block, weight)| Mix { block: Bytes(block), weight });
    for (name, job) in [
        ("uniform", job()),
        ("uniform, 70 % reads", Job { read_percent: 70, ..job() }),
        ("uniform, two sizes", Job { blocks: sizes.into(), ..job() }),
        ("sequential", Job { random: false, ..job() }),
        ("sequential, shared", shared),
        ("once", Job { once: true, ..job() }),
        ("zipf", Job { access: Access::Zipf(1.1), ..job() }),
        ("pareto", Job { access: Access::Pareto(0.2), ..job() }),
        ("normal", Job { access: Access::Normal(10.0), ..job() }),
        ("hot", Job { access: Access::Hot { ios: 90, region: 10 }, ..job() }),
    ] {
        let mut source = source(&job);
        let mut out = [Request::FLUSH; BATCH];
        group.bench_function(name, |run| run.iter(|| source.fill(black_box(&mut out))));
    }
    group.finish();
    let order = Permutation::new(10_000_000, 7);
    let mut index = 0;
    bench.bench_function("permutation/at", |run| {
        run.iter(|| {
            index = (index + 1) % 10_000_000;
            black_box(order.at(black_box(index)))
        });
    });
}

fn stripe(bench: &mut Criterion) {
    let mut group = bench.benchmark_group("stripe");
    for members in [2, 7, 8, 128] {
        let map = StripeMap::new(256 * 1024, members);
        let mut offset = 0_u64;
        group.bench_function(BenchmarkId::new("locate", members), |run| {
            run.iter(|| {
                offset = (offset + 4096) & ((1 << 40) - 1);
                black_box(map.locate(black_box(offset)))
            });
        });
        group.bench_function(BenchmarkId::new("split", members), |run| {
            run.iter(|| {
                offset = (offset + 4096) & ((1 << 40) - 1);
                map.split(black_box(offset), 4096).for_each(|part| {
                    black_box(part);
                });
            });
        });
    }
    group.finish();
}

fn payload(bench: &mut Criterion) {
    let mut group = bench.benchmark_group("payload");
    for block in [4096_usize, 131_072] {
        let job = Job {
            read_percent: 0,
            queue_depth: 1,
            blocks: vec![Mix { block: Bytes(block as u64), weight: 1 }],
            ..job()
        };
        let mut next = writer(&job).expect("a bench needs memory for its buffers");
        group.bench_function(BenchmarkId::new("random", block), |run| {
            run.iter(|| black_box(next(block)));
        });
    }
    group.finish();
}

fn ring(bench: &mut Criterion) {
    let mut group = bench.benchmark_group("ring");
    for batch in [1, 8, BATCH] {
        // Where rings are forbidden there is nothing to measure.
        let Ok(mut turn) = no_ops(batch) else { continue };
        group.throughput(Throughput::Elements(batch as u64));
        group.bench_function(BenchmarkId::new("no-ops", batch), |run| run.iter(&mut turn));
    }
    group.finish();
}

fn simulation(bench: &mut Criterion) {
    let mut group = bench.benchmark_group("simulation");
    // 100,000 reads, by the cap of 100 k IOPS over a second of virtual time.
    let model = DiskModel { iops_cap: Some(100_000.0), ..DiskModel::default() };
    let mut job = job();
    job.storage.target = Target::Simulated(vec![("disk".to_owned(), model)]);
    group.sample_size(10).throughput(Throughput::Elements(100_000));
    group.bench_function("100,000 reads", |bench| {
        bench.iter(|| run(&job, &Control::default(), &mut |_| {}));
    });
    group.finish();
}

fn stamps(bench: &mut Criterion) {
    let mut group = bench.benchmark_group("verify");
    group.throughput(Throughput::Bytes(4096));
    let mut block = vec![0x5a; 4096];
    group.bench_function("stamp, 4 KiB", |run| {
        run.iter(|| stamp(black_box(&mut block), 8192, 4096, 7, |_| 3));
    });
    group.bench_function("check, 4 KiB", |run| {
        run.iter(|| assert!(examine(black_box(&block), 8192, 7, 3).is_none()));
    });
}

criterion_group! {
    name = benches;
    config = Criterion::default()
        .warm_up_time(Duration::from_millis(500))
        .measurement_time(Duration::from_secs(2));
    targets = histogram, offsets, stripe, payload, ring, simulation, stamps
}
criterion_main!(benches);
