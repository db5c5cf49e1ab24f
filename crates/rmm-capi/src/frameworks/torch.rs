//! The functions that `PyTorch` loads, for `torch.cuda.memory.CUDAPluggableAllocator`.
//!
//! Memory comes from the resource that is the device's current one at that moment, and goes back
//! to it, which lives until then. A device for which the program set none gets what the environment
//! variable `RMM_RESOURCE` says, or else `pool`, at its first allocation.
//!
//! `PyTorch`'s streams are never destroyed, so they are kept, whatever the resource's policy is.
//! Streams of others (`torch.cuda.ExternalStream`) have to be as permanent, as for `PyTorch`'s own
//! allocator.
//!
//! Any device may be current. The handles of default streams mean those of the memory's device.

use std::cell::RefCell;
use std::ffi::{CString, c_char, c_int, c_void};

use rmm_core::sys::CuStream;

use crate::frameworks::client::allocate::{self, RequestStream};
use crate::frameworks::client::block::Block;
use crate::frameworks::client::free::{self, FreeOrder};
use crate::frameworks::client::per_device::DeviceClients;
use crate::frameworks::client::{settle, table};
use crate::handle::failure::Failure;
use crate::handle::guard;

/// The clients for which the functions allocate.
static CLIENTS: DeviceClients = DeviceClients::new();

unsafe extern "C-unwind" {
    /// Throws an exception of a class derived from `std::bad_alloc`, with this text.
    fn rmm_rs_throw_bad_alloc(text: *const c_char);
}

/// Allocates memory for a stream of a device. Throws `std::bad_alloc` if that fails, since
/// `PyTorch` does not check for null: the only function here that throws. Zero bytes are null.
///
/// Source: `rmm.allocators.torch.rmm_torch_allocator`.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn rmm_rs_torch_allocate(
    bytes: isize,
    device: c_int,
    stream: *mut c_void,
) -> *mut c_void {
    let mut pointer = std::ptr::null_mut();
    let status = guard::status(|| {
        let size = usize::try_from(bytes);
        let size =
            size.map_err(|_| Failure::invalid(format!("{bytes} bytes cannot be allocated")))?;
        let stream = RequestStream::Kept(CuStream::from_raw(stream));
        // SAFETY: by the clause on streams, one that is passed here is never destroyed.
        pointer = unsafe { allocate::allocate(CLIENTS.of(device)?, None, stream, size) }?;
        Ok(())
    });
    if status != crate::handle::status::RMM_RS_OK {
        let text = guard::with_last(|last| last.map(|failure| failure.text.clone()));
        let text = text.flatten().unwrap_or_default();
        let kind = if status == crate::handle::status::RMM_RS_OUT_OF_MEMORY {
            "out_of_memory: "
        } else {
            ""
        };
        let text = format!("std::bad_alloc: {kind}{text}").replace('\0', " ");
        throw(CString::new(text).unwrap_or_default());
    }
    pointer
}

thread_local! {
    /// The text of the exception that the thread threw last, which copies it.
    static THROWN: RefCell<CString> = RefCell::default();
}

/// Leaves by an exception, over frames that own nothing.
fn throw(text: CString) {
    let kept = THROWN.try_with(|thrown| {
        let mut thrown = thrown.borrow_mut();
        *thrown = text;
        thrown.as_ptr()
    });
    let text = kept.unwrap_or(c"std::bad_alloc: the thread ends".as_ptr());
    // SAFETY: the text ends with a zero byte, and stays until the thread throws again.
    unsafe { rmm_rs_throw_bad_alloc(text) };
}

/// Frees memory to the resource that it came from, in the order of its stream. If streams were
/// recorded it goes back once they have done what was enqueued on them before, which the next calls
/// notice; after a capture, if one is announced, or one of them is captured. A free with another
/// size or device than those of the allocation is refused.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rmm_rs_torch_deallocate(
    pointer: *mut c_void,
    bytes: isize,
    device: c_int,
    stream: *mut c_void,
) {
    let check = |block: &Block| {
        let (requested, of) = (block.size.requested, block.client.device);
        if usize::try_from(bytes) == Ok(requested) && of.number() == device {
            return Ok(());
        }
        Err(Failure::invalid(format!(
            "{bytes} bytes of device {device} are freed, where {requested} bytes of {of} were \
             allocated"
        )))
    };
    let order = FreeOrder::Kept(CuStream::from_raw(stream));
    // SAFETY: by the clause on streams, one that is passed here is never destroyed; the clause on
    // frees. The function returns no status: a failure is the thread's last error.
    let _ignored = guard::status(|| unsafe { free::free(pointer, order, check) });
}

/// Notes that work of a stream, of any device, uses the memory, so that its free waits for that
/// work too. A default stream is that of the memory's device. Memory that was not allocated here is
/// left to its owner. `PyTorch`'s `set_record_stream_fn` takes its address.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rmm_rs_torch_record_stream(pointer: *mut c_void, stream: *mut c_void) {
    // SAFETY: by the clause on streams, one that is passed here is never destroyed. The function
    // returns no status: a failure is the thread's last error.
    let _ignored = guard::status(|| unsafe { free::record(pointer, CuStream::from_raw(stream)) });
}

/// Returns unused memory of all devices to the driver, as `torch.cuda.empty_cache()` asks: that of
/// the current resources, and of those from which memory is still allocated. Waits for work that
/// may use it, as PyTorch's own does, unless a stream is captured. `set_reset_fn` takes its
/// address.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rmm_rs_torch_reset() {
    // The function returns no status: a failure is the thread's last error.
    let _ignored = guard::status(|| {
        let mut resources = Vec::new();
        for client in CLIENTS.all() {
            settle::poll_all(client);
            resources.extend(client.device.current());
        }
        for resource in table::resources() {
            if !resources.contains(&resource) {
                resources.push(resource);
            }
        }
        let mut result = Ok(());
        // Of all, also if one of them has nothing that can be returned.
        for resource in resources {
            result = result.and(crate::calls::trim::of_stack(&resource, 0, true).map(drop));
        }
        result
    });
}

/// Limits what a process may allocate to a fraction of the device's memory:
/// `set_memory_fraction_fn` takes its address. A value that is no number from 0 to 1 is ignored.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rmm_rs_torch_set_memory_fraction(fraction: f64, device: c_int) {
    // The function returns no status: a failure is the thread's last error.
    let _ignored = guard::status(|| CLIENTS.of(device)?.set_memory_fraction(fraction));
}
