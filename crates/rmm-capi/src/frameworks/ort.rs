//! The functions that ONNX Runtime's CUDA provider takes as `gpu_external_alloc`,
//! `gpu_external_free` and `gpu_external_empty_cache`: three addresses, as text.
//!
//! They have no stream argument. A session that computes on a stream of the program's
//! (`user_compute_stream`) binds that stream first, and then memory is freed in its order; without
//! one, each free waits for the device, as `cudaFree` does. The resource is the one that
//! [`torch`](crate::frameworks::torch) would use.

use std::ffi::c_void;
use std::sync::atomic::{AtomicPtr, Ordering};
use std::sync::{Arc, OnceLock};

use rmm_core::Device;
use rmm_core::sys::CuStream;

use crate::frameworks::client::ClientHandle;
use crate::frameworks::client::allocate::{self, RequestStream};
use crate::frameworks::client::free::{self, FreeOrder};
use crate::frameworks::client::per_device::DeviceClients;
use crate::handle::failure::Failure;
use crate::handle::guard;
use crate::handle::status::Status;

/// The clients for which the functions allocate.
static CLIENTS: DeviceClients = DeviceClients::new();

/// The stream of the sessions, if one was bound.
static BOUND: OnceLock<AtomicPtr<c_void>> = OnceLock::new();

fn bound() -> Option<CuStream> {
    // Acquire: the thread that bound the stream made it before.
    BOUND.get().map(|stream| CuStream::from_raw(stream.load(Ordering::Acquire)))
}

/// The client of the current device.
fn client() -> Result<&'static Arc<ClientHandle>, Failure> {
    let ordinal = Device::current()?.ordinal();
    CLIENTS.of(i32::try_from(ordinal).unwrap_or(i32::MAX))
}

/// Allocates memory of the current device. Null if that fails, with the reason as the thread's last
/// error.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rmm_rs_ort_allocate(bytes: usize) -> *mut c_void {
    let mut pointer = std::ptr::null_mut();
    // The function returns no status: a failure is the thread's last error.
    let _ignored = guard::status(|| {
        let stream = bound().map_or(RequestStream::None, RequestStream::Unknown);
        // SAFETY: by the clause on streams, the bound one counts as passed: it exists.
        pointer = unsafe { allocate::allocate(client()?, None, stream, bytes) }?;
        Ok(())
    });
    pointer
}

/// Frees memory, whichever device is current: in the order of the bound stream, or after a wait for
/// the memory's device. Null is allowed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rmm_rs_ort_deallocate(pointer: *mut c_void) {
    // The function returns no status: a failure is the thread's last error.
    let _ignored = guard::status(|| {
        let order = bound().map_or(FreeOrder::Device, FreeOrder::Unknown);
        // SAFETY: the clause on frees; by the clause on streams, the bound one counts as passed: it
        // exists.
        unsafe { free::free(pointer, order, |_| Ok(())) }
    });
}

/// Returns unused memory of the current device to the driver.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rmm_rs_ort_empty_cache() {
    // The function returns no status: a failure is the thread's last error.
    let _ignored = guard::status(|| {
        let _ignored = crate::calls::trim::of_stack(&client()?.device.resource()?, 0, false)?;
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
