//! What a plan means: names resolved, a profile applied, sweeps expanded, and whether it all
//! makes sense.
//!
//! Every check that can be made is made, and none of them follows from a fault that was named
//! already. A plan is checked as it is and with each of its profiles.

use std::collections::HashSet;

use crate::diag::{Diagnostic, nearest};

use super::expect;
use super::glob::{self, Pattern};
use super::model::{Case, CaseId, Inconclusive, Order, Plan, Rounds, RunOptions, Setup, Stream};
use super::profile;
use super::raw::{At, RawPlan, RawRun, RawSetup, RawWorkload, Text};
use super::storage::{self, SetupGroup};
use super::streams;
use super::sweep::{self, Draft};
use super::workload;

/// Cases of a plan.
const CASES_MAX: usize = 1000;
const ROUNDS: Rounds = Rounds { min: 4, max: 12 };

/// Makes a plan certain, with the profile of this name or with none.
///
/// # Errors
/// Everything that is wrong with the plan in the order of the text, whichever profile it is
/// wrong with; and that the plan has no such profile.
pub fn check(raw: &RawPlan, profile: Option<&str>) -> Result<Plan, Vec<Diagnostic>> {
    if let Some(name) = profile.filter(|name| !raw.profiles().any(|known| known == *name)) {
        let span = raw.name.as_ref().map_or(0..0, |name| name.span.clone());
        let message = format!("the plan has no profile `{name}`");
        let diagnostic = Diagnostic::new("plan::unknown-profile", message, span, "");
        return Err(vec![match nearest(name, raw.profiles()) {
            Some(near) => diagnostic.help(format!("it has one called `{near}`")),
            None => diagnostic,
        }]);
    }
    let mut errors = Errors::default();
    let mut chosen = errors.checked(raw, None);
    for with in &raw.profiles {
        let plan = errors.checked(raw, Some(&with.name.value));
        if profile == Some(&with.name.value) {
            chosen = plan;
        }
    }
    match chosen {
        Some(plan) if errors.all.is_empty() => Ok(plan),
        _ => Err(errors.all),
    }
}

/// What is wrong with what could be read of a plan.
pub(super) fn problems(raw: &RawPlan) -> Vec<Diagnostic> {
    let mut errors = Errors::default();
    errors.checked(raw, None);
    for profile in &raw.profiles {
        errors.checked(raw, Some(&profile.name.value));
    }
    errors.all
}

/// Puts diagnostics into the order of the text.
pub(super) fn order(errors: &mut [Diagnostic]) {
    errors.sort_by_key(|error| (error.label.span.start, error.label.span.end));
}

/// Errors of a plan, of which none is said twice.
#[derive(Default)]
struct Errors {
    all: Vec<Diagnostic>,
    known: HashSet<(&'static str, usize, usize)>,
}

impl Errors {
    fn checked(&mut self, raw: &RawPlan, profile: Option<&str>) -> Option<Plan> {
        let mut found = Vec::new();
        let with = raw.profiles.iter().find(|known| Some(known.name.value.as_str()) == profile);
        let laid = with.map(|with| profile::applied(raw, with, &mut found));
        self.add(std::mem::take(&mut found), None);
        let plan = build(laid.as_ref().unwrap_or(raw), profile, &mut found);
        self.add(found, profile);
        order(&mut self.all);
        plan
    }

