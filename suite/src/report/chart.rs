//! Charts as inline SVG: rates over time, latency against percentile, rounds against a limit,
//! shares. They are styled by classes of the page, so they follow light, dark and print; every
//! word in them is escaped here. Sizes are bounded: a series is drawn with at most
//! [`TIME_POINTS`] points, a curve with at most [`CURVE_POINTS`].

use std::fmt::Write as _;

use crate::measure::{Histogram, IoKind, Measurement};
use crate::units::{Unit, escaped, human, human_short};

/// Points of one line over time; more are a finer line than the screen can show.
const TIME_POINTS: usize = 120;
/// Points of one percentile curve.
const CURVE_POINTS: usize = 100;

/// Size of a large chart in its own units, which are about a pixel on a phone.
const WIDTH: f64 = 400.0;
const HEIGHT: f64 = 222.0;
const LEFT: f64 = 64.0;
const RIGHT: f64 = 22.0;
const TOP: f64 = 22.0;
const BOTTOM: f64 = 40.0;

/// A horizontal line that a condition drew: its value, and the condition for the label.
pub(super) struct LimitLine {
    pub(super) value: f64,
    pub(super) label: String,
}

/// A point that a condition on a percentile drew.
pub(super) struct LimitPoint {
    /// The percentile as a share, 0.99.
    pub(super) share: f64,
    /// The limit in nanoseconds.
    pub(super) value: f64,
    pub(super) label: String,
}

/// A plotting area that collects elements.
struct Plot {
    out: String,
    /// Value at the left edge, at the right, at the bottom, at the top.
    x: (f64, f64),
    y: (f64, f64),
}

impl Plot {
    fn new(id: &str, title: &str, description: &str, x: (f64, f64), y: (f64, f64)) -> Self {
        let (title, description) = (markup(title), markup(description));
        let out = format!(
            "<svg class=\"chart\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" \
             aria-labelledby=\"{id}-t {id}-d\"><title id=\"{id}-t\">{title}</title>\
             <desc id=\"{id}-d\">{description}</desc>\
             <text class=\"caption\" x=\"{}\" y=\"13\">{title}</text>",
            LEFT - 4.0
        );
        Self { out, x, y }
    }

    fn px(&self, x: f64) -> f64 {
        let span = (self.x.1 - self.x.0).max(f64::MIN_POSITIVE);
        LEFT + (x - self.x.0) / span * (WIDTH - LEFT - RIGHT)
    }

    fn py(&self, y: f64) -> f64 {
        let span = (self.y.1 - self.y.0).max(f64::MIN_POSITIVE);
        HEIGHT - BOTTOM - (y - self.y.0) / span * (HEIGHT - TOP - BOTTOM)
    }

    fn add(&mut self, element: &str) {
        self.out.push_str(element);
    }

    fn y_tick(&mut self, at: f64, label: &str) {
        let y = self.py(at);
        let (from, to) = (LEFT, WIDTH - RIGHT);
        let label = markup(label);
        self.add(&format!(
            "<path class=\"grid\" d=\"M{from} {y:.1}H{to}\"/>\
             <text class=\"tick\" x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{label}</text>",
            from - 6.0,
            y + 4.0
        ));
    }

    fn x_tick(&mut self, at: f64, label: &str) {
        let (x, y) = (self.px(at), HEIGHT - BOTTOM);
        let label = markup(label);
        self.add(&format!(
            "<path class=\"axis\" d=\"M{x:.1} {y:.1}v4\"/>\
             <text class=\"tick\" x=\"{x:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{label}</text>",
            y + 16.0
        ));
    }

    fn x_axis(&mut self, label: &str) {
        let (y, middle) = (HEIGHT - BOTTOM, f64::midpoint(LEFT, WIDTH - RIGHT));
        self.add(&format!(
            "<path class=\"axis\" d=\"M{LEFT} {y:.1}H{}\"/>\
             <text class=\"tick\" x=\"{middle:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>",
            WIDTH - RIGHT,
            HEIGHT - 6.0,
            markup(label)
        ));
    }

