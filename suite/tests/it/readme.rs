//! The README's console blocks are run, and what they show has to be what happens.
//!
//! A block ` ```console ` holds commands behind `$ `, each with what it says below it: standard
//! output and error as a terminal shows them, up to the next command or the end. `[..]` stands
//! for any part of a line, a line `...` for any lines. A command whose exit code is not 0 has
//! `? CODE` as its last line. ` ```console,ignore ` is not run. All blocks of a page run in order,
//! in one scratch folder with the repository's plans in it; `cargo xtask run-plan` is the program
//! that these tests were built with, and its `run`.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::process::Command;

use diskproof::record::ExitCode;
use snapbox::Assert;

use crate::support::{Live, Scratch, repository};

/// One command of a page, and what it is to say.
#[derive(Debug, PartialEq, Eq)]
struct Step {
    line: usize,
    command: String,
    code: i32,
    says: String,
}

/// Every step of a page's console blocks.
fn steps(page: &str) -> Vec<Step> {
    let mut steps: Vec<Step> = Vec::new();
    let mut inside: Option<bool> = None;
    for (index, line) in page.lines().enumerate() {
        match (line.strip_prefix("```"), inside) {
            (Some(_), Some(_)) => inside = None,
            (Some(language), None) => inside = Some(language == "console"),
            (None, Some(true)) => match (line.strip_prefix("$ "), steps.last_mut()) {
                (Some(command), _) => steps.push(Step {
                    line: index + 1,
                    command: command.to_owned(),
                    code: 0,
                    says: String::new(),
                }),
                (None, Some(step)) => match line.strip_prefix("? ") {
                    Some(code) => step.code = code.parse().expect("an exit code"),
                    None => step.says.extend([line, "\n"]),
                },
                (None, None) => panic!("line {}: a console block begins with `$ `", index + 1),
            },
            (None, _) => {}
        }
    }
    for step in &mut steps {
        step.says.truncate(step.says.trim_end().len());
    }
    steps
}

/// A folder like a fresh clone, with a `cargo` that has nothing to build.
fn clone() -> Scratch {
    let scratch = Scratch::new();
    fs::create_dir(scratch.path("plans")).expect("a folder");
    for entry in fs::read_dir(repository().join("plans")).expect("the plans") {
        let path = entry.expect("an entry").path();
        let name = path.file_name().expect("a name").to_string_lossy().into_owned();
        scratch.write(&format!("plans/{name}"), fs::read(&path).expect("a plan"));
    }
    fs::create_dir(scratch.path("bin")).expect("a folder");
    let cargo = "#!/bin/sh\n\
                 [ \"$1 $2\" = 'xtask run-plan' ] || { echo \"no cargo $1 $2\"; exit 101; }\n\
                 shift 2\nexec diskproof run \"$@\"\n";
    let path = scratch.write("bin/cargo", cargo);
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).expect("it can be run");
    scratch
}

#[test]
fn the_readme_shows_what_happens() {
    let page = fs::read_to_string(repository().join("README.md")).expect("the README");
    let steps = steps(&page);
    assert!(!steps.is_empty(), "nothing in it is run");
    let scratch = clone();
    let assert = Assert::new();
    for step in steps {
        let mut command = Command::new("sh");
        command.args(["-c", &format!("exec 2>&1; PATH=$PWD/bin:$PATH; {}", step.command)]);
        scratch.prepare(&mut command);
        let ran = Live::start(&mut command).finish();
        let place = format!("README.md:{}: `{}`", step.line, step.command);
        let said = ran.stdout.trim_end();
        assert_eq!(ran.status.code(), Some(step.code), "{place}\n{said}");
        if let Err(error) = assert.try_eq(Some(&place), said.to_owned().into(), step.says.into()) {
            panic!("{error}");
        }
    }
    scratch.assert_clean();
}

#[test]
fn the_readme_lists_every_exit_code() {
    let page = fs::read_to_string(repository().join("README.md")).expect("the README");
    let rows = page.lines().filter_map(|line| line.strip_prefix("| ")?.split(" |").next());
    let listed: Vec<u8> = rows.filter_map(|cell| cell.parse().ok()).collect();
    assert_eq!(listed, ExitCode::ALL.map(ExitCode::code));
}

#[test]
fn steps_are_found_in_console_blocks_alone() {
    let page = "Text\n```console\n$ one\nsays\n...\n\n$ two\n? 3\n```\n$ no\n```console,ignore\n\
                $ no\n```\n```toml\n$ no\n```\n```console\n$ three\n```\n";
    let step = |line, command: &str, code, says: &str| Step {
        line,
        command: command.to_owned(),
        code,
        says: says.to_owned(),
    };
    assert_eq!(
        steps(page),
        [step(3, "one", 0, "says\n..."), step(7, "two", 3, ""), step(18, "three", 0, "")]
    );
}
