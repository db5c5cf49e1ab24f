//! Options and reports of [`TrackingResourceAdaptor`](super::TrackingResourceAdaptor).

pub use rmm_adaptors::{
    CallSite, OutstandingAllocation, TrackingFinding, TrackingReport,
    TrackingResourceAdaptorBuilder,
};
