//! Rules on Rust code: where unsafe may stand, lengths, documentation, what is not to be called.

use super::Violation;
use super::source::Source;

/// Lines of a file, without its test modules.
const FILE_LINES: usize = 500;

/// Lines of a file that is all tests: long lists of small cases read well.
const TEST_FILE_LINES: usize = 900;

/// Lines of a function: a screen.
const FUNCTION_LINES: usize = 70;

/// Where unsafe code may stand: a folder ends in `/`.
const UNSAFE_PLACES: [&str; 6] = [
    "suite/src/os/",
    "suite/tests/it/sandbox.rs", // refuses system calls to a child
    "suite/src/engine/uring.rs",
    "suite/src/engine/buffer.rs",
    "suite/src/engine/aio.rs",
    "xtask/src/floor/", // the bare ring that `bench` compares with
];

/// Calls that the product doesn't make.
const FORBIDDEN_CALLS: [(&str, &str); 4] = [
    ("unwrap", "`unwrap` gives no reason why it can't fail; use `expect` with one, or an error"),
    ("dbg!", "`dbg!` was left behind"),
    ("todo!", "`todo!` was left behind"),
    ("unimplemented!", "`unimplemented!` was left behind"),
];

/// Macros that print, which only `cli` does.
const PRINTING: [&str; 4] = ["println!", "print!", "eprintln!", "eprint!"];

/// Every breach in one file.
pub(super) fn check(source: &Source<'_>) -> Vec<Violation> {
    let mut found = Vec::new();
    found.extend(file_length(source));
    found.extend(function_lengths(source));
    found.extend(unsafe_code(source));
    if !source.is_test {
        found.extend(documentation(source));
        if source.is_product() {
            found.extend(calls(source));
        }
    }
    found
}

fn file_length(source: &Source<'_>) -> Option<Violation> {
    let all = source.text.lines().count();
    let (counted, limit, what) = if source.is_test {
        (all, TEST_FILE_LINES, "the file of tests")
    } else {
        let tests: usize = source.facts.test_modules.iter().map(|(a, b)| b - a + 1).sum();
        (all.saturating_sub(tests), FILE_LINES, "the file")
    };
    let sentence = format!("{what} has {counted} lines; {limit} are the limit");
    (counted > limit).then(|| Violation::new(source.path, limit + 1, sentence))
}

fn function_lengths(source: &Source<'_>) -> Vec<Violation> {
    let long = source.facts.functions.iter().filter_map(|function| {
        let lines = function.last - function.first + 1;
        let sentence = format!(
            "the function `{}` has {lines} lines; {FUNCTION_LINES} are the limit",
            function.name
        );
        (lines > FUNCTION_LINES).then(|| Violation::new(source.path, function.first, sentence))
    });
    long.collect()
}

fn documentation(source: &Source<'_>) -> Option<Violation> {
    let sentence = "the module has no documentation: begin the file with `//!` and what it is for";
    (!source.facts.has_docs).then(|| Violation::new(source.path, 1, sentence))
}

fn unsafe_code(source: &Source<'_>) -> Vec<Violation> {
    let allowed = UNSAFE_PLACES.iter().any(|place| match place.strip_suffix('/') {
        Some(_) => source.path.starts_with(place),
        None => source.path == *place,
    });
    let mut found = Vec::new();
    for &line in &source.facts.unsafe_lines {
        if !allowed {
            let sentence = "unsafe code may not stand here: only in os, in the engine's uring, \
                            buffer and aio, and in xtask's floor";
            found.push(Violation::new(source.path, line, sentence));
        } else if !says_why_it_is_safe(source, line) {
            let sentence = "unsafe code without a `SAFETY:` comment above it";
            found.push(Violation::new(source.path, line, sentence));
        }
    }
    found
}

/// Whether a comment with `SAFETY:` stands above the statement that the line belongs to, or, for
/// a function, `# Safety` in its documentation.
fn says_why_it_is_safe(source: &Source<'_>, line: usize) -> bool {
    let ends_another = |text: &str| text.is_empty() || text.ends_with([';', '{', '}', ',']);
    let mut above = line - 1;
    while above > 0 {
        let text = source.line(above).trim();
        if text.starts_with("//") {
            let says = text.contains("SAFETY:") || text.contains("# Safety");
            if says {
                return true;
            }
        } else if ends_another(text) {
            return false;
        }
        above -= 1;
    }
    false
}

