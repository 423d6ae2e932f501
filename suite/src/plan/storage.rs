//! Checks disks and the setups that are made of them.

use std::collections::HashSet;
use std::path::PathBuf;

use crate::diag::{Diagnostic, nearest};
use crate::units::Bytes;

use super::model::{Disk, DiskSource, Point, Setup, Stripe};
use super::raw::{At, Member, RawDisk, RawPlan, RawSetup, Span};

/// Disks of a plan, counted ones one by one.
const DISKS_MAX: usize = 256;

/// A disk of the plan's text: one, or as many as its `count`.
pub(super) struct Group {
    pub name: At<String>,
    /// Index of its first disk.
    first: usize,
    count: usize,
    counted: Option<Span>,
    /// Where `device` stands.
    pub device: Option<Span>,
    /// Where `null` stands, of one that is.
    pub null: Option<Span>,
    /// Size of each, where the plan decides it, and where that stands.
    size: Option<(u64, Span)>,
    pub used: bool,
}

/// A setup of the plan's text.
pub(super) struct SetupGroup<'r> {
    pub raw: &'r RawSetup,
    /// Its points; empty if something is wrong with it.
    pub points: Vec<SetupPoint>,
}

/// One point of a setup.
pub(super) struct SetupPoint {
    pub setup: Setup,
    /// Its usable bytes, where the plan decides them.
    pub bytes: Option<u64>,
    /// Where the size of its smallest disk stands.
    pub size_span: Option<Span>,
    /// Where the `device` of one of its disks stands.
    pub device: Option<Span>,
    /// Where the `null` of one of its disks stands.
    pub null: Option<Span>,
}

/// The disks of a plan.
pub(super) struct Disks {
    pub disks: Vec<Disk>,
    pub groups: Vec<Group>,
}

/// Checks the disks of a plan.
pub(super) fn disks(plan: &RawPlan, errors: &mut Vec<Diagnostic>) -> Disks {
    let mut checked = Disks { disks: Vec::new(), groups: Vec::new() };
    for raw in &plan.disks.items {
        let source = source(raw, errors);
        let count = raw.keys.count.get().map_or(1, |count| count.value as usize);
        let first = checked.disks.len();
        if first <= DISKS_MAX && first + count > DISKS_MAX {
            let message = format!("the plan has more than {DISKS_MAX} disks");
            let span = raw.keys.count.get().map_or(raw.name.span.clone(), |at| at.span.clone());
            errors.push(Diagnostic::new("plan::too-many-disks", message, span, "too many"));
        }
        let group = &raw.name.value;
        for index in 0..count {
            let name = match raw.keys.count.get() {
                Some(_) => format!("{group}.{index}"),
                None => group.clone(),
            };
            checked.disks.push(Disk { name, group: group.clone(), source: source.clone() });
        }
        let size = raw.keys.size.get().filter(|_| raw.keys.device.is_absent());
        checked.groups.push(Group {
            name: raw.name.clone(),
            first,
            count,
            counted: raw.keys.count.get().map(|at| at.span.clone()),
            device: raw.keys.device.get().map(|at| at.span.clone()),
            null: raw.keys.null.get().filter(|at| at.value).map(|at| at.span.clone()),
            size: size.map(|size| (size.value.0, size.span.clone())),
            used: false,
        });
    }
    checked
}

