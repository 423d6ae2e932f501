//! A summary in GitHub's Markdown, for the step summary of a pipeline: below its limit of
//! 1 MiB whatever the record holds, and without charts, which it doesn't show.

use std::fmt::Write as _;

use super::facts::{
    self, Mark, compared, figures, headline, measured_and_limit, notices, spread, untold_troubles,
    verdicts_worst_first,
};
use super::text::{clipped, elapsed};
use crate::record::{Record, Verdict};
use crate::units::{counted, escaped};

/// Bytes of the whole; an upload of more than 1 MiB is thrown away.
const LIMIT: usize = 1_000_000;
/// Bytes after which each of the parts ends with a count of what is left out.
const DETAILS_END: usize = 300_000;
const CONDITIONS_END: usize = 600_000;
const FIGURES_END: usize = 900_000;
/// Longest text of an author.
const TEXT: usize = 600;

/// The record as a summary.
#[must_use]
pub fn markdown(record: &Record) -> String {
    let mut out = String::new();
    let headline = headline(record);
    let _ = writeln!(out, "## {}\n", text(&record.plan.name));
    let _ = writeln!(out, "**{} {}:** {}\n", headline.mark.sign(), headline.word, headline.rest);
    let mut line = facts::counts(record);
    if let Some(milliseconds) = record.elapsed_ms {
        let _ = write!(line, "; {}", elapsed(milliseconds));
    }
    let _ = writeln!(out, "{line}\n");
    if let Some(description) = &record.plan.description {
        let _ = writeln!(out, "{}\n", text(description));
    }
    for notice in notices(record) {
        let _ = writeln!(out, "> {}\n", text(&notice));
    }
    details(&mut out, record);
    conditions(&mut out, record);
    figures_table(&mut out, record);
    footer(&mut out, record);
    debug_assert!(out.len() < LIMIT, "the parts have their own ends, far below the limit");
    out
}

/// What a reader has to look at, each with its ground.
fn details(out: &mut String, record: &Record) {
    let remarkable: Vec<_> = verdicts_worst_first(record)
        .into_iter()
        .filter(|verdict| !matches!(Mark::of(verdict), Mark::Pass | Mark::Skipped))
        .collect();
    let troubled = record.cases.iter().map(|case| (case, untold_troubles(record, case)));
    let troubled: Vec<_> = troubled.filter(|(_, troubles)| !troubles.is_empty()).collect();
    if remarkable.is_empty() && troubled.is_empty() {
        return;
    }
    out.push_str("### To look at\n\n");
    let mut items: Vec<String> =
        remarkable.into_iter().map(|verdict| item(record, verdict)).collect();
    items.extend(troubled.into_iter().map(|(case, troubles)| {
        let said: Vec<_> = troubles.iter().take(8).map(|trouble| text(trouble)).collect();
        format!("- **error** {}\n  {}\n", code(&case.id), said.join("; "))
    }));
    push_all(out, &items, DETAILS_END, |more| format!("- and {more} more in the record\n"));
    out.push('\n');
}

fn item(record: &Record, verdict: &Verdict) -> String {
    let (measured, limit) = measured_and_limit(verdict);
    let mut facts = vec![match measured {
        Some(measured) => format!("measured **{measured}**"),
        None => "nothing measured".to_owned(),
    }];
    facts.extend(limit.map(|limit| format!("limit {}", text(&limit))));
    facts.extend(compared(&verdict.evidence).map(|compared| text(&compared)));
    facts.extend(spread(&verdict.evidence));
    let mut lines = vec![facts.join("; ")];
    lines.extend(facts::reason(record, verdict).map(|reason| text(&reason)));
    lines.extend(verdict.why.as_ref().map(|why| format!("expected because {}", text(why))));
    lines.push(code(&format!("{}:{}", record.plan.path, verdict.line)));
    format!(
        "- **{}** {} {}\n  {}\n",
        Mark::of(verdict).word(),
        code(&verdict.case),
        code(&verdict.condition),
        lines.join("<br>")
    )
}

