//! The results as JUnit XML.

use std::time::Duration;

use quick_junit::{NonSuccessKind, Report, TestCase, TestCaseStatus, TestSuite};

use super::case::{Case, Outcome};
use super::expected::Expected;
use super::result::{Row, State, first_line};
use crate::error::Result;

/// The whole document: one test suite for each program, in which an expected failure counts
/// as skipped.
///
/// # Errors
///
/// If the document cannot be written as text.
pub(super) fn xml(rows: &[Row], expected: &Expected) -> Result<String> {
    let mut report = Report::new("rmm-tests");
    for row in rows {
        let class = row.id("");
        let mut suite = TestSuite::new(class.trim_end_matches('/'));
        suite.set_time(row.cases().iter().map(|case| case.took).sum::<Duration>());
        let mut add = |name: &str, took: Duration, status| {
            let mut case = TestCase::new(name, status);
            case.set_classname(class.trim_end_matches('/').replace('/', ".")).set_time(took);
            suite.add_test_case(case);
        };
        match &row.state {
            State::Ran(cases) => {
                for case in cases {
                    add(&case.name, case.took, status(case, expected.reason(&row.id(&case.name))));
                }
            }
            State::NotRun(reason) => add("(program)", Duration::ZERO, skipped(reason)),
            State::Broken { first, text } => {
                let reason = expected.reason(&format!("build/{}", row.name));
                let broken = || {
                    let mut status = TestCaseStatus::non_success(NonSuccessKind::Error);
                    status.set_message(first.as_str()).set_description(text.as_str());
                    status
                };
                add("(build)", Duration::ZERO, reason.map_or_else(broken, skipped));
            }
        }
        report.add_test_suite(suite);
    }
    Ok(report.to_string()?)
}

fn status(case: &Case, expected: Option<&str>) -> TestCaseStatus {
    match (case.outcome, expected) {
        (Outcome::Passed, _) => TestCaseStatus::success(),
        (Outcome::Skipped, _) => skipped(&case.text),
        (Outcome::Failed, Some(reason)) => skipped(&format!("expected to fail: {reason}")),
        (Outcome::Failed, None) => {
            let mut status = TestCaseStatus::non_success(NonSuccessKind::Failure);
            status.set_message(first_line(&case.text)).set_description(case.text.as_str());
            status
        }
    }
}

fn skipped(reason: &str) -> TestCaseStatus {
    let mut status = TestCaseStatus::skipped();
    status.set_message(reason);
    status
}

#[cfg(test)]
mod tests {
    //! Rows of each kind.

    use super::*;
    use crate::rmm_tests::result::tests::{expected, rows};

    #[test]
    fn junit_has_a_suite_for_each_program() {
        let xml = xml(&rows(), &expected("rmm/A_TEST/A.Two  known\n")).unwrap();
        for part in [
            r#"testsuite name="rmm/A_TEST" tests="3" skipped="2" errors="0" failures="0""#,
            r#"testsuite name="ours/pool/arena" tests="1" skipped="0" errors="0" failures="0""#,
            "expected to fail: known",
            r#"message="one device""#,
            "k.cu needs nvcc",
            r#"<error message="x.cpp:1: error: no">"#,
        ] {
            assert!(xml.contains(part), "`{part}` is not in\n{xml}");
        }
    }
}
