//! Every way out of a run that is not its end: signals at each moment, faults of our own, an I/O
//! that never returns. Nothing is left behind, and nothing that was cut short is called passed.

use std::io::Write as _;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use diskproof::diag::Source;
use diskproof::plan;
use diskproof::record::{Outcome, Selection};
use diskproof::rig::Undo;
use diskproof::session::{self, Event, Request};

use crate::sandbox::with_injected;
use crate::support::{Live, Ran, Scratch, names_in, skip};

/// One disk of a size, one case of a length.
fn plan_of(size: &str, runtime: &str, rounds: u32) -> String {
    format!(
        r#"
name = "long"
[disks.a]
size = "{size}"
[setups.s]
disks = ["a"]
[workloads.read]
rw = "randread"
queue_depth = [1, 8]
runtime = "{runtime}"
[[expect]]
case = "*"
that = ["errors = 0", "iops > 0"]
[run]
rounds = {rounds}
"#
    )
}

/// Asserts that a run ended as an interrupted one does.
fn assert_interrupted(scratch: &Scratch, ran: Ran) {
    let ran = ran.expect(130).says("stopping in good order");
    assert!(!ran.stderr.contains("panicked"), "{}", ran.stderr);
    scratch.assert_clean();
    let record = scratch.record();
    assert!(record.interrupted);
    assert_eq!(record.conclusion.exit_code, 130);
    assert!(ran.stdout.contains("Interrupted  stopped before its end"), "{}", ran.stdout);
    let junit = scratch.read("out/junit.xml");
    assert!(junit.contains("<error type=\"interrupted\""), "{junit}");
    for text in [&ran.stdout, &scratch.read("out/summary.md"), &scratch.read("out/report.html")] {
        assert!(!text.contains("all 4 conditions hold"), "{text}");
        assert!(!text.contains("Passed"), "{text}");
    }
    let html = scratch.read("out/report.html");
    assert!(html.contains("Interrupted"));
}

#[test]
fn a_signal_amid_the_fill_leaves_nothing() {
    for signal in ["INT", "TERM"] {
        let scratch = Scratch::new();
        let text = plan_of("2GiB", "60s", 2);
        let mut live = Live::start(&mut scratch.plan_command(&text, &[]));
        live.wait_for("FILL a");
        live.signal(signal);
        let ran = live.finish();
        if ran.stderr.contains("are free") {
            let this_test = "interrupt::a_signal_amid_the_fill_leaves_nothing";
            return skip(this_test, "/var/tmp has too little room", "free 3 GiB there");
        }
        assert_interrupted(&scratch, ran);
        let record = scratch.record();
        assert!(record.cases.iter().all(|case| case.rounds.is_empty()), "it was filled already");
        assert!(record.verdicts.iter().all(|verdict| verdict.outcome == Outcome::Error));
    }
}

#[test]
fn a_signal_amid_a_round_leaves_nothing_and_keeps_what_was_measured() {
    // Whoever asks and however; and what would end a process of itself.
    for signal in ["INT", "TERM", "HUP", "QUIT", "USR2", "ALRM", "VTALRM", "PROF", "XCPU", "40"] {
        let scratch = Scratch::new();
        let text = plan_of("4MiB", "60s", 2);
        let mut live = Live::start(&mut scratch.plan_command(&text, &[]));
        live.wait_for("MEASURE (1/4) s/read[queue_depth=1] round 1");
        std::thread::sleep(Duration::from_millis(300));
        assert!(!names_in(&scratch.work()).is_empty(), "its files are somewhere else");
        live.signal(signal);
        let asked = Instant::now();
        let ran = live.finish();
        assert!(asked.elapsed() < Duration::from_secs(30), "the round was run to its end");
        assert_interrupted(&scratch, ran);
        let record = scratch.record();
        let rounds = &record.cases[0].rounds;
        assert_eq!(rounds.len(), 1);
        assert!(rounds[0].error.as_deref().is_some_and(|error| error.contains("was stopped")));
        assert!(record.cases[1].rounds.is_empty());
        assert_eq!((record.conclusion.passed, record.conclusion.failed), (0, 0));
    }
}

