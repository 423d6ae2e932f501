//! By which way each case goes to the kernel: both sides of a comparison by the same one.

use crate::engine::{self, Backend};
use crate::plan::{Case, EngineChoice, Plan};

/// The back end of every case of the plan.
///
/// A case whose plan says `auto` takes what is best for it, unless a condition compares it with
/// another: cases that are compared, directly or through others, go the same way. That is the one
/// that the plan names for any of them, else a ring, or `libaio` where there is none, if any of
/// them is better off with one.
pub(super) fn back_ends(plan: &Plan) -> Vec<Backend> {
    let groups = compared(plan);
    let of_group = |group: usize| {
        let members = plan.cases.iter().zip(&groups).filter(move |(_, other)| **other == group);
        members.map(|(case, _)| case)
    };
    let choose = |(case, group): (&Case, &usize)| match case.workload.engine {
        EngineChoice::IoUring => Backend::IoUring,
        EngineChoice::Libaio => Backend::Libaio,
        EngineChoice::Sync => Backend::Sync,
        EngineChoice::Auto => {
            let names = |choice| of_group(*group).any(|other| other.workload.engine == choice);
            if case.workload.queue_depth == 1 && names(EngineChoice::Sync) {
                Backend::Sync
            } else if names(EngineChoice::Libaio) {
                Backend::AutoWithLibaio
            } else if names(EngineChoice::IoUring)
                || of_group(*group).any(|other| prefers_ring(plan, other))
            {
                Backend::AutoWithRing
            } else {
                Backend::Auto
            }
        }
    };
    plan.cases.iter().zip(&groups).map(choose).collect()
}

/// For each case the smallest index among those that it is compared with, directly or not.
fn compared(plan: &Plan) -> Vec<usize> {
    let mut groups: Vec<usize> = (0..plan.cases.len()).collect();
    for assertion in &plan.assertions {
        let Some(other) = assertion.condition.test.other_case() else { continue };
        let (one, two) = (groups[assertion.case], groups[other]);
        for group in &mut groups {
            if *group == one.max(two) {
                *group = one.min(two);
            }
        }
    }
    groups
}

fn prefers_ring(plan: &Plan, case: &Case) -> bool {
    let workload = &case.workload;
    let setup = &plan.setups[case.setup];
    let blocks = (workload.blocks.largest(), workload.blocks.smallest());
    let chunk = setup.stripe.map(|stripe| stripe.chunk);
    let parts = engine::parts_max(chunk, setup.disks.len(), blocks, workload.flush.is_some());
    engine::prefers_ring(workload.queue_depth, parts)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::diag::Source;
    use crate::plan;

    fn chosen(conditions: &str, engine: &str) -> Vec<Backend> {
        let text = format!(
            r#"
            name = "ways"
            [disks.a]
            size = "1MiB"
            [disks.b]
            count = 2
            size = "1MiB"
            [setups.one]
            disks = ["a"]
            [setups.two]
            disks = ["b"]
            stripe = {{ driver = "engine", chunk = "64KiB" }}
            [workloads.large]
            rw = "read"
            block_size = "128KiB"
            {engine}
            [workloads.small]
            rw = "read"
            {conditions}
            "#
        );
        let source = Source { name: "ways.toml".to_owned(), text };
        let plan = plan::parse(&source).and_then(|raw| plan::check(&raw, None));
        back_ends(&plan.unwrap_or_else(|found| panic!("{found:?}")))
    }

    #[test]
    fn what_is_not_compared_takes_what_is_best_for_it() {
        use Backend::{Auto, AutoWithRing};
        assert_eq!(chosen("", ""), [Auto, Auto, AutoWithRing, Auto]);
    }

    #[test]
    fn both_sides_of_a_comparison_go_one_way() {
        use Backend::{Auto, AutoWithRing};
        let condition = "[[expect]]\ncase = \"two/large\"\nthat = \"read.iops >= 1 x one\"";
        assert_eq!(chosen(condition, ""), [AutoWithRing, Auto, AutoWithRing, Auto]);
        let chain = format!(
            "{condition}\n[[expect]]\ncase = \"one/small\"\nthat = \"iops >= 1 x one/large\""
        );
        assert_eq!(chosen(&chain, ""), [AutoWithRing, AutoWithRing, AutoWithRing, Auto]);
    }

    #[test]
    fn the_way_that_the_plan_names_is_that_of_both_sides() {
        use Backend::{Auto, AutoWithLibaio, Libaio, Sync};
        let condition = "[[expect]]\ncase = \"one/small\"\nthat = \"iops >= 1 x one/large\"";
        let named = chosen(condition, "engine = \"sync\"");
        assert_eq!(named, [Sync, Sync, Sync, Auto]);
        let named = chosen(condition, "engine = \"libaio\"");
        assert_eq!(named, [Libaio, AutoWithLibaio, Libaio, Auto]);
    }
}
