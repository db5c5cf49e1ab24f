//! Resources made of functions of the caller, and resources as such functions.
//!
//! A table of callbacks is how a resource goes from one copy of this library to another, or from
//! C++ to this library, in one process.

use std::alloc::Layout;
use std::ffi::c_void;
use std::sync::Arc;

use rmm_core::siblings::{MayBeWaitedFor, allocate_in_program, in_program};
use rmm_core::sys::CuResult;
use rmm_core::{
    AnyResource, DeviceAccessible, DevicePtr, Error, HasProperty, HostAccessible, Query, Resource,
    StreamRef, Synchronized, SynchronousResource, is_pointer_aligned, process_is_exiting, wait,
};

use crate::calls::allocate::{
    of_c, rmm_rs_resource_allocate, rmm_rs_resource_allocate_sync, rmm_rs_resource_deallocate,
    rmm_rs_resource_deallocate_sync, to_c,
};
use crate::handle::failure::Failure;
use crate::handle::guard;
use crate::handle::resource::{
    self, RMM_RS_DEVICE_ACCESSIBLE, RMM_RS_HOST_ACCESSIBLE, ResourceHandle, borrow, properties_of,
    rmm_rs_resource_equal, rmm_rs_resource_release, rmm_rs_resource_retain,
};
use crate::handle::sized::{self, Sized};
use crate::handle::status::{
    RMM_RS_INVALID_ARGUMENT, RMM_RS_NOT_READY, RMM_RS_OK, RMM_RS_OUT_OF_MEMORY, RMM_RS_REFUSED,
    Status,
};

/// Flag of a table of callbacks: the functions with a stream are there, and keep its order. Without
/// it only the synchronous ones are called, and the stream is synchronized before a free.
pub const RMM_RS_CALLBACKS_STREAM_ORDERED: u32 = 1;

/// The functions of a resource. Each gets `context` first and may be called on any thread, on
/// several at once. Those that can fail return a status, after `rmm_rs_set_last_error` with the
/// reason. An exception of C++ that leaves one of them ends the process. They may call this
/// library; a call of a resource that stands on them can recurse without end.
///
/// An allocating function may be called more than once for one request: if it runs out of memory,
/// and a call of this library in it did too, it is called again after other pools of the process
/// have returned memory. Each call must leave nothing behind when it fails.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Callbacks {
    /// `sizeof(rmm_rs_callbacks)`, set by the caller.
    pub size: usize,
    /// Who may use the memory: `RMM_RS_DEVICE_ACCESSIBLE`, `RMM_RS_HOST_ACCESSIBLE`.
    pub properties: u32,
    /// `RMM_RS_CALLBACKS_STREAM_ORDERED` or 0.
    pub flags: u32,
    /// Passed to each function.
    pub context: *mut c_void,
    /// Allocates in the order of a stream. May be called more than once for one request.
    pub allocate: Option<
        unsafe extern "C-unwind" fn(
            context: *mut c_void,
            stream: *mut c_void,
            bytes: usize,
            alignment: usize,
            out: *mut *mut c_void,
        ) -> Status,
    >,
    /// Frees in the order of a stream.
    pub deallocate: Option<
        unsafe extern "C-unwind" fn(
            context: *mut c_void,
            stream: *mut c_void,
            pointer: *mut c_void,
            bytes: usize,
            alignment: usize,
        ) -> Status,
    >,
    /// Allocates memory that may be used at once. An address that is null or not aligned, with
    /// `RMM_RS_OK`, is a failure.
    pub allocate_sync: Option<
        unsafe extern "C-unwind" fn(
            context: *mut c_void,
            bytes: usize,
            alignment: usize,
            out: *mut *mut c_void,
        ) -> Status,
    >,
    /// Frees memory that no work uses any more.
    pub deallocate_sync: Option<
        unsafe extern "C-unwind" fn(
            context: *mut c_void,
            pointer: *mut c_void,
            bytes: usize,
            alignment: usize,
        ) -> Status,
    >,
    /// Whether memory of one context may be freed by the other; both are of resources with the same
    /// functions. If null, a context equals itself only.
    pub equal:
        Option<unsafe extern "C-unwind" fn(context: *mut c_void, other: *mut c_void) -> bool>,
    /// Takes a reference to the context, and returns the context that the resource is to use. If
    /// null, the reference of the caller becomes the resource's.
    pub retain: Option<unsafe extern "C-unwind" fn(context: *mut c_void) -> *mut c_void>,
    /// Releases a reference to the context.
    pub release: Option<unsafe extern "C-unwind" fn(context: *mut c_void)>,
}

