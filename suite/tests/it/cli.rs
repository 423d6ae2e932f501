//! Every command: its good way, its errors, its exit codes, and what it says.

use std::fs::{self, File};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::process::Stdio;

use diskproof::record::ExitCode;
use serde_json::Value;

use crate::support::{Live, PROGRAM, Ran, Scratch, compare, names_in, repository, shipped};

/// A plan that any disk passes, with a case that reads and one that writes.
const SMALL: &str = r#"
name = "small"
[disks.a]
size = "4MiB"
[setups.s]
disks = ["a"]
[workloads.read]
rw = "randread"
runtime = "50ms"
[workloads.write]
rw = "randwrite"
runtime = "50ms"
[[expect]]
case = "*"
that = "errors = 0"
[run]
rounds = 2
[profiles.quick]
workloads."*" = { runtime = "20ms" }
"#;

fn json(ran: &Ran) -> Value {
    serde_json::from_str(&ran.stdout).unwrap_or_else(|error| panic!("{error}: {}", ran.stdout))
}

fn fifo(scratch: &Scratch, name: &str) {
    let path = scratch.path(name);
    nix::unistd::mkfifo(&path, nix::sys::stat::Mode::S_IRWXU).expect("a FIFO");
}

// Help, completions and usage.

#[test]
fn help_is_what_it_was() {
    let scratch = Scratch::new();
    let mut texts = Vec::new();
    for (name, args) in [
        ("diskproof", vec!["--help"]),
        ("diskproof-short", vec!["-h"]),
        ("check", vec!["check", "--help"]),
        ("show", vec!["show", "--help"]),
        ("run", vec!["run", "--help"]),
        ("report", vec!["report", "--help"]),
        ("list", vec!["list", "--help"]),
        ("init", vec!["init", "--help"]),
        ("self-test", vec!["self-test", "--help"]),
        ("completions", vec!["completions", "--help"]),
    ] {
        // Help shows the value of a variable that is set.
        let mut command = scratch.program(&args);
        let ran = Live::start(command.env_remove("DISKPROOF_WORK_DIR")).finish().expect(0);
        assert_eq!(ran.stderr, "");
        assert!(ran.stdout.lines().all(|line| line.chars().count() <= 100), "{}", ran.stdout);
        texts.push((repository().join(format!("fixtures/help/{name}.txt")), ran.stdout));
    }
    compare(texts);
}

#[test]
fn help_names_every_exit_code() {
    let help = Scratch::new().run(&["--help"]).expect(0).stdout;
    for exit in ExitCode::ALL {
        let line = format!("  {:<4} {}", exit.code(), exit.meaning());
        assert!(help.lines().any(|found| found == line), "no `{line}` in\n{help}");
    }
}

#[test]
fn a_self_test_says_what_each_way_can_do_or_why_not() {
    let ran = Scratch::new().run(&["self-test"]).expect(0);
    for line in ["ring, no-ops", "null device, sync", "null device, io_uring", "memory, sync"] {
        assert!(ran.stdout.contains(line), "no `{line}` in\n{}", ran.stdout);
    }
    let json = Scratch::new().run(&["self-test", "--json"]).expect(0).stdout;
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    let lines = json["lines"].as_array().unwrap();
    assert_eq!(lines.len(), 9);
    let told = |line: &serde_json::Value| {
        line["reason"].is_string()
            || line["rate_per_s"].as_f64().or(line["rate_bytes_per_s"].as_f64()) > Some(0.0)
    };
    assert!(lines.iter().all(told), "{lines:#?}");
}

#[test]
fn completions_are_scripts_that_know_the_commands() {
    let scratch = Scratch::new();
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script = scratch.run(&["completions", shell]).expect(0).stdout;
        for word in ["check", "show", "run", "report", "list", "init", "simulate", "require-all"] {
            assert!(script.contains(word), "{shell} does not know {word}");
        }
    }
    scratch.run(&["completions", "tcsh"]).expect(2).says("possible values");
}

#[test]
fn a_mistyped_command_line_is_refused_with_what_would_be_right() {
    let scratch = Scratch::new();
    scratch.run::<&str>(&[]).expect(2).says("Usage:");
    scratch.run(&["rnu", "plan.toml"]).expect(2).says("'rnu'");
    scratch.run(&["run"]).expect(2).says("<PLAN>");
    scratch.run(&["run", "p.toml", "--otu", "x"]).expect(2).says("'--otu'");
    scratch.run(&["run", "p.toml", "--progress", "loud"]).expect(2).says("lines");
    scratch.run(&["run", "p.toml", "--simulate", "--disk", "a=/"]).expect(2).says("--disk");
    scratch.run(&["--version"]).expect(0).prints(env!("CARGO_PKG_VERSION"));
    assert_eq!(names_in(&scratch.path("")), ["work"], "something was made");
}

