//! Says in a person's words what TOML found wrong with a text.

use std::collections::HashSet;

use crate::diag::{Diagnostic, Source};

use super::Span;

const CODE: &str = "plan::syntax";

/// What is wrong with a text that is not TOML: the first fault of each line, since the others of
/// a line follow from it.
pub(super) fn diagnostics(source: &Source, errors: &[toml::de::Error]) -> Vec<Diagnostic> {
    let end = source.text.len();
    let mut found: Vec<_> =
        errors.iter().map(|error| (error.span().unwrap_or(end..end), error.message())).collect();
    found.sort_by_key(|(span, _)| span.start);
    let mut lines = HashSet::new();
    found.retain(|(span, _)| lines.insert(source.position(span.start).0));
    found.into_iter().map(|(span, message)| diagnostic(&source.text, span, message)).collect()
}

fn diagnostic(text: &str, span: Span, message: &str) -> Diagnostic {
    let word = text.get(span.clone()).unwrap_or_default();
    if message.starts_with("string values must be quoted") {
        return unquoted(span, word);
    }
    if message == "duplicate key" {
        return duplicate(text, span, word);
    }
    if message.starts_with("invalid unquoted key") {
        let message = format!("`{word}` can't stand in a key without quotes");
        return Diagnostic::new(CODE, message, span, "not a letter, digit, `-` or `_`")
            .help("write the key between quotes: `workloads.\"*\"`");
    }
    if message.starts_with("invalid boolean") {
        let diagnostic =
            Diagnostic::new(CODE, format!("`{word}` is not a value"), span.clone(), "");
        return match word.to_ascii_lowercase().as_str() {
            lower @ ("true" | "false") => diagnostic.fix("write it small", span, lower),
            _ => diagnostic,
        };
    }
    if message.contains("string, expected")
        && message.ends_with(['"', '\'', '`'])
        && word.is_empty()
    {
        let quote = message.rsplit("expected ").next().unwrap_or("a quote");
        return Diagnostic::new(
            CODE,
            "the string is not closed",
            span,
            format!("{quote} is missing"),
        );
    }
    let (what, wanted) = message.split_once(", expected ").unwrap_or((message, ""));
    let label = if wanted.is_empty() { String::new() } else { format!("expected {wanted}") };
    Diagnostic::new(CODE, what, span, label)
}

fn unquoted(span: Span, word: &str) -> Diagnostic {
    if word.is_empty() {
        return Diagnostic::new(CODE, "a value is missing", span, "it belongs here");
    }
    if word.contains(char::is_whitespace) {
        return Diagnostic::new(CODE, "this is not a value", span, "")
            .note("a string stands between quotes, a comment behind `#`, a key on its own line");
    }
    Diagnostic::new(CODE, format!("`{word}` has no quotes"), span.clone(), "not a value").fix(
        "write it between quotes",
        span,
        format!("\"{word}\""),
    )
}

fn duplicate(text: &str, span: Span, word: &str) -> Diagnostic {
    let header = text[..span.start].ends_with('[');
    if header && word == "expect" {
        return Diagnostic::new(CODE, "`[expect]` is given more than once", span, "")
            .help("write `[[expect]]` before each expectation");
    }
    let line_start = text[..span.start].rfind('\n').map_or(0, |newline| newline + 1);
    let line = text[line_start..].lines().next().unwrap_or_default().trim();
    let name = if line.starts_with('[') { line } else { word };
    Diagnostic::new(CODE, format!("`{name}` is given twice"), span, "given before")
}
