//! The search for the driver, and the error if there is none.

#[cfg(unix)]
#[path = "common/c_library.rs"]
mod c_library;

use std::path::Path;
use std::process::Command;

use rmm_sys::{Driver, LIBRARY_NAMES, LIBRARY_VARIABLE};

/// Set for the process that [`in_child`] starts.
const CHILD: &str = "RMM_SYS_TEST_CHILD";

#[test]
fn a_path_without_a_file_is_an_error() {
    let path = Path::new("/nowhere/libcuda.so.1");
    // SAFETY: there is no library.
    let error = unsafe { Driver::load_from(path) }.unwrap_err();
    assert_eq!((error.library(), error.symbol()), (path, None));
    let text = error.to_string();
    assert!(
        text.starts_with("no CUDA driver: /nowhere/libcuda.so.1 could not be loaded ("),
        "{text}"
    );
    assert!(text.contains("install NVIDIA's driver") && text.contains(LIBRARY_VARIABLE), "{text}");
}

#[test]
fn a_file_that_is_not_a_library_is_an_error() {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), "not a library").unwrap();
    // SAFETY: it is no library.
    let error = unsafe { Driver::load_from(file.path()) }.unwrap_err();
    assert_eq!((error.library(), error.symbol()), (file.path(), None));
    assert!(error.to_string().contains("could not be loaded"), "{error}");
}

/// A shared library that this process has loaded and that is not a driver, such as the C library.
#[cfg(target_os = "linux")]
fn some_library() -> String {
    let maps = std::fs::read_to_string("/proc/self/maps").expect("Linux lists the mappings");
    let mut files = maps.lines().filter_map(|line| Some(&line[line.find('/')?..]));
    files
        .find(|file| file.contains(".so"))
        .expect("a Rust program on Linux loads the C library")
        .to_owned()
}

#[test]
#[cfg(target_os = "linux")]
fn a_library_that_is_not_a_driver_is_an_error() {
    let path = some_library();
    // SAFETY: the library is loaded already, and has no function of the driver's.
    let error = unsafe { Driver::load_from(Path::new(&path)) }.unwrap_err();
    assert_eq!((error.library(), error.symbol()), (Path::new(&path), Some("cuInit")));
    let text = error.to_string();
    assert!(text.starts_with(&format!("the CUDA driver {path} has no function cuInit,")), "{text}");
    assert!(text.contains("update NVIDIA's driver") && text.contains(LIBRARY_VARIABLE), "{text}");
}

/// Runs the test named `test` alone in a new process whose environment sets the driver's library to
/// `library`, and returns its output.
fn in_child(test: &str, library: &str) -> String {
    let output = Command::new(std::env::current_exe().expect("a test knows its program"))
        .args(["--exact", test, "--nocapture"])
        .env(LIBRARY_VARIABLE, library)
        .env(CHILD, "1")
        .output()
        .expect("a program can start itself");
    let printed = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{printed}{}", String::from_utf8_lossy(&output.stderr));
    printed
}

/// The child's report on the driver that it finds.
fn outcome() -> String {
    match Driver::load() {
        Ok(driver) => format!("found a driver that lacks {}", driver.missing().len()),
        Err(error) => format!("found none: {error}"),
    }
}

#[test]
fn the_variable_names_the_library() {
    if std::env::var_os(CHILD).is_some() {
        println!("{}", outcome());
        let elsewhere = Path::new("/elsewhere/libcuda.so.1");
        // SAFETY: there is no library.
        let error = unsafe { Driver::load_from(elsewhere) }.unwrap_err();
        assert_eq!(error.library(), elsewhere, "a path given goes before it");
        return;
    }
    let printed = in_child("the_variable_names_the_library", "/nowhere/of-the-variable.so");
    assert!(
        printed.contains("found none: no CUDA driver: /nowhere/of-the-variable.so"),
        "{printed}"
    );
}

#[test]
fn an_empty_variable_counts_as_unset() {
    if std::env::var_os(CHILD).is_some() {
        println!("{}", outcome());
        return;
    }
    let printed = in_child("an_empty_variable_counts_as_unset", "");
    let none = format!("found none: no CUDA driver: {} could not be loaded", LIBRARY_NAMES[0]);
    assert!(printed.contains(&none) || printed.contains("found a driver"), "{printed}");
}

#[test]
#[cfg(unix)]
fn the_library_of_the_variable_is_the_driver() {
    if std::env::var_os(CHILD).is_some() {
        println!("{}", outcome());
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let Some(library) = c_library::build(folder.path(), |name| name != "cuMemPrefetchAsync_v2")
    else {
        return;
    };
    let printed = in_child("the_library_of_the_variable_is_the_driver", library.to_str().unwrap());
    assert!(printed.contains("found a driver that lacks 1\n"), "{printed}");
}
