//! Tests of the product as a whole: one binary, so that it is linked once.

mod cli;
mod plans;
mod simulate;
mod support;
