//! `tracing` spans and events of pools; no-ops without the feature of that name.
//!
//! A subscriber is user code, so none of this is called while a pool's lock is held, except
//! [`waited`], which only increments a counter.

#![forbid(unsafe_code)]

/// The target of growth.
#[cfg(feature = "tracing")]
const GROW: &str = "rmm::grow";
/// The target of waits.
#[cfg(feature = "tracing")]
const WAIT: &str = "rmm::wait";

#[cfg(feature = "tracing")]
mod on {
    use std::cell::Cell;

    use rmm_core::siblings::{in_library, in_program};
    use rmm_core::wait;

    use super::{GROW, WAIT};

    thread_local! {
        /// Stream waits that were enqueued while a lock was held, and are not reported yet.
        static WAITS: Cell<u64> = const { Cell::new(0) };
    }

    /// Requests memory from upstream, within a span.
    pub(crate) fn growing<T, E>(
        resource: &'static str,
        bytes: u64,
        grow: impl FnOnce() -> Result<T, E>,
    ) -> Result<T, E> {
        let is_granted = tracing::field::Empty;
        in_program(|| {
            let span = tracing::debug_span!(target: GROW, "grow", resource, bytes, is_granted);
            let grown = span.in_scope(|| in_library(grow));
            span.record("is_granted", grown.is_ok());
            // It may end within, too.
            drop(span);
            grown
        })
    }

    /// Waits for the device, within a span.
    pub(crate) fn waiting<T>(resource: &'static str, wait: impl FnOnce() -> T) -> T {
        in_program(|| {
            let span = tracing::debug_span!(target: WAIT, "wait for the device", resource);
            span.in_scope(|| in_library(wait))
        })
    }

    /// Counts a wait of one stream for another, to be reported by [`tell_waits`].
    pub(crate) fn waited() {
        WAITS.set(WAITS.get() + 1);
    }

    /// Emits an event for the waits since the last call.
    pub(crate) fn tell_waits(resource: &'static str) {
        let waits = WAITS.take();
        if waits > 0 {
            wait::about_to_wait();
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
