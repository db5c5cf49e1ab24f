//! A checkout of RMM: the sources of its library, and its test programs.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use super::cmake;
use super::test_program::TestProgram;
use crate::error::{Context as _, Result};

/// The folder `cpp` of a checkout.
#[derive(Debug)]
pub(super) struct Checkout {
    cpp: PathBuf,
}

impl Checkout {
    /// Opens a checkout, given its folder or the folder `cpp` in it.
    ///
    /// # Errors
    ///
    /// If neither has `src` and `tests`.
    pub(super) fn open(path: &Path) -> Result<Self> {
        let candidates = [path.join("cpp"), path.to_path_buf()];
        let is_cpp =
            |folder: &&PathBuf| ["src", "tests"].iter().all(|part| folder.join(part).is_dir());
        let found = candidates.iter().find(is_cpp).context(format_args!(
            "{}: no checkout of RMM: there is no `cpp/src` and `cpp/tests`",
            path.display()
        ))?;
        Ok(Self { cpp: fs::canonicalize(found).context(found.display())? })
    }

    /// The folder `cpp/tests`.
    pub(super) fn tests(&self) -> PathBuf {
        self.cpp.join("tests")
    }

    /// Where the library's own includes are found.
    pub(super) fn include_folders(&self) -> Vec<PathBuf> {
        vec![self.cpp.join("include"), self.cpp.clone(), self.cpp.join("src")]
    }

    /// The library's sources.
    pub(super) fn library_sources(&self) -> Result<Vec<PathBuf>> {
        let src = self.cpp.join("src");
        let mut found = files_below(&src, &["cpp"])?;
        for path in &mut found {
            *path = src.join(&*path);
        }
        if found.is_empty() {
            return Err(format!("{}: no .cpp file", src.display()).into());
        }
        Ok(found)
    }

    /// The test programs: those of `cpp/tests/CMakeLists.txt`, and one for each other file.
    pub(super) fn programs(&self) -> Result<Vec<TestProgram>> {
        let tests = self.tests();
        let list = tests.join("CMakeLists.txt");
        let text = if list.is_file() {
            fs::read_to_string(&list).context(list.display())?
        } else {
            String::new()
        };
        let files = files_below(&tests, &["cpp", "cu"])?;
        Ok(programs(&text, &files))
    }

    /// The headers of the tests, below `cpp/tests`.
    pub(super) fn test_headers(&self) -> Result<Vec<PathBuf>> {
        files_below(&self.tests(), &["hpp", "h", "cuh"])
    }
}

/// The programs that a list names, of which at least one file exists; then one for each file that
/// it does not name.
fn programs(list: &str, files: &[PathBuf]) -> Vec<TestProgram> {
    let mut programs = cmake::programs(list);
    programs.retain(|program| program.sources.iter().any(|source| files.contains(source)));
    let named: BTreeSet<&PathBuf> = programs.iter().flat_map(|program| &program.sources).collect();
    let rest: Vec<TestProgram> = files
        .iter()
        .filter(|file| !named.contains(file))
        .map(|file| {
            let name = file.with_extension("").to_string_lossy().replace('/', "_");
            TestProgram::new(&name, vec![file.clone()])
        })
        .collect();
    programs.extend(rest);
    programs
}

/// The files with one of these extensions, relative to the folder, in order.
fn files_below(folder: &Path, extensions: &[&str]) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    let mut folders = vec![folder.to_path_buf()];
    while let Some(next) = folders.pop() {
        for entry in fs::read_dir(&next).context(next.display())? {
            let path = entry?.path();
            let extension = path.extension().unwrap_or_default();
            if path.is_dir() {
                folders.push(path);
            } else if extensions.iter().any(|wanted| extension == *wanted) {
                found.push(path.strip_prefix(folder)?.to_path_buf());
            }
        }
    }
    found.sort();
    Ok(found)
}

#[cfg(test)]
mod tests {
    //! Layouts of checkouts.

    use super::*;

    fn paths(names: &[&str]) -> Vec<PathBuf> {
        names.iter().map(PathBuf::from).collect()
    }

    fn program(name: &str, sources: &[&str]) -> TestProgram {
        TestProgram::new(name, paths(sources))
    }

    #[test]
    fn files_that_no_list_names_are_programs_of_their_own() {
        let list = "ConfigureTest(A_TEST a.cpp mr/b.cpp)\nConfigureTest(GONE_TEST gone.cpp)";
        let files = paths(&["a.cpp", "c.cpp", "k.cu", "mr/b.cpp", "mr/d.cpp"]);
        let expected = [
            program("A_TEST", &["a.cpp", "mr/b.cpp"]),
            program("c", &["c.cpp"]),
            program("k", &["k.cu"]),
            program("mr_d", &["mr/d.cpp"]),
        ];
        assert_eq!(programs(list, &files), expected);
    }

    #[test]
    fn a_folder_without_sources_is_no_checkout() {
        let folder = tempfile::tempdir().unwrap();
        let error = Checkout::open(folder.path()).unwrap_err().to_string();
        assert!(error.contains("no checkout of RMM"), "{error}");
        for part in ["cpp/src/mr", "cpp/tests"] {
            fs::create_dir_all(folder.path().join(part)).unwrap();
        }
        let checkout = Checkout::open(folder.path()).unwrap();
        assert!(checkout.library_sources().unwrap_err().to_string().contains("no .cpp file"));
        fs::write(folder.path().join("cpp/src/mr/pool.cpp"), "").unwrap();
        // Given `cpp` itself, too.
        let checkout = Checkout::open(&folder.path().join("cpp")).unwrap();
        assert!(checkout.library_sources().unwrap()[0].ends_with("cpp/src/mr/pool.cpp"));
    }
}
