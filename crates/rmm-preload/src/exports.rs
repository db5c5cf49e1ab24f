//! The functions of the driver that the program finds here.
//!
//! Each keeps the driver's contract: what is said of its arguments there holds here.

use std::cell::Cell;
use std::ffi::{c_int, c_uint, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};

use rmm_core::CaptureScope;
use rmm_core::sys::{CuCaptureMode, CuDevice, CuDevicePtr, CuGraph, CuResult, CuStream, Driver};

use crate::allocations::{self, Served};
use crate::next::next;
use crate::{devices, report, streams};

thread_local! {
    /// Whether a function of this library is running on the thread: what it calls is the driver's.
    static IS_INSIDE: Cell<bool> = const { Cell::new(false) };
}

/// Restores the flag, also if the function panics.
struct Inside;

impl Drop for Inside {
    fn drop(&mut self) {
        // While the thread ends the cell is gone.
        let _ignored = IS_INSIDE.try_with(|inside| inside.set(false));
    }
}

fn driver() -> Result<&'static Driver, CuResult> {
    Driver::get().map_err(|_| CuResult::NOT_INITIALIZED)
}

/// Runs `serve`, unless the thread is inside already; a panic is a call that was not served.
fn guarded(serve: impl FnOnce() -> Served) -> Served {
    // The flag is gone while the thread ends.
    if IS_INSIDE.try_with(|inside| inside.replace(true)).unwrap_or(true) {
        return Served::No;
    }
    let _inside = Inside;
    catch_unwind(AssertUnwindSafe(serve)).unwrap_or(Served::No)
}

/// Runs `serve`, which writes to `place`, unless the place is null: the driver refuses that.
fn served_at(place: *mut CuDevicePtr, serve: impl FnOnce() -> Served) -> Served {
    if place.is_null() { Served::No } else { guarded(serve) }
}

/// Runs `note`, which changes what this library knows and nothing else.
fn note(note: impl FnOnce()) {
    guarded(|| {
        note();
        Served::No
    });
}

/// The stream that 0 means to the functions that end in `_ptsz`.
fn per_thread(stream: CuStream) -> CuStream {
    if stream.is_null() { CuStream::PER_THREAD } else { stream }
}

/// # Safety
/// As for the driver's function.
unsafe fn allocate_async(pointer: *mut CuDevicePtr, bytes: usize, stream: CuStream) -> CuResult {
    let driver = match driver() {
        Ok(driver) => driver,
        Err(code) => return code,
    };
    let served = served_at(pointer, || {
        allocations::allocate(driver, Some(stream), bytes, |address| {
            // SAFETY: the program passes a place for the address, which is not null.
            unsafe { pointer.write(address) };
        })
    });
    match served {
        Served::Yes(code) => code,
        Served::No => {
            report::count_passed_on();
            // SAFETY: the caller's contract is the driver's.
            unsafe { driver.cuMemAllocAsync(pointer, bytes, stream) }
        }
    }
}

/// # Safety
/// As for the driver's function.
unsafe fn free_async(pointer: CuDevicePtr, stream: CuStream) -> CuResult {
    let driver = match driver() {
        Ok(driver) => driver,
        Err(code) => return code,
    };
    match guarded(|| allocations::free(driver, Some(stream), pointer)) {
        Served::Yes(code) => code,
        // SAFETY: the caller's contract is the driver's.
        Served::No => unsafe { driver.cuMemFreeAsync(pointer, stream) },
    }
}

/// Defines functions of the driver: each has the name, the arguments and the contract of the
/// driver's.
macro_rules! exports {
    ($($name:ident($($argument:ident: $type:ty),*) => $body:block)*) => {$(
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $name($($argument: $type),*) -> CuResult $body
    )*};
}

