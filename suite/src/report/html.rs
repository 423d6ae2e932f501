//! The page: one HTML file without network or script, in the order of a reader's questions.
//!
//! What stands on it is put into plain views here, and `page.html` lays them out with every text
//! escaped. Charts and names with places to break alone come as markup, from
//! [`chart`], which escapes what is in them.

use serde::Serialize;
use tera::{Context, Tera};

use super::chart;
use super::detail::{CaseView, FiguresView, case_view, figures_view, mark_of};
use super::facts::{
    self, Mark, compared, headline, measured_and_limit, notices, spread, verdicts_worst_first,
};
use super::text::{clipped, elapsed};
use crate::record::{Evidence, Record, Verdict};
use crate::units::{Bytes, counted, escaped, escaped_lines, human_bytes};

/// The largest page; what a browser on a phone opens without trouble.
const LIMIT: usize = 20 << 20;
/// Longest text of an author that is shown whole, but for the plan itself.
const TEXT: usize = 2_000;
/// Longest plan that is shown whole.
const PLAN: usize = 400_000;

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
    any_compared: bool,
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
    diskproof: String,
}

#[derive(Serialize)]
struct ConditionView {
    mark: &'static str,
    sign: &'static str,
    /// Markup, as are all names.
    case: String,
    /// Number of the case's details, where they are on the page.
    anchor: Option<usize>,
    condition: String,
    why: Option<String>,
    reason: Option<String>,
    measured: Option<String>,
    limit: Option<String>,
    compared: Option<String>,
    range: Option<String>,
    dots: String,
    line: usize,
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
    // Streams have figures and details of their own behind those of their case.
    let all = &*record.with_streams_as_cases();
    // With more cases than have room, those that ask for the reader's eye have details.
    let mut shown: Vec<usize> = (0..all.cases.len()).collect();
    shown.sort_by_cached_key(|&index| std::cmp::Reverse(mark_of(all, &all.cases[index])));
    shown.truncate(details);
    shown.sort_unstable();
    let anchor = |id: &str| shown.iter().copied().find(|&index| all.cases[index].id == id);
    let verdicts = verdicts_worst_first(record);
    let conditions: Vec<_> = verdicts
        .iter()
        .take(conditions)
        .map(|verdict| condition(record, verdict, anchor(&verdict.case)))
        .collect();
    let measured: Vec<_> =
        all.cases.iter().filter_map(|case| Some((case, case.merged()?))).collect();
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
        any_compared: conditions.iter().any(|row| row.compared.is_some()),
        conditions_left: verdicts.len() - conditions.len(),
        conditions,
        figures_left: measured.len() - figures.len(),
        figures,
        cases_left: all.cases.len() - shown.len(),
        cases: shown.iter().map(|&index| case_view(all, index)).collect(),
        disks: record.disks.iter().take(rows).map(disk).collect(),
        host: host(record),
        plan_path: safe(&record.plan.path),
        plan_text: clipped(&escaped_lines(text), PLAN),
        plan_cut: text.chars().nth(PLAN).is_some(),
        rerun: escaped(&facts::rerun(record)),
        rerun_failed: facts::rerun_failed(record).map(|command| escaped(&command)),
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
    let rounds = record.cases.iter().map(|case| case.measured().len()).sum();
    facts.push(counted(rounds, "round"));
    facts.extend(record.host.as_ref().map(|host| safe(&host.name)));
    facts
}

fn condition(record: &Record, verdict: &Verdict, anchor: Option<usize>) -> ConditionView {
    let mark = Mark::of(verdict);
    let evidence = &verdict.evidence;
    let Evidence { limits, comparison, .. } = evidence;
    let (measured, limit) = measured_and_limit(verdict);
    let rounds: Vec<f64> = evidence.rounds.iter().flatten().copied().take(64).collect();
    let title = spread(evidence).or(measured.clone()).unwrap_or_default();
    ConditionView {
        mark: mark.word(),
        sign: mark.sign(),
        case: name(&verdict.case),
        anchor,
        condition: safe(&verdict.condition),
        why: verdict.why.as_deref().map(safe),
        reason: facts::reason(record, verdict).map(|reason| safe(&reason)),
        measured,
        limit: limit.map(|limit| typeset(&limit)),
        compared: compared(evidence).map(|text| name(&text)),
        range: facts::range(evidence).map(|(low, high)| range_text(&low, &high)),
        dots: chart::dots(&rounds, limits, comparison, mark.word(), &title),
        line: verdict.line,
    }
}

fn disk(disk: &crate::record::DiskRecord) -> DiskView {
    let (offset, memory) = (disk.offset_align_bytes, disk.memory_align_bytes);
    DiskView {
        name: name(&disk.name),
        kind: safe(&disk.kind),
        path: disk.path.as_deref().map(name),
        size: human_bytes(Bytes(disk.size_bytes)),
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
        ("Memory", human_bytes(Bytes(host.memory_bytes))),
    ]
}

/// A text of the author's or the machine's on one line, not endless; the template escapes it.
pub(super) fn safe(text: &str) -> String {
    clipped(&escaped(text), TEXT)
}

/// The same as markup that breaks where a name has its joints.
pub(super) fn name(text: &str) -> String {
    chart::breakable(&clipped(text, TEXT))
}

/// Signs as a page can set them.
pub(super) fn typeset(text: &str) -> String {
    text.replace("<=", "\u{2264}").replace(">=", "\u{2265}")
}

fn range_text(low: &str, high: &str) -> String {
    match (low.split_once(' '), high.split_once(' ')) {
        _ if low == high => format!("all {low}"),
        (Some((number, unit)), Some((_, same))) if unit == same => {
            format!("{number} \u{2013} {high}")
        }
        _ => format!("{low} \u{2013} {high}"),
    }
}
