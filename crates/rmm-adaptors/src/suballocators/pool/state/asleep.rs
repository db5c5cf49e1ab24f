//! Whether a pool is awake, and what it keeps while it is asleep.

#![forbid(unsafe_code)]

use std::alloc::Layout;

use rmm_core::{DevicePtr, Error};

use super::host_copy::HostCopy;
use super::sleeping_memory::SleepingMemory;

/// Whether a pool is awake.
#[derive(Debug, Default)]
pub(crate) enum Phase {
    #[default]
    Awake,
    /// A thread is copying, unmapping or mapping the memory, with the pool's lock released.
    Changing,
    Asleep(Asleep),
}

/// What a sleeping pool keeps to wake up: its blocks have addresses and no memory.
#[derive(Debug)]
pub(crate) struct Asleep {
    /// All upstream blocks.
    pub(crate) pieces: Pieces,
    /// The contents of the live blocks, if they were kept.
    pub(crate) contents: Option<HostCopy>,
    /// The blocks that still have memory.
    pub(crate) left: Left,
    /// Publishes their addresses to the suballocators above, until it is dropped.
    pub(crate) _memory: SleepingMemory,
}

/// Upstream blocks.
pub(crate) type Pieces = Vec<(DevicePtr, Layout)>;

/// Memory that the driver has refused to return.
#[derive(Debug)]
pub(crate) enum Left {
    /// These blocks may still have memory. It can be released: the contents were copied to the host
    /// or discarded.
    Unused(Pieces),
    /// Any block may still have memory, and it must be kept: it holds the only copy of the
    /// contents. The driver failed while the pool fell asleep, and failed to undo that.
    Contents,
}

/// Bytes of upstream blocks.
pub(crate) fn bytes_of(pieces: &Pieces) -> u64 {
    pieces.iter().map(|(_, layout)| layout.size() as u64).sum()
}

impl Asleep {
    /// Bytes without memory.
    fn bytes(&self) -> u64 {
        match &self.left {
            Left::Unused(left) => bytes_of(&self.pieces) - bytes_of(left),
            Left::Contents => 0,
        }
    }

    /// Bytes of blocks that still have memory which can be released.
    pub(crate) fn left_bytes(&self) -> u64 {
        match &self.left {
            Left::Unused(pieces) => bytes_of(pieces),
            Left::Contents => 0,
        }
    }
}

impl Phase {
    pub(crate) fn is_awake(&self) -> bool {
        matches!(self, Self::Awake)
    }

    /// Fails if the pool is not awake.
    ///
    /// # Errors
    /// Not ready, with the pool's `name`.
    #[inline]
    pub(crate) fn check_awake(&self, name: &'static str) -> Result<(), Error> {
        if self.is_awake() { Ok(()) } else { Err(asleep(name)) }
    }

    /// Bytes of a sleeping pool that still have memory which can be released.
    pub(crate) fn left_bytes(&self) -> u64 {
        match self {
            Self::Asleep(asleep) => asleep.left_bytes(),
            Self::Awake | Self::Changing => 0,
        }
    }

    /// Bytes that have addresses and no memory.
    pub(crate) fn asleep_bytes(&self) -> u64 {
        match self {
            Self::Asleep(asleep) => asleep.bytes(),
            Self::Awake | Self::Changing => 0,
        }
    }
}

/// The error of a request while the pool is not awake.
#[cold]
fn asleep(name: &'static str) -> Error {
    Error::not_ready(name, "it is asleep: wake it first")
}
