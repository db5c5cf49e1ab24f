//! Saving the archive of the GPU tests.

use std::env;
use std::path::Path;

use crate::archive::{self, Contents};
use crate::build;
use crate::cargo::workspace_root;
use crate::error::Result;
use crate::metadata::{self, Workspace as _};

/// Builds everything into `folder`.
///
/// # Errors
///
/// If something does not build, or the folder cannot be written.
pub(super) fn save(folder: &Path) -> Result<()> {
    let root = workspace_root()?;
    let mut programs = vec![
        ("xtask".to_owned(), env::current_exe()?),
        ("gpu".to_owned(), build::gpu_tests()?.path),
        ("cudarc".to_owned(), build::cudarc_tests()?.path),
        ("rmm-checked".to_owned(), build::rmm("gpu")?.path),
        ("rmm".to_owned(), build::rmm("release")?.path),
    ];
    if metadata::read()?.member("rmm-benches").is_some() {
        programs.extend(build::benches()?.into_iter().map(|program| (program.name, program.path)));
    } else {
        println!("there is no package rmm-benches: the archive has no benchmarks");
    }
    let contents = Contents {
        commit: archive::commit(&root),
        programs,
        traces: archive::traces(&root)?,
        ..Contents::default()
    };
    archive::save(folder, &contents)?;
    println!("run it on a GPU machine: {0}/bin/xtask test-gpu --archive {0}", folder.display());
    Ok(())
}
