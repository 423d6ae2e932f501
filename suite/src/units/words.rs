//! Quantities for the eye: rounded, and with words. Nothing is ever compared through them.

use super::{Bytes, Unit};

/// A figure as a person would say it, three digits long: `84.0k`, `1.31 GiB/s`, `2.94 ms`.
/// For the eye alone; nothing is ever compared through it.
#[must_use]
pub fn human(value: f64, unit: Unit) -> String {
    const IOPS: [(&str, f64); 3] = [("M", 1e6), ("k", 1e3), ("", 1.0)];
    const TIMES: [(&str, f64); 4] = [(" s", 1e9), (" ms", 1e6), (" us", 1e3), (" ns", 1.0)];
    const BANDWIDTHS: [(&str, f64); 5] = [
        (" TiB/s", (1_u64 << 40) as f64),
        (" GiB/s", (1_u64 << 30) as f64),
        (" MiB/s", (1_u64 << 20) as f64),
        (" KiB/s", (1_u64 << 10) as f64),
        (" B/s", 1.0),
    ];
    match unit {
        Unit::Iops => scaled_human(value, &IOPS) + " IOPS",
        Unit::BytesPerSecond => scaled_human(value, &BANDWIDTHS),
        Unit::Nanoseconds => scaled_human(value, &TIMES),
        Unit::Count if value.fract() == 0.0 => format!("{value:.0}"),
        Unit::Count => three_digits(value),
        Unit::Percent => three_digits(value) + " %",
        Unit::Ratio => three_digits(value) + " x",
    }
}

/// A figure that somebody set, without digits that say nothing: `4 ms`, `1.5 GiB/s`.
#[must_use]
pub fn human_short(value: f64, unit: Unit) -> String {
    let text = human(value, unit);
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, rest) = text.split_at(end);
    if number.contains('.') {
        return format!("{}{rest}", number.trim_end_matches('0').trim_end_matches('.'));
    }
    text
}

/// A size as a person would say it: `71.2 GiB`, `2 GiB`.
#[must_use]
pub fn human_bytes(bytes: Bytes) -> String {
    human_short(bytes.0 as f64, Unit::BytesPerSecond).trim_end_matches("/s").to_owned()
}

/// `1 round`, `2 rounds`.
#[must_use]
pub fn counted(count: usize, noun: &str) -> String {
    format!("{count} {noun}{}", if count == 1 { "" } else { "s" })
}

fn scaled_human(value: f64, units: &[(&str, f64)]) -> String {
    // 999.5 of a unit would round to 1000 of it: the next unit takes over there.
    let fits = |(_, factor): &&(&str, f64)| value.abs() >= 0.9995 * factor;
    let (name, factor) = units.iter().find(fits).or(units.last()).unwrap_or(&("", 1.0));
    format!("{}{name}", three_digits(value / factor))
}

fn three_digits(value: f64) -> String {
    match value.abs() {
        _ if value == 0.0 => "0".to_owned(),
        size if size >= 99.95 => format!("{value:.0}"),
        size if size >= 9.995 => format!("{value:.1}"),
        size if size >= 0.01 => format!("{value:.2}"),
        _ => format!("{value:.2e}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_digits_for_the_eye() {
        assert_eq!(human(83_960.0, Unit::Iops), "84.0k IOPS");
        assert_eq!(human(999.6, Unit::Iops), "1.00k IOPS");
        assert_eq!(human(1_406_602_117.0, Unit::BytesPerSecond), "1.31 GiB/s");
        assert_eq!(human(2_940_000.0, Unit::Nanoseconds), "2.94 ms");
        assert_eq!(human(0.0, Unit::Nanoseconds), "0 ns");
        assert_eq!(human(3.0, Unit::Count), "3");
        assert_eq!(human(12.345, Unit::Percent), "12.3 %");
        assert_eq!(human(3.4, Unit::Ratio), "3.40 x");
    }

    #[test]
    fn digits_that_say_nothing_are_left_out() {
        assert_eq!(human_short(4e6, Unit::Nanoseconds), "4 ms");
        assert_eq!(human_short(5000.0, Unit::Iops), "5k IOPS");
        assert_eq!(human_short(100.0, Unit::Count), "100");
        assert_eq!(human_bytes(Bytes(2 << 30)), "2 GiB");
        assert_eq!(human_bytes(Bytes(76_450_000_000)), "71.2 GiB");
        assert_eq!(
            [0, 1, 2].map(|count| counted(count, "round")),
            ["0 rounds", "1 round", "2 rounds"]
        );
    }
}
