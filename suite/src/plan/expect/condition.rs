//! The grammar of one condition: a metric, a comparison, and what it is compared with.
//!
//! ```text
//! metric cmp quantity                       read.latency.p99.9 < 10ms
//! metric cmp factor x reference             write.bandwidth >= 5 x single
//! metric cmp percent of reference           write.iops >= 97% of lrs
//! metric within percent of reference        latency.mean within 5% of baseline
//! metric between quantity and quantity      write.iops between 4900 and 5300
//! ```
//!
//! Places are byte ranges of the condition's own text.

use crate::diag::{Diagnostic, nearest};
use crate::measure::IoKind;
use crate::units::{self, Nanos, Percentile, Unit, UnitError};

use super::super::assertion::{Comparison, Measure, Metric};
use super::super::raw::{At, Span};

const CODE: &str = "plan::condition";
const FORMS: &str = "a condition is `metric < quantity`, `metric >= 2 x setup`, \
    `metric >= 97% of setup`, `metric within 5% of setup` or `metric between low and high`";
const LATENCIES: &str = "min, mean, max, stddev, or a percentile such as p99.9";

/// What is wrong with a condition; its places are those of the condition's own text.
pub(super) type Fault = Box<Diagnostic>;

/// A condition whose references are names still.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Parsed {
    pub metric: At<Metric>,
    pub test: RawTest,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) enum RawTest {
    Constant(Comparison, f64),
    Between(f64, f64),
    Times(Comparison, f64, Reference),
    Within(f64, Reference),
}

/// What a condition compares with, as written.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Reference {
    pub text: String,
    pub span: Span,
}

/// Reads one condition.
pub(super) fn parse(text: &str) -> Result<Parsed, Fault> {
    let mut words = Words { all: split(text), next: 0, end: text.trim_end().len() };
    let metric = metric(words.take("a metric, such as `read.latency.p99`")?)?;
    let sign = words.take("a comparison, such as `<`")?;
    let wanted = match sign.text {
        "within" => {
            let share = words.take("a percentage, such as `5%`")?;
            let share = percent(share)?;
            words.expect("of")?;
            if share.value > 1.0 {
                let message = "within more than 100% is no condition";
                return Err(Box::new(Diagnostic::new(
                    "plan::out-of-range",
                    message,
                    share.span,
                    "at most 100%",
                )));
            }
            RawTest::Within(share.value, words.reference()?)
        }
        "between" => {
            let low = words.quantity(metric.value)?;
            words.expect("and")?;
            let high = words.quantity(metric.value)?;
            if low.value > high.value {
                let message = "the range is empty: its first value is the larger one";
                let span = low.span.start..high.span.end;
                let [a, b] = [&low.span, &high.span].map(|s| text[s.clone()].to_owned());
                return Err(Box::new(
                    Diagnostic::new("plan::out-of-range", message, span.clone(), "").fix(
                        "turn them round",
                        span,
                        format!("{b} and {a}"),
                    ),
                ));
            }
            RawTest::Between(low.value, high.value)
        }
        _ => compared(&mut words, &metric, comparison(sign)?, sign)?,
    };
    words.finish()?;
    Ok(Parsed { metric, test: wanted })
}

/// What stands behind a comparison.
fn compared(
    words: &mut Words<'_>,
    metric: &At<Metric>,
    comparison: Comparison,
    sign: Word<'_>,
) -> Result<RawTest, Fault> {
    if comparison == Comparison::Equal && metric.value.measure.unit() != Unit::Count {
        let message = format!("`{}` is never exactly equal to anything", metric.value);
        return Err(Box::new(
            Diagnostic::new(CODE, message, sign.span(), "only counts can be")
                .help("use `<=`, `>=`, `between … and …` or `within …% of …`"),
        ));
    }
    let first =
        words.peek().ok_or_else(|| Box::new(words.ends("a quantity, or what to compare with")))?;
    let second = words.peek_second().map(|word| word.text);
    match second {
        Some("x") => {
            let factor = words.take("a factor")?;
            words.expect("x")?;
            Ok(RawTest::Times(comparison, number(factor)?.value, words.reference()?))
        }
        Some("*" | "×" | "X" | "times") => {
            let wrong = words.all[words.next + 1];
            let message = format!("`{}` is not how a factor is written", wrong.text);
            Err(Box::new(Diagnostic::new(CODE, message, wrong.span(), "").fix(
                "write `x`",
                wrong.span(),
                "x",
            )))
        }
        Some("of") => {
            let share = percent(words.take("a percentage")?)?;
            words.expect("of")?;
            Ok(RawTest::Times(comparison, share.value, words.reference()?))
        }
        _ if first.text.ends_with(['x', '×']) && units::decimal(trimmed(first.text)).is_some() => {
            let message = format!("`{}` needs a space before its `x`", first.text);
            let fixed = format!("{} x", trimmed(first.text));
            Err(Box::new(Diagnostic::new(CODE, message, first.span(), "").fix(
                "write",
                first.span(),
                fixed,
            )))
        }
        _ if first.text.ends_with('%') && metric.value.measure.unit() != Unit::Percent => {
            let message = format!("`{}` of what?", first.text);
            Err(Box::new(
                Diagnostic::new(CODE, message, first.span(), "a share of nothing")
                    .help(format!("name a setup or a case: `{} of single`", first.text)),
            ))
        }
        None if first.text.starts_with(|c: char| c.is_ascii_lowercase()) => {
            let message = format!("`{}` is not a quantity", first.text);
            let fixed = format!("1 x {}", first.text);
            Err(Box::new(Diagnostic::new(CODE, message, first.span(), "").fix(
                "to compare with a setup or a case, say how many times as much",
                first.span(),
                fixed,
            )))
        }
        _ => Ok(RawTest::Constant(comparison, words.quantity(metric.value)?.value)),
    }
}

