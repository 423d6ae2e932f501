//! Checks workloads: what their keys mean beside each other, and on the setups they run on.

use crate::diag::Diagnostic;
use crate::units::{Bytes, Nanos};

use super::model::{Access, Cache, Data, EngineChoice, Layout, Limit, Place, Region};
use super::pace::Pace;
use super::profile::exclude_each_other;
use super::raw::{At, Entry, RawWorkload, Setting, Span};
use super::ring;
use super::storage::SetupPoint;
use super::streams;
use super::sweep::Draft;

/// Memory for I/O buffers that a workload may ask for.
pub(super) const IN_FLIGHT_MAX: u64 = 8 << 30;

/// Keys that only a workload that writes has a use for.
const OF_WRITES: [&str; 5] = ["sync", "fsync_every", "fdatasync_every", "fsync_at_end", "data"];

/// What is wrong with a workload as a whole.
pub(super) fn whole(raw: &RawWorkload, drafts: &[Draft<'_>], errors: &mut Vec<Diagnostic>) {
    let what = if raw.is_stream { "stream" } else { "workload" };
    let name = &raw.name.value;
    let entry = |key: &str| raw.entries.iter().find(|entry| entry.key == key);
    if entry("rw").is_none() && !raw.doubtful {
        let message = format!("the {what} `{name}` has no `rw`");
        let span = raw.name.span.clone();
        errors.push(
            Diagnostic::new("plan::missing-key", message, span, "`rw` is missing")
                .help("add `rw = \"randread\"`"),
        );
    }
    for (index, entry) in raw.entries.iter().enumerate() {
        let before = raw.entries[..index].iter();
        let other = before.clone().find(|other| exclude_each_other(other.key, entry.key));
        if let Some(other) = other {
            let message = format!("`{}` and `{}` exclude each other", other.key, entry.key);
            let span = entry.key_span.clone();
            errors.push(
                Diagnostic::new("plan::conflict", message, span, "one of the two is too many")
                    .context(other.key_span.clone(), ""),
            );
        }
    }
    let sure = |keys: &[&str]| drafts.iter().all(|draft| draft.sure(keys));
    if drafts.is_empty() || entry("rw").is_none() || !sure(&["rw", "read_percent"]) {
        return;
    }
    let mut useless = |key: &str, useful: bool, why: &str| {
        let own = |entry: &&Entry| !useful && !raw.inherited.contains(&entry.key);
        if let Some(entry) = entry(key).filter(own) {
            let message = format!("`{key}` has no effect on the {what} `{name}`");
            let rw = drafts.first().map_or(raw.name.span.clone(), |draft| draft.place("rw"));
            errors.push(
                Diagnostic::new("plan::no-effect", message, entry.key_span.clone(), why)
                    .context(rw, "")
                    .help("take it out"),
            );
        }
    };
    let mixed = drafts.iter().any(|draft| draft.workload.rw.is_mixed());
    useless("read_percent", mixed, "only `readwrite` and `randrw` mix");
    let random = drafts.iter().any(|draft| draft.workload.rw.is_random());
    useless("once", random, "in sequence, every block is visited once anyway");
    let favours = |at: &At<Setting>| at.value != Setting::Access(Access::Uniform);
    let values = entry("access").and_then(|entry| entry.values.as_ref());
    let favoured = values.is_some_and(|values| values.items.iter().any(favours));
    useless("access", random || !favoured, "in sequence, no block is favoured");
    let open = drafts.iter().any(|draft| matches!(draft.workload.pace, Pace::Open { .. }));
    if sure(&["rate"]) {
        for key in ["arrivals", "max_lateness"] {
            useless(key, open, "without a `rate`, no I/O is due at a time of its own");
        }
    }
    let writes = drafts.iter().any(|draft| draft.workload.writes());
    for key in OF_WRITES {
        useless(key, writes, "nothing is written");
    }
    let transfers = drafts.iter().any(|draft| !draft.workload.trims());
    useless("verify", transfers, "what was trimmed holds nothing that could be checked");
}

/// What is wrong with one point of a workload, wherever it runs.
pub(super) fn point(draft: &Draft<'_>, errors: &mut Vec<Diagnostic>) {
    let workload = &draft.workload;
    let largest = workload.blocks.largest();
    engine(draft, errors);
    ring::point(draft, errors);
    if draft.sure(&["once", "block_size"]) && workload.once && workload.blocks.0.len() > 1 {
        let message = "`once` needs blocks of one size";
        errors.push(
            Diagnostic::new("plan::conflict", message, draft.place("once"), "every block once")
                .context(draft.place("block_size"), "several sizes"),
        );
    }
    if draft.sure(&["once", "access"]) && workload.once && workload.access != Access::Uniform {
        let message = "`once` and a favoured part of the blocks exclude each other";
        errors.push(
            Diagnostic::new("plan::conflict", message, draft.place("access"), "some more often")
                .context(draft.place("once"), "every block once"),
        );
    }
    if draft.sure(&["verify", "data"])
        && workload.verify
        && matches!(workload.data, Data::Duplicate(_))
    {
        let message = "`verify` and data that repeat exclude each other";
        let label = "makes every block differ from all others";
        errors.push(
            Diagnostic::new("plan::conflict", message, draft.place("verify"), label)
                .context(draft.place("data"), "some of them the same"),
        );
    }
    cooldown(draft, errors);
    let depth = u64::from(workload.queue_depth) * u64::from(workload.workers);
    let in_flight = largest.0.saturating_mul(depth);
    if draft.sure(&["block_size", "queue_depth", "workers"]) && in_flight > IN_FLIGHT_MAX {
        let message = format!("{} would be in flight at once", Bytes(in_flight));
        let place =
            ["queue_depth", "workers", "block_size"].into_iter().find(|key| draft.gives(key));
        let place = draft.place(place.unwrap_or("block_size"));
        errors.push(Diagnostic::new("plan::out-of-range", message, place, "too much").note(
            format!(
                "`block_size` x `queue_depth` x `workers` can be {} at most",
                Bytes(IN_FLIGHT_MAX)
            ),
        ));
    }
    if draft.sure(&["block_size", "amount"])
        && let Limit::Amount(amount) = workload.limit
        && amount < largest
    {
        let message = format!("an amount of {amount} is less than a block of {largest}");
        errors.push(
            Diagnostic::new("plan::region", message, draft.place("amount"), "less than a block")
                .context(draft.place("block_size"), ""),
        );
    }
}

/// Whether the engine can have as many I/Os in flight as the depth asks for.
fn engine(draft: &Draft<'_>, errors: &mut Vec<Diagnostic>) {
    let workload = &draft.workload;
    if draft.sure(&["rw", "engine"]) && workload.trims() && workload.engine == EngineChoice::Libaio
    {
        let message = "the engine `libaio` can't trim";
        let place = draft.place("engine");
        errors.push(
            Diagnostic::new("plan::conflict", message, place, "has no command for it")
                .context(draft.place("rw"), "trims")
                .help("use the engine `io_uring`, or `sync` for one trim at a time"),
        );
        return;
    }
    if !draft.sure(&["engine", "queue_depth"]) || workload.queue_depth == 1 {
        return;
    }
    let here = draft.place("queue_depth");
    let label = format!("asks for {}", workload.queue_depth);
    let conflict = |message| {
        Diagnostic::new("plan::conflict", message, here, label).context(draft.place("engine"), "")
    };
    match workload.engine {
        EngineChoice::Sync => errors.push(
            conflict("the engine `sync` has one I/O in flight for each worker")
                .help("use more `workers`, or the engine `io_uring` or `libaio`"),
        ),
        EngineChoice::Libaio if draft.sure(&["cache"]) && workload.cache == Cache::Buffered => {
            errors.push(
                conflict("through the page cache the engine `libaio` does one I/O at a time")
                    .context(draft.place("cache"), "")
                    .help("use `cache = \"direct\"`, or the engine `io_uring`"),
            );
        }
        _ => {}
    }
}

fn cooldown(draft: &Draft<'_>, errors: &mut Vec<Diagnostic>) {
    let workload = &draft.workload;
    if workload.cooldown == Nanos(0) {
        return;
    }
    let (other, why) = match workload.limit {
        Limit::Amount(_) if draft.sure(&["amount"]) => {
            ("amount", "the load ends with the last byte of the amount")
        }
        _ if workload.fsync_at_end => {
            ("fsync_at_end", "the load ends before the `fsync` that counts into the time")
        }
        _ => return,
    };
    let message = format!("`cooldown` can't be beside `{other}`");
    errors.push(
        Diagnostic::new(
            "plan::conflict",
            message,
            draft.place("cooldown"),
            "nothing to go on with",
        )
        .context(draft.place(other), "")
        .note(why),
    );
}

/// What is wrong with a workload on one setup.
pub(super) fn on_setup(draft: &Draft<'_>, setup: &SetupPoint, errors: &mut Vec<Diagnostic>) {
    if !draft.streams.is_empty() {
        draft.streams.iter().for_each(|stream| on_setup(stream, setup, errors));
        streams::on_setup(draft, setup, errors);
        return;
    }
    let workload = &draft.workload;
    let name = &setup.setup.name;
    if let Some(device) = &setup.device
        && draft.gives("rw")
        && draft.sure(&["read_percent"])
        && workload.changes()
    {
        let (does, label) =
            if workload.trims() { ("trim", "trims") } else { ("write to", "writes") };
        let message = format!("this workload would {does} a device of the setup `{name}`");
        let here = draft.place("rw");
        errors.push(
            Diagnostic::new("plan::read-only-device", message, here, label)
                .context(device.clone(), "opened for reading only")
                .note("what is on a device is never written over")
                .help(format!(
                    "let only workloads that read run there, with `workloads = [\"…\"]` in \
                     `[setups.{name}]`"
                )),
        );
    }
    if let Some(null) = &setup.null {
        on_null(draft, name, null, errors);
    }
    if !draft.sure(&["block_size", "offset", "size", "layout", "workers"]) {
        return;
    }
    let Some(target) = setup.bytes else {
        // Of a target whose size isn't known, shares can be added up all the same.
        if matches!(
            workload.region,
            Region { offset: Place::Percent(_), size: Some(Place::Percent(_)) }
        ) {
            region(draft, setup, 100 << 40, errors);
        }
        return;
    };
    region(draft, setup, target, errors);
}

/// Whether a workload asks only for what the null device has.
fn on_null(draft: &Draft<'_>, setup: &str, null: &Span, errors: &mut Vec<Diagnostic>) {
    let workload = &draft.workload;
    let mut wrong = |key: &str, message: &str, help: &str| {
        let message = format!("{message} the setup `{setup}`");
        errors.push(
            Diagnostic::new("plan::null-device", message, draft.place(key), "not to be had there")
                .context(null.clone(), "takes what is written, and does nothing")
                .help(help),
        );
    };
    if draft.gives("rw") && draft.sure(&["read_percent"]) && workload.reads() {
        let help = "let only workloads that write run there";
        wrong("rw", "there is nothing to read on", help);
    }
    if draft.gives("rw") && workload.trims() {
        wrong("rw", "there is nothing to trim on", "let only workloads that write run there");
    }
    if draft.sure(&["cache"]) && workload.cache == Cache::Direct {
        wrong("cache", "there is no direct I/O on", "add `cache = \"buffered\"`");
    }
    if workload.verify {
        wrong("verify", "nothing can be read back from", "take it out");
    }
    for key in ["fsync_every", "fdatasync_every", "fsync_at_end"] {
        if draft.gives(key) && workload.syncs() {
            wrong(key, "there is nothing to flush on", "take it out");
        }
    }
}

/// Whether the region lies on the target and holds a block of each worker.
fn region(draft: &Draft<'_>, setup: &SetupPoint, target: u64, errors: &mut Vec<Diagnostic>) {
    let workload = &draft.workload;
    let (smallest, largest) = (workload.blocks.smallest().0, workload.blocks.largest().0);
    let resolve = |place: Place| match place {
        Place::Bytes(bytes) => bytes.0,
        Place::Percent(percent) => percent.of(target),
    };
    let mut wrong = |key: &str, message: String, label: &str| {
        let diagnostic = Diagnostic::new("plan::region", message, draft.place(key), label);
        errors.push(match &setup.size_span {
            _ if key == "block_size" && draft.gives("size") => {
                diagnostic.context(draft.place("size"), "the region's size")
            }
            Some(span) => diagnostic.context(span.clone(), "the disk's size"),
            None => diagnostic,
        });
    };
    let name = &setup.setup.name;
    let start = resolve(workload.region.offset) / smallest * smallest;
    if start >= target {
        let message = format!("the region starts at the end of `{name}` or behind it");
        return wrong("offset", message, "nothing is left");
    }
    let len = workload.region.size.map(resolve);
    if len.is_some_and(|len| len > target - start) {
        let message = format!("the region reaches past the end of `{name}`");
        return wrong("size", message, "too long");
    }
    let Some(extent) = workload.region.on(target, smallest).filter(|e| e.len >= largest) else {
        let message = format!("a block of {} does not fit into the region", Bytes(largest));
        let key = if draft.gives("block_size") { "block_size" } else { "size" };
        return wrong(key, message, "does not fit");
    };
    let workers = workload.workers;
    let part = extent.part_len(workers, smallest);
    if workload.layout == Layout::Partitioned && part < largest {
        let message = format!("a part for each of {workers} workers holds no block");
        wrong("workers", message, "too many parts");
    }
}
