//! Who is compared, how each runs at its best, and in what order.

use std::path::PathBuf;

use anyhow::Result;

use super::diskproof::Diskproof;
use super::figures::{Comparison, Counted, median};
use super::fio::Way;
use super::floor::Batches;
use super::places::Spot;
use super::process::Manner;
use super::rows::{Row, Work};

/// Runs of each candidate in the search for the best, and of each process that does next to
/// nothing.
const TRIES: usize = 3;

/// A run that does next to nothing: its processor time is what start and end cost.
const IDLE: Length = Length::Microseconds(5000);

/// The longest run of a candidate.
const TRY_MICROSECONDS: u64 = 300_000;

/// How long a run is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Length {
    /// Time under load.
    Microseconds(u64),
    /// I/Os.
    Ios(u64),
}

/// Who runs; the number is the place of its figures.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Turn {
    Floor,
    Default,
    Again,
    Best,
    Diskproof,
}

/// All, in the table's order.
pub(super) const TURNS: [Turn; 5] =
    [Turn::Floor, Turn::Default, Turn::Again, Turn::Best, Turn::Diskproof];

/// The order of a round. Over ten rounds each has each place twice, and each follows each other
/// twice: a square of Williams (1949), which takes two halves for an odd number.
pub(super) fn order(round: usize) -> [Turn; 5] {
    let (shift, mirrored) = (round % 5, round % 10 >= 5);
    let mut order = [0, 1, 4, 2, 3].map(|place| TURNS[(place + shift) % 5]);
    if mirrored {
        order.reverse();
    }
    order
}

/// The programs.
#[derive(Debug)]
pub(super) struct Programs {
    /// The release binary.
    pub diskproof: Diskproof,
    /// xtask, built with optimisations.
    pub floor: PathBuf,
    /// The one CPU that all run on.
    pub cpu: usize,
}

/// A row with where it runs and how each runs at its best.
#[derive(Debug)]
pub(super) struct Contest {
    /// The row.
    pub row: &'static Row,
    /// Where it runs.
    pub spot: Spot,
    /// fio's own way.
    pub default: Way,
    /// The best of fio's ways.
    pub best: Way,
    /// The best of the bare loop's.
    pub floor: Batches,
    /// What each counts when it does next to nothing.
    idle: [Counted; TURNS.len()],
}

impl Programs {
    /// How all are run.
    pub(super) fn manner(&self) -> Manner {
        Manner { cpu: Some(self.cpu), watched: false }
    }

    /// The first pass of a row: finds the best of fio and of the bare loop, of `microseconds` at
    /// most for each run, and what start and end of each cost.
    pub(super) fn contest(
        &self,
        row: &'static Row,
        spot: Spot,
        microseconds: u64,
    ) -> Result<Contest> {
        let (work, manner) = (&row.work, self.manner());
        let length = Length::Microseconds(microseconds.min(TRY_MICROSECONDS));
        let best = fastest(Way::candidates(work), |way| way.run(work, &spot, length, manner))?;
        let floor = fastest(Batches::candidates(work), |batches| {
            batches.run(&self.floor, work, &spot, length, manner)
        })?;
        let default = Way::default(work);
        let idle = [Counted::default(); TURNS.len()];
        let mut contest = Contest { row, spot, default, best, floor, idle };
        for turn in TURNS {
            contest.idle[turn as usize] = self.idle(&contest, turn)?;
        }
        Ok(contest)
    }

    fn idle(&self, contest: &Contest, turn: Turn) -> Result<Counted> {
        if turn == Turn::Again {
            return Ok(contest.idle[Turn::Default as usize]);
        }
        let runs: Vec<_> = (0..TRIES)
            .map(|_| self.run(&contest.row.work, contest, turn, IDLE))
            .collect::<Result<_>>()?;
        let of = |figure: fn(&Counted) -> f64| median(runs.iter().map(figure));
        Ok(Counted { ios: of(|run| run.ios), cpu_ns: of(|run| run.cpu_ns), ..runs[0] })
    }

    /// One round of a row.
    pub(super) fn round(
        &self,
        contest: &Contest,
        comparison: &mut Comparison,
        round: usize,
        length: Length,
    ) -> Result<()> {
        let mut figures = comparison.empty_round();
        for turn in order(round) {
            let counted = self.run(&contest.row.work, contest, turn, length)?;
            figures[turn as usize] = counted.figures(&contest.idle[turn as usize]);
        }
        comparison.add(figures);
        Ok(())
    }

    /// One run of one program.
    fn run(&self, work: &Work, contest: &Contest, turn: Turn, length: Length) -> Result<Counted> {
        let (spot, manner) = (&contest.spot, self.manner());
        match turn {
            Turn::Floor => contest.floor.run(&self.floor, work, spot, length, manner),
            Turn::Default | Turn::Again => contest.default.run(work, spot, length, manner),
            Turn::Best => contest.best.run(work, spot, length, manner),
            Turn::Diskproof => self.diskproof.run(work, spot, length, manner),
        }
    }
}

/// The candidate with the largest median rate; they run in turn.
fn fastest<T>(candidates: Vec<T>, run: impl Fn(&T) -> Result<Counted>) -> Result<T> {
    let mut rates = vec![Vec::new(); candidates.len()];
    if candidates.len() > 1 {
        for _ in 0..TRIES {
            for (candidate, rates) in candidates.iter().zip(&mut rates) {
                rates.push(run(candidate)?.iops());
            }
        }
    }
    let medians = rates.into_iter().map(|rates| median(rates.into_iter()));
    let best = candidates.into_iter().zip(medians).max_by(|(_, a), (_, b)| a.total_cmp(b));
    best.map(|(candidate, _)| candidate).ok_or_else(|| anyhow::anyhow!("there is no candidate"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn over_ten_rounds_each_has_each_place_and_each_predecessor_twice() {
        let orders: Vec<_> = (0..10).map(order).collect();
        for turn in TURNS {
            for place in 0..5 {
                let count = orders.iter().filter(|order| order[place] == turn).count();
                assert_eq!(count, 2, "{turn:?} at {place}");
            }
            for other in TURNS.into_iter().filter(|other| *other != turn) {
                let follows = |order: &&[Turn; 5]| order.windows(2).any(|two| two == [other, turn]);
                assert_eq!(orders.iter().filter(follows).count(), 2, "{turn:?} after {other:?}");
            }
        }
    }

    #[test]
    fn the_fastest_has_the_largest_median() {
        let rates = [[9.0, 9.0, 9.0], [10.0, 10.0, 1.0], [99.0, 1.0, 2.0]];
        let calls = std::cell::Cell::new(0);
        let run = |index: &usize| {
            let call = calls.replace(calls.get() + 1);
            Ok(Counted { ios: rates[*index][call / 3], duration_ns: 1e9, ..Counted::default() })
        };
        assert_eq!(fastest(vec![0, 1, 2], run).unwrap(), 1);
    }
}
