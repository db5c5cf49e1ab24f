//! The result of a checked replay as text, as data and as exit status.

use std::fmt::Write as _;

use serde::Serialize;

use crate::exit::{FAILURE, SUCCESS, VIOLATIONS};
use crate::replay::Checked;
use crate::style::{BAD, paint};
use rmm_report::format::count;

/// Violations that are printed in full; the others are counted.
const SHOWN: usize = 5;

/// What was found in a log that was replayed against a resource.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Finding {
    file: String,
    resource: String,
    events: u64,
    failures: u64,
    first_failure: Option<String>,
    stream_waits: u64,
    violations: Vec<String>,
}

impl Finding {
    /// The findings of a checked replay.
    pub(crate) fn new(file: String, resource: String, checked: &Checked) -> Self {
        Self {
            file,
            resource,
            events: checked.events,
            failures: checked.failures,
            first_failure: checked.first_failure.clone(),
            stream_waits: checked.stream_waits,
            violations: checked.violations.iter().map(ToString::to_string).collect(),
        }
    }
}

/// One line, and below it what is wrong. Ends with a line feed.
pub(crate) fn render(finding: &Finding, repeats: u32) -> String {
    let violations = &finding.violations;
    let found = match (violations.len(), finding.failures) {
        (0, 0) => String::from("nothing out of order"),
        (0, _) => paint(BAD, "not checked: events failed"),
        (number, _) => paint(BAD, &count(number as u64, "violation")),
    };
    let often = if repeats > 1 { format!(" {repeats} times") } else { String::new() };
    let (file, resource) = (&finding.file, &finding.resource);
    let mut text =
        format!("{file}: {resource}: {}{often}, {found}\n", count(finding.events, "event"));
    // Writing to a string does not fail.
    if finding.stream_waits > 0 {
        let waits = count(finding.stream_waits, "wait");
        let _ = writeln!(text, "  {waits} of one stream for another");
    }
    for violation in violations.iter().take(SHOWN) {
        let _ = writeln!(text, "  {violation}");
    }
    if violations.len() > SHOWN {
        let _ = writeln!(text, "  and {} more", violations.len() - SHOWN);
    }
    if let Some(failure) = &finding.first_failure {
        let failures = count(finding.failures, "failure");
        let _ = writeln!(text, "  {failures}; the first: {failure}");
    }
    text
}

/// How the program ends after this.
pub(crate) fn status(finding: &Finding) -> u8 {
    match (finding.violations.is_empty(), finding.failures) {
        (false, _) => VIOLATIONS,
        (true, 0) => SUCCESS,
        (true, _) => FAILURE,
    }
}

#[cfg(test)]
mod tests {
    use rmm_sim::{Kernel, Violation};
    use rmm_sys::CuStream;

    use super::*;
    use crate::style::plain;

    /// `number` violations, all alike.
    fn violations(number: usize) -> Vec<Violation> {
        let machine = rmm_sim::enter();
        let _device = rmm_core::Device::current().expect("there is one");
        for _ in 0..number {
            let kernel = Kernel::new("broken", |_| panic!("on purpose"));
            machine.launch(CuStream::LEGACY, kernel).expect("a stream of the device");
        }
        machine.run_all();
        machine.violations()
    }

    #[test]
    fn the_first_violations_are_told_and_the_others_counted() {
        let checked = |number| {
            let checked = Checked {
                events: 1000,
                failures: 1,
                first_failure: Some("line 2: no".to_owned()),
                stream_waits: 0,
                violations: violations(number),
            };
            Finding::new("a.csv".to_owned(), "pool".to_owned(), &checked)
        };
        let text = plain(&render(&checked(7), 1));
        assert!(
            text.starts_with(
                "a.csv: pool: 1,000 events, 7 violations\n  kernel panicked: broken\n"
            )
        );
        assert_eq!(text.matches("kernel panicked").count(), SHOWN);
        assert!(text.ends_with("\n  and 2 more\n  1 failure; the first: line 2: no\n"), "{text}");
        let failed = plain(&render(&checked(0), 1));
        assert!(failed.starts_with("a.csv: pool: 1,000 events, not checked: events failed\n"));
        assert_eq!(status(&checked(1)), VIOLATIONS);
        assert_eq!(status(&checked(0)), FAILURE);
    }
}
