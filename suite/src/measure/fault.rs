//! Failed I/Os: put together, and put into words.

use super::{IoFault, IoKind};

/// The error numbers that storage answers with: their names in `errno(3)` on Linux, and their
/// meaning in our own words. Those of the C library differ from one to the next, and a record is
/// to read the same everywhere.
const KNOWN: [(i32, &str, &str); 30] = [
    (1, "EPERM", "not permitted"),
    (2, "ENOENT", "no such file"),
    (4, "EINTR", "interrupted"),
    (5, "EIO", "input/output error"),
    (6, "ENXIO", "no such device or address"),
    (9, "EBADF", "bad file descriptor"),
    (11, "EAGAIN", "try again"),
    (12, "ENOMEM", "out of memory"),
    (13, "EACCES", "permission denied"),
    (14, "EFAULT", "bad address"),
    (16, "EBUSY", "device busy"),
    (19, "ENODEV", "no such device"),
    (22, "EINVAL", "invalid argument"),
    (27, "EFBIG", "file too large"),
    (28, "ENOSPC", "no space left"),
    (29, "ESPIPE", "no place to seek to"),
    (30, "EROFS", "read-only file system"),
    (52, "EBADE", "reservation conflict"),
    (61, "ENODATA", "no data: a bad sector"),
    (62, "ETIME", "timed out in the device"),
    (67, "ENOLINK", "the link to the device is gone"),
    (74, "EBADMSG", "failed checksum"),
    (75, "EOVERFLOW", "value too large"),
    (84, "EILSEQ", "failed integrity check"),
    (95, "EOPNOTSUPP", "not supported"),
    (110, "ETIMEDOUT", "timed out"),
    (117, "EUCLEAN", "damaged file system"),
    (121, "EREMOTEIO", "the target failed"),
    (122, "EDQUOT", "over the quota"),
    (125, "ECANCELED", "cancelled"),
];

/// What storage answers with that can't do what was asked for (`EOPNOTSUPP`).
const NOT_SUPPORTED: i32 = 95;

/// What to do where that was a trim.
const NO_HOLES: &str = ": the file system there can't punch holes, or the device can't discard; \
    put the disk on ext4, XFS, Btrfs or tmpfs";

/// `EIO (input/output error)`, or `error number 4711` of one that storage doesn't answer with.
fn errno_words(errno: i32) -> String {
    match KNOWN.iter().find(|(number, ..)| *number == errno) {
        Some((_, name, words)) => format!("{name} ({words})"),
        None => format!("error number {errno}"),
    }
}

/// Faults with those of one kind and error together, in the order in which they were seen first.
pub(crate) fn merged<'f>(faults: impl IntoIterator<Item = &'f IoFault>) -> Vec<IoFault> {
    let mut all: Vec<IoFault> = Vec::new();
    for fault in faults {
        let same = |known: &&mut IoFault| known.kind == fault.kind && known.errno == fault.errno;
        match all.iter_mut().find(same) {
            Some(known) => known.count += fault.count,
            None => all.push(fault.clone()),
        }
    }
    all
}

impl IoFault {
    /// What happened, as half a sentence: `3 reads failed with EIO (input/output error), the
    /// first on disk lrs at byte 4096`.
    #[must_use]
    pub fn describe(&self) -> String {
        let (one, many) = match self.kind {
            IoKind::Read => ("read", "reads"),
            IoKind::Write => ("write", "writes"),
            IoKind::Trim => ("trim", "trims"),
            IoKind::Sync => ("sync", "syncs"),
        };
        let noun = if self.count == 1 { one } else { many };
        let Self { errno, count, disk, first_offset, .. } = self;
        let how = match errno {
            0 => "ended without data and without an error".to_owned(),
            _ => format!("failed with {}", errno_words(*errno)),
        };
        let which = if *count == 1 { "" } else { "the first " };
        let place = match self.kind {
            IoKind::Sync => format!("{which}on disk {disk}"),
            _ => format!("{which}on disk {disk} at byte {first_offset}"),
        };
        let remedy = match (self.kind, *errno) {
            (IoKind::Trim, NOT_SUPPORTED) => NO_HOLES,
            _ => "",
        };
        format!("{count} {noun} {how}, {place}{remedy}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fault(kind: IoKind, errno: i32, count: u64) -> IoFault {
        IoFault { kind, errno, count, disk: "lrs".to_owned(), first_offset: 4096 }
    }

    #[test]
    fn a_fault_names_its_error_count_disk_and_place() {
        assert_eq!(
            fault(IoKind::Read, 5, 3).describe(),
            "3 reads failed with EIO (input/output error), the first on disk lrs at byte 4096"
        );
        assert_eq!(
            fault(IoKind::Write, 28, 1).describe(),
            "1 write failed with ENOSPC (no space left), on disk lrs at byte 4096"
        );
        assert_eq!(
            fault(IoKind::Sync, 5, 2).describe(),
            "2 syncs failed with EIO (input/output error), the first on disk lrs"
        );
        let trim = fault(IoKind::Trim, NOT_SUPPORTED, 1).describe();
        assert!(trim.starts_with("1 trim failed with EOPNOTSUPP (not supported), on disk lrs at"));
        assert!(trim.ends_with("put the disk on ext4, XFS, Btrfs or tmpfs"), "{trim}");
    }

    #[test]
    fn a_transfer_without_data_is_not_called_success() {
        let text = fault(IoKind::Read, 0, 1).describe();
        assert_eq!(
            text,
            "1 read ended without data and without an error, on disk lrs at byte 4096"
        );
    }

    #[test]
    fn the_names_are_those_of_the_kernel() {
        for (number, name, _) in KNOWN {
            assert_eq!(format!("{:?}", nix::errno::Errno::from_raw(number)), name);
        }
        assert_eq!(errno_words(4711), "error number 4711");
        assert_eq!(errno_words(-5), "error number -5");
        assert!(KNOWN.windows(2).all(|pair| pair[0].0 < pair[1].0));
    }
}
