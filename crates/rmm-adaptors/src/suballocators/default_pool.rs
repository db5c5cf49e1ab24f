//! The default pool: over virtual memory where the device has it, `cudaMalloc` elsewhere.

#![forbid(unsafe_code)]

use rmm_core::Error;
use rmm_resources::DefaultDeviceMemory;

use crate::{PoolMemoryResource, PoolMemoryResourceBuilder};

/// Makes a pool of the current device, over virtual memory where the device has it, and over
/// `cudaMalloc` elsewhere. It has no limit, and holds no memory yet.
///
/// Over virtual memory a pool holds less: 1.03 to 1.05 bytes per byte in use at the peak of three
/// recorded trainings, instead of 1.11 to 1.37. Other libraries may need memory of
/// `cudaMalloc`, for legacy IPC handles above all: `docs/default-pool.md` says which. A pool over
/// either in any case, or over memory that other devices may use, is made by
/// [`builder`](PoolMemoryResource::builder) with a
/// [`CudaMemoryResource`](rmm_resources::CudaMemoryResource) or a
/// [`VirtualMemoryResource`](rmm_resources::VirtualMemoryResource), and is of the same type.
///
/// ```
/// use std::alloc::Layout;
/// use rmm_core::{CudaStream, Resource};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let _machine = rmm_sim::enter();
/// let pool = rmm_adaptors::default_pool()?;
/// let stream = CudaStream::new()?;
/// let layout = Layout::from_size_align(1000, 256)?;
/// let block = pool.allocate(&stream, layout)?;
/// // SAFETY: allocated above with this layout; its only stream is the one it is freed on.
/// unsafe { pool.deallocate(&stream, block, layout) };
/// assert_eq!(pool.default_memory(), Some(rmm_resources::DefaultDeviceMemory::VirtualMemory));
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// If there is no driver or no device.
pub fn default_pool() -> Result<PoolMemoryResource, Error> {
    PoolMemoryResource::default_builder()?.build()
}

impl PoolMemoryResource {
    /// Options for a [`default_pool`].
    ///
    /// ```
    /// use rmm_adaptors::PoolMemoryResource;
    /// use rmm_resources::CudaMemoryResource;
    ///
    /// # fn main() -> Result<(), rmm_core::Error> {
    /// # let _machine = rmm_sim::enter();
    /// let mut pool = PoolMemoryResource::default_builder()?.maximum_size(8 << 30).build()?;
    /// assert_eq!(pool.maximum_size(), Some(8 << 30));
    ///
    /// // Memory of `cudaMalloc`, in a pool of the same type:
    /// pool = PoolMemoryResource::builder(CudaMemoryResource::new()).build()?;
    /// # drop(pool);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// If there is no driver or no device.
    #[doc(alias = "on_device")]
    pub fn default_builder() -> Result<PoolMemoryResourceBuilder, Error> {
        Ok(Self::builder(DefaultDeviceMemory::of_device()?))
    }
}
