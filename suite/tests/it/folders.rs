//! The folder of a run's reports: nothing in it ever passes for a success that it is not.

use std::fs;
use std::time::Duration;

use diskproof::record::Record;

use crate::support::{Live, Scratch, names_in, record};

/// A plan that passes, and takes as long as it is told.
fn plan(runtime: &str) -> String {
    format!(
        r#"
name = "kept"
[disks.a]
size = "1MiB"
[setups.s]
disks = ["a"]
[workloads.read]
rw = "randread"
runtime = "{runtime}"
[[expect]]
case = "*"
that = "errors = 0"
[run]
rounds = 2
"#
    )
}

/// The files of a run, sorted.
const FILES: [&str; 4] = ["junit.xml", "record.json", "report.html", "summary.md"];

/// A folder `out` in which a run has passed; the text of its record.
fn passed() -> (Scratch, String) {
    let scratch = Scratch::new();
    scratch.run_plan(&plan("20ms"), &["--simulate"]).expect(0);
    assert!(scratch.read("out/junit.xml").contains("errors=\"0\""));
    let record = scratch.read("out/record.json");
    (scratch, record)
}

/// Asserts that none of the reports says that anything passed.
#[track_caller]
fn assert_no_success(scratch: &Scratch, code: u8) -> Record {
    let junit = scratch.read("out/junit.xml");
    assert!(junit.contains("<error "), "{junit}");
    for name in ["report.html", "summary.md"] {
        let text = scratch.read(&format!("out/{name}"));
        assert!(!text.contains("Passed"), "{name}: {text}");
    }
    let record = scratch.record();
    assert_eq!((record.conclusion.exit_code, record.conclusion.passed), (code, 0));
    record
}

#[test]
fn a_run_that_is_killed_leaves_no_older_success() {
    let (scratch, _) = passed();
    let mut live = Live::start(&mut scratch.plan_command(&plan("1s"), &[]));
    live.wait_for("DONE s/read round 1");
    live.wait_for("MEASURE (2/2)");
    live.signal("KILL");
    live.wait_for_end(Duration::from_secs(20));
    let record = assert_no_success(&scratch, 130);
    assert!(record.interrupted);
    assert_eq!(record.cases[0].measured().len(), 1, "what was measured is kept");
    assert_eq!(names_in(&scratch.path("out")), FILES);
    scratch.run(&["report", "out/record.json"]).expect(0).prints("Interrupted");
}

#[test]
fn a_run_that_can_t_begin_leaves_no_older_success_and_no_record_is_lost() {
    let bad = plan("soon");
    let good = plan("20ms");
    let runs: [(&str, &[&str], i32); 6] = [
        (&bad, &[], 2),
        (&good, &["--disk", "b=/"], 2),
        (&good, &["--disk", "nonsense"], 2),
        (&good, &["--profile", "unknown"], 2),
        (&good, &["--baseline", "/dev/null"], 2),
        (&good, &["--case", "nothing"], 4),
    ];
    for (text, args, code) in runs {
        let (scratch, before) = passed();
        scratch.run_plan(text, args).expect(code);
        // The second time there is nothing more to be kept.
        scratch.run_plan(text, args).expect(code);
        let record = assert_no_success(&scratch, u8::try_from(code).expect("a code"));
        let note = record.conclusion.note.expect("a note");
        assert!(note.starts_with("the run could not begin: "), "{note}");
        assert_eq!(scratch.read("out/record.old.json"), before);
        scratch.run(&["report", "out/record.json"]).expect(0);
        scratch.run_plan(&good, &["--simulate"]).expect(0);
        assert_eq!(scratch.record().conclusion.passed, 1);
    }
}

#[test]
fn a_refused_run_leaves_no_older_success() {
    let (scratch, _) = passed();
    scratch.write("data", vec![1_u8; 1 << 20]);
    let writes = plan("20ms").replace("randread", "randwrite");
    scratch.run_plan(&writes, &["--disk", "a=data"]).expect(6);
    assert_no_success(&scratch, 6);
}

