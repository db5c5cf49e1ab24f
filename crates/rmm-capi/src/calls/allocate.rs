//! Allocation and free.

use std::alloc::Layout;
use std::ffi::c_void;
use std::ptr;

use rmm_core::sys::CuStream;
use rmm_core::{DevicePtr, Error, StreamRef, SynchronousResource as _};

use crate::handle::failure::{ErrorFigures, Failure};
use crate::handle::guard;
use crate::handle::library::clear_mut;
use crate::handle::resource::{ResourceHandle, borrow};
use crate::handle::status::{RMM_RS_OK, RMM_RS_OUT_OF_MEMORY, Status};
use crate::streams;

/// The layout of a request.
#[inline]
pub(crate) fn layout(bytes: usize, alignment: usize) -> Result<Layout, Failure> {
    Layout::from_size_align(bytes, alignment).map_err(|_| refused_layout(bytes, alignment))
}

#[cold]
fn refused_layout(bytes: usize, alignment: usize) -> Failure {
    if alignment.is_power_of_two() {
        let text = format!("out of memory: {bytes} bytes are more than any device has");
        let figures = ErrorFigures { requested: Some(bytes as u64), ..ErrorFigures::default() };
        return Failure {
            figures: Box::new(figures),
            ..Failure::plain(RMM_RS_OUT_OF_MEMORY, text)
        };
    }
    Failure::invalid(format!("the alignment {alignment} is not a power of two"))
}

pub(crate) fn to_c(pointer: DevicePtr) -> *mut c_void {
    // An address of 64 bits is a pointer on every platform with CUDA.
    ptr::with_exposed_provenance_mut(usize::try_from(pointer.addr()).unwrap_or(0))
}

pub(crate) fn of_c(pointer: *mut c_void) -> DevicePtr {
    DevicePtr::new(pointer.expose_provenance() as u64)
}

fn stream_of(stream: *mut c_void) -> CuStream {
    CuStream::from_raw(stream)
}

/// Allocates memory that may be used in the order of the stream. `alignment` is a power of two;
/// every resource of device memory aligns to 256 at least. Stores the address in `out`.
///
/// Source: `rmm::device_async_resource_ref::allocate`, `cuda::mr::resource`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rmm_rs_resource_allocate(
    resource: *const ResourceHandle,
    stream: *mut c_void,
    bytes: usize,
    alignment: usize,
    out: *mut *mut c_void,
) -> Status {
    // SAFETY: by the clause on pointers, `out` is null or valid for a write.
    unsafe { clear_mut(out) };
    guard::code(|| {
        // SAFETY: by the clause on handles, `resource` is null or live during the call.
        let known = unsafe { resource.as_ref() };
        let layout = Layout::from_size_align(bytes, alignment);
        let (Some(resource), Ok(layout), false) = (known, layout, out.is_null()) else {
            return refused(known, bytes, alignment, "the place for the address is null");
        };
        let allocate = |stream: StreamRef<'_>| resource.allocate(stream, layout);
        // SAFETY: the clauses on streams and on their ends are the contract of `with`.
        match unsafe { streams::with(stream_of(stream), || resource.keeps_streams(), allocate) } {
            Ok(Ok(pointer)) => {
                // SAFETY: by the clause on pointers, `out` is valid for a write; it is not null.
                unsafe { out.write(to_c(pointer)) };
                RMM_RS_OK
            }
            Ok(Err(error)) | Err(error) => failed(&error),
        }
    })
}

/// What is wrong with a request.
#[cold]
fn refused(
    resource: Option<&ResourceHandle>,
    bytes: usize,
    alignment: usize,
    other: &str,
) -> Status {
    let failure = match resource {
        None => Failure::invalid("the resource is null"),
        Some(_) => match layout(bytes, alignment) {
            Err(failure) => failure,
            Ok(_) => Failure::invalid(other),
        },
    };
    guard::note(failure)
}

#[cold]
fn failed(error: &Error) -> Status {
    guard::note(Failure::of_allocation(error))
}

/// Frees memory in the order of the stream: what was enqueued on it before may still use the
/// memory. Size and alignment are those of the allocation. If it fails, which only a stream that
/// the driver does not know or a wrong argument can cause, the memory stays allocated. A pool with
/// `RMM_RS_POOL_CHECK_FREES` notices wrong sizes and addresses. A null pointer is allowed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rmm_rs_resource_deallocate(
    resource: *const ResourceHandle,
    stream: *mut c_void,
    pointer: *mut c_void,
    bytes: usize,
    alignment: usize,
) -> Status {
    guard::free(|| {
        // SAFETY: by the clause on handles, `resource` is null or live during the call.
        let known = unsafe { resource.as_ref() };
        let layout = Layout::from_size_align(bytes, alignment);
        let (Some(resource), Ok(layout)) = (known, layout) else {
            return refused(known, bytes, alignment, "");
        };
        if pointer.is_null() {
            return RMM_RS_OK;
        }
        let free = |stream: StreamRef<'_>| {
            // SAFETY: the clause on frees is the contract of `Resource::deallocate`.
            resource.status_of(|| unsafe { resource.deallocate(stream, of_c(pointer), layout) })
        };
        // SAFETY: the clauses on streams and on their ends are the contract of `with`.
        match unsafe { streams::with(stream_of(stream), || resource.keeps_streams(), free) } {
            Ok(status) => status,
            Err(error) => guard::note(Failure::from(&error)),
        }
    })
}

/// Allocates memory that may be used at once, on any stream.
///
/// Source: `cuda::mr::synchronous_resource`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rmm_rs_resource_allocate_sync(
    resource: *const ResourceHandle,
    bytes: usize,
    alignment: usize,
    out: *mut *mut c_void,
) -> Status {
    // SAFETY: by the clause on pointers, `out` is null or valid for a write.
    unsafe { clear_mut(out) };
    guard::status(|| {
        // SAFETY: by the clause on handles, `resource` is null or live during the call.
        let resource = unsafe { borrow(resource) }?;
        let layout = layout(bytes, alignment)?;
        if out.is_null() {
            return Err(Failure::invalid("the place for the address is null"));
        }
        let pointer = resource.any.allocate_sync(layout);
        let pointer = pointer.map_err(|error| Failure::of_allocation(&error))?;
        // SAFETY: by the clause on pointers, `out` is valid for a write; it is not null.
        unsafe { out.write(to_c(pointer)) };
        Ok(())
    })
}

/// Frees memory that no work uses any more. A null pointer is allowed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rmm_rs_resource_deallocate_sync(
    resource: *const ResourceHandle,
    pointer: *mut c_void,
    bytes: usize,
    alignment: usize,
) -> Status {
    guard::free(|| {
        // SAFETY: by the clause on handles, `resource` is null or live during the call.
        let known = unsafe { resource.as_ref() };
        let layout = Layout::from_size_align(bytes, alignment);
        let (Some(resource), Ok(layout)) = (known, layout) else {
            return refused(known, bytes, alignment, "");
        };
        if pointer.is_null() {
            return RMM_RS_OK;
        }
        // SAFETY: the clause on frees is the contract of `SynchronousResource::deallocate_sync`.
        resource.status_of(|| unsafe { resource.any.deallocate_sync(of_c(pointer), layout) })
    })
}
