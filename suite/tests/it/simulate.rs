//! Whole runs on simulated disks, where the truth is known: verdicts of every kind, what reports
//! say of them, the order of rounds, and that equal seeds make equal bytes.

use diskproof::record::{Outcome, Record};
use quick_junit::{NonSuccessKind, Report, TestCase, TestCaseStatus};

use crate::support::{Scratch, outcomes, record, shipped, skip};

/// The files of a run.
const FILES: [&str; 4] = ["record.json", "junit.xml", "report.html", "summary.md"];

/// A plan with a condition on one case, and something behind it.
fn plan(condition: &str, rest: &str) -> String {
    format!(
        r#"
name = "sim"
[disks.a]
size = "4MiB"
[setups.s]
disks = ["a"]
[workloads.read]
rw = "randread"
runtime = "20ms"
[[expect]]
case = "s/read"
that = "{condition}"
{rest}
"#
    )
}

fn files(scratch: &Scratch) -> [String; 4] {
    FILES.map(|name| scratch.read(&format!("out/{name}")))
}

fn junit(scratch: &Scratch) -> Vec<TestCase> {
    let text = scratch.read("out/junit.xml");
    let report = Report::deserialize_from_str(&text).expect("JUnit XML");
    report.test_suites.into_iter().flat_map(|suite| suite.test_cases).collect()
}

/// What kept a test case from success: kind, type and message.
fn trouble(case: &TestCase) -> (NonSuccessKind, String, String) {
    let TestCaseStatus::NonSuccess { kind, message, ty, .. } = &case.status else {
        panic!("{case:?} is no failure")
    };
    let text = |part: &Option<quick_junit::XmlString>| {
        part.as_ref().map_or_else(String::new, |text| text.as_str().to_owned())
    };
    (*kind, text(ty), text(message))
}

/// The order in which rounds were run: case and round.
fn turns(record: &Record) -> Vec<(&str, u32)> {
    record.schedule.iter().map(|(case, round)| (record.cases[*case].id.as_str(), *round)).collect()
}

#[test]
fn equal_seeds_make_equal_bytes_and_other_seeds_others() {
    let scratch = Scratch::new();
    let text = plan("iops > 0", "[run]\nrounds = 4");
    let first = scratch.run_plan(&text, &["--simulate"]).expect(0);
    let bytes = files(&scratch);
    let second = scratch.run_plan(&text, &["--simulate"]).expect(0);
    assert_eq!(first.stdout, second.stdout);
    for (name, (one, other)) in FILES.iter().zip(bytes.iter().zip(files(&scratch))) {
        assert!(*one == other, "{name} differs");
    }
    let seeds: Vec<u64> = scratch.record().cases[0].rounds.iter().map(|round| round.seed).collect();
    let reseeded = text.replace("runtime", "seed = 2\nruntime");
    scratch.run_plan(&reseeded, &["--simulate"]).expect(0);
    let other = scratch.record();
    assert!(other.cases[0].rounds.iter().all(|round| !seeds.contains(&round.seed)));
    let path = scratch.write("first.json", &bytes[0]);
    let figures = |record: &Record| record.cases[0].merged().expect("figures").kinds;
    assert_ne!(figures(&record(&path)), figures(&other));
    // Rounds of one run are not copies of one another either.
    let rounds = other.cases[0].measured();
    assert!(rounds.windows(2).all(|pair| pair[0].kinds != pair[1].kinds));
}

#[test]
fn favoured_places_are_drawn_from_the_seed_and_named_in_the_record() {
    let scratch = Scratch::new();
    let access =
        r#"["uniform", { zipf = 1.1 }, { pareto = 0.2 }, { normal = 10 }, { hot = "9/1" }]"#;
    let text = plan("iops > 0", "").replace("runtime", &format!("access = {access}\nruntime"));
    scratch.run_plan(&text, &["--simulate"]).expect(0);
    let bytes = files(&scratch);
    scratch.run_plan(&text, &["--simulate"]).expect(0);
    assert!(bytes == files(&scratch), "two runs differ");
    let record = scratch.record();
    let named = |case: usize| {
        let mut parameters = record.cases[case].parameters.iter();
        parameters.find(|(key, _)| key == "access").map(|(_, value)| value.as_str())
    };
    let told: Vec<_> = (0..5).map(named).collect();
    let [zipf, pareto, normal, hot] = ["zipf 1.1", "pareto 0.2", "normal 10", "hot 9/1"].map(Some);
    assert_eq!(told, [None, zipf, pareto, normal, hot]);
}