// What is given as a plan.

#[test]
fn what_is_no_plan_is_said_to_be_none_by_every_command() {
    let scratch = Scratch::new();
    fs::create_dir(scratch.path("folder")).expect("a folder");
    fifo(&scratch, "fifo");
    scratch.write("large.toml", vec![b'#'; 2 << 20]);
    scratch.write("latin1.toml", b"name = \"caf\xe9\"");
    std::os::unix::fs::symlink("nowhere", scratch.path("dangling.toml")).expect("a link");
    for (plan, reason) in [
        ("unknown.toml", "No such file"),
        ("dangling.toml", "No such file"),
        ("folder", "folder"),
        ("fifo", "not a regular file"),
        ("/dev/null", "not a regular file"),
        ("large.toml", "larger than 1 MiB"),
        (PROGRAM, "larger than 1 MiB"),
        ("latin1.toml", "not UTF-8 text (first wrong byte at offset 11)"),
    ] {
        for command in ["check", "show", "run"] {
            let ran = scratch.run(&[command, plan]).expect(2).says(reason).says(plan);
            assert_eq!(ran.stdout, "", "{command} {plan}");
        }
        let ran = scratch.run(&["check", "--json", plan]).expect(2);
        assert_eq!(json(&ran)[0]["code"], "plan::unreadable");
    }
    scratch.write("empty.toml", "");
    scratch.run(&["run", "empty.toml"]).expect(2).says("`name`");
    assert!(!scratch.path("target").exists(), "a folder for reports was made");
    scratch.assert_clean();
}

#[test]
fn a_bad_plan_touches_nothing_and_shows_the_place() {
    let scratch = Scratch::new();
    let bad = repository().join("fixtures/plans/bad/rw-mistyped.toml");
    let expected = fs::read_to_string(bad.with_extension("stderr")).expect("its diagnostic");
    fs::copy(&bad, scratch.path("rw-mistyped.toml")).expect("a copy");
    for command in ["check", "show", "run"] {
        let ran = scratch.run(&[command, "rw-mistyped.toml"]).expect(2);
        assert_eq!(ran.stdout, "");
        assert_eq!(ran.stderr.trim_end(), expected.trim_end());
    }
    let ran = scratch.run(&["run", "rw-mistyped.toml", "--out", "out"]).expect(2);
    assert!(ran.stderr.contains("rw-mistyped.toml:"));
    assert!(!scratch.path("out").exists());
    assert!(!scratch.path("target").exists());
    scratch.assert_clean();
}

// check, list, show, init.

#[test]
fn check_says_what_is_sound_and_what_comes_next() {
    let scratch = Scratch::new();
    scratch.write("a.toml", SMALL);
    scratch
        .run(&["check", "a.toml"])
        .expect(0)
        .prints("a.toml: sound: 2 conditions on 2 cases\n")
        .says("next: diskproof show a.toml");
    let ran = scratch.run(&["check", "a.toml", "--json"]).expect(0);
    assert_eq!(json(&ran), Value::Array(Vec::new()));
    scratch.write("b.toml", SMALL.replace("randread", "randraed"));
    let ran = scratch.run(&["check", "a.toml", "b.toml"]).expect(2);
    assert!(ran.stdout.starts_with("a.toml: sound"), "the sound one is not held back");
    scratch.run(&["check", "a.toml", "--profile", "quick"]).expect(0);
    scratch.run(&["check", "a.toml", "--profile", "quik"]).expect(2).says("`quick`");
}

#[test]
fn check_as_json_has_every_diagnostic_with_its_place() {
    let scratch = Scratch::new();
    let text = SMALL.replace("randread", "randraed").replace("4MiB", "4M");
    scratch.write("bad.toml", &text);
    scratch.write("good.toml", SMALL);
    let ran = scratch.run(&["check", "--json", "bad.toml", "good.toml", "gone.toml"]).expect(2);
    assert_eq!(ran.stderr, "");
    let found = json(&ran);
    let found = found.as_array().expect("an array");
    let files: Vec<_> = found.iter().map(|one| one["file"].as_str().expect("a file")).collect();
    assert_eq!(files, ["bad.toml", "bad.toml", "gone.toml"]);
    for one in found {
        assert!(one["code"].as_str().is_some_and(|code| code.contains("::")), "{one}");
        assert!(one["message"].as_str().is_some_and(|message| !message.is_empty()), "{one}");
    }
    let lines: Vec<_> = found[..2].iter().map(|one| one["line"].as_u64()).collect();
    assert_eq!(lines, [Some(4), Some(8)], "{found:#?}");
}

