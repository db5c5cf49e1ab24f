//! The functions that `PyTorch` loads, for `torch.cuda.memory.CUDAPluggableAllocator`.
//!
//! Memory comes from the resource that is the device's current one at that moment, and goes back
//! to it, which lives until then. A device for which the program set none gets what the environment
//! variable `RMM_RESOURCE` says, or else `pool(cuda)`, at its first allocation.
//!
//! `PyTorch`'s streams are never destroyed, so they are kept, whatever the resource's policy is.
//! Streams of others (`torch.cuda.ExternalStream`) have to be as permanent, as for `PyTorch`'s own
//! allocator.
//!
//! Any device may be current. The handles of default streams mean those of the memory's device.

use std::cell::RefCell;
use std::ffi::{CString, c_char, c_int, c_void};

use rmm_core::sys::CuStream;
use rmm_core::{CUDA_ALLOCATION_ALIGNMENT, Resource as _};

use crate::calls::allocate::{layout, of_c, to_c};
use crate::frameworks::{blocks, device};
use crate::handle::failure::Failure;
use crate::handle::guard;
use crate::streams;

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
        let device = device::of(device)?;
        // SAFETY: by the clause on streams, one that is passed here is never destroyed.
        pointer = unsafe { allocate(device, bytes, stream) }?;
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

/// # Safety
/// The stream is a default stream or never destroyed.
unsafe fn allocate(
    device: &'static device::Device,
    bytes: isize,
    stream: *mut c_void,
) -> Result<*mut c_void, Failure> {
    let size = usize::try_from(bytes);
    let size = size.map_err(|_| Failure::invalid(format!("{bytes} bytes cannot be allocated")))?;
    let layout = layout(size, CUDA_ALLOCATION_ALIGNMENT)?;
    let charge = device.charge(size as u64)?;
    let _current = device.enter()?;
    let resource = device.resource()?;
    let allocate = |stream: rmm_core::StreamRef<'_>| resource.allocate(stream, layout);
    // SAFETY: the caller's contract.
    let allocated = unsafe { streams::with(CuStream::from_raw(stream), || true, allocate) };
    let pointer = allocated.and_then(|allocated| allocated);
    let pointer = to_c(pointer.map_err(|error| Failure::of_allocation(&error))?);
    charge.keep();
    blocks::enter(pointer, resource, device, size);
    Ok(pointer)
}

/// Frees memory in the order of its stream and of all recorded ones, to the resource that it came
/// from. If a stream was recorded, and one of them is captured, the memory stays allocated for the
/// graph. A free with another size or device than those of the allocation is refused.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rmm_rs_torch_deallocate(
    pointer: *mut c_void,
    bytes: isize,
    device: c_int,
    stream: *mut c_void,
) {
    let free = |block: &blocks::Block| {
        if usize::try_from(bytes) != Ok(block.bytes) || !block.device.has_ordinal(device) {
            return Err(Failure::invalid(format!(
                "{bytes} bytes of device {device} are freed, where {} bytes of {} were allocated",
                block.bytes, block.device
            )));
        }
        let layout = layout(block.bytes, CUDA_ALLOCATION_ALIGNMENT)?;
        let free = |stream: rmm_core::StreamRef<'_>| {
            // SAFETY: 1. It was allocated from this resource with this layout, and left the table
            // of blocks, so it is freed once. 2. By the clause on frees, its uses come before on
            // `stream` and the recorded streams, for which `stream` waits.
            unsafe { block.resource.deallocate(stream, of_c(pointer), layout) };
        };
        let last = CuStream::from_raw(stream);
        // What the block's own stream does comes before the free anyway.
        let others: Vec<_> =
            block.recorded.iter().copied().filter(|&other| other != last).collect();
        // PyTorch frees with any device current.
        let _current = block.device.enter()?;
        if others.is_empty() {
            // SAFETY: by the clause on streams, one that is passed here is never destroyed.
            unsafe { streams::with(last, || true, free) }?;
        } else {
            // SAFETY: 1. By the clause on streams, those that are passed here are never destroyed.
            // 2. The device is current, by `enter`, or the only one.
            let gathered = unsafe { block.device.gather(last, &others) };
            // If it cannot be ordered the memory stays allocated: work may use it.
            free(gathered?.as_stream_ref());
        }
        block.device.discharge(block.bytes as u64);
        Ok(())
    };
    // The function returns no status: a failure is the thread's last error.
    let _ignored =
        guard::status(|| if pointer.is_null() { Ok(()) } else { blocks::free(pointer, free) });
}

/// Notes that work of a stream, of any device, uses the memory, so that its free waits for that
/// work too. A default stream is that of the memory's device. Memory that was not allocated here is
/// left to its owner. `PyTorch`'s `set_record_stream_fn` takes its address.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rmm_rs_torch_record_stream(pointer: *mut c_void, stream: *mut c_void) {
    guard::value((), || {
        blocks::record(pointer, CuStream::from_raw(stream));
    });
}

/// Returns unused memory of all devices to the driver, as `torch.cuda.empty_cache()` asks: that of
/// the current resources, and of those from which memory is still allocated. `set_reset_fn` takes
/// its address.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rmm_rs_torch_reset() {
    // The function returns no status: a failure is the thread's last error.
    let _ignored = guard::status(|| {
        let mut resources: Vec<_> = device::all().filter_map(device::Device::current).collect();
        for resource in blocks::resources() {
            if !resources.contains(&resource) {
                resources.push(resource);
            }
        }
        let mut result = Ok(());
        // Of all, also if one of them has nothing that can be returned.
        for resource in resources {
            result = result.and(crate::calls::trim::of_stack(&resource, 0, false).map(drop));
        }
        result
    });
}

/// Limits what a process may allocate to a fraction of the device's memory:
/// `set_memory_fraction_fn` takes its address. A value that is no number from 0 to 1 is ignored.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rmm_rs_torch_set_memory_fraction(fraction: f64, device: c_int) {
    // The function returns no status: a failure is the thread's last error.
    let _ignored = guard::status(|| {
        if !(0.0..=1.0).contains(&fraction) {
            return Err(Failure::invalid(format!(
                "{fraction} is no fraction of a device's memory"
            )));
        }
        device::of(device)?.limit_to(fraction)
    });
}
