//! Reads single values: each function takes what it asks for, or says what is wrong and gives
//! `None`.

use std::collections::HashSet;
use std::fmt::Display;
use std::ops::RangeInclusive;

use toml::Spanned;
use toml::de::DeValue;

use crate::diag::{Diagnostic, Source, nearest};
use crate::units::{Bytes, Nanos, UnitError};

use super::keys::{OTHER_VERSIONS, meant};
use super::{At, Slot, Span, Text, Values};

pub(super) type Value<'t> = Spanned<DeValue<'t>>;

/// A key and where it stands.
pub(super) struct Key<'t> {
    pub name: &'t str,
    pub span: Span,
}

/// A word of the language and what it means.
pub(super) type Words<T> = [(&'static str, T)];

/// A plan's text being read, with all that was found wrong so far.
pub(super) struct Reader<'s> {
    pub(super) source: &'s Source,
    errors: Vec<Diagnostic>,
    /// Tables whose keys were told.
    told: HashSet<String>,
}

impl<'s> Reader<'s> {
    pub(super) fn new(source: &'s Source) -> Self {
        Self { source, errors: Vec::new(), told: HashSet::new() }
    }

    pub(super) fn into_errors(self) -> Vec<Diagnostic> {
        self.errors
    }

    pub(super) fn error(&mut self, diagnostic: Diagnostic) {
        self.errors.push(diagnostic);
    }

    /// Reads what a key holds into a slot.
    pub(super) fn slot<T>(
        &mut self,
        key: &Key<'_>,
        value: &Value<'_>,
        read: impl FnOnce(&mut Self, &str, &Value<'_>) -> Option<T>,
    ) -> Slot<T> {
        match read(self, key.name, value) {
            Some(found) => {
                Slot::Given { key: key.span.clone(), at: At { value: found, span: value.span() } }
            }
            None => Slot::Broken,
        }
    }

    /// The entries of a table in the order of the text.
    pub(super) fn entries<'t, 'v>(
        &mut self,
        key: &str,
        value: &'v Value<'t>,
        such_as: &str,
    ) -> Option<Vec<(Key<'v>, &'v Value<'t>)>> {
        match value.get_ref() {
            DeValue::Table(table) => Some(in_order(table)),
            _ => self.wrong_type(key, value, such_as),
        }
    }

    /// One value, or each of a list of values of which no two are the same.
    pub(super) fn values<T: Display>(
        &mut self,
        key: &str,
        value: &Value<'_>,
        mut read: impl FnMut(&mut Self, &str, &Value<'_>) -> Option<T>,
    ) -> Option<Values<T>> {
        let DeValue::Array(array) = value.get_ref() else {
            let found = read(self, key, value)?;
            let items = vec![At { value: found, span: value.span() }];
            return Some(Values { items, swept: false });
        };
        if array.is_empty() {
            let message = format!("`{key}` is an empty list");
            let help = "write one value, or a list of all that it is to take in turn";
            self.error(
                Diagnostic::new("plan::empty-list", message, value.span(), "no value").help(help),
            );
            return None;
        }
        let read: Vec<_> = array
            .iter()
            .map(|item| read(self, key, item).map(|value| At { value, span: item.span() }))
            .collect();
        let items = read.into_iter().collect::<Option<Vec<_>>>()?;
        let mut seen = HashSet::new();
        if let Some(again) = items.iter().find(|item| !seen.insert(item.value.to_string())) {
            let message = format!("`{key}` lists {} twice", again.value);
            self.error(
                Diagnostic::new("plan::twice", message, again.span.clone(), "given before")
                    .note("each value of a list makes a case of its own"),
            );
            return None;
        }
        Some(Values { items, swept: true })
    }

    /// A string.
    pub(super) fn text(&mut self, key: &str, value: &Value<'_>) -> Option<Text> {
        match value.get_ref() {
            DeValue::String(text) => Some(Text {
                value: text.clone().into_owned(),
                span: value.span(),
                inside: self.inside(&value.span(), text),
            }),
            _ => self.wrong_type(key, value, "a string"),
        }
    }

    /// A string or a list of strings.
    pub(super) fn texts(&mut self, key: &str, value: &Value<'_>) -> Option<Vec<Text>> {
        let DeValue::Array(array) = value.get_ref() else {
            return self.text(key, value).map(|text| vec![text]);
        };
        if array.is_empty() {
            let message = format!("`{key}` is an empty list");
            self.error(Diagnostic::new("plan::empty-list", message, value.span(), "no value"));
            return None;
        }
        let texts: Vec<_> = array.iter().map(|item| self.text(key, item)).collect();
        texts.into_iter().collect()
    }

    /// `true` or `false`.
    pub(super) fn switch(&mut self, key: &str, value: &Value<'_>) -> Option<bool> {
        match value.get_ref() {
            DeValue::Boolean(on) => Some(*on),
            _ => self.wrong_type(key, value, "`true` or `false`"),
        }
    }

    /// A whole number within limits.
    pub(super) fn integer(
        &mut self,
        key: &str,
        value: &Value<'_>,
        limits: RangeInclusive<u64>,
    ) -> Option<u64> {
        let DeValue::Integer(integer) = value.get_ref() else {
            if let DeValue::String(text) = value.get_ref()
                && let Ok(number) = text.parse::<u64>()
                && limits.contains(&number)
            {
                let message = format!("`{key}` takes a number without quotes");
                self.error(
                    Diagnostic::new("plan::wrong-type", message, value.span(), "a string").fix(
                        "write it without them",
                        value.span(),
                        number.to_string(),
                    ),
                );
                return None;
            }
            let (low, high) = limits.into_inner();
            return self.wrong_type(key, value, &format!("a whole number from {low} to {high}"));
        };
        let number = i128::from_str_radix(integer.as_str(), integer.radix()).ok();
        let number = number.and_then(|number| u64::try_from(number).ok());
        match number.filter(|number| limits.contains(number)) {
            Some(number) => Some(number),
            None => self.out_of_range(key, integer, &value.span(), limits.start(), limits.end()),
        }
    }

    /// A whole number within limits that fit 32 bits.
    pub(super) fn integer32(
        &mut self,
        key: &str,
        value: &Value<'_>,
        limits: RangeInclusive<u32>,
    ) -> Option<u32> {
        let (low, high) = limits.into_inner();
        let number = self.integer(key, value, u64::from(low)..=u64::from(high))?;
        u32::try_from(number).ok()
    }

    /// A number within limits, whole or not.
    pub(super) fn number(
        &mut self,
        key: &str,
        value: &Value<'_>,
        limits: RangeInclusive<f64>,
    ) -> Option<f64> {
        let written = match value.get_ref() {
            DeValue::Integer(integer) if integer.radix() == 10 => integer.as_str(),
            DeValue::Float(float) => float.as_str(),
            DeValue::String(text) => {
                let plain = text.trim_end_matches('%');
                let (low, high) = (limits.start(), limits.end());
                if !plain.parse().is_ok_and(|number| limits.contains(&number)) {
                    let wanted = format!("a number from {low} to {high}");
                    return self.wrong_type(key, value, &wanted);
                }
                let message = format!("`{key}` takes a number without quotes");
                self.error(
                    Diagnostic::new("plan::wrong-type", message, value.span(), "a string").fix(
                        "write the number alone",
                        value.span(),
                        plain,
                    ),
                );
                return None;
            }
            _ => {
                let (low, high) = limits.into_inner();
                return self.wrong_type(key, value, &format!("a number from {low} to {high}"));
            }
        };
        match written.parse().ok().filter(|number| limits.contains(number)) {
            Some(number) => Some(number),
            None => self.out_of_range(key, written, &value.span(), limits.start(), limits.end()),
        }
    }

    /// A size within limits.
    pub(super) fn bytes(
        &mut self,
        key: &str,
        value: &Value<'_>,
        limits: RangeInclusive<Bytes>,
    ) -> Option<Bytes> {
        let text = self.quantity(key, value, "a size such as \"4KiB\"", "B")?;
        let size =
            Bytes::parse(&text).map_err(|error| self.unit_error(value.span(), error)).ok()?;
        if limits.contains(&size) {
            return Some(size);
        }
        self.out_of_range(key, &text, &value.span(), limits.start(), limits.end())
    }

    /// A time within limits.
    pub(super) fn time(
        &mut self,
        key: &str,
        value: &Value<'_>,
        limits: RangeInclusive<Nanos>,
    ) -> Option<Nanos> {
        let text = self.quantity(key, value, "a time such as \"30s\"", "s")?;
        let time =
            Nanos::parse(&text).map_err(|error| self.unit_error(value.span(), error)).ok()?;
        if limits.contains(&time) {
            return Some(time);
        }
        self.out_of_range(key, &text, &value.span(), limits.start(), limits.end())
    }

    /// One of the words that a key takes. `elsewhere` are words of other versions.
    pub(super) fn word<T: Copy>(
        &mut self,
        key: &str,
        value: &Value<'_>,
        words: &Words<T>,
        elsewhere: &[&str],
    ) -> Option<T> {
        let known = one_of(words.iter().map(|(word, _)| *word));
        let DeValue::String(text) = value.get_ref() else {
            return self.wrong_type(key, value, &known);
        };
        if let Some((_, meaning)) = words.iter().find(|(word, _)| word == text) {
            return Some(*meaning);
        }
        let unknown = |message: String| {
            Diagnostic::new("plan::unknown-value", message, value.span(), "not known")
        };
        if elsewhere.contains(&text.as_ref()) {
            let message = format!("this version of diskproof does not know the {key} `{text}`");
            self.error(unknown(message).note(format!("`{key}` is {known}")));
            return None;
        }
        let diagnostic =
            unknown(format!("`{key}` can't be `{text}`")).note(format!("`{key}` is {known}"));
        self.error(match nearest(text, words.iter().map(|(word, _)| *word)) {
            Some(near) => {
                diagnostic.fix(format!("use `{near}`"), value.span(), format!("\"{near}\""))
            }
            None => diagnostic,
        });
        None
    }

    /// The string of a quantity; a bare number gets told which unit it lacks.
    pub(super) fn quantity(
        &mut self,
        key: &str,
        value: &Value<'_>,
        such_as: &str,
        unit: &str,
    ) -> Option<String> {
        let number = match value.get_ref() {
            DeValue::String(text) => return Some(text.clone().into_owned()),
            DeValue::Integer(integer) if integer.radix() == 10 => integer.as_str(),
            DeValue::Float(float) => float.as_str(),
            _ => return self.wrong_type(key, value, such_as),
        };
        let message = format!("`{key}` takes {such_as}, and {number} has no unit");
        let fixed = format!("\"{number}{unit}\"");
        let plain = number.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
        // Nobody who writes `size = 64` means 64 bytes.
        let plain = plain && (unit != "B" || number.len() > 3);
        let diagnostic = Diagnostic::new("plan::wrong-type", message, value.span(), "no unit");
        self.error(if plain {
            let meant = if unit == "B" { "bytes" } else { "seconds" };
            diagnostic.fix(format!("if {meant} are meant, write"), value.span(), fixed)
        } else {
            diagnostic
        });
        None
    }

    /// Says that a quantity can't be read.
    pub(super) fn unit_error(&mut self, span: Span, error: UnitError) {
        let diagnostic = Diagnostic::new("plan::bad-quantity", error.message, span.clone(), "");
        self.error(match error.instead {
            Some(instead) => diagnostic.fix("write", span, format!("\"{instead}\"")),
            None => diagnostic,
        });
    }

    /// Says that a value is too small or too large.
    pub(super) fn out_of_range<T>(
        &mut self,
        key: &str,
        written: impl Display,
        span: &Span,
        low: impl Display,
        high: impl Display,
    ) -> Option<T> {
        let message = format!("`{key}` can't be {written}");
        let label = format!("has to be from {low} to {high}");
        self.error(Diagnostic::new("plan::out-of-range", message, span.clone(), label));
        None
    }

    /// Says that a key holds another kind of value than it takes.
    pub(super) fn wrong_type<T>(
        &mut self,
        key: &str,
        value: &Value<'_>,
        wanted: &str,
    ) -> Option<T> {
        let found = match value.get_ref() {
            DeValue::String(_) => "a string",
            DeValue::Integer(_) => "a whole number",
            DeValue::Float(_) => "a decimal number",
            DeValue::Boolean(_) => "true or false",
            DeValue::Datetime(_) => "a date or time of day",
            DeValue::Array(_) => "a list",
            DeValue::Table(_) => "a table",
        };
        let message = format!("`{key}` takes {wanted}");
        let label = format!("this is {found}");
        self.error(Diagnostic::new("plan::wrong-type", message, value.span(), label));
        None
    }

    /// Says that a table has a key that isn't known there.
    pub(super) fn unknown_key(&mut self, key: &Key<'_>, table: &str, known: &[&str]) {
        let Key { name, span } = key;
        let unknown =
            |message| Diagnostic::new("plan::unknown-key", message, span.clone(), "not known");
        // The keys of a table are told once: who has many wrong ones needs them once, too.
        let first = self.told.insert(table.to_owned());
        let keys = first.then(|| format!("{table} has {}", listed(known.iter().copied())));
        if OTHER_VERSIONS.contains(name) {
            let message = format!("this version of diskproof does not know `{name}`");
            let mut diagnostic = unknown(message);
            if *name == "filesystem" {
                diagnostic = diagnostic.note("a workload runs on the disks themselves");
            }
            diagnostic.notes.extend(keys);
            self.error(diagnostic);
            return;
        }
        if *name == "direct" && known.contains(&"cache") {
            let message = "a workload has no key `direct`".to_owned();
            let help = "direct I/O is the default; `cache = \"buffered\"` goes through the cache";
            self.error(unknown(message).help(help));
            return;
        }
        let mut diagnostic = unknown(format!("{table} has no key `{name}`"));
        if let Some(near) = meant(name, known) {
            diagnostic = diagnostic.fix(format!("use `{near}`"), span.clone(), near);
        } else {
            diagnostic.notes.extend(keys);
        }
        self.error(diagnostic);
    }

    /// Says that a table lacks a key.
    pub(super) fn missing_key(&mut self, key: &str, of: &str, span: Span, such_as: &str) {
        let message = format!("{of} has no `{key}`");
        let label = format!("`{key}` is missing");
        self.error(
            Diagnostic::new("plan::missing-key", message, span, label)
                .help(format!("add `{such_as}`")),
        );
    }

    /// Where the first character of a string stands, if it is written without escapes.
    pub(super) fn inside(&self, span: &Span, value: &str) -> Option<usize> {
        let written = self.source.text.get(span.clone())?;
        ["\"\"\"", "'''", "\"", "'", ""].into_iter().find_map(|quote| {
            let body = written.strip_prefix(quote)?.strip_suffix(quote)?;
            (body == value).then_some(span.start + quote.len())
        })
    }
}

/// The entries of a table in the order of the text.
pub(super) fn in_order<'v, 't>(table: &'v toml::de::DeTable<'t>) -> Vec<(Key<'v>, &'v Value<'t>)> {
    let mut entries: Vec<_> = table
        .iter()
        .map(|(key, value)| (Key { name: key.get_ref().as_ref(), span: key.span() }, value))
        .collect();
    entries.sort_by_key(|(key, _)| key.span.start);
    entries
}

/// What a key can be, as the end of a sentence: `a`, or one of `a` and `b`.
fn one_of<'w>(words: impl ExactSizeIterator<Item = &'w str>) -> String {
    if words.len() == 1 { listed(words) } else { format!("one of {}", listed(words)) }
}

/// `a`, `b` and `c`, each between backticks.
pub(super) fn listed<'w>(words: impl IntoIterator<Item = &'w str>) -> String {
    let mut words: Vec<_> = words.into_iter().map(|word| format!("`{word}`")).collect();
    match words.pop() {
        Some(last) if words.is_empty() => last,
        Some(last) => format!("{} and {last}", words.join(", ")),
        None => "nothing".to_owned(),
    }
}
