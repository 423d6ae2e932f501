//! Runs on a real file system: the plans of the product, full and odd places, limits of the
//! process, I/O that fails. Each looks for what was left behind.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use diskproof::measure::IoKind;
use diskproof::record::{Outcome, Record};

use crate::sandbox::{forbid_every_queue, forbid_io_uring, with_injected};
use crate::support::{Live, PROGRAM, Ran, Scratch, names_in, outcomes, shipped, skip};

/// A plan that any disk passes: one I/O at a time, and eight.
const SMALL: &str = r#"
name = "small"
[disks.a]
size = "4MiB"
[setups.s]
disks = ["a"]
[workloads.read]
rw = "randread"
queue_depth = [1, 8]
runtime = "100ms"
[workloads.write]
rw = "randwrite"
runtime = "100ms"
[[expect]]
case = "*"
that = ["errors = 0", "iops > 0"]
[run]
rounds = 2
"#;

/// The way to the kernel of a case's first round, and why.
fn backend(record: &Record, case: &str) -> (String, String) {
    let case = record.cases.iter().find(|found| found.id == case).expect("the case");
    let backend = &case.measured().first().expect("a round").backend;
    (backend.name.clone(), backend.why.clone())
}

/// Whether this machine lets the tests themselves have a ring.
fn has_ring(this_test: &str) -> bool {
    let probed = diskproof::engine::probe();
    if !probed.usable {
        let reason = probed.reason.unwrap_or_default();
        skip(this_test, &format!("io_uring can't be used: {reason}"), "run where it can be");
    }
    probed.usable
}

/// Whether this machine lets the tests themselves have libaio, and the scratch folder direct I/O.
fn has_libaio(this_test: &str) -> bool {
    let probed = diskproof::engine::probe_libaio();
    if !probed.usable {
        let reason = probed.reason.unwrap_or_default();
        skip(this_test, &format!("libaio can't be used: {reason}"), "run where it can be");
    }
    probed.usable
}

// The plans of the product.

/// A run that passes, of three tries: in windows of a few hundred milliseconds a machine that is
/// busy with other tests may complete no I/O at all, which rightly is no pass.
fn passing(run: impl Fn() -> Ran) -> Ran {
    let tries = (0..2).map(|_| run());
    tries.into_iter().find(|ran| ran.status.success()).unwrap_or_else(run).expect(0)
}

#[test]
fn the_first_plan_passes_and_leaves_nothing_but_its_reports() {
    let this_test = "real::the_first_plan_passes_and_leaves_nothing_but_its_reports";
    if !has_ring(this_test) {
        return;
    }
    let scratch = Scratch::new();
    scratch.write("work/mine", "stays");
    let plan = shipped("first").display().to_string();
    let ran = passing(|| scratch.run(&["run", &plan, "--out", "out"]));
    assert!(ran.stdout.contains("Passed  all 6 conditions hold"), "{}", ran.stdout);
    assert_eq!(names_in(&scratch.path("out")), FILES);
    assert_eq!(names_in(&scratch.work()), ["mine"]);
    let record = scratch.record();
    assert!(!record.simulated && !record.interrupted);
    assert_eq!(record.disks[0].kind, "loopback");
    assert!(record.disks[0].offset_align_bytes >= 512);
    assert!(record.host.is_some() && record.started.is_some() && record.elapsed_ms.is_some());
    for case in &record.cases {
        assert_eq!(case.rounds.len(), 2, "{}", case.id);
        let merged = case.merged().expect("figures");
        assert_eq!(merged.errors(None), 0);
        assert!(merged.cpu.is_some_and(|cpu| cpu.system_ns > 0), "no processor time");
        // What the kernel counted at the device is what was moved past the page cache, as far as
        // its counters at the edges of the window can be told from readings around them.
        if let Some(device) = merged.device {
            let moved = merged.bytes(Some(IoKind::Read)) as f64;
            assert!(device.read_bytes as f64 >= 0.8 * moved, "{}: {device:?} {moved}", case.id);
        }
    }
    assert_eq!(backend(&record, "loop/random-read").0, "sync");
    assert_eq!(backend(&record, "loop/random-mix").0, "io_uring");
}

/// The files of a run, sorted.
const FILES: [&str; 4] = ["junit.xml", "record.json", "report.html", "summary.md"];

