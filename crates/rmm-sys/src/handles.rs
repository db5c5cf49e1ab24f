//! Handles of driver objects. Plain values: dropping one frees nothing.

use std::ffi::{c_int, c_ulonglong, c_void};
use std::fmt;

macro_rules! pointer_handle {
    ($($(#[$doc:meta])* $name:ident = $alias:literal;)*) => {$(
        $(#[$doc])*
        #[doc(alias = $alias)]
        #[repr(transparent)]
        #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
        pub struct $name(*mut c_void);

        impl $name {
            /// The null handle.
            pub const NULL: Self = Self(std::ptr::null_mut());

            /// The handle with this address. Any value is allowed; only the driver knows whether it
            /// is valid.
            pub const fn from_raw(raw: *mut c_void) -> Self {
                Self(raw)
            }

            /// The handle's address.
            pub const fn as_raw(self) -> *mut c_void {
                self.0
            }

            /// The address as a number, for messages and logs.
            pub fn addr(self) -> usize {
                self.0.addr()
            }

            /// Whether this is the null handle.
            pub const fn is_null(self) -> bool {
                self.0.is_null()
            }
        }

        // SAFETY: the value is an opaque name that is never dereferenced here, and the driver's
        // functions may be called with it from any thread ("the CUDA driver API is thread-safe",
        // CUDA C++ programming guide).
        unsafe impl Send for $name {}
        // SAFETY: as for `Send`; a shared reference only lets the name be copied.
        unsafe impl Sync for $name {}
    )*};
}

pointer_handle! {
    /// A context.
    CuContext = "CUcontext";
    /// A stream. [`CuStream::NULL`], [`CuStream::LEGACY`] and [`CuStream::PER_THREAD`] always
    /// exist.
    CuStream = "CUstream";
    /// An event.
    CuEvent = "CUevent";
    /// A pool of stream-ordered memory.
    CuMemPool = "CUmemoryPool";
    /// A loaded module of device code.
    CuModule = "CUmodule";
    /// A kernel of a module.
    CuFunction = "CUfunction";
    /// A graph of work, such as a stream capture produces.
    CuGraph = "CUgraph";
    /// An instantiated graph, ready to launch.
    CuGraphExec = "CUgraphExec";
}

impl CuStream {
    /// The legacy default stream by its explicit handle.
    #[doc(alias = "CU_STREAM_LEGACY")]
    pub const LEGACY: Self = Self(std::ptr::without_provenance_mut(1));
    /// The calling thread's own default stream.
    #[doc(alias = "CU_STREAM_PER_THREAD")]
    pub const PER_THREAD: Self = Self(std::ptr::without_provenance_mut(2));
}

/// A device, as the driver numbers it.
#[doc(alias = "CUdevice")]
#[repr(transparent)]
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct CuDevice(pub c_int);

impl CuDevice {
    /// The host, where a call takes a device or the host.
    #[doc(alias = "CU_DEVICE_CPU")]
    pub const CPU: Self = Self(-1);
    /// No device, where a call returns one.
    #[doc(alias = "CU_DEVICE_INVALID")]
    pub const INVALID: Self = Self(-2);
}

/// A device address. Not a Rust pointer: the host must not dereference it.
///
/// ```
/// let address = rmm_sys::CuDevicePtr(0x7f00);
/// assert_eq!(format!("{address:?}"), "CuDevicePtr(0x7f00)"); // as in logs and tools
/// ```
#[doc(alias = "CUdeviceptr")]
#[repr(transparent)]
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct CuDevicePtr(pub c_ulonglong);

impl fmt::Debug for CuDevicePtr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CuDevicePtr({:#x})", self.0)
    }
}

impl CuDevicePtr {
    /// Address zero, which no allocation has.
    pub const NULL: Self = Self(0);
}

/// A handle to physical memory made by `cuMemCreate`.
#[doc(alias = "CUmemGenericAllocationHandle")]
#[repr(transparent)]
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct CuMemHandle(pub c_ulonglong);

/// A function that the driver calls on one of its own threads, in stream order. It must not call
/// the driver.
#[doc(alias = "CUhostFn")]
pub type CuHostFn = Option<unsafe extern "C" fn(data: *mut c_void)>;
