//! `rmm check` on programs in C and Python, each with a bug and without. (One in Rust is in
//! `rmm-interop-cudarc`.)
#![cfg(target_os = "linux")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use super::common::{Folder, rmm, text};

pub(crate) const PROGRAMS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/suite/programs");

/// A program in C, linked with the driver, which the folder keeps; `None` without a C compiler.
pub(crate) fn compiled(folder: &Folder, name: &str) -> Option<String> {
    let library = library();
    let link = folder.path("libcuda.so");
    std::os::unix::fs::symlink(library, link).expect("the folder is writable");
    let program = folder.path(name);
    let mut compiler = Command::new("cc");
    compiler.args(["-g", "-Wno-builtin-declaration-mismatch", "-o"]).arg(&program);
    compiler.arg(format!("{PROGRAMS}/{name}.c")).arg("-L").arg(folder.path("."));
    compiler.args(["-lcuda", "-lpthread"]);
    match compiler.status() {
        Ok(status) => {
            assert!(status.success(), "the program in C compiles");
            Some(program)
        }
        Err(_) => None,
    }
}

/// The stand-alone library, which cargo built because this package's tests depend on it.
pub(crate) fn library() -> PathBuf {
    let folder = Path::new(env!("CARGO_BIN_EXE_rmm")).parent().expect("it is in a folder");
    let candidates = ["deps/librmm_sim_driver.so", "librmm_sim_driver.so"];
    let found = candidates.into_iter().map(|name| folder.join(name)).find(|path| path.exists());
    found.expect("cargo built it")
}

pub(crate) fn has_python() -> bool {
    Command::new("python3").arg("--version").output().is_ok_and(|output| output.status.success())
}

pub(crate) fn checked(options: &[&str], program: &[&str]) -> Output {
    rmm(&[&["check"], options, &["--"], program].concat())
}

#[test]
fn a_race_and_a_leak_of_a_program_in_c_are_found() {
    let folder = Folder::new();
    let Some(program) = compiled(&folder, "pipeline") else { return };
    let output = checked(&[], &[&program]);
    let found = text(&output.stdout);
    assert_eq!(output.status.code(), Some(3), "{found}");
    assert!(
        found.contains("race: 4096 bytes at d0+0x0: fill writes it as item 1 of stream 2"),
        "{found}"
    );
    assert!(found.contains("pipeline.c:"), "call sites: {found}");
    assert!(found.contains("not released: 4096 bytes"), "{found}");
    let output = checked(&["--no-leaks"], &[&program]);
    assert!(!text(&output.stdout).contains("not released"));
}