    /// Adds what was not found before; what is so with a profile alone says so.
    fn add(&mut self, found: Vec<Diagnostic>, profile: Option<&str>) {
        for mut error in found {
            let span = &error.label.span;
            if self.known.insert((error.code, span.start, span.end)) {
                let note = profile.map(|name| format!("this is so with the profile `{name}`"));
                error.notes.extend(note);
                self.all.push(error);
            }
        }
    }
}

/// What expectations are about.
pub(super) struct Scene {
    /// Whole cases, and then the streams of those that have some.
    pub cases: Vec<Case>,
    /// Every setup that is named, and whether its points are known.
    pub setups: Vec<(String, bool)>,
    /// Every workload that is named, and whether its points are known.
    pub workloads: Vec<(String, bool)>,
    /// Whether there may be more of them.
    pub open: bool,
}

impl Scene {
    /// Whether a pattern might match a case that isn't known because of another error.
    pub(super) fn may_match(&self, pattern: &Pattern<'_>) -> bool {
        self.open
            || self.setups.iter().any(|(setup, setup_known)| {
                self.workloads.iter().any(|(workload, known)| {
                    !(*setup_known && *known) && pattern.matches_names(setup, workload)
                })
            })
    }
}

fn build(raw: &RawPlan, profile: Option<&str>, errors: &mut Vec<Diagnostic>) -> Option<Plan> {
    sections(raw, errors);
    let mut disks = storage::disks(raw, errors);
    let setups = storage::setups(raw, &mut disks, errors);
    let run = run(&raw.run, errors);
    let mut scene = Scene {
        cases: Vec::new(),
        setups: Vec::new(),
        workloads: Vec::new(),
        open: raw.setups.broken || raw.workloads.broken,
    };
    for group in &setups {
        scene.setups.push((group.raw.name.value.clone(), !group.points.is_empty()));
    }
    let streams: Vec<_> = raw.workloads.items.iter().map(streams::laid_out).collect();
    let workloads = workloads(raw, &streams, &mut scene, errors);
    selected(raw, &setups, errors);
    let few = cases(&setups, &workloads, &mut scene, errors);
    scene.open |= !few;
    let whole = scene.cases.len();
    scene.cases.extend(stream_cases(&scene.cases));
    let mut assertions = expect::assertions(raw, &scene, errors);
    for assertion in &mut assertions {
        assertion.of_streams(whole, &scene.cases);
    }
    scene.cases.truncate(whole);
    let points = setups.into_iter().flat_map(|group| group.points);
    Some(Plan {
        name: raw.name.as_ref()?.value.clone(),
        description: raw.description.clone(),
        profile: profile.map(str::to_owned),
        disks: disks.disks,
        setups: points.map(|point| point.setup).collect(),
        cases: scene.cases,
        assertions,
        run,
    })
}

/// A plan needs a disk, a setup and a workload.
fn sections(raw: &RawPlan, errors: &mut Vec<Diagnostic>) {
    let span = raw.name.as_ref().map_or(0..0, |name| name.span.clone());
    let mut lacks = |what: &str, empty: bool, header: &str| {
        if empty {
            let message = format!("the plan has no {what}");
            errors.push(
                Diagnostic::new("plan::nothing-to-run", message, span.clone(), "")
                    .note("a plan puts disks into setups and runs workloads on them")
                    .help(format!("add a table `{header}`")),
            );
        }
    };
    let (disks, setups, workloads) = (&raw.disks, &raw.setups, &raw.workloads);
    // The first that is missing: the others are often missing with it.
    if disks.items.is_empty() {
        lacks("disk", !disks.broken, "[disks.single]");
    } else if setups.items.is_empty() {
        lacks("setup", !setups.broken, "[setups.single]");
    } else if workloads.items.is_empty() {
        lacks("workload", !workloads.broken, "[workloads.read]");
    }
}

/// A workload of the plan's text with its points; without any if its keys are not all right.
pub(super) struct WorkloadGroup<'r> {
    pub raw: &'r RawWorkload,
    pub drafts: Vec<Draft<'r>>,
    /// Whether the points are what the author wrote.
    pub known: bool,
}

fn workloads<'r>(
    raw: &'r RawPlan,
    streams: &'r [Vec<RawWorkload>],
    scene: &mut Scene,
    errors: &mut Vec<Diagnostic>,
) -> Vec<WorkloadGroup<'r>> {
    let mut groups = Vec::new();
    for (workload, streams) in raw.workloads.items.iter().zip(streams) {
        if workload.streams.is_some() {
            let group = streams::group(workload, streams, errors);
            scene.workloads.push((workload.name.value.clone(), group.known));
            groups.push(group);
            continue;
        }
        let count = sweep::count(workload);
        if count > CASES_MAX {
            too_many(workload, count, errors);
        }
        let drafts = if count > CASES_MAX { Vec::new() } else { sweep::drafts(workload) };
        workload::whole(workload, &drafts, errors);
        for draft in &drafts {
            workload::point(draft, errors);
        }
        let given = workload.entries.iter().any(|entry| entry.key == "rw");
        let sound = workload.entries.iter().all(|entry| entry.values.is_some());
        let known = given && sound && !drafts.is_empty();
        scene.workloads.push((workload.name.value.clone(), known));
        groups.push(WorkloadGroup { raw: workload, drafts, known });
    }
    groups
}

fn too_many(workload: &RawWorkload, count: usize, errors: &mut Vec<Diagnostic>) {
    let longest = workload
        .entries
        .iter()
        .filter(|entry| entry.values.as_ref().is_some_and(|values| values.swept))
        .max_by_key(|entry| entry.values.as_ref().map_or(0, |values| values.items.len()));
    let span = longest.map_or(workload.name.span.clone(), |entry| entry.key_span.clone());
    let message = format!("the plan would have {count} cases or more");
    errors.push(
        Diagnostic::new("plan::too-many-cases", message, span, "the longest list")
            .note(format!("a plan has at most {CASES_MAX}")),
    );
}

/// Whether a setup lets a workload run.
fn runs(setup: &RawSetup, id: &CaseId) -> bool {
    let Some(globs) = setup.workloads.get() else { return true };
    globs.value.iter().any(|glob| allows(&glob.value, id))
}

/// A pattern over workloads is one over cases whose setup is any.
fn allows(glob: &str, id: &CaseId) -> bool {
    glob::case_matches(&format!("*/{glob}"), id)
}

