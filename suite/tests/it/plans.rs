//! Plans, good and bad, and what is made of them. `SNAPSHOTS=overwrite` writes the expected
//! texts anew.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use diskproof::diag::{Diagnostic, Source, render_all};
use diskproof::plan::{self, Against, Plan, Test, Workload};
use proptest::prelude::*;

use crate::support::compare;

fn folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../fixtures/plans").join(name)
}

/// Every plan of a folder, by name.
fn plans(folder_name: &str) -> Vec<(String, Source)> {
    let mut plans = Vec::new();
    for entry in fs::read_dir(folder(folder_name)).expect("the folder of fixtures") {
        let path = entry.expect("an entry of it").path();
        if path.extension().is_some_and(|extension| extension == "toml") {
            let name = path.file_stem().expect("a name").to_string_lossy().into_owned();
            let text = fs::read_to_string(&path).expect("a fixture's text");
            plans.push((name.clone(), Source { name: format!("{name}.toml"), text }));
        }
    }
    plans.sort_by(|one, other| one.0.cmp(&other.0));
    plans
}

fn source(text: &str) -> Source {
    Source { name: "plan.toml".to_owned(), text: text.to_owned() }
}

fn checked(source: &Source, profile: Option<&str>) -> Result<Plan, Vec<Diagnostic>> {
    plan::parse(source).and_then(|raw| plan::check(&raw, profile))
}

#[test]
fn every_bad_plan_has_its_diagnostic() {
    let plans = plans("bad");
    assert!(plans.len() >= 60, "{} bad plans", plans.len());
    let (mut texts, mut other) = (Vec::new(), String::new());
    for (name, source) in plans {
        let errors = checked(&source, None).err().unwrap_or_default();
        let drawn = render_all(&errors, &source, false);
        if errors.is_empty() || (errors.len() > 1 && !name.starts_with("all-of-")) {
            let _ = writeln!(other, "{name} has {} mistakes\n{drawn}", errors.len());
        }
        texts.push((folder("bad").join(format!("{name}.stderr")), drawn));
    }
    assert!(other.is_empty(), "{other}");
    compare(texts);
}

#[test]
fn a_fix_mends_the_plan_or_leads_to_the_next_error() {
    for (name, source) in plans("bad") {
        let errors = checked(&source, None).err().unwrap_or_default();
        for error in errors {
            let Some((span, with)) = error.help.and_then(|help| help.patch) else { continue };
            let mut mended = source.clone();
            mended.text.replace_range(span.clone(), &with);
            let left = checked(&mended, None).err().unwrap_or_default();
            let same = left.iter().find(|left| {
                left.code == error.code && left.label.span.start == error.label.span.start
            });
            assert!(same.is_none(), "{name}: the fix `{with}` leaves\n{same:?}");
        }
    }
}

#[test]
fn every_good_plan_is_what_it_says() {
    let mut texts = Vec::new();
    for (name, source) in plans("good") {
        let raw = plan::parse(&source)
            .unwrap_or_else(|errors| panic!("{}", render_all(&errors, &source, false)));
        let profiles: Vec<_> = raw.profiles().map(str::to_owned).collect();
        let mut told = String::new();
        for profile in std::iter::once(None).chain(profiles.iter().map(|name| Some(name.as_str())))
        {
            let plan = plan::check(&raw, profile)
                .unwrap_or_else(|errors| panic!("{}", render_all(&errors, &source, false)));
            told.push_str(&tell(&plan));
        }
        texts.push((folder("good").join(format!("{name}.txt")), told));
    }
    compare(texts);
}

/// What of a workload is not as in a plan that says nothing about it.
fn changed(workload: &Workload) -> String {
    let plain = source(
        "name = 'a'\ndisks.a.size = '1MiB'\nsetups.a.disks = ['a']\nworkloads.a.rw = 'read'",
    );
    let plain = checked(&plain, None).expect("a sound plan").cases.remove(0).workload;
    macro_rules! changed {
        ($($field:ident)*) => {
            [$((workload.$field != plain.$field)
                .then(|| format!("{}: {:?}", stringify!($field), workload.$field))),*]
        };
    }
    let changed = changed!(
        rw read_percent blocks queue_depth workers layout region access once pace limit warmup
        cooldown
        cache sync flush fsync_at_end data verify engine cpus seed
    );
    let changed: Vec<_> = changed.into_iter().flatten().collect();
    if changed.is_empty() { "as by default".to_owned() } else { changed.join(", ") }
}

