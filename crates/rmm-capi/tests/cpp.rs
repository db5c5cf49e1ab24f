//! The C++ header: compiled by g++ and clang++, with RMM's headers and with CCCL alone, and
//! programs over it, run on the software device.
//!
//! The headers come from NVIDIA's wheels, unpacked in the folder that `RMM_WHEELS` names or in
//! `target/rmm-wheels`, as `pip install --no-deps --target target/rmm-wheels librmm-cu13==26.10.0
//! rapids-logger nvidia-cuda-runtime nvidia-cuda-crt nvidia-cuda-cccl` fills it. Without them, or
//! without a compiler, a test prints what it skips.
#![cfg(target_os = "linux")]

use std::env;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use tempfile::TempDir;

/// What a program is compiled against.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Headers {
    /// CCCL and nothing else but the CUDA runtime, where something of it is called: by CCCL 3.3,
    /// and by containers.
    Cccl,
    /// RMM's, with the CCCL that comes with them; and its library.
    Rmm,
}

#[expect(clippy::print_stderr, reason = "who runs the tests should know what was skipped")]
fn skipped(why: &str) {
    eprintln!("skipped: {why}");
}

fn of_crate(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

/// The source of a program.
fn of_tests(name: &str) -> PathBuf {
    of_crate("tests/cpp").join(name).with_extension("cpp")
}

/// The folder with the wheels' contents.
fn wheels() -> Option<PathBuf> {
    let installed = of_crate("../../target/rmm-wheels");
    let folder = env::var_os("RMM_WHEELS").map_or(installed, PathBuf::from);
    let is_there = folder.join("nvidia/cu13/include/cuda_runtime_api.h").is_file();
    if !is_there {
        skipped(&format!("no CUDA headers in {}; see RMM_WHEELS", folder.display()));
    }
    is_there.then_some(folder)
}

impl Headers {
    /// The folders, in the order of the search, below that of the wheels.
    fn folders(self, wheels: &Path) -> Option<Vec<PathBuf>> {
        let cccl = "nvidia/cu13/include/cccl";
        let has_cccl = wheels.join(cccl).is_dir();
        let folders = match self {
            // RMM's wheel has a copy, which does as well.
            Self::Cccl if has_cccl => vec![cccl, "nvidia/cu13/include"],
            Self::Cccl => vec!["librmm/include/rapids", "nvidia/cu13/include"],
            Self::Rmm => vec![
                "librmm/include/rapids",
                "librmm/include",
                "rapids_logger/include",
                "nvidia/cu13/include",
            ],
        };
        let folders = folders.into_iter().map(|folder| wheels.join(folder)).collect::<Vec<_>>();
        let missing = folders.iter().find(|folder| !folder.is_dir());
        if let Some(missing) = missing {
            skipped(&format!("{self:?} headers: no {}", missing.display()));
        }
        missing.is_none().then_some(folders)
    }
}

/// The newest of a compiler's programs on this machine.
fn compiler(name: &str) -> Option<String> {
    let newest_first = (14..=30).rev().map(|version| format!("{name}-{version}"));
    let mut programs = newest_first.chain([name.to_owned()]);
    let found = programs.find(|program| Command::new(program).arg("--version").output().is_ok());
    if found.is_none() {
        skipped(&format!("no {name} here"));
    }
    found
}

/// Whether the compiler accepts an attribute before the name of a namespace, as RMM's headers have
/// it. Clang does from version 16 on.
fn parses_rmm(compiler: &str, folder: &Path) -> bool {
    let source = folder.join("attribute.cpp");
    let attribute = "namespace __attribute__((visibility(\"default\"))) a {}\n";
    fs::write(&source, attribute).expect("the folder is writable");
    let mut command = Command::new(compiler);
    let output = command.arg("-fsyntax-only").arg(source).output().expect("the compiler starts");
    if !output.status.success() {
        skipped(&format!("{compiler} cannot parse RMM's headers"));
    }
    output.status.success()
}

/// A compiler with headers, and a folder for what it makes.
struct Toolchain {
    compiler: String,
    headers: Headers,
    wheels: PathBuf,
    folder: TempDir,
}

impl Toolchain {
    fn find(name: &str, headers: Headers) -> Option<Self> {
        let wheels = wheels()?;
        headers.folders(&wheels)?;
        let compiler = compiler(name)?;
        let folder = tempfile::tempdir().expect("a folder can be made");
        if headers == Headers::Rmm && !parses_rmm(&compiler, folder.path()) {
            return None;
        }
        Some(Self { compiler, headers, wheels, folder })
    }

    /// The compiler on a file.
    fn compile(&self, source: &Path, standard: &str) -> Command {
        let mut command = Command::new(&self.compiler);
        command.args(["-Wall", "-Wextra", "-Wpedantic", "-Werror", standard, "-I"]);
        command.arg(of_crate("include"));
        for folder in self.headers.folders(&self.wheels).expect("it was found before") {
            command.arg("-isystem").arg(folder);
        }
        command.arg(source);
        command
    }

    /// Where the libraries of the wheels are, if they are linked.
    fn libraries(&self) -> Vec<PathBuf> {
        let folders: &[&str] = match self.headers {
            Headers::Cccl => &["nvidia/cu13/lib"],
            Headers::Rmm => &["librmm/lib64", "rapids_logger/lib64"],
        };
        folders.iter().map(|folder| self.wheels.join(folder)).collect()
    }

    /// Compiles and links a program.
    fn build(&self, source: &Path) -> PathBuf {
        self.build_with(source, None)
    }

    /// The same with another library, which comes first.
    fn build_with(&self, source: &Path, library: Option<&Path>) -> PathBuf {
        let folder = self.folder.path();
        for library in ["librmm_rs.so", "librmm_rs.so.1"] {
            symlink(built("librmm_rs.so"), folder.join(library)).expect("the folder is writable");
        }
        for library in ["libcuda.so", "libcuda.so.1"] {
            let driver = built("librmm_sim_driver.so");
            symlink(driver, folder.join(library)).expect("the folder is writable");
        }
        let program = folder.join(source.file_stem().expect("it is a file"));
        let mut command = self.compile(source, "-std=c++20");
        command.arg("-o").arg(&program).args(library).arg("-L").arg(folder);
        command.args(["-pthread", "-lrmm_rs", "-lcuda"]);
        for library in self.libraries() {
            command.arg("-L").arg(library);
        }
        match self.headers {
            Headers::Cccl => command.args(["-Wl,--as-needed", "-l:libcudart.so.13"]),
            // librmm's own search path does not lead to its logger.
            Headers::Rmm => command.args(["-Wl,--no-as-needed", "-lrmm", "-lrapids_logger"]),
        };
        succeed(command);
        program
    }

    /// The program on the software device, which writes a report.
    fn run(&self, program: &Path) -> (Output, String) {
        let reports = self.folder.path().join("reports");
        fs::create_dir_all(&reports).expect("the folder is writable");
        let mut folders = vec![self.folder.path().to_path_buf()];
        folders.extend(self.libraries());
        let mut command = Command::new(program);
        command.env("LD_LIBRARY_PATH", env::join_paths(folders).expect("no colons"));
        command.env("RMM_SIM_REPORT", &reports).env_remove("RMM_CUDA_LIBRARY");
        command.env_remove("RMM_DRIVER").env_remove("RMM_RESOURCE");
        let child = command.stdout(std::process::Stdio::piped());
        let child = child.stderr(std::process::Stdio::piped()).spawn().expect("it starts");
        let report = reports.join(format!("{}.txt", child.id()));
        let output = child.wait_with_output().expect("it ends");
        (output, fs::read_to_string(report).unwrap_or_default())
    }
}

/// The library of this build, which cargo puts beside the tests or one folder up.
fn built(name: &str) -> PathBuf {
    let this = env::current_exe().expect("the test is a program");
    let deps = this.parent().expect("it is in a folder");
    let profile = deps.parent().expect("it is in a folder of the profile");
    let mut found = [deps.join(name), profile.join(name)].into_iter();
    found.find(|path| path.exists()).unwrap_or_else(|| panic!("cargo built {name}"))
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn succeed(mut command: Command) {
    let output = command.output().expect("the compiler starts");
    assert!(output.status.success(), "{command:?}\n{}", text(&output.stderr));
}

/// Compiles a program of the tests and runs it: no test of it fails, and the device saw no use of
/// memory out of order and has nothing left.
fn passes(name: &str, compiler: &str, headers: Headers) {
    let Some(toolchain) = Toolchain::find(compiler, headers) else { return };
    let program = toolchain.build(&of_tests(name));
    let (output, report) = toolchain.run(&program);
    let (printed, errors) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.success(), "{:?}\n{printed}\n{errors}", output.status);
    assert_eq!(errors, "");
    assert!(printed.trim_end().ends_with(" tests, 0 failures"), "{printed}");
    assert_clean(&report);
}

/// The device's report is whole and has no findings.
fn assert_clean(report: &str) {
    assert!(report.ends_with("end\n"), "no report: {report}");
    let findings = report.lines().filter(|line| !line.starts_with("calls ") && *line != "end");
    assert_eq!(findings.collect::<Vec<_>>(), Vec::<&str>::new());
}

/// The static assertions hold, in each standard.
fn concepts_hold(compiler: &str, headers: Headers) {
    let Some(toolchain) = Toolchain::find(compiler, headers) else { return };
    for standard in ["-std=c++20", "-std=c++2b"] {
        let mut command = toolchain.compile(&of_tests("concepts"), standard);
        command.arg("-fsyntax-only");
        succeed(command);
    }
}

#[test]
fn gcc_accepts_the_types_with_cccl_alone() {
    concepts_hold("g++", Headers::Cccl);
}

#[test]
fn gcc_accepts_the_types_with_rmm() {
    concepts_hold("g++", Headers::Rmm);
}

#[test]
fn clang_accepts_the_types_with_cccl_alone() {
    concepts_hold("clang++", Headers::Cccl);
}

#[test]
fn clang_accepts_the_types_with_rmm() {
    concepts_hold("clang++", Headers::Rmm);
}

#[test]
fn an_older_standard_is_refused_with_a_reason() {
    let Some(toolchain) = Toolchain::find("g++", Headers::Cccl) else { return };
    let mut command = toolchain.compile(&of_tests("concepts"), "-std=c++17");
    let output = command.arg("-fsyntax-only").output().expect("the compiler starts");
    assert!(!output.status.success());
    let errors = text(&output.stderr);
    assert!(errors.contains("rmm_rs.hpp needs C++20"), "{errors}");
}

#[test]
fn resources_work_with_cccl_alone() {
    passes("resources", "g++", Headers::Cccl);
}

#[test]
fn resources_work_when_clang_compiled_them() {
    passes("resources", "clang++", Headers::Cccl);
}

#[test]
fn buffers_of_cccl_allocate_from_resources() {
    passes("buffers", "g++", Headers::Cccl);
}

#[test]
fn policies_of_thrust_take_memory_from_resources() {
    let source = fs::read_to_string(of_tests("thrust")).expect("it is there");
    let guide = fs::read_to_string(of_crate("../../docs/cpp.md")).expect("the guide is there");
    let printed = guide.split_once("## Thrust\n").and_then(|(_, rest)| rest.split("```").nth(1));
    let printed = printed.and_then(|block| block.strip_prefix("cpp\n")).expect("a block");
    assert!(source.contains(printed), "docs/cpp.md prints another class than tests/cpp/thrust.cpp");
    passes("thrust", "g++", Headers::Cccl);
    passes("thrust", "clang++", Headers::Cccl);
}

#[test]
fn resources_have_what_rmm_s_classes_have() {
    passes("classes", "g++", Headers::Cccl);
}

#[test]
fn resources_have_what_rmm_s_classes_have_with_rmm() {
    passes("classes", "g++", Headers::Rmm);
}

#[test]
fn errors_are_standard_exceptions_with_cccl_alone() {
    passes("errors", "g++", Headers::Cccl);
}

#[test]
fn errors_are_exceptions_of_rmm() {
    passes("errors", "g++", Headers::Rmm);
}

#[test]
fn cpp_resources_are_upstreams_with_cccl_alone() {
    passes("upstream", "g++", Headers::Cccl);
}

#[test]
fn cpp_resources_are_upstreams_with_rmm() {
    passes("upstream", "g++", Headers::Rmm);
}

#[test]
fn pools_do_with_their_memory_as_they_are_told() {
    passes("held", "g++", Headers::Cccl);
}

#[test]
fn a_watcher_sees_what_it_is_told() {
    passes("watch", "g++", Headers::Cccl);
}

#[test]
fn a_profiler_gets_counters() {
    // The headers of NVTX come with RMM's.
    passes("nvtx", "g++", Headers::Rmm);
}

#[test]
fn streams_are_known_as_they_say() {
    passes("streams", "g++", Headers::Cccl);
}

#[test]
fn threads_share_handles() {
    passes("threads", "g++", Headers::Cccl);
}

#[test]
fn rmm_adaptors_stand_above_and_below() {
    passes("rmm", "g++", Headers::Rmm);
}

#[test]
fn rmm_adaptors_stand_above_and_below_when_clang_compiled_them() {
    passes("rmm", "clang++", Headers::Rmm);
}

/// The blocks of C++ of a page.
fn blocks_of(page: &str) -> Vec<String> {
    let text = fs::read_to_string(of_crate("../../docs").join(page)).expect("the page is there");
    let blocks = text.split("```cpp\n").skip(1).filter_map(|rest| rest.split_once("```"));
    blocks.map(|(block, _)| block.to_owned()).collect()
}

/// Builds and runs a program of a page: it prints something, no error, and the device saw none.
fn runs(toolchain: &Toolchain, program: &str, library: Option<&Path>) {
    let source = toolchain.folder.path().join("guide.cpp");
    fs::write(&source, program).expect("the folder is writable");
    let program = toolchain.build_with(&source, library);
    let (output, report) = toolchain.run(&program);
    let (printed, errors) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.success(), "{:?}\n{printed}\n{errors}", output.status);
    assert!(!printed.is_empty() && errors.is_empty(), "{printed}\n{errors}");
    assert_clean(&report);
}

