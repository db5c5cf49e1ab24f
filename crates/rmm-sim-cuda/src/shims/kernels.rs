//! Modules, libraries and kernels under their other names. A library is a module, and a kernel a
//! function.

use std::ffi::{c_char, c_int, c_uint, c_void};

use rmm_sys::{CuDevice, CuDevicePtr, CuFunction, CuModule, CuResult, CuStream};

use super::{LaunchConfig, put};

/// `CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK`, and the attributes that a program may set
/// (`MAX_DYNAMIC_SHARED_SIZE_BYTES` to `CLUSTER_SCHEDULING_POLICY_PREFERENCE`).
const MAX_THREADS: c_uint = 0;
const SETTABLE: std::ops::RangeInclusive<c_uint> = 8..=15;
/// `CU_MODULE_EAGER_LOADING`.
const EAGER: c_uint = 1;

driver_shims! {
    fn cuModuleLoad(module: *mut CuModule, path: *const c_char) {
        // SAFETY: the caller's contract: the path is not null and stands for an image, which is not
        // read.
        unsafe { rmm_sim::driver().cuModuleLoadData(module, path.cast()) }
    }

    fn cuModuleLoadDataEx(module: *mut CuModule, image: *const c_void, _count: c_uint, _options: *mut c_uint, _values: *mut *mut c_void) {
        // SAFETY: the caller's contract.
        unsafe { rmm_sim::driver().cuModuleLoadData(module, image) }
    }

    fn cuModuleLoadFatBinary(module: *mut CuModule, image: *const c_void) {
        // SAFETY: the caller's contract.
        unsafe { rmm_sim::driver().cuModuleLoadData(module, image) }
    }

    fn cuModuleGetGlobal_v2(_pointer: *mut CuDevicePtr, _bytes: *mut usize, _module: CuModule, _name: *const c_char) {
        CuResult::NOT_FOUND
    }

    fn cuModuleGetLoadingMode(mode: *mut c_uint) {
        // SAFETY: the caller's contract.
        unsafe { put(mode, EAGER) }
    }

    fn cuLibraryLoadData(library: *mut CuModule, image: *const c_void, _options: *mut c_uint, _values: *mut *mut c_void, _count: c_uint, _library_options: *mut c_uint, _library_values: *mut *mut c_void, _library_count: c_uint) {
        // SAFETY: the caller's contract.
        unsafe { rmm_sim::driver().cuModuleLoadData(library, image) }
    }

    fn cuLibraryUnload(library: CuModule) {
        // SAFETY: the caller's contract.
        unsafe { rmm_sim::driver().cuModuleUnload(library) }
    }

    fn cuLibraryGetKernel(kernel: *mut CuFunction, library: CuModule, name: *const c_char) {
        // SAFETY: the caller's contract.
        unsafe { rmm_sim::driver().cuModuleGetFunction(kernel, library, name) }
    }

    fn cuLibraryGetModule(module: *mut CuModule, library: CuModule) {
        // SAFETY: the caller's contract.
        unsafe { put(module, library) }
    }

    fn cuKernelGetFunction(function: *mut CuFunction, kernel: CuFunction) {
        // SAFETY: the caller's contract.
        unsafe { put(function, kernel) }
    }

    fn cuKernelGetAttribute(value: *mut c_int, attribute: c_uint, kernel: CuFunction, _device: CuDevice) {
        // SAFETY: the caller's contract.
        unsafe { cuFuncGetAttribute(value, attribute, kernel) }
    }

    fn cuKernelSetAttribute(attribute: c_uint, value: c_int, kernel: CuFunction, _device: CuDevice) {
        // SAFETY: the caller's contract.
        unsafe { cuFuncSetAttribute(kernel, attribute, value) }
    }

    fn cuFuncGetAttribute(value: *mut c_int, attribute: c_uint, function: CuFunction) {
        if function.is_null() {
            return CuResult::INVALID_HANDLE;
        }
        if attribute > *SETTABLE.end() {
            return CuResult::INVALID_VALUE;
        }
        // SAFETY: the caller's contract.
        unsafe { put(value, if attribute == MAX_THREADS { 1024 } else { 0 }) }
    }

    fn cuFuncSetAttribute(function: CuFunction, attribute: c_uint, _value: c_int) {
        if function.is_null() {
            return CuResult::INVALID_HANDLE;
        }
        if SETTABLE.contains(&attribute) { CuResult::SUCCESS } else { CuResult::INVALID_VALUE }
    }

    fn cuFuncSetCacheConfig(function: CuFunction, _config: c_uint) {
        if function.is_null() { CuResult::INVALID_HANDLE } else { CuResult::SUCCESS }
    }

    fn cuLaunchKernelEx(config: *const LaunchConfig, function: CuFunction, parameters: *mut *mut c_void, extra: *mut *mut c_void) {
        if config.is_null() {
            return CuResult::INVALID_VALUE;
        }
        // SAFETY: it is not null, and by the caller's contract a configuration.
        let LaunchConfig { grid, block, shared_bytes, stream, .. } = unsafe { config.read() };
        let [grid_x, grid_y, grid_z] = grid;
        let [block_x, block_y, block_z] = block;
        // SAFETY: the caller's contract.
        unsafe {
            rmm_sim::driver()
                .cuLaunchKernel(
                    function, grid_x, grid_y, grid_z, block_x, block_y, block_z, shared_bytes, stream,
                    parameters, extra,
                )
        }
    }

    fn cuLaunchCooperativeKernel(
        function: CuFunction, grid_x: c_uint, grid_y: c_uint, grid_z: c_uint,
        block_x: c_uint, block_y: c_uint, block_z: c_uint, shared_bytes: c_uint, stream: CuStream,
        parameters: *mut *mut c_void
    ) {
        let none = std::ptr::null_mut();
        // SAFETY: the caller's contract.
        unsafe {
            rmm_sim::driver().cuLaunchKernel(
                function, grid_x, grid_y, grid_z, block_x, block_y, block_z, shared_bytes, stream,
                parameters, none,
            )
        }
    }
}
