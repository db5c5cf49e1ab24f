//! The figures in the tables of README.md: those of reports in `docs/benchmarks`, with the commits
//! that were measured.

use std::collections::BTreeSet;

use super::finding::Finding;

const FOLDER: &str = "(docs/benchmarks/";

/// Checks each table beside which a report is linked: its figures stand on lines of the reports, of
/// each report one, and the text names the commit of each. `report` returns a report by its path.
pub(super) fn check(readme: &str, report: impl Fn(&str) -> Option<String>) -> Vec<Finding> {
    let lines: Vec<&str> = readme.lines().collect();
    let is_row = |line: &&&str| line.starts_with('|');
    let mut findings = Vec::new();
    let mut next = 0;
    while let Some(start) = lines[next..].iter().position(|line| line.starts_with('|')) {
        let start = next + start;
        next = start + lines[start..].iter().take_while(is_row).count();
        let is_beside = |line: &&&str| !line.starts_with(['|', '#', '-', '`']);
        let before = lines[..start].iter().rev().take_while(is_beside);
        let beside: Vec<&str> =
            before.chain(lines[next..].iter().take_while(is_beside)).copied().collect();
        let beside = beside.join(" ");
        let pages = beside.split(FOLDER).skip(1).filter_map(|rest| rest.split([')', '#']).next());
        let mut reports = Vec::new();
        for link in pages.collect::<BTreeSet<_>>() {
            let text = report(&format!("docs/benchmarks/{link}")).unwrap_or_default();
            let commit = text.split("commit: `").nth(1).and_then(|rest| rest.get(..7));
            if commit.is_none_or(|commit| !beside.contains(commit)) {
                let commit = commit.unwrap_or("there is none");
                let what = format!("the table does not say the commit of {link} ({commit})");
                findings.push(Finding::new("README.md", start + 1, what));
            }
            reports.push(text);
        }
        for (index, row) in lines[start..next].iter().enumerate().skip(2) {
            let cells = row.split('|').skip(2).map(|cell| cell.trim().replace(',', ""));
            let mut missing: Vec<String> = cells.filter(|c| c.parse::<f64>().is_ok()).collect();
            for report in &reports {
                let rests = report.lines().filter(|line| line.starts_with('|')).map(|line| {
                    let numbers = numbers(line);
                    let is_elsewhere = |cell: &&String| !numbers.iter().any(|n| rounds(*n, cell));
                    missing.iter().filter(is_elsewhere).cloned().collect::<Vec<_>>()
                });
                missing = rests.min_by_key(Vec::len).unwrap_or(missing);
            }
            if !reports.is_empty() && !missing.is_empty() {
                let what = format!("no report beside the table has {}", missing.join(", "));
                findings.push(Finding::new("README.md", start + index + 1, what));
            }
        }
    }
    findings
}

/// The numbers of a line of a table, some of which have commas within, or behind them.
fn numbers(line: &str) -> Vec<f64> {
    let words = line.split(|c: char| c.is_whitespace() || "|;".contains(c));
    words.filter_map(|word| word.trim_end_matches(',').replace(',', "").parse().ok()).collect()
}

/// Whether the number is this one, with as many decimals.
fn rounds(number: f64, text: &str) -> bool {
    let decimals = text.split_once('.').map_or(0, |(_, decimals)| decimals.len());
    format!("{number:.decimals$}") == text
}

#[cfg(test)]
mod tests {
    //! A table and its report.

    use super::*;

    const REPORT: &str = "- commit: `0123abcd`\n\n| work | a | b |\n|---|---|---|\n| pair | 21.7 | 1.032; 1,358, 17 |\n| other | 5 | 6 |\n";

    fn findings(row: &str, after: &str) -> Vec<String> {
        let readme = format!(
            "Text.\n\n| | a | b |\n|---|---|---|\n{row}\n\n{after}\n\n| x |\n|--|\n| 99 |\n# End"
        );
        let report = |path: &str| (path == "docs/benchmarks/r.md").then(|| REPORT.to_owned());
        check(&readme, report).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn figures_are_those_of_one_line_of_a_report_of_that_commit() {
        let after = "At `0123abc`: [rows](docs/benchmarks/r.md).\n\n## Next\n";
        assert_eq!(findings("| pair | 22 | 1,358 |", after), [""; 0]);
        assert_eq!(findings("| pair | 1.03 | - |", after), [""; 0]);
        for (row, what) in [("| p | 22 | 6 |", "6"), ("| p | 21 | 23 |", "21, 23")] {
            let expected = format!("README.md:5: no report beside the table has {what}");
            assert_eq!(findings(row, after), [expected]);
        }
        let after = "[rows](docs/benchmarks/r.md)\n\n## Next\n";
        let [found] = findings("| pair | 22 | 17 |", after).try_into().expect("one");
        assert!(found.contains("does not say the commit of r.md (0123abc)"), "{found}");
        assert_eq!(findings("| pair | 7 | 8 |", "No report."), [""; 0]);
    }
}
