//! The table of driver functions.

use std::ffi::{c_char, c_float, c_int, c_uchar, c_uint, c_ulonglong, c_void};

use crate::load_error::LoadError;
use crate::{
    Annotations, CuCaptureMode, CuCaptureStatus, CuContext, CuDevice, CuDeviceAttribute,
    CuDevicePtr, CuEvent, CuFunction, CuGraph, CuGraphExec, CuGraphMemAttribute, CuHostFn,
    CuIpcEventHandle, CuIpcMemHandle, CuMemAccessDesc, CuMemAccessFlags, CuMemAdvise,
    CuMemAllocationProp, CuMemAllocationType, CuMemGranularity, CuMemHandle, CuMemHandleType,
    CuMemLocation, CuMemPool, CuMemPoolAttribute, CuMemPoolProps, CuMemPoolPtrExportData,
    CuMemRangeAttribute, CuModule, CuPointerAttribute, CuResult, CuStream, CuUuid, driver_symbols,
};

/// The type of a field of [`Driver`].
macro_rules! field {
    (required $function:ty) => { $function };
    (optional $function:ty) => { Option<$function> };
}

/// The value of a field from a resolved symbol.
macro_rules! resolve {
    (required $since:literal $name:ident $find:expr) => {
        $find.ok_or(LoadError::missing_symbol(stringify!($name), $since))?
    };
    (optional $since:literal $name:ident $find:expr) => {
        $find
    };
}

/// Calls a function through its field.
macro_rules! call {
    (required $field:expr, $($argument:ident),*) => {
        // SAFETY: the caller's contract: that of the driver function of this name.
        unsafe { $field($($argument),*) }
    };
    (optional $field:expr, $($argument:ident),*) => {
        match $field {
            // SAFETY: the caller's contract: that of the driver function of this name.
            Some(function) => unsafe { function($($argument),*) },
            None => CuResult::NOT_SUPPORTED,
        }
    };
}

/// The symbol, if it is optional and missing.
macro_rules! absent {
    (required $since:literal $name:ident $field:expr) => {
        None
    };
    (optional $since:literal $name:ident $field:expr) => {
        $field.is_none().then_some(MissingSymbol { name: stringify!($name), since: $since })
    };
}

/// An optional driver function that this driver lacks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MissingSymbol {
    /// The symbol.
    pub name: &'static str,
    /// The first CUDA version whose driver has it.
    pub since: &'static str,
}

macro_rules! table {
    ($($kind:ident $since:literal $name:ident($($argument:ident: $type:ty),*);)*) => {
        /// A table of function pointers to the driver API: the interface between this workspace and
        /// a device.
        ///
        /// It is loaded from the system's driver by [`Driver::load`], or filled by hand, which is
        /// how a software device or a test replaces the driver. [`Driver::get`] returns the
        /// process's table.
        ///
        /// Each function can be called through the method of its name. A function that the driver
        /// lacks (an optional one, most of a newer CUDA version) returns
        /// [`CuResult::NOT_SUPPORTED`]; [`Driver::missing`] lists them.
        #[expect(non_snake_case, reason = "the fields are the driver's symbols, letter by letter")]
        #[derive(Clone, Copy, Debug)]
        pub struct Driver {
            $(
                #[doc = concat!("`", stringify!($name), "`, in drivers from CUDA ", $since, ".")]
                pub $name: field!($kind unsafe extern "C" fn($($argument: $type),*) -> CuResult),
            )*
            /// What reports annotations, if the driver is a checker. A real driver has none.
            pub annotations: Option<&'static Annotations>,
        }

        #[expect(clippy::too_many_arguments, reason = "the driver's own arguments")]
        impl Driver {
            /// Fills the table from `find`, which returns the address of a symbol or `None`.
            ///
            /// # Errors
            /// [`LoadError`] naming the first required symbol that is not found.
            ///
            /// # Safety
            /// Each address that `find` returns is null or that of a function with the signature
            /// which the symbol of this name has in `cuda.h`, callable for the rest of the process;
            /// or, for `rmm_sim_annotations`, which a checker has, that of a function with the
            /// contract that `rmm-sim-driver` keeps.
            pub unsafe fn from_symbols(
                mut find: impl FnMut(&'static str) -> Option<*mut c_void>,
            ) -> Result<Self, LoadError> {
                Ok(Self {$(
                    $name: {
                        let found = find(stringify!($name)).filter(|address| !address.is_null()).map(|address| {
                            type Function = unsafe extern "C" fn($($argument: $type),*) -> CuResult;
                            // SAFETY: a data pointer and a function pointer have one size on the
                            // platforms that CUDA supports, and by the caller's contract this
                            // address is a function of that type.
                            unsafe { std::mem::transmute::<*mut c_void, Function>(address) }
                        });
                        resolve!($kind $since $name found)
                    },
                )*
                    annotations: {
                        let lookup = find(crate::annotations::LOOKUP_SYMBOL);
                        // SAFETY: the caller's contract.
                        lookup.and_then(|lookup| unsafe { Annotations::of_library(lookup) })
                    },
                })
            }

            /// The optional functions that this driver lacks.
            pub fn missing(&self) -> Vec<MissingSymbol> {
                let absent: &[Option<MissingSymbol>] = &[$(absent!($kind $since $name self.$name)),*];
                absent.iter().copied().flatten().collect()
            }

            $(
                #[doc = concat!("Calls `", stringify!($name), "`.")]
                ///
                /// # Safety
                /// The caller keeps the contract of this function in the CUDA driver API's
                /// documentation: pointers are valid for the reads and writes of the call, and of
                /// the work that it starts, until they have completed.
                #[expect(non_snake_case, reason = "the driver's own name")]
                pub unsafe fn $name(&self $(, $argument: $type)*) -> CuResult {
                    let code = call!($kind (self.$name), $($argument),*);
                    if crate::epoch::ends_context!($name) {
                        crate::epoch::note_end_of_context();
                    }
                    code
                }
            )*
        }

        /// Each symbol of the table with its kind and first version, in the table's order.
        pub const SYMBOLS: &[(&str, bool, &str)] = &[$((stringify!($name), is_required!($kind), $since)),*];
    };
}

macro_rules! is_required {
    (required) => {
        true
    };
    (optional) => {
        false
    };
}

driver_symbols!(table);
