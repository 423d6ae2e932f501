//! Verified runs of the whole program: what passes, what is found, and what a killed run leaves.

use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use crate::support::{Live, Scratch};

/// Writes and then reads, both verified.
const HONEST: &str = r#"
name = "honest"
[disks.a]
size = "4MiB"
[setups.s]
disks = ["a"]
[workloads.write]
rw = "randwrite"
amount = "8MiB"
verify = true
[workloads.read]
rw = "randread"
once = true
amount = "4MiB"
verify = true
[run]
rounds = 2
[[expect]]
case = "*"
that = "verify_errors = 0"
"#;

#[test]
fn what_an_honest_disk_holds_is_verified_from_case_to_case() {
    let scratch = Scratch::new();
    scratch.run_plan(HONEST, &["--progress", "none"]).expect(0);
    let record = scratch.record();
    for case in &record.cases {
        let verified = case.merged().and_then(|merged| merged.verified).expect("figures");
        assert!(verified.checked > 1000, "{}: {}", case.id, verified.checked);
        assert_eq!(verified.error_count(), 0);
    }
    assert!(scratch.read("out/report.html").contains("all as they were written"));
    scratch.assert_clean();
}

#[test]
fn a_reader_of_what_nobody_wrote_does_not_pass() {
    let scratch = Scratch::new();
    let ran = scratch.run_plan(HONEST, &["--case", "s/read", "--progress", "none"]).expect(3);
    assert!(ran.stdout.contains("nothing was verified"), "{}", ran.stdout);
}

#[test]
fn simulated_disks_have_nothing_to_verify() {
    let ran = Scratch::new().run_plan(HONEST, &["--simulate"]).expect(4);
    assert!(ran.stdout.contains("simulated disks hold no data"), "{}", ran.stdout);
}

/// The loopback file of a run that was killed, and its table.
fn left_by_a_killed_run(scratch: &Scratch) -> PathBuf {
    let plan = HONEST.replace("amount = \"8MiB\"", "runtime = \"60s\"\nqueue_depth = 4");
    let mut run = Live::start(&mut scratch.plan_command(&plan, &["--case", "s/write"]));
    let begun = Instant::now();
    let image = loop {
        assert!(begun.elapsed() < Duration::from_secs(60), "no table was made");
        let folders = fs::read_dir(scratch.work()).expect("the work folder").flatten();
        let images = folders.map(|folder| folder.path().join("a.img"));
        let with_table = |image: &PathBuf| image.with_extension("img.generations").exists();
        if let Some(image) = images.into_iter().find(with_table) {
            break image;
        }
        std::thread::sleep(Duration::from_millis(20));
    };
    std::thread::sleep(Duration::from_millis(300));
    run.signal("KILL");
    run.wait_for_end(Duration::from_secs(10));
    let kept = scratch.path("kept.img");
    for ending in ["", ".generations"] {
        let name = |path: &PathBuf| PathBuf::from(format!("{}{ending}", path.display()));
        fs::rename(name(&image), name(&kept)).expect("the file of the killed run");
    }
    kept
}

#[test]
fn what_a_killed_run_wrote_is_verified_after_it() {
    let scratch = Scratch::new();
    let image = left_by_a_killed_run(&scratch);
    let plan = format!(
        "name = 'after'\ndisks.a.device = '{}'\nsetups.s.disks = ['a']\n[workloads.read]\n\
         rw = 'randread'\nonce = true\namount = '4MiB'\nverify = true\n[run]\nrounds = 1\n\
         [[expect]]\ncase = '*'\nthat = 'verify_errors = 0'\n",
        image.display()
    );
    scratch.run_plan(&plan, &["--progress", "none"]).expect(0);
    let verified = scratch.record().cases[0].merged().and_then(|merged| merged.verified).unwrap();
    assert!(verified.checked > 100 && verified.error_count() == 0, "{verified:?}");
    // One block becomes another.
    let mut bytes = fs::read(&image).unwrap();
    let stamped = |bytes: &[u8], block: usize| bytes[block * 4096..][..4] == *b"\x76\x50\x44\x7c";
    let mut blocks = (0..1024).filter(|block| stamped(&bytes, *block));
    let (one, other) = (blocks.next().unwrap(), blocks.next().unwrap());
    bytes.copy_within(one * 4096..(one + 1) * 4096, other * 4096);
    fs::write(&image, bytes).unwrap();
    let ran = scratch.run_plan(&plan, &["--progress", "none"]).expect(7);
    let said = format!("byte {} holds what was written to byte {}", other * 4096, one * 4096);
    assert!(ran.stdout.contains("1 misplaced"), "{}", ran.stdout);
    assert!(scratch.read("out/junit.xml").contains(&said), "{said}");
}
