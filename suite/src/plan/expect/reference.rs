//! What a condition compares with: which case a reference means.

use crate::diag::{Diagnostic, nearest};

use super::super::assertion::{Against, Metric};
use super::super::check::Scene;
use super::super::glob::{self, Pattern};
use super::super::model::{Case, CaseId, EngineChoice, Point};
use super::condition::{Fault, Reference};

/// The case that `reference` means where the condition is on `case`. `None` where that can't be
/// said because of another error.
pub(super) fn resolve(
    scene: &Scene,
    case: usize,
    metric: Metric,
    reference: &Reference,
) -> Result<Option<Against>, Fault> {
    if reference.text == "baseline" {
        return Ok(Some(Against::Baseline));
    }
    let id = &scene.cases[case].id;
    let wanted = Wanted::new(reference, id)?;
    if let Some(fault) = wanted.unknown(scene, reference, id) {
        return Err(Box::new(fault));
    }
    let named = scene.cases.iter().enumerate().filter(|(_, other)| wanted.names(&other.id));
    let candidates: Vec<_> = named.filter(|(_, other)| wanted.matches(id, &other.id)).collect();
    match candidates.as_slice() {
        [(index, _)] if *index == case => {
            let message = format!("`{id}` would be compared with itself");
            Err(Box::new(
                Diagnostic::new(
                    "plan::self-reference",
                    message,
                    reference.span.clone(),
                    "the same case",
                )
                .help("narrow the `case` of the expectation so that it leaves this one out"),
            ))
        }
        [(index, other)] => {
            comparable(metric, &scene.cases[case], other, reference)?;
            Ok(Some(Against::Case(*index, reference.text.clone())))
        }
        [] => match wanted.missing(scene, reference, id) {
            Some(fault) => Err(Box::new(fault)),
            None => Ok(None),
        },
        several => Err(Box::new(ambiguous(several, reference, id))),
    }
}

/// A reference, taken apart.
struct Wanted<'r> {
    setup: &'r str,
    setup_pairs: Vec<&'r str>,
    /// The workload, where it is named.
    workload: Option<&'r str>,
    workload_pairs: Vec<&'r str>,
    /// The workload that it is in any case.
    same_workload: &'r str,
    /// The stream, where one is named, or none but the whole workload.
    stream: Option<&'r str>,
}

impl<'r> Wanted<'r> {
    fn new(reference: &'r Reference, id: &'r CaseId) -> Result<Self, Fault> {
        let malformed = || -> Fault {
            let message = format!("`{}` is not a setup or a case", reference.text);
            Box::new(Diagnostic::new("plan::condition", message, reference.span.clone(), "").note(
                "write `setup` or `setup/workload`, each with `[key=value]` behind it or not",
            ))
        };
        let (whole, stream) = glob::split_stream(&reference.text);
        let parts = glob::split(whole);
        let (setup, workload) = match parts {
            Some((setup, workload)) => (setup, Some(workload)),
            None => (whole, None),
        };
        // Of a setup alone, what is compared with is what is looked at there.
        let stream = if workload.is_some() { stream } else { id.stream.as_deref() };
        let (setup, setup_pairs) = glob::brackets(setup).ok_or_else(malformed)?;
        let workload =
            workload.map(|part| glob::brackets(part).ok_or_else(malformed)).transpose()?;
        if setup.contains(['*', '?'])
            || workload.as_ref().is_some_and(|(n, _)| n.contains(['*', '?']))
        {
            let message = format!("`{}` is a pattern, not one setup or case", reference.text);
            return Err(Box::new(Diagnostic::new(
                "plan::condition",
                message,
                reference.span.clone(),
                "",
            )));
        }
        let (workload, workload_pairs) = workload.map_or((None, Vec::new()), |(n, p)| (Some(n), p));
        let same_workload = &id.workload;
        Ok(Self { setup, setup_pairs, workload, workload_pairs, same_workload, stream })
    }

    /// A name that is not in the plan.
    fn unknown(&self, scene: &Scene, reference: &Reference, id: &CaseId) -> Option<Diagnostic> {
        let start = reference.span.start;
        if self.setup == "record" {
            let message = "this version of diskproof does not know the reference `record`";
            let span = reference.span.clone();
            return Some(Diagnostic::new("plan::unknown-setup", message, span, "not known"));
        }
        if !scene.setups.iter().any(|(name, _)| name == self.setup) && !scene.open {
            let span = start..start + self.setup.len();
            let message = format!("no setup is called `{}`", self.setup);
            let fault =
                Diagnostic::new("plan::unknown-setup", message, span.clone(), "not a setup");
            let workload = scene.workloads.iter().any(|(name, _)| name == self.setup);
            let names = scene.setups.iter().map(|(name, _)| name.as_str());
            return Some(match nearest(self.setup, names.chain(["baseline"])) {
                _ if workload && self.workload.is_none() => fault.fix(
                    "that is a workload: say on which setup",
                    span,
                    format!("{}/{}", id.setup, self.setup),
                ),
                Some("baseline") => fault.fix("use `baseline`", span, "baseline"),
                Some(near) => fault.fix("use the setup that exists", span, near),
                None => fault.note("a reference is a setup, a case or `baseline`"),
            });
        }
        let workload = self.workload?;
        if scene.workloads.iter().any(|(name, _)| name == workload) || scene.open {
            return None;
        }
        let slash = reference.text.find('/').unwrap_or(0) + 1;
        let span = start + slash..start + slash + workload.len();
        let message = format!("no workload is called `{workload}`");
        let fault =
            Diagnostic::new("plan::unknown-workload", message, span.clone(), "not a workload");
        let names = scene.workloads.iter().map(|(name, _)| name.as_str());
        Some(match nearest(workload, names) {
            Some(near) => fault.fix("use the workload that exists", span, near),
            None => fault,
        })
    }

