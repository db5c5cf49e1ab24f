//! `cudaMallocAsync`: the driver's own pool.

use std::alloc::Layout;
use std::sync::Arc;

use rmm_core::{
    Claims, Device, DeviceAccessible, DevicePtr, Error, HasMemoryKind, HasProperty,
    HasPropertyValue, MemoryKind, Resource, StreamRef, SyncResource, check, current_driver,
    driver_in_context,
};
use rmm_sys::{
    CuDeviceAttribute, CuMemLocation, CuMemLocationType, CuMemPool, CuMemPoolAttribute,
    CuMemPoolProps,
};

use crate::{check_alignment, driver_for_freeing};

/// Device memory from a pool of the driver's, in stream order (`cudaMallocAsync`, `cudaFreeAsync`).
///
/// Each value made by [`new`](Self::new) or [`builder`](Self::builder) has a driver pool of its own on the device that is
/// current then, destroyed with the last clone. Clones are equal, others are not. Any thread may use it.
///
/// ```
/// use std::alloc::Layout;
/// use rmm_core::{CudaStream, Resource};
/// use rmm_resources::CudaAsyncMemoryResource;
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let machine = rmm_sim::Machine::new();
/// # let _entered = machine.enter();
/// let resource = CudaAsyncMemoryResource::new()?;
/// let stream = CudaStream::new()?;
/// let layout = Layout::from_size_align(4096, 256)?;
/// let pointer = resource.allocate(stream.as_ref(), layout)?;
/// assert!(resource.reserved_bytes()? >= 4096);
/// // SAFETY: allocated above with this layout; its only stream is the one it is freed on.
/// unsafe { resource.deallocate(stream.as_ref(), pointer, layout) };
/// # Ok(())
/// # }
/// ```
#[doc(alias = "rmm::mr::cuda_async_memory_resource")]
#[doc(alias = "cuda::async_device_resource")]
#[derive(Clone, Debug)]
pub struct CudaAsyncMemoryResource {
    pool: Arc<Pool>,
}

/// What a new [`CudaAsyncMemoryResource`] should be.
#[derive(Clone, Copy, Debug)]
#[must_use = "a builder does nothing until it is built"]
pub struct CudaAsyncMemoryResourceBuilder {
    initial_size: usize,
    release_threshold: u64,
}

#[derive(Debug)]
struct Pool {
    /// # Invariant
    /// A pool made by `cuMemPoolCreate`, destroyed only when this is dropped.
    handle: CuMemPool,
}

impl CudaAsyncMemoryResource {
    /// A resource over a new driver pool of the current device, that keeps freed memory until the resource is dropped.
    ///
    /// # Errors
    /// [`ErrorKind::Unsupported`](rmm_core::ErrorKind::Unsupported) if the device has no memory pools; whatever the driver
    /// refuses.
    pub fn new() -> Result<Self, Error> {
        Self::builder().build()
    }

    /// Options for a new resource.
    pub fn builder() -> CudaAsyncMemoryResourceBuilder {
        CudaAsyncMemoryResourceBuilder { initial_size: 0, release_threshold: u64::MAX }
    }

    /// The driver's own value for the pool.
    #[doc(alias = "pool_handle")]
    pub fn as_raw(&self) -> CuMemPool {
        self.pool.handle
    }

    /// Bytes that the pool holds now.
    ///
    /// # Errors
    /// If the driver refuses.
    pub fn reserved_bytes(&self) -> Result<u64, Error> {
        self.pool.attribute(CuMemPoolAttribute::RESERVED_MEM_CURRENT)
    }

    /// The most bytes that the pool has held.
    ///
    /// # Errors
    /// If the driver refuses.
    pub fn peak_reserved_bytes(&self) -> Result<u64, Error> {
        self.pool.attribute(CuMemPoolAttribute::RESERVED_MEM_HIGH)
    }

    /// Gives freed memory back to the device until the pool holds no more than `keep` bytes, as far as it can.
    ///
    /// # Errors
    /// If the driver refuses.
    #[doc(alias = "cudaMemPoolTrimTo")]
    pub fn trim(&self, keep: usize) -> Result<(), Error> {
        let driver = current_driver()?;
        // SAFETY: the pool exists, see `Pool::handle`.
        check("cuMemPoolTrimTo", unsafe { driver.cuMemPoolTrimTo(self.pool.handle, keep) })
    }
}

impl CudaAsyncMemoryResourceBuilder {
    /// Bytes to take from the device at once; 0 by default.
    pub fn initial_size(mut self, bytes: usize) -> Self {
        self.initial_size = bytes;
        self
    }

    /// Bytes of freed memory that the pool may keep when a stream is synchronized; no limit by default.
    pub fn release_threshold(mut self, bytes: u64) -> Self {
        self.release_threshold = bytes;
        self
    }

