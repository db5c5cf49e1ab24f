//! Stream-ordered managed memory from a pool of the driver.

use std::sync::Arc;

use rmm_core::{Device, DeviceAccessible, Error, HasProperty, HostAccessible, MemoryKind};
use rmm_sys::{
    CuDeviceAttribute, CuMemAllocationType, CuMemLocation, CuMemLocationType, CuMemPoolProps,
};

use crate::capability::{require, require_driver};
use crate::driver_pool::{
    check_handle_types, check_sizes, foreign_pools, on_device, pool_resource,
};
use crate::kind::known_kind;
use crate::{DriverPool, ExportHandleTypes};

/// Stream-ordered managed memory, from the driver's default pool of managed memory for the device,
/// or from its own pool. Needs a driver of CUDA 13.0.
///
/// Host and devices may access the memory, the host once the allocation has completed on the
/// stream. Two are equal if they use the same pool, as those from [`new`](Self::new) for the same
/// device do. Any thread may use it. Alignments above 256 are refused with
/// [`ErrorKind::InvalidArgument`](rmm_core::ErrorKind::InvalidArgument).
///
/// # State of the whole process
/// All libraries in the process share the driver's default pool. [`new`](Self::new) sets its
/// release threshold to no limit, for all of them, as RMM does;
/// [`with_release_threshold`](Self::with_release_threshold) sets another one, or leaves it
/// unchanged. Dropping the resource does not undo that. A resource from [`builder`](Self::builder)
/// has its own pool, and leaves the default pool unchanged.
///
/// ```
/// use std::alloc::Layout;
/// use rmm_core::{CudaStream, Resource};
/// use rmm_resources::CudaAsyncManagedMemoryResource;
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let _machine = rmm_sim::enter();
/// let resource = CudaAsyncManagedMemoryResource::with_release_threshold(None)?;
/// let stream = CudaStream::new()?;
/// let layout = Layout::from_size_align(4, 256)?;
/// let pointer = resource.allocate(&stream, layout)?;
/// stream.synchronize()?;
/// let block: *mut u32 = std::ptr::with_exposed_provenance_mut(usize::try_from(pointer.0)?);
/// // SAFETY: the block is one word that no other code uses.
/// unsafe { block.write(7) };
/// // SAFETY: allocated above with this layout, and its uses have completed.
/// unsafe { resource.deallocate(&stream, pointer, layout) };
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

    /// Makes a resource over the current device's default pool, which from now on retains freed
    /// memory, for all libraries in the process.
    ///
    /// # Errors
    /// [`ErrorKind::Unsupported`](rmm_core::ErrorKind::Unsupported) if the driver is older than
    /// CUDA 13.0, or host and device cannot access managed memory concurrently; other kinds as the
    /// driver reports.
    #[doc(alias = "cuda::managed_default_memory_pool")]
    pub fn new() -> Result<Self, Error> {
        Self::with_release_threshold(Some(u64::MAX))
    }

    /// Makes a resource over the current device's default pool, and sets the bytes of freed memory
    /// that the pool may retain when a stream is synchronized; `None` leaves the threshold
    /// unchanged.
    ///
    /// # Errors
    /// The errors of [`new`](Self::new).
    pub fn with_release_threshold(bytes: Option<u64>) -> Result<Self, Error> {
        let device = require_managed_pools()?;
        let pool = DriverPool::default_at(on_device(device), CuMemAllocationType::MANAGED)?;
        if let Some(bytes) = bytes {
            pool.set_release_threshold(bytes)?;
        }
        Ok(Self { pool: pool.announce(device, MemoryKind::Managed)? })
    }

    /// A builder of a resource with its own pool, which leaves the default pool unchanged. The pool
    /// is destroyed with the last clone; its memory prefers the device that is current when it is
    /// built.
    ///
    /// ```
    /// use rmm_resources::CudaAsyncManagedMemoryResource;
    ///
    /// # fn main() -> Result<(), rmm_core::Error> {
    /// # let _machine = rmm_sim::enter();
    /// let own = CudaAsyncManagedMemoryResource::builder().initial_size(1 << 20).build()?;
    /// assert!(own.pool().reserved_bytes()? >= 1 << 20);
    /// assert_ne!(own, CudaAsyncManagedMemoryResource::with_release_threshold(None)?);
    /// # Ok(())
    /// # }
    /// ```
    #[doc(alias = "cuda::managed_memory_pool")]
    pub fn builder() -> CudaAsyncManagedMemoryResourceBuilder {
        CudaAsyncManagedMemoryResourceBuilder {
            initial_size: 0,
            release_threshold: u64::MAX,
            handle_types: ExportHandleTypes::empty(),
            prefers_device: true,
        }
    }
}

