//! The values of a workload's keys, each within its own limits, and their one spelling.

use std::fmt;

use toml::de::DeValue;

use crate::diag::{Diagnostic, nearest};
use crate::units::{Bytes, Nanos, Percent};

use super::super::model::{Access, Blocks, Cache, Data, EngineChoice, Layout, Place, Rw, Sync};
use super::super::pace::{Arrivals, Rate, ThinkTime};
use super::reader::{Reader, Value, Words, in_order};
use super::{At, Span, Values};

/// What direct I/O can be aligned to at the least; a disk may ask for more.
const BLOCK_STEP: u64 = 512;
const BLOCK_BYTES: std::ops::RangeInclusive<Bytes> = Bytes(BLOCK_STEP)..=Bytes(1 << 30);
const DEPTH_MAX: u32 = 4096;
const WORKERS_MAX: u32 = 256;
const SHARES_MAX: usize = 16;
const SHARE_MAX: u32 = 1_000_000;
const AMOUNT_BYTES: std::ops::RangeInclusive<Bytes> = Bytes(BLOCK_STEP)..=Bytes(1 << 60);
/// A measured time that is shorter can't be told from its start and its end.
const SHORTEST: Nanos = Nanos(1_000_000);
const FLUSH_MAX: u32 = 1_000_000_000;
/// Linux counts at most this many processors.
const CPUS_MAX: usize = 8192;

const RW: &Words<Rw> = &[
    ("read", Rw::Read),
    ("write", Rw::Write),
    ("randread", Rw::RandRead),
    ("randwrite", Rw::RandWrite),
    ("readwrite", Rw::ReadWrite),
    ("randrw", Rw::RandRw),
    ("trim", Rw::Trim),
    ("randtrim", Rw::RandTrim),
];
const LAYOUT: &Words<Layout> = &[("shared", Layout::Shared), ("partitioned", Layout::Partitioned)];
const CACHE: &Words<Cache> = &[("direct", Cache::Direct), ("buffered", Cache::Buffered)];
const SYNC: &Words<Sync> = &[("none", Sync::None), ("dsync", Sync::Dsync), ("sync", Sync::Sync)];
const ARRIVALS: &Words<Arrivals> = &[("even", Arrivals::Even), ("poisson", Arrivals::Poisson)];
const ENGINE: &Words<EngineChoice> = &[
    ("auto", EngineChoice::Auto),
    ("io_uring", EngineChoice::IoUring),
    ("libaio", EngineChoice::Libaio),
    ("sync", EngineChoice::Sync),
];
/// What `access` can be but uniform, each with a usual value.
const ACCESS_KINDS: [(&str, &str); 4] =
    [("zipf", "1.1"), ("pareto", "0.2"), ("normal", "10"), ("hot", "\"90/10\"")];
/// Below, it is uniform to the eye; above, one block gets nearly all there is.
const ZIPF: std::ops::RangeInclusive<f64> = 0.01..=10.0;
/// One half is uniform, and what is above would be the same upside down.
const PARETO: std::ops::RangeInclusive<f64> = 0.01..=0.5;
/// In percent of the region.
const NORMAL: std::ops::RangeInclusive<f64> = 0.1..=100.0;

/// The value of one key of a workload.
#[derive(Debug, Clone, PartialEq)]
pub(in crate::plan) enum Setting {
    Rw(Rw),
    ReadPercent(Percent),
    BlockSize(Blocks),
    QueueDepth(u32),
    Workers(u32),
    Layout(Layout),
    Offset(Place),
    Size(Place),
    Access(Access),
    Once(bool),
    Rate(Rate),
    Arrivals(Arrivals),
    MaxLateness(Nanos),
    ThinkTime(ThinkTime),
    Runtime(Nanos),
    Amount(Bytes),
    Warmup(Nanos),
    Cooldown(Nanos),
    Cache(Cache),
    Sync(Sync),
    FsyncEvery(u32),
    FdatasyncEvery(u32),
    FsyncAtEnd(bool),
    Data(Data),
    Verify(bool),
    Engine(EngineChoice),
    Hipri(bool),
    Sqpoll(bool),
    Cpus(Vec<usize>),
    Seed(u64),
}

