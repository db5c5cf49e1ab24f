//! The results as JUnit XML, which most services can show.

use std::fmt::Write as _;

use super::libtest::{Outcome, TestCase};
use super::verdict::CellResult;

/// The whole document: one test suite a cell.
pub(super) fn xml(results: &[CellResult]) -> String {
    let mut xml =
        String::from("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites name=\"gpu\">\n");
    for result in results {
        xml.push_str(&suite(result));
    }
    xml.push_str("</testsuites>\n");
    xml
}

fn suite(result: &CellResult) -> String {
    let errors = usize::from(result.problem.is_some());
    let mut xml = format!(
        "  <testsuite name=\"{}\" tests=\"{}\" failures=\"{}\" errors=\"{errors}\" skipped=\"{}\" time=\"{:.3}\">\n",
        escaped(&result.cell.to_string()),
        result.tests.len() + errors,
        result.count(Outcome::Failed),
        result.count(Outcome::Ignored),
        result.took.as_secs_f64(),
    );
    let class = escaped(&format!(
        "gpu.device-{}.{}.{}",
        result.cell.device, result.cell.stream, result.cell.resource
    ));
    for test in &result.tests {
        xml.push_str(&case(&class, test));
    }
    if let Some(problem) = &result.problem {
        push(
            &mut xml,
            format_args!("    <testcase classname=\"{class}\" name=\"the test program\">\n"),
        );
        push(
            &mut xml,
            format_args!(
                "      <error message=\"{}\">{}</error>\n",
                summary(problem),
                escaped(problem)
            ),
        );
        xml.push_str("    </testcase>\n");
    }
    xml.push_str("  </testsuite>\n");
    xml
}

fn case(class: &str, test: &TestCase) -> String {
    let name = escaped(&test.name);
    let head = format!("    <testcase classname=\"{class}\" name=\"{name}\"");
    match test.outcome {
        Outcome::Passed => format!("{head}/>\n"),
        Outcome::Ignored if test.output.is_empty() => {
            format!("{head}>\n      <skipped/>\n    </testcase>\n")
        }
        Outcome::Ignored => {
            let why = escaped(&test.output);
            format!("{head}>\n      <skipped message=\"{why}\"/>\n    </testcase>\n")
        }
        Outcome::Failed => {
            let (message, output) = (summary(&test.output), escaped(&test.output));
            format!(
                "{head}>\n      <failure message=\"{message}\">{output}</failure>\n    </testcase>\n"
            )
        }
    }
}

fn push(xml: &mut String, text: std::fmt::Arguments<'_>) {
    xml.write_fmt(text).expect("writing to a String never fails");
}

/// The first line that says something, for an attribute.
fn summary(text: &str) -> String {
    escaped(text.lines().find(|line| !line.trim().is_empty()).unwrap_or("failed"))
}

/// Text that is safe in an element and in an attribute. XML 1.0 has no way to write most control
/// characters, such as those that colour a terminal; each becomes a replacement character.
fn escaped(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            '\'' => safe.push_str("&apos;"),
            '\n' | '\t' => safe.push(c),
            '\u{FFFE}' | '\u{FFFF}' => safe.push('\u{FFFD}'),
            c if c.is_control() => safe.push('\u{FFFD}'),
            c => safe.push(c),
        }
    }
    safe
}

#[cfg(test)]
mod tests {
    //! The document, and texts that would break it.

    use std::time::Duration;

    use super::*;
    use crate::test_gpu::matrix::Cell;

    fn result(tests: Vec<TestCase>, problem: Option<&str>) -> CellResult {
        let cell = Cell { device: 1, stream: "legacy", resource: "pool" };
        CellResult {
            cell,
            tests,
            problem: problem.map(str::to_owned),
            took: Duration::from_millis(1500),
        }
    }

    fn test(name: &str, outcome: Outcome, output: &str) -> TestCase {
        TestCase { name: name.to_owned(), outcome, output: output.to_owned() }
    }

    #[test]
    fn markup_in_a_failure_is_escaped() {
        let text = "left: Vec<u8> & \"x\" 'y' ]]>\n\u{1b}[31mred\u{0}";
        let expected =
            "left: Vec&lt;u8&gt; &amp; &quot;x&quot; &apos;y&apos; ]]&gt;\n\u{FFFD}[31mred\u{FFFD}";
        assert_eq!(escaped(text), expected);
        let xml = xml(&[result(vec![test("a::<b>", Outcome::Failed, text)], None)]);
        assert!(xml.contains(&format!(">{expected}</failure>")), "{xml}");
        assert!(xml.contains("name=\"a::&lt;b&gt;\""), "{xml}");
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
<testsuites name=\"gpu\">
  <testsuite name=\"device 1 / legacy / pool\" tests=\"5\" failures=\"1\" errors=\"1\" skipped=\"2\" time=\"1.500\">
    <testcase classname=\"gpu.device-1.legacy.pool\" name=\"a\"/>
    <testcase classname=\"gpu.device-1.legacy.pool\" name=\"b\">
      <failure message=\"first\">\nfirst\nsecond</failure>
    </testcase>
    <testcase classname=\"gpu.device-1.legacy.pool\" name=\"c\">
      <skipped/>
    </testcase>
    <testcase classname=\"gpu.device-1.legacy.pool\" name=\"d\">
      <skipped message=\"needs &lt;two&gt;\"/>
    </testcase>
    <testcase classname=\"gpu.device-1.legacy.pool\" name=\"the test program\">
      <error message=\"crashed\">crashed\nbadly</error>
    </testcase>
  </testsuite>
</testsuites>
";
        assert_eq!(xml(&[result(tests, Some("crashed\nbadly"))]), expected);
    }
}
