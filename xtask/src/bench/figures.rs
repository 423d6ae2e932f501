//! What is compared, and when diskproof is as good as fio.

/// A difference of the medians that is none.
const TOLERANCE: f64 = 0.05;

/// What one run measured.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct Figures {
    /// I/Os a second.
    pub iops: f64,
    /// Mean latency from before the submission to after the completion.
    pub latency_ns: f64,
    /// Processor time of program and kernel for one I/O.
    pub cpu_per_io_ns: f64,
}

/// One of the figures.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Figure {
    Iops,
    Latency,
    CpuPerIo,
}

impl Figure {
    /// All, in the table's order.
    pub(super) const ALL: [Self; 3] = [Self::Iops, Self::Latency, Self::CpuPerIo];

    /// Its name in the table.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Iops => "IOPS",
            Self::Latency => "mean latency",
            Self::CpuPerIo => "CPU per I/O",
        }
    }

    fn of(self, figures: &Figures) -> f64 {
        match self {
            Self::Iops => figures.iops,
            Self::Latency => figures.latency_ns,
            Self::CpuPerIo => figures.cpu_per_io_ns,
        }
    }

    fn more_is_better(self) -> bool {
        self == Self::Iops
    }

    /// Whether being behind in it fails the comparison. Processor time is shown alone: fio takes
    /// it from the resource use of its process, which has another beginning and end.
    fn decides(self) -> bool {
        self != Self::CpuPerIo
    }
}

/// All rounds of one pattern.
#[derive(Debug)]
pub(super) struct Comparison {
    /// The pattern's name.
    pub name: &'static str,
    /// fio, fio again, diskproof, of each round.
    rounds: Vec<[Figures; 3]>,
}

/// What the rounds come to for one figure.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Summary {
    /// Median of fio's first run in each round.
    pub fio: f64,
    /// Median of diskproof's.
    pub diskproof: f64,
    /// diskproof's median by fio's.
    pub ratio: f64,
    /// Median of the ratios in each round.
    pub pairwise: f64,
    /// The 10th and the 90th percentile of fio's second run by its first in each round.
    pub spread: (f64, f64),
    /// What that means.
    pub standing: Standing,
}

/// How diskproof stands beside fio.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Standing {
    /// More IOPS, less time.
    Better,
    /// The medians are within 5 % of each other.
    WithinTolerance,
    /// The ratio is one that fio shows against itself.
    WithinSpread,
    /// None of these.
    Behind,
}

impl Standing {
    /// In words.
    pub(super) fn words(self) -> &'static str {
        match self {
            Self::Better => "better",
            Self::WithinTolerance => "within 5 %",
            Self::WithinSpread => "within fio's own spread",
            Self::Behind => "behind",
        }
    }
}

impl Comparison {
    /// One without rounds.
    pub(super) fn new(name: &'static str) -> Self {
        Self { name, rounds: Vec::new() }
    }

    /// Adds a round.
    pub(super) fn add(&mut self, fio: Figures, fio_again: Figures, diskproof: Figures) {
        self.rounds.push([fio, fio_again, diskproof]);
    }

    /// Whether diskproof is behind in nothing that decides.
    pub(super) fn is_good(&self) -> bool {
        let deciding = Figure::ALL.into_iter().filter(|figure| figure.decides());
        deciding.map(|figure| self.summary(figure)).all(|s| s.standing != Standing::Behind)
    }

    /// What the rounds come to for one figure.
    pub(super) fn summary(&self, figure: Figure) -> Summary {
        let all = |of: fn(&[Figures; 3]) -> (Figures, Figures)| -> Vec<f64> {
            let pairs = self.rounds.iter().map(of);
            pairs.map(|(a, b)| figure.of(&a) / figure.of(&b)).collect()
        };
        let side = |index: usize| {
            let values: Vec<_> = self.rounds.iter().map(|round| figure.of(&round[index])).collect();
            quantile(&values, 0.5)
        };
        let (fio, diskproof) = (side(0), side(2));
        let itself = all(|[fio, again, _]| (*again, *fio));
        let spread = (quantile(&itself, 0.1), quantile(&itself, 0.9));
        let pairwise = quantile(&all(|[fio, _, ours]| (*ours, *fio)), 0.5);
        let ratio = diskproof / fio;
        let better = if figure.more_is_better() { ratio > 1.0 } else { ratio < 1.0 };
        let standing = if (ratio - 1.0).abs() <= TOLERANCE {
            Standing::WithinTolerance
        } else if better {
            Standing::Better
        } else if (spread.0..=spread.1).contains(&pairwise) {
            Standing::WithinSpread
        } else {
            Standing::Behind
        };
        Summary { fio, diskproof, ratio, pairwise, spread, standing }
    }
}