#[test]
fn list_names_plans_and_their_cases() {
    let scratch = Scratch::new();
    scratch.run(&["list"]).expect(2).says("plans");
    fs::create_dir(scratch.path("plans")).expect("a folder");
    scratch.run(&["list"]).expect(4).says("no plan was found").says("help: ");
    let ran = scratch.run(&["list", "--json"]).expect(4);
    assert_eq!(json(&ran), Value::Array(Vec::new()));
    scratch.write("plans/small.toml", SMALL);
    scratch.write("plans/notes.md", "not a plan");
    let ran = scratch.run(&["list"]).expect(0);
    assert!(ran.stdout.starts_with("plans/small.toml: 2 cases"), "{}", ran.stdout);
    assert!(ran.stdout.contains("destroys nothing that exists"));
    assert!(ran.stdout.contains("  s/read "));
    assert!(ran.stdout.contains("random 4KiB writes, depth 1, 50ms; 1 condition\n"));
    let ran = scratch.run(&["list", "--json"]).expect(0);
    let listed = json(&ran);
    assert_eq!(listed.as_array().map(Vec::len), Some(1));
    let plan = &listed[0];
    assert_eq!(plan["name"], "small");
    assert_eq!(plan["path"], "plans/small.toml");
    assert_eq!(plan["expected_ns_min"], 200_000_000);
    assert_eq!(plan["destroys"], Value::Array(Vec::new()));
    assert_eq!(plan["cases"][0]["id"], "s/read");
    assert_eq!(plan["cases"][1]["conditions"][0], "errors = 0");
    // One that is unsound is said, and takes nothing from the others.
    scratch.write("plans/bad.toml", "name = 1");
    let ran = scratch.run(&["list", "plans"]).expect(2).prints("plans/small.toml").says("bad.toml");
    assert!(!ran.stdout.contains("bad.toml"));
}

#[test]
fn list_knows_the_plans_of_the_product() {
    let scratch = Scratch::new();
    let listed =
        scratch.run(&["list", "--json", &repository().join("plans").display().to_string()]);
    let listed = json(&listed.expect(0));
    let names = listed.as_array().expect("an array").iter().map(|plan| plan["name"].as_str());
    let names: Vec<_> = names.collect();
    assert_eq!(names, [Some("first"), Some("stripe"), Some("zone-redundancy")]);
}

#[test]
fn show_says_what_would_happen_and_makes_nothing() {
    let scratch = Scratch::new();
    scratch.write("small.toml", SMALL);
    let ran = scratch.run(&["show", "small.toml"]).expect(0).says("next: diskproof run small.toml");
    let work = scratch.work().display().to_string();
    for text in [
        "small\n2 cases, 2 rounds, less than 1 s",
        "loopback file, 4MiB, in ",
        &work,
        "destroys  nothing that exists",
        "  s/read\n      random 4KiB reads, depth 1, 50ms\n      expect errors = 0",
    ] {
        assert!(ran.stdout.contains(text), "no `{text}` in\n{}", ran.stdout);
    }
    let dry = scratch.run(&["run", "small.toml", "--dry-run"]).expect(0);
    assert_eq!(dry.stdout, ran.stdout);
    let shown = json(&scratch.run(&["show", "small.toml", "--json"]).expect(0));
    assert_eq!(shown["disks"][0]["kind"], "loopback");
    assert_eq!(shown["disks"][0]["size_bytes"], 4 << 20);
    assert_eq!(shown["disks"][0]["created_bytes"], 4 << 20);
    assert_eq!(shown["rounds"]["min"], 2);
    assert_eq!(shown["cases"][1]["id"], "s/write");
    assert_eq!(shown["destroys"], Value::Array(Vec::new()));
    assert_eq!(shown["troubles"], Value::Array(Vec::new()));
    assert_eq!(names_in(&scratch.path("")), ["small.toml", "work"], "something was made");
    scratch.assert_clean();
}

#[test]
fn what_comes_next_can_be_pasted() {
    let scratch = Scratch::new();
    scratch.write("it's a plan.toml", SMALL);
    let ran = scratch.run(&["check", "it's a plan.toml"]).expect(0);
    ran.says("next: diskproof show 'it'\\''s a plan.toml'");
    fs::create_dir(scratch.path("a b")).expect("a folder");
    let args =
        ["show", "it's a plan.toml", "--disk", "a=a b", "--profile", "quick", "--skip", "*d"];
    let ran = scratch.run(&args).expect(0);
    ran.says(
        "next: diskproof run --disk 'a=a b' --profile quick --skip '*d' 'it'\\''s a plan.toml'",
    );
    let ran = scratch.run(&["show", "it's a plan.toml", "--simulate"]).expect(0);
    let next = ran.stderr.lines().find_map(|line| line.strip_prefix("next: ")).expect("a command");
    let mut command = std::process::Command::new("sh");
    command.args(["-c", next]);
    scratch.prepare(&mut command);
    Live::start(&mut command).finish().expect(0);
}

