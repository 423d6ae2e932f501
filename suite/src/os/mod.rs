//! Thin safe wrappers over the kernel. Nothing here knows anything of ours.

pub mod clock;
pub mod cpu;
pub mod io;
