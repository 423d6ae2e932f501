//! The parts of the loop one by one, for the benches and the self-test. They change with the loop.

pub use super::permutation::Permutation;
pub use super::requests::{Amount, Request, Source};
pub use super::stripe::{Extent, StripeMap};

use super::Job;
use super::buffer::Buffers;
use super::offsets::Positions;
use super::uring::Ring;

/// What the first worker of a job does next.
#[must_use]
pub fn source(job: &Job) -> Box<dyn Source> {
    super::requests::source(job, 0, &Positions::default())
}

/// Prepares what is written by the first worker of a job. The returned function makes the next
/// `len` bytes ready.
///
/// # Errors
/// When there is no memory.
pub fn writer(job: &Job) -> Result<impl FnMut(usize) -> usize, super::EngineError> {
    let mut buffers = Buffers::new(job, 0, 4096)?;
    Ok(move |len| buffers.write_buffer(0, len))
}

/// A ring of so many entries. The returned function does as many no-ops as it has.
///
/// # Errors
/// When rings can't be used here.
pub fn no_ops(entries: usize) -> std::io::Result<impl FnMut() -> std::io::Result<usize>> {
    let mut ring = Ring::new(entries, super::RingOptions::default())?;
    Ok(move || ring.turn_many(entries))
}
