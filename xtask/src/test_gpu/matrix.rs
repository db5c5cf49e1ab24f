//! The cells of the matrix: devices x kinds of stream x resources, and two for each device: one for
//! all tests that choose these themselves, and one for programs of cudarc's.

use std::fmt;
use std::path::Path;
use std::process::Command;

pub(super) use self::stacks::{ADAPTORS, RESOURCES};
use super::doctor::Gpu;
use crate::error::Result;

// The suite's own lists: what it can run on, it is run on.
#[macro_use]
#[path = "../../../crates/rmm-conformance/src/list.rs"]
mod list;
#[expect(dead_code, unreachable_pub, reason = "only the names are needed here")]
#[path = "../../../crates/rmm-spec/src/stacks.rs"]
mod stacks;

macro_rules! names {
    ($($name:literal: $variant:ident, $doc:literal,)*) => { &[$($name),*] };
}

/// The kinds of stream, as the test program knows them.
pub(super) const STREAMS: &[&str] = every_stream!(names);

/// The kind of stream that adaptors run on. They pass on any stream unchanged, so one is enough.
const OF_ADAPTORS: &str = "non-blocking";

/// Stands for the kinds of stream, or the resources, that tests choose themselves.
const OWN: &str = "its own";

/// Stands for the resources of the programs of cudarc's, which are a test program of their own.
const CUDARC: &str = "cudarc";

/// The modules of the test program whose tests are about one kind of stream and one resource; all
/// others choose these themselves.
const SUITE: [&str; 2] = ["small::", "spacious::"];
const OTHERS: [&str; 10] = [
    "devices::",
    "driver::",
    "driver_pools::",
    "exit::",
    "export::",
    "merged_lists::",
    "peers::",
    "siblings::",
    "stress::",
    "timing::",
];

/// One run of the test program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Cell {
    /// The device's number with the driver.
    pub(super) device: u32,
    /// One of [`STREAMS`], or [`OWN`].
    pub(super) stream: &'static str,
    /// A name of the list of stacks, [`OWN`] or [`CUDARC`].
    pub(super) resource: &'static str,
}

impl fmt::Display for Cell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "device {} / {} / {}", self.device, self.stream, self.resource)
    }
}

impl Cell {
    /// Whether it is of the test program of those who use cudarc.
    pub(super) fn is_of_cudarc(&self) -> bool {
        self.resource == CUDARC
    }

    /// The command that runs this cell, in a process of its own: a device that was left broken
    /// harms no other cell.
    pub(super) fn command(&self, program: &Path) -> Command {
        let mut command = Command::new(program);
        command
            .arg("--test-threads=1")
            .env("RMM_DRIVER", "cuda")
            .env("RMM_TEST_DEVICE", self.device.to_string());
        if self.is_of_cudarc() {
            // All of its tests, which choose for themselves.
        } else if self.resource == OWN {
            command.args(SUITE.map(|module| format!("--skip={module}")));
        } else {
            command
                .args(OTHERS.map(|module| format!("--skip={module}")))
                .env("RMM_TEST_STREAM", self.stream)
                .env("RMM_TEST_RESOURCE", self.resource);
        }
        command
    }
}

/// The devices to test: those asked for, or every one that was found.
pub(super) fn choose(found: &[Gpu], wanted: &[u32]) -> Result<Vec<u32>> {
    let there: Vec<u32> = found.iter().map(|gpu| gpu.ordinal).collect();
    if wanted.is_empty() {
        return Ok(there);
    }
    match wanted.iter().find(|ordinal| !there.contains(ordinal)) {
        None => Ok(wanted.to_vec()),
        Some(missing) => {
            let list: Vec<String> = found.iter().map(ToString::to_string).collect();
            Err(format!("there is no device {missing}; there are: {}", list.join(", ")).into())
        }
    }
}

