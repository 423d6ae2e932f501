//! The page: one HTML file without network or script, in the order of a reader's questions.
//!
//! What stands on it is put into plain views here, and `page.html` lays them out with every text
//! escaped. Charts alone come as markup, from [`chart`](super::chart), which escapes its own.

use serde::Serialize;
use tera::{Context, Tera};

use super::chart::{self, LimitLine, LimitPoint};
use super::facts::{
    self, Mark, compared, figures, headline, measured_and_limit, needs_baseline, notices, size,
    spread, troubles, verdicts_worst_first,
};
use super::text::{clipped, counted, elapsed, legible, legible_lines};
use crate::measure::{IoKind, Measurement, Share};
use crate::record::{CaseRecord, Record, Verdict};
use crate::units::{Percentile, Unit, human};

/// The largest page; what a browser on a phone opens without trouble.
const LIMIT: usize = 20 << 20;
/// Longest text of an author that is shown whole, but for the plan itself.
const TEXT: usize = 2_000;
/// Longest plan that is shown whole.
const PLAN: usize = 400_000;
/// Shares that get a bar each.
const SHARES: usize = 32;
/// Up to this many cases all details are open; in a longer list only those with a problem.
const OPEN_CASES: usize = 4;

/// How much goes onto the page: conditions, rows of figures, and cases with details. Tried in
/// turn until the page is within [`LIMIT`]; the last one always is.
const BUDGETS: [(usize, usize, usize); 4] =
    [(5_000, 5_000, 500), (2_000, 2_000, 150), (1_000, 1_000, 40), (500, 500, 0)];

/// The record as a page.
///
/// # Panics
/// Never on a record: only if the template in the source doesn't fit the views.
#[must_use]
pub fn html(record: &Record) -> String {
    let mut tera = Tera::default();
    tera.add_raw_template("page.html", include_str!("page.html"))
        .expect("the template is part of the program and has a test");
    let mut page = String::new();
    for budget in BUDGETS {
        let context = Context::from_serialize(&view(record, budget))
            .expect("views hold text, counts and lists alone");
        page =
            tera.render("page.html", &context).expect("the template names the fields of the views");
        if page.len() <= LIMIT {
            break;
        }
    }
    page
}

