//! Pools of the driver's: what the stream-ordered resources share.

mod access;
mod attributes;
mod facts;
mod resource;
#[cfg(unix)]
mod sharing;

use std::alloc::Layout;

use rmm_core::{
    DevicePtr, Error, StreamRef, check, current_driver, driver_for_drop, driver_in_context,
};
use rmm_sys::{CuMemAllocationType, CuMemLocation, CuMemLocationType, CuMemPool, CuMemPoolProps};

use crate::capability::{check_alignment, driver_for_freeing};

pub use attributes::PoolReuse;
pub(crate) use resource::pool_resource;
#[cfg(unix)]
pub use sharing::ImportedPool;

/// A pool of the driver's (`cudaMemPool_t`), below a resource such as
/// [`CudaAsyncMemoryResource`](crate::CudaAsyncMemoryResource): what it holds, and how it is set up.
///
/// It has no clones; two are equal if they are the same pool of the driver's. Any thread may use it.
///
/// ```
/// use rmm_resources::{CudaAsyncMemoryResource, PoolReuse};
///
/// # fn main() -> Result<(), rmm_core::Error> {
/// # let machine = rmm_sim::Machine::new();
/// # let _entered = machine.enter();
/// let resource = CudaAsyncMemoryResource::builder().initial_size(1 << 20).build()?;
/// let pool = resource.pool();
/// assert!(pool.reserved_bytes()? >= 1 << 20);
/// assert_eq!(pool.used_bytes()?, 0);
///
/// // Memory is handed from stream to stream only where the program's own events order them.
/// pool.set_reuse(PoolReuse::FOLLOW_EVENT_DEPENDENCIES)?;
/// pool.set_release_threshold(0)?;
/// pool.trim(0)?;
/// assert_eq!(pool.reserved_bytes()?, 0);
/// # Ok(())
/// # }
/// ```
#[doc(alias = "cudaMemPool_t")]
#[derive(Debug)]
pub struct DriverPool {
    /// # Invariant
    /// A pool that lives for as long as this does: its own, destroyed when it is dropped, or one that somebody else keeps.
    handle: CuMemPool,
    is_owned: bool,
}

impl DriverPool {
    /// Makes a pool, destroyed when the value is dropped.
    pub(crate) fn create(properties: &CuMemPoolProps) -> Result<Self, Error> {
        let driver = current_driver()?;
        let mut handle = CuMemPool::NULL;
        // SAFETY: `handle` may be written to, and `properties` is a complete description.
        let code = unsafe { driver.cuMemPoolCreate(&raw mut handle, properties) };
        check("cuMemPoolCreate", code)?;
        Ok(Self { handle, is_owned: true })
    }

    /// A pool that somebody else keeps.
    ///
    /// # Safety
    /// The pool lives for as long as the value.
    pub(crate) const unsafe fn borrowed(handle: CuMemPool) -> Self {
        Self { handle, is_owned: false }
    }

    /// The driver's own value.
    pub fn as_raw(&self) -> CuMemPool {
        self.handle
    }

    /// Gives freed memory back to the system until the pool holds no more than `keep` bytes, as far as it can.
    ///
    /// # Errors
    /// If the driver refuses.
    #[doc(alias = "cudaMemPoolTrimTo")]
    #[doc(alias = "trim_to")]
    pub fn trim(&self, keep: usize) -> Result<(), Error> {
        let driver = current_driver()?;
        // SAFETY: the pool exists, see `Self::handle`.
        check("cuMemPoolTrimTo", unsafe { driver.cuMemPoolTrimTo(self.handle, keep) })
    }

    /// The driver's default pool of a kind of memory at a location.
    pub(crate) fn default_at(
        mut location: CuMemLocation,
        kind: CuMemAllocationType,
    ) -> Result<Self, Error> {
        let driver = current_driver()?;
        let mut pool = CuMemPool::NULL;
        // SAFETY: both may be written to.
        let code = unsafe { driver.cuMemGetDefaultMemPool(&raw mut pool, &raw mut location, kind) };
        check("cuMemGetDefaultMemPool", code)?;
        // SAFETY: a default pool can not be destroyed.
        Ok(unsafe { Self::borrowed(pool) })
    }

    /// Has the pool take so many bytes from the system now. Errors name `resource`.
    pub(crate) fn prime(&self, resource: &'static str, bytes: usize) -> Result<(), Error> {
        let layout = Layout::from_size_align(bytes, 1).map_err(|error| {
            Error::invalid_argument(resource, "initial size is too large").with_source(error)
        })?;
        let pointer = self.allocate_sync(resource, layout)?;
        // SAFETY: allocated just now with this layout, and not used.
        unsafe { self.deallocate_sync(pointer, layout) };
        Ok(())
    }

