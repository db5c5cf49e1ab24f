//! Kinds and flags, compared in value.

use cudarc::driver::sys;
use rmm_sys as ours;

/// Whether two names are the same, in a constant.
const fn same_text(left: &str, right: &str) -> bool {
    let (left, right) = (left.as_bytes(), right.as_bytes());
    if left.len() != right.len() {
        return false;
    }
    let mut index = 0;
    while index < left.len() {
        if left[index] != right[index] {
            return false;
        }
        index += 1;
    }
    true
}

/// The number behind a value of the oracle, which has enumerations and one structure of bits.
macro_rules! number {
    (enumeration $type:ident $name:ident) => {
        sys::$type::$name as i64
    };
    (bits $type:ident $name:ident) => {
        sys::$type::$name.0 as i64
    };
}

/// Compares the known values of a kind with a list, which has to be complete and in the same order.
macro_rules! same_values {
    ($($form:ident $ours:ident = $theirs:ident { $($name:ident,)* })*) => {$(
        const _: () = {
            let theirs = [$((stringify!($name), number!($form $theirs $name))),*];
            let known = ours::$ours::KNOWN;
            assert!(known.len() == theirs.len(), stringify!($ours));
            let mut index = 0;
            while index < theirs.len() {
                assert!(same_text(known[index].1, theirs[index].0), stringify!($ours));
                assert!(known[index].0.0 as i64 == theirs[index].1, stringify!($ours));
                index += 1;
            }
        };
    )*};
}

same_values! {
    enumeration CuDeviceAttribute = CUdevice_attribute {
        CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT,
        CU_DEVICE_ATTRIBUTE_INTEGRATED,
        CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE,
        CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING,
        CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR,
        CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR,
        CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY,
        CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS,
        CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS,
        CU_DEVICE_ATTRIBUTE_CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM,
        CU_DEVICE_ATTRIBUTE_HOST_REGISTER_SUPPORTED,
        CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS_USES_HOST_PAGE_TABLES,
        CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED,
        CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED,
        CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED,
        CU_DEVICE_ATTRIBUTE_MEMPOOL_SUPPORTED_HANDLE_TYPES,
        CU_DEVICE_ATTRIBUTE_IPC_EVENT_SUPPORTED,
        CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_FABRIC_SUPPORTED,
        CU_DEVICE_ATTRIBUTE_HOST_NUMA_ID,
        CU_DEVICE_ATTRIBUTE_MEM_DECOMPRESS_ALGORITHM_MASK,
        CU_DEVICE_ATTRIBUTE_HOST_NUMA_MEMORY_POOLS_SUPPORTED,
        CU_DEVICE_ATTRIBUTE_HOST_MEMORY_POOLS_SUPPORTED,
    }
    enumeration CuMemPoolAttribute = CUmemPool_attribute {
        CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES,
        CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC,
        CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES,
        CU_MEMPOOL_ATTR_RELEASE_THRESHOLD,
        CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT,
        CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH,
        CU_MEMPOOL_ATTR_USED_MEM_CURRENT,
        CU_MEMPOOL_ATTR_USED_MEM_HIGH,
        CU_MEMPOOL_ATTR_ALLOCATION_TYPE,
        CU_MEMPOOL_ATTR_EXPORT_HANDLE_TYPES,
        CU_MEMPOOL_ATTR_LOCATION_ID,
        CU_MEMPOOL_ATTR_LOCATION_TYPE,
        CU_MEMPOOL_ATTR_MAX_POOL_SIZE,
        CU_MEMPOOL_ATTR_HW_DECOMPRESS_ENABLED,
    }
    bits CuMemHandleType = CUmemAllocationHandleType {
        CU_MEM_HANDLE_TYPE_NONE,
        CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
        CU_MEM_HANDLE_TYPE_WIN32,
        CU_MEM_HANDLE_TYPE_WIN32_KMT,
        CU_MEM_HANDLE_TYPE_FABRIC,
    }
    enumeration CuMemLocationType = CUmemLocationType {
        CU_MEM_LOCATION_TYPE_INVALID,
        CU_MEM_LOCATION_TYPE_DEVICE,
        CU_MEM_LOCATION_TYPE_HOST,
        CU_MEM_LOCATION_TYPE_HOST_NUMA,
        CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT,
    }
    enumeration CuMemAllocationType = CUmemAllocationType {
        CU_MEM_ALLOCATION_TYPE_INVALID,
        CU_MEM_ALLOCATION_TYPE_PINNED,
        CU_MEM_ALLOCATION_TYPE_MANAGED,
    }
    enumeration CuMemAccessFlags = CUmemAccess_flags {
        CU_MEM_ACCESS_FLAGS_PROT_NONE,
        CU_MEM_ACCESS_FLAGS_PROT_READ,
        CU_MEM_ACCESS_FLAGS_PROT_READWRITE,
    }
    enumeration CuMemAdvise = CUmem_advise {
        CU_MEM_ADVISE_SET_READ_MOSTLY,
        CU_MEM_ADVISE_UNSET_READ_MOSTLY,
        CU_MEM_ADVISE_SET_PREFERRED_LOCATION,
        CU_MEM_ADVISE_UNSET_PREFERRED_LOCATION,
        CU_MEM_ADVISE_SET_ACCESSED_BY,
        CU_MEM_ADVISE_UNSET_ACCESSED_BY,
    }
    enumeration CuMemRangeAttribute = CUmem_range_attribute {
        CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION,
        CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION_TYPE,
        CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION_ID,
    }
    enumeration CuGraphMemAttribute = CUgraphMem_attribute {
        CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT,
        CU_GRAPH_MEM_ATTR_USED_MEM_HIGH,
        CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT,
        CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH,
    }
    enumeration CuPointerAttribute = CUpointer_attribute {
        CU_POINTER_ATTRIBUTE_CONTEXT,
        CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
        CU_POINTER_ATTRIBUTE_DEVICE_POINTER,
        CU_POINTER_ATTRIBUTE_HOST_POINTER,
        CU_POINTER_ATTRIBUTE_IS_MANAGED,
        CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL,
        CU_POINTER_ATTRIBUTE_RANGE_START_ADDR,
        CU_POINTER_ATTRIBUTE_RANGE_SIZE,
        CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE,
        CU_POINTER_ATTRIBUTE_IS_HW_DECOMPRESS_CAPABLE,
    }
    enumeration CuMemoryType = CUmemorytype {
        CU_MEMORYTYPE_HOST,
        CU_MEMORYTYPE_DEVICE,
        CU_MEMORYTYPE_ARRAY,
        CU_MEMORYTYPE_UNIFIED,
    }
    enumeration CuCaptureStatus = CUstreamCaptureStatus {
        CU_STREAM_CAPTURE_STATUS_NONE,
        CU_STREAM_CAPTURE_STATUS_ACTIVE,
        CU_STREAM_CAPTURE_STATUS_INVALIDATED,
    }
    enumeration CuCaptureMode = CUstreamCaptureMode {
        CU_STREAM_CAPTURE_MODE_GLOBAL,
        CU_STREAM_CAPTURE_MODE_THREAD_LOCAL,
        CU_STREAM_CAPTURE_MODE_RELAXED,
    }
    enumeration CuMemGranularity = CUmemAllocationGranularity_flags {
        CU_MEM_ALLOC_GRANULARITY_MINIMUM,
        CU_MEM_ALLOC_GRANULARITY_RECOMMENDED,
    }
}

