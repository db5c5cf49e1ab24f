//! A program of tests: its name and its sources.

use std::path::{Path, PathBuf};

/// A program of tests.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct TestProgram {
    /// The name in `CMakeLists.txt`; that of the file where the list does not have it.
    pub(super) name: String,
    /// Below `cpp/tests`.
    pub(super) sources: Vec<PathBuf>,
}

impl TestProgram {
    /// A source with device code, which only nvcc compiles.
    pub(super) fn device_code(&self) -> Option<&Path> {
        let is_device = |path: &&PathBuf| path.extension().is_some_and(|end| end == "cu");
        self.sources.iter().find(is_device).map(PathBuf::as_path)
    }
}
