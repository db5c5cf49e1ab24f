//! Loading the libraries, and filling their tables.

use std::fmt;

/// Makes the software device of this program the `libcuda.so` and `libcuda.so.1` that any later
/// `dlopen` finds, and installs it as this program's driver. May be called any number of times, by
/// each test.
///
/// Call it before anything in the process loads the driver.
///
/// # Errors
/// If the process uses another driver already, the system cannot load the libraries, or has other
/// instructions than those that are written.
pub fn load() -> Result<(), ProvideError> {
    rmm_sim::install().map_err(|error| ProvideError(error.to_string()))?;
    libraries::load()
}

/// Why the libraries were not loaded.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ProvideError(String);

impl fmt::Display for ProvideError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cannot provide a libcuda: {}", self.0)
    }
}

impl std::error::Error for ProvideError {}

#[cfg(not(has_libcuda))]
mod libraries {
    use super::ProvideError;

    pub(super) fn load() -> Result<(), ProvideError> {
        Err(ProvideError("it is written for Linux on x86-64 and AArch64".into()))
    }
}

#[cfg(has_libcuda)]
mod libraries {
    //! The libraries are part of this program and are loaded from memory, so that a program that
    //! was copied to another machine finds them.

    use std::ffi::{CStr, CString, c_void};
    use std::fs::File;
    use std::io::Write as _;
    use std::os::fd::{AsRawFd as _, FromRawFd as _};
    use std::sync::OnceLock;

    use super::ProvideError;
    use crate::table;

    const LIBRARIES: [&[u8]; 2] = [
        include_bytes!(concat!(env!("OUT_DIR"), "/libcuda.so")),
        include_bytes!(concat!(env!("OUT_DIR"), "/libcuda.so.1")),
    ];

    pub(super) fn load() -> Result<(), ProvideError> {
        static LOADED: OnceLock<Result<(), ProvideError>> = OnceLock::new();
        LOADED.get_or_init(load_all).clone()
    }

    fn load_all() -> Result<(), ProvideError> {
        // Both exist at once: the loader takes files of one path for the same library.
        let files = [file_of(LIBRARIES[0])?, file_of(LIBRARIES[1])?];
        files.iter().try_for_each(load_one)
    }

    /// A file in memory with these contents.
    fn file_of(bytes: &[u8]) -> Result<File, ProvideError> {
        let io = |what: &str| ProvideError(format!("{what}: {}", std::io::Error::last_os_error()));
        // SAFETY: the name is null-terminated.
        let descriptor = unsafe { libc::memfd_create(c"libcuda".as_ptr(), libc::MFD_CLOEXEC) };
        if descriptor < 0 {
            return Err(io("no memory for a file"));
        }
        // SAFETY: the descriptor was just opened, and nothing else has it.
        let mut file = unsafe { File::from_raw_fd(descriptor) };
        file.write_all(bytes).map_err(|_| io("no memory for the library"))?;
        Ok(file)
    }

    fn load_one(file: &File) -> Result<(), ProvideError> {
        let path = CString::new(format!("/proc/self/fd/{}", file.as_raw_fd()))
            .expect("a number has no zero byte");
        // SAFETY: the path is null-terminated, and the library has no constructors.
        let library = unsafe { libc::dlopen(path.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
        if library.is_null() {
            return Err(loader_error());
        }
        // SAFETY: the library was just opened and is never closed; the name is null-terminated.
        let entries = unsafe { libc::dlsym(library, c"rmm_sim_table".as_ptr()) };
        if entries.is_null() {
            return Err(loader_error());
        }
        let functions = table::addresses();
        let entries = entries.cast::<*const c_void>();
        // SAFETY: the build script wrote the array with one entry for each name of the lists that
        // `addresses` goes through, in their order. No program has looked up a function of the
        // library yet, so nothing reads the array now.
        unsafe { entries.copy_from_nonoverlapping(functions.as_ptr(), functions.len()) };
        Ok(())
    }

    fn loader_error() -> ProvideError {
        // SAFETY: it takes no argument.
        let text = unsafe { libc::dlerror() };
        if text.is_null() {
            return ProvideError("the loader does not say why".into());
        }
        // SAFETY: a text that is not null is null-terminated, and is valid until this thread calls
        // the loader again.
        ProvideError(unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned())
    }
}
