//! Histograms against two oracles, merging, and the archive's form of all of it.

use hdrhistogram::Histogram as HdrHistogram;
use proptest::collection::vec;
use proptest::prelude::*;

use super::*;
use crate::units::Percentile;

/// Ranks that matter, and both ends.
const PERCENTILES: [u32; 9] =
    [1, 10_000, 250_000, 500_000, 900_000, 990_000, 999_000, 999_900, 1_000_000];

fn histogram(values: &[u64]) -> Histogram {
    let recorder = Recorder::default();
    for value in values {
        recorder.record(*value);
    }
    recorder.snapshot()
}

/// Latencies of all sizes: as many of a nanosecond's order as of an hour's.
fn latency() -> impl Strategy<Value = u64> {
    (0_u32..64, any::<u64>()).prop_map(|(shift, bits)| bits >> shift)
}

fn merged(histograms: &[&Histogram]) -> Histogram {
    let mut all = Histogram::default();
    for one in histograms {
        all.merge(one);
    }
    all
}

#[test]
fn an_empty_histogram_has_no_figures() {
    let empty = Recorder::default().snapshot();
    assert_eq!(empty, Histogram::default());
    assert_eq!((empty.count(), empty.min(), empty.max(), empty.mean()), (0, None, None, None));
    assert_eq!(empty.percentile(Percentile(500_000)), None);
    assert_eq!(empty.quotable_percentile(Percentile(500_000)), None);
    assert_eq!(empty.stddev(), None);
}

#[test]
fn the_vector_of_nearest_rank() {
    let four = histogram(&[10, 20, 30, 40]);
    assert_eq!(four.percentile(Percentile(500_000)), Some(20));
    assert_eq!(four.percentile(Percentile(990_000)), Some(40));
    assert_eq!(four.percentile(Percentile(1)), Some(10));
    // The sample standard deviation would be 12.9.
    assert!((four.stddev().unwrap() - 125_f64.sqrt()).abs() < 1e-9);
}

#[test]
fn a_percentile_needs_its_samples() {
    let of = |count: u64| histogram(&(1..=count).collect::<Vec<_>>());
    assert_eq!(of(367).quotable_percentile(Percentile(990_000)), None);
    assert_eq!(of(368).quotable_percentile(Percentile(990_000)), Some(365));
    assert_eq!(of(1).quotable_percentile(Percentile(1_000_000)), Some(1));
}

#[test]
fn the_ends_of_the_range_have_their_buckets() {
    let ends = histogram(&[0, u64::MAX, u64::MAX]);
    assert_eq!((ends.min(), ends.max()), (Some(0), Some(u64::MAX)));
    assert_eq!(ends.percentile(Percentile(500_000)), Some(u64::MAX));
    let mean = 2.0 * u64::MAX as f64 / 3.0;
    assert!((ends.mean().unwrap() / mean - 1.0).abs() < 1e-12);
}

#[test]
fn buckets_meet_without_gap_and_are_as_narrow_as_promised() {
    // Both sides of the borders of buckets and octaves.
    let mut values: Vec<u64> = (0..5000).collect();
    values.extend((9..64).flat_map(|power| {
        let start = 1_u64 << power;
        [start - 1, start, start + 1, start + (start >> 8) - 1, start + (start >> 8)]
    }));
    values.sort_unstable();
    values.dedup();
    let all = histogram(&values);
    let mut before = None;
    for (low, high, count) in all.bars() {
        assert!(low <= high && before.is_none_or(|before| before < low));
        before = Some(high);
        let inside = values.iter().filter(|value| (low..=high).contains(value)).count();
        assert_eq!(inside as u64, count, "from {low} to {high}");
        assert!(low < 512 && low == high || high - low < low / 256 + 1, "from {low} to {high}");
    }
}

#[test]
fn counting_several_times_is_counting_often() {
    let (often, times) = (Recorder::default(), Recorder::default());
    (0..1000).for_each(|_| often.record(123_456));
    times.record_times(123_456, 1000);
    assert_eq!(often.snapshot(), times.snapshot());
    times.clear();
    assert_eq!(times.snapshot(), Histogram::default());
}

