//! The result of each cell, and the table of all cells.

use std::collections::BTreeMap;
use std::io;
use std::time::Duration;

use comfy_table::Table;

use super::libtest::{Outcome, TestCase, parse};
use super::matrix::Cell;
use crate::execute::Finished;
use crate::steps::{new_table, seconds};

/// How many lines of a broken program's errors are kept.
const ERROR_LINES: usize = 20;

/// What came of one cell.
#[derive(Debug)]
pub(super) struct CellResult {
    pub(super) cell: Cell,
    /// The tests that have a result.
    pub(super) tests: Vec<TestCase>,
    /// What is wrong with the run as a whole, whatever its tests say.
    pub(super) problem: Option<String>,
    pub(super) took: Duration,
}

impl CellResult {
    /// Whether all is well.
    pub(super) fn passed(&self) -> bool {
        self.problem.is_none() && self.count(Outcome::Failed) == 0
    }

    /// The number of tests that went this way.
    pub(super) fn count(&self, outcome: Outcome) -> usize {
        self.tests.iter().filter(|test| test.outcome == outcome).count()
    }

    /// The tests that failed.
    pub(super) fn failures(&self) -> impl Iterator<Item = &TestCase> {
        self.tests.iter().filter(|test| test.outcome == Outcome::Failed)
    }
}

/// Judges a run by what was printed and by how it ended: neither alone is believed.
pub(super) fn judge(cell: Cell, run: io::Result<Finished>) -> CellResult {
    let finished = match run {
        Ok(finished) => finished,
        Err(error) => {
            let problem = Some(format!("the test program could not be run: {error}"));
            return CellResult { cell, tests: Vec::new(), problem, took: Duration::ZERO };
        }
    };
    let report = parse(&finished.stdout);
    let failed = report.tests.iter().any(|test| test.outcome == Outcome::Failed);
    let ran = report.tests.iter().any(|test| test.outcome != Outcome::Ignored);
    let what = match finished.status {
        None => Some("was killed at its time limit".to_owned()),
        // A failed test explains a plain failure, but no crash and no early end.
        Some(status) if !(status.success() || failed && report.complete) => {
            Some(format!("ended with {status}"))
        }
        Some(_) if !report.complete => Some("ended before its last line".to_owned()),
        Some(_) if !ran => Some("ran no test".to_owned()),
        Some(_) => None,
    };
    let problem = what.map(|what| {
        let during =
            report.unfinished.map(|test| format!(" while `{test}` ran")).unwrap_or_default();
        let errors = last_lines(&finished.stderr);
        format!(
            "the test program {what}{during}{}{errors}",
            if errors.is_empty() { "" } else { "\n" }
        )
    });
    CellResult { cell, tests: report.tests, problem, took: finished.took }
}

fn last_lines(text: &str) -> String {
    let lines: Vec<&str> = text.trim().lines().collect();
    lines[lines.len().saturating_sub(ERROR_LINES)..].join("\n")
}

/// The tests that were ignored, each with its reason and the number of runs, one a line.
pub(super) fn ignored(results: &[CellResult]) -> String {
    let tests = results.iter().flat_map(|result| &result.tests);
    let mut runs: BTreeMap<(&str, &str), usize> = BTreeMap::new();
    for test in tests.filter(|test| test.outcome == Outcome::Ignored) {
        *runs.entry((&test.name, &test.output)).or_default() += 1;
    }
    let line = |((name, why), runs): (&(&str, &str), &usize)| {
        let why = if why.is_empty() { "no reason given" } else { why };
        format!("IGNORED in {runs} of {} runs: {name}: {why}\n", results.len())
    };
    runs.iter().map(line).collect()
}

