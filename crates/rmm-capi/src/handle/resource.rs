//! Handles to resources.

use std::alloc::Layout;
use std::ffi::{CString, c_char};
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use rmm_adaptors::PoolMemoryResource;
use rmm_core::{
    AnyResource, DevicePtr, Error, Introspect, MemoryCaps, Resource as _, StreamRef,
    SynchronousResource as _,
};

use crate::handle::failure::Failure;
use crate::handle::status::{RMM_RS_OK, Status};
use crate::handle::{guard, library, text, watched};

/// The device may use the memory (`cuda::mr::device_accessible`).
pub const RMM_RS_DEVICE_ACCESSIBLE: u32 = 1;
/// The host may use the memory (`cuda::mr::host_accessible`).
pub const RMM_RS_HOST_ACCESSIBLE: u32 = 2;

/// The end of streams is unknown: the driver is asked for a stream's id at each use.
pub const RMM_RS_STREAM_POLICY_CHECKED: u32 = 0;
/// Streams live until the program says `rmm_rs_stream_forget`: nothing is asked.
pub const RMM_RS_STREAM_POLICY_KEPT: u32 = 1;

/// A resource. What C has is a counted reference to one.
#[derive(Debug)]
pub struct ResourceHandle {
    pub(crate) any: AnyResource<()>,
    /// The same resource, if it is a pool: a pair of calls that hits a thread's cache takes so few
    /// nanoseconds that those through the erased resource show.
    pool: Option<PoolMemoryResource<()>>,
    name: CString,
    /// How raw stream handles are identified: one of the policies. All resources of a stack share
    /// it.
    pub(crate) policy: Arc<AtomicU32>,
    /// Whether a free may note a failure: something in the stack checks frees.
    reports: bool,
}

impl ResourceHandle {
    pub(crate) fn new(any: AnyResource<()>, policy: Arc<AtomicU32>) -> Self {
        let name = CString::new(any.name()).unwrap_or_default();
        let pool = any.downcast_ref::<PoolMemoryResource<()>>().cloned();
        Self { any, pool, name, policy, reports: false }
    }

    /// A resource that is the first of its stack.
    pub(crate) fn base(any: AnyResource<()>) -> Self {
        Self::new(any, Arc::new(AtomicU32::new(RMM_RS_STREAM_POLICY_CHECKED)))
    }

    /// A new reference to a resource of Rust, for C: `rmm_rs_resource_release` releases it.
    ///
    /// ```
    /// use rmm_core::{AnyResource, SynchronousResource};
    /// use rmm_resources::CudaMemoryResource;
    ///
    /// let reference = rmm_rs::ResourceHandle::handle_of(AnyResource::of(&CudaMemoryResource::new()));
    /// // SAFETY: the reference was not released yet.
    /// unsafe { rmm_rs::handle::resource::rmm_rs_resource_release(reference) };
    /// ```
    pub fn handle_of(any: AnyResource<()>) -> *const Self {
        Arc::into_raw(Arc::new(Self::base(any)))
    }

    /// A resource over this one.
    pub(crate) fn below(&self, any: AnyResource<()>) -> Self {
        Self { reports: self.reports, ..Self::new(any, Arc::clone(&self.policy)) }
    }

    /// The resource, whose frees may note a failure.
    pub(crate) fn that_reports(self) -> Self {
        Self { reports: true, ..self }
    }

    /// Whether its frees may note a failure.
    pub(crate) fn reports(&self) -> bool {
        self.reports
    }

    /// Runs a free of this resource, and returns its status.
    #[inline]
    pub(crate) fn status_of(&self, free: impl FnOnce()) -> Status {
        if self.reports {
            return guard::noted_by(free);
        }
        free();
        RMM_RS_OK
    }

    #[inline]
    pub(crate) fn allocate(
        &self,
        stream: StreamRef<'_>,
        layout: Layout,
    ) -> Result<DevicePtr, Error> {
        match &self.pool {
            Some(pool) => pool.allocate(stream, layout),
            None => self.any.allocate(stream, layout),
        }
    }

    /// # Safety
    /// As for [`rmm_core::Resource::deallocate`].
    #[inline]
    pub(crate) unsafe fn deallocate(
        &self,
        stream: StreamRef<'_>,
        pointer: DevicePtr,
        layout: Layout,
    ) {
        match &self.pool {
            // SAFETY: the caller's contract is the same.
            Some(pool) => unsafe { pool.deallocate(stream, pointer, layout) },
            // SAFETY: as above.
            None => unsafe { self.any.deallocate(stream, pointer, layout) },
        }
    }

    pub(crate) fn keeps_streams(&self) -> bool {
        // It protects no other memory.
        self.policy.load(Ordering::Relaxed) == RMM_RS_STREAM_POLICY_KEPT
    }

    /// The resource as an upstream of one that needs memory of the device.
    pub(crate) fn of_device(&self) -> Result<AnyResource, Failure> {
        self.any.clone().try_widen().map_err(|_| {
            let name = self.any.name();
            Failure::invalid(format!("the device cannot use the memory of the upstream `{name}`"))
        })
    }
}

/// Gives a reference to C.
///
/// # Safety
/// `out` is null or may be written to.
pub(crate) unsafe fn give(
    resource: Arc<ResourceHandle>,
    out: *mut *const ResourceHandle,
) -> Result<(), Failure> {
    if out.is_null() {
        return Err(Failure::invalid("the place for the resource is null"));
    }
    // SAFETY: the caller's contract.
    unsafe { out.write(Arc::into_raw(resource)) };
    Ok(())
}