#[test]
fn a_reader_never_sees_more_than_was_written() {
    let recorder = Recorder::default();
    let done = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            (1..=200_000).for_each(|value| recorder.record(value));
            done.store(true, std::sync::atomic::Ordering::Release);
        });
        let mut last = 0;
        while !done.load(std::sync::atomic::Ordering::Acquire) {
            let count = recorder.snapshot().count();
            assert!(last <= count && count <= 200_000);
            last = count;
        }
    });
    assert_eq!(recorder.snapshot(), histogram(&(1..=200_000).collect::<Vec<_>>()));
}

#[test]
fn a_histogram_that_lies_is_refused() {
    for text in [
        r#"{"count":2,"min":1,"max":1,"sum":[0,1],"buckets":[[1,1]]}"#,
        r#"{"count":2,"min":1,"max":2,"sum":[0,3],"buckets":[[2,1],[1,1]]}"#,
        r#"{"count":1,"min":1,"max":1,"sum":[0,1],"buckets":[[4000000,1]]}"#,
        r#"{"count":1,"min":null,"max":null,"sum":[0,1],"buckets":[[1,1]]}"#,
        r#"{"count":0,"min":1,"max":1,"sum":[0,1],"buckets":[[1,18446744073709551615],[2,1]]}"#,
    ] {
        assert!(serde_json::from_str::<Histogram>(text).is_err(), "{text}");
    }
}

proptest! {
    #[test]
    fn percentiles_are_those_of_the_sorted_samples(values in vec(latency(), 1..400)) {
        let recorded = histogram(&values);
        let mut sorted = values;
        sorted.sort_unstable();
        let count = sorted.len() as u64;
        prop_assert_eq!(recorded.count(), count);
        prop_assert_eq!(recorded.min(), sorted.first().copied());
        prop_assert_eq!(recorded.max(), sorted.last().copied());
        let sum: u128 = sorted.iter().map(|value| u128::from(*value)).sum();
        prop_assert_eq!(recorded.mean(), Some(sum as f64 / count as f64));
        for percentile in PERCENTILES.map(Percentile) {
            let truth = sorted[percentile.rank(count) as usize - 1];
            let found = recorded.percentile(percentile).unwrap();
            // Never below the truth, and at most 1/256 above.
            prop_assert!(found >= truth && found - truth <= truth / 256, "{found} for {truth}");
        }
    }

    #[test]
    fn percentiles_agree_with_hdrhistogram(
        values in vec(latency().prop_map(|value| value % 60_000_000_000 + 1), 1..400),
    ) {
        let recorded = histogram(&values);
        let mut other = HdrHistogram::<u64>::new_with_bounds(1, 60_000_000_000, 3).unwrap();
        for value in &values {
            other.record(*value).unwrap();
        }
        for percentile in PERCENTILES.map(Percentile) {
            let quantile = f64::from(percentile.0) / f64::from(Percentile::ONE);
            let theirs = other.value_at_quantile(quantile) as f64;
            let ours = recorded.percentile(percentile).unwrap() as f64;
            // Ours is up to 1/256 above the truth, theirs off by up to 1/1000 either way.
            prop_assert!((ours / theirs - 1.0).abs() < 0.005, "{ours} and {theirs}");
        }
        let stddev = recorded.stddev().unwrap();
        prop_assert!((stddev - other.stdev()).abs() <= 0.005 * recorded.max().unwrap() as f64);
    }

    #[test]
    fn merging_is_adding(
        a in vec(latency(), 0..200), b in vec(latency(), 0..200), c in vec(latency(), 0..200),
    ) {
        let [ha, hb, hc] = [&a, &b, &c].map(|values| histogram(values));
        let all = histogram(&[a, b, c].concat());
        prop_assert_eq!(&merged(&[&ha, &hb, &hc]), &all);
        prop_assert_eq!(&merged(&[&hc, &hb, &ha]), &all);
        prop_assert_eq!(&merged(&[&ha, &merged(&[&hb, &hc])]), &all);
        prop_assert_eq!(&merged(&[&ha, &Histogram::default()]), &ha);
    }

    #[test]
    fn the_archive_keeps_everything(values in vec(latency(), 0..300)) {
        let recorded = histogram(&values);
        let text = serde_json::to_string(&recorded).unwrap();
        prop_assert_eq!(serde_json::from_str::<Histogram>(&text).unwrap(), recorded);
    }
}

