//! The summary after a run: figures, then verdicts with the worst last, then what to do next.

use std::collections::HashMap;
use std::fmt::Write as _;

use anstyle::{AnsiColor, Effects};

use super::facts::{
    self, Mark, compared, figures, headline, measured_and_limit, notices, spread, untold_troubles,
};
use super::text::{clipped, columns, elapsed, wrapped};
use crate::record::{CaseRecord, Outcome, Record, Verdict};
use crate::units::{Unit, counted, escaped};

/// How the text may look.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Style {
    /// Whether colours are wanted. They never carry a meaning alone.
    pub color: bool,
    /// Columns of the terminal; less than 60 is taken as 60.
    pub width: u16,
}

/// Where the reports of a run were written: what each is, and its path.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ReportPaths(pub Vec<(String, String)>);

/// Cases whose figures are printed; a sweep of more is for the page.
const CASES: usize = 120;
/// Verdicts of one kind that are printed.
const VERDICTS: usize = 200;
/// Troubles of one case that are printed.
const TROUBLES: usize = 9;
/// Longest text of an author that is printed whole.
const TEXT: usize = 600;
/// Column at which text starts behind the status word.
const INDENT: usize = 14;

/// The summary of a run, ending with the commands that come next.
#[must_use]
pub fn terminal(record: &Record, style: Style, paths: &ReportPaths) -> String {
    let mut page = Page { out: String::new(), style, width: usize::from(style.width.max(60)) };
    page.title(record);
    page.figures(record);
    page.line("");
    page.verdicts(record);
    page.summary(record, paths);
    page.out
}

/// The text so far.
struct Page {
    out: String,
    style: Style,
    width: usize,
}

impl Page {
    fn title(&mut self, record: &Record) {
        let name = safe(&record.plan.name);
        let title = match &record.plan.description {
            Some(description) => format!("{name}: {}", safe(description)),
            None => name,
        };
        for line in wrapped(&title, self.width) {
            let line = self.styled(&line, Effects::BOLD, None);
            self.line(&line);
        }
        for notice in notices(record) {
            self.paragraph(0, &safe(&notice));
        }
    }

    /// A row for each kind of I/O under a line for each case, and for each stream behind its case.
    fn figures(&mut self, record: &Record) {
        let record = &*record.with_streams_as_cases();
        let measured: Vec<_> =
            record.cases.iter().filter_map(|case| Some((case, case.merged()?))).collect();
        if measured.is_empty() {
            return;
        }
        let heads = ["IOPS", "bandwidth", "mean", "p50", "p99", "p99.9", "max"];
        self.line("");
        let rounds = measured[0].0.measured().len();
        let alike = measured.iter().all(|(case, _)| case.measured().len() == rounds);
        let head = if alike { counted(rounds, "round") } else { String::new() };
        let head = row(&head, heads.map(str::to_owned));
        let head = self.styled(&head, Effects::DIMMED, None);
        self.line(&head);
        for (case, merged) in measured.iter().take(CASES) {
            let figures = figures(case.measured().len(), merged);
            self.case_line(case, &figures, !alike);
            for kind in figures.rows {
                let cells =
                    [kind.iops, kind.bandwidth, kind.mean, kind.p50, kind.p99, kind.p999, kind.max];
                self.line(&row(kind.kind.word(), cells.map(|cell| cell.unwrap_or("-".to_owned()))));
            }
        }
        if let Some(more) = measured.len().checked_sub(CASES).filter(|more| *more > 0) {
            self.line(&format!("  ... and {}; the page has them", counted(more, "more case")));
        }
    }

    fn case_line(&mut self, case: &CaseRecord, figures: &facts::Figures, rounds: bool) {
        let mut right = format!("depth {}", figures.depth);
        if let Some(cpu) = &figures.cpu {
            let _ = write!(right, "  CPU {cpu}");
        }
        if rounds {
            let _ = write!(right, "  {}", counted(figures.rounds, "round"));
        }
        let lines = wrapped(&safe(&case.id), self.width - 2);
        let (last, before) = lines.split_last().expect("wrapping gives a line at least");
        for line in before {
            let line = self.styled(line, Effects::BOLD, None);
            self.line(&format!("  {line}"));
        }
        let room = TABLE.saturating_sub(2 + columns(last));
        let name = self.styled(last, Effects::BOLD, None);
        if room >= columns(&right) + 2 {
            let gap = " ".repeat(room - columns(&right));
            self.line(&format!("  {name}{gap}{right}"));
        } else {
            self.line(&format!("  {name}"));
            self.line(&format!("{right:>TABLE$}"));
        }
    }

