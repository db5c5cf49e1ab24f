//! Checks of a built wheel: its size, its platform, that it keeps to Python's stable ABI, and that
//! it says nothing about the machine that built it. That it needs no library but the system's is
//! checked by maturin, which names the platform by it.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::pip;
use crate::command;
use crate::error::{Context as _, Result};

/// The largest wheel, in bytes.
const LARGEST: u64 = 4_000_000;

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

/// Folders of this machine, and what stands for them in what users get.
fn folders(root: &Path) -> Vec<(PathBuf, &'static str)> {
    let home = |name: &str| std::env::var_os(name).map(PathBuf::from);
    let cargo = home("CARGO_HOME").or_else(|| Some(home("HOME")?.join(".cargo")));
    let of_cargo = cargo.map(|folder| (folder, "cargo"));
    std::iter::once((root.to_owned(), "rmm-rs")).chain(of_cargo).collect()
}

/// The value of `CARGO_ENCODED_RUSTFLAGS` by which places in the sources name no folder of this
/// machine.
pub(super) fn flags(root: &Path) -> OsString {
    let mut flags = Vec::new();
    for (folder, name) in folders(root) {
        let mut flag = OsString::from("--remap-path-prefix=");
        flag.push(folder);
        flag.push("=");
        flag.push(name);
        flags.push(flag);
    }
    flags.join("\x1f".as_ref())
}

/// Has the wheel name no folder of this machine.
///
/// # Errors
///
/// If another file than its bill of materials does.
pub(super) fn check_places(interpreter: &Path, wheel: &Path, root: &Path) -> Result<()> {
    let mut check = Command::new(interpreter);
    check.args(["-c", include_str!("places.py")]).arg(wheel);
    for (folder, name) in folders(root) {
        check.arg(folder).arg(name);
    }
    command::run(&mut check)
}

/// Checks the platform and the ABI. Where pip cannot fetch the tool for the ABI, it says so.
///
/// # Errors
///
/// If a check fails.
pub(super) fn check(interpreter: &Path, wheel: &Path) -> Result<()> {
    let name = wheel.file_name().unwrap_or_default().to_string_lossy();
    // What maturin calls a wheel that runs on no other Linux.
    if name.contains("-linux_") {
        return Err(format!("{name} keeps to no manylinux policy").into());
    }
    // Free-threaded interpreters have no stable ABI.
    if !name.contains("-abi3-") {
        return Ok(());
    }
    if let Err(error) = command::run(pip(interpreter).arg("abi3audit")) {
        println!("skipped: the check of the ABI: pip cannot fetch abi3audit ({error})");
        return Ok(());
    }
    let program = interpreter.with_file_name("abi3audit");
    command::run(Command::new(program).args(["--strict", "--summary"]).arg(wheel))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_name_the_folders_of_this_machine() {
        let flags = flags(Path::new("/work/a folder")).into_string().expect("it is UTF-8");
        let flags: Vec<&str> = flags.split('\x1f').collect();
        assert_eq!(flags[0], "--remap-path-prefix=/work/a folder=rmm-rs");
        assert!(flags[1].starts_with("--remap-path-prefix=/") && flags[1].ends_with("=cargo"));
    }

    #[test]
    fn a_wheel_for_one_machine_is_refused() {
        let check = |name: &str| check(Path::new("/no/python"), Path::new(name));
        assert!(check("rmm_rs-0.1.0-cp314t-cp314t-manylinux_2_34_x86_64.whl").is_ok());
        assert!(check("rmm_rs-0.1.0-cp314t-cp314t-linux_x86_64.whl").is_err());
    }
}
