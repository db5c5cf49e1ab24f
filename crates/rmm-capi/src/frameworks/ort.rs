//! The functions that ONNX Runtime's CUDA provider takes as `gpu_external_alloc`,
//! `gpu_external_free` and `gpu_external_empty_cache`: three addresses, as text.
//!
//! They have no stream argument. A session that computes on a stream of the program's
//! (`user_compute_stream`) binds that stream first, and then memory is freed in its order; without
//! one, each free waits for the device, as `cudaFree` does. The resource is the one that
//! [`torch`](crate::frameworks::torch) would use.

use std::ffi::c_void;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicPtr, Ordering};

use rmm_core::sys::CuStream;
use rmm_core::{CUDA_ALLOCATION_ALIGNMENT, Device, Resource as _, SynchronousResource as _};

use crate::calls::allocate::{layout, of_c, to_c};
use crate::frameworks::{blocks, device};
use crate::handle::failure::Failure;
use crate::handle::guard;
use crate::handle::status::Status;
use crate::streams;

/// The stream of the sessions, if one was bound.
static BOUND: OnceLock<AtomicPtr<c_void>> = OnceLock::new();

fn bound() -> Option<CuStream> {
    // Acquire: the thread that bound the stream made it before.
    BOUND.get().map(|stream| CuStream::from_raw(stream.load(Ordering::Acquire)))
}

fn device() -> Result<&'static device::Device, Failure> {
    let ordinal = Device::current()?.ordinal();
    device::of(i32::try_from(ordinal).unwrap_or(i32::MAX))
}

/// Allocates memory of the current device. Null if that fails, with the reason as the thread's last
/// error.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rmm_rs_ort_allocate(bytes: usize) -> *mut c_void {
    let mut pointer = std::ptr::null_mut();
    // The function returns no status: a failure is the thread's last error.
    let _ignored = guard::status(|| {
        let layout = layout(bytes, CUDA_ALLOCATION_ALIGNMENT)?;
        let device = device()?;
        let resource = device.resource()?;
        let allocated = match bound() {
            None => resource.allocate_sync(layout),
            Some(stream) => {
                let allocate = |stream: rmm_core::StreamRef<'_>| resource.allocate(stream, layout);
                // SAFETY: by the clause on streams, the bound one counts as passed: it exists.
                unsafe { streams::with(stream, || false, allocate) }.and_then(|block| block)
            }
        };
        pointer = to_c(allocated.map_err(|error| Failure::of_allocation(&error))?);
        blocks::enter(pointer, resource, device, bytes);
        Ok(())
    });
    pointer
}

/// Frees memory, whichever device is current: in the order of the bound stream, or after a wait for
/// the memory's device. Null is allowed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rmm_rs_ort_deallocate(pointer: *mut c_void) {
    let free = |block: &blocks::Block| {
        let layout = layout(block.bytes, CUDA_ALLOCATION_ALIGNMENT)?;
        // The runtime frees with any device current.
        let _current = block.device.enter()?;
        if let Some(stream) = bound() {
            let free = |stream: rmm_core::StreamRef<'_>| {
                // SAFETY: 1. It was allocated from this resource with this layout, and left the
                // table of blocks, so it is freed once. 2. By the clause on frees, its uses come
                // before in the order of the bound stream.
                unsafe { block.resource.deallocate(stream, of_c(pointer), layout) };
            };
            // SAFETY: by the clause on streams, the bound one counts as passed: it exists.
            unsafe { streams::with(stream, || false, free) }?;
        } else {
            // If that fails the memory stays allocated: work may use it.
            Device::synchronize_current()?;
            // SAFETY: 1. It was allocated from this resource with this layout, and left the table
            // of blocks, so it is freed once. 2. The device has done all work that was enqueued
            // before, and by the clause on frees no later work uses it.
            unsafe { block.resource.deallocate_sync(of_c(pointer), layout) };
        }
        Ok(())
    };
    // The function returns no status: a failure is the thread's last error.
    let _ignored =
        guard::status(|| if pointer.is_null() { Ok(()) } else { blocks::free(pointer, free) });
}

/// Returns unused memory of the current device to the driver.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rmm_rs_ort_empty_cache() {
    // The function returns no status: a failure is the thread's last error.
    let _ignored = guard::status(|| {
        let _ignored = crate::calls::trim::of_stack(&device()?.resource()?, 0, false)?;
        Ok(())
    });
}

/// Binds the stream on which all sessions of the process compute, before the first of them is made.
/// It exists until the last of them has ended. If it was not adopted, the driver is asked for its
/// id at each use.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rmm_rs_ort_bind_stream(stream: *mut c_void) -> Status {
    guard::status(|| {
        let slot = BOUND.get_or_init(|| AtomicPtr::new(stream));
        slot.store(stream, Ordering::Release);
        Ok(())
    })
}
