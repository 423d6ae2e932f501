//! Quantities: sizes, times, rates, percents. One parser and one printer for each.
//!
//! A quantity has one spelling: the number, then the unit, with no space between them (`4KiB`,
//! `1.5s`, `200MB/s`); a count of I/Os a second may be followed by the word (`5000 iops`).
//! Values are exact: a decimal that is not a whole number of bytes or nanoseconds is refused,
//! and `parse(print(x)) == x` for every value. A bare `K` or `M` in a size is refused, since
//! tools disagree about what it means.
//!
//! This module does not know what a quantity is for.

mod text;
mod words;

use std::fmt;

use serde::{Deserialize, Serialize};

pub use text::{acts, escaped, escaped_lines};
pub use words::{counted, human, human_bytes, human_short};

/// Why a text is not a quantity, and what to write in its place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnitError {
    /// What is wrong, as a sentence without a full stop.
    pub message: String,
    /// A text that would be right in its place, where one can be guessed.
    pub instead: Option<String>,
}

impl fmt::Display for UnitError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.message)
    }
}

impl std::error::Error for UnitError {}

/// An amount of data in bytes.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Bytes(pub u64);

/// A span of time in nanoseconds.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Nanos(pub u64);

/// A whole percentage, 0 to 100.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Percent(pub u8);

/// A percentile rank in millionths: `p99.9` is 999,000. Greater than 0, at most 1,000,000.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Percentile(pub u32);

/// What a figure counts, so that it can be printed as a person would write it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Unit {
    /// I/Os a second.
    Iops,
    /// Bytes a second.
    BytesPerSecond,
    /// Nanoseconds.
    Nanoseconds,
    /// A number of things.
    Count,
    /// Hundredths.
    Percent,
    /// One value divided by another.
    Ratio,
}

/// Size units: name and factor. Binary ones first, largest first: the printer takes the first
/// that divides the value.
const SIZE_UNITS: [(&str, u64); 9] = [
    ("TiB", 1 << 40),
    ("GiB", 1 << 30),
    ("MiB", 1 << 20),
    ("KiB", 1 << 10),
    ("TB", 1_000_000_000_000),
    ("GB", 1_000_000_000),
    ("MB", 1_000_000),
    ("kB", 1_000),
    ("B", 1),
];

/// Time units, largest first.
const TIME_UNITS: [(&str, u64); 6] = [
    ("h", 3_600_000_000_000),
    ("m", 60_000_000_000),
    ("s", 1_000_000_000),
    ("ms", 1_000_000),
    ("us", 1_000),
    ("ns", 1),
];

impl Bytes {
    /// Reads a size such as `4KiB`, `1.6GiB`, `200MB` or `512B`.
    ///
    /// # Errors
    /// When the text is not a number with a unit of size, or not a whole number of bytes.
    pub fn parse(text: &str) -> Result<Self, UnitError> {
        let (number, unit) = split(text, "size", "4KiB")?;
        let factor = SIZE_UNITS
            .iter()
            .find(|(name, _)| *name == unit)
            .map(|(_, factor)| *factor)
            .ok_or_else(|| unknown_size_unit(number, unit))?;
        scaled(text, number, factor, "bytes").map(Self)
    }
}

impl fmt::Display for Bytes {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        print_exact(out, self.0, &SIZE_UNITS, "B")
    }
}

impl Nanos {
    /// The longest time a plan may ask for; also what keeps sums of times within 64 bits.
    pub const MAX: Self = Self(30 * 24 * 3_600_000_000_000);

    /// Reads a time such as `30s`, `500ms` or `1.5h`.
    ///
    /// # Errors
    /// When the text is not a number with a unit of time, or not a whole number of nanoseconds.
    pub fn parse(text: &str) -> Result<Self, UnitError> {
        let (number, unit) = split(text, "time", "30s")?;
        let factor = TIME_UNITS
            .iter()
            .find(|(name, _)| *name == unit)
            .map(|(_, factor)| *factor)
            .ok_or_else(|| unknown_time_unit(number, unit))?;
        scaled(text, number, factor, "nanoseconds").map(Self)
    }

