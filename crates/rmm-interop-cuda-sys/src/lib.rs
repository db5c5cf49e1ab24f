//! Conversions between the handles of `rmm-sys` and those of `cuda-driver-sys` and
//! `cuda-runtime-sys`.
//!
//! For programs that already use these two crates: their streams, events and addresses can be given
//! to this workspace's memory resources, and the other way round. A handle is a plain value on both
//! sides, so a conversion costs nothing, takes nothing over and frees nothing.
//!
//! ```ignore
//! use rmm_interop_cuda_sys::{DriverSys, RuntimeSys};
//! use rmm_sys::CuStream;
//!
//! let mut theirs = std::ptr::null_mut();
//! // SAFETY: `theirs` may be written to.
//! unsafe { cuda_runtime_sys::cudaStreamCreate(&mut theirs) };
//! let stream = CuStream::from_runtime_sys(theirs);  // the same stream, for rmm
//! let again: cuda_driver_sys::CUstream = stream.to_driver_sys();
//! ```
//!
//! | here | is |
//! |---|---|
//! | [`DriverSys`] | handles and structures, to and from `cuda-driver-sys` |
//! | [`RuntimeSys`] | handles and structures, to and from `cuda-runtime-sys` |
//! | [`result_from_driver_sys`], [`result_to_driver_sys`], [`code_of_runtime_sys`] | status codes |
//!
//! # What depending on this crate brings along
//!
//! The rest of the workspace does not use these two crates, for reasons which their users should
//! know:
//!
//! - **They link to CUDA.** As soon as a program uses anything of them, *even a type*, the linker
//!   asks for `-lcuda` or `-lcudart`, and the program does not start on a machine without those
//!   libraries. So this crate is no default member of the workspace, it is only ever checked
//!   (`cargo check -p rmm-interop-cuda-sys`) where there is no CUDA, and its examples are not run.
//! - **They are of CUDA 10.2.** There is no stream-ordered allocation (`cudaMallocAsync`), no
//!   memory pool, and nothing else that came later. Handles of newer kinds
//!   ([`CuMemPool`](rmm_sys::CuMemPool)) therefore have no conversion.
//! - **Their status codes are Rust enumerations.** A code that is newer than 10.2, returned by a
//!   newer driver through one of their functions, is undefined behaviour there. Here codes become
//!   plain numbers; a number becomes one of their enumerators only if it is one of the list, by a
//!   `match`.
//! - **Their structures have enumerations inside.** `CUmemLocation`, `CUmemAccessDesc` and
//!   `CUmemAllocationProp` have no conversion for the same reason: a kind of location that 10.2
//!   does not know could not be written into them.
//! - **They claim `links = "cuda"` and `links = "cudart"`.** Cargo allows one package for each in a
//!   whole build, so no other crate which claims the same can be used beside this one.

mod codes;
mod driver;
mod runtime;

pub use codes::{code_of_runtime_sys, result_from_driver_sys, result_to_driver_sys};
pub use driver::DriverSys;
pub use runtime::RuntimeSys;

use std::ffi::c_char;

/// Bytes as C's `char`, which has a sign on some platforms.
fn to_chars<const N: usize>(bytes: [u8; N]) -> [c_char; N] {
    bytes.map(|byte| c_char::from_ne_bytes([byte]))
}

/// The bytes behind C's `char`s.
fn to_bytes<const N: usize>(chars: [c_char; N]) -> [u8; N] {
    chars.map(|char| char.to_ne_bytes()[0])
}

/// Refuses to compile if two types differ in size or alignment.
macro_rules! assert_same_layout {
    ($ours:ty, $theirs:ty) => {
        const _: () = {
            assert!(size_of::<$ours>() == size_of::<$theirs>(), stringify!($ours));
            assert!(align_of::<$ours>() == align_of::<$theirs>(), stringify!($ours));
        };
    };
}

use assert_same_layout;

/// Defines the trait of a crate, and implements it for handles, numbers and the structures of
/// bytes, which both crates have.
macro_rules! conversions {
    (
        $trait:ident of $crate_name:literal: $to:ident, $from:ident;
        handles: $($handle:ident = $their_handle:ty),*;
        numbers: $($number:ident = $their_number:ty),*;
        uuid: $uuid:ty, ipc_memory: $memory:ty, ipc_event: $event:ty
    ) => {
        #[doc = concat!("A value that `", $crate_name, "` has a type for too.")]
        ///
        /// Both directions change the type of a handle only; nothing is created, checked or freed.
        pub trait $trait: Sized {
            #[doc = concat!("The type in `", $crate_name, "`.")]
            type Foreign;

            #[doc = concat!("Converts to the type of `", $crate_name, "`.")]
            fn $to(self) -> Self::Foreign;

            #[doc = concat!("Converts from the type of `", $crate_name, "`. A handle need not name")]
            /// a live object: the driver reports an invalid one when it is used.
            fn $from(foreign: Self::Foreign) -> Self;
        }

        $($crate::conversion! {
            $trait for $handle = $their_handle:
                $to |handle| handle.as_raw().cast(), $from |theirs| Self::from_raw(theirs.cast())
        })*
        $($crate::conversion! {
            $trait for $number = $their_number: $to |number| number.0, $from |theirs| Self(theirs)
        })*
        $crate::conversion! {
            $trait for CuUuid = $uuid:
                $to |uuid| Self::Foreign { bytes: $crate::to_chars(uuid.bytes) },
                $from |theirs| Self { bytes: $crate::to_bytes(theirs.bytes) }
        }
        $crate::conversion! {
            $trait for CuIpcMemHandle = $memory:
                $to |value| Self::Foreign { reserved: $crate::to_chars(value.reserved) },
                $from |theirs| Self { reserved: $crate::to_bytes(theirs.reserved) }
        }
        $crate::conversion! {
            $trait for CuIpcEventHandle = $event:
                $to |value| Self::Foreign { reserved: $crate::to_chars(value.reserved) },
                $from |theirs| Self { reserved: $crate::to_bytes(theirs.reserved) }
        }
    };
}

use conversions;

/// Implements one of the two traits for a type of the same layout, by an expression for each
/// direction.
macro_rules! conversion {
    (
        $trait:ident for $ours:ident = $theirs:ty:
            $to:ident |$value:ident| $there:expr, $from:ident |$foreign:ident| $back:expr
    ) => {
        $crate::assert_same_layout!($ours, $theirs);

        impl $trait for $ours {
            type Foreign = $theirs;

            fn $to(self) -> Self::Foreign {
                let $value = self;
                $there
            }

            fn $from($foreign: Self::Foreign) -> Self {
                $back
            }
        }
    };
}

use conversion;