/// A checked plan, one line to a thing.
fn tell(plan: &Plan) -> String {
    let mut told = String::new();
    let Plan { name, description, profile, disks, setups, cases, assertions, run } = plan;
    // Writing into a string can't fail.
    let _ = writeln!(told, "plan {name}, profile {profile:?}, {run:?}");
    if let Some(description) = description {
        let _ = writeln!(told, "  {description}");
    }
    for disk in disks {
        let _ = writeln!(told, "disk {} ({}): {:?}", disk.name, disk.group, disk.source);
    }
    for setup in setups {
        let members: Vec<_> = setup.disks.iter().map(|disk| disks[*disk].name.as_str()).collect();
        let stripe = setup.stripe.map(|stripe| format!("{:?} {}", stripe.driver, stripe.chunk));
        let _ = writeln!(told, "setup {}{}: {members:?} {stripe:?}", setup.name, setup.point);
    }
    for case in cases {
        assert_eq!(setups[case.setup].name, case.id.setup);
        assert!(plan::case_matches(&case.id.to_string(), &case.id));
        let _ = writeln!(told, "case {}", case.id);
        let _ = writeln!(told, "  {}", changed(&case.workload));
        for stream in &case.workload.streams {
            let _ = writeln!(told, "  stream {}: {}", stream.name, changed(&stream.workload));
        }
    }
    for assertion in assertions {
        let against = match &assertion.condition.test {
            Test::Times(.., Against::Case(case, _)) | Test::Within(_, Against::Case(case, _)) => {
                format!(" [{}]", cases[*case].id)
            }
            Test::Times(.., Against::Stream(case, stream, _))
            | Test::Within(_, Against::Stream(case, stream, _)) => {
                format!(" [{}/{stream}]", cases[*case].id)
            }
            _ => String::new(),
        };
        let stream = assertion.stream.as_ref().map_or(String::new(), |name| format!("/{name}"));
        let _ = writeln!(
            told,
            "line {} {:?} {}{stream}: {}{against} {:?} {:?}",
            assertion.line,
            assertion.level,
            cases[assertion.case].id,
            assertion.text,
            assertion.condition.test,
            assertion.why,
        );
    }
    told.push('\n');
    told
}

/// The text of every fixture, and every line of them.
static ALL: LazyLock<(Vec<String>, Vec<String>)> = LazyLock::new(|| {
    let all = plans("good").into_iter().chain(plans("bad"));
    let texts: Vec<String> = all.map(|(_, plan)| plan.text).collect();
    let lines = texts.iter().flat_map(|text| text.lines().map(str::to_owned)).collect();
    (texts, lines)
});

/// One change to the text of a plan.
#[derive(Debug, Clone)]
enum Change {
    Delete { at: usize, bytes: usize },
    Insert { at: usize, text: String },
    Move { from: usize, to: usize },
    Take { line: usize, to: usize },
}

fn change() -> impl Strategy<Value = Change> {
    let at = 0..4000_usize;
    let pieces = prop::sample::select(vec![
        "\"",
        "'",
        "\"\"\"",
        "[",
        "]",
        "[[",
        "{",
        "}",
        "=",
        ",",
        ".",
        "\n",
        "\r\n",
        "\t",
        "#",
        "*",
        "?",
        "/",
        "%",
        "0",
        "-1",
        "9223372036854775808",
        "1e400",
        "nan",
        "true",
        "1979-05-27",
        "[]",
        "{}",
        "\\u0041",
        "\\",
        "é",
        "\u{feff}",
        "\u{0}",
        "4KiB",
        "1 x ",
        "of",
        "baseline",
        "[disks=2]",
        "99999999999999999999TiB",
        "within",
        "between",
        "and",
        "p100",
        "latency.p",
        "[workloads.copy.streams.log]",
        "streams",
    ]);
    prop_oneof![
        (at.clone(), 1..20_usize).prop_map(|(at, bytes)| Change::Delete { at, bytes }),
        (at.clone(), pieces).prop_map(|(at, text)| Change::Insert { at, text: text.to_owned() }),
        (at.clone(), "\\PC{1,4}").prop_map(|(at, text)| Change::Insert { at, text }),
        (0..80_usize, 0..80_usize).prop_map(|(from, to)| Change::Move { from, to }),
        (0..3000_usize, 0..80_usize).prop_map(|(line, to)| Change::Take { line, to }),
    ]
}