#[test]
fn the_work_folder_of_the_environment_is_none_when_empty() {
    let scratch = Scratch::new();
    scratch.write("small.toml", SMALL);
    let show = |value: &str, args: &[&str]| {
        let args = [&["show", "small.toml"], args].concat();
        Live::start(scratch.program(&args).env("DISKPROOF_WORK_DIR", value)).finish()
    };
    show("", &[]).expect(0).prints("in /var/tmp");
    show("work", &[]).expect(0).prints("in work");
    show("work", &["--work-dir", "."]).expect(0).prints("in . ");
    show("work", &["--work-dir", ""]).expect(2).says("--work-dir");
}

#[test]
fn a_run_knows_how_it_was_asked_for() {
    let scratch = Scratch::new();
    let work = scratch.work().display().to_string();
    scratch.run_plan(SMALL, &["--require-all"]).expect(0);
    let plan = scratch.record().plan;
    assert_eq!((plan.work_dir, plan.require_all), (Some(work), true));
    scratch.run_plan(SMALL, &["--simulate"]).expect(0);
    let plan = scratch.record().plan;
    assert_eq!((plan.work_dir, plan.require_all), (None, false));
}

#[test]
fn every_refusal_says_what_would_help() {
    let scratch = Scratch::new();
    scratch.write("small.toml", SMALL);
    scratch.write(
        "two.toml",
        SMALL.replace("[disks.a]", "[disks.a]\ncount = 2").replace(
            "disks = [\"a\"]",
            "disks = [\"a\"]\nstripe = { driver = \"engine\", chunk = \"64KiB\" }",
        ),
    );
    scratch.write("one", vec![1_u8; 4 << 20]);
    for (plan, binding) in [
        ("small.toml", "a=/proc"),
        ("small.toml", "a=/sys"),
        ("small.toml", "a=one,two"),
        ("small.toml", "a=one,"),
        ("small.toml", "a"),
        ("small.toml", "b=one"),
        ("small.toml", "a=/dev/null"),
        ("small.toml", "a=nowhere"),
        ("two.toml", "a=one"),
        ("two.toml", "a=one,one"),
        ("two.toml", "a=one,./one"),
    ] {
        let ran = scratch.run(&["run", plan, "--disk", binding]);
        assert!(matches!(ran.status.code(), Some(2 | 3 | 6)), "{binding}: {}", ran.stderr);
        let errors = ran.stderr.matches("error: ").count();
        let helps = ran.stderr.matches("help: ").count();
        assert!(errors > 0 && helps >= errors, "{binding}: {}", ran.stderr);
    }
    scratch.run(&["run", "small.toml", "--disk", "a=x,y"]).expect(2).says("commas divide paths");
    for plan in ["gone.toml", "."] {
        scratch.run(&["check", plan]).expect(2).says("diskproof list");
    }
    scratch.run(&["init", "one"]).expect(0);
    scratch.run(&["init", "one"]).expect(2).says("help: ");
}

#[test]
fn show_and_run_meet_the_same_troubles() {
    let scratch = Scratch::new();
    scratch.write("small.toml", SMALL.replace("4MiB", "1000TiB"));
    let work = scratch.work().display().to_string();
    for command in ["show", "run"] {
        scratch.run(&[command, "small.toml"]).expect(3).says(&work).says("are free");
    }
    let ran = scratch.run(&["show", "small.toml", "--json"]).expect(3);
    let trouble = &json(&ran)["troubles"][0];
    assert_eq!(trouble["category"], "machine");
    assert!(trouble["help"].as_str().is_some_and(|help| help.contains("--work-dir")), "{trouble}");
    scratch.run(&["show", "small.toml", "--disk", "b=/"]).expect(2).says("`b`");
    scratch.assert_clean();
}

#[test]
fn init_writes_a_plan_that_runs_and_never_over_one() {
    let scratch = Scratch::new();
    let ran = scratch.run(&["init", "mine"]).expect(0).says("next: diskproof show mine.toml");
    assert_eq!(ran.stdout, "wrote mine.toml\n");
    scratch.run(&["check", "mine.toml"]).expect(0);
    scratch.run_plan(&scratch.read("mine.toml").replace("2s", "20ms"), &["--simulate"]).expect(0);
    let written = scratch.read("mine.toml");
    scratch.run(&["init", "mine", "--template", "stripe"]).expect(2).says("is there already");
    assert_eq!(scratch.read("mine.toml"), written);
    for template in ["first", "directory", "stripe", "device"] {
        scratch.run(&["init", template, "--template", template]).expect(0);
        scratch.run(&["check", &format!("{template}.toml")]).expect(0);
    }
    let long = "a".repeat(65);
    for name in ["", "../up", "Capital", "with space", "a/b", &long] {
        scratch.run(&["init", name]).expect(2).says("can't be a plan's name").says("at most 64");
        assert!(!scratch.path(&format!("{name}.toml")).exists(), "{name}");
    }
    scratch.run(&["init", &long[1..]]).expect(0);
    scratch.run(&["check", &format!("{}.toml", &long[1..])]).expect(0);
    assert!(!scratch.path("../up.toml").exists());
}

