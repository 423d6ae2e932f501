//! The page.

use std::fmt::Write;

use super::super::table::{aligned, owned};
use super::figures::{Compared, Figure, Round, Standing, compare};

/// What the columns mean.
const EXPLANATION: &str = "
Every round runs fio, fio again and diskproof, in an order that changes, each a whole process in a
control group whose reads, and whose writes, the kernel caps (blk-throttle). Values are medians
over the rounds, of both runs for fio; *ratio* is diskproof's by fio's; *fio by itself* is the 10th
to 90th percentile of a second run by the first. Reads and writes are taken together, and latency is
total latency (fio's `lat`), since by a ring fio's completion latency begins only when the
submitting call has returned.

*fio* is from its log of every I/O, of those that came back within the time, which is what diskproof
counts. *Its summary* is what it prints: it counts what it waits for after the end too, up to the
depth more I/Os, and its percentiles are the middles of buckets up to 1.6 % wide. Those of diskproof
are the upper edges of buckets up to 0.4 % wide.

The kernel deals a cap out in slices of 100 ms: it lets a tenth of a second's I/Os through at once,
and what comes then waits for the next slice. So latencies are those of the device itself, or about
100 ms. A percentile that falls among the former is *not the cap's*: program and processor decide
it, and nothing is asked of it.
";

/// What came of all rows.
#[derive(Debug)]
pub(super) struct Page {
    /// What was compared: one line each.
    pub about: Vec<String>,
    /// Rows with their rounds.
    pub rows: Vec<(&'static str, Vec<Round>)>,
}

impl Page {
    /// Whether nothing differs.
    pub(super) fn is_good(&self) -> bool {
        self.count(Standing::Differs) == 0
    }

    fn count(&self, standing: Standing) -> usize {
        let all = self.rows.iter().flat_map(|(_, rounds)| {
            Figure::ALL.into_iter().map(|figure| compare(rounds, figure).standing)
        });
        all.filter(|other| *other == standing).count()
    }

    /// The whole page.
    pub(super) fn markdown(&self) -> String {
        let mut text = String::from("# Agreement with fio on a capped disk\n\n");
        for line in &self.about {
            text.extend(["- ", line, "\n"]);
        }
        text += EXPLANATION;
        let head = ["load", "figure", "fio", "its summary", "diskproof", "ratio", "fio by itself"];
        let mut lines = vec![owned(&[&head[..], &["within 3 %"]].concat())];
        for (name, rounds) in &self.rows {
            for figure in Figure::ALL {
                lines.push(line(name, figure, &compare(rounds, figure)));
            }
        }
        text.extend(["\n", &aligned(&lines)]);
        // Writing to a string can't fail.
        let _ = writeln!(
            text,
            "\nWithin 3 %: {}; not, but fio is as far from itself: {}; not: {}; not the cap's: {}.",
            self.count(Standing::Agrees),
            self.count(Standing::WithinNoise),
            self.count(Standing::Differs),
            self.count(Standing::NotOfTheCap)
        );
        text
    }
}

fn line(name: &str, figure: Figure, compared: &Compared) -> Vec<String> {
    let shown = |value: f64| match figure {
        Figure::Iops => format!("{value:.1}"),
        _ if value >= 1e6 => format!("{:.2} ms", value / 1e6),
        _ => format!("{:.1} us", value / 1e3),
    };
    vec![
        name.to_owned(),
        figure.name().to_owned(),
        shown(compared.fio),
        shown(compared.summary),
        shown(compared.ours),
        format!("{:.3}", compared.ours / compared.fio),
        format!("{:.3} … {:.3}", compared.noise.0, compared.noise.1),
        compared.standing.words().to_owned(),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_counts_what_differs() {
        let fio = [[1e8; 5]; 2];
        let same = Round { fio, summary: fio, ours: [1e8; 5] };
        let other = Round { ours: [1.1e8; 5], ..same };
        let page = |round: Round| Page { about: vec![], rows: vec![("row", vec![round; 3])] };
        assert!(page(same).is_good() && page(same).markdown().contains("Within 3 %: 5;"));
        assert!(!page(other).is_good() && page(other).markdown().contains("; not: 5;"));
    }
}