#[test]
fn a_threshold_that_no_disk_meets_fails_on_a_real_one() {
    let scratch = Scratch::new();
    let text = SMALL.replace("\"iops > 0\"", "\"iops > 99M\"");
    let ran = scratch.run_plan(&text, &["--case", "*/write"]).expect(1);
    assert!(ran.stdout.contains("FAIL  s/write"), "{}", ran.stdout);
    let junit = scratch.read("out/junit.xml");
    assert!(junit.contains("<failure type=\"threshold\" message=\"measured "), "{junit}");
    assert!(junit.contains("limit &gt; 99.0M IOPS") || junit.contains("limit &gt; 99M IOPS"));
    scratch.assert_clean();
}

/// Runs a plan of the product with its profile `smoke`, each of its disks in a folder of its own.
fn smoke(scratch: &Scratch, name: &str, disks: &[(&str, &[&str])]) -> Ran {
    let plan = shipped(name).display().to_string();
    let mut args = vec!["run", &plan, "--profile", "smoke", "--out", "out"];
    let mut bindings = Vec::new();
    for (disk, folders) in disks {
        for folder in *folders {
            fs::create_dir(scratch.path(folder)).expect("a folder");
        }
        bindings.push(format!("{disk}={}", folders.join(",")));
    }
    args.extend(bindings.iter().flat_map(|binding| ["--disk", binding.as_str()]));
    let ran = scratch.run(&args);
    for folder in disks.iter().flat_map(|(_, folders)| *folders) {
        assert_eq!(names_in(&scratch.path(folder)), Vec::<String>::new(), "left in {folder}");
    }
    scratch.assert_clean();
    ran
}

#[test]
fn the_zone_redundancy_study_runs_on_folders() {
    let this_test = "real::the_zone_redundancy_study_runs_on_folders";
    if !has_ring(this_test) {
        return;
    }
    let scratch = Scratch::new();
    let disks: [(&str, &[&str]); 3] = [("lrs", &["l"]), ("zrs", &["z"]), ("zrs-remote", &["r"])];
    passing(|| smoke(&scratch, "zone-redundancy", &disks));
    let record = scratch.record();
    let kinds: Vec<_> = record.disks.iter().map(|disk| disk.kind.as_str()).collect();
    assert_eq!(kinds, ["directory"; 3]);
    assert_eq!(record.cases.len(), 15);
    let deep = record.cases.iter().find(|case| case.id.ends_with("read[queue_depth=256]"));
    let merged = deep.and_then(diskproof::record::CaseRecord::merged).expect("figures");
    assert!(merged.queue_depth_achieved > 32.0, "{}", merged.queue_depth_achieved);
}

#[test]
#[ignore = "writes 2 GiB"]
fn the_stripe_study_runs_on_folders() {
    let scratch = Scratch::new();
    let folders = ["b", "c", "d", "e", "f", "g", "h", "i"];
    smoke(&scratch, "stripe", &[("single", &["a"]), ("data", &folders)]).expect(0);
    let record = scratch.record();
    assert_eq!(record.disks.len(), 9);
    let array = record.cases.iter().find(|case| case.setup == "array").expect("the array");
    let shares = &array.merged().expect("figures").members;
    assert_eq!(shares.len(), 8);
    let bytes: Vec<_> = shares.iter().map(|share| share.bytes).collect();
    assert!(bytes.iter().all(|share| *share == bytes[0] && *share > 0), "{bytes:?}");
}

#[test]
fn two_runs_share_a_work_folder() {
    let scratch = Scratch::new();
    let mut first = scratch.plan_command(SMALL, &["--case", "*/write"]);
    let second = SMALL.to_owned();
    scratch.write("second.toml", second);
    let args = ["run", "second.toml", "--out", "second", "--case", "*/write"];
    let (first, second) = (Live::start(&mut first), Live::start(&mut scratch.program(&args)));
    first.finish().expect(0);
    second.finish().expect(0);
    scratch.assert_clean();
}

// Places.

#[test]
fn a_place_that_can_t_serve_is_said_before_anything_is_made() {
    let scratch = Scratch::new();
    scratch.write("file", "in the way");
    for (place, code, text) in [
        ("nowhere", 3, "nowhere doesn't exist, and can't be the work directory"),
        ("file", 2, "file is a regular file, and can't be the work directory"),
        ("/dev/null", 2, "is a character device"),
        ("/proc", 3, "/proc"),
        ("/sys", 3, "/sys"),
    ] {
        let ran = scratch.run_plan(SMALL, &["--work-dir", place]).expect(code).says(text);
        assert!(ran.stderr.contains("help: "), "{}", ran.stderr);
        assert!(!ran.stderr.contains("FILL"), "{}", ran.stderr);
    }
    assert_eq!(scratch.read("file"), "in the way");
}

