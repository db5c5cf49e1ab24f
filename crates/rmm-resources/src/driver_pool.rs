//! Driver memory pools (`cudaMemPool_t`), on which the stream-ordered resources are built.

mod access;
mod attributes;
mod creation;
mod foreign;
mod resource;
#[cfg(unix)]
mod sharing;
mod trim;

use std::alloc::Layout;
use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use rmm_core::siblings::{Siblings, allocate_with};
use rmm_core::synchronize_unless_captured;
use rmm_core::{
    Context, Device, DevicePtr, Error, MemoryKind, RelaxedCapture, StreamRef, TrimmableResource,
    ask_again, check, current_driver, driver_for_drop, driver_in_context,
};
use rmm_sys::{
    CuDeviceAttribute, CuMemAccessFlags, CuMemAllocationType, CuMemHandleType, CuMemLocation,
    CuMemLocationType, CuMemPool, CuMemPoolProps, CuResult, Driver,
};

use crate::ExportHandleTypes;
use crate::capability::{
    addressable, attribute, calls_for, calls_for_freeing, check_alignment, lacking, wrong_device,
};

pub use attributes::PoolReuse;
pub(crate) use foreign::foreign_pools;
pub(crate) use resource::pool_resource;
#[cfg(unix)]
pub use sharing::ImportedPool;

/// A driver memory pool (`cudaMemPool_t`) of a resource such as
/// [`CudaAsyncMemoryResource`](crate::CudaAsyncMemoryResource): its statistics and attributes.
///
/// Two are equal if they are the same driver pool. Any thread may use it.
///
/// ```
/// use rmm_resources::{CudaAsyncMemoryResource, PoolReuse};
///
/// # fn main() -> Result<(), rmm_core::Error> {
/// # let _machine = rmm_sim::enter();
/// let resource = CudaAsyncMemoryResource::builder().initial_size(1 << 20).build()?;
/// let pool = resource.pool();
/// assert!(pool.reserved_bytes()? >= 1 << 20);
/// assert_eq!(pool.used_bytes()?, 0);
///
/// // Reuse memory on another stream only if the program's own events order the two.
/// pool.set_reuse(PoolReuse::FOLLOW_EVENT_DEPENDENCIES)?;
/// pool.set_release_threshold(0)?;
/// pool.trim(0)?;
/// assert_eq!(pool.reserved_bytes()?, 0);
/// # Ok(())
/// # }
/// ```
#[doc(alias = "cudaMemPool_t")]
pub struct DriverPool {
    /// # Invariant
    /// A pool that exists as long as this value: either owned, and destroyed with it, or kept alive
    /// by its owner.
    handle: CuMemPool,
    is_owned: bool,
    /// Whether its memory is known to be managed, which every device may access.
    is_managed: bool,
    /// The context of the device that was last found to have access; 0 if none was.
    reached_from: AtomicUsize,
    /// Its place among the suballocators of its device, once it is announced.
    place: OnceLock<Siblings>,
}

impl DriverPool {
    /// Creates a pool, destroyed when the value is dropped.
    pub(crate) fn create(properties: &CuMemPoolProps) -> Result<Self, Error> {
        let driver = current_driver()?;
        let mut handle = CuMemPool::NULL;
        let _relaxed = RelaxedCapture::enter();
        // SAFETY: `handle` may be written to, and `properties` is a complete description.
        let code = unsafe { driver.cuMemPoolCreate(&raw mut handle, properties) };
        check("cuMemPoolCreate", code)?;
        let is_managed = properties.kind == CuMemAllocationType::MANAGED;
        Ok(Self::owned(handle, is_managed))
    }

    /// Takes ownership of a pool.
    const fn owned(handle: CuMemPool, is_managed: bool) -> Self {
        Self {
            handle,
            is_owned: true,
            is_managed,
            reached_from: AtomicUsize::new(0),
            place: OnceLock::new(),
        }
    }

    /// Shares the pool. From now on other suballocators of the device may ask it for memory that is
    /// not in use, and it asks them when the driver is out of memory.
    ///
    /// # Errors
    /// If the driver refuses the query for the device.
    pub(crate) fn announce(self, device: Device, kind: MemoryKind) -> Result<Arc<Self>, Error> {
        Ok(self.join(device, kind)?.announced())
    }