fn trimmed(factor: &str) -> &str {
    factor.trim_end_matches(['x', '×'])
}

/// A word of a condition and where it starts.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Word<'t> {
    text: &'t str,
    start: usize,
}

impl Word<'_> {
    fn span(self) -> Span {
        self.start..self.start + self.text.len()
    }
}

struct Words<'t> {
    all: Vec<Word<'t>>,
    next: usize,
    end: usize,
}

impl<'t> Words<'t> {
    fn peek(&self) -> Option<Word<'t>> {
        self.all.get(self.next).copied()
    }

    fn peek_second(&self) -> Option<Word<'t>> {
        self.all.get(self.next + 1).copied()
    }

    fn ends(&self, wanted: &str) -> Diagnostic {
        let message = "the condition ends too early";
        Diagnostic::new(CODE, message, self.end..self.end, format!("missing: {wanted}")).note(FORMS)
    }

    fn take(&mut self, wanted: &str) -> Result<Word<'t>, Fault> {
        let word = self.peek().ok_or_else(|| Box::new(self.ends(wanted)))?;
        self.next += 1;
        Ok(word)
    }

    fn expect(&mut self, wanted: &str) -> Result<(), Fault> {
        let word = self.take(&format!("`{wanted}`"))?;
        if word.text == wanted {
            return Ok(());
        }
        let message = format!("`{wanted}` has to stand here, not `{}`", word.text);
        Err(Box::new(
            Diagnostic::new(CODE, message, word.span(), format!("`{wanted}` is missing"))
                .note(FORMS),
        ))
    }

    fn reference(&mut self) -> Result<Reference, Fault> {
        let word = self.take("a setup, a case or `baseline`")?;
        Ok(Reference { text: word.text.to_owned(), span: word.span() })
    }

    /// A quantity in the unit of a metric.
    fn quantity(&mut self, metric: Metric) -> Result<At<f64>, Fault> {
        let word = self.take("a quantity")?;
        let mut span = word.span();
        let mut text = word.text.to_owned();
        if let Some(unit) = self.peek().filter(|next| next.text == "iops") {
            self.next += 1;
            text.push_str(" iops");
            span.end = unit.span().end;
        }
        match valued(&text, metric.measure.unit()) {
            Ok(value) => Ok(At { value, span }),
            Err(error) => Err(Box::new(misfit(metric, &text, span, error))),
        }
    }

    fn finish(&self) -> Result<(), Fault> {
        let Some(rest) = self.peek() else { return Ok(()) };
        let message = format!("`{}` is too much: the condition ends before it", rest.text);
        let fault = Diagnostic::new(CODE, message, rest.start..self.end, "left over");
        Err(Box::new(match rest.text {
            "and" | "or" | "&&" | "," => {
                fault.help("one string is one condition: write a list, `that = [\"…\", \"…\"]`")
            }
            _ => fault.note(FORMS),
        }))
    }
}

/// Splits at blanks and around comparisons, but not in brackets: `single/copy[block_size=4KiB]`
/// is one word.
fn split(text: &str) -> Vec<Word<'_>> {
    #[derive(PartialEq, Clone, Copy)]
    enum Kind {
        Blank,
        Sign,
        Letter,
    }
    let mut words: Vec<Word<'_>> = Vec::new();
    let mut last = Kind::Blank;
    let mut depth = 0_i32;
    for (at, c) in text.char_indices() {
        depth += i32::from(c == '[') - i32::from(c == ']');
        let kind = match c {
            _ if c.is_whitespace() => Kind::Blank,
            '<' | '>' | '=' | '!' | '≤' | '≥' | '≠' if depth <= 0 => Kind::Sign,
            _ => Kind::Letter,
        };
        let end = at + c.len_utf8();
        match words.last_mut() {
            Some(word) if kind == last && kind != Kind::Blank => word.text = &text[word.start..end],
            _ if kind != Kind::Blank => words.push(Word { text: &text[at..end], start: at }),
            _ => {}
        }
        last = kind;
    }
    words
}

