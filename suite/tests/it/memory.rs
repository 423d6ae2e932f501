//! Whether the memory that `show` states before the start is an upper bound of what a run takes,
//! and whether a run that goes on takes more.

use std::fs;
use std::time::{Duration, Instant};

use crate::support::{Live, Scratch, skip};

const MIB: u64 = 1 << 20;

/// A plan of one case on the null device.
fn plan(keys: &str) -> String {
    format!(
        "name = 'memory'\ndisks.sink = {{ null = true, size = '1TiB' }}\n\
         setups.sink.disks = ['sink']\n[workloads.write]\nrw = 'randwrite'\ncache = 'buffered'\n\
         {keys}\n[run]\nrounds = 1\n[[expect]]\ncase = '*'\nthat = 'errors = 0'\n"
    )
}

/// What a process has in memory, in bytes, but for its program where that isn't optimised: its
/// share of pages, and huge pages, which the kernel counts apart.
fn taken(process: u32) -> u64 {
    let text = fs::read_to_string(format!("/proc/{process}/smaps_rollup")).unwrap_or_default();
    let of = |name: &str| -> u64 {
        let line = text.lines().find_map(|line| line.strip_prefix(name));
        let kib = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
        kib.unwrap_or(0) << 10
    };
    let program = if cfg!(debug_assertions) { of("Pss_File:") } else { 0 };
    (of("Pss:") + of("Private_Hugetlb:")).saturating_sub(program)
}

/// What a run of this plan had in memory, every few milliseconds.
fn watched(scratch: &Scratch, text: &str) -> Vec<(Duration, u64)> {
    let mut live = Live::start(&mut scratch.plan_command(text, &["--progress", "none"]));
    let begun = Instant::now();
    let mut seen = Vec::new();
    while live.is_running() {
        let now = taken(live.id());
        if now > 0 {
            seen.push((begun.elapsed(), now));
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    live.finish().expect(0);
    seen
}

/// What `show` states of the only case: buffers, and all together.
fn stated(scratch: &Scratch, text: &str) -> (u64, u64) {
    scratch.write("plan.toml", text);
    let shown = scratch.run(&["show", "plan.toml", "--json"]).expect(0).stdout;
    let shown: serde_json::Value = serde_json::from_str(&shown).expect("JSON");
    let part = |name: &str| shown["cases"][0]["memory_bytes_max"][name].as_u64().expect("bytes");
    (part("buffers"), part("buffers") + part("table") + part("beside"))
}

#[test]
fn a_run_takes_no_more_memory_than_was_stated() {
    if let Some(reason) = diskproof::engine::probe().reason {
        let test = "memory::a_run_takes_no_more_memory_than_was_stated";
        return skip(test, "io_uring can't be used", &reason);
    }
    let scratch = Scratch::new();
    for (depth, workers, more) in [
        (1, 1, ""),
        (4096, 8, ""),
        (4096, 2, "data = 'zero'"),
        (4096, 2, "rate = '1000 iops'"),
        (32, 64, "data = { duplicate = 50 }"),
    ] {
        let text = plan(&format!(
            "queue_depth = {depth}\nworkers = {workers}\nengine = 'io_uring'\n\
             runtime = '300ms'\n{more}"
        ));
        let (buffers, all) = stated(&scratch, &text);
        let depth_bytes = if more.contains("zero") { 4096 } else { depth * 4096 };
        let repeated = if more.contains("duplicate") { 4 * 4096 } else { 0 };
        assert_eq!(buffers, workers * (depth_bytes + repeated), "{text}");
        // The promise: 8 MiB and one for each worker. Due times take a little more.
        let promised = buffers + (8 + workers) * MIB;
        assert!(all <= promised + if more.contains("rate") { MIB / 2 } else { 0 }, "{text}");
        let most = watched(&scratch, &text).into_iter().map(|(_, bytes)| bytes).max();
        let most = most.expect("it was seen");
        assert!(most > buffers && most <= all, "{most} of {all} bytes, {buffers} of buffers");
    }
}

#[test]
fn a_run_that_goes_on_takes_no_more_memory() {
    let scratch = Scratch::new();
    let text = plan("workers = 2\nruntime = '3s'");
    let seen = watched(&scratch, &text);
    let most = |from: f64, to: f64| {
        let within = seen.iter().filter(|(at, _)| (from..to).contains(&at.as_secs_f64()));
        within.map(|(_, bytes)| *bytes).max().expect("it was seen then")
    };
    let (early, late) = (most(0.6, 1.2), most(2.2, 2.8));
    assert!(late <= early + MIB / 2, "{early} bytes became {late}");
}