    /// A line through the points; a single one is drawn as a dot.
    fn line(&mut self, class: &str, opacity: f64, points: &[(f64, f64)]) {
        if let [(x, y)] = points {
            let (x, y) = (self.px(*x), self.py(*y));
            self.add(&format!(
                "<circle class=\"{class} dot\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3\"/>"
            ));
            return;
        }
        let mut path = String::new();
        for (index, (x, y)) in points.iter().enumerate() {
            let pen = if index == 0 { 'M' } else { 'L' };
            let _ = write!(path, "{pen}{:.1} {:.1}", self.px(*x), self.py(*y));
        }
        if !path.is_empty() {
            self.add(&format!(
                "<path class=\"{class}\" stroke-opacity=\"{opacity:.2}\" d=\"{path}\"/>"
            ));
        }
    }

    fn finish(self) -> String {
        self.out + "</svg>"
    }
}

/// IOPS or bandwidth over the measured window, one line for each round, the first one palest.
/// `unit` is [`Unit::Iops`] or [`Unit::BytesPerSecond`]. Empty when there is nothing to draw.
pub(super) fn over_time(
    id: &str,
    rounds: &[&Measurement],
    unit: Unit,
    limits: &[LimitLine],
) -> String {
    let lines: Vec<_> = rounds.iter().map(|round| rates(round, unit)).collect();
    let values = || lines.iter().flatten().map(|(_, value)| *value);
    let most = values().fold(0.0, f64::max);
    let window = rounds.iter().map(|round| round.series.window_ns.as_secs()).fold(0.0, f64::max);
    if window <= 0.0 || values().next().is_none() {
        return String::new();
    }
    // A limit that is far above would press the lines to the ground; it is named in their place.
    let drawn = |limit: &&LimitLine| limit.value <= 2.5 * most;
    let top = limits.iter().filter(drawn).map(|limit| limit.value).fold(most, f64::max);
    let ticks = linear_ticks(top * 1.02, unit);
    let top = ticks.last().copied().unwrap_or(1.0).max(top);
    let what = if unit == Unit::Iops { "IOPS" } else { "Bandwidth" };
    let least = values().fold(f64::INFINITY, f64::min);
    let description = format!(
        "{} over {}, between {} and {}",
        what,
        seconds(window),
        human(least, unit),
        human(most, unit)
    );
    let mut plot =
        Plot::new(id, &format!("{what} over time"), &description, (0.0, window), (0.0, top));
    for tick in ticks {
        plot.y_tick(tick, &label(tick, unit));
    }
    for tick in linear_ticks(window, Unit::Count) {
        plot.x_tick(tick, &label(tick, Unit::Count));
    }
    plot.x_axis("seconds of the measured window");
    let did = |kind| rounds.iter().any(|round| round.completed(Some(kind)) > 0);
    let class = match (did(IoKind::Read), did(IoKind::Write)) {
        (true, false) => "line read",
        (false, true) => "line write",
        _ => "line both",
    };
    for (index, line) in lines.iter().enumerate() {
        let rank = (index + 1) as f64 / lines.len() as f64;
        plot.line(class, 0.35 + 0.65 * rank, line);
    }
    for limit in limits {
        draw_limit(&mut plot, limit, top);
    }
    plot.finish()
}