#[test]
fn the_programs_of_the_guide_run() {
    let mut programs = blocks_of("cpp.md");
    programs.retain(|block| block.contains("int main()"));
    assert_eq!(programs.len(), 3);
    let first = fs::read_to_string(of_tests("first")).expect("it is there");
    assert_eq!(programs[0], first, "docs/cpp.md prints another program than tests/cpp/first.cpp");
    for program in programs {
        // Those with RMM's containers need the CUDA runtime: they are compiled only.
        let uses_rmm = program.contains("#include <rmm/");
        let headers = if uses_rmm { Headers::Rmm } else { Headers::Cccl };
        let Some(toolchain) = Toolchain::find("g++", headers) else { continue };
        if !uses_rmm {
            runs(&toolchain, &program, None);
            continue;
        }
        let source = toolchain.folder.path().join("guide.cpp");
        fs::write(&source, program).expect("the folder is writable");
        let mut command = toolchain.compile(&source, "-std=c++20");
        command.arg("-fsyntax-only");
        succeed(command);
    }
}

#[test]
fn the_guides_lines_about_pools_run() {
    let Some(toolchain) = Toolchain::find("g++", Headers::Cccl) else { return };
    let blocks = blocks_of("cpp.md");
    let lines = blocks.iter().find(|block| block.contains("pool_sleep")).expect("it is there");
    let program = format!(
        "#include <rmm_rs.hpp>\n#include <cstdio>\nusing rmm_rs::device_resource;\n\
         static struct {{ bool free(std::uint64_t) {{ return false; }} }} cache;\n\
         int main() {{\n{lines}\n\
         reserved.deallocate_sync(reserved.allocate_sync(1 << 30), 1 << 30);\n\
         (void)spill; std::puts(\"done\"); }}\n"
    );
    runs(&toolchain, &program, None);
}