/// All of the page.
#[derive(Serialize)]
struct PageView {
    name: String,
    description: Option<String>,
    mark: &'static str,
    sign: &'static str,
    word: &'static str,
    rest: String,
    counts: String,
    notices: Vec<String>,
    facts: Vec<String>,
    conditions: Vec<ConditionView>,
    conditions_left: usize,
    figures: Vec<FiguresView>,
    figures_left: usize,
    cases: Vec<CaseView>,
    cases_left: usize,
    disks: Vec<DiskView>,
    host: Vec<(&'static str, String)>,
    plan_path: String,
    plan_text: String,
    plan_cut: bool,
    rerun: String,
    rerun_failed: Option<String>,
    needs_baseline: bool,
    diskproof: String,
}

#[derive(Serialize)]
struct ConditionView {
    mark: &'static str,
    sign: &'static str,
    case: String,
    /// Number of the case's details, where they are on the page.
    anchor: Option<usize>,
    condition: String,
    why: Option<String>,
    reason: Option<String>,
    measured: Option<String>,
    limit: Option<String>,
    compared: Option<String>,
    spread: Option<String>,
    dots: String,
    line: usize,
}

/// One case in the table of figures.
#[derive(Serialize)]
struct FiguresView {
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
    samples: u64,
    cells: [Option<String>; 7],
}

#[derive(Serialize)]
struct CaseView {
    number: usize,
    id: String,
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

#[derive(Serialize)]
struct DiskView {
    name: String,
    kind: String,
    path: Option<String>,
    size: String,
    filesystem: Option<String>,
    block_device: Option<String>,
    alignment: String,
}

fn view(record: &Record, (conditions, rows, details): (usize, usize, usize)) -> PageView {
    let headline = headline(record);
    // With more cases than have room, those that ask for the reader's eye have details.
    let mut shown: Vec<usize> = (0..record.cases.len()).collect();
    shown.sort_by_key(|&index| std::cmp::Reverse(mark_of(record, &record.cases[index])));
    shown.truncate(details);
    shown.sort_unstable();
    let anchor = |id: &str| shown.iter().copied().find(|&index| record.cases[index].id == id);
    let verdicts = verdicts_worst_first(record);
    let conditions: Vec<_> = verdicts
        .iter()
        .take(conditions)
        .map(|verdict| condition(verdict, anchor(&verdict.case)))
        .collect();
    let measured: Vec<_> =
        record.cases.iter().filter_map(|case| Some((case, case.merged()?))).collect();
    let figures: Vec<_> = measured
        .iter()
        .take(rows)
        .map(|(case, merged)| figures_view(case, merged, anchor(&case.id)))
        .collect();
    let text = &record.plan.text;
    PageView {
        name: safe(&record.plan.name),
        description: record.plan.description.as_deref().map(safe),
        mark: headline.mark.word(),
        sign: headline.mark.sign(),
        word: headline.word,
        rest: headline.rest,
        counts: facts::counts(record),
        notices: notices(record).iter().map(|notice| safe(notice)).collect(),
        facts: page_facts(record),
        conditions_left: verdicts.len() - conditions.len(),
        conditions,
        figures_left: measured.len() - figures.len(),
        figures,
        cases_left: record.cases.len() - shown.len(),
        cases: shown.iter().map(|&index| case_view(record, index)).collect(),
        disks: record.disks.iter().take(rows).map(disk).collect(),
        host: host(record),
        plan_path: safe(&record.plan.path),
        plan_text: clipped(&legible_lines(text), PLAN),
        plan_cut: text.chars().nth(PLAN).is_some(),
        rerun: legible(&facts::rerun(record)),
        rerun_failed: facts::rerun_failed(record).map(|command| legible(&command)),
        needs_baseline: needs_baseline(record),
        diskproof: safe(&record.diskproof),
    }
}

fn page_facts(record: &Record) -> Vec<String> {
    let mut facts = Vec::new();
    facts.extend(
        record.started.as_ref().map(|started| safe(started).replace('T', " ").replace('Z', " UTC")),
    );
    facts.extend(record.elapsed_ms.map(elapsed));
    facts.push(counted(record.cases.len(), "case"));
    let rounds = record.cases.iter().map(|case| case.rounds.len()).sum();
    facts.push(counted(rounds, "round"));
    facts.extend(record.host.as_ref().map(|host| safe(&host.name)));
    facts
}

fn condition(verdict: &Verdict, anchor: Option<usize>) -> ConditionView {
    let mark = Mark::of(verdict);
    let evidence = &verdict.evidence;
    let (measured, limit) = measured_and_limit(verdict);
    let rounds: Vec<f64> = evidence.rounds.iter().flatten().copied().take(64).collect();
    let spread = spread(evidence);
    let title = spread.clone().or(measured.clone()).unwrap_or_default();
    let sign = facts::sign(&verdict.condition);
    ConditionView {
        mark: mark.word(),
        sign: mark.sign(),
        case: safe(&verdict.case),
        anchor,
        condition: safe(&verdict.condition),
        why: verdict.why.as_deref().map(safe),
        reason: evidence.reason.as_deref().map(safe),
        measured,
        limit,
        compared: compared(evidence).map(|text| safe(&text)),
        spread,
        dots: chart::dots(&rounds, &evidence.limits, sign, mark.word(), &title),
        line: verdict.line,
    }
}

fn figures_view(case: &CaseRecord, merged: &Measurement, anchor: Option<usize>) -> FiguresView {
    let figures = figures(case.measured().len(), merged);
    let row = |row: facts::KindRow| RowView {
        kind: row.kind.word(),
        samples: row.samples,
        cells: [row.iops, row.bandwidth, row.mean, row.p50, row.p99, row.p999, row.max],
    };
    FiguresView {
        case: safe(&case.id),
        anchor,
        rounds: figures.rounds,
        depth: figures.depth,
        cpu: figures.cpu,
        rows: figures.rows.into_iter().map(row).collect(),
    }
}

/// What a case comes to: the worst of its conditions, and of what else went wrong.
fn mark_of(record: &Record, case: &CaseRecord) -> Option<Mark> {
    if !troubles(record, case).is_empty() {
        return Some(Mark::Error);
    }
    let own = record.verdicts.iter().filter(|verdict| verdict.case == case.id).map(Mark::of);
    let warned = (!case.warnings.is_empty()).then_some(Mark::Warning);
    let skipped = (!case.skipped.is_empty()).then_some(Mark::Skipped);
    own.chain(warned).chain(skipped).max()
}

fn case_view(record: &Record, index: usize) -> CaseView {
    let case = &record.cases[index];
    let mark = mark_of(record, case);
    let problem = mark.is_some_and(|mark| mark > Mark::Skipped);
    let measured = case.measured();
    let merged = case.merged();
    let mut view = CaseView {
        number: index,
        id: safe(&case.id),
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
        view.extra = extra(&merged);
        view.members = balance("disk", &merged.members);
        view.workers = balance("worker", &merged.workers);
    }
    view
}

fn rounds_text(measured: &[&Measurement]) -> String {
    let seconds: f64 = measured.iter().map(|round| round.duration_ns.as_secs()).sum();
    let each = human(seconds * 1e9 / measured.len() as f64, Unit::Nanoseconds);
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
        (false, true) => &[Unit::BytesPerSecond],
        (false, false) if mean_bytes < 64 << 10 => &[Unit::Iops],
        (false, false) => &[Unit::BytesPerSecond],
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
    let shown = |verdict: &&&Verdict| match verdict.evidence.metric.split_once('.') {
        Some(("read", "iops" | "bandwidth")) => merged.completed(Some(IoKind::Read)) == all,
        Some(("write", "iops" | "bandwidth")) => merged.completed(Some(IoKind::Write)) == all,
        None => true,
        Some(_) => false,
    };
    let of_unit = own.iter().filter(|verdict| verdict.evidence.unit == unit).filter(shown);
    let lines = of_unit.flat_map(|verdict| {
        let sign = facts::sign(&verdict.condition);
        let finite = verdict.evidence.limits.iter().filter(|limit| limit.is_finite());
        finite.map(move |&value| {
            let label = format!("limit {sign} {}", human(value, unit)).replace("  ", " ");
            LimitLine { value, label }
        })
    });
    lines.take(4).collect()
}

fn limit_points(own: &[&Verdict]) -> Vec<LimitPoint> {
    let points = own.iter().filter_map(|verdict| {
        let (_, rank) = verdict.evidence.metric.rsplit_once("latency.p")?;
        let percentile = Percentile::parse(rank).ok()?;
        let value = *verdict.evidence.limits.first().filter(|limit| limit.is_finite())?;
        let sign = facts::sign(&verdict.condition);
        let label = format!("{percentile} {sign} {}", human(value, Unit::Nanoseconds));
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
        let features = match backend.features.is_empty() {
            true => String::new(),
            false => format!(" with {}", backend.features.join(", ")),
        };
        let line = safe(&format!("{}{features}: {}", backend.name, backend.why));
        if !said.contains(&line) {
            said.push(line);
        }
    }
    said
}

fn extra(merged: &Measurement) -> Vec<(&'static str, String)> {
    let mut rows = Vec::new();
    if let (Some(cpu), ios @ 1..) = (merged.cpu, merged.completed(None)) {
        let user = human(cpu.user_ns as f64 / ios as f64, Unit::Nanoseconds);
        let system = human(cpu.system_ns as f64 / ios as f64, Unit::Nanoseconds);
        rows.push(("CPU time per I/O", format!("{user} in the program, {system} in the kernel")));
    }
    if let Some(device) = merged.device {
        let (read, written) = (size(device.read_bytes), size(device.written_bytes));
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
            safe(&share.name),
            share.completed.to_string(),
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

fn disk(disk: &crate::record::DiskRecord) -> DiskView {
    let (offset, memory) = (disk.offset_align_bytes, disk.memory_align_bytes);
    DiskView {
        name: safe(&disk.name),
        kind: safe(&disk.kind),
        path: disk.path.as_deref().map(safe),
        size: size(disk.size_bytes),
        filesystem: disk.filesystem.as_deref().map(safe),
        block_device: disk.block_device.as_deref().map(safe),
        alignment: format!("{offset} B, memory {memory} B"),
    }
}

fn host(record: &Record) -> Vec<(&'static str, String)> {
    let Some(host) = &record.host else { return Vec::new() };
    vec![
        ("Name", safe(&host.name)),
        ("Kernel", safe(&host.kernel)),
        ("Processor", safe(&host.cpu_model)),
        ("Processors for the run", host.cpus.to_string()),
        ("Memory", size(host.memory_bytes)),
    ]
}

/// A text of the author's or the machine's on one line, not endless; the template escapes it.
fn safe(text: &str) -> String {
    clipped(&legible(text), TEXT)
}