#[test]
fn what_is_not_a_run_s_is_left_alone_by_one_that_can_t_begin() {
    let scratch = Scratch::new();
    fs::create_dir(scratch.path("out")).expect("a folder");
    for name in FILES {
        scratch.write(&format!("out/{name}"), "mine");
    }
    scratch.run_plan(&plan("soon"), &[]).expect(2);
    assert!(FILES.iter().all(|name| scratch.read(&format!("out/{name}")) == "mine"));
    // Neither is anything made, nor anything touched by a mere look.
    scratch.run(&["run", "plan.toml", "--out", "new"]).expect(2);
    assert!(!scratch.path("new").exists());
    let (scratch, before) = passed();
    scratch.run_plan(&plan("soon"), &["--dry-run"]).expect(2);
    scratch.run_plan(&plan("20ms"), &["--dry-run"]).expect(0);
    assert_eq!(scratch.read("out/record.json"), before);
    assert_eq!(names_in(&scratch.path("out")), FILES);
}

#[test]
fn a_folder_takes_one_run_at_a_time() {
    let scratch = Scratch::new();
    let mut first = Live::start(&mut scratch.plan_command(&plan("60s"), &[]));
    first.wait_for("MEASURE");
    let before = scratch.read("out/junit.xml");
    scratch.write("other.toml", plan("20ms"));
    let other = ["run", "other.toml", "--simulate", "--out", "out"];
    scratch.run(&other).expect(3).says("another run is writing its reports to out").says("--out");
    scratch.write("bad.toml", plan("soon"));
    scratch.run(&["run", "bad.toml", "--out", "out"]).expect(2);
    assert_eq!(scratch.read("out/junit.xml"), before);
    first.signal("KILL");
    first.wait_for_end(Duration::from_secs(20));
    scratch.run(&other).expect(0);
    assert_eq!(names_in(&scratch.path("out")), FILES);
}

#[test]
fn runs_of_one_second_have_folders_of_their_own() {
    let scratch = Scratch::new();
    scratch.write("plan.toml", plan("20ms"));
    let start = || Live::start(&mut scratch.program(&["run", "plan.toml", "--simulate"]));
    let all: Vec<_> = (0..4).map(|_| start()).collect();
    for live in all {
        live.finish().expect(0);
    }
    let runs = scratch.path("target/runs/kept");
    let names = names_in(&runs);
    assert_eq!(names.len(), 5, "four and `latest`: {names:?}");
    for name in names {
        assert_eq!(names_in(&runs.join(&name)), FILES, "{name}");
        assert_eq!(record(&runs.join(name).join("record.json")).conclusion.passed, 1);
    }
}

#[test]
fn latest_leads_to_a_run_that_is_still_on() {
    let scratch = Scratch::new();
    scratch.write("plan.toml", plan("20ms"));
    scratch.run(&["run", "plan.toml", "--simulate"]).expect(0);
    let long = scratch.read("plan.toml").replace("20ms", "60s");
    scratch.write("plan.toml", long);
    let mut live = Live::start(&mut scratch.program(&["run", "plan.toml"]));
    live.wait_for("MEASURE");
    live.signal("KILL");
    live.wait_for_end(Duration::from_secs(20));
    assert!(record(&scratch.path("target/runs/kept/latest/record.json")).interrupted);
}

#[test]
fn a_folder_in_a_report_s_place_is_said_before_anything_is_made() {
    for name in FILES {
        let scratch = Scratch::new();
        fs::create_dir_all(scratch.path("out").join(name)).expect("a folder");
        let ran = scratch.run_plan(&plan("20ms"), &[]).expect(3);
        let ran = ran.says(&format!("out/{name} is a folder")).says("--out DIR");
        assert!(!ran.stderr.contains("FILL"), "{}", ran.stderr);
        assert_eq!(names_in(&scratch.path("out")), [name]);
    }
}