// SAFETY: it is `repr(C)`, begins with its size, and has numbers and pointers. Any bytes are valid
// for these; the clause on callbacks says which may be called.
unsafe impl Sized for Callbacks {}

impl Callbacks {
    /// Where its functions are: 0 for one that is missing.
    fn addresses(&self) -> [usize; 7] {
        [
            self.allocate.map_or(0, |function| function as usize),
            self.deallocate.map_or(0, |function| function as usize),
            self.allocate_sync.map_or(0, |function| function as usize),
            self.deallocate_sync.map_or(0, |function| function as usize),
            self.equal.map_or(0, |function| function as usize),
            self.retain.map_or(0, |function| function as usize),
            self.release.map_or(0, |function| function as usize),
        ]
    }

    /// Whether a resource may be made of the table again and again: each takes a reference, or
    /// there are none.
    fn can_be_shared(&self) -> bool {
        self.retain.is_some() || self.release.is_none()
    }
}

const NAME: &str = "callbacks";

/// A resource made of callbacks.
#[derive(Clone, Debug)]
pub(crate) struct Foreign(Arc<Table>);

#[derive(Debug)]
struct Table {
    /// # Invariant
    /// The four functions that the flags ask for are there.
    callbacks: Callbacks,
}

// SAFETY: by the clause on callbacks, they may be called with this context on any thread.
unsafe impl Send for Table {}
// SAFETY: by the clause on callbacks, they may be called on several threads at once.
unsafe impl Sync for Table {}

impl Drop for Table {
    fn drop(&mut self) {
        if let Some(release) = self.callbacks.release
            && !process_is_exiting()
        {
            // SAFETY: by the clause on callbacks, it may be called once for the resource's
            // reference, which ends here. A drop must not unwind.
            guard::value((), || unsafe { release(self.callbacks.context) });
        }
    }
}

impl PartialEq for Foreign {
    fn eq(&self, other: &Self) -> bool {
        let (one, two) = (&self.0.callbacks, &other.0.callbacks);
        let same_functions = one.addresses() == two.addresses();
        let equal = one.equal.filter(|_| same_functions);
        std::ptr::eq(one, two)
            || same_functions && one.context == two.context
            // SAFETY: by the clause on callbacks: both contexts are of these functions, and live
            // while their resources do.
            || equal.is_some_and(|equal| unsafe { equal(one.context, two.context) })
    }
}

impl Foreign {
    /// Takes the table in.
    ///
    /// # Safety
    /// The table keeps the crate's clause on callbacks.
    unsafe fn new(mut callbacks: Callbacks) -> Result<Self, Failure> {
        let Callbacks { flags, properties, .. } = callbacks;
        if flags & !RMM_RS_CALLBACKS_STREAM_ORDERED != 0 {
            return Err(Failure::invalid(format!("{flags:#x} are no flags of callbacks")));
        }
        if properties & !(RMM_RS_DEVICE_ACCESSIBLE | RMM_RS_HOST_ACCESSIBLE) != 0 {
            return Err(Failure::invalid(format!("{properties:#x} are no properties of memory")));
        }
        let is_ordered = callbacks.flags & RMM_RS_CALLBACKS_STREAM_ORDERED != 0;
        let ordered = [callbacks.allocate.is_some(), callbacks.deallocate.is_some()];
        if callbacks.allocate_sync.is_none() || callbacks.deallocate_sync.is_none() {
            return Err(Failure::invalid("the synchronous callbacks are missing"));
        }
        if is_ordered && ordered != [true; 2] {
            return Err(Failure::invalid("the callbacks in stream order are missing"));
        }
        if let Some(retain) = callbacks.retain {
            // SAFETY: by the clause on callbacks, it may be called with this context.
            callbacks.context = unsafe { retain(callbacks.context) };
        }
        Ok(Self(Arc::new(Table { callbacks })))
    }

