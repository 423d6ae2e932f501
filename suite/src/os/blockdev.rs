//! Block devices: what sysfs says of them, and their counters.
//!
//! Everything here is small text files under `/sys/dev/block/MAJOR:MINOR`, read without opening
//! the device. A partition has its own folder, inside its disk's.

use std::ffi::OsStr;
use std::fmt;
use std::fs::{self, File};
use std::io;
use std::os::fd::AsRawFd as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::sys::stat::{major, minor};

/// Sysfs and diskstats count in sectors of this many bytes, whatever the device's own are.
const SECTOR_BYTES: u64 = 512;

/// The number by which the kernel knows a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DeviceNumber {
    /// Which driver.
    pub major: u64,
    /// Which of its devices.
    pub minor: u64,
}

impl DeviceNumber {
    /// Splits the number as `stat` gives it.
    #[must_use]
    pub fn from_raw(device: u64) -> Self {
        Self { major: major(device), minor: minor(device) }
    }

    /// Reads `259:1`.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let (major, minor) = text.split_once(':')?;
        Some(Self { major: major.parse().ok()?, minor: minor.parse().ok()? })
    }

    /// The number of the block device that `path` leads to; `None` if it leads to none.
    #[must_use]
    pub fn of_block_device(path: &Path) -> Option<Self> {
        let facts = fs::metadata(path).ok()?;
        facts.file_type().is_block_device().then(|| Self::from_raw(facts.rdev()))
    }
}

impl fmt::Display for DeviceNumber {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}:{}", self.major, self.minor)
    }
}

/// What is known of a block device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BlockDevice {
    /// Its number.
    pub number: DeviceNumber,
    /// The kernel's name for it, good until the next boot: `nvme0n1p2`.
    pub name: String,
    /// Its size in bytes.
    pub bytes: u64,
    /// The smallest unit that it can be asked for, in bytes.
    pub logical_block_bytes: u32,
    /// What is built on it or on a partition of it: `md0`, `dm-3`.
    pub holders: Vec<String>,
    /// Numbers of its partitions.
    pub partitions: Vec<DeviceNumber>,
}

impl BlockDevice {
    /// The kind of its driver, by the kernel's scheme of names: `nvme`, `sd`, `vd`, `dm`, `loop`.
    #[must_use]
    pub fn driver(&self) -> &str {
        // These count their disks in letters, all others in digits.
        let lettered = ["sd", "hd", "vd", "xvd", "dasd", "ubd"];
        let letters = self.name.bytes().take_while(u8::is_ascii_alphabetic).count();
        let name = &self.name[..letters];
        lettered.into_iter().find(|driver| name.starts_with(driver)).unwrap_or(name)
    }
}

impl fmt::Display for BlockDevice {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{} {}", self.number, self.name)
    }
}

/// What a device has done since it came up.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct DeviceCounters {
    /// Bytes read from it.
    pub read_bytes: u64,
    /// Bytes written to it.
    pub written_bytes: u64,
    /// Nanoseconds in which at least one request was in flight; the kernel counts milliseconds.
    pub busy_ns: u64,
}

/// The kernel's view of devices, below a root that is `/sys` on a running machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sysfs {
    root: PathBuf,
}

