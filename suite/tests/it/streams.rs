//! Streams through the whole program: what each did and what all did, from one start to one end.

use std::fs;
use std::time::Duration;

use diskproof::measure::{Histogram, IoKind, Measurement};
use diskproof::record::{CaseRecord, Outcome, Record};

use crate::sandbox::with_injected;
use crate::support::{Live, Scratch, outcomes, skip};

/// A log beside its tables and a backup, on two setups.
const DATABASE: &str = r#"
name = "database"
[disks.a]
size = "8MiB"
[disks.b]
size = "8MiB"
[setups.s]
disks = ["a"]
[setups.t]
disks = ["b"]
[workloads.both]
runtime = "400ms"
engine = "sync"
[workloads.both.streams.log]
rw = "write"
size = "1MiB"
fdatasync_every = 4
[workloads.both.streams.tables]
rw = "randread"
offset = "1MiB"
block_size = "8KiB"
workers = 2
[workloads.both.streams.backup]
rw = "read"
block_size = "64KiB"
rate = "100 iops"
[workloads.alone]
rw = "randread"
runtime = "50ms"
[run]
rounds = 2
[[expect]]
case = "*/*"
that = ["errors = 0", "iops > 1"]
[[expect]]
case = "*/both/log"
that = ["write.iops > 1", "sync.iops > 1"]
[[expect]]
case = "*/both/backup"
that = ["read.iops between 80 and 120", "read.bandwidth < 1 x s/both/tables"]
[[expect]]
case = "t/both/tables"
that = ["read.iops > 0.001 x s", "read.iops > 0.001 x s/alone", "iops <= 1 x t/both"]
"#;

/// One case of it alone, with these keys for all streams in place of the runtime.
fn only(case: &str, keys: &str) -> String {
    let (head, _) = DATABASE.split_once("[[expect]]").expect("expectations");
    let head = head.replace("runtime = \"400ms\"", keys);
    format!("{head}[[expect]]\ncase = \"{case}\"\nthat = \"errors = 0\"\n")
}

fn of<'r>(record: &'r Record, id: &str) -> &'r CaseRecord {
    record.cases.iter().find(|case| case.id == id).unwrap_or_else(|| panic!("no {id}"))
}

fn stream<'m>(whole: &'m Measurement, name: &str) -> &'m Measurement {
    let found = whole.streams.iter().find(|stream| stream.name == name);
    &found.unwrap_or_else(|| panic!("no {name}")).measurement
}

/// All of a histogram that can be told from outside.
fn buckets(histogram: &Histogram) -> Vec<(u64, u64)> {
    histogram.bars().map(|(_, upper, count)| (upper, count)).collect()
}

/// Asserts that a total is the sum of its streams: counts and bytes exactly, and every bucket.
fn assert_sum(whole: &Measurement) {
    let sum = |of: &dyn Fn(&Measurement) -> u64| -> u64 {
        whole.streams.iter().map(|stream| of(&stream.measurement)).sum()
    };
    for kind in IoKind::ALL {
        let figures = &whole.kinds[kind];
        assert_eq!(figures.completed, sum(&|one| one.kinds[kind].completed));
        assert_eq!(figures.bytes, sum(&|one| one.kinds[kind].bytes));
        let mut all = std::collections::BTreeMap::new();
        for stream in &whole.streams {
            for (upper, count) in buckets(&stream.measurement.kinds[kind].latency_ns) {
                *all.entry(upper).or_insert(0) += count;
            }
        }
        assert_eq!(buckets(&figures.latency_ns), all.into_iter().collect::<Vec<_>>());
    }
    assert_eq!(whole.series.completed.iter().sum::<u64>(), {
        sum(&|one| one.series.completed.iter().sum())
    });
    assert_eq!(whole.workers.len() as u64, sum(&|one| one.workers.len() as u64));
}

