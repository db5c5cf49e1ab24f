//! RMM's C++ tests: `xtask/rmm-tests/CMakeLists.txt` builds a program for each entry of the list in
//! the checkout, and one for each place of ours in a stack, which runs once for each of ours.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

use self::stacks::STACKS;
use super::args::{Args, LIMIT};
use super::case::Case;
use super::case::Framework;
use super::libraries::{self, CMAKE, NINJA};
use super::report::Row;
use super::runner::{Job, run as run_jobs};
use crate::command::{self, WithCommand as _};
use crate::error::{Context as _, Result};

#[expect(dead_code, unreachable_pub, reason = "only the list is needed here")]
#[path = "../../../crates/rmm-spec/src/stacks.rs"]
mod stacks;

/// The stand-in for the CUDA runtime.
pub(super) const RUNTIME: &str = "libcudart.so.13";

/// What CMake looks for.
pub(super) const NEEDS: &str = "a C++ compiler and GoogleTest are needed: on Debian and Ubuntu, \
                                `apt-get install g++ libgtest-dev libgmock-dev`";

/// The place above RMM's resources, and what of ours is tested there: the fixture makes each.
const OVER_RMM: &str = "over_rmm";
const UPPER: [&str; 9] = [
    "pool",
    "arena",
    "fixed-size",
    "binning",
    "aligned",
    "limiting",
    "statistics",
    "tracking",
    "thread-safe",
];

/// The values of placeholders in the list of stacks.
const VALUES: [(&str, &str); 2] = [("max", "4GiB"), ("bins", "18..22")];

/// RMM's suites ask for up to 5 MiB, which a resource of small blocks refuses.
const FIXED_SIZE: (&str, &str) = ("fixed-size", "fixed-size(cuda, block=8MiB, blocks=32)");

/// A build with CMake and Ninja.
pub(super) struct Build {
    cmake: PathBuf,
    folder: PathBuf,
    /// Where the libraries are that cargo has built.
    libraries: PathBuf,
    jobs: usize,
}

impl Build {
    /// Builds the libraries that programs run on, and has CMake write its files.
    ///
    /// # Errors
    ///
    /// If something is missing.
    pub(super) fn configure(args: &Args, cpp: Option<&Path>, root: &Path) -> Result<Self> {
        let target = root.join("target");
        let wheels = libraries::wheels(root)?;
        let libraries = target.join("rmm-tests/libraries");
        libraries::build_driver(&libraries)?;
        let folder = match cpp {
            None => target.join("rmm-tests/runtime"),
            // Each checkout has its own.
            Some(cpp) => target.join(format!("rmm-tests/cpp{}", cpp.display())),
        };
        let build = Self { cmake: wheels.join(CMAKE), folder, libraries, jobs: args.jobs() };
        let mut command = build.command();
        command.arg("-S").arg(root.join("xtask/rmm-tests")).arg("-B").arg(&build.folder);
        let define = |name: &str, value: &Path| format!("-D{name}={}", value.display());
        command.args(["-G", "Ninja"]).arg(define("CMAKE_MAKE_PROGRAM", &wheels.join(NINJA)));
        // CMake itself looks at the variable in a new folder only.
        let flags = env::var("CXXFLAGS").unwrap_or_default();
        command.arg(format!("-DCMAKE_CXX_FLAGS={flags}"));
        command.args([define("WHEELS", &wheels), define("LIBRARIES", &build.libraries)]);
        if let Some(cpp) = cpp {
            libraries::build_c_interface(&build.libraries)?;
            command.arg(define("RMM_CPP", cpp));
            command.arg(define("RMM_RS_INCLUDE", &root.join("crates/rmm-capi/include")));
            let per_thread = if args.per_thread_default_stream { PER_THREAD } else { "" };
            command.arg(format!("-DRMM_RS_DEFINITIONS={per_thread}"));
        }
        command::run(&mut command).context(format_args!("CMake; {NEEDS}"))?;
        Ok(build)
    }

    fn command(&self) -> Command {
        Command::new(&self.cmake)
    }

    /// Builds targets, as many as it can. Returns what was printed for each that does not build.
    ///
    /// # Errors
    ///
    /// If CMake cannot be started.
    pub(super) fn make(&self, targets: &[&str]) -> Result<Vec<(String, String)>> {
        let build = |targets: &[&str]| {
            let mut command = self.command();
            command.arg("--build").arg(&self.folder).arg("--parallel").arg(self.jobs.to_string());
            command.arg("--target").args(targets);
            command
        };
        let mut all = build(targets);
        all.args(["--", "-k", "0"]);
        if all.status().with_command(&all)?.success() {
            return Ok(Vec::new());
        }
        let mut broken = Vec::new();
        for target in targets {
            let mut one = build(&[target]);
            let output = one.output().with_command(&one)?;
            if !output.status.success() {
                let text = String::from_utf8_lossy(&output.stdout);
                // Explains most of the others.
                let is_error = |line: &&str| {
                    [" error: ", "undefined reference"].iter().any(|word| line.contains(word))
                };
                let first = text.lines().find(is_error).unwrap_or("it does not build");
                broken.push(((*target).to_owned(), format!("{first}\n\n{text}")));
            }
        }
        Ok(broken)
    }

