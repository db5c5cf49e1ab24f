//! The results: a table, and the failures that are not expected.

use std::collections::BTreeMap;

use comfy_table::Table;

use super::case::{Case, Outcome};
use super::expected::Expected;
use crate::steps::new_table;

/// How much of a text the table shows.
const TABLE_WIDTH: usize = 90;

/// What came of a program.
#[derive(Debug)]
pub(super) struct Row {
    /// `rmm/POOL_MR_TEST`.
    pub(super) name: String,
    pub(super) cases: Vec<Case>,
    /// Driver objects left at the end; of note, and no failure.
    pub(super) objects_left: usize,
}

impl Row {
    /// A program that did not run.
    pub(super) fn of(name: String, case: Case) -> Self {
        Self { name, cases: vec![case], objects_left: 0 }
    }

    /// Has the failures that are expected skipped.
    pub(super) fn expect(&mut self, expected: &Expected) {
        for case in self.cases.iter_mut().filter(|case| case.is_failed()) {
            if let Some(reason) = expected.reason(&format!("{}/{}", self.name, case.name)) {
                case.outcome = Outcome::Skipped(format!("expected to fail: {reason}"));
            }
        }
    }

    fn counts(&self) -> [usize; 3] {
        let mut counts = [0; 3];
        for case in &self.cases {
            counts[match case.outcome {
                Outcome::Passed => 0,
                Outcome::Failed(_) => 1,
                Outcome::Skipped(_) => 2,
            }] += 1;
        }
        counts
    }

    /// What went wrong first, or why tests were skipped.
    fn why(&self) -> String {
        let mut reasons: BTreeMap<&str, usize> = BTreeMap::new();
        for case in &self.cases {
            match &case.outcome {
                Outcome::Failed(text) => {
                    return format!("FAILED {}: {}", case.name, first_line(text));
                }
                Outcome::Skipped(reason) => *reasons.entry(reason).or_default() += 1,
                Outcome::Passed => {}
            }
        }
        let words: Vec<String> =
            reasons.iter().map(|(reason, count)| format!("{count}: {reason}")).collect();
        words.join("; ")
    }
}

/// The first line that says something.
fn first_line(text: &str) -> &str {
    text.lines().find(|line| !line.trim().is_empty()).unwrap_or("failed")
}

/// The failures: the name of each, and all that is known of it.
pub(super) fn failures(rows: &[Row]) -> Vec<(String, &str)> {
    let mut found = Vec::new();
    for row in rows {
        for case in &row.cases {
            if let Outcome::Failed(text) = &case.outcome {
                found.push((format!("{}/{}", row.name, case.name), text.as_str()));
            }
        }
    }
    found
}

/// The results of each program in a line, for a comparison, and the failures. Programs over our
/// resources that have the same results have one line.
pub(super) fn summary(rows: &[Row]) -> String {
    let mut lines: Vec<String> = Vec::new();
    for row in rows {
        let place = row.name.rsplit_once('/').filter(|_| row.name.starts_with("ours/"));
        let name = place.map_or_else(|| row.name.clone(), |(place, _)| format!("{place}/*"));
        let [passed, failed, skipped] = row.counts();
        lines.push(format!("{name}: {passed} passed, {failed} failed, {skipped} skipped\n"));
    }
    lines.dedup();
    lines.extend(failures(rows).iter().map(|(name, _)| format!("FAILED {name}\n")));
    lines.concat()
}

/// The table of all programs, and of their sums.
pub(super) fn table(rows: &[Row]) -> Table {
    let mut table = new_table(&["program", "passed", "failed", "skipped", "objects left", "why"]);
    let mut sums = [0; 4];
    let mut add = |name: &str, counts: [usize; 4], why: String| {
        let words =
            [vec![name.to_owned()], counts.map(|count| count.to_string()).to_vec(), vec![why]];
        table.add_row(words.concat());
    };
    for row in rows {
        let [passed, failed, skipped] = row.counts();
        let counts = [passed, failed, skipped, row.objects_left];
        for (sum, count) in sums.iter_mut().zip(counts) {
            *sum += count;
        }
        add(&row.name, counts, row.why().chars().take(TABLE_WIDTH).collect());
    }
    add("all", sums, String::new());
    table
}

#[cfg(test)]
mod tests {
    //! Results of each kind.

    use super::*;

    fn rows(expected: &str) -> Vec<Row> {
        let expected = Expected::parse(expected).unwrap();
        let failed = Case::failed("A.Two", "\na.cpp:3\nvalue");
        let cases = vec![Case::passed("A.One"), failed, Case::skipped("A.Three", "one device")];
        let ours = |name: &str| Row::of(format!("ours/pool/{name}"), Case::passed("S.T"));
        let first = Row { name: "rmm/A_TEST".to_owned(), cases, objects_left: 2 };
        let mut rows = vec![first, ours("arena"), ours("cuda")];
        for row in &mut rows {
            row.expect(&expected);
        }
        rows
    }

    #[test]
    fn a_failure_counts_until_it_is_expected() {
        let text = "\
rmm/A_TEST: 1 passed, 1 failed, 1 skipped
ours/pool/*: 1 passed, 0 failed, 0 skipped
FAILED rmm/A_TEST/A.Two
";
        // Another program's test of the name is another test.
        assert_eq!(summary(&rows("rmm/B_TEST/A.Two  known\n")), text);
        let known = rows("rmm/A_TEST/A.T*  known\n");
        assert_eq!(
            summary(&known).lines().next(),
            Some("rmm/A_TEST: 1 passed, 0 failed, 2 skipped")
        );
        assert_eq!(known[0].why(), "1: expected to fail: known; 1: one device");
    }
}
