//! Constructors of a tracker, and its options.

use std::io::Write as _;

use super::TrackingResourceAdaptor;
use crate::shared::tracked::{Tracking, TrackingFinding};

/// Options for a [`TrackingResourceAdaptor`].
#[derive(Clone, Debug)]
#[must_use = "a builder does nothing until it is built"]
pub struct TrackingResourceAdaptorBuilder<U> {
    upstream: U,
    captures_stacks: bool,
}

impl<U> TrackingResourceAdaptor<U> {
    /// Tracks without capturing stacks.
    pub fn new(upstream: U) -> Self {
        Self::builder(upstream).build()
    }

    /// Options for a tracker over `upstream`.
    pub fn builder(upstream: U) -> TrackingResourceAdaptorBuilder<U> {
        TrackingResourceAdaptorBuilder { upstream, captures_stacks: false }
    }
}

impl<U> TrackingResourceAdaptorBuilder<U> {
    /// Captures a backtrace for each block, at its allocation; off by default.
    pub fn capture_stacks(mut self, captures: bool) -> Self {
        self.captures_stacks = captures;
        self
    }

    /// Builds the resource. Findings go to the standard error stream.
    pub fn build(self) -> TrackingResourceAdaptor<U> {
        self.on_finding(|finding| {
            // There is no one to report a failed write to.
            let _ignored = writeln!(std::io::stderr(), "rmm: tracking: {finding}");
        })
    }

    /// Builds the resource. Findings go to the function, on the thread that frees or drops. A panic
    /// of the function is caught.
    pub fn on_finding(
        self,
        on_finding: impl Fn(&TrackingFinding<'_>) + Send + Sync + 'static,
    ) -> TrackingResourceAdaptor<U> {
        let Self { upstream, captures_stacks } = self;
        TrackingResourceAdaptor::over(
            upstream,
            Tracking::new(captures_stacks, true, Box::new(on_finding)),
        )
    }
}
