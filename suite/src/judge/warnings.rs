//! What a reader should know before believing the figures of a case, by those figures alone.
//!
//! Each warning says what to do about it. A tool that warns without need is not listened to: each
//! threshold leaves room for chance, and what a round shows has to show in most of them.

use super::seen::{Seen, seen};
use crate::measure::{IoKind, Measurement, StreamMeasurement};
use crate::plan::{self, Cache, Limit, Workload};
use crate::record::{CaseRecord, Record};
use crate::units::{Nanos, Unit, human};

/// Fewer I/Os than this in all rounds together say little.
const FEW_IOS: u64 = 100;

/// From this share of what the engine could do without a disk on, a case is limited by it.
const ENGINE_LIMIT: f64 = 0.8;

/// To be woken takes a thread about as long: I/Os that are late by less say nothing.
const LATE: Nanos = Nanos(200_000);

/// I/Os that return within this time after the end of the load say nothing.
const LONG_DRAIN: Nanos = Nanos(1_000_000_000);

/// What one should know about a case of the record, which did this work: sentences without a full
/// stop; empty when all is well.
#[must_use]
pub fn warnings(record: &Record, case: &CaseRecord, workload: &Workload) -> Vec<String> {
    let rounds = case.measured();
    let Some(merged) = case.merged() else { return Vec::new() };
    let loads = workload.loads();
    let in_flight =
        loads.iter().map(|load| u64::from(load.queue_depth) * u64::from(load.workers)).sum();
    let closed = loads.iter().all(|load| load.pace == plan::Pace::Closed);
    let mut all = vec![
        depth_not_reached(&merged, in_flight).filter(|_| closed),
        late(&merged),
        short_transfers(&merged),
        clock_anomalies(&merged),
        few_ios(&merged),
    ];
    if has_a_pace(workload) {
        all.extend([first_interval(&rounds), drift(&rounds)]);
    }
    let streams = case.streams_as_cases();
    let mut limited: Vec<_> = streams.iter().filter_map(limited_stream).collect();
    limited.extend(limited_by_engine(case));
    if limited.is_empty() {
        limited.extend(cpu_bound(&merged));
    }
    all.extend(limited.into_iter().map(Some).chain([slow_drain(&rounds)]));
    all.extend(seen(record, case, workload).iter().map(not_at_the_device));
    all.push(little(&merged));
    all.push(in_memory(record, case));
    all.into_iter().flatten().collect()
}

/// Figures of a file system without a disk are memory's, whatever was asked for.
fn in_memory(record: &Record, case: &CaseRecord) -> Option<String> {
    let of_case = record.disks.iter().filter(|disk| case.disks.contains(&disk.name));
    let mut in_memory =
        of_case.filter(|disk| matches!(disk.filesystem.as_deref(), Some("tmpfs" | "ramfs")));
    let disk = in_memory.next()?;
    Some(format!(
        "{} lies in main memory ({}): these are memory's figures, and no disk's; use a folder on a \
         disk",
        disk.name,
        disk.filesystem.as_deref().unwrap_or_default(),
    ))
}

/// Whether I/Os of such work are meant to complete at one pace for the whole of its window. Not
/// where it ends in a sync, or with the slowest of several workers; nor where the page cache takes
/// the writes, and hands them on in waves of seconds.
fn has_a_pace(workload: &Workload) -> bool {
    let cached_writes = workload.cache == Cache::Buffered && workload.writes();
    matches!(workload.limit, Limit::Runtime(_)) && !workload.fsync_at_end && !cached_writes
}

fn depth_not_reached(merged: &Measurement, in_flight: u64) -> Option<String> {
    let achieved = merged.queue_depth_achieved;
    (achieved < 0.9 * in_flight as f64 && merged.completed(None) >= FEW_IOS).then(|| {
        format!(
            "{achieved:.1} I/Os were in flight on average where {in_flight} were asked for: the \
             figures are of that depth; raise `workers`, or ask for less depth"
        )
    })
}