#[test]
fn every_plan_of_the_product_runs_simulated() {
    for (name, profile) in
        [("first", None), ("stripe", Some("smoke")), ("zone-redundancy", Some("smoke"))]
    {
        let scratch = Scratch::new();
        let plan = shipped(name).display().to_string();
        let mut args = vec!["run", plan.as_str(), "--simulate", "--out", "out"];
        args.extend(profile.iter().flat_map(|profile| ["--profile", profile]));
        scratch.run(&args).expect(0).prints("Simulated: every disk is a model");
        let record = scratch.record();
        assert!(record.simulated && !record.interrupted);
        assert!(record.disks.iter().all(|disk| disk.kind == "simulated"));
        assert!(record.verdicts.iter().all(|verdict| verdict.outcome == Outcome::Pass), "{name}");
        assert_eq!((record.started, record.host, record.elapsed_ms), (None, None, None));
        for file in ["report.html", "summary.md"] {
            assert!(scratch.read(&format!("out/{file}")).contains("imulated"), "{name}: {file}");
        }
        scratch.assert_clean();
    }
}

#[test]
fn a_limit_that_no_disk_meets_fails_with_value_and_limit() {
    let scratch = Scratch::new();
    let text = plan("latency.p99 < 1us", "why = \"light takes longer\"\n[run]\nrounds = 4");
    let ran = scratch.run_plan(&text, &["--simulate"]).expect(1);
    let record = scratch.record();
    let evidence = &record.verdicts[0].evidence;
    assert_eq!(evidence.limits, [1000.0]);
    let measured = evidence.measured.expect("a figure");
    assert!(measured > 80_000.0, "{measured}");
    let cases = junit(&scratch);
    assert_eq!(cases.len(), 1);
    let (kind, ty, message) = trouble(&cases[0]);
    assert_eq!((kind, ty.as_str()), (NonSuccessKind::Failure, "threshold"));
    let shown = format!("measured {:.0} us, limit < 1 us", measured / 1e3);
    assert_eq!(message, shown);
    let xml = scratch.read("out/junit.xml");
    assert!(xml.contains(&format!("measured {measured} ns\n")), "{xml}");
    assert!(xml.contains("limit &lt; 1000 ns\n"), "{xml}");
    assert!(xml.contains("expected because light takes longer"));
    let line = text.lines().position(|line| line.starts_with("that")).expect("the condition") + 1;
    for text in ["FAIL  s/read", "latency.p99 < 1us", &format!("plan.toml:{line}"), "light takes"] {
        assert!(ran.stdout.contains(text), "no `{text}` in\n{}", ran.stdout);
    }
    assert!(ran.stdout.contains("rerun  diskproof run plan.toml"), "{}", ran.stdout);
    assert!(scratch.read("out/summary.md").contains("latency.p99 &lt; 1us"));
}

#[test]
fn a_limit_amid_the_rounds_is_inconclusive_and_counts_as_the_plan_says() {
    let scratch = Scratch::new();
    let run = |rule: &str| format!("[run]\nrounds = {{ min = 4, max = 6 }}\n{rule}");
    scratch.run_plan(&plan("latency.mean > 1ns", &run("")), &["--simulate"]).expect(0);
    let rounds = scratch.record().verdicts[0].evidence.rounds.clone();
    assert_eq!(rounds.len(), 4, "what is plain takes no more rounds");
    let values: Vec<f64> = rounds.into_iter().map(|value| value.expect("a figure")).collect();
    let (low, high) = values
        .iter()
        .fold((f64::MAX, 0.0_f64), |(low, high), value| (low.min(*value), high.max(*value)));
    let amid = plan(&format!("latency.mean <= {:.0}ns", f64::midpoint(low, high)), "");
    for (rule, code, expected) in [
        ("", 5, Some((NonSuccessKind::Error, "inconclusive"))),
        ("inconclusive = \"open\"", 5, Some((NonSuccessKind::Error, "inconclusive"))),
        ("inconclusive = \"fail\"", 1, Some((NonSuccessKind::Failure, "inconclusive"))),
        ("inconclusive = \"pass\"", 0, None),
    ] {
        let ran = scratch.run_plan(&(amid.clone() + &run(rule)), &["--simulate"]).expect(code);
        let ran = ran.prints("INCONCLUSIVE  s/read");
        assert!(!ran.stdout.contains("PASS"), "{}", ran.stdout);
        let record = scratch.record();
        assert_eq!(outcomes(&record, "s/read"), [Outcome::Inconclusive]);
        assert_eq!(record.cases[0].rounds.len(), 6, "an open case has rounds up to the most");
        let cases = junit(&scratch);
        match expected {
            Some((kind, ty)) => {
                let found = trouble(&cases[0]);
                assert_eq!((found.0, found.1.as_str()), (kind, ty));
                assert!(found.2.contains("limit <="), "{}", found.2);
            }
            None => assert!(matches!(cases[0].status, TestCaseStatus::Skipped { .. })),
        }
    }
}

