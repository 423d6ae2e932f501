//! Whether a case that the engine or the processor limits is marked, and no other.

use diskproof::record::CaseRecord;

use crate::support::{Scratch, skip};

const NULL: &str = r#"
name = "null"
[disks.sink]
null = true
size = "1TiB"
[setups.sink]
disks = ["sink"]
[workloads.write]
rw = "randwrite"
cache = "buffered"
data = "zero"
queue_depth = [1, 32]
runtime = "150ms"
[run]
rounds = 2
[[expect]]
case = "*"
that = "write.iops > 0"
"#;

fn is_marked(case: &CaseRecord) -> bool {
    case.warnings.iter().any(|warning| warning.starts_with("limited by the tool or the CPU"))
}

#[test]
fn the_null_device_is_limited_by_the_engine_alone() {
    let test = "limits::the_null_device_is_limited_by_the_engine_alone";
    if let Some(reason) = diskproof::engine::probe().reason {
        return skip(test, "io_uring can't be used", &reason);
    }
    let scratch = Scratch::new();
    // What others do to a busy machine may part two short windows by more than a fifth, or leave
    // the workers so little of a processor that it can't have been the limit.
    for _ in 0..20 {
        scratch.run_plan(NULL, &["--progress", "none"]).expect(0);
        let record = scratch.record();
        assert_eq!(record.disks[0].kind, "null");
        if record.cases.iter().all(is_marked) {
            assert!(scratch.read("out/report.html").contains("own limit here"));
            return;
        }
    }
    panic!("not marked in twenty runs");
}

#[test]
fn what_waits_for_a_disk_is_not_marked() {
    let scratch = Scratch::new();
    let plan = "name = 'slow'\ndisks.a.size = '4MiB'\nsetups.s.disks = ['a']\n[workloads.commit]\n\
                rw = 'randwrite'\nsync = 'dsync'\nruntime = '300ms'\n[workloads.paced]\n\
                rw = 'randread'\nrate = '500 iops'\nruntime = '300ms'\n\
                [run]\nrounds = 1\n[[expect]]\ncase = '*'\nthat = 'errors = 0'\n";
    scratch.run_plan(plan, &["--progress", "none"]).expect(0);
    let record = scratch.record();
    assert!(!record.cases.iter().any(is_marked), "{:?}", record.cases[0].warnings);
}
