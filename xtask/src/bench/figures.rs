//! What was measured, what the rounds come to, and whether a target is reached.

use super::rows::{Figure, Other, Row, Target};
use super::sides::{TURNS, Turn};

/// What one run counted.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct Counted {
    /// I/Os done.
    pub ios: f64,
    /// Time under load.
    pub duration_ns: f64,
    /// Mean latency; not a number where none is taken.
    pub latency_ns: f64,
    /// Processor time of the whole process.
    pub cpu_ns: f64,
}

/// The figures that are compared, of one run.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Figures {
    iops: f64,
    latency_ns: f64,
    cpu_per_io_ns: f64,
}

/// One round of a row, by turn.
pub(super) type Round = [Figures; TURNS.len()];

impl Counted {
    /// I/Os a second.
    pub(super) fn iops(&self) -> f64 {
        self.ios / self.duration_ns * 1e9
    }

    /// The figures, of which the processor time is without that of `idle`, a run of next to
    /// nothing: without start and end.
    pub(super) fn figures(&self, idle: &Self) -> Figures {
        let cpu_per_io_ns = (self.cpu_ns - idle.cpu_ns) / (self.ios - idle.ios);
        Figures { iops: self.iops(), latency_ns: self.latency_ns, cpu_per_io_ns }
    }
}

impl Figures {
    /// One of them.
    fn get(&self, figure: Figure) -> f64 {
        match figure {
            Figure::Iops => self.iops,
            Figure::Latency => self.latency_ns,
            Figure::CpuPerIo => self.cpu_per_io_ns,
        }
    }
}

/// All rounds of one row.
#[derive(Debug)]
pub(super) struct Comparison {
    /// The row.
    pub row: &'static Row,
    rounds: Vec<Round>,
}

/// How a target stands.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Reached {
    /// The median over the rounds of diskproof's by the other's.
    pub ratio: f64,
    /// The 10th and the 90th percentile of fio's second run by its first.
    pub noise: (f64, f64),
    /// What that means.
    pub standing: Standing,
}

/// Whether a target is reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Standing {
    /// It is.
    Met,
    /// It is not, but would be if the ratio were another by what fio is from itself.
    WithinNoise,
    /// It is not.
    Missed,
}

impl Standing {
    /// In words.
    pub(super) fn words(self) -> &'static str {
        match self {
            Self::Met => "yes",
            Self::WithinNoise => "within fio's noise",
            Self::Missed => "NO",
        }
    }
}

impl Comparison {
    /// One without rounds.
    pub(super) fn new(row: &'static Row) -> Self {
        Self { row, rounds: Vec::new() }
    }

    /// A round before anybody ran.
    #[expect(clippy::unused_self, reason = "a round is one of a comparison")]
    pub(super) fn empty_round(&self) -> Round {
        let nothing = f64::NAN;
        [Figures { iops: nothing, latency_ns: nothing, cpu_per_io_ns: nothing }; TURNS.len()]
    }

    /// Adds a round.
    pub(super) fn add(&mut self, round: Round) {
        self.rounds.push(round);
    }

    /// The median of a figure of one of them.
    pub(super) fn median(&self, turn: Turn, figure: Figure) -> f64 {
        median(self.rounds.iter().map(|round| round[turn as usize].get(figure)))
    }

    /// The median over the rounds of diskproof's figure by the other's.
    pub(super) fn ratio(&self, other: Other, figure: Figure) -> f64 {
        median(self.ratios(Turn::Diskproof, self.turn_of(other), figure).into_iter())
    }

    /// How a target stands.
    pub(super) fn reached(&self, target: &Target) -> Reached {
        let ratio = self.ratio(target.other, target.figure);
        let noise = self.noise(target.figure);
        let least = target.figure.more_is_better();
        let holds =
            |ratio: f64| if least { ratio >= target.factor } else { ratio <= target.factor };
        let kinder = if least { ratio / noise.0.min(1.0) } else { ratio / noise.1.max(1.0) };
        let standing = match (holds(ratio), holds(kinder)) {
            (true, _) => Standing::Met,
            (false, true) => Standing::WithinNoise,
            (false, false) => Standing::Missed,
        };
        Reached { ratio, noise, standing }
    }

    /// How fio stands beside itself.
    fn noise(&self, figure: Figure) -> (f64, f64) {
        let ratios = self.ratios(Turn::Again, Turn::Default, figure);
        (quantile(&ratios, 0.1), quantile(&ratios, 0.9))
    }

    fn ratios(&self, ours: Turn, theirs: Turn, figure: Figure) -> Vec<f64> {
        let ratio =
            |round: &Round| round[ours as usize].get(figure) / round[theirs as usize].get(figure);
        self.rounds.iter().map(ratio).collect()
    }

    fn turn_of(&self, other: Other) -> Turn {
        let iops = |turn| self.median(turn, Figure::Iops);
        match other {
            Other::Floor => Turn::Floor,
            Other::Best => Turn::Best,
            Other::BetterFio if iops(Turn::Best) > iops(Turn::Default) => Turn::Best,
            Other::Default | Other::BetterFio => Turn::Default,
        }
    }
}

