//! Moves bytes and counts.
//!
//! [`run`] takes a [`Job`], plain numbers and open files, and returns a
//! [`Measurement`](crate::measure::Measurement). It allocates before the start line and not after
//! it. Nothing here knows plans or expectations, or where a file came from.

mod job;

pub use job::{
    Backend, Control, DeviceFile, EngineError, Flush, Job, Length, Mix, Payload, Progress, Storage,
    Target, WriteSync,
};
