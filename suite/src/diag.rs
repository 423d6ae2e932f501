//! Diagnostics: what is wrong with a text, where, why, and what to type instead.
//!
//! One value, several renderings: for the terminal with carets, and as JSON. Rendering never
//! panics, whatever the text and the spans are: a span that is off is moved to where it can be
//! shown. Nothing here knows TOML or devices.

use std::fmt::Write as _;
use std::ops::Range;

use annotate_snippets::{AnnotationKind, Group, Level, Patch, Renderer, Snippet};
use serde::Serialize;

use crate::units::escaped;

/// How many diagnostics of one text are drawn; the rest is counted.
const SHOWN_MAX: usize = 20;

/// A text that diagnostics point into.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Source {
    /// Its name as the person gave it.
    pub name: String,
    /// The whole text.
    pub text: String,
}

/// One thing that is wrong.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Diagnostic {
    /// A stable code, `plan::unknown-disk`.
    pub code: &'static str,
    /// What is wrong.
    pub message: String,
    /// Byte range of the word that is wrong, and what is said under it.
    pub label: Label,
    /// Other places that explain it.
    pub context: Vec<Label>,
    /// Why it is so.
    pub notes: Vec<String>,
    /// What to type.
    pub help: Option<Help>,
}

/// A place in the text with what is said under it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Label {
    /// Byte range.
    pub span: Range<usize>,
    /// What is said there; may be empty.
    pub text: String,
}

/// What to do about it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Help {
    /// In words.
    pub message: String,
    /// The change to the text that would do it: replace this range by this.
    pub patch: Option<(Range<usize>, String)>,
}

/// A diagnostic with its place as a person counts, for JSON.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Located<'d> {
    /// Name of the text.
    pub file: &'d str,
    /// Line, from 1.
    pub line: usize,
    /// Column in characters, from 1.
    pub column: usize,
    /// What is wrong there.
    #[serde(flatten)]
    pub diagnostic: &'d Diagnostic,
}

impl Source {
    /// Line and column, both from 1, of a byte of the text; columns count characters.
    #[must_use]
    pub fn position(&self, offset: usize) -> (usize, usize) {
        let offset = floor_boundary(&self.text, offset);
        let before = &self.text[..offset];
        let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
        let line = before.bytes().filter(|byte| *byte == b'\n').count() + 1;
        (line, before[line_start..].chars().count() + 1)
    }
}

impl Diagnostic {
    /// A diagnostic with a word under its place, and nothing else so far.
    #[must_use]
    pub fn new(
        code: &'static str,
        message: impl Into<String>,
        span: Range<usize>,
        label: impl Into<String>,
    ) -> Self {
        Self {
            code,
            message: message.into(),
            label: Label { span, text: label.into() },
            context: Vec::new(),
            notes: Vec::new(),
            help: None,
        }
    }

    /// With another place that explains it.
    #[must_use]
    pub fn context(mut self, span: Range<usize>, text: impl Into<String>) -> Self {
        self.context.push(Label { span, text: text.into() });
        self
    }

    /// With a reason.
    #[must_use]
    pub fn note(mut self, note: impl Into<String>) -> Self {
        self.notes.push(note.into());
        self
    }

    /// With advice in words.
    #[must_use]
    pub fn help(mut self, message: impl Into<String>) -> Self {
        self.help = Some(Help { message: message.into(), patch: None });
        self
    }

    /// With advice and the change to the text that follows it.
    #[must_use]
    pub fn fix(
        mut self,
        message: impl Into<String>,
        span: Range<usize>,
        replacement: impl Into<String>,
    ) -> Self {
        let patch = Some((span, replacement.into()));
        self.help = Some(Help { message: message.into(), patch });
        self
    }

    /// With its line and column, for JSON.
    #[must_use]
    pub fn located<'d>(&'d self, source: &'d Source) -> Located<'d> {
        let (line, column) = source.position(self.label.span.start);
        Located { file: &source.name, line, column, diagnostic: self }
    }

