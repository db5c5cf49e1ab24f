//! The results as JUnit XML, which most services can show.

use quick_junit::{NonSuccessKind, Report, TestCase, TestCaseStatus, TestSuite};

use super::libtest::{self, Outcome};
use super::verdict::CellResult;
use crate::error::Result;

/// The whole document: one test suite a cell.
///
/// # Errors
///
/// If the document cannot be written as text.
pub(super) fn xml(results: &[CellResult]) -> Result<String> {
    let mut report = Report::new("gpu");
    report.add_test_suites(results.iter().map(suite));
    Ok(report.to_string()?)
}

fn suite(result: &CellResult) -> TestSuite {
    let cell = &result.cell;
    let mut suite = TestSuite::new(cell.to_string());
    suite.set_time(result.took);
    let class = format!("gpu.device-{}.{}.{}", cell.device, cell.stream, cell.resource);
    let mut add = |name: &str, status| {
        let mut case = TestCase::new(name, status);
        case.set_classname(class.as_str());
        suite.add_test_case(case);
    };
    for test in &result.tests {
        add(&test.name, status(test));
    }
    if let Some(problem) = &result.problem {
        add("the test program", non_success(NonSuccessKind::Error, problem));
    }
    suite
}

fn status(test: &libtest::TestCase) -> TestCaseStatus {
    match test.outcome {
        Outcome::Passed => TestCaseStatus::success(),
        Outcome::Failed => non_success(NonSuccessKind::Failure, &test.output),
        Outcome::Ignored => {
            let mut skipped = TestCaseStatus::skipped();
            if !test.output.is_empty() {
                skipped.set_message(test.output.as_str());
            }
            skipped
        }
    }
}

/// The first line that is not empty, and the whole text.
fn non_success(kind: NonSuccessKind, text: &str) -> TestCaseStatus {
    let summary = text.lines().find(|line| !line.trim().is_empty()).unwrap_or("failed");
    let mut status = TestCaseStatus::non_success(kind);
    status.set_message(summary).set_description(text);
    status
}

#[cfg(test)]
mod tests {
    //! The document, and texts that would break it.

    use std::time::Duration;

    use super::*;
    use crate::test_gpu::matrix::Cell;

    fn result(tests: Vec<libtest::TestCase>, problem: Option<&str>) -> CellResult {
        let cell = Cell { device: 1, stream: "legacy", resource: "pool" };
        CellResult {
            cell,
            tests,
            problem: problem.map(str::to_owned),
            took: Duration::from_millis(1500),
        }
    }

    fn test(name: &str, outcome: Outcome, output: &str) -> libtest::TestCase {
        libtest::TestCase { name: name.to_owned(), outcome, output: output.to_owned() }
    }

    #[test]
    fn markup_in_a_failure_is_escaped() {
        let text = "left: Vec<u8> & \"x\" 'y' ]]>\n\u{1b}[31mred\u{0}";
        let xml = xml(&[result(vec![test("a::<b>", Outcome::Failed, text)], None)]).unwrap();
        let escaped =
            ">left: Vec&lt;u8&gt; &amp; &quot;x&quot; &apos;y&apos; ]]&gt;\nred</failure>";
        assert!(xml.contains(escaped), "{xml}");
        assert!(xml.contains("name=\"a::&lt;b&gt;\""), "{xml}");
        assert!(!xml.contains(['\u{1b}', '\u{0}']), "no XML may hold these: {xml}");
    }

    #[test]
    fn the_document_counts_and_names_everything() {
        let tests = vec![
            test("a", Outcome::Passed, ""),
            test("b", Outcome::Failed, "\nfirst\nsecond"),
            test("c", Outcome::Ignored, ""),
            test("d", Outcome::Ignored, "needs <two>"),
        ];
        let expected = "\
<?xml version=\"1.0\" encoding=\"UTF-8\"?>
<testsuites name=\"gpu\" tests=\"5\" skipped=\"2\" failures=\"1\" errors=\"1\">
    <testsuite name=\"device 1 / legacy / pool\" tests=\"5\" skipped=\"2\" errors=\"1\" failures=\"1\" time=\"1.500\">
        <testcase name=\"a\" classname=\"gpu.device-1.legacy.pool\"/>
        <testcase name=\"b\" classname=\"gpu.device-1.legacy.pool\">
            <failure message=\"first\">\nfirst\nsecond</failure>
        </testcase>
        <testcase name=\"c\" classname=\"gpu.device-1.legacy.pool\">
            <skipped/>
        </testcase>
        <testcase name=\"d\" classname=\"gpu.device-1.legacy.pool\">
            <skipped message=\"needs &lt;two&gt;\"/>
        </testcase>
        <testcase name=\"the test program\" classname=\"gpu.device-1.legacy.pool\">
            <error message=\"crashed\">crashed\nbadly</error>
        </testcase>
    </testsuite>
</testsuites>
";
        assert_eq!(xml(&[result(tests, Some("crashed\nbadly"))]).unwrap(), expected);
    }
}
