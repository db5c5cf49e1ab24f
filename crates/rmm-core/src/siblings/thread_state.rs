//! The flags of a thread's state, in one word: a call that finds nothing to do there looks at no
//! other state of the thread.
//!
//! ```text
//!    63      4      3        2         1         0
//!   +----------+--------+---------+---------+----------+
//!   | requests | paused | awaited | unasked | deferred |
//!   +----------+--------+---------+---------+----------+
//! ```

use std::cell::Cell;

thread_local! {
    /// Without a destructor: at the end of the thread, too, it is there.
    static WORD: Cell<u64> = const { Cell::new(0) };
}

/// One request that is being served.
const REQUEST: u64 = 1 << 4;

/// One request, which asks for those within, and nothing else.
const ALONE: u64 = REQUEST | Flag::Deferred as u64;

/// What may be so of a thread.
#[derive(Clone, Copy)]
pub(super) enum Flag {
    /// The outermost request asks for those within.
    Deferred = 1,
    /// There is something that a request within has not asked for.
    Unasked = 1 << 1,
    /// Other threads may wait for something of this one.
    Awaited = 1 << 2,
    /// Some of that is paused.
    Paused = 1 << 3,
}

impl Flag {
    #[inline]
    pub(super) fn is_set(self) -> bool {
        WORD.get() & self as u64 != 0
    }

    #[inline]
    pub(super) fn set(self, is_so: bool) {
        let others = WORD.get() & !(self as u64);
        WORD.set(if is_so { others | self as u64 } else { others });
    }
}

/// Begins a request. Returns whether it is part of no other one.
#[inline]
pub(super) fn begin_request() -> bool {
    let word = WORD.get();
    WORD.set(word + REQUEST);
    word < REQUEST
}

/// Whether the innermost request is part of no other one.
#[inline]
pub(super) fn is_outermost() -> bool {
    WORD.get() < 2 * REQUEST
}

/// Begins a request that asks for those within, if the thread is doing nothing; `false` otherwise.
#[inline]
pub(super) fn begin_alone() -> bool {
    let is_idle = WORD.get() == 0;
    if is_idle {
        WORD.set(ALONE);
    }
    is_idle
}

/// Ends such a request, if the thread is doing nothing else and there is nothing to ask for;
/// `false` otherwise.
#[inline]
pub(super) fn end_alone() -> bool {
    let is_alone = WORD.get() == ALONE;
    if is_alone {
        WORD.set(0);
    }
    is_alone
}

/// Ends the innermost request.
#[inline]
pub(super) fn end_request() {
    WORD.set(WORD.get() - REQUEST);
}