    /// This time in seconds.
    #[must_use]
    pub fn as_secs(self) -> f64 {
        self.0 as f64 / 1e9
    }
}

impl From<std::time::Duration> for Nanos {
    fn from(duration: std::time::Duration) -> Self {
        Self(u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX))
    }
}

impl From<Nanos> for std::time::Duration {
    fn from(nanos: Nanos) -> Self {
        Self::from_nanos(nanos.0)
    }
}

impl fmt::Display for Nanos {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        print_exact(out, self.0, &TIME_UNITS, "s")
    }
}

impl Percent {
    /// Reads a whole percentage such as `25%`.
    ///
    /// # Errors
    /// When the text is not a whole number from 0 to 100 followed by `%`.
    pub fn parse(text: &str) -> Result<Self, UnitError> {
        let wrong = || UnitError {
            message: format!("`{text}` is not a whole percentage from 0% to 100%"),
            instead: text.parse::<u8>().ok().filter(|n| *n <= 100).map(|n| format!("{n}%")),
        };
        let digits = text.strip_suffix('%').ok_or_else(wrong)?;
        if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
            return Err(wrong());
        }
        match digits.parse() {
            Ok(value) if value <= 100 => Ok(Self(value)),
            _ => Err(wrong()),
        }
    }

    /// This share of a whole, rounded down.
    #[must_use]
    pub fn of(self, whole: u64) -> u64 {
        let share = u128::from(whole) * u128::from(self.0) / 100;
        u64::try_from(share).unwrap_or(u64::MAX)
    }
}

impl fmt::Display for Percent {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}%", self.0)
    }
}

impl Percentile {
    /// The whole in the unit of this type.
    pub const ONE: u32 = 1_000_000;

    /// Reads what stands behind the `p` of `p99.9`: above 0, at most 100, four decimals at most.
    ///
    /// # Errors
    /// When the text is not such a number.
    pub fn parse(text: &str) -> Result<Self, UnitError> {
        let wrong = || UnitError {
            message: format!(
                "`p{text}` is not a percentile: write p0.0001 to p100, with at most four decimals"
            ),
            instead: None,
        };
        if decimal(text).is_none() {
            return Err(wrong());
        }
        match scaled(text, text, 10_000, "ten-thousandths") {
            Ok(rank @ 1..=1_000_000) => Ok(Self(u32::try_from(rank).map_err(|_| wrong())?)),
            _ => Err(wrong()),
        }
    }

    /// The rank k of the nearest-rank definition (Hyndman and Fan, type 1) among `count` sorted
    /// samples: `max(1, ceil(p * count))`, in integers so that no rounding can move it.
    #[must_use]
    pub fn rank(self, count: u64) -> u64 {
        let product = u128::from(self.0) * u128::from(count);
        let rank = product.div_ceil(u128::from(Self::ONE));
        u64::try_from(rank).unwrap_or(u64::MAX).max(1)
    }

    /// How many samples a percentile needs before it may be quoted: the smallest `count` with
    /// `1 - p^count >= 0.975` and `1 - (1 - p)^count >= 0.975`, for which the distribution-free
    /// 95 % interval has an upper end and a lower one. 6 for p50, 368 for p99 and p1, 3,688 for
    /// p99.9.
    #[must_use]
    #[expect(clippy::cast_sign_loss, reason = "between 1 and 3,688,878")]
    pub fn samples_needed(self) -> u64 {
        if self.0 >= Self::ONE {
            return 1; // p100 is the maximum, which is what it is
        }
        let share = |millionths: u32| f64::from(millionths) / f64::from(Self::ONE);
        // The larger of the two shares needs the more samples.
        let larger = share(self.0.max(Self::ONE - self.0));
        (0.025_f64.ln() / larger.ln()).ceil().max(1.0) as u64
    }
}

impl fmt::Display for Percentile {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let whole = self.0 / 10_000;
        let fraction = format!("{:04}", self.0 % 10_000);
        match fraction.trim_end_matches('0') {
            "" => write!(out, "p{whole}"),
            digits => write!(out, "p{whole}.{digits}"),
        }
    }
}

