//! The checked expectations: a condition on one metric of one case each.
//!
//! Part of the [`Plan`](super::Plan), and made with it by [`check`](super::check()) alone.

use std::fmt;

use super::model::{Case, CaseId};
use crate::measure::IoKind;
use crate::units::{Percentile, Unit};

/// One condition on one case.
#[derive(Debug, Clone, PartialEq)]
pub struct Assertion {
    /// Index into [`Plan::cases`](super::Plan::cases).
    pub case: usize,
    /// The stream of it that is looked at; `None` for the whole.
    pub stream: Option<String>,
    /// The condition as written.
    pub text: String,
    /// The condition.
    pub condition: Condition,
    /// Why it is expected, in the author's words.
    pub why: Option<String>,
    /// Whether it can fail the run.
    pub level: Level,
    /// Line of the condition in the plan, from 1.
    pub line: usize,
}

impl Assertion {
    /// The condition as written, behind the name of the stream that it is on, if it is on one.
    #[must_use]
    pub fn with_stream(&self) -> String {
        let stream = self.stream.as_ref().map_or(String::new(), |stream| format!("{stream}: "));
        stream + &self.text
    }

    /// Streams, which stand behind the whole cases while a plan is checked, become parts of those.
    pub(super) fn of_streams(&mut self, whole: usize, all: &[Case]) {
        let part = |index: usize| {
            let id = &all[index].id;
            let of_whole = CaseId { stream: None, ..id.clone() };
            let case = all[..whole].iter().position(|case| case.id == of_whole)?;
            Some((case, id.stream.clone()?))
        };
        if let Some((case, stream)) = part(self.case) {
            (self.case, self.stream) = (case, Some(stream));
        }
        if let Test::Times(_, _, against) | Test::Within(_, against) = &mut self.condition.test
            && let Against::Case(index, text) = against
            && let Some((case, stream)) = part(*index)
        {
            *against = Against::Stream(case, stream, std::mem::take(text));
        }
    }
}

/// Whether a condition can fail the run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Level {
    /// It can.
    Gate,
    /// It is reported alone.
    Warn,
}

/// A condition on one metric.
#[derive(Debug, Clone, PartialEq)]
pub struct Condition {
    /// What is looked at.
    pub metric: Metric,
    /// What it has to be.
    pub test: Test,
}

/// A figure of a case.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Metric {
    /// One kind of I/O, or `None` for all of them.
    pub kind: Option<IoKind>,
    /// Which figure.
    pub measure: Measure,
}

/// Which figure of a case.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "the words of the plan language")]
pub enum Measure {
    Iops,
    Bandwidth,
    LatencyMin,
    LatencyMean,
    LatencyMax,
    LatencyStddev,
    LatencyPercentile(Percentile),
    Errors,
    VerifyErrors,
    CpuUser,
    CpuSystem,
    CpuPerIo,
    DeviceUtilization,
}

impl Measure {
    /// The unit in which its value is kept.
    #[must_use]
    pub fn unit(self) -> Unit {
        match self {
            Self::Iops => Unit::Iops,
            Self::Bandwidth => Unit::BytesPerSecond,
            Self::LatencyMin
            | Self::LatencyMean
            | Self::LatencyMax
            | Self::LatencyStddev
            | Self::LatencyPercentile(_)
            | Self::CpuPerIo => Unit::Nanoseconds,
            Self::Errors | Self::VerifyErrors => Unit::Count,
            Self::CpuUser | Self::CpuSystem | Self::DeviceUtilization => Unit::Percent,
        }
    }

    /// Whether more of it is better; `None` where neither is.
    #[must_use]
    pub fn higher_is_better(self) -> Option<bool> {
        match self {
            Self::Iops | Self::Bandwidth => Some(true),
            Self::DeviceUtilization => None,
            _ => Some(false),
        }
    }
}

impl fmt::Display for Measure {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Self::Iops => "iops",
            Self::Bandwidth => "bandwidth",
            Self::LatencyMin => "latency.min",
            Self::LatencyMean => "latency.mean",
            Self::LatencyMax => "latency.max",
            Self::LatencyStddev => "latency.stddev",
            Self::LatencyPercentile(percentile) => return write!(out, "latency.{percentile}"),
            Self::Errors => "errors",
            Self::VerifyErrors => "verify_errors",
            Self::CpuUser => "cpu.user",
            Self::CpuSystem => "cpu.system",
            Self::CpuPerIo => "cpu_per_io",
            Self::DeviceUtilization => "device.utilization",
        })
    }
}

impl fmt::Display for Metric {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.kind {
            Some(kind) => write!(out, "{}.{}", kind.word(), self.measure),
            None => self.measure.fmt(out),
        }
    }
}

/// How two values are compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "the five signs")]
pub enum Comparison {
    Less,
    LessOrEqual,
    Equal,
    GreaterOrEqual,
    Greater,
}

impl fmt::Display for Comparison {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Self::Less => "<",
            Self::LessOrEqual => "<=",
            Self::Equal => "=",
            Self::GreaterOrEqual => ">=",
            Self::Greater => ">",
        })
    }
}

impl Comparison {
    /// Whether `left` compares so with `right`. Never true of a value that is not a number.
    #[must_use]
    #[expect(clippy::float_cmp, reason = "`=` in a plan is for counts, which are exact")]
    pub fn holds(self, left: f64, right: f64) -> bool {
        match self {
            Self::Less => left < right,
            Self::LessOrEqual => left <= right,
            Self::Equal => left == right,
            Self::GreaterOrEqual => left >= right,
            Self::Greater => left > right,
        }
    }
}

/// What a metric has to be. Constants are in the metric's own [`Unit`].
#[derive(Debug, Clone, PartialEq)]
pub enum Test {
    /// `metric cmp quantity`.
    Constant(Comparison, f64),
    /// `metric between low and high`, both included.
    Between(f64, f64),
    /// `metric cmp factor x reference`; `97% of` is a factor of 0.97.
    Times(Comparison, f64, Against),
    /// `metric within N% of reference`; here as a share, 0.05 for 5 %.
    Within(f64, Against),
}

impl Test {
    /// Whether it compares with an earlier record.
    #[must_use]
    pub fn needs_baseline(&self) -> bool {
        matches!(self, Self::Times(_, _, Against::Baseline) | Self::Within(_, Against::Baseline))
    }

    /// The case that it compares with, as an index into [`Plan::cases`](super::Plan::cases).
    #[must_use]
    pub fn other_case(&self) -> Option<usize> {
        self.other_part().map(|(case, _)| case)
    }

    /// That case, and the stream of it that is compared with, if it is one.
    #[must_use]
    pub fn other_part(&self) -> Option<(usize, Option<&str>)> {
        match self {
            Self::Times(_, _, Against::Case(other, _))
            | Self::Within(_, Against::Case(other, _)) => Some((*other, None)),
            Self::Times(_, _, Against::Stream(other, stream, _))
            | Self::Within(_, Against::Stream(other, stream, _)) => Some((*other, Some(stream))),
            _ => None,
        }
    }
}

/// What a relative condition compares with.
#[derive(Debug, Clone, PartialEq)]
pub enum Against {
    /// Another case of this plan: index into [`Plan::cases`](super::Plan::cases), and the reference
    /// as written.
    Case(usize, String),
    /// A stream of a case of this plan: index of the case, name of the stream, and the reference as
    /// written.
    Stream(usize, String, String),
    /// The same case in the record given by `--baseline`.
    Baseline,
}