    /// Every verdict by its kind, the kinds that matter most last.
    fn verdicts(&mut self, record: &Record) {
        for mark in
            [Mark::Pass, Mark::Skipped, Mark::Warning, Mark::Inconclusive, Mark::Error, Mark::Fail]
        {
            let group = record.verdicts.iter().filter(|verdict| Mark::of(verdict) == mark);
            self.group(record, mark, &group.collect::<Vec<_>>());
            match mark {
                Mark::Warning => self.warnings(record),
                Mark::Error => self.troubles(record),
                _ => {}
            }
        }
    }

    /// The verdicts of one kind: each case once, with its conditions under it.
    fn group(&mut self, record: &Record, mark: Mark, group: &[&Verdict]) {
        let shown = group.len().min(VERDICTS);
        for (case, verdicts) in by_case(&group[..shown]) {
            self.status(mark, &safe(case));
            for (index, verdict) in verdicts.iter().enumerate() {
                self.condition(verdict, mark);
                if mark == Mark::Pass {
                    continue;
                }
                // A reason that several conditions share stands once, under the last of them.
                let reason = facts::reason(record, verdict);
                let next = verdicts.get(index + 1).map(|next| facts::reason(record, next));
                let last = next.is_none_or(|next| next != reason);
                self.ground(record, verdict, reason.filter(|_| last));
            }
        }
        if group.len() > shown {
            self.status(mark, &format!("... and {} more; the page has them", group.len() - shown));
        }
    }

    fn warnings(&mut self, record: &Record) {
        let warned = record.cases.iter().filter(|case| !case.warnings.is_empty());
        for case in warned.take(VERDICTS) {
            self.status(Mark::Warning, &safe(&case.id));
            for warning in &case.warnings {
                self.paragraph(INDENT, &safe(warning));
            }
        }
    }

    /// A condition as written, and what was measured. One that holds needs no more than that.
    fn condition(&mut self, verdict: &Verdict, mark: Mark) {
        let (measured, _) = measured_and_limit(verdict);
        let mut right = measured.unwrap_or("-".to_owned());
        if mark == Mark::Pass
            && let Some(ratio) = facts::figure(verdict.evidence.ratio, Unit::Ratio)
        {
            let _ = write!(right, ", {ratio}");
        }
        self.pair(&safe(&verdict.condition), &right);
    }

    /// What a verdict stands on, for a reader who has to look at it.
    fn ground(&mut self, record: &Record, verdict: &Verdict, reason: Option<String>) {
        const UNDER: usize = INDENT + 2;
        if verdict.outcome != Outcome::Skipped {
            // A limit that the author wrote stands in the condition; one that was worked out
            // doesn't, nor one in the digits that tell it from what was measured.
            let (_, limit) = measured_and_limit(verdict);
            let is_news = verdict.evidence.reference.is_some() || facts::blurred(verdict);
            let limit = limit.filter(|_| is_news);
            let limit = limit.map(|limit| format!("limit {limit}"));
            let compared = compared(&verdict.evidence).map(|compared| safe(&compared));
            let facts = limit.into_iter().chain(compared).chain(spread(&verdict.evidence));
            self.paragraph(UNDER, &facts.collect::<Vec<_>>().join("; "));
        }
        if let Some(reason) = reason {
            self.paragraph(UNDER, &safe(&reason));
        }
        if verdict.outcome == Outcome::Skipped {
            return;
        }
        if let Some(why) = &verdict.why {
            self.paragraph(UNDER, &format!("expected because {}", safe(why)));
        }
        let place = format!("{}:{}", safe(&record.plan.path), verdict.line);
        for line in wrapped(&place, self.width - UNDER) {
            let line = self.styled(&line, Effects::DIMMED, None);
            self.line(&format!("{:UNDER$}{line}", ""));
        }
    }

    /// Cases that went wrong, whether a condition was put on them or not; what stands above as
    /// the reason of a verdict is not said again.
    fn troubles(&mut self, record: &Record) {
        for case in &record.cases {
            let troubles = untold_troubles(record, case);
            if troubles.is_empty() {
                continue;
            }
            self.status(Mark::Error, &safe(&case.id));
            for trouble in troubles.iter().take(TROUBLES) {
                self.paragraph(INDENT, &safe(trouble));
            }
            if let Some(more) = troubles.len().checked_sub(TROUBLES).filter(|more| *more > 0) {
                self.paragraph(INDENT, &format!("... and {more} more"));
            }
        }
    }