/// Reads a plain count with an optional `k` or `M`: `5000`, `5k`, `1.2M`.
///
/// # Errors
/// When the text is anything else.
pub fn parse_count(text: &str) -> Result<f64, UnitError> {
    let (number, exponent) = match text.strip_suffix(['k', 'M']) {
        Some(number) if text.ends_with('k') => (number, 3),
        Some(number) => (number, 6),
        None => (text, 0),
    };
    // Read in one go: `1.005` times a thousand is a little less than 1005.
    let value = decimal(number).and_then(|_| format!("{number}e{exponent}").parse().ok());
    value.filter(|value: &f64| value.is_finite()).ok_or_else(|| UnitError {
        message: format!("`{text}` is not a number such as 5000, 5k or 1.2M"),
        instead: thousands(text),
    })
}

/// Reads I/Os a second: a count, with or without the word: `5000`, `5k`, `5000 iops`.
///
/// # Errors
/// When the text is anything else.
pub fn parse_iops(text: &str) -> Result<f64, UnitError> {
    parse_count(text.strip_suffix(" iops").unwrap_or(text)).map_err(|_| UnitError {
        message: format!("`{text}` is not a rate such as 5000, 5k or `5000 iops`"),
        instead: match text.strip_suffix("iops") {
            Some(number) => parse_count(number).is_ok().then(|| format!("{number} iops")),
            None => thousands(text),
        },
    })
}

/// `5k` for `5K`.
fn thousands(text: &str) -> Option<String> {
    let number = text.strip_suffix('K')?;
    decimal(number).map(|_| format!("{number}k"))
}

/// Reads a bandwidth: a size followed by `/s`, in bytes a second.
///
/// # Errors
/// When the text is anything else.
pub fn parse_bandwidth(text: &str) -> Result<f64, UnitError> {
    let Some(size) = text.strip_suffix("/s") else {
        return Err(UnitError {
            message: format!("`{text}` is not a bandwidth: write a size and `/s`, such as 200MB/s"),
            instead: Bytes::parse(text).ok().map(|_| format!("{text}/s")),
        });
    };
    let bytes = Bytes::parse(size).map_err(|error| UnitError {
        message: error.message,
        instead: error.instead.map(|size| format!("{size}/s")),
    })?;
    Ok(bytes.0 as f64)
}

/// Reads a percentage that may have decimals or be above 100: `97.5%`, in percent.
///
/// # Errors
/// When the text is anything else.
pub fn parse_percentage(text: &str) -> Result<f64, UnitError> {
    text.strip_suffix('%').and_then(decimal).ok_or_else(|| UnitError {
        message: format!("`{text}` is not a percentage such as 5% or 97.5%"),
        instead: decimal(text).map(|_| format!("{text}%")),
    })
}

/// Reads a plain decimal number: digits, and a point with digits behind it. Always finite.
#[must_use]
pub fn decimal(text: &str) -> Option<f64> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, "0"));
    let digits = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    let value = (digits(whole) && digits(fraction)).then(|| text.parse::<f64>().ok()).flatten();
    value.filter(|value| value.is_finite())
}

/// Splits `4KiB` into its number and its unit.
fn split<'t>(text: &'t str, what: &str, such_as: &str) -> Result<(&'t str, &'t str), UnitError> {
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    if decimal(number).is_none() {
        return Err(UnitError {
            message: format!(
                "`{text}` is not a {what}: write a number and a unit, such as {such_as}"
            ),
            instead: None,
        });
    }
    if unit.is_empty() {
        return Err(UnitError {
            message: format!("`{text}` has no unit: write a {what} such as {such_as}"),
            instead: match what {
                // Nobody who writes `64` means 64 bytes.
                "size" => (text.len() > 3).then(|| format!("{text}B")),
                _ => Some(format!("{text}s")),
            },
        });
    }
    if unit.starts_with(' ') {
        return Err(UnitError {
            message: format!("`{text}` has a space before its unit"),
            instead: Some(format!("{number}{}", unit.trim())),
        });
    }
    Ok((number, unit))
}

