//! The policies of a pool: how it grows, what it puts first, when it releases memory.

#![forbid(unsafe_code)]

/// How a pool grows when it has to.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub enum GrowthPolicy {
    /// By an eighth of the reserved bytes, at least 2 MiB and at most 256 MiB, or by the request if
    /// that is more: a pool of n bytes takes O(log n) steps and holds little more than was needed.
    #[default]
    Geometric,
    /// By multiples of this many bytes, rounded up to whole pages of upstream.
    FixedStep(u64),
    /// By the request, rounded up to 256 bytes, or to whole pages of upstream. Makes the smallest
    /// upstream blocks, in which nothing larger fits.
    Exact,
}

/// What a pool puts first.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub enum PoolPreset {
    /// Few driver calls and no waits: the pool grows before it makes a stream wait, and keeps up to
    /// half as much again as the program ever used. Where memory can be
    /// [extended](rmm_core::ExtendableResource) it keeps a twenty-first more, as long as that takes
    /// few calls; while it grows it may wait for the device now and then, to unmap what is
    /// free.
    #[default]
    Throughput,
    /// The fewest driver calls: as [`Throughput`](Self::Throughput), but where memory can be
    /// [extended](rmm_core::ExtendableResource) the pool doubles when it grows, by one call, and
    /// keeps up to as much again as the program ever used.
    LowLatency,
    /// Little memory: before it grows beyond the peak of the program, the pool makes the stream
    /// wait for others, and releases idle memory elsewhere. Over a resource that can be
    /// [extended](rmm_core::ExtendableResource) it then holds little more than the peak; over other
    /// resources it can release only upstream blocks that are completely idle.
    Compact,
    /// The same addresses each time: as [`Throughput`](Self::Throughput), but which block a request
    /// gets depends on the calls alone and never on the progress of the device. Memory moves from
    /// one stream to another only after a wait, so the pool may grow larger.
    Deterministic,
}

/// Which threads get *spans*: each is up to 256 MiB of a pool's free memory, of which the thread
/// allocates and frees blocks of 1 to 64 MiB on one stream without the pool's lock.
///
/// All spans have three quarters of the pool at most, and a new one half of what is free. They go
/// back when a request finds no free block, and one does when another thread, or another stream,
/// frees a block in it. There are none for the legacy default stream, and none in pools whose
/// blocks all have one size or that have no thread caches: those of [`PoolPreset::Compact`] and
/// [`PoolPreset::Deterministic`].
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub enum SpanPolicy {
    /// Those that use a pool at whose lock threads wait for each other.
    #[default]
    Contended,
    /// All.
    Always,
    /// None.
    Off,
}

/// When a pool releases idle upstream blocks by itself, without a call to
/// [`trim`](crate::PoolMemoryResource::trim).
///
/// It does so in frees, and in
/// [`release_unused`](crate::PoolMemoryResource::release_unused); the pool has no thread of its own
/// and reads no clock. It waits for no stream: a block is released once its last use is known to be
/// complete. But upstream may wait: `cuMemFree` waits for the device, while virtual memory is
/// unmapped without. While a capture is announced, or a stream known to the pool is under capture,
/// nothing is released. [Cached](crate::PoolMemoryResource) blocks keep their upstream blocks.
///
/// ```
/// use rmm_adaptors::{PoolMemoryResource, ReleasePolicy};
/// use rmm_core::{CudaStream, Resource};
/// use rmm_resources::VirtualMemoryResource;
/// # use std::alloc::Layout;
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let _machine = rmm_sim::enter();
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
    /// Never: the pool keeps its memory until it is trimmed, or growth needs the room.
    #[default]
    #[doc(alias = "Off")]
    Never,
    /// Memory beyond this many reserved bytes: the pool looks for it each time that a sixty-fourth
    /// of its bytes, at least 2 MiB, was freed.
    Above {
        /// Reserved bytes that the pool keeps.
        bytes: u64,
    },
    /// Memory that the program has not needed lately: after every `operations` operations the pool
    /// keeps as much as was in use at once during them. Operations are allocations and frees that
    /// missed the thread caches.
    #[doc(alias = "AfterIdle")]
    Unused {
        /// Operations between two looks.
        operations: u64,
    },
}