    /// Whether it may be used in stream order.
    pub(crate) fn is_ordered(&self) -> bool {
        self.0.callbacks.flags & RMM_RS_CALLBACKS_STREAM_ORDERED != 0
    }

    /// Allocates with one of the functions, which may be called again if what it calls itself is
    /// out of memory.
    fn allocated(
        &self,
        stream: Option<StreamRef<'_>>,
        layout: Layout,
        allocate: impl Fn(&Callbacks, *mut *mut c_void) -> Option<i32>,
        free: impl Fn(&Self, DevicePtr),
    ) -> Result<DevicePtr, Error> {
        allocate_in_program(stream, || self.allocated_once(layout, &allocate, &free))
    }

    fn allocated_once(
        &self,
        layout: Layout,
        allocate: impl Fn(&Callbacks, *mut *mut c_void) -> Option<i32>,
        free: impl Fn(&Self, DevicePtr),
    ) -> Result<DevicePtr, Error> {
        wait::about_to_wait();
        let mut pointer = std::ptr::null_mut();
        let call = || allocate(&self.0.callbacks, &raw mut pointer);
        let (status, noted) = guard::call_back(call);
        let Some(status) = status else {
            return Err(Error::unsupported(NAME, "the resource has no such function"));
        };
        if status != RMM_RS_OK {
            return Err(of_status(status, layout, noted));
        }
        let pointer = of_c(pointer);
        if pointer.is_null() {
            return Err(Error::out_of_memory(NAME).with_layout(layout));
        }
        if !is_pointer_aligned(pointer, layout.align()) {
            free(self, pointer);
            let message = format!("{pointer:?} was returned, which is not aligned as requested");
            return Err(Error::unsupported(NAME, message).with_layout(layout));
        }
        Ok(pointer)
    }
}

/// The error of a callback that returned a status, after it noted a failure or did not.
#[cold]
fn of_status(status: i32, layout: Layout, noted: Option<Failure>) -> Error {
    let (text, remedies) =
        noted.map(|failure| (failure.text, failure.remedies)).unwrap_or_default();
    let error = match status {
        RMM_RS_OUT_OF_MEMORY => {
            let error = Error::out_of_memory(NAME);
            if text.is_empty() { error } else { error.with_message(text) }
        }
        RMM_RS_INVALID_ARGUMENT => Error::invalid_argument(NAME, text),
        RMM_RS_REFUSED => Error::unsupported(NAME, text),
        RMM_RS_NOT_READY => Error::not_ready(NAME, text),
        _ => {
            Error::driver(NAME, CuResult::UNKNOWN).with_message(format!("status {status}: {text}"))
        }
    };
    error.with_layout(layout).with_remedies(remedies)
}

// SAFETY: by the clause on callbacks, the functions and the properties of the table keep the
// contract of this trait.
unsafe impl SynchronousResource for Foreign {
    fn do_allocate_sync(&self, layout: Layout) -> Result<DevicePtr, Error> {
        let allocate = |table: &Callbacks, out: *mut *mut c_void| {
            let function = table.allocate_sync?;
            // SAFETY: by the clause on callbacks; `out` may be written to.
            Some(unsafe { function(table.context, layout.size(), layout.align(), out) })
        };
        // SAFETY: it was just allocated, and no caller has it.
        let free = |this: &Self, pointer| unsafe { this.do_deallocate_sync(pointer, layout) };
        self.allocated(None, layout, allocate, free)
    }

    unsafe fn do_deallocate_sync(&self, pointer: DevicePtr, layout: Layout) {
        let table = &self.0.callbacks;
        if let Some(function) = table.deallocate_sync
            && !process_is_exiting()
        {
            let (size, alignment) = (layout.size(), layout.align());
            // A free may be part of a `Drop`, which must not unwind.
            guard::value((), || {
                // SAFETY: by the clause on callbacks; the caller's contract is that of the
                // function. What could not be freed leaks.
                let free = || unsafe { function(table.context, to_c(pointer), size, alignment) };
                let _ignored = in_program(|| guard::call_back(free));
            });
        }
    }