    /// Shares a pool that has joined: the others may ask it.
    fn announced(self) -> Arc<Self> {
        let pool = Arc::new(self);
        let trimmable: Arc<dyn TrimmableResource> = Arc::clone(&pool) as _;
        if let Some(place) = pool.place.get() {
            place.announce(Arc::downgrade(&trimmable), None);
        }
        pool
    }

    /// From now on the pool asks other suballocators of the device when the driver is out of
    /// memory.
    ///
    /// # Errors
    /// If the driver refuses the query for the device.
    pub(crate) fn join(mut self, device: Device, kind: MemoryKind) -> Result<Self, Error> {
        self.place = OnceLock::from(Siblings::join(device, Some(kind))?);
        Ok(self)
    }

    /// The current device is known to have access.
    pub(crate) fn note_access_of_current(&self) -> Result<(), Error> {
        self.reached_from.store(Context::current()?.as_raw().addr(), Ordering::Relaxed);
        Ok(())
    }

    /// Wraps a pool that the caller keeps alive.
    ///
    /// # Safety
    /// The pool exists as long as the value.
    pub(crate) const unsafe fn borrowed(handle: CuMemPool) -> Self {
        Self {
            handle,
            is_owned: false,
            is_managed: false,
            reached_from: AtomicUsize::new(0),
            place: OnceLock::new(),
        }
    }

    /// The driver's handle.
    pub fn as_raw(&self) -> CuMemPool {
        self.handle
    }

    /// Releases freed memory to the system until the pool holds at most `keep` bytes, as far as
    /// possible.
    ///
    /// # Errors
    /// If the driver refuses.
    #[doc(alias = "cudaMemPoolTrimTo")]
    #[doc(alias = "trim_to")]
    pub fn trim(&self, keep: u64) -> Result<(), Error> {
        let driver = calls_for(None)?;
        // A value beyond the address space means everything.
        let keep = usize::try_from(keep).unwrap_or(usize::MAX);
        // SAFETY: the pool exists, see `Self::handle`.
        check("cuMemPoolTrimTo", unsafe { driver.cuMemPoolTrimTo(self.handle, keep) })
    }

    /// Releases freed memory to the system, as [`trim`](Self::trim) does, after a wait on this
    /// thread for all work of the current device, so that memory which was freed on a stream can be
    /// released. While a capture is announced, or the default stream is under capture, it does not
    /// wait.
    ///
    /// ```
    /// use std::alloc::Layout;
    /// use rmm_core::{CudaStream, Resource};
    /// use rmm_resources::CudaAsyncMemoryResource;
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let _machine = rmm_sim::Machine::builder().schedule(rmm_sim::Schedule::Lazy).enter();
    /// let (resource, stream) = (CudaAsyncMemoryResource::new()?, CudaStream::new()?);
    /// let layout = Layout::from_size_align(8 << 20, 256)?;
    /// let block = resource.allocate(&stream, layout)?;
    /// // SAFETY: allocated above with this layout; its only stream is the one it is freed on.
    /// unsafe { resource.deallocate(&stream, block, layout) }; // not yet complete
    /// resource.pool().trim_blocking(0)?;
    /// assert_eq!(resource.reserved_bytes()?, 0);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// If the driver refuses the wait or the release.
    pub fn trim_blocking(&self, keep: u64) -> Result<(), Error> {
        let _relaxed = RelaxedCapture::enter();
        driver_in_context()?;
        synchronize_unless_captured()?;
        self.trim(keep)
    }

    /// The driver's default pool for a kind of memory at a location.
    pub(crate) fn default_at(
        mut location: CuMemLocation,
        kind: CuMemAllocationType,
    ) -> Result<Self, Error> {
        let driver = current_driver()?;
        let mut pool = CuMemPool::NULL;
        // SAFETY: both may be written to.
        let code = unsafe { driver.cuMemGetDefaultMemPool(&raw mut pool, &raw mut location, kind) };
        check("cuMemGetDefaultMemPool", code)?;
        // SAFETY: a default pool cannot be destroyed.
        let mut pool = unsafe { Self::borrowed(pool) };
        pool.is_managed = kind == CuMemAllocationType::MANAGED;
        Ok(pool)
    }

