//! Reports of whole runs, against files and against what their readers take.

mod records;
mod scenes;

use std::path::{Path, PathBuf};

use super::{ReportPaths, Style, html, junit, markdown, terminal};
use quick_junit::{NonSuccessKind, TestCaseStatus};

use crate::measure::{Verified, VerifyFind, VerifyKind};
use crate::record::{Outcome, Record, sample};
use crate::units::Unit;
use scenes::NASTY;

fn scenes() -> [(&'static str, Record); 4] {
    [
        ("passed", scenes::passed()),
        ("mixed", scenes::mixed()),
        ("interrupted", scenes::interrupted()),
        ("sweep", scenes::sweep()),
    ]
}

fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../fixtures/reports")
}

fn paths(name: &str) -> ReportPaths {
    let files = [("record", "record.json"), ("junit", "junit.xml"), ("report", "report.html")];
    let at = |(what, file): &(&str, &str)| {
        ((*what).to_owned(), format!("target/diskproof/{name}/latest/{file}"))
    };
    ReportPaths(files.iter().map(at).collect())
}

fn plain(record: &Record) -> String {
    terminal(record, Style { color: false, width: 80 }, &paths(&record.plan.name))
}

/// Compares with a file, which `SNAPSHOTS=overwrite` writes anew.
fn assert_is(file: &Path, actual: String) {
    let expected = snapbox::Data::read_from(file, Some(snapbox::data::DataFormat::Text)).raw();
    let actual = snapbox::Data::text(actual).raw();
    let check = snapbox::Assert::new().action_env("SNAPSHOTS").normalize_paths(false);
    check.eq(actual, expected);
}

#[test]
fn reports_are_as_they_were() {
    for (name, record) in scenes() {
        let folder = fixtures().join(name);
        std::fs::create_dir_all(&folder).expect("the fixtures are writable");
        let stored = serde_json::to_string(&record).expect("a record is JSON") + "\n";
        assert!(stored.len() < 300_000, "{name} is too large a fixture: {}", stored.len());
        assert_is(&folder.join("record.json"), stored.clone());
        assert_is(&folder.join("junit.xml"), junit(&record));
        assert_is(&folder.join("report.html"), html(&record));
        assert_is(&folder.join("summary.md"), markdown(&record));
        assert_is(&folder.join("terminal.txt"), plain(&record));
        // Drawn again from what was stored, they are the same.
        let again: Record = serde_json::from_str(&stored).expect("a record is read back");
        assert_eq!(again, record);
        assert!(html(&again) == html(&record), "{name}: another page from the stored record");
        assert_eq!(junit(&again), junit(&record));
        assert_eq!(plain(&again), plain(&record));
    }
}

/// Every test case of a JUnit text, read back by an independent reader.
fn cases_of(text: &str) -> Vec<quick_junit::TestCase> {
    let report = quick_junit::Report::deserialize_from_str(text).expect("it is JUnit XML");
    report.test_suites.into_iter().flat_map(|suite| suite.test_cases).collect()
}

fn counts_of(text: &str) -> [usize; 4] {
    let report = quick_junit::Report::deserialize_from_str(text).expect("it is JUnit XML");
    let suite = &report.test_suites[0];
    assert_eq!(
        [report.tests, report.failures, report.errors],
        [suite.tests, suite.failures, suite.errors]
    );
    let cases = &suite.test_cases;
    let of = |wanted: NonSuccessKind| {
        let is = |case: &&quick_junit::TestCase| match &case.status {
            TestCaseStatus::NonSuccess { kind, .. } => *kind == wanted,
            _ => false,
        };
        cases.iter().filter(is).count()
    };
    let (failures, errors) = (of(NonSuccessKind::Failure), of(NonSuccessKind::Error));
    let skipped =
        |case: &&quick_junit::TestCase| matches!(case.status, TestCaseStatus::Skipped { .. });
    let skipped = cases.iter().filter(skipped).count();
    let counted = [cases.len(), failures, errors, skipped];
    assert_eq!(counted, [suite.tests, suite.failures, suite.errors, suite.skipped]);
    counted
}

