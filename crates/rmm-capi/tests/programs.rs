//! Programs in C and C++, on the software device: they are skipped where there is no compiler.
#![cfg(target_os = "linux")]

use std::fs;
use std::io::{BufRead, BufReader, Read as _, Write as _};
use std::os::unix::fs::symlink;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Output, Stdio};

/// The folder of this build, in which cargo puts libraries.
fn built(name: &str) -> PathBuf {
    let this = std::env::current_exe().expect("the test is a program");
    let deps = this.parent().expect("it is in a folder");
    let profile = deps.parent().expect("it is in a folder of the profile");
    let mut found = [deps.join(name), profile.join(name)].into_iter();
    found.find(|path| path.exists()).unwrap_or_else(|| panic!("cargo built {name}"))
}

fn of_crate(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

/// A folder with the library under the names by which programs find it.
fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a folder can be made");
    for name in ["librmm_rs.so", "librmm_rs.so.1"] {
        symlink(built("librmm_rs.so"), folder.path().join(name)).expect("the folder is writable");
    }
    folder
}

/// Whether a program is there.
#[expect(clippy::print_stderr, reason = "who runs the tests should know what was skipped")]
fn has(program: &str) -> bool {
    let there = Command::new(program).arg("--version").output().is_ok();
    if !there {
        eprintln!("skipped: no `{program}` here");
    }
    there
}

