//! One worker's part in verifying: which requests may begin, and what is made of those that are
//! done.

use std::collections::VecDeque;

use super::look::{examine, is_ahead};
use super::stamp::stamp;
use super::table::Generations;
use crate::engine::parts::Request;
use crate::measure::{IoKind, Verified};

/// Verifies the I/Os of one worker.
pub(in crate::engine) struct Verifier<'run> {
    table: &'run Generations,
    /// Requests whose blocks others use, and when each was due.
    put_off: VecDeque<(Request, u64)>,
    verified: Verified,
}

impl<'run> Verifier<'run> {
    /// For a worker with so many I/Os in flight.
    pub(in crate::engine) fn new(table: &'run Generations, depth: usize) -> Self {
        Self { table, put_off: VecDeque::with_capacity(depth), verified: Verified::default() }
    }

    /// How many requests wait until they may begin.
    pub(in crate::engine) fn waiting(&self) -> usize {
        self.put_off.len()
    }

    /// Begins a request, if nobody else uses its blocks; if somebody does, it is put off.
    pub(in crate::engine) fn begin_or_put_off(&mut self, request: Request, due: u64) -> bool {
        let begun = self.begin(request);
        if !begun {
            self.put_off.push_back((request, due));
        }
        begun
    }

    /// Begins a request, if nobody else uses its blocks.
    pub(in crate::engine) fn begin(&self, request: Request) -> bool {
        match request.kind {
            IoKind::Read => self.table.begin_read(request.offset, request.len),
            IoKind::Write => self.table.begin_write(request.offset, request.len),
            IoKind::Trim | IoKind::Sync => true,
        }
    }

    /// Begins the next of up to `tries` requests that were put off and may begin now. Those that
    /// still may not go to the end of the line.
    pub(in crate::engine) fn begin_waiting(&mut self, tries: &mut usize) -> Option<(Request, u64)> {
        while *tries > 0 {
            *tries -= 1;
            let (request, due) = self.put_off.pop_front()?;
            if self.begin(request) {
                return Some((request, due));
            }
            self.put_off.push_back((request, due));
        }
        None
    }

    /// The load is over: what was put off is not begun any more. Returns when each was due.
    pub(in crate::engine) fn give_up(&mut self) -> impl Iterator<Item = u64> + '_ {
        self.put_off.drain(..).map(|(_, due)| due)
    }

    /// Stamps what is about to be written.
    pub(in crate::engine) fn stamp(&self, request: Request, buffer: &mut [u8]) {
        let (block, run) = (self.table.block(), self.table.run());
        let generation =
            |number: usize| self.table.next_generation(request.offset + number as u64 * block);
        stamp(buffer, request.offset, block as usize, run, generation);
    }

    /// A request is done; of a read that succeeded, this was read.
    pub(in crate::engine) fn done(&mut self, request: Request, arrived: bool, buffer: &[u8]) {
        let Request { kind, len, offset } = request;
        match kind {
            IoKind::Write => self.table.end_write(offset, len, arrived),
            IoKind::Read => {
                if arrived {
                    check(self.table, offset, buffer, &mut self.verified);
                }
                self.table.end_read(offset, len);
            }
            IoKind::Trim | IoKind::Sync => {}
        }
    }

    /// What was found.
    pub(in crate::engine) fn take(&mut self) -> Verified {
        std::mem::take(&mut self.verified)
    }
}

/// Holds what was read from `offset` against the table, block by block; of blocks of which only a
/// part was read, that part.
pub(super) fn check(
    table: &Generations,
    mut offset: u64,
    mut buffer: &[u8],
    verified: &mut Verified,
) {
    while !buffer.is_empty() {
        let to_border = table.block() - offset % table.block();
        let len = buffer.len().min(usize::try_from(to_border).unwrap_or(usize::MAX));
        let (block, rest) = buffer.split_at(len);
        check_block(table, offset, block, verified);
        (buffer, offset) = (rest, offset + len as u64);
    }
}

