//! After the load: all that was written is read once more, past the page cache where the load was.
//!
//! Blocks that lie near each other are read together, also where between them there are some that
//! nobody vouches for: a large read costs less than several small ones.

use std::os::unix::fs::FileExt as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};

use nix::fcntl::{PosixFadviseAdvice, posix_fadvise};

use super::put_off::check;
use super::table::Generations;
use crate::engine::buffer::Arena;
use crate::engine::crew::{LOOK_EVERY, REPORT_EVERY, no_threads};
use crate::engine::driver::ERRORS_MAX;
use crate::engine::files::{Files, Member};
use crate::engine::guard::Guard;
use crate::engine::stripe::{Extent, StripeMap};
use crate::engine::{Control, EngineError, Job, Progress};
use crate::measure::{IoFault, IoKind, Measurement, Verified, merged_faults};
use crate::os::clock::monotonic_ns;
use crate::units::Nanos;

/// The most bytes that are read at a time.
const PIECE: u64 = 1 << 20;

/// The most bytes that are read in vain between two blocks of a piece.
const GAP: u64 = 64 << 10;

/// What came of it.
#[derive(Debug, Default)]
pub(in crate::engine) struct ReadBack {
    pub(in crate::engine) verified: Verified,
    /// Reads that failed.
    pub(in crate::engine) faults: Vec<IoFault>,
}

impl ReadBack {
    /// Adds it to what was measured.
    pub(in crate::engine) fn add_to(&self, measured: &mut Measurement) {
        measured.verified.get_or_insert_default().add(&self.verified);
        measured.faults = merged_faults(measured.faults.iter().chain(&self.faults));
    }
}

/// What the reading thread uses, and keeps if a disk never answers.
struct Reader {
    table: Arc<Generations>,
    members: Vec<Member>,
    stripe: Option<StripeMap>,
    arena: Arena,
    /// The region that the job used.
    start: u64,
    end: u64,
    /// How far it is, for the watcher.
    done: Arc<Done>,
    back: ReadBack,
}

/// How far the reading is.
#[derive(Debug, Default)]
struct Done {
    /// Reads that have come back.
    reads: AtomicU64,
    /// Bytes of the region that are behind it.
    bytes: AtomicU64,
}

/// Reads every block of the job's region that the table vouches for, and holds it against that.
/// Says how it is going meanwhile, and ends early when the run is stopped.
///
/// # Errors
/// When a disk can't be flushed, or doesn't answer. Reads that fail are counted.
pub(in crate::engine) fn read_back(
    job: &Job,
    files: &Files,
    table: &Arc<Generations>,
    control: &Control,
    progress: &mut dyn FnMut(Progress),
) -> Result<ReadBack, EngineError> {
    let done = Arc::<Done>::default();
    let members = files.members.iter().map(|member| Member {
        name: member.name.clone(),
        file: Arc::clone(&member.file),
        align: member.align,
    });
    let mut reader = Reader {
        table: Arc::clone(table),
        members: members.collect(),
        stripe: files.stripe,
        arena: Arena::new(PIECE.max(table.block()) as usize, files.memory_align)?,
        start: job.start,
        end: job.start + job.len,
        done: Arc::clone(&done),
        back: ReadBack::default(),
    };
    let (sender, outcome) = channel();
    let stop = control.clone();
    let work = move || {
        let outcome = reader.read(&stop).map(|()| std::mem::take(&mut reader.back));
        // Let go of before the caller hears of it, who may want to close the files then.
        drop(reader);
        let _ = sender.send(outcome);
    };
    let thread = std::thread::Builder::new().name("read back".to_owned());
    thread.spawn(work).map_err(|error| no_threads(&error))?;
    watch(&outcome, &done, job, files, control, progress)
}

/// Waits for the reading thread, and says how far it is.
fn watch(
    outcome: &Receiver<Result<ReadBack, EngineError>>,
    done: &Done,
    job: &Job,
    files: &Files,
    control: &Control,
    progress: &mut dyn FnMut(Progress),
) -> Result<ReadBack, EngineError> {
    let begun = monotonic_ns();
    let mut guard = Guard::of_slow(control.patience(), files, begun);
    let (mut reported, mut bytes) = (begun, 0);
    loop {
        match outcome.recv_timeout(LOOK_EVERY) {
            Ok(outcome) => return outcome,
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => {
                let reason = "the one that reads back what was written broke down".to_owned();
                return Err(EngineError::Workers { reason });
            }
        }
        let now = monotonic_ns();
        if let Some(silence) = guard.look(now, done.reads.load(Relaxed), control.stopped()) {
            return Err(EngineError::Stuck {
                disks: files.members.iter().map(|member| member.name.clone()).collect(),
                offset: None,
                silence: Nanos(silence),
                in_flight: 1,
            });
        }
        if now - reported >= REPORT_EVERY {
            let read = done.bytes.load(Relaxed);
            progress(Progress {
                elapsed: Nanos(now - begun),
                measuring: false,
                completed: 0,
                bytes: read - bytes,
                since_last: Nanos(now - reported),
                bytes_measured: 0,
                p99_ns: None,
                read_back: Some((read, job.len)),
            });
            (reported, bytes) = (now, read);
        }
    }
}

