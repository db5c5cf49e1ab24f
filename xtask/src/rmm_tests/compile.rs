//! Runs compilers, several at a time, for outputs that are not up to date.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;
use std::{fs, thread};

use super::cache::{Cache, dependencies};
use crate::steps::seconds;

/// One call of the compiler.
#[derive(Debug, Clone)]
pub(super) struct Call {
    /// What the user sees: `compile error.cpp`.
    pub(super) what: String,
    /// The program and its arguments.
    pub(super) command: Vec<OsString>,
    pub(super) output: PathBuf,
    /// What the output is made of, beside what the compiler lists.
    pub(super) inputs: Vec<PathBuf>,
}

/// Why an output could not be made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct BuildError {
    /// All that the compiler printed.
    pub(super) text: String,
}

/// What comes of a call.
pub(super) type Made = Result<(), BuildError>;

impl BuildError {
    /// The line of the first error, which explains most of the others.
    pub(super) fn first_line(&self) -> &str {
        let is_error =
            |line: &&str| line.contains("error:") || line.contains("undefined reference");
        let mut lines = self.text.lines();
        let first = lines.clone().find(is_error).or_else(|| lines.next());
        first.map_or("the compiler failed", str::trim)
    }
}

/// Makes all outputs, `jobs` at a time. The results are in the order of the calls.
pub(super) fn make_all(calls: &[Call], jobs: usize, cache: &Cache) -> Vec<Made> {
    let stale: Vec<usize> = (0..calls.len())
        .filter(|index| !cache.is_fresh(&calls[*index].output, &calls[*index].command))
        .collect();
    let results = Mutex::new(vec![Ok(()); calls.len()]);
    let (next, done) = (AtomicUsize::new(0), AtomicUsize::new(0));
    thread::scope(|scope| {
        for _ in 0..jobs.clamp(1, stale.len().max(1)) {
            scope.spawn(|| {
                while let Some(index) = stale.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let call = &calls[*index];
                    let start = Instant::now();
                    let result = make(call, cache);
                    let count = done.fetch_add(1, Ordering::Relaxed) + 1;
                    let failed = if result.is_err() { ": FAILED" } else { "" };
                    let took = seconds(start.elapsed());
                    println!("[{count}/{}] {} ({took}){failed}", stale.len(), call.what);
                    results.lock().unwrap_or_else(PoisonError::into_inner)[*index] = result;
                }
            });
        }
    });
    results.into_inner().unwrap_or_else(PoisonError::into_inner)
}

fn make(call: &Call, cache: &Cache) -> Made {
    let failure = |text: String| BuildError { text };
    let folder = call.output.parent().unwrap_or(Path::new("."));
    fs::create_dir_all(folder).map_err(|error| failure(error.to_string()))?;
    let [program, arguments @ ..] = call.command.as_slice() else {
        return Err(failure("there is no command".to_owned()));
    };
    let output = Command::new(program)
        .args(arguments)
        .stdin(Stdio::null())
        .output()
        .map_err(|error| failure(format!("{}: {error}", program.display())))?;
    if !output.status.success() {
        return Err(failure(String::from_utf8_lossy(&output.stderr).into_owned()));
    }
    let listed = fs::read_to_string(call.output.with_extension("d")).unwrap_or_default();
    let inputs = [call.inputs.clone(), dependencies(&listed)].concat();
    cache.record(&call.output, &call.command, &inputs).map_err(|error| failure(error.to_string()))
}

#[cfg(unix)]
#[cfg(test)]
mod tests {
    //! A shell in the place of the compiler.

    use super::*;

    fn call(folder: &Path, name: &str, script: &str) -> Call {
        Call {
            what: name.to_owned(),
            command: ["sh", "-c", script].map(OsString::from).to_vec(),
            output: folder.join(name),
            inputs: Vec::new(),
        }
    }

    #[test]
    fn a_failure_does_not_stop_the_others_and_is_not_kept() {
        let folder = tempfile::tempdir().unwrap();
        let log = folder.path().join("log");
        let make = |name: &str| format!("echo {name} >> '{}'; touch '{0}'", log.display());
        let touch =
            |name: &str| format!("{}; touch '{}'", make(name), folder.path().join(name).display());
        let calls = [
            call(folder.path(), "a", &touch("a")),
            call(
                folder.path(),
                "b",
                "echo 'x.cpp: In function' >&2; echo 'x.cpp:1:2: error: no' >&2; exit 1",
            ),
            call(folder.path(), "c", &touch("c")),
        ];
        let cache = Cache::default();
        let results = make_all(&calls, 2, &cache);
        assert_eq!((results[0].clone(), results[2].clone()), (Ok(()), Ok(())));
        assert_eq!(results[1].as_ref().unwrap_err().first_line(), "x.cpp:1:2: error: no");

        // What was made is not made again; what failed is tried again.
        let results = make_all(&calls, 2, &cache);
        assert!(results[1].is_err() && results[0].is_ok());
        assert_eq!(fs::read_to_string(log).unwrap().lines().count(), 2);
    }

    #[test]
    fn a_compiler_that_is_missing_is_an_error() {
        let folder = tempfile::tempdir().unwrap();
        let mut missing = call(folder.path(), "a", "");
        missing.command = vec!["/no/such/compiler".into()];
        let results = make_all(&[missing], 1, &Cache::default());
        assert!(results[0].as_ref().unwrap_err().text.contains("/no/such/compiler"));
    }
}