fn comparison(sign: Word<'_>) -> Result<Comparison, Fault> {
    let meant = match sign.text {
        "<" => return Ok(Comparison::Less),
        "<=" => return Ok(Comparison::LessOrEqual),
        "=" => return Ok(Comparison::Equal),
        ">=" => return Ok(Comparison::GreaterOrEqual),
        ">" => return Ok(Comparison::Greater),
        "==" => Some("="),
        "=<" | "≤" => Some("<="),
        "=>" | "≥" => Some(">="),
        "below" | "under" => Some("<"),
        "above" | "over" => Some(">"),
        other => nearest(other, ["within", "between"]),
    };
    let message = format!("`{}` is not a comparison", sign.text);
    let fault = Diagnostic::new(CODE, message, sign.span(), "");
    Err(Box::new(match meant {
        Some(meant) => fault.fix(format!("write `{meant}`"), sign.span(), meant),
        None => fault.note("comparisons are `<`, `<=`, `=`, `>=`, `>`, `within` and `between`"),
    }))
}

fn metric(word: Word<'_>) -> Result<At<Metric>, Fault> {
    let kinds = IoKind::ALL.map(|kind| (kind, kind.word()));
    let prefix = kinds.iter().find_map(|(kind, name)| {
        word.text.strip_prefix(name)?.strip_prefix('.').map(|rest| (*kind, rest))
    });
    let (kind, rest) = prefix.map_or((None, word.text), |(kind, rest)| (Some(kind), rest));
    let start = word.start + word.text.len() - rest.len();
    let measure = measure(Word { text: rest, start })?;
    let metric = Metric { kind, measure };
    let whole = !matches!(
        measure,
        Measure::CpuUser | Measure::CpuSystem | Measure::CpuPerIo | Measure::DeviceUtilization
    );
    if kind.is_some() && !whole {
        let message = format!("`{measure}` is not told apart by kinds of I/O");
        let prefix = word.start..start;
        return Err(Box::new(
            Diagnostic::new("plan::unknown-metric", message, prefix.clone(), "too much").fix(
                "take it out",
                prefix,
                "",
            ),
        ));
    }
    if kind == Some(IoKind::Sync) && measure == Measure::Bandwidth {
        let message = "a sync moves no bytes: it has no `bandwidth`";
        return Err(Box::new(
            Diagnostic::new("plan::unknown-metric", message, word.span(), "")
                .note("it has `sync.iops`, `sync.latency` and `sync.errors`"),
        ));
    }
    Ok(At { value: metric, span: word.span() })
}

fn measure(word: Word<'_>) -> Result<Measure, Fault> {
    const KNOWN: [&str; 12] = [
        "iops",
        "bandwidth",
        "latency.min",
        "latency.mean",
        "latency.max",
        "latency.stddev",
        "errors",
        "verify_errors",
        "cpu.user",
        "cpu.system",
        "cpu_per_io",
        "device.utilization",
    ];
    let code = "plan::unknown-metric";
    let percentile = word.text.strip_prefix("latency.p");
    let near = match word.text {
        "iops" => return Ok(Measure::Iops),
        "bandwidth" => return Ok(Measure::Bandwidth),
        "latency.min" => return Ok(Measure::LatencyMin),
        "latency.mean" => return Ok(Measure::LatencyMean),
        "latency.max" => return Ok(Measure::LatencyMax),
        "latency.stddev" => return Ok(Measure::LatencyStddev),
        "errors" => return Ok(Measure::Errors),
        "verify_errors" => return Ok(Measure::VerifyErrors),
        "cpu.user" => return Ok(Measure::CpuUser),
        "cpu.system" => return Ok(Measure::CpuSystem),
        "cpu_per_io" => return Ok(Measure::CpuPerIo),
        "device.utilization" => return Ok(Measure::DeviceUtilization),
        "latency" => {
            let message = "`latency` alone is not a figure";
            return Err(Box::new(
                Diagnostic::new(code, message, word.span(), "which latency?")
                    .note(format!("behind `latency.` stands {LATENCIES}")),
            ));
        }
        "latency.median" => Some("latency.p50"),
        "latency.avg" | "latency.average" | "latency.mean_ns" => Some("latency.mean"),
        "bw" | "throughput" => Some("bandwidth"),
        _ if percentile.is_some_and(|rank| rank.starts_with(|c: char| c.is_ascii_digit())) => {
            let rank = Percentile::parse(percentile.unwrap_or_default());
            let bad = |error: UnitError| {
                Diagnostic::new(code, error.message, word.span(), "not a percentile")
            };
            return rank.map(Measure::LatencyPercentile).map_err(|error| Box::new(bad(error)));
        }
        other => nearest(other, KNOWN),
    };
    if let Some(near) = near {
        let message = format!("there is no metric `{}`", word.text);
        return Err(Box::new(Diagnostic::new(code, message, word.span(), "not known").fix(
            format!("use `{near}`"),
            word.span(),
            near,
        )));
    }
    let message = format!("there is no metric `{}`", word.text);
    Err(Box::new(Diagnostic::new(code, message, word.span(), "not known").note(
        "metrics are `iops`, `bandwidth`, `latency.…`, `errors`, `cpu.user`, `cpu.system`, \
         `cpu_per_io` and `device.utilization`; the first four also with `read.`, `write.`, \
         `trim.` or `sync.` before them",
    )))
}

