//! A program of tests: its name, its sources, and what it needs.

use std::fs;
use std::path::{Path, PathBuf};

use crate::error::{Context as _, Result};

/// What only nvcc compiles: device code, and templates that become device code.
const DEVICE_CODE: [&str; 5] = ["__global__", "__device__", "<<<", "<thrust/", "<cub/"];

/// A program of tests.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct TestProgram {
    /// The name in `CMakeLists.txt`; that of the file where the list does not have it.
    pub(super) name: String,
    /// Below `cpp/tests`.
    pub(super) sources: Vec<PathBuf>,
    /// How many devices it sees.
    pub(super) gpus: u32,
    /// Whether it is linked with the driver, not only with the CUDA runtime.
    pub(super) links_driver: bool,
}

impl TestProgram {
    /// A program as it is where the list says no more.
    pub(super) fn new(name: &str, sources: Vec<PathBuf>) -> Self {
        Self { name: name.to_owned(), sources, gpus: 1, links_driver: false }
    }

    /// A source that only nvcc compiles. A `.cu` file without device code is plain C++.
    ///
    /// # Errors
    ///
    /// If a source cannot be read.
    pub(super) fn device_code(&self, tests: &Path) -> Result<Option<&Path>> {
        for source in &self.sources {
            let path = tests.join(source);
            let text = || fs::read_to_string(&path).context(path.display());
            if source.extension().is_some_and(|end| end == "cu") && has_device_code(&text()?) {
                return Ok(Some(source));
            }
        }
        Ok(None)
    }
}

fn has_device_code(text: &str) -> bool {
    let code = text.lines().map(|line| line.split("//").next().unwrap_or_default());
    let is_device = |line: &str| DEVICE_CODE.iter().any(|word| line.contains(word));
    code.into_iter().any(is_device)
}

#[cfg(test)]
mod tests {
    //! Sources as they are written.

    use super::*;

    #[test]
    fn a_cu_file_needs_nvcc_for_device_code_alone() {
        for line in ["__global__ void f() {}", "  f<<<1, 1>>>();", "#include <thrust/equal.h>"] {
            assert!(has_device_code(line), "{line}");
        }
        for line in ["int main() {}", "// no __global__ here", "std::vector<int> v(1 << 3);"] {
            assert!(!has_device_code(line), "{line}");
        }
    }
}
