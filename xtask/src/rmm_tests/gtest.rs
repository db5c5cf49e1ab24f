//! What programs of gtest print, and which tests of them have run.

use std::time::Duration;

use super::case::{Case, Outcome};

/// What one run of a program said.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Printed {
    pub(super) cases: Vec<Case>,
    /// The test that had begun and not ended, and what it printed.
    pub(super) unfinished: Option<(String, String)>,
    /// Whether the program reached its summary.
    pub(super) complete: bool,
}

const RUN: &str = "[ RUN      ] ";
const ENDS: [(&str, Outcome); 3] = [
    ("[       OK ] ", Outcome::Passed),
    ("[  FAILED  ] ", Outcome::Failed),
    ("[  SKIPPED ] ", Outcome::Skipped),
];

/// Reads the output of a program.
pub(super) fn parse(output: &str) -> Printed {
    let mut printed = Printed::default();
    for line in output.lines() {
        if let Some(name) = line.strip_prefix(RUN) {
            printed.unfinished = Some((name.trim().to_owned(), String::new()));
        } else if let Some((name, text)) = printed.unfinished.take() {
            match ended(line, &name) {
                Some((before, outcome, took)) => {
                    let text = text + before;
                    let text = match outcome {
                        Outcome::Passed => "",
                        Outcome::Failed => text.trim(),
                        Outcome::Skipped => skip_reason(&text),
                    }
                    .to_owned();
                    printed.cases.push(Case { name, outcome, text, took });
                }
                None => printed.unfinished = Some((name, text + line + "\n")),
            }
        } else if line.starts_with("[==========] ") && line.contains(" ran.") {
            printed.complete = true;
        }
    }
    printed
}

/// If the line ends the test: what the test printed before it, the outcome and the time. A test
/// that prints no line break has its last words on the line.
fn ended<'a>(line: &'a str, name: &str) -> Option<(&'a str, Outcome, Duration)> {
    ENDS.iter().find_map(|(marker, outcome)| {
        let start = line.find(marker)?;
        let rest = line[start + marker.len()..].strip_prefix(name)?;
        if !rest.starts_with([' ', ',']) {
            return None;
        }
        let milliseconds = rest.rsplit_once('(').and_then(|(_, time)| time.strip_suffix(" ms)"));
        let took =
            milliseconds.and_then(|number| number.parse().ok()).map(Duration::from_millis)?;
        Some((&line[..start], *outcome, took))
    })
}

/// The tests that `--gtest_list_tests` names, without those that are disabled.
pub(super) fn listed(output: &str) -> Vec<String> {
    let (mut suite, mut tests) = ("", Vec::new());
    for line in output.lines() {
        let name = line.split_once("  #").map_or(line, |(name, _)| name).trim_end();
        match name.strip_prefix("  ") {
            Some(test) if !suite.is_empty() => tests.push(format!("{suite}{test}")),
            _ if name.ends_with('.') && !name.contains(' ') => suite = name,
            _ => {}
        }
    }
    tests.retain(|test| !test.split(['.', '/']).any(|part| part.starts_with("DISABLED_")));
    tests
}

/// The reason that a skipped test printed: the line after `file:line: Skipped`.
fn skip_reason(text: &str) -> &str {
    let mut lines = text.lines().skip_while(|line| !line.ends_with(": Skipped"));
    lines.nth(1).map(str::trim).filter(|line| !line.is_empty()).unwrap_or("no reason given")
}

#[cfg(test)]
mod tests {
    //! Outputs of gtest, whole and cut off.

    use super::*;

    const OUTPUT: &str = "\
Running main() from gmock_main.cc
[==========] Running 4 tests from 2 test suites.
[----------] 3 tests from A
[ RUN      ] A.Passes
[       OK ] A.Passes (12 ms)
[ RUN      ] A.Fails
a.cpp:3: Failure
Expected equality
last words[  FAILED  ] A.Fails (0 ms)
[ RUN      ] A.Skips
a.cpp:9: Skipped
needs two devices
[  SKIPPED ] A.Skips (0 ms)
[ RUN      ] P/B/0.Typed
[  FAILED  ] P/B/0.Typed, where TypeParam = f<(x)> (3 ms)
[==========] 4 tests from 2 test suites ran. (15 ms total)
[  PASSED  ] 1 test.
[  FAILED  ] A.Fails
";

    fn case(name: &str, outcome: Outcome, text: &str, milliseconds: u64) -> Case {
        let took = Duration::from_millis(milliseconds);
        Case { name: name.to_owned(), outcome, text: text.to_owned(), took }
    }

    #[test]
    fn each_test_has_its_outcome_and_its_output() {
        let printed = parse(OUTPUT);
        let expected = [
            case("A.Passes", Outcome::Passed, "", 12),
            case("A.Fails", Outcome::Failed, "a.cpp:3: Failure\nExpected equality\nlast words", 0),
            case("A.Skips", Outcome::Skipped, "needs two devices", 0),
            case("P/B/0.Typed", Outcome::Failed, "", 3),
        ];
        assert_eq!(printed.cases, expected);
        assert!(printed.complete && printed.unfinished.is_none());
        assert_eq!(skip_reason("a.cpp:9: Skipped\n"), "no reason given");
    }

    #[test]
    fn a_program_that_breaks_off_leaves_a_test_unfinished() {
        let cut = &OUTPUT[..OUTPUT.find("last words").unwrap()];
        let printed = parse(cut);
        assert_eq!(printed.cases.len(), 1);
        let (name, text) = printed.unfinished.unwrap();
        assert_eq!((name.as_str(), text.lines().count()), ("A.Fails", 2));
        assert!(!printed.complete);
    }

    #[test]
    fn a_marker_of_another_test_ends_nothing() {
        // A death test's child prints its own.
        let printed =
            parse("[ RUN      ] A.One\n[       OK ] A.OneMore (1 ms)\n[       OK ] A.One (2 ms)\n");
        assert_eq!(printed.cases.len(), 1);
        assert_eq!(printed.cases[0].took, Duration::from_millis(2));
    }

    #[test]
    fn disabled_tests_are_not_listed() {
        let list = "Running main() from x.cc\nA.\n  One\n  DISABLED_Two\nP/B/0.  # TypeParam = int\n  Three  # GetParam() = 1\n";
        assert_eq!(listed(list), ["A.One", "P/B/0.Three"]);
    }
}