    fn name(&self) -> &'static str {
        NAME
    }

    rmm_core::__by_clone!(to_any_sync);

    fn provide<'a>(&'a self, query: &mut Query<'a>) {
        query.value(|| MayBeWaitedFor);
        if self.0.callbacks.properties & RMM_RS_DEVICE_ACCESSIBLE != 0 {
            query.properties(&Marked).has::<DeviceAccessible>();
        }
        if self.0.callbacks.properties & RMM_RS_HOST_ACCESSIBLE != 0 {
            query.properties(&Marked).has::<HostAccessible>();
        }
    }
}

// SAFETY: by the clause on callbacks, functions that the table flags as stream-ordered keep the
// contract of this trait. Other tables are not used through it, see
// `rmm_rs_resource_from_callbacks`.
unsafe impl Resource for Foreign {
    fn do_allocate(&self, stream: StreamRef<'_>, layout: Layout) -> Result<DevicePtr, Error> {
        let handle = stream.as_raw().as_raw();
        let allocate = |table: &Callbacks, out: *mut *mut c_void| {
            let function = table.allocate?;
            // SAFETY: by the clause on callbacks; the stream exists during the call, and `out` may
            // be written to.
            Some(unsafe { function(table.context, handle, layout.size(), layout.align(), out) })
        };
        // SAFETY: it was just allocated, and no caller has it.
        let free = |this: &Self, pointer| unsafe { this.do_deallocate(stream, pointer, layout) };
        let allocated = self.allocated(Some(stream), layout, allocate, free);
        allocated.map_err(|error| error.with_stream(stream.id()))
    }

    unsafe fn do_deallocate(&self, stream: StreamRef<'_>, pointer: DevicePtr, layout: Layout) {
        let table = &self.0.callbacks;
        if let Some(function) = table.deallocate
            && !process_is_exiting()
        {
            let (size, alignment) = (layout.size(), layout.align());
            let handle = stream.as_raw().as_raw();
            guard::value((), || {
                // SAFETY: by the clause on callbacks; the caller's contract is that of the
                // function. What could not be freed leaks.
                let free =
                    || unsafe { function(table.context, handle, to_c(pointer), size, alignment) };
                let _ignored = in_program(|| guard::call_back(free));
            });
        }
    }

    rmm_core::__by_clone!(to_any);
}

/// Stands for memory whose properties a table states.
struct Marked;

// SAFETY: it is named only where the table says that the device may use the memory, which is true
// by the clause on callbacks.
unsafe impl HasProperty<DeviceAccessible> for Marked {}
// SAFETY: it is named only where the table says that the host may use the memory, which is true by
// the clause on callbacks.
unsafe impl HasProperty<HostAccessible> for Marked {}

/// Makes a resource of functions. It copies the table and retains the context. The table of a
/// resource of this library (`rmm_rs_resource_callbacks`) makes that resource again.
///
/// Source: `rmm::mr::callback_memory_resource`, `cuda::mr::any_resource`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rmm_rs_resource_from_callbacks(
    callbacks: *const Callbacks,
    out: *mut *const ResourceHandle,
) -> Status {
    let build = || {
        // SAFETY: by the clause on structures, `callbacks` is null or as large as it says.
        let callbacks = unsafe { sized::read("rmm_rs_callbacks", callbacks) }?;
        if is_of_this_library(&callbacks) {
            // SAFETY: by the clause on handles, the context of such a table is live.
            let resource =
                unsafe { borrow(callbacks.context.cast_const().cast::<ResourceHandle>()) }?;
            return Ok(resource.below(resource.any.clone()));
        }
        // SAFETY: the clause on callbacks holds for the functions of the table.
        let foreign = unsafe { Foreign::new(callbacks) }?;
        Ok(ResourceHandle::base(if foreign.is_ordered() {
            AnyResource::new(foreign)
        } else {
            AnyResource::new(Synchronized::new(foreign))
        }))
    };
    // SAFETY: by the clause on pointers, `out` is null or valid for a write.
    unsafe { resource::make(out, build) }
}