fn changed_text(text: &str, changes: &[Change], lines_of_all: &[String]) -> String {
    let mut bytes = text.as_bytes().to_vec();
    for change in changes {
        match change {
            Change::Delete { at, bytes: count } => {
                let at = at % (bytes.len() + 1);
                let end = (at + count).min(bytes.len());
                bytes.drain(at..end);
            }
            Change::Insert { at, text } => {
                let at = at % (bytes.len() + 1);
                bytes.splice(at..at, text.bytes());
            }
            Change::Move { from, to } => {
                let text = String::from_utf8_lossy(&bytes).into_owned();
                let mut lines: Vec<_> = text.lines().collect();
                if !lines.is_empty() {
                    let line = lines.remove(from % lines.len());
                    lines.insert(to % (lines.len() + 1), line);
                }
                bytes = lines.join("\n").into_bytes();
            }
            Change::Take { line, to } => {
                let text = String::from_utf8_lossy(&bytes).into_owned();
                let mut lines: Vec<_> = text.lines().collect();
                lines.insert(to % (lines.len() + 1), &lines_of_all[line % lines_of_all.len()]);
                bytes = lines.join("\n").into_bytes();
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1000, ..ProptestConfig::default() })]
    /// Whatever a text is, it is a plan, or there are diagnostics that can be drawn.
    #[test]
    fn no_text_is_too_strange(
        which in 0..1000_usize,
        changes in prop::collection::vec(change(), 0..6),
        windows: bool,
    ) {
        let (all, lines) = &*ALL;
        let mut text = changed_text(&all[which % all.len()], &changes, lines);
        if windows {
            text = text.replace('\n', "\r\n");
        }
        let source = source(&text);
        let raw = match plan::parse(&source) {
            Ok(raw) => raw,
            Err(errors) => {
                prop_assert!(!errors.is_empty());
                prop_assert!(render_all(&errors, &source, true).contains("error"));
                return Ok(());
            }
        };
        let profiles: Vec<_> = raw.profiles().map(str::to_owned).collect();
        for profile in std::iter::once(None).chain(profiles.iter().map(|n| Some(n.as_str()))) {
            match plan::check(&raw, profile) {
                Ok(plan) => {
                    tell(&plan);
                    for case in &plan.cases {
                        prop_assert!(case.setup < plan.setups.len());
                    }
                }
                Err(errors) => {
                    prop_assert!(!errors.is_empty());
                    let drawn = render_all(&errors, &source, false);
                    prop_assert!(drawn.contains("error["));
                    // In the text's order, and none said twice.
                    let places: Vec<_> =
                        errors.iter().map(|error| (error.label.span.clone(), error.code)).collect();
                    prop_assert!(places.is_sorted_by_key(|(span, _)| (span.start, span.end)),
                        "{places:?}"
                    );
                    let distinct: std::collections::HashSet<_> = places.iter().collect();
                    prop_assert_eq!(distinct.len(), places.len());
                }
            }
        }
    }
}

#[test]
fn the_example_of_the_reference_is_a_plan() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../plans/REFERENCE.md");
    let text = fs::read_to_string(path).expect("the reference");
    let blocks: Vec<_> = text.split("```toml\n").skip(1).collect();
    assert!(!blocks.is_empty());
    for block in blocks {
        let source = source(block.split("```").next().expect("its end"));
        for profile in [None, Some("smoke")] {
            if let Err(errors) = checked(&source, profile) {
                panic!("{}", render_all(&errors, &source, false));
            }
        }
    }
}