impl Sysfs {
    /// That under `root`.
    #[must_use]
    pub fn new(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into() }
    }

    /// What is known of a device; `None` if the kernel has no such block device (file systems
    /// without one have numbers that lead nowhere).
    #[must_use]
    pub fn device(&self, number: DeviceNumber) -> Option<BlockDevice> {
        let folder = self.folder(number);
        let resolved = fs::canonicalize(&folder).ok()?;
        let sectors: u64 = read_number(&folder.join("size"))?;
        // A partition's queue is its disk's.
        let logical_block_bytes = ["queue", "../queue"]
            .iter()
            .find_map(|queue| read_number(&folder.join(queue).join("logical_block_size")));
        let partitions: Vec<PathBuf> = entries(&resolved)
            .into_iter()
            .filter(|entry| entry.join("partition").exists())
            .collect();
        let holders = std::iter::once(&resolved)
            .chain(&partitions)
            .flat_map(|part| entries(&part.join("holders")))
            .filter_map(|holder| file_name(&holder))
            .collect();
        Some(BlockDevice {
            number,
            name: file_name(&resolved)?,
            bytes: sectors * SECTOR_BYTES,
            logical_block_bytes: logical_block_bytes.unwrap_or(SECTOR_BYTES as u32),
            holders,
            partitions: partitions
                .iter()
                .filter_map(|part| fs::read_to_string(part.join("dev")).ok())
                .filter_map(|text| DeviceNumber::parse(text.trim()))
                .collect(),
        })
    }

    /// What a device has done so far. The fields are those of
    /// Documentation/admin-guide/iostats.rst.
    ///
    /// # Errors
    /// When there is no such device, or its counters can't be understood; `Unsupported` where
    /// nobody counts: where `queue/iostats` switches it off, and of a driver that has none, so that
    /// every field is 0 for ever (the heads of multipath NVMe disks before Linux 6.4).
    pub fn counters(&self, number: DeviceNumber) -> io::Result<DeviceCounters> {
        let folder = self.folder(number);
        let text = fs::read_to_string(folder.join("stat"))?;
        let queues = ["queue/iostats", "../queue/iostats"]; // a partition's is its disk's
        let switch: Option<u8> = queues.iter().find_map(|queue| read_number(&folder.join(queue)));
        if switch == Some(0) || text.bytes().all(|byte| byte == b'0' || byte.is_ascii_whitespace())
        {
            return Err(io::ErrorKind::Unsupported.into());
        }
        parse_counters(&text).ok_or_else(|| {
            io::Error::new(
                io::ErrorKind::InvalidData,
                format!("odd counters of {number}: {text:?}"),
            )
        })
    }

    /// Whether a device has queues that can be polled for completions, by the kernel's word; `None`
    /// where it doesn't say.
    #[must_use]
    pub fn can_poll(&self, number: DeviceNumber) -> Option<bool> {
        let folder = self.folder(number);
        let queues = ["queue/io_poll", "../queue/io_poll"]; // a partition's is its disk's
        let word: Option<u8> = queues.iter().find_map(|queue| read_number(&folder.join(queue)));
        word.map(|word| word != 0)
    }

    /// The file that a loop device shows as a device, by the kernel's word; `None` for others.
    #[must_use]
    pub fn backing_file(&self, number: DeviceNumber) -> Option<PathBuf> {
        let name = fs::read(self.folder(number).join("loop/backing_file")).ok()?;
        let name = name.strip_suffix(b"\n").unwrap_or(&name);
        Some(PathBuf::from(OsStr::from_bytes(name)))
    }

    fn folder(&self, number: DeviceNumber) -> PathBuf {
        self.root.join("dev/block").join(number.to_string())
    }
}

/// The name in `by_id`, on a running machine `/dev/disk/by-id`, that leads to a device: one that
/// stays when the kernel's own names change. Of several, one with a maker and a serial number
/// comes before one that is a bare number.
#[must_use]
pub fn stable_id(by_id: &Path, number: DeviceNumber) -> Option<String> {
    let is_bare = |name: &str| {
        ["wwn-", "nvme-eui.", "nvme-uuid.", "dm-uuid-"].iter().any(|start| name.starts_with(start))
    };
    entries(by_id)
        .iter()
        .filter(|link| DeviceNumber::of_block_device(link) == Some(number))
        .filter_map(|link| file_name(link))
        .min_by_key(|name| (is_bare(name), name.clone()))
}

/// The size of an open block device in bytes (`BLKGETSIZE64`).
///
/// # Errors
/// `ENOTTY` for what is no block device.
pub fn device_bytes(device: &File) -> io::Result<u64> {
    let mut bytes = 0_u64;
    // SAFETY: the descriptor is open while it is borrowed, and the kernel writes 64 bits.
    unsafe { call::size(device.as_raw_fd(), &raw mut bytes) }?;
    Ok(bytes)
}