#[test]
fn a_signal_between_rounds_leaves_nothing() {
    for signal in ["INT", "TERM"] {
        let scratch = Scratch::new();
        let text = plan_of("1MiB", "2ms", 100);
        let mut live = Live::start(&mut scratch.plan_command(&text, &[]));
        live.wait_for("DONE s/read[queue_depth=8] round 2");
        live.signal(signal);
        let ran = live.finish();
        assert_interrupted(&scratch, ran);
        let record = scratch.record();
        let measured: usize = record.cases.iter().map(|case| case.measured().len()).sum();
        assert!((3..200).contains(&measured), "{measured} rounds");
        assert_eq!(record.conclusion.passed, 0, "too few rounds for a verdict");
    }
}

#[test]
fn two_signals_at_once_leave_nothing_either() {
    let scratch = Scratch::new();
    let mut live = Live::start(&mut scratch.plan_command(&plan_of("4MiB", "60s", 2), &[]));
    live.wait_for("MEASURE");
    live.signal("TERM");
    live.signal("INT");
    live.finish().expect(130);
    scratch.assert_clean();
}

#[test]
fn a_second_signal_does_not_wait_for_an_io_that_hangs() {
    let this_test = "interrupt::a_second_signal_does_not_wait_for_an_io_that_hangs";
    let scratch = Scratch::new();
    let text = plan_of("4MiB", "60s", 2).replace("[1, 8]", "1");
    let command = scratch.plan_command(&text, &[]);
    // The hundredth read takes ten seconds.
    let inject = "pread64:delay_enter=10000000:when=100";
    let Some(mut command) = with_injected(this_test, &command, inject) else { return };
    let mut live = Live::start(&mut command);
    live.wait_for("MEASURE");
    std::thread::sleep(Duration::from_secs(1));
    live.signal("INT");
    live.wait_for("stopping in good order");
    let asked = Instant::now();
    live.signal("INT");
    while !names_in(&scratch.work()).is_empty() {
        assert!(asked.elapsed() < Duration::from_secs(7), "it waited for the I/O");
        std::thread::sleep(Duration::from_millis(20));
    }
    live.finish().expect(130);
    scratch.assert_clean();
}

#[test]
fn a_second_signal_does_not_wait_for_a_file_system_that_hangs() {
    let this_test = "interrupt::a_second_signal_does_not_wait_for_a_file_system_that_hangs";
    let scratch = Scratch::new();
    let command = scratch.plan_command(&plan_of("4MiB", "60s", 2), &[]);
    // No file goes before ten seconds are over.
    let inject = "unlinkat:delay_enter=10000000";
    let Some(mut command) = with_injected(this_test, &command, inject) else { return };
    let mut live = Live::start(&mut command);
    live.wait_for("MEASURE");
    live.signal("INT");
    live.wait_for("stopping in good order");
    let asked = Instant::now();
    live.signal("INT");
    live.wait_for("is left behind: its file system does not answer");
    assert!(asked.elapsed() < Duration::from_secs(8), "it waited for the file system");
    live.finish().expect(130);
}

#[test]
fn signals_do_not_wait_for_a_reader_of_the_talk() {
    let scratch = Scratch::new();
    let mut command = scratch.plan_command(&plan_of("4MiB", "60s", 2), &[]);
    // A pipe that is full, and nobody reads: not one word gets through.
    let (_reader, writer) = nix::unistd::pipe().expect("a pipe");
    let room = nix::fcntl::fcntl(&writer, nix::fcntl::FcntlArg::F_GETPIPE_SZ).expect("its size");
    let full = vec![b'.'; usize::try_from(room).expect("a size")];
    std::fs::File::from(writer.try_clone().expect("the pipe")).write_all(&full).expect("filled");
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(writer);
    let mut live = Live::follow(command.spawn().expect("the program"));
    std::thread::sleep(Duration::from_secs(1));
    live.signal("INT");
    std::thread::sleep(Duration::from_millis(500));
    live.signal("TERM");
    assert_eq!(live.wait_for_end(Duration::from_secs(20)).code(), Some(130));
    scratch.assert_clean();
}