/// What holds of every run of the database, on whatever disks.
fn assert_database(record: &Record) {
    for id in ["s/both", "t/both"] {
        let case = of(record, id);
        let names: Vec<_> = case.streams.iter().map(|stream| stream.name.as_str()).collect();
        assert_eq!(names, ["log", "tables", "backup"]);
        for whole in case.measured() {
            assert_sum(whole);
            assert_eq!(whole.workers.len(), 4);
            let [log, tables, backup] = ["log", "tables", "backup"].map(|name| stream(whole, name));
            assert_eq!(log.kinds.write.bytes, log.kinds.write.completed * 4096);
            assert_eq!(tables.kinds.read.bytes, tables.kinds.read.completed * 8192);
            let (writes, syncs) = (log.kinds.write.completed, log.kinds.sync.completed);
            assert!(writes.abs_diff(4 * syncs) <= 4, "{writes} writes and {syncs} flushes");
            let due = backup.kinds.read.completed;
            assert!((35..=45).contains(&due), "{due} of a rate of 100 a second for 400 ms");
            // They begin and end together.
            for one in [log, tables] {
                assert_eq!(one.duration_ns, whole.duration_ns);
                let series = &one.series.completed;
                let (first, second) = series.split_at(series.len() / 2);
                // In virtual time no other process holds them up.
                let (begun, ended) = if record.simulated {
                    (series[0], series[series.len() - 1])
                } else {
                    (first.iter().sum(), second.iter().sum())
                };
                assert!(begun > 0 && ended > 0, "{series:?}");
            }
        }
    }
    let passed = |case: &str, count| assert_eq!(outcomes(record, case), vec![Outcome::Pass; count]);
    passed("s/both", 2);
    passed("s/both/log", 2);
    passed("t/both/backup", 2);
    passed("t/both/tables", 3);
}

#[test]
fn each_stream_and_all_together_are_measured_and_judged() {
    let scratch = Scratch::new();
    // A stall of the storage or the machine at the end of a round takes the rate away.
    let runs = (0..10).map(|_| scratch.run_plan(DATABASE, &["--progress", "lines"]));
    let ran = runs.into_iter().find(|ran| ran.status.success()).expect("one run without a stall");
    assert_database(&scratch.record());
    for text in [&ran.stdout, &scratch.read("out/summary.md"), &scratch.read("out/junit.xml")] {
        assert!(text.contains("s/both/backup"), "{text}");
    }
    assert!(ran.stderr.contains("DONE s/both round 2"), "{}", ran.stderr);
    scratch.assert_clean();
}

#[test]
fn streams_on_simulated_disks_are_the_same_in_every_run() {
    let runs: Vec<_> = (0..2)
        .map(|_| {
            let scratch = Scratch::new();
            scratch.run_plan(DATABASE, &["--simulate", "--progress", "none"]).expect(0);
            assert_database(&scratch.record());
            scratch.read("out/record.json")
        })
        .collect();
    assert!(runs[0] == runs[1], "one seed, one record");
}

#[test]
fn a_stream_that_is_asked_for_brings_its_whole_case() {
    let scratch = Scratch::new();
    let run = |args: &[&str]| {
        let args = [&["--simulate", "--progress", "none"], args].concat();
        let ran = scratch.run_plan(DATABASE, &args);
        let ids = |record: Record| record.cases.into_iter().map(|case| case.id).collect::<Vec<_>>();
        (ran.status.code(), ran.stderr, ids(scratch.record()))
    };
    let (code, _, ids) = run(&["--case", "s/both/log"]);
    assert_eq!((code, ids), (Some(0), vec!["s/both".to_owned()]));
    let (code, _, ids) = run(&["--case", "*/*/tables", "--skip", "s/*"]);
    // What the stream is compared with comes with it.
    assert_eq!((code, ids.contains(&"t/both".to_owned())), (Some(0), true), "{ids:?}");
    let (code, told, _) = run(&["--case", "s/both/wal"]);
    assert_eq!(code, Some(4));
    assert!(told.contains("`s/both/wal` matches none of"), "{told}");
}

