//! Sweeps: a key that holds a list makes a point of each of its values, two make one of each pair.

use super::model::{
    Access, Blocks, Cache, Data, EngineChoice, FlushEvery, Layout, Limit, Place, Point, Region, Rw,
    Sync, Workload,
};
use super::pace::{Arrivals, Pace};
use super::raw::{At, Entry, RawWorkload, Setting, Span};
use crate::units::{Bytes, Nanos, Percent};

/// Measured time of a workload that doesn't say how long it takes.
const RUNTIME: Nanos = Nanos(10_000_000_000);
/// Block size of a workload that names none.
const BLOCK: Bytes = Bytes(4 << 10);
/// Seed of a workload that names none.
const SEED: u64 = 1;

/// One point of a workload.
pub(super) struct Draft<'r> {
    raw: &'r RawWorkload,
    pub point: Point,
    chosen: Vec<(&'r Entry, &'r At<Setting>)>,
    pub workload: Workload,
    /// Of each of its streams.
    pub streams: Vec<Self>,
}

/// How many points a workload has.
pub(super) fn count(workload: &RawWorkload) -> usize {
    let lengths = workload.entries.iter().filter_map(|entry| entry.values.as_ref());
    lengths.fold(1, |product: usize, values| product.saturating_mul(values.items.len()))
}

/// Every point of a workload, in the order of the text: the last list varies first. Keys that
/// are wrong are passed over.
pub(super) fn drafts(raw: &RawWorkload) -> Vec<Draft<'_>> {
    let mut points: Vec<Vec<(&Entry, &At<Setting>)>> = vec![Vec::new()];
    for entry in &raw.entries {
        let Some(values) = &entry.values else { continue };
        let with = |point: &Vec<_>| {
            let point = point.clone();
            values.items.iter().map(move |item| [point.as_slice(), &[(entry, item)]].concat())
        };
        points = points.iter().flat_map(with).collect();
    }
    points.into_iter().map(|chosen| draft(raw, chosen)).collect()
}

impl Draft<'_> {
    /// Where the value of a key stands; the workload's name where the key is not given.
    pub(super) fn place(&self, key: &str) -> Span {
        let found = self.chosen.iter().find(|(entry, _)| entry.key == key);
        found.map_or(self.raw.name.span.clone(), |(_, at)| at.span.clone())
    }

    /// The name of the workload, or the stream.
    pub(super) fn name(&self) -> &str {
        &self.raw.name.value
    }

    /// Whether a key is given.
    pub(super) fn gives(&self, key: &str) -> bool {
        self.chosen.iter().any(|(entry, _)| entry.key == key)
    }

    /// Whether none of these keys is given with a wrong value.
    pub(super) fn sure(&self, keys: &[&str]) -> bool {
        !self.raw.entries.iter().any(|entry| entry.values.is_none() && keys.contains(&entry.key))
    }
}

fn draft<'r>(raw: &'r RawWorkload, chosen: Vec<(&'r Entry, &'r At<Setting>)>) -> Draft<'r> {
    let swept = |entry: &Entry| entry.values.as_ref().is_some_and(|values| values.swept);
    let pairs = chosen.iter().filter(|(entry, _)| swept(entry));
    let point = pairs.map(|(entry, at)| (entry.key.to_owned(), at.value.to_string())).collect();
    let mut workload = defaults();
    let mut share = None;
    for (_, at) in &chosen {
        if let Setting::ReadPercent(percent) = at.value {
            share = Some(percent);
        }
        apply(&mut workload, &at.value);
    }
    workload.pace = pace(&chosen);
    workload.read_percent = match workload.rw {
        Rw::Read | Rw::RandRead => Percent(100),
        Rw::Write | Rw::RandWrite | Rw::Trim | Rw::RandTrim => Percent(0),
        Rw::ReadWrite | Rw::RandRw => share.unwrap_or(Percent(50)),
    };
    // What a point has no use for is not part of it: only a key that no point uses is an error.
    workload.once &= workload.rw.is_random();
    if !workload.rw.is_random() {
        workload.access = Access::Uniform;
    }
    if !workload.writes() {
        workload.sync = Sync::None;
        workload.flush = None;
        workload.fsync_at_end = false;
        workload.data = Data::Random;
    }
    workload.verify &= !workload.trims();
    if workload.engine == EngineChoice::Auto && (workload.hipri || workload.sqpoll) {
        workload.engine = EngineChoice::IoUring; // which alone has them
    }
    Draft { raw, point: Point(point), chosen, workload, streams: Vec::new() }
}

