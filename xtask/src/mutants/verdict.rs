//! The verdict on a mutant: killed, survived or not judged.

use std::fmt;

use super::killer::Killer;
use crate::error::Result;

/// nextest's exit codes.
const FAILED: i32 = 100;
const NOT_BUILT: i32 = 101;

/// What tests say when the software device has seen a violation.
const SAID_BY_CHECKS: [&str; 2] = [" violations:\n", "the device saw misuse"];

/// What became of a mutant.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Verdict {
    /// A test failed.
    Killed { test: String, seen_by: &'static str },
    /// No test noticed.
    Survived,
    /// It is no program, which shows nothing of the tests.
    NotBuilt(String),
}

impl Verdict {
    /// Reads nextest's exit code and what it printed.
    pub(super) fn of(code: Option<i32>, output: &str) -> Result<Self> {
        match code {
            Some(0) => Ok(Self::Survived),
            Some(FAILED) => {
                let (test, has_ended) =
                    first_failure(output).unwrap_or_else(|| ("unknown".to_owned(), true));
                let says_so = SAID_BY_CHECKS.iter().any(|words| output.contains(words));
                let seen_by = match (has_ended, says_so) {
                    (false, _) => "time limit",
                    (true, true) => "order checks",
                    (true, false) => "assertion",
                };
                Ok(Self::Killed { test, seen_by })
            }
            Some(NOT_BUILT) => {
                let error = output.lines().find(|line| line.starts_with("error"));
                Ok(Self::NotBuilt(error.unwrap_or("it does not build").to_owned()))
            }
            code => Err(format!("cargo nextest ended with {code:?}:\n{output}").into()),
        }
    }

    pub(super) fn is_killed(&self) -> bool {
        matches!(self, Self::Killed { .. })
    }

    /// The test that killed it, if nextest named one.
    pub(super) fn killer(&self) -> Option<Killer> {
        match self {
            Self::Killed { test, .. } => Killer::parse(test),
            Self::Survived | Self::NotBuilt(_) => None,
        }
    }

    /// By which test, and how.
    pub(super) fn cells(&self) -> [String; 2] {
        match self {
            Self::Killed { test, seen_by } => [test.clone(), (*seen_by).to_owned()],
            Self::Survived => ["SURVIVED".to_owned(), String::new()],
            Self::NotBuilt(error) => [format!("NOT BUILT: {error}"), String::new()],
        }
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Killed { test, seen_by } => write!(f, "killed by {test} ({seen_by})"),
            Self::Survived => f.write_str("SURVIVED"),
            Self::NotBuilt(error) => write!(f, "NOT BUILT: {error}"),
        }
    }
}

/// The first test that failed, and whether it ended by itself.
fn first_failure(output: &str) -> Option<(String, bool)> {
    output.lines().find_map(|line| {
        let (status, rest) = line.trim_start().split_once(" [")?;
        let has_ended = match status {
            "FAIL" | "ABORT" => true,
            "TIMEOUT" => false,
            signal if signal.starts_with("SIG") => true,
            _ => return None,
        };
        // `   0.020s] (1/9) package::binary module::test`
        let (_, name) = rest.split_once("] ")?;
        let name = match name.trim_start().split_once(") ") {
            Some((count, name)) if count.starts_with('(') => name,
            _ => name,
        };
        Some((name.trim().to_owned(), has_ended))
    })
}

#[cfg(test)]
mod tests {
    //! What is read from nextest's output.

    use super::*;

    fn killed(output: &str) -> (String, &'static str) {
        match Verdict::of(Some(FAILED), output).unwrap() {
            Verdict::Killed { test, seen_by } => (test, seen_by),
            verdict => panic!("{verdict}"),
        }
    }

    #[test]
    fn the_first_failed_test_is_named_with_what_saw_it() {
        let output = "
        PASS [   0.011s] ( 1/58) rmm-adaptors::suite pool::a
        FAIL [   0.020s] ( 2/58) rmm-adaptors::suite pool::b
  stderr ---
    thread 'pool::b' panicked at x.rs:1:1:
    1 violations:
    allocated while in use: ...
        FAIL [   0.030s] ( 3/58) rmm-adaptors::suite pool::c
";
        assert_eq!(killed(output), ("rmm-adaptors::suite pool::b".into(), "order checks"));
        let plain = "   FAIL [   0.020s] rmm-adaptors heap::tests::d\n assertion failed";
        assert_eq!(killed(plain), ("rmm-adaptors heap::tests::d".into(), "assertion"));
        let hung = " TERMINATING [> 20.000s] (1/2) p::t e\n     TIMEOUT [  20.003s] (1/2) p::t e\n";
        assert_eq!(killed(hung), ("p::t e".into(), "time limit"));
        let crashed = "     SIGSEGV [   0.003s] (1/2) p::t f\n";
        assert_eq!(killed(crashed).0, "p::t f");
    }

    #[test]
    fn only_a_failed_test_kills() {
        assert_eq!(Verdict::of(Some(0), "").unwrap(), Verdict::Survived);
        let broken = Verdict::of(Some(NOT_BUILT), "warning: x\nerror[E0308]: mismatched types\n");
        assert_eq!(broken.unwrap(), Verdict::NotBuilt("error[E0308]: mismatched types".into()));
        assert!(Verdict::of(Some(4), "no tests to run").is_err());
        assert!(Verdict::of(None, "").is_err());
    }
}
