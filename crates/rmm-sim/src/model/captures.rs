//! The captures of a machine, and their graphs.
#![forbid(unsafe_code)]

use std::collections::{BTreeMap, HashMap};

use rmm_sys::{CuCaptureMode, CuCaptureStatus, CuResult};

use crate::model::graph::{Captured, Ends, Graph, Graphs};

/// An active capture.
#[derive(Debug)]
pub(crate) struct Capture {
    /// The stream that it began on.
    pub(crate) origin: u64,
    /// The thread that began it.
    pub(crate) thread: u64,
    pub(crate) mode: CuCaptureMode,
    pub(crate) is_valid: bool,
    pub(crate) graph: Graph,
    /// The last nodes of each stream that takes part.
    pub(crate) ends: BTreeMap<u64, Ends>,
}

/// The captures of a machine.
#[derive(Debug, Default)]
pub(crate) struct Captures {
    pub(crate) active: BTreeMap<u64, Capture>,
    /// The capture modes of threads that have set theirs.
    pub(crate) modes: HashMap<u64, CuCaptureMode>,
    /// The current driver call, for reports.
    pub(crate) call: &'static str,
    pub(crate) graphs: Graphs,
}

impl Captures {
    /// The capture that a stream takes part in.
    pub(crate) fn of(&self, stream: u64) -> Option<u64> {
        let takes_part = |(_, capture): &(&u64, &Capture)| capture.ends.contains_key(&stream);
        self.active.iter().find(takes_part).map(|(&id, _)| id)
    }

    /// Whether a stream takes part in a capture, valid or not.
    pub(crate) fn has(&self, stream: u64) -> bool {
        !self.active.is_empty() && self.of(stream).is_some()
    }

    pub(crate) fn status_of(&self, stream: u64) -> CuCaptureStatus {
        match self.of(stream).and_then(|id| self.active.get(&id)) {
            None => CuCaptureStatus::NONE,
            Some(capture) if capture.is_valid => CuCaptureStatus::ACTIVE,
            Some(_) => CuCaptureStatus::INVALIDATED,
        }
    }

    /// The capture that an event was recorded in.
    ///
    /// # Errors
    /// `INVALID_VALUE` if it has ended.
    pub(crate) fn of_event(&self, captured: &Captured) -> Result<u64, CuResult> {
        let is_there = self.active.contains_key(&captured.capture);
        if is_there { Ok(captured.capture) } else { Err(CuResult::INVALID_VALUE) }
    }
}