    /// Drawn for the terminal: code and message, the line with a caret under the very word, the
    /// reasons, and the corrected line where a change is known. Ends with a newline.
    #[must_use]
    pub fn render(&self, source: &Source, color: bool) -> String {
        let text = &source.text;
        let name = escaped(&source.name);
        let primary = AnnotationKind::Primary
            .span(clamped(text, &self.label.span))
            .label(Some(escaped(&self.label.text)).filter(|label| !label.is_empty()));
        let context = self.context.iter().map(|label| {
            AnnotationKind::Context
                .span(clamped(text, &label.span))
                .label(Some(escaped(&label.text)).filter(|label| !label.is_empty()))
        });
        let snippet =
            Snippet::source(text).path(&name).annotation(primary).annotations(context.rev());
        let mut report = vec![
            Level::ERROR
                .primary_title(escaped(&self.message))
                .id(self.code)
                .element(snippet)
                .elements(self.notes.iter().map(|note| Level::NOTE.message(escaped(note)))),
        ];
        match &self.help {
            Some(Help { message, patch: Some((span, replacement)) }) => {
                let patch = Patch::new(clamped(text, span), escaped(replacement));
                let snippet = Snippet::source(text).patch(patch);
                let title = Level::HELP.secondary_title(escaped(message));
                report.push(Group::with_title(title).element(snippet));
            }
            Some(Help { message, patch: None }) => {
                let group = report.remove(0);
                report.push(group.element(Level::HELP.message(escaped(message))));
            }
            None => {}
        }
        let renderer = if color { Renderer::styled() } else { Renderer::plain() };
        let drawn = renderer.render(&report);
        format!("{}\n", drawn.trim_end_matches('\n'))
    }
}

/// Every diagnostic of one text in the text's order, at most twenty, then how many more there are.
#[must_use]
pub fn render_all(diagnostics: &[Diagnostic], source: &Source, color: bool) -> String {
    let mut ordered: Vec<_> = diagnostics.iter().collect();
    ordered.sort_by_key(|diagnostic| diagnostic.label.span.start);
    let drawn: Vec<_> =
        ordered.iter().take(SHOWN_MAX).map(|diagnostic| diagnostic.render(source, color)).collect();
    let mut all = drawn.join("\n");
    let more = ordered.len().saturating_sub(SHOWN_MAX);
    if more > 0 {
        let errors = if more == 1 { "error" } else { "errors" };
        // Writing into a string can't fail.
        let _ = writeln!(all, "\nand {more} more {errors}");
    }
    all
}

/// The candidate that was most likely meant by `name`; `None` unless one is really close and no
/// other is as close.
#[must_use]
pub fn nearest<'a>(name: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    // Nobody mistypes a name of this length; comparing takes the product of both lengths.
    const LONGEST: usize = 100;
    let plain = |text: &str| text.to_ascii_lowercase().replace(['_', ' '], "-");
    let wanted = plain(name);
    let mut best: Option<(usize, &str)> = None;
    let mut tied = false;
    for candidate in candidates {
        if name.len() > LONGEST || candidate.len() > LONGEST || candidate == name {
            continue;
        }
        let known = plain(candidate);
        let distance = strsim::damerau_levenshtein(&wanted, &known);
        if distance > wanted.chars().count().max(known.chars().count()) / 3 {
            continue;
        }
        match best {
            Some((closest, same)) if distance == closest => tied |= same != candidate,
            Some((closest, _)) if distance > closest => {}
            _ => (best, tied) = (Some((distance, candidate)), false),
        }
    }
    best.filter(|_| !tied).map(|(_, candidate)| candidate)
}

/// `span`, moved to where it lies in the text, between characters.
fn clamped(text: &str, span: &Range<usize>) -> Range<usize> {
    let start = floor_boundary(text, span.start);
    let mut end = span.end.clamp(start, text.len());
    while !text.is_char_boundary(end) {
        end += 1;
    }
    start..end
}

