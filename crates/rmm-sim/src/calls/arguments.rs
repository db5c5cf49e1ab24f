//! Arguments of driver functions: plain values, and pointers that are read ([`In`]) or written
//! ([`Out`]) until the call returns.

use std::ffi::{c_int, c_uchar, c_uint, c_ulonglong};

use rmm_sys::{
    CuCaptureMode, CuContext, CuDevice, CuDeviceAttribute, CuDevicePtr, CuEvent, CuFunction,
    CuGraph, CuGraphExec, CuGraphMemAttribute, CuHostFn, CuIpcMemHandle, CuMemAdvise,
    CuMemAllocationType, CuMemGranularity, CuMemHandle, CuMemHandleType, CuMemLocation, CuMemPool,
    CuMemPoolAttribute, CuMemRangeAttribute, CuModule, CuPointerAttribute, CuResult, CuStream,
};

use crate::model::handle::Hint;

/// An argument as C passes it.
pub(crate) trait Argument {
    /// What the functions see in its place.
    type Taken;

    /// Wraps it.
    ///
    /// # Safety
    /// A pointer is null, or valid for what the driver's documentation of the function says until
    /// the call returns.
    unsafe fn take(self) -> Self::Taken;
}

/// A pointer through which a call returns a result.
#[derive(Debug)]
pub(crate) struct Out<T> {
    /// # Invariant
    /// Null, or valid for reads and writes until the call returns.
    pointer: *mut T,
}

impl<T> Out<T> {
    /// # Errors
    /// `INVALID_VALUE` for a null pointer.
    pub(crate) fn required(&self) -> Result<(), CuResult> {
        if self.pointer.is_null() { Err(CuResult::INVALID_VALUE) } else { Ok(()) }
    }

    /// Writes the result.
    ///
    /// # Errors
    /// The errors of [`required`](Self::required).
    pub(crate) fn put(&self, value: T) -> Result<(), CuResult> {
        self.required()?;
        // SAFETY: by the invariant the pointer is valid for writes, since it is not null. C does
        // not promise alignment.
        unsafe { self.pointer.write_unaligned(value) };
        Ok(())
    }

    /// Writes a result of a type that another argument selects.
    ///
    /// # Safety
    /// The driver documents that the pointer is to a `V` in this case.
    pub(crate) unsafe fn put_as<V>(&self, value: V) -> Result<(), CuResult> {
        Out { pointer: self.pointer.cast::<V>() }.put(value)
    }

    /// Reads a value of a type that another argument selects.
    ///
    /// # Safety
    /// The driver documents that the pointer is to a `V` in this case.
    pub(crate) unsafe fn get_as<V: Copy>(&self) -> Result<V, CuResult> {
        In { pointer: self.pointer.cast_const().cast::<V>() }.get(0)
    }

    /// The address, for arguments that are addresses.
    pub(crate) fn address(&self) -> usize {
        self.pointer.expose_provenance()
    }

    pub(crate) fn as_raw(&self) -> *mut T {
        self.pointer
    }
}

impl<T: Copy> Out<T> {
    /// Reads the value, for arguments that C declares as writable but only reads.
    ///
    /// # Errors
    /// The errors of [`required`](Self::required).
    pub(crate) fn get(&self) -> Result<T, CuResult> {
        In { pointer: self.pointer.cast_const() }.get(0)
    }
}

impl Out<std::ffi::c_char> {
    /// Writes a null-terminated string, truncated to `length` bytes including the terminator.
    pub(crate) fn put_text(&self, text: &str, length: usize) -> Result<(), CuResult> {
        self.required()?;
        let Some(room) = length.checked_sub(1) else { return Err(CuResult::INVALID_VALUE) };
        let bytes = &text.as_bytes()[..text.len().min(room)];
        // SAFETY: the caller promised `length` bytes at the pointer, and this writes fewer.
        unsafe { self.pointer.cast::<u8>().copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) };
        // SAFETY: the offset is at most `length - 1`, so the result points to one of the caller's
        // bytes.
        let end = unsafe { self.pointer.add(bytes.len()) };
        // SAFETY: `end` points to one of the caller's `length` bytes, which are valid for writes.
        unsafe { end.write(0) };
        Ok(())
    }
}

impl Out<*mut std::ffi::c_void> {
    /// The value of a kernel's parameter, as `bytes` bytes.
    ///
    /// # Errors
    /// `INVALID_VALUE` for a null pointer.
    ///
    /// # Safety
    /// The pointer is null, or to more than `index` pointers, of which this one is null or valid
    /// for reads of `bytes` bytes.
    pub(crate) unsafe fn parameter(&self, index: usize, bytes: usize) -> Result<Vec<u8>, CuResult> {
        let value = In { pointer: self.pointer.cast_const() }.get(index)?.cast::<u8>();
        if value.is_null() {
            return Err(CuResult::INVALID_VALUE);
        }
        let mut copy = vec![0; bytes];
        // SAFETY: the value is valid for reads of `bytes` bytes by the caller's contract, and the
        // copy was just made with that length.
        unsafe { copy.as_mut_ptr().copy_from_nonoverlapping(value, bytes) };
        Ok(copy)
    }
}

