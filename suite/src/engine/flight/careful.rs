//! The loop of jobs whose I/Os are due at times of their own, or verified. It asks more of the
//! clock and of itself for each I/O than the plain one, which is not to pay for that.

use std::io;

use super::{Flight, Queue};
use crate::engine::batch::Batch;
use crate::engine::driver::Driver;
use crate::engine::pace::{sleep_ns, wait_for};
use crate::engine::requests::Request;
use crate::engine::tally::NEVER;
use crate::engine::verify::Verifier;
use crate::os::clock::{monotonic_ns, wake_on_time};

/// For how long a worker whose requests wait for others waits for a completion of its own.
const PUT_OFF_NS: u64 = 100_000;

impl Flight<'_> {
    /// As [`work`](Self::work), where I/Os are due at times of their own, or verified.
    pub(super) fn work_with_care<const STRIPED: bool>(
        &mut self,
        driver: &mut Driver<'_>,
        batch: &mut Batch,
        queue: &mut impl Queue,
    ) -> io::Result<()> {
        wake_on_time();
        let mut requests = vec![Request::FLUSH; batch.submit_max()];
        let mut dues = vec![0; requests.len()];
        loop {
            self.give_up_when_over(driver);
            let room = self.room::<STRIPED>().min(requests.len());
            let begun = self.gather(driver, &mut requests[..room], &mut dues[..room]);
            for (request, due) in requests[..begun].iter().zip(&dues) {
                self.launch::<STRIPED, true>(*request, queue)?;
                self.dues[self.free[self.free_count] as usize] = *due;
            }
            if begun > 0 {
                let started = driver.submitted(monotonic_ns(), begun as u64);
                self.stamp(begun, started);
            }
            if self.outstanding() == 0 && !driver.submitting() && self.put_off() == 0 {
                if let Some(verifier) = &mut self.verifier {
                    driver.verified(verifier.take());
                }
                return Ok(());
            }
            let ready = self.wait_with_care::<STRIPED>(driver, queue)?;
            if ready > 0 {
                self.reap::<STRIPED, true>(monotonic_ns(), driver, queue)?;
            }
        }
    }

    /// Hands over what is queued, and waits until one is done or another can be begun. Returns how
    /// many are done.
    fn wait_with_care<const STRIPED: bool>(
        &self,
        driver: &mut Driver<'_>,
        queue: &mut impl Queue,
    ) -> io::Result<usize> {
        let now = monotonic_ns();
        if self.put_off() > 0 {
            // Another worker may give blocks free at any time, and tells nobody.
            if self.outstanding() == 0 {
                std::thread::yield_now();
                return Ok(0);
            }
            return queue.enter_for(PUT_OFF_NS);
        }
        let can_begin = driver.submitting() && self.room::<STRIPED>() > 0;
        let next = if can_begin { driver.next_due(now) } else { NEVER };
        if self.outstanding() == 0 {
            wait_for(next, now);
            return Ok(0);
        }
        match sleep_ns(next, now) {
            0 => queue.enter(0),
            time => queue.enter_for(time),
        }
    }

    /// Requests that are to be launched now: those that were put off, and then those that are due.
    fn gather(
        &mut self,
        driver: &mut Driver<'_>,
        requests: &mut [Request],
        dues: &mut [u64],
    ) -> usize {
        let Some(verifier) = &mut self.verifier else {
            return driver.draw_due(monotonic_ns(), requests, dues);
        };
        let (mut begun, mut tries) = (0, verifier.waiting());
        while begun < requests.len()
            && let Some((request, due)) = verifier.begin_waiting(&mut tries)
        {
            (requests[begun], dues[begun]) = (request, due);
            begun += 1;
        }
        let room = requests.len().saturating_sub(verifier.waiting()).max(begun);
        let drawn =
            driver.draw_due(monotonic_ns(), &mut requests[begun..room], &mut dues[begun..room]);
        let fresh = begun..begun + drawn;
        for next in fresh {
            let (request, due) = (requests[next], dues[next]);
            if verifier.begin_or_put_off(request, due) {
                (requests[begun], dues[begun]) = (request, due);
                begun += 1;
            }
        }
        begun
    }

    /// When the load is over, what still waits for others is not begun any more. A worker that
    /// waited on would do so for ever if one of those never came back.
    fn give_up_when_over(&mut self, driver: &mut Driver<'_>) {
        if let Some(verifier) = self.verifier.as_mut().filter(|verifier| verifier.waiting() > 0)
            && driver.is_over(monotonic_ns())
        {
            verifier.give_up().for_each(|due| driver.given_up(due));
        }
    }

    /// How many requests wait until others have done with their blocks.
    fn put_off(&self) -> usize {
        self.verifier.as_ref().map_or(0, Verifier::waiting)
    }
}
