//! The search for the stand-alone library.

use std::path::{Path, PathBuf};

const FILE: &str = "librmm_sim_driver.so";

/// The library that is named; otherwise the one beside this program, where `cargo build` puts it,
/// or in `lib` beside its folder.
pub(super) fn find(named: Option<&Path>) -> Option<PathBuf> {
    if let Some(named) = named {
        return named.canonicalize().ok();
    }
    let program = std::env::current_exe().ok()?;
    let folder = program.parent()?;
    // Cargo writes the one in `deps` whenever it builds it, and then may link it to the other.
    let folders = ["deps", ".", "../lib"].map(|place| folder.join(place).join(FILE));
    folders.into_iter().find_map(|candidate| candidate.canonicalize().ok())
}
