//! Stream-ordered pinned host memory from a pool of the driver.

use std::ffi::c_int;
use std::sync::Arc;

use rmm_core::{Device, DeviceAccessible, Error, HasProperty, HostAccessible, MemoryKind};
use rmm_sys::{
    CuDeviceAttribute, CuMemAllocationType, CuMemLocation, CuMemLocationType, CuMemPoolProps,
};

use crate::capability::{addressable, attribute, require};
use crate::driver_pool::{check_handle_types, check_sizes, foreign_pools, pool_resource};
use crate::kind::known_kind;
use crate::{DriverPool, ExportHandleTypes};

/// Stream-ordered pinned host memory, from a pool of the driver.
///
/// Host and devices access the memory by the same address, the host once the allocation has
/// completed on the stream. Every device that has memory pools gets access. Each value made by
/// [`new`](Self::new) or [`builder`](Self::builder) has its own pool, destroyed with the last
/// clone. Only clones are equal. Any thread may use it. Alignments above 256 are refused with
/// [`ErrorKind::InvalidArgument`](rmm_core::ErrorKind::InvalidArgument).
///
/// ```
/// use std::alloc::Layout;
/// use rmm_core::{CudaStream, Resource};
/// use rmm_resources::CudaAsyncPinnedMemoryResource;
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let _machine = rmm_sim::enter();
/// let resource = CudaAsyncPinnedMemoryResource::new()?;
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
#[doc(alias = "rmm::mr::cuda_async_pinned_memory_resource")]
#[doc(alias = "cuda::pinned_memory_pool")]
#[derive(Clone, Debug)]
pub struct CudaAsyncPinnedMemoryResource {
    pool: Arc<DriverPool>,
}

/// A builder of [`CudaAsyncPinnedMemoryResource`].
///
/// ```
/// use rmm_resources::CudaAsyncPinnedMemoryResource;
///
/// # fn main() -> Result<(), rmm_core::Error> {
/// # let can = rmm_sys::CuDeviceAttribute::HOST_NUMA_MEMORY_POOLS_SUPPORTED;
/// # let _machine = rmm_sim::Machine::builder().attribute(can, 1).enter();
/// let resource = CudaAsyncPinnedMemoryResource::builder()
///     .numa_node(0)
///     .initial_size(32 << 20)
///     .maximum_size(1 << 30)
///     .build()?;
/// assert_eq!(resource.pool().reserved_bytes()?, 32 << 20);
/// # Ok(())
/// # }
/// ```
#[doc(alias = "cuda::memory_pool_properties")]
#[derive(Clone, Copy, Debug)]
#[must_use = "a builder does nothing until it is built"]
pub struct CudaAsyncPinnedMemoryResourceBuilder {
    initial_size: u64,
    maximum_size: u64,
    release_threshold: u64,
    numa_node: Option<c_int>,
    handle_types: ExportHandleTypes,
}

impl CudaAsyncPinnedMemoryResource {
    const NAME: &str = "cuda-async-pinned";

    /// Makes a resource over a new pool of host memory, which retains freed memory until the
    /// resource is dropped.
    ///
    /// # Errors
    /// [`ErrorKind::Unsupported`](rmm_core::ErrorKind::Unsupported) if the current device or the
    /// driver has no pools of host memory (from CUDA 13.0 on); other kinds as the driver reports.
    pub fn new() -> Result<Self, Error> {
        Self::builder().build()
    }

    /// Makes a resource over the driver's default pool of host memory, which all libraries in the
    /// process share and which is never destroyed. All such resources are equal.
    ///
    /// # State of the whole process
    /// Every device that has memory pools gets access to the pool, permanently and for all
    /// libraries in the process. The release threshold stays unchanged: it is 0 unless a program
    /// has [set](DriverPool::set_release_threshold) another.
    ///
    /// ```
    /// use rmm_resources::CudaAsyncPinnedMemoryResource;
    ///
    /// # fn main() -> Result<(), rmm_core::Error> {
    /// # let _machine = rmm_sim::enter();
    /// let resource = CudaAsyncPinnedMemoryResource::of_default_pool()?;
    /// assert_eq!(resource.pool().release_threshold()?, 0);
    /// assert_eq!(resource, CudaAsyncPinnedMemoryResource::of_default_pool()?);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// The errors of [`new`](Self::new).
    #[doc(alias = "cuda::pinned_default_memory_pool")]
    #[doc(alias = "cudaMemGetDefaultMemPool")]
    pub fn of_default_pool() -> Result<Self, Error> {
        let device = Device::current()?;
        require_host_pools(device)?;
        let pool = DriverPool::default_at(HOST, CuMemAllocationType::PINNED)?;
        pool.grant_access(&devices_with_pools()?)?;
        Ok(Self { pool: pool.announce(device, MemoryKind::Pinned)? })
    }