#[test]
fn too_little_room_is_said_before_anything_is_made() {
    let scratch = Scratch::new();
    scratch.write("small.toml", SMALL);
    let script = "mount -t tmpfs -o size=2m none work
        code=0; diskproof run small.toml --out out || code=$?
        ls -A work > left; exit $code";
    let this_test = "real::too_little_room_is_said_before_anything_is_made";
    let Some(ran) = scratch.in_private_mounts(this_test, script) else { return };
    let ran = ran.expect(3).says("5MiB are needed in ").says("of which 2MiB are free");
    assert!(ran.stderr.contains("--work-dir DIR"), "{}", ran.stderr);
    assert!(!ran.stderr.contains("FILL"), "{}", ran.stderr);
    assert_eq!(scratch.read("left"), "");
    let record = scratch.record();
    assert!(record.verdicts.iter().all(|verdict| verdict.outcome == Outcome::Error));
    assert!(scratch.read("out/junit.xml").contains("<error type=\"not-measured\""));
}

#[test]
fn room_that_runs_out_while_a_disk_is_filled_is_an_error() {
    let this_test = "real::room_that_runs_out_while_a_disk_is_filled_is_an_error";
    let scratch = Scratch::new();
    let command = scratch.plan_command(&SMALL.replace("4MiB", "32MiB"), &[]);
    let inject = "pwrite64:error=ENOSPC:when=3";
    let Some(mut command) = with_injected(this_test, &command, inject) else { return };
    let ran = Live::start(&mut command).finish().expect(3);
    let ran = ran.says("No space left on device").says("the space ran out while it was written");
    assert!(!ran.stderr.contains("MEASURE"), "{}", ran.stderr);
    scratch.assert_clean();
}

#[test]
fn a_file_system_without_direct_io_is_a_reason_to_skip() {
    let scratch = Scratch::new();
    scratch.write("small.toml", SMALL);
    let buffered = SMALL.replace("rw = \"randwrite\"", "rw = \"randwrite\"\ncache = \"buffered\"");
    scratch.write("mixed.toml", buffered);
    let script = "mount -t ramfs none work
        for run in 'small.toml' 'mixed.toml' 'mixed.toml --require-all'; do
            code=0; diskproof run $run --out out || code=$?
            echo code $code; cp out/record.json \"${run%% *}.json\"
        done
        ls -A work > left";
    let this_test = "real::a_file_system_without_direct_io_is_a_reason_to_skip";
    let Some(ran) = scratch.in_private_mounts(this_test, script) else { return };
    let ran = ran.expect(0).says("needs direct I/O, which ramfs at ");
    let codes: Vec<_> = ran.stdout.lines().filter(|line| line.starts_with("code ")).collect();
    assert_eq!(codes, ["code 4", "code 0", "code 3"], "{}", ran.stderr);
    assert_eq!(scratch.read("left"), "");
    let record = crate::support::record(&scratch.path("mixed.toml.json"));
    assert_eq!(outcomes(&record, "s/read[queue_depth=1]"), [Outcome::Skipped; 2]);
    assert!(record.cases[0].skipped[0].contains("cache = \"buffered\""), "what would help");
}

#[test]
fn a_place_without_the_right_to_write_is_said() {
    let scratch = Scratch::new();
    scratch.write("small.toml", SMALL);
    fs::create_dir(scratch.path("out")).expect("a folder");
    let script = "mount --bind out out; mount -o remount,bind,ro out
        code=0; diskproof run small.toml --out out || code=$?; echo code $code
        code=0; diskproof run small.toml --out here --work-dir out || code=$?; echo code $code
        code=0; diskproof run small.toml --out here --disk a=out || code=$?; echo code $code";
    let this_test = "real::a_place_without_the_right_to_write_is_said";
    let Some(ran) = scratch.in_private_mounts(this_test, script) else { return };
    let ran = ran.expect(0).says("--out DIR").says("can't make a file in out");
    let codes: Vec<_> = ran.stdout.lines().filter(|line| line.starts_with("code ")).collect();
    assert_eq!(codes, ["code 3"; 3], "{}", ran.stderr);
    assert_eq!(names_in(&scratch.path("out")), Vec::<String>::new());
    scratch.assert_clean();
}

