//! Enumerations and flags of the driver API, as integers that can hold unknown values.
//!
//! None is a Rust `enum`, because a newer driver may return a value that is not listed here, and an
//! `enum` with such a value would be undefined behaviour.

use std::ffi::{c_int, c_uint, c_ushort};

macro_rules! define {
    ($($(#[$doc:meta])* $type:ident($repr:ty) = $symbol:ident $alias:literal {
        $($(#[$value_doc:meta])* $name:ident = $value:literal $value_symbol:ident $cuda:literal;)*
    })*) => {$(
        $(#[$doc])*
        #[doc(alias = $alias)]
        #[repr(transparent)]
        #[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub struct $type(pub $repr);

        impl $type {
            $(
                $(#[$value_doc])*
                #[doc(alias = $cuda)]
                pub const $name: Self = Self($value);
            )*

            /// Every value that this build knows, as (constant, CUDA's name).
            pub const KNOWN: &[(Self, &str)] = &[$((Self::$name, $cuda)),*];
        }

        impl std::fmt::Debug for $type {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                match Self::KNOWN.iter().find(|(value, _)| value == self) {
                    Some((_, name)) => f.write_str(name),
                    None => write!(f, concat!(stringify!($type), "({})"), self.0),
                }
            }
        }
    )*};
}

/// Calls a macro with every kind of value: its type here, CUDA's name of that type and, for each
/// value, our name, the number, and CUDA's name. CUDA's names stand as identifiers and as literals
/// (which `doc(alias)` needs).
#[doc(hidden)]
#[macro_export]
macro_rules! integer_kinds {
    ($use:ident) => {
        $use! {
            /// A device attribute, for `cuDeviceGetAttribute`.
            CuDeviceAttribute(c_int) = CUdevice_attribute "CUdevice_attribute" {
                /// Most threads of a block.
                MAX_THREADS_PER_BLOCK = 1 CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK "CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK";
                /// Threads of a warp.
                WARP_SIZE = 10 CU_DEVICE_ATTRIBUTE_WARP_SIZE "CU_DEVICE_ATTRIBUTE_WARP_SIZE";
                /// Number of multiprocessors.
                MULTIPROCESSOR_COUNT = 16 CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT "CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT";
                /// Most threads that a multiprocessor has at a time.
                MAX_THREADS_PER_MULTIPROCESSOR = 39 CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR "CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR";
                /// 1 if the device shares memory with the host.
                INTEGRATED = 18 CU_DEVICE_ATTRIBUTE_INTEGRATED "CU_DEVICE_ATTRIBUTE_INTEGRATED";
                /// Bytes of second-level cache.
                L2_CACHE_SIZE = 38 CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE "CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE";
                /// 1 if host and device share one address space.
                UNIFIED_ADDRESSING = 41 CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING "CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING";
                /// Major compute capability.
                COMPUTE_CAPABILITY_MAJOR = 75 CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR "CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR";
                /// Minor compute capability.
                COMPUTE_CAPABILITY_MINOR = 76 CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR "CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR";
                /// 1 if managed memory can be allocated.
                MANAGED_MEMORY = 83 CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY "CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY";
                /// 1 if the device can access pageable host memory without registration (HMM or
                /// ATS).
                PAGEABLE_MEMORY_ACCESS = 88 CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS "CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS";
                /// 1 if host and device may use managed memory at the same time.
                CONCURRENT_MANAGED_ACCESS = 89 CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS "CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS";
                /// 1 if registered host memory has the same address on the device.
                CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM = 91 CU_DEVICE_ATTRIBUTE_CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM "CU_DEVICE_ATTRIBUTE_CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM";
                /// 1 if host memory can be registered.
                HOST_REGISTER_SUPPORTED = 99 CU_DEVICE_ATTRIBUTE_HOST_REGISTER_SUPPORTED "CU_DEVICE_ATTRIBUTE_HOST_REGISTER_SUPPORTED";
                /// 1 if pageable access goes through the host's own page tables (ATS).
                PAGEABLE_MEMORY_ACCESS_USES_HOST_PAGE_TABLES = 100 CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS_USES_HOST_PAGE_TABLES "CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS_USES_HOST_PAGE_TABLES";
                /// 1 if virtual memory can be reserved and mapped.
                VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED = 102 CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED "CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED";
                /// 1 if virtual memory can be exported to a file descriptor.
                HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED = 103 CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED "CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED";
                /// 1 if `cuMemCreate` makes memory that `GPUDirect` RDMA can access.
                GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED = 110 CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED "CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED";
                /// 1 if there are stream-ordered memory pools.
                MEMORY_POOLS_SUPPORTED = 115 CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED "CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED";
                /// Bit mask of the handle types that pools can be exported as, see
                /// [`CuMemHandleType`].
                MEMPOOL_SUPPORTED_HANDLE_TYPES = 119 CU_DEVICE_ATTRIBUTE_MEMPOOL_SUPPORTED_HANDLE_TYPES "CU_DEVICE_ATTRIBUTE_MEMPOOL_SUPPORTED_HANDLE_TYPES";
                /// 1 if events can be shared with other processes.
                IPC_EVENT_SUPPORTED = 125 CU_DEVICE_ATTRIBUTE_IPC_EVENT_SUPPORTED "CU_DEVICE_ATTRIBUTE_IPC_EVENT_SUPPORTED";
                /// 1 if virtual memory can be exported to a fabric handle.
                HANDLE_TYPE_FABRIC_SUPPORTED = 128 CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_FABRIC_SUPPORTED "CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_FABRIC_SUPPORTED";
                /// The NUMA node of the host that is nearest.
                HOST_NUMA_ID = 134 CU_DEVICE_ATTRIBUTE_HOST_NUMA_ID "CU_DEVICE_ATTRIBUTE_HOST_NUMA_ID";
                /// Bit mask of the formats of the decompression engine; 0 if there is none.
                MEM_DECOMPRESS_ALGORITHM_MASK = 136 CU_DEVICE_ATTRIBUTE_MEM_DECOMPRESS_ALGORITHM_MASK "CU_DEVICE_ATTRIBUTE_MEM_DECOMPRESS_ALGORITHM_MASK";
                /// 1 if there is virtual memory of the host on a NUMA node.
                HOST_NUMA_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED = 141 CU_DEVICE_ATTRIBUTE_HOST_NUMA_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED "CU_DEVICE_ATTRIBUTE_HOST_NUMA_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED";
                /// 1 if there are pools of host memory on a NUMA node.
                HOST_NUMA_MEMORY_POOLS_SUPPORTED = 142 CU_DEVICE_ATTRIBUTE_HOST_NUMA_MEMORY_POOLS_SUPPORTED "CU_DEVICE_ATTRIBUTE_HOST_NUMA_MEMORY_POOLS_SUPPORTED";
                /// 1 if there are pools of host memory.
                HOST_MEMORY_POOLS_SUPPORTED = 144 CU_DEVICE_ATTRIBUTE_HOST_MEMORY_POOLS_SUPPORTED "CU_DEVICE_ATTRIBUTE_HOST_MEMORY_POOLS_SUPPORTED";
            }

            /// An attribute of a memory pool.
            CuMemPoolAttribute(c_uint) = CUmemPool_attribute "CUmemPool_attribute" {
                /// `c_int`: reuse memory freed on another stream if an event already orders the
                /// two.
                REUSE_FOLLOW_EVENT_DEPENDENCIES = 1 CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES "CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES";
                /// `c_int`: reuse memory freed on another stream whose free is found complete.
                REUSE_ALLOW_OPPORTUNISTIC = 2 CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC "CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC";
                /// `c_int`: let the driver make one stream wait for another to reuse its memory.
                REUSE_ALLOW_INTERNAL_DEPENDENCIES = 3 CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES "CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES";
                /// `u64`: bytes to retain when a stream, event or context is synchronized.
                RELEASE_THRESHOLD = 4 CU_MEMPOOL_ATTR_RELEASE_THRESHOLD "CU_MEMPOOL_ATTR_RELEASE_THRESHOLD";
                /// `u64`: bytes reserved from the system now.
                RESERVED_MEM_CURRENT = 5 CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT "CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT";
                /// `u64`: the peak of the bytes reserved from the system since the last reset.
                RESERVED_MEM_HIGH = 6 CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH "CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH";
                /// `u64`: bytes allocated now.
                USED_MEM_CURRENT = 7 CU_MEMPOOL_ATTR_USED_MEM_CURRENT "CU_MEMPOOL_ATTR_USED_MEM_CURRENT";
                /// `u64`: the peak of the bytes allocated since the last reset.
                USED_MEM_HIGH = 8 CU_MEMPOOL_ATTR_USED_MEM_HIGH "CU_MEMPOOL_ATTR_USED_MEM_HIGH";
                /// [`CuMemAllocationType`]: the allocation type. Read-only, as all that follow;
                /// since 13.2.
                ALLOCATION_TYPE = 9 CU_MEMPOOL_ATTR_ALLOCATION_TYPE "CU_MEMPOOL_ATTR_ALLOCATION_TYPE";
                /// [`CuMemHandleType`]: the handle types that the pool can be exported as. Since
                /// 13.2.
                EXPORT_HANDLE_TYPES = 10 CU_MEMPOOL_ATTR_EXPORT_HANDLE_TYPES "CU_MEMPOOL_ATTR_EXPORT_HANDLE_TYPES";
                /// `c_int`: the id of the memory's location. Since 13.2.
                LOCATION_ID = 11 CU_MEMPOOL_ATTR_LOCATION_ID "CU_MEMPOOL_ATTR_LOCATION_ID";
                /// [`CuMemLocationType`]: the type of the memory's location. Since 13.2.
                LOCATION_TYPE = 12 CU_MEMPOOL_ATTR_LOCATION_TYPE "CU_MEMPOOL_ATTR_LOCATION_TYPE";
                /// `u64`: upper bound on the bytes of the pool. Since 13.2.
                MAX_POOL_SIZE = 13 CU_MEMPOOL_ATTR_MAX_POOL_SIZE "CU_MEMPOOL_ATTR_MAX_POOL_SIZE";
                /// `c_int`: whether the decompression engine can use the memory. Since 13.2.
                HW_DECOMPRESS_ENABLED = 14 CU_MEMPOOL_ATTR_HW_DECOMPRESS_ENABLED "CU_MEMPOOL_ATTR_HW_DECOMPRESS_ENABLED";
            }

            /// Handle types that memory can be exported as; bits that may be combined.
            CuMemHandleType(c_uint) = CUmemAllocationHandleType "CUmemAllocationHandleType" {
                /// Not exportable.
                NONE = 0 CU_MEM_HANDLE_TYPE_NONE "CU_MEM_HANDLE_TYPE_NONE";
                /// A file descriptor (`c_int`).
                POSIX_FILE_DESCRIPTOR = 1 CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR "CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR";
                /// A Windows NT handle.
                WIN32 = 2 CU_MEM_HANDLE_TYPE_WIN32 "CU_MEM_HANDLE_TYPE_WIN32";
                /// A Windows kernel-mode handle.
                WIN32_KMT = 4 CU_MEM_HANDLE_TYPE_WIN32_KMT "CU_MEM_HANDLE_TYPE_WIN32_KMT";
                /// A handle for other machines of the same `NVLink` fabric.
                FABRIC = 8 CU_MEM_HANDLE_TYPE_FABRIC "CU_MEM_HANDLE_TYPE_FABRIC";
            }

            /// The type of a memory location.
            CuMemLocationType(c_uint) = CUmemLocationType "CUmemLocationType" {
                /// Nowhere; of a pool of managed memory, no preferred location
                /// (`CU_MEM_LOCATION_TYPE_NONE`, since 13.0).
                INVALID = 0 CU_MEM_LOCATION_TYPE_INVALID "CU_MEM_LOCATION_TYPE_INVALID";
                /// A device, by its number.
                DEVICE = 1 CU_MEM_LOCATION_TYPE_DEVICE "CU_MEM_LOCATION_TYPE_DEVICE";
                /// The host.
                HOST = 2 CU_MEM_LOCATION_TYPE_HOST "CU_MEM_LOCATION_TYPE_HOST";
                /// A NUMA node of the host, by its number.
                HOST_NUMA = 3 CU_MEM_LOCATION_TYPE_HOST_NUMA "CU_MEM_LOCATION_TYPE_HOST_NUMA";
                /// The NUMA node of the calling thread.
                HOST_NUMA_CURRENT = 4 CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT "CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT";
            }

            /// The type of an allocation.
            CuMemAllocationType(c_uint) = CUmemAllocationType "CUmemAllocationType" {
                /// Nothing.
                INVALID = 0 CU_MEM_ALLOCATION_TYPE_INVALID "CU_MEM_ALLOCATION_TYPE_INVALID";
                /// Memory that does not migrate.
                PINNED = 1 CU_MEM_ALLOCATION_TYPE_PINNED "CU_MEM_ALLOCATION_TYPE_PINNED";
                /// Managed memory, which migrates between host and devices.
                MANAGED = 2 CU_MEM_ALLOCATION_TYPE_MANAGED "CU_MEM_ALLOCATION_TYPE_MANAGED";
            }

            /// Access that a device has to memory; bits.
            CuMemAccessFlags(c_uint) = CUmemAccess_flags "CUmemAccess_flags" {
                /// None.
                NONE = 0 CU_MEM_ACCESS_FLAGS_PROT_NONE "CU_MEM_ACCESS_FLAGS_PROT_NONE";
                /// Reading.
                READ = 1 CU_MEM_ACCESS_FLAGS_PROT_READ "CU_MEM_ACCESS_FLAGS_PROT_READ";
                /// Reading and writing.
                READ_WRITE = 3 CU_MEM_ACCESS_FLAGS_PROT_READWRITE "CU_MEM_ACCESS_FLAGS_PROT_READWRITE";
            }

            /// Advice on managed memory.
            CuMemAdvise(c_uint) = CUmem_advise "CUmem_advise" {
                /// Mostly read: copies may be kept.
                SET_READ_MOSTLY = 1 CU_MEM_ADVISE_SET_READ_MOSTLY "CU_MEM_ADVISE_SET_READ_MOSTLY";
                /// Undoes the previous advice.
                UNSET_READ_MOSTLY = 2 CU_MEM_ADVISE_UNSET_READ_MOSTLY "CU_MEM_ADVISE_UNSET_READ_MOSTLY";
                /// Preferably kept at the location.
                SET_PREFERRED_LOCATION = 3 CU_MEM_ADVISE_SET_PREFERRED_LOCATION "CU_MEM_ADVISE_SET_PREFERRED_LOCATION";
                /// Undoes the previous advice.
                UNSET_PREFERRED_LOCATION = 4 CU_MEM_ADVISE_UNSET_PREFERRED_LOCATION "CU_MEM_ADVISE_UNSET_PREFERRED_LOCATION";
                /// Kept mapped at the location.
                SET_ACCESSED_BY = 5 CU_MEM_ADVISE_SET_ACCESSED_BY "CU_MEM_ADVISE_SET_ACCESSED_BY";
                /// Undoes the previous advice.
                UNSET_ACCESSED_BY = 6 CU_MEM_ADVISE_UNSET_ACCESSED_BY "CU_MEM_ADVISE_UNSET_ACCESSED_BY";
            }

            /// An attribute of a range of managed memory, for `cuMemRangeGetAttribute`.
            CuMemRangeAttribute(c_uint) = CUmem_range_attribute "CUmem_range_attribute" {
                /// `c_int`: the device that all of the range was last prefetched to,
                /// [`CuDevice::CPU`](crate::CuDevice::CPU) for the host, or
                /// [`CuDevice::INVALID`](crate::CuDevice::INVALID) if there is no single one.
                LAST_PREFETCH_LOCATION = 4 CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION "CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION";
                /// [`CuMemLocationType`]: the type of that location, since 12.2.
                LAST_PREFETCH_LOCATION_TYPE = 7 CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION_TYPE "CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION_TYPE";
                /// `c_int`: the id of that location, if it is a device or a NUMA node; since 12.2.
                LAST_PREFETCH_LOCATION_ID = 8 CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION_ID "CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION_ID";
            }

            /// A counter of a device's memory for graphs.
            CuGraphMemAttribute(c_uint) = CUgraphMem_attribute "CUgraphMem_attribute" {
                /// `u64`: bytes in use by graphs now.
                USED_MEM_CURRENT = 0 CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT "CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT";
                /// `u64`: the peak of the bytes in use by graphs since the last reset.
                USED_MEM_HIGH = 1 CU_GRAPH_MEM_ATTR_USED_MEM_HIGH "CU_GRAPH_MEM_ATTR_USED_MEM_HIGH";
                /// `u64`: bytes reserved for graphs now.
                RESERVED_MEM_CURRENT = 2 CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT "CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT";
                /// `u64`: the peak of the bytes reserved for graphs since the last reset.
                RESERVED_MEM_HIGH = 3 CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH "CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH";
            }

            /// An attribute of an address, for `cuPointerGetAttribute`.
            CuPointerAttribute(c_uint) = CUpointer_attribute "CUpointer_attribute" {
                /// `CuContext`: the context it belongs to.
                CONTEXT = 1 CU_POINTER_ATTRIBUTE_CONTEXT "CU_POINTER_ATTRIBUTE_CONTEXT";
                /// `c_uint`: host (1) or device (2) memory, see [`CuMemoryType`].
                MEMORY_TYPE = 2 CU_POINTER_ATTRIBUTE_MEMORY_TYPE "CU_POINTER_ATTRIBUTE_MEMORY_TYPE";
                /// `CuDevicePtr`: its address on the device.
                DEVICE_POINTER = 3 CU_POINTER_ATTRIBUTE_DEVICE_POINTER "CU_POINTER_ATTRIBUTE_DEVICE_POINTER";
                /// Pointer: its address on the host.
                HOST_POINTER = 4 CU_POINTER_ATTRIBUTE_HOST_POINTER "CU_POINTER_ATTRIBUTE_HOST_POINTER";
                /// `c_int`: 1 for managed memory.
                IS_MANAGED = 8 CU_POINTER_ATTRIBUTE_IS_MANAGED "CU_POINTER_ATTRIBUTE_IS_MANAGED";
                /// `c_int`: the device's number.
                DEVICE_ORDINAL = 9 CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL "CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL";
                /// `CuDevicePtr`: where the allocation starts.
                RANGE_START_ADDR = 11 CU_POINTER_ATTRIBUTE_RANGE_START_ADDR "CU_POINTER_ATTRIBUTE_RANGE_START_ADDR";
                /// `usize`: the allocation's bytes.
                RANGE_SIZE = 12 CU_POINTER_ATTRIBUTE_RANGE_SIZE "CU_POINTER_ATTRIBUTE_RANGE_SIZE";
                /// `CuMemPool`: the pool it came from.
                MEMPOOL_HANDLE = 17 CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE "CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE";
                /// `bool`: whether the decompression engine can use the memory; since 12.8. Zero
                /// the output first: the driver may write one byte only.
                IS_HW_DECOMPRESS_CAPABLE = 21 CU_POINTER_ATTRIBUTE_IS_HW_DECOMPRESS_CAPABLE "CU_POINTER_ATTRIBUTE_IS_HW_DECOMPRESS_CAPABLE";
            }

            /// The type of the memory at an address.
            CuMemoryType(c_uint) = CUmemorytype "CUmemorytype" {
                /// Host memory.
                HOST = 1 CU_MEMORYTYPE_HOST "CU_MEMORYTYPE_HOST";
                /// Device memory.
                DEVICE = 2 CU_MEMORYTYPE_DEVICE "CU_MEMORYTYPE_DEVICE";
                /// A CUDA array.
                ARRAY = 3 CU_MEMORYTYPE_ARRAY "CU_MEMORYTYPE_ARRAY";
                /// Managed memory.
                UNIFIED = 4 CU_MEMORYTYPE_UNIFIED "CU_MEMORYTYPE_UNIFIED";
            }

            /// The capture status of a stream.
            CuCaptureStatus(c_uint) = CUstreamCaptureStatus "CUstreamCaptureStatus" {
                /// Not capturing.
                NONE = 0 CU_STREAM_CAPTURE_STATUS_NONE "CU_STREAM_CAPTURE_STATUS_NONE";
                /// Capturing into a graph.
                ACTIVE = 1 CU_STREAM_CAPTURE_STATUS_ACTIVE "CU_STREAM_CAPTURE_STATUS_ACTIVE";
                /// The capture was invalidated by a prohibited call, and must still be ended.
                INVALIDATED = 2 CU_STREAM_CAPTURE_STATUS_INVALIDATED "CU_STREAM_CAPTURE_STATUS_INVALIDATED";
            }

            /// Which calls a capture prohibits, and on which threads.
            CuCaptureMode(c_uint) = CUstreamCaptureMode "CUstreamCaptureMode" {
                /// Potentially unsafe calls are prohibited on every thread.
                GLOBAL = 0 CU_STREAM_CAPTURE_MODE_GLOBAL "CU_STREAM_CAPTURE_MODE_GLOBAL";
                /// Potentially unsafe calls are prohibited on the capturing thread.
                THREAD_LOCAL = 1 CU_STREAM_CAPTURE_MODE_THREAD_LOCAL "CU_STREAM_CAPTURE_MODE_THREAD_LOCAL";
                /// Only calls that conflict with the capture are prohibited.
                RELAXED = 2 CU_STREAM_CAPTURE_MODE_RELAXED "CU_STREAM_CAPTURE_MODE_RELAXED";
            }

            /// The granularity to query by `cuMemGetAllocationGranularity`.
            CuMemGranularity(c_uint) = CUmemAllocationGranularity_flags "CUmemAllocationGranularity_flags" {
                /// The minimum.
                MINIMUM = 0 CU_MEM_ALLOC_GRANULARITY_MINIMUM "CU_MEM_ALLOC_GRANULARITY_MINIMUM";
                /// The recommended one for performance.
                RECOMMENDED = 1 CU_MEM_ALLOC_GRANULARITY_RECOMMENDED "CU_MEM_ALLOC_GRANULARITY_RECOMMENDED";
            }
        }
    };
}

integer_kinds!(define);

#[cfg(test)]
macro_rules! same_names {
    ($($(#[$doc:meta])* $type:ident($repr:ty) = $symbol:ident $alias:literal {
        $($(#[$value_doc:meta])* $name:ident = $value:literal $value_symbol:ident $cuda:literal;)*
    })*) => {
        #[test]
        fn a_value_has_one_name_of_cuda() {
            $(
                assert_eq!(stringify!($symbol), $alias);
                $(assert_eq!(stringify!($value_symbol), $cuda);)*
            )*
        }
    };
}

#[cfg(test)]
integer_kinds!(same_names);

/// `cuStreamCreateWithPriority`: a stream that synchronizes with the legacy default stream.
#[doc(alias = "CU_STREAM_DEFAULT")]
pub const STREAM_DEFAULT: c_uint = 0;
/// `cuStreamCreateWithPriority`: a stream that does not synchronize with the legacy default stream.
#[doc(alias = "CU_STREAM_NON_BLOCKING")]
pub const STREAM_NON_BLOCKING: c_uint = 1;
/// `cuEventCreate`: an event that records time.
#[doc(alias = "CU_EVENT_DEFAULT")]
pub const EVENT_DEFAULT: c_uint = 0;
/// `cuEventCreate`: synchronizing with the event blocks the thread instead of spinning.
#[doc(alias = "CU_EVENT_BLOCKING_SYNC")]
pub const EVENT_BLOCKING_SYNC: c_uint = 1;
/// `cuEventCreate`: an event that records no time, the cheapest kind.
#[doc(alias = "CU_EVENT_DISABLE_TIMING")]
pub const EVENT_DISABLE_TIMING: c_uint = 2;
/// `cuEventCreate`: an event that other processes may open.
#[doc(alias = "CU_EVENT_INTERPROCESS")]
pub const EVENT_INTERPROCESS: c_uint = 4;
/// `cuMemAllocManaged`: usable from every stream of every device.
#[doc(alias = "CU_MEM_ATTACH_GLOBAL")]
pub const MEM_ATTACH_GLOBAL: c_uint = 1;
/// `cuMemAllocManaged`: usable by the host only until attached.
#[doc(alias = "CU_MEM_ATTACH_HOST")]
pub const MEM_ATTACH_HOST: c_uint = 2;
/// `cuMemHostAlloc`: pinned for every context.
#[doc(alias = "CU_MEMHOSTALLOC_PORTABLE")]
pub const MEMHOSTALLOC_PORTABLE: c_uint = 1;
/// `cuMemHostAlloc`: mapped into the device's address space.
#[doc(alias = "CU_MEMHOSTALLOC_DEVICEMAP")]
pub const MEMHOSTALLOC_DEVICEMAP: c_uint = 2;
/// `cuMemHostAlloc`: write-combined: fast to write, slow to read for the host.
#[doc(alias = "CU_MEMHOSTALLOC_WRITECOMBINED")]
pub const MEMHOSTALLOC_WRITECOMBINED: c_uint = 4;
/// `cuMemHostRegister`: pinned for every context.
#[doc(alias = "CU_MEMHOSTREGISTER_PORTABLE")]
pub const MEMHOSTREGISTER_PORTABLE: c_uint = 1;
/// `cuMemHostRegister`: mapped into the device's address space.
#[doc(alias = "CU_MEMHOSTREGISTER_DEVICEMAP")]
pub const MEMHOSTREGISTER_DEVICEMAP: c_uint = 2;
/// [`CuMemPoolProps::usage`](crate::CuMemPoolProps): the device's decompression engine should be
/// able to access the memory.
#[doc(alias = "CU_MEM_POOL_CREATE_USAGE_HW_DECOMPRESS")]
pub const MEM_POOL_CREATE_USAGE_HW_DECOMPRESS: c_ushort = 2;