/// Type, message and body of a test case that did not succeed.
fn state_of(case: &quick_junit::TestCase) -> (String, String, String) {
    let (TestCaseStatus::NonSuccess { ty, message, description, .. }
    | TestCaseStatus::Skipped { ty, message, description }) = &case.status
    else {
        panic!("{} succeeded", case.name.as_str())
    };
    let text = |part: &Option<quick_junit::XmlString>| {
        part.as_ref().map_or_else(String::new, |part| part.as_str().to_owned())
    };
    (text(ty), text(message), text(description))
}

#[test]
fn junit_counts_and_states_are_those_of_the_verdicts() {
    assert_eq!(counts_of(&junit(&scenes::passed())), [5, 0, 0, 0]);
    assert_eq!(counts_of(&junit(&scenes::sweep())), [12, 3, 0, 0]);
    // Two of three failures are the gates'; the warning is none. Inconclusive and error are errors.
    let mixed = junit(&scenes::mixed());
    assert_eq!(counts_of(&mixed), [10, 3, 2, 1]);
    let cases = cases_of(&mixed);
    let find = |name: &str| {
        let found = cases.iter().find(|case| case.name.as_str() == name);
        found.unwrap_or_else(|| panic!("no test case {name}"))
    };
    let failed = find("write.latency.p99 <= 4ms");
    assert_eq!(
        failed.classname.as_ref().map(quick_junit::XmlString::as_str),
        Some("mixed.remote/commit[block_size=8KiB]")
    );
    let (kind, message, body) = state_of(failed);
    assert_eq!(kind, "threshold");
    assert_eq!(message, "measured 7.45 ms, limit <= 4 ms");
    for part in ["limit <= 4000000 ns", "a person waits for it", "plan plans/it's mixed.toml:37"] {
        assert!(body.contains(part), "{part} is missing in {body}");
    }
    let first = body.lines().next();
    assert_eq!(first, Some("measured 7.45 ms, limit <= 4 ms; 5 rounds from 7.09 ms to 7.63 ms"));
    assert_eq!(state_of(find("write.latency.p99 <= 4ms (2)")).0, "threshold");
    assert_eq!(state_of(find("read.latency.mean < 125us")).0, "inconclusive");
    assert_eq!(state_of(find("errors = 0")).0, "not-measured");
    let (_, skipped, _) = state_of(find("read.iops >= 100k"));
    assert!(skipped.contains("io_uring_disabled=2 forbids; nothing else here can"), "{skipped}");
    let warned = find("write.latency.p99.9 < 1ms");
    assert!(matches!(warned.status, TestCaseStatus::Success { .. }));
    let said = warned.system_out.as_ref().expect("a warning is said").as_str();
    assert!(said.starts_with("warning: measured 2.04 ms, limit < 1 ms"), "{said}");
}

#[test]
fn inconclusive_is_what_the_plan_says() {
    let states = ["open", "fail", "pass"].map(|mode| {
        let mut record = scenes::mixed();
        record.conclusion.inconclusive = mode.to_owned();
        counts_of(&junit(&record))
    });
    assert_eq!(states, [[10, 3, 2, 1], [10, 4, 1, 1], [10, 3, 1, 2]]);
}

