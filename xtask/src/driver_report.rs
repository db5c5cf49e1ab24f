//! Reports of the software device on the processes of a program.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

/// How many reports of a kind are shown.
const SHOWN: usize = 5;

/// All reports on a program.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct DriverReport {
    /// Uses of memory that nothing orders, and other misuse, by kind.
    violations: BTreeMap<String, Vec<String>>,
    /// Driver objects that were left at the end of a process: of note, and no failure.
    pub(crate) objects_left: usize,
    /// How many processes wrote one.
    pub(crate) processes: usize,
}

/// Reads the reports in a folder: one file for each process that ended.
pub(crate) fn read(folder: &Path) -> DriverReport {
    let mut report = DriverReport::default();
    let files = fs::read_dir(folder).into_iter().flatten().filter_map(Result::ok);
    for text in files.filter_map(|file| fs::read_to_string(file.path()).ok()) {
        report.processes += 1;
        for line in text.lines() {
            match line.split_once(' ') {
                Some(("violation", what)) => {
                    // Line breaks are written as `\n`, backslashes as `\\`.
                    let lines = what.split("\\\\").map(|part| part.replace("\\n", "\n"));
                    let what = lines.collect::<Vec<_>>().join("\\");
                    report.violations.entry(kind_of(&what)).or_default().push(what);
                }
                Some(("leak", _)) => report.objects_left += 1,
                _ => {}
            }
        }
    }
    report
}

impl DriverReport {
    /// One failure for all reports of a kind, since most have one cause: the kind, and the reports.
    pub(crate) fn failures(&self) -> impl Iterator<Item = (&str, String)> {
        self.violations.iter().map(|(kind, reports)| {
            let (count, shown) = (reports.len(), &reports[..reports.len().min(SHOWN)]);
            let text = format!("{}\n({count} reports of the software device)", shown.join("\n"));
            (kind.as_str(), text)
        })
    }
}

/// `use of a destroyed handle: cuEventQuery was passed an event that was destroyed` is a
/// `(destroyed event)`, and all else is a matter of order.
fn kind_of(violation: &str) -> String {
    let detail = violation.strip_prefix("use of a destroyed handle: ");
    let words = detail.and_then(|detail| detail.split_once(" that was destroyed"));
    let object = words.and_then(|(words, _)| words.rsplit(' ').next());
    object.map_or_else(|| "(stream order)".to_owned(), |object| format!("(destroyed {object})"))
}

#[cfg(test)]
mod tests {
    //! Reports of the software device.

    use super::*;

    #[test]
    fn reports_of_a_kind_are_one_failure() {
        let folder = tempfile::tempdir().unwrap();
        let event = "violation use of a destroyed handle: cuEventQuery was passed an event that was destroyed";
        let races = "violation race\\nof \\\\n\n".repeat(9);
        fs::write(folder.path().join("1.txt"), format!("calls 3\n{races}leak event 1\nend\n"))
            .unwrap();
        fs::write(folder.path().join("2.txt"), format!("{event}\nleak event 1\nend\n")).unwrap();
        let report = read(folder.path());
        assert_eq!((report.objects_left, report.processes), (2, 2));
        let failures: Vec<_> = report.failures().collect();
        assert_eq!(failures[0].0, "(destroyed event)");
        let text = format!("{}(9 reports of the software device)", "race\nof \\n\n".repeat(SHOWN));
        assert_eq!(failures[1..], [("(stream order)", text)]);
    }
}
