//! Whether a pool is awake, and what it knows while it is asleep.

#![forbid(unsafe_code)]

use std::alloc::Layout;

use rmm_core::{DevicePtr, Error};

use super::host_copy::HostCopy;
use super::sleeping_memory::SleepingMemory;

/// Whether a pool's memory is there.
#[derive(Debug, Default)]
pub(crate) enum Phase {
    #[default]
    Awake,
    /// A thread is copying, unmapping or mapping the memory, with the pool's lock released.
    Changing,
    Asleep(Asleep),
}

/// A pool whose blocks have addresses and no memory.
#[derive(Debug)]
pub(crate) struct Asleep {
    /// All upstream blocks.
    pub(crate) pieces: Pieces,
    /// What the live blocks held, if it was kept.
    pub(crate) contents: Option<HostCopy>,
    /// What of the blocks has memory all the same.
    pub(crate) left: Left,
    /// Their addresses, as others see them.
    pub(crate) _memory: SleepingMemory,
}

/// Upstream blocks.
pub(crate) type Pieces = Vec<(DevicePtr, Layout)>;

/// Memory that the driver has refused to return.
#[derive(Debug)]
pub(crate) enum Left {
    /// These blocks have memory, or had when the driver was asked last. What they hold is of no
    /// use: there is a copy, or it was discarded.
    Unused(Pieces),
    /// Any block may have memory, and it holds the only copy of the contents: the pool could not
    /// fall asleep, and could not go back.
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

    /// Bytes with memory that the driver has refused to return, and that can be asked for again.
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
    /// Not ready.
    #[inline]
    pub(crate) fn check_awake(&self, name: &'static str) -> Result<(), Error> {
        if self.is_awake() { Ok(()) } else { Err(asleep(name)) }
    }

    /// Bytes of a pool that sleeps which have memory, and can be returned.
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

/// The error of a call that needs memory while there is none.
#[cold]
fn asleep(name: &'static str) -> Error {
    Error::not_ready(name, "it is asleep: wake it first")
}
