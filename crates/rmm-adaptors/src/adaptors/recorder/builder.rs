//! Constructors of a recorder, and its options.

use std::path::PathBuf;

use rmm_core::{AnyResource, Device};

use super::report::{OOM_REPORT_VARIABLE, Reports};
use super::ring::Ring;
use super::{Recorder, RecorderResourceAdaptor};
use crate::shared::site;
use crate::sync::address_table::AddressTable;
use crate::sync::first_thread::FirstThreadCell;

/// Events that are kept by default.
const EVENTS: usize = 1 << 16;

/// Options for a [`RecorderResourceAdaptor`].
#[derive(Clone, Debug)]
#[must_use = "a builder does nothing until it is built"]
pub struct RecorderResourceAdaptorBuilder<U> {
    upstream: U,
    events: usize,
    sites: bool,
    oom_report: Option<PathBuf>,
}

impl<U> RecorderResourceAdaptor<U> {
    /// Keeps the last 65,536 events.
    pub fn new(upstream: U) -> Self {
        Self::builder(upstream).build()
    }

    /// Options for a recorder over `upstream`.
    pub fn builder(upstream: U) -> RecorderResourceAdaptorBuilder<U> {
        RecorderResourceAdaptorBuilder { upstream, events: EVENTS, sites: false, oom_report: None }
    }
}

impl<U> RecorderResourceAdaptorBuilder<U> {
    /// How many events are kept, 48 bytes of host memory each; rounded up to a power of two;
    /// at most 16,777,216.
    pub fn events(mut self, events: usize) -> Self {
        self.events = events;
        self
    }

    /// Whether the call site of each allocation is kept; off by default. It takes a few
    /// microseconds; in Python 0.1 to 0.25 for four frames that were met before, and 1 otherwise.
    /// That of a failed request is kept anyway.
    pub fn sites(mut self, keeps: bool) -> Self {
        self.sites = keeps;
        self
    }

    /// Writes a report to this directory when a request fails for lack of memory, before the error
    /// is returned: the file `rmm-oom-PID-K.csv`, a log as [`save`](RecorderResourceAdaptor::save)
    /// writes it, of at most 64 MiB, and, in a program that has linked `rmm-report` and registered
    /// it, a page beside it. The error says which files. A process writes at most 3 reports. If one
    /// cannot be written, the error says why, and stays otherwise as it is.
    pub fn oom_report(mut self, directory: impl Into<PathBuf>) -> Self {
        self.oom_report = Some(directory.into());
        self
    }

    /// Builds the resource.
    pub fn build(self) -> RecorderResourceAdaptor<U> {
        let Self { upstream, events, sites, oom_report } = self;
        let recorder = Recorder {
            first: FirstThreadCell::default(),
            live: AddressTable::default(),
            ring: Ring::new(events),
            sites,
            device: Device::current().ok().map(Device::ordinal),
            reports: oom_report.map(Reports::new),
        };
        RecorderResourceAdaptor::over(upstream, recorder)
    }
}

/// Puts a recorder over the resource if the environment variable `RMM_OOM_REPORT` names a directory
/// for [reports](RecorderResourceAdaptorBuilder::oom_report); otherwise it is the resource itself.
/// Call sites are kept in a program in Python.
///
/// Resources that are made from a text, or by default, are passed through here already.
pub fn with_oom_report(resource: AnyResource) -> AnyResource {
    match std::env::var_os(OOM_REPORT_VARIABLE).filter(|directory| !directory.is_empty()) {
        Some(directory) => {
            let builder = RecorderResourceAdaptor::builder(resource).sites(site::are_cheap());
            AnyResource::new(builder.oom_report(directory).build())
        }
        None => resource,
    }
}