/// Writes the functions of a resource, for another library. The table does not retain the resource
/// by itself: `retain` does. A resource that was made of callbacks has those, so that it is the
/// same resource again in the library that it came from; unless they release without `retain`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rmm_rs_resource_callbacks(
    resource: *const ResourceHandle,
    out: *mut Callbacks,
) -> Status {
    guard::status(|| {
        // SAFETY: by the clause on handles, `resource` is null or live during the call.
        let any = &unsafe { borrow(resource) }?.any;
        // What came from a table goes back as that table, so that its library knows its own.
        let foreign = any.downcast_ref::<Foreign>();
        let foreign =
            foreign.or_else(|| Some(any.downcast_ref::<Synchronized<Foreign>>()?.upstream()));
        let shared = foreign.filter(|foreign| foreign.0.callbacks.can_be_shared());
        let table = shared.map_or_else(
            || own_table(resource.cast::<c_void>().cast_mut(), properties_of(any)),
            |foreign| foreign.0.callbacks,
        );
        // SAFETY: by the clause on structures, `out` is null or as large as it says, and writable.
        unsafe { sized::write("rmm_rs_callbacks", out, &table) }
    })
}

/// The table of a resource of this library.
fn own_table(context: *mut c_void, properties: u32) -> Callbacks {
    Callbacks {
        size: 0,
        properties,
        flags: RMM_RS_CALLBACKS_STREAM_ORDERED,
        context,
        allocate: Some(allocate),
        deallocate: Some(deallocate),
        allocate_sync: Some(allocate_sync),
        deallocate_sync: Some(deallocate_sync),
        equal: Some(equal),
        retain: Some(retain),
        release: Some(release),
    }
}

/// Whether all functions are this library's: not if a program put one of its own in their midst.
fn is_of_this_library(table: &Callbacks) -> bool {
    table.addresses() == own_table(std::ptr::null_mut(), 0).addresses()
}

fn of_context(context: *mut c_void) -> *const ResourceHandle {
    context.cast_const().cast()
}

unsafe extern "C-unwind" fn allocate(
    context: *mut c_void,
    stream: *mut c_void,
    bytes: usize,
    alignment: usize,
    out: *mut *mut c_void,
) -> Status {
    // SAFETY: by the clause on handles, the context is one. The caller keeps the other clauses.
    unsafe { rmm_rs_resource_allocate(of_context(context), stream, bytes, alignment, out) }
}

unsafe extern "C-unwind" fn deallocate(
    context: *mut c_void,
    stream: *mut c_void,
    pointer: *mut c_void,
    bytes: usize,
    alignment: usize,
) -> Status {
    let resource = of_context(context);
    // SAFETY: by the clause on handles, the context is one. The caller keeps the other clauses.
    unsafe { rmm_rs_resource_deallocate(resource, stream, pointer, bytes, alignment) }
}

unsafe extern "C-unwind" fn allocate_sync(
    context: *mut c_void,
    bytes: usize,
    alignment: usize,
    out: *mut *mut c_void,
) -> Status {
    // SAFETY: by the clause on handles, the context is one. The caller keeps the other clauses.
    unsafe { rmm_rs_resource_allocate_sync(of_context(context), bytes, alignment, out) }
}

unsafe extern "C-unwind" fn deallocate_sync(
    context: *mut c_void,
    pointer: *mut c_void,
    bytes: usize,
    alignment: usize,
) -> Status {
    // SAFETY: by the clause on handles, the context is one. The caller keeps the other clauses.
    unsafe { rmm_rs_resource_deallocate_sync(of_context(context), pointer, bytes, alignment) }
}

unsafe extern "C-unwind" fn equal(context: *mut c_void, other: *mut c_void) -> bool {
    // SAFETY: by the clause on handles, both contexts are live: the functions are equal.
    unsafe { rmm_rs_resource_equal(of_context(context), of_context(other)) }
}

unsafe extern "C-unwind" fn retain(context: *mut c_void) -> *mut c_void {
    // SAFETY: by the clause on handles, the context is live during the call.
    let resource = unsafe { rmm_rs_resource_retain(of_context(context)) };
    resource.cast::<c_void>().cast_mut()
}

unsafe extern "C-unwind" fn release(context: *mut c_void) {
    // SAFETY: by the clause on handles, the context is one, whose reference ends here.
    unsafe { rmm_rs_resource_release(of_context(context)) };
}
