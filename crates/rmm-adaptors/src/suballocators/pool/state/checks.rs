//! The table of live blocks as callers know them, in a pool that checks frees.

#![forbid(unsafe_code)]

use std::fmt;
use std::sync::Arc;

use crate::TrackingFinding;
use crate::shared::tracked::{OnFinding, Tracking};

/// What is called with each wrong free.
#[derive(Clone)]
pub(crate) struct Report(Arc<dyn Fn(&TrackingFinding<'_>) + Send + Sync>);

impl Report {
    pub(crate) fn new(report: impl Fn(&TrackingFinding<'_>) + Send + Sync + 'static) -> Self {
        Self(Arc::new(report))
    }
}

impl fmt::Debug for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Report").finish_non_exhaustive()
    }
}

/// The table of checks, if frees are checked.
pub(crate) fn checks(is_on: bool, report: Option<Report>) -> Option<Arc<Tracking>> {
    let captures = report.is_some();
    let on_finding: OnFinding = match report {
        Some(Report(report)) => Box::new(move |finding| report(finding)),
        None => Box::new(|_| ()),
    };
    (is_on || captures).then(|| Arc::new(Tracking::new(captures, false, on_finding)))
}
