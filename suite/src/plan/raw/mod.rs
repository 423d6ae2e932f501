//! The shape of a plan: which keys it has, what they hold, and where each of them stands.
//!
//! Every value is read on its own, with its own limits; what it means beside the others is
//! [`check`](super::check())'s to say. A table is read to its end whatever is wrong in it, so that
//! all errors come at once, and what was wrong leaves a [`Slot::Broken`] behind, so that nothing
//! is said twice about it. Nothing here knows what a plan is for.

mod keys;
mod pace;
mod reader;
mod setting;
mod streams;
mod syntax;
mod tables;

use std::ops::Range;

use crate::diag::{Diagnostic, Source};
use crate::units::Bytes;

use super::assertion::Level;
use super::model::{Inconclusive, Order, Rounds, StripeDriver};
use reader::Reader;

pub(super) use setting::Setting;
pub use tables::NAME_MAX;

/// A plan's text can't be longer: no person writes one that is.
const TEXT_MAX: usize = 1 << 20;

/// A byte range of the plan's text.
pub(super) type Span = Range<usize>;

/// A plan whose shape is right.
#[derive(Debug, Clone)]
pub struct RawPlan {
    pub(super) source: Source,
    pub(super) name: Option<At<String>>,
    pub(super) description: Option<String>,
    pub(super) disks: Section<RawDisk>,
    pub(super) setups: Section<RawSetup>,
    pub(super) workloads: Section<RawWorkload>,
    pub(super) expects: Vec<RawExpect>,
    pub(super) run: RawRun,
    pub(super) profiles: Vec<RawProfile>,
}

/// A value and where it stands.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct At<T> {
    pub value: T,
    pub span: Span,
}

/// What a key holds.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) enum Slot<T> {
    /// The key is not there.
    #[default]
    Absent,
    /// It is there and wrong, which has been said.
    Broken,
    /// It is there, at `key`.
    Given { key: Span, at: At<T> },
}

/// A string and where it stands; parts of it can be pointed at.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Text {
    pub value: String,
    /// With its quotes.
    pub span: Span,
    /// Where its first character stands, if the text between the quotes is the value letter for
    /// letter: a string with escapes can only be pointed at as a whole.
    pub inside: Option<usize>,
}

/// One value, or a list of them that is swept.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Values<T> {
    pub items: Vec<At<T>>,
    pub swept: bool,
}

/// The tables of `[disks.…]`, `[setups.…]` or `[workloads.…]`.
#[derive(Debug, Clone)]
pub(super) struct Section<T> {
    pub items: Vec<T>,
    /// Whether something of it could not be read, so that nothing follows from what isn't there.
    pub broken: bool,
}

#[derive(Debug, Clone)]
pub(super) struct RawDisk {
    pub name: At<String>,
    pub keys: DiskKeys,
}

#[derive(Debug, Clone, Default)]
pub(super) struct DiskKeys {
    pub size: Slot<Bytes>,
    pub count: Slot<u32>,
    pub directory: Slot<String>,
    pub device: Slot<String>,
    pub null: Slot<bool>,
    /// Whether the table has keys that are not known: one of them may be what seems missing.
    pub doubtful: bool,
}

#[derive(Debug, Clone)]
pub(super) struct RawSetup {
    pub name: At<String>,
    pub disks: Slot<Vec<Member>>,
    pub stripe: Slot<RawStripe>,
    pub workloads: Slot<Vec<Text>>,
    pub doubtful: bool,
}

/// A disk of a setup, and how many of a counted one.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Member {
    pub name: At<String>,
    pub take: Option<Values<u32>>,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) struct RawStripe {
    pub driver: Slot<StripeDriver>,
    pub chunk: Slot<Values<Bytes>>,
}