#[test]
fn nothing_that_went_wrong_is_read_as_passed() {
    // Stopped: with every verdict a pass, which is the worst case for a reader.
    let mut stopped = scenes::passed();
    stopped.interrupted = true;
    stopped.conclusion.exit_code = 130;
    assert_eq!(counts_of(&junit(&stopped)), [6, 0, 1, 0]);
    for text in [plain(&stopped), markdown(&stopped), html(&stopped)] {
        assert!(text.contains("Interrupted") && !text.contains("Passed"), "{text}");
    }
    // Errors on a case without a condition, and a round that could not be measured.
    let mut silent = scenes::mixed();
    silent.verdicts.retain(|verdict| verdict.case != "local/broken");
    let text = junit(&silent);
    let cases = cases_of(&text);
    let broken = cases.iter().find(|case| case.name.as_str() == "is measured");
    let (kind, _, body) = state_of(broken.expect("a test case for the broken case"));
    assert_eq!(kind, "not-measured");
    assert!(body.contains("3 reads failed with EIO"), "{body}");
    assert!(body.contains("round 3 could not be measured"), "{body}");
    // A warning on it doesn't hide it.
    let mut warned = scenes::mixed();
    warned.verdicts.retain(|verdict| verdict.outcome == Outcome::Error);
    warned.verdicts[0].gate = false;
    assert_eq!(counts_of(&junit(&warned)), [2, 0, 1, 1]);
    // No verdict at all.
    let mut nothing = scenes::passed();
    nothing.verdicts.clear();
    nothing.conclusion = crate::record::Conclusion {
        exit_code: 4,
        passed: 0,
        note: Some("the plan has no expectation".to_owned()),
        ..nothing.conclusion
    };
    let text = junit(&nothing);
    assert_eq!(counts_of(&text), [1, 0, 1, 0]);
    assert!(text.contains("Nothing judged: the plan has no expectation"), "{text}");
    assert!(html(&nothing).contains("Nothing judged"));
}

#[test]
fn data_that_are_not_what_was_written_are_told_by_every_report() {
    let mut broken = scenes::passed();
    let mut verified = Verified { checked: 1000, unchecked: 24, ..Verified::default() };
    verified.found(VerifyFind {
        kind: VerifyKind::Misplaced,
        offset: 8192,
        expected_generation: 3,
        found_generation: Some(1),
        written_to: Some(4096),
    });
    let case = &mut broken.cases[0];
    case.rounds[0].measurement.as_mut().expect("a measured round").verified = Some(verified);
    let (id, trouble) = (case.id.clone(), case.troubles().remove(0));
    for verdict in broken.verdicts.iter_mut().filter(|verdict| verdict.case == id) {
        verdict.outcome = Outcome::Error;
        verdict.evidence.reason = Some(trouble.clone());
    }
    broken.conclusion.exit_code = 7;
    let sentence = "byte 8192 holds what was written to byte 4096";
    for text in [plain(&broken), markdown(&broken), html(&broken), junit(&broken)] {
        // Where a terminal wraps is not the point.
        let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(words.contains(sentence) && !text.contains("Passed"), "{text}");
    }
    assert!(plain(&broken).contains("Data broken"), "{}", plain(&broken));
    assert!(html(&broken).contains("1000 blocks: 1 misplaced; 24 blocks read that had not"));
    let text = junit(&broken);
    let kinds = |text: &str| text.matches("<error type=\"verify\"").count();
    assert_eq!(kinds(&text), counts_of(&text)[2]);
    // Without a condition it is told all the same.
    broken.verdicts.retain(|verdict| verdict.case != id);
    let text = junit(&broken);
    assert!(kinds(&text) == 1 && text.contains(sentence), "{text}");
}

#[test]
fn what_is_no_failure_to_the_verdicts_is_none_to_a_report() {
    let passed = scenes::passed();
    // Completions stamped before their start are a warning about the case, and no error of it.
    let mut odd_clock = passed.clone();
    let measured = odd_clock.cases[0].rounds[0].measurement.as_mut().unwrap();
    measured.clock_anomalies = 2;
    assert_eq!(counts_of(&junit(&odd_clock)), counts_of(&junit(&passed)));
    assert!(!plain(&odd_clock).contains("ERROR"));
    // What is only to be reported is a warning, whether it fails or can't be told.
    let mut warned = passed;
    warned.verdicts[0].gate = false;
    for outcome in [Outcome::Fail, Outcome::Inconclusive] {
        warned.verdicts[0].outcome = outcome;
        let text = plain(&warned);
        assert!(text.contains("WARNING") && !text.contains("INCONCLUSIVE"), "{text}");
        assert!(!text.contains("rerun"), "{text}");
    }
}

