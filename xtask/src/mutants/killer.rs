//! Tests that killed a mutant in earlier runs, tried first in the next.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use super::mutant::Mutant;
use crate::error::{Context as _, Result};

/// The tests that kill, one line a mutant.
const FILE: &str = "xtask/src/mutants/list/killers.txt";

/// What the file begins with.
const HEADER: &str = "\
# A test that kills each mutant, tried before all others: `mutant program test`, the latter two as cargo-nextest prints them.
# A line that is missing or wrong costs time and changes no verdict. `cargo xtask mutants --record` writes this file.
";

/// A test, as nextest names it.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct Killer {
    /// `package` for unit tests, `package::program` for others.
    pub(super) binary: String,
    pub(super) test: String,
}

impl Killer {
    /// Reads `package::program module::test`.
    pub(super) fn parse(line: &str) -> Option<Self> {
        let (binary, test) = line.trim().split_once(' ')?;
        Some(Self { binary: binary.to_owned(), test: test.trim().to_owned() })
    }

    pub(super) fn package(&self) -> &str {
        self.binary.split_once("::").map_or(&self.binary, |(package, _)| package)
    }

    /// The test program; nothing for the unit tests of the library.
    pub(super) fn program(&self) -> Option<&str> {
        self.binary.split_once("::").map(|(_, program)| program)
    }
}

/// A killer for each of many mutants.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Killers(BTreeMap<String, Killer>);

impl FromIterator<(String, Killer)> for Killers {
    fn from_iter<I: IntoIterator<Item = (String, Killer)>>(killers: I) -> Self {
        Self(killers.into_iter().collect())
    }
}

impl Killers {
    /// Reads the file of the workspace.
    pub(super) fn read(root: &Path) -> Result<Self> {
        let text = fs::read_to_string(root.join(FILE)).context(FILE)?;
        Self::parse(&text)
    }

    fn parse(text: &str) -> Result<Self> {
        let lines = text.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
        let parse = |line: &str| {
            let (mutant, killer) = line.split_once(' ')?;
            Some((mutant.to_owned(), Killer::parse(killer)?))
        };
        let lines =
            lines.map(|line| parse(line).context(format_args!("{FILE}: what is `{line}`?")));
        Ok(Self(lines.collect::<Result<_>>()?))
    }

    /// Writes the file of the workspace.
    pub(super) fn write(&self, root: &Path) -> Result<()> {
        fs::write(root.join(FILE), self.text()).context(FILE)
    }

    fn text(&self) -> String {
        let lines = self.0.iter();
        let lines =
            lines.map(|(name, killer)| format!("{name} {} {}\n", killer.binary, killer.test));
        HEADER.to_owned() + &lines.collect::<String>()
    }

    pub(super) fn of(&self, mutant: &Mutant) -> Option<&Killer> {
        self.0.get(mutant.name)
    }

    pub(super) fn set(&mut self, mutant: &Mutant, killer: Killer) {
        self.0.insert(mutant.name.to_owned(), killer);
    }

    /// These, and those of `others` for mutants that none is known of.
    pub(super) fn or(&self, others: Self) -> Self {
        let mut all = others.0;
        all.extend(self.0.clone());
        Self(all)
    }
}

#[cfg(test)]
mod tests {
    //! The file.

    use std::collections::BTreeSet;

    use super::super::all::mutants;
    use super::*;

    #[test]
    fn the_file_names_mutants_that_exist() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let names: BTreeSet<_> = mutants().map(|mutant| mutant.name).collect();
        for name in Killers::read(&root).unwrap().0.keys() {
            assert!(names.contains(name.as_str()), "{FILE}: there is no mutant {name}");
        }
    }

    #[test]
    fn a_test_is_read_as_nextest_prints_it() {
        let suite = Killer::parse("rmm-adaptors::suite pool::a").unwrap();
        assert_eq!((suite.package(), suite.program()), ("rmm-adaptors", Some("suite")));
        assert_eq!(suite.test, "pool::a");
        let unit = Killer::parse("rmm-adaptors heap::tests::d").unwrap();
        assert_eq!((unit.package(), unit.program()), ("rmm-adaptors", None));
        assert!(Killer::parse("one").is_none());
    }

    #[test]
    fn what_is_written_can_be_read() {
        let killers = Killers::parse("m p::suite a::b\n\n# no\nn p c").unwrap();
        assert_eq!(killers.0.len(), 2);
        assert_eq!(Killers::parse(&killers.text()).unwrap(), killers);
        assert!(Killers::parse("m p").unwrap_err().to_string().contains("`m p`"));
    }
}
