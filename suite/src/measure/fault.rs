//! Failed I/Os in words: the name of an error number and what it means.

use super::{IoFault, IoKind};

/// The error numbers that storage answers with, by the names of `errno(3)` on Linux.
const NAMES: [(i32, &str); 30] = [
    (1, "EPERM"),
    (2, "ENOENT"),
    (4, "EINTR"),
    (5, "EIO"),
    (6, "ENXIO"),
    (9, "EBADF"),
    (11, "EAGAIN"),
    (12, "ENOMEM"),
    (13, "EACCES"),
    (14, "EFAULT"),
    (16, "EBUSY"),
    (19, "ENODEV"),
    (22, "EINVAL"),
    (27, "EFBIG"),
    (28, "ENOSPC"),
    (29, "ESPIPE"),
    (30, "EROFS"),
    (52, "EBADE"),
    (61, "ENODATA"),
    (62, "ETIME"),
    (67, "ENOLINK"),
    (74, "EBADMSG"),
    (75, "EOVERFLOW"),
    (84, "EILSEQ"),
    (95, "EOPNOTSUPP"),
    (110, "ETIMEDOUT"),
    (117, "EUCLEAN"),
    (121, "EREMOTEIO"),
    (122, "EDQUOT"),
    (125, "ECANCELED"),
];

/// The name of an error number: `EIO` of 5, `errno 4711` of one without a name.
#[must_use]
pub fn errno_name(errno: i32) -> String {
    let known = NAMES.iter().find(|(number, _)| *number == errno);
    known.map_or_else(|| format!("errno {errno}"), |(_, name)| (*name).to_owned())
}

impl IoFault {
    /// What happened, as half a sentence: `3 reads failed with EIO (Input/output error), the
    /// first on disk lrs at byte 4096`.
    #[must_use]
    pub fn describe(&self) -> String {
        let (one, many) = match self.kind {
            IoKind::Read => ("read", "reads"),
            IoKind::Write => ("write", "writes"),
            IoKind::Sync => ("sync", "syncs"),
        };
        let noun = if self.count == 1 { one } else { many };
        let Self { errno, count, disk, first_offset, .. } = self;
        let how = match errno {
            0 => "ended without data and without an error".to_owned(),
            _ => format!("failed with {} ({})", errno_name(*errno), meaning(*errno)),
        };
        let which = if *count == 1 { "" } else { "the first " };
        let place = match self.kind {
            IoKind::Sync => format!("{which}on disk {disk}"),
            _ => format!("{which}on disk {disk} at byte {first_offset}"),
        };
        format!("{count} {noun} {how}, {place}")
    }
}

/// The C library's words for an error number, without the number that `std` puts behind them.
fn meaning(errno: i32) -> String {
    let text = std::io::Error::from_raw_os_error(errno).to_string();
    text.split(" (os error").next().unwrap_or_default().to_owned()
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
            "3 reads failed with EIO (Input/output error), the first on disk lrs at byte 4096"
        );
        assert_eq!(
            fault(IoKind::Write, 28, 1).describe(),
            "1 write failed with ENOSPC (No space left on device), on disk lrs at byte 4096"
        );
        assert_eq!(
            fault(IoKind::Sync, 5, 2).describe(),
            "2 syncs failed with EIO (Input/output error), the first on disk lrs"
        );
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
        for (number, name) in NAMES {
            assert_eq!(format!("{:?}", nix::errno::Errno::from_raw(number)), name);
        }
        assert_eq!(errno_name(4711), "errno 4711");
        assert_eq!(errno_name(-5), "errno -5");
        assert!(NAMES.windows(2).all(|pair| pair[0].0 < pair[1].0));
    }
}
