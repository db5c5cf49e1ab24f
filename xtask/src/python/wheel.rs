//! Checks of a built wheel: its size, its platform, and that it keeps to Python's stable ABI. That
//! it needs no library but the system's is checked by maturin, which names the platform by it.

use std::path::Path;
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
    fn a_wheel_for_one_machine_is_refused() {
        let check = |name: &str| check(Path::new("/no/python"), Path::new(name));
        assert!(check("rmm_rs-0.1.0-cp314t-cp314t-manylinux_2_34_x86_64.whl").is_ok());
        assert!(check("rmm_rs-0.1.0-cp314t-cp314t-linux_x86_64.whl").is_err());
    }
}
