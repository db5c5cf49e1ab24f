//! The software device as a stand-alone `libcuda`, for programs in any language: a library with the
//! driver's functions and its own copy of the device, which every thread of the process uses.
//!
//! `rmm check` runs programs on it. By hand:
//!
//! ```text
//! cargo build -p rmm-sim-driver
//! mkdir libraries && cp target/debug/librmm_sim_driver.so libraries/libcuda.so.1
//! ln -s libcuda.so.1 libraries/libcuda.so
//! LD_LIBRARY_PATH=libraries ./program
//! ```
//!
//! A program that uses `rmm` loads it by `RMM_CUDA_LIBRARY` too.
//!
//! ```text
//! above   your program, in any language
//! here    rmm-sim-driver: a library in the driver's place
//! below   rmm-sim-cuda > rmm-sim > rmm-sys
//! ```
//!
//! | variable | |
//! |---|---|
//! | `RMM_SIM_DEVICES` | how many devices there are; 1 by default |
//! | `CUDA_VISIBLE_DEVICES` | those of them that the process sees, by number, as with CUDA |
//! | `RMM_SIM_MEMORY` | bytes of memory of each device and of the host; under `valgrind` few |
//! | `RMM_SIM_SHARED` | a file: processes that name the same one share the devices' memory |
//! | `RMM_SIM_ATTRIBUTES` | attributes of each device: `PAGEABLE_MEMORY_ACCESS=1` for pageable memory |
//! | `RMM_SIM_KERNELS` | kernels as C prototypes, one a line: their launches compute nothing |
//! | `RMM_SIM_BACKTRACE` | `1`: reports have call stacks |
//! | `RMM_SIM_SEED` | the seed of the schedule |
//! | `RMM_SIM_REPORT` | a folder for the [report](#reports) of each process; `-`: standard error |
//!
//! With `RMM_SIM_SHARED=/dev/shm/device`, free memory is what no process has taken, and what a
//! process has taken goes back when it ends, however it ends. The bytes of exported memory are in a
//! folder beside the file, whose name ends in `.d`; both can be removed when no process uses them.
//! Exported memory works between processes without it, too, but then each counts for itself. What
//! one process writes and another reads is not checked for its order, and the report says so.
//!
//! From the first `cuInit`, a thread runs queued work while the program makes no call: programs may
//! wait for a host function, or for what a stream writes to pinned memory. The order in which work
//! runs then differs between runs; what is reported follows from the calls alone. As with CUDA, the
//! driver does not work in a child that is forked after `cuInit`.
//!
//! # Reports
//! Each process writes what it finds as it finds it, and the leaks as it ends: to a file
//! `PROCESS.txt` in the folder of `RMM_SIM_REPORT`, or `PROCESS-2.txt` and so on for programs that
//! it executes later. A file without the line `end` is that of a process which ended without its
//! exit handlers, or has not ended. With `-` the same lines, and the number of calls at the end, go
//! to standard error.
//!
//! It is not the CUDA runtime, and runs no device code: see `rmm-sim-cuda`.
#![cfg(target_os = "linux")]

#[macro_use]
mod export;

mod process;
mod report;
mod visible;

use std::ffi::{c_char, c_float, c_int, c_uchar, c_uint, c_ulonglong, c_void};
use std::ptr;

use rmm_sim_cuda::shims::{self, CreateParameters, LaunchConfig};
use rmm_sim_cuda::{absent_symbols, older_symbols, shim_symbols};
use rmm_sys::{
    Annotations, CuCaptureMode, CuCaptureStatus, CuContext, CuDevice, CuDeviceAttribute,
    CuDevicePtr, CuEvent, CuFunction, CuGraph, CuGraphExec, CuGraphMemAttribute, CuHostFn,
    CuIpcEventHandle, CuIpcMemHandle, CuMemAccessDesc, CuMemAccessFlags, CuMemAdvise,
    CuMemAllocationProp, CuMemAllocationType, CuMemGranularity, CuMemHandle, CuMemHandleType,
    CuMemLocation, CuMemPool, CuMemPoolAttribute, CuMemPoolProps, CuMemPoolPtrExportData,
    CuMemRangeAttribute, CuModule, CuPointerAttribute, CuResult, CuStream, CuUuid, driver_symbols,
};

macro_rules! export_new_shims {
    ($($row:tt)*) => { export_shims!(shim_exports $($row)*); };
}

macro_rules! export_old_shims {
    ($($row:tt)*) => { export_shims!(older_exports $($row)*); };
}

driver_symbols!(export_driver);
shim_symbols!(export_new_shims);
older_symbols!(export_old_shims);
absent_symbols!(export_absent);

/// The functions that `cuGetProcAddress` finds: those that are served, and the one by which the
/// CUDA runtime asks for private tables, so that the report says that it did.
fn exports() -> Vec<(&'static str, *const c_void)> {
    let tables = ("cuGetExportTable", cuGetExportTable as *const c_void);
    [driver_exports(), shim_exports(), older_exports(), vec![tables]].concat()
}

/// The functions by which libraries that suballocate memory of the driver report their blocks.
/// Null for a version that this library does not have; what the caller's blocks are then is not
/// checked, and the report says so.
#[unsafe(no_mangle)]
pub extern "C" fn rmm_sim_annotations(version: c_uint) -> *const Annotations {
    let found = rmm_sim::driver().annotations.map(|annotations| annotations.for_version(version));
    found.filter(|found| !found.is_null()).unwrap_or_else(|| {
        report::refused("rmm_sim_annotations, of another version of this library,");
        ptr::null()
    })
}

/// Reports that the program knows, by other means than a call of the driver, that all work which is
/// enqueued on a stream so far is complete: by a flag that a host function has set, or by a byte
/// that a copy has written to pinned memory. C programs declare it weak, since no other driver has
/// it:
///
/// ```c
/// __attribute__((weak)) void rmm_sim_stream_completed(CUstream stream);
///
/// while (!atomic_load(&flag)) {}
/// if (rmm_sim_stream_completed) rmm_sim_stream_completed(stream);
/// ```
#[unsafe(no_mangle)]
pub extern "C" fn rmm_sim_stream_completed(stream: CuStream) {
    if let Some(annotations) = rmm_sim::driver().annotations.filter(|_| !process::is_forked()) {
        annotations.stream_completed(stream);
    }
}