/// Compares one flag with the oracle's.
macro_rules! same_flags {
    ($($ours:ident = $theirs:expr;)*) => {$(
        const _: () = assert!(ours::$ours as i64 == $theirs as i64, stringify!($ours));
    )*};
}

same_flags! {
    STREAM_DEFAULT = sys::CUstream_flags::CU_STREAM_DEFAULT;
    STREAM_NON_BLOCKING = sys::CUstream_flags::CU_STREAM_NON_BLOCKING;
    EVENT_DEFAULT = sys::CUevent_flags::CU_EVENT_DEFAULT;
    EVENT_BLOCKING_SYNC = sys::CUevent_flags::CU_EVENT_BLOCKING_SYNC;
    EVENT_DISABLE_TIMING = sys::CUevent_flags::CU_EVENT_DISABLE_TIMING;
    EVENT_INTERPROCESS = sys::CUevent_flags::CU_EVENT_INTERPROCESS;
    MEM_ATTACH_GLOBAL = sys::CUmemAttach_flags::CU_MEM_ATTACH_GLOBAL;
    MEM_ATTACH_HOST = sys::CUmemAttach_flags::CU_MEM_ATTACH_HOST;
    MEMHOSTALLOC_PORTABLE = sys::CU_MEMHOSTALLOC_PORTABLE;
    MEMHOSTALLOC_DEVICEMAP = sys::CU_MEMHOSTALLOC_DEVICEMAP;
    MEMHOSTALLOC_WRITECOMBINED = sys::CU_MEMHOSTALLOC_WRITECOMBINED;
}
