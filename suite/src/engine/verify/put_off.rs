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
            IoKind::Sync => true,
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
            IoKind::Sync => {}
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
    use super::*;

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
}
