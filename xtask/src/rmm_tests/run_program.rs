//! Runs a test program to the end of its last test, however many of its tests crash.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;
use std::{fs, io};

use super::case::{Case, Outcome};
use super::gtest::{listed, parse};
use crate::execute::{self, Finished};

/// A test program and where it runs.
#[derive(Debug)]
pub(super) struct Program {
    pub(super) path: PathBuf,
    /// Variables of its environment.
    pub(super) environment: Vec<(&'static str, String)>,
    /// The folder in which it runs, and where lists of tests are written.
    pub(super) folder: PathBuf,
    /// How long one run may take.
    pub(super) limit: Duration,
    /// Whether it has a `main` of its own, and no tests.
    pub(super) is_plain: bool,
}

impl Program {
    /// Runs all tests. A test that crashes or does not end fails, and the rest run in a new
    /// process.
    pub(super) fn run(&self) -> Vec<Case> {
        if self.is_plain {
            return vec![self.run_plain()];
        }
        let mut cases = Vec::new();
        let mut arguments = Vec::new();
        loop {
            let before = cases.len();
            let finished = match self.start(&arguments) {
                Ok(finished) => finished,
                Err(error) => {
                    cases.push(Case::program_failed(&error.to_string()));
                    return cases;
                }
            };
            let printed = parse(&finished.stdout);
            cases.extend(printed.cases);
            let end = finished.end();
            if let Some((name, text)) = printed.unfinished {
                let text = format!("{end}\n{text}{}", finished.stderr).trim().to_owned();
                cases.push(Case { name, outcome: Outcome::Failed, text, took: finished.took });
            } else if !printed.complete {
                cases.push(Case::program_failed(&format!("{end}\n{}", finished.stderr.trim())));
                return cases;
            } else {
                if !finished.status.is_some_and(|status| status.success())
                    && !cases.iter().any(|case| case.outcome == Outcome::Failed)
                {
                    // All tests passed, and the end of the process did not.
                    cases.push(Case::program_failed(&format!("{end}\n{}", finished.stderr.trim())));
                }
                return cases;
            }
            match self.rest(&cases) {
                Ok(rest) if !rest.is_empty() && cases.len() > before => arguments = rest,
                Ok(_) => return cases,
                Err(error) => {
                    cases.push(Case::program_failed(&error.to_string()));
                    return cases;
                }
            }
        }
    }

    fn run_plain(&self) -> Case {
        match self.start(&[]) {
            Ok(finished) if finished.status.is_some_and(|status| status.success()) => Case {
                name: "exit".to_owned(),
                outcome: Outcome::Passed,
                text: String::new(),
                took: finished.took,
            },
            Ok(finished) => {
                Case::program_failed(&format!("{}\n{}", finished.end(), finished.stderr.trim()))
            }
            Err(error) => Case::program_failed(&error.to_string()),
        }
    }

    /// The arguments that run the tests without a result; none if there are none.
    fn rest(&self, cases: &[Case]) -> io::Result<Vec<String>> {
        let done: BTreeSet<&str> = cases.iter().map(|case| case.name.as_str()).collect();
        let list = self.start(&["--gtest_list_tests".to_owned()])?;
        let rest: Vec<String> =
            listed(&list.stdout).into_iter().filter(|name| !done.contains(name.as_str())).collect();
        if rest.is_empty() {
            return Ok(Vec::new());
        }
        // In a file: the list may be longer than an argument may be.
        let file = self.folder.join("remaining-tests.txt");
        fs::write(&file, format!("--gtest_filter={}\n", rest.join(":")))?;
        Ok(vec![format!("--gtest_flagfile={}", file.display())])
    }

