//! Finding the driver at run time.

use std::ffi::{OsString, c_void};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, OnceLock, PoisonError};

use crate::load_error::{LIBRARY_VARIABLE, LoadError};
use crate::table::Driver;

/// The names under which the driver is looked for, in this order.
pub const LIBRARY_NAMES: &[&str] =
    if cfg!(windows) { &["nvcuda.dll"] } else { &["libcuda.so.1", "libcuda.so"] };

static INSTALLED: OnceLock<Driver> = OnceLock::new();
/// Held while the driver is being loaded, so that two threads do not load it twice.
static LOADING: Mutex<()> = Mutex::new(());

impl Driver {
    /// The process's driver: the one that was [installed](Self::install), or else the system's,
    /// loaded now.
    ///
    /// Once it is there, a call costs one atomic load. A failure is not remembered: the next call
    /// tries again.
    ///
    /// # Errors
    /// [`LoadError`] if the library or one of its symbols is missing; its text says which and what
    /// to do.
    pub fn get() -> Result<&'static Self, LoadError> {
        if let Some(driver) = INSTALLED.get() {
            return Ok(driver);
        }
        let _loading = LOADING.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(driver) = INSTALLED.get() {
            return Ok(driver);
        }
        let driver = Self::load()?;
        Ok(INSTALLED.get_or_init(|| driver))
    }

    /// Makes `driver` the process's driver: a software device, or a table that a test or tool has
    /// wrapped.
    ///
    /// # Errors
    /// Gives `driver` back if the process already has one; the first stays for good, since objects
    /// of it may exist.
    ///
    /// # Safety
    /// Each function does what the CUDA driver API's documentation says of the one of its name:
    /// safe code all over the process relies on it. A table may be written down in safe code, and
    /// so lie:
    ///
    /// ```compile_fail,E0133
    /// use rmm_sys::{CuResult, CuStream, Driver};
    ///
    /// extern "C" fn returns_at_once(_: CuStream) -> CuResult {
    ///     CuResult::SUCCESS // and work goes on in memory that is given back now
    /// }
    /// let lying = Driver { cuStreamSynchronize: returns_at_once, ..Driver::load()? };
    /// let _installed = Driver::install(lying);
    /// # Ok::<(), rmm_sys::LoadError>(())
    /// ```
    pub unsafe fn install(driver: Self) -> Result<&'static Self, Box<Self>> {
        let _loading = LOADING.lock().unwrap_or_else(PoisonError::into_inner);
        if INSTALLED.get().is_some() {
            return Err(Box::new(driver));
        }
        Ok(INSTALLED.get_or_init(|| driver))
    }

    /// Loads the driver's library: the path in `RMM_CUDA_LIBRARY` if that is set, else the
    /// system's.
    ///
    /// The library stays loaded to the end of the process. Nothing is called, so no device is
    /// touched.
    ///
    /// # Errors
    /// [`LoadError`] if no library is found, or the library lacks a required symbol.
    pub fn load() -> Result<Self, LoadError> {
        if let Some(path) = std::env::var_os(LIBRARY_VARIABLE).filter(|path| !path.is_empty()) {
            // SAFETY: whoever sets up the process's environment vouches for the libraries that it
            // names, as with the loader's own variables.
            return unsafe { Self::load_from(Path::new(&path)) };
        }
        let mut first = None;
        for name in LIBRARY_NAMES {
            match open(Path::new(name)) {
                Ok(library) => return table_of(library, Path::new(name)),
                Err(reason) => first = first.or(Some(reason)),
            }
        }
        Err(LoadError::missing_library(PathBuf::from(LIBRARY_NAMES[0]), first.unwrap_or_default()))
    }

    /// Loads the driver from the library at `path`, whatever the environment says.
    ///
    /// # Errors
    /// As [`load`](Self::load).
    ///
    /// # Safety
    /// A library at `path` can be loaded without harm, and those of its symbols that have names of
    /// the driver's functions are such functions:
    ///
    /// ```compile_fail,E0133
    /// let library = std::path::Path::new("plugin.so"); // its initialisers run, whatever they do
    /// let driver = rmm_sys::Driver::load_from(library);
    /// ```
    pub unsafe fn load_from(path: &Path) -> Result<Self, LoadError> {
        let library =
            open(path).map_err(|reason| LoadError::missing_library(path.to_owned(), reason))?;
        table_of(library, path)
    }
}

fn open(path: &Path) -> Result<libloading::Library, String> {
    // SAFETY: loading runs the library's initialisers. The library is the system's CUDA driver, or
    // one whose initialisers the caller of `Driver::load_from` vouches for.
    unsafe { libloading::Library::new(OsString::from(path)) }.map_err(|error| {
        // What the system's loader said is the cause of the library's own, shorter text.
        std::error::Error::source(&error).map_or_else(|| error.to_string(), ToString::to_string)
    })
}

fn table_of(library: libloading::Library, path: &Path) -> Result<Driver, LoadError> {
    // Unloading the driver while threads of its own still run is not supported by it, so it is
    // never unloaded.
    let library: &'static libloading::Library = Box::leak(Box::new(library));
    let find = |name: &'static str| {
        // SAFETY: the symbol is only turned into an address; nothing is called or read through it
        // here.
        unsafe { library.get::<*mut c_void>(name.as_bytes()) }.ok().map(|symbol| *symbol)
    };
    // SAFETY: the library is a CUDA driver (see `open`), whose symbols have the signatures of
    // `cuda.h`; names carry their ABI version. It is never unloaded.
    unsafe { Driver::from_symbols(find) }.map_err(|error| error.in_library(path))
}
