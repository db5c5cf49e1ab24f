//! CUDA graphs, as users call the pool for them.

use rmm_core::{Error, PropertySet, StreamRef};

use super::pool::PoolMemoryResource;
use crate::suballocators::pool::values::checkpoint::{PoolCheckpoint, Restored};

impl<S: PropertySet> PoolMemoryResource<S> {
    /// Makes memory that was freed on streams under capture available to any stream. Without this
    /// call it stays allocated, beyond the pool's end. A pool [for
    /// graphs](crate::PoolMemoryResourceBuilder::for_graphs) is one like others, without thread
    /// caches, from then on. Never calls the driver.
    ///
    /// # Safety
    /// Every launch of a graph that was captured while this pool served its stream has completed,
    /// and this thread knows it; none of them is launched again.
    pub unsafe fn release_graph_memory(&self) {
        self.inner.core.release_graph_memory();
    }

    /// Notes which blocks are live, in a pool [for
    /// graphs](crate::PoolMemoryResourceBuilder::for_graphs): a program that replays one of several
    /// graphs, as PyTorch's graph trees do, restores the state that was there before that graph was
    /// captured, and allocates and frees from there on. O(n log n) with n live blocks.
    ///
    /// ```
    /// use std::alloc::Layout;
    /// use rmm_adaptors::PoolMemoryResource;
    /// use rmm_core::{CudaStream, Resource};
    /// use rmm_resources::CudaMemoryResource;
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let _machine = rmm_sim::enter();
    /// let builder = PoolMemoryResource::builder(CudaMemoryResource::new());
    /// let pool = builder.for_graphs(true).build()?;
    /// let (stream, layout) = (CudaStream::new()?, Layout::from_size_align(1 << 20, 256)?);
    /// let first = pool.allocate(&stream, layout)?;
    /// let with_first = pool.checkpoint()?;
    /// let second = pool.allocate(&stream, layout)?;
    /// # // SAFETY: allocated above with this layout.
    /// # unsafe { pool.deallocate(&stream, first, layout) };
    /// // SAFETY: all work so far is of this stream.
    /// let restored = unsafe { pool.restore(&with_first, &stream) }?;
    /// assert_eq!(restored.freed, [second]);
    /// assert_eq!(restored.live, [(first, 1 << 20)]);
    /// # // SAFETY: it is live, and no graph uses it.
    /// # unsafe { pool.deallocate(&stream, first, layout); pool.release_graph_memory() };
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`ErrorKind::Unsupported`](rmm_core::ErrorKind::Unsupported) in a pool that is not for
    /// graphs, or while a [reservation](Self::reserve) holds memory of it.
    #[doc(alias = "getCheckpointState")]
    pub fn checkpoint(&self) -> Result<PoolCheckpoint, Error> {
        self.inner.core.checkpoint()
    }

    /// Makes exactly the blocks of a checkpoint live, at their addresses. All memory that is live
    /// now is freed first, in the order of `stream`; what the checkpoint does not name is that
    /// stream's free memory afterwards. O(n log n) with n blocks.
    ///
    /// # Errors
    /// [`ErrorKind::Unsupported`](rmm_core::ErrorKind::Unsupported) in a pool that is not for
    /// graphs, or while a [reservation](Self::reserve) holds memory of it;
    /// [`ErrorKind::InvalidArgument`](rmm_core::ErrorKind::InvalidArgument) if the pool does not
    /// hold the memory of a block any more;
    /// [`ErrorKind::NotReady`](rmm_core::ErrorKind::NotReady) while the pool sleeps. Then nothing
    /// has changed.
    ///
    /// # Safety
    /// All work that uses the pool's memory is complete, or comes before this call in the order of
    /// `stream`, but for launches of graphs that the program puts in order itself. No thread
    /// allocates from the pool, frees into it or uses its memory during the call. Blocks in
    /// [`freed`](Restored::freed) that are not [`live`](Restored::live) afterwards are not freed
    /// again; those that are live are freed once.
    #[doc(alias = "setCheckpointPoolState")]
    pub unsafe fn restore<'s>(
        &self,
        checkpoint: &PoolCheckpoint,
        stream: impl Into<StreamRef<'s>>,
    ) -> Result<Restored, Error> {
        self.inner.core.restore(checkpoint, stream.into())
    }
}