    /// Whether a case has the names that are asked for.
    fn names(&self, other: &CaseId) -> bool {
        other.setup == self.setup
            && other.workload == self.workload.unwrap_or(self.same_workload)
            && other.stream.as_deref() == self.stream
    }

    /// Whether a case of these names is the one: what the reference says in brackets, and beside
    /// it the same values as the case that is compared, wherever both have the key.
    fn matches(&self, id: &CaseId, other: &CaseId) -> bool {
        agree(&self.setup_pairs, &id.setup_point, &other.setup_point)
            && agree(&self.workload_pairs, &id.workload_point, &other.workload_point)
    }

    /// The workload runs there, but has no such stream.
    fn no_such_stream(
        &self,
        scene: &Scene,
        reference: &Reference,
        workload: &str,
    ) -> Option<Diagnostic> {
        let stream = self.stream?;
        let ids = scene.cases.iter().map(|case| &case.id);
        let there = ids.filter(|id| id.setup == self.setup && id.workload == workload);
        let streams: Vec<_> = there.clone().filter_map(|id| id.stream.as_deref()).collect();
        there.clone().next()?;
        let message = format!("`{workload}` has no stream `{stream}`");
        let end = reference.span.end;
        let span = end - stream.len()..end;
        let fault = Diagnostic::new("plan::unknown-case", message, span.clone(), "no such stream");
        Some(match nearest(stream, streams.iter().copied()) {
            Some(near) if self.workload.is_some() => {
                fault.fix("use the stream that exists", span, near)
            }
            _ if streams.is_empty() => fault.note("it is one load"),
            _ => fault.note(format!("it has {}", streams.join(", "))),
        })
    }

    /// There is no such case.
    fn missing(&self, scene: &Scene, reference: &Reference, id: &CaseId) -> Option<Diagnostic> {
        let workload = self.workload.unwrap_or(self.same_workload);
        if Pattern::new(&format!("{}/{workload}", self.setup))
            .is_some_and(|pattern| scene.may_match(&pattern))
        {
            return None;
        }
        let named: Vec<_> = scene.cases.iter().filter(|case| self.names(&case.id)).collect();
        let span = reference.span.clone();
        if named.is_empty()
            && let Some(fault) = self.no_such_stream(scene, reference, workload)
        {
            return Some(fault);
        }
        if named.is_empty() {
            let message = format!("the setup `{}` does not run `{workload}`", self.setup);
            return Some(
                Diagnostic::new("plan::unknown-case", message, span, "no such case").help(format!(
                    "name a case that runs there, or add `{workload}` to its `workloads`"
                )),
            );
        }
        let message = format!("no case of `{}` goes with `{id}`", reference.text);
        Some(
            Diagnostic::new("plan::unknown-case", message, span, "none of the same kind").note(
                super::some(&named.iter().map(|case| case.id.to_string()).collect::<Vec<_>>()),
            ),
        )
    }
}

/// Whether `other` has all that `pairs` ask for, and the values of `mine` for the other keys that
/// both have.
fn agree(pairs: &[&str], mine: &Point, other: &Point) -> bool {
    let asked = |key: &str| pairs.iter().any(|pair| pair.split('=').next() == Some(key));
    let same = |(key, value): &(String, String)| {
        asked(key) || mine.0.iter().all(|(known, held)| known != key || held == value)
    };
    pairs.iter().all(|pair| glob::has(other, pair)) && other.0.iter().all(same)
}

fn ambiguous(candidates: &[(usize, &Case)], reference: &Reference, id: &CaseId) -> Diagnostic {
    let names: Vec<_> = candidates.iter().map(|(_, case)| case.id.to_string()).collect();
    let message = format!("`{}` could be several cases for `{id}`", reference.text);
    Diagnostic::new("plan::ambiguous-reference", message, reference.span.clone(), "which one?")
        .note(super::some(&names))
        .help("say which with `[key=value]` behind the name")
}

/// Whether the reference can have the figure, by the same way to the kernel.
fn comparable(
    metric: Metric,
    case: &Case,
    other: &Case,
    reference: &Reference,
) -> Result<(), Fault> {
    let span = reference.span.clone();
    if let Some(lack) = super::lack(metric, other) {
        let message = format!("`{}` has no `{metric}` to compare with", other.id);
        return Err(Box::new(Diagnostic::new("plan::no-such-figure", message, span, lack)));
    }
    let (mine, theirs) = (case.workload.engine, other.workload.engine);
    if mine != theirs && mine != EngineChoice::Auto && theirs != EngineChoice::Auto {
        let message = format!("`{}` and `{}` force different engines", case.id, other.id);
        return Err(Box::new(
            Diagnostic::new("plan::engines-differ", message, span, "another `engine`")
                .note("a comparison across engines would compare the engines, not the disks"),
        ));
    }
    Ok(())
}
