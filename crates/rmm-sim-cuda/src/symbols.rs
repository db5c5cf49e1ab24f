//! The lists of functions beside those of [`rmm_sys::driver_symbols`]: with it, every function of
//! the driver API of CUDA 13.4 (but for graphics).
//!
//! The build script reads this file too.

/// Calls `$callback!` with one row for each function that this crate serves on the table: shims,
/// and answers that never change.
#[doc(hidden)]
#[macro_export]
macro_rules! shim_symbols {
    ($callback:ident) => {
        $callback! {
            // Names and versions of what the driver offers.
            cuGetErrorName(code: CuResult, text: *mut *const c_char);
            cuGetErrorString(code: CuResult, text: *mut *const c_char);
            cuGetProcAddress_v2(symbol: *const c_char, function: *mut *mut c_void, version: c_int, flags: c_ulonglong, status: *mut c_int);

            // Devices and contexts.
            cuDeviceComputeCapability(major: *mut c_int, minor: *mut c_int, device: CuDevice);
            cuDeviceGetPCIBusId(text: *mut c_char, length: c_int, device: CuDevice);
            cuDevicePrimaryCtxSetFlags_v2(device: CuDevice, flags: c_uint);
            cuCtxCreate_v2(context: *mut CuContext, flags: c_uint, device: CuDevice);
            cuCtxCreate_v3(context: *mut CuContext, affinity: *const c_void, affinities: c_int, flags: c_uint, device: CuDevice);
            cuCtxCreate_v4(context: *mut CuContext, parameters: *const CreateParameters, flags: c_uint, device: CuDevice);
            cuCtxDestroy_v2(context: CuContext);
            cuCtxGetApiVersion(context: CuContext, version: *mut c_uint);
            cuCtxGetFlags(flags: *mut c_uint);
            cuCtxSetFlags(flags: c_uint);
            cuCtxGetLimit(value: *mut usize, limit: c_uint);
            cuCtxSetLimit(limit: c_uint, value: usize);
            cuCtxGetCacheConfig(config: *mut c_uint);
            cuCtxSetCacheConfig(config: c_uint);

            // Memory and copies.
            cuMemAllocHost_v2(pointer: *mut *mut c_void, bytes: usize);
            cuMemGetAddressRange_v2(start: *mut CuDevicePtr, bytes: *mut usize, pointer: CuDevicePtr);
            cuPointerGetAttributes(count: c_uint, attributes: *mut CuPointerAttribute, data: *mut *mut c_void, pointer: CuDevicePtr);
            cuMemcpyDtoD_v2(target: CuDevicePtr, source: CuDevicePtr, bytes: usize);
            cuMemcpyPeer(target: CuDevicePtr, target_context: CuContext, source: CuDevicePtr, source_context: CuContext, bytes: usize);
            cuMemcpyPeerAsync(target: CuDevicePtr, target_context: CuContext, source: CuDevicePtr, source_context: CuContext, bytes: usize, stream: CuStream);

            // Streams, events, graphs.
            cuStreamCreate(stream: *mut CuStream, flags: c_uint);
            cuStreamAttachMemAsync(stream: CuStream, pointer: CuDevicePtr, bytes: usize, flags: c_uint);
            cuLaunchHostFunc_v2(stream: CuStream, function: CuHostFn, data: *mut c_void, mode: c_uint);
            cuEventRecordWithFlags(event: CuEvent, stream: CuStream, flags: c_uint);
            cuGraphUpload(executable: CuGraphExec, stream: CuStream);

            // Modules, kernels, launches.
            cuModuleLoad(module: *mut CuModule, path: *const c_char);
            cuModuleLoadDataEx(module: *mut CuModule, image: *const c_void, count: c_uint, options: *mut c_uint, values: *mut *mut c_void);
            cuModuleLoadFatBinary(module: *mut CuModule, image: *const c_void);
            cuModuleGetGlobal_v2(pointer: *mut CuDevicePtr, bytes: *mut usize, module: CuModule, name: *const c_char);
            cuModuleGetLoadingMode(mode: *mut c_uint);
            cuLibraryLoadData(library: *mut CuModule, image: *const c_void, options: *mut c_uint, values: *mut *mut c_void, count: c_uint, library_options: *mut c_uint, library_values: *mut *mut c_void, library_count: c_uint);
            cuLibraryUnload(library: CuModule);
            cuLibraryGetKernel(kernel: *mut CuFunction, library: CuModule, name: *const c_char);
            cuLibraryGetModule(module: *mut CuModule, library: CuModule);
            cuKernelGetFunction(function: *mut CuFunction, kernel: CuFunction);
            cuKernelGetAttribute(value: *mut c_int, attribute: c_uint, kernel: CuFunction, device: CuDevice);
            cuKernelSetAttribute(attribute: c_uint, value: c_int, kernel: CuFunction, device: CuDevice);
            cuFuncGetAttribute(value: *mut c_int, attribute: c_uint, function: CuFunction);
            cuFuncSetAttribute(function: CuFunction, attribute: c_uint, value: c_int);
            cuFuncSetCacheConfig(function: CuFunction, config: c_uint);
            cuLaunchKernelEx(config: *const LaunchConfig, function: CuFunction, parameters: *mut *mut c_void, extra: *mut *mut c_void);
            cuLaunchCooperativeKernel(function: CuFunction, grid_x: c_uint, grid_y: c_uint, grid_z: c_uint, block_x: c_uint, block_y: c_uint, block_z: c_uint, shared_bytes: c_uint, stream: CuStream, parameters: *mut *mut c_void);
            cuOccupancyMaxActiveBlocksPerMultiprocessor(blocks: *mut c_int, function: CuFunction, threads: c_int, shared_bytes: usize);
            cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(blocks: *mut c_int, function: CuFunction, threads: c_int, shared_bytes: usize, flags: c_uint);
            cuOccupancyMaxPotentialBlockSize(grid: *mut c_int, threads: *mut c_int, function: CuFunction, shared_of: *const c_void, shared_bytes: usize, limit: c_int);
            cuOccupancyMaxPotentialBlockSizeWithFlags(grid: *mut c_int, threads: *mut c_int, function: CuFunction, shared_of: *const c_void, shared_bytes: usize, limit: c_int, flags: c_uint);
            cuOccupancyAvailableDynamicSMemPerBlock(bytes: *mut usize, function: CuFunction, blocks: c_int, threads: c_int);
        }
    };
}

