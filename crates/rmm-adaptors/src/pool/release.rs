//! Giving memory back without being asked, at calls that the program makes anyway.

use rmm_core::{RelaxedCapture, SyncResource};
use std::sync::atomic::Ordering;

use super::heap::ListId;
use super::shared::Shared;
use super::state::State;

/// When a pool gives pieces back to upstream that nothing uses any more, without being asked to
/// [`trim`](super::PoolMemoryResource::trim).
///
/// It happens in calls that free memory, and in
/// [`release_unused`](super::PoolMemoryResource::release_unused); the pool has no thread of its own
/// and looks at no clock. It waits for no stream: a piece goes back once the device is known to be
/// past its last use. But upstream may wait: `cuMemFree` waits for the device, while virtual memory
/// is unmapped without. While a capture is announced, or a stream that the pool knows is captured,
/// nothing goes back. Blocks that threads [keep at hand](super::PoolMemoryResource) hold their
/// pieces.
///
/// ```
/// use rmm_adaptors::{PoolMemoryResource, ReleasePolicy};
/// use rmm_core::{CudaStream, Resource};
/// use rmm_resources::VirtualMemoryResource;
/// # use std::alloc::Layout;
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let machine = rmm_sim::Machine::new();
/// # let _entered = machine.enter();
/// let builder = PoolMemoryResource::builder(VirtualMemoryResource::new()?);
/// let pool = builder.release(ReleasePolicy::Above { bytes: 8 << 20 }).build()?;
/// let (stream, layout) = (CudaStream::new()?, Layout::from_size_align(32 << 20, 256)?);
/// let block = pool.allocate(&stream, layout)?;
/// // SAFETY: allocated above with this layout; its only stream is the one it is freed on.
/// unsafe { pool.deallocate(&stream, block, layout) };
/// stream.synchronize()?;
/// pool.release_unused(); // or the next call that frees as much
/// assert_eq!(pool.reserved_bytes(), 8 << 20);
/// # Ok(())
/// # }
/// ```
#[doc(alias = "cudaMemPoolAttrReleaseThreshold")]
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub enum ReleasePolicy {
    /// Never: what the pool has it keeps, but for growth that needs room, and until it is trimmed.
    #[default]
    Off,
    /// What is beyond this many reserved bytes: it is looked for each time that a sixty-fourth of
    /// the pool, at least 2 MiB, was freed.
    Above {
        /// Bytes that the pool keeps.
        bytes: u64,
    },
    /// What the program has not needed lately: after so many operations the pool keeps as much as
    /// was in use at once during these. Operations are allocations and frees that blocks at hand
    /// did not serve.
    AfterIdle {
        /// How many.
        operations: u64,
    },
}

/// What a pool notes for its policy.
#[derive(Debug, Default)]
pub(super) struct Unreleased {
    /// Bytes freed since memory was looked for last.
    freed: u64,
    /// Operations when it was.
    since: u64,
    /// The most bytes handed out at once since then.
    pub(super) peak: u64,
}

/// Less is not worth a look.
const STEP: u64 = 2 << 20;

impl State {
    fn operations(&self) -> u64 {
        self.statistics.allocations + self.statistics.frees
    }
}

impl Shared {
    /// Notes that so many bytes were freed into the heap.
    #[inline]
    pub(super) fn note_freed(&self, state: &mut State, bytes: u64) {
        let is_due = match self.growth.release {
            ReleasePolicy::Off => return,
            ReleasePolicy::Above { bytes: kept } => {
                state.unreleased.freed += bytes;
                let reserved = state.heap.reserved();
                reserved > kept && state.unreleased.freed >= STEP.max(reserved / 64)
            }
            ReleasePolicy::AfterIdle { operations } => {
                state.operations() - state.unreleased.since >= operations
            }
        };
        if is_due {
            self.release_is_due.store(true, Ordering::Relaxed);
        }
    }

    /// Gives memory back if it is time.
    #[inline]
    pub(super) fn release_if_due(&self, upstream: &dyn SyncResource) {
        if self.release_is_due.load(Ordering::Relaxed) {
            self.release(upstream);
        }
    }

    /// As [`release`](Self::release), with what threads keep at hand.
    pub(super) fn release_all(&self, upstream: &dyn SyncResource) -> u64 {
        if self.growth.release == ReleasePolicy::Off {
            return 0;
        }
        self.drain_caches(&mut self.lock());
        self.release(upstream)
    }

    /// Gives back what the policy does not keep, as far as it is known to be unused. Returns the
    /// bytes.
    #[cold]
    fn release(&self, upstream: &dyn SyncResource) -> u64 {
        self.release_is_due.store(false, Ordering::Relaxed);
        let Ok(_context) = self.context.enter() else { return 0 };
        let _relaxed = RelaxedCapture::enter();
        let mut state = self.lock();
        if Self::may_capture(&state) {
            return 0;
        }
        let keep = match self.growth.release {
            ReleasePolicy::Off => u64::MAX,
            ReleasePolicy::Above { bytes } => bytes,
            ReleasePolicy::AfterIdle { .. } => state.unreleased.peak,
        };
        state.unreleased =
            Unreleased { freed: 0, since: state.operations(), peak: state.heap.live() };
        if state.heap.reserved() <= keep {
            return 0;
        }
        Self::poll_others(&mut state, ListId::CLEAN);
        state.clean_all();
        self.give_back_beyond(state, upstream, keep)
    }
}
