//! One run of the command: what is built in which order, and what is run.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::builder::{Builder, Linked};
use super::cache::digest_of;
use super::checkout::Checkout;
use super::compile::{BuildError, Call, Made};
use super::libraries::{Libraries, link_name};
use super::result::{Over, Row, State};
use super::test_program::TestProgram;
use super::wheels::Wheels;
use crate::error::{Context as _, Result};

/// The sources of the stand-in for the CUDA runtime, below `xtask/rmm-tests/cudart`.
const RUNTIME: [&str; 6] =
    ["errors.cpp", "devices.cpp", "kernels.cpp", "memory.cpp", "pools.cpp", "streams.cpp"];
/// Those that are compiled a second time, for programs with a default stream for each thread.
const RUNTIME_TWICE: [&str; 3] = ["default_stream.cpp", "copies.cpp", "launches.cpp"];
pub(super) const RUNTIME_SONAME: &str = "libcudart.so.13";

/// Everything that a run needs.
#[derive(Debug)]
pub(super) struct Session {
    pub(super) checkout: Checkout,
    pub(super) wheels: Wheels,
    pub(super) libraries: Libraries,
    pub(super) builder: Builder,
    /// Macros for all that is of the checkout, or over it. The stand-in for the runtime has none.
    pub(super) defines: Vec<String>,
    /// `xtask/rmm-tests`.
    pub(super) sources: PathBuf,
    /// Where programs and the library of the checkout go.
    pub(super) folder: PathBuf,
    pub(super) limit: Duration,
    /// How many devices all programs see, if the user says so.
    pub(super) devices: Option<u32>,
}

/// A program that was built, and what its runs are called.
#[derive(Debug)]
pub(super) struct Job {
    pub(super) over: Over,
    pub(super) name: String,
    pub(super) program: PathBuf,
    pub(super) is_plain: bool,
    pub(super) environment: Vec<(&'static str, String)>,
    /// How many devices it sees, unless the user says so.
    pub(super) devices: u32,
    /// How many tests must have a result, if that is known.
    pub(super) tests: usize,
}

fn link_library(
    builder: &Builder,
    output: &Path,
    soname: &str,
    objects: &[PathBuf],
    linked: Linked<'_>,
) -> Result<()> {
    let call = builder.link(output, Some(soname), objects, &linked);
    let result = builder.make(&[call]).pop().unwrap_or(Ok(()));
    result.map_err(|error| format!("{soname}: {}", error.text).into())
}

/// Builds the stand-in for the CUDA runtime, linked with the software driver in a folder.
///
/// # Errors
///
/// If it does not build.
pub(super) fn build_runtime(
    builder: &Builder,
    sources: &Path,
    driver: &Path,
    output: &Path,
) -> Result<()> {
    let runtime = sources.join("cudart");
    let compile =
        |name: &str, defines: &[String]| builder.compile(name, &runtime.join(name), &[], defines);
    let per_thread = ["PER_THREAD_DEFAULT_STREAM".to_owned()];
    let both = RUNTIME.iter().chain(&RUNTIME_TWICE).map(|name| compile(name, &[]));
    let again = RUNTIME_TWICE.iter().map(|name| compile(name, &per_thread));
    let calls: Vec<Call> = both.chain(again).collect();
    if let Some(error) = builder.make(&calls).into_iter().find_map(std::result::Result::err) {
        return Err(format!("the stand-in for the CUDA runtime: {}", error.text).into());
    }
    let objects: Vec<PathBuf> = calls.into_iter().map(|call| call.output).collect();
    let linked = Linked { folders: &[driver.to_path_buf()], names: &["cuda"] };
    link_library(builder, output, RUNTIME_SONAME, &objects, linked)
}

impl Session {
    /// Builds the stand-in for the CUDA runtime and the library of the checkout. Returns a row for
    /// each source that does not compile.
    ///
    /// # Errors
    ///
    /// If the stand-in does not build, or the library cannot be linked.
    pub(super) fn build_libraries(&self) -> Result<Vec<Row>> {
        let libs = &self.libraries.folder;
        build_runtime(&self.builder, &self.sources, libs, &libs.join(RUNTIME_SONAME))?;
        link_name(RUNTIME_SONAME, &libs.join("libcudart.so"))?;
        let sources = self.checkout.library_sources()?;
        let includes = self.checkout.include_folders();
        let compile = |source: &PathBuf| {
            self.builder.compile(&self.below_checkout(source), source, &includes, &self.defines)
        };
        let calls: Vec<Call> = sources.iter().map(compile).collect();
        let results = self.builder.make(&calls);
        let built = calls.iter().zip(&results).filter(|(_, result)| result.is_ok());
        let objects: Vec<PathBuf> = built.map(|(call, _)| call.output.clone()).collect();
        let folders = [libs.clone(), self.wheels.logger_folder()];
        let linked = Linked { folders: &folders, names: &["cudart", "rapids_logger"] };
        let library = self.folder.join("librmm.so");
        link_library(&self.builder, &library, "librmm.so", &objects, linked)?;
        let broken = sources.iter().zip(&results).filter_map(|(source, result)| {
            Some(broken(Over::Rmm, &self.below_checkout(source), result.as_ref().err()?))
        });
        Ok(broken.collect())
    }

