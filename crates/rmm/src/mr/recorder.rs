//! Options of [`RecorderResourceAdaptor`](super::RecorderResourceAdaptor), and its reports of
//! failures.

pub use rmm_adaptors::{OOM_REPORT_VARIABLE, RecorderResourceAdaptorBuilder, with_oom_report};
