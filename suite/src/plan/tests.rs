//! What holds of plans beyond the fixtures.

use super::*;
use crate::diag::{Diagnostic, Source};

const SOUND: &str = r#"
name = "sound"
disks.a.size = "64MiB"
setups.a.disks = ["a"]
workloads.read.rw = "randread"
"#;

fn source(text: &str) -> Source {
    Source { name: "plan.toml".to_owned(), text: text.to_owned() }
}

fn checked(text: &str) -> Result<Plan, Vec<Diagnostic>> {
    parse(&source(text)).and_then(|raw| check(&raw, None))
}

/// What is under the caret of each error, with its code.
fn marked(text: &str) -> Vec<(&'static str, String)> {
    let errors = checked(text).expect_err(text);
    errors.into_iter().map(|error| (error.code, text[error.label.span].to_owned())).collect()
}

fn with(more: &str) -> String {
    format!("{SOUND}{more}")
}

fn condition(condition: &str) -> String {
    with(&format!("[[expect]]\ncase = \"a/read\"\nthat = {condition}\n"))
}

#[test]
fn defaults_are_those_of_the_reference() {
    let plan = checked(SOUND).expect("a sound plan");
    assert_eq!(plan.run.rounds, Rounds { min: 4, max: 12 });
    assert_eq!(plan.run.order, Order::Balanced);
    assert_eq!(plan.run.inconclusive, Inconclusive::Open);
    let workload = &plan.cases[0].workload;
    assert_eq!(workload.limit, Limit::Runtime(crate::units::Nanos(10_000_000_000)));
    assert_eq!(workload.blocks.largest().0, 4096);
    assert_eq!((workload.queue_depth, workload.workers, workload.seed), (1, 1, 1));
    assert_eq!((workload.cache, workload.data), (Cache::Direct, Data::Random));
}

