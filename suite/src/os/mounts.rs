//! Which file system lies where: `/proc/self/mountinfo`.
//!
//! The form of its lines is that of proc_pid_mountinfo(5). Lines that don't have it are passed
//! over: a reader of mounts that gives up on one odd line helps nobody.

use std::ffi::OsString;
use std::io;
use std::os::unix::ffi::OsStringExt as _;
use std::path::{Path, PathBuf};

use super::blockdev::DeviceNumber;

/// One mount.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mount {
    /// The device number that files of it have, by and large: subvolumes have others.
    pub device: DeviceNumber,
    /// Where it is mounted.
    pub point: PathBuf,
    /// Its type: `ext4`.
    pub filesystem: String,
    /// What is mounted, as whoever mounted it called it: `/dev/vda`, `tmpfs`.
    pub source: PathBuf,
    /// Whether nothing can be written through this mount.
    pub read_only: bool,
}

/// All mounts that this process sees, in the order in which they were made.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Mounts(pub Vec<Mount>);

impl Mounts {
    /// Reads them from `mountinfo`, on a running machine `/proc/self/mountinfo`.
    ///
    /// # Errors
    /// When the file can't be read.
    pub fn read(mountinfo: &Path) -> io::Result<Self> {
        Ok(Self::parse(&std::fs::read(mountinfo)?))
    }

    /// Reads the text of such a file.
    #[must_use]
    pub fn parse(text: &[u8]) -> Self {
        Self(text.split(|byte| *byte == b'\n').filter_map(parse_line).collect())
    }

    /// The mount under `path`, which has to be absolute and free of links, and whose files have
    /// the number `device`: the longest mount point above it among those of that number, else
    /// (a subvolume has a number of its own) the longest of all. Of several on one point, the last
    /// one covers the others.
    #[must_use]
    pub fn under(&self, path: &Path, device: DeviceNumber) -> Option<&Mount> {
        let longest = |same_device: bool| {
            self.0
                .iter()
                .filter(|mount| !same_device || mount.device == device)
                .filter(|mount| path.starts_with(&mount.point))
                .max_by_key(|mount| mount.point.components().count())
        };
        longest(true).or_else(|| longest(false))
    }
}

fn parse_line(line: &[u8]) -> Option<Mount> {
    let fields: Vec<&[u8]> = line.split(|byte| *byte == b' ').collect();
    let separator = fields.iter().position(|field| *field == b"-")?;
    let text = |index: usize| std::str::from_utf8(fields.get(index)?).ok();
    Some(Mount {
        device: DeviceNumber::parse(text(2)?)?,
        point: unescaped(fields.get(4)?),
        filesystem: text(separator + 1)?.to_owned(),
        source: unescaped(fields.get(separator + 2)?),
        read_only: text(5)?.split(',').any(|option| option == "ro")
            || text(separator + 3)?.split(',').any(|option| option == "ro"),
    })
}

/// Undoes the kernel's escapes: space, tab, newline and backslash stand as `\` and three octal
/// digits.
fn unescaped(field: &[u8]) -> PathBuf {
    let mut bytes = Vec::with_capacity(field.len());
    let mut rest = field;
    while let Some((first, tail)) = rest.split_first() {
        let escape = (*first == b'\\').then(|| tail.get(..3).and_then(octal)).flatten();
        bytes.push(escape.unwrap_or(*first));
        rest = if escape.is_some() { &tail[3..] } else { tail };
    }
    PathBuf::from(OsString::from_vec(bytes))
}

fn octal(digits: &[u8]) -> Option<u8> {
    u8::from_str_radix(std::str::from_utf8(digits).ok()?, 8).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn captured() -> Mounts {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../fixtures/host/desktop/mountinfo");
        Mounts::read(Path::new(path)).unwrap()
    }

    fn number(text: &str) -> DeviceNumber {
        DeviceNumber::parse(text).unwrap()
    }

    #[test]
    fn finds_the_file_system_under_a_path() {
        let mounts = captured();
        let under = |path: &str, device: &str| {
            let mount = mounts.under(Path::new(path), number(device)).unwrap();
            (mount.filesystem.clone(), mount.source.clone())
        };
        assert_eq!(under("/var/tmp", "259:2"), ("ext4".into(), "/dev/nvme0n1p2".into()));
        assert_eq!(under("/dev/shm/x", "0:24"), ("tmpfs".into(), "tmpfs".into()));
        assert_eq!(under("/mnt/my disk/x", "8:1"), ("xfs".into(), "/dev/sda1".into()));
    }

    #[test]
    fn a_subvolume_with_a_number_of_its_own_is_found_by_its_mount_point() {
        let mounts = captured();
        let mount = mounts.under(Path::new("/data/snapshots/monday"), number("0:77")).unwrap();
        assert_eq!(
            (mount.filesystem.as_str(), mount.source.as_path()),
            ("btrfs", "/dev/sdb".as_ref())
        );
    }

    #[test]
    fn the_last_mount_on_a_point_covers_the_others() {
        let mounts = captured();
        let mount = mounts.under(Path::new("/srv/a"), number("0:99")).unwrap();
        assert_eq!(mount.source, Path::new("second"));
    }

    #[test]
    fn read_only_is_seen_on_the_mount_and_on_the_file_system() {
        let mounts = captured();
        let read_only = |point: &str| {
            mounts.0.iter().find(|mount| mount.point == Path::new(point)).unwrap().read_only
        };
        assert!(read_only("/mnt/bind"));
        assert!(read_only("/mnt/image"));
        assert!(!read_only("/"));
    }

    #[test]
    fn odd_lines_are_passed_over() {
        let text = b"\n1 2\nnonsense - ext4\n1 2 x:y / / rw - a b rw\n\\ \\0 \\777 - - -\n";
        assert_eq!(Mounts::parse(text), Mounts::default());
        assert_eq!(unescaped(b"a\\040b\\134\\9\\"), Path::new("a b\\\\9\\"));
    }
}