#[test]
fn the_conditions_of_a_case_stand_under_it_with_a_shared_reason_once() {
    let mut record = scenes::passed();
    let case = record.cases[0].id.clone();
    for verdict in &mut record.verdicts {
        verdict.case.clone_from(&case);
        verdict.outcome = Outcome::Error;
        verdict.evidence.reason = Some("round 1 could not be measured: no memory".to_owned());
    }
    record.cases[0].rounds[0].error = Some("no memory".to_owned());
    let text = plain(&record);
    assert_eq!(text.matches(&format!("ERROR  {case}\n")).count(), 1, "{text}");
    assert_eq!(text.matches("could not be measured: no memory").count(), 1, "{text}");
    for verdict in &record.verdicts {
        assert!(text.contains(&verdict.condition), "{text}");
    }
}

#[test]
fn a_refusal_has_its_own_word() {
    let mut refused = scenes::passed();
    refused.verdicts.clear();
    refused.conclusion.exit_code = 6;
    for text in [plain(&refused), markdown(&refused), html(&refused)] {
        assert!(text.contains("Refused") && text.contains("nothing was touched"), "{text}");
    }
}

#[test]
fn junit_is_within_the_strict_schema() {
    for (name, record) in scenes() {
        let text = junit(&record);
        for foreign in ["disabled=", "uuid=", "assertions=", "NaN", "inf"] {
            assert!(!text.contains(&format!(" {foreign}")), "{name} has {foreign}");
        }
        let head = text.lines().nth(1).expect("a root element");
        assert!(!head.contains("skipped="), "testsuites has no such attribute: {head}");
        for case in text.split("<testcase").skip(1) {
            assert!(!case.contains("<propert"), "no properties in test cases: {case}");
        }
        for time in text.split(" time=\"").skip(1).map(|rest| rest.split('"').next().unwrap()) {
            let (whole, fraction) = time.split_once('.').expect("seconds with decimals");
            assert_eq!(fraction.len(), 3, "{time}");
            assert!(whole.bytes().all(|byte| byte.is_ascii_digit()), "{time}");
        }
        let names: Vec<_> = cases_of(&text)
            .iter()
            .map(|case| (case.classname.clone(), case.name.clone()))
            .collect();
        let unique: std::collections::HashSet<_> = names.iter().collect();
        assert_eq!(unique.len(), names.len(), "{name} has a test case twice");
    }
}

#[test]
fn xmllint_takes_every_junit_file() {
    let (test, remedy) = ("xmllint_takes_every_junit_file", "apt install libxml2-utils");
    for (name, record) in scenes() {
        let folder = tempfile::tempdir().expect("a scratch folder");
        let file = folder.path().join("junit.xml");
        std::fs::write(&file, junit(&record)).expect("a scratch file");
        let run = std::process::Command::new("xmllint").arg("--noout").arg(&file).output();
        let Ok(run) = run else {
            return crate::testing::skip(test, "no xmllint", remedy);
        };
        let said = String::from_utf8_lossy(&run.stderr).into_owned();
        assert!(run.status.success() && said.is_empty(), "{name}: {said}");
    }
}

#[test]
fn nothing_gets_out_of_a_report() {
    let record = scenes::mixed();
    assert!(record.plan.text.contains(NASTY));
    let reports = [plain(&record), junit(&record), html(&record), markdown(&record)];
    for text in &reports {
        let acting = text.chars().find(|c| c.is_control() && !matches!(c, '\n' | '\t'));
        assert_eq!(acting, None);
        assert!(!text.contains(['\u{fffe}', '\u{202e}']));
    }
    let [_, xml, page, summary] = &reports;
    for text in [xml, page, summary] {
        assert!(!text.contains("<script"), "{text}");
    }
    assert!(!xml.contains("]]>"));
    assert!(page.contains("&lt;script&gt;alert(1)"));
    // Nothing on the page comes from elsewhere.
    for foreign in ["http:", "https:", "src=", "@import", "url("] {
        assert!(!page.contains(foreign), "the page has {foreign}");
    }
    // A table row of the summary is one line with its seven bars.
    for line in summary.lines().filter(|line| line.starts_with('|') && line.contains("1k a")) {
        assert_eq!(line.matches('|').count(), 7, "{line}");
        assert!(!line.contains('`'), "{line}");
    }
}

