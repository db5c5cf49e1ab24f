//! Call sites: the frames of a backtrace that belong to the program.
#![forbid(unsafe_code)]

use std::backtrace::Backtrace;
use std::fmt::Write as _;
use std::path::{Component, Path};
use std::sync::Arc;

use crate::model::python;

/// Upper bound on the frames that are shown.
const SHOWN: usize = 8;

/// Where a call was made: the stack, and the Python lines if the calling thread runs Python.
#[derive(Clone, Debug)]
pub(crate) struct CallSite {
    pub(crate) backtrace: Arc<Backtrace>,
    pub(crate) python: Option<Arc<str>>,
}

impl CallSite {
    pub(crate) fn here() -> Self {
        Self { backtrace: Arc::new(Backtrace::force_capture()), python: python::frames() }
    }

    /// The program's frames, one a line.
    pub(crate) fn frames(&self) -> String {
        frames_of(&self.backtrace, self.python.as_deref())
    }
}

impl PartialEq for CallSite {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.backtrace, &other.backtrace)
    }
}

impl Eq for CallSite {}

/// The folder of this project's crates, in a checkout or in cargo's registry.
fn home() -> &'static Path {
    let this = Path::new(env!("CARGO_MANIFEST_DIR"));
    this.parent().unwrap_or(this)
}

/// The code that a frame belongs to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Owner {
    /// The software device, and the driver's table, through which every call goes.
    Device,
    /// The other crates of this project.
    Library,
    /// Crates from cargo's registry.
    Dependency,
    /// Rust's standard library, and code without debug information.
    Runtime,
    Program,
}

/// A frame as a backtrace prints it: the function, and its source location.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Frame<'a> {
    symbol: &'a str,
    place: Option<&'a str>,
}

impl Frame<'_> {
    /// Decided by the file, since with line tables alone symbols have no path. Paths are relative
    /// to `folder`; the project's crates are in `home`.
    fn owner(&self, folder: &Path, home: &Path) -> Owner {
        let Some(place) = self.place else { return Owner::Runtime };
        if place.starts_with("./csu/") {
            return Owner::Runtime; // the start of a C program, in glibc
        }
        let place = folder.join(place);
        if let Ok(inside) = place.strip_prefix(home)
            && let [name, "src", ..] = names_of(inside)[..]
            && name.starts_with("rmm")
        {
            let is_device = name.starts_with("rmm-sim") || name.starts_with("rmm-sys");
            return if is_device { Owner::Device } else { Owner::Library };
        }
        let folders = names_of(&place);
        let is_library =
            |three: &[&str]| matches!(three, ["rustc", _, "library"] | ["src", "rust", "library"]);
        if folders.windows(3).any(is_library) {
            Owner::Runtime
        } else if folders.windows(2).any(|two| two == ["registry", "src"]) {
            Owner::Dependency
        } else {
            Owner::Program
        }
    }
}

fn names_of(path: &Path) -> Vec<&str> {
    path.components().filter_map(name_of).collect()
}

/// The name of a path component, if it is a normal one in UTF-8.
fn name_of(part: Component<'_>) -> Option<&str> {
    match part {
        Component::Normal(name) => name.to_str(),
        _ => None,
    }
}

fn frames(text: &str) -> Vec<Frame<'_>> {
    let mut frames: Vec<Frame<'_>> = Vec::new();
    for line in text.lines() {
        let line = line.trim_start();
        if let Some(place) = line.strip_prefix("at ") {
            if let Some(frame) = frames.last_mut() {
                frame.place = Some(place);
            }
        } else if let Some((number, symbol)) = line.split_once(": ")
            && number.parse::<u32>().is_ok()
        {
            frames.push(Frame { symbol, place: None });
        }
    }
    frames
}

/// The program's frames: those between the driver's table and the frames of `check`, which ran the
/// program. Where it has none with a source location, those of its dependencies or of this project.
fn of_program<'a>(frames: &[Frame<'a>], folder: &Path, home: &Path) -> Vec<Frame<'a>> {
    let owned = frames.iter().map(|frame| (*frame, frame.owner(folder, home)));
    let inner = owned.skip_while(|(_, owner)| matches!(owner, Owner::Device | Owner::Runtime));
    let inner: Vec<_> = inner.take_while(|(_, owner)| *owner != Owner::Device).collect();
    let of = |wanted: Owner| {
        let frames = inner.iter().filter(|(_, owner)| *owner == wanted);
        frames.map(|(frame, _)| *frame).collect::<Vec<_>>()
    };
    let owners = [Owner::Program, Owner::Dependency, Owner::Library];
    owners.map(of).into_iter().find(|frames| !frames.is_empty()).unwrap_or_default()
}

