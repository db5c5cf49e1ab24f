//! Every mutant, of all lists.

use super::list::{
    self, adaptors, backing, beside, caches, capi, containers, core, cudarc, default_streams,
    device, end, foreign, fresh, heap, lost, python, siblings, sleep, streams,
};
use super::mutant::Mutant;

/// Whether a mutant is in code that the models of locks are about.
pub(super) fn is_modelled(mutant: &Mutant) -> bool {
    [caches::MODELLED, foreign::MODELLED].concat().contains(&mutant.file)
}

/// All of them.
pub(super) fn mutants() -> impl Iterator<Item = &'static Mutant> {
    [
        list::MUTANTS,
        heap::MUTANTS,
        caches::MUTANTS,
        capi::MUTANTS,
        adaptors::MUTANTS,
        backing::MUTANTS,
        beside::MUTANTS,
        containers::MUTANTS,
        core::MUTANTS,
        cudarc::MUTANTS,
        default_streams::MUTANTS,
        device::MUTANTS,
        end::MUTANTS,
        foreign::MUTANTS,
        fresh::MUTANTS,
        lost::MUTANTS,
        python::MUTANTS,
        siblings::MUTANTS,
        sleep::MUTANTS,
        streams::MUTANTS,
    ]
    .into_iter()
    .flatten()
}

#[cfg(test)]
mod tests {
    //! The list is true of the code.

    use std::collections::BTreeSet;
    use std::fs;
    use std::path::Path;

    use super::*;

    #[test]
    fn every_mutant_changes_one_place_of_the_code() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let problem = |mutant: &Mutant| {
            let text = fs::read_to_string(root.join(mutant.file)).unwrap();
            match mutant.apply(&text) {
                Ok(broken) => (broken == text).then(|| format!("{} changes nothing", mutant.name)),
                Err(error) => Some(error.to_string()),
            }
        };
        let problems: Vec<_> = mutants().filter_map(problem).collect();
        assert!(problems.is_empty(), "{}", problems.join("\n"));
    }

    #[test]
    fn names_are_unique_and_say_what_to_type() {
        let names: BTreeSet<_> = mutants().map(|mutant| mutant.name).collect();
        assert_eq!(names.len(), mutants().count());
        let plain = |c: char| c.is_ascii_lowercase() || c == '-';
        assert!(names.iter().all(|name| name.chars().all(plain)), "{names:?}");
    }

    #[test]
    fn what_does_not_stand_there_once_is_an_error() {
        let mutant = Mutant {
            name: "m",
            file: "crates/a/x.rs",
            original: "x",
            replacement: "y",
            breaks: "",
        };
        assert_eq!(mutant.apply("a x b").unwrap(), "a y b");
        assert_eq!(mutant.package(), "a");
        for text in ["", "x x"] {
            assert!(mutant.apply(text).unwrap_err().to_string().contains("list.rs"));
        }
    }
}
