//! Reads the tables of a plan.

use toml::de::{DeTable, DeValue};

use crate::diag::Diagnostic;
use crate::units::Bytes;

use super::super::assertion::Level;
use super::super::model::{Inconclusive, Order, Rounds, StripeDriver};
use super::keys::{
    DISK_KEYS, EXPECT_KEYS, PLAN_KEYS, PROFILE_KEYS, RESERVED, ROUNDS_KEYS, RUN_KEYS, SETUP_KEYS,
    STREAMS_KEY, STRIPE_KEYS, WORKLOAD_KEYS,
};
use super::reader::{Key, Reader, Value, Words, in_order};
use super::{
    At, DiskKeys, Entry, Member, RawDisk, RawExpect, RawPlan, RawProfile, RawRun, RawSetup,
    RawStream, RawStripe, RawWorkload, Section, Slot, Span, Text,
};

/// A disk smaller than this can't be told from its cache, and larger than that is none of today.
const DISK_BYTES: std::ops::RangeInclusive<Bytes> = Bytes(64 << 10)..=Bytes(1 << 50);
const COUNT_MAX: u32 = 64;
const CHUNK_BYTES: std::ops::RangeInclusive<Bytes> = Bytes(4 << 10)..=Bytes(1 << 30);
const ROUNDS_MAX: u32 = 100;
/// A plan is checked once with each of its profiles.
const PROFILES_MAX: usize = 50;
/// As many as there can be cases.
const TABLES_MAX: usize = 1000;
/// Longest name of a plan or of anything in it, in bytes.
pub const NAME_MAX: usize = 64;

const DRIVERS: &Words<StripeDriver> = &[("engine", StripeDriver::Engine)];
const LEVELS: &Words<Level> = &[("gate", Level::Gate), ("warn", Level::Warn)];
const ORDERS: &Words<Order> = &[("balanced", Order::Balanced), ("interleaved", Order::Interleaved)];
const INCONCLUSIVE: &Words<Inconclusive> =
    &[("open", Inconclusive::Open), ("fail", Inconclusive::Fail), ("pass", Inconclusive::Pass)];

