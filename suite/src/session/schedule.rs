//! In which order cases take their turns.

use crate::plan::{Order, RunOptions};

/// The rounds that come next: each a list of cases in the order in which they run.
///
/// Balanced order goes forward and back in turn (AB BA AB BA): a drift that is steady over the
/// run meets every case alike, and cancels out within each pair of rounds. Rounds are therefore
/// added in pairs there, and one by one in plain interleaving (AB AB AB).
#[derive(Debug)]
pub(super) struct Schedule {
    options: RunOptions,
    done: u32,
}

impl Schedule {
    pub(super) fn new(options: RunOptions) -> Self {
        Self { options, done: 0 }
    }

    /// The next batch: all of the planned rounds at first, then more of them for the cases that
    /// are still `open`, until the plan's limit. `None` when it is over.
    pub(super) fn next(&mut self, open: &[usize]) -> Option<Vec<(u32, Vec<usize>)>> {
        let rounds = self.options.rounds;
        let step = match (self.done, self.options.order) {
            (0, _) => rounds.min,
            (_, Order::Balanced) => 2,
            (_, Order::Interleaved) => 1,
        };
        let step = step.min(rounds.max.saturating_sub(self.done));
        if step == 0 || open.is_empty() {
            return None;
        }
        let first = self.done + 1;
        self.done += step;
        Some((first..=self.done).map(|round| (round, self.turn(round, open))).collect())
    }

    fn turn(&self, round: u32, cases: &[usize]) -> Vec<usize> {
        let backwards = self.options.order == Order::Balanced && round.is_multiple_of(2);
        if backwards { cases.iter().rev().copied().collect() } else { cases.to_vec() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::{Inconclusive, Rounds};

    fn schedule(order: Order, min: u32, max: u32) -> Schedule {
        let rounds = Rounds { min, max };
        Schedule::new(RunOptions { rounds, order, inconclusive: Inconclusive::Open })
    }

    #[test]
    fn balanced_rounds_go_forward_and_back() {
        let batch = schedule(Order::Balanced, 4, 4).next(&[0, 1]).expect("four rounds");
        let turns: Vec<_> = batch.into_iter().map(|(_, cases)| cases).collect();
        assert_eq!(turns, [[0, 1], [1, 0], [0, 1], [1, 0]]);
    }

    #[test]
    fn more_rounds_come_in_pairs_for_open_cases_alone_until_the_limit() {
        let mut schedule = schedule(Order::Balanced, 2, 6);
        assert_eq!(schedule.next(&[0, 1, 2]).map(|batch| batch.len()), Some(2));
        assert_eq!(schedule.next(&[0, 2]), Some(vec![(3, vec![0, 2]), (4, vec![2, 0])]));
        assert_eq!(schedule.next(&[2]), Some(vec![(5, vec![2]), (6, vec![2])]));
        assert_eq!(schedule.next(&[2]), None, "the limit is reached");
    }

    #[test]
    fn nothing_open_ends_it() {
        let mut schedule = schedule(Order::Interleaved, 1, 9);
        assert_eq!(schedule.next(&[0]).map(|batch| batch.len()), Some(1));
        assert_eq!(schedule.next(&[]), None);
    }
}
