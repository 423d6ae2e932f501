//! What a run would do here: the look before the leap, for `show` and for the run itself.

use super::job::{self, expected_time as time_of};
use super::{Memory, Request, SessionError, backends, memory, selected, words};
use crate::engine::{self, ProbeResult};
use crate::os::blockdev::Sysfs;
use crate::os::cpu::Affinity;
use crate::plan::{Assertion, Case, EngineChoice, Plan, Workload};
use crate::rig::{self, Category, HostView, Need, RigError, Survey, SurveyedDisk};
use crate::units::Nanos;

/// What a run would do here.
#[derive(Debug)]
pub struct Preview {
    /// The cases that were selected, in the plan's order.
    pub cases: Vec<CasePreview>,
    /// What exists and what would be made for those that can run; `None` with simulated disks.
    pub survey: Option<Survey>,
    /// What stands in the way of the whole run.
    pub troubles: Vec<RigError>,
    /// Conditions that compare with a baseline when none is given: they can't be answered.
    pub without_baseline: usize,
    /// How long the rounds take: at least and at most.
    pub expected: (Nanos, Nanos),
    /// Whether `io_uring` can be used here, and why not; `None` with simulated disks.
    pub ring: Option<ProbeResult>,
    /// Whether `libaio` can be used here, and why not; `None` where nobody asks: with simulated
    /// disks, and where there is `io_uring` and the plan names nothing else.
    pub libaio: Option<ProbeResult>,
}

/// One case of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CasePreview {
    /// Index into [`Plan::cases`].
    pub case: usize,
    /// Its name.
    pub id: String,
    /// What it does, in one line.
    pub what: String,
    /// Its conditions, as written; one on a stream has the stream's name before it.
    pub conditions: Vec<String>,
    /// The most memory that it takes; `None` with simulated disks, and where it can't run here.
    pub memory: Option<Memory>,
    /// Why it can't run here; empty when it can.
    pub skipped: Vec<String>,
}

/// Looks at what a request would do here. Reads only.
///
/// # Errors
/// When the selection leaves nothing.
pub fn preview(request: &Request) -> Result<Preview, SessionError> {
    let plan = &request.plan;
    let mut cases: Vec<_> =
        selected(plan, &request.selection)?.into_iter().map(|case| outline(plan, case)).collect();
    let (mut survey, mut ring, mut libaio) = (None, None, None);
    let mut troubles = Vec::new();
    if request.simulate.is_none() {
        let probed = engine::probe();
        let names_libaio = |outlined: &CasePreview| {
            let loads = plan.cases[outlined.case].workload.loads();
            loads.iter().any(|load| load.engine == EngineChoice::Libaio)
        };
        if !probed.usable || cases.iter().any(names_libaio) {
            libaio = Some(engine::probe_libaio());
        }
        skip_for_want_of_a_way(plan, &mut cases, &probed, libaio.as_ref());
        ring = Some(probed);
        if let Ok(allowed) = Affinity::of_this_thread() {
            skip_for_want_of_cpus(plan, &mut cases, allowed);
        }
        let mut found = look(request, &cases);
        let polling = skip_for_want_of_polling(plan, &mut cases, &found, &Sysfs::new("/sys"));
        if skip_for_want_of_storage(&mut cases, &mut found) || polling {
            found = look(request, &cases);
        }
        troubles.extend(found.troubles.drain(..).map(|trouble| trouble.error));
        let back_ends = backends::back_ends(plan);
        for outlined in cases.iter_mut().filter(|outlined| outlined.skipped.is_empty()) {
            let ways = &back_ends[outlined.case];
            outlined.memory = memory::of_case(plan, outlined.case, ways, &found);
        }
        survey = Some(found);
    }
    if request.simulate.is_some() {
        for outlined in &mut cases {
            if plan.cases[outlined.case].workload.verify {
                let reason = "simulated disks hold no data: there is nothing to verify";
                outlined.skipped.push(reason.to_owned());
            }
        }
    }
    let running = cases.iter().filter(|case| case.skipped.is_empty());
    let expected = rounds_time(plan, running.map(|case| &plan.cases[case.case]));
    let without_baseline = if request.baseline.is_some() {
        0
    } else {
        let asked = cases.iter().flat_map(|outlined| {
            let of_case = |assertion: &&Assertion| assertion.case == outlined.case;
            plan.assertions.iter().filter(of_case)
        });
        asked.filter(|assertion| assertion.condition.test.needs_baseline()).count()
    };
    Ok(Preview { cases, survey, troubles, without_baseline, expected, ring, libaio })
}

