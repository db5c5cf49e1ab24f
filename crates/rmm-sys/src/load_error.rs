//! The error of a driver that could not be loaded.

use std::fmt;
use std::path::{Path, PathBuf};

/// The environment variable that names another library to load in the driver's place.
pub const LIBRARY_VARIABLE: &str = "RMM_CUDA_LIBRARY";

/// The error of loading the driver.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LoadError {
    library: PathBuf,
    kind: LoadErrorKind,
}

#[derive(Clone, PartialEq, Eq, Debug)]
enum LoadErrorKind {
    Library { reason: String },
    Symbol { name: &'static str, since: &'static str },
    Forked,
}

impl LoadError {
    pub(crate) fn missing_library(library: PathBuf, reason: String) -> Self {
        Self { library, kind: LoadErrorKind::Library { reason } }
    }

    /// The error of a missing required function `name`, which drivers have since CUDA `since`.
    pub fn missing_symbol(name: &'static str, since: &'static str) -> Self {
        Self { library: PathBuf::new(), kind: LoadErrorKind::Symbol { name, since } }
    }

    /// The error of a driver that cannot be used, since the process is the child of a `fork` of one
    /// that used it.
    #[doc(hidden)]
    pub fn forked() -> Self {
        Self { library: PathBuf::new(), kind: LoadErrorKind::Forked }
    }

    pub(crate) fn in_library(self, library: &Path) -> Self {
        Self { library: library.to_owned(), ..self }
    }

    /// The library that was not found, or lacks a symbol; empty in the child of a `fork`.
    pub fn library(&self) -> &Path {
        &self.library
    }

    /// The missing symbol, if the library itself was found.
    pub fn symbol(&self) -> Option<&'static str> {
        match self.kind {
            LoadErrorKind::Library { .. } | LoadErrorKind::Forked => None,
            LoadErrorKind::Symbol { name, .. } => Some(name),
        }
    }
}

impl fmt::Display for LoadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let library = self.library.display();
        match &self.kind {
            LoadErrorKind::Forked => f.write_str(
                "CUDA cannot be used after fork: this process is the child of one that used the driver; start \
                 processes with spawn (posix_spawn, exec), or fork before the first use",
            ),
            LoadErrorKind::Library { reason } => write!(
                f,
                "no CUDA driver: {library} could not be loaded ({reason}); install NVIDIA's driver, or set \
                 {LIBRARY_VARIABLE} to the path of its library; without a GPU, to that of the software device, \
                 `librmm_sim_driver.so`"
            ),
            LoadErrorKind::Symbol { name, since } => {
                f.write_str("the CUDA driver")?;
                if !self.library.as_os_str().is_empty() {
                    write!(f, " {library}")?;
                }
                write!(
                    f,
                    " has no function {name}, which drivers have since CUDA {since}; update NVIDIA's driver \
                     (CUDA 12.0 is the oldest supported), or set {LIBRARY_VARIABLE} to the path of another"
                )
            }
        }
    }
}

impl std::error::Error for LoadError {}
