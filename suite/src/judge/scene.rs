//! Where a case was measured: whether two records are of machines and disks that can be compared.
//!
//! The fingerprint of a case is the model of the processor, the series of the kernel (major and
//! minor number), and the class of each disk of its setup: kind, file system, size, and the kind
//! of driver where both records know it. Names, serial numbers, paths and the text of the plan
//! are no part of it. What the case does is looked at elsewhere: that is an error, not a doubt.

use crate::record::{CaseRecord, DiskRecord, Host, Record};
use crate::units::Bytes;

/// Every difference between the scene of a case and that of the same case in an earlier record,
/// as half a sentence each. None where they are the same.
pub(super) fn differences(
    record: &Record,
    case: &CaseRecord,
    baseline: &Record,
    earlier: &CaseRecord,
) -> Vec<String> {
    let mut differences = match (&record.host, &baseline.host) {
        (Some(now), Some(then)) => of_hosts(now, then),
        (None, None) => Vec::new(), // in virtual time the machine has no say
        _ => vec!["the machine is not known of both".to_owned()],
    };
    match (disks(record, case), disks(baseline, earlier)) {
        (Some(now), Some(then)) if now.len() == then.len() => {
            differences.extend(now.iter().zip(then).flat_map(|(now, then)| of_disks(now, then)));
        }
        _ => differences.push("the disks of the case are not known of both".to_owned()),
    }
    differences
}

/// The disks that a case ran on; `None` where the record doesn't have them all.
pub(super) fn disks<'r>(record: &'r Record, case: &CaseRecord) -> Option<Vec<&'r DiskRecord>> {
    let known = |name: &String| record.disks.iter().find(|disk| disk.name == *name);
    (!case.disks.is_empty()).then(|| case.disks.iter().map(known).collect()).flatten()
}

fn of_hosts(now: &Host, then: &Host) -> Vec<String> {
    let processor = difference("the processor", &now.cpu_model, &then.cpu_model);
    let kernel = difference("the kernel series", series(&now.kernel), series(&then.kernel));
    processor.into_iter().chain(kernel).collect()
}

fn of_disks(now: &DiskRecord, then: &DiskRecord) -> Vec<String> {
    let filesystem = |disk: &DiskRecord| disk.filesystem.clone().unwrap_or("none".to_owned());
    let what = |of: &str| format!("the {of} of disk {}", now.name);
    let size = |disk: &DiskRecord| Bytes(disk.size_bytes).to_string();
    let driver = now.driver.as_deref().zip(then.driver.as_deref());
    let all = [
        difference(&what("kind"), &now.kind, &then.kind),
        difference(&what("file system"), &filesystem(now), &filesystem(then)),
        difference(&what("size"), &size(now), &size(then)),
        driver.and_then(|(now, then)| difference(&what("driver"), now, then)),
    ];
    all.into_iter().flatten().collect()
}

fn difference(what: &str, now: &str, then: &str) -> Option<String> {
    (now != then).then(|| format!("{what} was {then} there and is {now} here"))
}

/// Major and minor number of a kernel release: `6.18` of `6.18.2-generic`.
fn series(release: &str) -> &str {
    let end = release.match_indices(|c: char| !c.is_ascii_digit()).nth(1).map(|(at, _)| at);
    match end {
        Some(end) if release.starts_with(|c: char| c.is_ascii_digit()) => &release[..end],
        _ => release,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_series_of_a_kernel() {
        let releases = ["6.18.2-generic", "6.18.0", "6.18-rc3", "6.18", "5.4.0", "unknown"];
        assert_eq!(releases.map(series), ["6.18", "6.18", "6.18", "6.18", "5.4", "unknown"]);
    }
}