    /// Grows the pool to that many bytes now. Errors name `resource`.
    pub(crate) fn prime(&self, resource: &'static str, bytes: u64) -> Result<(), Error> {
        if bytes == 0 {
            return Ok(());
        }
        let bytes = addressable(resource, "initial size", bytes)?;
        let layout = Layout::from_size_align(bytes, 1).map_err(|error| {
            Error::invalid_argument(resource, "initial size is too large").with_source(error)
        })?;
        let pointer = self.allocate_sync(resource, layout)?;
        // SAFETY: allocated just now with this layout, and not used.
        unsafe { self.deallocate_sync(pointer) };
        Ok(())
    }

    /// Allocates on a stream, whose device must have access to the pool.
    pub(crate) fn allocate(
        &self,
        resource: &'static str,
        stream: StreamRef<'_>,
        layout: Layout,
    ) -> Result<DevicePtr, Error> {
        check_alignment(resource, layout)?;
        self.check_device(resource, stream).map_err(|error| error.with_layout(layout))?;
        self.allocate_on(resource, stream, layout)
    }

    /// Fails if the stream's device has no access to the pool.
    fn check_device(&self, resource: &'static str, stream: StreamRef<'_>) -> Result<(), Error> {
        let context = stream.context()?;
        let address = context.as_raw().addr();
        if self.reached_from.load(Ordering::Relaxed) == address {
            return Ok(());
        }
        let device = stream.device()?;
        let access = self.access(device);
        // The driver reports `NONE` for managed memory. If the query fails, the allocation decides.
        let is_refused = !self.is_managed
            && matches!(access, Ok(CuMemAccessFlags::NONE))
            && !matches!(self.allocation_type(), Ok(CuMemAllocationType::MANAGED));
        if is_refused {
            return Err(wrong_device(resource, device, "grant it access to the pool"));
        }
        // A failed query is repeated the next time.
        if self.is_managed || access.is_ok() {
            self.reached_from.store(address, Ordering::Relaxed);
        }
        Ok(())
    }

    fn allocate_on(
        &self,
        resource: &'static str,
        stream: StreamRef<'_>,
        layout: Layout,
    ) -> Result<DevicePtr, Error> {
        check_alignment(resource, layout)?;
        let driver = calls_for(Some(stream))?;
        let allocate = || self.ask_driver(&driver, stream, layout);
        let others = || self.place.get().map(|place| place.others(None).that_may_be_waited_for());
        allocate_with(Some(stream), layout.size() as u64, allocate, others)
    }

    fn ask_driver(
        &self,
        driver: &Driver,
        stream: StreamRef<'_>,
        layout: Layout,
    ) -> Result<DevicePtr, Error> {
        let mut pointer = DevicePtr::NULL;
        let bytes = layout.size();
        // SAFETY: `pointer` may be written to, the pool exists, and so does the stream while it is
        // borrowed.
        let code = unsafe {
            driver.cuMemAllocFromPoolAsync(&raw mut pointer, bytes, self.handle, stream.as_raw())
        };
        check("cuMemAllocFromPoolAsync", code)
            .map_err(|error| error.with_layout(layout).with_stream(stream.id()))?;
        Ok(pointer)
    }

    /// # Safety
    /// As for [`Resource::deallocate`](rmm_core::Resource::deallocate) of a resource over this
    /// pool.
    #[expect(
        clippy::unused_self,
        reason = "the contract is about this pool; the driver finds it by the address"
    )]
    pub(crate) unsafe fn deallocate(&self, stream: StreamRef<'_>, pointer: DevicePtr) {
        // After a reset of the device the stream's handle may refer to another stream. A query that
        // fails for another reason is retried.
        if let Some(driver) = calls_for_freeing()
            && ask_again(|| stream.check_context()).is_ok()
        {
            // SAFETY: by the caller's contract the memory came from this pool and is not freed yet,
            // and all uses are ordered before this place on the stream. If the driver refuses, it
            // stays allocated.
            let _ignored = unsafe { driver.cuMemFreeAsync(pointer, stream.as_raw()) };
        }
    }

    pub(crate) fn allocate_sync(
        &self,
        resource: &'static str,
        layout: Layout,
    ) -> Result<DevicePtr, Error> {
        check_alignment(resource, layout)?;
        let _relaxed = RelaxedCapture::enter();
        let stream = default_stream_that_runs(resource)?;
        let pointer = self.allocate_on(resource, stream, layout)?;
        if let Err(error) = stream.synchronize() {
            // SAFETY: allocated just now with this layout on this stream, and not used.
            unsafe { self.deallocate(stream, pointer) };
            return Err(error);
        }
        Ok(pointer)
    }

    /// # Safety
    /// As for
    /// [`SynchronousResource::deallocate_sync`](rmm_core::SynchronousResource::deallocate_sync) of
    /// a resource over this pool.
    pub(crate) unsafe fn deallocate_sync(&self, pointer: DevicePtr) {
        if driver_for_drop().is_none() {
            return;
        }
        let _relaxed = RelaxedCapture::enter();
        let Ok(stream) = default_stream_that_runs("DriverPool") else {
            // Both default streams are captured or wait for a captured stream: the block stays
            // allocated.
            return;
        };
        // SAFETY: the caller's contract: all uses have completed, so they are ordered before all
        // later work.
        unsafe { self.deallocate(stream, pointer) };
        if driver_for_drop().is_some() {
            // The driver orders the reuse of the memory; the next call reports a failure of this
            // one.
            let _ignored = stream.synchronize();
        }
    }
}

