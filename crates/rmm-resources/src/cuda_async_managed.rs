//! The driver's own pool of managed memory.

use std::sync::Arc;

use rmm_core::{
    Device, DeviceAccessible, Error, HasProperty, HostAccessible, MemoryKind, check, current_driver,
};
use rmm_sys::{CuDeviceAttribute, CuMemAllocationType, CuMemPool};

use crate::DriverPool;
use crate::capability::{require, require_driver};
use crate::driver_pool::{on_device, pool_resource};
use crate::kind::known_kind;

/// Managed memory in stream order, from the pool of managed memory that the driver keeps for each device. Needs a driver of CUDA
/// 13.0.
///
/// Host and devices may use the memory, the host once the stream has passed the allocation. Resources for the same device
/// are equal: there is one pool. Any thread may use it. Alignments above 256 are refused with
/// [`ErrorKind::InvalidArgument`](rmm_core::ErrorKind::InvalidArgument).
///
/// # State of the whole process
/// The pool is the driver's default one and everybody's in this process. [`new`](Self::new) sets its release threshold to no
/// limit, for everybody, as RMM does; [`with_release_threshold`](Self::with_release_threshold) sets another one, or leaves it
/// alone. Nothing undoes that when the resource is dropped.
///
/// ```
/// use std::alloc::Layout;
/// use rmm_core::{CudaStream, Resource};
/// use rmm_resources::CudaAsyncManagedMemoryResource;
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let machine = rmm_sim::Machine::new();
/// # let _entered = machine.enter();
/// let resource = CudaAsyncManagedMemoryResource::with_release_threshold(None)?;
/// let stream = CudaStream::new()?;
/// let layout = Layout::from_size_align(4, 256)?;
/// let pointer = resource.allocate(stream.as_ref(), layout)?;
/// stream.synchronize()?;
/// let block: *mut u32 = std::ptr::with_exposed_provenance_mut(usize::try_from(pointer.0)?);
/// // SAFETY: the block is one word that nobody else uses.
/// unsafe { block.write(7) };
/// // SAFETY: allocated above with this layout, and its uses have completed.
/// unsafe { resource.deallocate(stream.as_ref(), pointer, layout) };
/// # Ok(())
/// # }
/// ```
#[doc(alias = "rmm::mr::cuda_async_managed_memory_resource")]
#[derive(Clone, Debug)]
pub struct CudaAsyncManagedMemoryResource {
    pool: Arc<DriverPool>,
}

impl CudaAsyncManagedMemoryResource {
    const NAME: &str = "cuda-async-managed";

    /// A resource over the current device's pool, which from now on keeps freed memory: for everybody in this process.
    ///
    /// # Errors
    /// [`ErrorKind::Unsupported`](rmm_core::ErrorKind::Unsupported) if the driver is older than CUDA 13.0, or host and device can
    /// not use managed memory at the same time; whatever the driver refuses.
    pub fn new() -> Result<Self, Error> {
        Self::with_release_threshold(Some(u64::MAX))
    }

    /// A resource over the current device's pool, with the bytes of freed memory that the pool may keep when a stream is
    /// synchronized; `None` leaves what is set.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn with_release_threshold(bytes: Option<u64>) -> Result<Self, Error> {
        let device = Device::current()?;
        let concurrent = CuDeviceAttribute::CONCURRENT_MANAGED_ACCESS;
        let what = "has no managed memory that the host may use at the same time";
        require(Self::NAME, device, concurrent, what)?;
        let pools = CuDeviceAttribute::MEMORY_POOLS_SUPPORTED;
        require(Self::NAME, device, pools, "has no memory pools")?;
        require_driver(Self::NAME, 13000, "a pool of managed memory")?;
        let driver = current_driver()?;
        let (mut pool, mut location) = (CuMemPool::NULL, on_device(device));
        let kind = CuMemAllocationType::MANAGED;
        // SAFETY: both may be written to.
        let code = unsafe { driver.cuMemGetDefaultMemPool(&raw mut pool, &raw mut location, kind) };
        check("cuMemGetDefaultMemPool", code)?;
        // SAFETY: a default pool can not be destroyed.
        let pool = unsafe { DriverPool::borrowed(pool) };
        if let Some(bytes) = bytes {
            pool.set_release_threshold(bytes)?;
        }
        Ok(Self { pool: Arc::new(pool) })
    }
}

pool_resource!(CudaAsyncManagedMemoryResource, |claims| claims
    .has::<DeviceAccessible>()
    .has::<HostAccessible>()
    .knows::<MemoryKind>());

// SAFETY: managed memory is every device's.
unsafe impl HasProperty<DeviceAccessible> for CudaAsyncManagedMemoryResource {}
// SAFETY: and the host's, at any time: that was asked when the resource was made.
unsafe impl HasProperty<HostAccessible> for CudaAsyncManagedMemoryResource {}

known_kind!(CudaAsyncManagedMemoryResource, Managed);
