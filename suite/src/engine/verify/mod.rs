//! Whether what is read is what was written: stamps in every sector, a table of what each block
//! should hold, and words for how the two can differ.
//!
//! Every sector (512 bytes) that is written carries its place, the generation of its block and a
//! checksum. The table knows the generation that each block should have: it counts up when a write
//! is done. While a write is on its way nobody else may use its blocks, so that what a block
//! should hold is never in doubt; requests that would overlap are put off, none is left out.
//!
//! What the differences are called:
//! - **corrupt**: a sector's checksum doesn't fit its contents;
//! - **misplaced**: a sector holds what was written to another place;
//! - **torn**: sectors of one block are of different writes;
//! - **lost**: the block holds what was there before its last write, as if that had never been;
//! - **stale**: the block holds something older than that.

mod look;
mod put_off;
mod read_back;
mod stamp;
mod table;

pub use look::{Finding, examine};
pub use stamp::{SECTOR, stamp};
pub use table::Generations;

pub(super) use put_off::Verifier;
pub(super) use read_back::read_back;
