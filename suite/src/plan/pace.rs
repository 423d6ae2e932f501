//! When the I/Os of a workload are begun.

use std::fmt;

use crate::units::{Bytes, Nanos};

/// When a workload's I/Os are begun.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Pace {
    /// As soon as one before is done: a closed loop.
    Closed,
    /// At times that a rate sets: an open loop. Latency counts from those.
    Open {
        /// How much, all workers together.
        rate: Rate,
        /// How the times lie.
        arrivals: Arrivals,
        /// What is later than this is dropped and counted; `None` to drop nothing.
        max_lateness: Option<Nanos>,
    },
    /// With pauses.
    Think(ThinkTime),
}

/// How much is due a second; above 0.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Rate {
    /// I/Os.
    Iops(f64),
    /// Bytes.
    Bandwidth(f64),
}

impl fmt::Display for Rate {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Iops(rate) => write!(out, "{rate}iops"),
            Self::Bandwidth(rate) if rate.fract() == 0.0 && *rate < 1e18 => {
                #[expect(clippy::cast_sign_loss, reason = "a rate is above 0")]
                let bytes = Bytes(*rate as u64);
                write!(out, "{bytes}/s")
            }
            Self::Bandwidth(rate) => write!(out, "{rate}B/s"),
        }
    }
}

/// How the times lie at which I/Os are due.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Arrivals {
    /// At equal distances.
    Even,
    /// As independent events: with exponentially distributed gaps.
    Poisson,
}

/// A pause of a worker after each burst of its I/Os, once all of them are done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ThinkTime {
    /// How long it is.
    pub pause: Nanos,
    /// I/Os of a burst; above 0.
    pub after: u32,
}