fn draw_limit(plot: &mut Plot, limit: &LimitLine, top: f64) {
    let label = markup(&limit.label);
    let right = WIDTH - RIGHT;
    if limit.value > top {
        plot.add(&format!(
            "<text class=\"limit-label\" x=\"{right}\" y=\"{:.1}\" text-anchor=\"end\">\
             {label}, above this chart \u{2191}</text>",
            TOP - 4.0
        ));
        return;
    }
    let y = plot.py(limit.value);
    // Under the line where there is no room above it.
    let text_y = if y < TOP + 14.0 { y + 13.0 } else { y - 5.0 };
    plot.add(&format!(
        "<path class=\"limit\" d=\"M{LEFT} {y:.1}H{right}\"/>\
         <text class=\"limit-label\" x=\"{right}\" y=\"{text_y:.1}\" text-anchor=\"end\">\
         {label}</text>"
    ));
}

/// Rate in each interval at its middle, decimated to [`TIME_POINTS`].
fn rates(round: &Measurement, unit: Unit) -> Vec<(f64, f64)> {
    let series = &round.series;
    let counts = if unit == Unit::Iops { &series.completed } else { &series.bytes };
    let interval = series.interval_ns.as_secs();
    let mut cells: Vec<(f64, f64)> =
        counts.iter().zip(series.lengths_s()).map(|(count, len)| (*count as f64, len)).collect();
    // A last interval of which the window has less than half is too short for a rate of its own.
    if let Some(&(count, len)) = cells.last()
        && len < 0.5 * interval
        && cells.len() > 1
    {
        cells.pop();
        let before = cells.last_mut().expect("there were two");
        *before = (before.0 + count, before.1 + len);
    }
    let mut start = 0.0;
    let mut points = Vec::new();
    for chunk in cells.chunks(cells.len().div_ceil(TIME_POINTS).max(1)) {
        let (count, len) =
            chunk.iter().fold((0.0, 0.0), |sum, cell| (sum.0 + cell.0, sum.1 + cell.1));
        if len > 0.0 {
            points.push((start + len / 2.0, count / len));
        }
        start += len;
    }
    points
}

/// Latency against percentile, both logarithmic: the distance between p90 and p99 is that between
/// p99 and p99.9. A curve is dotted where there are too few samples to quote it.
pub(super) fn percentiles(
    id: &str,
    curves: &[(IoKind, &Histogram)],
    limits: &[LimitPoint],
) -> String {
    let curves: Vec<_> = curves
        .iter()
        .filter(|(_, samples)| samples.count() > 0)
        .map(|(k, h)| curve(*k, h))
        .collect();
    let values = curves.iter().flat_map(|curve| curve.points.iter().map(|(_, y)| *y));
    let values = values.chain(limits.iter().map(|limit| limit.value.max(1.0).log10()));
    let (low, high) = values.fold((f64::INFINITY, f64::NEG_INFINITY), |range, value| {
        (range.0.min(value), range.1.max(value))
    });
    if curves.is_empty() || !low.is_finite() || !high.is_finite() {
        return String::new();
    }
    let nines = curves.iter().filter_map(|curve| curve.points.last()).map(|(x, _)| *x);
    let nines = nines.fold(1.0, f64::max);
    let ticks = log_ticks(low, high);
    let low = low.min(ticks.first().copied().unwrap_or(low));
    let high = high.max(ticks.last().copied().unwrap_or(high)) + 0.02;
    let names: Vec<_> = curves.iter().map(|curve| curve.kind.word()).collect();
    let description = format!(
        "Latency of {} from {} to {}",
        names.join(", "),
        human(10_f64.powf(low), Unit::Nanoseconds),
        human(10_f64.powf(high), Unit::Nanoseconds)
    );
    let mut plot = Plot::new(id, "Latency by percentile", &description, (0.0, nines), (low, high));
    for tick in ticks {
        plot.y_tick(tick, &label(10_f64.powf(tick), Unit::Nanoseconds));
    }
    plot.x_tick(0.0, "0");
    for (at, label) in
        [(1.0, "90"), (2.0, "99"), (3.0, "99.9"), (4.0, "99.99"), (5.0, "99.999"), (6.0, "99.9999")]
    {
        if at <= nines {
            plot.x_tick(at, label);
        }
    }
    plot.x_axis("percentile");
    for curve in &curves {
        draw_curve(&mut plot, curve);
    }
    for limit in limits {
        draw_limit_point(&mut plot, limit, nines);
    }
    label_curves(&mut plot, &curves);
    plot.finish()
}

