//! By which way each case goes to the kernel: both sides of a comparison by the same one.

use crate::engine::{self, Backend};
use crate::plan::{EngineChoice, Plan, Stream, Workload};

/// The back ends of every case of the plan: one for each of its loads.
///
/// A load whose plan says `auto` takes what is best for it, unless a condition compares it with
/// another: loads that are compared, directly or through others, go the same way. That is the one
/// that the plan names for any of them, else a ring, or `libaio` where there is none, if any of
/// them is better off with one.
pub(super) fn back_ends(plan: &Plan) -> Vec<Vec<Backend>> {
    let units = units(plan);
    let groups = compared(plan, &units);
    let mut all = vec![Vec::new(); plan.cases.len()];
    for (unit, group) in units.iter().zip(&groups) {
        let same = units.iter().zip(&groups).filter(|(_, other)| *other == group);
        let same: Vec<_> = same.map(|(unit, _)| unit).collect();
        all[unit.case].push(choose(plan, unit, &same));
    }
    all
}

/// One load of the plan.
struct Unit<'p> {
    case: usize,
    stream: Option<&'p str>,
    workload: &'p Workload,
}

fn units(plan: &Plan) -> Vec<Unit<'_>> {
    let mut units = Vec::new();
    for (case, planned) in plan.cases.iter().enumerate() {
        let workload = &planned.workload;
        if workload.streams.is_empty() {
            units.push(Unit { case, stream: None, workload });
        }
        for Stream { name, workload } in &workload.streams {
            units.push(Unit { case, stream: Some(name), workload });
        }
    }
    units
}

/// The back end of a load that is compared with these, itself among them.
fn choose(plan: &Plan, unit: &Unit<'_>, same: &[&Unit<'_>]) -> Backend {
    let names = |choice| same.iter().any(|other| other.workload.engine == choice);
    match unit.workload.engine {
        EngineChoice::IoUring => Backend::IoUring,
        EngineChoice::Libaio => Backend::Libaio,
        EngineChoice::Sync => Backend::Sync,
        EngineChoice::Auto if unit.workload.queue_depth == 1 && names(EngineChoice::Sync) => {
            Backend::Sync
        }
        EngineChoice::Auto if names(EngineChoice::Libaio) => Backend::AutoWithLibaio,
        EngineChoice::Auto
            if names(EngineChoice::IoUring)
                || same.iter().any(|other| prefers_ring(plan, other)) =>
        {
            Backend::AutoWithRing
        }
        EngineChoice::Auto => Backend::Auto,
    }
}

/// For each load the smallest index among those that it is compared with, directly or not. Where
/// two cases with the same streams are compared, each stream is with its like.
fn compared(plan: &Plan, units: &[Unit<'_>]) -> Vec<usize> {
    let mut groups: Vec<usize> = (0..units.len()).collect();
    let mut join = |together: &[usize]| {
        let joined: Vec<usize> = together.iter().map(|unit| groups[*unit]).collect();
        let Some(smallest) = joined.iter().min().copied() else { return };
        groups.iter_mut().filter(|group| joined.contains(group)).for_each(|one| *one = smallest);
    };
    // Of a case all, or the one stream of it.
    let of = |case: usize, stream: Option<&str>| -> Vec<usize> {
        let is = |unit: &Unit<'_>| unit.case == case && (stream.is_none() || unit.stream == stream);
        (0..units.len()).filter(|index| is(&units[*index])).collect()
    };
    for assertion in &plan.assertions {
        let Some((other, stream)) = assertion.condition.test.other_part() else { continue };
        let (one, two) = (of(assertion.case, assertion.stream.as_deref()), of(other, stream));
        let name = |unit: &usize| units[*unit].stream;
        if one.iter().map(name).eq(two.iter().map(name)) {
            one.iter().zip(&two).for_each(|(one, two)| join(&[*one, *two]));
        } else {
            join(&[one, two].concat());
        }
    }
    groups
}

fn prefers_ring(plan: &Plan, unit: &Unit<'_>) -> bool {
    let workload = unit.workload;
    let setup = &plan.setups[plan.cases[unit.case].setup];
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
        back_ends(&plan.unwrap_or_else(|found| panic!("{found:?}"))).concat()
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

    #[test]
    fn each_stream_goes_its_way_unless_it_is_compared_with_another() {
        use Backend::{Auto, AutoWithRing};
        let streams = "[workloads.both.streams.log]\nrw = \"write\"\n\
                       [workloads.both.streams.data]\nrw = \"randread\"\nqueue_depth = 8\n";
        let both = |condition: &str| {
            let chosen = chosen(&format!("{streams}{condition}"), "");
            [chosen[2], chosen[3], chosen[6], chosen[7]]
        };
        assert_eq!(both(""), [Auto, AutoWithRing, Auto, AutoWithRing]);
        let condition = |case: &str, other: &str| {
            both(&format!("[[expect]]\ncase = \"{case}\"\nthat = \"iops >= 1 x {other}\""))
        };
        let alike = [Auto, AutoWithRing, Auto, AutoWithRing];
        assert_eq!(condition("two/both", "one"), alike, "log with log, data with data");
        assert_eq!(condition("two/both/log", "one"), alike);
        let all_of_one = [AutoWithRing, AutoWithRing, Auto, AutoWithRing];
        assert_eq!(condition("one/both/log", "one/both"), all_of_one);
        assert_eq!(condition("one/both/log", "one/both/data"), all_of_one);
    }
}
