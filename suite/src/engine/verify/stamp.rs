//! The stamp of a sector.
//!
//! | bytes | what |
//! | --- | --- |
//! | 0 to 3 | a number that says that this is a stamp |
//! | 4 to 7 | CRC-32C of bytes 8 to 511 |
//! | 8 to 15 | byte offset of the sector in the storage |
//! | 16 to 19 | generation of its block |
//! | 20 to 23 | the run that wrote it |
//! | 24 to 511 | contents |
//!
//! All numbers are little-endian. CRC-32C is that of RFC 3720 (Castagnoli), which processors have
//! an instruction for.

/// What is stamped as one: no disk has smaller sectors.
pub const SECTOR: usize = 512;

const MAGIC: u32 = 0x7c_44_50_76;

/// What the checksum is of.
const CHECKED: std::ops::RangeFrom<usize> = 8..;

/// What stands in a sector.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Sector {
    /// No stamp of this run.
    Unstamped,
    /// A stamp whose checksum doesn't fit, or contents whose stamp is damaged.
    Damaged,
    /// A sound one.
    Stamped {
        /// Where it was written to.
        offset: u64,
        /// Generation of its block.
        generation: u32,
    },
}

/// Stamps a buffer that goes to `offset`, in blocks of `block` bytes whose generations are given by
/// their number in the buffer.
#[inline]
pub fn stamp(
    buffer: &mut [u8],
    offset: u64,
    block: usize,
    run: u32,
    generation: impl Fn(usize) -> u32,
) {
    let (sectors, _) = buffer.as_chunks_mut::<SECTOR>();
    for (number, sector) in sectors.iter_mut().enumerate() {
        let at = number * SECTOR;
        sector[8..16].copy_from_slice(&(offset + at as u64).to_le_bytes());
        sector[16..20].copy_from_slice(&generation(at / block).to_le_bytes());
        sector[20..24].copy_from_slice(&run.to_le_bytes());
        let checksum = crc32c::crc32c(&sector[CHECKED]);
        sector[4..8].copy_from_slice(&checksum.to_le_bytes());
        sector[0..4].copy_from_slice(&MAGIC.to_le_bytes());
    }
}

/// What stands in a sector, for this run.
#[inline]
pub(super) fn read(sector: &[u8; SECTOR], run: u32) -> Sector {
    let word = |at: usize| {
        u32::from_le_bytes([sector[at], sector[at + 1], sector[at + 2], sector[at + 3]])
    };
    let fits = crc32c::crc32c(&sector[CHECKED]) == word(4);
    match (word(0) == MAGIC, fits) {
        (true, true) if word(20) == run => {
            let offset = u64::from(word(8)) | (u64::from(word(12)) << 32);
            Sector::Stamped { offset, generation: word(16) }
        }
        // Of another run, or never one.
        (true, true) | (false, false) => Sector::Unstamped,
        // A checksum that fits by chance is one in four billion; that of zeros is not zero.
        (false, true) | (true, false) => Sector::Damaged,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_checksum_is_castagnolis() {
        assert_eq!(crc32c::crc32c(b"123456789"), 0xe306_9283);
    }

    #[test]
    fn a_stamp_is_read_back_and_every_flipped_bit_is_seen() {
        let mut sector = [0x5a; SECTOR];
        stamp(&mut sector, 1 << 40, SECTOR, 77, |_| 3);
        let sound = Sector::Stamped { offset: 1 << 40, generation: 3 };
        assert_eq!(read(&sector, 77), sound);
        assert_eq!(read(&sector, 78), Sector::Unstamped, "of another run");
        for bit in 0..SECTOR * 8 {
            sector[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(read(&sector, 77), Sector::Damaged, "bit {bit}");
            sector[bit / 8] ^= 1 << (bit % 8);
        }
    }

    #[test]
    fn what_was_never_stamped_is_that() {
        for byte in [0, 0xff, 0x5a] {
            assert_eq!(read(&[byte; SECTOR], 1), Sector::Unstamped);
        }
    }
}