/// A shell script that runs `small.toml` with its reports in a full file system of 1 MiB, which
/// holds four older files already.
const FULL: &str = "mkdir out; mount -t tmpfs -o size=1m none out
    for file in junit.xml record.json report.html summary.md; do cp old/$file out/$file; done
    cat /dev/zero > out/filler || true
    code=0; diskproof run small.toml --out out --case '*/write' || code=$?
    ls -A out > left; cp out/* now; exit $code";

#[test]
fn a_record_that_finds_no_room_is_said_before_anything_is_made() {
    let this_test = "real::a_record_that_finds_no_room_is_said_before_anything_is_made";
    let files = ["junit.xml", "record.json", "report.html", "summary.md"];
    let scratch = Scratch::new();
    scratch.write("small.toml", SMALL);
    fs::create_dir(scratch.path("old")).expect("a folder");
    fs::create_dir(scratch.path("now")).expect("a folder");
    // What is not a run's stays.
    for file in files {
        scratch.write(&format!("old/{file}"), "of yesterday");
    }
    let Some(ran) = scratch.in_private_mounts(this_test, FULL) else { return };
    let ran = ran.expect(3).says("the record can't be kept").says("No space left").says("--out");
    assert!(!ran.stderr.contains("FILL"), "{}", ran.stderr);
    assert_eq!(ran.stdout, "");
    let left = "filler\njunit.xml\nrecord.json\nreport.html\nsummary.md\n";
    assert_eq!(scratch.read("left"), left, "temporary files were left");
    for file in files {
        assert_eq!(scratch.read(&format!("now/{file}")), "of yesterday");
    }
    // What is one's would pass for this one's, and goes.
    let scratch = Scratch::new();
    scratch.write("small.toml", SMALL);
    fs::create_dir(scratch.path("now")).expect("a folder");
    scratch.run(&["run", "small.toml", "--simulate", "--out", "old"]).expect(0);
    let Some(ran) = scratch.in_private_mounts(this_test, FULL) else { return };
    ran.expect(3).says("the record can't be kept");
    assert_eq!(scratch.read("left"), "filler\nrecord.old.json\n");
    assert_eq!(scratch.read("now/record.old.json"), scratch.read("old/record.json"));
    scratch.assert_clean();
}

#[test]
fn reports_that_find_no_room_in_the_end_cost_no_verdict_and_are_not_named() {
    let scratch = Scratch::new();
    scratch.write("small.toml", SMALL.replace("100ms", "2s"));
    let script = "mkdir out; mount -t tmpfs -o size=1m none out
        diskproof run small.toml --out out --case '*/write' & run=$!
        until grep -q '\"round\": 1' out/record.json 2> none; do sleep 0.05; done
        cat /dev/zero > out/filler || true
        code=0; wait $run || code=$?; ls -A out > left; cp out/record.json now; exit $code";
    let this_test = "real::reports_that_find_no_room_in_the_end_cost_no_verdict_and_are_not_named";
    let Some(ran) = scratch.in_private_mounts(this_test, script) else { return };
    let ran =
        ran.expect(3).prints("PASS  s/write").says("the record is lost").says("No space left");
    for path in ["out/report.html", "out/record.json"] {
        assert!(!ran.stdout.contains(path), "{path} was not written:\n{}", ran.stdout);
    }
    let left = "filler\njunit.xml\nrecord.json\nreport.html\nsummary.md\n";
    assert_eq!(scratch.read("left"), left, "temporary files were left");
    assert!(crate::support::record(&scratch.path("now")).interrupted, "it says that it is over");
    scratch.assert_clean();
}

// The way to the kernel.

#[test]
fn without_io_uring_depth_goes_by_libaio_and_the_record_says_so() {
    let this_test = "real::without_io_uring_depth_goes_by_libaio_and_the_record_says_so";
    if !has_libaio(this_test) {
        return;
    }
    let scratch = Scratch::new();
    let text = SMALL.replace("[1, 8]", "[1, 32]").replace(
        "rw = \"randwrite\"",
        "rw = \"randwrite\"\nqueue_depth = 4\nfdatasync_every = 16\nsync = \"dsync\"",
    );
    let mut command = scratch.plan_command(&text, &[]);
    forbid_io_uring(&mut command);
    Live::start(&mut command).finish().expect(0);
    let record = scratch.record();
    for case in ["s/read[queue_depth=32]", "s/write"] {
        let (name, why) = backend(&record, case);
        assert_eq!(name, "libaio", "{case}");
        assert!(why.starts_with("several I/Os in flight by one thread; io_uring can't"), "{why}");
        assert!(why.contains("seccomp"), "{why}");
        assert_eq!(outcomes(&record, case), [Outcome::Pass; 2]);
    }
    assert_eq!(backend(&record, "s/read[queue_depth=1]").0, "sync");
    let deep = record.cases[1].merged().expect("figures");
    assert!(deep.queue_depth_achieved > 4.0, "{}", deep.queue_depth_achieved);
    let writes = record.cases[2].merged().expect("figures");
    assert!(writes.kinds.sync.completed > 0 && writes.errors(None) == 0);
    // Through the page cache libaio does one at a time, so a depth is none.
    let text = SMALL.replace("queue_depth", "cache = \"buffered\"\nqueue_depth");
    let mut command = scratch.plan_command(&text, &[]);
    forbid_io_uring(&mut command);
    let ran = Live::start(&mut command).finish().expect(0);
    ran.says("libaio can't be used: through the page cache it does one I/O at a time");
    scratch.assert_clean();
}

