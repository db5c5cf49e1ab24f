//! The results as a table.

use comfy_table::Table;

use super::case::Outcome;
use super::expected::Expected;
use super::result::{Over, Row, State};
use crate::steps::new_table;

/// How much of a text the table shows.
const TABLE_WIDTH: usize = 90;

/// The table of all programs, and of their sums.
pub(super) fn table(rows: &[Row], expected: &Expected) -> Table {
    let mut table =
        new_table(&["over", "suite", "passed", "failed", "skipped", "objects left", "why"]);
    for row in rows {
        let name = match &row.over {
            Over::Ours { resource, .. } => resource,
            Over::Rmm | Over::Python => &row.name,
        };
        let mut counts = [Outcome::Passed, Outcome::Failed, Outcome::Skipped]
            .map(|outcome| row.count(outcome).to_string());
        if !matches!(row.state, State::Ran(_)) {
            counts = ["-", "-", "-"].map(str::to_owned);
        }
        let [passed, failed, skipped] = counts;
        let leaks = row.leaks.to_string();
        let why: String = row.why(expected).chars().take(TABLE_WIDTH).collect();
        table.add_row([row.over.to_string(), name.clone(), passed, failed, skipped, leaks, why]);
    }
    let sum = |outcome| rows.iter().map(|row| row.count(outcome)).sum::<usize>().to_string();
    let leaks = rows.iter().map(|row| row.leaks).sum::<usize>().to_string();
    let [passed, failed, skipped] = [Outcome::Passed, Outcome::Failed, Outcome::Skipped].map(sum);
    table.add_row(["all", "", &passed, &failed, &skipped, &leaks, ""]);
    table
}

#[cfg(test)]
mod tests {
    //! Rows of each kind.

    use super::*;
    use crate::rmm_tests::result::tests::{expected, rows};

    #[test]
    fn the_table_has_counts_and_reasons() {
        let table = table(&rows(), &expected("build/x.cpp  of a later version\n")).to_string();
        for line in [
            "A_TEST 1 1 1 2 FAILED A.Two: a.cpp:3: Failure",
            "ours/pool arena 1 0 0 2",
            "test_a.py 1 0 3 2 skipped: 2: no GPU; 1: no CuPy",
            "K_TEST - - - 2 not run: k.cu needs nvcc",
            "x.cpp - - - 2 expected: of a later version",
            "all 3 1 4 10",
        ] {
            let has =
                |row: &str| row.split_whitespace().collect::<Vec<_>>().join(" ").contains(line);
            assert!(table.lines().any(has), "`{line}` is not in\n{table}");
        }
    }
}