fn calls(source: &Source<'_>) -> Vec<Violation> {
    let may_print = source.path == "suite/src/main.rs"
        || source.module.first().is_some_and(|module| module == "cli");
    let mut found = Vec::new();
    for call in &source.facts.calls {
        let forbidden = FORBIDDEN_CALLS.iter().find(|(name, _)| *name == call.name);
        if let Some((_, sentence)) = forbidden {
            found.push(Violation::new(source.path, call.line, *sentence));
        } else if !may_print && PRINTING.contains(&call.name.as_str()) {
            let sentence = format!("`{}` outside `cli`: nothing else speaks", call.name);
            found.push(Violation::new(source.path, call.line, sentence));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::super::repository::Repository;
    use super::super::source::parse_all;
    use super::super::{sentences, source::Source};

    /// What the rules say of a file of this path and text.
    fn said(path: &str, text: &str) -> Vec<String> {
        let files = [(path, text)];
        let repository = Repository::of(&files);
        let (sources, violations) = parse_all(&repository);
        assert!(violations.is_empty(), "{violations:?}");
        let found: Vec<_> = sources.iter().flat_map(|s: &Source<'_>| super::check(s)).collect();
        sentences(&found)
    }

    fn lines(count: usize) -> String {
        "//! Docs.\n".to_owned() + &"// x\n".repeat(count - 1)
    }

    #[test]
    fn a_file_may_have_500_lines_and_its_tests() {
        let path = "suite/src/a.rs";
        let tests = format!("#[cfg(test)]\nmod tests {{\n{}}}\n", "// x\n".repeat(200));
        assert!(said(path, &(lines(500) + &tests)).is_empty());
        assert_eq!(
            said(path, &(lines(501) + &tests)),
            ["suite/src/a.rs:501: the file has 501 lines; 500 are the limit"]
        );
        assert!(said("suite/src/a/tests.rs", &lines(900)).is_empty());
        assert_eq!(said("suite/tests/it/a.rs", &lines(901)).len(), 1);
    }

    #[test]
    fn a_function_fits_a_screen() {
        let function =
            |lines: usize| format!("//! Docs.\nfn f() {{\n{}}}\n", "// x\n".repeat(lines));
        assert!(said("suite/src/a.rs", &function(68)).is_empty());
        assert_eq!(
            said("suite/src/a.rs", &function(69)),
            ["suite/src/a.rs:2: the function `f` has 71 lines; 70 are the limit"]
        );
    }

    #[test]
    fn unsafe_code_has_its_places() {
        let text = "//! Docs.\nfn f() {\n    // SAFETY: it is sound.\n    unsafe { g() }\n}\n";
        assert!(said("suite/src/os/mounts.rs", text).is_empty());
        assert!(said("suite/src/engine/uring.rs", text).is_empty());
        assert_eq!(said("suite/src/engine/worker.rs", text).len(), 1);
        assert_eq!(said("suite/src/engine/uring.rs.rs", text).len(), 1);
        assert!(said("xtask/src/floor/ring.rs", text).is_empty());
        assert_eq!(said("xtask/src/main.rs", text).len(), 1);
    }

    #[test]
    fn unsafe_code_says_why_it_is_sound() {
        let path = "suite/src/os/a.rs";
        let broken =
            "//! Docs.\nfn f() {\n    // SAFETY: of another.\n    a();\n    unsafe { g() }\n}";
        assert_eq!(
            said(path, broken),
            ["suite/src/os/a.rs:5: unsafe code without a `SAFETY:` comment above it"]
        );
        let wrapped = "//! Docs.\nfn f() {\n    // SAFETY: long\n    // reason.\n    let x =\n\
                       unsafe { g() };\n}";
        assert!(said(path, wrapped).is_empty());
        let documented = "//! Docs.\n/// Does.\n///\n/// # Safety\n/// Be careful.\n#[inline]\n\
                          unsafe fn g() {}";
        assert!(said(path, documented).is_empty());
    }

    #[test]
    fn a_module_says_what_it_is_for() {
        assert_eq!(said("suite/src/a.rs", "fn f() {}").len(), 1);
        assert_eq!(said("xtask/src/a.rs", "// no docs\nfn f() {}").len(), 1);
        assert!(said("suite/src/a/tests.rs", "fn f() {}").is_empty());
    }

    #[test]
    fn only_cli_prints_and_nobody_unwraps() {
        let text = "//! Docs.\nfn f() {\n    println!(\"{}\", x.unwrap());\n}\n\
                    #[cfg(test)]\nmod tests {\n    fn g() { println!(\"{}\", x.unwrap()); }\n}";
        assert_eq!(said("suite/src/plan/a.rs", text).len(), 2);
        assert_eq!(said("suite/src/cli/a.rs", text).len(), 1);
        assert!(said("xtask/src/a.rs", text).is_empty());
    }
}
