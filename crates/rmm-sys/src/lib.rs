//! The part of the CUDA driver API that a memory manager needs, loaded at run time.
//!
//! This crate decides nothing. It has the [handles](CuStream), [codes](CuResult),
//! [kinds](CuMemPoolAttribute) and structures that cross the driver's interface, and one table of
//! its functions, [`Driver`]. Nothing links to CUDA: a program built with it starts on any machine,
//! and the absence of a driver is a [`LoadError`], a value.
//!
//! ```
//! use rmm_sys::Driver;
//!
//! match Driver::load() {
//!     Ok(driver) => println!("a driver, without {:?}", driver.missing()),
//!     Err(error) => println!("{error}"), // says which library or symbol is missing, and what to do
//! }
//! ```
//!
//! The same table can be written by hand, which is how the software device of `rmm-sim` stands in
//! for a driver.

mod annotations;
mod constants;
mod device_ptr;
mod handles;
mod load;
mod load_error;
mod results;
mod symbols;
mod table;
mod types;
#[doc(hidden)]
pub mod watch;

pub use annotations::{AllocationEvent, Annotations};
pub use constants::*;
pub use handles::*;
pub use load::LIBRARY_NAMES;
pub use load_error::{LIBRARY_VARIABLE, LoadError};
pub use results::CuResult;
pub use table::{Driver, MissingSymbol, SYMBOLS};
pub use types::*;
