//! The Python part of a checkout of RMM.

use std::fs;
use std::path::{Path, PathBuf};

use crate::error::{Context as _, Result};

/// The folder `python/rmm/rmm` of a checkout: the package, with its tests.
#[derive(Debug)]
pub(super) struct PythonCheckout {
    package: PathBuf,
}

impl PythonCheckout {
    /// Opens a checkout, given its folder or one of those on the way to the package.
    ///
    /// # Errors
    ///
    /// If none of them has tests.
    pub(super) fn open(path: &Path) -> Result<Self> {
        let candidates = ["python/rmm/rmm", "rmm/rmm", "rmm", ""].map(|part| path.join(part));
        let found = candidates.iter().find(|folder| folder.join("tests").is_dir());
        let found = found.context(format_args!(
            "{}: no checkout of RMM: there is no `python/rmm/rmm/tests`",
            path.display()
        ))?;
        Ok(Self { package: fs::canonicalize(found).context(found.display())? })
    }

    /// The folder of the package.
    pub(super) fn package(&self) -> &Path {
        &self.package
    }

    /// The folder of the tests.
    pub(super) fn tests(&self) -> PathBuf {
        self.package.join("tests")
    }

    /// The files that pytest takes for tests by their names, below the folder of the tests.
    ///
    /// # Errors
    ///
    /// If a folder cannot be read.
    pub(super) fn test_files(&self) -> Result<Vec<String>> {
        let tests = self.tests();
        let mut found = Vec::new();
        let mut folders = vec![tests.clone()];
        while let Some(next) = folders.pop() {
            for entry in fs::read_dir(&next).context(next.display())? {
                let path = entry?.path();
                if path.is_dir() {
                    folders.push(path);
                } else if path.file_name().is_some_and(|name| is_test(&name.to_string_lossy())) {
                    found.push(path.strip_prefix(&tests)?.display().to_string());
                }
            }
        }
        found.sort();
        Ok(found)
    }
}

fn is_test(name: &str) -> bool {
    let Some(stem) = name.strip_suffix(".py") else { return false };
    // A module that other files import may be called `test_helpers`: it has no tests, and no case.
    stem.starts_with("test_") || stem.ends_with("_test")
}

#[cfg(test)]
mod tests {
    //! Layouts of checkouts.

    use super::*;

    #[test]
    fn files_of_tests_are_found_by_their_names() {
        let folder = tempfile::tempdir().unwrap();
        let error = PythonCheckout::open(folder.path()).unwrap_err().to_string();
        assert!(error.contains("no checkout of RMM"), "{error}");
        let tests = folder.path().join("python/rmm/rmm/tests");
        fs::create_dir_all(tests.join("more")).unwrap();
        for name in ["test_b.py", "test_a.py", "conftest.py", "more/c_test.py", "test_d.pyx"] {
            fs::write(tests.join(name), "").unwrap();
        }
        for given in ["", "python", "python/rmm", "python/rmm/rmm"] {
            let checkout = PythonCheckout::open(&folder.path().join(given)).unwrap();
            assert!(checkout.package().ends_with("python/rmm/rmm"), "{given}");
            let expected = ["more/c_test.py", "test_a.py", "test_b.py"];
            assert_eq!(checkout.test_files().unwrap(), expected);
        }
    }
}