/// What a disk is; one that is wrong is taken as something that nothing more is said about.
fn source(raw: &RawDisk, errors: &mut Vec<Diagnostic>) -> DiskSource {
    let keys = &raw.keys;
    let name = &raw.name.value;
    let null = keys.null.get().is_some_and(|null| null.value);
    for (other, slot) in [("device", keys.device.key()), ("directory", keys.directory.key())] {
        if let (Some(span), Some(nothing)) = (slot, keys.null.key().filter(|_| null)) {
            let message = format!("the disk `{name}` has a `{other}` and is `null`");
            errors.push(
                Diagnostic::new("plan::conflict", message, span, "can't be beside `null`")
                    .context(nothing, "")
                    .note(
                        "the null device lies nowhere: it takes what is written and does nothing",
                    ),
            );
        }
    }
    for (other, slot) in [("count", keys.count.key()), ("directory", keys.directory.key())] {
        if let (Some(span), Some(device)) = (slot, keys.device.key()) {
            let message = format!("the disk `{name}` has a `device` and a `{other}`");
            let note = match other {
                "count" => "a device is one disk: name each in a table of its own",
                _ => "a disk is either a device or a file in a directory",
            };
            errors.push(
                Diagnostic::new("plan::conflict", message, span, "can't be beside `device`")
                    .context(device, "")
                    .note(note),
            );
        }
    }
    let size = keys.size.get().map(|size| size.value);
    if let Some(device) = keys.device.get() {
        return DiskSource::Device { path: PathBuf::from(&device.value), size };
    }
    if keys.size.is_absent() && keys.device.is_absent() && !keys.doubtful {
        let message = format!("the disk `{name}` has no `size`");
        let span = raw.name.span.clone();
        errors.push(
            Diagnostic::new("plan::missing-key", message, span, "`size` is missing")
                .note("the test file of a disk is written in full, so its size is never guessed")
                .help("add `size = \"1GiB\"`"),
        );
    }
    // The size of a disk that has none is never looked at: there is an error about it.
    let size = size.unwrap_or_default();
    match keys.directory.get() {
        _ if null => DiskSource::Null { size },
        Some(path) => DiskSource::Directory { path: PathBuf::from(&path.value), size },
        None => DiskSource::Loopback { size },
    }
}

/// Checks the setups of a plan and expands their points.
pub(super) fn setups<'r>(
    plan: &'r RawPlan,
    disks: &mut Disks,
    errors: &mut Vec<Diagnostic>,
) -> Vec<SetupGroup<'r>> {
    let mut groups = Vec::new();
    for raw in &plan.setups.items {
        if raw.disks.is_absent() && !raw.doubtful {
            let message = format!("the setup `{}` has no `disks`", raw.name.value);
            let span = raw.name.span.clone();
            errors.push(
                Diagnostic::new("plan::missing-key", message, span, "`disks` is missing")
                    .help("add `disks = [\"single\"]`"),
            );
        }
        let choices = choices(plan, raw, disks, errors);
        let points = choices.map(|choices| points(raw, &choices, disks, errors));
        groups.push(SetupGroup { raw, points: points.unwrap_or_default() });
    }
    if !plan.disks.broken
        && !plan.setups.broken
        && groups.iter().all(|group| !group.points.is_empty())
        && !groups.is_empty()
    {
        unused(disks, errors);
    }
    groups
}

fn unused(disks: &Disks, errors: &mut Vec<Diagnostic>) {
    for group in disks.groups.iter().filter(|group| !group.used) {
        let message = format!("no setup uses the disk `{}`", group.name.value);
        errors.push(
            Diagnostic::new("plan::unused-disk", message, group.name.span.clone(), "not used")
                .help("put it into a setup, or take it out of the plan"),
        );
    }
}

/// The disks of a setup, once for each number of them that is swept over.
struct Choice {
    /// The number, where it is swept over.
    swept: Option<u32>,
    /// Where it, or the whole list, stands.
    span: Span,
    disks: Vec<usize>,
    groups: Vec<usize>,
}

