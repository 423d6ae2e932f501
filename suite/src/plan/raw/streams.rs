//! The streams of a workload: tables of their own in it.

use crate::diag::Diagnostic;

use super::keys::{TIME_LINE_KEYS, WORKLOAD_KEYS};
use super::reader::{Key, Reader, Value};
use super::{At, Entry, RawStream, Section};

/// More at a time say nothing of each.
const STREAMS_MAX: usize = 16;

impl Reader<'_> {
    /// `[workloads.NAME.streams.NAME]`.
    pub(super) fn streams(&mut self, key: &Key<'_>, value: &Value<'_>) -> Section<RawStream> {
        let mut section = Section { items: Vec::new(), broken: false };
        let wanted = "named tables: `[workloads.NAME.streams.NAME]`";
        let Some(entries) = self.entries(key.name, value, wanted) else {
            return Section { broken: true, ..section };
        };
        let count = entries.len();
        if count == 0 || count > STREAMS_MAX {
            let message = format!("the workload has {count} streams");
            let label = format!("1 to {STREAMS_MAX}");
            self.error(Diagnostic::new("plan::out-of-range", message, key.span.clone(), label));
            return Section { broken: true, ..section };
        }
        for (name, value) in entries {
            self.check_name("a stream", name.name, &name.span, true);
            match self.stream(&name, value) {
                Some(stream) => section.items.push(stream),
                None => section.broken = true,
            }
        }
        section
    }

    fn stream(&mut self, name: &Key<'_>, value: &Value<'_>) -> Option<RawStream> {
        let mut entries = Vec::new();
        let mut doubtful = false;
        for (key, value) in self.entries(name.name, value, "a table of a stream's keys")? {
            let known = WORKLOAD_KEYS.iter().find(|known| **known == key.name);
            match known {
                Some(known) if TIME_LINE_KEYS.contains(known) => {
                    doubtful = true;
                    self.not_of_a_stream(&key);
                }
                Some(known) => {
                    let values = self.settings(known, value);
                    entries.push(Entry { key: known, key_span: key.span, values });
                }
                None => {
                    doubtful = true;
                    let mut keys = WORKLOAD_KEYS.to_vec();
                    keys.retain(|key| !TIME_LINE_KEYS.contains(key));
                    self.unknown_key(&key, "a stream", &keys);
                }
            }
        }
        let name = At { value: name.name.to_owned(), span: name.span.clone() };
        Some(RawStream { name, entries, doubtful })
    }

    fn not_of_a_stream(&mut self, key: &Key<'_>) {
        let message = format!("`{}` is of all streams of a workload", key.name);
        self.error(
            Diagnostic::new("plan::conflict", message, key.span.clone(), "not of one stream")
                .help(format!("write `{}` at the workload, beside `streams`", key.name)),
        );
    }

    /// Profiles change what all streams have.
    pub(super) fn no_streams_in_a_profile(&mut self, key: &Key<'_>) {
        let message = "a profile can't change streams";
        self.error(
            Diagnostic::new("plan::conflict", message, key.span.clone(), "not here")
                .note("its keys are those of the workload, which all of its streams have"),
        );
    }
}
