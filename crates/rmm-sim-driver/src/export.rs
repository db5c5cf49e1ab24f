//! The exported functions, from the lists of their names and signatures. The names are those of the
//! driver, which the library stands in for: no other library of the process may have them.

macro_rules! export_driver {
    ($($kind:ident $since:literal $name:ident($($argument:ident: $type:ty),*);)*) => {
        $(
            #[doc = concat!("`", stringify!($name), "` of the software device.")]
            ///
            /// # Safety
            /// The contract of the driver's function of this name.
            #[unsafe(no_mangle)]
            pub unsafe extern "C" fn $name($($argument: $type),*) -> CuResult {
                // SAFETY: the caller's contract.
                let call = || unsafe { rmm_sim::driver().$name($($argument),*) };
                process::serve(stringify!($name), call)
            }
        )*

        /// The functions of the driver's table.
        fn driver_exports() -> Vec<(&'static str, *const c_void)> {
            vec![$((stringify!($name), $name as *const c_void)),*]
        }
    };
}

/// Exports the functions of a list, and returns them by a function of this name.
macro_rules! export_shims {
    ($exports:ident $($name:ident($($argument:ident: $type:ty),*);)*) => {
        $(
            #[doc = concat!("`", stringify!($name), "` on the software device.")]
            ///
            /// # Safety
            /// The contract of the driver's function of this name.
            #[unsafe(no_mangle)]
            pub unsafe extern "C" fn $name($($argument: $type),*) -> CuResult {
                // SAFETY: the caller's contract.
                let call = || unsafe { shims::$name($($argument),*) };
                process::serve(stringify!($name), call)
            }
        )*

        fn $exports() -> Vec<(&'static str, *const c_void)> {
            vec![$((stringify!($name), $name as *const c_void)),*]
        }
    };
}

macro_rules! export_absent {
    ($($name:ident)*) => {$(
        #[doc = concat!("`", stringify!($name), "`, which is not served.")]
        #[unsafe(no_mangle)]
        pub extern "C" fn $name() -> CuResult {
            process::refuse(stringify!($name))
        }
    )*};
}