fn unknown_size_unit(number: &str, unit: &str) -> UnitError {
    let lower = unit.to_ascii_lowercase();
    if let "k" | "m" | "g" | "t" = lower.as_str() {
        let prefix = unit.to_ascii_uppercase();
        let decimal = if prefix == "K" { "k".to_owned() } else { prefix.clone() };
        return UnitError {
            message: format!(
                "`{number}{unit}` could be {number}{prefix}iB or {number}{decimal}B, and tools \
                 disagree which"
            ),
            instead: Some(format!("{number}{prefix}iB")),
        };
    }
    let near = SIZE_UNITS.iter().find(|(name, _)| {
        let name = name.to_ascii_lowercase();
        name == lower || name.trim_end_matches('b') == lower
    });
    UnitError {
        message: format!(
            "`{unit}` is not a unit of size: use B, KiB, MiB, GiB, TiB, or kB, MB, GB, TB"
        ),
        instead: near.map(|(name, _)| format!("{number}{name}")),
    }
}

fn unknown_time_unit(number: &str, unit: &str) -> UnitError {
    let instead = match unit.to_ascii_lowercase().as_str() {
        "sec" | "secs" | "second" | "seconds" => Some("s"),
        "min" | "mins" | "minute" | "minutes" => Some("m"),
        "hour" | "hours" | "hr" | "hrs" => Some("h"),
        "msec" | "msecs" | "millisecond" | "milliseconds" => Some("ms"),
        "usec" | "usecs" | "\u{b5}s" | "\u{3bc}s" => Some("us"),
        "nsec" | "nsecs" => Some("ns"),
        other => TIME_UNITS.iter().map(|(name, _)| *name).find(|name| *name == other),
    };
    UnitError {
        message: format!("`{unit}` is not a unit of time: use ns, us, ms, s, m or h"),
        instead: instead.map(|name| format!("{number}{name}")),
    }
}

/// `number * factor`, exactly. `text` is what the person wrote.
fn scaled(text: &str, number: &str, factor: u64, what: &str) -> Result<u64, UnitError> {
    let error = |message| UnitError { message, instead: None };
    let too_large = || error(format!("`{text}` is more than 2^63 {what}"));
    let not_whole = || error(format!("`{text}` is not a whole number of {what}"));
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let fraction = fraction.trim_end_matches('0');
    let whole: u128 = whole.parse().map_err(|_| too_large())?;
    // A fraction of a TiB comes out whole with up to 40 decimals; nobody writes more than 20, and
    // 20 keep the product in 128 bits.
    if fraction.len() > 20 {
        return Err(not_whole());
    }
    let digits: u128 =
        if fraction.is_empty() { 0 } else { fraction.parse().map_err(|_| not_whole())? };
    let scale = 10_u128.pow(u32::try_from(fraction.len()).unwrap_or(0));
    let part = digits * u128::from(factor);
    if !part.is_multiple_of(scale) {
        return Err(not_whole());
    }
    let product = whole.checked_mul(u128::from(factor));
    let value = product.and_then(|product| product.checked_add(part / scale));
    match value.and_then(|value| i64::try_from(value).ok()) {
        Some(value) => Ok(value.unsigned_abs()),
        None => Err(too_large()),
    }
}

