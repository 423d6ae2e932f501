//! Many I/Os at a time, by a bare ring: file and buffers registered, completions reaped by the
//! thread that submits.

use std::fs::File;
use std::os::fd::AsRawFd as _;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use io_uring::types::Fixed;
use io_uring::{IoUring, opcode, squeue};

use super::offsets::Offsets;
use super::{Buffer, End, Options};

/// Places in the ring: what is in flight is bounded by it.
const MOST: u32 = 4096;

/// One run: `free` are the buffers without an I/O.
struct Run<'a> {
    ring: IoUring,
    buffers: Vec<Buffer>,
    free: Vec<u16>,
    offsets: Offsets,
    begun: u64,
    options: &'a Options,
}

/// Runs to the end; I/Os done, and the time for them.
pub(super) fn run(
    options: &Options,
    depth: u32,
    file: &File,
    offsets: Offsets,
) -> Result<(u64, Duration)> {
    let count = u16::try_from(depth.min(MOST))?;
    let ring = IoUring::builder()
        .setup_single_issuer()
        .setup_defer_taskrun()
        .build(depth.min(MOST))
        .context("this kernel gives no ring with SINGLE_ISSUER and DEFER_TASKRUN")?;
    let mut buffers: Vec<_> = (0..count).map(|_| Buffer::new(options.block)).collect();
    ring.submitter().register_files(&[file.as_raw_fd()])?;
    let memory: Vec<_> = buffers
        .iter_mut()
        .map(Buffer::bytes)
        .map(|bytes| nix::libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: bytes.len() })
        .collect();
    // SAFETY: `Run` keeps the buffers where they are until after its ring, which it drops first.
    unsafe { ring.submitter().register_buffers(&memory) }?;
    let free = (0..count).rev().collect();
    let mut run = Run { ring, buffers, free, offsets, begun: 0, options };
    let end = End::new(options);
    let mut done = 0;
    while !end.is_over(done) {
        done += run.turn(end.ios)?;
    }
    let elapsed = end.started.elapsed();
    let counted = done;
    while run.begun > done {
        run.ring.submit_and_wait(1)?;
        done += run.reap()?;
    }
    Ok((counted, elapsed))
}

impl Run<'_> {
    /// Fills the ring a batch at a time and takes what is done; how many that were.
    fn turn(&mut self, most: u64) -> Result<u64> {
        let depth = self.buffers.len();
        while !self.free.is_empty() && self.begun < most {
            let batch = self.free.len().min(self.options.batch as usize);
            let batch = usize::try_from(most - self.begun).unwrap_or(batch).min(batch);
            for _ in 0..batch {
                self.push()?;
            }
            if self.free.is_empty() || self.begun == most {
                break;
            }
            self.ring.submit()?;
        }
        let in_flight = depth - self.free.len();
        self.ring.submit_and_wait(in_flight.min(self.options.wait as usize))?;
        self.reap()
    }

    fn push(&mut self) -> Result<()> {
        let index = self.free.pop().context("no buffer is free")?;
        let (offset, read) = self.offsets.next();
        let bytes = self.buffers[usize::from(index)].bytes();
        let (address, length) = (bytes.as_mut_ptr(), self.options.block);
        let entry: squeue::Entry = if read {
            opcode::ReadFixed::new(Fixed(0), address, length, index).offset(offset).build()
        } else {
            opcode::WriteFixed::new(Fixed(0), address, length, index).offset(offset).build()
        };
        // SAFETY: the buffer is registered, lives as long as the ring, and is in no other I/O
        // until this one's completion puts its index back.
        unsafe { self.ring.submission().push(&entry.user_data(index.into())) }?;
        self.begun += 1;
        Ok(())
    }

    fn reap(&mut self) -> Result<u64> {
        let mut done = 0;
        for completion in self.ring.completion() {
            if u32::try_from(completion.result()) != Ok(self.options.block) {
                bail!("an I/O ended with {}", completion.result());
            }
            // What was given as user data came from a `u16`.
            self.free.push(u16::try_from(completion.user_data()).unwrap_or(0));
            done += 1;
        }
        Ok(done)
    }
}