/// The table of all runs.
pub(super) fn table(results: &[CellResult]) -> Table {
    let mut table = new_table(&[
        "device", "stream", "resource", "passed", "failed", "ignored", "time", "result",
    ]);
    for result in results {
        let verdict = match &result.problem {
            Some(problem) => format!("FAILED: {}", problem.lines().next().unwrap_or_default()),
            None if result.passed() => "ok".to_owned(),
            None => "FAILED".to_owned(),
        };
        table.add_row([
            result.cell.device.to_string(),
            result.cell.stream.to_owned(),
            result.cell.resource.to_owned(),
            result.count(Outcome::Passed).to_string(),
            result.count(Outcome::Failed).to_string(),
            result.count(Outcome::Ignored).to_string(),
            seconds(result.took),
            verdict,
        ]);
    }
    table
}

#[cfg(unix)]
#[cfg(test)]
mod tests {
    //! Runs that are not to be believed.

    use std::os::unix::process::ExitStatusExt as _;
    use std::process::ExitStatus;

    use super::*;

    const GOOD: &str = "running 1 test\ntest a ... ok\n\ntest result: ok. 1 passed; 0 failed\n";
    const BAD: &str =
        "running 1 test\ntest a ... FAILED\n\ntest result: FAILED. 0 passed; 1 failed\n";

    /// A wait status: 256 times an exit code, or the number of a signal.
    fn judged(stdout: &str, wait_status: Option<i32>) -> CellResult {
        let finished = Finished {
            stdout: stdout.to_owned(),
            stderr: "noise".to_owned(),
            status: wait_status.map(ExitStatus::from_raw),
            took: Duration::from_secs(1),
        };
        judge(Cell { device: 0, stream: "legacy", resource: "pool" }, Ok(finished))
    }

    #[test]
    fn a_good_run_passes() {
        let result = judged(GOOD, Some(0));
        assert!(result.passed(), "{result:?}");
        assert!(table(&[result]).to_string().contains(" ok"));
    }

    #[test]
    fn a_failed_test_is_no_problem_of_the_run() {
        let result = judged(BAD, Some(101 * 256));
        assert!(!result.passed());
        assert_eq!(result.problem, None);
    }

    #[test]
    fn a_crash_after_good_results_is_a_failure() {
        let result = judged(GOOD, Some(11));
        assert!(!result.passed());
        assert!(result.problem.unwrap().contains("signal: 11"));
    }

    #[test]
    fn a_crash_is_blamed_on_the_test_that_ran() {
        let result = judged("running 2 tests\ntest a ... FAILED\ntest b ... ", Some(6));
        let problem = result.problem.unwrap();
        assert!(
            problem.contains("signal: 6") && problem.contains("while `b` ran\nnoise"),
            "{problem}"
        );
    }

    #[test]
    fn an_ignored_test_is_listed_once_with_its_reason() {
        const SOME: &str = "running 2 tests\ntest a ... ok\ntest b ... ignored, needs two devices\nok\n\ntest result: ok. 2 passed\n";
        let results = [judged(SOME, Some(0)), judged(SOME, Some(0)), judged(GOOD, Some(0))];
        assert!(results.iter().all(CellResult::passed));
        assert_eq!(ignored(&results), "IGNORED in 2 of 3 runs: b: needs two devices\n");
        assert_eq!(ignored(&results[2..]), "");
    }

    #[test]
    fn silence_and_empty_runs_are_failures() {
        for stdout in [
            "",
            "running 1 test\n",
            "running 2 tests\ntest a ... ok\n",
            "running 0 tests\n\ntest result: ok. 0 passed; 0 failed\n",
        ] {
            assert!(!judged(stdout, Some(0)).passed(), "{stdout:?}");
        }
    }

    #[test]
    fn a_run_over_its_limit_is_a_failure() {
        let result = judged(GOOD, None);
        assert!(result.problem.unwrap().contains("time limit"));
    }

    #[test]
    fn a_program_that_cannot_start_is_a_failure() {
        let cell = Cell { device: 0, stream: "legacy", resource: "pool" };
        assert!(!judge(cell, Err(io::Error::other("no such file"))).passed());
    }
}