/// A quantile with linear interpolation between the neighbours (Hyndman and Fan, type 7); not a
/// number without values.
fn quantile(values: &[f64], p: f64) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let Some(last) = sorted.len().checked_sub(1) else { return f64::NAN };
    let place = p * last as f64;
    #[expect(clippy::cast_sign_loss, reason = "between 0 and the number of values")]
    let below = place.floor() as usize;
    let above = (below + 1).min(last);
    sorted[below] + (sorted[above] - sorted[below]) * place.fract()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn comparison(rounds: &[(f64, f64, f64)]) -> Comparison {
        let figures = |value: f64| Figures { iops: value, latency_ns: value, cpu_per_io_ns: value };
        let mut comparison = Comparison::new("x");
        for (fio, again, ours) in rounds {
            comparison.add(figures(*fio), figures(*again), figures(*ours));
        }
        comparison
    }

    fn standing(figure: Figure, rounds: &[(f64, f64, f64)]) -> Standing {
        comparison(rounds).summary(figure).standing
    }

    #[test]
    fn quantiles_are_interpolated() {
        assert!((quantile(&[4.0, 1.0, 3.0, 2.0], 0.5) - 2.5).abs() < 1e-12);
        assert!((quantile(&[1.0, 2.0], 0.9) - 1.9).abs() < 1e-12);
        assert!((quantile(&[7.0], 0.1) - 7.0).abs() < 1e-12);
        assert!(quantile(&[], 0.5).is_nan());
    }

    #[test]
    fn medians_are_of_sides_and_ratios_of_rounds() {
        let rounds = [(100.0, 110.0, 90.0), (200.0, 180.0, 210.0), (100.0, 100.0, 100.0)];
        let summary = comparison(&rounds).summary(Figure::Iops);
        let close = |a: f64, b: f64| assert!((a - b).abs() < 1e-9, "{a} is not {b}");
        close(summary.fio, 100.0);
        close(summary.diskproof, 100.0);
        close(summary.pairwise, 1.0);
        close(summary.spread.0, 0.92);
        close(summary.spread.1, 1.08);
    }

    #[test]
    fn the_standing_knows_which_way_is_better() {
        let more = [(100.0, 100.0, 120.0)];
        assert_eq!(standing(Figure::Iops, &more), Standing::Better);
        assert_eq!(standing(Figure::Latency, &more), Standing::Behind);
        let alike = [(100.0, 100.0, 104.0)];
        assert_eq!(standing(Figure::Latency, &alike), Standing::WithinTolerance);
        let noisy = [(100.0, 60.0, 90.0), (100.0, 140.0, 90.0)];
        assert_eq!(standing(Figure::Iops, &noisy), Standing::WithinSpread);
        assert_eq!(standing(Figure::Iops, &[(100.0, 99.0, 90.0)]), Standing::Behind);
    }

    #[test]
    fn processor_time_is_shown_alone() {
        let mut comparison = Comparison::new("x");
        let fio = Figures { iops: 1.0, latency_ns: 1.0, cpu_per_io_ns: 1.0 };
        comparison.add(fio, fio, Figures { cpu_per_io_ns: 9.0, ..fio });
        assert_eq!(comparison.summary(Figure::CpuPerIo).standing, Standing::Behind);
        assert!(comparison.is_good());
        comparison.add(fio, fio, Figures { iops: 0.1, ..fio });
        comparison.add(fio, fio, Figures { iops: 0.1, ..fio });
        assert!(!comparison.is_good());
    }
}