#[test]
fn what_is_compared_goes_one_way_without_io_uring_too() {
    if !has_libaio("real::what_is_compared_goes_one_way_without_io_uring_too") {
        return;
    }
    let scratch = Scratch::new();
    let text = format!(
        "{SMALL}\n[[expect]]\ncase = \"s/read[queue_depth=8]\"\n\
         that = \"iops >= 0.001 x s/read[queue_depth=1]\""
    )
    .replace("[run]\nrounds = 2\n", "");
    let mut command = scratch.plan_command(&text, &["--case", "*/read"]);
    forbid_io_uring(&mut command);
    Live::start(&mut command).finish().expect(0);
    let record = scratch.record();
    let (name, why) = backend(&record, "s/read[queue_depth=1]");
    assert_eq!(name, "libaio");
    assert!(why.starts_with("as what it is compared with; io_uring can't be used"), "{why}");
    assert_eq!(backend(&record, "s/read[queue_depth=8]").0, "libaio");
}

#[test]
fn libaio_that_was_asked_for_is_never_replaced() {
    let scratch = Scratch::new();
    let text = SMALL.replace("rw = \"randread\"", "rw = \"randread\"\nengine = \"libaio\"");
    let mut command = scratch.plan_command(&text, &["--case", "*/read"]);
    forbid_every_queue(&mut command);
    Live::start(&mut command).finish().expect(4).prints("needs libaio").prints("seccomp");
    if has_libaio("real::libaio_that_was_asked_for_is_never_replaced") {
        scratch.run_plan(&text, &["--case", "*/read"]).expect(0);
        for case in ["s/read[queue_depth=1]", "s/read[queue_depth=8]"] {
            let (name, why) = backend(&scratch.record(), case);
            assert_eq!((name.as_str(), why.as_str()), ("libaio", "as the plan asks"));
        }
    }
}

#[test]
fn few_places_for_asynchronous_io_are_a_reason_that_names_the_limit() {
    let this_test = "real::few_places_for_asynchronous_io_are_a_reason_that_names_the_limit";
    let scratch = Scratch::new();
    let command = scratch.plan_command(SMALL, &["--case", "*/read"]);
    let inject = "io_setup:error=EAGAIN";
    let Some(mut command) = with_injected(this_test, &command, inject) else { return };
    forbid_io_uring(&mut command);
    let ran = Live::start(&mut command).finish().expect(0);
    ran.says("a queue depth of 8 needs io_uring or libaio").says("sysctl fs.aio-max-nr=");
}

#[test]
fn a_flush_that_libaio_does_not_know_is_done_all_the_same() {
    let this_test = "real::a_flush_that_libaio_does_not_know_is_done_all_the_same";
    let scratch = Scratch::new();
    let text = SMALL.replace(
        "rw = \"randwrite\"\nruntime = \"100ms\"",
        "rw = \"randwrite\"\nengine = \"libaio\"\nfdatasync_every = 2\namount = \"32KiB\"",
    );
    let command =
        scratch.plan_command(&text.replace("rounds = 2", "rounds = 1"), &["--case", "*/write"]);
    // Counted on each thread: two writes and a flush, again and again.
    let inject = "io_submit:error=EINVAL:when=3+3";
    let Some(mut command) = with_injected(this_test, &command, inject) else { return };
    Live::start(&mut command).finish().expect(0);
    let record = scratch.record();
    let merged = record.cases[0].merged().expect("figures");
    assert_eq!(merged.errors(None), 0, "{:?}", merged.faults);
    assert_eq!((merged.kinds.write.completed, merged.kinds.sync.completed), (8, 4));
    assert_eq!(merged.kinds.sync.latency_ns.count(), 4);
}

