//! The plain back end: `pread` and `pwrite`, one I/O at a time. An I/O that a stripe cuts into
//! parts does them one after another, and a flush goes to one member after another.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use super::board::Board;
use super::buffer::{Arena, Buffers};
use super::driver::{Done, Driver};
use super::files::{After, Files, is_passing};
use super::pace::wait_for;
use super::requests::Request;
use super::stripe::Extent;
use super::tally::Failure;
use super::trim::{self, Trim};
use super::verify::Verifier;
use crate::engine::{Flush, Job, WriteSync};
use crate::measure::IoKind;
use crate::os::clock::{monotonic_ns, wake_on_time};
use crate::os::io::write_at_with_flags;

/// One worker, ready to start.
pub(super) struct SyncWorker<'run> {
    driver: Driver<'run>,
    io: Io<'run>,
    buffers: Buffers,
    verifier: Option<Verifier<'run>>,
}

/// How its I/Os are done.
struct Io<'run> {
    files: &'run Files,
    board: &'run Board,
    flush: fn(&File) -> io::Result<()>,
    /// How each member is trimmed; empty where none is.
    trims: Box<[Trim]>,
    /// Short transfers that were finished.
    short_transfers: u64,
}

impl<'run> SyncWorker<'run> {
    pub(super) fn new(
        job: &'run Job,
        files: &'run Files,
        driver: Driver<'run>,
        buffers: Buffers,
        board: &'run Board,
    ) -> Self {
        let flush = match job.flush_every {
            Some((_, Flush::Fdatasync)) => File::sync_data,
            _ => File::sync_all,
        };
        let trims = files.members.iter().filter(|_| job.trim).map(|one| trim::call_for(&one.file));
        let trims = trims.collect();
        let verifier = job.verify.as_deref().map(|table| Verifier::new(table, 1));
        Self {
            driver,
            io: Io { files, board, flush, trims, short_transfers: 0 },
            buffers,
            verifier,
        }
    }

    /// What of the kernel a job uses, for the record.
    pub(super) fn features(job: &Job, files: &Files) -> Vec<&'static str> {
        let mut features = Vec::new();
        if job.read_percent > 0 {
            features.push("pread");
        }
        if job.trim {
            features.push(trim::feature(files));
        } else if job.read_percent < 100 {
            features.push(match job.write_sync {
                WriteSync::None => "pwrite",
                WriteSync::Dsync => "pwritev2 with RWF_DSYNC",
                WriteSync::Sync => "pwritev2 with RWF_SYNC",
            });
        }
        features
    }

    /// Runs from the start line to the end of its last I/O.
    pub(super) fn run(mut self, job: &Job, start: u64) -> Done {
        self.driver.start(job, start);
        let careful = self.driver.is_paced() || self.verifier.is_some();
        match (self.io.files.stripe.is_some(), careful) {
            (false, false) => self.work::<false, false>(),
            (true, false) => self.work::<true, false>(),
            (false, true) => self.work::<false, true>(),
            (true, true) => self.work::<true, true>(),
        }
        self.driver.finish()
    }

    /// The next I/O, and when it was due.
    #[inline]
    fn next<const CAREFUL: bool>(&mut self) -> Option<(Request, u64)> {
        let (mut next, mut due) = ([Request::FLUSH], [0]);
        if !CAREFUL {
            return (self.driver.draw(&mut next) == 1).then_some((next[0], 0));
        }
        while self.driver.submitting() {
            let now = monotonic_ns();
            if self.driver.draw_due(now, &mut next, &mut due) == 1 {
                // Others use its blocks for as long as an I/O takes, which may be for ever.
                while self.verifier.as_ref().is_some_and(|verifier| !verifier.begin(next[0])) {
                    if self.driver.is_over(monotonic_ns()) {
                        self.driver.given_up(due[0]);
                        return None;
                    }
                    std::thread::yield_now();
                }
                return Some((next[0], due[0]));
            }
            if self.driver.submitting() {
                wait_for(self.driver.next_due(now), now);
            }
        }
        None
    }

    fn work<const STRIPED: bool, const CAREFUL: bool>(&mut self) {
        if CAREFUL {
            wake_on_time();
        }
        while let Some((request, due)) = self.next::<CAREFUL>() {
            let at = match request.kind {
                IoKind::Read => self.buffers.read_buffer(0),
                IoKind::Write => self.buffers.write_buffer(0, request.len as usize),
                IoKind::Trim | IoKind::Sync => 0,
            };
            if CAREFUL
                && request.kind == IoKind::Write
                && let Some(verifier) = &self.verifier
            {
                let buffer = self.buffers.arena_mut().part_mut(at, request.len as usize);
                verifier.stamp(request, buffer);
            }
            let started = self.driver.submitted(monotonic_ns(), 1);
            let outcome = self.io.perform::<STRIPED>(request, self.buffers.arena_mut(), at);
            let now = monotonic_ns();
            self.io.board.landed(0);
            self.driver.reaped(now);
            match outcome {
                Ok(()) => {
                    let due = if CAREFUL && self.driver.is_paced() { due } else { started };
                    self.succeeded::<STRIPED, CAREFUL>(request, due, started);
                }
                Err(failure) => self.driver.failed(request.kind, failure, now),
            }
            self.driver.reported();
            if CAREFUL && let Some(verifier) = &mut self.verifier {
                let buffer = self.buffers.arena_mut().part_mut(at, request.len as usize);
                verifier.done(request, outcome.is_ok(), buffer);
            }
        }
        if let Some(verifier) = &mut self.verifier {
            self.driver.verified(verifier.take());
        }
        for _ in 0..self.io.short_transfers {
            self.driver.short_transfer();
        }
    }

    #[inline]
    fn succeeded<const STRIPED: bool, const CAREFUL: bool>(
        &mut self,
        request: Request,
        due: u64,
        started: u64,
    ) {
        if CAREFUL {
            self.driver.completed_due(request.kind, due, started, u64::from(request.len));
        } else {
            self.driver.completed(request.kind, started, u64::from(request.len));
        }
        if STRIPED && let Some(stripe) = self.io.files.stripe {
            for part in stripe.split(request.offset, request.len) {
                self.driver.part_completed(part.member, started, u64::from(part.len));
            }
        }
    }
}

