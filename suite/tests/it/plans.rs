//! Plans, good and bad, and what is made of them. `SNAPSHOTS=overwrite` writes the expected
//! texts anew.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use diskproof::diag::{Diagnostic, Source, render_all};
use diskproof::plan::{self, Against, Plan, Test, Workload};
use snapbox::{Assert, Data};

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

/// Compares each text with the file of its name, and tells of all that differ at once.
fn compare(texts: Vec<(PathBuf, String)>) {
    let assert = Assert::new().action_env("SNAPSHOTS");
    let wrong: Vec<_> = texts
        .into_iter()
        .filter_map(|(path, text)| {
            let expected = Data::read_from(&path, None).raw();
            assert.try_eq(Some(&path.display()), text.into(), expected).err()
        })
        .map(|error| error.to_string())
        .collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
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
        rw read_percent blocks queue_depth workers layout region once limit warmup cooldown cache
        sync flush fsync_at_end data engine cpus seed
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
    }
    for assertion in assertions {
        let against = match &assertion.condition.test {
            Test::Times(.., Against::Case(case, _)) | Test::Within(_, Against::Case(case, _)) => {
                format!(" [{}]", cases[*case].id)
            }
            _ => String::new(),
        };
        let _ = writeln!(
            told,
            "line {} {:?} {}: {}{against} {:?} {:?}",
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
