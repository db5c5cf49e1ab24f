//! Runs programs of tests that write their results as JUnit XML, and survives those that crash.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;
use std::{fs, io, thread};

use super::case::{self, Case};
use super::driver_report;
use super::report::Row;
use crate::execute::{self, Finished};

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

/// What runs the tests of a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Framework {
    /// Or none: a program that is one test.
    GoogleTest,
    Pytest,
}

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
    /// How long one process may take.
    pub(super) limit: Duration,
}

/// What came of one process.
struct Ran {
    /// The tests that it wrote a result of; nothing if it did not come that far.
    cases: Option<Vec<Case>>,
    is_success: bool,
    /// How it ended, and what it printed.
    text: String,
}

/// Runs all programs, several at a time, each in a folder of its own. The rows are in the order of
/// the jobs.
pub(super) fn run(jobs: &[Job], threads: usize, folder: &Path) -> Vec<Row> {
    let rows: Mutex<BTreeMap<usize, Row>> = Mutex::default();
    let next = AtomicUsize::new(0);
    thread::scope(|scope| {
        for _ in 0..threads.clamp(1, jobs.len().max(1)) {
            scope.spawn(|| {
                loop {
                    let index = next.fetch_add(1, Ordering::Relaxed);
                    let Some(job) = jobs.get(index) else { break };
                    let row = job.run(&folder.join(index.to_string()));
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
        let _stays = fs::remove_dir_all(folder);
        let _shows_later = fs::create_dir_all(&reports);
        let mut cases = self.cases(folder).unwrap_or_else(|error| {
            vec![Case::failed("(program)", &format!("{}: {error}", self.program.display()))]
        });
        let report = driver_report::read(&reports);
        cases.extend(report.cases());
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
            let is_passed = whole.is_success && self.framework == Framework::GoogleTest;
            let failed = || Case::failed("(program)", &whole.text);
            return Ok(vec![if is_passed { Case::passed("exit") } else { failed() }]);
        }
        let mut cases = Vec::new();
        for test in tests {
            let one = self.process(folder, Some(&test))?;
            let name = || test.split_once("::").map_or(test.as_str(), |(_, name)| name);
            cases.extend(one.cases.unwrap_or_else(|| vec![Case::failed(name(), &one.text)]));
        }
        Ok(cases)
    }

    /// Runs all tests, or one of them.
    fn process(&self, folder: &Path, test: Option<&str>) -> io::Result<Ran> {
        let file = folder.join("results.xml");
        let _none = fs::remove_file(&file);
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
        let finished = self.start(&mut command, folder)?;
        let is_success =
            finished.status.is_some_and(|status| matches!(status.code(), Some(0 | NO_TESTS)));
        let mut cases = case::read(&file, self.framework);
        if let Some(cases) = &mut cases
            && !is_success
            && !cases.iter().any(Case::is_failed)
        {
            // All tests passed, and the end of the process did not.
            cases.push(Case::failed("(program)", &text(&finished)));
        }
        Ok(Ran { cases, is_success, text: text(&finished) })
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
        self.start(&mut command, folder)?;
        let cases = case::read(&file, self.framework).unwrap_or_default();
        Ok(cases.into_iter().map(|case| case.name).collect())
    }

    fn start(&self, command: &mut Command, folder: &Path) -> io::Result<Finished> {
        for name in FORGOTTEN {
            command.env_remove(name);
        }
        command.current_dir(folder).envs(&self.environment);
        command.env("RMM_SIM_REPORT", folder.join("reports"));
        execute::run(command, self.limit)
    }
}

fn text(finished: &Finished) -> String {
    format!("{}\n{}\n{}", finished.end(), finished.stderr.trim(), finished.stdout.trim())
}

#[cfg(unix)]
#[cfg(test)]
mod tests {
    //! Scripts in the place of test programs and of the interpreter.

    use super::*;
    use crate::scripts::Scripts;

    /// What each script begins with: where its results go, and which test it has to run.
    const HEAD: &str = r#"
for a in "$@"; do case $a in
    --gtest_output=xml:*) out=${a#*:} ;; --junitxml=*) out=${a#*=} ;;
    --gtest_filter=*) test=${a#*=} ;; */a.py::*) test=${a#*::} ;;
    --gtest_list_tests) list=1 ;; --rmm-list=*) printf '/a.py::%s\n' one two > "${a#*=}" ;;
esac; done
results() { echo "<testsuites><testsuite name=\"A\">$1</testsuite></testsuites>" > "$out"; }
"#;

    fn run(framework: Framework, body: &str) -> Vec<(String, bool)> {
        let scripts = Scripts::new();
        let (_, program) = scripts.write("tests", &format!("{HEAD}{body}"));
        let job = Job {
            name: "rmm/A".to_owned(),
            framework,
            program,
            arguments: Vec::new(),
            file: Some("/a.py".to_owned()),
            environment: BTreeMap::from([("WORD", "yes".to_owned())]),
            limit: Duration::from_secs(60),
        };
        let row = job.run(&scripts.folder().join("run"));
        row.cases.into_iter().map(|case| (case.name.clone(), !case.is_failed())).collect()
    }

    fn check(framework: Framework, body: &str, expected: &[(&str, bool)]) {
        let found = run(framework, body);
        let found: Vec<(&str, bool)> =
            found.iter().map(|(name, passed)| (name.as_str(), *passed)).collect();
        assert_eq!(found, expected, "{body}");
    }

    const ONE: &str = r#"results '<testcase name="one"/>'; "#;

    #[test]
    fn a_crash_fails_its_test_and_the_rest_still_runs() {
        let crash = r#"
[ -n "$list" ] && { results '<testcase name="one"/><testcase name="two"/>'; exit; }
case $test in *two) results '<testcase name="two"/>' ;; *) kill -SEGV $$ ;; esac"#;
        check(Framework::GoogleTest, crash, &[("A.one", false), ("A.two", true)]);
        check(Framework::Pytest, crash, &[("one", false), ("two", true)]);
    }

    #[test]
    fn the_end_of_the_process_is_checked() {
        for (end, is_passed) in [("exit 0", true), ("exit 1", false), ("kill -ABRT $$", false)] {
            let mut expected = vec![("one", true), ("(program)", false)];
            expected.truncate(if is_passed { 1 } else { 2 });
            check(Framework::Pytest, &format!("{ONE}{end}"), &expected);
        }
        let skipped = "results '<testcase name=\"one\"><skipped/></testcase>'; exit 5";
        check(Framework::Pytest, skipped, &[("one", true)]);
    }

    #[test]
    fn a_program_without_tests_passes_by_its_status() {
        check(Framework::GoogleTest, r#"[ "$WORD" = yes ]"#, &[("exit", true)]);
        check(Framework::GoogleTest, "exit 3", &[("(program)", false)]);
        // One that should have tests does not.
        check(Framework::GoogleTest, "results ''", &[("(program)", false)]);
        check(Framework::Pytest, "rm -f tests.txt; exit 0", &[("(program)", false)]);
    }
}