#[test]
fn a_library_takes_the_place_of_the_cuda_runtime() {
    let folder = Folder::new();
    let name = "libcudart.so.13";
    std::fs::create_dir(folder.path("real")).expect("the folder is writable");
    std::os::unix::fs::symlink(library(), folder.path("libcuda.so")).expect("it is writable");
    let (real, stand_in, program) =
        (folder.path(&format!("real/{name}")), folder.path(name), folder.path("program"));
    let compile = |output: &str, arguments: &[&str]| {
        let mut compiler = Command::new("cc");
        compiler.arg(format!("{PROGRAMS}/runtime.c")).args(["-o", output]).args(arguments);
        compiler.status().is_ok_and(|status| status.success())
    };
    let soname = format!("-Wl,-soname,{name}");
    if !compile(&real, &["-DREAL", "-fPIC", "-shared", &soname]) {
        return;
    }
    let search = format!("-L{}", folder.path("."));
    assert!(compile(&stand_in, &["-DSTAND_IN", "-fPIC", "-shared", &soname, &search, "-lcuda"]));
    let rpath = format!("-Wl,-rpath,{}", folder.path("real"));
    assert!(compile(&program, &[&real, &rpath]));

    let output = checked(&[], &[&program]);
    assert_eq!(output.status.code(), Some(1), "{}", text(&output.stderr));
    let output = checked(&["--runtime", &stand_in], &[&program]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    assert!(text(&output.stdout).contains("1 driver call"), "{}", text(&output.stdout));

    let output = checked(&["--runtime", &folder.path("nothing")], &[&program]);
    assert_eq!(output.status.code(), Some(2), "{}", text(&output.stderr));
    assert!(text(&output.stderr).contains("cargo xtask rmm-tests --runtime"));
}

#[test]
fn the_fixed_program_in_c_is_clean() {
    let folder = Folder::new();
    let Some(program) = compiled(&folder, "pipeline") else { return };
    let output = checked(&[], &[&program, "fixed"]);
    let found = text(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{found}");
    assert!(found.contains(" 0 violations, 0 leaks"), "{found}");
}

#[test]
fn every_leak_names_the_line_that_made_the_object() {
    let folder = Folder::new();
    let Some(program) = compiled(&folder, "leaks") else { return };
    let output = checked(&[], &[&program]);
    let found = text(&output.stdout);
    assert_eq!(output.status.code(), Some(3), "{found}");
    let leaks: Vec<&str> = found.split("not released: ").skip(1).collect();
    assert_eq!(leaks.len(), 13, "{found}");
    for leak in leaks {
        assert!(leak.contains("it was made at\n") && leak.contains("leaks.c:"), "{leak}");
    }
    let output = checked(&["--no-call-sites"], &[&program]);
    assert!(!text(&output.stdout).contains("it was made at"));
}

#[test]
fn the_device_reports_to_standard_error_if_asked_to() {
    let folder = Folder::new();
    let Some(program) = compiled(&folder, "pipeline") else { return };
    std::os::unix::fs::symlink(library(), folder.path("libcuda.so.1")).expect("a link");
    let run = |mode: &str, report: Option<&str>| {
        let mut command = Command::new(&program);
        command.arg(mode).env("LD_LIBRARY_PATH", folder.path(".")).env_remove("RMM_SIM_REPORT");
        command.envs(report.map(|report| ("RMM_SIM_REPORT", report)));
        let output = command.output().expect("it starts");
        text(&output.stderr).to_owned()
    };
    let errors = run("", Some("-"));
    assert!(errors.contains("rmm-sim-driver: violation: race: 4096 bytes"), "{errors}");
    assert!(errors.contains("driver calls, 1 violations, 1 leaks\n"), "{errors}");
    let errors = run("fixed", Some("-"));
    let count = errors.strip_prefix("rmm-sim-driver: ");
    let count =
        count.and_then(|count| count.strip_suffix(" driver calls, 0 violations, 0 leaks\n"));
    let count = count.and_then(|count| count.parse::<u32>().ok());
    assert!(count.is_some_and(|calls| calls > 10), "{errors}");
    assert_eq!(run("", None), "");
}

#[test]
fn a_double_free_is_found() {
    let folder = Folder::new();
    let Some(program) = compiled(&folder, "pipeline") else { return };
    let output = checked(&["--no-call-sites"], &[&program, "twice"]);
    let found = text(&output.stdout);
    assert_eq!(output.status.code(), Some(3), "{found}");
    assert!(found.contains("double free") || found.contains("not allocated"), "{found}");
}

#[test]
fn work_runs_while_a_program_waits_without_a_call() {
    let folder = Folder::new();
    let Some(program) = compiled(&folder, "waiting") else { return };
    for how in ["function", "memory", "query", "forked"] {
        let output = checked(&["--no-call-sites"], &[&program, how]);
        let found = text(&output.stdout);
        assert_eq!(output.status.code(), Some(0), "{how}: {found}");
        assert!(found.contains(" 0 violations, 0 leaks"), "{how}: {found}");
    }
}

#[test]
fn a_wait_that_is_no_call_counts_once_it_is_announced() {
    let folder = Folder::new();
    let Some(program) = compiled(&folder, "announced") else { return };
    for what in ["flag", "condition", "byte"] {
        let output = checked(&["--no-call-sites"], &[&program, what, "announced"]);
        let found = text(&output.stdout);
        assert_eq!(output.status.code(), Some(0), "{what}: {found}");
        assert!(found.contains(" 0 violations, 0 leaks"), "{what}: {found}");
        let output = checked(&["--no-call-sites"], &[&program, what]);
        let found = text(&output.stdout);
        assert_eq!(output.status.code(), Some(3), "{what}: {found}");
        assert!(found.contains("race: "), "{what}: {found}");
    }
}

#[test]
fn a_kernel_of_a_program_in_python_is_checked() {
    if !has_python() {
        return;
    }
    let script = format!("{PROGRAMS}/pipeline.py");
    let folder = Folder::new();
    let page = folder.path("report.html");
    let kernel = "fill(float y[n], float value, size_t n)";
    let options = ["--kernel", kernel, "--html", &page];
    let output = checked(&options, &["python3", &script]);
    let found = text(&output.stdout);
    assert_eq!(output.status.code(), Some(3), "{found}");
    assert!(found.contains("race: 4096 bytes at d0+0x0: fill writes it"), "{found}");
    // The first line below each access is one of the program's.
    let sites = found.lines().skip_while(|line| !line.contains("access was made at"));
    let sites: Vec<&str> = sites.filter(|line| line.starts_with("      ")).collect();
    assert!(!sites.is_empty() && sites.iter().all(|line| line.contains("pipeline.py:")), "{found}");
    let html = fs::read_to_string(&page).expect("the report is written");
    assert!(html.contains("the program has errors") && html.contains("race: 4096 bytes"), "{html}");
    let output = checked(&options, &["python3", &script, "fixed"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stdout));
}

/// `RMM_TEST_PYTHON`, or else `python3`, if it has a module.
fn python_with(module: &str) -> Option<String> {
    let python = std::env::var("RMM_TEST_PYTHON").unwrap_or_else(|_| "python3".into());
    let import = Command::new(&python).args(["-c", &format!("import {module}")]).output();
    import.is_ok_and(|output| output.status.success()).then_some(python)
}

/// Where there is NVIDIA's cuda-core for Python (tried: 1.2.2, with cuda-bindings 13.5.0).
#[test]
fn a_program_of_nvidias_cuda_core_is_checked() {
    let Some(python) = python_with("cuda.core") else { return };
    let script = format!("{PROGRAMS}/cuda_core.py");
    let output = checked(&["--no-call-sites"], &[&python, &script]);
    let found = text(&output.stdout);
    assert_eq!(output.status.code(), Some(3), "{found}");
    assert!(found.contains("race: 4096 bytes at d0+0x0: fill writes it"), "{found}");
    let output = checked(&["--no-call-sites"], &[&python, &script, "fixed"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stdout));
}

/// Where there is numba-cuda (tried: 0.30.4, with cuda-bindings 13.5.0).
#[test]
fn a_program_of_numba_cuda_is_checked() {
    let Some(python) = python_with("numba.cuda") else { return };
    let script = format!("{PROGRAMS}/numba_streams.py");
    let output = checked(&["--no-call-sites"], &[&python, &script]);
    let found = text(&output.stdout);
    assert_eq!(output.status.code(), Some(3), "{found}");
    assert!(found.contains("race: 4096 bytes at d0+0x0: copy writes it"), "{found}");
    let output = checked(&["--no-call-sites"], &[&python, &script, "fixed"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stdout));
}

#[test]
fn a_kernel_that_is_not_declared_is_named() {
    if !has_python() {
        return;
    }
    let output = checked(&[], &["python3", &format!("{PROGRAMS}/pipeline.py"), "fixed"]);
    assert_ne!(output.status.code(), Some(0));
    assert!(text(&output.stdout).contains("the kernel `fill` was not found: declare it, --kernel"));
}

#[test]
fn a_program_that_uses_no_driver_is_not_called_clean() {
    let output = checked(&[], &["true"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("nothing was checked"));
}

#[test]
fn bad_usage_is_refused_before_the_program_runs() {
    for (options, part) in [
        (["--kernel", "fill(float y[m], size_t n)"], "`m` is not an integer parameter"),
        (["--kernel", "fill"], "is not `name(parameters)`"),
        (["--library", "/nowhere.so"], "there is no file /nowhere.so"),
    ] {
        let output = checked(&options, &["true"]);
        assert_eq!(output.status.code(), Some(2), "{options:?}");
        assert!(text(&output.stderr).contains(part), "{options:?}: {}", text(&output.stderr));
    }
    assert_eq!(checked(&[], &["/nowhere/program"]).status.code(), Some(2));
    for wrong in ["--typo", "--no-leak", "--leaks=no", "-n"] {
        for args in [vec!["check", wrong, "--", "true"], vec!["check", wrong, "true"]] {
            let output = rmm(&args);
            assert_eq!(output.status.code(), Some(2), "{args:?}");
            assert!(text(&output.stderr).contains("unexpected argument"), "{args:?}");
        }
    }
}

#[test]
fn a_programs_own_status_is_not_taken_for_a_finding() {
    let folder = Folder::new();
    let Some(program) = compiled(&folder, "pipeline") else { return };
    // Without `--`, too: what follows the program is its own.
    let script = r#""$0" fixed; exit "$1""#;
    for (own, status) in [(0, 0), (1, 4), (2, 4), (3, 4), (4, 4), (5, 5), (77, 77), (255, 255)] {
        let output = rmm(&["check", "sh", "-c", script, &program, &own.to_string()]);
        let errors = text(&output.stderr);
        assert_eq!(output.status.code(), Some(status), "{own}: {}{errors}", text(&output.stdout));
        let is_told = errors.contains(&format!("the program ended with status {own}\n"));
        assert_eq!(is_told, own != 0, "{own}: {errors}");
        let wrong = script.replace("fixed", "");
        let output = rmm(&["check", "sh", "-c", &wrong, &program, &own.to_string()]);
        assert_eq!(output.status.code(), Some(3), "{own}");
    }
}

/// The functions that the device does not serve, and the private tables of the driver.
#[test]
fn a_call_that_the_device_does_not_serve_is_not_called_clean() {
    let folder = Folder::new();
    let Some(program) = compiled(&folder, "unserved") else { return };
    let output = checked(&[], &[&program]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stdout));
    let runtime = "the CUDA runtime (libcudart)";
    for (mode, part) in [("tables", runtime), ("found", runtime), ("arrays", "cuArrayCreate_v2")] {
        let output = checked(&[], &[&program, mode]);
        let found = text(&output.stdout);
        assert_eq!(output.status.code(), Some(1), "{mode}: {found}");
        assert!(found.contains("not checked: process ") && found.contains(part), "{mode}: {found}");
        assert!(found.ends_with(" 0 violations, 0 leaks; not everything was checked\n"), "{found}");
    }
}
