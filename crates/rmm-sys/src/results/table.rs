//! The list of status codes.

use super::code::{CuResult, Row};

/// Calls a macro with every code: our name, its number, CUDA's name as an identifier and as a
/// literal (which `doc(alias)` needs), the version of the bindings that have it (one of
/// `cuda_10_2`, `cuda_13_2` and `cuda_13_5`: in the bindings of that version, and not in those of
/// the one before), and its meaning.
#[doc(hidden)]
#[macro_export]
macro_rules! result_codes {
    ($use:ident) => {
        $use! {
            SUCCESS = 0 CUDA_SUCCESS "CUDA_SUCCESS" cuda_10_2 "no error; what was asked about is complete";
            INVALID_VALUE = 1 CUDA_ERROR_INVALID_VALUE "CUDA_ERROR_INVALID_VALUE" cuda_10_2 "an argument is outside what the call accepts";
            OUT_OF_MEMORY = 2 CUDA_ERROR_OUT_OF_MEMORY "CUDA_ERROR_OUT_OF_MEMORY" cuda_10_2 "not enough memory, or not enough of another resource";
            NOT_INITIALIZED = 3 CUDA_ERROR_NOT_INITIALIZED "CUDA_ERROR_NOT_INITIALIZED" cuda_10_2 "the driver was not initialized, or its initialization failed";
            DEINITIALIZED = 4 CUDA_ERROR_DEINITIALIZED "CUDA_ERROR_DEINITIALIZED" cuda_10_2 "the driver is shutting down, as it does when the process exits";
            PROFILER_DISABLED = 5 CUDA_ERROR_PROFILER_DISABLED "CUDA_ERROR_PROFILER_DISABLED" cuda_10_2 "the profiler is off in this run, perhaps because another tool profiles it";
            PROFILER_NOT_INITIALIZED = 6 CUDA_ERROR_PROFILER_NOT_INITIALIZED "CUDA_ERROR_PROFILER_NOT_INITIALIZED" cuda_10_2 "the profiler was not initialized (not returned since CUDA 5.0)";
            PROFILER_ALREADY_STARTED = 7 CUDA_ERROR_PROFILER_ALREADY_STARTED "CUDA_ERROR_PROFILER_ALREADY_STARTED" cuda_10_2 "the profiler runs already (not returned since CUDA 5.0)";
            PROFILER_ALREADY_STOPPED = 8 CUDA_ERROR_PROFILER_ALREADY_STOPPED "CUDA_ERROR_PROFILER_ALREADY_STOPPED" cuda_10_2 "the profiler is stopped already (not returned since CUDA 5.0)";
            STUB_LIBRARY = 34 CUDA_ERROR_STUB_LIBRARY "CUDA_ERROR_STUB_LIBRARY" cuda_13_2 "the library is the stub that programs are linked with, not a driver";
            CALL_REQUIRES_NEWER_DRIVER = 36 CUDA_ERROR_CALL_REQUIRES_NEWER_DRIVER "CUDA_ERROR_CALL_REQUIRES_NEWER_DRIVER" cuda_13_2 "the call needs a newer driver than the one installed";
            DEVICE_UNAVAILABLE = 46 CUDA_ERROR_DEVICE_UNAVAILABLE "CUDA_ERROR_DEVICE_UNAVAILABLE" cuda_13_2 "the device cannot be used now, often because its compute mode is exclusive or prohibited";
            MULTICAST_RESOURCE_FULL = 47 CUDA_ERROR_MULTICAST_RESOURCE_FULL "CUDA_ERROR_MULTICAST_RESOURCE_FULL" cuda_13_5 "the hardware has nothing left to bind memory to a multicast object";
            NO_DEVICE = 100 CUDA_ERROR_NO_DEVICE "CUDA_ERROR_NO_DEVICE" cuda_10_2 "the driver sees no device";
            INVALID_DEVICE = 101 CUDA_ERROR_INVALID_DEVICE "CUDA_ERROR_INVALID_DEVICE" cuda_10_2 "no device has this number, or this device cannot do what was asked";
            DEVICE_NOT_LICENSED = 102 CUDA_ERROR_DEVICE_NOT_LICENSED "CUDA_ERROR_DEVICE_NOT_LICENSED" cuda_13_2 "the device's virtualization licence is not applied";
            INVALID_IMAGE = 200 CUDA_ERROR_INVALID_IMAGE "CUDA_ERROR_INVALID_IMAGE" cuda_10_2 "the device code, or its module, is malformed";
            INVALID_CONTEXT = 201 CUDA_ERROR_INVALID_CONTEXT "CUDA_ERROR_INVALID_CONTEXT" cuda_10_2 "the thread has no current context, or the context given is not a live one";
            CONTEXT_ALREADY_CURRENT = 202 CUDA_ERROR_CONTEXT_ALREADY_CURRENT "CUDA_ERROR_CONTEXT_ALREADY_CURRENT" cuda_10_2 "the context is current already (not returned since CUDA 3.2)";
            MAP_FAILED = 205 CUDA_ERROR_MAP_FAILED "CUDA_ERROR_MAP_FAILED" cuda_10_2 "mapping or registering failed";
            UNMAP_FAILED = 206 CUDA_ERROR_UNMAP_FAILED "CUDA_ERROR_UNMAP_FAILED" cuda_10_2 "unmapping or unregistering failed";
            ARRAY_IS_MAPPED = 207 CUDA_ERROR_ARRAY_IS_MAPPED "CUDA_ERROR_ARRAY_IS_MAPPED" cuda_10_2 "the array is mapped and so cannot be destroyed";
            ALREADY_MAPPED = 208 CUDA_ERROR_ALREADY_MAPPED "CUDA_ERROR_ALREADY_MAPPED" cuda_10_2 "the resource is mapped already";
            NO_BINARY_FOR_GPU = 209 CUDA_ERROR_NO_BINARY_FOR_GPU "CUDA_ERROR_NO_BINARY_FOR_GPU" cuda_10_2 "the module has no code for this kind of device";
            ALREADY_ACQUIRED = 210 CUDA_ERROR_ALREADY_ACQUIRED "CUDA_ERROR_ALREADY_ACQUIRED" cuda_10_2 "the resource is taken already";
            NOT_MAPPED = 211 CUDA_ERROR_NOT_MAPPED "CUDA_ERROR_NOT_MAPPED" cuda_10_2 "the resource is not mapped";
            NOT_MAPPED_AS_ARRAY = 212 CUDA_ERROR_NOT_MAPPED_AS_ARRAY "CUDA_ERROR_NOT_MAPPED_AS_ARRAY" cuda_10_2 "the resource is mapped, but not as an array";
            NOT_MAPPED_AS_POINTER = 213 CUDA_ERROR_NOT_MAPPED_AS_POINTER "CUDA_ERROR_NOT_MAPPED_AS_POINTER" cuda_10_2 "the resource is mapped, but not as a pointer";
            ECC_UNCORRECTABLE = 214 CUDA_ERROR_ECC_UNCORRECTABLE "CUDA_ERROR_ECC_UNCORRECTABLE" cuda_10_2 "device memory returned bits that error correction could not repair";
            UNSUPPORTED_LIMIT = 215 CUDA_ERROR_UNSUPPORTED_LIMIT "CUDA_ERROR_UNSUPPORTED_LIMIT" cuda_10_2 "the device does not have this limit";
            CONTEXT_ALREADY_IN_USE = 216 CUDA_ERROR_CONTEXT_ALREADY_IN_USE "CUDA_ERROR_CONTEXT_ALREADY_IN_USE" cuda_10_2 "the context may be current on one thread at a time, and is on another";
            PEER_ACCESS_UNSUPPORTED = 217 CUDA_ERROR_PEER_ACCESS_UNSUPPORTED "CUDA_ERROR_PEER_ACCESS_UNSUPPORTED" cuda_10_2 "these devices cannot reach each other's memory";
            INVALID_PTX = 218 CUDA_ERROR_INVALID_PTX "CUDA_ERROR_INVALID_PTX" cuda_10_2 "the PTX text did not compile";
            INVALID_GRAPHICS_CONTEXT = 219 CUDA_ERROR_INVALID_GRAPHICS_CONTEXT "CUDA_ERROR_INVALID_GRAPHICS_CONTEXT" cuda_10_2 "the OpenGL or DirectX context is not usable";
            NVLINK_UNCORRECTABLE = 220 CUDA_ERROR_NVLINK_UNCORRECTABLE "CUDA_ERROR_NVLINK_UNCORRECTABLE" cuda_10_2 "NVLink had an error that could not be repaired";
            JIT_COMPILER_NOT_FOUND = 221 CUDA_ERROR_JIT_COMPILER_NOT_FOUND "CUDA_ERROR_JIT_COMPILER_NOT_FOUND" cuda_10_2 "the library that compiles PTX was not found";
            UNSUPPORTED_PTX_VERSION = 222 CUDA_ERROR_UNSUPPORTED_PTX_VERSION "CUDA_ERROR_UNSUPPORTED_PTX_VERSION" cuda_13_2 "the PTX text is of a version that this driver does not compile";
            JIT_COMPILATION_DISABLED = 223 CUDA_ERROR_JIT_COMPILATION_DISABLED "CUDA_ERROR_JIT_COMPILATION_DISABLED" cuda_13_2 "compiling PTX at run time is switched off";
            UNSUPPORTED_EXEC_AFFINITY = 224 CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY "CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY" cuda_13_2 "the device does not have this kind of execution affinity";
            UNSUPPORTED_DEVSIDE_SYNC = 225 CUDA_ERROR_UNSUPPORTED_DEVSIDE_SYNC "CUDA_ERROR_UNSUPPORTED_DEVSIDE_SYNC" cuda_13_2 "the PTX text synchronizes the device from within, which is no longer possible";
            CONTAINED = 226 CUDA_ERROR_CONTAINED "CUDA_ERROR_CONTAINED" cuda_13_2 "the device failed and contained the damage; the process has to be restarted";
            INSUFFICIENT_LOADER_VERSION = 227 CUDA_ERROR_INSUFFICIENT_LOADER_VERSION "CUDA_ERROR_INSUFFICIENT_LOADER_VERSION" cuda_13_5 "the loader is too old for this bundle of device code";
            INVALID_SOURCE = 300 CUDA_ERROR_INVALID_SOURCE "CUDA_ERROR_INVALID_SOURCE" cuda_10_2 "the kernel's source is invalid or did not link";
            FILE_NOT_FOUND = 301 CUDA_ERROR_FILE_NOT_FOUND "CUDA_ERROR_FILE_NOT_FOUND" cuda_10_2 "the file was not found";
            SHARED_OBJECT_SYMBOL_NOT_FOUND = 302 CUDA_ERROR_SHARED_OBJECT_SYMBOL_NOT_FOUND "CUDA_ERROR_SHARED_OBJECT_SYMBOL_NOT_FOUND" cuda_10_2 "a shared library lacks a symbol that is linked to";
            SHARED_OBJECT_INIT_FAILED = 303 CUDA_ERROR_SHARED_OBJECT_INIT_FAILED "CUDA_ERROR_SHARED_OBJECT_INIT_FAILED" cuda_10_2 "a shared library could not be initialized";
            OPERATING_SYSTEM = 304 CUDA_ERROR_OPERATING_SYSTEM "CUDA_ERROR_OPERATING_SYSTEM" cuda_10_2 "a call to the operating system failed";
            INVALID_HANDLE = 400 CUDA_ERROR_INVALID_HANDLE "CUDA_ERROR_INVALID_HANDLE" cuda_10_2 "the handle names no live object";
            ILLEGAL_STATE = 401 CUDA_ERROR_ILLEGAL_STATE "CUDA_ERROR_ILLEGAL_STATE" cuda_10_2 "an object that the call needs is not in the state for it";
            LOSSY_QUERY = 402 CUDA_ERROR_LOSSY_QUERY "CUDA_ERROR_LOSSY_QUERY" cuda_13_2 "the answer would leave out something that matters";
            NOT_FOUND = 500 CUDA_ERROR_NOT_FOUND "CUDA_ERROR_NOT_FOUND" cuda_10_2 "nothing has this name";
            NOT_READY = 600 CUDA_ERROR_NOT_READY "CUDA_ERROR_NOT_READY" cuda_10_2 "work that was queued is not complete yet; not a failure";
            ILLEGAL_ADDRESS = 700 CUDA_ERROR_ILLEGAL_ADDRESS "CUDA_ERROR_ILLEGAL_ADDRESS" cuda_10_2 "a kernel read or wrote an address that it may not; the process has to be restarted";
            LAUNCH_OUT_OF_RESOURCES = 701 CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES" cuda_10_2 "the launch needs more registers, threads or argument space than there are";
            LAUNCH_TIMEOUT = 702 CUDA_ERROR_LAUNCH_TIMEOUT "CUDA_ERROR_LAUNCH_TIMEOUT" cuda_10_2 "a kernel ran for too long; the process has to be restarted";
            LAUNCH_INCOMPATIBLE_TEXTURING = 703 CUDA_ERROR_LAUNCH_INCOMPATIBLE_TEXTURING "CUDA_ERROR_LAUNCH_INCOMPATIBLE_TEXTURING" cuda_10_2 "the kernel's way of texturing does not fit";
            PEER_ACCESS_ALREADY_ENABLED = 704 CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED "CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED" cuda_10_2 "access to this peer is on already";
            PEER_ACCESS_NOT_ENABLED = 705 CUDA_ERROR_PEER_ACCESS_NOT_ENABLED "CUDA_ERROR_PEER_ACCESS_NOT_ENABLED" cuda_10_2 "access to this peer is not on";
            PRIMARY_CONTEXT_ACTIVE = 708 CUDA_ERROR_PRIMARY_CONTEXT_ACTIVE "CUDA_ERROR_PRIMARY_CONTEXT_ACTIVE" cuda_10_2 "the device's primary context is in use already";
            CONTEXT_IS_DESTROYED = 709 CUDA_ERROR_CONTEXT_IS_DESTROYED "CUDA_ERROR_CONTEXT_IS_DESTROYED" cuda_10_2 "the thread's current context was destroyed, or is a primary one that is not initialized";
            ASSERT = 710 CUDA_ERROR_ASSERT "CUDA_ERROR_ASSERT" cuda_10_2 "an assertion failed in a kernel; the context and its memory are lost";
            TOO_MANY_PEERS = 711 CUDA_ERROR_TOO_MANY_PEERS "CUDA_ERROR_TOO_MANY_PEERS" cuda_10_2 "the hardware has no room for another peer";
            HOST_MEMORY_ALREADY_REGISTERED = 712 CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED "CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED" cuda_10_2 "this host memory is registered already";
            HOST_MEMORY_NOT_REGISTERED = 713 CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED "CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED" cuda_10_2 "this host memory is not registered";
            HARDWARE_STACK_ERROR = 714 CUDA_ERROR_HARDWARE_STACK_ERROR "CUDA_ERROR_HARDWARE_STACK_ERROR" cuda_10_2 "a kernel's stack overflowed or was damaged; the process has to be restarted";
            ILLEGAL_INSTRUCTION = 715 CUDA_ERROR_ILLEGAL_INSTRUCTION "CUDA_ERROR_ILLEGAL_INSTRUCTION" cuda_10_2 "a kernel met an instruction that does not exist; the process has to be restarted";
            MISALIGNED_ADDRESS = 716 CUDA_ERROR_MISALIGNED_ADDRESS "CUDA_ERROR_MISALIGNED_ADDRESS" cuda_10_2 "a kernel used an address that is not aligned; the process has to be restarted";
            INVALID_ADDRESS_SPACE = 717 CUDA_ERROR_INVALID_ADDRESS_SPACE "CUDA_ERROR_INVALID_ADDRESS_SPACE" cuda_10_2 "a kernel used an address of the wrong address space; the process has to be restarted";
            INVALID_PC = 718 CUDA_ERROR_INVALID_PC "CUDA_ERROR_INVALID_PC" cuda_10_2 "a kernel's program counter left its range; the process has to be restarted";
            LAUNCH_FAILED = 719 CUDA_ERROR_LAUNCH_FAILED "CUDA_ERROR_LAUNCH_FAILED" cuda_10_2 "a kernel failed while it ran; the process has to be restarted";
            COOPERATIVE_LAUNCH_TOO_LARGE = 720 CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE "CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE" cuda_10_2 "a cooperative launch has more blocks than fit on the device at once";
            TENSOR_MEMORY_LEAK = 721 CUDA_ERROR_TENSOR_MEMORY_LEAK "CUDA_ERROR_TENSOR_MEMORY_LEAK" cuda_13_2 "a kernel ended with tensor memory not freed; the process has to be restarted";
            NOT_PERMITTED = 800 CUDA_ERROR_NOT_PERMITTED "CUDA_ERROR_NOT_PERMITTED" cuda_10_2 "the operation is not permitted";
            NOT_SUPPORTED = 801 CUDA_ERROR_NOT_SUPPORTED "CUDA_ERROR_NOT_SUPPORTED" cuda_10_2 "this system, driver or device cannot do it";
            SYSTEM_NOT_READY = 802 CUDA_ERROR_SYSTEM_NOT_READY "CUDA_ERROR_SYSTEM_NOT_READY" cuda_10_2 "the system cannot start CUDA work yet; check that the driver's daemons run";
            SYSTEM_DRIVER_MISMATCH = 803 CUDA_ERROR_SYSTEM_DRIVER_MISMATCH "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH" cuda_10_2 "the display driver and the CUDA driver are of versions that do not match";
            COMPAT_NOT_SUPPORTED_ON_DEVICE = 804 CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE "CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE" cuda_10_2 "the forward compatibility package does not serve a device that is visible";
            MPS_CONNECTION_FAILED = 805 CUDA_ERROR_MPS_CONNECTION_FAILED "CUDA_ERROR_MPS_CONNECTION_FAILED" cuda_13_2 "the MPS daemon or server could not be reached";
            MPS_RPC_FAILURE = 806 CUDA_ERROR_MPS_RPC_FAILURE "CUDA_ERROR_MPS_RPC_FAILURE" cuda_13_2 "a call between MPS client and server failed";
            MPS_SERVER_NOT_READY = 807 CUDA_ERROR_MPS_SERVER_NOT_READY "CUDA_ERROR_MPS_SERVER_NOT_READY" cuda_13_2 "the MPS server takes no requests now; it may be recovering";
            MPS_MAX_CLIENTS_REACHED = 808 CUDA_ERROR_MPS_MAX_CLIENTS_REACHED "CUDA_ERROR_MPS_MAX_CLIENTS_REACHED" cuda_13_2 "the hardware has no room for another MPS client";
            MPS_MAX_CONNECTIONS_REACHED = 809 CUDA_ERROR_MPS_MAX_CONNECTIONS_REACHED "CUDA_ERROR_MPS_MAX_CONNECTIONS_REACHED" cuda_13_2 "the hardware has no room for another device connection";
            MPS_CLIENT_TERMINATED = 810 CUDA_ERROR_MPS_CLIENT_TERMINATED "CUDA_ERROR_MPS_CLIENT_TERMINATED" cuda_13_2 "the MPS server ended this client; the process has to be restarted";
            CDP_NOT_SUPPORTED = 811 CUDA_ERROR_CDP_NOT_SUPPORTED "CUDA_ERROR_CDP_NOT_SUPPORTED" cuda_13_2 "the module launches kernels from kernels, which is not possible here";
            CDP_VERSION_MISMATCH = 812 CUDA_ERROR_CDP_VERSION_MISMATCH "CUDA_ERROR_CDP_VERSION_MISMATCH" cuda_13_2 "the module mixes versions of launching kernels from kernels";
            STREAM_CAPTURE_UNSUPPORTED = 900 CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED" cuda_10_2 "the call is not possible while a stream is being captured";
            STREAM_CAPTURE_INVALIDATED = 901 CUDA_ERROR_STREAM_CAPTURE_INVALIDATED "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED" cuda_10_2 "an earlier error has spoilt the capture";
            STREAM_CAPTURE_MERGE = 902 CUDA_ERROR_STREAM_CAPTURE_MERGE "CUDA_ERROR_STREAM_CAPTURE_MERGE" cuda_10_2 "the call would join two captures that are independent";
            STREAM_CAPTURE_UNMATCHED = 903 CUDA_ERROR_STREAM_CAPTURE_UNMATCHED "CUDA_ERROR_STREAM_CAPTURE_UNMATCHED" cuda_10_2 "the capture was not begun on this stream";
            STREAM_CAPTURE_UNJOINED = 904 CUDA_ERROR_STREAM_CAPTURE_UNJOINED "CUDA_ERROR_STREAM_CAPTURE_UNJOINED" cuda_10_2 "the capture forked to a stream that was not joined again";
            STREAM_CAPTURE_ISOLATION = 905 CUDA_ERROR_STREAM_CAPTURE_ISOLATION "CUDA_ERROR_STREAM_CAPTURE_ISOLATION" cuda_10_2 "captured work would depend on work outside the capture";
            STREAM_CAPTURE_IMPLICIT = 906 CUDA_ERROR_STREAM_CAPTURE_IMPLICIT "CUDA_ERROR_STREAM_CAPTURE_IMPLICIT" cuda_10_2 "the legacy default stream would wait for a capture";
            CAPTURED_EVENT = 907 CUDA_ERROR_CAPTURED_EVENT "CUDA_ERROR_CAPTURED_EVENT" cuda_10_2 "the event was last recorded in a capture, and so cannot be asked or waited for";
            STREAM_CAPTURE_WRONG_THREAD = 908 CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD "CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD" cuda_10_2 "the capture has to be ended by the thread that began it";
            TIMEOUT = 909 CUDA_ERROR_TIMEOUT "CUDA_ERROR_TIMEOUT" cuda_10_2 "the wait took longer than it was allowed to";
            GRAPH_EXEC_UPDATE_FAILURE = 910 CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE "CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE" cuda_10_2 "the graph changed in a way that its instance cannot follow";
            EXTERNAL_DEVICE = 911 CUDA_ERROR_EXTERNAL_DEVICE "CUDA_ERROR_EXTERNAL_DEVICE" cuda_13_2 "a device other than the GPU failed; the process may have to be restarted";
            INVALID_CLUSTER_SIZE = 912 CUDA_ERROR_INVALID_CLUSTER_SIZE "CUDA_ERROR_INVALID_CLUSTER_SIZE" cuda_13_2 "the launch's clusters have a size that is not possible";
            FUNCTION_NOT_LOADED = 913 CUDA_ERROR_FUNCTION_NOT_LOADED "CUDA_ERROR_FUNCTION_NOT_LOADED" cuda_13_2 "the function has to be loaded first";
            INVALID_RESOURCE_TYPE = 914 CUDA_ERROR_INVALID_RESOURCE_TYPE "CUDA_ERROR_INVALID_RESOURCE_TYPE" cuda_13_2 "a resource is of a kind that the call does not take";
            INVALID_RESOURCE_CONFIGURATION = 915 CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION "CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION" cuda_13_2 "resources are too few, or not fit for the call";
            KEY_ROTATION = 916 CUDA_ERROR_KEY_ROTATION "CUDA_ERROR_KEY_ROTATION" cuda_13_2 "replacing the encryption keys failed";
            STREAM_DETACHED = 917 CUDA_ERROR_STREAM_DETACHED "CUDA_ERROR_STREAM_DETACHED" cuda_13_2 "the stream has lost its context and cannot do this any more";
            GRAPH_RECAPTURE_FAILURE = 918 CUDA_ERROR_GRAPH_RECAPTURE_FAILURE "CUDA_ERROR_GRAPH_RECAPTURE_FAILURE" cuda_13_5 "capturing the graph anew failed and was ended";
            FABRIC_NOT_READY = 919 CUDA_ERROR_FABRIC_NOT_READY "CUDA_ERROR_FABRIC_NOT_READY" cuda_13_5 "the NVLink fabric is still being set up; trying again later may work";
            UNKNOWN = 999 CUDA_ERROR_UNKNOWN "CUDA_ERROR_UNKNOWN" cuda_10_2 "the driver failed and does not know why";
        }
    };
}

/// Generates the constants of [`CuResult`] and the table of its texts from the list.
macro_rules! constants {
    ($($name:ident = $code:literal $symbol:ident $cuda:literal $version:ident $text:literal;)*) => {
        /// The codes of CUDA 13.5.
        impl CuResult {
            $(
                #[doc = concat!("Code ", $code, ": ", $text, ".")]
                #[doc(alias = $cuda)]
                pub const $name: Self = Self($code);
            )*
        }

        /// Every code that this build knows, in ascending order.
        pub(super) static TABLE: &[Row] =
            &[$(Row { code: CuResult::$name, name: $cuda, text: $text }),*];
    };
}

result_codes!(constants);

#[cfg(test)]
macro_rules! same_names {
    ($($name:ident = $code:literal $symbol:ident $cuda:literal $version:ident $text:literal;)*) => {
        #[test]
        fn a_code_has_one_name_of_cuda() {
            $(assert_eq!(stringify!($symbol), $cuda);)*
        }
    };
}

#[cfg(test)]
result_codes!(same_names);
