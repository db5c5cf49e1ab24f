//! The result type of benchmarks.

use std::error::Error;

/// A result whose error is shown to the person who runs the program.
pub type Outcome<T = ()> = Result<T, Box<dyn Error>>;