/// The program's frames of a backtrace, one a line; the Python lines where there are some.
pub(crate) fn frames_of(backtrace: &Backtrace, python: Option<&str>) -> String {
    let python = python.map(python::of_program).unwrap_or_default();
    if !python.is_empty() {
        return lines_of(&python);
    }
    let text = backtrace.to_string();
    let folder = std::env::current_dir().unwrap_or_default();
    let described = of_program(&frames(&text), &folder, home()).into_iter().map(|frame| {
        let Frame { symbol, place } = frame;
        place.map_or_else(|| symbol.to_owned(), |place| format!("{place} in {symbol}"))
    });
    lines_of(&described.collect::<Vec<_>>())
}

fn lines_of(frames: &[String]) -> String {
    let mut lines = String::new();
    // Writing to a string does not fail.
    for frame in frames.iter().take(SHOWN) {
        let _ = write!(lines, "\n      {frame}");
    }
    match frames.len() {
        0 => lines.push_str("\n      (unknown: the program has no debug information)"),
        all if all > SHOWN => {
            let _ = write!(lines, "\n      and {} more", all - SHOWN);
        }
        _ => {}
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    const FOLDER: &str = "/work/crates/rmm-sim";
    const TEXT: &str = "   0: {closure#0}
             at ./src/check.rs:112:9
   1: core::ops::function::FnOnce::call_once
             at /rustc/1/library/core/src/ops/function.rs:250:5
   2: cuMemsetD8Async
             at /work/crates/rmm-sys/src/table.rs:1:1
   3: rmm_containers::buffer::DeviceBuffer::fill
             at /work/crates/rmm-containers/src/buffer.rs:7:9
   4: core::option::Option<T>::map
             at /rustc/1/library/core/src/option.rs:1:1
   5: wrapper::fill
             at /home/me/.cargo/registry/src/index.crates.io-1/wrapper-1.0.0/src/lib.rs:3:1
   6: rmm::facade
             at /work/crates/rmm/src/facade.rs:7:9
   7: <program::Step as program::Run>::run
             at ./tests/steps.rs:30:5
   8: attempt
             at ./src/checker.rs:200:5
   9: of_a_test
             at ./tests/steps.rs:9:5
  10: main";

    fn places<'a>(text: &'a str, home: &str) -> Vec<&'a str> {
        let found = of_program(&frames(text), Path::new(FOLDER), Path::new(home));
        found.iter().filter_map(|frame| frame.place).collect()
    }

    #[test]
    fn only_the_lines_of_the_program_are_shown() {
        assert_eq!(places(TEXT, "/work/crates"), ["./tests/steps.rs:30:5"]);
    }

    #[test]
    fn a_program_that_has_no_lines_shows_what_called_the_device() {
        let without = TEXT.replace("./tests/steps.rs:30:5", "/rustc/1/library/core/src/x.rs:1:1");
        let wrapper = "/home/me/.cargo/registry/src/index.crates.io-1/wrapper-1.0.0/src/lib.rs:3:1";
        assert_eq!(places(&without, "/work/crates"), [wrapper]);
        let without = without.replace(wrapper, "/rustc/1/library/core/src/x.rs:1:1");
        let own =
            ["/work/crates/rmm-containers/src/buffer.rs:7:9", "/work/crates/rmm/src/facade.rs:7:9"];
        assert_eq!(places(&without, "/work/crates"), own);
    }

    #[test]
    fn crates_of_the_project_are_known_in_the_registry_too() {
        let home = "/home/me/.cargo/registry/src/index.crates.io-1";
        let text = TEXT.replace("/work/crates/rmm/", "/work/crates/rmm-rs/");
        let mut moved = text;
        for name in ["rmm-sys", "rmm-containers", "rmm-rs"] {
            let to = format!("{home}/{name}-0.1.0/");
            moved = moved.replace(&format!("/work/crates/{name}/"), &to);
        }
        moved = moved.replace("./src/", &format!("{home}/rmm-sim-0.1.0/src/"));
        assert_eq!(places(&moved, home), ["./tests/steps.rs:30:5"]);
    }

    #[test]
    fn every_crate_of_the_project_is_recognised() {
        let crates = std::fs::read_dir(home()).expect("the folder of this crate");
        for entry in crates {
            let source = entry.expect("readable").path().join("src");
            if source.exists() {
                let place = source.join("lib.rs:1:1");
                let frame = Frame { symbol: "f", place: place.to_str() };
                let owner = frame.owner(Path::new("/"), home());
                assert!(matches!(owner, Owner::Device | Owner::Library), "{}", source.display());
            }
        }
    }
}
