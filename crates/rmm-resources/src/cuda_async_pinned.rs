//! Pinned memory of the host from a driver's pool.

use std::ffi::c_int;
use std::sync::Arc;

use rmm_core::{Device, DeviceAccessible, Error, HasProperty, HostAccessible, MemoryKind};
use rmm_sys::{CuDeviceAttribute, CuMemLocation, CuMemLocationType, CuMemPoolProps};

use crate::DriverPool;
use crate::capability::{attribute, require};
use crate::driver_pool::pool_resource;
use crate::kind::known_kind;

/// Pinned memory of the host in stream order, from a pool of the driver's own.
///
/// Host and devices may use the memory by one address, the host once the stream has passed the allocation. Every device that has
/// memory pools is given access. Each value made by [`new`](Self::new) or [`builder`](Self::builder) has a pool of its own,
/// destroyed with the last clone. Clones are equal, others are not. Any thread may use it. Alignments above 256 are refused
/// with [`ErrorKind::InvalidArgument`](rmm_core::ErrorKind::InvalidArgument).
///
/// ```
/// use std::alloc::Layout;
/// use rmm_core::{CudaStream, Resource};
/// use rmm_resources::CudaAsyncPinnedMemoryResource;
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let machine = rmm_sim::Machine::new();
/// # let _entered = machine.enter();
/// let resource = CudaAsyncPinnedMemoryResource::new()?;
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
#[doc(alias = "rmm::mr::cuda_async_pinned_memory_resource")]
#[doc(alias = "cuda::pinned_memory_pool")]
#[derive(Clone, Debug)]
pub struct CudaAsyncPinnedMemoryResource {
    pool: Arc<DriverPool>,
}

/// What a new [`CudaAsyncPinnedMemoryResource`] should be.
#[derive(Clone, Copy, Debug)]
#[must_use = "a builder does nothing until it is built"]
pub struct CudaAsyncPinnedMemoryResourceBuilder {
    initial_size: usize,
    release_threshold: u64,
    numa_node: Option<c_int>,
}

impl CudaAsyncPinnedMemoryResource {
    const NAME: &str = "cuda-async-pinned";

    /// A resource over a new pool of host memory, that keeps freed memory until the resource is dropped.
    ///
    /// # Errors
    /// [`ErrorKind::Unsupported`](rmm_core::ErrorKind::Unsupported) if the current device or the driver has no pools of host
    /// memory (from CUDA 13.0 on); whatever the driver refuses.
    pub fn new() -> Result<Self, Error> {
        Self::builder().build()
    }

    /// Options for a new resource.
    pub fn builder() -> CudaAsyncPinnedMemoryResourceBuilder {
        CudaAsyncPinnedMemoryResourceBuilder {
            initial_size: 0,
            release_threshold: u64::MAX,
            numa_node: None,
        }
    }
}

impl CudaAsyncPinnedMemoryResourceBuilder {
    /// Bytes to pin at once; 0 by default.
    pub fn initial_size(mut self, bytes: usize) -> Self {
        self.initial_size = bytes;
        self
    }

    /// Bytes of freed memory that the pool may keep when a stream is synchronized; no limit by default.
    pub fn release_threshold(mut self, bytes: u64) -> Self {
        self.release_threshold = bytes;
        self
    }

    /// The NUMA node of the host that the memory should be on; any by default. The device's attribute `HOST_NUMA_ID` tells the
    /// nearest.
    pub fn numa_node(mut self, node: c_int) -> Self {
        self.numa_node = Some(node);
        self
    }

    /// Makes the pool.
    ///
    /// # Errors
    /// As [`CudaAsyncPinnedMemoryResource::new`], and [`ErrorKind::OutOfMemory`](rmm_core::ErrorKind::OutOfMemory) if the initial
    /// size can not be had. If there is no such NUMA node, the driver says so.
    pub fn build(self) -> Result<CudaAsyncPinnedMemoryResource, Error> {
        let name = CudaAsyncPinnedMemoryResource::NAME;
        let device = Device::current()?;
        let location = match self.numa_node {
            None => {
                let needed = CuDeviceAttribute::HOST_MEMORY_POOLS_SUPPORTED;
                require(name, device, needed, "has no pools of host memory")?;
                CuMemLocation { kind: CuMemLocationType::HOST, id: 0 }
            }
            Some(node) => {
                let needed = CuDeviceAttribute::HOST_NUMA_MEMORY_POOLS_SUPPORTED;
                require(name, device, needed, "has no pools of host memory on a NUMA node")?;
                CuMemLocation { kind: CuMemLocationType::HOST_NUMA, id: node }
            }
        };
        // From here on the pool goes if a step fails.
        let pool = DriverPool::create(&CuMemPoolProps::pinned(location))?;
        // Only the host may use such a pool at first.
        pool.grant_access(&devices_with_pools()?)?;
        pool.set_release_threshold(self.release_threshold)?;
        pool.prime(name, self.initial_size)?;
        Ok(CudaAsyncPinnedMemoryResource { pool: Arc::new(pool) })
    }
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

pool_resource!(CudaAsyncPinnedMemoryResource, |claims| claims
    .has::<DeviceAccessible>()
    .has::<HostAccessible>()
    .knows::<MemoryKind>());

// SAFETY: the devices are given access when the pool is made, and it is taken from them by unsafe code only.
unsafe impl HasProperty<DeviceAccessible> for CudaAsyncPinnedMemoryResource {}
// SAFETY: the pool is made at the host's location.
unsafe impl HasProperty<HostAccessible> for CudaAsyncPinnedMemoryResource {}

known_kind!(CudaAsyncPinnedMemoryResource, Pinned);