exports! {
    cuMemAllocAsync(pointer: *mut CuDevicePtr, bytes: usize, stream: CuStream) => {
        // SAFETY: the caller's contract is the driver's.
        unsafe { allocate_async(pointer, bytes, stream) }
    }
    cuMemAllocAsync_ptsz(pointer: *mut CuDevicePtr, bytes: usize, stream: CuStream) => {
        // SAFETY: the caller's contract is the driver's.
        unsafe { allocate_async(pointer, bytes, per_thread(stream)) }
    }
    cuMemFreeAsync(pointer: CuDevicePtr, stream: CuStream) => {
        // SAFETY: the caller's contract is the driver's.
        unsafe { free_async(pointer, stream) }
    }
    cuMemFreeAsync_ptsz(pointer: CuDevicePtr, stream: CuStream) => {
        // SAFETY: the caller's contract is the driver's.
        unsafe { free_async(pointer, per_thread(stream)) }
    }
    cuMemAlloc_v2(pointer: *mut CuDevicePtr, bytes: usize) => {
        let driver = match driver() {
            Ok(driver) => driver,
            Err(code) => return code,
        };
        let served = served_at(pointer, || {
            allocations::allocate(driver, None, bytes, |address| {
                // SAFETY: the program passes a place for the address, which is not null.
                unsafe { pointer.write(address) };
            })
        });
        match served {
            Served::Yes(code) => code,
            Served::No => {
                report::count_passed_on();
                // SAFETY: the caller's contract is the driver's.
                unsafe { driver.cuMemAlloc_v2(pointer, bytes) }
            }
        }
    }
    cuMemFree_v2(pointer: CuDevicePtr) => {
        let driver = match driver() {
            Ok(driver) => driver,
            Err(code) => return code,
        };
        match guarded(|| allocations::free(driver, None, pointer)) {
            Served::Yes(code) => code,
            // SAFETY: the caller's contract is the driver's.
            Served::No => unsafe { driver.cuMemFree_v2(pointer) },
        }
    }
    cuStreamCreate(stream: *mut CuStream, flags: c_uint) => {
        // The two are the same at the default priority.
        // SAFETY: the caller's contract is the driver's.
        unsafe { cuStreamCreateWithPriority(stream, flags, 0) }
    }
    cuStreamCreateWithPriority(stream: *mut CuStream, flags: c_uint, priority: c_int) => {
        let driver = match driver() {
            Ok(driver) => driver,
            Err(code) => return code,
        };
        // SAFETY: the caller's contract is the driver's.
        let code = unsafe { driver.cuStreamCreateWithPriority(stream, flags, priority) };
        if code == CuResult::SUCCESS {
            // SAFETY: the driver has written the handle.
            let handle = unsafe { stream.read() };
            note(|| streams::made(handle));
        }
        code
    }
    cuStreamDestroy_v2(stream: CuStream) => {
        let driver = match driver() {
            Ok(driver) => driver,
            Err(code) => return code,
        };
        let mut capture = None;
        note(|| {
            streams::ended(stream);
            // Before another stream can have the handle.
            capture = streams::take_capture(driver, stream);
        });
        // SAFETY: the caller's contract is the driver's.
        let code = unsafe { driver.cuStreamDestroy_v2(stream) };
        if code != CuResult::SUCCESS && let Some(capture) = capture {
            note(|| streams::capture_began(driver, stream, capture));
        }
        code
    }
    cuStreamBeginCapture_v2(stream: CuStream, mode: CuCaptureMode) => {
        // SAFETY: the caller's contract is the driver's.
        unsafe { begin_capture(stream, mode) }
    }
    cuStreamBeginCapture_v2_ptsz(stream: CuStream, mode: CuCaptureMode) => {
        // SAFETY: the caller's contract is the driver's.
        unsafe { begin_capture(per_thread(stream), mode) }
    }
    cuStreamEndCapture(stream: CuStream, graph: *mut CuGraph) => {
        // SAFETY: the caller's contract is the driver's.
        unsafe { end_capture(stream, graph) }
    }
    cuStreamEndCapture_ptsz(stream: CuStream, graph: *mut CuGraph) => {
        // SAFETY: the caller's contract is the driver's.
        unsafe { end_capture(per_thread(stream), graph) }
    }
    cuStreamBeginCaptureToGraph(
        stream: CuStream,
        graph: CuGraph,
        dependencies: *const c_void,
        edges: *const c_void,
        count: usize,
        mode: CuCaptureMode
    ) => {
        type Function = unsafe extern "C" fn(
            CuStream, CuGraph, *const c_void, *const c_void, usize, CuCaptureMode,
        ) -> CuResult;
        // SAFETY: this is the function's type since CUDA 12.3, in which it came.
        let Some(function) = (unsafe { next::<Function>(c"cuStreamBeginCaptureToGraph") }) else {
            return CuResult::NOT_SUPPORTED;
        };
        announced_capture(stream, |_| {
            // SAFETY: the caller's contract is the driver's.
            unsafe { function(stream, graph, dependencies, edges, count, mode) }
        })
    }
    cuDevicePrimaryCtxReset_v2(device: CuDevice) => {
        let driver = match driver() {
            Ok(driver) => driver,
            Err(code) => return code,
        };
        note(|| devices::reset(device, allocations::forget));
        // SAFETY: the caller's contract is the driver's.
        unsafe { driver.cuDevicePrimaryCtxReset_v2(device) }
    }
}

/// Calls a function of the driver that begins a capture, which pools know of before.
fn announced_capture(stream: CuStream, begin: impl FnOnce(&Driver) -> CuResult) -> CuResult {
    let driver = match driver() {
        Ok(driver) => driver,
        Err(code) => return code,
    };
    let scope = CaptureScope::announce();
    let code = begin(driver);
    // Otherwise the announcement ends here. One of a capture that goes on stays.
    if code == CuResult::SUCCESS {
        note(|| streams::capture_began(driver, stream, scope));
    }
    code
}

/// # Safety
/// As for the driver's function.
unsafe fn begin_capture(stream: CuStream, mode: CuCaptureMode) -> CuResult {
    announced_capture(stream, |driver| {
        // SAFETY: the caller's contract is the driver's.
        unsafe { driver.cuStreamBeginCapture_v2(stream, mode) }
    })
}

/// # Safety
/// As for the driver's function.
unsafe fn end_capture(stream: CuStream, graph: *mut CuGraph) -> CuResult {
    let driver = match driver() {
        Ok(driver) => driver,
        Err(code) => return code,
    };
    // SAFETY: the caller's contract is the driver's.
    let code = unsafe { driver.cuStreamEndCapture(stream, graph) };
    // Also if it refused: the capture may have ended without a graph.
    note(|| streams::capture_may_have_ended(driver, stream));
    code
}