    /// Options for a new resource.
    pub fn builder() -> CudaAsyncPinnedMemoryResourceBuilder {
        CudaAsyncPinnedMemoryResourceBuilder {
            initial_size: 0,
            maximum_size: 0,
            release_threshold: u64::MAX,
            numa_node: None,
            handle_types: ExportHandleTypes::empty(),
        }
    }
}

impl CudaAsyncPinnedMemoryResourceBuilder {
    /// Bytes to pin at once; 0 by default.
    pub fn initial_size(mut self, bytes: u64) -> Self {
        self.initial_size = bytes;
        self
    }

    /// Upper bound on the bytes that the pool holds, which the driver rounds up to its own
    /// granularity; 0, the default, for no limit.
    pub fn maximum_size(mut self, bytes: u64) -> Self {
        self.maximum_size = bytes;
        self
    }

    /// Bytes of freed memory that the pool may retain when a stream is synchronized; no limit by
    /// default.
    pub fn release_threshold(mut self, bytes: u64) -> Self {
        self.release_threshold = bytes;
        self
    }

    /// The host NUMA node of the memory; any by default. The device's attribute `HOST_NUMA_ID` is
    /// the nearest.
    pub fn numa_node(mut self, node: c_int) -> Self {
        self.numa_node = Some(node);
        self
    }

    /// The handle types as which the pool can be exported; none by default.
    pub fn export_handle_types(mut self, types: ExportHandleTypes) -> Self {
        self.handle_types = types;
        self
    }

    /// Creates the pool.
    ///
    /// # Errors
    /// The errors of [`CudaAsyncPinnedMemoryResource::new`],
    /// [`ErrorKind::OutOfMemory`](rmm_core::ErrorKind::OutOfMemory) if there is not enough memory
    /// for the initial size, and
    /// [`ErrorKind::InvalidArgument`](rmm_core::ErrorKind::InvalidArgument) if it is above the
    /// maximum size or the release threshold, and
    /// [`ErrorKind::Unsupported`](rmm_core::ErrorKind::Unsupported) if the device does not support
    /// one of the handle types. The driver reports a NUMA node that does not exist.
    pub fn build(self) -> Result<CudaAsyncPinnedMemoryResource, Error> {
        let name = CudaAsyncPinnedMemoryResource::NAME;
        check_sizes(name, self.initial_size, self.maximum_size, self.release_threshold)?;
        let device = Device::current()?;
        let location = match self.numa_node {
            None => {
                require_host_pools(device)?;
                HOST
            }
            Some(node) => {
                let needed = CuDeviceAttribute::HOST_NUMA_MEMORY_POOLS_SUPPORTED;
                require(name, device, needed, "has no pools of host memory on a NUMA node")?;
                CuMemLocation { kind: CuMemLocationType::HOST_NUMA, id: node }
            }
        };
        let mut properties = CuMemPoolProps::pinned(location);
        properties.handle_types = check_handle_types(name, device, self.handle_types)?;
        properties.max_size = addressable(name, "maximum size", self.maximum_size)?;
        // From here on the pool is destroyed if a step fails.
        let pool = DriverPool::create(&properties)?.announce(device, MemoryKind::Pinned)?;
        // Initially only the host has access to such a pool.
        pool.grant_access(&devices_with_pools()?)?;
        pool.set_release_threshold(self.release_threshold)?;
        pool.prime(name, self.initial_size)?;
        Ok(CudaAsyncPinnedMemoryResource { pool })
    }
}

const HOST: CuMemLocation = CuMemLocation { kind: CuMemLocationType::HOST, id: 0 };

fn require_host_pools(device: Device) -> Result<(), Error> {
    let needed = CuDeviceAttribute::HOST_MEMORY_POOLS_SUPPORTED;
    let what = "has no pools of host memory";
    require(CudaAsyncPinnedMemoryResource::NAME, device, needed, what)
}

fn devices_with_pools() -> Result<Vec<Device>, Error> {
    let mut devices = Vec::new();
    for ordinal in 0..Device::count()? {
        let device = Device::new(ordinal)?;
        if attribute(device, CuDeviceAttribute::MEMORY_POOLS_SUPPORTED)? != 0 {
            devices.push(device);
        }
    }
    Ok(devices)
}

pool_resource!(CudaAsyncPinnedMemoryResource; DeviceAccessible, HostAccessible; MemoryKind);
foreign_pools!(CudaAsyncPinnedMemoryResource, Pinned, "pinned host memory");

// SAFETY: the devices get access when the resource is made, and only unsafe code revokes it.
unsafe impl HasProperty<DeviceAccessible> for CudaAsyncPinnedMemoryResource {}
// SAFETY: the pool is at the host's location.
unsafe impl HasProperty<HostAccessible> for CudaAsyncPinnedMemoryResource {}

known_kind!(CudaAsyncPinnedMemoryResource, Pinned);