/// The spelling in the name of a sweep's point.
impl fmt::Display for Setting {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Rw(rw) => out.write_str(spelled(RW, *rw)),
            Self::ReadPercent(percent) => write!(out, "{}", percent.0),
            Self::BlockSize(Blocks(shares)) => match shares.as_slice() {
                [(size, _)] => size.fmt(out),
                shares => {
                    let shares: Vec<_> =
                        shares.iter().map(|(size, share)| format!("{size}:{share}")).collect();
                    out.write_str(&shares.join("+"))
                }
            },
            Self::QueueDepth(count)
            | Self::Workers(count)
            | Self::FsyncEvery(count)
            | Self::FdatasyncEvery(count) => count.fmt(out),
            Self::Layout(layout) => out.write_str(spelled(LAYOUT, *layout)),
            Self::Offset(place) | Self::Size(place) => match place {
                Place::Bytes(bytes) => bytes.fmt(out),
                Place::Percent(percent) => percent.fmt(out),
            },
            Self::Access(Access::Uniform) => out.write_str("uniform"),
            Self::Access(Access::Zipf(theta)) => write!(out, "zipf:{theta}"),
            Self::Access(Access::Pareto(share)) => write!(out, "pareto:{share}"),
            Self::Access(Access::Normal(percent)) => write!(out, "normal:{percent}"),
            Self::Access(Access::Hot { ios, region }) => {
                write!(out, "hot:{}/{}", ios.0, region.0)
            }
            Self::Once(on)
            | Self::FsyncAtEnd(on)
            | Self::Verify(on)
            | Self::Hipri(on)
            | Self::Sqpoll(on) => on.fmt(out),
            Self::Rate(rate) => rate.fmt(out),
            Self::Arrivals(arrivals) => out.write_str(spelled(ARRIVALS, *arrivals)),
            Self::ThinkTime(ThinkTime { pause, after: 1 }) => pause.fmt(out),
            Self::ThinkTime(ThinkTime { pause, after }) => write!(out, "{pause}:{after}"),
            Self::Runtime(time)
            | Self::Warmup(time)
            | Self::Cooldown(time)
            | Self::MaxLateness(time) => time.fmt(out),
            Self::Amount(bytes) => bytes.fmt(out),
            Self::Cache(cache) => out.write_str(spelled(CACHE, *cache)),
            Self::Sync(sync) => out.write_str(spelled(SYNC, *sync)),
            Self::Data(Data::Random) => out.write_str("random"),
            Self::Data(Data::Zero) => out.write_str("zero"),
            Self::Data(Data::Compressible(share)) => write!(out, "compressible:{}", share.0),
            Self::Data(Data::Duplicate(share)) => write!(out, "duplicate:{}", share.0),
            Self::Engine(engine) => out.write_str(spelled(ENGINE, *engine)),
            Self::Cpus(cpus) => write!(out, "{cpus:?}"),
            Self::Seed(seed) => seed.fmt(out),
        }
    }
}

fn spelled<T: PartialEq + Copy>(words: &Words<T>, meaning: T) -> &'static str {
    words.iter().find(|(_, known)| *known == meaning).map_or("", |(word, _)| word)
}

