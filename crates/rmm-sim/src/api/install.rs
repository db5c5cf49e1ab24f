//! Installing the software driver as the process's driver.

use std::fmt;

use rmm_sys::{Driver, driver_symbols};

use crate::calls;

/// A field of the table: a function, or an `Option` of one.
macro_rules! field {
    (required $function:expr) => {
        $function
    };
    (optional $function:expr) => {
        Some($function)
    };
}

macro_rules! table {
    ($($kind:ident $since:literal $name:ident($($argument:ident: $type:ty),*);)*) => {
        static TABLE: Driver = Driver {
            $($name: field!($kind calls::$name),)*
            annotations: Some(&calls::annotations::ANNOTATIONS),
        };
    };
}

// A function that is missing, or has another signature than the driver's, does not compile.
driver_symbols!(table);

/// The table of the software driver.
pub fn driver() -> Driver {
    TABLE
}

/// Installs the software driver as the process's driver. May be called any number of times.
///
/// # Errors
/// [`InstallError`] if the process has another driver already.
pub fn install() -> Result<&'static Driver, InstallError> {
    // SAFETY: each function keeps the contract of the driver function of its name.
    let installed = match unsafe { Driver::install(TABLE) } {
        Ok(installed) => installed,
        Err(_) => Driver::get().map_err(|_| InstallError(()))?,
    };
    // Comparing one function is enough: no other driver has it.
    if std::ptr::fn_addr_eq(installed.cuInit, TABLE.cuInit) {
        Ok(installed)
    } else {
        Err(InstallError(()))
    }
}

/// # Panics
/// If the process has another driver already.
#[track_caller]
pub(crate) fn expect_installed() {
    if let Err(error) = install() {
        panic!("{error}");
    }
}

/// The process has another driver already.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct InstallError(());

impl fmt::Display for InstallError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(
            "the software device cannot be used: this process already has another driver, and it can have only one; \
             install or enter the software device before the first use of the other one",
        )
    }
}

impl std::error::Error for InstallError {}
