//! What every setup should hold, for the cases that verify: one table of generations each, which
//! goes from round to round and from case to case, as the storage does.

use std::collections::BTreeMap;
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::sync::Arc;

use crate::engine::verify::Generations;
use crate::plan::{Plan, Workload};
use crate::rig::{Beside, Rig};

/// Ending of the file beside a disk's own that keeps its table.
const ENDING: &str = ".generations";

/// The tables of a run.
pub(super) struct Tables {
    /// By setup, with the capacity that it is of.
    known: BTreeMap<usize, Arc<Generations>>,
    /// What tells the stamps that belong to the last table from those of others: never 0. Setups
    /// may share disks, and what one of them wrote is not to be taken for what another did.
    run: u32,
}

impl Tables {
    pub(super) fn new() -> Self {
        let random = RandomState::new().hash_one("run");
        Self { known: BTreeMap::new(), run: random as u32 }
    }

    /// A number for the stamps of a new table.
    fn next_run(&mut self) -> u32 {
        self.run = self.run.wrapping_add(1).max(1);
        self.run
    }

    /// The table that a round of this case uses; `None` where it doesn't verify. What others wrote
    /// to its disks without stamps is not vouched for.
    ///
    /// # Errors
    /// When there is no memory for it, or the one of an earlier run can't be read.
    pub(super) fn of(
        &mut self,
        plan: &Plan,
        case: usize,
        fresh: bool,
        capacity: u64,
        rig: Option<&Rig>,
    ) -> Result<Option<Arc<Generations>>, String> {
        let (setup, workload) = (plan.cases[case].setup, &plan.cases[case].workload);
        if workload.changes() && !fresh {
            self.forget(plan, setup, workload);
        }
        if !workload.verify {
            return Ok(None);
        }
        if fresh {
            // Each round has a new file, which nothing was written to.
            let table = Generations::new(capacity, block(plan, setup), self.next_run());
            return table.map(|table| Some(Arc::new(table))).map_err(|error| no_table(&error));
        }
        if let Some(table) = self.known.get(&setup) {
            return Ok(Some(Arc::clone(table)));
        }
        let table = Arc::new(self.begun(plan, setup, capacity, rig)?);
        self.known.insert(setup, Arc::clone(&table));
        Ok(Some(table))
    }

    /// The table of a setup that has none yet.
    fn begun(
        &mut self,
        plan: &Plan,
        setup: usize,
        capacity: u64,
        rig: Option<&Rig>,
    ) -> Result<Generations, String> {
        let run = self.next_run();
        let alone = plan.setups[setup].disks.len() == 1;
        let beside = match rig.filter(|_| alone) {
            Some(rig) => rig.beside(setup, ENDING).map_err(|error| super::with_causes(&error))?,
            None => Beside::Nothing,
        };
        match beside {
            Beside::Made(file) => Generations::kept_in(&file, capacity, block(plan, setup), run),
            Beside::Found(file) => Generations::reopen(&file, capacity),
            Beside::Nothing => Generations::new(capacity, block(plan, setup), run),
        }
        .map_err(|error| no_table(&error))
    }

    /// Whoever writes to a disk makes the tables of all other setups with that disk void, and one
    /// that writes without stamps that of its own too.
    fn forget(&mut self, plan: &Plan, setup: usize, workload: &Workload) {
        let disks = &plan.setups[setup].disks;
        for (other, table) in &self.known {
            let shares = plan.setups[*other].disks.iter().any(|disk| disks.contains(disk));
            if shares && (*other != setup || !workload.verify) {
                table.forget_all();
            }
        }
    }
}

/// Size of the blocks of a setup's table: what the blocks of all cases that verify there are
/// multiples of.
pub(super) fn block(plan: &Plan, setup: usize) -> u64 {
    let cases = plan.cases.iter().filter(|case| case.setup == setup && case.workload.verify);
    let sizes = cases.flat_map(|case| case.workload.blocks.0.iter().map(|(size, _)| size.0));
    sizes.fold(0, greatest_common_divisor)
}

fn greatest_common_divisor(one: u64, other: u64) -> u64 {
    if other == 0 { one } else { greatest_common_divisor(other, one % other) }
}

fn no_table(error: &io::Error) -> String {
    format!(
        "there is no table of what each block should hold, which takes 4 bytes a block: {error}; \
         use a smaller disk or larger blocks"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_table_has_stamps_of_its_own() {
        let mut tables = Tables { run: u32::MAX - 1, ..Tables::new() };
        let runs: Vec<_> = (0..4).map(|_| tables.next_run()).collect();
        assert_eq!(runs, [u32::MAX, 1, 2, 3], "and never 0");
    }

    #[test]
    fn blocks_are_what_all_sizes_are_multiples_of() {
        assert_eq!([4096, 12_288, 65_536].into_iter().fold(0, greatest_common_divisor), 4096);
        assert_eq!([4096, 6144].into_iter().fold(0, greatest_common_divisor), 2048);
    }
}
