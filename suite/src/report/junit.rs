//! JUnit XML in the subset that Jenkins' strict schema (junit-10.xsd) takes and every other
//! consumer reads: one suite for the plan, one test case for each verdict.
//!
//! No consumer may read a run as passed that didn't: what went wrong without a condition, a run
//! that was stopped, and an exit code that nothing else explains are test cases with an error.

use std::collections::HashSet;
use std::fmt::Write as _;

use super::facts::{self, compared, exact, measured_and_limit, spread, troubles};
use super::text::clipped;
use crate::record::{CaseRecord, Evidence, Outcome, Record, Verdict};
use crate::units::acts;

/// Longest name or message; the rest of a monster says nothing more.
const NAME: usize = 500;
/// Longest body of one test case.
const BODY: usize = 8_000;
/// Bytes of all bodies together: GitLab takes files of 30 MB.
const BODIES: usize = 16 << 20;
/// Test cases and properties that are written; the rest is counted in one that is an error.
const ENTRIES: usize = 10_000;

/// One test case.
struct Entry {
    class: String,
    name: String,
    /// Measured time, on the first condition of each case alone, so that sums are right.
    seconds: f64,
    state: State,
    output: Option<String>,
}

/// What became of it.
enum State {
    Passed,
    /// Element, type, message and body.
    Not(Element, &'static str, String, String),
}

/// The elements that a test case may hold.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Element {
    Failure,
    Error,
    Skipped,
}

/// The record as JUnit XML.
#[must_use]
pub fn junit(record: &Record) -> String {
    let mut entries = entries(record);
    make_unique(&mut entries);
    cut_bodies(&mut entries);
    let count = |element| {
        let is = |entry: &&Entry| matches!(&entry.state, State::Not(kind, ..) if *kind == element);
        entries.iter().filter(is).count()
    };
    let (failures, errors) = (count(Element::Failure), count(Element::Error));
    let measured = entries.iter().fold(0.0, |sum, entry| sum + entry.seconds);
    let seconds = record.elapsed_ms.map_or(measured, |elapsed| elapsed as f64 / 1000.0);
    let name = attribute(&record.plan.name);
    let tests = entries.len();
    let counts = format!("tests=\"{tests}\" failures=\"{failures}\" errors=\"{errors}\"");
    let mut out = format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n\
         <testsuites name=\"{name}\" {counts} time=\"{seconds:.3}\">\n\
         \x20 <testsuite name=\"{name}\" {counts} skipped=\"{}\" time=\"{seconds:.3}\"",
        count(Element::Skipped)
    );
    for (key, value) in [
        ("timestamp", &record.started),
        ("hostname", &record.host.as_ref().map(|h| h.name.clone())),
    ] {
        if let Some(value) = value {
            let _ = write!(out, " {key}=\"{}\"", attribute(value));
        }
    }
    out.push_str(">\n    <properties>\n");
    for (name, value) in properties(record) {
        let (name, value) = (attribute(&name), attribute(&value));
        let _ = writeln!(out, "      <property name=\"{name}\" value=\"{value}\"/>");
    }
    out.push_str("    </properties>\n");
    for entry in &entries {
        write_entry(&mut out, entry);
    }
    out + "  </testsuite>\n</testsuites>\n"
}

fn write_entry(out: &mut String, entry: &Entry) {
    let (class, name) = (attribute(&entry.class), attribute(&entry.name));
    let seconds = entry.seconds;
    let _ =
        write!(out, "    <testcase classname=\"{class}\" name=\"{name}\" time=\"{seconds:.3}\"");
    if matches!(entry.state, State::Passed) && entry.output.is_none() {
        out.push_str("/>\n");
        return;
    }
    out.push_str(">\n");
    if let State::Not(element, kind, message, body) = &entry.state {
        let element = match element {
            Element::Failure => "failure",
            Element::Error => "error",
            Element::Skipped => "skipped",
        };
        let (message, body) = (attribute(message), content(body));
        let _ = writeln!(
            out,
            "      <{element} type=\"{kind}\" message=\"{message}\">{body}</{element}>"
        );
    }
    if let Some(output) = &entry.output {
        let _ = writeln!(out, "      <system-out>{}</system-out>", content(output));
    }
    out.push_str("    </testcase>\n");
}

