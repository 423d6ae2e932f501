//! How much memory a case takes, told before anything starts.

use std::sync::Arc;

use super::{job, tables};
use crate::engine::verify::Generations;
use crate::engine::{Backend, Footprint, Storage, Target};
use crate::model::DiskModel;
use crate::plan::Plan;
use crate::rig::Survey;
use crate::units::Bytes;

/// Larger than any region: those of a plan that was checked lie within.
const ANY_CAPACITY: u64 = 1 << 62;

/// The most memory that a case takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Memory {
    /// The buffers of the I/Os in flight.
    pub buffers: Bytes,
    /// The table of what each block should hold, of a case that verifies.
    pub table: Bytes,
    /// All else: the program, and what each worker counts.
    pub beside: Bytes,
}

impl Memory {
    /// All of it.
    #[must_use]
    pub fn sum(&self) -> Bytes {
        Bytes(self.buffers.0.saturating_add(self.table.0).saturating_add(self.beside.0))
    }
}

/// What a case takes that goes by these back ends; `None` where its disks don't fit it.
pub(super) fn of_case(
    plan: &Plan,
    case: usize,
    back_ends: &[Backend],
    survey: &Survey,
) -> Option<Memory> {
    let (setup, workload) = (plan.cases[case].setup, &plan.cases[case].workload);
    let disks = &plan.setups[setup].disks;
    // How many there are is what matters of them here.
    let members = disks.iter().map(|_| (String::new(), DiskModel::default())).collect();
    let storage = Storage {
        target: Target::Simulated(members),
        chunk: plan.setups[setup].stripe.map(|stripe| stripe.chunk),
        member_bytes: ANY_CAPACITY,
    };
    let mut jobs = Vec::new();
    for (load, backend) in workload.loads().into_iter().zip(back_ends) {
        let table = if load.verify { Generations::new(1, 1, 1).ok().map(Arc::new) } else { None };
        jobs.push(job::job(load, storage.clone(), ANY_CAPACITY, *backend, 1, table).ok()?);
    }
    let Footprint { buffers, beside } = Footprint::of(&jobs);
    let mut table = Bytes(0);
    if workload.verify {
        let sizes = survey.disks.iter().filter(|disk| disks.contains(&disk.disk));
        let capacity: u64 = sizes.map(|disk| disk.size.0).sum();
        table.0 = capacity.div_ceil(tables::block(plan, setup).max(1)).saturating_mul(4);
    }
    Some(Memory { buffers, table, beside })
}
