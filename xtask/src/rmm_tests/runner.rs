//! Runs programs of tests that write their results as JUnit XML, and survives those that crash.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::{fs, io, thread};

use super::case::{self, Case, Framework};
use super::report::Row;
use crate::driver_report;

/// Variables that change what a test sees, or what a framework does.
const FORGOTTEN: [&str; 13] = [
    "GTEST_COLOR",
    "GTEST_FILTER",
    "GTEST_OUTPUT",
    "GTEST_SHUFFLE",
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

/// The status of pytest where there are no tests, as in a file that skips itself.
const NO_TESTS: i32 = 5;

/// A program of tests.
#[derive(Debug)]
pub(super) struct Job {
    /// Begins the name of each of its tests: `rmm/POOL_MR_TEST`, `python/test_pool.py`.
    pub(super) name: String,
    pub(super) framework: Framework,
    pub(super) program: PathBuf,
    pub(super) arguments: Vec<String>,
    /// What names the tests to pytest.
    pub(super) file: Option<String>,
    pub(super) environment: BTreeMap<&'static str, String>,
    /// How long one process may take, in seconds.
    pub(super) limit: u64,
}

/// What came of one process.
struct Ran {
    /// The tests that it wrote a result of; nothing if it did not come that far.
    cases: Option<Vec<Case>>,
    end: End,
}

/// How a process ended.
struct End {
    is_success: bool,
    /// That, and what it printed.
    text: String,
}

/// Runs all programs, several at a time, each in a folder of its own that keeps the framework's
/// results. The rows are in the order of the jobs.
pub(super) fn run(jobs: &[Job], threads: usize, folder: &Path) -> Vec<Row> {
    let rows: Mutex<BTreeMap<usize, Row>> = Mutex::default();
    let next = AtomicUsize::new(0);
    thread::scope(|scope| {
        for _ in 0..threads.clamp(1, jobs.len().max(1)) {
            scope.spawn(|| {
                loop {
                    let index = next.fetch_add(1, Ordering::Relaxed);
                    let Some(job) = jobs.get(index) else { break };
                    let row = job.run(&folder.join(&job.name));
                    println!("[{}/{}] run {}", index + 1, jobs.len(), job.name);
                    rows.lock().unwrap_or_else(PoisonError::into_inner).insert(index, row);
                }
            });
        }
    });
    rows.into_inner().unwrap_or_else(PoisonError::into_inner).into_values().collect()
}

impl Job {
    fn run(&self, folder: &Path) -> Row {
        let reports = folder.join("reports");
        // Of an earlier run.
        let _ignored = fs::remove_dir_all(folder);
        let _ignored = fs::create_dir_all(&reports);
        let mut cases = self.cases(folder).unwrap_or_else(|error| {
            vec![Case::failed("(program)", &format!("{}: {error}", self.program.display()))]
        });
        let report = driver_report::read(&reports);
        let of_driver = report.failures().map(|(kind, text)| Case::failed(kind, &text));
        cases.extend(of_driver);
        Row { name: self.name.clone(), cases, objects_left: report.objects_left }
    }

    /// Runs all tests in one process. Of a process that ends before it writes results, each test
    /// runs in one of its own.
    fn cases(&self, folder: &Path) -> io::Result<Vec<Case>> {
        let whole = self.process(folder, None)?;
        if let Some(mut cases) = whole.cases {
            if cases.is_empty() && self.framework == Framework::GoogleTest {
                cases.push(Case::failed("(program)", "it ran no test"));
            }
            return Ok(cases);
        }
        let tests = self.tests(folder)?;
        if tests.is_empty() {
            let is_passed = whole.end.is_success && self.framework == Framework::GoogleTest;
            let failed = || Case::failed("(program)", &whole.end.text);
            return Ok(vec![if is_passed { Case::passed("exit") } else { failed() }]);
        }
        let mut cases = Vec::new();
        for test in tests {
            let one = self.process(folder, Some(&test))?;
            let name = || test.split_once("::").map_or(test.as_str(), |(_, name)| name);
            cases.extend(one.cases.unwrap_or_else(|| vec![Case::failed(name(), &one.end.text)]));
        }
        Ok(cases)
    }

    /// Runs all tests, or one of them.
    fn process(&self, folder: &Path, test: Option<&str>) -> io::Result<Ran> {
        let file = folder.join("results.xml");
        let _ignored = fs::remove_file(&file);
        let mut command = Command::new(&self.program);
        command.args(&self.arguments);
        match self.framework {
            Framework::GoogleTest => {
                command.arg(format!("--gtest_output=xml:{}", file.display()));
                command.args(test.map(|name| format!("--gtest_filter={name}")));
            }
            Framework::Pytest => {
                command.arg(format!("--junitxml={}", file.display()));
                command.arg(format!("--rmm-list={}", folder.join("tests.txt").display()));
                command.args(test.or(self.file.as_deref()));
            }
        }
        let end = self.start(&command, folder)?;
        let mut cases = case::read(&file, self.framework);
        if let Some(cases) = &mut cases
            && !end.is_success
            && !cases.iter().any(Case::is_failed)
        {
            // All tests passed, and the end of the process did not.
            cases.push(Case::failed("(program)", &end.text));
        }
        Ok(Ran { cases, end })
    }

    /// What the tests are called on a command line.
    fn tests(&self, folder: &Path) -> io::Result<Vec<String>> {
        if self.framework == Framework::Pytest {
            // The plug-in has written them before the first began.
            let list = fs::read_to_string(folder.join("tests.txt")).unwrap_or_default();
            return Ok(list.lines().map(str::to_owned).collect());
        }
        let file = folder.join("tests.xml");
        let mut command = Command::new(&self.program);
        command.arg("--gtest_list_tests").arg(format!("--gtest_output=xml:{}", file.display()));
        self.start(&command, folder)?;
        let cases = case::read(&file, self.framework).unwrap_or_default();
        Ok(cases.into_iter().map(|case| case.name).collect())
    }

    /// Runs a command of the program within the time limit: it and all that it started.
    fn start(&self, command: &Command, folder: &Path) -> io::Result<End> {
        let mut limited = Command::new("timeout");
        limited.arg("--kill-after=5").arg(self.limit.to_string());
        limited.arg(command.get_program()).args(command.get_args());
        for name in FORGOTTEN {
            limited.env_remove(name);
        }
        limited.current_dir(folder).envs(&self.environment);
        limited.env("RMM_SIM_REPORT", folder.join("reports"));
        // A file, not a pipe: a process that is left behind may hold it open.
        let path = folder.join("output.txt");
        let output = fs::File::create(&path)?;
        limited.stdin(Stdio::null()).stdout(output.try_clone()?).stderr(output);
        let status = limited.status()?;
        let how = match status.code() {
            Some(124 | 137) => format!("was killed after {} s", self.limit),
            _ => format!("ended with {status}"),
        };
        let printed = String::from_utf8_lossy(&fs::read(&path)?).into_owned();
        let is_success = matches!(status.code(), Some(0 | NO_TESTS));
        Ok(End { is_success, text: format!("{how}\n{}", printed.trim()) })
    }
}