// run: selection, profiles, disks.

#[test]
fn selection_that_leaves_nothing_is_its_own_exit_code() {
    let scratch = Scratch::new();
    let none = scratch.run_plan(SMALL, &["--simulate", "--case", "s/raed"]).expect(4);
    assert!(none.says("`s/raed`").stderr.contains("s/read, s/write"));
    scratch.run_plan(SMALL, &["--simulate", "--skip", "*"]).expect(4).says("all were skipped");
    scratch.run_plan(SMALL, &["--simulate", "--skip", "nothing"]).expect(4).says("`nothing`");
    scratch.run_plan(SMALL, &["--simulate", "--case", ""]).expect(4);
    scratch.run_plan(SMALL, &["--case", "*/read", "--skip", "s/*"]).expect(4);
    scratch.assert_clean();
}

#[test]
fn selected_cases_alone_are_run() {
    let scratch = Scratch::new();
    let ran = scratch.run_plan(SMALL, &["--simulate", "--case", "*/write"]).expect(0);
    assert!(!ran.stdout.contains("s/read"));
    let record = scratch.record();
    let ids: Vec<_> = record.cases.iter().map(|case| case.id.as_str()).collect();
    assert_eq!(ids, ["s/write"]);
    assert_eq!(record.plan.selection.cases, ["*/write"]);
    scratch.run_plan(SMALL, &["--simulate", "--skip", "*/write", "--profile", "quick"]).expect(0);
    let record = scratch.record();
    assert_eq!(record.cases.len(), 1);
    assert_eq!(record.cases[0].id, "s/read");
    assert_eq!(record.plan.profile.as_deref(), Some("quick"));
    assert!(record.cases[0].what.contains("20ms"), "{}", record.cases[0].what);
}

#[test]
fn an_unknown_profile_names_the_known_ones() {
    let scratch = Scratch::new();
    scratch.run_plan(SMALL, &["--profile", "quikc"]).expect(2).says("did you mean `quick`?");
    scratch.run_plan(SMALL, &["--profile", "zzz"]).expect(2).says("it has quick");
    let plain = SMALL.split("[profiles").next().expect("a plan");
    scratch.run_plan(plain, &["--profile", "quick"]).expect(2).says("it has none at all");
}

#[test]
fn what_can_t_be_a_disk_is_refused_by_kind_before_anything_is_made() {
    let scratch = Scratch::new();
    fifo(&scratch, "fifo");
    scratch.write("one", vec![1_u8; 1 << 20]);
    scratch.write("two", vec![2_u8; 1 << 20]);
    std::os::unix::fs::symlink("nowhere", scratch.path("dangling")).expect("a link");
    for (binding, code, text) in [
        ("b=one", 2, "no disk of the plan is called `b`"),
        ("a", 2, "NAME=PATH"),
        ("=one", 2, "NAME=PATH"),
        ("a=", 2, "is empty"),
        ("a=one,two", 2, "1 member"),
        ("a=fifo", 2, "is a FIFO"),
        ("a=/dev/null", 2, "is a character device"),
        ("a=/dev/nvme9n9", 3, "doesn't exist"),
        ("a=dangling", 3, "doesn't exist"),
        ("a=nowhere/at/all", 3, "doesn't exist"),
        ("a=one/below", 3, "one/below"),
    ] {
        scratch.run_plan(SMALL, &["--disk", binding]).expect(code).says(text);
        scratch.assert_clean();
    }
    scratch.run_plan(SMALL, &["--disk", "a=one", "--disk", "a=two"]).expect(2).says("once");
    for name in ["/dev/nvme9n9", &scratch.path("nowhere").display().to_string()] {
        assert!(!Path::new(name).exists(), "{name} was made");
    }
}