#[test]
fn a_caret_stands_under_the_very_word_of_a_condition() {
    for (text, word) in [
        (r#""read.iosp >= 5""#, "iosp"),
        (r"'  read.iops   >=   10ms  '", "10ms"),
        (r#""""read.iops >= 2 x b""""#, "b"),
        (r#"["errors = 0", "read.iops ≥ 5"]"#, "≥"),
        (r#""read.iops between 9 and 5 iops""#, "9 and 5 iops"),
        (r#""read.iops >= 2 x a/raed[block_size=4KiB]""#, "raed"),
    ] {
        assert_eq!(marked(&condition(text))[0].1, word, "{text}");
    }
    // With an escape in it, a string can be pointed at as a whole alone.
    assert_eq!(marked(&condition(r#""read.iosp\u0020>= 5""#))[0].1, r#""read.iosp\u0020>= 5""#);
}

#[test]
fn windows_line_ends_move_no_caret() {
    let text = condition(r#""read.iosp >= 5""#).replace('\n', "\r\n");
    assert_eq!(marked(&text), [("plan::unknown-metric", "iosp".to_owned())]);
}

#[test]
fn nothing_follows_from_a_fault_that_was_named() {
    for (text, code) in [
        // The size is wrong, so nothing is said about regions or blocks.
        (
            SOUND.replace("64MiB", "64M") + "[workloads.big]\nrw='read'\nblock_size='1GiB'",
            "plan::bad-quantity",
        ),
        // The disk's table is wrong as a whole: the setup's name for it is right.
        (SOUND.replace("disks.a.size = \"64MiB\"", "disks.a = 5"), "plan::wrong-type"),
        (SOUND.replace("disks.a.size", "disk.a.size"), "plan::unknown-key"),
        // Whether a workload that can't be read has a case can't be said.
        (
            with("queue_depth = 0")
                .replace("workloads.read.rw = \"randread\"", "[workloads.read]\nrw = \"randread\"")
                + "\n[[expect]]\ncase='a/read[block_size=8KiB]'\nthat='write.iops > 2 x b'",
            "plan::out-of-range",
        ),
        // Nor whether a setup whose disk is unknown runs it.
        (
            SOUND.replace("[\"a\"]", "[\"zz\"]")
                + "[[expect]]\ncase='a/read'\nthat='read.iops > 2 x a/read'",
            "plan::unknown-disk",
        ),
        // A key that is mistyped is the one that seems missing.
        (SOUND.replace("workloads.read.rw", "workloads.read.rv"), "plan::unknown-key"),
    ] {
        let marked = marked(&text);
        assert_eq!(
            marked.iter().map(|(code, _)| *code).collect::<Vec<_>>(),
            [code],
            "{text}\n{marked:?}"
        );
    }
}

#[test]
fn errors_of_shape_and_of_meaning_come_together() {
    let text = with(
        "[workloads.more]\nrw = \"randwrite\"\nqueue_depth = 0\nonce = true\n\
         block_size = { '4KiB' = 1, '8KiB' = 1 }\n[run]\nrounds = 3\n",
    );
    let codes: Vec<_> = marked(&text).into_iter().map(|(code, _)| code).collect();
    assert_eq!(codes, ["plan::out-of-range", "plan::conflict", "plan::odd-rounds"]);
}

#[test]
fn a_profile_is_checked_whether_it_is_asked_for_or_not() {
    let text = with("[profiles.deep]\nworkloads.read = { engine = \"sync\", queue_depth = 8 }\n");
    let raw = parse(&source(&text)).expect("its shape is right");
    assert_eq!(raw.profiles().collect::<Vec<_>>(), ["deep"]);
    for profile in [None, Some("deep")] {
        let errors = check(&raw, profile).expect_err("the profile is wrong");
        assert_eq!(errors.len(), 1);
        assert_eq!(errors[0].notes, ["this is so with the profile `deep`"]);
    }
    let errors = check(&raw, Some("dep")).expect_err("there is none");
    assert_eq!(errors[0].code, "plan::unknown-profile");
    assert_eq!(errors[0].help.as_ref().expect("a name").message, "it has one called `deep`");
}

#[test]
fn a_profile_replaces_the_key_that_excludes_its_own() {
    let text = SOUND.replace(
        "workloads.read.rw = \"randread\"",
        "[workloads.read]\nrw = \"randread\"\namount = \"1MiB\"",
    ) + "[profiles.one]\nworkloads.\"*\" = { runtime = \"1s\" }\n";
    let raw = parse(&source(&text)).expect("its shape is right");
    let limit = |profile| check(&raw, profile).expect("sound").cases[0].workload.limit;
    assert_eq!(limit(None), Limit::Amount(crate::units::Bytes(1 << 20)));
    assert_eq!(limit(Some("one")), Limit::Runtime(crate::units::Nanos(1_000_000_000)));
    let both = text.replace("runtime = \"1s\"", "runtime = \"1s\", amount = \"2MiB\"");
    assert_eq!(marked(&both), [("plan::conflict", "amount".to_owned())]);
}

#[test]
fn the_last_list_of_a_sweep_varies_first() {
    let text = with("workers = [1, 2]\nblock_size = [\"8KiB\", \"4096B\"]\n")
        .replace("workloads.read.rw = \"randread\"", "[workloads.read]\nrw = \"randread\"");
    let plan = checked(&text).expect("a sound plan");
    let names: Vec<_> = plan.cases.iter().map(|case| case.id.to_string()).collect();
    assert_eq!(
        names,
        [
            "a/read[workers=1,block_size=8KiB]",
            "a/read[workers=1,block_size=4KiB]",
            "a/read[workers=2,block_size=8KiB]",
            "a/read[workers=2,block_size=4KiB]",
        ]
    );
}

#[test]
fn a_stripe_holds_whole_chunks_alone() {
    let plan = |size: &str| {
        format!(
            "name = 'a'\n[disks.d]\ncount = 2\nsize = '{size}'\n[setups.s]\ndisks = ['d']\n\
             stripe = {{ driver = 'engine', chunk = '64KiB' }}\n\
             [workloads.w]\nrw = 'read'\nsize = '256KiB'\n"
        )
    };
    checked(&plan("128KiB")).expect("two chunks on each of two");
    assert_eq!(marked(&plan("127KiB")), [("plan::region", "'256KiB'".to_owned())]);
}

#[test]
fn a_plan_of_any_length_is_answered() {
    let long = "# ".repeat(1 << 20);
    assert_eq!(checked(&long).expect_err("too long")[0].code, "plan::too-large");
    let many: Vec<_> = (0..2000).map(|i| format!("workloads.w{i}.rw = 'read'")).collect();
    assert_eq!(marked(&with(&many.join("\n")))[0].0, "plan::too-large");
    let deep = format!("{}{}\n", with("x = "), "[".repeat(5000));
    assert_eq!(checked(&deep).expect_err("too deep")[0].code, "plan::syntax");
    let lists = "workers = [1,2,3,4,5,6,7,8,9,10]\n";
    let sweep: String = ["queue_depth", "fsync_every", "read_percent"]
        .map(|key| lists.replace("workers", key))
        .concat();
    let all = with(&format!("[workloads.s]\nrw = 'randrw'\n{lists}{sweep}"));
    assert_eq!(marked(&all)[0].0, "plan::too-many-cases");
}
