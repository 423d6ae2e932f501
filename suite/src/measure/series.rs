//! Completions over time: how many I/Os and bytes in each interval of the measured window.

use serde::{Deserialize, Serialize};

use crate::units::Nanos;

/// Completions in equal intervals from the start of the measured window. A last interval that
/// the window does not fill is counted as it is; `window_ns` says how long the window was.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Series {
    /// Length of one interval.
    pub interval_ns: Nanos,
    /// Length of the whole window.
    pub window_ns: Nanos,
    /// Reads and writes completed in each interval.
    pub completed: Vec<u64>,
    /// Bytes that they moved.
    pub bytes: Vec<u64>,
}

impl Series {
    /// Length of each interval in seconds; the last one may be cut short by the window's end.
    pub fn lengths_s(&self) -> impl Iterator<Item = f64> + '_ {
        let interval = self.interval_ns.as_secs();
        let window = self.window_ns.as_secs();
        (0..self.completed.len()).map(move |i| (window - i as f64 * interval).clamp(0.0, interval))
    }
}
