//! Reports: a record as text for the terminal, as JUnit XML, as a page and as Markdown.
//!
//! Each is a pure function of the [`Record`](crate::record::Record): the same record gives the
//! same bytes on every machine. Nothing is decided again here; what the verdicts say is shown,
//! with what they were decided on. Nothing here may know clocks, the environment, devices, or how
//! a record came to be. What a plan's author wrote is never trusted: control characters, markup
//! and terminal escapes in it come out as text.

mod chart;
mod detail;
mod facts;
mod html;
mod junit;
mod markdown;
mod terminal;
mod text;

#[cfg(test)]
mod tests;

pub use html::html;
pub use junit::junit;
pub use markdown::markdown;
pub use terminal::{ReportPaths, Style, terminal};
pub(crate) use text::shell_word;
