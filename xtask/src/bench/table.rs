//! The comparison as a Markdown page, which reads well on a terminal too.

use std::fmt::Write;

use super::extras::{Amounts, Extra};
use super::figures::{Comparison, Standing};
use super::rows::{Figure, Other};
use super::sides::{Contest, Turn};

/// What the columns mean.
const EXPLANATION: &str = "
Every round runs all programs in turn, each a whole process on one CPU, in an order that changes.
The bare loop has no latencies and no statistics; *fio default* is given the pattern alone, *fio
best* is the fastest of several ways (below), which all record the total latency. What is written
is zeros, made once. Values are medians over the rounds, ratios the medians of diskproof's by the
other's within each round. CPU is user and system time of the whole process without what a run of
5 ms takes; latency is fio's `lat`, from before the submission. *fio by itself* is the 10th to 90th
percentile of a second run with defaults by the first.
";

/// How the rows without a rate are measured.
const BESIDES: &str = "
Instructions are callgrind's of the thread that moves the blocks, of a long run less those of a
short one, by the I/Os between them.
The start is from `execve` to the first measured `pread`, by strace, with the record and the
reports of diskproof on the disk. Memory is the most that `smaps_rollup` told during a run. The
cases are one plan of diskproof and one process of fio for each. Start and cases run on all CPUs,
and there *fio best* is one lean way without a search.
";

/// What came of the rows.
#[derive(Debug, Default)]
pub(super) struct Page {
    /// What was compared, where, with which versions: one line each.
    pub about: Vec<String>,
    /// Rows with a rate, and how their programs ran.
    pub compared: Vec<(Contest, Comparison)>,
    /// Rows without.
    pub extras: Vec<(Extra, Amounts)>,
    /// Names of rows that could not be measured, and why.
    pub missing: Vec<(&'static str, String)>,
}

impl Page {
    /// Whether no target is missed by more than noise.
    pub(super) fn is_good(&self) -> bool {
        !self.standings().contains(&Standing::Missed)
    }

    /// How all targets stand.
    fn standings(&self) -> Vec<Standing> {
        let rows = self.compared.iter().map(|(_, comparison)| comparison);
        let reached = rows.flat_map(|comparison| {
            comparison.row.targets.iter().map(|target| comparison.reached(target).standing)
        });
        let extras = self.extras.iter().map(|(extra, amounts)| of_limit(*extra, amounts));
        reached.chain(extras).collect()
    }

    /// One sentence.
    fn summary(&self) -> String {
        let standings = self.standings();
        let count = |standing| standings.iter().filter(|other| **other == standing).count();
        format!(
            "Targets met: {} of {}; missed within fio's noise: {}; missed: {}. Rows not measured: \
             {}.",
            count(Standing::Met),
            standings.len(),
            count(Standing::WithinNoise),
            count(Standing::Missed),
            self.missing.len()
        )
    }

    /// The whole page.
    pub(super) fn markdown(&self) -> String {
        let mut text = String::from("# The engine beside fio and a bare loop\n\n");
        for line in &self.about {
            text.extend(["- ", line, "\n"]);
        }
        text += EXPLANATION;
        if !self.compared.is_empty() {
            for figure in Figure::ALL {
                // Writing to a string can't fail.
                let _ = write!(text, "\n## {}\n\n{}", title(figure), self.figures(figure));
            }
        }
        text += "\n## Targets\n\n";
        text += &self.targets();
        let _ = writeln!(text, "\n{}", self.summary());
        if !self.extras.is_empty() {
            let _ = write!(text, "\n## Besides\n{BESIDES}\n{}", self.amounts());
        }
        if !self.compared.is_empty() {
            text += "\n## How each ran\n\n";
            text += &self.ways();
        }
        if !self.missing.is_empty() {
            text += "\n## Not measured\n\n";
            for (name, reason) in &self.missing {
                let _ = writeln!(text, "- {name}: not measured: {}", reason.replace('\n', " "));
            }
        }
        text
    }

    fn figures(&self, figure: Figure) -> String {
        let head = ["work", "bare loop", "fio default", "fio best", "diskproof"];
        let ratios = ["by bare loop", "by default", "by best"];
        let mut rows = vec![owned(&[&head[..], &ratios].concat())];
        for (_, comparison) in &self.compared {
            let mut row = vec![comparison.row.name.to_owned()];
            for turn in [Turn::Floor, Turn::Default, Turn::Best, Turn::Diskproof] {
                row.push(value(figure, comparison.median(turn, figure)));
            }
            for other in [Other::Floor, Other::Default, Other::Best] {
                row.push(ratio(comparison.ratio(other, figure)));
            }
            rows.push(row);
        }
        aligned(&rows)
    }

    fn targets(&self) -> String {
        let mut rows = vec![owned(&["work", "target", "reached", "fio by itself", "met"])];
        for (_, comparison) in &self.compared {
            for target in comparison.row.targets {
                let reached = comparison.reached(target);
                rows.push(vec![
                    comparison.row.name.to_owned(),
                    target.to_string(),
                    ratio(reached.ratio),
                    format!("{:.3} … {:.3}", reached.noise.0, reached.noise.1),
                    reached.standing.words().to_owned(),
                ]);
            }
        }
        for (extra, amounts) in &self.extras {
            let met = of_limit(*extra, amounts);
            rows.push(vec![
                extra.name().to_owned(),
                format!("≤ {}", extra.shown(extra.limit())),
                extra.shown(amounts.ours),
                "-".to_owned(),
                met.words().to_owned(),
            ]);
        }
        aligned(&rows)
    }