/// How long a whole plan takes, at least and at most.
#[must_use]
pub fn expected_time(plan: &Plan) -> (Nanos, Nanos) {
    rounds_time(plan, plan.cases.iter())
}

fn rounds_time<'p>(plan: &Plan, cases: impl Iterator<Item = &'p Case>) -> (Nanos, Nanos) {
    let once = cases.fold(0_u64, |sum, case| sum.saturating_add(time_of(&case.workload).0));
    let rounds = plan.run.rounds;
    let times = |count: u32| Nanos(once.saturating_mul(count.into()));
    (times(rounds.min), times(rounds.max))
}

fn outline(plan: &Plan, case: usize) -> CasePreview {
    let of_case = plan.assertions.iter().filter(|assertion| assertion.case == case);
    CasePreview {
        case,
        id: plan.cases[case].id.to_string(),
        what: words::sentence(&plan.cases[case].workload),
        conditions: of_case.map(Assertion::with_stream).collect(),
        memory: None,
        skipped: Vec::new(),
    }
}

/// A depth above 1 needs a ring or libaio, and a workload may name the one that it needs. What
/// wasn't probed isn't needed.
fn skip_for_want_of_a_way(
    plan: &Plan,
    cases: &mut [CasePreview],
    ring: &ProbeResult,
    libaio: Option<&ProbeResult>,
) {
    let lack = |probed: &ProbeResult| {
        let reason = probed.reason.as_deref().unwrap_or("the kernel doesn't say why");
        (!probed.usable).then(|| reason.to_owned())
    };
    let (no_ring, no_libaio) = (lack(ring), libaio.and_then(lack));
    let of_load = |outlined: &mut CasePreview, workload: &Workload| {
        let skipped = match (workload.engine, &no_ring, &no_libaio) {
            (EngineChoice::IoUring, Some(reason), _) => format!("needs io_uring: {reason}"),
            (EngineChoice::Libaio, _, Some(reason)) => format!("needs libaio: {reason}"),
            (EngineChoice::Auto, Some(no_ring), no_libaio) if workload.queue_depth > 1 => {
                let no_libaio = match no_libaio {
                    _ if !job::is_direct(workload) => {
                        "through the page cache it does one I/O at a time"
                    }
                    Some(reason) => reason,
                    None => return,
                };
                format!(
                    "a queue depth of {} needs io_uring or libaio: io_uring can't be used: \
                     {no_ring}; libaio can't be used: {no_libaio}",
                    workload.queue_depth
                )
            }
            _ => return,
        };
        if !outlined.skipped.contains(&skipped) {
            outlined.skipped.push(skipped);
        }
    };
    for outlined in cases {
        for load in plan.cases[outlined.case].workload.loads() {
            of_load(outlined, load);
        }
    }
}

/// Workers can be pinned only to CPUs that are there and that this process may use.
fn skip_for_want_of_cpus(plan: &Plan, cases: &mut [CasePreview], allowed: Affinity) {
    for outlined in cases {
        let cpus = &plan.cases[outlined.case].workload.cpus;
        let missing: Vec<String> =
            cpus.iter().filter(|cpu| !allowed.contains(**cpu)).map(ToString::to_string).collect();
        let reason = match &missing[..] {
            [] => continue,
            [one] => format!("CPU {one} isn't one that this process may use ({allowed})"),
            more => {
                let list = more.join(", ");
                format!("CPUs {list} aren't among those that this process may use ({allowed})")
            }
        };
        outlined.skipped.push(reason);
    }
}