/// One kind's curve: nines against the logarithm of nanoseconds.
struct Curve {
    kind: IoKind,
    points: Vec<(f64, f64)>,
    /// How many of them can be quoted.
    quotable: usize,
}

fn curve(kind: IoKind, samples: &Histogram) -> Curve {
    let total = samples.count() as f64;
    // 1 - p below which the upper end of the 95 % interval is unknown: p^N = 0.025.
    let least_tail = 1.0 - (0.025_f64.ln() / total).exp();
    let mut seen = 0;
    let mut all = vec![(0.0, (samples.min().unwrap_or(0).max(1) as f64).log10())];
    for (_, high, count) in samples.bars() {
        seen += count;
        // The last sample has nothing behind it; half a sample is where it is drawn.
        let tail = (total - seen as f64).max(0.5) / total;
        let value = high.min(samples.max().unwrap_or(high)).max(1) as f64;
        all.push((-tail.log10(), value.log10()));
    }
    let end = all.last().map_or(0.0, |point| point.0);
    let step = end / CURVE_POINTS as f64;
    let mut points: Vec<(f64, f64)> = Vec::new();
    let last = all.len() - 1;
    for (index, point) in all.into_iter().enumerate() {
        let far = points.last().is_none_or(|before| point.0 - before.0 >= step);
        if far || index == last {
            points.push(point);
        }
    }
    let quotable = points.iter().take_while(|(x, _)| 10_f64.powf(-x) >= least_tail).count();
    Curve { kind, points, quotable }
}

fn draw_curve(plot: &mut Plot, curve: &Curve) {
    let class = curve.kind.word();
    let (sure, rest) = curve.points.split_at(curve.quotable);
    plot.line(&format!("line {class}"), 1.0, sure);
    if !rest.is_empty() {
        let from = curve.quotable.saturating_sub(1);
        plot.line(&format!("line unsure {class}"), 1.0, &curve.points[from..]);
    }
}

fn draw_limit_point(plot: &mut Plot, limit: &LimitPoint, nines: f64) {
    let at = -(1.0 - limit.share).max(1e-7).log10();
    let (x, y) = (plot.px(at.min(nines)), plot.py(limit.value.max(1.0).log10()));
    let (from, to) = ((x - 16.0).max(LEFT), (x + 16.0).min(WIDTH - RIGHT));
    let anchor = if x > WIDTH - RIGHT - 60.0 { "end" } else { "middle" };
    let text_x = if anchor == "end" { WIDTH - RIGHT } else { x };
    let text_y = if y < TOP + 14.0 { y + 14.0 } else { y - 6.0 };
    plot.add(&format!(
        "<path class=\"limit\" d=\"M{from:.1} {y:.1}H{to:.1}\"/>\
         <text class=\"limit-label\" x=\"{text_x:.1}\" y=\"{text_y:.1}\" \
         text-anchor=\"{anchor}\">{}</text>",
        markup(&limit.label)
    ));
}

/// A key of the curves at the top right, each a short line and a word.
fn label_curves(plot: &mut Plot, curves: &[Curve]) {
    let mut x = WIDTH - RIGHT;
    // More than two would reach into the title.
    let (line, gap) = if curves.len() > 2 { (12.0, 9.0) } else { (18.0, 14.0) };
    for curve in curves.iter().rev() {
        let class = curve.kind.word();
        let text_x = x;
        x -= class.len() as f64 * 6.8 + 6.0;
        plot.add(&format!(
            "<text class=\"key\" x=\"{text_x:.1}\" y=\"13\" text-anchor=\"end\">{class}</text>\
             <path class=\"line {class}\" d=\"M{:.1} 9H{x:.1}\"/>",
            x - line
        ));
        x -= line + gap;
    }
}

