//! Expectations: which cases they are about, and whether what they ask can be answered.

mod condition;
mod reference;

use std::collections::HashMap;

use crate::diag::{Diagnostic, nearest};
use crate::measure::IoKind;

use super::assertion::{Against, Assertion, Condition, Level, Metric, Test};
use super::check::Scene;
use super::glob::Pattern;
use super::model::Case;
use super::raw::{RawExpect, RawPlan, Span, Text};
use condition::{Parsed, RawTest, Reference};

/// Conditions on cases, one by one.
const ASSERTIONS_MAX: usize = 10_000;

/// Checks every expectation and lays it out over the cases that it is about.
pub(super) fn assertions(
    plan: &RawPlan,
    scene: &Scene,
    errors: &mut Vec<Diagnostic>,
) -> Vec<Assertion> {
    let mut laid = Laid { scene, plan, errors, assertions: Vec::new(), seen: HashMap::new() };
    for expect in &plan.expects {
        let cases = laid.cases(expect);
        for text in expect.that.get().into_iter().flat_map(|that| &that.value) {
            match condition::parse(&text.value) {
                Ok(parsed) => laid.lay(expect, text, &parsed, &cases),
                Err(fault) => laid.errors.push(placed(*fault, text)),
            }
            if laid.assertions.len() > ASSERTIONS_MAX {
                let message = format!("there are more than {ASSERTIONS_MAX} conditions on cases");
                let (code, span) = ("plan::too-many-cases", text.span.clone());
                laid.errors.push(Diagnostic::new(code, message, span, "with this one"));
                return laid.assertions;
            }
        }
    }
    laid.assertions
}

/// Assertions so far.
struct Laid<'a> {
    scene: &'a Scene,
    plan: &'a RawPlan,
    errors: &'a mut Vec<Diagnostic>,
    assertions: Vec<Assertion>,
    /// By case and condition, where it stands.
    seen: HashMap<(usize, String), Span>,
}