    /// Makes the pool.
    ///
    /// # Errors
    /// As [`CudaAsyncMemoryResource::new`], and [`ErrorKind::OutOfMemory`](rmm_core::ErrorKind::OutOfMemory) if the initial
    /// size can not be had.
    pub fn build(self) -> Result<CudaAsyncMemoryResource, Error> {
        let device = Device::current()?;
        if device.attribute(CuDeviceAttribute::MEMORY_POOLS_SUPPORTED)? == 0 {
            return Err(Error::unsupported(
                "cuda-async",
                format!("device {} has no memory pools", device.ordinal()),
            ));
        }
        let driver = current_driver()?;
        let location = CuMemLocation { kind: CuMemLocationType::DEVICE, id: device.as_raw().0 };
        let properties = CuMemPoolProps::pinned(location);
        let mut handle = CuMemPool::NULL;
        // SAFETY: `handle` may be written to, and `properties` is a complete description.
        let code = unsafe { driver.cuMemPoolCreate(&raw mut handle, &raw const properties) };
        check("cuMemPoolCreate", code)?;
        let resource = CudaAsyncMemoryResource { pool: Arc::new(Pool { handle }) };

        let mut threshold = self.release_threshold;
        let attribute = CuMemPoolAttribute::RELEASE_THRESHOLD;
        // SAFETY: the pool exists, and the attribute is a `u64`, which is what the pointer names.
        let code =
            unsafe { driver.cuMemPoolSetAttribute(handle, attribute, (&raw mut threshold).cast()) };
        check("cuMemPoolSetAttribute", code)?;

        if self.initial_size > 0 {
            let layout = Layout::from_size_align(self.initial_size, 1).map_err(|error| {
                Error::invalid_argument("cuda-async", "initial size is too large")
                    .with_source(error)
            })?;
            let pointer = resource.allocate_sync(layout)?;
            // SAFETY: allocated just now with this layout, and not used.
            unsafe { resource.deallocate_sync(pointer, layout) };
        }
        Ok(resource)
    }
}

impl Pool {
    fn attribute(&self, attribute: CuMemPoolAttribute) -> Result<u64, Error> {
        let driver = current_driver()?;
        let mut value = 0u64;
        // SAFETY: the pool exists, and the attributes asked for here are `u64`s, which is what the pointer names.
        let code = unsafe {
            driver.cuMemPoolGetAttribute(self.handle, attribute, (&raw mut value).cast())
        };
        check("cuMemPoolGetAttribute", code)?;
        Ok(value)
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        if let Some(driver) = rmm_core::driver_for_drop() {
            // SAFETY: the pool exists, and this is its last use: whoever holds memory of it holds the resource too. A failure
            // means that the driver is gone: nothing is left to free.
            let _gone = unsafe { driver.cuMemPoolDestroy(self.handle) };
        }
    }
}

impl PartialEq for CudaAsyncMemoryResource {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.pool, &other.pool)
    }
}

impl Eq for CudaAsyncMemoryResource {}

// SAFETY: the driver hands out each piece of memory once until it is freed, aligned to 256 bytes at least, larger alignments
// are refused, and the stream is synchronized before a call returns.
unsafe impl SyncResource for CudaAsyncMemoryResource {
    fn allocate_sync(&self, layout: Layout) -> Result<DevicePtr, Error> {
        let stream = StreamRef::legacy();
        let pointer = self.allocate(stream, layout)?;
        if let Err(error) = stream.synchronize() {
            // SAFETY: allocated just now with this layout on this stream, and not used.
            unsafe { self.deallocate(stream, pointer, layout) };
            return Err(error);
        }
        Ok(pointer)
    }

    unsafe fn deallocate_sync(&self, pointer: DevicePtr, layout: Layout) {
        let stream = StreamRef::legacy();
        // SAFETY: the caller's contract: all uses have completed, so they are ordered before anything.
        unsafe { self.deallocate(stream, pointer, layout) };
        // What other streams may do with the memory is the driver's to order; a failure here is reported by the next call.
        let _reported_later = stream.synchronize();
    }

    fn name(&self) -> &'static str {
        "cuda-async"
    }

    fn properties(&self, claims: &mut Claims<'_>) {
        claims.of(self).has::<DeviceAccessible>().knows::<MemoryKind>();
    }
}

// SAFETY: the driver keeps the contract of stream order for its own pools.
unsafe impl Resource for CudaAsyncMemoryResource {
    fn allocate(&self, stream: StreamRef<'_>, layout: Layout) -> Result<DevicePtr, Error> {
        if layout.size() == 0 {
            return Ok(DevicePtr::NULL);
        }
        check_alignment(self.name(), layout)?;
        let (driver, _) = driver_in_context()?;
        let mut pointer = DevicePtr::NULL;
        let (bytes, pool) = (layout.size(), self.pool.handle);
        // SAFETY: `pointer` may be written to, the pool exists, and so does the stream while it is borrowed.
        let code = unsafe {
            driver.cuMemAllocFromPoolAsync(&raw mut pointer, bytes, pool, stream.as_raw())
        };
        check("cuMemAllocFromPoolAsync", code)
            .map_err(|error| error.with_layout(layout).with_stream(stream.id()))?;
        Ok(pointer)
    }

    unsafe fn deallocate(&self, stream: StreamRef<'_>, pointer: DevicePtr, layout: Layout) {
        if layout.size() == 0 {
            return;
        }
        if let Ok(driver) = driver_for_freeing() {
            // SAFETY: by the caller's contract the memory came from this pool and is not freed yet, and all uses are ordered
            // before this place on the stream.
            let _stays_allocated = unsafe { driver.cuMemFreeAsync(pointer, stream.as_raw()) };
        }
    }
}

// SAFETY: the pool is made at a device's location.
unsafe impl HasProperty<DeviceAccessible> for CudaAsyncMemoryResource {}

// SAFETY: as above.
unsafe impl HasProperty<MemoryKind> for CudaAsyncMemoryResource {}

impl HasPropertyValue<MemoryKind> for CudaAsyncMemoryResource {
    fn property_value(&self) -> MemoryKind {
        Self::KIND
    }
}

// SAFETY: as above.
unsafe impl HasMemoryKind for CudaAsyncMemoryResource {
    const KIND: MemoryKind = MemoryKind::Device;
}
