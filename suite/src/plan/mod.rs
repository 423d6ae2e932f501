//! What the author wrote, made certain: from a plan's text to a [`Plan`] that can be run.
//!
//! Two steps. [`parse`] looks at shape only and keeps the place of every value; [`check()`]
//! resolves names, applies a profile, expands sweeps and asks whether it all makes sense. Each
//! returns every error of the plan at once. Neither does any I/O or knows the host: the same text
//! gives the same plan everywhere.

mod assertion;
mod check;
mod expect;
mod glob;
mod model;
mod pace;
mod profile;
mod raw;
mod ring;
mod storage;
mod streams;
mod sweep;
mod workload;

#[cfg(test)]
mod tests;

pub use assertion::{Against, Assertion, Comparison, Condition, Level, Measure, Metric, Test};
pub use check::check;
pub use glob::{case_is_wanted, case_matches};
pub use model::{
    Access, Blocks, Cache, Case, CaseId, Data, Disk, DiskSource, EngineChoice, Extent, FlushEvery,
    Inconclusive, Layout, Limit, Order, Place, Plan, Point, Region, Rounds, RunOptions, Rw, Setup,
    Stream, Stripe, StripeDriver, Sync, Workload,
};
pub use pace::{Arrivals, Pace, Rate, ThinkTime};
pub use raw::{NAME_MAX, RawPlan, parse};