#[test]
fn an_existing_file_is_never_written_to() {
    let scratch = Scratch::new();
    let bytes: Vec<u8> = (0..1_u32 << 20).map(|number| (number * 7 + 3) as u8).collect();
    let file = scratch.write("data", &bytes);
    let before = fs::metadata(&file).expect("the file").modified().expect("its time");
    let ran = scratch.run_plan(SMALL, &["--disk", "a=data"]).expect(6);
    assert!(ran.says("will not write to data").says("a=DIR").stdout.contains("Refused"));
    assert_eq!(scratch.record().conclusion.exit_code, 6);
    assert_eq!(fs::read(&file).expect("the file"), bytes);
    assert_eq!(fs::metadata(&file).expect("the file").modified().expect("its time"), before);
    assert!(scratch.record().cases.iter().all(|case| case.measured().is_empty()));
    // The same file serves a case that only reads.
    let ran = scratch.run_plan(SMALL, &["--disk", "a=data", "--case", "*/read"]).expect(0);
    assert!(ran.stderr.contains("file data, 1"), "{}", ran.stderr);
    let record = scratch.record();
    assert_eq!(record.disks[0].kind, "file");
    assert_eq!(record.plan.bindings, [("a".to_owned(), vec!["data".to_owned()])]);
    assert_eq!(fs::read(&file).expect("the file"), bytes);
    scratch.assert_clean();
}

#[test]
fn a_directory_in_place_of_a_disk_gets_a_file_that_goes_again() {
    let scratch = Scratch::new();
    fs::create_dir(scratch.path("here")).expect("a folder");
    scratch.write("here/mine", "stays");
    scratch.run_plan(SMALL, &["--disk", "a=here"]).expect(0);
    assert_eq!(names_in(&scratch.path("here")), ["mine"]);
    assert_eq!(scratch.record().disks[0].kind, "directory");
    scratch.assert_clean();
}

// run: baseline.

/// One case with a condition on a baseline.
fn against_baseline(condition: &str) -> String {
    SMALL.replace("errors = 0", condition)
}

#[test]
fn a_run_is_held_against_an_earlier_one() {
    let scratch = Scratch::new();
    scratch.run_plan(SMALL, &["--simulate"]).expect(0);
    fs::rename(scratch.path("out/record.json"), scratch.path("base.json")).expect("a baseline");
    let base = ["--simulate", "--baseline", "base.json"];
    for (condition, code) in [
        ("iops within 5% of baseline", 0),
        ("latency.mean <= 1.05 x baseline", 0),
        ("iops >= 2 x baseline", 1),
        ("latency.p99 <= 50% of baseline", 1),
    ] {
        let ran = scratch.run_plan(&against_baseline(condition), &base).expect(code);
        assert!(ran.stdout.contains("baseline"), "{}", ran.stdout);
        let record = scratch.record();
        assert_eq!(record.verdicts[0].evidence.reference.as_deref(), Some("baseline"));
        assert!(record.verdicts[0].evidence.ratio.is_some());
        assert_eq!(record.plan.baseline.as_deref(), Some("base.json"));
    }
}

#[test]
fn a_question_without_a_baseline_is_refused_before_anything_is_made() {
    let scratch = Scratch::new();
    let plan = against_baseline("iops >= 0.5 x baseline");
    for args in [&[][..], &["--simulate"], &["--dry-run"]] {
        let ran = scratch.run_plan(&plan, args).expect(2);
        let ran = ran.says("2 conditions can't be answered by anything that is measured");
        let ran = ran.says("`iops >= 0.5 x baseline` on s/write (plan.toml:");
        let ran = ran.says("no baseline was given").says("help: give a record");
        assert!(!ran.stderr.contains("FILL"), "{}", ran.stderr);
        assert!(!scratch.path("out").exists());
    }
    scratch.run(&["check", "plan.toml"]).expect(0);
    scratch.run(&["show", "plan.toml"]).expect(0).prints("run --baseline FILE");
    // Only what is run is asked, and only a gate needs its answer: so the first one is made.
    let warn = plan.replace(
        "[run]",
        "level = \"warn\"\n[[expect]]\ncase = \"*\"\nthat = \"errors = 0\"\n[run]",
    );
    scratch.run_plan(&warn, &["--simulate"]).expect(0);
    fs::rename(scratch.path("out/record.json"), scratch.path("base.json")).expect("a baseline");
    scratch.run_plan(&plan, &["--simulate", "--baseline", "base.json"]).expect(0);
    scratch.assert_clean();
}

#[test]
fn a_baseline_that_measured_something_else_is_no_baseline() {
    let scratch = Scratch::new();
    let plan = against_baseline("iops >= 50% of baseline");
    let other = SMALL.replace("rw = \"randread\"", "rw = \"randread\"\nblock_size = \"8KiB\"");
    scratch.run_plan(&other, &["--simulate", "--case", "*/read"]).expect(0);
    fs::rename(scratch.path("out/record.json"), scratch.path("base.json")).expect("a baseline");
    let ran = scratch.run_plan(&plan, &["--simulate", "--baseline", "base.json"]).expect(2);
    let reasons = ran.says("block_size was 8KiB there and is 4KiB here");
    reasons.says("the baseline has no case s/write");
    let ran = scratch.run_plan(&plan, &["--baseline", "base.json"]).expect(2);
    ran.says("this is a real run, and the baseline a simulated one");
    // What the baseline has is enough for a case that it has.
    scratch.run_plan(&other, &["--simulate"]).expect(0);
    fs::rename(scratch.path("out/record.json"), scratch.path("base.json")).expect("a baseline");
    let args = ["--simulate", "--baseline", "base.json", "--case", "*/write"];
    scratch.run_plan(&plan, &args).expect(0);
}

