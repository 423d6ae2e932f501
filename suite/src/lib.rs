//! diskproof: the declarative test suite for storage performance.
//!
//! Data travels one way: plan text → [`plan`] → [`rig`] → [`engine`] → [`judge`] → [`record`] →
//! [`report`]; [`session`] tells that story and [`cli`] speaks with the person. ARCHITECTURE.md
//! has the picture and who may import whom.

#[cfg(not(all(target_os = "linux", target_pointer_width = "64")))]
compile_error!("diskproof drives the interfaces of 64-bit Linux");

pub mod cli;
pub mod diag;
pub mod engine;
pub mod judge;
pub mod measure;
pub mod model;
pub mod os;
pub mod plan;
pub mod record;
pub mod report;
pub mod rig;
pub mod session;
#[cfg(test)]
pub(crate) mod testing;
pub mod units;