/// One short line: resources show the pool that they allocate from.
impl fmt::Debug for DriverPool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DriverPool")
            .field("handle", &self.handle)
            .field("is_owned", &self.is_owned)
            .field("is_managed", &self.is_managed)
            .finish_non_exhaustive()
    }
}

impl Drop for DriverPool {
    fn drop(&mut self) {
        if self.is_owned
            && let Some(driver) = driver_for_drop()
        {
            let _relaxed = RelaxedCapture::enter();
            // SAFETY: the pool exists, and this is its last use: the owner of memory from it also
            // keeps the resource. A failure means that the driver is gone: nothing is left to free.
            let _ignored = unsafe { driver.cuMemPoolDestroy(self.handle) };
        }
    }
}

impl PartialEq for DriverPool {
    /// Whether they are the same driver pool.
    fn eq(&self, other: &Self) -> bool {
        self.handle == other.handle
    }
}

impl Eq for DriverPool {}

/// A default stream that is neither captured nor blocked by a capture, for synchronous calls.
fn default_stream_that_runs(resource: &'static str) -> Result<StreamRef<'static>, Error> {
    let _ignored = driver_in_context();
    let is_blocked = |stream: &StreamRef<'_>| match stream.is_capturing() {
        Ok(is_captured) => is_captured,
        Err(error) => error.code().is_some_and(CuResult::is_capture),
    };
    let mut streams = [StreamRef::legacy(), StreamRef::per_thread()].into_iter();
    streams.find(|stream| !is_blocked(stream)).ok_or_else(|| {
        let message = "a capture blocks the default streams: ask in the order of another stream";
        Error::unsupported(resource, message)
    })
}

/// Fails if the initial size is above the maximum size (0 for none), or above the release
/// threshold, so that it would be released at once.
pub(crate) fn check_sizes(
    resource: &'static str,
    initial: u64,
    maximum: u64,
    release_threshold: u64,
) -> Result<(), Error> {
    let above = if maximum > 0 && initial > maximum {
        format!("maximum size of {maximum}")
    } else if initial > release_threshold {
        format!("release threshold of {release_threshold}")
    } else {
        return Ok(());
    };
    let message = format!("an initial size of {initial} bytes is above the {above}");
    Err(Error::invalid_argument(resource, message))
}

/// Fails if the device cannot export pools to all of the types.
pub(crate) fn check_handle_types(
    resource: &'static str,
    device: Device,
    types: ExportHandleTypes,
) -> Result<CuMemHandleType, Error> {
    if !types.is_empty() {
        let known = attribute(device, CuDeviceAttribute::MEMPOOL_SUPPORTED_HANDLE_TYPES)?;
        let known = ExportHandleTypes::from_bits_retain(known.cast_unsigned());
        let missing = types.difference(known);
        if !missing.is_empty() {
            return Err(lacking(resource, device, &format!("cannot export pools to {missing:?}")));
        }
    }
    Ok(CuMemHandleType(types.bits()))
}

/// A device as a memory location.
pub(crate) fn on_device(device: rmm_core::Device) -> CuMemLocation {
    CuMemLocation { kind: CuMemLocationType::DEVICE, id: device.as_raw().0 }
}