/// Skips the cases that poll disks which the kernel says can't be polled, and tells whether there
/// were any. Of those that it says nothing of, the first round shows it.
fn skip_for_want_of_polling(
    plan: &Plan,
    cases: &mut [CasePreview],
    survey: &Survey,
    sysfs: &Sysfs,
) -> bool {
    let cannot = |disk: &&SurveyedDisk| {
        let number = disk.block_device.as_ref().map(|device| device.number);
        number.and_then(|number| sysfs.can_poll(number)) == Some(false)
    };
    let mut skipped = false;
    for outlined in cases.iter_mut().filter(|outlined| outlined.skipped.is_empty()) {
        let Case { setup, workload, .. } = &plan.cases[outlined.case];
        let disks = &plan.setups[*setup].disks;
        let mut disks = survey.disks.iter().filter(|disk| disks.contains(&disk.disk));
        if workload.loads().iter().any(|load| load.hipri)
            && let Some(disk) = disks.find(cannot)
        {
            skipped = true;
            outlined.skipped.push(engine::cannot_poll(&disk.name));
        }
    }
    skipped
}

/// Skips the cases that the machine's storage can't serve, and says whether there were any. What
/// else stands in the way stays in the survey.
fn skip_for_want_of_storage(cases: &mut [CasePreview], survey: &mut Survey) -> bool {
    let running: Vec<usize> =
        (0..cases.len()).filter(|index| cases[*index].skipped.is_empty()).collect();
    let (missing, rest): (Vec<_>, Vec<_>) =
        std::mem::take(&mut survey.troubles).into_iter().partition(|trouble| {
            trouble.error.category() == Category::MissingRequirement && !trouble.needs.is_empty()
        });
    survey.troubles = rest;
    for trouble in &missing {
        let reason = match trouble.error.help() {
            Some(help) => format!("{}; {help}", trouble.error),
            None => trouble.error.to_string(),
        };
        for need in &trouble.needs {
            cases[running[*need]].skipped.push(reason.clone());
        }
    }
    !missing.is_empty()
}

/// Surveys the storage of the cases that are not skipped; needs are in their order.
fn look(request: &Request, cases: &[CasePreview]) -> Survey {
    let needs: Vec<Need> = cases
        .iter()
        .filter(|outlined| outlined.skipped.is_empty())
        .map(|outlined| {
            let case = &request.plan.cases[outlined.case];
            Need {
                setup: case.setup,
                writes: case.workload.changes(),
                direct: job::is_direct(&case.workload),
                fresh: job::wants_fresh_file(&case.workload),
                block_sizes: case.workload.blocks.0.iter().map(|(size, _)| *size).collect(),
            }
        })
        .collect();
    rig::survey(&request.plan, &needs, &request.bindings, &HostView::new(&request.work_dir))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::diag::Source;
    use crate::plan;

    #[test]
    fn a_case_on_cpus_that_are_not_to_be_had_is_skipped_with_the_reason() {
        let text = "name = 'one'\ndisks.single = { size = '1MiB' }\n\
                    setups.single = { disks = ['single'] }\n\
                    [[expect]]\ncase = '*'\nthat = 'errors = 0'\n\
                    [workloads.any]\nrw = 'randread'\n\
                    [workloads.far]\nrw = 'randread'\ncpus = '1022-1023'\n";
        let source = Source { name: "one.toml".to_owned(), text: text.to_owned() };
        let checked = plan::parse(&source).and_then(|raw| plan::check(&raw, None));
        let plan = checked.expect("a sound plan");
        let mut cases: Vec<_> = (0..2).map(|case| outline(&plan, case)).collect();
        let allowed = Affinity::one(1022).unwrap();
        skip_for_want_of_cpus(&plan, &mut cases, allowed);
        assert_eq!(cases[0].skipped, Vec::<String>::new());
        let reason = "CPU 1023 isn't one that this process may use (1022)";
        assert_eq!(cases[1].skipped, [reason]);
        let mut cases = vec![outline(&plan, 1)];
        skip_for_want_of_cpus(&plan, &mut cases, Affinity::one(3).unwrap());
        let reason = "CPUs 1022, 1023 aren't among those that this process may use (3)";
        assert_eq!(cases[0].skipped, [reason]);
    }
}
