//! What a thread that has the turn of a group asks for.

use std::fmt;
use std::ops::ControlFlow;
use std::sync::{Arc, Weak};

use super::awaited::{Awaited, Awaiting, in_program};
use super::turns::State;
use super::{Group, Other, Others};
use crate::{Effort, PoolUsage, TrimmableResource};

/// What a request may ask others for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AskedFor {
    /// Memory that is known to be unused.
    Idle,
    /// Memory that is unused once the device has completed its work.
    Wait,
}

impl AskedFor {
    /// Whether the [effort](Effort) of the thread allows it.
    pub fn is_allowed(self) -> bool {
        match (self, Effort::current()) {
            (_, Effort::Full) => true,
            (Self::Idle, effort @ Effort::Until(_)) => effort.may_grow(),
            _ => false,
        }
    }
}

impl Awaited for Group {
    fn pause(&self) {
        self.turns.change(|state| state.is_paused = true);
    }

    fn resume(&self) {
        self.turns.change(|state| state.is_paused = false);
    }
}

/// The turn of one group.
struct TurnGuard {
    group: Arc<Group>,
    /// Dropped before the turn is given away.
    awaiting: Option<Awaiting>,
}

impl TurnGuard {
    fn take(group: &Arc<Group>) -> Option<Self> {
        group.turns.take().then(|| Self::taken(group))
    }

    fn take_if_free(group: &Arc<Group>) -> Option<Self> {
        group.turns.take_if_free().then(|| Self::taken(group))
    }

    fn taken(group: &Arc<Group>) -> Self {
        Self { group: Arc::clone(group), awaiting: Some(Awaiting::begin(Arc::clone(group) as _)) }
    }
}

impl Drop for TurnGuard {
    fn drop(&mut self) {
        self.awaiting = None;
        self.group.turns.change(|state| *state = State::default());
    }
}

/// The right to ask. No lock of a resource may be held while it is taken or used. If another thread
/// has it and runs code of the program, this one asks at the same time.
#[must_use = "others may ask once it is dropped"]
pub struct Turn<'o> {
    others: &'o Others,
    _guards: Vec<TurnGuard>,
}

impl fmt::Debug for Turn<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Turn").field("others", self.others).finish()
    }
}

impl Others {
    /// Waits until no other thread of these groups asks, if the [effort](Effort) of the thread is
    /// full. With a deadline it does not wait: `None` if another thread asks. Other efforts ask
    /// no one.
    pub fn take_turn(&self) -> Option<Turn<'_>> {
        // In the order of their addresses, so that no two threads wait for each other.
        let groups = self.groups.iter();
        let guards = match Effort::current() {
            Effort::Full => groups.filter_map(TurnGuard::take).collect(),
            effort @ Effort::Until(_) if effort.may_grow() => {
                groups.map(TurnGuard::take_if_free).collect::<Option<_>>()?
            }
            _ => return None,
        };
        Some(Turn { others: self, _guards: guards })
    }
}

impl Turn<'_> {
    /// Asks one after another for `needed` bytes in all, and then each for all that it has, and
    /// calls `attempt` whenever memory was returned, until that breaks. Each call of a resource
    /// runs in `unlocked`, which releases the caller's own lock meanwhile.
    pub fn ask<C, T>(
        &self,
        effort: AskedFor,
        needed: u64,
        caller: &mut C,
        unlocked: impl Fn(&mut C, &mut dyn FnMut() -> u64) -> u64,
        mut attempt: impl FnMut(&mut C) -> ControlFlow<T>,
    ) -> ControlFlow<T> {
        let mut missing = needed;
        if effort == AskedFor::Idle {
            for other in &self.others.resources {
                let given = unlocked(caller, &mut || {
                    other.give(|usage| usage.reserved.saturating_sub(missing))
                });
                missing = missing.saturating_sub(given);
                if missing == 0 {
                    break;
                }
            }
            if missing < needed {
                attempt(caller)?;
            }
        }
        let mut has_waited = false;
        for other in &self.others.resources {
            let given = unlocked(caller, &mut || match effort {
                AskedFor::Idle => other.give(|_| 0),
                AskedFor::Wait => other.give_after_wait(),
            });
            if given > 0 {
                attempt(caller)?;
            }
            has_waited = effort == AskedFor::Wait && given == 0;
        }
        // A wait lets the driver release memory by itself, too.
        if has_waited {
            attempt(caller)?;
        }
        ControlFlow::Continue(())
    }
}

impl Other {
    /// Returns memory that is unused down to `keep`, if the resource still exists.
    fn give(&self, keep: impl Fn(&PoolUsage) -> u64) -> u64 {
        self.call(|resource| {
            let usage = resource.usage();
            if usage.free_bytes() == 0 { 0 } else { resource.trim_to(keep(&usage)) }
        })
    }

    fn give_after_wait(&self) -> u64 {
        self.call(
            |resource| {
                if resource.usage().free_bytes() == 0 { 0 } else { resource.trim_to_blocking(0) }
            },
        )
    }

    fn call(&self, call: impl FnOnce(&dyn TrimmableResource) -> u64) -> u64 {
        let Some(resource) = Weak::upgrade(&self.resource) else { return 0 };
        if self.may_be_waited_for { call(&*resource) } else { in_program(|| call(&*resource)) }
    }
}
