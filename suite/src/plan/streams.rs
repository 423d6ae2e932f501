//! Streams: several loads side by side in one workload, each checked as a workload of its own, and
//! then what they are beside each other.

use crate::diag::Diagnostic;
use crate::units::Bytes;

use super::check::WorkloadGroup;
use super::model::{Blocks, Extent, Place, Stream, Workload};
use super::pace::Pace;
use super::profile::lay_workload;
use super::raw::RawWorkload;
use super::storage::SetupPoint;
use super::sweep::{self, Draft};
use super::workload::{self, IN_FLIGHT_MAX};

/// Workers of all streams together.
const WORKERS_MAX: u32 = 256;

/// Keys that end a load in a way that several can't share, and why.
const OF_ONE_LOAD: [(&str, &str); 2] = [
    ("amount", "which of the streams would it end? Give it a `runtime`"),
    ("fsync_at_end", "which of the streams would it be of? Give one a `fsync_every`"),
];

/// The streams of a workload as workloads: what stands at the workload is what each has that
/// doesn't say otherwise. Empty where it has no streams.
pub(super) fn laid_out(raw: &RawWorkload) -> Vec<RawWorkload> {
    let Some(section) = &raw.streams else { return Vec::new() };
    let streams = section.items.iter().map(|stream| {
        let mut entries = raw.entries.clone();
        entries.retain(|entry| entry.key != "rw");
        lay_workload(&mut entries, &stream.entries);
        let own = |key: &str| stream.entries.iter().any(|entry| entry.key == key);
        let inherited = entries.iter().map(|entry| entry.key).filter(|key| !own(key));
        RawWorkload {
            name: stream.name.clone(),
            inherited: inherited.collect(),
            entries,
            doubtful: stream.doubtful || raw.doubtful,
            is_stream: true,
            streams: None,
        }
    });
    streams.collect()
}

/// Checks a workload with streams, which are laid out in `streams`. It has one point, or none where
/// that can't be told.
pub(super) fn group<'r>(
    raw: &'r RawWorkload,
    streams: &'r [RawWorkload],
    errors: &mut Vec<Diagnostic>,
) -> WorkloadGroup<'r> {
    of_all(raw, errors);
    let swept = no_lists(std::iter::once(raw).chain(streams), errors);
    let mut known = raw.streams.as_ref().is_some_and(|section| !section.broken) && !swept;
    let mut drafts = Vec::new();
    for stream in streams.iter().filter(|_| !swept) {
        let own = sweep::drafts(stream);
        workload::whole(stream, &own, errors);
        for draft in &own {
            workload::point(draft, errors);
        }
        known &= stream.entries.iter().all(|entry| entry.values.is_some())
            && stream.entries.iter().any(|entry| entry.key == "rw");
        drafts.extend(own);
    }
    known &= drafts.len() == streams.len() && !drafts.is_empty();
    let whole = if known { sweep::drafts(raw).pop() } else { None };
    let drafts = whole.into_iter().map(|mut whole| {
        combine(&mut whole.workload, &drafts);
        whole.streams = std::mem::take(&mut drafts);
        side_by_side(raw, &whole, errors);
        whole
    });
    WorkloadGroup { raw, drafts: drafts.collect(), known }
}

/// Keys of the workload that make no sense for all of its streams.
fn of_all(raw: &RawWorkload, errors: &mut Vec<Diagnostic>) {
    let mut wrong = |key: &str, message: String, help: &str| {
        let Some(entry) = raw.entries.iter().find(|entry| entry.key == key) else { return };
        let place = entry.key_span.clone();
        errors.push(
            Diagnostic::new("plan::conflict", message, place, "not beside `streams`").help(help),
        );
    };
    let message = "a workload with streams has no `rw` of its own".to_owned();
    wrong("rw", message, "give each stream one");
    for (key, help) in OF_ONE_LOAD {
        wrong(key, format!("`{key}` and `streams` exclude each other"), help);
    }
}

/// Whether there are lists, which is an error for each.
fn no_lists<'r>(raws: impl Iterator<Item = &'r RawWorkload>, errors: &mut Vec<Diagnostic>) -> bool {
    let mut found = false;
    for entry in raws.flat_map(|raw| &raw.entries) {
        if entry.values.as_ref().is_some_and(|values| values.swept) {
            found = true;
            let message = format!("`{}` takes one value in a workload with streams", entry.key);
            let place = entry.key_span.clone();
            errors.push(
                Diagnostic::new("plan::conflict", message, place, "a list")
                    .note("this version of diskproof does not sweep over streams")
                    .help("write a workload for each value"),
            );
        }
    }
    found
}

