//! The pool to begin with: over virtual memory where the device has it, `cudaMalloc` elsewhere.

#![forbid(unsafe_code)]

use rmm_core::Error;
use rmm_resources::BackingMemoryResource;

use crate::{PoolMemoryResource, PoolMemoryResourceBuilder};

/// A pool over [`BackingMemoryResource`], which is virtual memory or `cudaMalloc`: what
/// [`default_pool`] makes.
pub type DefaultPool = PoolMemoryResource<BackingMemoryResource>;

/// Makes a pool of the current device, over virtual memory where the device has it, and over
/// `cudaMalloc` elsewhere. It has no limit, and holds no memory yet.
///
/// Over virtual memory a pool holds less: 1.03 to 1.05 bytes per byte in use at the peak of three
/// recorded trainings, instead of 1.11 to 1.37. Other libraries may need memory of
/// `cudaMalloc`, for legacy IPC handles above all: `docs/default-pool.md` says which, and
/// [`on_device`](PoolMemoryResource::on_device) how to make such a pool.
///
/// ```
/// use std::alloc::Layout;
/// use rmm_core::{CudaStream, Resource};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let machine = rmm_sim::Machine::new();
/// # let _entered = machine.enter();
/// let pool = rmm_adaptors::default_pool()?;
/// let stream = CudaStream::new()?;
/// let layout = Layout::from_size_align(1000, 256)?;
/// let block = pool.allocate(&stream, layout)?;
/// // SAFETY: allocated above with this layout; its only stream is the one it is freed on.
/// unsafe { pool.deallocate(&stream, block, layout) };
/// assert_eq!(pool.upstream().backing(), rmm_resources::Backing::VirtualMemory);
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// If there is no driver or no device.
pub fn default_pool() -> Result<DefaultPool, Error> {
    PoolMemoryResource::on_device()?.build()
}

impl DefaultPool {
    /// Options for a pool of the current device, over virtual memory where the device has it, and
    /// over `cudaMalloc` elsewhere. For a pool over one of the two in any case, or over memory that
    /// other devices may use, begin with [`builder`](Self::builder) and a
    /// [`BackingMemoryResource`].
    ///
    /// ```
    /// use rmm_adaptors::PoolMemoryResource;
    /// use rmm_resources::{Backing, BackingMemoryResource};
    ///
    /// # fn main() -> Result<(), rmm_core::Error> {
    /// # let machine = rmm_sim::Machine::new();
    /// # let _entered = machine.enter();
    /// let mut pool = PoolMemoryResource::on_device()?.maximum_size(8 << 30).build()?;
    /// assert_eq!(pool.maximum_size(), Some(8 << 30));
    ///
    /// // Of the same type:
    /// let upstream = BackingMemoryResource::builder().backing(Backing::CudaMalloc).build()?;
    /// pool = PoolMemoryResource::builder(upstream).build()?;
    /// # drop(pool);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// If there is no driver or no device.
    pub fn on_device() -> Result<PoolMemoryResourceBuilder<BackingMemoryResource>, Error> {
        Ok(Self::builder(BackingMemoryResource::new()?))
    }
}
