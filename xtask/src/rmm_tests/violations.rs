//! What the software device reported on a program, as failures of it.

use super::case::Case;

/// How many reports of a kind are shown.
const SHOWN: usize = 5;

/// One failure for all reports of a kind: most have one cause. Uses of handles are not a matter of
/// order, and have names of their own: `(destroyed pool)`.
pub(super) fn cases(violations: &[String]) -> Vec<Case> {
    let mut kinds: Vec<(String, Vec<&str>)> = Vec::new();
    for violation in violations {
        let kind = kind_of(violation);
        match kinds.iter_mut().find(|(known, _)| *known == kind) {
            Some((_, reports)) => reports.push(violation),
            None => kinds.push((kind, vec![violation])),
        }
    }
    let case = |(kind, reports): (String, Vec<&str>)| {
        let first: Vec<&str> = reports.iter().take(SHOWN).copied().collect();
        let (shown, count) = (first.join("\n"), reports.len());
        Case::failed(&kind, &format!("{shown}\n({count} reports of the software device)"))
    };
    kinds.into_iter().map(case).collect()
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
    use crate::rmm_tests::case::Outcome;

    #[test]
    fn reports_of_the_device_are_one_failure() {
        assert_eq!(cases(&[]), []);
        let reports: Vec<String> = (0..9).map(|number| format!("report {number}")).collect();
        let [case] = cases(&reports).try_into().unwrap();
        assert_eq!((case.name.as_str(), case.outcome), ("(stream order)", Outcome::Failed));
        assert!(case.text.starts_with("report 0\nreport 1\n"), "{}", case.text);
        assert!(case.text.ends_with("(9 reports of the software device)"), "{}", case.text);
        assert_eq!(case.text.lines().count(), SHOWN + 1);
    }

    #[test]
    fn uses_of_what_was_destroyed_are_told_apart() {
        let pool = "use of a destroyed handle: cuMemAllocFromPoolAsync was passed a pool that was destroyed";
        let event =
            "use of a destroyed handle: cuEventQuery was passed an event that was destroyed";
        let reports = [pool, "race: 8 bytes", pool, event].map(str::to_owned);
        let names: Vec<String> = cases(&reports).into_iter().map(|case| case.name).collect();
        assert_eq!(names, ["(destroyed pool)", "(stream order)", "(destroyed event)"]);
    }
}
