//! Structures and handles, compared in size, alignment and the places of their fields.

use std::mem::{align_of, offset_of, size_of};

use cudarc::driver::sys;
use rmm_sys as ours;

/// Compares two types, and then the offset of each pair of fields.
macro_rules! same_layout {
    ($($ours:ident = $theirs:ident { $($our_field:ident = $($their_field:ident).+,)* })*) => {$(
        const _: () = {
            assert!(size_of::<ours::$ours>() == size_of::<sys::$theirs>(), stringify!($ours));
            assert!(align_of::<ours::$ours>() == align_of::<sys::$theirs>(), stringify!($ours));
            $(assert!(
                offset_of!(ours::$ours, $our_field) == offset_of!(sys::$theirs, $($their_field).+),
                concat!(stringify!($ours), ".", stringify!($our_field))
            );)*
        };
    )*};
}

same_layout! {
    CuUuid = CUuuid { bytes = bytes, }
    CuMemLocation = CUmemLocation {
        kind = type_,
        id = __bindgen_anon_1,
    }
    CuMemAccessDesc = CUmemAccessDesc {
        location = location,
        flags = flags,
    }
    CuMemPoolProps = CUmemPoolProps {
        kind = allocType,
        handle_types = handleTypes,
        location = location,
        win32_security_attributes = win32SecurityAttributes,
        max_size = maxSize,
        usage = usage,
        reserved = reserved,
    }
    CuMemAllocationProp = CUmemAllocationProp {
        kind = type_,
        requested_handle_types = requestedHandleTypes,
        location = location,
        win32_handle_meta_data = win32HandleMetaData,
        compression_type = allocFlags.compressionType,
        gpu_direct_rdma_capable = allocFlags.gpuDirectRDMACapable,
        usage = allocFlags.usage,
        reserved = allocFlags.reserved,
    }
    CuMemPoolPtrExportData = CUmemPoolPtrExportData { reserved = reserved, }
    CuIpcMemHandle = CUipcMemHandle { reserved = reserved, }
    CuIpcEventHandle = CUipcEventHandle { reserved = reserved, }

    CuContext = CUcontext {}
    CuStream = CUstream {}
    CuEvent = CUevent {}
    CuMemPool = CUmemoryPool {}
    CuModule = CUmodule {}
    CuFunction = CUfunction {}
    CuGraph = CUgraph {}
    CuGraphExec = CUgraphExec {}
    CuDevice = CUdevice {}
    CuDevicePtr = CUdeviceptr {}
    CuMemHandle = CUmemGenericAllocationHandle {}
    CuHostFn = CUhostFn {}

    CuResult = CUresult {}
    CuDeviceAttribute = CUdevice_attribute {}
    CuMemPoolAttribute = CUmemPool_attribute {}
    CuMemHandleType = CUmemAllocationHandleType {}
    CuMemLocationType = CUmemLocationType {}
    CuMemAllocationType = CUmemAllocationType {}
    CuMemAccessFlags = CUmemAccess_flags {}
    CuMemAdvise = CUmem_advise {}
    CuMemRangeAttribute = CUmem_range_attribute {}
    CuGraphMemAttribute = CUgraphMem_attribute {}
    CuPointerAttribute = CUpointer_attribute {}
    CuMemoryType = CUmemorytype {}
    CuCaptureStatus = CUstreamCaptureStatus {}
    CuCaptureMode = CUstreamCaptureMode {}
    CuMemGranularity = CUmemAllocationGranularity_flags {}
}
