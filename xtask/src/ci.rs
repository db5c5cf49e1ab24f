//! `cargo xtask ci`: all that continuous integration runs for every change, at a desk; with `--all`
//! also what it runs once a week.
//!
//! Everything but the models of locks shares one target folder, and no other step changes a profile
//! or the flags of the whole build: what one step compiled, the next finds.

use std::path::Path;
use std::process::Command;
use std::{env, fs};

use crate::command::{cargo, workspace_root};
use crate::error::{Context as _, Result};
use crate::metadata::{self, Workspace as _};
use crate::steps::{Part, Steps};
use crate::test::Extent;
use crate::{browser, deny, python, readme, rmm_tests, test, tidy};

/// Packages outside the default members, and the command that is enough for each: the first
/// consists of assertions that the compiler checks, the second needs a C++ compiler, and two need
/// cudarc, whose build the first has paid for: tests with the newest one, and a program of cudarc's
/// on a library that is loaded in the driver's place. The last has the types that gdb prints: one
/// package with them takes seconds.
///
/// The C interface keeps its tables for the process: a reset that one test asks for reaches the
/// streams of all, so its tests run one at a time.
const APART: [(&str, &[&str]); 5] = [
    ("rmm-sys-oracle", &["test", "-p", "rmm-sys-oracle"]),
    ("rmm-capi", &["test", "-p", "rmm-capi", "--", "--test-threads=1"]),
    ("rmm-interop-cudarc", &["test", "-p", "rmm-interop-cudarc", "--features", "checked-alone"]),
    ("rmm-preload", &["test", "-p", "rmm-preload"]),
    ("rmm-containers", &["test", "-p", "rmm-containers", "--test", "debugger", "--config", TYPES]),
];

/// Full debug information of the package that gdb's printers are tested with.
const TYPES: &str = "profile.dev.package.rmm-containers.debug='full'";

/// Packages that clippy cannot check with the others: the first cannot be linked where there is no
/// CUDA, and the second needs its headers.
const APART_FROM_CLIPPY: [&str; 2] = ["rmm-interop-cuda-sys", CUDA_CORE];

/// Its build reads the headers of CUDA 13, by way of libclang.
const CUDA_CORE: &str = "rmm-interop-cuda-core";

/// Options of `cargo xtask ci`.
// The flattened options bring a group of the same name.
#[derive(Debug, clap::Args)]
#[group(skip)]
pub(crate) struct Args {
    #[command(flatten)]
    test: test::Args,
    /// Run one part of the steps, as each job of continuous integration does
    #[arg(long, value_name = "PART")]
    only: Option<Part>,
}

/// Runs all steps.
///
/// # Errors
///
/// If any step failed.
pub(crate) fn run(args: &Args) -> Result<()> {
    let root = workspace_root()?;
    let metadata = metadata::read()?;
    let extent = if args.test.all { Extent::All } else { Extent::Ci };
    let mut steps = Steps::of(args.only);
    steps.run("formatting", cargo().args(["fmt", "--all", "--", "--check"]));
    steps.check("tidy", || tidy::check(&root));
    let mut clippy = cargo();
    clippy.args(["clippy", "--workspace", "--all-targets", "--all-features"]);
    clippy.args(APART_FROM_CLIPPY.iter().flat_map(|package| ["--exclude", *package]));
    // The extension module needs no interpreter to compile.
    clippy.env("PYO3_NO_PYTHON", "1");
    steps.run("clippy", clippy.args(["--", "-D", "warnings"]));
    steps.run("check rmm-interop-cuda-sys", cargo().args(["check", "-p", "rmm-interop-cuda-sys"]));
    steps.check("dependencies", || deny::check(&root));
    // Before the packages apart: their tests in C++ find the wheels that this installs.
    let without_rmm_tests =
        if steps.takes("rmm-tests, C++") { rmm_tests::missing(&root) } else { None };
    for (package, command) in APART {
        let name = command.join(" ");
        match metadata.member(package) {
            Some(_) => steps.run(name, cargo().args(command)),
            None => steps.skip(name, "there is no such package"),
        }
    }
    add_cuda_core(&mut steps);
    add_dynamo(&root, &mut steps);
    add_python(&mut steps, extent);
    let without_browser = if steps.takes("browser") { browser::missing() } else { None };
    match without_browser {
        Some(why) => steps.skip("browser", why),
        None => steps.check("browser", || browser::run(&root)),
    }
    test::add_steps(&args.test, extent, &mut steps)?;
    steps.run(
        "documentation",
        cargo().args(["doc", "--no-deps", "--all-features"]).env("RUSTDOCFLAGS", "-Dwarnings"),
    );
    add_readme_steps(&root, &mut steps);
    if extent == Extent::All {
        add_models(&mut steps, &root);
        add_rmm_tests(&mut steps, &root, without_rmm_tests);
        // Builds each package from what a registry would get. Needs the registry's index.
        let mut publish = cargo();
        publish.args(["publish", "--workspace", "--dry-run", "--allow-dirty"]);
        publish.args(["--features", "rmm-interop-cudarc/checked-alone"]);
        if !has_cuda_headers() {
            publish.args(["--exclude", CUDA_CORE]);
        }
        steps.run("publish, dry run", &mut publish);
    }
    steps.finish()
}

