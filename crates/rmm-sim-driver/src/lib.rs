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
//! | variable | |
//! |---|---|
//! | `RMM_SIM_DEVICES` | how many devices there are; 1 by default |
//! | `RMM_SIM_MEMORY` | bytes of memory of each device and of the host; under `valgrind` few |
//! | `RMM_SIM_ATTRIBUTES` | attributes of each device: `PAGEABLE_MEMORY_ACCESS=1` is one that accesses the host's pageable memory |
//! | `RMM_SIM_KERNELS` | kernels as C prototypes, one a line: their launches compute nothing |
//! | `RMM_SIM_BACKTRACE` | `1`: reports have call stacks |
//! | `RMM_SIM_SEED` | the seed of the schedule |
//! | `RMM_SIM_REPORT` | a folder, in which the process writes what it found as it ends |
//!
//! From the first `cuInit`, a thread runs queued work while the program makes no call: programs may
//! wait for a host function, or for what a stream writes to pinned memory. The order in which work
//! runs then differs between runs; what is reported follows from the calls alone. As with CUDA, the
//! driver does not work in a child that is forked after `cuInit`.
//!
//! It is not the CUDA runtime, and runs no device code: see `rmm-sim-cuda`.
#![cfg(target_os = "linux")]

#[macro_use]
mod export;

mod process;
mod report;

use std::ffi::{c_char, c_float, c_int, c_uchar, c_uint, c_ulonglong, c_void};

use rmm_sim_cuda::shims::{self, CreateParameters, LaunchConfig};
use rmm_sim_cuda::{absent_symbols, older_symbols, shim_symbols};
use rmm_sys::{
    CuCaptureMode, CuCaptureStatus, CuContext, CuDevice, CuDeviceAttribute, CuDevicePtr, CuEvent,
    CuFunction, CuGraph, CuGraphExec, CuGraphMemAttribute, CuHostFn, CuIpcEventHandle,
    CuIpcMemHandle, CuMemAccessDesc, CuMemAccessFlags, CuMemAdvise, CuMemAllocationProp,
    CuMemAllocationType, CuMemGranularity, CuMemHandle, CuMemHandleType, CuMemLocation, CuMemPool,
    CuMemPoolAttribute, CuMemPoolProps, CuMemPoolPtrExportData, CuMemRangeAttribute, CuModule,
    CuPointerAttribute, CuResult, CuStream, CuUuid, driver_symbols,
};

driver_symbols!(export_driver);
shim_symbols!(export_shims);
older_symbols!(export_shims);
absent_symbols!(export_absent);
