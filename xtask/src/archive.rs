//! The folder that carries a run to a machine with no Rust.
//!
//! ```text
//! DIR/manifest.json      what is in the folder, and what it was built from
//! DIR/bin/xtask          this program, which runs the rest
//! DIR/bin/rmm            the command-line tool, as released
//! DIR/bin/...            what is to be run there
//! DIR/lib/...            libraries that the peers need
//! DIR/traces/*.gz        what `rmm replay` and the benchmarks replay
//! ```

mod folder;
mod save;

pub(crate) use self::folder::Archive;
pub(crate) use self::folder::Contents;
#[cfg(all(unix, test))]
pub(crate) use self::folder::write;
pub(crate) use self::save::{commit, save, traces};
