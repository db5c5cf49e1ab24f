//! What the plug-in of pytest wrote on a file of tests: one JSON object a line.

use std::time::Duration;

use serde::Deserialize;

use super::super::case::{Case, Outcome};

/// What one process wrote.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Written {
    pub(super) cases: Vec<Case>,
    /// The test that had begun and not ended.
    pub(super) unfinished: Option<String>,
    /// The status of pytest, if it reached its end.
    pub(super) end: Option<i32>,
}

/// A line.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Line {
    Begin { begin: String },
    Case { case: String, outcome: Outcome, text: String, seconds: f64 },
    End { end: i32 },
}

/// Reads the results. A line that was cut off by the end of the process is that of a test which did
/// not end.
pub(super) fn parse(text: &str) -> Written {
    let mut written = Written::default();
    for line in text.lines() {
        match serde_json::from_str(line) {
            Ok(Line::Begin { begin }) => written.unfinished = Some(begin),
            Ok(Line::Case { case, outcome, text, seconds }) => {
                if written.unfinished.as_ref() == Some(&case) {
                    written.unfinished = None;
                }
                let took = Duration::try_from_secs_f64(seconds).unwrap_or_default();
                written.cases.push(Case { name: case, outcome, text, took });
            }
            Ok(Line::End { end }) => written.end = Some(end),
            Err(_) => {}
        }
    }
    written
}

#[cfg(test)]
mod tests {
    //! Results, whole and cut off.

    use super::*;

    const TEXT: &str = r#"{"begin": "test_a[\u00e4]"}
{"case": "test_a[\u00e4]", "outcome": "passed", "text": "", "seconds": 0.25}
{"begin": "test_b"}
{"case": "test_b", "outcome": "skipped", "text": "no GPU", "seconds": 0}
{"begin": "test_c"}
"#;

    #[test]
    fn each_test_has_its_outcome() {
        let written = parse(&format!("{TEXT}{}", r#"{"end": 1}"#));
        let case = |name: &str, outcome, text: &str, milliseconds| Case {
            name: name.to_owned(),
            outcome,
            text: text.to_owned(),
            took: Duration::from_millis(milliseconds),
        };
        let expected = [
            case("test_a[ä]", Outcome::Passed, "", 250),
            case("test_b", Outcome::Skipped, "no GPU", 0),
        ];
        assert_eq!(written.cases, expected);
        assert_eq!((written.unfinished.as_deref(), written.end), (Some("test_c"), Some(1)));
    }

    #[test]
    fn a_line_that_was_cut_off_ends_no_test() {
        let written = parse(&format!("{TEXT}{}", r#"{"case": "test_c", "outc"#));
        assert_eq!((written.cases.len(), written.unfinished.as_deref()), (2, Some("test_c")));
        assert_eq!(written.end, None);
    }
}