#[test]
fn the_terminal_keeps_to_its_width() {
    for (name, record) in scenes() {
        for width in [60, 80, 120] {
            let text = terminal(&record, Style { color: false, width }, &ReportPaths::default());
            let long = text.lines().filter(|line| !line.trim_start().starts_with("rerun "));
            for line in long {
                let columns = super::text::columns(line);
                // The table of figures needs its 77 columns.
                assert!(columns <= usize::from(width).max(77), "{name} at {width}: {line}");
            }
        }
        let color = terminal(&record, Style { color: true, width: 80 }, &paths("x"));
        assert_eq!(anstream::adapter::strip_str(&color).to_string(), {
            terminal(&record, Style { color: false, width: 80 }, &paths("x"))
        });
    }
}

#[test]
fn the_worst_comes_last_on_the_terminal_and_first_elsewhere() {
    let record = scenes::mixed();
    let text = plain(&record);
    let at = |word: &str| text.find(&format!("{word}  ")).unwrap_or_else(|| panic!("no {word}"));
    let order = ["PASS", "SKIPPED", "WARNING", "INCONCLUSIVE", "ERROR", "FAIL"].map(at);
    assert!(order.is_sorted(), "{order:?}");
    let rerun = text.lines().last().expect("a last line").trim();
    assert_eq!(
        rerun,
        "rerun  diskproof run 'plans/it'\\''s mixed.toml' --case local/fast --case \
         'remote/commit[block_size=8KiB]' --case local/broken --profile smoke --disk \
         'remote=/mnt/zone two'"
    );
    for text in [markdown(&record), html(&record)] {
        let (fail, pass) = (text.find("\u{2717}"), text.find("\u{2713}"));
        assert!(fail.is_some() && fail < pass);
    }
}

#[test]
fn the_command_runs_it_as_it_was_run() {
    let mut record = scenes::mixed();
    record.plan.work_dir = Some("/scratch/it's here".to_owned());
    record.plan.require_all = true;
    record.plan.baseline = Some("last good.json".to_owned());
    let text = plain(&record);
    let rerun = text.lines().last().expect("a last line").trim();
    let end = " --baseline 'last good.json' --work-dir '/scratch/it'\\''s here' --require-all";
    assert!(rerun.starts_with("rerun  diskproof run ") && rerun.ends_with(end), "{rerun}");
}

#[test]
fn signs_are_those_of_the_evidence_and_not_of_the_text() {
    let mut record = scenes::passed();
    record.verdicts.truncate(1);
    record.verdicts[0].outcome = Outcome::Fail;
    record.verdicts[0].condition = "'read.latency.p99' >= '1ms'".to_owned();
    for text in [markdown(&record), junit(&record)] {
        assert!(text.contains("limit &lt; 20 ms"), "{text}");
    }
    let page = html(&record);
    assert!(page.contains("p99 &lt; 20 ms") && page.contains("\"allowed\""), "{page}");
}

#[test]
fn values_that_look_equal_are_exact() {
    let mut record = scenes::mixed();
    record.verdicts[3].evidence.measured = Some(4_000_400.0);
    let text = plain(&record);
    assert!(text.contains("4000400 ns") && text.contains("limit <= 4000000 ns"), "{text}");
}

