//! The value of a metric in a measurement, and what stands in the way of one.

use crate::measure::{CpuUse, IoKind, Measurement};
use crate::plan::{Measure, Metric};
use crate::record::CaseRecord;
use crate::units::Percentile;

/// Why there is no value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Missing {
    /// Too few samples for a percentile: other rounds may have the rest.
    TooFew(String),
    /// No data at all.
    Absent(String),
}

impl Missing {
    /// The reason, as half a sentence.
    pub(super) fn reason(&self) -> &str {
        match self {
            Self::TooFew(reason) | Self::Absent(reason) => reason,
        }
    }
}

/// Whether a percentile is refused where the samples are too few to quote it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Samples {
    /// As many as the percentile needs.
    Enough,
    /// Any.
    Any,
}

/// The metric's value, in the unit of its measure. Always finite.
pub(super) fn value(
    metric: Metric,
    measurement: &Measurement,
    samples: Samples,
) -> Result<f64, Missing> {
    let absent = |reason: &str| Missing::Absent(reason.to_owned());
    let Metric { kind, measure } = metric;
    let completed = measurement.completed(kind);
    if let (Measure::Errors, errors @ 1..) = (measure, measurement.errors(kind)) {
        return Ok(errors as f64);
    }
    if let (Measure::VerifyErrors, Some(verified)) = (measure, &measurement.verified)
        && verified.error_count() > 0
    {
        return Ok(verified.error_count() as f64);
    }
    if measurement.duration_ns.0 == 0 {
        return Err(absent("the measured window has no length"));
    }
    if completed == 0 {
        return Err(Missing::Absent(format!("no {} completed", noun(kind))));
    }
    let seconds = measurement.duration_ns.as_secs();
    let cpu = || measurement.cpu.ok_or_else(|| absent("there is no processor time in this run"));
    let share = |used_ns: u64| used_ns as f64 / measurement.duration_ns.0 as f64 * 100.0;
    let figure = match measure {
        Measure::Iops => completed as f64 / seconds,
        Measure::Bandwidth => match measurement.bytes(kind) {
            0 => return Err(absent("no bytes were moved")),
            bytes => bytes as f64 / seconds,
        },
        Measure::Errors => 0.0,
        Measure::VerifyErrors => match &measurement.verified {
            Some(verified) if verified.checked > 0 => verified.error_count() as f64,
            _ => return Err(absent("nothing was verified")),
        },
        Measure::CpuUser => share(cpu()?.user_ns),
        Measure::CpuSystem => share(cpu()?.system_ns),
        Measure::CpuPerIo => {
            let CpuUse { user_ns, system_ns } = cpu()?;
            (user_ns as f64 + system_ns as f64) / completed as f64
        }
        Measure::DeviceUtilization => {
            let device = measurement.device;
            device
                .ok_or_else(|| absent("the kernel keeps no book for this disk"))?
                .utilization_percent
        }
        Measure::LatencyMin
        | Measure::LatencyMean
        | Measure::LatencyMax
        | Measure::LatencyStddev
        | Measure::LatencyPercentile(_) => latency(metric, measurement, samples)?,
    };
    if figure.is_finite() { Ok(figure) } else { Err(absent("the figure is not a number")) }
}

fn latency(metric: Metric, measurement: &Measurement, samples: Samples) -> Result<f64, Missing> {
    let histogram = measurement.latency(metric.kind);
    let figure = match metric.measure {
        Measure::LatencyMin => histogram.min().map(|min| min as f64),
        Measure::LatencyMax => histogram.max().map(|max| max as f64),
        Measure::LatencyStddev => histogram.stddev(),
        Measure::LatencyPercentile(percentile) if samples == Samples::Any => {
            histogram.percentile(percentile).map(|value| value as f64)
        }
        Measure::LatencyPercentile(percentile) if histogram.count() > 0 => {
            let quoted = histogram.quotable_percentile(percentile);
            let quoted = quoted.ok_or_else(|| too_few(histogram.count(), percentile))?;
            Some(quoted as f64)
        }
        _ => histogram.mean(),
    };
    figure.ok_or_else(|| Missing::Absent(format!("there is no latency of a {}", noun(metric.kind))))
}

fn too_few(count: u64, percentile: Percentile) -> Missing {
    let needed = percentile.samples_needed();
    Missing::TooFew(format!(
        "insufficient samples: {count} of the {needed} that {percentile} needs"
    ))
}

fn noun(kind: Option<IoKind>) -> &'static str {
    kind.map_or("I/O", IoKind::word)
}

/// Why the figures of a case can't be trusted with a pass, as half a sentence: failed I/Os, rounds
/// that could not be measured, no rounds. `None` of a sound case.
pub(super) fn trouble(case: &CaseRecord) -> Option<String> {
    if case.rounds.is_empty() {
        return Some("it was not measured".to_owned());
    }
    let troubles = case.troubles();
    (!troubles.is_empty()).then(|| troubles.join("; "))
}

/// A metric in all of a case's rounds.
pub(super) struct Figures {
    /// Of all measured rounds together.
    pub(super) whole: Result<f64, Missing>,
    /// Of each measured round, by its number. A percentile may rest on fewer samples here than are
    /// needed to quote it: the slowest rounds have the fewest, and they have their say.
    pub(super) rounds: Vec<(u32, Result<f64, Missing>)>,
}

impl Figures {
    /// The metric in those rounds of the case whose numbers `wanted` wants.
    pub(super) fn of(metric: Metric, case: &CaseRecord, wanted: impl Fn(u32) -> bool) -> Self {
        let measured: Vec<_> = case
            .rounds
            .iter()
            .filter(|round| wanted(round.round))
            .filter_map(|round| Some((round.round, round.measurement.as_ref()?)))
            .collect();
        let all: Vec<_> = measured.iter().map(|(_, measurement)| *measurement).collect();
        let none = || Missing::Absent("it was not measured".to_owned());
        let merged = Measurement::merged(&all).ok_or_else(none);
        let rounds = measured.into_iter();
        Self {
            whole: merged.and_then(|merged| value(metric, &merged, Samples::Enough)),
            rounds: rounds.map(|(round, one)| (round, value(metric, one, Samples::Any))).collect(),
        }
    }

    /// What a round lacks, as half a sentence.
    pub(super) fn gap(&self) -> Option<String> {
        self.rounds.iter().find_map(|(round, value)| match value {
            Err(Missing::Absent(reason)) => Some(format!("{reason} in round {round}")),
            _ => None,
        })
    }
}