#[test]
fn what_was_to_be_ignored_stays_ignored() {
    let scratch = Scratch::new();
    scratch.write("plan.toml", plan_of("4MiB", "60s", 2));
    // As `nohup` does it, and a shell that starts something in the background.
    let script = "trap '' HUP INT USR1; exec diskproof run plan.toml --out out";
    let mut command = Command::new("sh");
    command.args(["-c", script]);
    scratch.prepare(&mut command);
    let mut live = Live::start(&mut command);
    live.wait_for("MEASURE");
    for signal in ["HUP", "INT", "HUP", "INT", "USR1"] {
        live.signal(signal);
    }
    std::thread::sleep(Duration::from_millis(500));
    live.signal("QUIT");
    let ran = live.finish();
    assert_eq!(ran.stderr.matches("stopping in good order").count(), 1, "{}", ran.stderr);
    assert_interrupted(&scratch, ran);
}

#[test]
fn a_run_says_how_it_is_going_when_it_is_asked() {
    for progress in ["lines", "none"] {
        let scratch = Scratch::new();
        let plan = plan_of("4MiB", "60s", 2);
        let mut live = Live::start(&mut scratch.plan_command(&plan, &["--progress", progress]));
        live.wait_for("expect iops > 0");
        let end = Instant::now() + Duration::from_secs(60);
        while names_in(&scratch.work()).is_empty() {
            assert!(Instant::now() < end, "nothing was made");
            std::thread::sleep(Duration::from_millis(20));
        }
        std::thread::sleep(Duration::from_secs(1));
        let asked = Instant::now();
        live.signal("USR1");
        live.wait_for(" IOPS  ");
        assert!(asked.elapsed() < Duration::from_secs(15), "that was the heartbeat");
        live.signal("TERM");
        assert_interrupted(&scratch, live.finish());
    }
}

/// A request for a plan of this text.
fn request(scratch: &Scratch, text: &str) -> Request {
    let source = Source { name: "plan.toml".to_owned(), text: text.to_owned() };
    let raw = plan::parse(&source).expect("a plan");
    Request {
        plan: plan::check(&raw, None).expect("a sound plan"),
        plan_path: source.name.clone(),
        plan_text: source.text.clone(),
        selection: Selection::default(),
        bindings: Vec::new(),
        simulate: None,
        baseline: None,
        baseline_path: None,
        work_dir: scratch.work(),
        record_path: Some(scratch.path("record.json")),
        require_all: false,
    }
}

#[test]
fn a_fault_of_our_own_at_any_moment_leaves_nothing() {
    type Moment = fn(&Event<'_>) -> bool;
    let moments: [(&str, Moment); 5] = [
        ("the preview", |event| matches!(event, Event::Previewed(_))),
        ("the fill", |event| matches!(event, Event::Filling { .. })),
        ("a round's start", |event| matches!(event, Event::RoundStarted { round: 2, .. })),
        ("a round", |event| matches!(event, Event::RoundProgress { .. })),
        ("a round's end", |event| matches!(event, Event::RoundFinished { .. })),
    ];
    for (moment, is_it) in moments {
        let scratch = Scratch::new();
        let runtime = if moment == "a round" { "20s" } else { "20ms" };
        let request = request(&scratch, &plan_of("4MiB", runtime, 2));
        let (stop, undo) = (Arc::new(AtomicBool::new(false)), Undo::new());
        let began = Instant::now();
        let mut seen_files = false;
        let ended = catch_unwind(AssertUnwindSafe(|| {
            session::run(&request, &stop, &undo, &mut |event| {
                if is_it(event) {
                    seen_files = !names_in(&scratch.work()).is_empty();
                    std::panic::resume_unwind(Box::new("a fault"));
                }
            })
        }));
        assert!(ended.is_err(), "{moment} never came");
        assert_eq!(seen_files, moment != "the preview", "{moment}");
        scratch.assert_clean();
        assert!(began.elapsed() < Duration::from_secs(15), "{moment}: workers ran on to the end");
    }
}
