//! The addresses of all functions that are served, by name.

use std::ffi::{c_char, c_int, c_uint, c_ulonglong, c_void};

use rmm_sys::{
    CuContext, CuDevice, CuDevicePtr, CuEvent, CuFunction, CuGraphExec, CuHostFn, CuMemAdvise,
    CuModule, CuPointerAttribute, CuResult, CuStream, CuUuid, driver_symbols,
};

use crate::shims::{self, CreateParameters, LaunchConfig};

macro_rules! field {
    (required $function:expr) => {
        $function as *const c_void
    };
    (optional $function:expr) => {
        $function.map_or(std::ptr::null(), |function| function as *const c_void)
    };
}

/// The functions of the driver's table, in its order.
macro_rules! driver_rows {
    ($($kind:ident $since:literal $name:ident($($argument:ident: $type:ty),*);)*) => {{
        let driver = rmm_sim::driver();
        vec![$((stringify!($name), field!($kind driver.$name))),*]
    }};
}

macro_rules! shim_rows {
    ($($name:ident($($argument:ident: $type:ty),*);)*) => {
        [$((
            stringify!($name),
            // A shim of another signature than the list's does not compile.
            shims::$name as unsafe extern "C" fn($($type),*) -> CuResult as *const c_void,
        )),*]
    };
}

/// Each function that is served with its address, in the order of the libraries' tables.
pub(crate) fn rows() -> Vec<(&'static str, *const c_void)> {
    let mut rows: Vec<(&'static str, *const c_void)> = driver_symbols!(driver_rows);
    rows.extend(shim_symbols!(shim_rows));
    rows.extend(older_symbols!(shim_rows));
    rows
}

/// The addresses alone.
#[cfg_attr(not(has_libcuda), expect(dead_code, reason = "there is no library to fill"))]
pub(crate) fn addresses() -> Vec<*const c_void> {
    rows().into_iter().map(|(_, address)| address).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_function_has_an_address() {
        for (name, address) in rows() {
            assert!(!address.is_null(), "{name}");
        }
    }
}