/// A builder of a [`CudaAsyncManagedMemoryResource`] with its own pool. The driver supports no
/// maximum size for it.
#[doc(alias = "cuda::memory_pool_properties")]
#[derive(Clone, Copy, Debug)]
#[must_use = "a builder does nothing until it is built"]
pub struct CudaAsyncManagedMemoryResourceBuilder {
    initial_size: u64,
    release_threshold: u64,
    handle_types: ExportHandleTypes,
    prefers_device: bool,
}

impl CudaAsyncManagedMemoryResourceBuilder {
    /// Bytes to allocate from the system at once; 0 by default.
    pub fn initial_size(mut self, bytes: u64) -> Self {
        self.initial_size = bytes;
        self
    }

    /// Bytes of freed memory that the pool may retain when a stream is synchronized; no limit by
    /// default.
    pub fn release_threshold(mut self, bytes: u64) -> Self {
        self.release_threshold = bytes;
        self
    }

    /// The handle types as which the pool can be exported; none by default.
    pub fn export_handle_types(mut self, types: ExportHandleTypes) -> Self {
        self.handle_types = types;
        self
    }

    /// The memory prefers no device, as that of CCCL's pools: it stays where it was used first.
    ///
    /// ```
    /// use rmm_resources::CudaAsyncManagedMemoryResource;
    ///
    /// # fn main() -> Result<(), rmm_core::Error> {
    /// # let _machine = rmm_sim::Machine::builder().driver_version(13020).enter();
    /// let resource = CudaAsyncManagedMemoryResource::builder().no_preferred_location().build()?;
    /// assert_eq!(resource.pool().location()?.kind, rmm_sys::CuMemLocationType::INVALID);
    /// # Ok(())
    /// # }
    /// ```
    #[doc(alias = "CU_MEM_LOCATION_TYPE_NONE")]
    pub fn no_preferred_location(mut self) -> Self {
        self.prefers_device = false;
        self
    }

    /// Creates the pool.
    ///
    /// # Errors
    /// The errors of [`CudaAsyncManagedMemoryResource::new`],
    /// [`ErrorKind::OutOfMemory`](rmm_core::ErrorKind::OutOfMemory) if there is not enough memory
    /// for the initial size, and
    /// [`ErrorKind::InvalidArgument`](rmm_core::ErrorKind::InvalidArgument) if it is above the
    /// release threshold, and [`ErrorKind::Unsupported`](rmm_core::ErrorKind::Unsupported) if the
    /// device does not support one of the handle types.
    pub fn build(self) -> Result<CudaAsyncManagedMemoryResource, Error> {
        let name = CudaAsyncManagedMemoryResource::NAME;
        check_sizes(name, self.initial_size, 0, self.release_threshold)?;
        let device = require_managed_pools()?;
        let nowhere = CuMemLocation { kind: CuMemLocationType::INVALID, id: 0 };
        let location = if self.prefers_device { on_device(device) } else { nowhere };
        let properties = CuMemPoolProps {
            kind: CuMemAllocationType::MANAGED,
            handle_types: check_handle_types(name, device, self.handle_types)?,
            ..CuMemPoolProps::pinned(location)
        };
        // From here on the pool is destroyed if a step fails.
        let pool = DriverPool::create(&properties)?.announce(device, MemoryKind::Managed)?;
        pool.set_release_threshold(self.release_threshold)?;
        pool.prime(name, self.initial_size)?;
        Ok(CudaAsyncManagedMemoryResource { pool })
    }
}

/// The current device, if it has pools of managed memory that the host may access concurrently.
fn require_managed_pools() -> Result<Device, Error> {
    let (name, device) = (CudaAsyncManagedMemoryResource::NAME, Device::current()?);
    let concurrent = CuDeviceAttribute::CONCURRENT_MANAGED_ACCESS;
    let what = "has no managed memory that the host may use at the same time";
    require(name, device, concurrent, what)?;
    require(name, device, CuDeviceAttribute::MEMORY_POOLS_SUPPORTED, "has no memory pools")?;
    require_driver(name, 13000, "a pool of managed memory")?;
    Ok(device)
}

pool_resource!(CudaAsyncManagedMemoryResource; DeviceAccessible, HostAccessible; MemoryKind);
foreign_pools!(CudaAsyncManagedMemoryResource, Managed, "managed memory");

// SAFETY: every device may access managed memory.
unsafe impl HasProperty<DeviceAccessible> for CudaAsyncManagedMemoryResource {}
// SAFETY: the host may access managed memory concurrently: that was checked when the resource was
// made.
unsafe impl HasProperty<HostAccessible> for CudaAsyncManagedMemoryResource {}

known_kind!(CudaAsyncManagedMemoryResource, Managed);