impl Laid<'_> {
    /// The cases that an expectation is about.
    fn cases(&mut self, expect: &RawExpect) -> Vec<usize> {
        let Some(glob) = expect.case.get().map(|at| &at.value) else { return Vec::new() };
        let pattern = Pattern::new(&glob.value);
        let cases = self.scene.cases.iter().enumerate();
        let matching = |pattern: &Pattern<'_>| -> Vec<usize> {
            cases.filter(|(_, case)| pattern.matches(&case.id)).map(|(index, _)| index).collect()
        };
        let found = pattern.as_ref().map(matching).unwrap_or_default();
        let excused = match &pattern {
            Some(pattern) => self.scene.may_match(pattern),
            None => false,
        };
        if found.is_empty() && !excused && !self.scene.setups.is_empty() {
            self.errors.push(self.no_case(glob));
        }
        found
    }

    fn no_case(&self, glob: &Text) -> Diagnostic {
        let part = glob.part(0..glob.value.len());
        let message = format!("`{}` matches no case", glob.value);
        let diagnostic =
            Diagnostic::new("plan::unknown-case", message, part.clone(), "no such case");
        let scene = self.scene;
        let points: Vec<_> = scene.cases.iter().map(|case| case.id.to_string()).collect();
        let mut names = Vec::new();
        for (setup, _) in &scene.setups {
            for (workload, _) in &scene.workloads {
                names.push(format!("{setup}/{workload}"));
            }
        }
        let whole = |name: &str| format!("*/{name}");
        if self.scene.workloads.iter().any(|(name, _)| *name == glob.value) && glob.patchable() {
            return diagnostic.fix("a case is a setup and a workload", part, whole(&glob.value));
        }
        if self.scene.setups.iter().any(|(name, _)| *name == glob.value) && glob.patchable() {
            let fixed = format!("{}/*", glob.value);
            return diagnostic.fix("a case is a setup and a workload", part, fixed);
        }
        match nearest(&glob.value, names.iter().chain(&points).map(String::as_str)) {
            Some(near) if glob.patchable() => {
                diagnostic.fix("use the case that exists", part, near)
            }
            _ if points.is_empty() => diagnostic,
            _ => diagnostic.note(some(&points)),
        }
    }

    /// Lays a condition over its cases.
    fn lay(&mut self, expect: &RawExpect, text: &Text, parsed: &Parsed, cases: &[usize]) {
        for &case in cases {
            if let Some(lack) = lack(parsed.metric.value, &self.scene.cases[case]) {
                let id = &self.scene.cases[case].id;
                let message = format!("`{id}` has no `{}`", parsed.metric.value);
                let span = text.part(parsed.metric.span.clone());
                self.errors.push(Diagnostic::new("plan::no-such-figure", message, span, lack));
                return;
            }
            let wanted = match &parsed.test {
                RawTest::Constant(comparison, value) => Test::Constant(*comparison, *value),
                RawTest::Between(low, high) => Test::Between(*low, *high),
                RawTest::Times(comparison, factor, reference) => {
                    match self.against(text, case, parsed, reference) {
                        Some(against) => Test::Times(*comparison, *factor, against),
                        None => return,
                    }
                }
                RawTest::Within(share, reference) => {
                    match self.against(text, case, parsed, reference) {
                        Some(against) => Test::Within(*share, against),
                        None => return,
                    }
                }
            };
            let condition = Condition { metric: parsed.metric.value, test: wanted };
            self.add(expect, text, case, condition);
        }
    }

    /// Resolves a reference; `None` if it can't be, which has been said where it is an error.
    fn against(
        &mut self,
        text: &Text,
        case: usize,
        parsed: &Parsed,
        reference: &Reference,
    ) -> Option<Against> {
        match reference::resolve(self.scene, case, parsed.metric.value, reference) {
            Ok(against) => against,
            Err(fault) => {
                self.errors.push(placed(*fault, text));
                None
            }
        }
    }

    fn add(&mut self, expect: &RawExpect, text: &Text, case: usize, condition: Condition) {
        // Conditions of one case are told from each other by what they ask, and by their text.
        let meaning = format!("{condition:?}");
        let words = text.value.split_whitespace().collect::<Vec<_>>().join(" ");
        for key in [meaning, words] {
            if let Some(before) = self.seen.get(&(case, key.clone())).filter(|s| **s != text.span) {
                let id = &self.scene.cases[case].id;
                let message = format!("`{id}` is asked for this twice");
                self.errors.push(
                    Diagnostic::new("plan::twice", message, text.span.clone(), "asked again")
                        .context(before.clone(), "asked first"),
                );
                return;
            }
            self.seen.insert((case, key), text.span.clone());
        }
        let (line, _) = self.plan.source.position(text.span.start);
        self.assertions.push(Assertion {
            case,
            stream: None,
            text: text.value.clone(),
            condition,
            why: expect.why.get().map(|why| why.value.clone()),
            level: expect.level.get().map_or(Level::Gate, |level| level.value),
            line,
        });
    }
}

/// Why a case, or a stream, can't have a figure.
fn lack(metric: Metric, case: &Case) -> Option<&'static str> {
    use crate::plan::Measure::{CpuPerIo, CpuSystem, CpuUser, DeviceUtilization, VerifyErrors};
    let workload = &case.workload;
    let shared = matches!(metric.measure, CpuUser | CpuSystem | CpuPerIo | DeviceUtilization);
    if case.id.stream.is_some() && shared {
        return Some("that is not told apart by streams");
    }
    if metric.measure == VerifyErrors && !workload.verify {
        return Some("this workload verifies nothing: it has no `verify = true`");
    }
    match metric.kind? {
        IoKind::Read if !workload.reads() => Some("this workload reads nothing"),
        IoKind::Write if !workload.writes() => Some("this workload writes nothing"),
        IoKind::Trim if !workload.trims() => Some("this workload trims nothing"),
        IoKind::Sync if !workload.syncs() => Some("this workload syncs nothing"),
        _ => None,
    }
}

/// A few names, for a note.
fn some(names: &[String]) -> String {
    const SHOWN: usize = 6;
    let listed: Vec<_> = names.iter().take(SHOWN).map(|name| format!("`{name}`")).collect();
    let more = if names.len() > SHOWN { " and more" } else { "" };
    format!("there are {}{more}", listed.join(", "))
}

/// A fault of this condition, with its places in the plan's text.
fn placed(mut diagnostic: Diagnostic, text: &Text) -> Diagnostic {
    diagnostic.label.span = text.part(diagnostic.label.span);
    if let Some(help) = &mut diagnostic.help
        && let Some((part, with)) = &mut help.patch
    {
        if text.patchable() {
            *part = text.part(part.clone());
        } else {
            if !help.message.contains(&*with) {
                help.message = format!("{}: `{}`", help.message, with.trim());
            }
            help.patch = None;
        }
    }
    diagnostic
}