fn measurement(seconds: u64, reads: &[u64], depth: f64) -> Measurement {
    let kinds = PerKind {
        read: KindFigures {
            completed: reads.len() as u64,
            bytes: 4096 * reads.len() as u64,
            latency_ns: histogram(reads),
        },
        ..PerKind::default()
    };
    let share = |name: &str| Share {
        name: name.to_owned(),
        completed: reads.len() as u64,
        bytes: 4096 * reads.len() as u64,
    };
    Measurement {
        duration_ns: Nanos(seconds * 1_000_000_000),
        kinds,
        series: Series::default(),
        queue_depth_achieved: depth,
        cpu: Some(CpuUse { user_ns: 10, system_ns: 20 }),
        device: None,
        open: None,
        verified: None,
        faults: Vec::new(),
        short_transfers: 1,
        clock_anomalies: 2,
        drain_ns: Nanos(seconds),
        workers: vec![share("worker 0")],
        members: vec![share("data.0"), share("data.1")],
        backend: BackendUsed { name: "sim".to_owned(), why: String::new(), features: Vec::new() },
        streams: Vec::new(),
    }
}

#[test]
fn rounds_become_one() {
    let fault = |errno, count| IoFault {
        kind: IoKind::Read,
        errno,
        count,
        disk: "data.0".to_owned(),
        first_offset: 0,
    };
    let mut first = measurement(1, &[10, 20], 4.0);
    first.faults = vec![fault(5, 3)];
    let mut second = measurement(3, &[30], 8.0);
    second.faults = vec![fault(5, 2), fault(28, 1)];
    let both = Measurement::merged(&[&first, &second]).unwrap();
    assert_eq!(both.duration_ns, Nanos(4_000_000_000));
    assert_eq!(both.kinds.read.latency_ns, histogram(&[10, 20, 30]));
    assert_eq!((both.completed(None), both.bytes(Some(IoKind::Read))), (3, 3 * 4096));
    assert!((both.queue_depth_achieved - 7.0).abs() < 1e-9, "weighted by time");
    assert_eq!(both.cpu, Some(CpuUse { user_ns: 20, system_ns: 40 }));
    assert_eq!((both.short_transfers, both.clock_anomalies), (2, 4));
    assert_eq!(both.drain_ns, Nanos(3), "the longest");
    assert_eq!((both.errors(None), both.errors(Some(IoKind::Write))), (6, 0));
    assert_eq!(both.faults, [fault(5, 5), fault(28, 1)]);
    let shares: Vec<u64> = both.members.iter().map(|share| share.completed).collect();
    assert_eq!(shares, [3, 3]);
    assert_eq!(Measurement::merged(&[]), None);
}

#[test]
fn processor_time_of_one_round_alone_is_no_sum() {
    let mut virtual_time = measurement(1, &[10], 1.0);
    virtual_time.cpu = None;
    let real = measurement(1, &[10], 1.0);
    assert_eq!(Measurement::merged(&[&real, &virtual_time]).unwrap().cpu, None);
}

#[test]
fn a_measurement_survives_the_archive() {
    let one = measurement(1, &[1, 2, u64::MAX], 0.1 + 0.2);
    let text = serde_json::to_string(&one).unwrap();
    assert_eq!(serde_json::from_str::<Measurement>(&text).unwrap(), one);
}

#[test]
fn syncs_count_by_name_alone() {
    let mut one = measurement(1, &[10], 1.0);
    one.kinds.sync = KindFigures { completed: 7, bytes: 0, latency_ns: histogram(&[99]) };
    assert_eq!((one.completed(None), one.completed(Some(IoKind::Sync))), (1, 7));
    assert_eq!(one.latency(None), histogram(&[10]));
    assert_eq!(one.latency(Some(IoKind::Sync)), histogram(&[99]));
}

#[test]
fn the_last_interval_ends_with_the_window() {
    let series = Series {
        interval_ns: Nanos(100),
        window_ns: Nanos(250),
        completed: vec![11, 22, 30],
        bytes: vec![110, 220, 300],
    };
    let lengths: Vec<f64> = series.lengths_s().map(|length| length * 1e9).collect();
    for (length, expected) in lengths.iter().zip([100.0, 100.0, 50.0]) {
        assert!((length - expected).abs() < 1e-3);
    }
}