impl Reader<'_> {
    /// Reads a whole plan; what is wrong is left out of it.
    pub(super) fn plan(&mut self, table: &DeTable<'_>) -> RawPlan {
        let mut plan = RawPlan {
            source: self.source.clone(),
            name: None,
            description: None,
            disks: Section { items: Vec::new(), broken: false },
            setups: Section { items: Vec::new(), broken: false },
            workloads: Section { items: Vec::new(), broken: false },
            expects: Vec::new(),
            run: RawRun::default(),
            profiles: Vec::new(),
        };
        let mut named = false;
        let mut doubtful = false;
        for (key, value) in in_order(table) {
            match key.name {
                "name" => {
                    named = true;
                    plan.name = self.plan_name(value);
                }
                "description" => {
                    plan.description = self.text(key.name, value).map(|text| text.value);
                }
                "disks" => plan.disks = self.section(&key, value, Self::disk),
                "setups" => plan.setups = self.section(&key, value, Self::setup),
                "workloads" => plan.workloads = self.section(&key, value, Self::workload),
                "expect" => plan.expects = self.expects(value),
                "run" => plan.run = self.run(&key, value),
                "profiles" => plan.profiles = self.section(&key, value, Self::profile).items,
                _ => {
                    doubtful = true;
                    self.unknown_key(&key, "a plan", PLAN_KEYS);
                }
            }
        }
        if !named && !doubtful {
            self.missing_key("name", "the plan", 0..0, "name = \"first\"");
        }
        for broken in [&mut plan.disks.broken, &mut plan.setups.broken, &mut plan.workloads.broken]
        {
            *broken |= doubtful;
        }
        plan
    }

    fn plan_name(&mut self, value: &Value<'_>) -> Option<At<String>> {
        let text = self.text("name", value)?;
        let part = text.part(0..text.value.len());
        self.check_name("a plan", &text.value, &part, false);
        Some(At { value: text.value, span: text.span })
    }

    /// `[disks.NAME]` and its like: a table of named tables.
    fn section<T>(
        &mut self,
        key: &Key<'_>,
        value: &Value<'_>,
        mut read: impl FnMut(&mut Self, At<String>, &Value<'_>) -> Option<T>,
    ) -> Section<T> {
        let wanted = format!("named tables: `[{}.NAME]`", key.name);
        let Some(entries) = self.entries(key.name, value, &wanted) else {
            return Section { items: Vec::new(), broken: true };
        };
        let most = if key.name == "profiles" { PROFILES_MAX } else { TABLES_MAX };
        if entries.len() > most {
            let message = format!("the plan has {} `{}`", entries.len(), key.name);
            let label = format!("at most {most}");
            self.error(Diagnostic::new("plan::too-large", message, key.span.clone(), label));
            return Section { items: Vec::new(), broken: true };
        }
        let mut section = Section { items: Vec::new(), broken: false };
        for (name, value) in entries {
            let what = match key.name {
                "disks" => "a disk",
                "setups" => "a setup",
                "workloads" => "a workload",
                _ => "a profile",
            };
            self.check_name(what, name.name, &name.span, true);
            match read(self, At { value: name.name.to_owned(), span: name.span }, value) {
                Some(item) => section.items.push(item),
                None => section.broken = true,
            }
        }
        section
    }

    pub(super) fn check_name(&mut self, what: &str, name: &str, span: &Span, reserved: bool) {
        let right = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
        if reserved && RESERVED.contains(&name) {
            let message = format!("{what} can't be called `{name}`");
            self.error(
                Diagnostic::new("plan::reserved-name", message, span.clone(), "a reserved word")
                    .note("this word means something else in an expectation"),
            );
        } else if name.len() > NAME_MAX {
            let message = format!("the name of {what} is {} characters long", name.len());
            let label = format!("at most {NAME_MAX}");
            self.error(Diagnostic::new("plan::bad-name", message, span.clone(), label));
        } else if name.is_empty() || !name.chars().all(right) {
            let message = format!("{what} can't be called `{name}`");
            let diagnostic = Diagnostic::new("plan::bad-name", message, span.clone(), "")
                .note("a name is made of `a` to `z`, `0` to `9` and `-`");
            let mended: String =
                name.to_ascii_lowercase().chars().map(|c| if right(c) { c } else { '-' }).collect();
            self.error(if mended.chars().any(char::is_alphanumeric) {
                diagnostic.help(format!("call it `{}`", mended.trim_matches('-')))
            } else {
                diagnostic
            });
        }
    }

    fn disk(&mut self, name: At<String>, value: &Value<'_>) -> Option<RawDisk> {
        let keys = self.disk_keys(&name.value, value)?;
        Some(RawDisk { name, keys })
    }

    fn disk_keys(&mut self, name: &str, value: &Value<'_>) -> Option<DiskKeys> {
        let mut disk = DiskKeys::default();
        for (key, value) in self.entries(name, value, "a table of a disk's keys")? {
            match key.name {
                "size" => {
                    disk.size = self.slot(&key, value, |r, k, v| r.bytes(k, v, DISK_BYTES));
                }
                "count" => {
                    disk.count = self.slot(&key, value, |r, k, v| r.integer32(k, v, 1..=COUNT_MAX));
                }
                "directory" => disk.directory = self.slot(&key, value, Self::path),
                "device" => disk.device = self.slot(&key, value, Self::path),
                "null" => disk.null = self.slot(&key, value, Self::switch),
                _ => {
                    disk.doubtful = true;
                    self.unknown_key(&key, "a disk", DISK_KEYS);
                }
            }
        }
        Some(disk)
    }

    fn path(&mut self, key: &str, value: &Value<'_>) -> Option<String> {
        let text = self.text(key, value)?;
        if text.value.is_empty() || text.value.contains('\0') {
            let message = format!("`{key}` is not a path");
            let label = if text.value.is_empty() { "empty" } else { "has a NUL in it" };
            self.error(Diagnostic::new("plan::bad-path", message, text.span, label));
            return None;
        }
        Some(text.value)
    }

    fn setup(&mut self, name: At<String>, value: &Value<'_>) -> Option<RawSetup> {
        let entries = self.entries(&name.value, value, "a table of a setup's keys")?;
        let mut setup = RawSetup {
            name,
            disks: Slot::Absent,
            stripe: Slot::Absent,
            workloads: Slot::Absent,
            doubtful: false,
        };
        for (key, value) in entries {
            match key.name {
                "disks" => setup.disks = self.slot(&key, value, Self::members),
                "stripe" => setup.stripe = self.slot(&key, value, Self::stripe),
                "workloads" => setup.workloads = self.slot(&key, value, Self::globs),
                _ => {
                    setup.doubtful = true;
                    self.unknown_key(&key, "a setup", SETUP_KEYS);
                }
            }
        }
        Some(setup)
    }

    /// A list of names, or a table that says how many of each counted disk.
    fn members(&mut self, key: &str, value: &Value<'_>) -> Option<Vec<Member>> {
        match value.get_ref() {
            DeValue::Array(_) => {
                let names = self.texts(key, value)?;
                let member = |text: Text| {
                    let span = text.part(0..text.value.len());
                    Member { name: At { value: text.value, span }, take: None }
                };
                Some(names.into_iter().map(member).collect())
            }
            DeValue::Table(table) if table.is_empty() => {
                let message = "a setup needs a disk".to_owned();
                self.error(Diagnostic::new("plan::empty-list", message, value.span(), "empty"));
                None
            }
            DeValue::Table(table) => {
                let members: Vec<_> = in_order(table)
                    .into_iter()
                    .map(|(name, value)| {
                        let take = self
                            .values(name.name, value, |r, k, v| r.integer32(k, v, 1..=COUNT_MAX))?;
                        let name = At { value: name.name.to_owned(), span: name.span };
                        Some(Member { name, take: Some(take) })
                    })
                    .collect();
                members.into_iter().collect()
            }
            DeValue::String(name) => {
                let message = format!("`{key}` takes a list of names");
                let fixed = format!("[\"{name}\"]");
                self.error(
                    Diagnostic::new("plan::wrong-type", message, value.span(), "this is a string")
                        .fix("write a list of one", value.span(), fixed),
                );
                None
            }
            _ => self.wrong_type(key, value, "a list of names, or a table such as { data = 4 }"),
        }
    }

    fn stripe(&mut self, key: &str, value: &Value<'_>) -> Option<RawStripe> {
        let such_as = "a table such as { driver = \"engine\", chunk = \"256KiB\" }";
        let mut stripe = RawStripe { driver: Slot::Absent, chunk: Slot::Absent };
        let mut doubtful = false;
        for (key, value) in self.entries(key, value, such_as)? {
            match key.name {
                "driver" => stripe.driver = self.slot(&key, value, Self::driver),
                "chunk" => {
                    stripe.chunk = self.slot(&key, value, |r, k, v| r.values(k, v, Self::chunk));
                }
                _ => {
                    doubtful = true;
                    self.unknown_key(&key, "a stripe", STRIPE_KEYS);
                }
            }
        }
        if stripe.driver.is_absent() && !doubtful {
            self.missing_key("driver", "the stripe", value.span(), "driver = \"engine\"");
        }
        if stripe.chunk.is_absent() && !doubtful {
            self.missing_key("chunk", "the stripe", value.span(), "chunk = \"256KiB\"");
        }
        (stripe.driver.get().is_some() && stripe.chunk.get().is_some()).then_some(stripe)
    }

    fn driver(&mut self, key: &str, value: &Value<'_>) -> Option<StripeDriver> {
        if let DeValue::String(name) = value.get_ref()
            && let "md" | "lvm" | "btrfs" = name.as_ref()
        {
            let message = format!("this version of diskproof does not stripe with `{name}`");
            self.error(
                Diagnostic::new("plan::unknown-value", message, value.span(), "not known").fix(
                    "stripe in the program itself, with the same map of addresses as RAID 0",
                    value.span(),
                    "\"engine\"",
                ),
            );
            return None;
        }
        self.word(key, value, DRIVERS, &[])
    }

    fn chunk(&mut self, key: &str, value: &Value<'_>) -> Option<Bytes> {
        let chunk = self.bytes(key, value, CHUNK_BYTES)?;
        if chunk.0.is_power_of_two() {
            return Some(chunk);
        }
        let near = Bytes(1 << chunk.0.ilog2());
        let message = format!("`{key}` has to be a power of two");
        self.error(
            Diagnostic::new("plan::out-of-range", message, value.span(), "not a power of two").fix(
                "the next smaller one is",
                value.span(),
                format!("\"{near}\""),
            ),
        );
        None
    }

    fn globs(&mut self, key: &str, value: &Value<'_>) -> Option<Vec<Text>> {
        if let DeValue::String(glob) = value.get_ref() {
            let message = format!("`{key}` takes a list of names");
            self.error(
                Diagnostic::new("plan::wrong-type", message, value.span(), "this is a string").fix(
                    "write a list of one",
                    value.span(),
                    format!("[\"{glob}\"]"),
                ),
            );
            return None;
        }
        self.texts(key, value)
    }

    fn workload(&mut self, name: At<String>, value: &Value<'_>) -> Option<RawWorkload> {
        let mut streams = None;
        let (entries, doubtful) = self.workload_keys(&name.value, value, Some(&mut streams))?;
        let inherited = Vec::new();
        Some(RawWorkload { name, entries, doubtful, is_stream: false, inherited, streams })
    }

    fn workload_keys(
        &mut self,
        name: &str,
        value: &Value<'_>,
        mut streams: Option<&mut Option<Section<RawStream>>>,
    ) -> Option<(Vec<Entry>, bool)> {
        let mut entries = Vec::new();
        let mut doubtful = false;
        for (key, value) in self.entries(name, value, "a table of a workload's keys")? {
            let Some(known) = WORKLOAD_KEYS.iter().find(|known| **known == key.name) else {
                doubtful = true;
                self.unknown_key(&key, "a workload", WORKLOAD_KEYS);
                continue;
            };
            if *known == STREAMS_KEY {
                match &mut streams {
                    Some(streams) => **streams = Some(self.streams(&key, value)),
                    None => self.no_streams_in_a_profile(&key),
                }
                continue;
            }
            let values = self.settings(known, value);
            entries.push(Entry { key: known, key_span: key.span, values });
        }
        Some((entries, doubtful))
    }

    fn expects(&mut self, value: &Value<'_>) -> Vec<RawExpect> {
        let DeValue::Array(array) = value.get_ref() else {
            let message = "expectations are a list of tables";
            self.error(
                Diagnostic::new("plan::wrong-type", message, value.span(), "this is one table")
                    .help("write `[[expect]]` before each expectation"),
            );
            return Vec::new();
        };
        array.iter().filter_map(|item| self.expect(item)).collect()
    }

    fn expect(&mut self, value: &Value<'_>) -> Option<RawExpect> {
        let mut expect = RawExpect {
            case: Slot::Absent,
            that: Slot::Absent,
            why: Slot::Absent,
            level: Slot::Absent,
        };
        let mut doubtful = false;
        for (key, value) in self.entries("expect", value, "tables")? {
            match key.name {
                "case" => expect.case = self.slot(&key, value, Self::text),
                "that" => expect.that = self.slot(&key, value, Self::texts),
                "why" => expect.why = self.slot(&key, value, |r, k, v| Some(r.text(k, v)?.value)),
                "level" => {
                    expect.level = self.slot(&key, value, |r, k, v| r.word(k, v, LEVELS, &[]));
                }
                _ => {
                    doubtful = true;
                    self.unknown_key(&key, "an expectation", EXPECT_KEYS);
                }
            }
        }
        if expect.case.is_absent() && !doubtful {
            self.missing_key("case", "the expectation", value.span(), "case = \"*\"");
        }
        if expect.that.is_absent() && !doubtful {
            let such_as = "that = \"read.latency.p99 < 10ms\"";
            self.missing_key("that", "the expectation", value.span(), such_as);
        }
        Some(expect)
    }

    fn run(&mut self, key: &Key<'_>, value: &Value<'_>) -> RawRun {
        let mut run = RawRun::default();
        let Some(entries) = self.entries(key.name, value, "a table") else { return run };
        for (key, value) in entries {
            match key.name {
                "rounds" => run.rounds = self.slot(&key, value, Self::rounds),
                "order" => run.order = self.slot(&key, value, |r, k, v| r.word(k, v, ORDERS, &[])),
                "inconclusive" => {
                    run.inconclusive =
                        self.slot(&key, value, |r, k, v| r.word(k, v, INCONCLUSIVE, &[]));
                }
                _ => self.unknown_key(&key, "[run]", RUN_KEYS),
            }
        }
        run
    }

    fn rounds(&mut self, key: &str, value: &Value<'_>) -> Option<Rounds> {
        let limits = 1..=ROUNDS_MAX;
        let DeValue::Table(table) = value.get_ref() else {
            let exactly = self.integer32(key, value, limits)?;
            return Some(Rounds { min: exactly, max: exactly });
        };
        let (mut min, mut max, mut doubtful) = (Slot::Absent, Slot::Absent, false);
        for (key, value) in in_order(table) {
            let read = |r: &mut Self, k: &str, v: &Value<'_>| r.integer32(k, v, 1..=ROUNDS_MAX);
            match key.name {
                "min" => min = self.slot(&key, value, read),
                "max" => max = self.slot(&key, value, read),
                _ => {
                    doubtful = true;
                    self.unknown_key(&key, "`rounds`", ROUNDS_KEYS);
                }
            }
        }
        for (key, slot, such_as) in [("min", &min, "min = 4"), ("max", &max, "max = 12")] {
            if slot.is_absent() && !doubtful {
                self.missing_key(key, "`rounds`", value.span(), such_as);
            }
        }
        let (min, max) = (min.get()?, max.get()?);
        if min.value > max.value {
            let message = format!("`min` is {} and `max` is {}", min.value, max.value);
            self.error(
                Diagnostic::new("plan::out-of-range", message, min.span.clone(), "more than `max`")
                    .context(max.span.clone(), ""),
            );
            return None;
        }
        Some(Rounds { min: min.value, max: max.value })
    }

    fn profile(&mut self, name: At<String>, value: &Value<'_>) -> Option<RawProfile> {
        let entries = self.entries(&name.value, value, "a table of what the profile changes")?;
        let (mut disks, mut workloads) = (Vec::new(), Vec::new());
        let mut run = RawRun::default();
        for (key, value) in entries {
            match key.name {
                "run" => run = self.run(&key, value),
                "disks" | "workloads" => {
                    let wanted = format!("tables: `{}.\"*\" = {{ … }}`", key.name);
                    for (glob, value) in self.entries(key.name, value, &wanted).unwrap_or_default()
                    {
                        let inside = self.inside(&glob.span, glob.name);
                        let text = Text { value: glob.name.to_owned(), span: glob.span, inside };
                        if key.name == "disks" {
                            disks.extend(self.disk_keys(glob.name, value).map(|keys| (text, keys)));
                        } else {
                            let read = self.workload_keys(glob.name, value, None);
                            workloads.extend(read.map(|(entries, _)| (text, entries)));
                        }
                    }
                }
                _ => self.unknown_key(&key, "a profile", PROFILE_KEYS),
            }
        }
        Some(RawProfile { name, disks, workloads, run })
    }
}
