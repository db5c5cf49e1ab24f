//! A parser for the output of Rust's test harness.

use std::collections::BTreeMap;

/// How a test went.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Outcome {
    Passed,
    Failed,
    Ignored,
}

/// One test.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct TestCase {
    /// Its path in the test program.
    pub(super) name: String,
    /// How it went.
    pub(super) outcome: Outcome,
    /// What it printed, if it failed; why, if it was ignored and says so.
    pub(super) output: String,
}

/// All that a test program said.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Report {
    /// The tests that have a result, in the order of running.
    pub(super) tests: Vec<TestCase>,
    /// The test that had begun and got no result: the one to blame if the program crashed.
    pub(super) unfinished: Option<String>,
    /// Whether the program came to its last line.
    pub(super) complete: bool,
}

/// Where the reader stands in the text.
enum Place {
    /// Tests are running.
    Tests,
    /// Between `failures:` and the list of names: what failed tests printed.
    Details { of: Option<String> },
    /// The list of names that ends the text.
    Names,
}

/// Reads the plain output of a test program that ran with one test at a time.
pub(super) fn parse(stdout: &str) -> Report {
    let mut report = Report::default();
    let mut outputs: BTreeMap<String, String> = BTreeMap::new();
    let mut place = Place::Tests;
    for line in stdout.lines() {
        report.complete |= line.starts_with("test result: ");
        match &mut place {
            Place::Tests if line == "failures:" => place = Place::Details { of: None },
            Place::Tests => read_test_line(line, &mut report),
            Place::Details { .. } if line == "failures:" => place = Place::Names,
            Place::Details { of } => match (section_name(line, &report.tests), of) {
                (Some(name), of) => *of = Some(name),
                (None, Some(name)) => {
                    let output = outputs.entry(name.clone()).or_default();
                    output.push_str(line);
                    output.push('\n');
                }
                (None, None) => {}
            },
            Place::Names => {}
        }
    }
    for test in &mut report.tests {
        if let Some(output) = outputs.remove(&test.name) {
            output.trim().clone_into(&mut test.output);
        }
    }
    report
}

/// Reads a line `test NAME ... RESULT`. A test may print past the harness, and so push the result
/// to a later line; one that finds out only when it runs that it cannot, prints `ignored, REASON`
/// for its result, and what the harness says after it is no more than that it ended.
fn read_test_line(line: &str, report: &mut Report) {
    let begun = line.strip_prefix("test ").and_then(|rest| rest.split_once(" ... "));
    let begun = begun.or_else(|| Some((line.strip_prefix("test ")?.strip_suffix(" ...")?, "")));
    let (name, result) = match (begun, &report.unfinished) {
        (Some((name, result)), _) => (without_note(name).to_owned(), result),
        (None, Some(name)) => (name.clone(), line),
        (None, None) => return,
    };
    match outcome(result) {
        Some(outcome) => {
            let why = result.strip_prefix("ignored, ").unwrap_or_default().trim_end();
            report.tests.push(TestCase { name, outcome, output: why.to_owned() });
            report.unfinished = None;
        }
        None => report.unfinished = Some(name),
    }
}

/// The result at the end of a line: the harness's own words, possibly after something that the test
/// printed.
fn outcome(text: &str) -> Option<Outcome> {
    let text = text.trim_end();
    if text == "ignored" || text.starts_with("ignored, ") {
        Some(Outcome::Ignored)
    } else if text.ends_with("FAILED") || text.starts_with("FAILED (") {
        Some(Outcome::Failed)
    } else {
        let last = text.rsplit(|c: char| c.is_whitespace()).next();
        (last == Some("ok")).then_some(Outcome::Passed)
    }
}

/// The harness adds how a test is to end: `name - should panic`.
fn without_note(name: &str) -> &str {
    [" - should panic", " - compile fail", " - compile"]
        .into_iter()
        .find_map(|note| name.strip_suffix(note))
        .unwrap_or(name)
}

/// The name in a line `---- NAME stdout ----`, if that test failed; a test may print such a line
/// itself.
fn section_name(line: &str, tests: &[TestCase]) -> Option<String> {
    let name = line.strip_prefix("---- ")?.strip_suffix(" stdout ----")?;
    tests
        .iter()
        .any(|test| test.outcome == Outcome::Failed && test.name == name)
        .then(|| name.to_owned())
}

#[cfg(test)]
#[path = "libtest/tests.rs"]
mod tests;
