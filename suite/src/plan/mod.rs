//! What the author wrote, made certain: from a plan's text to a [`Plan`] that can be run.
//!
//! Two steps. [`parse`] looks at shape only and keeps the place of every value; [`check`] resolves
//! names, applies a profile, expands sweeps and asks whether it all makes sense. Each returns
//! every error of the plan at once. Neither does any I/O or knows the host: the same text gives
//! the same plan everywhere.

mod check;
mod expect;
mod glob;
mod model;
mod profile;
mod raw;
mod storage;
mod sweep;
mod workload;

#[cfg(test)]
mod tests;

pub use check::check;
pub use glob::case_matches;
pub use model::{
    Against, Assertion, Blocks, Cache, Case, CaseId, Comparison, Condition, Data, Disk, DiskSource,
    EngineChoice, Extent, FlushEvery, Inconclusive, Layout, Level, Limit, Measure, Metric, Order,
    Place, Plan, Point, Region, Rounds, RunOptions, Rw, Setup, Stripe, StripeDriver, Sync, Test,
    Workload,
};
pub use raw::{RawPlan, parse};