/// The rounds of a verdict as dots on a line, with the allowed side shaded and the limit marked.
/// `sign` is how a value compares with a single limit. Empty without a finite round.
pub(super) fn dots(rounds: &[f64], limits: &[f64], sign: &str, mark: &str, title: &str) -> String {
    const WIDE: f64 = 128.0;
    const HIGH: f64 = 24.0;
    let finite = |value: &&f64| value.is_finite();
    let all = || rounds.iter().chain(limits).filter(finite).copied();
    if !rounds.iter().any(|value| value.is_finite()) {
        return String::new();
    }
    let (low, high) =
        (all().fold(f64::INFINITY, f64::min), all().fold(f64::NEG_INFINITY, f64::max));
    let pad = if high > low { 0.14 * (high - low) } else { 0.5 * high.abs().max(1.0) };
    let (low, high) = (low - pad, high + pad);
    let px = |value: f64| 4.0 + (value - low) / (high - low) * (WIDE - 8.0);
    let mut out = format!(
        "<svg class=\"dots\" viewBox=\"0 0 {WIDE} {HIGH}\" role=\"img\"><title>{}</title>",
        markup(title)
    );
    let allowed = match (limits, sign) {
        ([limit], "<" | "<=") => Some((0.0, px(*limit))),
        ([limit], ">" | ">=") => Some((px(*limit), WIDE)),
        ([from, to], _) => Some((px(*from), px(*to))),
        _ => None,
    };
    if let Some((from, to)) = allowed {
        let _ = write!(
            out,
            "<rect class=\"allowed\" x=\"{from:.1}\" y=\"3\" width=\"{:.1}\" height=\"18\" \
             rx=\"3\"/>",
            (to - from).max(0.0)
        );
    }
    let _ = write!(out, "<path class=\"axis\" d=\"M4 12H{}\"/>", WIDE - 4.0);
    for limit in limits.iter().filter(finite) {
        let _ = write!(out, "<path class=\"limit\" d=\"M{:.1} 2V22\"/>", px(*limit));
    }
    for value in rounds.iter().filter(finite) {
        let x = px(*value);
        let _ = write!(out, "<circle class=\"{mark}\" cx=\"{x:.1}\" cy=\"12\" r=\"3.5\"/>");
    }
    out + "</svg>"
}

/// A bar of `share` (0 to 1) of the full width, with a mark at the even share.
pub(super) fn bar(share: f64, even: f64) -> String {
    let (length, mark) = (160.0 * share.clamp(0.0, 1.0), 160.0 * even.clamp(0.0, 1.0));
    format!(
        "<svg class=\"bar\" viewBox=\"0 0 160 12\" aria-hidden=\"true\">\
         <rect class=\"track\" width=\"160\" height=\"12\" rx=\"3\"/>\
         <rect class=\"fill\" width=\"{length:.1}\" height=\"12\" rx=\"3\"/>\
         <path class=\"limit\" d=\"M{mark:.1} 0V12\"/></svg>"
    )
}

/// Round values from 0 up to at least `top`, about five of them.
fn linear_ticks(top: f64, unit: Unit) -> Vec<f64> {
    if !top.is_finite() || top <= 0.0 {
        return vec![0.0, 1.0];
    }
    let scale = match unit {
        Unit::BytesPerSecond => 1024_f64.powf(top.log(1024.0).floor().max(0.0)),
        _ => 1.0,
    };
    let step = nice_step(top / scale / 4.0) * scale;
    let last = (top / step).ceil().min(20.0);
    let within = if unit == Unit::Count { (top / step).floor() } else { last };
    (0..=20).map(f64::from).take_while(|index| *index <= within).map(|index| index * step).collect()
}