    pub(crate) fn allocate(
        &self,
        resource: &'static str,
        stream: StreamRef<'_>,
        layout: Layout,
    ) -> Result<DevicePtr, Error> {
        if layout.size() == 0 {
            return Ok(DevicePtr::NULL);
        }
        check_alignment(resource, layout)?;
        let (driver, _) = driver_in_context()?;
        let mut pointer = DevicePtr::NULL;
        let bytes = layout.size();
        // SAFETY: `pointer` may be written to, the pool exists, and so does the stream while it is borrowed.
        let code = unsafe {
            driver.cuMemAllocFromPoolAsync(&raw mut pointer, bytes, self.handle, stream.as_raw())
        };
        check("cuMemAllocFromPoolAsync", code)
            .map_err(|error| error.with_layout(layout).with_stream(stream.id()))?;
        Ok(pointer)
    }

    /// # Safety
    /// As for [`Resource::deallocate`](rmm_core::Resource::deallocate) of a resource over this pool.
    #[expect(
        clippy::unused_self,
        reason = "the contract is about this pool; the driver finds it by the address"
    )]
    pub(crate) unsafe fn deallocate(
        &self,
        stream: StreamRef<'_>,
        pointer: DevicePtr,
        layout: Layout,
    ) {
        if layout.size() == 0 {
            return;
        }
        if let Some(driver) = driver_for_freeing() {
            // SAFETY: by the caller's contract the memory came from this pool and is not freed yet, and all uses are ordered
            // before this place on the stream.
            let _stays_allocated = unsafe { driver.cuMemFreeAsync(pointer, stream.as_raw()) };
        }
    }

    pub(crate) fn allocate_sync(
        &self,
        resource: &'static str,
        layout: Layout,
    ) -> Result<DevicePtr, Error> {
        let stream = StreamRef::legacy();
        let pointer = self.allocate(resource, stream, layout)?;
        if layout.size() > 0
            && let Err(error) = stream.synchronize()
        {
            // SAFETY: allocated just now with this layout on this stream, and not used.
            unsafe { self.deallocate(stream, pointer, layout) };
            return Err(error);
        }
        Ok(pointer)
    }

    /// # Safety
    /// As for [`SyncResource::deallocate_sync`](rmm_core::SyncResource::deallocate_sync) of a resource over this pool.
    pub(crate) unsafe fn deallocate_sync(&self, pointer: DevicePtr, layout: Layout) {
        if layout.size() == 0 {
            return;
        }
        let stream = StreamRef::legacy();
        // SAFETY: the caller's contract: all uses have completed, so they are ordered before anything.
        unsafe { self.deallocate(stream, pointer, layout) };
        if driver_for_drop().is_some() {
            // What other streams may do with the memory is the driver's to order; a failure here is reported by the next call.
            let _reported_later = stream.synchronize();
        }
    }
}

impl Drop for DriverPool {
    fn drop(&mut self) {
        if self.is_owned
            && let Some(driver) = driver_for_drop()
        {
            // SAFETY: the pool exists, and this is its last use: whoever holds memory of it holds the resource too. A failure
            // means that the driver is gone: nothing is left to free.
            let _gone = unsafe { driver.cuMemPoolDestroy(self.handle) };
        }
    }
}

impl PartialEq for DriverPool {
    /// Whether they are the same pool of the driver's.
    fn eq(&self, other: &Self) -> bool {
        self.handle == other.handle
    }
}

impl Eq for DriverPool {}

/// Refuses an initial size that the pool could not reach, or would give back at once. A maximum of 0 is none.
pub(crate) fn check_sizes(
    resource: &'static str,
    initial: usize,
    maximum: usize,
    release_threshold: u64,
) -> Result<(), Error> {
    let above = if maximum > 0 && initial > maximum {
        format!("maximum size of {maximum}")
    } else if initial as u64 > release_threshold {
        format!("release threshold of {release_threshold}")
    } else {
        return Ok(());
    };
    let message = format!("an initial size of {initial} bytes is above the {above}");
    Err(Error::invalid_argument(resource, message))
}

/// A device as the place of memory.
pub(crate) fn on_device(device: rmm_core::Device) -> CuMemLocation {
    CuMemLocation { kind: CuMemLocationType::DEVICE, id: device.as_raw().0 }
}