/// Calls `$callback!` with one row for each function that only programs built with older headers
/// call: CUDA 13 has another function under the name.
#[doc(hidden)]
#[macro_export]
macro_rules! older_symbols {
    ($callback:ident) => {
        $callback! {
            cuGetProcAddress(symbol: *const c_char, function: *mut *mut c_void, version: c_int, flags: c_ulonglong);
            cuDeviceGetUuid(uuid: *mut CuUuid, device: CuDevice);
            cuMemAdvise(pointer: CuDevicePtr, bytes: usize, advice: CuMemAdvise, device: CuDevice);
            cuMemPrefetchAsync(pointer: CuDevicePtr, bytes: usize, device: CuDevice, stream: CuStream);
        }
    };
}

/// Calls `$callback!` with the functions that return `NOT_SUPPORTED`. A program that looks one up
/// gets this answer when it calls it; a missing symbol would end the program in its loader.
#[doc(hidden)]
#[macro_export]
macro_rules! absent_symbols {
    ($callback:ident) => {
        $callback! {
            cuArray3DCreate_v2 cuArray3DGetDescriptor_v2 cuArrayCreate_v2 cuArrayDestroy
            cuArrayGetDescriptor_v2 cuArrayGetMemoryRequirements cuArrayGetPlane
            cuArrayGetSparseProperties cuCoredumpDeregisterCompleteCallback
            cuCoredumpDeregisterStartCallback cuCoredumpGetAttribute cuCoredumpGetAttributeGlobal
            cuCoredumpRegisterCompleteCallback cuCoredumpRegisterStartCallback
            cuCoredumpSetAttribute cuCoredumpSetAttributeGlobal cuCtxAttach
            cuCtxDetach cuCtxDisablePeerAccess
            cuCtxFromGreenCtx cuCtxGetDevResource cuCtxGetDevice_v2 cuCtxGetExecAffinity
            cuCtxGetSharedMemConfig cuCtxResetPersistingL2Cache cuCtxSetSharedMemConfig
            cuCtxSynchronize_v2 cuDestroyExternalMemory cuDestroyExternalSemaphore
            cuDevResourceGenerateDesc cuDevSmResourceSplit cuDevSmResourceSplitByCount
            cuDeviceGetByPCIBusId cuDeviceGetCliqueCount cuDeviceGetCliqueInfo
            cuDeviceGetDevResource cuDeviceGetExecAffinitySupport cuDeviceGetFabricClusterUuid
            cuDeviceGetHostAtomicCapabilities cuDeviceGetLuid cuDeviceGetP2PAtomicCapabilities
            cuDeviceGetP2PAttribute cuDeviceGetProperties cuDeviceGetTexture1DLinearMaxWidth
            cuDeviceRegisterAsyncNotification cuDeviceUnregisterAsyncNotification
            cuExternalMemoryGetMappedBuffer cuExternalMemoryGetMappedMipmappedArray
            cuFlushGPUDirectRDMAWrites cuFuncGetModule cuFuncGetName cuFuncGetParamCount
            cuFuncGetParamInfo cuFuncIsLoaded cuFuncLoad cuFuncSetBlockShape
            cuFuncSetSharedMemConfig cuFuncSetSharedSize cuGetExportTable cuGraphAddBatchMemOpNode
            cuGraphAddChildGraphNode cuGraphAddDependencies cuGraphAddDependencies_v2
            cuGraphAddEmptyNode cuGraphAddEventRecordNode cuGraphAddEventWaitNode
            cuGraphAddExternalSemaphoresSignalNode cuGraphAddExternalSemaphoresWaitNode
            cuGraphAddHostNode cuGraphAddKernelNode cuGraphAddKernelNode_v2 cuGraphAddMemAllocNode
            cuGraphAddMemFreeNode cuGraphAddMemcpyNode cuGraphAddMemsetNode cuGraphAddNode
            cuGraphAddNode_v2 cuGraphAddNode_v3 cuGraphBatchMemOpNodeGetParams
            cuGraphBatchMemOpNodeSetParams cuGraphChildGraphNodeGetGraph cuGraphClone
            cuGraphConditionalHandleCreate cuGraphCreate cuGraphDebugDotPrint cuGraphDestroyNode
            cuGraphEventRecordNodeGetEvent cuGraphEventRecordNodeSetEvent
            cuGraphEventWaitNodeGetEvent cuGraphEventWaitNodeSetEvent
            cuGraphExecBatchMemOpNodeSetParams cuGraphExecChildGraphNodeSetParams
            cuGraphExecEventRecordNodeSetEvent cuGraphExecEventWaitNodeSetEvent
            cuGraphExecExternalSemaphoresSignalNodeSetParams
            cuGraphExecExternalSemaphoresWaitNodeSetParams cuGraphExecGetFlags cuGraphExecGetId
            cuGraphExecHostNodeSetParams cuGraphExecKernelNodeSetParams
            cuGraphExecKernelNodeSetParams_v2 cuGraphExecMemcpyNodeSetParams
            cuGraphExecMemsetNodeSetParams cuGraphExecNodeSetParams cuGraphExecUpdate
            cuGraphExecUpdate_v2 cuGraphExternalSemaphoresSignalNodeGetParams
            cuGraphExternalSemaphoresSignalNodeSetParams cuGraphExternalSemaphoresWaitNodeGetParams
            cuGraphExternalSemaphoresWaitNodeSetParams cuGraphGetEdges cuGraphGetEdges_v2
            cuGraphGetId cuGraphGetNodes cuGraphGetRootNodes cuGraphHostNodeGetParams
            cuGraphHostNodeSetParams cuGraphInstantiateWithParams cuGraphInstantiate_v2
            cuGraphKernelNodeCopyAttributes cuGraphKernelNodeGetAttribute cuGraphKernelNodeGetParams
            cuGraphKernelNodeGetParams_v2 cuGraphKernelNodeSetAttribute cuGraphKernelNodeSetParams
            cuGraphKernelNodeSetParams_v2 cuGraphMemAllocNodeGetParams cuGraphMemFreeNodeGetParams
            cuGraphMemcpyNodeGetParams cuGraphMemcpyNodeSetParams cuGraphMemsetNodeGetParams
            cuGraphMemsetNodeSetParams cuGraphNodeFindInClone cuGraphNodeGetContainingGraph
            cuGraphNodeGetDependencies cuGraphNodeGetDependencies_v2 cuGraphNodeGetDependentNodes
            cuGraphNodeGetDependentNodes_v2 cuGraphNodeGetEnabled cuGraphNodeGetLocalId
            cuGraphNodeGetParams cuGraphNodeGetToolsId cuGraphNodeGetType cuGraphNodeSetEnabled
            cuGraphNodeSetParams cuGraphNodeSetParams_v2 cuGraphReleaseUserObject
            cuGraphRemoveDependencies cuGraphRemoveDependencies_v2 cuGraphRetainUserObject
            cuGraphicsMapResources cuGraphicsResourceGetMappedMipmappedArray
            cuGraphicsResourceGetMappedPointer_v2 cuGraphicsResourceSetMapFlags_v2
            cuGraphicsSubResourceGetMappedArray cuGraphicsUnmapResources
            cuGraphicsUnregisterResource cuGreenCtxCreate cuGreenCtxDestroy cuGreenCtxGetDevResource
            cuGreenCtxGetId cuGreenCtxRecordEvent cuGreenCtxStreamCreate cuGreenCtxWaitEvent
            cuImportExternalMemory cuImportExternalSemaphore cuKernelGetLibrary cuKernelGetName
            cuKernelGetParamCount cuKernelGetParamInfo cuKernelSetCacheConfig cuLaunch
            cuLaunchCooperativeKernelMultiDevice cuLaunchGrid cuLaunchGridAsync
            cuLibraryEnumerateKernels cuLibraryGetGlobal cuLibraryGetKernelCount cuLibraryGetManaged
            cuLibraryGetUnifiedFunction cuLibraryLoadFromFile cuLinkAddData_v2 cuLinkAddFile_v2
            cuLinkComplete cuLinkCreate_v2 cuLinkDestroy cuLogicalEndpointAddDevice
            cuLogicalEndpointBindAddr cuLogicalEndpointBindMem cuLogicalEndpointCreate
            cuLogicalEndpointDestroy cuLogicalEndpointExport cuLogicalEndpointGetLimits
            cuLogicalEndpointIdRelease cuLogicalEndpointIdReserve cuLogicalEndpointImport
            cuLogicalEndpointQuery cuLogicalEndpointUnbind cuLogsCurrent cuLogsDumpToFile
            cuLogsDumpToMemory cuLogsRegisterCallback cuLogsUnregisterCallback cuMemAllocPitch_v2
            cuMemBatchDecompressAsync cuMemDiscardAndPrefetchBatchAsync cuMemDiscardBatchAsync
            cuMemGetHandleForAddressRange
            cuMemGetLocationInfo cuMemHostGetFlags cuMemMapArrayAsync cuMemPrefetchBatchAsync
            cuMemRangeGetAttributes cuMemSetMemPool cuMemcpy2DAsync_v2 cuMemcpy2DUnaligned_v2
            cuMemcpy2D_v2 cuMemcpy3DAsync_v2 cuMemcpy3DBatchAsync cuMemcpy3DBatchAsync_v2
            cuMemcpy3DPeer cuMemcpy3DPeerAsync cuMemcpy3DWithAttributesAsync cuMemcpy3D_v2
            cuMemcpyAtoA_v2 cuMemcpyAtoD_v2 cuMemcpyAtoHAsync_v2 cuMemcpyAtoH_v2 cuMemcpyBatchAsync
            cuMemcpyBatchAsync_v2 cuMemcpyDtoA_v2 cuMemcpyHtoAAsync_v2 cuMemcpyHtoA_v2
            cuMemcpyWithAttributesAsync cuMemsetD16Async cuMemsetD16_v2 cuMemsetD2D16Async
            cuMemsetD2D16_v2 cuMemsetD2D32Async cuMemsetD2D32_v2 cuMemsetD2D8Async cuMemsetD2D8_v2
            cuMipmappedArrayCreate cuMipmappedArrayDestroy cuMipmappedArrayGetLevel
            cuMipmappedArrayGetMemoryRequirements cuMipmappedArrayGetSparseProperties
            cuModuleEnumerateFunctions cuModuleGetFunctionCount cuModuleGetSurfRef cuModuleGetTexRef
            cuMulticastAddDevice cuMulticastBindAddr cuMulticastBindAddr_v2 cuMulticastBindMem
            cuMulticastBindMem_v2 cuMulticastCreate cuMulticastGetGranularity cuMulticastUnbind
            cuOccupancyMaxActiveClusters cuOccupancyMaxPotentialClusterSize cuParamSetSize
            cuParamSetTexRef cuParamSetf cuParamSeti cuParamSetv cuPointerSetAttribute
            cuProfilerInitialize cuProfilerStart cuProfilerStop cuSignalExternalSemaphoresAsync
            cuStreamAddCallback cuStreamBatchMemOp cuStreamBatchMemOp_v2
            cuStreamBeginCaptureToCig cuStreamBeginCaptureToGraph cuStreamBeginRecaptureToGraph
            cuStreamCopyAttributes cuStreamEndCaptureToCig cuStreamGetAttribute
            cuStreamGetCaptureInfo cuStreamGetCaptureInfo_v2 cuStreamGetCaptureInfo_v3
            cuStreamGetCtx_v2 cuStreamGetDevResource cuStreamGetDevice cuStreamGetGreenCtx
            cuStreamSetAttribute cuStreamUpdateCaptureDependencies
            cuStreamUpdateCaptureDependencies_v2 cuStreamWaitValue32 cuStreamWaitValue32_v2
            cuStreamWaitValue64 cuStreamWaitValue64_v2 cuStreamWriteValue32 cuStreamWriteValue64
            cuStreamWriteValue64_v2 cuSurfObjectCreate cuSurfObjectDestroy
            cuSurfObjectGetResourceDesc cuSurfRefGetArray cuSurfRefSetArray cuTensorMapEncodeIm2col
            cuTensorMapEncodeIm2colWide cuTensorMapEncodeTiled cuTensorMapReplaceAddress
            cuTexObjectCreate cuTexObjectDestroy cuTexObjectGetResourceDesc
            cuTexObjectGetResourceViewDesc cuTexObjectGetTextureDesc cuTexRefCreate cuTexRefDestroy
            cuTexRefGetAddressMode cuTexRefGetAddress_v2 cuTexRefGetArray cuTexRefGetBorderColor
            cuTexRefGetFilterMode cuTexRefGetFlags cuTexRefGetFormat cuTexRefGetMaxAnisotropy
            cuTexRefGetMipmapFilterMode cuTexRefGetMipmapLevelBias cuTexRefGetMipmapLevelClamp
            cuTexRefGetMipmappedArray cuTexRefSetAddress2D_v3 cuTexRefSetAddressMode
            cuTexRefSetAddress_v2 cuTexRefSetArray cuTexRefSetBorderColor cuTexRefSetFilterMode
            cuTexRefSetFlags cuTexRefSetFormat cuTexRefSetMaxAnisotropy cuTexRefSetMipmapFilterMode
            cuTexRefSetMipmapLevelBias cuTexRefSetMipmapLevelClamp cuTexRefSetMipmappedArray
            cuUserObjectCreate cuUserObjectRelease cuUserObjectRetain cuWaitExternalSemaphoresAsync
        }
    };
}