impl Reader {
    fn read(&mut self, control: &Control) -> Result<(), EngineError> {
        self.drop_caches()?;
        let block = self.table.block();
        let mut at = self.start.next_multiple_of(block);
        while let Some((start, len)) = self.piece(at)
            && !control.stopped()
        {
            match self.read_piece(start, len) {
                Ok(()) => self.check(start, len),
                Err(_) if len > block => self.read_one_by_one(start, len),
                Err(fault) => self.count(&fault),
            }
            if self.back.faults.iter().map(|fault| fault.count).sum::<u64>() >= ERRORS_MAX {
                break;
            }
            at = start + len;
            self.done.bytes.store(at - self.start, Relaxed);
        }
        Ok(())
    }

    fn is_vouched_for(&self, at: u64) -> bool {
        self.table.expected(at).is_some()
    }

    /// The next piece from `at` on: its place and length, from one block that is vouched for to
    /// another. `None` when there is no more.
    fn piece(&self, at: u64) -> Option<(u64, u64)> {
        let block = self.table.block();
        let blocks = |from: u64| {
            let places = (from..self.end).step_by(block as usize);
            places.take_while(|place| place + block <= self.end)
        };
        let start = blocks(at).find(|place| self.is_vouched_for(*place))?;
        let mut end = start + block;
        for place in blocks(end) {
            if place - end > GAP || place + block - start > PIECE {
                break;
            }
            if self.is_vouched_for(place) {
                end = place + block;
            }
        }
        Some((start, end - start))
    }

    /// Checks a piece that was read. What is not vouched for was read for speed alone, and isn't
    /// counted.
    fn check(&mut self, start: u64, len: u64) {
        let unchecked = self.back.verified.unchecked;
        let piece = self.arena.part_mut(0, len as usize);
        check(&self.table, start, piece, &mut self.back.verified);
        self.back.verified.unchecked = unchecked;
    }

    /// A block that can't be read is not to hide what its neighbours hold.
    #[cold]
    fn read_one_by_one(&mut self, start: u64, len: u64) {
        let block = self.table.block();
        for at in (start..start + len).step_by(block as usize) {
            if self.is_vouched_for(at) {
                match self.read_piece(at, block) {
                    Ok(()) => self.check(at, block),
                    Err(fault) => self.count(&fault),
                }
            }
        }
    }

    /// Through the page cache, what was written would be read from there.
    fn drop_caches(&self) -> Result<(), EngineError> {
        for member in self.members.iter().filter(|member| member.align == 1) {
            let failed = |source: std::io::Error| EngineError::System {
                operation: "flush",
                disk: member.name.clone(),
                source,
            };
            member.file.sync_data().map_err(failed)?;
            posix_fadvise(&*member.file, 0, 0, PosixFadviseAdvice::POSIX_FADV_DONTNEED)
                .map_err(|errno| failed(errno.into()))?;
        }
        Ok(())
    }

    /// Reads a piece to the beginning of the arena.
    fn read_piece(&mut self, offset: u64, len: u64) -> Result<(), IoFault> {
        let len = len as u32;
        let whole = [Extent { member: 0, offset, at: 0, len }];
        let parts: Vec<Extent> = match self.stripe {
            Some(stripe) => stripe.split(offset, len).collect(),
            None => whole.to_vec(),
        };
        for part in parts {
            let member = &self.members[part.member as usize];
            let buffer = self.arena.part_mut(part.at as usize, part.len as usize);
            let read = member.file.read_exact_at(buffer, part.offset);
            self.done.reads.fetch_add(1, Relaxed);
            read.map_err(|error| IoFault {
                kind: IoKind::Read,
                errno: error.raw_os_error().unwrap_or(0),
                count: 1,
                disk: member.name.clone(),
                first_offset: part.offset,
            })?;
        }
        Ok(())
    }

    fn count(&mut self, fault: &IoFault) {
        self.back.faults = merged_faults(self.back.faults.iter().chain([fault]));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_that_are_near_are_read_together() {
        const BLOCK: u64 = 4096;
        let table = Arc::new(Generations::new(4 << 20, BLOCK, 1).unwrap());
        let mut write = |block: u64| {
            assert!(table.begin_write(block * BLOCK, BLOCK as u32));
            table.end_write(block * BLOCK, BLOCK as u32, true);
        };
        // Near each other, far away, more than a piece in a row, and the last two.
        [3, 5, 21, 100].into_iter().chain(300..600).chain([1022, 1023]).for_each(&mut write);
        let reader = Reader {
            table,
            members: Vec::new(),
            stripe: None,
            arena: Arena::new(PIECE as usize, 512).unwrap(),
            start: 0,
            // The last block is not wholly within.
            end: (4 << 20) - 512,
            done: Arc::default(),
            back: ReadBack::default(),
        };
        let next = |before: &(u64, u64)| reader.piece(before.0 + before.1);
        let pieces = std::iter::successors(reader.piece(0), next);
        let pieces: Vec<_> = pieces.map(|(at, len)| (at / BLOCK, len / BLOCK)).collect();
        assert_eq!(pieces, [(3, 19), (100, 1), (300, 256), (556, 44), (1022, 1)]);
    }
}