#[test]
fn a_stream_is_compared_with_the_same_streams_of_an_earlier_run() {
    let scratch = Scratch::new();
    let plan = only("s/both/log", "runtime = \"400ms\"")
        .replace("errors = 0", "write.iops between 0 and 1M");
    scratch.run_plan(&plan, &["--simulate", "--case", "s/both"]).expect(0);
    fs::copy(scratch.path("out/record.json"), scratch.path("before.json")).expect("a copy");
    let against = plan.replace("write.iops between 0 and 1M", "write.iops within 50% of baseline");
    let args = ["--simulate", "--case", "s/both", "--baseline", "before.json"];
    scratch.run_plan(&against, &args).expect(0);
    let busier = against.replace("workers = 2", "workers = 3");
    scratch.run_plan(&busier, &args).expect(2).says("tables.workers was 2 there and is 3 here");
}

#[test]
fn one_stream_that_fails_is_named_and_spoils_its_case_alone() {
    let test = "streams::one_stream_that_fails_is_named_and_spoils_its_case_alone";
    let scratch = Scratch::new();
    let args = ["--case", "s/*", "--skip", "t/*", "--progress", "none"];
    let command = scratch.plan_command(DATABASE, &args);
    let inject = "pwrite64:error=EIO:when=100..102";
    let Some(mut command) = with_injected(test, &command, inject) else { return };
    let ran = Live::start(&mut command).finish().expect(3);
    let record = scratch.record();
    let case = of(&record, "s/both");
    let whole = case.merged().expect("figures");
    assert_eq!(whole.errors(None), stream(&whole, "log").errors(Some(IoKind::Write)));
    assert!(whole.errors(None) > 0 && case.rounds.len() == 1, "and it is not run again");
    assert_eq!(outcomes(&record, "s/both"), [Outcome::Fail, Outcome::Error]);
    assert_eq!(outcomes(&record, "s/both/backup"), [Outcome::Error; 2]);
    assert_eq!(outcomes(&record, "s/alone"), [Outcome::Pass; 2]);
    let said = "stream log: 3 writes failed with EIO";
    for text in [&ran.stdout, &scratch.read("out/junit.xml"), &scratch.read("out/summary.md")] {
        assert!(text.contains(said), "no `{said}` in\n{text}");
    }
    scratch.assert_clean();
}

#[test]
fn a_signal_ends_every_stream_and_keeps_what_each_measured() {
    let scratch = Scratch::new();
    let plan = only("s/both", "runtime = \"60s\"");
    let mut live = Live::start(&mut scratch.plan_command(&plan, &["--case", "s/both"]));
    live.wait_for("MEASURE (1/2) s/both round 1");
    std::thread::sleep(Duration::from_millis(500));
    live.signal("INT");
    live.finish().expect(130);
    let record = scratch.record();
    assert!(record.interrupted);
    let whole = record.cases[0].merged().expect("what was measured");
    assert_sum(&whole);
    assert!(whole.streams.iter().all(|stream| stream.measurement.completed(None) > 0));
    scratch.assert_clean();
}

#[test]
fn workers_of_each_stream_run_where_it_says() {
    let scratch = Scratch::new();
    let cpus = nix::sched::sched_getaffinity(nix::unistd::Pid::from_raw(0)).expect("our CPUs");
    let allowed: Vec<_> = (0..1024).filter(|cpu| cpus.is_set(*cpu).unwrap_or(false)).collect();
    let [first, .., last] = allowed[..] else {
        let test = "streams::workers_of_each_stream_run_where_it_says";
        return skip(test, "there is one CPU", "use a machine with two");
    };
    let plan = only("s/both", "runtime = \"60s\"")
        .replace("fdatasync_every = 4", &format!("fdatasync_every = 4\ncpus = \"{first}\""))
        .replace("workers = 2", &format!("workers = 2\ncpus = \"{last}\""));
    let mut live = Live::start(&mut scratch.plan_command(&plan, &["--case", "s/both"]));
    live.wait_for("MEASURE (1/2) s/both round 1");
    std::thread::sleep(Duration::from_millis(300));
    let tasks = fs::read_dir(format!("/proc/{}/task", live.id())).expect("its threads");
    let mut pinned: Vec<String> = Vec::new();
    for task in tasks.flatten() {
        let status = fs::read_to_string(task.path().join("status")).unwrap_or_default();
        let on = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
        pinned.extend(on.map(|on| on.trim().to_owned()));
    }
    live.signal("INT");
    live.finish().expect(130);
    let on = |cpu: usize| pinned.iter().filter(|list| **list == cpu.to_string()).count();
    assert_eq!((on(first), on(last)), (1, 2), "{pinned:?}");
}