#[test]
fn what_is_no_record_is_no_baseline_and_no_report() {
    let scratch = Scratch::new();
    fifo(&scratch, "fifo");
    scratch.write("empty.json", "");
    scratch.write("other.json", "{\"name\": 1}");
    scratch.write("future.json", "{\"format\": 999}");
    scratch.write("half.json", "{\"format\": 1, \"diskproof\":");
    scratch.write("text.json", "Dear record,");
    for (file, text) in [
        ("gone.json", "No such file"),
        ("empty.json", "it is empty"),
        ("other.json", "no `format`"),
        ("future.json", "format 999"),
        ("half.json", "breaks off at line 1"),
        ("text.json", "not JSON"),
        ("work", "folder"),
        ("/dev/null", "not a regular file"),
        ("fifo", "not a regular file"),
    ] {
        let args = ["--simulate", "--baseline", file];
        scratch.run_plan(SMALL, &args).expect(2).says("the baseline can't be used").says(text);
        let ran = scratch.run(&["report", file]).expect(2).says(text);
        assert_eq!(ran.stdout, "");
        assert!(!scratch.path("out").exists());
    }
}

// report.

#[test]
fn a_report_is_drawn_again_byte_for_byte() {
    let scratch = Scratch::new();
    let failing = SMALL.replace("errors = 0", "iops >= 99M");
    let files = ["junit.xml", "report.html", "summary.md"];
    for (plan, code) in [(SMALL, 0), (failing.as_str(), 1)] {
        let ran = scratch.run_plan(plan, &["--simulate"]).expect(code);
        let before = files.map(|name| scratch.read(&format!("out/{name}")));
        for name in files {
            fs::remove_file(scratch.path(&format!("out/{name}"))).expect("a report");
        }
        let again = scratch.run(&["report", "out/record.json"]).expect(0);
        assert_eq!(again.stdout, ran.stdout);
        assert_eq!(files.map(|name| scratch.read(&format!("out/{name}"))), before);
        let record = fs::read(scratch.path("out/record.json")).expect("the record");
        scratch.run(&["report", "out/record.json", "--out", "far/away"]).expect(0);
        assert_eq!(files.map(|name| scratch.read(&format!("far/away/{name}"))), before);
        assert_eq!(fs::read(scratch.path("out/record.json")).expect("the record"), record);
        fs::remove_dir_all(scratch.path("far")).expect("the folder");
    }
}

#[test]
fn a_report_that_can_t_be_written_is_an_error() {
    let scratch = Scratch::new();
    scratch.run_plan(SMALL, &["--simulate"]).expect(0);
    scratch.write("file", "in the way");
    scratch.run(&["report", "out/record.json", "--out", "file"]).expect(3).says("file");
    scratch.run_plan(SMALL, &["--simulate", "--out", "file/below"]).expect(2);
    let ran = scratch.run(&["run", "plan.toml", "--simulate", "--out", "file/below"]).expect(3);
    assert!(ran.says("--out DIR").stdout.is_empty());
    assert_eq!(scratch.read("file"), "in the way");
}

#[test]
fn without_a_folder_reports_go_under_target_and_latest_leads_to_them() {
    let scratch = Scratch::new();
    scratch.write("small.toml", SMALL);
    scratch.run(&["run", "small.toml", "--simulate"]).expect(0);
    scratch.run(&["run", "small.toml", "--simulate"]).expect(0);
    let latest = scratch.path("target/runs/small/latest");
    assert!(latest.is_symlink());
    assert_eq!(names_in(&latest), ["junit.xml", "record.json", "report.html", "summary.md"]);
}

// Streams and colours.

#[test]
fn a_reader_who_has_enough_makes_no_fault() {
    let scratch = Scratch::new();
    scratch.write("small.toml", SMALL);
    for args in [
        &["--help"][..],
        &["list", "small.toml"],
        &["show", "small.toml"],
        &["completions", "bash"],
        &["run", "small.toml", "--simulate", "--out", "out"],
        &["report", "out/record.json"],
    ] {
        let (reader, writer) = nix::unistd::pipe().expect("a pipe");
        drop(reader);
        let mut command = scratch.program(args);
        command.stdin(Stdio::null()).stdout(writer).stderr(Stdio::piped());
        let ran = Live::follow(command.spawn().expect("the program")).finish();
        assert!(!ran.stderr.contains("panicked"), "{}", ran.stderr);
        ran.expect(0);
    }
}

