//! Runs a file of tests to the end of its last test, however many of its tests crash.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;
use std::{fs, io};

use super::super::case::{Case, Outcome};
use super::results::{self, Written};
use crate::execute::{self, Finished};

/// The status of pytest where the interpreter's end is not the tests' fault: all passed, a test
/// failed, a file could not be imported, there are no tests.
const ORDINARY_ENDS: [i32; 4] = [0, 1, 2, 5];

/// A file of tests and how it runs.
#[derive(Debug)]
pub(super) struct TestFile {
    pub(super) interpreter: PathBuf,
    pub(super) arguments: Vec<String>,
    pub(super) environment: BTreeMap<&'static str, String>,
    /// Variables that a test must not see.
    pub(super) forgotten: &'static [&'static str],
    /// The folder in which it runs, and where results are written.
    pub(super) folder: PathBuf,
    /// How long one process may take.
    pub(super) limit: Duration,
}

impl TestFile {
    /// Runs all tests. A test that crashes or does not end fails, and the rest run in a new
    /// process.
    pub(super) fn run(&self) -> Vec<Case> {
        let mut cases = Vec::new();
        loop {
            let before = cases.len();
            match self.run_process(&mut cases) {
                Ok(true) if cases.len() > before => {}
                Ok(_) => return cases,
                Err(error) => {
                    cases.push(Case::program_failed(&error.to_string()));
                    return cases;
                }
            }
        }
    }

    /// Runs the tests that have no result, and adds those of this process. Returns whether tests
    /// are left.
    fn run_process(&self, cases: &mut Vec<Case>) -> io::Result<bool> {
        fs::create_dir_all(&self.folder)?;
        let [file, done] = ["results.jsonl", "done.json"].map(|name| self.folder.join(name));
        fs::write(&file, "")?;
        let finished = self.start(&file, &done, cases)?;
        let Written { cases: new, unfinished, end } = results::parse(&fs::read_to_string(&file)?);
        cases.extend(new);
        let printed = || format!("{}\n{}\n{}", finished.end(), finished.stderr, finished.stdout);
        if let Some(name) = unfinished {
            let (outcome, took) = (Outcome::Failed, finished.took);
            cases.push(Case { name, outcome, text: printed().trim().to_owned(), took });
            return Ok(true);
        }
        let status = finished.status.and_then(|status| status.code());
        if end.is_none() || status != end || !end.is_some_and(|end| ORDINARY_ENDS.contains(&end)) {
            // No test is at fault: the end of the process, or the beginning.
            cases.push(Case::program_failed(&printed()));
        }
        Ok(false)
    }

    fn start(&self, results: &Path, done: &Path, cases: &[Case]) -> io::Result<Finished> {
        let mut command = Command::new(&self.interpreter);
        command.args(&self.arguments).arg(format!("--rmm-results={}", results.display()));
        if !cases.is_empty() {
            let names: Vec<&str> = cases.iter().map(|case| case.name.as_str()).collect();
            fs::write(done, serde_json::to_string(&names)?)?;
            command.arg(format!("--rmm-done={}", done.display()));
        }
        for name in self.forgotten {
            command.env_remove(name);
        }
        command.current_dir(&self.folder).envs(&self.environment);
        execute::run(&mut command, self.limit)
    }
}

#[cfg(unix)]
#[cfg(test)]
mod tests {
    //! Scripts in the place of the interpreter.

    use super::*;
    use crate::scripts::Scripts;

    fn run(body: &str) -> Vec<(String, Outcome)> {
        let scripts = Scripts::new();
        // The last argument but one, or the last, names the file of the results.
        let head = "for a in \"$@\"; do case $a in --rmm-results=*) out=${a#*=} ;; --rmm-done=*) done=${a#*=} ;; esac; done\n";
        let (_, interpreter) = scripts.write("python", &format!("{head}{body}"));
        let file = TestFile {
            interpreter,
            arguments: vec!["test_a.py".to_owned()],
            environment: BTreeMap::from([("WORD", "yes".to_owned())]),
            forgotten: &["PYTEST_ADDOPTS"],
            folder: scripts.folder().join("run"),
            limit: Duration::from_secs(60),
        };
        file.run().into_iter().map(|case| (case.name, case.outcome)).collect()
    }

    fn outcomes(found: &[(String, Outcome)]) -> Vec<(&str, Outcome)> {
        found.iter().map(|(name, outcome)| (name.as_str(), *outcome)).collect()
    }

    const PASSED: &str =
        r#"echo '{"case": "a", "outcome": "passed", "text": "", "seconds": 0}' >> "$out"; "#;

    #[test]
    fn a_crash_fails_its_test_and_the_rest_still_runs() {
        let body = r#"
if [ -n "$done" ]; then
    [ "$(cat "$done")" = '["a","b"]' ] && [ "$WORD" = yes ] || exit 9
    echo '{"case": "c", "outcome": "skipped", "text": "", "seconds": 0}' >> "$out"
    echo '{"end": 0}' >> "$out"; exit 0
fi
echo '{"begin": "b"}' >> "$out"; kill -SEGV $$"#;
        let found = run(&format!("[ -n \"$done\" ] || {{ {PASSED} }}{body}"));
        let expected = [("a", Outcome::Passed), ("b", Outcome::Failed), ("c", Outcome::Skipped)];
        assert_eq!(outcomes(&found), expected);
    }

    #[test]
    fn the_end_of_the_process_is_checked() {
        let end = |status: i32| format!("{PASSED} echo '{{\"end\": {status}}}' >> \"$out\"; ");
        let failed = [("a", Outcome::Passed), ("(program)", Outcome::Failed)];
        for (status, exit) in [(0, "exit 0"), (1, "exit 1"), (5, "exit 5")] {
            let found = run(&format!("{}{exit}", end(status)));
            assert_eq!(outcomes(&found), failed[..1], "{status} {exit}");
        }
        for (status, exit) in [(0, "kill -ABRT $$"), (0, "exit 1"), (3, "exit 3")] {
            let found = run(&format!("{}{exit}", end(status)));
            assert_eq!(outcomes(&found), failed, "{status} {exit}");
        }
        assert_eq!(outcomes(&run("exit 4")), failed[1..]);
    }
}
