//! Results of tests, as GoogleTest and pytest write them: JUnit XML.

use std::fs;
use std::path::Path;

use roxmltree::{Document, Node};

/// What runs the tests of a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Framework {
    /// Or none: a program that is one test.
    GoogleTest,
    Pytest,
}

/// How a test went.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Outcome {
    Passed,
    /// All that is known of it.
    Failed(String),
    /// The reason.
    Skipped(String),
}

/// A test that has a result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Case {
    /// Within its program: `Suite.Test`, or `test[parameters]`.
    pub(super) name: String,
    pub(super) outcome: Outcome,
}

impl Case {
    /// A failure, also of something that is no test, such as a program as a whole.
    pub(super) fn failed(name: &str, text: &str) -> Self {
        let outcome = Outcome::Failed(text.trim().to_owned());
        Self { name: name.to_owned(), outcome }
    }

    /// A test without a result of its own.
    pub(super) fn passed(name: &str) -> Self {
        Self { name: name.to_owned(), outcome: Outcome::Passed }
    }

    /// A test that did not run.
    pub(super) fn skipped(name: &str, reason: &str) -> Self {
        let outcome = Outcome::Skipped(reason.to_owned());
        Self { name: name.to_owned(), outcome }
    }

    /// Whether the test failed.
    pub(super) fn is_failed(&self) -> bool {
        matches!(self.outcome, Outcome::Failed(_))
    }
}

/// The tests of which a file has the results, or the names; nothing if there is no such file.
pub(super) fn read(path: &Path, framework: Framework) -> Option<Vec<Case>> {
    let text = fs::read_to_string(path).ok()?;
    Some(parse(&text, framework).unwrap_or_else(|error| {
        vec![Case::failed("(results)", &format!("{}: {error}", path.display()))]
    }))
}

fn parse(text: &str, framework: Framework) -> Result<Vec<Case>, roxmltree::Error> {
    let document = Document::parse(text)?;
    let cases = document.descendants().filter(|node| node.has_tag_name("testcase"));
    // GoogleTest names tests that are disabled, too.
    let ran = cases.filter(|node| node.attribute("status") != Some("notrun"));
    Ok(ran.map(|node| case(node, framework)).collect())
}

fn case(node: Node<'_, '_>, framework: Framework) -> Case {
    let name_of = |node: Node<'_, '_>| node.attribute("name").unwrap_or_default().to_owned();
    let suite = node.parent().map(name_of).unwrap_or_default();
    let name = match framework {
        Framework::GoogleTest => format!("{suite}.{}", name_of(node)),
        Framework::Pytest => name_of(node),
    };
    Case { name, outcome: outcome(node, framework) }
}

fn outcome(node: Node<'_, '_>, framework: Framework) -> Outcome {
    let children = |tag: &'static str| node.children().filter(move |child| child.has_tag_name(tag));
    let failures: Vec<String> = children("failure").chain(children("error")).map(text).collect();
    if !failures.is_empty() {
        let printed = children("system-out").chain(children("system-err")).map(text);
        let all: Vec<String> = failures.into_iter().chain(printed).collect();
        return Outcome::Failed(all.join("\n").trim().to_owned());
    }
    let Some(skipped) = children("skipped").next() else { return Outcome::Passed };
    let message = skipped.attribute("message").unwrap_or_default();
    let reason = match framework {
        // After the place in the source.
        Framework::GoogleTest => message.split_once('\n').map_or(message, |(_, text)| text),
        // Of a whole file.
        Framework::Pytest if message == "collection skipped" => skipped.text().unwrap_or(message),
        Framework::Pytest => message,
    };
    Outcome::Skipped(reason.trim().to_owned())
}

/// What an element says: the message, if the text does not begin with it, and the text.
fn text(node: Node<'_, '_>) -> String {
    let [message, text] = [node.attribute("message"), node.text()].map(Option::unwrap_or_default);
    if text.starts_with(message) { text.to_owned() } else { format!("{message}\n{text}") }
}

#[cfg(test)]
mod tests {
    //! Files as the frameworks write them.

    use super::*;

    const GOOGLE_TEST: &str = r#"<?xml version="1.0"?><testsuites><testsuite name="P/A/0">
<testcase name="One" status="run" classname="P/A/0" />
<testcase name="Two" status="run" classname="P/A/0">
  <failure message="a.cpp:3&#x0A;one" type=""><![CDATA[a.cpp:3
one, in full]]></failure><failure message="another" type=""></failure>
</testcase>
<testcase name="Three" status="run"><skipped message="a.cpp:9&#x0A;needs two devices&#x0A;" /></testcase>
<testcase name="DISABLED_Four" status="notrun" />
</testsuite></testsuites>"#;

    const PYTEST: &str = r#"<?xml version="1.0"?><testsuites><testsuite name="pytest">
<testcase classname="rmm.tests.test_a.TestB" name="test_a[\xe4]" time="0"><system-out>last words</system-out>
<error message="failed on teardown with &quot;E&quot;">trace</error></testcase>
<testcase classname="" name="rmm.tests.test_c"><skipped message="no GPU">('a.py', 3)</skipped></testcase>
</testsuite></testsuites>"#;

    #[test]
    fn each_test_has_its_outcome() {
        let cases = parse(GOOGLE_TEST, Framework::GoogleTest).unwrap();
        let passed = Case::passed("P/A/0.One");
        let failed = "a.cpp:3\none, in full\nanother";
        let skipped = Case::skipped("P/A/0.Three", "needs two devices");
        assert_eq!(cases, [passed, Case::failed("P/A/0.Two", failed), skipped]);

        let cases = parse(PYTEST, Framework::Pytest).unwrap();
        let failed = "failed on teardown with \"E\"\ntrace\nlast words";
        let skipped = Case::skipped("rmm.tests.test_c", "no GPU");
        assert_eq!(cases, [Case::failed("test_a[\\xe4]", failed), skipped]);
    }

    #[test]
    fn a_file_that_breaks_off_is_a_failure() {
        let file = tempfile::NamedTempFile::new().unwrap();
        fs::write(file.path(), &GOOGLE_TEST[..200]).unwrap();
        let cases = read(file.path(), Framework::GoogleTest).unwrap();
        assert!(cases[0].is_failed() && cases[0].name == "(results)", "{cases:?}");
        assert_eq!(read(Path::new("/no/such/file"), Framework::Pytest), None);
    }
}