fn print_exact(
    out: &mut fmt::Formatter<'_>,
    value: u64,
    units: &[(&str, u64)],
    zero: &str,
) -> fmt::Result {
    if value == 0 {
        return out.pad(&format!("0{zero}"));
    }
    let dividing = units.iter().find(|(_, factor)| value.is_multiple_of(*factor));
    let (name, factor) = dividing.copied().unwrap_or((zero, 1));
    out.pad(&format!("{}{name}", value / factor))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_quantity_has_one_spelling() {
        for (text, bytes) in [
            ("0B", 0),
            ("512B", 512),
            ("4KiB", 4096),
            ("4kB", 4000),
            ("1.5GiB", 3 << 29),
            ("2.5MB", 2_500_000),
            ("0.001kB", 1),
            ("4.0KiB", 4096),
            ("9223372036854775807B", (1 << 63) - 1),
        ] {
            assert_eq!(Bytes::parse(text), Ok(Bytes(bytes)), "{text}");
        }
        for (text, nanos) in [
            ("0s", 0),
            ("1ns", 1),
            ("1.5us", 1500),
            ("30s", 30_000_000_000),
            ("1h", 3_600_000_000_000),
        ] {
            assert_eq!(Nanos::parse(text), Ok(Nanos(nanos)), "{text}");
        }
    }

    #[test]
    fn what_is_no_quantity_is_refused_with_what_was_meant() {
        for (text, instead) in [
            ("4k", Some("4KiB")),
            ("4K", Some("4KiB")),
            ("4M", Some("4MiB")),
            ("4kb", Some("4kB")),
            ("4Kib", Some("4KiB")),
            ("4Ki", Some("4KiB")),
            ("4 KiB", Some("4KiB")),
            ("4096", Some("4096B")),
            ("64", None),
            ("", None),
            ("KiB", None),
            ("-4KiB", None),
            ("1.KiB", None),
            (".5KiB", None),
            ("1_000B", None),
            ("1e3B", None),
            ("0x10B", None),
            ("0.5B", None),
            ("9223372036854775808B", None),
            ("340282366920938463463374607431768211.9kB", None),
            ("99999999999999999999999999999999999999999B", None),
            ("1.000000000000000000000000000001TiB", None),
            ("\u{661}KiB", None),
        ] {
            let error = Bytes::parse(text).expect_err(text);
            assert_eq!(error.instead.as_deref(), instead, "{text}: {error}");
        }
        for (text, instead) in [
            ("30", Some("30s")),
            ("30sec", Some("30s")),
            ("30S", Some("30s")),
            ("30 s", Some("30s")),
            ("5min", Some("5m")),
            ("5\u{b5}s", Some("5us")),
            ("5d", None),
            ("1.5ns", None),
        ] {
            let error = Nanos::parse(text).expect_err(text);
            assert_eq!(error.instead.as_deref(), instead, "{text}: {error}");
        }
    }

    #[test]
    fn a_guess_is_a_quantity() {
        for text in ["4k", "4096", "4kb", "4Ki", "7 MiB", "4T", "1.5g"] {
            let instead = Bytes::parse(text).expect_err(text).instead.expect(text);
            assert!(Bytes::parse(&instead).is_ok(), "{text} {instead}");
        }
    }

    #[test]
    fn rates_counts_and_percentages() {
        assert_eq!(parse_iops("5000"), Ok(5000.0));
        assert_eq!(parse_iops("5k iops"), Ok(5000.0));
        assert_eq!(parse_count("1.2M"), Ok(1.2e6));
        assert_eq!(parse_count("1.005k"), Ok(1005.0));
        assert!(parse_count(&"9".repeat(309)).is_err(), "more than any number");
        assert_eq!(parse_bandwidth("1.5MB/s"), Ok(1.5e6));
        assert_eq!(parse_percentage("97.5%"), Ok(97.5));
        assert_eq!(parse_percentage("250%"), Ok(250.0));
        assert_eq!(Percent::parse("25%"), Ok(Percent(25)));
        let instead = |error: UnitError| error.instead.expect("a guess");
        assert_eq!(instead(parse_iops("5K").unwrap_err()), "5k");
        assert_eq!(instead(parse_iops("5kiops").unwrap_err()), "5k iops");
        assert_eq!(instead(parse_bandwidth("200MB").unwrap_err()), "200MB/s");
        assert_eq!(instead(parse_bandwidth("200M/s").unwrap_err()), "200MiB/s");
        assert_eq!(instead(parse_percentage("97").unwrap_err()), "97%");
        for text in ["", "k", "1e5", "nan", "inf", "-1", "+1", "1.", ".5", "5,000", "5 k"] {
            assert!(parse_count(text).is_err(), "{text}");
        }
        for text in ["101%", "2.5%", "-1%", "%", "+5%", "5 %"] {
            assert!(Percent::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn percentiles_are_read_exactly() {
        for (text, rank) in [
            ("50", 500_000),
            ("99", 990_000),
            ("99.9", 999_000),
            ("99.9999", 999_999),
            ("0.0001", 1),
            ("100", 1_000_000),
        ] {
            assert_eq!(Percentile::parse(text), Ok(Percentile(rank)), "{text}");
        }
        for text in
            ["", "0", "0.00001", "100.0001", "101", "99.", ".5", "-5", "9x", "99.99999", "max"]
        {
            assert!(Percentile::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn enough_samples_by_the_distribution_free_interval() {
        // From 1 - p^n >= 0.975 and 1 - (1 - p)^n >= 0.975.
        for (text, needed) in [
            ("0.0001", 3_688_878),
            ("0.1", 3_688),
            ("1", 368),
            ("25", 13),
            ("50", 6),
            ("75", 13),
            ("99", 368),
            ("99.9", 3_688),
            ("99.99", 36_887),
            ("99.999", 368_887),
            ("100", 1),
        ] {
            let percentile = Percentile::parse(text).expect(text);
            assert_eq!(percentile.samples_needed(), needed, "p{text}");
        }
    }

    #[test]
    fn nearest_rank_vectors() {
        let rank = |text: &str, count| Percentile::parse(text).expect(text).rank(count);
        assert_eq!(rank("50", 4), 2);
        assert_eq!(rank("99", 4), 4);
        assert_eq!(rank("99", 1000), 990);
        assert_eq!(rank("99.9", 1000), 999, "and not 1000, as in floating point");
        assert_eq!(rank("0.0001", 10), 1);
        assert_eq!(rank("100", u64::MAX), u64::MAX);
        assert_eq!(rank("50", 0), 1);
    }

    proptest! {
        #[test]
        fn what_is_printed_is_read_back(value in 0..=i64::MAX as u64) {
            for value in [value, value >> 20, value >> 43, value >> 33 << 20] {
                prop_assert_eq!(Bytes::parse(&Bytes(value).to_string()), Ok(Bytes(value)));
                prop_assert_eq!(Nanos::parse(&Nanos(value).to_string()), Ok(Nanos(value)));
            }
        }

        #[test]
        fn percentiles_are_read_back(rank in 1..=Percentile::ONE, share in 0..=100_u8) {
            let text = Percentile(rank).to_string();
            prop_assert_eq!(Percentile::parse(&text[1..]), Ok(Percentile(rank)));
            prop_assert_eq!(Percent::parse(&Percent(share).to_string()), Ok(Percent(share)));
        }

        #[test]
        fn reading_never_panics(text in "\\PC{0,40}", number in "[0-9]{0,50}[.]?[0-9]{0,50}") {
            for unit in ["", "B", "kB", "TiB", "ns", "h", "%", "/s", " iops", "k"] {
                for text in [format!("{text}{unit}"), format!("{number}{unit}")] {
                    let _ = (Bytes::parse(&text), Nanos::parse(&text), Percent::parse(&text));
                    let _ = (Percentile::parse(&text), parse_iops(&text), parse_count(&text));
                    let _ = (parse_bandwidth(&text), parse_percentage(&text), decimal(&text));
                }
            }
        }

        #[test]
        fn the_rank_is_the_smallest_that_reaches_its_share(
            rank in 1..=Percentile::ONE,
            count in 1..=u64::MAX,
        ) {
            // k is the smallest with k / count >= p, in whole numbers.
            let k = u128::from(Percentile(rank).rank(count));
            let (p, one) = (u128::from(rank), u128::from(Percentile::ONE));
            prop_assert!(k >= 1 && k <= u128::from(count));
            prop_assert!(k * one >= p * u128::from(count));
            prop_assert!(k == 1 || (k - 1) * one < p * u128::from(count));
        }

        #[test]
        fn a_share_is_rounded_down(share in 0..=100_u8, whole: u64) {
            let of = Percent(share).of(whole);
            prop_assert!(u128::from(of) * 100 <= u128::from(share) * u128::from(whole));
            prop_assert!((u128::from(of) + 1) * 100 > u128::from(share) * u128::from(whole));
        }
    }
}
