//! The public methods of a pool that sleeps and wakes.
//!
//! [`steps::sleep`](crate::suballocators::pool::steps::sleep) implements them.

use rmm_core::{DevicePtr, Error, PropertySet};

use super::pool::PoolMemoryResource;
use crate::suballocators::pool::values::sleep_options::{Contents, CopyProgress, SleepOptions};

impl<S: PropertySet> PoolMemoryResource<S> {
    /// Returns all of the pool's physical memory to the device, but keeps its addresses until
    /// [`wake`](Self::wake) maps memory there again. Returns the bytes that were returned.
    ///
    /// Contents are those of live blocks; in a pool [for
    /// graphs](crate::PoolMemoryResourceBuilder::for_graphs) also of blocks that were freed.
    ///
    /// Use it where programs take turns on a GPU, such as inference servers that swap models:
    /// blocks and containers stay allocated in between. The pool's upstream must be a
    /// [`VirtualMemoryResource`](rmm_resources::VirtualMemoryResource). Fails while work is
    /// pending; [`sleep_with`](Self::sleep_with) can wait for the work instead, and takes the host
    /// memory for the contents.
    ///
    /// Until the pool is awake again:
    ///
    /// - An allocation fails with [`ErrorKind::NotReady`](rmm_core::ErrorKind::NotReady), including
    ///   one from the pool's reservations or from a suballocator over the pool.
    /// - Blocks can be freed, and the pool can be dropped.
    /// - The pool's free memory is returned as well. `wake` maps it again; to return it for good,
    ///   [`trim`](Self::trim) the pool before it sleeps.
    ///
    /// **Cost.** Three driver calls for each upstream block, and four to wake it. Upstream blocks
    /// of a large pool have up to 256 MiB.
    ///
    /// ```
    /// use std::alloc::Layout;
    /// use rmm_adaptors::{Contents, PoolMemoryResource};
    /// use rmm_core::{CudaStream, Device, Resource};
    /// use rmm_resources::VirtualMemoryResource;
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let _machine = rmm_sim::enter();
    /// let pool = PoolMemoryResource::builder(VirtualMemoryResource::new()?).build()?;
    /// let (stream, layout) = (CudaStream::new()?, Layout::from_size_align(8 << 20, 256)?);
    /// let before = Device::memory_info()?.free;
    /// let weights = pool.allocate(&stream, layout)?;
    ///
    /// // SAFETY: no work uses the block before the pool is awake again.
    /// let bytes = unsafe { pool.sleep(Contents::ToHost)? };
    /// assert_eq!((bytes, Device::memory_info()?.free), (8 << 20, before));
    /// assert!(pool.allocate(&stream, layout).unwrap_err().is_not_ready());
    ///
    /// pool.wake()?; // `weights` has its address and contents again
    /// # // SAFETY: allocated above with this layout, and not used.
    /// # unsafe { pool.deallocate(&stream, weights, layout) };
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// - [`ErrorKind::NotReady`](rmm_core::ErrorKind::NotReady) if work is pending, if the pool is
    ///   not awake, or if a request to the pool is inside a callback or an adaptor of the program.
    /// - [`ErrorKind::Unsupported`](rmm_core::ErrorKind::Unsupported) if the upstream cannot keep
    ///   addresses, if a stream may be under capture, or if memory is [reserved for
    ///   graphs](Self::release_graph_memory).
    /// - [`ErrorKind::OutOfMemory`](rmm_core::ErrorKind::OutOfMemory) if there is too little host
    ///   memory for the contents.
    /// - Errors of the driver.
    ///
    /// After an error the pool is awake, and its blocks have their contents. The exception is a
    /// driver that fails half-way and then fails to undo the first half: the pool is then
    /// [asleep](Self::is_asleep).
    ///
    /// # Safety
    /// From this call until the pool is awake again, no work may use the pool's memory, and no
    /// thread may dereference it. This includes work that was enqueued before in another context
    /// than the pool's. After [`Contents::Discard`] the contents of all blocks are undefined: write
    /// them before you read them.
    #[doc(alias = "sleep_mode")]
    #[doc(alias = "cuMemUnmap")]
    pub unsafe fn sleep(&self, contents: Contents) -> Result<u64, Error> {
        // SAFETY: the caller's contract.
        unsafe { self.sleep_with(SleepOptions::new(contents)) }
    }

    /// Puts the pool to sleep as [`sleep`](Self::sleep) does, with options.
    ///
    /// # Errors
    /// The errors of [`sleep`](Self::sleep).
    ///
    /// # Safety
    /// The contract of [`sleep`](Self::sleep).
    pub unsafe fn sleep_with(&self, options: SleepOptions<'_>) -> Result<u64, Error> {
        // SAFETY: the caller's contract.
        unsafe { self.inner.core.sleep(&self.inner.upstream, options) }
    }

    /// Maps memory at all addresses of a sleeping pool, and copies back the contents if they were
    /// kept. Returns the bytes that were mapped, or 0 if the pool is awake already.
    ///
    /// The copies are complete when it returns, so any stream may use the blocks afterwards.
    ///
    /// If the device has too little memory, other suballocators release their idle memory and then
    /// the [`on_pressure`](Self::on_pressure) callbacks run, as for an allocation.
    ///
    /// # Errors
    /// - [`ErrorKind::OutOfMemory`](rmm_core::ErrorKind::OutOfMemory) if that is not enough.
    /// - [`ErrorKind::NotReady`](rmm_core::ErrorKind::NotReady) if another thread is putting the
    ///   pool to sleep or waking it.
    /// - Errors of the driver.
    ///
    /// After an error the pool still sleeps, and contents that were kept are still in host memory:
    /// call it again. If the driver then fails to unmap what the attempt had mapped,
    /// [`trim`](Self::trim) tries to unmap it again, and so does a request of another suballocator
    /// that is short of memory.
    pub fn wake(&self) -> Result<u64, Error> {
        self.wake_with(|_| ())
    }

    /// Wakes the pool as [`wake`](Self::wake) does, and calls `report` while contents are copied
    /// back.
    ///
    /// `report` is called on this thread with no lock held. If it panics, the pool still sleeps,
    /// and the panic continues.
    ///
    /// # Errors
    /// The errors of [`wake`](Self::wake).
    pub fn wake_with(&self, mut report: impl FnMut(CopyProgress)) -> Result<u64, Error> {
        self.inner.core.wake(&self.inner.upstream, &mut report)
    }

    /// Whether the pool is over memory that it can return while its addresses stay, as
    /// [`sleep`](Self::sleep) requires.
    pub fn can_sleep(&self) -> bool {
        self.inner.core.can_sleep(&self.inner.upstream)
    }

    /// Copies what a block held, out of a pool that sleeps with [`Contents::ToHost`]. `from` may
    /// lie inside a block. Frees wait meanwhile.
    ///
    /// # Errors
    /// [`ErrorKind::NotReady`](rmm_core::ErrorKind::NotReady) if the pool does not sleep;
    /// [`ErrorKind::InvalidArgument`](rmm_core::ErrorKind::InvalidArgument) if these bytes were not
    /// kept.
    pub fn read_asleep(&self, from: DevicePtr, out: &mut [u8]) -> Result<(), Error> {
        self.inner.core.read_asleep(from, out)
    }

    /// Whether the pool is asleep, or a thread is putting it to sleep or waking it.
    pub fn is_asleep(&self) -> bool {
        !self.inner.core.lock().phase.is_awake()
    }
}
