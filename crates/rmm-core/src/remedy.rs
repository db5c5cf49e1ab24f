//! Remedies of a failed request for memory, as data.

use std::fmt;

use crate::{Effort, LimitId, PoolUsage, StreamId, format_bytes};

/// One thing that would make memory available to a request that failed:
/// [`Error::remedies`](crate::Error::remedies).
///
/// ```
/// use std::alloc::Layout;
/// use rmm_adaptors::PoolMemoryResource;
/// use rmm_core::{RemedyAction, SynchronousResource};
/// use rmm_resources::CudaMemoryResource;
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let _machine = rmm_sim::enter();
/// let pool = PoolMemoryResource::builder(CudaMemoryResource::new()).maximum_size(4 << 20);
/// let pool = pool.build()?;
/// let error = pool.allocate_sync(Layout::from_size_align(6 << 20, 256)?).unwrap_err();
/// let first = error.remedies()[0];
/// let RemedyAction::RaiseLimit { resource, limit } = first.action else { unreachable!() };
/// assert_eq!((resource, limit), ("pool", pool.limit_id()));
/// assert_eq!((first.bytes, first.is_enough), (2 << 20, true));
/// assert_eq!(first.to_string(), "raise the limit of pool by 2.0 MiB");
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Remedy {
    /// What to do.
    pub action: RemedyAction,
    /// The bytes that it makes available; for a limit, the bytes to raise it by.
    pub bytes: u64,
    /// Whether that is enough for the request by itself, as far as bytes decide: memory may still
    /// be fragmented.
    pub is_enough: bool,
}

/// What to do, see [`Remedy`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum RemedyAction {
    /// Synchronize a stream on which memory was freed (`None`: one that is destroyed, which only a
    /// wait for the device reaches), and retry. The allocator did not wait itself, because that
    /// could have invalidated a capture.
    WaitForStream {
        /// The stream.
        stream: Option<StreamId>,
    },
    /// Trim another suballocator that draws on the same memory:
    /// [`trim_blocking`](crate::AnyResource::trim_blocking).
    TrimSibling {
        /// Its name.
        resource: &'static str,
    },
    /// Raise the limit of a resource: a pool's (`set_maximum_size`), or a limiting adaptor's
    /// (`set_allocation_limit`).
    RaiseLimit {
        /// Its name.
        resource: &'static str,
        /// Its identity, as its `limit_id` method returns it.
        limit: LimitId,
    },
    /// Let the request go further: the thread was in a scope of [`effort`](crate::effort()).
    SpendMoreEffort {
        /// The effort that it was limited to.
        effort: Effort,
    },
}

impl Remedy {
    /// To wait for a stream on which `bytes` bytes were freed, for a request that lacks `missing`.
    pub fn wait(stream: Option<StreamId>, bytes: u64, missing: u64) -> Self {
        let action = RemedyAction::WaitForStream { stream };
        Self { action, bytes, is_enough: bytes >= missing }
    }

    /// To trim a suballocator that holds this, for a request that lacks `missing` bytes.
    pub fn trim(resource: &'static str, usage: &PoolUsage, missing: u64) -> Self {
        let bytes = usage.free_bytes();
        let action = RemedyAction::TrimSibling { resource };
        Self { action, bytes, is_enough: bytes >= missing }
    }

    /// To let a request go further, which may use what was freed and may still be in use, `pending`
    /// bytes, for a request that lacks `missing`.
    pub fn more_effort(effort: Effort, pending: u64, missing: u64) -> Self {
        let bytes = if effort == Effort::NoGrowth { missing } else { pending };
        let action = RemedyAction::SpendMoreEffort { effort };
        Self { action, bytes, is_enough: effort != Effort::NoGrowth && bytes >= missing }
    }

    /// To raise a limit by `bytes` bytes, which is enough if the memory exists.
    pub fn raise_limit(resource: &'static str, limit: LimitId, bytes: u64) -> Self {
        let action = RemedyAction::RaiseLimit { resource, limit };
        Self { action, bytes, is_enough: true }
    }
}

impl fmt::Display for Remedy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bytes = format_bytes(self.bytes);
        match self.action {
            RemedyAction::WaitForStream { stream: Some(stream) } => {
                write!(f, "wait for stream {stream} ({bytes})")
            }
            RemedyAction::WaitForStream { stream: None } => {
                write!(f, "wait for the device ({bytes})")
            }
            RemedyAction::SpendMoreEffort { effort: Effort::NoHostWait } => {
                write!(f, "let the host wait ({bytes})")
            }
            RemedyAction::SpendMoreEffort { effort: Effort::NoGrowth } => {
                write!(f, "let the pool grow by {bytes}")
            }
            RemedyAction::SpendMoreEffort { .. } => write!(f, "take more time ({bytes})"),
            RemedyAction::TrimSibling { resource } => write!(f, "trim {resource} ({bytes})"),
            RemedyAction::RaiseLimit { resource, .. } => {
                write!(f, "raise the limit of {resource} by {bytes}")
            }
        }
    }
}

/// Sorts remedies: those that are enough first, and of these a wait before a limit before a trim,
/// which returns memory and takes it again.
pub(crate) fn sort(remedies: &mut [Remedy]) {
    let effort = |action| match action {
        RemedyAction::WaitForStream { .. } | RemedyAction::SpendMoreEffort { .. } => 0,
        RemedyAction::RaiseLimit { .. } => 1,
        RemedyAction::TrimSibling { .. } => 2,
    };
    remedies.sort_by_key(|remedy| (!remedy.is_enough, effort(remedy.action), remedy.bytes));
}
