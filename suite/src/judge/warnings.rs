//! What a reader should know before believing the figures of a case, by those figures alone.
//!
//! Each warning says what to do about it. A tool that warns without need is not listened to: each
//! threshold leaves room for chance, and what a round shows has to show in most of them.

use crate::measure::{IoKind, Measurement};
use crate::record::CaseRecord;
use crate::units::{Unit, human};

/// Fewer I/Os than this in all rounds together say little.
const FEW_IOS: u64 = 100;

/// What one should know about the case, in sentences without a full stop; empty when all is well.
/// `in_flight` is how many I/Os all workers together were to keep in flight, where that is known.
#[must_use]
pub fn warnings(case: &CaseRecord, in_flight: Option<u64>) -> Vec<String> {
    let rounds = case.measured();
    let Some(merged) = case.merged() else { return Vec::new() };
    let direct = case.parameters.iter().any(|(key, value)| key == "cache" && value == "direct");
    let all = [
        in_flight.and_then(|in_flight| depth_not_reached(&merged, in_flight)),
        short_transfers(&merged),
        clock_anomalies(&merged),
        few_ios(&merged),
        first_interval(&rounds),
        drift(&rounds),
        cpu_bound(&merged),
        direct.then(|| not_at_the_device(&merged)).flatten(),
        little(&merged),
    ];
    all.into_iter().flatten().collect()
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
    (2 * off.len() > rounds.len()).then(|| {
        let (percent, word) = size_and_word(median(&off), "above", "below");
        format!(
            "the first moments were {percent:.0} % {word} the rest and count into the figures; \
             raise `warmup`"
        )
    })
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
    let (up, down): (Vec<f64>, Vec<f64>) = drifts.iter().partition(|drift| **drift > 0.0);
    let most = if up.len() > down.len() { up } else { down };
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

/// Whether direct I/O moved far fewer bytes at the device than were asked for.
fn not_at_the_device(merged: &Measurement) -> Option<String> {
    let device = merged.device?;
    let (read, written) = (merged.bytes(Some(IoKind::Read)), merged.bytes(Some(IoKind::Write)));
    if device.read_bytes as f64 >= 0.9 * read as f64 {
        return (0.9 * written as f64 > device.written_bytes as f64).then(|| {
            format!(
                "the writes did not reach the device: it wrote {} of the {} asked for; a cache or \
                 a compressing file system answered; test on another file system or the raw device",
                bytes(device.written_bytes),
                bytes(written)
            )
        });
    }
    Some(format!(
        "the reads did not reach the device: it read {} of the {} asked for; a cache answered; \
         test on a file system that does direct I/O, or with a region larger than the cache",
        bytes(device.read_bytes),
        bytes(read)
    ))
}

/// Little's law: what is in flight is what arrives times how long it stays. Where it doesn't hold,
/// one of the three figures is wrong.
fn little(merged: &Measurement) -> Option<String> {
    let seconds = merged.duration_ns.as_secs();
    let in_flight = merged.queue_depth_achieved;
    let completed = merged.completed(None);
    // At the ends of the window up to the whole queue is in one count and not in another.
    if seconds <= 0.0 || in_flight <= 0.0 || (completed as f64) < 50.0 * in_flight {
        return None;
    }
    let held = |kinds: &[IoKind]| -> f64 {
        let kind = |kind: &IoKind| {
            let figures = &merged.kinds[*kind];
            figures.completed as f64 / seconds * figures.latency_ns.mean().unwrap_or(0.0) / 1e9
        };
        kinds.iter().map(kind).sum()
    };
    let expected = held(&[IoKind::Read, IoKind::Write]);
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

fn bytes(count: u64) -> String {
    let text = human(count as f64, Unit::BytesPerSecond);
    text.trim_end_matches("/s").to_owned()
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
