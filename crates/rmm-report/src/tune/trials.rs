//! Attempts, each made once.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use rmm_core::Error;

use super::configuration::Configuration;
use super::error::TuneError;
use super::laboratory::{Laboratory, Pace};
use super::progress::Progress;
use crate::replay::Attempt;
use crate::trace::Trace;

/// The attempts with one trace.
pub(super) struct Trials<'a, L> {
    pub(super) laboratory: &'a L,
    pub(super) trace: &'a Trace,
    pub(super) configurations: &'a [Configuration],
    known: Mutex<HashMap<(usize, u64, Pace), Attempt>>,
    done: AtomicU64,
    steps: u64,
    progress: &'a (dyn Fn(Progress) + Sync),
}

impl<'a, L: Laboratory> Trials<'a, L> {
    pub(super) fn new(
        laboratory: &'a L,
        trace: &'a Trace,
        configurations: &'a [Configuration],
        steps: u64,
        progress: &'a (dyn Fn(Progress) + Sync),
    ) -> Self {
        let (known, done) = (Mutex::default(), AtomicU64::new(0));
        Self { laboratory, trace, configurations, known, done, steps, progress }
    }

    /// An attempt with the configuration of this index; made once for each size and pace.
    pub(super) fn attempt(
        &self,
        configuration: usize,
        memory: u64,
        pace: Pace,
    ) -> Result<Attempt, TuneError> {
        let key = (configuration, memory, pace);
        if let Some(attempt) = self.known().get(&key) {
            return Ok(attempt.clone());
        }
        let tried = &self.configurations[configuration];
        let failed = |error| TuneError::Device { configuration: tried.text(memory), error };
        let resource = tried
            .resource(memory)
            .map_err(|error| failed(Error::invalid_argument("tune", error.to_string())))?;
        let attempt = self.laboratory.attempt(self.trace, &resource, memory, pace);
        let attempt = attempt.map_err(failed)?;
        self.known().insert(key, attempt.clone());
        Ok(attempt)
    }

    /// Whether the trace runs at each of these paces.
    pub(super) fn runs(
        &self,
        configuration: usize,
        memory: u64,
        paces: &[Pace],
    ) -> Result<bool, TuneError> {
        for &pace in paces {
            if self.attempt(configuration, memory, pace)?.failure.is_some() {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// The indices of all configurations.
    pub(super) fn indices(&self) -> Vec<usize> {
        (0..self.configurations.len()).collect()
    }

    /// Reports that a step is done, and what was tried in it.
    pub(super) fn step(&self, what: &str) {
        let done = self.done.fetch_add(1, Ordering::Relaxed) + 1;
        (self.progress)(Progress { done, of: self.steps, what: what.to_owned() });
    }

    fn known(&self) -> MutexGuard<'_, HashMap<(usize, u64, Pace), Attempt>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
