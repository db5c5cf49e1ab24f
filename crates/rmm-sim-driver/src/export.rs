//! The exported functions, from the lists of their names and signatures. The names are those of the
//! driver, which the library stands in for: no other library of the process may have them.

macro_rules! export_driver {
    ($($kind:ident $since:literal $name:ident($($argument:ident: $type:ty),*);)*) => {$(
        #[doc = concat!("`", stringify!($name), "` of the software device.")]
        ///
        /// # Safety
        /// The contract of the driver's function of this name.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name($($argument: $type),*) -> CuResult {
            // SAFETY: the caller's contract.
            let call = || unsafe { rmm_sim::driver().$name($($argument),*) };
            match stringify!($name) {
                "cuInit" => process::initialising(call),
                "cuDevicePrimaryCtxRelease_v2" | "cuDevicePrimaryCtxReset_v2" => process::ending(call),
                _ => call(),
            }
        }
    )*

        /// The functions that this library exports which are more than those of the device.
        pub(crate) fn exports() -> Vec<(&'static str, *const c_void)> {
            let own = ("cuCtxDestroy_v2", cuCtxDestroy_v2 as *const c_void);
            vec![own, $((stringify!($name), $name as *const c_void)),*]
        }
    };
}

macro_rules! export_shims {
    ($($name:ident($($argument:ident: $type:ty),*);)*) => {$(
        #[doc = concat!("`", stringify!($name), "` on the software device.")]
        ///
        /// # Safety
        /// The contract of the driver's function of this name.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name($($argument: $type),*) -> CuResult {
            // SAFETY: the caller's contract.
            let call = || unsafe { shims::$name($($argument),*) };
            match stringify!($name) {
                "cuCtxDestroy_v2" => process::ending(call),
                _ => call(),
            }
        }
    )*};
}

macro_rules! export_absent {
    ($($name:ident)*) => {$(
        #[doc = concat!("`", stringify!($name), "`, which is not served.")]
        #[unsafe(no_mangle)]
        pub extern "C" fn $name() -> CuResult {
            CuResult::NOT_SUPPORTED
        }
    )*};
}