#[test]
fn without_any_queue_one_at_a_time_goes_on_and_depth_is_skipped() {
    let scratch = Scratch::new();
    let mut command = scratch.plan_command(SMALL, &[]);
    forbid_every_queue(&mut command);
    let ran = Live::start(&mut command).finish().expect(0);
    let ran = ran.says("a queue depth of 8 needs io_uring or libaio: io_uring can't be used: ");
    let ran = ran.says("io_uring_setup, io_uring_enter").says("; libaio can't be used: ");
    let ran = ran.says("allow io_setup, io_submit");
    assert!(ran.stdout.contains("SKIPPED  s/read[queue_depth=8]"), "{}", ran.stdout);
    let record = scratch.record();
    let (name, why) = backend(&record, "s/read[queue_depth=1]");
    assert_eq!((name.as_str(), why.is_empty()), ("sync", false));
    assert_eq!(outcomes(&record, "s/read[queue_depth=8]"), [Outcome::Skipped; 2]);
    let junit = scratch.read("out/junit.xml");
    assert!(junit.contains("<skipped type=\"not-run\" message=\"a queue depth of 8 needs"));
    for all in [true, false] {
        let args: &[&str] = if all { &["--require-all"] } else { &[] };
        let mut command = scratch.plan_command(SMALL, args);
        forbid_every_queue(command.env("DISKPROOF_REQUIRE_ALL", if all { "0" } else { "1" }));
        Live::start(&mut command).finish().expect(3).prints("--require-all");
    }
    scratch.assert_clean();
}

#[test]
fn an_engine_that_was_asked_for_is_never_replaced() {
    let scratch = Scratch::new();
    let text = SMALL.replace("rw = \"randwrite\"", "rw = \"randwrite\"\nengine = \"io_uring\"");
    let mut command = scratch.plan_command(&text, &["--case", "*/write"]);
    forbid_io_uring(&mut command);
    Live::start(&mut command).finish().expect(4).prints("needs io_uring");
    if has_ring("real::an_engine_that_was_asked_for_is_never_replaced") {
        scratch.run_plan(&text, &["--case", "*/write"]).expect(0);
        let (name, why) = backend(&scratch.record(), "s/write");
        assert_eq!((name.as_str(), why.as_str()), ("io_uring", "as the plan asks"));
    }
    let text = SMALL.replace("rw = \"randwrite\"", "rw = \"randwrite\"\nengine = \"sync\"");
    scratch.run_plan(&text, &["--case", "*/write"]).expect(0);
    assert_eq!(backend(&scratch.record(), "s/write").0, "sync");
}

#[test]
fn rings_that_the_administrator_switched_off_are_said_to_be() {
    let scratch = Scratch::new();
    scratch.write("small.toml", SMALL);
    scratch.write("two", "2\n");
    // What the kernel does then, for this process alone: the switch is the whole machine's.
    let script = "mount --bind two /proc/sys/kernel/io_uring_disabled
        exec diskproof run small.toml --out out";
    let this_test = "real::rings_that_the_administrator_switched_off_are_said_to_be";
    if !Path::new("/proc/sys/kernel/io_uring_disabled").exists() {
        return skip(this_test, "this kernel has no such switch", "use Linux 6.6 or later");
    }
    let Some(mut command) = scratch.private_mounts(this_test, script) else { return };
    forbid_every_queue(&mut command);
    let ran = Live::start(&mut command).finish().expect(0);
    ran.says("the administrator has switched it off").says("kernel.io_uring_disabled=0");
    assert_eq!(backend(&scratch.record(), "s/read[queue_depth=1]").0, "sync");
    scratch.assert_clean();
}

// Limits of the process.

/// A line of the shell that runs a plan of this text under limits.
fn limited(scratch: &Scratch, text: &str, limits: &str, args: &str) -> Ran {
    scratch.write("plan.toml", text);
    let script = format!("{limits}; exec diskproof run plan.toml --out out {args}");
    let mut command = Command::new("sh");
    command.args(["-euc", &script]);
    scratch.prepare(&mut command);
    Live::start(&mut command).finish()
}

#[test]
fn a_file_above_the_limit_is_said_before_anything_is_made() {
    let scratch = Scratch::new();
    // Counted in blocks of 512 bytes, or of 1024 in some shells.
    let ran = limited(&scratch, SMALL, "ulimit -f 2000", "").expect(3);
    let ran = ran.says("this process may make none above").says("ulimit -f unlimited");
    assert!(!ran.stderr.contains("FILL"), "{}", ran.stderr);
    scratch.assert_clean();
}