/// A writer and a reader of the same region, and a writer of larger blocks over both.
const VERIFIED: &str = r#"
name = "verified"
disks.a.size = "4MiB"
setups.s.disks = ["a"]
[workloads.pair]
runtime = "500ms"
verify = true
[workloads.pair.streams.writer]
rw = "randwrite"
[workloads.pair.streams.reader]
rw = "randread"
block_size = "8KiB"
workers = 2
[workloads.pair.streams.large]
rw = "write"
block_size = "64KiB"
offset = "1MiB"
[run]
rounds = 2
[[expect]]
case = "s/pair"
that = "verify_errors = 0"
"#;

#[test]
fn streams_that_share_a_verified_region_accuse_nobody() {
    for keys in ["engine = \"sync\"", "queue_depth = 8"] {
        let scratch = Scratch::new();
        let plan = VERIFIED.replace("verify = true", &format!("verify = true\n{keys}"));
        scratch.run_plan(&plan, &["--progress", "none"]).expect(0);
        let whole = scratch.record().cases[0].merged().expect("figures");
        for stream in &whole.streams {
            let verified = stream.measurement.verified.as_ref().expect("it verifies");
            assert!(verified.checked > 100, "{}: {verified:?}", stream.name);
            assert_eq!(verified.error_count(), 0, "{}: {verified:?}", stream.name);
        }
    }
}

#[test]
fn what_one_stream_loses_is_found_and_named() {
    let test = "streams::what_one_stream_loses_is_found_and_named";
    let scratch = Scratch::new();
    let plan = VERIFIED.replace("verify = true", "verify = true\nengine = \"sync\"");
    let command = scratch.plan_command(&plan, &["--progress", "none"]);
    // Every write of a worker from this one on to that one is only said to be done.
    let inject = "pwrite64:retval=4096:when=300..400";
    let Some(mut command) = with_injected(test, &command, inject) else { return };
    let ran = Live::start(&mut command).finish().expect(7);
    assert!(ran.stdout.contains("stream writer: verification failed: "), "{}", ran.stdout);
    assert!(ran.stdout.contains(" lost"), "{}", ran.stdout);
    assert_eq!(outcomes(&scratch.record(), "s/pair"), [Outcome::Fail]);
}

#[test]
fn every_stream_is_held_against_what_the_engine_could_do_of_it() {
    let scratch = Scratch::new();
    let plan = "name = 'limit'\ndisks.a = { null = true, size = '1GiB' }\nsetups.s.disks = ['a']\n\
                [workloads.both]\nruntime = '200ms'\ncache = 'buffered'\ndata = 'zero'\n\
                [workloads.both.streams.busy]\nrw = 'randwrite'\n\
                [workloads.both.streams.idle]\nrw = 'randwrite'\nrate = '50 iops'\n\
                [run]\nrounds = 1\n[[expect]]\ncase = '*'\nthat = 'errors = 0'\n";
    let share = |record: &Record, name: &str| {
        let stream = record.case(&format!("s/both/{name}")).expect("a stream");
        stream.share_of_engine()
    };
    // Others may take so much of the processor that nobody could say that it was the limit.
    let known = (0..30).find_map(|_| {
        scratch.run_plan(plan, &["--progress", "none"]).expect(0);
        let record = scratch.record();
        Some((share(&record, "busy")?, share(&record, "idle")?, record))
    });
    let Some((busy, idle, record)) = known else {
        let test = "streams::every_stream_is_held_against_what_the_engine_could_do_of_it";
        return skip(test, "others keep the processors busy", "run it on an idle machine");
    };
    // On a machine where others run a short window says little more than this.
    assert!((0.2..5.0).contains(&busy), "{busy}");
    assert!(idle < 0.1, "{idle}");
    assert_eq!(record.cases[0].engine_iops_max, None, "of several loads there is no one figure");
}