impl<T> Argument for *mut T {
    type Taken = Out<T>;

    unsafe fn take(self) -> Out<T> {
        Out { pointer: self }
    }
}

/// A pointer to a value, or an array, that a call reads.
#[derive(Debug)]
pub(crate) struct In<T> {
    /// # Invariant
    /// Null, or valid for reads until the call returns.
    pointer: *const T,
}

impl<T> In<T> {
    /// The address, for arguments that are addresses.
    pub(crate) fn address(&self) -> usize {
        self.pointer.expose_provenance()
    }
}

impl In<std::ffi::c_char> {
    /// The text of a null-terminated string; bytes that are not UTF-8 are replaced.
    ///
    /// # Errors
    /// `INVALID_VALUE` for a null pointer.
    pub(crate) fn text(&self) -> Result<String, CuResult> {
        if self.pointer.is_null() {
            return Err(CuResult::INVALID_VALUE);
        }
        // SAFETY: the functions with such an argument document a null-terminated string, which by
        // the invariant is valid until the call returns.
        let text = unsafe { std::ffi::CStr::from_ptr(self.pointer) };
        Ok(text.to_string_lossy().into_owned())
    }
}

impl<T: Copy> In<T> {
    /// Reads the value at `index`, which is below the count that the caller passed (1 without a
    /// count).
    ///
    /// # Errors
    /// `INVALID_VALUE` for a null pointer.
    pub(crate) fn get(&self, index: usize) -> Result<T, CuResult> {
        if self.pointer.is_null() {
            return Err(CuResult::INVALID_VALUE);
        }
        // SAFETY: by the invariant and the bound of `index`, the value lies within the array that
        // the caller passed.
        let value = unsafe { self.pointer.add(index) };
        // SAFETY: `value` points into the caller's array, which by the invariant is valid for
        // reads.
        Ok(unsafe { value.read_unaligned() })
    }
}

impl<T> Argument for *const T {
    type Taken = In<T>;

    unsafe fn take(self) -> In<T> {
        In { pointer: self }
    }
}

macro_rules! plain {
    ($($type:ty),*) => {$(
        impl Argument for $type {
            type Taken = Self;

            unsafe fn take(self) -> Self {
                self
            }
        }
    )*};
}

plain!(c_int, c_uint, c_uchar, c_ulonglong, usize, CuHostFn);
plain!(
    CuContext,
    CuStream,
    CuEvent,
    CuMemPool,
    CuModule,
    CuFunction,
    CuGraph,
    CuGraphExec,
    CuDevice,
    CuDevicePtr,
    CuMemHandle
);
plain!(
    CuCaptureMode,
    CuDeviceAttribute,
    CuMemPoolAttribute,
    CuPointerAttribute,
    CuMemAdvise,
    CuMemRangeAttribute,
    CuGraphMemAttribute,
    CuMemHandleType
);
plain!(
    CuMemAllocationType,
    CuMemGranularity,
    CuMemLocation,
    CuIpcMemHandle,
    rmm_sys::CuIpcEventHandle
);

/// An argument that may name the machine.
pub(crate) trait Hinting {
    fn hint(&self) -> Hint;
}

macro_rules! hinting_handles {
    ($($type:ty),*) => {$(
        impl Hinting for $type {
            fn hint(&self) -> Hint {
                Hint::Handle(self.addr())
            }
        }
    )*};
}

hinting_handles!(
    CuContext,
    CuStream,
    CuEvent,
    CuMemPool,
    CuGraph,
    CuGraphExec,
    CuModule,
    CuFunction
);

impl Hinting for CuMemHandle {
    fn hint(&self) -> Hint {
        Hint::Handle(usize::try_from(self.0).unwrap_or(0))
    }
}

impl Hinting for CuDevicePtr {
    fn hint(&self) -> Hint {
        Hint::Address(address(*self))
    }
}

impl<T> Hinting for Out<T> {
    fn hint(&self) -> Hint {
        Hint::Address(self.pointer.addr())
    }
}

impl<T> Hinting for In<T> {
    fn hint(&self) -> Hint {
        Hint::Address(self.pointer.addr())
    }
}

/// A device address as an address of this process; 0 if it does not fit.
pub(crate) fn address(pointer: CuDevicePtr) -> usize {
    usize::try_from(pointer.0).unwrap_or(0)
}

/// An address of this process as a device address.
pub(crate) fn pointer(address: usize) -> CuDevicePtr {
    CuDevicePtr(address as c_ulonglong)
}