fn number(word: Word<'_>) -> Result<At<f64>, Fault> {
    if let Some(value) = units::decimal(word.text).filter(|value| *value > 0.0) {
        return Ok(At { value, span: word.span() });
    }
    let message = format!("`{}` is not a factor", word.text);
    Err(Box::new(
        Diagnostic::new(CODE, message, word.span(), "not a number above 0")
            .note("write it such as `5` or `0.97`"),
    ))
}

/// A percentage above 0, as a share.
fn percent(word: Word<'_>) -> Result<At<f64>, Fault> {
    let value = units::parse_percentage(word.text).ok().filter(|value| *value > 0.0);
    if let Some(value) = value {
        return Ok(At { value: value / 100.0, span: word.span() });
    }
    let message = format!("`{}` is not a percentage", word.text);
    let fault = Diagnostic::new(CODE, message, word.span(), "not a percentage above 0%");
    let unsigned = units::decimal(word.text).filter(|value| *value > 0.0);
    Err(Box::new(match unsigned {
        Some(_) => fault.fix("write", word.span(), format!("{}%", word.text)),
        None => fault.note("write it such as `5%` or `97.5%`"),
    }))
}

/// Reads a quantity of this unit.
fn valued(text: &str, unit: Unit) -> Result<f64, UnitError> {
    match unit {
        Unit::Iops => units::parse_iops(text),
        Unit::BytesPerSecond => units::parse_bandwidth(text),
        Unit::Nanoseconds => Nanos::parse(text).map(|time| time.0 as f64),
        Unit::Percent => units::parse_percentage(text),
        Unit::Count | Unit::Ratio => {
            let whole = units::parse_count(text)?;
            if whole.fract() == 0.0 {
                return Ok(whole);
            }
            Err(UnitError { message: format!("`{text}` is not a whole number"), instead: None })
        }
    }
}

/// Why a quantity is not one of the metric.
fn misfit(metric: Metric, text: &str, span: Span, error: UnitError) -> Diagnostic {
    let unit = metric.measure.unit();
    // A bare number is a count to everyone: what it lacks here is its unit.
    let bare = units::decimal(text).is_some();
    let other = [Unit::Nanoseconds, Unit::BytesPerSecond, Unit::Percent, Unit::Iops]
        .into_iter()
        .find(|other| *other != unit && valued(text, *other).is_ok());
    if let Some(other) = other.filter(|_| !bare) {
        let message = format!("`{metric}` is {}, and `{text}` is {}", named(unit), named(other));
        return Diagnostic::new("plan::wrong-unit", message, span, format!("not {}", named(unit)));
    }
    if bare && unit == Unit::Nanoseconds {
        let message = format!("`{text}` has no unit: `{metric}` is a time");
        let label = "a time needs one";
        return Diagnostic::new("plan::bad-quantity", message, span, label)
            .help(format!("write the unit behind it, such as `{text}ms`"));
    }
    let fault = Diagnostic::new("plan::bad-quantity", error.message, span.clone(), "");
    match error.instead {
        Some(instead) => fault.fix("write", span, instead),
        None => fault,
    }
}

fn named(unit: Unit) -> &'static str {
    match unit {
        Unit::Iops => "a rate of I/Os",
        Unit::BytesPerSecond => "a bandwidth",
        Unit::Nanoseconds => "a time",
        Unit::Count => "a count",
        Unit::Percent => "a percentage",
        Unit::Ratio => "a ratio",
    }
}