/// In an open loop, I/Os that the engine begins late count from when they were due; a reader should
/// know that it was the engine, or all slots were taken.
fn late(merged: &Measurement) -> Option<String> {
    let lateness = &merged.open.as_ref()?.lateness_ns;
    let response = merged.latency(None).mean()?;
    let mean = lateness.mean()?;
    (mean > LATE.0 as f64 && mean > response / 10.0).then(|| {
        format!(
            "I/Os were begun {} after they were due on average, which their latency includes: \
             all slots were taken by others; raise `queue_depth` or `workers`, or ask for less",
            human(mean, Unit::Nanoseconds)
        )
    })
}

fn short_transfers(merged: &Measurement) -> Option<String> {
    let count = merged.short_transfers;
    (count > 0).then(|| {
        format!(
            "the kernel cut {count} transfers short and was asked again for the rest, which their \
             latency includes; a smaller `block_size` may avoid it"
        )
    })
}

fn clock_anomalies(merged: &Measurement) -> Option<String> {
    let count = merged.clock_anomalies;
    (count > 0).then(|| {
        format!(
            "the clock went backwards over {count} I/Os, which are counted with a latency of 0; \
             see what `dmesg` says about the clock source, and pin the workers with `cpus`"
        )
    })
}

fn few_ios(merged: &Measurement) -> Option<String> {
    let count = merged.completed(None);
    (count < FEW_IOS && merged.faults.is_empty()).then(|| {
        format!("{count} I/Os in all are few for a figure to trust; raise `runtime` or `amount`")
    })
}

/// The series of a round: I/Os a second in each interval that the window fills, how much of a
/// difference between two spans of `n` I/Os is chance, and the mean I/Os in an interval.
struct Pace {
    rates: Vec<f64>,
    per_interval: f64,
    in_flight: f64,
}

impl Pace {
    fn of(round: &Measurement) -> Self {
        let full = round.series.interval_ns.as_secs();
        let intervals = round.series.completed.iter().zip(round.series.lengths_s());
        let rates: Vec<f64> = intervals
            .filter(|(_, length)| *length > 0.999 * full && *length > 0.0)
            .map(|(count, length)| *count as f64 / length)
            .collect();
        let per_interval = mean(&rates) * full;
        Self { rates, per_interval, in_flight: round.queue_depth_achieved }
    }

    /// What may differ by chance between two spans with `ios` I/Os each, as a share: four standard
    /// deviations of arrivals at random, and a batch of all in flight that falls into the other.
    fn chance(&self, ios: f64) -> f64 {
        4.0 * (2.0 / ios.max(1.0)).sqrt() + 2.0 * self.in_flight / ios.max(1.0)
    }
}

fn first_interval(rounds: &[&Measurement]) -> Option<String> {
    let off: Vec<f64> = rounds.iter().filter_map(|round| first_interval_off(round)).collect();
    let one_way = one_way(&off);
    (2 * one_way.len() > rounds.len()).then(|| {
        let (percent, word) = size_and_word(median(&one_way), "above", "below");
        format!(
            "the first moments were {percent:.0} % {word} the rest and count into the figures; \
             raise `warmup`"
        )
    })
}

/// Those of the shares that point to where most of them do: rounds that contradict each other are
/// chance.
fn one_way(shares: &[f64]) -> Vec<f64> {
    let (up, down): (Vec<f64>, Vec<f64>) = shares.iter().partition(|share| **share > 0.0);
    if up.len() > down.len() { up } else { down }
}

/// By which share the first interval is off the median of the rest, if by too much.
fn first_interval_off(round: &Measurement) -> Option<f64> {
    let pace = Pace::of(round);
    let (first, rest) = pace.rates.split_first()?;
    if rest.len() < 4 {
        return None;
    }
    let usual = median(rest);
    let off = first / usual - 1.0;
    (usual > 0.0 && off.abs() > pace.chance(pace.per_interval).max(0.3)).then_some(off)
}

