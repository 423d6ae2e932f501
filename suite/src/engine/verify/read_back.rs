//! After the load: all that was written is read once more, past the page cache where the load was.

use std::os::unix::fs::FileExt as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::channel;

use nix::fcntl::{PosixFadviseAdvice, posix_fadvise};

use super::put_off::check;
use super::table::Generations;
use crate::engine::buffer::Arena;
use crate::engine::crew::{LOOK_EVERY, no_threads};
use crate::engine::files::{Files, Member};
use crate::engine::guard::Guard;
use crate::engine::stripe::{Extent, StripeMap};
use crate::engine::{Control, EngineError, Job};
use crate::measure::Verified;
use crate::os::clock::monotonic_ns;
use crate::units::Nanos;

/// The most bytes that are read at a time.
const PIECE: u64 = 1 << 20;

/// What the reading thread uses, and keeps if a disk never answers.
struct Reader {
    table: Arc<Generations>,
    members: Vec<Member>,
    stripe: Option<StripeMap>,
    arena: Arena,
    /// The region that the job used.
    start: u64,
    end: u64,
    /// Pieces that are read, for the watcher.
    pieces: Arc<AtomicU64>,
}

/// Reads every block of the job's region that the table vouches for, and holds it against that.
/// Ends early when the run is stopped.
///
/// # Errors
/// When a disk can't be read, or doesn't answer.
pub(in crate::engine) fn read_back(
    job: &Job,
    files: &Files,
    table: &Arc<Generations>,
    control: &Control,
) -> Result<Verified, EngineError> {
    let pieces = Arc::<AtomicU64>::default();
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
        pieces: Arc::clone(&pieces),
    };
    let (sender, outcome) = channel();
    let stop = control.clone();
    let work = move || {
        let verified = reader.read(&stop);
        // Let go of before the caller hears of it, who may want to close the files then.
        drop(reader);
        let _ = sender.send(verified);
    };
    let thread = std::thread::Builder::new().name("read back".to_owned());
    thread.spawn(work).map_err(|error| no_threads(&error))?;
    let mut guard = Guard::of_slow(control.patience(), files, monotonic_ns());
    loop {
        if let Ok(outcome) = outcome.recv_timeout(LOOK_EVERY) {
            return outcome;
        }
        let read = pieces.load(Relaxed);
        if let Some(silence) = guard.look(monotonic_ns(), read, control.stopped()) {
            return Err(EngineError::Stuck {
                disks: files.members.iter().map(|member| member.name.clone()).collect(),
                offset: None,
                silence: Nanos(silence),
                in_flight: 1,
            });
        }
    }
}

impl Reader {
    fn read(&mut self, control: &Control) -> Result<Verified, EngineError> {
        let mut verified = Verified::default();
        self.drop_caches()?;
        let block = self.table.block();
        let mut at = self.start.next_multiple_of(block);
        while at + block <= self.end && !control.stopped() {
            let vouched = |place: u64| self.table.expected(place).is_some();
            if !vouched(at) {
                at += block;
                continue;
            }
            let most = (self.end - at).min(PIECE.max(block)) / block;
            let blocks = (1..most).take_while(|number| vouched(at + number * block)).count() + 1;
            let len = blocks as u64 * block;
            self.read_piece(at, len as u32)?;
            self.pieces.fetch_add(1, Relaxed);
            check(&self.table, at, self.arena.part_mut(0, len as usize), &mut verified);
            at += len;
        }
        Ok(verified)
    }

    /// Through the page cache, what was written would be read from there.
    fn drop_caches(&self) -> Result<(), EngineError> {
        for member in self.members.iter().filter(|member| member.align == 1) {
            let failed = |source: std::io::Error| error("flush", member, source);
            member.file.sync_data().map_err(failed)?;
            posix_fadvise(&*member.file, 0, 0, PosixFadviseAdvice::POSIX_FADV_DONTNEED)
                .map_err(|errno| failed(errno.into()))?;
        }
        Ok(())
    }

    fn read_piece(&mut self, offset: u64, len: u32) -> Result<(), EngineError> {
        let whole = [Extent { member: 0, offset, at: 0, len }];
        let parts: Vec<Extent> = match self.stripe {
            Some(stripe) => stripe.split(offset, len).collect(),
            None => whole.to_vec(),
        };
        for part in parts {
            let member = &self.members[part.member as usize];
            let buffer = self.arena.part_mut(part.at as usize, part.len as usize);
            member
                .file
                .read_exact_at(buffer, part.offset)
                .map_err(|source| error("reading back", member, source))?;
        }
        Ok(())
    }
}

fn error(operation: &'static str, member: &Member, source: std::io::Error) -> EngineError {
    EngineError::System { operation, disk: member.name.clone(), source }
}