fn entries(record: &Record) -> Vec<Entry> {
    let mut timed = HashSet::new();
    let mut entries: Vec<Entry> = Vec::new();
    for verdict in record.verdicts.iter().take(ENTRIES) {
        // Streams run side by side: their time is that of the case, and counts once.
        let whole = record.whole_of(&verdict.case);
        let first = timed.insert(whole.map_or(&verdict.case, |case| &case.id));
        let seconds = whole.filter(|_| first).map_or(0.0, measured_seconds);
        let case = record.case(&verdict.case);
        entries.push(of_verdict(record, verdict, case.as_deref(), seconds));
    }
    if let Some(more) = record.verdicts.len().checked_sub(ENTRIES).filter(|more| *more > 0) {
        entries.push(error(
            record,
            "run",
            "every condition",
            "too-many",
            &format!("{more} more conditions are in the record alone"),
        ));
    }
    for case in record.cases.iter().take(ENTRIES) {
        let troubles = troubles(record, case);
        let judged = record.verdicts.iter().any(|verdict| {
            case.is_or_has(&verdict.case) && verdict.outcome == Outcome::Error && verdict.gate
        });
        if !troubles.is_empty() && !judged {
            let kind = trouble_kind(Some(case));
            let mut entry = error(record, &case.id, "is measured", kind, &troubles[0]);
            entry.seconds = if timed.contains(&case.id) { 0.0 } else { measured_seconds(case) };
            if let State::Not(.., body) = &mut entry.state {
                *body = troubles.join("\n");
            }
            entries.push(entry);
        }
    }
    let explained = entries
        .iter()
        .any(|entry| matches!(entry.state, State::Not(Element::Failure | Element::Error, ..)));
    let note = record.conclusion.note.as_deref();
    if record.interrupted {
        let message = note.unwrap_or("the run was stopped before its end");
        entries.push(error(record, "run", "reaches its end", "interrupted", message));
    } else if record.conclusion.exit_code != 0 && !explained {
        let headline = facts::headline(record);
        let message = format!("{}: {}", headline.word, note.unwrap_or(&headline.rest));
        entries.push(error(record, "run", "comes to a verdict", "no-verdict", &message));
    }
    entries
}

fn error(record: &Record, of: &str, name: &str, kind: &'static str, message: &str) -> Entry {
    let state = State::Not(Element::Error, kind, message.to_owned(), String::new());
    Entry { class: class(record, of), name: name.to_owned(), seconds: 0.0, state, output: None }
}

fn class(record: &Record, of: &str) -> String {
    format!("{}.{}", clipped(&record.plan.name, NAME), clipped(of, NAME))
}

fn of_verdict(
    record: &Record,
    verdict: &Verdict,
    case: Option<&CaseRecord>,
    seconds: f64,
) -> Entry {
    let message = message(verdict);
    let body = || body(record, verdict, case);
    let not = |element, kind| State::Not(element, kind, message.clone(), body());
    let kind = trouble_kind(record.whole_of(&verdict.case));
    let inconclusive = record.conclusion.inconclusive.as_str();
    let mut output = None;
    let state = match (verdict.outcome, verdict.gate) {
        (Outcome::Pass, _) => State::Passed,
        // A warning is never a failure; it is said where a reader of the test case finds it.
        (Outcome::Fail, false) => {
            output = Some(format!("warning: {}", body()));
            State::Passed
        }
        (Outcome::Fail, true) => not(Element::Failure, "threshold"),
        (Outcome::Inconclusive, true) if inconclusive == "fail" => {
            not(Element::Failure, "inconclusive")
        }
        (Outcome::Inconclusive, true) if inconclusive != "pass" => {
            not(Element::Error, "inconclusive")
        }
        (Outcome::Inconclusive, _) => not(Element::Skipped, "inconclusive"),
        (Outcome::Error, true) => not(Element::Error, kind),
        // Without data it is no pass, and being a warning it is no error of the run.
        (Outcome::Error, false) => not(Element::Skipped, kind),
        (Outcome::Skipped, _) => {
            let message =
                facts::reason(record, verdict).unwrap_or_else(|| "the case was not run".to_owned());
            State::Not(Element::Skipped, "not-run", message, body())
        }
    };
    let name = clipped(&verdict.condition, NAME);
    Entry { class: class(record, &verdict.case), name, seconds, state, output }
}

/// What kind of trouble a case has.
fn trouble_kind(case: Option<&CaseRecord>) -> &'static str {
    if case.is_some_and(|case| case.verify_errors() > 0) { "verify" } else { "not-measured" }
}

/// `measured 5.10 ms, limit < 4.00 ms`, and why where that is not plain.
fn message(verdict: &Verdict) -> String {
    let ground = ground(verdict);
    match &verdict.evidence.reason {
        Some(reason) => format!("{ground}; {reason}"),
        None => ground,
    }
}

/// What was measured and what it was held against.
fn ground(verdict: &Verdict) -> String {
    let (measured, limit) = measured_and_limit(verdict);
    let mut parts = vec![match measured {
        Some(measured) => format!("measured {measured}"),
        None => "nothing measured".to_owned(),
    }];
    parts.extend(limit.map(|limit| format!("limit {limit}")));
    parts.extend(compared(&verdict.evidence));
    parts.join(", ")
}

