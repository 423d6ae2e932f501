use super::*;

fn facts(text: &str) -> Facts {
    let module = ["plan".to_owned(), "check".to_owned()];
    Facts::of(&syn::parse_file(text).unwrap(), &module)
}

/// Line and absolute path of every use within the crate.
fn inside(text: &str) -> Vec<String> {
    let facts = facts(text);
    let inside = facts.paths.iter().filter(|path| path.in_crate);
    inside.map(|path| format!("{} {}", path.line, path.parts.join("::"))).collect()
}

#[test]
fn every_leaf_of_a_use_is_a_path_from_the_root() {
    let text = "use crate::{rig, units::{self, Bytes}};\nuse super::model::*;\nuse self::part;\n\
                pub use super::super::record as archive;";
    assert_eq!(
        inside(text),
        [
            "1 rig",
            "1 units",
            "1 units::Bytes",
            "2 plan::model::*",
            "3 plan::check::part",
            "4 record"
        ]
    );
}

#[test]
fn paths_in_types_expressions_patterns_and_macros_count() {
    let text = "
fn f(a: &crate::rig::Rig) -> Vec<crate::engine::Job> {
    let b = crate::judge::judge(a);
    match b { crate::record::Outcome::Pass => {} }
    println!(\"{}\", super::super::report::text(vec![crate::session::now()]));
}
impl crate::os::Host for X {}
#[derive(crate::cli::Shape)]
struct X;";
    assert_eq!(
        inside(text),
        [
            "2 rig::Rig",
            "2 engine::Job",
            "3 judge::judge",
            "4 record::Outcome::Pass",
            "5 report::text",
            "5 session::now",
            "7 os::Host",
            "8 cli::Shape"
        ]
    );
}

#[test]
fn a_module_inside_the_file_is_one_step_deeper() {
    assert_eq!(inside("mod inner { use super::super::parse; }"), ["1 plan::parse"]);
}

#[test]
fn what_is_for_tests_is_exempt() {
    let text = "
#[cfg(test)] use crate::rig;
#[cfg(all(test, feature = \"x\"))] fn f() { crate::rig::build().unwrap(); }
impl X { #[cfg(test)] fn g() { crate::rig::build().unwrap(); } }
#[cfg(test)]
mod tests {
    use crate::rig;
    #[test] fn h() { assert!(crate::rig::build().unwrap()); }
}";
    assert!(inside(text).is_empty());
    let facts = facts(text);
    assert!(facts.calls.is_empty());
    assert_eq!(facts.test_modules, [(5, 9)]);
    assert_eq!(inside("#[cfg(not(test))] use crate::rig;"), ["1 rig"]);
    assert_eq!(inside("#[cfg(any(test, unix))] use crate::rig;"), ["1 rig"]);
}

#[test]
fn calls_are_found_in_macros_too() {
    let text =
        "fn f() {\n x.unwrap();\n write!(out, \"{}\", y.unwrap(), todo!());\n a.unwrap_or(1);\n}";
    let facts = facts(text);
    let calls: Vec<_> = facts.calls.iter().map(|call| (call.line, &*call.name)).collect();
    assert_eq!(
        calls,
        [(2, "unwrap"), (3, "write!"), (3, "unwrap"), (3, "todo!"), (4, "unwrap_or")]
    );
}

#[test]
fn unsafe_words_are_found_wherever_they_stand() {
    let text = "
unsafe fn f() {}
unsafe impl Send for X {}
unsafe extern \"C\" {}
fn g() { unsafe { f() } }
fn h() { assert!(unsafe { k() }); }";
    assert_eq!(facts(text).unsafe_lines, [2, 3, 4, 5, 6]);
}

#[test]
fn functions_have_their_length() {
    let text = "/// Docs.\n#[inline]\nfn f(\n) {\n}\ntrait T { fn g() {}\n fn h(); }";
    let functions = facts(text).functions;
    let lines: Vec<_> = functions.iter().map(|f| (&*f.name, f.first, f.last)).collect();
    assert_eq!(lines, [("f", 3, 5), ("g", 6, 6)]);
}
