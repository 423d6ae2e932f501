//! Profiles: the keys of a profile laid over those of the plan, before anything is made of them.

use crate::diag::{Diagnostic, nearest};

use super::glob;
use super::raw::{DiskKeys, Entry, RawPlan, RawProfile, RawRun, Slot, Text};

/// Keys of which a workload has one at most: the one replaces the other.
const EXCLUSIVE: [[&str; 2]; 3] =
    [["runtime", "amount"], ["fsync_every", "fdatasync_every"], ["rate", "think_time"]];

/// The plan as it is with a profile; patterns that match nothing are errors.
pub(super) fn applied(
    plan: &RawPlan,
    profile: &RawProfile,
    errors: &mut Vec<Diagnostic>,
) -> RawPlan {
    let mut plan = plan.clone();
    for (pattern, keys) in &profile.disks {
        let mut matched = false;
        for disk in &mut plan.disks.items {
            if glob::matches(&pattern.value, &disk.name.value) {
                matched = true;
                lay_disk(&mut disk.keys, keys);
            }
        }
        if !matched && !plan.disks.broken {
            let names = plan.disks.items.iter().map(|disk| disk.name.value.as_str());
            errors.push(unmatched("disk", pattern, names));
        }
    }
    for (pattern, entries) in &profile.workloads {
        let mut matched = false;
        for workload in &mut plan.workloads.items {
            if glob::matches(&pattern.value, &workload.name.value) {
                matched = true;
                lay_workload(&mut workload.entries, entries);
            }
        }
        if !matched && !plan.workloads.broken {
            let names = plan.workloads.items.iter().map(|workload| workload.name.value.as_str());
            errors.push(unmatched("workload", pattern, names));
        }
    }
    lay_run(&mut plan.run, &profile.run);
    plan
}

/// Whether a workload has one of these two keys at most.
pub(super) fn exclude_each_other(one: &str, other: &str) -> bool {
    one != other && EXCLUSIVE.iter().any(|pair| pair.contains(&one) && pair.contains(&other))
}

fn unmatched<'n>(
    what: &str,
    pattern: &Text,
    names: impl Iterator<Item = &'n str> + Clone,
) -> Diagnostic {
    let code = if what == "disk" { "plan::unknown-disk" } else { "plan::unknown-workload" };
    let message = format!("`{}` matches no {what}", pattern.value);
    let part = pattern.part(0..pattern.value.len());
    let diagnostic = Diagnostic::new(code, message, part.clone(), "matches nothing");
    match nearest(&pattern.value, names) {
        Some(near) if pattern.inside.is_some() => {
            diagnostic.fix(format!("use the {what} that exists"), part, near)
        }
        _ => diagnostic,
    }
}

fn lay<T: Clone>(base: &mut Slot<T>, over: &Slot<T>) {
    if !over.is_absent() {
        *base = over.clone();
    }
}

fn lay_disk(base: &mut DiskKeys, over: &DiskKeys) {
    lay(&mut base.size, &over.size);
    lay(&mut base.count, &over.count);
    lay(&mut base.directory, &over.directory);
    lay(&mut base.device, &over.device);
    lay(&mut base.null, &over.null);
}

fn lay_run(base: &mut RawRun, over: &RawRun) {
    lay(&mut base.rounds, &over.rounds);
    lay(&mut base.order, &over.order);
    lay(&mut base.inconclusive, &over.inconclusive);
}

/// Replaces what is of the same kind, in its place, and adds the rest.
pub(super) fn lay_workload(base: &mut Vec<Entry>, over: &[Entry]) {
    let mut laid: Vec<usize> = Vec::new();
    for entry in over {
        let same =
            |known: &Entry| known.key == entry.key || exclude_each_other(known.key, entry.key);
        // Two keys of one profile that exclude each other must both stay, to be found.
        let place = (0..base.len()).find(|index| !laid.contains(index) && same(&base[*index]));
        let index = place.unwrap_or(base.len());
        if index == base.len() {
            base.push(entry.clone());
        } else {
            base[index] = entry.clone();
        }
        laid.push(index);
    }
}