/// The 1, 2 or 5 times a power of ten that is not below `rough`.
fn nice_step(rough: f64) -> f64 {
    let power = 10_f64.powf(rough.log10().floor());
    let choices = [1.0, 2.0, 2.5, 5.0, 10.0];
    choices.iter().map(|choice| choice * power).find(|step| *step >= rough * 0.999).unwrap_or(power)
}

/// Logarithms of round values that enclose `low` to `high` (both logarithms): tens, and 2 and 5
/// between them where there is room.
fn log_ticks(low: f64, high: f64) -> Vec<f64> {
    let between: &[f64] = match high - low {
        span if span > 2.2 => &[1.0],
        span if span > 1.2 => &[1.0, 3.0],
        _ => &[1.0, 2.0, 5.0],
    };
    let all: Vec<f64> = (0..20)
        .flat_map(|decade| between.iter().map(move |n| f64::from(decade) + n.log10()))
        .collect();
    let first = all.iter().rposition(|tick| *tick <= low).unwrap_or(0);
    let last = all.iter().position(|tick| *tick >= high).unwrap_or(all.len() - 1);
    all[first..=last].to_vec()
}

/// A tick's label, without the word that the caption has.
fn label(value: f64, unit: Unit) -> String {
    if value == 0.0 { "0".to_owned() } else { human_short(value, unit).replace(" IOPS", "") }
}

fn seconds(value: f64) -> String {
    human(value * 1e9, Unit::Nanoseconds)
}

/// A name as markup that may break where the signs part it, rather than anywhere.
pub(super) fn breakable(name: &str) -> String {
    let mut out = String::new();
    for part in name.split_inclusive(['/', ',', ']', ' ']) {
        // A point stays whole if it can: rather before its bracket than within.
        out.push_str(&markup(part).replace('[', "<wbr>["));
        out.push_str("<wbr>");
    }
    out.trim_end_matches("<wbr>").to_owned()
}

/// Text within markup.
pub(super) fn markup(text: &str) -> String {
    escaped(text)
        .replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round_and_enclose() {
        assert_eq!(linear_ticks(84_000.0, Unit::Iops), [0.0, 25e3, 50e3, 75e3, 100e3]);
        let mib = f64::from(1 << 20);
        let ticks = linear_ticks(329.0 * mib, Unit::BytesPerSecond);
        assert_eq!(ticks, [0.0, 100.0 * mib, 200.0 * mib, 300.0 * mib, 400.0 * mib]);
        assert_eq!(linear_ticks(10.0, Unit::Count), [0.0, 2.5, 5.0, 7.5, 10.0]);
        assert_eq!(linear_ticks(f64::NAN, Unit::Iops), [0.0, 1.0]);
        let labels: Vec<_> =
            log_ticks(4.2, 6.1).iter().map(|t| label(10_f64.powf(*t), Unit::Nanoseconds)).collect();
        assert_eq!(labels, ["10 us", "30 us", "100 us", "300 us", "1 ms", "3 ms"]);
    }

    #[test]
    fn labels_have_no_idle_digits() {
        assert_eq!(label(25_000.0, Unit::Iops), "25k");
        assert_eq!(label(2_500.0, Unit::Iops), "2.5k");
        assert_eq!(label(0.0, Unit::BytesPerSecond), "0");
        assert_eq!(label(100.0 * f64::from(1 << 20), Unit::BytesPerSecond), "100 MiB/s");
    }

    #[test]
    fn figures_that_are_none_draw_nothing() {
        assert_eq!(dots(&[], &[1.0], "<", "pass", ""), "");
        assert_eq!(dots(&[f64::NAN], &[1.0], "<", "pass", ""), "");
        assert!(!dots(&[5.0, 5.0], &[5.0], "=", "pass", "").contains("NaN"));
        assert_eq!(over_time("c", &[], Unit::Iops, &[]), "");
        assert_eq!(percentiles("c", &[(IoKind::Read, &Histogram::default())], &[]), "");
    }
}