#[test]
fn the_program_with_a_graph_runs() {
    let Some(toolchain) = Toolchain::find("g++", Headers::Cccl) else { return };
    let programs = blocks_of("cuda-graphs.md");
    let [program] = programs.as_slice() else { panic!("{programs:?}") };
    // NVIDIA's runtime does not start on the software device, so another one is linked first.
    let library = toolchain.folder.path().join("libruntime.so");
    let files = fs::read_dir(of_crate("../../xtask/rmm-tests/cudart")).expect("it is there");
    let mut sources = files.map(|file| file.expect("it is a file").path()).collect::<Vec<_>>();
    sources.retain(|path| path.extension().is_some_and(|end| end == "cpp"));
    let mut command = Command::new(&toolchain.compiler);
    command.args(["-std=c++20", "-w", "-shared", "-fPIC", "-o"]).arg(&library).args(sources);
    for folder in toolchain.headers.folders(&toolchain.wheels).expect("it was found before") {
        command.arg("-isystem").arg(folder);
    }
    succeed(command);
    runs(&toolchain, program, Some(&library));
}

#[test]
fn the_programs_for_a_gpu_compile() {
    let Some(toolchain) = Toolchain::find("g++", Headers::Rmm) else { return };
    for name in ["checks", "exit", "prices"] {
        let source = of_crate("tests/gpu").join(name).with_extension("cpp");
        let mut command = toolchain.compile(&source, "-std=c++20");
        command.arg("-fsyntax-only");
        succeed(command);
    }
}

#[test]
fn a_process_may_end_while_everything_is_in_use() {
    let Some(toolchain) = Toolchain::find("g++", Headers::Cccl) else { return };
    let program = toolchain.build(&of_tests("exit"));
    for _ in 0..20 {
        let (output, _report) = toolchain.run(&program);
        let (printed, errors) = (text(&output.stdout), text(&output.stderr));
        assert_eq!(output.status.code(), Some(0), "{:?} {errors}", output.status);
        assert_eq!((printed.as_str(), errors.as_str()), ("end of main\n", ""));
    }
}
