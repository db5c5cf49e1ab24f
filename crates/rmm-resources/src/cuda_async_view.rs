//! A resource over a driver pool that it does not own.

use std::sync::Arc;

use rmm_core::{Device, DeviceAccessible, Error, HasProperty, MemoryKind, check, current_driver};
use rmm_sys::{CuDeviceAttribute, CuMemPool};

use crate::DriverPool;
use crate::capability::require;
use crate::driver_pool::pool_resource;

/// Device memory from a driver pool that it does not own: a device's default pool, or one that
/// another library created.
///
/// The pool is not destroyed with the resource. Two are equal if they use the same pool. Any thread
/// may use it. Alignments above 256 are refused with
/// [`ErrorKind::InvalidArgument`](rmm_core::ErrorKind::InvalidArgument).
///
/// ```
/// use std::alloc::Layout;
/// use rmm_core::{CudaStream, Device, Resource};
/// use rmm_resources::CudaAsyncViewMemoryResource;
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let _machine = rmm_sim::enter();
/// let resource = CudaAsyncViewMemoryResource::of_default_pool(Device::current()?)?;
/// let stream = CudaStream::new()?;
/// let layout = Layout::from_size_align(4096, 256)?;
/// let pointer = resource.allocate(&stream, layout)?;
/// assert!(resource.pool().used_bytes()? >= 4096);
/// // SAFETY: allocated above with this layout; its only stream is the one it is freed on.
/// unsafe { resource.deallocate(&stream, pointer, layout) };
/// # Ok(())
/// # }
/// ```
#[doc(alias = "rmm::mr::cuda_async_view_memory_resource")]
#[doc(alias = "cuda::device_memory_pool_ref")]
#[derive(Clone, Debug)]
pub struct CudaAsyncViewMemoryResource {
    pool: Arc<DriverPool>,
}

impl CudaAsyncViewMemoryResource {
    const NAME: &str = "cuda-async-view";

    /// Makes a resource over a device's default pool, which is never destroyed, and from which
    /// `cudaMallocAsync` allocates unless the program has set another pool.
    ///
    /// All libraries in the process share the pool, and it stays unchanged. Its release threshold
    /// is 0 unless a program has [set](DriverPool::set_release_threshold) another: freed memory is
    /// released to the device at each synchronization.
    ///
    /// # Errors
    /// [`ErrorKind::Unsupported`](rmm_core::ErrorKind::Unsupported) if the device has no memory
    /// pools; other kinds as the driver reports.
    #[doc(alias = "cudaDeviceGetDefaultMemPool")]
    #[doc(alias = "cuda::device_default_memory_pool")]
    pub fn of_default_pool(device: Device) -> Result<Self, Error> {
        require_pools(device)?;
        let driver = current_driver()?;
        let mut pool = CuMemPool::NULL;
        // SAFETY: `pool` may be written to.
        let code = unsafe { driver.cuDeviceGetDefaultMemPool(&raw mut pool, device.as_raw()) };
        check("cuDeviceGetDefaultMemPool", code)?;
        // SAFETY: a default pool cannot be destroyed.
        let pool = unsafe { DriverPool::borrowed(pool) };
        // The others of the device ask its default pool anyway.
        Ok(Self { pool: Arc::new(pool.join(device, MemoryKind::Device)?) })
    }

    /// A resource over a pool. Other suballocators do not ask it for memory.
    ///
    /// ```
    /// use rmm_resources::{CudaAsyncMemoryResource, CudaAsyncViewMemoryResource};
    ///
    /// # fn main() -> Result<(), rmm_core::Error> {
    /// # let _machine = rmm_sim::enter();
    /// let owner = CudaAsyncMemoryResource::new()?;
    /// // SAFETY: `owner` keeps the pool until the view is gone.
    /// let view = unsafe { CudaAsyncViewMemoryResource::from_raw(owner.as_raw()) }?;
    /// assert_eq!(view.pool(), owner.pool());
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`](rmm_core::ErrorKind::InvalidArgument) for the null handle,
    /// and [`ErrorKind::Unsupported`](rmm_core::ErrorKind::Unsupported) if the current device has
    /// no memory pools.
    ///
    /// # Safety
    /// The pool exists until this value, its clones and all memory from them are gone; new memory
    /// can be allocated from it (it is not imported); and the current device has access to its
    /// memory, now and later.
    pub unsafe fn from_raw(pool: CuMemPool) -> Result<Self, Error> {
        if pool.is_null() {
            return Err(Error::invalid_argument(Self::NAME, "the pool's handle is null"));
        }
        require_pools(Device::current()?)?;
        // SAFETY: the caller's contract.
        let pool = unsafe { DriverPool::borrowed(pool) };
        pool.note_access_of_current()?;
        Ok(Self { pool: Arc::new(pool) })
    }
}

fn require_pools(device: Device) -> Result<(), Error> {
    let needed = CuDeviceAttribute::MEMORY_POOLS_SUPPORTED;
    require(CudaAsyncViewMemoryResource::NAME, device, needed, "has no memory pools")
}

pool_resource!(CudaAsyncViewMemoryResource; DeviceAccessible);

// SAFETY: a device has access to its default pool, and for another pool the caller of `from_raw`
// has promised it.
unsafe impl HasProperty<DeviceAccessible> for CudaAsyncViewMemoryResource {}
