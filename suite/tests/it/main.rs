//! Tests of the product as a whole: one binary, so that it is linked once.

mod cli;
mod folders;
mod interrupt;
mod issued;
mod limits;
mod memcheck;
mod memory;
mod plans;
mod readme;
mod real;
mod ring;
mod sandbox;
mod simulate;
mod streams;
mod stuck;
mod support;
mod trims;
mod verify;
