//! What came of the programs, and which of their failures are expected.

use std::fmt;
use std::fmt::Write as _;

use super::case::{Case, Outcome};
use super::expected::Expected;

/// What tests run over.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Over {
    /// The library of the checkout.
    Rmm,
    /// A resource of ours, below what.
    Ours { stack: &'static str, resource: String },
    /// The Python package.
    Python,
}

impl fmt::Display for Over {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Rmm => f.write_str("rmm"),
            Self::Ours { stack, .. } => write!(f, "ours/{stack}"),
            Self::Python => f.write_str("python"),
        }
    }
}

/// What came of a program.
#[derive(Debug)]
pub(super) struct Row {
    pub(super) over: Over,
    /// The name of the program; of what cannot be built, the source.
    pub(super) name: String,
    pub(super) state: State,
    /// Driver objects left at the end; of note, and no failure.
    pub(super) leaks: usize,
}

/// Whether a program ran.
#[derive(Debug)]
pub(super) enum State {
    Ran(Vec<Case>),
    /// It was not run, for a good reason.
    NotRun(String),
    /// It cannot be built: the first error, and all of them.
    Broken {
        first: String,
        text: String,
    },
}

/// A failure and why it is expected, if it is.
struct Failure<'a> {
    id: String,
    text: &'a str,
    reason: Option<&'a str>,
}

impl Row {
    /// How many tests went this way.
    pub(super) fn count(&self, outcome: Outcome) -> usize {
        self.cases().iter().filter(|case| case.outcome == outcome).count()
    }

    /// The tests that have a result.
    pub(super) fn cases(&self) -> &[Case] {
        match &self.state {
            State::Ran(cases) => cases,
            _ => &[],
        }
    }

    /// The name of a test in lists of expected failures.
    pub(super) fn id(&self, case: &str) -> String {
        match &self.over {
            Over::Ours { resource, .. } => format!("{}/{resource}/{case}", self.over),
            Over::Rmm | Over::Python => format!("{}/{}/{case}", self.over, self.name),
        }
    }

    /// The tests that failed, and the source if it does not compile.
    fn failures<'a>(&'a self, expected: &'a Expected) -> Vec<Failure<'a>> {
        let failure = |id: String, text: &'a str| {
            let reason = expected.reason(&id);
            Failure { id, text, reason }
        };
        match &self.state {
            State::Broken { first, .. } => vec![failure(format!("build/{}", self.name), first)],
            _ => self
                .cases()
                .iter()
                .filter(|case| case.outcome == Outcome::Failed)
                .map(|case| failure(self.id(&case.name), &case.text))
                .collect(),
        }
    }

    /// The last column: what went wrong first, or why tests were skipped.
    pub(super) fn why(&self, expected: &Expected) -> String {
        if let State::NotRun(reason) = &self.state {
            return format!("not run: {reason}");
        }
        let failures = self.failures(expected);
        let unexpected = failures.iter().find(|failure| failure.reason.is_none());
        if let Some(failure) = unexpected {
            let name = failure.id.rsplit('/').next().unwrap_or_default();
            return format!("FAILED {name}: {}", first_line(failure.text));
        }
        if let Some(reason) = failures.first().and_then(|failure| failure.reason) {
            return format!("expected: {reason}");
        }
        match self.skip_reasons().as_slice() {
            [] => String::new(),
            [(reason, _)] => format!("skipped: {reason}"),
            several => {
                let words: Vec<String> =
                    several.iter().map(|(reason, count)| format!("{count}: {reason}")).collect();
                format!("skipped: {}", words.join("; "))
            }
        }
    }

    /// Why tests were skipped, and how many for each reason.
    fn skip_reasons(&self) -> Vec<(&str, usize)> {
        let mut reasons: Vec<(&str, usize)> = Vec::new();
        for case in self.cases().iter().filter(|case| case.outcome == Outcome::Skipped) {
            match reasons.iter_mut().find(|(reason, _)| *reason == case.text) {
                Some((_, count)) => *count += 1,
                None => reasons.push((&case.text, 1)),
            }
        }
        reasons
    }
}

