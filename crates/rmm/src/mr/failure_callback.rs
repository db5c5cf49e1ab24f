//! Options of [`FailureCallbackResourceAdaptor`](super::FailureCallbackResourceAdaptor), and what
//! its callback gets.

pub use rmm_adaptors::{FailedAllocation, FailureCallbackResourceAdaptorBuilder};