/// Tests the Python package where there is an interpreter.
fn add_python(steps: &mut Steps, extent: Extent) {
    if let Some(why) = python::missing() {
        return steps.skip("python", why);
    }
    let args = match extent {
        Extent::All => python::Args::for_release(),
        Extent::Quick | Extent::Ci => python::Args::for_change(),
    };
    steps.check("python", || python::run(&args));
}

/// Explores every interleaving of a few threads, in a build for it alone.
fn add_models(steps: &mut Steps, root: &Path) {
    let mut models = cargo();
    models.args(["test", "-p", "rmm-adaptors", "-p", "rmm-core", "--lib", "models"]);
    models.env("RUSTFLAGS", "--cfg rmm_loom").env("CARGO_TARGET_DIR", root.join("target/loom"));
    steps.run("models of locks", &mut models);
}

/// Runs the programs that run RMM's tests, over a checkout of our own.
fn add_rmm_tests(steps: &mut Steps, root: &Path, missing: Option<String>) {
    let args = rmm_tests::Args::default();
    match missing {
        Some(why) => steps.skip("rmm-tests, C++", why),
        None => steps.check("rmm-tests, C++", || rmm_tests::run_sample(&args, root)),
    }
    match python::missing() {
        Some(why) => steps.skip("rmm-tests, Python", why),
        None => steps.check("rmm-tests, Python", || rmm_tests::run_python_sample(&args, root)),
    }
}

/// Checks the crate for NVIDIA's `cuda-core`, where it can be built.
fn add_cuda_core(steps: &mut Steps) {
    let test = format!("test {CUDA_CORE}");
    if !has_cuda_headers() {
        steps.skip(test, "no headers of CUDA 13 below $CUDA_TOOLKIT_PATH or $CUDA_HOME");
        return;
    }
    let clippy = ["clippy", "-p", CUDA_CORE, "--all-targets", "--", "-D", "warnings"];
    steps.run(format!("clippy {CUDA_CORE}"), cargo().args(clippy));
    steps.run(test, cargo().args(["test", "-p", CUDA_CORE]));
}

/// Tests the crate for NVIDIA's Dynamo, a workspace of its own, where bindgen finds libclang.
fn add_dynamo(root: &Path, steps: &mut Steps) {
    let test = "test rmm-interop-dynamo";
    if env::var_os("LIBCLANG_PATH").is_none() {
        return steps.skip(test, "no LIBCLANG_PATH");
    }
    let mut command = cargo();
    command.args(["test", "--locked", "--manifest-path"]);
    steps.run(test, command.arg(root.join("crates/rmm-interop-dynamo/Cargo.toml")));
}

/// Whether the headers of CUDA 13 are where `cuda-core` looks for them. NVIDIA's wheels hold them.
fn has_cuda_headers() -> bool {
    ["CUDA_TOOLKIT_PATH", "CUDA_HOME"]
        .into_iter()
        .filter_map(env::var_os)
        .any(|path| Path::new(&path).join("include/cuda.h").is_file())
}

/// Runs the commands of README.md, other than the tests, which have run by now. The pages for each
/// language begin with lines of it.
fn add_readme_steps(root: &Path, steps: &mut Steps) {
    let mut commands = Vec::new();
    steps.check("README.md", || {
        let text = fs::read_to_string(root.join("README.md")).context("README.md")?;
        commands = readme::commands(&text);
        Ok(())
    });
    commands.retain(|command| command.text != readme::TESTS);
    // With the environment that the Python package was tested in.
    let python = python::folder_of_programs(root);
    let path = env::var_os("PATH").unwrap_or_default();
    let path = env::join_paths(python.iter().cloned().chain(env::split_paths(&path)));
    let has_cpp = Command::new("g++").arg("--version").output().is_ok();
    for command in commands {
        let name = format!("README.md:{}", command.line);
        let is_of = |words: &[&str]| words.iter().any(|word| command.text.contains(word));
        if !has_cpp && is_of(&["g++", "nvidia-cuda", "first_cpp"]) {
            steps.skip(name, "there is no g++");
        } else if python.is_none() && is_of(&["pip install", "python -c"]) {
            steps.skip(name, "there is no environment of the Python package");
        } else if command.text.starts_with("pip install ./python") {
            steps.skip(name, "the step `python` has installed the wheel");
        } else {
            // Exactly as a person types it, by a shell, from the top folder.
            let mut shell = Command::new("sh");
            shell.args(["-c", &command.text]).current_dir(root);
            shell.envs(path.as_ref().ok().map(|path| ("PATH", path)));
            steps.run(name, &mut shell);
        }
    }
}