/// Patterns that match no workload, and workloads that nothing runs.
fn selected(raw: &RawPlan, setups: &[SetupGroup<'_>], errors: &mut Vec<Diagnostic>) {
    if raw.workloads.broken || raw.workloads.items.is_empty() {
        return;
    }
    let mut sure = !raw.setups.broken && !setups.is_empty();
    for setup in setups.iter().map(|setup| setup.raw) {
        sure &= !setup.workloads.is_broken() && !setup.doubtful;
        for glob in setup.workloads.get().into_iter().flat_map(|globs| &globs.value) {
            sure &= matched(raw, glob, errors);
        }
    }
    for workload in raw.workloads.items.iter().filter(|_| sure) {
        let name = &workload.name;
        let wanted = |setup: &SetupGroup<'_>| {
            let globs = setup.raw.workloads.get();
            globs.is_none_or(|globs| globs.value.iter().any(|glob| names(&glob.value, &name.value)))
        };
        if !setups.iter().any(wanted) {
            let message = format!("no setup runs the workload `{}`", name.value);
            let span = name.span.clone();
            errors.push(
                Diagnostic::new("plan::unused-workload", message, span, "not run")
                    .help("add it to the `workloads` of a setup, or take it out of the plan"),
            );
        }
    }
}

/// Whether a pattern matches a workload, whatever its point is.
fn names(glob: &str, workload: &str) -> bool {
    glob::brackets(glob).is_some_and(|(name, _)| glob::matches(name, workload))
}

fn matched(raw: &RawPlan, pattern: &Text, errors: &mut Vec<Diagnostic>) -> bool {
    let known = || raw.workloads.items.iter().map(|workload| workload.name.value.as_str());
    if known().any(|name| names(&pattern.value, name)) {
        return true;
    }
    let message = format!("`{}` matches no workload", pattern.value);
    let part = pattern.part(0..pattern.value.len());
    let diagnostic =
        Diagnostic::new("plan::unknown-workload", message, part.clone(), "matches nothing");
    errors.push(match nearest(&pattern.value, known()) {
        Some(near) if pattern.inside.is_some() => {
            diagnostic.fix("use the workload that exists", part, near)
        }
        _ => diagnostic,
    });
    false
}

/// What expectations can be put on beside whole cases.
fn stream_cases(cases: &[Case]) -> Vec<Case> {
    let of_case = |case: &Case| {
        let id = |stream: &Stream| CaseId { stream: Some(stream.name.clone()), ..case.id.clone() };
        let streams = case.workload.streams.iter();
        let cases = streams.map(|one| (id(one), one.workload.clone()));
        let setup = case.setup;
        cases.map(|(id, workload)| Case { id, setup, workload }).collect::<Vec<_>>()
    };
    cases.iter().flat_map(of_case).collect()
}

/// Makes the cases; whether there are not too many.
fn cases(
    setups: &[SetupGroup<'_>],
    workloads: &[WorkloadGroup<'_>],
    scene: &mut Scene,
    errors: &mut Vec<Diagnostic>,
) -> bool {
    let mut setup_index = 0;
    for group in setups {
        for point in &group.points {
            for workload in workloads {
                for draft in &workload.drafts {
                    let id = case_id(&point.setup, &workload.raw.name, draft);
                    if !runs(group.raw, &id) {
                        continue;
                    }
                    workload::on_setup(draft, point, errors);
                    if !workload.known {
                        continue;
                    }
                    if scene.cases.len() == CASES_MAX {
                        too_many(workload.raw, CASES_MAX + 1, errors);
                        return false;
                    }
                    let workload = draft.workload.clone();
                    scene.cases.push(Case { id, setup: setup_index, workload });
                }
            }
            setup_index += 1;
        }
    }
    true
}

fn case_id(setup: &Setup, workload: &At<String>, draft: &Draft<'_>) -> CaseId {
    CaseId {
        setup: setup.name.clone(),
        setup_point: setup.point.clone(),
        workload: workload.value.clone(),
        workload_point: draft.point.clone(),
        stream: None,
    }
}

fn run(raw: &RawRun, errors: &mut Vec<Diagnostic>) -> RunOptions {
    let rounds = raw.rounds.get().map_or(ROUNDS, |rounds| rounds.value);
    let order = raw.order.get().map_or(Order::Balanced, |order| order.value);
    let odd = |count: u32| !count.is_multiple_of(2);
    let single = rounds == Rounds { min: 1, max: 1 };
    if let Some(at) = raw.rounds.get()
        && !raw.order.is_broken()
        && order == Order::Balanced
        && (odd(rounds.min) || odd(rounds.max))
        && !single
    {
        let even = |count: u32| count.next_multiple_of(2);
        let fixed = match (even(rounds.min), even(rounds.max)) {
            (min, max) if rounds.min == rounds.max && min == max => min.to_string(),
            (min, max) => format!("{{ min = {min}, max = {max} }}"),
        };
        let message = "the order `balanced` needs an even number of rounds";
        errors.push(
            Diagnostic::new("plan::odd-rounds", message, at.span.clone(), "odd")
                .note("every other round runs backwards, so that a steady drift cancels out")
                .note("`order = \"interleaved\"` takes any number")
                .fix("make it even", at.span.clone(), fixed),
        );
    }
    let inconclusive = raw.inconclusive.get().map_or(Inconclusive::Open, |at| at.value);
    RunOptions { rounds, order, inconclusive }
}
