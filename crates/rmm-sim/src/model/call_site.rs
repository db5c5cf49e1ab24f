//! Call sites: the frames of a backtrace that belong to the program.
#![forbid(unsafe_code)]

use std::backtrace::Backtrace;
use std::fmt::Write as _;
use std::path::{Component, Path};

/// Upper bound on the frames that are shown.
const SHOWN: usize = 8;
/// The crates of the software device and of the driver's table, through which every call goes.
const DEVICE_CRATES: [&str; 4] = ["rmm-sim", "rmm-sim-cuda", "rmm-sim-driver", "rmm-sys"];

/// The code that a frame belongs to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Owner {
    Device,
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
    /// to `folder`.
    fn owner(&self, folder: &Path) -> Owner {
        let Some(place) = self.place else { return Owner::Runtime };
        if place.starts_with("./csu/") {
            return Owner::Runtime; // the start of a C program, in glibc
        }
        let place = folder.join(place);
        let folders: Vec<&str> = place.components().filter_map(name_of).collect();
        let is_library =
            |three: &[&str]| matches!(three, ["rustc", _, "library"] | ["src", "rust", "library"]);
        if folders.windows(2).any(|two| is_device_crate(two[0]) && two[1] == "src") {
            Owner::Device
        } else if folders.windows(3).any(is_library) {
            Owner::Runtime
        } else {
            Owner::Program
        }
    }
}

/// Whether a folder is that of such a crate, possibly with a version in its name.
fn is_device_crate(folder: &str) -> bool {
    DEVICE_CRATES.iter().filter_map(|name| folder.strip_prefix(name)).any(|version| {
        let number = version.strip_prefix('-');
        version.is_empty() || number.is_some_and(|it| it.starts_with(|c: char| c.is_ascii_digit()))
    })
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
/// program.
fn of_program<'a>(frames: &[Frame<'a>], folder: &Path) -> Vec<Frame<'a>> {
    let owned = frames.iter().map(|frame| (frame, frame.owner(folder)));
    let inner = owned.skip_while(|(_, owner)| *owner != Owner::Program);
    let inner = inner.take_while(|(_, owner)| *owner != Owner::Device);
    inner.filter(|(_, owner)| *owner == Owner::Program).map(|(frame, _)| *frame).collect()
}

/// The program's frames of a backtrace, one a line.
pub(crate) fn frames_of(backtrace: &Backtrace) -> String {
    let text = backtrace.to_string();
    let folder = std::env::current_dir().unwrap_or_default();
    let of_program = of_program(&frames(&text), &folder);
    let mut lines = String::new();
    for Frame { symbol, place } in of_program.iter().take(SHOWN) {
        // Writing to a string does not fail.
        let _ = match place {
            Some(place) => write!(lines, "\n      {place} in {symbol}"),
            None => write!(lines, "\n      {symbol}"),
        };
    }
    match of_program.len() {
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

    #[test]
    fn a_device_crate_may_have_a_version_and_no_other_suffix() {
        for folder in ["rmm-sim", "rmm-sim-0.1.0", "rmm-sim-cuda", "rmm-sim-driver-1.0.0"] {
            assert!(is_device_crate(folder), "{folder}");
        }
        for folder in ["rmm-simple", "rmm-sim-example", "my-rmm-sim"] {
            assert!(!is_device_crate(folder), "{folder}");
        }
    }

    #[test]
    fn frames_of_the_device_and_of_the_runtime_are_omitted() {
        let text = "   0: {closure#0}
             at ./src/check.rs:112:9
   1: core::ops::function::FnOnce::call_once
             at /rustc/1/library/core/src/ops/function.rs:250:5
   2: cuMemsetD8Async
             at /root/.cargo/registry/src/index/rmm-sys-0.1.0/src/table.rs:1:1
   3: rmm_containers::buffer::DeviceBuffer::fill
             at /work/crates/rmm-containers/src/buffer.rs:7:9
   4: core::option::Option<T>::map
             at /rustc/1/library/core/src/option.rs:1:1
   5: <program::Step as program::Run>::run
             at ./tests/steps.rs:30:5
   6: attempt
             at ./src/checker.rs:200:5
   7: of_a_test
             at ./tests/steps.rs:9:5
   8: main";
        let found = of_program(&frames(text), Path::new("/work/crates/rmm-sim"));
        let places: Vec<&str> = found.iter().filter_map(|frame| frame.place).collect();
        let expected = ["/work/crates/rmm-containers/src/buffer.rs:7:9", "./tests/steps.rs:30:5"];
        assert_eq!(places, expected);
    }
}
