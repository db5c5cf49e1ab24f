//! The call site of an allocation: the first frame of a backtrace outside these crates.

#![forbid(unsafe_code)]

use std::path::{Component, Path};

/// The first frame of a backtrace, as [`Backtrace`](std::backtrace::Backtrace) displays it in the
/// current directory, that is in neither these crates nor the standard library. Frames are
/// recognised by the path of the function, or, with `debug = "line-tables-only"`, where functions
/// have no path, by the file.
pub(super) fn call_site(stack: &str, folder: &Path) -> String {
    let mut lines = stack.lines().peekable();
    while let Some(line) = lines.next() {
        let Some((number, name)) = line.split_once(": ") else { continue };
        let is_frame = number.trim().bytes().all(|byte| byte.is_ascii_digit());
        if !is_frame || is_our_function(name) {
            continue;
        }
        let place = lines.peek().and_then(|next| next.trim_start().strip_prefix("at "));
        let Some(place) = place else { return name.to_owned() };
        // Files in the current directory are displayed relative to it.
        if !is_our_file(&folder.join(place)) {
            return format!("{name} at {place}");
        }
    }
    "unknown".to_owned()
}

/// Whether a function belongs to the allocation itself, whichever code requests it.
fn is_our_function(name: &str) -> bool {
    // Those of the libraries for C and Python too, whose functions for C have no path.
    const OURS: [&str; 13] = [
        "rmm::",
        "rmm_rs::",
        "rmm_rs_",
        "_rmm::",
        "__rust_",
        "rmm_adaptors::",
        "rmm_containers::",
        "rmm_core::",
        "rmm_resources::",
        "rmm_spec::",
        "std::",
        "core::",
        "alloc::",
    ];
    let name = name.trim_start_matches(['<', '&']);
    OURS.iter().any(|prefix| name.starts_with(prefix))
}

/// Whether a file is of these crates, whose directory may have the version in its name, or of the
/// standard library, recognised by where the compiler was built or installed.
fn is_our_file(place: &Path) -> bool {
    const OURS: [&str; 7] = [
        "rmm-adaptors",
        "rmm-capi",
        "rmm-containers",
        "rmm-core",
        "rmm-py",
        "rmm-resources",
        "rmm-spec",
    ];
    let is_our_crate = |folder: &str| {
        let version = OURS.iter().find_map(|name| folder.strip_prefix(name));
        version.is_some_and(|version| {
            let number = version.strip_prefix('-');
            version.is_empty()
                || number.is_some_and(|it| it.starts_with(|c: char| c.is_ascii_digit()))
        })
    };
    let folders: Vec<&str> = place.components().filter_map(name_of).collect();
    folders.windows(2).any(|two| is_our_crate(two[0]) && two[1] == "src")
        || folders
            .windows(3)
            .any(|three| matches!(three, ["rustc", _, "library"] | ["src", "rust", "library"]))
}

/// The last component of a path, if it is a plain name.
fn name_of(part: Component<'_>) -> Option<&str> {
    match part {
        Component::Normal(name) => name.to_str(),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn in_work(stack: &str) -> String {
        call_site(stack, Path::new("/work/rmm/crates/rmm-adaptors"))
    }

    #[test]
    fn the_call_site_is_the_first_frame_of_the_program() {
        let stack = "   0: std::backtrace::Backtrace::force_capture
             at /rustc/library/std/src/backtrace.rs:300:9
   1: rmm_adaptors::tracking::table::Tracking::insert
   2: <rmm_core::erased::any::AnyResource<S> as rmm_core::resource::Resource>::allocate
   3: trainer::load
             at ./src/load.rs:12:5
   4: main";
        let place = call_site(stack, Path::new("/work/trainer"));
        assert_eq!(place, "trainer::load at ./src/load.rs:12:5");
        assert_eq!(in_work("   0: trainer::main\n   1: main"), "trainer::main");
        assert_eq!(in_work("disabled backtrace"), "unknown");
    }

    #[test]
    fn a_function_without_a_path_is_recognised_by_its_file() {
        let stack = "   0: force_capture
             at /rustc/59807616e1fa2540724bfbac14d7976d7e4a3860/library/std/src/backtrace.rs:312:9
   1: insert
             at ./src/tracking/table.rs:77:57
   2: allocate<trainer::Upstream>
             at /home/me/.cargo/registry/src/index.crates.io-1949cf8c6b5b557f/rmm-core-0.1.0/src/resource.rs:40:9
   3: map<u8, u8, trainer::load::{closure_env#0}>
             at /home/me/.rustup/toolchains/stable/lib/rustlib/src/rust/library/core/src/option.rs:1165:29
   4: load
             at ./tests/load.rs:12:5";
        assert_eq!(in_work(stack), "load at ./tests/load.rs:12:5");
    }

    #[test]
    fn the_call_site_of_a_program_in_c_is_its_own_line() {
        let stack = "   0: <rmm_adaptors::tracking::caller::Caller>::now
   1: rmm_rs::allocate::rmm_rs_resource_allocate::{{closure}}
             at ./crates/rmm-capi/src/calls/allocate.rs:70:5
   2: rmm_rs_resource_allocate
             at ./crates/rmm-capi/src/calls/allocate.rs:62:5
   3: load
             at /home/me/program.c:12:5
   4: main";
        assert_eq!(in_work(stack), "load at /home/me/program.c:12:5");
    }

    #[test]
    fn files_with_similar_paths_belong_to_the_program() {
        for file in [
            "/work/rmm-core-models/src/lib.rs:1:1",
            "/work/rmm-core/tests/suite.rs:1:1",
            "/work/rmm/src/main.rs:1:1",
            "/work/library/core/src/main.rs:1:1",
        ] {
            assert_eq!(
                in_work(&format!("   0: load\n             at {file}")),
                format!("load at {file}")
            );
        }
    }
}
