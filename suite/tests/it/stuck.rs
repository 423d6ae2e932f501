//! A file system that stops answering under a run: what lies on it is given up, and nothing else.

use diskproof::record::Outcome;

use crate::support::{Scratch, outcomes, skip};

/// Two workloads on a disk that will stop answering, and one on a disk that won't.
const PLAN: &str = r#"
name = "frozen"
[run]
rounds = 1
[disks.cold]
size = "8MiB"
[disks.warm]
size = "8MiB"
[setups.cold]
disks = ["cold"]
[setups.warm]
disks = ["warm"]
workloads = ["after"]
[workloads.write]
rw = "randwrite"
cache = "buffered"
runtime = "3s"
[workloads.after]
rw = "randread"
cache = "buffered"
runtime = "100ms"
[[expect]]
case = "*"
that = "errors = 0"
"#;

/// Freezes `cold` while the first round runs, and thaws it when the run has said all that it has
/// to say, or after a long time, or when this script is ended.
const SCRIPT: &str = r"
truncate -s 64M image; mkfs.ext4 -q image; mkdir cold warm
mount -o loop image cold && fsfreeze -f cold && fsfreeze -u cold || exit 77
(for i in $(seq 100); do sleep 1; kill -0 $$ || break; done; fsfreeze -u cold) > /dev/null 2>&1 &
diskproof run plan.toml --disk cold=cold --disk warm=warm --out out --progress lines \
    > printed 2> said & run=$!
until grep -q MEASURE said; do sleep 0.1; done
sleep 0.5; fsfreeze -f cold
for i in $(seq 600); do if grep -q 'record ' printed; then break; fi; sleep 0.1; done
cat said >&2; cat printed
fsfreeze -u cold
code=0; wait $run || code=$?
exit $code
";

#[test]
fn a_disk_that_stops_answering_is_given_up_and_the_others_are_measured() {
    let this_test = "stuck::a_disk_that_stops_answering_is_given_up_and_the_others_are_measured";
    let scratch = Scratch::new();
    scratch.write("plan.toml", PLAN);
    let Some(ran) = scratch.in_private_mounts(this_test, SCRIPT) else { return };
    if ran.status.code() == Some(77) {
        return skip(this_test, "no file system can be mounted and frozen", "run as root");
    }
    // All was said while the disk was still frozen.
    let ran = ran.expect(3).says("ERROR cold/write round 1: disk cold doesn't answer: 1 I/O is");
    let ran = ran.says("cold is left behind: its disk doesn't answer").prints("out/record.json");
    ran.says("ERROR cold/after round 1: not run: disk cold doesn't answer");
    let record = scratch.record();
    assert_eq!(outcomes(&record, "cold/write"), [Outcome::Error]);
    assert_eq!(outcomes(&record, "cold/after"), [Outcome::Error]);
    assert_eq!(outcomes(&record, "warm/after"), [Outcome::Pass]);
}
