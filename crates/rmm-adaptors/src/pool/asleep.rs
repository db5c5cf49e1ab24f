//! Whether a pool is awake, and what it knows while it is asleep.

#![forbid(unsafe_code)]

use std::alloc::Layout;

use rmm_core::{DevicePtr, Error};

use super::host_copy::HostCopy;

/// Whether a pool's memory is there.
#[derive(Debug, Default)]
pub(super) enum Phase {
    #[default]
    Awake,
    /// A thread is copying, unmapping or mapping the memory, with the pool's lock released.
    Changing,
    Asleep(Asleep),
}

/// A pool whose blocks have addresses and no memory.
#[derive(Debug)]
pub(super) struct Asleep {
    /// All upstream blocks.
    pub(super) pieces: Vec<(DevicePtr, Layout)>,
    /// What the live blocks held, if it was kept.
    pub(super) contents: Option<HostCopy>,
}

impl Asleep {
    /// Bytes without memory.
    pub(super) fn bytes(&self) -> u64 {
        self.pieces.iter().map(|(_, layout)| layout.size() as u64).sum()
    }
}

impl Phase {
    pub(super) fn is_awake(&self) -> bool {
        matches!(self, Self::Awake)
    }

    /// Fails if the pool is not awake.
    ///
    /// # Errors
    /// Not ready.
    #[inline]
    pub(super) fn check_awake(&self, name: &'static str) -> Result<(), Error> {
        if self.is_awake() { Ok(()) } else { Err(asleep(name)) }
    }

    /// Bytes that have addresses and no memory.
    pub(super) fn asleep_bytes(&self) -> u64 {
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