    /// Where a program or library is.
    pub(super) fn output(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }
}

/// The macro that programs with a default stream for each thread are compiled with.
const PER_THREAD: &str = "CUDA_API_PER_THREAD_DEFAULT_STREAM";

/// A program, and its runs.
struct Program<'a> {
    name: String,
    target: &'a str,
    jobs: Vec<Job>,
}

/// Builds and runs the tests of a checkout.
///
/// # Errors
///
/// If something is missing that the tests need.
pub(super) fn run(checkout: &Path, args: &Args, root: &Path) -> Result<Vec<Row>> {
    let build = Build::configure(args, Some(&cpp_of(checkout)?), root)?;
    let (mut rows, mut programs) = (Vec::new(), Vec::new());
    let list = build.output("programs.txt");
    let text = fs::read_to_string(&list).context(list.display())?;
    for line in text.lines() {
        let mut words = line.splitn(3, ' ');
        let mut word = || words.next().context(format_args!("{}: {line}", list.display()));
        let (name, target, about) = (word()?, word()?, word()?);
        if name.starts_with("rmm/") && name.contains("_PTDS_") != args.per_thread_default_stream {
            continue;
        }
        let jobs = |gpus| jobs_of(&build, (name, target), gpus, args);
        match about.parse().map(jobs) {
            Ok(jobs) if jobs.is_empty() => {}
            Ok(jobs) => programs.push(Program { name: name.to_owned(), target, jobs }),
            Err(_) if !args.wants(name) => {}
            Err(_) => {
                let case = Case::skipped("(program)", &format!("{about} needs nvcc"));
                rows.push(Row::of(name.to_owned(), case));
            }
        }
    }
    if programs.is_empty() {
        return Err("the checkout has no such test program".into());
    }
    let targets: Vec<&str> = programs.iter().map(|program| program.target).collect();
    for (target, text) in build.make(&targets)? {
        for broken in programs.extract_if(.., |program| program.target == target) {
            rows.push(Row::of(broken.name, Case::failed("(build)", &text)));
        }
    }
    let jobs: Vec<Job> = programs.into_iter().flat_map(|program| program.jobs).collect();
    rows.extend(run_jobs(&jobs, args.jobs(), &build.output("runs")));
    Ok(rows)
}

/// The folder `cpp` of a checkout, given either.
fn cpp_of(checkout: &Path) -> Result<PathBuf> {
    let candidates = [checkout.join("cpp"), checkout.to_path_buf()];
    let found = candidates.iter().find(|folder| folder.join("tests/CMakeLists.txt").is_file());
    let found = found.context(format_args!(
        "{}: no checkout of RMM: there is no `cpp/tests/CMakeLists.txt`",
        checkout.display()
    ))?;
    fs::canonicalize(found).context(found.display())
}

/// The runs of a program that are wanted: of RMM's own one, of ours one for each resource that is
/// tested in its place of a stack.
fn jobs_of(build: &Build, (name, target): (&str, &str), gpus: u32, args: &Args) -> Vec<Job> {
    let job = |name: String| Job {
        name,
        framework: Framework::GoogleTest,
        program: build.output("gtests").join(target),
        arguments: Vec::new(),
        file: None,
        environment: libraries::environment(&build.libraries, gpus),
        limit: args.limit.unwrap_or(LIMIT),
    };
    let mut jobs: Vec<Job> = match name.strip_prefix("ours/") {
        None => vec![job(name.to_owned())],
        Some(place) => {
            let run = |(resource, variables): (&str, Vec<(&'static str, String)>)| {
                let mut job = job(format!("{name}/{resource}"));
                job.environment.extend(variables);
                job
            };
            tested_in(place).into_iter().map(run).collect()
        }
    };
    jobs.retain(|job| args.wants(&job.name));
    jobs
}

/// The resources that are tested in a place, and the variables that say so to the program.
fn tested_in(place: &str) -> Vec<(&'static str, Vec<(&'static str, String)>)> {
    if place == OVER_RMM {
        let variable = |name: &str| ("RMM_RS_TESTED_OVER", name.to_owned());
        return UPPER.into_iter().map(|name| (name, vec![variable(name)])).collect();
    }
    STACKS
        .iter()
        .map(|stack| {
            let spec = match stack.name {
                name if name == FIXED_SIZE.0 => FIXED_SIZE.1.to_owned(),
                _ => stack.spec_with(&VALUES),
            };
            let mut variables = vec![("RMM_RS_TESTED_RESOURCE", spec)];
            // The stack that lies behind a table of C functions.
            if stack.name == "callback" {
                variables.push(("RMM_RS_TESTED_CALLBACK", "1".to_owned()));
            }
            (stack.name, variables)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    //! What is tested.

    use super::*;

    #[test]
    fn what_is_above_rmm_is_in_the_list_of_stacks() {
        let names: Vec<&str> = tested_in("alone").into_iter().map(|(name, _)| name).collect();
        assert!(UPPER.iter().all(|name| names.contains(name)));
    }
}
