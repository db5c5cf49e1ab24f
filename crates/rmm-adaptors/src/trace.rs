//! What pools tell `tracing`, if the feature of that name is on; nothing without it.
//!
//! Nothing here is called while a pool's lock is held, since a subscriber is user code; [`waited`]
//! only takes a note.

#![forbid(unsafe_code)]

/// The target of a pool's growth.
#[cfg(feature = "tracing")]
const GROW: &str = "rmm::grow";
/// The target of waits.
#[cfg(feature = "tracing")]
const WAIT: &str = "rmm::wait";

#[cfg(feature = "tracing")]
mod on {
    use std::cell::Cell;

    use super::{GROW, WAIT};

    thread_local! {
        /// Waits of streams that were enqueued under a lock, and are to be told.
        static WAITS: Cell<u64> = const { Cell::new(0) };
    }

    /// Asks upstream for memory, within a span.
    pub(crate) fn growing<T, E>(
        resource: &'static str,
        bytes: u64,
        grow: impl FnOnce() -> Result<T, E>,
    ) -> Result<T, E> {
        let is_granted = tracing::field::Empty;
        let span = tracing::debug_span!(target: GROW, "grow", resource, bytes, is_granted);
        let grown = span.in_scope(grow);
        span.record("is_granted", grown.is_ok());
        grown
    }

    /// Waits for the device, within a span.
    pub(crate) fn waiting<T>(resource: &'static str, wait: impl FnOnce() -> T) -> T {
        tracing::debug_span!(target: WAIT, "wait for the device", resource).in_scope(wait)
    }

    /// A stream was made to wait for another.
    pub(crate) fn waited() {
        WAITS.set(WAITS.get() + 1);
    }

    /// Tells of the waits since it was asked last.
    pub(crate) fn tell_waits(resource: &'static str) {
        let waits = WAITS.take();
        if waits > 0 {
            tracing::debug!(name: "streams wait for others", target: WAIT, resource, waits, "streams wait for others");
        }
    }
}

#[cfg(not(feature = "tracing"))]
mod off {
    #[inline]
    pub(crate) fn growing<T, E>(
        _: &'static str,
        _: u64,
        grow: impl FnOnce() -> Result<T, E>,
    ) -> Result<T, E> {
        grow()
    }

    #[inline]
    pub(crate) fn waiting<T>(_: &'static str, wait: impl FnOnce() -> T) -> T {
        wait()
    }

    #[inline]
    pub(crate) fn waited() {}

    #[inline]
    pub(crate) fn tell_waits(_: &'static str) {}
}

#[cfg(not(feature = "tracing"))]
pub(crate) use off::{growing, tell_waits, waited, waiting};
#[cfg(feature = "tracing")]
pub(crate) use on::{growing, tell_waits, waited, waiting};
