//! One I/O at a time, by `pread` and `pwrite`.

use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::time::Duration;

use anyhow::{Result, bail};

use super::offsets::Offsets;
use super::{Buffer, End, IOS_BETWEEN_CLOCKS, Options};

/// Runs to the end; I/Os done, and the time for them.
pub(super) fn run(options: &Options, file: &File, mut offsets: Offsets) -> Result<(u64, Duration)> {
    let mut buffer = Buffer::new(options.block);
    let buffer = buffer.bytes();
    let end = End::new(options);
    let mut done = 0;
    while !end.is_over(done) {
        for _ in 0..IOS_BETWEEN_CLOCKS.min(end.ios - done) {
            let (offset, read) = offsets.next();
            let moved =
                if read { file.read_at(buffer, offset) } else { file.write_at(buffer, offset) }?;
            if moved != buffer.len() {
                bail!("{moved} bytes moved at {offset} of {}", buffer.len());
            }
            done += 1;
        }
    }
    Ok((done, end.started.elapsed()))
}