#[test]
fn output_that_is_lost_is_no_success() {
    let scratch = Scratch::new();
    scratch.write("small.toml", SMALL);
    let full = || OwnedFd::from(File::options().write(true).open("/dev/full").expect("/dev/full"));
    for args in [
        &["--help"][..],
        &["--version"],
        &["check", "small.toml"],
        &["list", "small.toml", "--json"],
        &["show", "small.toml"],
        &["completions", "zsh"],
        &["run", "small.toml", "--simulate", "--out", "out"],
        &["report", "out/record.json"],
    ] {
        let mut command = scratch.program(args);
        command.stdin(Stdio::null()).stdout(full()).stderr(Stdio::piped());
        let ran = Live::follow(command.spawn().expect("the program")).finish();
        assert!(!ran.stderr.contains("panicked"), "{}", ran.stderr);
        ran.expect(3);
        // Talk that nobody can hear is no fault.
        let mut command = scratch.program(args);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(full());
        Live::follow(command.spawn().expect("the program")).finish().expect(0);
    }
}

#[test]
fn colour_is_for_terminals_or_for_whoever_asks() {
    let scratch = Scratch::new();
    scratch.write("small.toml", SMALL);
    scratch.write("bad.toml", "name = 1");
    let run = ["run", "small.toml", "--simulate", "--out", "out"];
    let plain = scratch.run(&run).expect(0);
    assert!(!plain.stdout.contains('\x1b') && !plain.stderr.contains('\x1b'));
    let with = |args: &[&str], name: &str, value: &str| {
        let mut command = scratch.program(args);
        Live::start(command.env(name, value)).finish()
    };
    let always = [&run[..], &["--color", "always"]].concat();
    for ran in [scratch.run(&always), with(&always, "NO_COLOR", "1"), with(&always, "TERM", "dumb")]
    {
        let ran = ran.expect(0);
        assert!(ran.stdout.contains('\x1b'), "asked for by name");
        assert_eq!(anstream::adapter::strip_str(&ran.stdout).to_string(), plain.stdout);
    }
    let forced = with(&run, "CLICOLOR_FORCE", "1").expect(0);
    assert!(forced.stdout.contains('\x1b'));
    let never = [&run[..], &["--color", "never"]].concat();
    assert_eq!(with(&never, "CLICOLOR_FORCE", "1").expect(0).stdout, plain.stdout);
    let mut both = scratch.program(&run);
    both.env("CLICOLOR_FORCE", "1").env("NO_COLOR", "1");
    assert_eq!(Live::start(&mut both).finish().expect(0).stdout, plain.stdout);
    let diagnostic = scratch.run(&["check", "bad.toml", "--color", "always"]).expect(2);
    assert!(diagnostic.stderr.contains('\x1b'));
    scratch.run(&["check", "bad.toml", "--color", "purple"]).expect(2).says("always");
}

#[test]
fn the_locale_changes_no_figure() {
    let scratch = Scratch::new();
    let mut seen = Vec::new();
    for locale in ["C", "C.UTF-8", "de_DE.UTF-8", "tr_TR.UTF-8"] {
        let mut command = scratch.plan_command(SMALL, &["--simulate"]);
        command.env("LC_ALL", locale).env("LANG", locale);
        let ran = Live::start(&mut command).finish().expect(0);
        let names = ["record.json", "junit.xml", "report.html", "summary.md"];
        seen.push((ran.stdout, names.map(|name| scratch.read(&format!("out/{name}")))));
        if locale == "C" {
            assert!(ran.stderr.is_ascii(), "{}", ran.stderr);
        }
    }
    assert!(seen.windows(2).all(|pair| pair[0] == pair[1]));
}

#[test]
fn progress_is_talk_and_can_be_switched_off() {
    let scratch = Scratch::new();
    let lines = scratch.run_plan(SMALL, &["--simulate", "--progress", "lines"]).expect(0);
    assert!(lines.stderr.contains("MEASURE (1/4) s/read round 1"), "{}", lines.stderr);
    assert!(lines.stderr.contains("DONE s/write round 2"));
    let none = scratch.run_plan(SMALL, &["--simulate", "--progress", "none"]).expect(0);
    assert!(!none.stderr.contains("MEASURE"));
    assert_eq!(none.stdout, lines.stdout);
}

#[test]
fn every_shipped_plan_is_sound() {
    let scratch = Scratch::new();
    for name in ["first", "stripe", "zone-redundancy"] {
        scratch.run(&["check", &shipped(name).display().to_string()]).expect(0);
    }
}