fn compile(compiler: &str, options: &[&str], source: &str, folder: &Path) -> Option<PathBuf> {
    if !has(compiler) {
        return None;
    }
    let source = of_crate("tests/c").join(source);
    let program = folder.join(source.file_stem().expect("it has a name"));
    let mut command = Command::new(compiler);
    command.args(["-Wall", "-Wextra", "-Werror", "-pedantic"]).args(options).arg("-I");
    command.arg(of_crate("include")).arg(&source).arg("-o").arg(&program);
    command.arg("-L").arg(folder).args(["-lrmm_rs", "-ldl", "-lpthread"]);
    let output = command.output().expect("the compiler starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Some(program)
}

fn command(program: &Path, folder: &Path) -> Command {
    let mut command = Command::new(program);
    command.env("LD_LIBRARY_PATH", folder).env("RMM_CUDA_LIBRARY", built("librmm_sim_driver.so"));
    command.env_remove("RMM_DRIVER").env_remove("RMM_RESOURCE");
    command
}

/// The functions that the header declares: names before a parenthesis.
fn functions_of_the_header() -> Vec<String> {
    let header =
        std::fs::read_to_string(of_crate("include/rmm_rs.h")).expect("the header is there");
    let declarations = header.lines().filter(|line| !line.starts_with([' ', '/', '#']));
    let before = declarations.filter_map(|line| line.split_once('(').map(|(before, _)| before));
    let names = before.filter_map(|before| before.rsplit([' ', '*']).next());
    names.filter(|name| name.starts_with("rmm_rs_")).map(str::to_owned).collect()
}

fn printed(output: &Output) -> String {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(output.status.success(), "{:?}: {}", output.status, text(&output.stderr));
    assert_eq!(text(&output.stderr), "");
    text(&output.stdout)
}

#[test]
fn the_first_program_of_the_guide_uses_a_pool_or_says_why_not() {
    let guide = fs::read_to_string(of_crate("../../docs/c.md")).expect("the guide is there");
    let source = fs::read_to_string(of_crate("tests/c/first.c")).expect("it is there");
    let first = guide.split("```c\n").nth(1).and_then(|rest| rest.split("```").next());
    assert_eq!(first, Some(source.as_str()), "docs/c.md prints another program");
    let folder = folder();
    let options = ["-std=c99"];
    let Some(program) = compile("cc", &options, "first.c", folder.path()) else { return };
    let output = command(&program, folder.path()).output().expect("it starts");
    assert_eq!(printed(&output), "the same block, in the order of the stream\n");

    let mut alone = command(&program, folder.path());
    let output = alone.env("RMM_CUDA_LIBRARY", "/no/such/library").output().expect("it starts");
    let text = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{text}");
    for part in ["the pool: ", "/no/such/library", "RMM_CUDA_LIBRARY", "librmm_sim_driver.so"] {
        assert!(text.contains(part), "{part}: {text}");
    }
}

#[test]
fn the_guides_client_frees_by_pointer_alone() {
    let guide = fs::read_to_string(of_crate("../../docs/c.md")).expect("the guide is there");
    let source = fs::read_to_string(of_crate("tests/c/client.c")).expect("it is there");
    assert!(guide.contains(&format!("```c\n{source}```")), "docs/c.md prints another program");
    let folder = folder();
    let Some(program) = compile("cc", &["-std=c99"], "client.c", folder.path()) else { return };
    let output = command(&program, folder.path()).output().expect("it starts");
    assert_eq!(printed(&output), "1024 bytes at most, 0 now\n");
}

/// What the lines of the guide that are no program take from their reader.
const BEFORE: &str = "#include <rmm_rs.h>\n#include <stdio.h>\n\
    static int errors(void *stream, size_t bytes) {\n\
      const rmm_rs_resource *pool;\n  void *memory;\n\
      if (rmm_rs_resource_from_spec(\"pool(cuda, max=1MiB)\", &pool)) return 1;\n";

#[test]
fn the_lines_of_the_guide_run() {
    let guide = fs::read_to_string(of_crate("../../docs/c.md")).expect("the guide is there");
    let blocks = guide.split("```c\n").skip(1).filter_map(|rest| rest.split("```").next());
    let mut lines = blocks.filter(|block| !block.contains("int main("));
    let [error, remedies, pool] = [(); 3].map(|()| lines.next().expect("it is there"));
    assert_eq!(lines.next(), None);
    let program = format!(
        "{BEFORE}{error}{remedies}\
         rmm_rs_resource_release(pool);\n  return rmm_rs_last_error_remedy_count() == 0;\n}}\n\
         int main(void) {{\n  if (errors(NULL, 2 << 20)) return 2;\n{pool}\
         if (rmm_rs_pool_is_asleep(pool)) return 3;\n\
         rmm_rs_resource_release(pool);\n  rmm_rs_resource_release(pages);\n\
         puts(\"done\");\n  return 0;\n}}\n"
    );
    let folder = folder();
    let source = folder.path().join("lines.c");
    fs::write(&source, program).expect("the folder is writable");
    let source = source.to_str().expect("the folder's name is text");
    let Some(program) = compile("cc", &["-std=c99"], source, folder.path()) else { return };
    let output = command(&program, folder.path()).output().expect("it starts");
    assert_eq!(printed(&output), "done\n");
}

#[test]
fn the_guides_recorder_writes_what_was_asked_for() {
    let guide = fs::read_to_string(of_crate("../../docs/c.md")).expect("the guide is there");
    let source = fs::read_to_string(of_crate("tests/c/recorder.c")).expect("it is there");
    assert!(guide.contains(&format!("```c\n{source}```")), "docs/c.md prints another program");
    let folder = folder();
    let options = ["-std=c99", "-g"];
    let Some(program) = compile("cc", &options, "recorder.c", folder.path()) else { return };
    let written = folder.path().join("kept.csv");
    let mut run = command(&program, folder.path());
    let output = run.env_remove("RMM_OOM_REPORT").arg(&written).output().expect("it starts");
    let said = printed(&output);
    assert!(said.starts_with("2 blocks, then: out of memory"), "{said}");
    let log = fs::read_to_string(written).expect("it is there");
    let mut lines = log.lines();
    assert_eq!(lines.next(), Some("Thread,Time,Action,Pointer,Size,Stream,Tag,Site,Device"));
    let rows: Vec<&str> = lines.collect();
    let of = |action: &str| rows.iter().filter(|row| row.contains(action)).count();
    assert_eq!(of(",allocate,"), 2, "{log}");
    assert_eq!(of(",allocate failure,(nil),400000,"), 1, "{log}");
    assert!(rows[0].contains("main"), "{log}");
}

#[test]
fn the_header_is_cpp_too() {
    let folder = folder();
    let options = ["-x", "c++", "-std=c++17"];
    let Some(program) = compile("c++", &options, "first.c", folder.path()) else { return };
    let output = command(&program, folder.path()).output().expect("it starts");
    assert!(printed(&output).contains("the same block"));
}

#[test]
fn valgrind_finds_no_leak_and_no_wrong_access() {
    let folder = folder();
    let Some(program) = compile("cc", &["-std=c99", "-g"], "first.c", folder.path()) else {
        return;
    };
    if !has("valgrind") {
        return;
    }
    let mut under = command(Path::new("valgrind"), folder.path());
    // Leaks that are only possible are those of the loader.
    under.args(["--quiet", "--leak-check=full", "--show-leak-kinds=definite,indirect"]);
    under.args(["--errors-for-leak-kinds=definite,indirect"]).env("RMM_SIM_MEMORY", "268435456");
    let output = under.args(["--error-exitcode=9"]).arg(&program).output().expect("it starts");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{:?}\n{errors}", output.status);
}

#[test]
fn a_process_ends_with_everything_left_open() {
    let folder = folder();
    let Some(program) = compile("cc", &["-std=c99"], "exit.c", folder.path()) else { return };
    for _ in 0..8 {
        let output = command(&program, folder.path()).output().expect("it starts");
        assert_eq!(printed(&output), "done\n");
    }
}

#[test]
fn no_function_waits_in_the_child_of_a_fork() {
    let folder = folder();
    let source = std::fs::read_to_string(of_crate("tests/c/fork.cpp")).expect("it is there");
    for name in functions_of_the_header() {
        assert!(source.contains(&format!("{name}(")), "{name} is not called");
    }
    let options = ["-std=c++17", "-Wno-pedantic"];
    let Some(program) = compile("c++", &options, "fork.cpp", folder.path()) else { return };
    let output = command(&program, folder.path()).output().expect("it starts");
    assert_eq!(printed(&output), "");
}

#[test]
fn pytorch_gets_an_exception_and_keeps_recorded_memory() {
    let folder = folder();
    let Some(program) = compile("c++", &["-std=c++17"], "torch.cpp", folder.path()) else { return };
    let mut run = command(&program, folder.path());
    let output = run.arg(folder.path().join("librmm_rs.so.1")).output().expect("it starts");
    let expected = "a recorded block is not reused at once\n\
                    std::bad_alloc: out_of_memory: out of memory:\n\
                    the memory fraction holds\n\
                    std::bad_alloc:\n\
                    done\n";
    assert_eq!(printed(&output), expected);
}

#[test]
fn pytorch_never_gets_another_resource_than_it_was_told() {
    let folder = folder();
    let Some(program) = compile("c++", &["-std=c++17"], "torch.cpp", folder.path()) else { return };
    let mut run = command(&program, folder.path());
    let too_much = run.env("RMM_RESOURCE", "pool(cuda, initial=1TiB)");
    let library = folder.path().join("librmm_rs.so.1");
    let output = too_much.arg(library).arg("unusable").output().expect("it starts");
    assert_eq!(printed(&output), "std::bad_alloc:\nstd::bad_alloc:\n");
}

#[test]
fn onnx_runtime_frees_with_and_without_a_stream() {
    let folder = folder();
    let Some(program) = compile("cc", &["-std=gnu99", "-Wno-pedantic"], "ort.c", folder.path())
    else {
        return;
    };
    for bound in ["bound", "unbound"] {
        let output = command(&program, folder.path()).arg(&bound[..1]).output().expect("it starts");
        assert_eq!(printed(&output), "0 bytes are left\n", "{bound}");
    }
}

#[test]
fn a_resource_goes_to_another_copy_of_the_library_and_back() {
    let folder = folder();
    let options = ["-std=gnu99", "-Wno-pedantic"];
    let Some(program) = compile("cc", &options, "two_copies.c", folder.path()) else { return };
    let copy = folder.path().join("another.so");
    std::fs::copy(built("librmm_rs.so"), &copy).expect("the folder is writable");
    let output = command(&program, folder.path()).arg(copy).output().expect("it starts");
    let expected = "1 allocation for the other copy's pool\n\
                    what comes back is the same\n\
                    0 bytes live\n";
    assert_eq!(printed(&output), expected);
}

#[test]
fn the_library_exports_its_own_symbols_only() {
    if !has("nm") {
        return;
    }
    let mut nm = Command::new("nm");
    let output = nm.args(["-D", "--defined-only"]).arg(built("librmm_rs.so")).output().expect("nm");
    let symbols = printed(&output);
    let names: Vec<&str> = symbols.lines().filter_map(|line| line.split(' ').nth(2)).collect();
    let header =
        std::fs::read_to_string(of_crate("include/rmm_rs.h")).expect("the header is there");
    for name in &names {
        assert!(
            header.contains(&format!(" {name}(")) || header.contains(&format!("*{name}(")),
            "{name}"
        );
    }
    assert!(names.len() > 60, "{names:?}");
}

/// Starts a program that lets itself be watched, and returns it with its standard output once it
/// says that it is ready.
fn started(mut command: Command, runtime: &Path) -> (Child, BufReader<ChildStdout>) {
    command.env("XDG_RUNTIME_DIR", runtime).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut program = command.spawn().expect("it starts");
    let mut said = BufReader::new(program.stdout.take().expect("it is piped"));
    assert_eq!(line(&mut said), "ready\n");
    (program, said)
}

fn line(from: &mut impl BufRead) -> String {
    let mut line = String::new();
    from.read_line(&mut line).expect("the program says it");
    line
}

#[test]
fn a_program_in_c_can_be_watched() {
    let folder = folder();
    let options = ["-std=c99"];
    let Some(path) = compile("cc", &options, "watch.c", folder.path()) else { return };
    let runtime = tempfile::tempdir().expect("a folder can be made");
    let socket = |program: &Child| runtime.path().join(format!("rmm/{}.sock", program.id()));
    // By a call; by the variable; not at all.
    for (argument, variable, is_watched) in [("asks", "0", true), ("", "1", true), ("", "0", false)]
    {
        let mut command = command(&path, folder.path());
        command.arg(argument).env("RMM_WATCH", variable);
        let (mut program, _said) = started(command, runtime.path());
        assert_eq!(socket(&program).exists(), is_watched, "{argument} {variable}");
        if is_watched {
            let figures = figures_of(&program, runtime.path());
            assert!(figures.contains("\"pool\":\"workers\""), "{figures}");
            assert!(figures.contains("\"live_bytes\":1024"), "{figures}");
        }
        drop(program.stdin.take());
        assert!(program.wait().expect("it ends").success());
        assert!(!socket(&program).exists(), "the socket goes with the program");
    }
    let mut command = command(&path, folder.path());
    command.args(["asks", "and ends"]);
    let (mut program, mut said) = started(command, runtime.path());
    assert!(socket(&program).exists());
    program.stdin.as_ref().expect("it is piped").write_all(b"1").expect("it reads");
    assert_eq!(line(&mut said), "ended\n");
    assert!(!socket(&program).exists());
    drop(program.stdin.take());
    assert!(program.wait().expect("it ends").success());
}

/// What the program answers to a watcher.
fn figures_of(program: &Child, runtime: &Path) -> String {
    let socket = runtime.join(format!("rmm/{}.sock", program.id()));
    let mut stream = UnixStream::connect(socket).expect("it listens");
    stream.write_all(b"figures\n").expect("it reads");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("it answers");
    answer
}