impl Io<'_> {
    /// Does one I/O, all parts of it.
    #[inline]
    fn perform<const STRIPED: bool>(
        &mut self,
        request: Request,
        arena: &mut Arena,
        at: usize,
    ) -> Result<(), Failure> {
        if request.kind == IoKind::Sync {
            return self.flush_all();
        }
        if STRIPED && let Some(stripe) = self.files.stripe {
            return stripe.split(request.offset, request.len).try_for_each(|part| {
                if request.kind == IoKind::Trim {
                    return self.trim(part);
                }
                self.transfer(request.kind, arena, at, part)
            });
        }
        let whole = Extent { member: 0, offset: request.offset, at: 0, len: request.len };
        if request.kind == IoKind::Trim {
            return self.trim(whole);
        }
        self.transfer(request.kind, arena, at, whole)
    }

    /// Moves the part of an I/O that lies on one member.
    #[inline]
    fn transfer(
        &mut self,
        kind: IoKind,
        arena: &mut Arena,
        at: usize,
        part: Extent,
    ) -> Result<(), Failure> {
        self.board.launched(0, part);
        let (mut done, mut attempts) = (0, 0);
        loop {
            let member = &self.files.members[part.member as usize];
            let offset = part.offset + u64::from(done);
            let buffer = arena.part_mut(at + (part.at + done) as usize, (part.len - done) as usize);
            let moved = match kind {
                IoKind::Read => member.file.read_at(buffer, offset),
                _ if self.files.write_flags == 0 => member.file.write_at(buffer, offset),
                _ => write_at_with_flags(&member.file, buffer, offset, self.files.write_flags),
            };
            let errno = match moved.as_ref() {
                Ok(moved) => match member.after(done, *moved as u32, part.len) {
                    After::Complete => {
                        self.short_transfers += u64::from(done > 0);
                        return Ok(());
                    }
                    After::Again(now) => {
                        done = now;
                        continue;
                    }
                    After::Ended => 0,
                },
                Err(error) => error.raw_os_error().unwrap_or(0),
            };
            if moved.is_ok() || !is_passing(errno, &mut attempts) {
                return Err(Failure { errno, member: part.member, offset });
            }
        }
    }

    /// Gives up the part that lies on one member.
    fn trim(&self, part: Extent) -> Result<(), Failure> {
        self.board.launched(0, part);
        let index = part.member as usize;
        let (file, trim) = (&self.files.members[index].file, self.trims[index]);
        let mut attempts = 0;
        loop {
            let Err(error) = trim(file, part.offset, u64::from(part.len)) else {
                return Ok(());
            };
            let errno = error.raw_os_error().unwrap_or(0);
            if !is_passing(errno, &mut attempts) {
                return Err(Failure { errno, member: part.member, offset: part.offset });
            }
        }
    }

    fn flush_all(&self) -> Result<(), Failure> {
        for (member, file) in (0..).zip(&self.files.members) {
            self.board.launched(0, Extent { member, offset: 0, at: 0, len: 0 });
            (self.flush)(&file.file).map_err(|error| Failure {
                errno: error.raw_os_error().unwrap_or(0),
                member,
                offset: 0,
            })?;
        }
        Ok(())
    }
}
