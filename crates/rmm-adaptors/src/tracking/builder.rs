//! Options for a tracker.

use std::io::Write as _;

use super::table::Tracking;
use super::{TrackingFinding, TrackingResourceAdaptor};

/// What a new [`TrackingResourceAdaptor`] should do.
#[derive(Clone, Debug)]
#[must_use = "a builder does nothing until it is built"]
pub struct TrackingResourceAdaptorBuilder<U> {
    upstream: U,
    captures_stacks: bool,
}

impl<U> TrackingResourceAdaptorBuilder<U> {
    pub(super) fn new(upstream: U) -> Self {
        Self { upstream, captures_stacks: false }
    }

    /// Whether each block keeps the stack of calls that allocated it; not by default.
    pub fn capture_stacks(mut self, captures: bool) -> Self {
        self.captures_stacks = captures;
        self
    }

    /// Makes the resource. What it finds goes to the standard error stream.
    pub fn build(self) -> TrackingResourceAdaptor<U> {
        self.on_finding(|finding| {
            // Nobody is left to hear that it failed.
            let _told = writeln!(std::io::stderr(), "rmm: tracking: {finding}");
        })
    }

    /// Makes the resource. What it finds goes to the function, on the thread that frees or drops.
    /// If it panics, the panic ends there.
    pub fn on_finding(
        self,
        tell: impl Fn(&TrackingFinding<'_>) + Send + Sync + 'static,
    ) -> TrackingResourceAdaptor<U> {
        let Self { upstream, captures_stacks } = self;
        TrackingResourceAdaptor::over(upstream, Tracking::new(captures_stacks, Box::new(tell)))
    }
}