fn drift(rounds: &[&Measurement]) -> Option<String> {
    let drifts: Vec<f64> = rounds.iter().filter_map(|round| drift_of(round)).collect();
    let most = one_way(&drifts);
    (2 * most.len() > rounds.len()).then(|| {
        let (percent, word) = size_and_word(median(&most), "rising", "falling");
        format!(
            "the speed was still {word} at the end, by {percent:.0} % from the first half of a \
             round to the second; raise `warmup`, and `runtime` if it goes on"
        )
    })
}

/// By which share the second half of a round differs from its first, if by too much. The first
/// interval has a warning of its own.
fn drift_of(round: &Measurement) -> Option<f64> {
    let pace = Pace::of(round);
    let rates = pace.rates.get(1..)?;
    if rates.len() < 8 {
        return None;
    }
    let (first, second) = rates.split_at(rates.len() / 2);
    let drift = mean(second) / mean(first) - 1.0;
    let chance = pace.chance(pace.per_interval * first.len() as f64);
    (mean(first) > 0.0 && drift.abs() > chance.max(0.1)).then_some(drift)
}

/// Figures within a fifth of what the engine could do without any disk are the tool's or the
/// processor's.
fn limited_by_engine(case: &CaseRecord) -> Option<String> {
    let (share, most) = (case.share_of_engine()?, case.engine_iops_max?);
    (share >= ENGINE_LIMIT).then(|| {
        format!(
            "limited by the tool or the CPU, not by the disk: without any disk the engine does {} \
             of this kind here, and this was {:.0} % of it; raise `workers`, or use larger blocks",
            human(most, Unit::Iops),
            share * 100.0
        )
    })
}

/// The same of a stream, which is named.
fn limited_stream(stream: &CaseRecord) -> Option<String> {
    let name = stream.id.rsplit('/').next().unwrap_or_default();
    limited_by_engine(stream).map(|limited| format!("stream {name}: {limited}"))
}

fn cpu_bound(merged: &Measurement) -> Option<String> {
    let cpu = merged.cpu?;
    let used = cpu.user_ns as f64 + cpu.system_ns as f64;
    let there = merged.duration_ns.0 as f64 * merged.workers.len() as f64;
    let share = used / there;
    (there > 0.0 && share > 0.9).then(|| {
        format!(
            "the workers used {:.0} % of a processor each: the processor may be the limit and not \
             the disk; raise `workers`",
            share * 100.0
        )
    })
}

/// Direct I/O of which the device saw far fewer bytes than were moved.
fn not_at_the_device(seen: &Seen) -> Option<String> {
    let remedy = match seen.kind {
        IoKind::Read => "test with a region larger than the cache, or on the raw device",
        IoKind::Write | IoKind::Trim | IoKind::Sync => {
            "test on another file system or the raw device"
        }
    };
    seen.is_below(0.9).then(|| format!("{}; {remedy}", seen.describe()))
}

/// I/Os that came back long after the load was to end: the longest wait of the rounds.
fn slow_drain(rounds: &[&Measurement]) -> Option<String> {
    let slow = |round: &&&Measurement| round.drain_ns > round.duration_ns.max(LONG_DRAIN);
    let longest = rounds.iter().filter(slow).map(|round| round.drain_ns).max()?;
    Some(format!(
        "I/Os needed {} to return after the end of the load: the storage had far more work queued \
         than it could do; ask for less depth, or raise `runtime`",
        human(longest.0 as f64, Unit::Nanoseconds)
    ))
}

