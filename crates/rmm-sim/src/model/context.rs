//! Contexts: the primary one of each device, and those that programs create.
#![forbid(unsafe_code)]

use crate::model::vector_clock::VectorClock;

/// A context. Those with the indices of the devices are primary ones: `contexts[i].device == i`.
#[derive(Debug)]
pub(crate) struct Context {
    pub(crate) device: usize,
    /// The id while it exists. A primary context is created by a retain, and ended by a reset or
    /// the last release.
    pub(crate) id: Option<u64>,
    /// How the program wants waits to be done, which the software device only remembers
    /// (`cuCtxGetFlags`). Those of a primary context outlive it.
    pub(crate) flags: u32,
    /// The stream NULL.
    pub(crate) legacy_stream: u64,
    /// The clock that streams created from now on wait for first (`cuCtxWaitEvent`).
    pub(crate) barrier: VectorClock,
}

/// Which streams a wait or a search includes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Scope {
    All,
    /// Those of all contexts of a device.
    Device(usize),
    Context(usize),
}

impl Scope {
    /// Whether the streams of a context of a device are included.
    pub(crate) fn includes(self, context: usize, device: usize) -> bool {
        match self {
            Self::All => true,
            Self::Device(wanted) => device == wanted,
            Self::Context(wanted) => context == wanted,
        }
    }
}
