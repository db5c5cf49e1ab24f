//! Programs that know nothing of this library, with it and without, on the software device.
#![cfg(target_os = "linux")]

use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The folder of this build, in which cargo puts libraries and examples.
fn built(names: &[&str]) -> PathBuf {
    let this = std::env::current_exe().expect("the test is a program");
    let deps = this.parent().expect("it is in a folder");
    let profile = deps.parent().expect("it is in a folder of the profile");
    let mut found = names.iter().flat_map(|name| [deps.join(name), profile.join(name)]);
    found.find(|path| path.exists()).unwrap_or_else(|| panic!("cargo built {names:?}"))
}

fn preload() -> PathBuf {
    built(&["librmm_preload.so"])
}

/// A folder in which `libcuda.so.1` is the software device.
fn folder_with_driver() -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a folder can be made");
    let driver = built(&["librmm_sim_driver.so"]);
    symlink(driver, folder.path().join("libcuda.so.1")).expect("the folder is writable");
    folder
}

/// What the program prints, and what is printed as errors.
fn run(program: &Path, libraries: &Path, variables: &[(&str, &Path)]) -> (String, String) {
    let mut command = Command::new(program);
    command.env("LD_LIBRARY_PATH", libraries).env("RMM_PRELOAD_REPORT", "1");
    command.env_remove("RMM_CUDA_LIBRARY").env_remove("RMM_DRIVER");
    let output = command.envs(variables.iter().copied()).output().expect("the program starts");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let (printed, errors) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.success(), "{:?}\n{printed}\n{errors}", output.status);
    (printed, errors)
}

/// The program in C of this name; `None` without a C compiler.
fn compile(name: &str, folder: &Path) -> Option<PathBuf> {
    symlink("libcuda.so.1", folder.join("libcuda.so")).expect("the folder is writable");
    let program = folder.join(name);
    let programs = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/programs"));
    let source = programs.join(name).with_extension("c");
    let mut compiler = Command::new("cc");
    compiler.args(["-Wno-builtin-declaration-mismatch", "-o"]).arg(&program).arg(source);
    let status =
        compiler.arg("-L").arg(folder).args(["-lcuda", "-ldl", "-lpthread"]).status().ok()?;
    assert!(status.success(), "the program in C compiles");
    Some(program)
}

#[test]
fn a_linked_program_gets_its_memory_from_the_resource() {
    let folder = folder_with_driver();
    let Some(program) = compile("linked", folder.path()) else { return };
    let (printed, errors) = run(&program, folder.path(), &[]);
    assert_eq!((printed.as_str(), errors.as_str()), ("done\n", ""), "without the library");

    let (printed, errors) = run(&program, folder.path(), &[("LD_PRELOAD", &preload())]);
    assert_eq!(printed, "done\n");
    let report = "rmm-preload: 105 allocations served, 1 passed on to the driver\npool";
    assert!(errors.starts_with(report), "{errors}");
}

/// Runs the program with this library under several schedules of the software device. Returns what
/// it printed and what the device reported, of each run.
fn run_on_schedules(program: &Path, libraries: &Path, spec: &str) -> Vec<(String, Vec<String>)> {
    let run_on = |seed: u32| {
        let reports = tempfile::tempdir().expect("a folder can be made");
        let variables = [
            ("LD_PRELOAD", preload()),
            ("RMM_RESOURCE", spec.into()),
            ("RMM_SIM_SEED", seed.to_string().into()),
            ("RMM_SIM_REPORT", reports.path().into()),
        ];
        let variables = variables.each_ref().map(|(name, value)| (*name, &**value));
        let (printed, _) = run(program, libraries, &variables);
        let report = std::fs::read_dir(reports.path()).expect("it was made above").next();
        let report = report.expect("the device writes it").expect("it can be read").path();
        let report = std::fs::read_to_string(report).expect("it can be read");
        assert!(report.ends_with("\nend\n"), "seed {seed}: {report}");
        let violations = report.lines().filter_map(|line| line.strip_prefix("violation "));
        (printed, violations.map(str::to_owned).collect())
    };
    (1..=5).map(run_on).collect()
}

#[test]
fn a_program_in_order_is_in_order_on_the_resource() {
    let folder = folder_with_driver();
    let Some(program) = compile("linked", folder.path()) else { return };
    for (_, violations) in run_on_schedules(&program, folder.path(), "pool(cuda)") {
        // What the program does on purpose.
        let is_known = |text: &String| text.starts_with("free of an address that is not allocated");
        assert!(violations.len() == 1 && violations.iter().all(is_known), "{violations:?}");
    }
}

#[test]
fn a_stream_that_ends_leaves_its_memory_in_order() {
    let folder = folder_with_driver();
    let Some(program) = compile("ended", folder.path()) else { return };
    // The whole pool is one block of the program's.
    let spec = "pool(cuda, initial=1MiB, max=1MiB)";
    for (printed, violations) in run_on_schedules(&program, folder.path(), spec) {
        assert_eq!(printed, "10 handles came back\n");
        assert_eq!(violations, Vec::<String>::new());
    }
}

#[test]
fn captures_are_announced_until_they_end() {
    let folder = folder_with_driver();
    let Some(program) = compile("captures", folder.path()) else { return };
    let variables = [("LD_PRELOAD", preload()), ("RMM_SIM_DEVICES", "2".into())];
    let variables = variables.each_ref().map(|(name, value)| (*name, value.as_path()));
    let (printed, _) = run(&program, folder.path(), &variables);
    assert_eq!(printed, "done\n");
}

#[test]
fn what_the_driver_s_own_functions_free_takes_no_chunk_away() {
    let folder = folder_with_driver();
    let Some(program) = compile("mixed", folder.path()) else { return };
    for spec in [
        "pool(cuda)",
        "pool(cuda, initial=64MiB)",
        "arena(cuda, size=64MiB)",
        "statistics(pool(cuda))",
    ] {
        let variables = [("LD_PRELOAD", preload()), ("RMM_RESOURCE", spec.into())];
        let variables = variables.each_ref().map(|(name, value)| (*name, value.as_path()));
        let (printed, errors) = run(&program, folder.path(), &variables);
        assert_eq!(printed, "done\n", "{spec}");
        assert!(
            errors.contains("rmm-preload: 18 allocations served, 2 passed on"),
            "{spec}: {errors}"
        );
    }
}

#[test]
fn a_resource_that_cannot_be_made_leaves_the_program_to_the_driver() {
    let folder = folder_with_driver();
    let Some(program) = compile("linked", folder.path()) else { return };
    let variables = [("LD_PRELOAD", preload()), ("RMM_RESOURCE", "pool(".into())];
    let variables = variables.each_ref().map(|(name, value)| (*name, value.as_path()));
    let (printed, errors) = run(&program, folder.path(), &variables);
    assert_eq!(printed, "done\n");
    assert!(errors.contains("rmm-preload: the driver allocates: "), "{errors}");
}

#[test]
fn a_program_that_opens_the_driver_by_name_is_served() {
    let program = built(&["examples/cudarc_program"]);
    let folder = folder_with_driver();
    let driver = folder.path().join("libcuda.so");
    symlink("libcuda.so.1", &driver).expect("the folder is writable");
    let (alone, _) = run(&program, folder.path(), &[]);

    std::fs::remove_file(&driver).expect("it was made above");
    symlink(preload(), &driver).expect("the folder is writable");
    let (printed, errors) = run(&program, folder.path(), &[]);
    assert_eq!(printed, alone, "the same results");
    assert!(errors.contains("rmm-preload: 400 allocations served, 0 passed on"), "{errors}");
}
