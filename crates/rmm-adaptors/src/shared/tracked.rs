//! The live blocks as callers know them, and what is wrong with their frees: for tracking adaptors,
//! and for pools that check frees.

mod call_site;
mod caller;
mod finding;
mod report;
mod table;

#[doc(hidden)]
pub use caller::name_callers_by;
pub use finding::TrackingFinding;
pub use report::{CallSite, OutstandingAllocation, TrackingReport};
pub(crate) use table::{OnFinding, Tracking};
