//! RMM's own Python tests over the installed wheel of `rmm-rs`, which stands for `rmm`.
//!
//! Each file of tests runs in a process of its own under pytest, with two plug-ins: the package's
//! alias (`-p rmm_rs.as_rmm`), and `xtask/rmm-tests/python`, which writes the results. On the
//! software driver the latter also replaces the functions of the CUDA runtime that the tests call.

mod checkout;
mod environment;
mod results;
mod test_file;

use std::collections::BTreeMap;
use std::fs;
use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use self::checkout::PythonCheckout;
use self::test_file::TestFile;
use super::args::Args;
use super::cache::digest_of;
use super::libraries::{self, take_reports};
use super::result::{Over, Row, State};
use super::run_jobs::in_parallel;
use super::run_program::{attributes, library_path};
use super::violations;
use crate::error::Result;

/// The failures of `xtask/rmm-tests/broken/python`.
pub(super) const BROKEN: [&str; 7] = [
    "python/test_exit.py/(program)",
    "python/test_fails.py/test_assertion",
    "python/test_fails.py/test_crash",
    "python/test_fails.py/test_teardown[a/b::c]",
    "python/test_fails.py/test_no_end",
    "python/test_import.py/(file)",
    "python/test_order.py/(stream order)",
];

/// Variables that change what a test sees, of the package, Numba and pytest.
const FORGOTTEN: [&str; 9] = [
    "NUMBA_CUDA_MEMORY_MANAGER",
    "NUMBA_ENABLE_CUDASIM",
    "PYTEST_ADDOPTS",
    "PYTEST_PLUGINS",
    "PYTHONHOME",
    "RMM_CUDA_LIBRARY",
    "RMM_DEBUG_LOG_FILE",
    "RMM_DRIVER",
    "RMM_LOG_FILE",
];

/// Runs the tests of a checkout.
///
/// # Errors
///
/// If something is missing that the tests need, or the checkout has none.
pub(super) fn run(path: &Path, args: &Args, root: &Path) -> Result<Vec<Row>> {
    let checkout = PythonCheckout::open(path)?;
    let mut files = checkout.test_files()?;
    files.retain(|file| args.wants(file));
    if files.is_empty() {
        return Err("the checkout has no such file of Python tests".into());
    }
    let target = root.join("target/rmm-tests");
    let interpreter = match &args.interpreter {
        Some(given) => given.clone(),
        None => environment::make(root, &target.join("python"))?,
    };
    let library = if args.gpu { None } else { Some(libraries::build_driver(&target.join("lib"))?) };
    let folder = target.join(format!("python-{:016x}", digest_of(&checkout.package())));
    let session = Session { checkout, interpreter, library, folder, args };
    let cores = thread::available_parallelism().map_or(1, NonZero::get);
    let jobs = args.jobs.map_or(cores, NonZero::get);
    Ok(in_parallel(jobs, files.len(), |index| session.run_file(&files[index], index, root)))
}

/// One run of the command.
#[derive(Debug)]
struct Session<'a> {
    checkout: PythonCheckout,
    interpreter: PathBuf,
    /// Where `libcuda.so.1` of the software device is; `None` for the driver of a GPU.
    library: Option<PathBuf>,
    folder: PathBuf,
    args: &'a Args,
}

impl Session<'_> {
    fn run_file(&self, name: &str, index: usize, root: &Path) -> Row {
        let folder = self.folder.join(format!("runs/{index}"));
        let reports = folder.join("reports");
        // Of an earlier run.
        let _stays = fs::remove_dir_all(&folder);
        let _shows_later = fs::create_dir_all(&reports);
        let file = TestFile {
            interpreter: self.interpreter.clone(),
            arguments: self.arguments(name),
            environment: self.environment(&reports, root),
            forgotten: &FORGOTTEN,
            folder,
            limit: Duration::from_secs(self.args.limit),
        };
        let mut cases = file.run();
        let report = take_reports(&reports);
        cases.extend(violations::cases(&report.violations));
        let (over, name, state) = (Over::Python, name.to_owned(), State::Ran(cases));
        Row { over, name, state, leaks: report.leaks }
    }

    /// The arguments of the interpreter.
    fn arguments(&self, name: &str) -> Vec<String> {
        let tests = self.checkout.tests();
        let mut arguments: Vec<String> =
            ["-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "rmm_rs.as_rmm"]
                .map(str::to_owned)
                .to_vec();
        let package = self.checkout.package();
        arguments.extend([
            "-p".to_owned(),
            "rmm_tests.plugin".to_owned(),
            format!("--rmm-package={}", package.display()),
            // Names of modules begin with `rmm`, however the checkout imports its tests.
            format!("--rootdir={}", package.parent().unwrap_or(package).display()),
            // Above the tests are the sources of the package, which must not be imported.
            format!("--confcutdir={}", tests.display()),
        ]);
        if self.library.is_some() {
            arguments.push("--rmm-software".to_owned());
        }
        arguments.extend(self.args.pytest.iter().cloned());
        arguments.push(tests.join(name).display().to_string());
        arguments
    }

    fn environment(&self, reports: &Path, root: &Path) -> BTreeMap<&'static str, String> {
        let plugin = root.join("xtask/rmm-tests/python").display().to_string();
        let mut environment = BTreeMap::from([
            // Nothing else: what is installed is tested.
            ("PYTHONPATH", plugin),
            // The checkout stays as it is.
            ("PYTHONDONTWRITEBYTECODE", "1".to_owned()),
        ]);
        if let Some(library) = &self.library {
            environment.extend([
                library_path(&[library]),
                ("RMM_SIM_REPORT", reports.display().to_string()),
                ("RMM_SIM_DEVICES", self.args.python_devices().to_string()),
                attributes(),
            ]);
        }
        environment
    }
}

#[cfg(test)]
mod tests {
    //! What pytest is called with.

    use super::*;

    #[test]
    fn only_the_software_driver_needs_functions_of_the_runtime() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir_all(folder.path().join("python/rmm/rmm/tests")).unwrap();
        let args = Args { pytest: vec!["-k".to_owned(), "pool".to_owned()], ..Args::default() };
        for library in [None, Some(PathBuf::from("/lib"))] {
            let session = Session {
                checkout: PythonCheckout::open(folder.path()).unwrap(),
                interpreter: PathBuf::from("python"),
                library: library.clone(),
                folder: folder.path().to_path_buf(),
                args: &args,
            };
            let arguments = session.arguments("test_a.py");
            let has = |argument: &str| arguments.iter().any(|known| known == argument);
            assert!(has("rmm_rs.as_rmm") && has("rmm_tests.plugin"), "{arguments:?}");
            assert_eq!(has("--rmm-software"), library.is_some());
            assert!(arguments.last().unwrap().ends_with("rmm/rmm/tests/test_a.py"));
            assert_eq!(arguments[arguments.len() - 3..][..2], ["-k", "pool"]);
            let environment = session.environment(Path::new("/reports"), Path::new("/root"));
            assert_eq!(environment["PYTHONPATH"], "/root/xtask/rmm-tests/python");
            for name in ["LD_LIBRARY_PATH", "RMM_SIM_REPORT", attributes().0] {
                assert_eq!(environment.contains_key(name), library.is_some(), "{name}");
            }
        }
    }
}
