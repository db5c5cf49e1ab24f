//! Results of earlier runs: one line in the target folder per killed mutant, written at once, so
//! that a run can be stopped at any time.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::Write as _;
use std::path::Path;

use super::killer::{Killer, Killers};
use super::mutant::Mutant;
use crate::error::{Context as _, Result};

/// The file, and what it says.
#[derive(Debug)]
pub(super) struct Results {
    file: File,
    known: BTreeMap<String, (Killer, u64)>,
}

impl Results {
    /// Reads the file if there is one. Lines that make no sense, as the last one of a run that was
    /// killed, are left out.
    pub(super) fn open(path: &Path) -> Result<Self> {
        let text = fs::read_to_string(path).unwrap_or_default();
        let file = OpenOptions::new().create(true).append(true).open(path);
        let mut file = file.context(path.display())?;
        if !text.is_empty() && !text.ends_with('\n') {
            file.write_all(b"\n").context(path.display())?;
        }
        Ok(Self { file, known: text.lines().filter_map(parse).collect() })
    }

    /// The test that killed the mutant last, and the digest of what that depends on.
    pub(super) fn of(&self, mutant: &Mutant) -> Option<(&Killer, u64)> {
        self.known.get(mutant.name).map(|(killer, digest)| (killer, *digest))
    }

    pub(super) fn killers(&self) -> Killers {
        self.known.iter().map(|(name, (killer, _))| (name.clone(), killer.clone())).collect()
    }

    /// Adds a line.
    pub(super) fn add(&mut self, mutant: &Mutant, killer: &Killer, digest: u64) -> Result<()> {
        writeln!(self.file, "{digest:016x} {} {} {}", mutant.name, killer.binary, killer.test)
            .context("writing down what became of a mutant")?;
        self.known.insert(mutant.name.to_owned(), (killer.clone(), digest));
        Ok(())
    }
}

fn parse(line: &str) -> Option<(String, (Killer, u64))> {
    let (digest, rest) = line.split_once(' ')?;
    let (name, killer) = rest.split_once(' ')?;
    Some((name.to_owned(), (Killer::parse(killer)?, u64::from_str_radix(digest, 16).ok()?)))
}

#[cfg(test)]
mod tests {
    //! The file.

    use super::*;

    #[test]
    fn a_later_run_knows_what_an_earlier_one_wrote_even_if_that_was_killed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("results.txt");
        let killer = Killer::parse("p::suite a").unwrap();
        let mutant =
            |name| Mutant { name, file: "a/b", original: "x", replacement: "y", breaks: "" };
        Results::open(&path).unwrap().add(&mutant("m"), &killer, 7).unwrap();
        let whole = fs::read_to_string(&path).unwrap();
        fs::write(&path, format!("{whole}00000000")).unwrap();
        Results::open(&path).unwrap().add(&mutant("n"), &killer, 8).unwrap();
        let results = Results::open(&path).unwrap();
        assert_eq!(results.of(&mutant("m")), Some((&killer, 7)));
        assert_eq!(results.of(&mutant("n")), Some((&killer, 8)));
        assert_eq!(results.of(&mutant("o")), None);
        assert_eq!(results.killers().of(&mutant("m")), Some(&killer));
    }
}
