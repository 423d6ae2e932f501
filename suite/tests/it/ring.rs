//! What of a ring a kernel has, and that the rest does without it; what a plan may ask of one.

use crate::sandbox::with_injected;
use crate::support::{Live, Scratch, skip};

const PLAN: &str = "name = 'ring'\ndisks.a.size = '4MiB'\nsetups.s.disks = ['a']\n\
    [workloads.mix]\nrw = 'randrw'\nqueue_depth = 8\nruntime = '100ms'\nengine = 'io_uring'\n\
    [run]\nrounds = 1\n[[expect]]\ncase = '*'\nthat = 'errors = 0'\n";

/// What the record names as used by the only case.
fn features(scratch: &Scratch) -> Vec<String> {
    let record = scratch.record();
    let measured = record.cases[0].rounds[0].measurement.as_ref().expect("figures");
    assert_eq!(measured.backend.name, "io_uring");
    measured.backend.features.clone()
}

fn can_ring(test: &str) -> bool {
    let reason = diskproof::engine::probe().reason;
    if let Some(reason) = &reason {
        skip(test, "io_uring can't be used", reason);
    }
    reason.is_none()
}

#[test]
fn kernels_that_know_less_run_all_the_same_and_the_record_says_what_they_lack() {
    let test = "ring::kernels_that_know_less_run_all_the_same_and_the_record_says_what_they_lack";
    if !can_ring(test) {
        return;
    }
    let scratch = Scratch::new();
    scratch.run_plan(PLAN, &["--progress", "none"]).expect(0);
    let all = features(&scratch);
    // Of every two calls the first is refused, as flags are that a kernel doesn't know; then, but
    // for the files, whatever would be registered.
    for (inject, lacking) in [
        ("io_uring_setup:error=EINVAL:when=1+2", ["no submission array"].as_slice()),
        ("io_uring_register:error=ENOMEM:when=2+", &["registered ring", "fixed buffers"]),
    ] {
        let command = scratch.plan_command(PLAN, &["--progress", "none"]);
        let Some(mut command) = with_injected(test, &command, inject) else { return };
        Live::start(&mut command).finish().expect(0);
        let left = features(&scratch);
        assert!(left.iter().all(|one| all.contains(one)), "{left:?}");
        let gone: Vec<_> = all.iter().filter(|one| !left.contains(one)).collect();
        assert!(gone.iter().all(|one| lacking.contains(&one.as_str())), "{inject}: {gone:?}");
        assert!(all.len() < 6 || gone.len() == lacking.len(), "{inject}: {left:?} of {all:?}");
    }
}

#[test]
fn a_thread_of_the_kernel_submits_where_the_plan_asks_for_it() {
    let test = "ring::a_thread_of_the_kernel_submits_where_the_plan_asks_for_it";
    if !can_ring(test) {
        return;
    }
    let scratch = Scratch::new();
    let plan = PLAN.replace("engine = 'io_uring'", "sqpoll = true\nfdatasync_every = 32");
    scratch.run_plan(&plan, &["--progress", "none"]).expect(0);
    assert!(features(&scratch).contains(&"sqpoll".to_owned()));
    let record = scratch.record();
    let parameters = &record.cases[0].parameters;
    for pair in [("sqpoll", "true"), ("engine", "io_uring")] {
        assert!(parameters.contains(&(pair.0.to_owned(), pair.1.to_owned())), "{parameters:?}");
    }
}

#[test]
fn a_disk_that_cannot_be_polled_is_skipped_with_the_remedy() {
    let test = "ring::a_disk_that_cannot_be_polled_is_skipped_with_the_remedy";
    if !can_ring(test) {
        return;
    }
    let scratch = Scratch::new();
    let plan = PLAN.replace("engine = 'io_uring'", "hipri = true");
    let ran = scratch.run_plan(&plan, &["--progress", "none"]);
    let record = scratch.record();
    if record.cases[0].rounds.iter().any(|round| round.measurement.is_some()) {
        assert!(features(&scratch).contains(&"hipri".to_owned()), "polled");
        return;
    }
    let told = format!("{}{}", ran.stdout, ran.stderr);
    for words in ["queues that can be polled for `hipri`", "nvme.poll_queues", "skipped"] {
        assert!(told.contains(words), "no {words} in\n{told}");
    }
    scratch.assert_clean();
}