fn choices(
    plan: &RawPlan,
    raw: &RawSetup,
    disks: &mut Disks,
    errors: &mut Vec<Diagnostic>,
) -> Option<Vec<Choice>> {
    let members = raw.disks.get()?;
    let mut choices = vec![Choice {
        swept: None,
        span: members.span.clone(),
        disks: Vec::new(),
        groups: Vec::new(),
    }];
    let mut seen = HashSet::new();
    let mut sound = true;
    for member in &members.value {
        let Some(index) = find(plan, member, disks, errors) else {
            sound = false;
            continue;
        };
        if !seen.insert(index) {
            let message =
                format!("the setup `{}` has `{}` twice", raw.name.value, member.name.value);
            let span = member.name.span.clone();
            errors.push(Diagnostic::new("plan::twice", message, span, "given before"));
            sound = false;
            continue;
        }
        disks.groups[index].used = true;
        let swept = choices.len() > 1;
        let Some(takes) = takes(&disks.groups[index], member, swept, errors) else {
            sound = false;
            continue;
        };
        let first = disks.groups[index].first;
        let add = |choice: &Choice| -> Vec<Choice> {
            let with = |(number, span, many): &(usize, Option<Span>, bool)| Choice {
                swept: if *many { u32::try_from(*number).ok() } else { choice.swept },
                span: span.clone().unwrap_or(choice.span.clone()),
                disks: choice.disks.iter().copied().chain(first..first + number).collect(),
                groups: choice.groups.iter().copied().chain([index]).collect(),
            };
            takes.iter().map(with).collect()
        };
        choices = choices.iter().flat_map(add).collect();
    }
    // A count that is wrong leaves open how many disks there are.
    let broken = |index: &usize| {
        let keys = &plan.disks.items[*index].keys;
        keys.count.is_broken() || (!keys.count.is_absent() && !keys.device.is_absent())
    };
    sound &= !seen.iter().any(broken);
    sound.then_some(choices)
}

fn find(
    plan: &RawPlan,
    member: &Member,
    disks: &Disks,
    errors: &mut Vec<Diagnostic>,
) -> Option<usize> {
    let At { value: name, span } = &member.name;
    let found = disks.groups.iter().position(|group| group.name.value == *name);
    if found.is_some() || plan.disks.broken || plan.disks.items.is_empty() {
        return found;
    }
    let message = format!("no disk is called `{name}`");
    let diagnostic =
        Diagnostic::new("plan::unknown-disk", message, span.clone(), "not defined in this plan");
    let counted = name.split_once('.').and_then(|(group, _)| {
        disks.groups.iter().find(|known| known.counted.is_some() && known.name.value == group)
    });
    let near = nearest(name, disks.groups.iter().map(|group| group.name.value.as_str()));
    errors.push(match (counted, near) {
        (Some(group), _) => {
            let group = &group.name.value;
            diagnostic
                .note(format!("`{group}` stands for all of its disks"))
                .help(format!("take the first of them alone with `disks = {{ {group} = 1 }}`"))
        }
        (None, Some(near)) => {
            let known = disks.groups.iter().find(|group| group.name.value == near);
            let place = known.map_or(0..0, |group| group.name.span.clone());
            diagnostic.context(place, "this one is close").fix(
                "use the disk that exists",
                span.clone(),
                near,
            )
        }
        (None, None) => diagnostic,
    });
    None
}

/// How many disks of a group a setup takes: the number, where it stands, whether it is swept.
fn takes(
    group: &Group,
    member: &Member,
    swept_before: bool,
    errors: &mut Vec<Diagnostic>,
) -> Option<Vec<(usize, Option<Span>, bool)>> {
    let Some(values) = &member.take else { return Some(vec![(group.count, None, false)]) };
    let name = &group.name.value;
    if values.swept && swept_before {
        let message = "a setup can sweep over the number of one of its disks alone";
        let span = member.name.span.clone();
        errors.push(Diagnostic::new("plan::conflict", message, span, "a second list"));
        return None;
    }
    let mut taken = Vec::new();
    for item in &values.items {
        if item.value as usize > group.count {
            let message = format!("there are not {} of the disk `{name}`", item.value);
            let has = match group.count {
                1 => "there is 1".to_owned(),
                count => format!("there are {count}"),
            };
            let place = group.counted.clone().unwrap_or(group.name.span.clone());
            errors.push(
                Diagnostic::new("plan::out-of-range", message, item.span.clone(), "too many")
                    .context(place, has),
            );
            return None;
        }
        taken.push((item.value as usize, Some(item.span.clone()), values.swept));
    }
    Some(taken)
}