/// What the keys of a point say about when I/Os are begun.
fn pace(chosen: &[(&Entry, &At<Setting>)]) -> Pace {
    let mut rate = None;
    let (mut arrivals, mut max_lateness) = (Arrivals::Even, None);
    let mut think = None;
    for (_, at) in chosen {
        match at.value {
            Setting::Rate(value) => rate = Some(value),
            Setting::Arrivals(value) => arrivals = value,
            Setting::MaxLateness(value) => max_lateness = Some(value),
            Setting::ThinkTime(value) => think = Some(value),
            _ => {}
        }
    }
    match (rate, think) {
        (Some(rate), _) => Pace::Open { rate, arrivals, max_lateness },
        (None, Some(think)) => Pace::Think(think),
        (None, None) => Pace::Closed,
    }
}

fn defaults() -> Workload {
    Workload {
        rw: Rw::Read,
        read_percent: Percent(100),
        blocks: Blocks(vec![(BLOCK, 1)]),
        queue_depth: 1,
        workers: 1,
        layout: Layout::Shared,
        region: Region { offset: Place::Bytes(Bytes(0)), size: None },
        access: Access::Uniform,
        once: false,
        pace: Pace::Closed,
        limit: Limit::Runtime(RUNTIME),
        warmup: Nanos(0),
        cooldown: Nanos(0),
        cache: Cache::Direct,
        sync: Sync::None,
        flush: None,
        fsync_at_end: false,
        data: Data::Random,
        verify: false,
        engine: EngineChoice::Auto,
        hipri: false,
        sqpoll: false,
        cpus: Vec::new(),
        seed: SEED,
        streams: Vec::new(),
    }
}

fn apply(workload: &mut Workload, setting: &Setting) {
    match setting {
        Setting::Rw(rw) => workload.rw = *rw,
        Setting::BlockSize(blocks) => workload.blocks = blocks.clone(),
        Setting::QueueDepth(depth) => workload.queue_depth = *depth,
        Setting::Workers(workers) => workload.workers = *workers,
        Setting::Layout(layout) => workload.layout = *layout,
        Setting::Offset(place) => workload.region.offset = *place,
        Setting::Size(place) => workload.region.size = Some(*place),
        Setting::Access(access) => workload.access = *access,
        Setting::Once(once) => workload.once = *once,
        Setting::Runtime(time) => workload.limit = Limit::Runtime(*time),
        Setting::Amount(bytes) => workload.limit = Limit::Amount(*bytes),
        Setting::Warmup(time) => workload.warmup = *time,
        Setting::Cooldown(time) => workload.cooldown = *time,
        Setting::Cache(cache) => workload.cache = *cache,
        Setting::Sync(sync) => workload.sync = *sync,
        Setting::FsyncEvery(writes) => {
            workload.flush = Some(FlushEvery { writes: *writes, data_only: false });
        }
        Setting::FdatasyncEvery(writes) => {
            workload.flush = Some(FlushEvery { writes: *writes, data_only: true });
        }
        Setting::FsyncAtEnd(on) => workload.fsync_at_end = *on,
        Setting::Data(data) => workload.data = *data,
        Setting::Verify(on) => workload.verify = *on,
        Setting::Engine(engine) => workload.engine = *engine,
        Setting::Hipri(on) => workload.hipri = *on,
        Setting::Sqpoll(on) => workload.sqpoll = *on,
        Setting::Cpus(cpus) => workload.cpus.clone_from(cpus),
        Setting::Seed(seed) => workload.seed = *seed,
        // The share depends on the direction too, which may come later, and the pace on several
        // keys.
        Setting::ReadPercent(_)
        | Setting::Rate(_)
        | Setting::Arrivals(_)
        | Setting::MaxLateness(_)
        | Setting::ThinkTime(_) => {}
    }
}
