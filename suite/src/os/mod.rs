//! Thin safe wrappers over the kernel.
//!
//! They know nothing of ours: no plans, no disks, no jobs. Whatever is read from files takes
//! their place as a parameter, so that a captured tree can stand in for a machine.

pub mod blockdev;
pub mod clock;
pub mod cpu;
pub mod direct;
pub mod extents;
pub mod host;
pub mod io;
pub mod mounts;
pub mod shared;
pub mod ticks;
