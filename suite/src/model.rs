//! How a disk behaves: latency and its spread, caps, faults. Driven in virtual time by the
//! simulated back end. Knows nothing of who asks.

/// The behaviour of one disk.
#[derive(Debug, Clone, PartialEq)]
pub struct DiskModel {}