    fn amounts(&self) -> String {
        let head = ["work", "bare loop", "fio default", "fio best", "diskproof"];
        let mut rows = vec![owned(&head)];
        for (extra, amounts) in &self.extras {
            let shown = |amount: Option<f64>| amount.map_or("-".to_owned(), |a| extra.shown(a));
            rows.push(vec![
                extra.name().to_owned(),
                shown(amounts.floor),
                shown(amounts.default),
                shown(amounts.best),
                extra.shown(amounts.ours),
            ]);
        }
        aligned(&rows)
    }

    fn ways(&self) -> String {
        let mut rows = vec![owned(&["work", "bare loop", "fio default", "fio best"])];
        for (contest, _) in &self.compared {
            rows.push(vec![
                contest.row.name.to_owned(),
                contest.floor.name(),
                contest.default.name.clone(),
                contest.best.name.clone(),
            ]);
        }
        aligned(&rows)
    }
}

fn of_limit(extra: Extra, amounts: &Amounts) -> Standing {
    if amounts.ours <= extra.limit() { Standing::Met } else { Standing::Missed }
}

fn title(figure: Figure) -> &'static str {
    match figure {
        Figure::Iops => "I/Os a second",
        Figure::Latency => "Mean latency",
        Figure::CpuPerIo => "CPU per I/O",
    }
}

fn value(figure: Figure, value: f64) -> String {
    match figure {
        _ if value.is_nan() => "-".to_owned(),
        Figure::Iops if value >= 1e6 => format!("{:.2} M", value / 1e6),
        Figure::Iops => format!("{:.1} k", value / 1e3),
        Figure::Latency | Figure::CpuPerIo => format!("{:.2} us", value / 1e3),
    }
}

fn ratio(ratio: f64) -> String {
    if ratio.is_nan() { "-".to_owned() } else { format!("{ratio:.3}") }
}

/// Cells of their own.
pub(super) fn owned(cells: &[&str]) -> Vec<String> {
    cells.iter().map(|cell| (*cell).to_owned()).collect()
}

/// A table whose columns stand under each other; the first row is the head.
pub(super) fn aligned(rows: &[Vec<String>]) -> String {
    let columns = rows.first().map_or(0, Vec::len);
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max();
    let widths: Vec<_> = (0..columns).map(|column| width(column).unwrap_or(0)).collect();
    let mut text = String::new();
    for (index, row) in rows.iter().enumerate() {
        let cells = row.iter().zip(&widths);
        let cells: Vec<_> = cells.map(|(cell, &width)| format!("{cell:<width$}")).collect();
        // Writing to a string can't fail.
        let _ = writeln!(text, "| {} |", cells.join(" | "));
        if index == 0 {
            let rule: Vec<_> = widths.iter().map(|width| "-".repeat(*width)).collect();
            let _ = writeln!(text, "| {} |", rule.join(" | "));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_stand_under_each_other() {
        let rows = [owned(&["work", "≥"]), owned(&["a", "1.25"])];
        assert_eq!(aligned(&rows), "| work | ≥    |\n| ---- | ---- |\n| a    | 1.25 |\n");
    }

    #[test]
    fn values_have_a_unit_and_none_is_a_dash() {
        assert_eq!(value(Figure::Iops, 3_580_000.0), "3.58 M");
        assert_eq!(value(Figure::Iops, 93_140.0), "93.1 k");
        assert_eq!(value(Figure::CpuPerIo, 2050.0), "2.05 us");
        assert_eq!(value(Figure::Latency, f64::NAN), "-");
    }

    #[test]
    fn a_limit_that_is_passed_fails_and_what_is_missing_is_said() {
        let mut page = Page::default();
        page.missing.push(("/dev/null", "no null disk\nin this build".to_owned()));
        let amounts = |ours| Amounts { default: Some(0.39), ours, ..Amounts::default() };
        page.extras.push((Extra::Start, amounts(0.025)));
        assert!(page.is_good());
        page.extras.push((Extra::Start, amounts(0.026)));
        assert!(!page.is_good());
        page.extras.push((Extra::Plan, amounts(f64::NAN)));
        let text = page.markdown();
        assert!(text.contains(
            "Targets met: 1 of 3; missed within fio's noise: 0; missed: 2. Rows not measured: 1.\n"
        ));
        assert!(text.contains("- /dev/null: not measured: no null disk in this build\n"));
        let met: Vec<_> = text.lines().filter(|line| line.ends_with(" yes |")).collect();
        assert_eq!(met.len(), 1, "{text}");
        assert!(met[0].contains("≤ 25.0 ms | 25.0 ms"), "{}", met[0]);
        assert_eq!(text.lines().filter(|line| line.ends_with(" NO  |")).count(), 2, "{text}");
    }
}
