//! Reads the rows of a run.

#![forbid(unsafe_code)]

fn main() {}