/// What all streams are together, in the place of a load of its own.
fn combine(whole: &mut Workload, streams: &[Draft<'_>]) {
    let loads = || streams.iter().map(|draft| &draft.workload);
    let mut sizes: Vec<Bytes> =
        loads().flat_map(|load| load.blocks.0.iter().map(|(size, _)| *size)).collect();
    sizes.sort_unstable();
    sizes.dedup();
    whole.blocks = Blocks(sizes.into_iter().map(|size| (size, 1)).collect());
    whole.queue_depth = loads().map(|load| load.queue_depth).max().unwrap_or(1);
    whole.workers = loads().map(|load| load.workers).sum();
    whole.pace =
        loads().map(|load| load.pace).find(|pace| *pace != Pace::Closed).unwrap_or(Pace::Closed);
    whole.verify = loads().any(|load| load.verify);
    whole.cpus = loads().flat_map(|load| load.cpus.iter().copied()).collect();
    whole.cpus.sort_unstable();
    whole.cpus.dedup();
    whole.streams = streams
        .iter()
        .map(|draft| Stream { name: draft.name().to_owned(), workload: draft.workload.clone() })
        .collect();
}

/// What is wrong with the streams beside each other, wherever they run.
fn side_by_side(raw: &RawWorkload, whole: &Draft<'_>, errors: &mut Vec<Diagnostic>) {
    let loads = whole.workload.loads();
    if whole.workload.workers > WORKERS_MAX {
        let message = format!("the streams have {} workers together", whole.workload.workers);
        let label = format!("at most {WORKERS_MAX}");
        errors.push(Diagnostic::new("plan::out-of-range", message, raw.name.span.clone(), label));
    }
    let each = loads.iter().map(|load| {
        let depth = u64::from(load.queue_depth) * u64::from(load.workers);
        load.blocks.largest().0.saturating_mul(depth)
    });
    let in_flight = each.fold(0, u64::saturating_add);
    if in_flight > IN_FLIGHT_MAX {
        let message = format!("{} would be in flight at once", Bytes(in_flight));
        let label = format!("at most {}", Bytes(IN_FLIGHT_MAX));
        errors.push(Diagnostic::new("plan::out-of-range", message, raw.name.span.clone(), label));
    }
    let trims = whole.streams.iter().find(|stream| stream.workload.trims());
    if let Some(trims) = trims.filter(|_| whole.gives("verify") && whole.workload.verify) {
        let message = "`verify` and a stream that trims exclude each other";
        errors.push(
            Diagnostic::new(
                "plan::conflict",
                message,
                trims.place("rw"),
                "leaves nothing to check",
            )
            .context(whole.place("verify"), ""),
        );
    }
}

/// What is wrong with the streams on one setup, beside what is wrong with each: no stream reads
/// the holes that another one makes.
pub(super) fn on_setup(whole: &Draft<'_>, setup: &SetupPoint, errors: &mut Vec<Diagnostic>) {
    for trims in whole.streams.iter().filter(|stream| stream.workload.trims()) {
        for reads in whole.streams.iter().filter(|stream| stream.workload.reads()) {
            if overlap(&trims.workload, &reads.workload, setup.bytes) {
                let message = format!(
                    "the stream `{}` would read the holes that `{}` makes",
                    reads.name(),
                    trims.name()
                );
                errors.push(
                    Diagnostic::new("plan::conflict", message, reads.place("rw"), "reads there")
                        .context(trims.place("rw"), "trims there")
                        .note("reads of a hole are answered from memory")
                        .help("give both regions of their own, with `offset` and `size`"),
                );
            }
        }
    }
}

/// Whether the regions of two loads have bytes in common; where that can't be told, they have.
fn overlap(one: &Workload, two: &Workload, bytes: Option<u64>) -> bool {
    let whole = |load: &Workload| {
        load.region.offset == Place::Bytes(Bytes(0)) && load.region.size.is_none()
    };
    let on = |load: &Workload| load.region.on(bytes?, load.blocks.smallest().0);
    let (Some(a), Some(b)) = (on(one), on(two)) else {
        return bytes.is_none() && (whole(one) || whole(two));
    };
    let end = |extent: &Extent| extent.start + extent.len;
    a.start < end(&b) && b.start < end(&a)
}
