//! One worker's part in verifying: which requests may begin, and what is made of those that are
//! done.

use std::collections::VecDeque;

use super::look::examine;
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

/// Holds what was read from `offset` against the table.
pub(super) fn check(table: &Generations, offset: u64, buffer: &[u8], verified: &mut Verified) {
    let block = table.block();
    for (block, at) in buffer.chunks_exact(block as usize).zip((offset..).step_by(block as usize)) {
        let Some(expected) = table.expected(at) else {
            verified.unchecked += 1;
            continue;
        };
        verified.checked += 1;
        if let Some(finding) = examine(block, at, table.run(), expected) {
            verified.found(finding.find(expected));
        }
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
        assert!(verifier.begin(Request::FLUSH));
    }
}
