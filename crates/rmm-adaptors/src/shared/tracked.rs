//! The live blocks as callers know them, and what is wrong with their frees: for tracking adaptors,
//! and for pools that check frees.

mod call_site;
mod caller;
mod finding;
mod report;
mod table;

pub(crate) use call_site::program_frames;
pub(crate) use caller::Caller;
pub use finding::TrackingFinding;
pub use report::{CallSite, OutstandingAllocation, TrackingReport};
pub(crate) use table::{OnFinding, Tracking};
