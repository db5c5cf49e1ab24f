//! The search for the stand-alone library.

use std::path::{Path, PathBuf};

const FILE: &str = "librmm_sim_driver.so";

/// The places beside the program's folder where `cargo build` and an install have it. Cargo writes
/// the one in `deps` whenever it builds it, and then may link it to the other.
const PLACES: [&str; 4] = ["deps", ".", "../lib", "../lib/rmm"];

/// The library that is named; otherwise the first that is in one of the places.
pub(super) fn find(named: Option<&Path>) -> Option<PathBuf> {
    if let Some(named) = named {
        return named.canonicalize().ok();
    }
    let folder = program_folder()?;
    let candidates = PLACES.map(|place| folder.join(place).join(FILE));
    candidates.into_iter().find_map(|candidate| candidate.canonicalize().ok())
}

/// The folder where an install has it: `lib` beside that of this program.
pub(super) fn place_of_installs() -> PathBuf {
    let root = program_folder().and_then(|folder| Some(folder.parent()?.to_owned()));
    root.unwrap_or_else(|| PathBuf::from("..")).join("lib")
}

fn program_folder() -> Option<PathBuf> {
    let program = std::env::current_exe().ok()?;
    Some(program.parent()?.to_owned())
}