/// The resource behind a pointer of C.
///
/// # Safety
/// `resource` is null, or one that [`give`] gave and that stays for `'a`.
#[inline]
pub(crate) unsafe fn borrow<'a>(
    resource: *const ResourceHandle,
) -> Result<&'a ResourceHandle, Failure> {
    // SAFETY: the caller's contract.
    unsafe { resource.as_ref() }.ok_or_else(|| Failure::invalid("the resource is null"))
}

/// Makes a resource, whose reference goes to `out`. On failure null goes there.
///
/// # Safety
/// `out` is null or may be written to.
pub(crate) unsafe fn make(
    out: *mut *const ResourceHandle,
    make: impl FnOnce() -> Result<ResourceHandle, Failure>,
) -> i32 {
    // SAFETY: the caller's contract.
    unsafe { make_shared(out, || Ok(Arc::new(make()?))) }
}

/// Makes a resource that others may have too, and gives C a reference to it, as [`make`] does.
///
/// # Safety
/// `out` is null or may be written to.
pub(crate) unsafe fn make_shared(
    out: *mut *const ResourceHandle,
    make: impl FnOnce() -> Result<Arc<ResourceHandle>, Failure>,
) -> i32 {
    // SAFETY: the caller's contract.
    unsafe { library::clear(out) };
    guard::status(|| {
        if out.is_null() {
            return Err(Failure::invalid("the place for the resource is null"));
        }
        watched::first_resource();
        let resource = make()?;
        // SAFETY: the caller's contract.
        unsafe { give(resource, out) }
    })
}

/// Takes one more reference to the resource, and returns it. Null stays null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rmm_rs_resource_retain(
    resource: *const ResourceHandle,
) -> *const ResourceHandle {
    if !resource.is_null() {
        // SAFETY: it came from `Arc::into_raw`, and is live by the clause on handles.
        unsafe { Arc::increment_strong_count(resource) };
    }
    resource
}

/// Releases a reference. With the last one, and the last memory that a resource above it holds, the
/// resource ends. Null is allowed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rmm_rs_resource_release(resource: *const ResourceHandle) {
    guard::value((), || {
        if !resource.is_null() {
            // SAFETY: it came from `Arc::into_raw`, and by the clause on handles the reference is
            // the caller's, and ends here.
            drop(unsafe { Arc::from_raw(resource) });
        }
    });
}

/// Whether memory of one may be freed by the other. Null equals null only.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rmm_rs_resource_equal(
    resource: *const ResourceHandle,
    other: *const ResourceHandle,
) -> bool {
    guard::value(ptr::eq(resource, other), || {
        // SAFETY: by the clause on handles, both are null or live during the call.
        let (Some(one), Some(two)) = (unsafe { resource.as_ref() }, unsafe { other.as_ref() })
        else {
            return ptr::eq(resource, other);
        };
        one.any == two.any
    })
}

/// The name of the resource's kind, such as "pool": valid until the resource is released.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rmm_rs_resource_name(resource: *const ResourceHandle) -> *const c_char {
    // SAFETY: by the clause on handles, `resource` is null or live during the call.
    unsafe { resource.as_ref() }.map_or(c"".as_ptr(), |resource| resource.name.as_ptr())
}

/// Who may use the memory: the bits `RMM_RS_DEVICE_ACCESSIBLE` and `RMM_RS_HOST_ACCESSIBLE`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rmm_rs_resource_properties(resource: *const ResourceHandle) -> u32 {
    // Nothing is asked of the driver, so this holds while the process ends too.
    guard::contained(0, || {
        // SAFETY: by the clause on handles, `resource` is null or live during the call.
        let Some(resource) = (unsafe { resource.as_ref() }) else { return 0 };
        properties_of(&resource.any)
    })
}

/// The bits of the properties of a resource's memory.
pub(crate) fn properties_of(any: &AnyResource<()>) -> u32 {
    let caps = any.accessibility();
    let device = caps.contains(MemoryCaps::DEVICE_ACCESSIBLE);
    let host = caps.contains(MemoryCaps::HOST_ACCESSIBLE);
    u32::from(device) * RMM_RS_DEVICE_ACCESSIBLE + u32::from(host) * RMM_RS_HOST_ACCESSIBLE
}

/// Copies a text about a resource into a buffer of C, and returns its bytes: none if it fails.
///
/// # Safety
/// `resource` is null or live during the call, and `buffer` is null or has `capacity` bytes.
pub(crate) unsafe fn write_text_of(
    resource: *const ResourceHandle,
    buffer: *mut c_char,
    capacity: usize,
    text: impl FnOnce(&ResourceHandle) -> Result<String, Failure>,
) -> usize {
    // SAFETY: the caller's contract.
    unsafe { text::clear(buffer, capacity) };
    guard::value(0, || {
        // SAFETY: the caller's contract.
        let text = unsafe { borrow(resource) }.and_then(text);
        // SAFETY: the caller's contract.
        unsafe { text::write(&text.unwrap_or_default(), buffer, capacity) }
    })
}

/// Copies a description of the resource and those under it, with their sizes and counters, into the
/// buffer, as `rmm_rs_last_error_message` does with its text.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rmm_rs_resource_describe(
    resource: *const ResourceHandle,
    buffer: *mut c_char,
    capacity: usize,
) -> usize {
    let describe = |resource: &ResourceHandle| Ok(resource.any.describe().to_string());
    // SAFETY: by the clauses on handles and texts, for `resource` and `buffer`.
    unsafe { write_text_of(resource, buffer, capacity, describe) }
}

const _: () = {
    // Any thread may use and release a resource.
    const fn crosses_threads<T: Send + Sync>() {}
    crosses_threads::<ResourceHandle>();
};
