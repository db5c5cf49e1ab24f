//! What the checks know of a machine, and the violations that they found.
#![forbid(unsafe_code)]

use std::backtrace::Backtrace;
use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::model::shadow::Shadow;
use crate::model::suballocations::Suballocations;
use crate::model::vector_clock::VectorClock;
use crate::model::violation::{Access, Violation, ViolationKind};

/// Violations beyond which no more are kept: one mistake in a loop is told often enough.
const KEPT: usize = 1000;
/// Frees that are remembered, to tell who freed what is used or freed again.
const REMEMBERED: usize = 4096;

/// What is checked, and what for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Settings {
    pub(crate) order: bool,
    pub(crate) initialisation: bool,
    pub(crate) backtraces: bool,
}

/// What the checks know.
#[derive(Debug)]
pub(crate) struct Checks {
    pub(crate) settings: Settings,
    /// What the host has seen complete.
    pub(crate) host: VectorClock,
    pub(crate) shadow: Shadow,
    pub(crate) suballocations: Suballocations,
    /// The last frees of whole allocations.
    freed: VecDeque<(Range<usize>, Arc<Access>)>,
    violations: Vec<Violation>,
}

/// How many machines check, so that nobody who asks for no checks waits for what allocators tell.
static CHECKING_MACHINES: AtomicUsize = AtomicUsize::new(0);

/// Whether any machine wants to hear what allocators tell.
pub(crate) fn is_any_machine_checking() -> bool {
    CHECKING_MACHINES.load(Ordering::Relaxed) > 0
}

impl Drop for Checks {
    fn drop(&mut self) {
        if self.settings.order {
            CHECKING_MACHINES.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

impl Checks {
    pub(crate) fn new(settings: Settings) -> Self {
        if settings.order {
            CHECKING_MACHINES.fetch_add(1, Ordering::Relaxed);
        }
        Self {
            settings,
            host: VectorClock::default(),
            shadow: Shadow::default(),
            suballocations: Suballocations::default(),
            freed: VecDeque::new(),
            violations: Vec::new(),
        }
    }

    /// Whether the order is checked.
    pub(crate) fn is_on(&self) -> bool {
        self.settings.order
    }

    pub(crate) fn violations(&self) -> &[Violation] {
        &self.violations
    }

    /// Notes a violation, if it is a new one.
    pub(crate) fn report(&mut self, violation: Violation) {
        let is_new = !self.violations.iter().rev().take(64).any(|other| other.repeats(&violation));
        if is_new && self.violations.len() < KEPT {
            self.violations.push(violation);
        }
    }

    /// Notes that the device itself has panicked, at a call or at a piece of work.
    pub(crate) fn report_panic(&mut self, at: &str) {
        self.report(Violation::new(ViolationKind::DevicePanicked).with_detail(at));
    }

    pub(crate) fn backtrace(&self) -> Option<Arc<Backtrace>> {
        self.settings.backtraces.then(|| Arc::new(Backtrace::force_capture()))
    }

    pub(crate) fn remember_free(&mut self, range: Range<usize>, access: Arc<Access>) {
        if self.freed.len() == REMEMBERED {
            self.freed.pop_front();
        }
        self.freed.push_back((range, access));
    }

    /// Who freed the memory at `address` last, if nobody has it now.
    pub(crate) fn freed_by(&self, address: usize) -> Option<&Arc<Access>> {
        let holds = |(range, _): &&(Range<usize>, _)| range.contains(&address);
        self.freed.iter().rev().find(holds).map(|(_, access)| access)
    }
}
