//! The frames of a backtrace that are the program's: those outside these crates.

#![forbid(unsafe_code)]

use std::path::{Component, Path};

/// The crates of this project, by their folders. That of the facade is `crates/rmm`, and `rmm-rs`
/// in cargo's registry.
const OURS: [&str; 25] = [
    "rmm-adaptors",
    "rmm-async",
    "rmm-capi",
    "rmm-cli",
    "rmm-conformance",
    "rmm-containers",
    "rmm-core",
    "rmm-interop-cuda-core",
    "rmm-interop-cuda-sys",
    "rmm-interop-cudarc",
    "rmm-interop-dlpack",
    "rmm-interop-dynamo",
    "rmm-lease",
    "rmm-preload",
    "rmm-py",
    "rmm-report",
    "rmm-resources",
    "rmm-rs",
    "rmm-sim",
    "rmm-sim-cuda",
    "rmm-sim-driver",
    "rmm-sim-macros",
    "rmm-spec",
    "rmm-sys",
    "rmm-sys-oracle",
];

/// A frame of the program.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ProgramFrame<'t> {
    pub(crate) function: &'t str,
    /// The file and the line, if they are known.
    pub(crate) place: Option<(&'t str, u32)>,
    /// The same as it is displayed, with the column.
    at: Option<&'t str>,
}

/// The frames of a backtrace, as [`Backtrace`](std::backtrace::Backtrace) displays it in the
/// current directory, that are in neither these crates nor the standard library, the innermost
/// first. Frames are recognised by the path of the function, or, with `debug =
/// "line-tables-only"`, where functions have no path, by the file. Only the first may be without a
/// line: what is below the program's functions has none.
pub(crate) fn program_frames<'t>(
    stack: &'t str,
    folder: &'t Path,
) -> impl Iterator<Item = ProgramFrame<'t>> {
    let mut lines = stack.lines().peekable();
    let mut is_first = true;
    std::iter::from_fn(move || {
        loop {
            let line = lines.next()?;
            let Some((number, function)) = line.split_once(": ") else { continue };
            let is_frame = number.trim().bytes().all(|byte| byte.is_ascii_digit());
            if !is_frame || is_our_function(function) {
                continue;
            }
            let at = lines.peek().and_then(|next| next.trim_start().strip_prefix("at "));
            // Files in the current directory are displayed relative to it.
            let is_shown = at.map_or(is_first, |at| !is_our_file(&folder.join(at)));
            if is_shown {
                is_first = false;
                return Some(ProgramFrame { function, place: at.and_then(file_and_line), at });
            }
        }
    })
}

/// `./src/load.rs:12:5` as `src/load.rs` and 12.
fn file_and_line(at: &str) -> Option<(&str, u32)> {
    let (rest, last) = at.rsplit_once(':')?;
    let last: u32 = last.parse().ok()?;
    // The column may be missing.
    let with_column =
        rest.rsplit_once(':').and_then(|(file, line)| Some((file, line.parse().ok()?)));
    let (file, line) = with_column.unwrap_or((rest, last));
    Some((file.strip_prefix("./").unwrap_or(file), line))
}

/// The first frame of the program.
pub(super) fn call_site(stack: &str, folder: &Path) -> String {
    match program_frames(stack, folder).next() {
        Some(ProgramFrame { function, at: Some(at), .. }) => format!("{function} at {at}"),
        Some(ProgramFrame { function, at: None, .. }) => function.to_owned(),
        None => "unknown".to_owned(),
    }
}

/// Whether a function belongs to the allocation itself, whichever code requests it.
fn is_our_function(name: &str) -> bool {
    // Those of the libraries for C and Python too, whose functions for C have no path.
    const OTHERS: [&str; 7] =
        ["rmm::", "rmm_rs::", "rmm_rs_", "_rmm::", "__rust_", "std::", "alloc::"];
    let name = name.trim_start_matches(['<', '&']);
    let of_crate = |name: &str, of: &str| {
        // The library of `rmm-adaptors` is `rmm_adaptors`.
        let rest = name.strip_prefix("rmm_").zip(of.strip_prefix("rmm-"));
        rest.is_some_and(|(name, of)| {
            let (krate, path) = name.split_once("::").unwrap_or((name, ""));
            !path.is_empty()
                && krate.bytes().map(|b| if b == b'_' { b'-' } else { b }).eq(of.bytes())
        })
    };
    OTHERS.iter().any(|prefix| name.starts_with(prefix))
        || name.starts_with("core::")
        || OURS.iter().any(|of| of_crate(name, of))
}

/// Whether a file is of these crates, whose directory may have the version in its name, or of the
/// standard library, recognised by where the compiler was built or installed.
fn is_our_file(place: &Path) -> bool {
    let is_our_crate = |folder: &str| {
        OURS.iter().any(|name| {
            let version = folder.strip_prefix(name);
            version.is_some_and(|version| {
                let number = version.strip_prefix('-');
                version.is_empty()
                    || number.is_some_and(|it| it.starts_with(|c: char| c.is_ascii_digit()))
            })
        })
    };
    let folders: Vec<&str> = place.components().filter_map(name_of).collect();
    folders.windows(2).any(|two| is_our_crate(two[0]) && two[1] == "src")
        || folders.windows(3).any(|three| {
            matches!(
                three,
                ["crates", "rmm", "src"] | ["rustc", _, "library"] | ["src", "rust", "library"]
            )
        })
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
    fn every_crate_of_the_project_is_recognised() {
        let home = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the folder of crates");
        for entry in std::fs::read_dir(home).expect("the folder of crates") {
            let source = entry.expect("readable").path().join("src");
            assert!(
                !source.exists() || is_our_file(&source.join("lib.rs")),
                "{}",
                source.display()
            );
        }
        for function in ["rmm_interop_cudarc::f", "<rmm_async::S as x>::poll", "rmm_sys::table::g"]
        {
            assert!(is_our_function(function), "{function}");
        }
        for function in ["rmm_core_models::f", "rmm_core", "rmm_trainer::rmm_core::f"] {
            assert!(!is_our_function(function), "{function}");
        }
    }

    #[test]
    fn a_site_has_the_lines_of_the_program_alone() {
        let stack = "   0: rmm_core::resource::Resource::allocate
   1: trainer::load
             at ./src/load.rs:12:5
   2: core::option::Option<T>::map
             at /rustc/1/library/core/src/option.rs:1:1
   3: trainer::main
             at /other/main.rs:7
   4: main
   5: __libc_start_main";
        let found = program_frames(stack, Path::new("/work/trainer"));
        let found: Vec<_> = found.map(|frame| (frame.function, frame.place)).collect();
        assert_eq!(
            found,
            [
                ("trainer::load", Some(("src/load.rs", 12))),
                ("trainer::main", Some(("/other/main.rs", 7)))
            ]
        );
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
