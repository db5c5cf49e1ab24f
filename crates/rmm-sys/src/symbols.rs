//! The list of driver functions, from which everything else in the workspace is generated.

/// Calls `$callback!` with one row for each driver function of [`Driver`](crate::Driver).
///
/// A row is `KIND "FIRST" NAME(ARGUMENT: TYPE, ...);`, where `KIND` is `required` or `optional` and
/// `FIRST` is the first CUDA version whose driver has the symbol (`"12.0"` also stands for older
/// ones: 12.0 is the oldest driver supported here). The names are the symbols themselves, so an ABI
/// version such as `_v2` is part of the name and a newer driver cannot return another signature.
/// Every function returns a [`CuResult`](crate::CuResult).
///
/// The software device and tools that wrap each function are generated with it, so that none is
/// missing. The types are resolved at the callback: import `rmm_sys::*` and `std::ffi::{c_char,
/// c_float, c_int, c_uint, ...}`.
///
/// ```
/// use rmm_sys::driver_symbols;
///
/// macro_rules! count {
///     ($($kind:ident $since:literal $name:ident($($argument:ident: $type:ty),*);)*) => {
///         [$((stringify!($name), stringify!($kind), $since)),*]
///     };
/// }
/// let rows = driver_symbols!(count);
/// assert!(rows.contains(&("cuMemAlloc_v2", "required", "12.0")));
/// assert!(rows.contains(&("cuMemPrefetchAsync_v2", "optional", "12.2")));
/// ```
#[macro_export]
macro_rules! driver_symbols {
    ($callback:ident) => {
        $callback! {
            // Initialization, devices, contexts.
            required "12.0" cuInit(flags: c_uint);
            required "12.0" cuDriverGetVersion(version: *mut c_int);
            required "12.0" cuDeviceGetCount(count: *mut c_int);
            required "12.0" cuDeviceGet(device: *mut CuDevice, ordinal: c_int);
            required "12.0" cuDeviceGetName(name: *mut c_char, length: c_int, device: CuDevice);
            required "12.0" cuDeviceGetUuid_v2(uuid: *mut CuUuid, device: CuDevice);
            required "12.0" cuDeviceTotalMem_v2(bytes: *mut usize, device: CuDevice);
            required "12.0" cuDeviceGetAttribute(value: *mut c_int, attribute: CuDeviceAttribute, device: CuDevice);
            required "12.0" cuDeviceCanAccessPeer(can: *mut c_int, device: CuDevice, peer: CuDevice);
            required "12.0" cuDevicePrimaryCtxRetain(context: *mut CuContext, device: CuDevice);
            required "12.0" cuDevicePrimaryCtxRelease_v2(device: CuDevice);
            required "12.0" cuDevicePrimaryCtxReset_v2(device: CuDevice);
            required "12.0" cuDevicePrimaryCtxGetState(device: CuDevice, flags: *mut c_uint, active: *mut c_int);
            required "12.0" cuCtxGetId(context: CuContext, id: *mut c_ulonglong);
            required "12.0" cuCtxGetCurrent(context: *mut CuContext);
            required "12.0" cuCtxSetCurrent(context: CuContext);
            required "12.0" cuCtxPushCurrent_v2(context: CuContext);
            required "12.0" cuCtxPopCurrent_v2(context: *mut CuContext);
            required "12.0" cuCtxGetDevice(device: *mut CuDevice);
            required "12.0" cuCtxSynchronize();
            required "12.0" cuCtxEnablePeerAccess(peer: CuContext, flags: c_uint);
            required "12.0" cuCtxGetStreamPriorityRange(least: *mut c_int, greatest: *mut c_int);
            optional "12.5" cuCtxRecordEvent(context: CuContext, event: CuEvent);
            optional "12.5" cuCtxWaitEvent(context: CuContext, event: CuEvent);

            // Synchronous allocation.
            required "12.0" cuMemGetInfo_v2(free: *mut usize, total: *mut usize);
            required "12.0" cuMemAlloc_v2(pointer: *mut CuDevicePtr, bytes: usize);
            required "12.0" cuMemFree_v2(pointer: CuDevicePtr);
            required "12.0" cuMemAllocManaged(pointer: *mut CuDevicePtr, bytes: usize, flags: c_uint);
            required "12.0" cuMemHostAlloc(pointer: *mut *mut c_void, bytes: usize, flags: c_uint);
            required "12.0" cuMemFreeHost(pointer: *mut c_void);
            required "12.0" cuMemHostRegister_v2(pointer: *mut c_void, bytes: usize, flags: c_uint);
            required "12.0" cuMemHostUnregister(pointer: *mut c_void);
            required "12.0" cuMemHostGetDevicePointer_v2(device: *mut CuDevicePtr, host: *mut c_void, flags: c_uint);
            required "12.0" cuPointerGetAttribute(data: *mut c_void, attribute: CuPointerAttribute, pointer: CuDevicePtr);
            required "12.0" cuMemRangeGetAttribute(data: *mut c_void, bytes: usize, attribute: CuMemRangeAttribute, pointer: CuDevicePtr, count: usize);
            optional "12.2" cuMemAdvise_v2(pointer: CuDevicePtr, bytes: usize, advice: CuMemAdvise, location: CuMemLocation);
            optional "12.2" cuMemPrefetchAsync_v2(pointer: CuDevicePtr, bytes: usize, location: CuMemLocation, flags: c_uint, stream: CuStream);

            // Stream-ordered allocation and memory pools.
            required "12.0" cuMemAllocAsync(pointer: *mut CuDevicePtr, bytes: usize, stream: CuStream);
            required "12.0" cuMemFreeAsync(pointer: CuDevicePtr, stream: CuStream);
            required "12.0" cuMemAllocFromPoolAsync(pointer: *mut CuDevicePtr, bytes: usize, pool: CuMemPool, stream: CuStream);
            required "12.0" cuMemPoolCreate(pool: *mut CuMemPool, properties: *const CuMemPoolProps);
            required "12.0" cuMemPoolDestroy(pool: CuMemPool);
            required "12.0" cuMemPoolTrimTo(pool: CuMemPool, keep: usize);
            required "12.0" cuMemPoolSetAttribute(pool: CuMemPool, attribute: CuMemPoolAttribute, value: *mut c_void);
            required "12.0" cuMemPoolGetAttribute(pool: CuMemPool, attribute: CuMemPoolAttribute, value: *mut c_void);
            required "12.0" cuMemPoolSetAccess(pool: CuMemPool, access: *const CuMemAccessDesc, count: usize);
            required "12.0" cuMemPoolGetAccess(access: *mut CuMemAccessFlags, pool: CuMemPool, location: *mut CuMemLocation);
            required "12.0" cuDeviceGetDefaultMemPool(pool: *mut CuMemPool, device: CuDevice);
            required "12.0" cuDeviceGetMemPool(pool: *mut CuMemPool, device: CuDevice);
            required "12.0" cuDeviceSetMemPool(device: CuDevice, pool: CuMemPool);
            optional "13.0" cuMemGetDefaultMemPool(pool: *mut CuMemPool, location: *mut CuMemLocation, kind: CuMemAllocationType);
            optional "13.0" cuMemGetMemPool(pool: *mut CuMemPool, location: *mut CuMemLocation, kind: CuMemAllocationType);
            required "12.0" cuMemPoolExportToShareableHandle(handle: *mut c_void, pool: CuMemPool, kind: CuMemHandleType, flags: c_ulonglong);
            required "12.0" cuMemPoolImportFromShareableHandle(pool: *mut CuMemPool, handle: *mut c_void, kind: CuMemHandleType, flags: c_ulonglong);
            required "12.0" cuMemPoolExportPointer(data: *mut CuMemPoolPtrExportData, pointer: CuDevicePtr);
            required "12.0" cuMemPoolImportPointer(pointer: *mut CuDevicePtr, pool: CuMemPool, data: *mut CuMemPoolPtrExportData);
            required "12.0" cuDeviceGetGraphMemAttribute(device: CuDevice, attribute: CuGraphMemAttribute, value: *mut c_void);
            required "12.0" cuDeviceSetGraphMemAttribute(device: CuDevice, attribute: CuGraphMemAttribute, value: *mut c_void);
            required "12.0" cuDeviceGraphMemTrim(device: CuDevice);

            // Virtual memory.
            required "12.0" cuMemAddressReserve(pointer: *mut CuDevicePtr, bytes: usize, alignment: usize, hint: CuDevicePtr, flags: c_ulonglong);
            required "12.0" cuMemAddressFree(pointer: CuDevicePtr, bytes: usize);
            required "12.0" cuMemCreate(handle: *mut CuMemHandle, bytes: usize, properties: *const CuMemAllocationProp, flags: c_ulonglong);
            required "12.0" cuMemRelease(handle: CuMemHandle);
            required "12.0" cuMemMap(pointer: CuDevicePtr, bytes: usize, offset: usize, handle: CuMemHandle, flags: c_ulonglong);
            required "12.0" cuMemUnmap(pointer: CuDevicePtr, bytes: usize);
            required "12.0" cuMemSetAccess(pointer: CuDevicePtr, bytes: usize, access: *const CuMemAccessDesc, count: usize);
            required "12.0" cuMemGetAccess(flags: *mut c_ulonglong, location: *const CuMemLocation, pointer: CuDevicePtr);
            required "12.0" cuMemGetAllocationGranularity(bytes: *mut usize, properties: *const CuMemAllocationProp, option: CuMemGranularity);
            required "12.0" cuMemRetainAllocationHandle(handle: *mut CuMemHandle, address: *mut c_void);
            required "12.0" cuMemGetAllocationPropertiesFromHandle(properties: *mut CuMemAllocationProp, handle: CuMemHandle);
            required "12.0" cuMemExportToShareableHandle(shareable: *mut c_void, handle: CuMemHandle, kind: CuMemHandleType, flags: c_ulonglong);
            required "12.0" cuMemImportFromShareableHandle(handle: *mut CuMemHandle, shareable: *mut c_void, kind: CuMemHandleType);

            // Sharing memory between processes.
            required "12.0" cuIpcGetMemHandle(handle: *mut CuIpcMemHandle, pointer: CuDevicePtr);
            required "12.0" cuIpcOpenMemHandle_v2(pointer: *mut CuDevicePtr, handle: CuIpcMemHandle, flags: c_uint);
            required "12.0" cuIpcCloseMemHandle(pointer: CuDevicePtr);
            required "12.0" cuIpcGetEventHandle(handle: *mut CuIpcEventHandle, event: CuEvent);
            required "12.0" cuIpcOpenEventHandle(event: *mut CuEvent, handle: CuIpcEventHandle);

            // Streams and events.
            required "12.0" cuStreamCreateWithPriority(stream: *mut CuStream, flags: c_uint, priority: c_int);
            required "12.0" cuStreamDestroy_v2(stream: CuStream);
            required "12.0" cuStreamSynchronize(stream: CuStream);
            required "12.0" cuStreamQuery(stream: CuStream);
            required "12.0" cuStreamWaitEvent(stream: CuStream, event: CuEvent, flags: c_uint);
            required "12.0" cuStreamGetId(stream: CuStream, id: *mut c_ulonglong);
            required "12.0" cuStreamGetCtx(stream: CuStream, context: *mut CuContext);
            required "12.0" cuStreamGetFlags(stream: CuStream, flags: *mut c_uint);
            required "12.0" cuStreamGetPriority(stream: CuStream, priority: *mut c_int);
            required "12.0" cuStreamIsCapturing(stream: CuStream, status: *mut CuCaptureStatus);
            required "12.0" cuLaunchHostFunc(stream: CuStream, function: CuHostFn, data: *mut c_void);
            required "12.0" cuStreamWriteValue32_v2(stream: CuStream, address: CuDevicePtr, value: u32, flags: c_uint);
            required "12.0" cuEventCreate(event: *mut CuEvent, flags: c_uint);
            required "12.0" cuEventDestroy_v2(event: CuEvent);
            required "12.0" cuEventRecord(event: CuEvent, stream: CuStream);
            required "12.0" cuEventQuery(event: CuEvent);
            required "12.0" cuEventSynchronize(event: CuEvent);
            optional "12.0" cuEventElapsedTime(milliseconds: *mut c_float, start: CuEvent, end: CuEvent);
            optional "12.8" cuEventElapsedTime_v2(milliseconds: *mut c_float, start: CuEvent, end: CuEvent);

            // Stream capture and graphs.
            required "12.0" cuStreamBeginCapture_v2(stream: CuStream, mode: CuCaptureMode);
            required "12.0" cuStreamEndCapture(stream: CuStream, graph: *mut CuGraph);
            required "12.0" cuThreadExchangeStreamCaptureMode(mode: *mut CuCaptureMode);
            required "12.0" cuGraphDestroy(graph: CuGraph);
            required "12.0" cuGraphInstantiateWithFlags(executable: *mut CuGraphExec, graph: CuGraph, flags: c_ulonglong);
            required "12.0" cuGraphLaunch(executable: CuGraphExec, stream: CuStream);
            required "12.0" cuGraphExecDestroy(executable: CuGraphExec);

            // Copies and fills.
            required "12.0" cuMemcpy(target: CuDevicePtr, source: CuDevicePtr, bytes: usize);
            required "12.0" cuMemcpyAsync(target: CuDevicePtr, source: CuDevicePtr, bytes: usize, stream: CuStream);
            required "12.0" cuMemcpyHtoD_v2(target: CuDevicePtr, source: *const c_void, bytes: usize);
            required "12.0" cuMemcpyDtoH_v2(target: *mut c_void, source: CuDevicePtr, bytes: usize);
            required "12.0" cuMemcpyHtoDAsync_v2(target: CuDevicePtr, source: *const c_void, bytes: usize, stream: CuStream);
            required "12.0" cuMemcpyDtoHAsync_v2(target: *mut c_void, source: CuDevicePtr, bytes: usize, stream: CuStream);
            required "12.0" cuMemcpyDtoDAsync_v2(target: CuDevicePtr, source: CuDevicePtr, bytes: usize, stream: CuStream);
            required "12.0" cuMemsetD8_v2(target: CuDevicePtr, value: c_uchar, count: usize);
            required "12.0" cuMemsetD32_v2(target: CuDevicePtr, value: c_uint, count: usize);
            required "12.0" cuMemsetD8Async(target: CuDevicePtr, value: c_uchar, count: usize, stream: CuStream);
            required "12.0" cuMemsetD32Async(target: CuDevicePtr, value: c_uint, count: usize, stream: CuStream);

            // Modules and kernels, so that tests can run kernels from PTX.
            required "12.0" cuModuleLoadData(module: *mut CuModule, image: *const c_void);
            required "12.0" cuModuleUnload(module: CuModule);
            required "12.0" cuModuleGetFunction(function: *mut CuFunction, module: CuModule, name: *const c_char);
            required "12.0" cuLaunchKernel(function: CuFunction, grid_x: c_uint, grid_y: c_uint, grid_z: c_uint, block_x: c_uint, block_y: c_uint, block_z: c_uint, shared_bytes: c_uint, stream: CuStream, parameters: *mut *mut c_void, extra: *mut *mut c_void);
        }
    };
}