/// All that the verdict stands on, a line for each: first what a reader looks for, since some
/// consumers show the body alone, then every figure in its own unit.
fn body(record: &Record, verdict: &Verdict, case: Option<&CaseRecord>) -> String {
    let evidence = &verdict.evidence;
    let mut lines = Vec::new();
    if verdict.outcome != Outcome::Skipped {
        let spread = spread(evidence).map_or_else(String::new, |spread| format!("; {spread}"));
        lines.push(ground(verdict) + &spread);
    }
    lines.extend(facts::reason(record, verdict));
    lines.push(format!("condition {}", verdict.condition));
    lines.extend(verdict.why.as_ref().map(|why| format!("expected because {why}")));
    lines.push(format!("plan {}:{}", record.plan.path, verdict.line));
    lines.push(format!("case {}", verdict.case));
    lines.extend(case.map(|case| format!("load {}", case.what)));
    lines.extend(exact_figures(evidence));
    let said = lines.join("\n");
    let troubles = case.into_iter().flat_map(|case| troubles(record, case));
    lines.extend(troubles.filter(|trouble| !said.contains(trouble.as_str())));
    clipped(&lines.join("\n"), BODY)
}

/// The figures of an evidence, with all that can matter of them.
fn exact_figures(evidence: &Evidence) -> Vec<String> {
    let say = |value: f64| exact(value, evidence.unit);
    let mut lines = Vec::new();
    lines.extend(evidence.measured.map(|value| format!("measured {}", say(value))));
    let limits: Vec<_> = evidence.limits.iter().copied().map(say).collect();
    if !limits.is_empty() {
        let limits = format!("limit {} {}", evidence.comparison, limits.join(" to "));
        lines.push(limits.replace("  ", " "));
    }
    if let Some(reference) = &evidence.reference {
        let value = evidence.reference_value.map_or("not measured".to_owned(), say);
        let ratio = evidence.ratio.filter(|ratio| ratio.is_finite());
        let ratio = ratio.map_or_else(String::new, |ratio| format!(", ratio {ratio:.4}"));
        lines.push(format!("reference {reference}, {value}{ratio}"));
    }
    let rounds = evidence.rounds.iter().map(|value| value.map_or("-".to_owned(), say));
    let rounds: Vec<_> = rounds.collect();
    if !rounds.is_empty() {
        lines.push(format!("rounds {}", rounds.join(", ")));
    }
    lines
}

fn measured_seconds(case: &CaseRecord) -> f64 {
    // Not `sum()`, which is -0.0 of nothing.
    case.measured().iter().fold(0.0, |sum, round| sum + round.duration_ns.as_secs())
}

/// Consumers drop the second of two test cases with one name, so each gets its own.
fn make_unique(entries: &mut [Entry]) {
    let mut taken = HashSet::new();
    for entry in entries {
        let plain = entry.name.clone();
        let mut number = 1;
        while !taken.insert((entry.class.clone(), entry.name.clone())) {
            number += 1;
            entry.name = format!("{plain} ({number})");
        }
    }
}

fn cut_bodies(entries: &mut [Entry]) {
    let mut left = BODIES;
    for entry in entries {
        if let State::Not(.., body) = &mut entry.state {
            match left.checked_sub(body.len()) {
                Some(rest) => left = rest,
                None => "left out for size; the record has it".clone_into(body),
            }
        }
    }
}

/// What the run was, and every measured figure in its own unit.
fn properties(record: &Record) -> Vec<(String, String)> {
    let plan = &record.plan;
    let mut all = vec![
        ("diskproof".to_owned(), record.diskproof.clone()),
        ("plan".to_owned(), plan.path.clone()),
        ("exit_code".to_owned(), record.conclusion.exit_code.to_string()),
        ("simulated".to_owned(), record.simulated.to_string()),
        ("interrupted".to_owned(), record.interrupted.to_string()),
    ];
    all.extend(plan.profile.iter().map(|profile| ("profile".to_owned(), profile.clone())));
    if let Some(host) = &record.host {
        all.push(("kernel".to_owned(), host.kernel.clone()));
        all.push(("cpu_model".to_owned(), host.cpu_model.clone()));
    }
    for disk in &record.disks {
        let path = disk.path.as_deref().map_or_else(String::new, |path| format!(" {path}"));
        let what = format!("{}{path}, {} bytes", disk.kind, disk.size_bytes);
        all.push((format!("disk {}", disk.name), what));
    }
    for verdict in record.verdicts.iter().take(ENTRIES) {
        let evidence = &verdict.evidence;
        if let Some(value) = evidence.measured.filter(|value| value.is_finite()) {
            let name = format!("{} {}", verdict.case, evidence.metric);
            all.push((name, exact(value, evidence.unit)));
        }
    }
    // One metric with two limits is one figure.
    let mut seen = HashSet::new();
    all.retain(|(name, _)| seen.insert(name.clone()));
    all
}

/// A text in an attribute's value: characters that XML can't hold become U+FFFD.
fn attribute(text: &str) -> String {
    let text = clipped(text, 2 * NAME);
    content(&text).replace('"', "&quot;").replace('\n', "&#10;").replace('\t', "&#9;")
}

/// A text between tags. `>` is always escaped, so `]]>` can't stand there.
fn content(text: &str) -> String {
    let legal = |c: char| if acts(c) && !matches!(c, '\n' | '\t') { '\u{fffd}' } else { c };
    let text: String = text.chars().map(legal).collect();
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}
