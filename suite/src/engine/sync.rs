//! The plain back end: `pread` and `pwrite`, one I/O at a time. An I/O that a stripe cuts into
//! parts does them one after another, and a flush goes to one member after another.

use std::fs::File;
use std::io;

use super::board::Board;
use super::buffer::{Arena, Buffers};
use super::driver::{AHEAD, Done, Driver};
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
use crate::os::io::{Errno, read_at, write_at, write_at_with_flags};
use crate::os::ticks::TickClock;

/// One worker, ready to start.
pub(super) struct SyncWorker<'run> {
    driver: Driver<'run>,
    io: Io<'run>,
    buffers: Buffers,
    clock: TickClock,
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
            clock: TickClock::new(),
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
            (false, false) => self.work::<false>(),
            (true, false) => self.work::<true>(),
            (false, true) => self.work_with_care::<false>(),
            (true, true) => self.work_with_care::<true>(),
        }
        for _ in 0..self.io.short_transfers {
            self.driver.short_transfer();
        }
        self.driver.finish()
    }

    /// One I/O after another, as fast as they come back. The end of one is the start of the next:
    /// the clock is read once for each, and twice only where time passes between them that is
    /// not the storage's. So a latency has the tool's own work in it, of about 20 ns, which is
    /// less than 1 % of all that last more than 2 us.
    fn work<const STRIPED: bool>(&mut self) {
        let mut requests = [Request::FLUSH; AHEAD];
        while self.driver.submitting() {
            let drawn = self.driver.draw_ahead(&mut requests);
            let mut now = self.clock.now();
            if drawn == 0 || self.driver.is_over(now) {
                return;
            }
            for request in &requests[..drawn] {
                if !self.one::<STRIPED>(*request, &mut now) {
                    return;
                }
            }
        }
    }

    /// Does one I/O, which may begin at `now`, and moves that on to when it was done. Returns
    /// whether the load may go on.
    #[expect(clippy::inline_always, reason = "a call for each I/O, from one place of the loop")]
    #[inline(always)]
    fn one<const STRIPED: bool>(&mut self, request: Request, now: &mut u64) -> bool {
        let (mut at, mut begun) = (0, *now);
        if request.kind == IoKind::Write {
            at = self.buffers.write_buffer(0, request.len as usize);
            if self.buffers.are_made() {
                begun = self.clock.now();
            }
        }
        let arena = self.buffers.arena_mut();
        let outcome = match (STRIPED, request.kind) {
            (false, IoKind::Read | IoKind::Write) => self.io.at_once(request, arena, at),
            _ => self.io.perform::<STRIPED>(request, arena, at),
        };
        *now = self.clock.now();
        self.io.board.landed(0);
        if let Err(failure) = outcome {
            return self.failed(request.kind, failure, begun, *now);
        }
        let counted = if STRIPED { self.driver.in_its_phase(begun) } else { begun };
        let going = self.driver.completed_alone(request.kind, begun, *now, u64::from(request.len));
        if STRIPED {
            self.parts_completed(request, counted);
        }
        going
    }

    /// An I/O failed that was alone in flight. Returns whether the load may go on.
    #[cold]
    fn failed(&mut self, kind: IoKind, failure: Failure, begun: u64, now: u64) -> bool {
        self.driver.submitted(begun, 1);
        self.driver.reaped(now);
        self.driver.failed(kind, failure, now);
        self.driver.reported();
        !self.driver.is_over(now)
    }

    /// The next I/O, and when it was due.
    fn next(&mut self) -> Option<(Request, u64)> {
        let (mut next, mut due) = ([Request::FLUSH], [0]);
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

    /// As [`work`](Self::work), for I/Os that are due at times of their own, or looked at.
    fn work_with_care<const STRIPED: bool>(&mut self) {
        wake_on_time();
        while let Some((request, due)) = self.next() {
            let at = match request.kind {
                IoKind::Read => self.buffers.read_buffer(0),
                IoKind::Write => self.buffers.write_buffer(0, request.len as usize),
                IoKind::Trim | IoKind::Sync => 0,
            };
            if request.kind == IoKind::Write
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
                    let due = if self.driver.is_paced() { due } else { started };
                    let bytes = u64::from(request.len);
                    self.driver.completed_due(request.kind, due, started, bytes);
                    if STRIPED {
                        self.parts_completed(request, started);
                    }
                }
                Err(failure) => self.driver.failed(request.kind, failure, now),
            }
            self.driver.reported();
            if let Some(verifier) = &mut self.verifier {
                let buffer = self.buffers.arena_mut().part_mut(at, request.len as usize);
                verifier.done(request, outcome.is_ok(), buffer);
            }
        }
        if let Some(verifier) = &mut self.verifier {
            self.driver.verified(verifier.take());
        }
    }

    fn parts_completed(&mut self, request: Request, started: u64) {
        if request.kind != IoKind::Sync
            && let Some(stripe) = self.io.files.stripe
        {
            for part in stripe.split(request.offset, request.len) {
                self.driver.part_completed(part.member, started, u64::from(part.len));
            }
        }
    }
}