#[inline]
fn check_block(table: &Generations, at: u64, block: &[u8], verified: &mut Verified) {
    let Some(expected) = table.expected(at) else {
        verified.unchecked += 1;
        return;
    };
    match examine(block, at, table.run(), expected) {
        // The table is the one that is behind.
        Some(_) if table.may_lag() && is_ahead(block, at, table.run(), expected) => {
            verified.unchecked += 1;
        }
        Some(finding) => {
            verified.checked += 1;
            verified.found(finding.find(expected));
        }
        None => verified.checked += 1,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering::SeqCst};

    use super::*;
    use crate::engine::seed::{Stream, draw_below, random};

    #[test]
    fn what_overlaps_is_put_off_and_begun_later() {
        let table = Generations::new(1 << 20, 4096, 1).unwrap();
        let mut verifier = Verifier::new(&table, 4);
        let write = |offset| Request { kind: IoKind::Write, len: 4096, offset };
        assert!(verifier.begin_or_put_off(write(0), 1));
        assert!(!verifier.begin_or_put_off(write(0), 2));
        assert!(verifier.begin_or_put_off(write(4096), 3));
        assert_eq!(verifier.waiting(), 1);
        assert_eq!(verifier.begin_waiting(&mut 4), None);
        verifier.done(write(0), true, &[]);
        assert_eq!(verifier.begin_waiting(&mut 4), Some((write(0), 2)));
        assert_eq!(verifier.waiting(), 0);
        assert!(!verifier.begin_or_put_off(write(4096), 9));
        assert_eq!(verifier.give_up().collect::<Vec<_>>(), [9]);
        assert_eq!(verifier.waiting(), 0);
        assert!(verifier.begin(Request::FLUSH));
    }

    /// What several workers have in flight, by a model of its own: every request that was begun
    /// and is not done.
    #[derive(Default)]
    struct InFlight(Vec<(usize, Request)>);

    impl InFlight {
        fn meets(&self, request: Request) -> bool {
            let end = |one: Request| one.offset + u64::from(one.len);
            self.0.iter().any(|(_, other)| {
                request.offset < end(*other)
                    && other.offset < end(request)
                    && (request.kind == IoKind::Write || other.kind == IoKind::Write)
            })
        }
    }

    #[test]
    fn nothing_overlaps_a_write_and_nothing_is_left_out() {
        const BLOCK: u64 = 512;
        for seed in 0..50 {
            let mut random = random(seed, Stream::Offsets, 0);
            let table = Generations::new(16 * BLOCK, BLOCK, 1).unwrap();
            let mut workers: Vec<_> = (0..3).map(|_| Verifier::new(&table, 8)).collect();
            let (mut in_flight, mut drawn, mut done) = (InFlight::default(), 0, 0);
            while drawn < 1000 || done < drawn {
                let worker = draw_below(&mut random, 3) as usize;
                let verifier = &mut workers[worker];
                let mut tries = verifier.waiting();
                while let Some((request, _)) = verifier.begin_waiting(&mut tries) {
                    assert!(!in_flight.meets(request), "{request:?} over another");
                    in_flight.0.push((worker, request));
                }
                if drawn < 1000 && verifier.waiting() < 8 {
                    let blocks = 1 + draw_below(&mut random, 4);
                    let write = draw_below(&mut random, 2) == 1;
                    let request = Request {
                        kind: if write { IoKind::Write } else { IoKind::Read },
                        len: (blocks * BLOCK) as u32,
                        offset: draw_below(&mut random, 17 - blocks) * BLOCK,
                    };
                    drawn += 1;
                    let begun = verifier.begin_or_put_off(request, 0);
                    assert_eq!(begun, !in_flight.meets(request), "{request:?}");
                    if begun {
                        in_flight.0.push((worker, request));
                    }
                }
                if !in_flight.0.is_empty() && draw_below(&mut random, 3) > 0 {
                    let which = draw_below(&mut random, in_flight.0.len() as u64) as usize;
                    let (worker, request) = in_flight.0.swap_remove(which);
                    workers[worker].done(request, false, &[]);
                    done += 1;
                }
            }
            assert!(in_flight.0.is_empty() && workers.iter().all(|one| one.waiting() == 0));
        }
    }

    #[test]
    fn threads_never_have_a_block_that_another_writes() {
        const BLOCKS: u64 = 8;
        let table = Generations::new(BLOCKS * 512, 512, 1).unwrap();
        // How many use each block: a writer counts for a thousand.
        let users: Vec<AtomicU32> = (0..BLOCKS).map(|_| AtomicU32::new(0)).collect();
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let (table, users) = (&table, &users);
                scope.spawn(move || {
                    let mut random = random(thread, Stream::Offsets, 1);
                    let verifier = Verifier::new(table, 1);
                    for _ in 0..20_000 {
                        let len = 1 + draw_below(&mut random, 3);
                        let first = draw_below(&mut random, BLOCKS + 1 - len);
                        let write = draw_below(&mut random, 2) == 1;
                        let (kind, weight) =
                            if write { (IoKind::Write, 1000) } else { (IoKind::Read, 1) };
                        let request = Request { kind, len: len as u32 * 512, offset: first * 512 };
                        if !verifier.begin(request) {
                            continue;
                        }
                        let mine = &users[first as usize..(first + len) as usize];
                        for block in mine {
                            let before = block.fetch_add(weight, SeqCst);
                            assert!(before == 0 || (!write && before < 1000), "{before}");
                        }
                        std::thread::yield_now();
                        for block in mine {
                            block.fetch_sub(weight, SeqCst);
                        }
                        if write {
                            table.end_write(request.offset, request.len, true);
                        } else {
                            table.end_read(request.offset, request.len);
                        }
                    }
                });
            }
        });
        assert!((0..BLOCKS).all(|block| table.begin_write(block * 512, 512)), "all are free");
    }
}
