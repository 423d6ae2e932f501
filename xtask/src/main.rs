//! The tasks of those who work on diskproof.
fn main() {}