/// Little's law: what is in flight is what arrives times how long it stays. Where it doesn't hold,
/// one of the three figures is wrong. In an open loop, latency counts from before I/Os are in
/// flight: what counts here is how long they took from their start.
fn little(merged: &Measurement) -> Option<String> {
    let of_stream = |stream: &StreamMeasurement| {
        little(&stream.measurement).map(|told| format!("stream {}: {told}", stream.name))
    };
    if !merged.streams.is_empty() {
        return merged.streams.iter().find_map(of_stream);
    }
    let seconds = merged.duration_ns.as_secs();
    let in_flight = merged.queue_depth_achieved;
    let completed = merged.completed(None);
    // At the ends of the window up to the whole queue is in one count and not in another.
    if seconds <= 0.0 || in_flight <= 0.0 || (completed as f64) < 50.0 * in_flight {
        return None;
    }
    let held = |kinds: &[IoKind]| -> f64 {
        let open = merged.open.as_ref();
        let kind = |kind: &IoKind| {
            let figures = &merged.kinds[*kind];
            let service = open.filter(|_| *kind != IoKind::Sync).map(|open| &open.service_ns);
            let mean = service.unwrap_or(&figures.latency_ns).mean().unwrap_or(0.0);
            figures.completed as f64 / seconds * mean / 1e9
        };
        kinds.iter().map(kind).sum()
    };
    let expected = held(&IoKind::DATA);
    // Time in a sync is time in flight to some and not to others.
    let with_syncs = held(&IoKind::ALL);
    let off = |expected: f64| (expected - in_flight).abs() / in_flight > 0.1;
    (completed >= FEW_IOS && off(expected) && off(with_syncs)).then(|| {
        format!(
            "I/Os a second times mean latency is {expected:.1} in flight, but {in_flight:.1} were \
             counted: the figures contradict each other (Little's law); don't rely on them, and \
             raise `runtime`"
        )
    })
}

fn size_and_word(share: f64, up: &'static str, down: &'static str) -> (f64, &'static str) {
    (share.abs() * 100.0, if share > 0.0 { up } else { down })
}

fn mean(values: &[f64]) -> f64 {
    if values.is_empty() { 0.0 } else { values.iter().sum::<f64>() / values.len() as f64 }
}

fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    match (sorted.get(sorted.len() / 2), sorted.get(sorted.len().saturating_sub(1) / 2)) {
        (Some(a), Some(b)) => f64::midpoint(*a, *b),
        _ => 0.0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::judge::build::workload;
    use crate::plan::{Rw, Sync};
    use crate::record::sample::{case, even_series, fault, reads, record, steady};
    use crate::units::{Bytes, Percent};

    /// The warnings about a case with these rounds of this work.
    fn of(workload: &Workload, rounds: Vec<Measurement>) -> Vec<String> {
        let record = record(vec![case("lrs/read", rounds)]);
        warnings(&record, &record.cases[0], workload)
    }

    fn told(round: Measurement) -> Vec<String> {
        of(&workload(), vec![round])
    }

    /// The one warning about this round.
    fn only(round: Measurement) -> String {
        let mut all = told(round);
        assert_eq!(all.len(), 1, "{all:?}");
        all.remove(0)
    }

    /// A sound second of 10,000 reads with these counts in its ten intervals.
    fn paced(counts: [u64; 10]) -> Measurement {
        let mut round = steady(10_000);
        round.series.completed = counts.to_vec();
        round
    }

    #[test]
    fn a_sound_case_has_no_warning() {
        assert_eq!(told(steady(10_000)), [""; 0]);
        assert_eq!(told(steady(100)), [""; 0]);
        assert_eq!(of(&workload(), Vec::new()), [""; 0], "nothing was run");
    }

    #[test]
    fn a_depth_that_was_not_reached() {
        let at = |latency: u64| {
            let mut round = steady(10_000);
            round.queue_depth_achieved = latency as f64 / 100_000.0;
            round.kinds.read.latency_ns = reads((0..10_000).map(|_| latency)).latency(None);
            of(&Workload { queue_depth: 8, workers: 4, ..workload() }, vec![round])
        };
        assert_eq!(at(2_880_000), [""; 0]);
        let told = at(2_000_000);
        assert!(told[0].starts_with("20.0 I/Os were in flight on average where 32 were"));
        assert_eq!(told.len(), 1, "{told:?}");
    }

    #[test]
    fn what_the_kernel_and_the_clock_did() {
        let mut round = steady(10_000);
        round.short_transfers = 3;
        assert!(only(round).starts_with("the kernel cut 3 transfers short"));
        let mut round = steady(10_000);
        round.clock_anomalies = 2;
        assert!(only(round).starts_with("the clock went backwards over 2 I/Os"));
    }

    #[test]
    fn few_ios_say_little() {
        assert!(only(steady(99)).starts_with("99 I/Os in all are few"));
        let mut broken = steady(0);
        broken.faults = vec![fault(5, 1)];
        assert_eq!(told(broken), [""; 0], "that they failed is said elsewhere");
    }

    #[test]
    fn a_first_interval_unlike_the_rest() {
        let slow = only(paced([600, 1000, 1000, 1000, 1000, 1000, 1000, 1000, 1000, 1000]));
        assert!(slow.starts_with("the first moments were 40 % below the rest"), "{slow}");
        let fast = only(paced([1500, 1000, 1000, 1000, 1000, 1000, 1000, 1000, 1000, 1000]));
        assert!(fast.starts_with("the first moments were 50 % above the rest"), "{fast}");
        let near = paced([750, 1000, 1000, 1000, 1000, 1000, 1000, 1000, 1000, 1000]);
        assert_eq!(told(near), [""; 0]);
        let few = paced([3, 9, 10, 12, 11, 8, 10, 9, 11, 10]);
        assert_eq!(told(few), [""; 0], "chance alone does this to ten I/Os");
        let odd = paced([600, 1000, 1000, 1000, 1000, 1000, 1000, 1000, 1000, 1000]);
        let once = of(&workload(), vec![odd, steady(10_000)]);
        assert_eq!(once, [""; 0], "once in two rounds is chance");
    }

    #[test]
    fn a_speed_that_still_drifts() {
        let fall = only(paced([1200, 1180, 1150, 1100, 1060, 1000, 940, 900, 850, 820]));
        assert!(fall.contains("still falling at the end, by 20 %"), "{fall}");
        let rise = only(paced([820, 850, 900, 940, 1000, 1060, 1100, 1150, 1180, 1200]));
        assert!(rise.contains("still rising at the end"), "{rise}");
        let waves = paced([1050, 950, 1050, 950, 1050, 950, 1050, 950, 1050, 950]);
        assert_eq!(told(waves), [""; 0]);
    }

    #[test]
    fn an_unfinished_last_interval_is_no_drift() {
        let mut round = steady(10_000);
        round.series = even_series(10_000);
        round.series.completed.push(1);
        round.series.bytes.push(4096);
        round.series.window_ns = Nanos(1_000_100_000);
        assert_eq!(told(round), [""; 0]);
    }

    #[test]
    fn a_busy_processor() {
        let mut round = steady(10_000);
        round.cpu = round.cpu.map(|mut cpu| {
            cpu.user_ns = 800_000_000;
            cpu
        });
        assert!(only(round.clone()).starts_with("the workers used 100 % of a processor each"));
        round.workers.push(round.workers[0].clone());
        assert_eq!(told(round), [""; 0], "shared by two workers");
    }

    #[test]
    fn what_is_near_the_engines_own_limit() {
        let mut record = record(vec![case("lrs/read", vec![steady(10_000)])]);
        let mut told = |most| {
            record.cases[0].engine_iops_max = most;
            warnings(&record, &record.cases[0], &workload())
        };
        assert_eq!(told(None), [""; 0]);
        assert_eq!(told(Some(12_600.0)), [""; 0]);
        let limited = told(Some(12_400.0));
        assert_eq!(limited.len(), 1, "{limited:?}");
        assert!(limited[0].starts_with("limited by the tool or the CPU"), "{limited:?}");
        assert!(limited[0].contains("12.4k IOPS") && limited[0].contains("81 % of it"));
    }

    #[test]
    fn work_without_a_pace_is_not_held_to_one() {
        let round = || paced([5000, 1500, 1400, 900, 800, 300, 100, 0, 0, 0]);
        assert_eq!(told(round()).len(), 2, "work with a pace is");
        let writes = || Workload { rw: Rw::RandWrite, read_percent: Percent(0), ..workload() };
        for work in [
            Workload { fsync_at_end: true, ..writes() },
            Workload { limit: Limit::Amount(Bytes(1 << 20)), ..workload() },
            Workload { cache: Cache::Buffered, ..writes() },
        ] {
            assert_eq!(of(&work, vec![round()]), [""; 0], "{work:?}");
        }
        let synced = Workload { sync: Sync::Dsync, ..writes() };
        assert_eq!(of(&synced, vec![round()]).len(), 2, "direct writes do");
    }

    #[test]
    fn ios_that_return_late() {
        let late = |drain: u64| {
            let mut round = steady(10_000);
            round.drain_ns = Nanos(drain);
            round
        };
        assert_eq!(told(late(1_000_000_000)), [""; 0]);
        assert!(only(late(41_000_000_000)).starts_with("I/Os needed 41.0 s to return after the"));
        let mut long = late(2_000_000_000);
        long.duration_ns = Nanos(3_000_000_000);
        assert_eq!(slow_drain(&[&long]), None, "less than the window");
        let both = slow_drain(&[&late(0), &late(3_000_000_000)]).unwrap();
        assert!(both.starts_with("I/Os needed 3.00 s to return"), "{both}");
    }

    #[test]
    fn reads_that_a_cache_answered() {
        let device = |read_bytes| {
            let mut round = steady(10_000);
            round.device = round.device.map(|mut device| {
                device.read_bytes = read_bytes;
                device
            });
            round
        };
        let cached = only(device(4096 * 8000));
        let start = "the device under it saw 31.2 MiB of the 39.1 MiB read: a cache or a hole";
        assert!(cached.starts_with(start), "{cached}");
        assert_eq!(told(device(4096 * 9000)), [""; 0]);
        assert_eq!(told(device(4096 * 20_000)), [""; 0], "others may read as well");
        let buffered = Workload { cache: Cache::Buffered, ..workload() };
        assert_eq!(of(&buffered, vec![device(0)]), [""; 0], "a cache is what was asked for");
        let warm = |length| {
            let workload = Workload { warmup: Nanos(100_000_000), ..workload() };
            let mut round = device(0);
            round.duration_ns = Nanos(length);
            of(&workload, vec![round]).iter().any(|told| told.contains("under it saw 0 B"))
        };
        assert!(warm(1_000_000_000));
        assert!(!warm(999_999_999), "the books of so short a window are an estimate");
    }

    #[test]
    fn a_disk_in_main_memory() {
        let mut record = record(vec![case("lrs/read", vec![steady(10_000)])]);
        record.cases[0].disks = vec![record.disks[0].name.clone()];
        assert_eq!(warnings(&record, &record.cases[0], &workload()), [""; 0]);
        record.disks[0].filesystem = Some("tmpfs".to_owned());
        let told = warnings(&record, &record.cases[0], &workload());
        assert!(told.iter().any(|one| one.contains("lies in main memory (tmpfs)")), "{told:?}");
    }

    #[test]
    fn writes_that_the_device_never_saw() {
        let mut round = steady(10_000);
        std::mem::swap(&mut round.kinds.read, &mut round.kinds.write);
        let writes = Workload { rw: Rw::RandWrite, ..workload() };
        let told = of(&writes, vec![round]);
        let start = "the device under it saw 0 B of the 39.1 MiB written: a cache or a compression";
        assert!(told.len() == 1 && told[0].starts_with(start), "{told:?}");
    }

    #[test]
    fn figures_that_contradict_each_other() {
        let with_depth = |achieved| {
            let mut round = steady(10_000);
            round.queue_depth_achieved = achieved;
            round
        };
        assert_eq!(told(with_depth(1.05)), [""; 0]);
        assert!(only(with_depth(1.2)).starts_with("I/Os a second times mean latency is 1.0 in"));
        assert_eq!(told(with_depth(300.0)), [""; 0], "too few I/Os for that depth to tell");
    }
}