/// The last character boundary at or before `offset`.
fn floor_boundary(text: &str, offset: usize) -> usize {
    let mut offset = offset.min(text.len());
    while !text.is_char_boundary(offset) {
        offset -= 1;
    }
    offset
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn source(text: &str) -> Source {
        Source { name: "stripe.toml".to_owned(), text: text.to_owned() }
    }

    #[test]
    fn a_caret_a_context_and_the_corrected_line() {
        let source = source("[disks.quad]\nsize = \"1GiB\"\n\ndisk = \"qaud\"\n");
        let drawn = Diagnostic::new("plan::unknown-disk", "no disk is called `qaud`", 35..41, "?")
            .context(7..11, "this one is close")
            .note("names are compared letter by letter")
            .fix("use the disk that exists", 35..41, "\"quad\"")
            .render(&source, false);
        snapbox::assert_data_eq!(
            drawn,
            snapbox::str![[r#"
error[plan::unknown-disk]: no disk is called `qaud`
 --> stripe.toml:4:8
  |
1 | [disks.quad]
  |        ---- this one is close
...
4 | disk = "qaud"
  |        ^^^^^^ ?
  |
  = note: names are compared letter by letter
help: use the disk that exists
  |
4 - disk = "qaud"
4 + disk = "quad"
  |

"#]]
        );
    }

    #[test]
    fn twenty_are_drawn_and_the_rest_is_counted() {
        let source = source("x\n");
        let all: Vec<_> = (0..22).map(|_| Diagnostic::new("a::b", "wrong", 0..1, "")).collect();
        let drawn = render_all(&all, &source, false);
        assert_eq!(drawn.matches("error[a::b]").count(), 20);
        assert!(drawn.ends_with("\nand 2 more errors\n"), "{drawn}");
        assert!(!render_all(&all[..20], &source, false).contains("more"));
    }

    #[test]
    fn control_characters_are_shown_and_not_sent() {
        let source = source("a\u{1b}[31mb\n");
        let drawn = Diagnostic::new("a::b", "\u{1b}[2J\r\u{7}", 0..3, "\u{9b}1m\n")
            .note("\u{1b}]0;title\u{7}\u{202e}")
            .help("\u{8}")
            .render(&source, false);
        assert!(drawn.chars().all(|c| c == '\n' || !crate::units::acts(c)), "{drawn:?}");
    }

    #[test]
    fn json_counts_lines_and_columns_from_one() {
        let source = source("é = 1\nü = x\n");
        let diagnostic = Diagnostic::new("a::b", "wrong", 12..13, "here");
        let json = serde_json::to_value(diagnostic.located(&source)).expect("plain data");
        assert_eq!((&json["line"], &json["column"]), (&2.into(), &5.into()));
        assert_eq!(json["code"], "a::b");
        assert_eq!(json["file"], "stripe.toml");
    }

    #[test]
    fn nearest_is_close_and_sure_or_nothing() {
        assert_eq!(nearest("qaud", ["quad", "single"]), Some("quad"));
        assert_eq!(nearest("blocksize", ["block_size", "size"]), Some("block_size"));
        assert_eq!(nearest("Queue-Depth", ["queue_depth"]), Some("queue_depth"));
        assert_eq!(nearest("lrt", ["lrs", "zrs"]), Some("lrs"));
        assert_eq!(nearest("data-1", ["data-2", "data-3"]), None, "two are as close");
        assert_eq!(nearest("a", ["b"]), None);
        assert_eq!(nearest("remote", ["local"]), None);
        assert_eq!(nearest("", ["a"]), None);
    }

    /// Texts with everything that is awkward: characters of many bytes, line ends of both kinds.
    fn awkward() -> impl Strategy<Value = String> {
        let piece = prop_oneof![
            Just("\r\n".to_owned()),
            Just("\n".to_owned()),
            Just("\t".to_owned()),
            Just("\u{feff}".to_owned()),
            Just("\u{1b}[0m".to_owned()),
            Just("日本é\u{301}👩‍👩‍👧".to_owned()),
            "[a-z =\"]{0,12}",
            ".{0,6}",
        ];
        proptest::collection::vec(piece, 0..12).prop_map(|pieces| pieces.concat())
    }

    proptest! {
        #[test]
        fn rendering_never_panics(
            text in awkward(),
            said in awkward(),
            spans in proptest::array::uniform4((0_usize..80, 0_usize..80)),
            color: bool,
        ) {
            let source = Source { name: said.clone(), text };
            let [primary, context, other, patch] = spans.map(|(start, end)| start..end);
            let diagnostic = Diagnostic::new("a::b", said.clone(), primary, said.clone())
                .context(context, said.clone())
                .context(other, "")
                .note(said.clone())
                .fix(said.clone(), patch, said);
            prop_assert!(diagnostic.render(&source, color).ends_with('\n'));
            let (line, column) = source.position(diagnostic.label.span.start);
            prop_assert!(line >= 1 && column >= 1);
        }
    }
}