impl Reader<'_> {
    /// What a key of a workload holds: one value, or a list that is swept.
    pub(super) fn settings(
        &mut self,
        key: &'static str,
        value: &Value<'_>,
    ) -> Option<Values<Setting>> {
        let list = matches!(value.get_ref(), DeValue::Array(_));
        if list && matches!(key, "cpus" | "seed") {
            let message = format!("`{key}` takes one value, not a list");
            self.error(
                Diagnostic::new("plan::wrong-type", message, value.span(), "this is a list")
                    .note("it does not shape the load, so there is nothing to sweep over"),
            );
            return None;
        }
        self.values(key, value, |reader, _, value| reader.setting(key, value))
    }

    fn setting(&mut self, key: &'static str, value: &Value<'_>) -> Option<Setting> {
        let longest = Nanos::MAX;
        Some(match key {
            "rw" => Setting::Rw(self.word(key, value, RW, &[])?),
            "read_percent" => Setting::ReadPercent(self.percent(key, value)?),
            "block_size" => Setting::BlockSize(self.blocks(key, value)?),
            "queue_depth" => Setting::QueueDepth(self.integer32(key, value, 1..=DEPTH_MAX)?),
            "workers" => Setting::Workers(self.integer32(key, value, 1..=WORKERS_MAX)?),
            "layout" => Setting::Layout(self.word(key, value, LAYOUT, &[])?),
            "offset" => Setting::Offset(self.place(key, value)?),
            "size" => Setting::Size(self.place(key, value)?),
            "access" => Setting::Access(self.access(key, value)?),
            "once" => Setting::Once(self.switch(key, value)?),
            "rate" => Setting::Rate(self.rate(key, value)?),
            "arrivals" => Setting::Arrivals(self.word(key, value, ARRIVALS, &[])?),
            "max_lateness" => Setting::MaxLateness(self.time(key, value, Nanos(0)..=longest)?),
            "think_time" => Setting::ThinkTime(self.think_time(key, value)?),
            "runtime" => Setting::Runtime(self.time(key, value, SHORTEST..=longest)?),
            "amount" => Setting::Amount(self.bytes(key, value, AMOUNT_BYTES)?),
            "warmup" => Setting::Warmup(self.time(key, value, Nanos(0)..=longest)?),
            "cooldown" => Setting::Cooldown(self.time(key, value, Nanos(0)..=longest)?),
            "cache" => Setting::Cache(self.word(key, value, CACHE, &[])?),
            "sync" => Setting::Sync(self.word(key, value, SYNC, &[])?),
            "fsync_every" => Setting::FsyncEvery(self.flushes(key, value)?),
            "fdatasync_every" => Setting::FdatasyncEvery(self.flushes(key, value)?),
            "fsync_at_end" => Setting::FsyncAtEnd(self.switch(key, value)?),
            "data" => Setting::Data(self.data(key, value)?),
            "verify" => Setting::Verify(self.switch(key, value)?),
            "engine" => Setting::Engine(self.word(key, value, ENGINE, &[])?),
            "hipri" => Setting::Hipri(self.switch(key, value)?),
            "sqpoll" => Setting::Sqpoll(self.switch(key, value)?),
            "cpus" => Setting::Cpus(self.cpus(key, value)?),
            "seed" => Setting::Seed(self.integer(key, value, 0..=i64::MAX.unsigned_abs())?),
            _ => return None,
        })
    }

    /// A whole number from 0 to 100: a share whose name says that it is in percent.
    fn percent(&mut self, key: &str, value: &Value<'_>) -> Option<Percent> {
        if let DeValue::String(text) = value.get_ref()
            && let Ok(percent) = Percent::parse(text)
        {
            let message = format!("`{key}` takes a number without a sign");
            self.error(
                Diagnostic::new("plan::wrong-type", message, value.span(), "this is a string").fix(
                    "write the number alone",
                    value.span(),
                    percent.0.to_string(),
                ),
            );
            return None;
        }
        self.integer32(key, value, 0..=100).and_then(|share| u8::try_from(share).ok()).map(Percent)
    }

    fn blocks(&mut self, key: &str, value: &Value<'_>) -> Option<Blocks> {
        let DeValue::Table(table) = value.get_ref() else {
            return Some(Blocks(vec![(self.block(key, value)?, 1)]));
        };
        if table.is_empty() || table.len() > SHARES_MAX {
            let message = format!("a mix of block sizes has from 1 to {SHARES_MAX} of them");
            let label = format!("{} here", table.len());
            self.error(Diagnostic::new("plan::out-of-range", message, value.span(), label));
            return None;
        }
        let mut shares: Vec<Option<At<(Bytes, u32)>>> = Vec::new();
        for (size, share) in in_order(table) {
            // The key is the size: it is read as the value that it stands for.
            let written = Value::new(size.span.clone(), DeValue::String(size.name.into()));
            let bytes = self.block(key, &written);
            let share = self.integer32(&format!("share of {}", size.name), share, 1..=SHARE_MAX);
            let both = bytes.zip(share);
            shares.push(both.map(|value| At { value, span: size.span }));
        }
        let shares = shares.into_iter().collect::<Option<Vec<_>>>()?;
        for (index, share) in shares.iter().enumerate() {
            if shares[..index].iter().any(|other| other.value.0 == share.value.0) {
                let message = format!("the block size {} has two shares", share.value.0);
                self.error(Diagnostic::new(
                    "plan::twice",
                    message,
                    share.span.clone(),
                    "given before",
                ));
                return None;
            }
        }
        Some(Blocks(shares.into_iter().map(|share| share.value).collect()))
    }

    fn block(&mut self, key: &str, value: &Value<'_>) -> Option<Bytes> {
        let size = self.bytes(key, value, BLOCK_BYTES)?;
        if size.0.is_multiple_of(BLOCK_STEP) {
            return Some(size);
        }
        let message = format!("a block of {} bytes can't be addressed", size.0);
        let near = Bytes((size.0 + BLOCK_STEP / 2) / BLOCK_STEP * BLOCK_STEP);
        self.error(
            Diagnostic::new("plan::out-of-range", message, value.span(), "not a multiple of 512B")
                .note("the sectors of a disk are 512 bytes or more")
                .fix("the nearest that can is", value.span(), format!("\"{near}\"")),
        );
        None
    }

    /// A size, or a share of the target.
    fn place(&mut self, key: &str, value: &Value<'_>) -> Option<Place> {
        let text =
            self.quantity(key, value, "a size such as \"1GiB\" or a share as \"25%\"", "B")?;
        let place = if text.ends_with('%') {
            Percent::parse(&text).map(Place::Percent)
        } else {
            Bytes::parse(&text).map(Place::Bytes)
        };
        let place = place.map_err(|error| self.unit_error(value.span(), error)).ok()?;
        let nothing = matches!(place, Place::Bytes(Bytes(0)) | Place::Percent(Percent(0)));
        if nothing && key == "size" {
            let message = "a region of nothing can't be used";
            self.error(Diagnostic::new("plan::out-of-range", message, value.span(), "empty"));
            return None;
        }
        Some(place)
    }

    fn access(&mut self, key: &str, value: &Value<'_>) -> Option<Access> {
        let usual = || {
            let usual = ACCESS_KINDS.map(|(kind, usual)| format!("{{ {kind} = {usual} }}"));
            format!("\"uniform\", or one of {}", usual.join(", "))
        };
        let entries = match value.get_ref() {
            DeValue::Table(table) => in_order(table),
            DeValue::String(text) => return self.access_word(key, text, &value.span(), &usual()),
            _ => return self.wrong_type(key, value, &usual()),
        };
        let [(kind, value)] = entries.as_slice() else {
            return self.wrong_type(key, value, &usual());
        };
        match kind.name {
            "zipf" => Some(Access::Zipf(self.number(kind.name, value, ZIPF)?)),
            "pareto" => Some(Access::Pareto(self.number(kind.name, value, PARETO)?)),
            "normal" => Some(Access::Normal(self.number(kind.name, value, NORMAL)?)),
            "hot" => self.hot(kind.name, value),
            _ => {
                self.unknown_key(kind, "`access`", &ACCESS_KINDS.map(|(kind, _)| kind));
                None
            }
        }
    }

    /// `uniform`; of what needs a value, says how it is given.
    fn access_word(&mut self, key: &str, text: &str, at: &Span, usual: &str) -> Option<Access> {
        if text == "uniform" {
            return Some(Access::Uniform);
        }
        let unknown =
            |message: String| Diagnostic::new("plan::unknown-value", message, at.clone(), "");
        // fio writes `zipf:1.1`.
        let (name, given) = text.split_once(':').unwrap_or((text, ""));
        let known = ACCESS_KINDS.iter().find(|(kind, _)| *kind == name);
        self.error(if let Some((kind, usual)) = known {
            let plain = given.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
            let given = if plain && !given.is_empty() && *kind != "hot" { given } else { usual };
            unknown(format!("`{kind}` is a table with its value")).fix(
                "write",
                at.clone(),
                format!("{{ {kind} = {given} }}"),
            )
        } else {
            let message = format!("`{key}` can't be `{text}`");
            let diagnostic = unknown(message).note(format!("`{key}` is {usual}"));
            if text == "random" || nearest(text, ["uniform"]).is_some() {
                diagnostic.fix("use `uniform`", at.clone(), "\"uniform\"")
            } else {
                diagnostic
            }
        });
        None
    }

    /// `90/10`: so many percent of the I/Os go to so many percent of the region.
    fn hot(&mut self, key: &str, value: &Value<'_>) -> Option<Access> {
        const WHAT: &str = "a share of the I/Os and one of the region, such as \"90/10\"";
        let DeValue::String(text) = value.get_ref() else {
            return self.wrong_type(key, value, WHAT);
        };
        let share = |text: &str| {
            let plain = (1..=2).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_digit());
            text.parse().ok().filter(|share| plain && (1..=99).contains(share)).map(Percent)
        };
        let Some((ios, region)) =
            text.split_once('/').and_then(|(ios, region)| share(ios).zip(share(region)))
        else {
            let message = format!("`{key}` can't be `{text}`");
            self.error(
                Diagnostic::new("plan::bad-quantity", message, value.span(), "")
                    .note(format!("`{key}` takes {WHAT}: whole percentages from 1 to 99")),
            );
            return None;
        };
        if ios > region {
            return Some(Access::Hot { ios, region });
        }
        let message = format!("{ios} of the I/Os to {region} of the region make no hot part");
        let label = "the share of the I/Os has to be the larger one";
        let diagnostic = Diagnostic::new("plan::out-of-range", message, value.span(), label);
        self.error(if ios == region {
            diagnostic.help("that is `access = \"uniform\"`")
        } else {
            let turned = format!("\"{}/{}\"", region.0, ios.0);
            diagnostic.fix("the share of the I/Os comes first", value.span(), turned)
        });
        None
    }

    fn flushes(&mut self, key: &str, value: &Value<'_>) -> Option<u32> {
        self.integer32(key, value, 1..=FLUSH_MAX)
    }

    fn data(&mut self, key: &str, value: &Value<'_>) -> Option<Data> {
        const WORDS: &Words<Data> = &[("random", Data::Random), ("zero", Data::Zero)];
        const KINDS: [&str; 2] = ["compressible", "duplicate"];
        let DeValue::Table(table) = value.get_ref() else {
            if let DeValue::String(text) = value.get_ref()
                && KINDS.contains(&text.as_ref())
            {
                let message = format!("`{text}` needs its share");
                let fixed = format!("{{ {text} = 50 }}");
                self.error(
                    Diagnostic::new("plan::unknown-value", message, value.span(), "how much?").fix(
                        "say how much in percent",
                        value.span(),
                        fixed,
                    ),
                );
                return None;
            }
            return self.word(key, value, WORDS, &[]);
        };
        let entries = in_order(table);
        let [(kind, share)] = entries.as_slice() else {
            return self.wrong_type(
                key,
                value,
                "one of { compressible = 50 } and { duplicate = 30 }",
            );
        };
        match kind.name {
            "compressible" => Some(Data::Compressible(self.percent(kind.name, share)?)),
            "duplicate" => Some(Data::Duplicate(self.percent(kind.name, share)?)),
            _ => {
                self.unknown_key(kind, "`data`", &KINDS);
                None
            }
        }
    }

    /// CPUs as the kernel lists them: `0-3`, `0,2-3`.
    fn cpus(&mut self, key: &str, value: &Value<'_>) -> Option<Vec<usize>> {
        if let DeValue::Integer(cpu) = value.get_ref() {
            let message = format!("`{key}` takes a list in a string, such as \"0-3\"");
            self.error(
                Diagnostic::new("plan::wrong-type", message, value.span(), "this is a number").fix(
                    "write it in quotes",
                    value.span(),
                    format!("\"{cpu}\""),
                ),
            );
            return None;
        }
        let text = self.text(key, value)?;
        let mut cpus: Vec<usize> = Vec::new();
        let mut start = 0;
        for range in text.value.split(',') {
            let part = text.part(start..start + range.len());
            start += range.len() + 1;
            let (first, last) = range.split_once('-').unwrap_or((range, range));
            let number = |digits: &str| {
                let plain = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
                digits.parse().ok().filter(|cpu: &usize| plain && *cpu < CPUS_MAX)
            };
            let bounds = number(first).zip(number(last)).filter(|(first, last)| first <= last);
            let Some((first, last)) = bounds else {
                let message = format!("`{range}` is not a CPU or a range of CPUs");
                self.error(
                    Diagnostic::new("plan::bad-quantity", message, part, "")
                        .note("write numbers and ranges, such as \"0-3\" or \"0,2-3\""),
                );
                return None;
            };
            if (first..=last).any(|cpu| cpus.contains(&cpu)) {
                let message = format!("`{key}` lists a CPU twice");
                self.error(Diagnostic::new("plan::twice", message, part, "given before"));
                return None;
            }
            cpus.extend(first..=last);
        }
        Some(cpus)
    }
}
