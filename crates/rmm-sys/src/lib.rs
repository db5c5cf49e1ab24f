//! The part of the CUDA driver API that a memory manager needs, loaded at run time.
//!
//! This crate contains no policy. It has the [handles](CuStream), [status codes](CuResult),
//! [attributes](CuMemPoolAttribute) and structures of the driver API, and a table of its functions,
//! [`Driver`]. Nothing links to CUDA: a program built with it starts on any machine, and a missing
//! driver is an error value, [`LoadError`].
//!
//! ```
//! use rmm_sys::Driver;
//!
//! match Driver::load() {
//!     Ok(driver) => println!("a driver, without {:?}", driver.missing()),
//!     Err(error) => println!("{error}"), // which library or symbol is missing, and what to do
//! }
//! ```
//!
//! The table can also be filled by hand, which is how the software device of `rmm-sim` replaces the
//! driver.

/// The first page, whose example runs as a test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}

mod annotations;
mod constants;
mod device_ptr;
#[doc(hidden)]
pub mod epoch;
mod handles;
mod load;
mod load_error;
#[doc(hidden)]
pub mod process;
mod results;
mod symbols;
mod table;
mod types;

pub use annotations::{AllocationEvent, AnnotationChecker, Annotations};
pub use constants::*;
pub use handles::*;
pub use load::LIBRARY_NAMES;
pub use load_error::{LIBRARY_VARIABLE, LoadError};
pub use results::CuResult;
pub use table::{Driver, MissingSymbol, SYMBOLS};
pub use types::*;