/// The logical block size of an open block device in bytes (`BLKSSZGET`).
///
/// # Errors
/// `ENOTTY` for what is no block device.
pub fn logical_block_bytes(device: &File) -> io::Result<u32> {
    let mut bytes = 0;
    // SAFETY: the descriptor is open while it is borrowed, and the kernel writes one `int`.
    unsafe { call::logical_block_size(device.as_raw_fd(), &raw mut bytes) }?;
    u32::try_from(bytes).map_err(io::Error::other)
}

/// Which of the media that all devices have had since the boot an open block device has now
/// (`BLKGETDISKSEQ`); `None` on kernels before 5.15.
///
/// # Errors
/// What the kernel returns but `ENOTTY`.
pub fn disk_sequence(device: &File) -> io::Result<Option<u64>> {
    let mut sequence = 0_u64;
    // SAFETY: the descriptor is open while it is borrowed, and the kernel writes 64 bits.
    match unsafe { call::disk_sequence(device.as_raw_fd(), &raw mut sequence) } {
        Ok(_) => Ok(Some(sequence)),
        Err(Errno::ENOTTY | Errno::EINVAL) => Ok(None),
        Err(errno) => Err(errno.into()),
    }
}

/// Tells an open block device that a range of it is not needed any more (`BLKDISCARD`).
///
/// # Errors
/// What the kernel returns: `EOPNOTSUPP` of a device that can't.
pub fn discard(device: &File, offset: u64, len: u64) -> io::Result<()> {
    let range = [offset, len];
    // SAFETY: the descriptor is open while it is borrowed, and the kernel reads two numbers of 64
    // bits.
    unsafe { call::discard(device.as_raw_fd(), &raw const range) }?;
    Ok(())
}

/// Calls of linux/fs.h.
mod call {
    use nix::libc::c_int;
    use nix::{
        ioctl_read, ioctl_read_bad, ioctl_write_ptr_bad, request_code_none, request_code_read,
    };

    ioctl_read_bad!(logical_block_size, nix::libc::BLKSSZGET, c_int);
    // Declared with `size_t` there; the kernel writes 64 bits whatever that is.
    ioctl_read_bad!(size, request_code_read!(0x12, 114, size_of::<usize>()), u64);
    ioctl_read!(disk_sequence, 0x12, 128, u64);
    ioctl_write_ptr_bad!(discard, request_code_none!(0x12, 119), [u64; 2]);
}

fn parse_counters(text: &str) -> Option<DeviceCounters> {
    let fields: Option<Vec<u64>> =
        text.split_whitespace().map(|field| field.parse().ok()).collect();
    let fields = fields?;
    Some(DeviceCounters {
        read_bytes: fields.get(2)?.checked_mul(SECTOR_BYTES)?,
        written_bytes: fields.get(6)?.checked_mul(SECTOR_BYTES)?,
        busy_ns: fields.get(9)?.checked_mul(1_000_000)?,
    })
}

/// The entries of a folder in the order of their names; none if it can't be read.
fn entries(folder: &Path) -> Vec<PathBuf> {
    let mut paths: Vec<PathBuf> = fs::read_dir(folder)
        .into_iter()
        .flatten()
        .filter_map(|entry| Some(entry.ok()?.path()))
        .collect();
    paths.sort();
    paths
}

fn file_name(path: &Path) -> Option<String> {
    Some(path.file_name()?.to_string_lossy().into_owned())
}