#[test]
fn a_record_above_the_limit_is_said_before_anything_is_made() {
    let scratch = Scratch::new();
    let ran = limited(&scratch, SMALL, "ulimit -f 1", "--simulate").expect(3);
    let ran = ran.says("File too large").says("the record can't be kept");
    assert!(!ran.stderr.contains("MEASURE"), "{}", ran.stderr);
    assert!(!scratch.path("out").exists());
}

#[test]
fn few_open_files_are_an_error_that_names_the_limit() {
    let scratch = Scratch::new();
    // As many as there may ever be are taken.
    limited(&scratch, SMALL, "ulimit -Sn 8", "--progress none").expect(0);
    let mut seen = Vec::new();
    for limit in [3, 4, 5, 6, 8, 9, 10, 12, 14, 32] {
        let ran = limited(&scratch, SMALL, &format!("ulimit -n {limit}"), "--progress none");
        assert!(!ran.stderr.contains("panicked"), "{limit}: {}", ran.stderr);
        scratch.assert_clean();
        let code = ran.status.code();
        if code == Some(3) && limit > 7 {
            let said = ran.stderr.clone() + &ran.stdout;
            assert!(said.contains("open files"), "{limit}: {said}");
            assert!(said.contains("ulimit -n"), "{limit}: {said}");
        }
        seen.push(code);
    }
    // With few it is an error, with more it is none. The shell itself may need some.
    assert!(seen.contains(&Some(3)) && seen.ends_with(&[Some(0)]), "{seen:?}");
}

#[test]
fn little_memory_to_lock_is_no_crash() {
    let this_test = "real::little_memory_to_lock_is_no_crash";
    if !has_ring(this_test) {
        return;
    }
    let scratch = Scratch::new();
    let text = SMALL
        .replace("[1, 8]", "[1, 2048]")
        .replace("rw = \"randread\"", "rw = \"randread\"\nworkers = 4");
    // The limit doesn't hold for root: become nobody, who has to get at the program.
    let mut become_nobody = String::new();
    if nix::unistd::geteuid().is_root() {
        let can = Command::new("setpriv").args(["--reuid=65534", "true"]).output();
        if !can.is_ok_and(|output| output.status.success()) {
            return skip(
                this_test,
                "setpriv is not there",
                "install util-linux, or run without root",
            );
        }
        fs::copy(PROGRAM, scratch.path("diskproof")).expect("a copy of the program");
        become_nobody = "chmod 755 .; mkdir -m 777 out; chmod 777 work; PATH=.:$PATH; \
                         exec setpriv --reuid=65534 --clear-groups "
            .to_owned();
    }
    scratch.write("plan.toml", &text);
    for (limit, codes) in [(64, &[0, 3][..]), (0, &[0])] {
        let run = "diskproof run plan.toml --out out --case '*/read'";
        let become_nobody = become_nobody.replace("mkdir -m 777 out", "mkdir -pm 777 out");
        let mut command = Command::new("sh");
        command.args(["-uc", &format!("ulimit -l {limit}; {become_nobody}{run}")]);
        scratch.prepare(&mut command);
        let ran = Live::start(&mut command).finish();
        let code = ran.status.code().expect("an exit code");
        assert!(codes.contains(&code), "{code}: {}\n{}", ran.stdout, ran.stderr);
        assert!(!ran.stderr.contains("panicked"), "{}", ran.stderr);
        if code == 3 {
            assert!(ran.stdout.contains("ulimit -l"), "{}", ran.stdout);
        }
        assert_eq!(outcomes(&scratch.record(), "s/read[queue_depth=1]"), [Outcome::Pass; 2]);
        scratch.assert_clean();
    }
}

// I/O that fails.

