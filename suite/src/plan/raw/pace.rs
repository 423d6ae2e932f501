//! Reads the keys that say when I/Os are begun.

use toml::de::DeValue;

use crate::diag::Diagnostic;
use crate::units::{Nanos, parse_bandwidth, parse_iops};

use super::super::pace::{Rate, ThinkTime};
use super::reader::{Reader, Value, in_order};

/// I/Os a second; more than any engine does, and less than one in a day says nothing.
const RATE_IOPS: std::ops::RangeInclusive<f64> = 1e-4..=1e9;
/// Bytes a second.
const RATE_BYTES: std::ops::RangeInclusive<f64> = 1.0..=1e13;
const BURST_MAX: u32 = 1_000_000_000;

impl Reader<'_> {
    /// `"5000 iops"` or `"100MB/s"`.
    pub(super) fn rate(&mut self, key: &str, value: &Value<'_>) -> Option<Rate> {
        const WHAT: &str = "a rate such as \"5000 iops\" or \"100MB/s\"";
        let DeValue::String(text) = value.get_ref() else {
            if let DeValue::Integer(number) = value.get_ref() {
                let message = format!("`{key}` needs a unit");
                self.error(
                    Diagnostic::new("plan::wrong-type", message, value.span(), "of what?")
                        .note(format!("`{key}` takes {WHAT}"))
                        .fix("I/Os a second are", value.span(), format!("\"{number} iops\"")),
                );
                return None;
            }
            return self.wrong_type(key, value, WHAT);
        };
        let (rate, limits) = if text.ends_with("/s") {
            (parse_bandwidth(text).map(Rate::Bandwidth), RATE_BYTES)
        } else {
            (parse_iops(text).map(Rate::Iops), RATE_IOPS)
        };
        let rate = rate.map_err(|error| self.unit_error(value.span(), error)).ok()?;
        let (Rate::Iops(number) | Rate::Bandwidth(number)) = rate;
        if limits.contains(&number) {
            return Some(rate);
        }
        let message = format!("`{key}` can't be {text}");
        let (least, most) = match rate {
            Rate::Iops(_) => ("0.0001 iops", "1000000000 iops"),
            Rate::Bandwidth(_) => ("1B/s", "10TB/s"),
        };
        let label = format!("from {least} to {most}");
        self.error(Diagnostic::new("plan::out-of-range", message, value.span(), label));
        None
    }

    /// A pause, or a table with the pause and how many I/Os come before it.
    pub(super) fn think_time(&mut self, key: &str, value: &Value<'_>) -> Option<ThinkTime> {
        let pauses = Nanos(1_000)..=Nanos::MAX;
        let DeValue::Table(table) = value.get_ref() else {
            return Some(ThinkTime { pause: self.time(key, value, pauses)?, after: 1 });
        };
        let (mut pause, mut after) = (None, Some(1));
        for (part, value) in in_order(table) {
            match part.name {
                "pause" => pause = self.time(part.name, value, pauses.clone()),
                "after" => after = self.integer32(part.name, value, 1..=BURST_MAX),
                _ => {
                    self.unknown_key(&part, "`think_time`", &["pause", "after"]);
                    return None;
                }
            }
        }
        if !table.keys().any(|part| part.get_ref() == "pause") {
            self.missing_key("pause", "`think_time`", value.span(), "pause = \"1ms\"");
        }
        Some(ThinkTime { pause: pause?, after: after? })
    }
}
