//! The policies of a pool: how it grows, what it puts first, when it returns memory.

#![forbid(unsafe_code)]

/// How a pool grows when it has to.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub enum GrowthPolicy {
    /// By an eighth of what it holds, at least 2 MiB and at most 256 MiB, or by what is asked for
    /// if that is more: a pool of n bytes was grown in O(log n) steps and holds little more than
    /// was needed.
    #[default]
    Geometric,
    /// By multiples of this many bytes.
    FixedStep(usize),
    /// By what is asked for, rounded up to 256 bytes. Makes the smallest pieces, which nothing
    /// larger fits in.
    Exact,
}

/// What a pool puts first.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub enum PoolPreset {
    /// Few calls to the driver and no waits: the pool grows before it makes a stream wait, and
    /// keeps what it has up to half as much again as the program ever used, or three eighths where
    /// memory can be [extended](rmm_core::ExtendableResource).
    #[default]
    Throughput,
    /// Little memory: before it grows beyond all that the program ever used at once, the pool makes
    /// the stream wait for others, and gives back what is free elsewhere. Over a resource that can
    /// be [extended](rmm_core::ExtendableResource) it then holds little more than that; over other
    /// resources it can give back only pieces that are free as a whole.
    Compact,
    /// The same addresses each time: as [`Throughput`](Self::Throughput), but which block a request
    /// gets depends on the calls alone and never on how far the device has come. Memory goes from
    /// one stream to another only where one waits for the other, so the pool may grow larger.
    Deterministic,
}

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
