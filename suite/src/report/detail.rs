//! One case in detail, as the page shows it: what was run, charts, figures, shares, the way.

use serde::Serialize;

use super::chart::{self, LimitLine, LimitPoint};
use super::facts::{self, Mark, figures, troubles};
use super::html::{name, safe, typeset};
use super::text::grouped;
use crate::measure::{Histogram, IoKind, Measurement, OpenLoop, Share, Verified};
use crate::record::{CaseRecord, Evidence, Record, Verdict};
use crate::units::{Bytes, Percentile, Unit, counted, human, human_bytes, human_short};

/// Shares that get a bar each.
const SHARES: usize = 32;
/// Up to this many cases all details are open; in a longer list only those with a problem.
const OPEN_CASES: usize = 4;

/// One case with all that there is to say about it.
#[derive(Serialize)]
pub(super) struct CaseView {
    number: usize,
    /// Markup.
    id: String,
    plain_id: String,
    what: String,
    mark: &'static str,
    sign: &'static str,
    word: &'static str,
    open: bool,
    skipped: Vec<String>,
    troubles: Vec<String>,
    warnings: Vec<String>,
    parameters: Vec<(String, String)>,
    rounds: Option<String>,
    charts: Vec<String>,
    figures: Option<FiguresView>,
    backends: Vec<String>,
    extra: Vec<(&'static str, String)>,
    members: Option<BalanceView>,
    workers: Option<BalanceView>,
}

/// How even the shares of members or workers are.
#[derive(Serialize)]
struct BalanceView {
    what: &'static str,
    summary: String,
    shares: Vec<(String, String, String, String)>,
    left: usize,
}

/// One case in the table of figures.
#[derive(Serialize)]
pub(super) struct FiguresView {
    case: String,
    anchor: Option<usize>,
    rounds: usize,
    depth: String,
    cpu: Option<String>,
    rows: Vec<RowView>,
}

#[derive(Serialize)]
struct RowView {
    kind: &'static str,
    samples: String,
    cells: [Option<String>; 7],
}

/// The details of the case of this index.
pub(super) fn case_view(record: &Record, index: usize) -> CaseView {
    let case = &record.cases[index];
    let mark = mark_of(record, case);
    let problem = mark.is_some_and(|mark| mark > Mark::Skipped);
    let measured = case.measured();
    let merged = case.merged();
    let mut view = CaseView {
        number: index,
        id: name(&case.id),
        plain_id: safe(&case.id),
        what: safe(&case.what),
        mark: mark.map_or("none", Mark::word),
        sign: mark.map_or("", Mark::sign),
        word: mark.map_or("no condition", Mark::word),
        open: problem || record.cases.len() <= OPEN_CASES,
        skipped: case.skipped.iter().map(|reason| safe(reason)).collect(),
        troubles: troubles(record, case).iter().take(20).map(|trouble| safe(trouble)).collect(),
        warnings: case.warnings.iter().take(20).map(|warning| safe(warning)).collect(),
        parameters: case.parameters.iter().map(|(key, value)| (safe(key), safe(value))).collect(),
        rounds: None,
        charts: Vec::new(),
        figures: None,
        backends: backends(&measured),
        extra: Vec::new(),
        members: None,
        workers: None,
    };
    if let Some(merged) = merged {
        view.rounds = Some(rounds_text(&measured));
        view.charts = charts(record, index, &measured, &merged);
        view.figures = Some(figures_view(case, &merged, None));
        view.extra = extra(case, &merged);
        view.members = balance("disk", &merged.members);
        view.workers = balance("worker", &merged.workers);
    }
    view
}

fn rounds_text(measured: &[&Measurement]) -> String {
    let seconds: f64 = measured.iter().map(|round| round.duration_ns.as_secs()).sum();
    let each = human_short(seconds * 1e9 / measured.len() as f64, Unit::Nanoseconds);
    match measured.len() {
        1 => format!("1 round of {each}"),
        count => format!("{count} rounds of {each}"),
    }
}

/// Rate over time, in the unit that its conditions speak of, else in the one that suits the block
/// size; and latency by percentile.
fn charts(
    record: &Record,
    index: usize,
    measured: &[&Measurement],
    merged: &Measurement,
) -> Vec<String> {
    let case = &record.cases[index];
    let own: Vec<_> = record.verdicts.iter().filter(|verdict| verdict.case == case.id).collect();
    let asked = |unit| own.iter().any(|verdict| verdict.evidence.unit == unit);
    let mean_bytes = merged.bytes(None) / merged.completed(None).max(1);
    let units: &[Unit] = match (asked(Unit::Iops), asked(Unit::BytesPerSecond)) {
        (true, true) => &[Unit::Iops, Unit::BytesPerSecond],
        (true, false) => &[Unit::Iops],
        (false, false) if mean_bytes < 64 << 10 => &[Unit::Iops],
        (false, _) => &[Unit::BytesPerSecond],
    };
    let mut charts: Vec<String> = units
        .iter()
        .enumerate()
        .map(|(nth, &unit)| {
            let limits = limit_lines(&own, unit, merged);
            chart::over_time(&format!("c{index}-{nth}"), measured, unit, &limits)
        })
        .collect();
    let kinds: Vec<_> =
        IoKind::ALL.iter().map(|&kind| (kind, &merged.kinds[kind].latency_ns)).collect();
    charts.push(chart::percentiles(&format!("c{index}-p"), &kinds, &limit_points(&own)));
    charts.retain(|chart| !chart.is_empty());
    charts
}

/// Limits on the rate that the series shows: that of reads and writes together.
fn limit_lines(own: &[&Verdict], unit: Unit, merged: &Measurement) -> Vec<LimitLine> {
    let all = merged.completed(None);
    let shown = |verdict: &&&Verdict| match verdict.evidence.kind {
        Some(kind @ (IoKind::Read | IoKind::Write | IoKind::Trim)) => {
            merged.completed(Some(kind)) == all
        }
        Some(IoKind::Sync) => false,
        None => true,
    };
    let of_unit = own.iter().filter(|verdict| verdict.evidence.unit == unit).filter(shown);
    let lines = of_unit.flat_map(|verdict| {
        let sign = typeset(&verdict.evidence.comparison);
        let finite = verdict.evidence.limits.iter().filter(|limit| limit.is_finite());
        finite.map(move |&value| {
            let label = format!("limit {sign} {}", human_short(value, unit)).replace("  ", " ");
            LimitLine { value, label }
        })
    });
    lines.take(4).collect()
}

fn limit_points(own: &[&Verdict]) -> Vec<LimitPoint> {
    let points = own.iter().filter_map(|verdict| {
        let Evidence { percentile, limits, comparison, .. } = &verdict.evidence;
        let percentile = (*percentile)?;
        let value = *limits.first().filter(|limit| limit.is_finite())?;
        let sign = typeset(comparison);
        let label = format!("{percentile} {sign} {}", human_short(value, Unit::Nanoseconds));
        let label = label.replace("  ", " ");
        let share = f64::from(percentile.0) / f64::from(Percentile::ONE);
        Some(LimitPoint { share, value, label })
    });
    points.take(6).collect()
}

/// By which ways the rounds went, each once.
fn backends(measured: &[&Measurement]) -> Vec<String> {
    let mut said: Vec<String> = Vec::new();
    for round in measured {
        let backend = &round.backend;
        let features = backend.features.join(", ");
        let with = if features.is_empty() { "" } else { " with " };
        let line = safe(&format!("{}{with}{features}: {}", backend.name, backend.why));
        if !said.contains(&line) {
            said.push(line);
        }
    }
    said
}

fn extra(case: &CaseRecord, merged: &Measurement) -> Vec<(&'static str, String)> {
    let mut rows = Vec::new();
    if let (Some(cpu), ios @ 1..) = (merged.cpu, merged.completed(None)) {
        let user = human(cpu.user_ns as f64 / ios as f64, Unit::Nanoseconds);
        let system = human(cpu.system_ns as f64 / ios as f64, Unit::Nanoseconds);
        rows.push(("CPU time per I/O", format!("{user} in the program, {system} in the kernel")));
    }
    rows.extend(merged.verified.as_ref().map(|verified| ("Verified", verification(verified))));
    // Of several streams not all are open loops: those that are say so.
    if let Some(open) = merged.open.as_ref().filter(|_| case.streams.is_empty()) {
        rows.extend(open_loop(open));
    }
    if let (Some(most), Some(share)) = (case.engine_iops_max, case.share_of_engine()) {
        let most = human(most, Unit::Iops);
        let of_it =
            format!("{most} without any disk; this case is at {:.0} % of it", share * 100.0);
        rows.push(("The engine's own limit here", of_it));
    }
    if let Some(device) = merged.device {
        let (read, written) =
            (human_bytes(Bytes(device.read_bytes)), human_bytes(Bytes(device.written_bytes)));
        let busy = device.utilization_percent;
        let counted = format!("{read} read, {written} written, busy {busy:.0} % of the time");
        rows.push(("The device itself counted", counted));
    }
    if merged.short_transfers > 0 {
        let short = format!("{}, finished by asking again", merged.short_transfers);
        rows.push(("Transfers cut short", short));
    }
    rows
}

/// What was held against what had been written, and what could not be.
fn verification(verified: &Verified) -> String {
    let blocks = |count: u64| counted(usize::try_from(count).unwrap_or(usize::MAX), "block");
    let found = match (verified.checked, verified.error_count()) {
        (0, _) => "nothing to hold them against".to_owned(),
        (_, 0) => "all as they were written".to_owned(),
        _ => verified.describe(),
    };
    let unchecked = match verified.unchecked {
        0 => String::new(),
        count => format!("; {} read that had not been written with a stamp", blocks(count)),
    };
    format!("{}: {found}{unchecked}", blocks(verified.checked))
}

/// Where the time of I/Os went that were due at set times, and what was never begun.
fn open_loop(open: &OpenLoop) -> Vec<(&'static str, String)> {
    let told = |histogram: &Histogram| {
        let at = |percentile: u32| histogram.percentile(Percentile(percentile));
        let time = |value: Option<u64>| match value {
            Some(value) => human_short(value as f64, Unit::Nanoseconds),
            None => "none".to_owned(),
        };
        let [p50, p99, max] = [at(500_000), at(990_000), histogram.max()].map(time);
        format!("p50 {p50}, p99 {p99}, max {max}")
    };
    vec![
        ("Latency counts", "from the moment at which an I/O was due".to_owned()),
        ("From start to end", told(&open.service_ns)),
        ("Begun later than due by", told(&open.lateness_ns)),
        ("Never begun", format!("{} of {} that were due", open.dropped, open.due)),
    ]
}

fn balance(what: &'static str, shares: &[Share]) -> Option<BalanceView> {
    let total: u64 = shares.iter().map(|share| share.bytes).sum();
    let most = shares.iter().map(|share| share.bytes).max()?;
    let least = shares.iter().map(|share| share.bytes).min()?;
    if shares.len() < 2 || total == 0 {
        return None;
    }
    let percent = |bytes: u64| format!("{:.1} %", bytes as f64 * 100.0 / total as f64);
    let even = total as f64 / shares.len() as f64 / most as f64;
    let bars = shares.iter().take(SHARES).map(|share| {
        (
            name(&share.name),
            grouped(share.completed),
            percent(share.bytes),
            chart::bar(share.bytes as f64 / most as f64, even),
        )
    });
    Some(BalanceView {
        what,
        summary: format!(
            "{}: {} to {} of the bytes each; an even share is {:.1} %",
            counted(shares.len(), what),
            percent(least),
            percent(most),
            100.0 / shares.len() as f64
        ),
        shares: bars.collect(),
        left: shares.len().saturating_sub(SHARES),
    })
}

/// A row of the table of figures, with its link to the details.
pub(super) fn figures_view(
    case: &CaseRecord,
    merged: &Measurement,
    anchor: Option<usize>,
) -> FiguresView {
    let figures = figures(case.measured().len(), merged);
    let row = |row: facts::KindRow| RowView {
        kind: row.kind.word(),
        samples: grouped(row.samples),
        cells: [row.iops, row.bandwidth, row.mean, row.p50, row.p99, row.p999, row.max],
    };
    FiguresView {
        case: name(&case.id),
        anchor,
        rounds: figures.rounds,
        depth: figures.depth,
        cpu: figures.cpu,
        rows: figures.rows.into_iter().map(row).collect(),
    }
}

/// What a case comes to: the worst of its conditions, and of what else went wrong.
pub(super) fn mark_of(record: &Record, case: &CaseRecord) -> Option<Mark> {
    if !troubles(record, case).is_empty() {
        return Some(Mark::Error);
    }
    let own = record.verdicts.iter().filter(|verdict| verdict.case == case.id).map(Mark::of);
    let warned = (!case.warnings.is_empty()).then_some(Mark::Warning);
    let skipped = (!case.skipped.is_empty()).then_some(Mark::Skipped);
    own.chain(warned).chain(skipped).max()
}
