//! The state of the checks of a machine, and the violations found.
#![forbid(unsafe_code)]

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::model::call_site::CallSite;
use crate::model::memory_names::MemoryNames;
use crate::model::origins::Origins;
use crate::model::registrations::Registrations;
use crate::model::shadow::Shadow;
use crate::model::suballocations::Suballocations;
use crate::model::suspended::Suspended;
use crate::model::vector_clock::VectorClock;
use crate::model::violation::{Access, Violation, ViolationKind};

/// Upper bound on the violations that are kept: a mistake in a loop need not be reported more
/// often.
const KEPT: usize = 1000;
/// Frees that are remembered, to report where memory was freed that is accessed or freed again.
const REMEMBERED: usize = 4096;

/// The checks that are enabled.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Settings {
    pub(crate) order: bool,
    pub(crate) initialisation: bool,
    pub(crate) backtraces: bool,
    /// Called with each violation as it is found, with the machine locked.
    pub(crate) on_violation: Option<fn(&Violation)>,
}

/// The state of the checks.
#[derive(Debug)]
pub(crate) struct Checks {
    pub(crate) settings: Settings,
    /// The host's vector clock: the points that it has seen complete.
    pub(crate) host: VectorClock,
    pub(crate) shadow: Shadow,
    pub(crate) suballocations: Suballocations,
    pub(crate) memory_names: MemoryNames,
    /// What an allocator copies, unmaps and maps: its own accesses respect no bounds.
    pub(crate) suspended: Suspended,
    pub(crate) registrations: Registrations,
    /// Where objects were made, if reports have call stacks.
    pub(crate) origins: Origins,
    /// The last frees of whole allocations.
    freed: VecDeque<(Range<usize>, Arc<Access>)>,
    violations: Vec<Violation>,
}

/// The number of machines with checks. If there are none, annotations return early.
static CHECKING_MACHINES: AtomicUsize = AtomicUsize::new(0);

/// Whether any machine checks annotations.
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
            memory_names: MemoryNames::default(),
            suspended: Suspended::default(),
            registrations: Registrations::default(),
            origins: Origins::default(),
            freed: VecDeque::new(),
            violations: Vec::new(),
        }
    }

    /// Whether order is checked.
    pub(crate) fn is_on(&self) -> bool {
        self.settings.order
    }

    pub(crate) fn violations(&self) -> &[Violation] {
        &self.violations
    }

    /// Records a violation, unless it repeats a recent one.
    pub(crate) fn report(&mut self, violation: Violation) {
        let is_new = !self.violations.iter().rev().take(64).any(|other| other.repeats(&violation));
        if is_new && self.violations.len() < KEPT {
            if let Some(listener) = self.settings.on_violation {
                listener(&violation);
            }
            self.violations.push(violation);
        }
    }

    /// Reports that the device itself panicked, in a call or a piece of work.
    pub(crate) fn report_panic(&mut self, at: &str) {
        self.report(Violation::new(ViolationKind::DevicePanicked).with_detail(at));
    }

    /// Where the current call was made, if reports have call stacks.
    pub(crate) fn call_site(&self) -> Option<CallSite> {
        self.settings.backtraces.then(CallSite::here)
    }

    /// Records that memory was freed or unmapped, which ends its name.
    pub(crate) fn remember_free(&mut self, range: Range<usize>, mut access: Arc<Access>) {
        if let Some(name) = self.memory_names.at(range.start) {
            Arc::make_mut(&mut access).memory_name = Some(Arc::clone(name));
        }
        self.memory_names.remove(&range);
        if self.freed.len() == REMEMBERED {
            self.freed.pop_front();
        }
        self.freed.push_back((range, access));
    }

    /// The last remembered free of memory at `address`.
    pub(crate) fn freed_by(&self, address: usize) -> Option<&Arc<Access>> {
        let holds = |(range, _): &&(Range<usize>, _)| range.contains(&address);
        self.freed.iter().rev().find(holds).map(|(_, access)| access)
    }
}
