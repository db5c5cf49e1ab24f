//! The CUDA driver API, for programs that call it beside this library.
//!
//! [`current_driver`] returns the table of driver functions, [`sys`] has its types, and [`check`]
//! turns a code into an [`Error`](crate::Error). [`copy`] and [`fill`](copy::fill) work on raw
//! device addresses.

pub use rmm_core::{check, copy, current_driver, driver_for_drop, driver_in_context, sys};