/// Every cell for these devices.
pub(super) fn cells(devices: &[u32]) -> Vec<Cell> {
    let mut cells = Vec::new();
    for &device in devices {
        cells.push(Cell { device, stream: OWN, resource: OWN });
        cells.push(Cell { device, stream: OWN, resource: CUDARC });
        for &stream in STREAMS {
            let adaptors = if stream == OF_ADAPTORS { ADAPTORS } else { &[] };
            let resources = RESOURCES.iter().chain(adaptors);
            cells.extend(resources.map(|stack| Cell { device, stream, resource: stack.name }));
        }
    }
    cells
}

#[cfg(test)]
mod tests {
    //! Which cells there are, and the settings of its process.

    use super::*;
    use crate::cargo::describe;

    fn found() -> Vec<Gpu> {
        [0, 2].map(|ordinal| Gpu { ordinal, name: "GPU".to_owned() }).to_vec()
    }

    #[test]
    fn every_device_is_tested_unless_some_are_named() {
        assert_eq!(choose(&found(), &[]).unwrap(), [0, 2]);
        assert_eq!(choose(&found(), &[2]).unwrap(), [2]);
        let error = choose(&found(), &[2, 1]).unwrap_err().to_string();
        assert_eq!(error, "there is no device 1; there are: device 0 (GPU), device 2 (GPU)");
    }

    #[test]
    fn each_combination_is_a_cell_of_its_own() {
        let cells = cells(&[0, 2]);
        assert_eq!(cells.len(), 2 * (2 + STREAMS.len() * RESOURCES.len() + ADAPTORS.len()));
        assert!(cells.iter().enumerate().all(|(index, cell)| !cells[..index].contains(cell)));
    }

    #[test]
    fn every_resource_and_every_adaptor_of_the_suite_is_in_a_cell_of_each_device() {
        let cells = cells(&[0, 2]);
        assert!(STREAMS.contains(&OF_ADAPTORS));
        for (device, name) in [0, 2].into_iter().flat_map(|device| {
            RESOURCES.iter().chain(ADAPTORS).map(move |stack| (device, stack.name))
        }) {
            let is_in = |cell: &Cell| (cell.device, cell.resource) == (device, name);
            assert!(cells.iter().any(is_in), "{name} runs on no GPU");
        }
    }

    #[test]
    fn the_program_gets_the_settings_of_its_cell() {
        let command = |cell: Cell| describe(&cell.command(Path::new("/a/gpu")));
        let cell = command(Cell { device: 2, stream: "legacy", resource: "pool" });
        let environment =
            "RMM_DRIVER=cuda RMM_TEST_DEVICE=2 RMM_TEST_RESOURCE=pool RMM_TEST_STREAM=legacy";
        let rest = cell.strip_prefix(environment).unwrap_or_default();
        assert!(rest.starts_with(" /a/gpu --test-threads=1 --skip=devices:: "), "{cell}");
        assert_eq!(
            command(Cell { device: 2, stream: OWN, resource: OWN }),
            "RMM_DRIVER=cuda RMM_TEST_DEVICE=2 /a/gpu --test-threads=1 --skip=small:: --skip=spacious::"
        );
        assert_eq!(
            command(Cell { device: 2, stream: OWN, resource: CUDARC }),
            "RMM_DRIVER=cuda RMM_TEST_DEVICE=2 /a/gpu --test-threads=1"
        );
    }

    #[test]
    fn each_module_of_the_program_is_in_some_cell() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../crates/rmm-conformance/tests");
        let program = std::fs::read_to_string(folder.join("gpu.rs")).unwrap();
        // Those without tests of their own.
        let helpers = ["merging", "merging_lists", "pair", "run", "witness"];
        let modules =
            program.lines().filter_map(|line| line.strip_prefix("mod ")?.strip_suffix(';'));
        for module in modules.filter(|module| !helpers.contains(module)) {
            let name = format!("{module}::");
            let is_there = SUITE.iter().chain(&OTHERS).filter(|&&known| known == name).count();
            assert_eq!(is_there, 1, "{module}");
        }
    }
}
