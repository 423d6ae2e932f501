//! The diskproof program: everything is in the library.
fn main() {}
