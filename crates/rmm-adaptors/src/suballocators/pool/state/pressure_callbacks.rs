//! The callbacks of a program for when a request is about to fail for lack of memory.

#![forbid(unsafe_code)]

use rmm_core::{Error, StreamId};

use super::callbacks::{Callbacks, Registration};

/// A request that is about to fail for lack of memory, see
/// [`on_pressure`](crate::PoolMemoryResource::on_pressure).
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Pressure<'a> {
    /// The bytes that were requested, rounded up as the pool does.
    pub requested: u64,
    /// The fewest bytes that have to be freed: to this pool, or to the device if the pool's own
    /// limit leaves room. More if memory is fragmented.
    pub missing: u64,
    /// The stream of the request; `None` for one that any stream may use.
    pub stream: Option<StreamId>,
    /// The error that the request fails with otherwise.
    pub error: &'a Error,
}

/// Returns whether it has freed memory.
pub(crate) type Callback = dyn Fn(&Pressure<'_>) -> bool + Send + Sync;

/// The callbacks of a pool.
pub(crate) type PressureCallbacks = Callbacks<Callback>;

/// Keeps a callback of [`on_pressure`](crate::PoolMemoryResource::on_pressure) registered. A call
/// that another thread has begun may go on after the drop.
#[derive(Debug)]
#[must_use = "the callback is registered only while the guard lives"]
pub struct PressureCallback {
    pub(crate) _registration: Registration<Callback>,
}