#[test]
fn a_warning_is_said_and_fails_nothing() {
    let scratch = Scratch::new();
    let warn =
        "level = \"warn\"\n[[expect]]\ncase = \"*\"\nthat = \"errors = 0\"\n[run]\nrounds = 2";
    let ran = scratch.run_plan(&plan("iops >= 99M", warn), &["--simulate"]).expect(0);
    assert!(ran.stdout.contains("WARNING  s/read"), "{}", ran.stdout);
    let record = scratch.record();
    assert_eq!((record.conclusion.warnings, record.conclusion.failed), (1, 0));
    let cases = junit(&scratch);
    assert!(cases.iter().all(|case| matches!(case.status, TestCaseStatus::Success { .. })));
    // With nothing but a warning there is nothing that could have passed.
    let alone = plan("iops >= 99M", "level = \"warn\"\n[run]\nrounds = 2");
    scratch.run_plan(&alone, &["--simulate"]).expect(4).prints("Nothing judged");
    assert!(junit(&scratch).iter().any(|case| trouble_or_none(case).is_some()));
}

fn trouble_or_none(case: &TestCase) -> Option<NonSuccessKind> {
    match &case.status {
        TestCaseStatus::NonSuccess { kind, .. } => Some(*kind),
        _ => None,
    }
}

#[test]
fn a_percentile_without_samples_is_an_error_and_no_pass() {
    let scratch = Scratch::new();
    let text = plan("latency.p99.99 < 1h", "[run]\nrounds = 2");
    scratch.run_plan(&text, &["--simulate"]).expect(3).prints("ERROR  s/read");
    assert_eq!(outcomes(&scratch.record(), "s/read"), [Outcome::Error]);
    assert_eq!(trouble(&junit(&scratch)[0]).0, NonSuccessKind::Error);
}

/// Two setups, two points of one workload, and one that is on one setup alone.
const COMPARED: &str = r#"
name = "compared"
[disks.a]
size = "8MiB"
[disks.b]
count = 4
size = "8MiB"
[setups.one]
disks = ["a"]
[setups.four]
disks = { b = [2, 4] }
stripe = { driver = "engine", chunk = "64KiB" }
[workloads.scan]
rw = "read"
block_size = ["64KiB", "256KiB"]
runtime = "20ms"
[[expect]]
case = "four/scan"
that = "read.bandwidth >= 0.5 x one"
[run]
rounds = 2
"#;

#[test]
fn points_of_a_sweep_are_compared_with_their_own_kind() {
    let scratch = Scratch::new();
    scratch.run_plan(COMPARED, &["--simulate"]).expect(0);
    let record = scratch.record();
    let pairs: Vec<_> = record
        .verdicts
        .iter()
        .map(|verdict| (verdict.case.as_str(), verdict.evidence.reference.as_deref()))
        .collect();
    assert_eq!(
        pairs,
        [
            ("four[disks=2]/scan[block_size=64KiB]", Some("one/scan[block_size=64KiB]")),
            ("four[disks=2]/scan[block_size=256KiB]", Some("one/scan[block_size=256KiB]")),
            ("four[disks=4]/scan[block_size=64KiB]", Some("one/scan[block_size=64KiB]")),
            ("four[disks=4]/scan[block_size=256KiB]", Some("one/scan[block_size=256KiB]")),
        ]
    );
    // The measured figures are those of the cases that are named.
    for verdict in &record.verdicts {
        let bandwidth = |id: &str| {
            let case = record.cases.iter().find(|case| case.id == id).expect("the case");
            let merged = case.merged().expect("figures");
            merged.bytes(None) as f64 / merged.duration_ns.as_secs()
        };
        let evidence = &verdict.evidence;
        let reference = evidence.reference.as_deref().expect("a reference");
        let (mine, theirs) = (bandwidth(&verdict.case), bandwidth(reference));
        let close = |found: Option<f64>, expected: f64| {
            let found = found.expect("a figure");
            assert!((found / expected - 1.0).abs() < 1e-9, "{found} is not {expected}");
        };
        close(evidence.measured, mine);
        close(evidence.reference_value, theirs);
        close(evidence.ratio, mine / theirs);
    }
    let ids: Vec<_> = record.cases.iter().map(|case| case.id.clone()).collect();
    assert_eq!(ids.len(), 6);
    let parameters = &record.cases[5].parameters;
    assert!(parameters.contains(&("disks".to_owned(), "4".to_owned())), "{parameters:?}");
}

#[test]
fn a_selected_case_brings_what_it_is_compared_with() {
    let scratch = Scratch::new();
    let args = ["--simulate", "--case", "four[disks=4]/scan[block_size=64KiB]"];
    scratch.run_plan(COMPARED, &args).expect(0);
    let record = scratch.record();
    let ids: Vec<_> = record.cases.iter().map(|case| case.id.as_str()).collect();
    assert_eq!(ids, ["one/scan[block_size=64KiB]", "four[disks=4]/scan[block_size=64KiB]"]);
    assert_eq!(record.verdicts.len(), 1);
    assert_eq!(record.verdicts[0].outcome, Outcome::Pass);
}

