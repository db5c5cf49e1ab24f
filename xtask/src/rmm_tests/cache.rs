//! Outputs of compilers, made again only if something that they were made of has other content.
//!
//! Beside each output lies a file with the digest of its command line and of each file that went
//! into it. Times of files are not used: a fresh checkout has new ones.

use std::collections::HashMap;
use std::ffi::OsString;
use std::fmt::Write as _;
use std::fs;
use std::hash::{DefaultHasher, Hasher as _};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use crate::error::{Context as _, Result};

/// Digests of files, each read once.
#[derive(Debug, Default)]
pub(super) struct Cache {
    digests: Mutex<HashMap<PathBuf, Option<u64>>>,
}

impl Cache {
    /// Whether the output is what the command would make of its inputs now.
    pub(super) fn is_fresh(&self, output: &Path, command: &[OsString]) -> bool {
        let Ok(record) = fs::read_to_string(record_of(output)) else { return false };
        let mut lines = record.lines();
        let same_command = lines.next() == Some(&digest_of(command).to_string());
        same_command
            && output.is_file()
            && lines.all(|line| {
                let Some((digest, path)) = line.split_once(' ') else { return false };
                self.digest(Path::new(path)).is_some_and(|now| now.to_string() == digest)
            })
    }

    /// Notes what an output was made of.
    ///
    /// # Errors
    ///
    /// If the record cannot be written.
    pub(super) fn record(
        &self,
        output: &Path,
        command: &[OsString],
        inputs: &[PathBuf],
    ) -> Result<()> {
        // Other outputs may be made of this one.
        self.digests.lock().unwrap_or_else(PoisonError::into_inner).remove(output);
        let mut record = format!("{}\n", digest_of(command));
        for input in inputs {
            // An input that is gone by now has no digest: the output counts as stale.
            let digest =
                self.digest(input).map_or_else(|| "gone".to_owned(), |digest| digest.to_string());
            writeln!(record, "{digest} {}", input.display())?;
        }
        fs::write(record_of(output), record).context(output.display())
    }

    fn digest(&self, path: &Path) -> Option<u64> {
        let known = self.digests.lock().unwrap_or_else(PoisonError::into_inner).get(path).copied();
        known.unwrap_or_else(|| {
            let digest = fs::read(path).ok().map(|bytes| digest_of(&bytes));
            self.digests
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .insert(path.to_path_buf(), digest);
            digest
        })
    }
}

/// A digest of anything; equal in all runs of one build of this program.
pub(super) fn digest_of<T: std::hash::Hash + ?Sized>(value: &T) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}

fn record_of(output: &Path) -> PathBuf {
    let mut name = output.as_os_str().to_owned();
    name.push(".inputs");
    PathBuf::from(name)
}

/// The files that a compiler's list of dependencies (`-MD`) names.
pub(super) fn dependencies(list: &str) -> Vec<PathBuf> {
    let joined = list.replace("\\\n", " ");
    let after_target = joined.split_once(": ").map_or("", |(_, files)| files);
    // A space in a name is escaped.
    let protected = after_target.replace("\\ ", "\0");
    protected.split_whitespace().map(|word| PathBuf::from(word.replace('\0', " "))).collect()
}

#[cfg(test)]
mod tests {
    //! When an output is made again.

    use super::*;

    #[test]
    fn an_output_is_stale_when_an_input_or_the_command_is_another() {
        let folder = tempfile::tempdir().unwrap();
        let (input, output) = (folder.path().join("in"), folder.path().join("out"));
        let command = [OsString::from("compile")];
        let is_fresh = |command: &[OsString]| Cache::default().is_fresh(&output, command);
        fs::write(&input, "one").unwrap();
        fs::write(&output, "made of one").unwrap();
        assert!(!is_fresh(&command), "nothing is recorded");

        Cache::default().record(&output, &command, std::slice::from_ref(&input)).unwrap();
        assert!(is_fresh(&command));
        assert!(!is_fresh(&[OsString::from("compile"), OsString::from("-O2")]));

        fs::write(&input, "two").unwrap();
        assert!(!is_fresh(&command));
        fs::write(&input, "one").unwrap();
        assert!(is_fresh(&command), "the content counts, not the time");
        fs::remove_file(&input).unwrap();
        assert!(!is_fresh(&command));
        fs::write(&input, "one").unwrap();
        fs::remove_file(&output).unwrap();
        assert!(!is_fresh(&command));
    }

    #[test]
    fn a_digest_is_read_again_after_its_file_was_made() {
        let folder = tempfile::tempdir().unwrap();
        let (object, program) = (folder.path().join("o"), folder.path().join("p"));
        let (compile, link) = ([OsString::from("compile")], [OsString::from("link")]);
        fs::write(&object, "old").unwrap();
        fs::write(&program, "").unwrap();
        let cache = Cache::default();
        cache.record(&program, &link, std::slice::from_ref(&object)).unwrap();
        assert!(cache.is_fresh(&program, &link));
        fs::write(&object, "new").unwrap();
        cache.record(&object, &compile, &[]).unwrap();
        assert!(!cache.is_fresh(&program, &link));
    }

    #[test]
    fn lists_of_dependencies_are_read() {
        let list = "a.o: a.cpp /x/b.hpp \\\n  /with\\ space/c.hpp\n";
        let expected = ["a.cpp", "/x/b.hpp", "/with space/c.hpp"].map(PathBuf::from);
        assert_eq!(dependencies(list), expected);
    }
}