#[derive(Debug, Clone)]
pub(super) struct RawWorkload {
    pub name: At<String>,
    pub entries: Vec<Entry>,
    pub doubtful: bool,
    /// Whether it is a stream, laid out as a workload.
    pub is_stream: bool,
    /// Which of its keys stand at the workload of which it is a stream.
    pub inherited: Vec<&'static str>,
    /// Loads side by side, if it has any.
    pub streams: Option<Section<RawStream>>,
}

/// One of the streams of a workload.
#[derive(Debug, Clone)]
pub(super) struct RawStream {
    pub name: At<String>,
    pub entries: Vec<Entry>,
    pub doubtful: bool,
}

/// A key of a workload.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Entry {
    pub key: &'static str,
    pub key_span: Span,
    /// `None` if it is wrong, which has been said.
    pub values: Option<Values<Setting>>,
}

#[derive(Debug, Clone)]
pub(super) struct RawExpect {
    pub case: Slot<Text>,
    pub that: Slot<Vec<Text>>,
    pub why: Slot<String>,
    pub level: Slot<Level>,
}

#[derive(Debug, Clone, Default)]
pub(super) struct RawRun {
    pub rounds: Slot<Rounds>,
    pub order: Slot<Order>,
    pub inconclusive: Slot<Inconclusive>,
}

#[derive(Debug, Clone)]
pub(super) struct RawProfile {
    pub name: At<String>,
    pub disks: Vec<(Text, DiskKeys)>,
    pub workloads: Vec<(Text, Vec<Entry>)>,
    pub run: RawRun,
}

/// Reads the shape of a plan.
///
/// # Errors
/// Everything that is wrong with the plan, in the order of the text: what is wrong in its shape,
/// and what is wrong in the meaning of the rest.
pub fn parse(source: &Source) -> Result<RawPlan, Vec<Diagnostic>> {
    if source.text.len() > TEXT_MAX {
        let message = format!("a plan of {} bytes is too long", source.text.len());
        let limit = format!("a plan has at most {} of text", Bytes(TEXT_MAX as u64));
        return Err(vec![Diagnostic::new("plan::too-large", message, 0..0, "").note(limit)]);
    }
    let (table, errors) = toml::de::DeTable::parse_recoverable(&source.text);
    if !errors.is_empty() {
        // What TOML makes of a broken text is a guess: nothing can be said about it.
        return Err(syntax::diagnostics(source, &errors));
    }
    let mut reader = Reader::new(source);
    let plan = reader.plan(table.get_ref());
    let mut errors = reader.into_errors();
    if errors.is_empty() {
        return Ok(plan);
    }
    errors.extend(super::check::problems(&plan));
    super::check::order(&mut errors);
    Err(errors)
}

impl RawPlan {
    /// The names of its profiles, in the order of the text.
    pub fn profiles(&self) -> impl Iterator<Item = &str> {
        self.profiles.iter().map(|profile| profile.name.value.as_str())
    }
}

impl<T> Slot<T> {
    /// The value, if it is there and right.
    pub(super) fn get(&self) -> Option<&At<T>> {
        match self {
            Self::Given { at, .. } => Some(at),
            Self::Absent | Self::Broken => None,
        }
    }

    /// Where the key stands, if the value is right.
    pub(super) fn key(&self) -> Option<Span> {
        match self {
            Self::Given { key, .. } => Some(key.clone()),
            Self::Absent | Self::Broken => None,
        }
    }

    /// Whether the key is not there.
    pub(super) fn is_absent(&self) -> bool {
        matches!(self, Self::Absent)
    }

    /// Whether the key is there and wrong.
    pub(super) fn is_broken(&self) -> bool {
        matches!(self, Self::Broken)
    }
}

impl Text {
    /// Where a part of the value stands in the plan's text.
    pub(super) fn part(&self, part: Span) -> Span {
        match self.inside {
            Some(start) => start + part.start..start + part.end,
            None => self.span.clone(),
        }
    }

    /// What to replace to put something else in the place of a part of the value, if that can be
    /// said.
    pub(super) fn patchable(&self) -> bool {
        self.inside.is_some()
    }
}