fn conditions(out: &mut String, record: &Record) {
    if record.verdicts.is_empty() {
        return;
    }
    out.push_str("### Conditions\n\n| | case | condition | measured | limit | compared with |\n");
    out.push_str("| --- | --- | --- | ---: | ---: | --- |\n");
    let rows: Vec<String> = verdicts_worst_first(record)
        .into_iter()
        .map(|verdict| {
            let (measured, limit) = measured_and_limit(verdict);
            let mark = Mark::of(verdict);
            format!(
                "| {} {} | {} | {} | {} | {} | {} |\n",
                mark.sign(),
                mark.word(),
                code(&verdict.case),
                code(&verdict.condition),
                cell(measured),
                cell(limit),
                cell(compared(&verdict.evidence))
            )
        })
        .collect();
    push_all(out, &rows, CONDITIONS_END, |more| {
        format!("| | and {more} more in the record | | | | |\n")
    });
    out.push('\n');
}

fn figures_table(out: &mut String, record: &Record) {
    let record = &*record.with_streams_as_cases();
    let mut rows = Vec::new();
    for case in &record.cases {
        let Some(merged) = case.merged() else { continue };
        let figures = figures(case.measured().len(), &merged);
        for row in figures.rows {
            let cells = [row.iops, row.bandwidth, row.mean, row.p50, row.p99, row.p999, row.max];
            rows.push(format!(
                "| {} | {} | {} | {} | {} |\n",
                code(&case.id),
                row.kind.word(),
                cells.map(cell).join(" | "),
                figures.depth,
                cell(figures.cpu.clone())
            ));
        }
    }
    if rows.is_empty() {
        return;
    }
    out.push_str("### Figures\n\n");
    out.push_str("| case | | IOPS | bandwidth | mean | p50 | p99 | p99.9 | max | depth | CPU |\n");
    out.push_str("| --- | --- |");
    out.push_str(&" ---: |".repeat(9));
    out.push('\n');
    push_all(out, &rows, FIGURES_END, |more| {
        format!("| and {more} more in the record |{}\n", " |".repeat(10))
    });
    out.push('\n');
}

fn footer(out: &mut String, record: &Record) {
    if let Some(rerun) = facts::rerun_failed(record).filter(|rerun| rerun.len() < 20_000) {
        // A fence longer than any within: what stands in it can't end it.
        let longest = rerun.split(|c| c != '`').map(str::len).max().unwrap_or(0);
        let fence = "`".repeat(longest.max(2) + 1);
        let _ = writeln!(out, "Run again only what didn't pass:\n\n{fence}sh\n{rerun}\n{fence}\n");
    }
    let mut words = vec![format!("diskproof {}", text(&record.diskproof))];
    words.push(counted(record.cases.len(), "case"));
    words.extend(record.started.iter().map(|started| text(started)));
    words.extend(record.host.iter().map(|host| {
        format!("{}, {}, kernel {}", text(&host.name), text(&host.cpu_model), text(&host.kernel))
    }));
    let _ = writeln!(out, "<sub>{}</sub>", words.join("; "));
}

/// Appends as many parts as fit below `end` bytes of the whole, and then what `rest` says of the
/// others.
fn push_all(out: &mut String, parts: &[String], end: usize, rest: impl Fn(usize) -> String) {
    for (index, part) in parts.iter().enumerate() {
        if out.len() + part.len() > end {
            out.push_str(&rest(parts.len() - index));
            return;
        }
        out.push_str(part);
    }
}

fn cell(value: Option<String>) -> String {
    value.map_or_else(|| "\u{2013}".to_owned(), |value| text(&value))
}

/// A text of the author's as text: whatever Markdown or HTML would make of a sign is undone.
fn text(value: &str) -> String {
    let mut out = String::new();
    let value = clipped(&escaped(value), TEXT);
    let mut before = ' ';
    let mut signs = value.chars().peekable();
    while let Some(c) = signs.next() {
        let after = signs.peek().copied().unwrap_or(' ');
        match c {
            // What would begin a list or a rule.
            '-' | '+' | '=' if out.is_empty() => {
                let _ = write!(out, "&#{};", u32::from(c));
            }
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            // Within a word it is a letter.
            '_' if before.is_alphanumeric() && after.is_alphanumeric() => out.push(c),
            // As a reference, since a backslash before a pipe is undone by tables alone; the at
            // sign, since it would call a person, and the number sign, which would link an issue.
            '|' | '`' | '*' | '_' | '~' | '[' | ']' | '\\' | '@' | '#' | '$' => {
                let _ = write!(out, "&#{};", u32::from(c));
            }
            c => out.push(c),
        }
        before = c;
    }
    out
}

/// A name in the type of code. As HTML, in which references work: in backticks they don't.
fn code(value: &str) -> String {
    format!("<code>{}</code>", text(value))
}
