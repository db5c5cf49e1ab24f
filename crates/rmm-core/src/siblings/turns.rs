//! Turns: one thread of a group at a time may ask.

use std::sync::{Condvar, Mutex, PoisonError};

use crate::fork;

/// Whose turn it is.
#[derive(Debug, Default)]
pub(super) struct State {
    pub(super) is_taken: bool,
    /// The thread that has it runs code of the program.
    pub(super) is_paused: bool,
}

/// The turns of a group. Lock order: a leaf.
#[derive(Debug, Default)]
pub(super) struct Turns {
    state: Mutex<State>,
    changed: Condvar,
}

impl Turns {
    /// Waits until no other thread has the turn, and takes it. `false` if the thread that has it
    /// runs code of the program, which may wait for this thread.
    pub(super) fn take(&self) -> bool {
        fork::check_wait();
        let is_waited_for = |state: &mut State| state.is_taken && !state.is_paused;
        let state = self.changed.wait_while(fork::lock(&self.state), is_waited_for);
        let mut state = state.unwrap_or_else(PoisonError::into_inner);
        let is_free = !state.is_taken;
        state.is_taken = true;
        is_free
    }

    /// Takes the turn if no other thread has it.
    pub(super) fn take_if_free(&self) -> bool {
        !std::mem::replace(&mut fork::lock(&self.state).is_taken, true)
    }

    pub(super) fn change(&self, change: impl FnOnce(&mut State)) {
        change(&mut fork::lock(&self.state));
        self.changed.notify_all();
    }
}
