//! The program under valgrind, which sees every read of memory that was never written, every access
//! outside of what was allocated, and what is lost.

use std::process::Command;

use crate::support::{Live, PROGRAM, Scratch, skip};

/// A plan with a short case of each kind, by one engine.
fn plan(engine: &str) -> String {
    let depth = if engine == "sync" { 1 } else { 8 };
    let trim = if engine == "libaio" {
        ""
    } else {
        "[workloads.trim]\nrw = 'randtrim'\namount = '64KiB'\n"
    };
    format!(
        "name = 'memcheck'\ndisks.a = {{ size = '1MiB', count = 2 }}\n\
         [setups.s]\ndisks = ['a']\nstripe = {{ driver = 'engine', chunk = '8KiB' }}\n\
         [workloads.verified]\nrw = 'randrw'\nblock_size = {{ '4KiB' = 2, '16KiB' = 1 }}\n\
         verify = true\namount = '1MiB'\nqueue_depth = {depth}\nfsync_every = 16\n\
         [workloads.paced]\nrw = 'randwrite'\nrate = '100 iops'\nruntime = '100ms'\n\
         data = {{ duplicate = 30 }}\nqueue_depth = {depth}\nworkers = 2\n\
         [workloads.once]\nrw = 'randread'\nonce = true\namount = '512KiB'\n\
         queue_depth = {depth}\n{trim}\
         [profiles.way]\nworkloads.'*' = {{ engine = '{engine}' }}\n\
         [run]\nrounds = 1\n[[expect]]\ncase = '*'\nthat = 'errors = 0'\n"
    )
}

#[test]
fn no_byte_is_used_wrongly_and_none_is_lost() {
    let test = "memcheck::no_byte_is_used_wrongly_and_none_is_lost";
    if Command::new("valgrind").arg("--version").output().is_err() {
        return skip(test, "valgrind is not there", "install it");
    }
    let (ring, libaio) = (diskproof::engine::probe(), diskproof::engine::probe_libaio());
    for (engine, reason) in [("io_uring", ring.reason), ("libaio", libaio.reason), ("sync", None)] {
        if let Some(reason) = reason {
            skip(test, &format!("{engine} can't be used"), &reason);
            continue;
        }
        let scratch = Scratch::new();
        scratch.write("plan.toml", plan(engine));
        let mut command = Command::new("valgrind");
        command.args([
            "--error-exitcode=99",
            "--leak-check=full",
            "--errors-for-leak-kinds=definite",
        ]);
        command.args(["--log-file=valgrind.log", PROGRAM, "run", "plan.toml", "--profile", "way"]);
        command.args(["--out", "out", "--progress", "none"]);
        scratch.prepare(&mut command);
        let ran = Live::start(&mut command).finish();
        let log = scratch.read("valgrind.log");
        assert_eq!(ran.status.code(), Some(0), "{}\n{log}", ran.stderr);
        assert!(log.contains("ERROR SUMMARY: 0 errors"), "{log}");
        let lost = log.lines().find(|line| line.contains("definitely lost:"));
        assert!(lost.is_none_or(|line| line.contains(" 0 bytes in 0 blocks")), "{log}");
        let record = scratch.record();
        let names = record.cases.iter().flat_map(|case| &case.rounds);
        let names = names.filter_map(|round| round.measurement.as_ref());
        assert!(names.clone().count() > 2);
        names.for_each(|measured| assert_eq!(measured.backend.name, engine));
        scratch.assert_clean();
    }
}
