//! Sleep, as users call it: [`steps::sleep`](crate::suballocators::pool::steps::sleep) says how it
//! is done.

use rmm_core::{Error, PropertySet};

use super::pool::PoolMemoryResource;
use crate::suballocators::pool::values::sleep_options::{Contents, CopyProgress, SleepOptions};

impl<S: PropertySet> PoolMemoryResource<S> {
    /// Returns all of the pool's physical memory to the device, and keeps all of its addresses:
    /// [`wake`](Self::wake) makes them usable again. For programs that take turns with a GPU, as
    /// inference servers that swap models, while their containers stay alive. Returns the bytes.
    ///
    /// Refuses while work is pending; [`sleep_with`](Self::sleep_with) can wait for it, and says
    /// where contents go. The pool has to be over
    /// [`VirtualMemoryResource`](rmm_resources::VirtualMemoryResource).
    ///
    /// From this call until the pool is awake again, allocating fails with
    /// [`ErrorKind::NotReady`](rmm_core::ErrorKind::NotReady), also from its reservations and from
    /// suballocators over it, and frees are accepted. Free memory sleeps too and is there again
    /// afterwards: [`trim`](Self::trim) before returns it for good. Dropping a pool that sleeps is
    /// fine.
    ///
    /// **Cost.** Three driver calls for each upstream block, and four to wake it up. Blocks are of
    /// up to 256 MiB in a large pool.
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
    /// pool.wake()?; // `weights` is as before
    /// # // SAFETY: allocated above with this layout, and not used.
    /// # unsafe { pool.deallocate(&stream, weights, layout) };
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`ErrorKind::NotReady`](rmm_core::ErrorKind::NotReady) if work is pending, the pool is not
    /// awake, or a request of it is inside a callback or an adaptor of the program;
    /// [`ErrorKind::Unsupported`](rmm_core::ErrorKind::Unsupported) if the upstream cannot keep
    /// addresses, if a stream may be under capture, or while memory is [reserved for
    /// graphs](Self::release_graph_memory);
    /// [`ErrorKind::OutOfMemory`](rmm_core::ErrorKind::OutOfMemory) if there is too little host
    /// memory; else the driver's. After an error the pool is awake and its blocks hold what they
    /// held. Only if the driver refuses to undo its half of the way the pool is
    /// [asleep](Self::is_asleep) all the same.
    ///
    /// # Safety
    /// From this call until the pool is awake again, no work uses its memory and no thread
    /// dereferences it: neither work that is enqueued meanwhile, nor earlier work of another
    /// context than the pool's. With [`Contents::Discard`], what the blocks hold afterwards is
    /// undefined: it is written before it is read.
    #[doc(alias = "sleep_mode")]
    #[doc(alias = "cuMemUnmap")]
    pub unsafe fn sleep(&self, contents: Contents) -> Result<u64, Error> {
        // SAFETY: the caller's contract.
        unsafe { self.sleep_with(SleepOptions::new(contents)) }
    }

    /// Puts the pool to sleep with these options, as [`sleep`](Self::sleep) does.
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

    /// Wakes a pool that sleeps: maps memory at all of its addresses, and copies contents back that
    /// were kept. Returns the bytes; 0 if the pool is awake already. When it returns, the copies
    /// are complete: work that is enqueued afterwards may use the blocks on any stream.
    ///
    /// If the device has too little memory, other suballocators are asked for what they do not use,
    /// and then the program by [`on_pressure`](Self::on_pressure), as for an allocation.
    ///
    /// # Errors
    /// [`ErrorKind::OutOfMemory`](rmm_core::ErrorKind::OutOfMemory) if that is not enough;
    /// [`ErrorKind::NotReady`](rmm_core::ErrorKind::NotReady) if another thread is putting the pool
    /// to sleep or waking it; else the driver's. After an error the pool sleeps as before, with
    /// what it keeps in host memory, and this can be called again. Should the driver refuse to
    /// unmap what was mapped for the attempt, [`trim`](Self::trim) tries again, and so does a
    /// request of another suballocator that is short of memory.
    pub fn wake(&self) -> Result<u64, Error> {
        self.wake_with(|_| ())
    }

    /// Wakes the pool, as [`wake`](Self::wake) does, and calls `report` now and then while contents
    /// are copied back, on this thread, with no lock held. If it panics, the pool goes on sleeping.
    ///
    /// # Errors
    /// The errors of [`wake`](Self::wake).
    pub fn wake_with(&self, mut report: impl FnMut(CopyProgress)) -> Result<u64, Error> {
        self.inner.core.wake(&self.inner.upstream, &mut report)
    }

    /// Whether the pool sleeps, or a thread is putting it to sleep or waking it.
    pub fn is_asleep(&self) -> bool {
        !self.inner.core.lock().phase.is_awake()
    }
}