impl Io<'_> {
    /// Reads or writes on the one member: in one go, which is nearly always all that there is to
    /// it, or else by what follows.
    #[expect(clippy::inline_always, reason = "as what calls it")]
    #[inline(always)]
    fn at_once(&mut self, request: Request, arena: &mut Arena, at: usize) -> Result<(), Failure> {
        let Request { kind, len, offset } = request;
        self.board.launched_at(0, offset);
        let buffer = arena.part_mut(at, len as usize);
        let moved = self.files.call(kind, 0, buffer, offset);
        if moved == Ok(len as usize) {
            return Ok(());
        }
        self.go_on(kind, arena, at, Extent { member: 0, offset, at: 0, len }, moved)
    }

    /// Does one I/O, all parts of it.
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
    fn transfer(
        &mut self,
        kind: IoKind,
        arena: &mut Arena,
        at: usize,
        part: Extent,
    ) -> Result<(), Failure> {
        self.board.launched(0, part);
        let buffer = arena.part_mut(at + part.at as usize, part.len as usize);
        let moved = self.files.call(kind, part.member, buffer, part.offset);
        if moved == Ok(part.len as usize) {
            return Ok(());
        }
        self.go_on(kind, arena, at, part, moved)
    }

    /// Goes on with what was not done in one go: the kernel's answer to the first call was `moved`.
    #[cold]
    fn go_on(
        &mut self,
        kind: IoKind,
        arena: &mut Arena,
        at: usize,
        part: Extent,
        mut moved: Result<usize, Errno>,
    ) -> Result<(), Failure> {
        let member = &self.files.members[part.member as usize];
        let (mut done, mut attempts) = (0, 0);
        loop {
            let errno = match moved {
                Ok(moved) => match member.after(done, moved as u32, part.len) {
                    After::Complete => {
                        self.short_transfers += u64::from(done > 0);
                        return Ok(());
                    }
                    After::Again(now) => {
                        done = now;
                        None
                    }
                    After::Ended => Some(0),
                },
                Err(error) => Some(error.raw_os_error()),
            };
            let offset = part.offset + u64::from(done);
            if let Some(errno) = errno
                && (errno == 0 || !is_passing(errno, &mut attempts))
            {
                return Err(Failure { errno, member: part.member, offset });
            }
            let buffer = arena.part_mut(at + (part.at + done) as usize, (part.len - done) as usize);
            moved = self.files.call(kind, part.member, buffer, offset);
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

impl Files {
    /// Reads into a buffer or writes from it, and returns how many bytes that were.
    #[expect(clippy::inline_always, reason = "as what calls it")]
    #[inline(always)]
    fn call(
        &self,
        kind: IoKind,
        member: u32,
        buffer: &mut [u8],
        offset: u64,
    ) -> Result<usize, Errno> {
        let file = &self.members[member as usize].file;
        match kind {
            IoKind::Read => read_at(file, buffer, offset),
            _ if self.write_flags == 0 => write_at(file, buffer, offset),
            _ => write_at_with_flags(file, buffer, offset, self.write_flags),
        }
    }
}
