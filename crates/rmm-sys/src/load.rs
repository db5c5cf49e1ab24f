//! Loading of the driver at run time.

use std::ffi::{OsString, c_void};
use std::mem::ManuallyDrop;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, OnceLock, PoisonError};

use crate::load_error::{LIBRARY_VARIABLE, LoadError};
use crate::process;
use crate::table::Driver;

/// The library names that are tried, in this order.
pub const LIBRARY_NAMES: &[&str] =
    if cfg!(windows) { &["nvcuda.dll"] } else { &["libcuda.so.1", "libcuda.so"] };

static INSTALLED: OnceLock<Driver> = OnceLock::new();
/// Held while the driver is loaded, so that two threads do not load it twice.
static LOADING: Mutex<()> = Mutex::new(());

impl Driver {
    /// The process's driver: the [installed](Self::install) one, or else the system's, which is
    /// loaded now.
    ///
    /// After the first success, a call costs two atomic loads. A failure is not cached: the next
    /// call tries again.
    ///
    /// # Errors
    /// [`LoadError`] if the library or one of its symbols is missing, and in the child of a `fork`
    /// if the parent had a driver; the message says which, and what to do.
    pub fn get() -> Result<&'static Self, LoadError> {
        if process::is_child() {
            return Err(LoadError::forked());
        }
        if let Some(driver) = INSTALLED.get() {
            return Ok(driver);
        }
        let _loading = LOADING.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(driver) = INSTALLED.get() {
            return Ok(driver);
        }
        let driver = Self::load()?;
        process::note_driver();
        Ok(INSTALLED.get_or_init(|| driver))
    }

    /// Makes `driver` the process's driver: a software device, or a table that a test or tool has
    /// wrapped.
    ///
    /// # Errors
    /// Returns `driver` if the process already has one; that one stays, since objects of it may
    /// exist.
    ///
    /// # Safety
    /// Each function must behave as the CUDA driver API documents the function of its name: safe
    /// code in the whole process relies on it. Safe code can build a table that does not:
    ///
    /// ```compile_fail,E0133
    /// use rmm_sys::{CuResult, CuStream, Driver};
    ///
    /// extern "C" fn returns_at_once(_: CuStream) -> CuResult {
    ///     CuResult::SUCCESS // the stream still uses memory that is freed now
    /// }
    /// let lying = Driver { cuStreamSynchronize: returns_at_once, ..Driver::load()? };
    /// let _ignored = Driver::install(lying);
    /// # Ok::<(), rmm_sys::LoadError>(())
    /// ```
    pub unsafe fn install(driver: Self) -> Result<&'static Self, Box<Self>> {
        let _loading = LOADING.lock().unwrap_or_else(PoisonError::into_inner);
        if INSTALLED.get().is_some() {
            return Err(Box::new(driver));
        }
        process::note_driver();
        Ok(INSTALLED.get_or_init(|| driver))
    }

    /// Loads the driver's library: the path in `RMM_CUDA_LIBRARY` if that is set, else the
    /// system's.
    ///
    /// The library stays loaded until the end of the process. No driver function is called, so no
    /// device is initialized.
    ///
    /// # Errors
    /// [`LoadError`] if no library is found, or the library lacks a required symbol.
    pub fn load() -> Result<Self, LoadError> {
        if let Some(path) = std::env::var_os(LIBRARY_VARIABLE).filter(|path| !path.is_empty()) {
            // SAFETY: the process's environment is trusted to name a valid library, as with the
            // loader's own variables.
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
    /// The errors of [`load`](Self::load).
    ///
    /// # Safety
    /// The library at `path` is sound to load, and its symbols with names of driver functions are
    /// such functions:
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
    // one that the caller of `Driver::load_from` promises to be sound to load.
    unsafe { libloading::Library::new(OsString::from(path)) }.map_err(|error| {
        // The message of the system's loader is the source of `libloading`'s shorter error.
        std::error::Error::source(&error).map_or_else(|| error.to_string(), ToString::to_string)
    })
}

fn table_of(library: libloading::Library, path: &Path) -> Result<Driver, LoadError> {
    // The driver has threads of its own and does not support unloading while they run, so it is
    // never unloaded.
    let library = ManuallyDrop::new(library);
    let find = |name: &'static str| {
        // SAFETY: the symbol is only converted to an address; it is not called or dereferenced
        // here.
        unsafe { library.get::<*mut c_void>(name.as_bytes()) }.ok().map(|symbol| *symbol)
    };
    // SAFETY: the library is a CUDA driver (see `open`), whose symbols have the signatures of
    // `cuda.h`; names carry their ABI version. It is never unloaded.
    unsafe { Driver::from_symbols(find) }.map_err(|error| error.in_library(path))
}
