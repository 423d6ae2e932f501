//! The comparison as a Markdown page, which reads well on a terminal too.

use std::fmt::Write;

use super::figures::{Comparison, Figure, Summary};

/// What the columns mean.
const EXPLANATION: &str = "
Medians over the rounds. *By medians* is diskproof's by fio's, *by rounds* the median of the ratios
within each round, *fio by itself* the 10th to 90th percentile of the ratios between two runs of
fio.

";

/// The page: what was compared, and a row for each figure of each pattern.
pub(super) fn markdown(about: &[String], comparisons: &[Comparison]) -> String {
    let mut rows = vec![
        [
            "pattern",
            "figure",
            "fio",
            "diskproof",
            "by medians",
            "by rounds",
            "fio by itself",
            "diskproof is",
        ]
        .map(str::to_owned),
    ];
    for comparison in comparisons {
        for figure in Figure::ALL {
            rows.push(row(comparison.name, figure, &comparison.summary(figure)));
        }
    }
    let mut text = String::from("# diskproof against fio\n\n");
    for line in about {
        text.extend(["- ", line, "\n"]);
    }
    text += EXPLANATION;
    text += &aligned(&rows);
    text
}

fn row(name: &str, figure: Figure, summary: &Summary) -> [String; 8] {
    let value = |value: f64| match figure {
        Figure::Iops => format!("{value:.0}"),
        Figure::Latency | Figure::CpuPerIo => format!("{:.2} us", value / 1e3),
    };
    [
        name.to_owned(),
        figure.name().to_owned(),
        value(summary.fio),
        value(summary.diskproof),
        format!("{:.3}", summary.ratio),
        format!("{:.3}", summary.pairwise),
        format!("{:.3} … {:.3}", summary.spread.0, summary.spread.1),
        summary.standing.words().to_owned(),
    ]
}

/// A table whose columns stand under each other; the first row is the head.
fn aligned<const N: usize>(rows: &[[String; N]]) -> String {
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max();
    let widths: [usize; N] = std::array::from_fn(|column| width(column).unwrap_or(0));
    let mut text = String::new();
    for (index, row) in rows.iter().enumerate() {
        let cells: Vec<_> =
            row.iter().zip(widths).map(|(cell, width)| format!("{cell:<width$}")).collect();
        // Writing to a string can't fail.
        let _ = writeln!(text, "| {} |", cells.join(" | "));
        if index == 0 {
            let rule = widths.map(|width| "-".repeat(width));
            let _ = writeln!(text, "| {} |", rule.join(" | "));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::super::figures::Figures;
    use super::*;

    #[test]
    fn every_figure_of_every_pattern_has_a_row() {
        let figures = Figures { iops: 31_145.8, latency_ns: 31_561.2, cpu_per_io_ns: 9205.0 };
        let mut comparison = Comparison::new("4 KiB random reads, depth 1");
        comparison.add(figures, figures, Figures { iops: 20_000.0, ..figures });
        let text = markdown(&["here".to_owned()], &[comparison]);
        assert!(text.starts_with("# diskproof against fio\n\n- here\n"));
        let rows: Vec<_> = text.lines().filter(|line| line.starts_with('|')).collect();
        assert_eq!(rows.len(), 5);
        assert!(rows[2].contains("| 31146 "), "{}", rows[2]);
        assert!(rows[2].ends_with("| behind       |"), "{}", rows[2]);
        assert!(rows[3].contains("| 31.56 us |"), "{}", rows[3]);
        let width = rows[0].chars().count();
        assert!(rows.iter().all(|row| row.chars().count() == width));
    }
}