/// The value in the middle; not a number without values.
pub(super) fn median(values: impl Iterator<Item = f64>) -> f64 {
    quantile(&values.collect::<Vec<_>>(), 0.5)
}

/// A quantile with linear interpolation between the neighbours (Hyndman and Fan, type 7); not a
/// number without values.
pub(super) fn quantile(values: &[f64], p: f64) -> f64 {
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
    use super::super::rows::ROWS;
    use super::*;

    /// Rounds of the bare loop, fio, fio again, the best fio and diskproof, with one number for
    /// every figure.
    fn comparison(rounds: &[[f64; 5]]) -> Comparison {
        let mut comparison = Comparison::new(&ROWS[0]);
        for round in rounds {
            comparison.add(round.map(|value| Figures {
                iops: value,
                latency_ns: value,
                cpu_per_io_ns: value,
            }));
        }
        comparison
    }

    fn standing(figure: Figure, other: Other, factor: f64, rounds: &[[f64; 5]]) -> Standing {
        comparison(rounds).reached(&Target { figure, other, factor }).standing
    }

    fn close(a: f64, b: f64) {
        assert!((a - b).abs() < 1e-9, "{a} is not {b}");
    }

    #[test]
    fn quantiles_are_interpolated() {
        close(quantile(&[4.0, 1.0, 3.0, 2.0], 0.5), 2.5);
        close(quantile(&[1.0, 2.0], 0.9), 1.9);
        close(quantile(&[7.0], 0.1), 7.0);
        assert!(quantile(&[], 0.5).is_nan());
    }

    #[test]
    fn processor_time_is_without_start_and_end() {
        let idle = Counted { ios: 100.0, duration_ns: 1e6, latency_ns: 5.0, cpu_ns: 3e6 };
        let run = Counted { ios: 1100.0, duration_ns: 1e9, latency_ns: 6.0, cpu_ns: 8e6 };
        let figures = run.figures(&idle);
        close(figures.iops, 1100.0);
        close(figures.cpu_per_io_ns, 5000.0);
        close(figures.latency_ns, 6.0);
    }

    #[test]
    fn medians_are_of_sides_and_ratios_of_rounds() {
        let rounds = [
            [180.0, 100.0, 110.0, 100.0, 90.0],
            [210.0, 200.0, 180.0, 100.0, 210.0],
            [200.0, 100.0, 100.0, 100.0, 100.0],
        ];
        let comparison = comparison(&rounds);
        close(comparison.median(Turn::Default, Figure::Iops), 100.0);
        close(comparison.median(Turn::Diskproof, Figure::Iops), 100.0);
        close(comparison.ratio(Other::Floor, Figure::Iops), 0.5);
        close(comparison.ratio(Other::Default, Figure::Iops), 1.0);
        let noise = comparison.reached(&ROWS[0].targets[0]).noise;
        close(noise.0, 0.92);
        close(noise.1, 1.08);
    }

    #[test]
    fn the_standing_knows_which_way_is_better() {
        let quiet = [[100.0, 50.0, 50.0, 80.0, 90.0]];
        assert_eq!(standing(Figure::Iops, Other::Floor, 0.9, &quiet), Standing::Met);
        assert_eq!(standing(Figure::Iops, Other::Floor, 0.91, &quiet), Standing::Missed);
        assert_eq!(standing(Figure::Latency, Other::Floor, 0.9, &quiet), Standing::Met);
        assert_eq!(standing(Figure::Latency, Other::Floor, 0.89, &quiet), Standing::Missed);
        assert_eq!(standing(Figure::CpuPerIo, Other::Best, 0.85, &quiet), Standing::Missed);
    }

    #[test]
    fn what_fio_is_from_itself_is_noise() {
        let noisy = [[100.0, 100.0, 90.0, 100.0, 80.0], [100.0, 100.0, 110.0, 100.0, 80.0]];
        // The 10th percentile is 0.92, the 90th 1.08.
        assert_eq!(standing(Figure::Iops, Other::Floor, 0.86, &noisy), Standing::WithinNoise);
        assert_eq!(standing(Figure::Iops, Other::Floor, 0.88, &noisy), Standing::Missed);
        assert_eq!(standing(Figure::Latency, Other::Floor, 0.75, &noisy), Standing::WithinNoise);
        assert_eq!(standing(Figure::Latency, Other::Floor, 0.73, &noisy), Standing::Missed);
    }

    #[test]
    fn the_better_fio_is_the_one_with_more_iops() {
        let rounds = [[9.0, 5.0, 5.0, 4.0, 10.0]];
        close(comparison(&rounds).ratio(Other::BetterFio, Figure::CpuPerIo), 2.0);
        let rounds = [[9.0, 4.0, 4.0, 5.0, 10.0]];
        close(comparison(&rounds).ratio(Other::BetterFio, Figure::CpuPerIo), 2.0);
    }
}
