//! Occupancy, as if a kernel used no registers and no shared memory.

use std::ffi::{c_int, c_uint, c_void};

use rmm_sys::{CuFunction, CuResult};

use super::put;

/// Threads of a multiprocessor and of a block, blocks of a multiprocessor, and shared memory of a
/// block, as on an H200.
const THREADS_OF_MULTIPROCESSOR: c_int = 2048;
const THREADS_OF_BLOCK: c_int = 1024;
const BLOCKS_OF_MULTIPROCESSOR: c_int = 32;
const SHARED_BYTES: usize = 48 << 10;

driver_shims! {
    fn cuOccupancyMaxActiveBlocksPerMultiprocessor(blocks: *mut c_int, function: CuFunction, threads: c_int, shared_bytes: usize) {
        // SAFETY: the caller's contract.
        unsafe {
            cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(
                blocks, function, threads, shared_bytes, 0,
            )
        }
    }

    fn cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(blocks: *mut c_int, function: CuFunction, threads: c_int, _shared_bytes: usize, _flags: c_uint) {
        if function.is_null() {
            return CuResult::INVALID_HANDLE;
        }
        if threads <= 0 {
            return CuResult::INVALID_VALUE;
        }
        let most = if threads > THREADS_OF_BLOCK {
            0
        } else {
            (THREADS_OF_MULTIPROCESSOR / threads).min(BLOCKS_OF_MULTIPROCESSOR)
        };
        // SAFETY: the caller's contract.
        unsafe { put(blocks, most) }
    }

    fn cuOccupancyMaxPotentialBlockSize(grid: *mut c_int, threads: *mut c_int, function: CuFunction, shared_of: *const c_void, shared_bytes: usize, limit: c_int) {
        // SAFETY: the caller's contract.
        unsafe {
            cuOccupancyMaxPotentialBlockSizeWithFlags(
                grid, threads, function, shared_of, shared_bytes, limit, 0,
            )
        }
    }

    fn cuOccupancyMaxPotentialBlockSizeWithFlags(grid: *mut c_int, threads: *mut c_int, function: CuFunction, _shared_of: *const c_void, _shared_bytes: usize, limit: c_int, _flags: c_uint) {
        if function.is_null() {
            return CuResult::INVALID_HANDLE;
        }
        let most = if limit > 0 { limit.min(THREADS_OF_BLOCK) } else { THREADS_OF_BLOCK };
        // SAFETY: the caller's contract.
        match unsafe { put(threads, most) } {
            // SAFETY: as above.
            CuResult::SUCCESS => unsafe { put(grid, THREADS_OF_MULTIPROCESSOR / most) },
            code => code,
        }
    }

    fn cuOccupancyAvailableDynamicSMemPerBlock(bytes: *mut usize, function: CuFunction, _blocks: c_int, _threads: c_int) {
        if function.is_null() {
            return CuResult::INVALID_HANDLE;
        }
        // SAFETY: the caller's contract.
        unsafe { put(bytes, SHARED_BYTES) }
    }
}
