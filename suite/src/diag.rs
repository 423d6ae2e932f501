//! Diagnostics: what is wrong with a text, where, why, and what to type instead.
//!
//! One value, several renderings: for the terminal with carets, and as JSON. Nothing here knows
//! TOML or devices.

use std::ops::Range;

use serde::Serialize;

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
