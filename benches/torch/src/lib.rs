//! The pool as PyTorch's allocator: C functions for `torch.cuda.memory.CUDAPluggableAllocator`.
//!
//! A program for measurements (`train.py` beside it runs PyTorch on it), and no interface to build
//! on: one device, names that its script expects, an exit message in place of an exception. The
//! environment variable `POOL` chooses what the pool is over: `cuda` for `cudaMalloc`, `vmm` for
//! virtual memory.

mod pool;
mod streams;

use std::alloc::Layout;
use std::ffi::{c_int, c_void};
use std::io::Write as _;
use std::ptr;

use rmm_core::{CUDA_ALLOCATION_ALIGNMENT, DevicePtr, Error, Resource as _};
use rmm_sys::CuStream;

use pool::pool;
use streams::adopted;

/// Allocates `size` bytes for the stream. Returns null, after a message on standard error, where
/// that fails.
///
/// # Safety
/// The stream belongs to the current context, which is always the same one, and is never destroyed,
/// as PyTorch's streams are; for its captures the contract of
/// [`CudaStream::adopt`](rmm_core::CudaStream::adopt) holds.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn my_malloc(size: isize, device: c_int, stream: CuStream) -> *mut c_void {
    let allocated = || {
        let layout = layout(size, device)?;
        // SAFETY: the caller's contract.
        let stream = unsafe { adopted(stream) }?;
        pool()?.resource().allocate(stream, layout)
    };
    match allocated() {
        Ok(block) => block.addr() as *mut c_void,
        Err(error) => {
            report(&format!("{size} bytes on device {device}: {error}"));
            ptr::null_mut()
        }
    }
}

/// Frees a block in the order of the stream.
///
/// # Safety
/// As for [`my_malloc`]. It returned the block for this size and device, this is its only free, and
/// all work that uses the block is ordered before this place on the stream.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn my_free(block: *mut c_void, size: isize, device: c_int, stream: CuStream) {
    if block.is_null() {
        return; // what failed, and what had no bytes
    }
    let freed = || {
        let layout = layout(size, device)?;
        // SAFETY: the caller's contract.
        let stream = unsafe { adopted(stream) }?;
        let block = DevicePtr::new(block.expose_provenance() as u64);
        let resource = pool()?.resource();
        // SAFETY: the caller's contract: the same size gives the same layout.
        unsafe { resource.deallocate(stream, block, layout) };
        Ok::<(), Error>(())
    };
    if let Err(error) = freed() {
        report(&format!("a block of {size} bytes stays allocated: {error}"));
    }
}

/// The most bytes that the pool held so far.
#[unsafe(no_mangle)]
pub extern "C" fn my_reserved() -> u64 {
    pool().map_or(0, |pool| pool.statistics().peak_reserved_bytes)
}

/// The most bytes that the program held so far.
#[unsafe(no_mangle)]
pub extern "C" fn my_live() -> u64 {
    pool().map_or(0, |pool| pool.statistics().peak_live_bytes)
}

/// Allocations so far.
#[unsafe(no_mangle)]
pub extern "C" fn my_calls() -> u64 {
    pool().map_or(0, |pool| pool.statistics().allocations)
}

/// PyTorch asks for no alignment, and relies on that of `cudaMalloc`.
fn layout(size: isize, device: c_int) -> Result<Layout, Error> {
    if device != 0 {
        return Err(Error::unsupported("my_malloc", "the pool is one of device 0"));
    }
    let refused = |why: String| Error::invalid_argument("my_malloc", why);
    let bytes = usize::try_from(size).map_err(|error| refused(error.to_string()))?;
    Layout::from_size_align(bytes, CUDA_ALLOCATION_ALIGNMENT)
        .map_err(|error| refused(error.to_string()))
}

fn report(line: &str) {
    // Where even this cannot be written, the caller sees the null.
    writeln!(std::io::stderr(), "rmm_torch: {line}").ok();
}

#[cfg(test)]
mod tests;