fn read_number<T: std::str::FromStr>(path: &Path) -> Option<T> {
    fs::read_to_string(path).ok()?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn captured() -> Sysfs {
        Sysfs::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../fixtures/host/desktop/sys"))
    }

    fn number(text: &str) -> DeviceNumber {
        DeviceNumber::parse(text).unwrap()
    }

    #[test]
    fn a_disk_with_partitions_and_holders() {
        let disk = captured().device(number("259:0")).unwrap();
        assert_eq!(disk.to_string(), "259:0 nvme0n1");
        assert_eq!(disk.bytes, 2_000_409_264 * 512);
        assert_eq!(disk.logical_block_bytes, 512);
        assert_eq!(disk.partitions, [number("259:1"), number("259:2")]);
        assert_eq!(disk.holders, ["dm-0"]);
    }

    #[test]
    fn a_partition_has_the_blocks_of_its_disk() {
        let part = captured().device(number("8:1")).unwrap();
        assert_eq!(part.name, "sda1");
        assert_eq!(part.bytes, 2048 * 512);
        assert_eq!(part.logical_block_bytes, 4096);
        assert!(part.partitions.is_empty() && part.holders.is_empty());
    }

    #[test]
    fn drivers_by_the_names_of_their_disks() {
        let mut device = captured().device(number("259:0")).unwrap();
        let mut driver = |name: &str| {
            device.name = name.to_owned();
            device.driver().to_owned()
        };
        let names = ["nvme0n1p2", "sda1", "sdaa", "vdb", "xvda", "dm-3", "md127", "loop0", "sr0"];
        let drivers = ["nvme", "sd", "sd", "vd", "xvd", "dm", "md", "loop", "sr"];
        assert_eq!(names.map(&mut driver), drivers);
    }

    #[test]
    fn a_number_without_a_device_is_none() {
        assert_eq!(captured().device(number("0:24")), None);
    }

    #[test]
    fn counters_are_bytes_and_busy_time() {
        let counters = captured().counters(number("259:0")).unwrap();
        let expected = DeviceCounters {
            read_bytes: 1000 * 512,
            written_bytes: 3000 * 512,
            busy_ns: 777_000_000,
        };
        assert_eq!(counters, expected);
        assert_eq!(parse_counters("1 2 3"), None);
        assert_eq!(parse_counters("1 2 x 4 5 6 7 8 9 10 11"), None);
        assert!(captured().counters(number("1:1")).is_err());
    }

    #[test]
    fn books_that_nobody_keeps_are_none() {
        let folder = tempfile::tempdir().unwrap();
        let device = folder.path().join("dev/block/8:0");
        fs::create_dir_all(device.join("queue")).unwrap();
        let sysfs = Sysfs::new(folder.path());
        let told = |stat: &str, iostats: &str| {
            fs::write(device.join("stat"), stat).unwrap();
            fs::write(device.join("queue/iostats"), iostats).unwrap();
            sysfs.counters(number("8:0")).map_err(|error| error.kind())
        };
        let (none, some) = ("  0 0 0 0 0 0 0 0 0 0 0\n", "  1 0 8 0 0 0 0 0 0 0 0\n");
        assert_eq!(told(some, "1\n").unwrap().read_bytes, 4096);
        assert_eq!(told(some, "0\n"), Err(io::ErrorKind::Unsupported));
        assert_eq!(told(none, "1\n"), Err(io::ErrorKind::Unsupported));
    }

    #[test]
    fn a_file_is_no_device() {
        let file = tempfile::tempfile_in("/var/tmp").unwrap();
        let enotty = Some(Errno::ENOTTY as i32);
        assert_eq!(device_bytes(&file).unwrap_err().raw_os_error(), enotty);
        assert_eq!(logical_block_bytes(&file).unwrap_err().raw_os_error(), enotty);
        assert_eq!(disk_sequence(&file).unwrap(), None);
    }

    #[test]
    fn the_running_machine_can_be_read() {
        let device = DeviceNumber::from_raw(fs::metadata("/var/tmp").unwrap().dev());
        let sysfs = Sysfs::new("/sys");
        let Some(facts) = sysfs.device(device) else {
            crate::testing::skip(
                "os::blockdev::the_running_machine_can_be_read",
                "/var/tmp lies on no block device",
                "run on a machine with a disk",
            );
            return;
        };
        assert!(facts.bytes > 0 && facts.logical_block_bytes >= 512);
        sysfs.counters(device).unwrap();
    }
}