    /// Builds the programs of the checkout.
    ///
    /// # Errors
    ///
    /// If a file cannot be read.
    pub(super) fn build_programs(&self, programs: &[TestProgram]) -> Result<(Vec<Job>, Vec<Row>)> {
        let (mut jobs, mut rows) = (Vec::new(), Vec::new());
        let tests = self.checkout.tests();
        let mut wanted = Vec::new();
        for program in programs {
            if let Some(device) = program.device_code(&tests)? {
                let reason = format!("{} needs nvcc", device.display());
                rows.push(not_run(&program.name, reason));
            } else {
                wanted.push(program);
            }
        }
        let includes = [self.checkout.include_folders(), vec![tests.clone()]].concat();
        let compile = |source: &PathBuf| {
            self.builder.compile(
                &source.display().to_string(),
                &tests.join(source),
                &includes,
                &self.defines,
            )
        };
        // One source may be in several programs.
        let calls: BTreeMap<&PathBuf, Call> = wanted
            .iter()
            .flat_map(|program| &program.sources)
            .map(|source| (source, compile(source)))
            .collect();
        let order: Vec<Call> = calls.values().cloned().collect();
        let results: BTreeMap<&PathBuf, Made> =
            calls.keys().copied().zip(self.builder.make(&order)).collect();
        let (mut built, mut links) = (Vec::new(), Vec::new());
        for program in wanted {
            let error = program
                .sources
                .iter()
                .find_map(|source| Some((source, results[source].as_ref().err()?)));
            if let Some((source, error)) = error {
                rows.push(broken(Over::Rmm, &source.display().to_string(), error));
                continue;
            }
            let objects: Vec<PathBuf> =
                program.sources.iter().map(|source| calls[source].output.clone()).collect();
            let driver: &[&str] = if program.links_driver { &["cuda"] } else { &[] };
            let output = self.folder.join("programs").join(&program.name);
            links.push(self.link_program(&output, &objects, driver));
            built.push(program);
        }
        for ((program, link), result) in
            built.into_iter().zip(&links).zip(self.builder.make(&links))
        {
            match result {
                Err(error) => rows.push(broken(Over::Rmm, &program.name, &error)),
                Ok(()) => jobs.push(Job {
                    over: Over::Rmm,
                    name: program.name.clone(),
                    program: link.output.clone(),
                    is_plain: is_plain(&tests, program)?,
                    environment: Vec::new(),
                    devices: program.gpus,
                    tests: 0,
                }),
            }
        }
        Ok((jobs, rows))
    }

    /// The call that links a test program.
    pub(super) fn link_program(
        &self,
        output: &Path,
        objects: &[PathBuf],
        libraries: &[&str],
    ) -> Call {
        let folders =
            [self.folder.clone(), self.libraries.folder.clone(), self.wheels.logger_folder()];
        let all = ["rmm", "cudart", "rapids_logger", "gmock_main", "gmock", "gtest"];
        let names: Vec<&str> = libraries.iter().copied().chain(all).collect();
        let mut call =
            self.builder.link(output, None, objects, &Linked { folders: &folders, names: &names });
        // A source of the library that does not compile costs the programs that need it, not all.
        let lenient = ["-Wl,--unresolved-symbols=ignore-in-shared-libs", "-Wl,-z,lazy"];
        call.command.extend(lenient.map(OsString::from));
        call
    }

    fn below_checkout(&self, source: &Path) -> String {
        let tests = self.checkout.tests();
        let cpp = tests.parent().unwrap_or(Path::new("/"));
        source.strip_prefix(cpp).unwrap_or(source).display().to_string()
    }
}

/// The folder for the outputs of a checkout: each has its own, and so has each way to compile it.
pub(super) fn output_folder(target: &Path, checkout: &Checkout, defines: &[String]) -> PathBuf {
    target.join(format!("checkout-{:016x}", digest_of(&(checkout.tests(), defines))))
}

/// A source or program that cannot be built.
pub(super) fn broken(over: Over, name: &str, error: &BuildError) -> Row {
    let state = State::Broken { first: error.first_line().to_owned(), text: error.text.clone() };
    Row { over, name: name.to_owned(), state, leaks: 0 }
}

/// A program that cannot be run here.
pub(super) fn not_run(name: &str, reason: String) -> Row {
    Row { over: Over::Rmm, name: name.to_owned(), state: State::NotRun(reason), leaks: 0 }
}

/// Whether a program has a `main` of its own that does not run tests.
fn is_plain(tests: &Path, program: &TestProgram) -> Result<bool> {
    let mut has_main = false;
    for source in &program.sources {
        let path = tests.join(source);
        let text = fs::read_to_string(&path).context(path.display())?;
        if ["RUN_ALL_TESTS", "InitGoogle"].iter().any(|word| text.contains(word)) {
            return Ok(false);
        }
        has_main |= text.contains("int main(");
    }
    Ok(has_main)
}