    fn start(&self, arguments: &[String]) -> io::Result<Finished> {
        fs::create_dir_all(&self.folder)?;
        let mut command = Command::new(&self.path);
        command.args(arguments).current_dir(&self.folder);
        command.envs(self.environment.iter().map(|(name, value)| (name, value)));
        // What gtest reads from the environment would change the run or its output.
        for name in ["GTEST_FILTER", "GTEST_OUTPUT", "GTEST_COLOR", "GTEST_SHUFFLE"] {
            command.env_remove(name);
        }
        execute::run(&mut command, self.limit)
    }
}

/// The attributes of the software device, unless the variable is set: access to pageable memory for
/// the tests of system memory, pools that can be exported, and a decompression engine, which the
/// device has not by itself.
const ATTRIBUTES: &str =
    "PAGEABLE_MEMORY_ACCESS=1 MEMPOOL_SUPPORTED_HANDLE_TYPES=1 MEM_DECOMPRESS_ALGORITHM_MASK=1";

/// The kernel of the sample's tests of launches.
pub(super) const KERNELS: (&str, &str) =
    ("RMM_SIM_KERNELS", "saxpy(float y[n], const float x[n], float a, size_t n)");

/// The variable with the attributes of the software device.
pub(super) fn attributes() -> (&'static str, String) {
    let variable = "RMM_SIM_ATTRIBUTES";
    (variable, std::env::var(variable).unwrap_or_else(|_| ATTRIBUTES.to_owned()))
}

/// The variables that let a program find libraries in these folders before all others.
pub(super) fn library_path(folders: &[&Path]) -> (&'static str, String) {
    let others = std::env::var("LD_LIBRARY_PATH").unwrap_or_default();
    let mut parts: Vec<String> =
        folders.iter().map(|folder| folder.display().to_string()).collect();
    if !others.is_empty() {
        parts.push(others);
    }
    ("LD_LIBRARY_PATH", parts.join(":"))
}

#[cfg(unix)]
#[cfg(test)]
mod tests {
    //! Scripts in the place of test programs.

    use super::*;
    use crate::scripts::Scripts;

    fn run(body: &str, is_plain: bool) -> Vec<Case> {
        let scripts = Scripts::new();
        let (_, path) = scripts.write("tests", body);
        let folder = scripts.folder().join("run");
        Program {
            path,
            environment: vec![("WORD", "yes".to_owned())],
            folder,
            limit: Duration::from_secs(60),
            is_plain,
        }
        .run()
    }

    fn outcomes(cases: &[Case]) -> Vec<(&str, Outcome)> {
        cases.iter().map(|case| (case.name.as_str(), case.outcome)).collect()
    }

    /// Three tests, the second of which crashes.
    const CRASHES: &str = r#"
end() { echo "[==========] some tests ran."; }
case "$1" in
--gtest_list_tests) printf 'A.\n  One\n  Two\n  Three\n  DISABLED_Four\n' ;;
--gtest_flagfile=*)
    grep -qx -- '--gtest_filter=A.Three' "${1#*=}" || exit 9
    printf '[ RUN      ] A.Three\n[       OK ] A.Three (1 ms)\n'; end ;;
*)
    printf '[ RUN      ] A.One\n[       OK ] A.One (1 ms)\n[ RUN      ] A.Two\n'
    echo why >&2
    kill -SEGV $$ ;;
esac"#;

    #[test]
    fn a_crash_fails_its_test_and_the_rest_still_runs() {
        let cases = run(CRASHES, false);
        let expected =
            [("A.One", Outcome::Passed), ("A.Two", Outcome::Failed), ("A.Three", Outcome::Passed)];
        assert_eq!(outcomes(&cases), expected);
        assert!(cases[1].text.contains("signal: 11") && cases[1].text.contains("why"), "{cases:?}");
    }

    #[test]
    fn a_program_that_runs_no_test_to_its_end_fails() {
        assert_eq!(outcomes(&run("exit 127", false)), [("(program)", Outcome::Failed)]);
        let end = r"printf '[ RUN      ] A.One\n[       OK ] A.One (1 ms)\n'; echo '[==========] 1 test ran.'; ";
        let passed = ("A.One", Outcome::Passed);
        assert_eq!(outcomes(&run(end, false)), [passed]);
        // A crash after the last test.
        let crash = format!("{end} kill -ABRT $$");
        assert_eq!(outcomes(&run(&crash, false)), [passed, ("(program)", Outcome::Failed)]);
    }

    #[test]
    fn a_crash_of_every_test_ends() {
        let ran = run(
            r#"[ "$1" = --gtest_list_tests ] && exit 0; printf '[ RUN      ] A.One\n'; kill -SEGV $$"#,
            false,
        );
        assert_eq!(outcomes(&ran), [("A.One", Outcome::Failed)]);
    }

    #[test]
    fn a_plain_program_passes_by_its_status() {
        assert_eq!(outcomes(&run(r#"[ "$WORD" = yes ]"#, true)), [("exit", Outcome::Passed)]);
        assert_eq!(outcomes(&run("exit 3", true)), [("(program)", Outcome::Failed)]);
    }

    #[test]
    fn a_program_that_runs_no_test_says_why() {
        let [case] = run("echo 'no such resource' >&2; exit 1", false).try_into().unwrap();
        assert_eq!((case.name.as_str(), case.outcome), ("(program)", Outcome::Failed));
        assert!(case.text.contains("no such resource"), "{case:?}");
    }
}