#[test]
fn figures_that_are_none_are_dashes() {
    let mut record = scenes::mixed();
    for verdict in &mut record.verdicts {
        verdict.evidence.measured = Some(f64::NAN);
        verdict.evidence.ratio = Some(f64::INFINITY);
        verdict.evidence.reference_value = Some(f64::NAN);
        verdict.evidence.limits = vec![f64::NAN];
        verdict.evidence.rounds = vec![Some(f64::NAN), None, Some(f64::NEG_INFINITY)];
    }
    for case in &mut record.cases {
        for measurement in case.rounds.iter_mut().filter_map(|round| round.measurement.as_mut()) {
            measurement.duration_ns.0 = 0;
            measurement.series.window_ns.0 = 0;
            measurement.queue_depth_achieved = f64::NAN;
        }
    }
    for text in [plain(&record), junit(&record), html(&record), markdown(&record)] {
        let word = |word: &str| text.split(|c: char| !c.is_alphanumeric()).any(|part| part == word);
        assert!(!word("NaN") && !word("inf"), "{text}");
    }
}

#[test]
fn reports_have_a_limit() {
    let mut record = scenes::sweep();
    let (cases, verdicts) = (record.cases.clone(), record.verdicts.clone());
    for copy in 0..200 {
        for case in &cases[..4] {
            let mut case = case.clone();
            case.id = format!("{}-{copy}", case.id);
            record.cases.push(case);
        }
        for verdict in &verdicts {
            let mut verdict = verdict.clone();
            verdict.case = format!("{}-{copy}", cases[1].id);
            verdict.why = Some("reason ".repeat(400));
            record.verdicts.push(verdict);
        }
    }
    let summary = markdown(&record);
    assert!(summary.len() < 1_000_000 && summary.contains("more in the record"));
    let page = html(&record);
    assert!(page.len() < 20 << 20 && page.contains("more cases are in the record"));
    assert!(junit(&record).len() < 30_000_000);
}

#[test]
fn streams_stand_behind_their_case_in_every_report() {
    let mut failing = sample::steady(500);
    failing.faults = vec![sample::fault(5, 3)];
    let streams = vec![("log", sample::steady(20)), ("data", failing)];
    let mut record = sample::record(vec![sample::side_by_side("lrs/both", streams)]);
    let part = record.case("lrs/both/log").expect("a stream").into_owned();
    let gate = records::verdict(&part, "iops >= 10", Outcome::Error, Unit::Iops, &[10.0]);
    record.verdicts = vec![gate.clone(), gate];
    record.verdicts[1].condition = "iops >= 11".to_owned();
    record.conclusion.exit_code = 3;
    let terminal = plain(&record);
    let order = ["  lrs/both ", "read         520", "lrs/both/log", "lrs/both/data"];
    let places: Vec<_> = order.iter().map(|text| terminal.find(text)).collect();
    assert!(places.iter().all(Option::is_some) && places.is_sorted(), "{places:?}\n{terminal}");
    let fault = "stream data: 3 reads failed with EIO";
    let again = "diskproof run plans/sample.toml --case 'lrs/*'";
    for text in [fault, again] {
        assert!(terminal.contains(text), "no `{text}` in\n{terminal}");
    }
    let summary = markdown(&record);
    for id in ["lrs/both", "lrs/both/log", "lrs/both/data"] {
        let row = format!("| <code>{id}</code> | read |");
        assert_eq!(summary.matches(&row).count(), 1, "{summary}");
    }
    assert!(summary.contains("; 1 case;"), "{summary}");
    let page = html(&record);
    assert!(page.contains("id=\"case-1\"") && page.contains("href=\"#case-1\""), "a link");
    assert_eq!(page.matches(fault).count(), 1, "once, at the whole case");
    // Streams take the time of their case, once.
    let tests = cases_of(&junit(&record));
    let seconds: f64 = tests.iter().filter_map(|one| one.time).map(|time| time.as_secs_f64()).sum();
    assert!((seconds - 1.0).abs() < 1e-6, "{seconds}");
    assert_eq!(tests.len(), 2, "the trouble is that of two verdicts already");
}