#[test]
fn rounds_come_in_the_order_of_the_plan() {
    let scratch = Scratch::new();
    let two = "[workloads.write]\nrw = \"randwrite\"\nruntime = \"20ms\"\n[run]\n";
    let ordered = |run: &str| plan("iops > 0", &format!("{two}{run}"));
    scratch.run_plan(&ordered("rounds = 4"), &["--simulate"]).expect(0);
    let (read, write) = ("s/read", "s/write");
    let balanced = [
        [(read, 1), (write, 1)],
        [(write, 2), (read, 2)],
        [(read, 3), (write, 3)],
        [(write, 4), (read, 4)],
    ];
    assert_eq!(turns(&scratch.record()), balanced.concat());
    let interleaved = ordered("rounds = 3\norder = \"interleaved\"");
    scratch.run_plan(&interleaved, &["--simulate"]).expect(0);
    let expected: Vec<_> = (1..=3).flat_map(|round| [(read, round), (write, round)]).collect();
    assert_eq!(turns(&scratch.record()), expected);
}

#[test]
fn only_cases_that_are_open_have_more_rounds() {
    let scratch = Scratch::new();
    let two = "[workloads.write]\nrw = \"randwrite\"\nruntime = \"20ms\"\n";
    let more = format!("{two}[run]\nrounds = {{ min = 2, max = 6 }}");
    // Between the two first rounds of this seed.
    scratch.run_plan(&plan("latency.mean > 1ns", &more), &["--simulate"]).expect(0);
    let rounds = scratch.record().verdicts[0].evidence.rounds.clone();
    let sum: f64 = rounds.iter().map(|value| value.expect("a figure")).sum();
    let amid = plan(&format!("latency.mean <= {:.0}ns", sum / 2.0), &more);
    scratch.run_plan(&amid, &["--simulate"]).expect(5);
    let record = scratch.record();
    let counts: Vec<_> = record.cases.iter().map(|case| case.rounds.len()).collect();
    assert_eq!(counts, [6, 2]);
    assert_eq!(turns(&record)[4..], [3, 4, 5, 6].map(|round| ("s/read", round)));
}

#[test]
fn an_author_s_control_characters_reach_no_terminal_and_break_no_xml() {
    let scratch = Scratch::new();
    let strange = r"\u001b]0;title\u0007 \u0000 \u000b \uFFFE ]]> & <b> \u202E";
    let text = plan("iops < 1", &format!("why = \"{strange}\"\n[run]\nrounds = 1"));
    let text = text.replace("[disks.a]", &format!("description = \"{strange}\"\n[disks.a]"));
    let always = ["--simulate", "--color", "always"];
    let ran = scratch.run_plan(&text, &always).expect(1);
    let again = scratch.run(&["report", "out/record.json", "--color", "always"]).expect(0);
    let shown = scratch.run(&["show", "plan.toml", "--color", "always"]).expect(0);
    let listed = scratch.run(&["list", "plan.toml", "--color", "always"]).expect(0);
    for text in [&ran.stdout, &ran.stderr, &again.stdout, &shown.stdout, &listed.stdout] {
        for character in ["\x1b]", "\x07", "\0", "\x0b", "\u{fffe}", "\u{202e}"] {
            assert!(!text.contains(character), "{character:?} in {text:?}");
        }
    }
    let place = text.replace("size = ", &format!("directory = \"/none{strange}\"\nsize = "));
    scratch.write("place.toml", place.replace("\\u0000", ""));
    let mut seen = vec![scratch.run(&["show", "place.toml", "--color", "always"]).expect(3)];
    seen.push(scratch.run(&["run", "place.toml", "--out", "o", "--color", "always"]).expect(3));
    for text in seen.iter().flat_map(|ran| [&ran.stdout, &ran.stderr]) {
        for character in ["\x1b]", "\x07", "\0", "\x0b", "\u{fffe}", "\u{202e}"] {
            assert!(!text.contains(character), "{character:?} in {text:?}");
        }
    }
    assert_eq!(junit(&scratch).len(), 1);
    let this_test = "simulate::an_author_s_control_characters_reach_no_terminal_and_break_no_xml";
    let path = scratch.path("out/junit.xml");
    match std::process::Command::new("xmllint").arg("--noout").arg(path).status() {
        Ok(status) => assert!(status.success(), "xmllint does not take it"),
        Err(_) => skip(this_test, "xmllint is not there", "install libxml2-utils"),
    }
}
