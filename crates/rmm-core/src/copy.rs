//! Stream-ordered copies and fills.
//!
//! All functions return once the work is enqueued; for a length of zero they do nothing. The driver
//! may read pageable host memory at any time until the copy has completed, so it must stay
//! unchanged until then. Containers do all this safely; these functions are for authors of
//! containers.
//!
//! ```
//! use std::alloc::Layout;
//! use rmm_core::{CudaStream, Resource, copy};
//! use rmm_resources::CudaAsyncMemoryResource;
//!
//! # fn main() -> Result<(), rmm_core::Error> {
//! # let _machine = rmm_sim::enter();
//! let (stream, pool) = (CudaStream::new()?, CudaAsyncMemoryResource::new()?);
//! let (there, mut back) = ([1u8, 2, 3, 4], [0u8; 4]);
//! let layout = Layout::for_value(&there);
//! let memory = pool.allocate(&stream, layout)?;
//! // SAFETY: `there` outlives the wait below, and the memory is the stream's and as long.
//! unsafe { copy::host_to_device(memory, there.as_ptr().cast(), 4, &stream) }?;
//! // SAFETY: the memory is the stream's and has 4 bytes.
//! unsafe { copy::fill(memory, 9, 2, &stream) }?;
//! // SAFETY: `back` outlives the synchronization below and is not touched before; the memory was
//! // allocated on the stream and is as long.
//! unsafe { copy::device_to_host(back.as_mut_ptr().cast(), memory, 4, &stream) }?;
//! stream.synchronize()?;
//! assert_eq!(back, [9, 9, 3, 4]);
//! // SAFETY: allocated above with this layout, and all uses have completed.
//! unsafe { pool.deallocate(&stream, memory, layout) };
//! # Ok(())
//! # }
//! ```

use std::ffi::c_void;

use crate::driver::check;
use crate::{DevicePtr, Error, StreamRef};

/// Copies `bytes` bytes from the host to the device.
///
/// # Errors
/// If the driver refuses.
///
/// # Safety
/// `source` stays readable and unchanged for `bytes` bytes until the copy has completed; `target`
/// is memory of the device, at least `bytes` long, whose other uses are ordered with this place on
/// the stream.
#[doc(alias = "cudaMemcpyAsync")]
#[doc(alias = "rmm::detail::memcpy_async")]
pub unsafe fn host_to_device<'s>(
    target: DevicePtr,
    source: *const c_void,
    bytes: usize,
    stream: impl Into<StreamRef<'s>>,
) -> Result<(), Error> {
    // The driver reads through the address, so its provenance has to be exposed.
    let source = DevicePtr(source.expose_provenance() as u64);
    // SAFETY: the caller's contract.
    unsafe { copy(target, source, bytes, stream.into()) }
}

/// Copies `bytes` bytes from the device to the host.
///
/// # Errors
/// If the driver refuses.
///
/// # Safety
/// `target` stays writable, and is not otherwise used, for `bytes` bytes until the copy has
/// completed; `source` is memory of the device, at least `bytes` long, whose other uses are ordered
/// with this place on the stream.
#[doc(alias = "cudaMemcpyAsync")]
pub unsafe fn device_to_host<'s>(
    target: *mut c_void,
    source: DevicePtr,
    bytes: usize,
    stream: impl Into<StreamRef<'s>>,
) -> Result<(), Error> {
    // The driver writes through the address, so its provenance has to be exposed.
    let target = DevicePtr(target.expose_provenance() as u64);
    // SAFETY: the caller's contract.
    unsafe { copy(target, source, bytes, stream.into()) }
}

/// Copies `bytes` bytes within the device.
///
/// # Errors
/// If the driver refuses.
///
/// # Safety
/// Both are memory of the device, at least `bytes` long, do not overlap, and their other uses are
/// ordered with this place on the stream.
#[doc(alias = "cudaMemcpyAsync")]
pub unsafe fn device_to_device<'s>(
    target: DevicePtr,
    source: DevicePtr,
    bytes: usize,
    stream: impl Into<StreamRef<'s>>,
) -> Result<(), Error> {
    // SAFETY: the caller's contract.
    unsafe { copy(target, source, bytes, stream.into()) }
}

/// Copies between any two places: the driver infers them from the addresses. The calls with a fixed
/// direction refuse memory that the device can access but that is elsewhere, such as memory of a
/// pinned host pool.
///
/// # Safety
/// As the function that calls it.
unsafe fn copy(
    target: DevicePtr,
    source: DevicePtr,
    bytes: usize,
    stream: StreamRef<'_>,
) -> Result<(), Error> {
    if bytes == 0 {
        return Ok(());
    }
    let driver = stream.driver()?;
    // SAFETY: the caller's contract.
    let code = unsafe { driver.cuMemcpyAsync(target, source, bytes, stream.as_raw()) };
    check("cuMemcpyAsync", code)
}

/// Sets `bytes` bytes of the device's memory to `value`.
///
/// # Errors
/// If the driver refuses.
///
/// # Safety
/// `target` is memory of the device, at least `bytes` long, whose other uses are ordered with this
/// place on the stream.
#[doc(alias = "cudaMemsetAsync")]
pub unsafe fn fill<'s>(
    target: DevicePtr,
    value: u8,
    bytes: usize,
    stream: impl Into<StreamRef<'s>>,
) -> Result<(), Error> {
    if bytes == 0 {
        return Ok(());
    }
    let stream = stream.into();
    let driver = stream.driver()?;
    // SAFETY: the caller's contract.
    check("cuMemsetD8Async", unsafe {
        driver.cuMemsetD8Async(target, value, bytes, stream.as_raw())
    })
}

/// Sets `words` words of four bytes of the device's memory to `value`, in native byte order.
///
/// # Errors
/// If the driver refuses.
///
/// # Safety
/// `target` is memory of the device, aligned to 4 bytes and at least `4 * words` long, whose other
/// uses are ordered with this place on the stream.
#[doc(alias = "cuMemsetD32Async")]
pub unsafe fn fill_words<'s>(
    target: DevicePtr,
    value: u32,
    words: usize,
    stream: impl Into<StreamRef<'s>>,
) -> Result<(), Error> {
    if words == 0 {
        return Ok(());
    }
    let stream = stream.into();
    let driver = stream.driver()?;
    // SAFETY: the caller's contract.
    check("cuMemsetD32Async", unsafe {
        driver.cuMemsetD32Async(target, value, words, stream.as_raw())
    })
}