    fn summary(&mut self, record: &Record, paths: &ReportPaths) {
        let headline = headline(record);
        self.line("");
        let word = self.mark_styled(&format!("{:>12}", headline.word), headline.mark);
        let rest = wrapped(&headline.rest, self.width - INDENT);
        self.line(&format!("{word}  {}", rest[0]));
        rest[1..].iter().for_each(|line| self.line(&format!("{:INDENT$}{line}", "")));
        let mut counts = facts::counts(record);
        if let Some(milliseconds) = record.elapsed_ms {
            let _ = write!(counts, "; {}", elapsed(milliseconds));
        }
        self.paragraph(INDENT, &counts);
        for (what, path) in &paths.0 {
            self.command(&safe(what), &safe(path));
        }
        if let Some(rerun) = facts::rerun_failed(record) {
            self.command("rerun", &rerun);
        }
    }

    /// The status word in its column, and a text behind it.
    fn status(&mut self, mark: Mark, text: &str) {
        let word = format!("{:>12}", mark.word().to_uppercase());
        let word = self.mark_styled(&word, mark);
        let lines = wrapped(text, self.width - INDENT);
        let first = self.styled(&lines[0], Effects::BOLD, None);
        self.line(&format!("{word}  {first}"));
        for line in &lines[1..] {
            let line = self.styled(line, Effects::BOLD, None);
            self.line(&format!("{:INDENT$}{line}", ""));
        }
    }

    /// A text at the left, a figure at the right edge of the table, on one line where they fit.
    fn pair(&mut self, left: &str, right: &str) {
        let edge = self.width.min(TABLE);
        let room = edge.saturating_sub(INDENT + columns(left));
        if room >= columns(right) + 2 {
            let gap = " ".repeat(room - columns(right));
            self.line(&format!("{:INDENT$}{left}{gap}{right}", ""));
        } else {
            self.paragraph(INDENT, left);
            self.line(&format!("{}{right}", " ".repeat(edge.saturating_sub(columns(right)))));
        }
    }

    fn paragraph(&mut self, indent: usize, text: &str) {
        for line in wrapped(text, self.width - indent).iter().filter(|line| !line.is_empty()) {
            self.line(&format!("{:indent$}{line}", ""));
        }
    }

    /// Something to copy: never broken, since a broken path or command can't be pasted.
    fn command(&mut self, what: &str, text: &str) {
        self.line(&format!("{what:>12}  {text}"));
    }

    fn line(&mut self, text: &str) {
        self.out.push_str(text.trim_end());
        self.out.push('\n');
    }

    fn mark_styled(&self, text: &str, mark: Mark) -> String {
        let color = match mark {
            Mark::Pass => AnsiColor::Green,
            Mark::Skipped => AnsiColor::Cyan,
            Mark::Warning | Mark::Inconclusive => AnsiColor::Yellow,
            Mark::Error | Mark::Fail => AnsiColor::Red,
        };
        self.styled(text, Effects::BOLD, Some(color))
    }

    fn styled(&self, text: &str, effects: Effects, color: Option<AnsiColor>) -> String {
        if !self.style.color || text.is_empty() {
            return text.to_owned();
        }
        let style = anstyle::Style::new().effects(effects).fg_color(color.map(Into::into));
        format!("{style}{text}{style:#}")
    }
}

/// Width of the table of figures; everything that is set to the right is set to this edge.
const TABLE: usize = 77;

/// Verdicts by their case, cases in the order in which they come first.
fn by_case<'v>(verdicts: &[&'v Verdict]) -> Vec<(&'v str, Vec<&'v Verdict>)> {
    let mut places = HashMap::new();
    let mut cases: Vec<(&str, Vec<&Verdict>)> = Vec::new();
    for verdict in verdicts {
        let case = verdict.case.as_str();
        let place = *places.entry(case).or_insert(cases.len());
        if place == cases.len() {
            cases.push((case, Vec::new()));
        }
        cases[place].1.push(verdict);
    }
    cases
}

/// One row of figures.
fn row(head: &str, cells: [String; 7]) -> String {
    let [iops, bandwidth, mean, p50, p99, p999, max] = cells;
    format!(
        "    {head:<9} {iops:>6}  {bandwidth:>10}  {mean:>7}  {p50:>7}  {p99:>7}  {p999:>7}  \
         {max:>7}"
    )
}

/// A text of the author's, harmless and not endless.
fn safe(text: &str) -> String {
    clipped(&escaped(text), TEXT)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_is_as_wide_as_the_table() {
        let cells = ["999k", "1023 MiB/s", "9.99 ms", "", "", "", "99.9 ms"].map(str::to_owned);
        assert_eq!(columns(&row("write", cells)), TABLE);
    }
}
