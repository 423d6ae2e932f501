//! Trims through the whole program: what is measured of them, and what they leave behind.

use std::fs;

use diskproof::measure::IoKind;
use diskproof::record::Outcome;

use crate::support::{Live, Scratch, outcomes, skip};

/// One disk, and the workload `t`, which trims as these keys say, for these rounds.
fn plan(keys: &str, rounds: u32, rest: &str) -> String {
    format!(
        "name = 'trims'\ndisks.a.size = '8MiB'\nsetups.s.disks = ['a']\n[workloads.t]\n\
         rw = 'randtrim'\n{keys}\n{rest}\n[run]\nrounds = {rounds}\norder = 'interleaved'\n"
    )
}

#[test]
fn trims_have_figures_of_their_own_and_keep_a_rate_and_shares_of_sizes() {
    let scratch = Scratch::new();
    let keys = "block_size = { '4KiB' = 75, '12KiB' = 25 }\nrate = '4MB/s'\nqueue_depth = 4\n\
                runtime = '2s'";
    let conditions = "[[expect]]\ncase = 's/t'\nthat = [\n\
                      'trim.latency.p99 < 10ms', 'trim.iops between 600 and 700',\n\
                      'trim.bandwidth between 3.9MB/s and 4.1MB/s',\n\
                      'errors = 0', 'iops > 100']\n";
    let text = plan(keys, 2, "") + conditions;
    // In virtual time, where no stall of a file system takes the rate away.
    scratch.run_plan(&text, &["--simulate", "--progress", "none"]).expect(0);
    let record = scratch.record();
    assert_eq!(outcomes(&record, "s/t"), [Outcome::Pass; 5]);
    let whole = record.cases[0].merged().expect("figures");
    let (count, bytes) = (whole.completed(Some(IoKind::Trim)), whole.bytes(Some(IoKind::Trim)));
    // Three of 4 KiB to one of 12 KiB are 6 KiB each.
    let mean = bytes as f64 / count as f64;
    assert!((mean - 6144.0).abs() < 10.0, "{mean}");
    assert_eq!((whole.completed(None), whole.completed(Some(IoKind::Write))), (count, 0));
    let said = record.cases[0].warnings.join("\n");
    assert!(!said.contains("Little"), "an open loop contradicts itself: {said}");
    scratch.assert_clean();
}

#[test]
fn every_block_once_by_several_workers_gives_up_all_of_the_region_and_no_more() {
    let scratch = Scratch::new();
    let keys = "once = true\namount = '4MiB'\nsize = '4MiB'\nworkers = 2\noffset = '2MiB'";
    let text = plan(keys, 1, "") + "[[expect]]\ncase = '*'\nthat = 'errors = 0'\n";
    let mut live = Live::start(&mut scratch.plan_command(&text, &["--progress", "lines"]));
    live.wait_for("MEASURE (1/1) s/t round 1");
    live.finish().expect(0);
    let whole = scratch.record().cases[0].merged().expect("figures");
    assert_eq!(whole.completed(Some(IoKind::Trim)), 1024);
    assert_eq!(whole.bytes(Some(IoKind::Trim)), 4 << 20);
}

#[test]
fn where_no_hole_can_be_punched_the_case_is_an_error_with_a_remedy() {
    let this_test = "trims::where_no_hole_can_be_punched_the_case_is_an_error_with_a_remedy";
    let scratch = Scratch::new();
    let keys = "cache = 'buffered'\nruntime = '100ms'";
    let text = plan(keys, 2, "") + "[[expect]]\ncase = '*'\nthat = 'iops > 0'\n";
    scratch.write("plan.toml", text);
    fs::create_dir(scratch.path("memory")).expect("a folder");
    let script = "mount -t ramfs none memory || exit 77; \
                  diskproof run plan.toml --out out --work-dir memory --progress none";
    let Some(ran) = scratch.in_private_mounts(this_test, script) else { return };
    if ran.status.code() == Some(77) {
        return skip(this_test, "no ramfs can be mounted", "run as root");
    }
    ran.expect(3).prints("EOPNOTSUPP");
    let junit = scratch.read("out/junit.xml");
    for said in ["the file system there can't punch holes", "put the disk on ext4"] {
        assert!(junit.contains(said), "no `{said}` in\n{junit}");
    }
    assert_eq!(scratch.record().cases[0].rounds.len(), 1, "it is not tried again");
}

#[test]
fn what_was_there_before_is_never_trimmed() {
    let scratch = Scratch::new();
    let file = scratch.write("mine", vec![7; 8 << 20]);
    let text = plan("runtime = '100ms'", 1, "") + "[[expect]]\ncase = '*'\nthat = 'iops > 0'\n";
    let bound = format!("a={}", file.display());
    let ran = scratch.run_plan(&text, &["--disk", &bound]);
    assert!(matches!(ran.status.code(), Some(2 | 3 | 6)), "{}\n{}", ran.stdout, ran.stderr);
    let told = ran.stdout + &ran.stderr;
    assert!(told.contains("reading"), "{told}");
    assert!(fs::read(&file).expect("it is there").iter().all(|byte| *byte == 7));
}

#[test]
fn a_signal_amid_the_writing_of_holes_leaves_nothing() {
    let scratch = Scratch::new();
    let keys = "once = true\nblock_size = '1MiB'\namount = '192MiB'";
    let text = plan(keys, 4, "").replace("8MiB", "192MiB")
        + "[[expect]]\ncase = '*'\nthat = 'errors = 0'\n";
    let mut live = Live::start(&mut scratch.plan_command(&text, &["--progress", "lines"]));
    live.wait_for("DONE s/t round 1");
    live.wait_for("FILL a");
    live.signal("INT");
    live.finish().expect(130);
    let record = scratch.record();
    assert!(record.interrupted);
    assert!(record.cases[0].rounds[0].error.is_none(), "the first round was whole");
    assert_eq!(outcomes(&record, "s/t"), [Outcome::Error], "and nothing passes");
    scratch.assert_clean();
}

#[test]
fn what_was_trimmed_or_written_again_is_not_taken_for_what_was_verified() {
    let scratch = Scratch::new();
    let verified = "runtime = '150ms'\nverify = true";
    let rest = format!(
        "[workloads.w]\nrw = 'randwrite'\n{verified}\n[workloads.r]\nrw = 'randrw'\n{verified}"
    );
    let text = plan("runtime = '150ms'", 3, &rest)
        + "[[expect]]\ncase = 's/*'\nthat = 'errors = 0'\n[[expect]]\ncase = 's/r'\n\
           that = 'verify_errors = 0'\n";
    scratch.run_plan(&text, &["--progress", "none"]).expect(0);
    for case in scratch.record().cases.iter().filter(|case| case.id != "s/t") {
        let verified = case.merged().and_then(|merged| merged.verified).expect("figures");
        assert!(verified.checked > 0 && verified.error_count() == 0, "{verified:?}");
    }
}