#[test]
fn a_failed_read_is_counted_with_its_error_and_its_case_can_t_pass() {
    let this_test = "real::a_failed_read_is_counted_with_its_error_and_its_case_can_t_pass";
    let scratch = Scratch::new();
    let text = SMALL.replace("[1, 8]", "1");
    let command = scratch.plan_command(&text, &[]);
    let inject = "pread64:error=EIO:when=20..22";
    let Some(mut command) = with_injected(this_test, &command, inject) else { return };
    let ran = Live::start(&mut command).finish().expect(3);
    let record = scratch.record();
    let faults = &record.cases[0].merged().expect("figures").faults;
    assert_eq!(faults.len(), 1, "{faults:?}");
    assert_eq!((faults[0].kind, faults[0].errno, faults[0].count), (IoKind::Read, 5, 3));
    assert_eq!(faults[0].disk, "a");
    assert!(faults[0].first_offset.is_multiple_of(4096) && faults[0].first_offset < 4 << 20);
    assert_eq!(outcomes(&record, "s/read"), [Outcome::Fail, Outcome::Error]);
    assert_eq!(outcomes(&record, "s/write"), [Outcome::Pass; 2]);
    assert_eq!(record.cases[0].rounds.len(), 1, "one that failed is not run again");
    assert_eq!(record.cases[1].rounds.len(), 2);
    let offset = faults[0].first_offset.to_string();
    for text in ["3 reads failed with EIO", "disk a", &offset] {
        assert!(ran.stdout.contains(text), "no `{text}` in\n{}", ran.stdout);
    }
    scratch.assert_clean();
}

#[test]
fn a_file_that_is_cut_off_under_a_run_spoils_its_case_alone() {
    let scratch = Scratch::new();
    let text = r#"
name = "cut"
[disks.a]
device = "data"
[disks.b]
size = "1MiB"
[setups.a]
disks = ["a"]
[setups.b]
disks = ["b"]
[workloads.read]
rw = "randread"
runtime = "30s"
[workloads.short]
rw = "randread"
runtime = "100ms"
[[expect]]
case = "a/read"
that = ["errors = 0", "read.iops > 0"]
[[expect]]
case = "b/short"
that = ["errors = 0", "read.iops > 0"]
[run]
rounds = 1
"#;
    let data = scratch.write("data", vec![7_u8; 1 << 20]);
    let args = ["--case", "a/read", "--case", "b/short"];
    let mut command = scratch.plan_command(text, &args);
    let mut live = Live::start(&mut command);
    live.wait_for("MEASURE (1/2) a/read");
    wait_until_open_twice(&live, &data);
    fs::File::options().write(true).open(&data).expect("the file").set_len(4096).expect("cut off");
    let ran = live.finish().expect(3);
    let record = scratch.record();
    let merged = record.cases[0].merged().expect("figures");
    assert!(merged.duration_ns.as_secs() < 29.0, "it went on failing to the end");
    assert_eq!(merged.faults.len(), 1, "{:?}", merged.faults);
    let fault = &merged.faults[0];
    assert_eq!((fault.errno, fault.disk.as_str()), (0, "a"));
    assert!(fault.first_offset >= 4096 && fault.first_offset < 1 << 20);
    assert_eq!(outcomes(&record, "a/read"), [Outcome::Fail, Outcome::Error]);
    assert_eq!(outcomes(&record, "b/short"), [Outcome::Pass; 2]);
    assert!(ran.stdout.contains("ended without"), "{}", ran.stdout);
    assert_eq!(fs::metadata(&data).expect("the file").len(), 4096, "it was written to");
    scratch.assert_clean();
}

/// Waits until a program has a file open twice: once for the run, once for the round that is on.
fn wait_until_open_twice(live: &Live, file: &Path) {
    let end = Instant::now() + Duration::from_secs(60);
    let folder = format!("/proc/{}/fd", live.id());
    loop {
        let open = fs::read_dir(&folder)
            .expect("its open files")
            .flatten()
            .filter(|entry| fs::read_link(entry.path()).is_ok_and(|target| target == file));
        if open.count() >= 2 {
            // The look at what was opened is over in a moment.
            return std::thread::sleep(Duration::from_millis(300));
        }
        assert!(Instant::now() < end, "it was never opened");
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn what_can_t_be_unmade_is_said_and_is_no_success() {
    let scratch = Scratch::new();
    let text = SMALL.replace("100ms", "2s").replace("rounds = 2", "rounds = 1");
    let mut live = Live::start(&mut scratch.plan_command(&text, &["--case", "*/write"]));
    live.wait_for("MEASURE");
    let folder = scratch.work().join(&names_in(&scratch.work())[0]);
    let image = folder.join(&names_in(&folder)[0]);
    fs::rename(&image, folder.join("moved")).expect("it moves");
    fs::write(&image, "somebody else's").expect("another in its place");
    let ran = live.finish().expect(3).prints("PASS  s/write");
    let ran =
        ran.says("something else has that name now").says("files that are not ours are in it");
    assert!(!ran.stderr.contains("panicked"));
    assert_eq!(fs::read_to_string(&image).expect("it stays"), "somebody else's");
}
