//! The list of status codes: the one place that names them.

use super::{CuResult, Row};

/// Makes the constants of [`CuResult`] and the table behind its texts from one list.
macro_rules! result_codes {
    ($($name:ident = $code:literal $symbol:literal $text:literal;)*) => {
        /// The codes of CUDA 13.5.
        impl CuResult {
            $(
                #[doc = concat!("Code ", $code, ": ", $text, ".")]
                #[doc(alias = $symbol)]
                pub const $name: Self = Self($code);
            )*
        }

        /// Every code that this build knows, by rising code.
        pub(super) static TABLE: &[Row] = &[$(Row { code: CuResult::$name, name: $symbol, text: $text }),*];
    };
}

result_codes! {
    SUCCESS = 0 "CUDA_SUCCESS" "no error; what was asked about is complete";
    INVALID_VALUE = 1 "CUDA_ERROR_INVALID_VALUE" "an argument is outside what the call accepts";
    OUT_OF_MEMORY = 2 "CUDA_ERROR_OUT_OF_MEMORY" "not enough memory, or not enough of another resource";
    NOT_INITIALIZED = 3 "CUDA_ERROR_NOT_INITIALIZED" "the driver was not initialized, or its initialization failed";
    DEINITIALIZED = 4 "CUDA_ERROR_DEINITIALIZED" "the driver is shutting down, as it does when the process exits";
    PROFILER_DISABLED = 5 "CUDA_ERROR_PROFILER_DISABLED" "the profiler is off in this run, perhaps because another tool profiles it";
    PROFILER_NOT_INITIALIZED = 6 "CUDA_ERROR_PROFILER_NOT_INITIALIZED" "the profiler was not initialized (not returned since CUDA 5.0)";
    PROFILER_ALREADY_STARTED = 7 "CUDA_ERROR_PROFILER_ALREADY_STARTED" "the profiler runs already (not returned since CUDA 5.0)";
    PROFILER_ALREADY_STOPPED = 8 "CUDA_ERROR_PROFILER_ALREADY_STOPPED" "the profiler is stopped already (not returned since CUDA 5.0)";
    STUB_LIBRARY = 34 "CUDA_ERROR_STUB_LIBRARY" "the library is the stub that programs are linked with, not a driver";
    CALL_REQUIRES_NEWER_DRIVER = 36 "CUDA_ERROR_CALL_REQUIRES_NEWER_DRIVER" "the call needs a newer driver than the one installed";
    DEVICE_UNAVAILABLE = 46 "CUDA_ERROR_DEVICE_UNAVAILABLE" "the device cannot be used now, often because its compute mode is exclusive or prohibited";
    MULTICAST_RESOURCE_FULL = 47 "CUDA_ERROR_MULTICAST_RESOURCE_FULL" "the hardware has nothing left to bind memory to a multicast object";
    NO_DEVICE = 100 "CUDA_ERROR_NO_DEVICE" "the driver sees no device";
    INVALID_DEVICE = 101 "CUDA_ERROR_INVALID_DEVICE" "no device has this number, or this device cannot do what was asked";
    DEVICE_NOT_LICENSED = 102 "CUDA_ERROR_DEVICE_NOT_LICENSED" "the device's virtualization licence is not applied";
    INVALID_IMAGE = 200 "CUDA_ERROR_INVALID_IMAGE" "the device code, or its module, is malformed";
    INVALID_CONTEXT = 201 "CUDA_ERROR_INVALID_CONTEXT" "the thread has no current context, or the context given is not a live one";
    CONTEXT_ALREADY_CURRENT = 202 "CUDA_ERROR_CONTEXT_ALREADY_CURRENT" "the context is current already (not returned since CUDA 3.2)";
    MAP_FAILED = 205 "CUDA_ERROR_MAP_FAILED" "mapping or registering failed";
    UNMAP_FAILED = 206 "CUDA_ERROR_UNMAP_FAILED" "unmapping or unregistering failed";
    ARRAY_IS_MAPPED = 207 "CUDA_ERROR_ARRAY_IS_MAPPED" "the array is mapped and so cannot be destroyed";
    ALREADY_MAPPED = 208 "CUDA_ERROR_ALREADY_MAPPED" "the resource is mapped already";
    NO_BINARY_FOR_GPU = 209 "CUDA_ERROR_NO_BINARY_FOR_GPU" "the module has no code for this kind of device";
    ALREADY_ACQUIRED = 210 "CUDA_ERROR_ALREADY_ACQUIRED" "the resource is taken already";
    NOT_MAPPED = 211 "CUDA_ERROR_NOT_MAPPED" "the resource is not mapped";
    NOT_MAPPED_AS_ARRAY = 212 "CUDA_ERROR_NOT_MAPPED_AS_ARRAY" "the resource is mapped, but not as an array";
    NOT_MAPPED_AS_POINTER = 213 "CUDA_ERROR_NOT_MAPPED_AS_POINTER" "the resource is mapped, but not as a pointer";
    ECC_UNCORRECTABLE = 214 "CUDA_ERROR_ECC_UNCORRECTABLE" "device memory returned bits that error correction could not repair";
    UNSUPPORTED_LIMIT = 215 "CUDA_ERROR_UNSUPPORTED_LIMIT" "the device does not have this limit";
    CONTEXT_ALREADY_IN_USE = 216 "CUDA_ERROR_CONTEXT_ALREADY_IN_USE" "the context may be current on one thread at a time, and is on another";
    PEER_ACCESS_UNSUPPORTED = 217 "CUDA_ERROR_PEER_ACCESS_UNSUPPORTED" "these devices cannot reach each other's memory";
    INVALID_PTX = 218 "CUDA_ERROR_INVALID_PTX" "the PTX text did not compile";
    INVALID_GRAPHICS_CONTEXT = 219 "CUDA_ERROR_INVALID_GRAPHICS_CONTEXT" "the OpenGL or DirectX context is not usable";
    NVLINK_UNCORRECTABLE = 220 "CUDA_ERROR_NVLINK_UNCORRECTABLE" "NVLink had an error that could not be repaired";
    JIT_COMPILER_NOT_FOUND = 221 "CUDA_ERROR_JIT_COMPILER_NOT_FOUND" "the library that compiles PTX was not found";
    UNSUPPORTED_PTX_VERSION = 222 "CUDA_ERROR_UNSUPPORTED_PTX_VERSION" "the PTX text is of a version that this driver does not compile";
    JIT_COMPILATION_DISABLED = 223 "CUDA_ERROR_JIT_COMPILATION_DISABLED" "compiling PTX at run time is switched off";
    UNSUPPORTED_EXEC_AFFINITY = 224 "CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY" "the device does not have this kind of execution affinity";
    UNSUPPORTED_DEVSIDE_SYNC = 225 "CUDA_ERROR_UNSUPPORTED_DEVSIDE_SYNC" "the PTX text synchronizes the device from within, which is no longer possible";
    CONTAINED = 226 "CUDA_ERROR_CONTAINED" "the device failed and contained the damage; the process has to be restarted";
    INSUFFICIENT_LOADER_VERSION = 227 "CUDA_ERROR_INSUFFICIENT_LOADER_VERSION" "the loader is too old for this bundle of device code";
    INVALID_SOURCE = 300 "CUDA_ERROR_INVALID_SOURCE" "the kernel's source is invalid or did not link";
    FILE_NOT_FOUND = 301 "CUDA_ERROR_FILE_NOT_FOUND" "the file was not found";
    SHARED_OBJECT_SYMBOL_NOT_FOUND = 302 "CUDA_ERROR_SHARED_OBJECT_SYMBOL_NOT_FOUND" "a shared library lacks a symbol that is linked to";
    SHARED_OBJECT_INIT_FAILED = 303 "CUDA_ERROR_SHARED_OBJECT_INIT_FAILED" "a shared library could not be initialized";
    OPERATING_SYSTEM = 304 "CUDA_ERROR_OPERATING_SYSTEM" "a call to the operating system failed";
    INVALID_HANDLE = 400 "CUDA_ERROR_INVALID_HANDLE" "the handle names no live object";
    ILLEGAL_STATE = 401 "CUDA_ERROR_ILLEGAL_STATE" "an object that the call needs is not in the state for it";
    LOSSY_QUERY = 402 "CUDA_ERROR_LOSSY_QUERY" "the answer would leave out something that matters";
    NOT_FOUND = 500 "CUDA_ERROR_NOT_FOUND" "nothing has this name";
    NOT_READY = 600 "CUDA_ERROR_NOT_READY" "work that was queued is not complete yet; not a failure";
    ILLEGAL_ADDRESS = 700 "CUDA_ERROR_ILLEGAL_ADDRESS" "a kernel read or wrote an address that it may not; the process has to be restarted";
    LAUNCH_OUT_OF_RESOURCES = 701 "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES" "the launch needs more registers, threads or argument space than there are";
    LAUNCH_TIMEOUT = 702 "CUDA_ERROR_LAUNCH_TIMEOUT" "a kernel ran for too long; the process has to be restarted";
    LAUNCH_INCOMPATIBLE_TEXTURING = 703 "CUDA_ERROR_LAUNCH_INCOMPATIBLE_TEXTURING" "the kernel's way of texturing does not fit";
    PEER_ACCESS_ALREADY_ENABLED = 704 "CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED" "access to this peer is on already";
    PEER_ACCESS_NOT_ENABLED = 705 "CUDA_ERROR_PEER_ACCESS_NOT_ENABLED" "access to this peer is not on";
    PRIMARY_CONTEXT_ACTIVE = 708 "CUDA_ERROR_PRIMARY_CONTEXT_ACTIVE" "the device's primary context is in use already";
    CONTEXT_IS_DESTROYED = 709 "CUDA_ERROR_CONTEXT_IS_DESTROYED" "the thread's current context was destroyed, or is a primary one that is not initialized";
    ASSERT = 710 "CUDA_ERROR_ASSERT" "an assertion failed in a kernel; the context and its memory are lost";
    TOO_MANY_PEERS = 711 "CUDA_ERROR_TOO_MANY_PEERS" "the hardware has no room for another peer";
    HOST_MEMORY_ALREADY_REGISTERED = 712 "CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED" "this host memory is registered already";
    HOST_MEMORY_NOT_REGISTERED = 713 "CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED" "this host memory is not registered";
    HARDWARE_STACK_ERROR = 714 "CUDA_ERROR_HARDWARE_STACK_ERROR" "a kernel's stack overflowed or was damaged; the process has to be restarted";
    ILLEGAL_INSTRUCTION = 715 "CUDA_ERROR_ILLEGAL_INSTRUCTION" "a kernel met an instruction that does not exist; the process has to be restarted";
    MISALIGNED_ADDRESS = 716 "CUDA_ERROR_MISALIGNED_ADDRESS" "a kernel used an address that is not aligned; the process has to be restarted";
    INVALID_ADDRESS_SPACE = 717 "CUDA_ERROR_INVALID_ADDRESS_SPACE" "a kernel used an address of the wrong address space; the process has to be restarted";
    INVALID_PC = 718 "CUDA_ERROR_INVALID_PC" "a kernel's program counter left its range; the process has to be restarted";
    LAUNCH_FAILED = 719 "CUDA_ERROR_LAUNCH_FAILED" "a kernel failed while it ran; the process has to be restarted";
    COOPERATIVE_LAUNCH_TOO_LARGE = 720 "CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE" "a cooperative launch has more blocks than fit on the device at once";
    TENSOR_MEMORY_LEAK = 721 "CUDA_ERROR_TENSOR_MEMORY_LEAK" "a kernel ended with tensor memory not freed; the process has to be restarted";
    NOT_PERMITTED = 800 "CUDA_ERROR_NOT_PERMITTED" "the operation is not permitted";
    NOT_SUPPORTED = 801 "CUDA_ERROR_NOT_SUPPORTED" "this system, driver or device cannot do it";
    SYSTEM_NOT_READY = 802 "CUDA_ERROR_SYSTEM_NOT_READY" "the system cannot start CUDA work yet; check that the driver's daemons run";
    SYSTEM_DRIVER_MISMATCH = 803 "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH" "the display driver and the CUDA driver are of versions that do not match";
    COMPAT_NOT_SUPPORTED_ON_DEVICE = 804 "CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE" "the forward compatibility package does not serve a device that is visible";
    MPS_CONNECTION_FAILED = 805 "CUDA_ERROR_MPS_CONNECTION_FAILED" "the MPS daemon or server could not be reached";
    MPS_RPC_FAILURE = 806 "CUDA_ERROR_MPS_RPC_FAILURE" "a call between MPS client and server failed";
    MPS_SERVER_NOT_READY = 807 "CUDA_ERROR_MPS_SERVER_NOT_READY" "the MPS server takes no requests now; it may be recovering";
    MPS_MAX_CLIENTS_REACHED = 808 "CUDA_ERROR_MPS_MAX_CLIENTS_REACHED" "the hardware has no room for another MPS client";
    MPS_MAX_CONNECTIONS_REACHED = 809 "CUDA_ERROR_MPS_MAX_CONNECTIONS_REACHED" "the hardware has no room for another device connection";
    MPS_CLIENT_TERMINATED = 810 "CUDA_ERROR_MPS_CLIENT_TERMINATED" "the MPS server ended this client; the process has to be restarted";
    CDP_NOT_SUPPORTED = 811 "CUDA_ERROR_CDP_NOT_SUPPORTED" "the module launches kernels from kernels, which is not possible here";
    CDP_VERSION_MISMATCH = 812 "CUDA_ERROR_CDP_VERSION_MISMATCH" "the module mixes versions of launching kernels from kernels";
    STREAM_CAPTURE_UNSUPPORTED = 900 "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED" "the call is not possible while a stream is being captured";
    STREAM_CAPTURE_INVALIDATED = 901 "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED" "an earlier error has spoilt the capture";
    STREAM_CAPTURE_MERGE = 902 "CUDA_ERROR_STREAM_CAPTURE_MERGE" "the call would join two captures that are independent";
    STREAM_CAPTURE_UNMATCHED = 903 "CUDA_ERROR_STREAM_CAPTURE_UNMATCHED" "the capture was not begun on this stream";
    STREAM_CAPTURE_UNJOINED = 904 "CUDA_ERROR_STREAM_CAPTURE_UNJOINED" "the capture forked to a stream that was not joined again";
    STREAM_CAPTURE_ISOLATION = 905 "CUDA_ERROR_STREAM_CAPTURE_ISOLATION" "captured work would depend on work outside the capture";
    STREAM_CAPTURE_IMPLICIT = 906 "CUDA_ERROR_STREAM_CAPTURE_IMPLICIT" "the legacy default stream would wait for a capture";
    CAPTURED_EVENT = 907 "CUDA_ERROR_CAPTURED_EVENT" "the event was last recorded in a capture, and so cannot be asked or waited for";
    STREAM_CAPTURE_WRONG_THREAD = 908 "CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD" "the capture has to be ended by the thread that began it";
    TIMEOUT = 909 "CUDA_ERROR_TIMEOUT" "the wait took longer than it was allowed to";
    GRAPH_EXEC_UPDATE_FAILURE = 910 "CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE" "the graph changed in a way that its instance cannot follow";
    EXTERNAL_DEVICE = 911 "CUDA_ERROR_EXTERNAL_DEVICE" "a device other than the GPU failed; the process may have to be restarted";
    INVALID_CLUSTER_SIZE = 912 "CUDA_ERROR_INVALID_CLUSTER_SIZE" "the launch's clusters have a size that is not possible";
    FUNCTION_NOT_LOADED = 913 "CUDA_ERROR_FUNCTION_NOT_LOADED" "the function has to be loaded first";
    INVALID_RESOURCE_TYPE = 914 "CUDA_ERROR_INVALID_RESOURCE_TYPE" "a resource is of a kind that the call does not take";
    INVALID_RESOURCE_CONFIGURATION = 915 "CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION" "resources are too few, or not fit for the call";
    KEY_ROTATION = 916 "CUDA_ERROR_KEY_ROTATION" "replacing the encryption keys failed";
    STREAM_DETACHED = 917 "CUDA_ERROR_STREAM_DETACHED" "the stream has lost its context and cannot do this any more";
    GRAPH_RECAPTURE_FAILURE = 918 "CUDA_ERROR_GRAPH_RECAPTURE_FAILURE" "capturing the graph anew failed and was ended";
    FABRIC_NOT_READY = 919 "CUDA_ERROR_FABRIC_NOT_READY" "the NVLink fabric is still being set up; trying again later may work";
    UNKNOWN = 999 "CUDA_ERROR_UNKNOWN" "the driver failed and does not know why";
}
