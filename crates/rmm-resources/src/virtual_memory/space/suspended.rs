//! What is known of a block without physical memory.

use rmm_sys::CuMemHandle;

/// A block that is not in use.
#[derive(Clone, Copy, Debug)]
pub(super) struct Suspended {
    pub(super) bytes: usize,
    /// The block's physical memory.
    ///
    /// # Invariant
    /// A reference of the driver's that is released once.
    pub(super) memory: Option<CuMemHandle>,
    /// Whether the memory is mapped there.
    pub(super) is_mapped: bool,
    /// Whether a thread is resuming it, which no other one does then.
    pub(super) is_resuming: bool,
}

impl Suspended {
    /// Bytes of physical memory that it lacks.
    pub(super) fn bytes(&self) -> u64 {
        if self.memory.is_none() && !self.is_mapped { self.bytes as u64 } else { 0 }
    }
}
