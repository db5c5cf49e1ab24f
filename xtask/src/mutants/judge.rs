//! Runs the tests of a mutant, and reads what became of it.

use std::collections::BTreeMap;
use std::fmt;
use std::process::{Command, Stdio};

use super::patch::Patch;
use super::tree::Tree;
use crate::command::{WithCommand as _, cargo};
use crate::error::Result;

/// What became of a mutant.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Verdict {
    /// This test failed.
    Killed(String),
    /// No test noticed.
    Survived,
    /// It is no program, which shows nothing of the tests.
    DoesNotCompile(String),
}

impl Verdict {
    /// Reads nextest's exit code and what it printed.
    fn of(code: Option<i32>, output: &str) -> Result<Self> {
        let mut lines = output.lines();
        match code {
            Some(0) => Ok(Self::Survived),
            Some(100) => Ok(Self::Killed(lines.find_map(failed).unwrap_or_default())),
            Some(101) => {
                let error = lines.find(|line| line.starts_with("error")).unwrap_or_default();
                Ok(Self::DoesNotCompile(error.to_owned()))
            }
            code => Err(format!("cargo nextest ended with {code:?}:\n{output}").into()),
        }
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Killed(test) => write!(f, "killed by {test}"),
            Self::Survived => f.write_str("SURVIVED"),
            Self::DoesNotCompile(error) => write!(f, "DOES NOT COMPILE: {error}"),
        }
    }
}

/// The name in the line of a test that failed: `   FAIL [   0.020s] (1/9) program test`.
fn failed(line: &str) -> Option<String> {
    let (status, rest) = line.trim_start().split_once(" [")?;
    let is_failure = ["FAIL", "ABORT", "TIMEOUT"].contains(&status) || status.starts_with("SIG");
    let name = rest.rsplit_once(") ").or_else(|| rest.split_once("] "))?.1;
    is_failure.then(|| name.trim().to_owned())
}

impl Tree {
    /// Runs the tests that the patches name: each has to pass while nothing is broken.
    pub(super) fn check_unbroken(&self, patches: &[Patch]) -> Result<()> {
        let mut programs: BTreeMap<_, Vec<&str>> = BTreeMap::new();
        for patch in patches {
            let (program, test) = patch.test();
            programs.entry((program, patch.is_modelled())).or_default().extend(test);
        }
        for ((program, is_modelled), tests) in programs {
            expect_pass(program, self.nextest(is_modelled, program).args(&tests))?;
        }
        Ok(())
    }

    /// Asks the test that the patch names, then the others of that package.
    pub(super) fn judge(&self, patch: &Patch) -> Result<Verdict> {
        let broken = self.apply(patch)?;
        let verdict = ask(&mut self.nextest(patch.is_modelled(), &patch.killed_by))?;
        if verdict != Verdict::Survived || patch.test().1.is_none() {
            return Ok(verdict);
        }
        println!("{}: passes {}", patch.name, patch.killed_by.join(" "));
        let verdict = ask(&mut self.nextest(false, patch.package()))?;
        drop(broken);
        if let Verdict::Killed(_) = verdict {
            expect_pass(patch.package(), &mut self.nextest(false, patch.package()))?;
        }
        Ok(verdict)
    }

    fn nextest(&self, is_modelled: bool, args: &[String]) -> Command {
        let mut command = cargo();
        command
            .current_dir(&self.root)
            .args(["nextest", "run", "--profile", "mutants", "--no-tests", "pass"])
            .args(["--max-fail", "1:immediate", "--color", "never"])
            .args(args)
            .env("RMM_DRIVER", "sim")
            // The same programs each time, and no search for the smallest that fails.
            .env("PROPTEST_RNG_SEED", "1")
            .env("PROPTEST_MAX_SHRINK_ITERS", "0")
            // Tests of reports look for lines of the program; more would take long to compile.
            .env("CARGO_PROFILE_DEV_DEBUG", "line-tables-only")
            .env("CARGO_PROFILE_TEST_DEBUG", "line-tables-only")
            .env("CARGO_INCREMENTAL", "1")
            .env("CARGO_TARGET_DIR", self.target.join(if is_modelled { "models" } else { "build" }))
            // Else warnings of what a mutant leaves unused may be errors.
            .env("RUSTFLAGS", if is_modelled { "--cfg rmm_loom" } else { "" });
        command
    }
}

/// A failed test says nothing of a mutant if it fails without.
fn expect_pass(program: &[String], command: &mut Command) -> Result<()> {
    let program = program.join(" ");
    match ask(command)? {
        Verdict::Survived => {
            println!("{program}: passes without a mutant");
            Ok(())
        }
        verdict => Err(format!("{program}, without a mutant: {verdict}").into()),
    }
}

fn ask(command: &mut Command) -> Result<Verdict> {
    let output = command.stdin(Stdio::null()).output().with_command(command)?;
    let text = [output.stdout, output.stderr].concat();
    Verdict::of(output.status.code(), &String::from_utf8_lossy(&text))
}

#[cfg(test)]
mod tests {
    //! What is read from nextest's output.

    use super::*;

    #[test]
    fn the_first_failed_test_is_named() {
        for (output, name) in [
            (
                "  PASS [ 0.01s] ( 1/58) p::suite a\n  FAIL [ 0.02s] ( 2/58) p::suite b\n",
                "p::suite b",
            ),
            ("  FAIL [   0.020s] p heap::tests::d\n assertion failed", "p heap::tests::d"),
            (" TERMINATING [> 20s] (1/2) p e\n  TIMEOUT [  20.003s] (1/2) p::t e\n", "p::t e"),
            ("     SIGSEGV [   0.003s] (1/2) p::t f\n", "p::t f"),
        ] {
            assert_eq!(Verdict::of(Some(100), output).unwrap(), Verdict::Killed(name.into()));
        }
    }

    #[test]
    fn only_a_failed_test_kills() {
        assert_eq!(Verdict::of(Some(0), "").unwrap(), Verdict::Survived);
        let broken = Verdict::of(Some(101), "warning: x\nerror[E0308]: types\n").unwrap();
        assert_eq!(broken, Verdict::DoesNotCompile("error[E0308]: types".into()));
        assert!(Verdict::of(Some(4), "no tests to run").is_err());
        assert!(Verdict::of(None, "").is_err());
    }
}
