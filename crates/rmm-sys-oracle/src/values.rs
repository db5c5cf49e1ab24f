//! Kinds and flags, compared in value.
//!
//! The kinds come from `integer_kinds!`, so a value that is added there is compared here.

use cudarc::driver::sys;
use rmm_sys as ours;

/// The number behind a value of the oracle, which has enumerations and one structure of bits.
macro_rules! number {
    (CUmemAllocationHandleType $name:ident) => {
        sys::CUmemAllocationHandleType::$name.0 as i64
    };
    ($type:ident $name:ident) => {
        sys::$type::$name as i64
    };
}

macro_rules! same_values {
    ($($(#[$doc:meta])* $type:ident($repr:ty) = $symbol:ident $alias:literal {
        $($(#[$value_doc:meta])* $name:ident = $value:literal $value_symbol:ident $cuda:literal;)*
    })*) => {$(
        const _: () = {
            $(assert!(ours::$type::$name.0 as i64 == number!($symbol $value_symbol), $cuda);)*
        };
    )*};
}

rmm_sys::integer_kinds!(same_values);

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
