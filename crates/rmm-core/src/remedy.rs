//! What would let a failed request for memory succeed, as data.

use std::fmt;
use std::time::Duration;

use crate::{LimitId, PoolUsage, StreamId, format_bytes};

/// One thing that would make memory available to a request that failed:
/// [`Error::remedies`](crate::Error::remedies).
///
/// ```
/// use std::alloc::Layout;
/// use rmm_adaptors::PoolMemoryResource;
/// use rmm_core::{RemedyAction, SyncResource};
/// use rmm_resources::CudaMemoryResource;
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let machine = rmm_sim::Machine::new();
/// # let _entered = machine.enter();
/// let pool = PoolMemoryResource::builder(CudaMemoryResource::new()).maximum_size(4 << 20);
/// let pool = pool.build()?;
/// let error = pool.allocate_sync(Layout::from_size_align(6 << 20, 256)?).unwrap_err();
/// let cheapest = error.remedies()[0];
/// let RemedyAction::RaiseLimit { resource, limit } = cheapest.action else { unreachable!() };
/// assert_eq!((resource, limit), ("pool", pool.limit_id()));
/// assert_eq!((cheapest.bytes, cheapest.is_enough), (2 << 20, true));
/// assert_eq!(cheapest.to_string(), "raise the limit of pool by 2.0 MiB");
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
    /// What the calls of the driver cost, as measured on an H200. The time that the device needs
    /// for its work comes on top: it is not known.
    pub price: Duration,
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
}

/// The price of a wait of the host that finds the work complete.
const WAIT: Duration = Duration::from_micros(10);
/// The price of returning so much memory, or of taking it: 31 us and 35 us were measured for
/// handles of 64 MiB.
const MOVE: Duration = Duration::from_micros(35);
/// See [`MOVE`].
const MOVED: u64 = 64 << 20;

fn price_of_moving(bytes: u64) -> Duration {
    MOVE.saturating_mul(u32::try_from(bytes.div_ceil(MOVED)).unwrap_or(u32::MAX))
}

impl Remedy {
    /// To wait for a stream on which `bytes` bytes were freed, for a request that lacks `missing`.
    pub fn wait(stream: Option<StreamId>, bytes: u64, missing: u64) -> Self {
        let action = RemedyAction::WaitForStream { stream };
        Self { action, bytes, is_enough: bytes >= missing, price: WAIT }
    }

    /// To trim a suballocator that holds this, for a request that lacks `missing` bytes.
    pub fn trim(resource: &'static str, usage: &PoolUsage, missing: u64) -> Self {
        let bytes = usage.free_bytes();
        let price = WAIT + price_of_moving(bytes.min(missing)) * 2;
        let action = RemedyAction::TrimSibling { resource };
        Self { action, bytes, is_enough: bytes >= missing, price }
    }

    /// To raise a limit by `bytes` bytes, which is enough if the memory exists.
    pub fn raise_limit(resource: &'static str, limit: LimitId, bytes: u64) -> Self {
        let action = RemedyAction::RaiseLimit { resource, limit };
        Self { action, bytes, is_enough: true, price: price_of_moving(bytes) }
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
            RemedyAction::TrimSibling { resource } => write!(f, "trim {resource} ({bytes})"),
            RemedyAction::RaiseLimit { resource, .. } => {
                write!(f, "raise the limit of {resource} by {bytes}")
            }
        }
    }
}

/// Sorts remedies: those that are enough first, and of these the cheapest.
pub(crate) fn sort(remedies: &mut [Remedy]) {
    remedies.sort_by_key(|remedy| (!remedy.is_enough, remedy.price, remedy.bytes));
}