/// The whole text of each failure that is not expected.
pub(super) fn failures(rows: &[Row], expected: &Expected) -> String {
    let mut text = String::new();
    for row in rows {
        let broken = match &row.state {
            State::Broken { text, .. } => Some(text.as_str()),
            _ => None,
        };
        for failure in row.failures(expected).iter().filter(|failure| failure.reason.is_none()) {
            let whole = broken.unwrap_or(failure.text);
            let _infallible = writeln!(text, "FAILED {}\n{}\n", failure.id, whole.trim());
        }
    }
    text
}

/// The failures that are not expected.
pub(super) fn unexpected(rows: &[Row], expected: &Expected) -> Vec<String> {
    let failures = rows.iter().flat_map(|row| row.failures(expected));
    failures.filter(|failure| failure.reason.is_none()).map(|failure| failure.id).collect()
}

/// The first line that says something.
pub(super) fn first_line(text: &str) -> &str {
    text.lines().find(|line| !line.trim().is_empty()).unwrap_or("failed")
}

#[cfg(test)]
pub(super) mod tests {
    //! Rows of each kind.

    use std::time::Duration;

    use super::*;

    fn case(name: &str, outcome: Outcome, text: &str) -> Case {
        let took = Duration::from_millis(5);
        Case { name: name.to_owned(), outcome, text: text.to_owned(), took }
    }

    pub(in crate::rmm_tests) fn rows() -> Vec<Row> {
        let row = |over, name: &str, state| Row { over, name: name.to_owned(), state, leaks: 2 };
        let ours = Over::Ours { stack: "pool", resource: "arena".to_owned() };
        let (first, text) = ("x.cpp:1: error: no".to_owned(), "all\nof it".to_owned());
        vec![
            row(
                Over::Rmm,
                "A_TEST",
                State::Ran(vec![
                    case("A.One", Outcome::Passed, ""),
                    case("A.Two", Outcome::Failed, "a.cpp:3: Failure\nvalue"),
                    case("A.Three", Outcome::Skipped, "one device"),
                ]),
            ),
            row(ours, "arena", State::Ran(vec![case("S/0.T", Outcome::Passed, "")])),
            row(
                Over::Python,
                "test_a.py",
                State::Ran(vec![
                    case("test_one", Outcome::Passed, ""),
                    case("test_two[1]", Outcome::Skipped, "no GPU"),
                    case("test_two[2]", Outcome::Skipped, "no GPU"),
                    case("test_three", Outcome::Skipped, "no CuPy"),
                ]),
            ),
            row(Over::Rmm, "K_TEST", State::NotRun("k.cu needs nvcc".to_owned())),
            row(Over::Rmm, "x.cpp", State::Broken { first, text }),
        ]
    }

    pub(in crate::rmm_tests) fn expected(text: &str) -> Expected {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), text).unwrap();
        Expected::read(Some(file.path())).unwrap()
    }

    #[test]
    fn a_failure_counts_until_it_is_expected() {
        let rows = rows();
        assert_eq!(unexpected(&rows, &expected("")), ["rmm/A_TEST/A.Two", "build/x.cpp"]);
        let one = expected("rmm/A_TEST/A.T*  known\n");
        assert_eq!(unexpected(&rows, &one), ["build/x.cpp"]);
        assert_eq!(failures(&rows, &one), "FAILED build/x.cpp\nall\nof it\n\n");
        let both = expected("rmm/A_TEST/A.Two  known\nbuild/x.cpp  of a later version\n");
        assert!(unexpected(&rows, &both).is_empty());
        let python = Case::failed("test_one", "");
        let row = Row {
            over: Over::Python,
            name: "test_a.py".to_owned(),
            state: State::Ran(vec![python]),
            leaks: 0,
        };
        assert_eq!(unexpected(&[row], &one), ["python/test_a.py/test_one"]);
        // Another program's test of the name is another test.
        assert_eq!(unexpected(&rows, &expected("rmm/B_TEST/A.Two  known\n")).len(), 2);
    }
}