fn points(
    raw: &RawSetup,
    choices: &[Choice],
    disks: &Disks,
    errors: &mut Vec<Diagnostic>,
) -> Vec<SetupPoint> {
    if raw.stripe.is_broken() {
        return Vec::new();
    }
    let chunks = raw.stripe.get().and_then(|stripe| stripe.value.chunk.get());
    let Some(chunks) = chunks.map(|chunks| &chunks.value) else {
        return choices.iter().filter_map(|c| point(raw, c, None, disks, errors)).collect();
    };
    let both = |choice, chunk| (choice, (chunk, chunks.swept));
    // The list that stands first in the text varies last.
    let disks_first = raw.disks.key().map(|key| key.start) < raw.stripe.key().map(|key| key.start);
    let pairs: Vec<_> = if disks_first {
        choices
            .iter()
            .flat_map(|choice| chunks.items.iter().map(move |chunk| both(choice, chunk)))
            .collect()
    } else {
        chunks
            .items
            .iter()
            .flat_map(|chunk| choices.iter().map(move |choice| both(choice, chunk)))
            .collect()
    };
    let mut points: Vec<_> = pairs
        .into_iter()
        .filter_map(|(choice, chunk)| point(raw, choice, Some(chunk), disks, errors))
        .collect();
    if !disks_first {
        for point in &mut points {
            point.setup.point.0.reverse();
        }
    }
    points
}

fn point(
    raw: &RawSetup,
    choice: &Choice,
    chunk: Option<(&At<Bytes>, bool)>,
    disks: &Disks,
    errors: &mut Vec<Diagnostic>,
) -> Option<SetupPoint> {
    let name = &raw.name.value;
    let members = choice.disks.len();
    let span = choice.span.clone();
    if members > 1 && raw.stripe.is_absent() {
        let message = format!("the setup `{name}` has {members} disks and no `stripe`");
        errors.push(
            Diagnostic::new("plan::stripe", message, span, format!("{members} disks")).help(
                "say how they become one: `stripe = { driver = \"engine\", chunk = \"256KiB\" }`",
            ),
        );
        return None;
    }
    if members == 1 && chunk.is_some() {
        let message = format!("the setup `{name}` is a stripe of one disk");
        let stripe = raw.stripe.key().unwrap_or(span.clone());
        errors.push(
            Diagnostic::new("plan::stripe", message, span, "one disk")
                .context(stripe, "")
                .help("a stripe needs two disks or more; one disk needs no stripe"),
        );
        return None;
    }
    let groups = || choice.groups.iter().map(|index| &disks.groups[*index]);
    let smallest = groups().map(|group| group.size.clone()).min_by_key(|size| {
        // A size that is not known comes first, so that nothing follows from the others.
        size.as_ref().map(|(bytes, _)| *bytes)
    });
    let (bytes, size_span) = smallest.flatten().unzip();
    if let (Some((chunk, _)), Some(bytes)) = (&chunk, bytes)
        && chunk.value.0 > bytes
    {
        let message = format!("a chunk of {} does not fit on a disk", chunk.value);
        let label = "larger than the disk";
        errors.push(
            Diagnostic::new("plan::stripe", message, chunk.span.clone(), label)
                .context(size_span.clone().unwrap_or_default(), "the disk's size"),
        );
        return None;
    }
    let usable = |bytes: u64| match &chunk {
        Some((chunk, _)) => bytes / chunk.value.0 * chunk.value.0 * members as u64,
        None => bytes,
    };
    let mut pairs = Vec::new();
    pairs.extend(choice.swept.map(|number| ("disks".to_owned(), number.to_string())));
    let driver = raw.stripe.get().and_then(|stripe| stripe.value.driver.get());
    let stripe = chunk.as_ref().zip(driver).map(|((chunk, swept), driver)| {
        if *swept {
            pairs.push(("chunk".to_owned(), chunk.value.to_string()));
        }
        Stripe { driver: driver.value, chunk: chunk.value }
    });
    let device = groups().find_map(|group| group.device.clone());
    let null = groups().find_map(|group| group.null.clone());
    let setup =
        Setup { name: name.clone(), point: Point(pairs), disks: choice.disks.clone(), stripe };
    Some(SetupPoint { setup, bytes: bytes.map(usable), size_span, device, null })
}
