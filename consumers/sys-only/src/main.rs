//! Uses the driver's functions alone: finds them at run time, and goes on without.

use std::error::Error;
use std::io::{Write as _, stdout};

use rmm_sys::{Driver, SYMBOLS};

fn main() -> Result<(), Box<dyn Error>> {
    assert!(SYMBOLS.iter().any(|(name, required, _)| *name == "cuMemAlloc_v2" && *required));
    // SAFETY: no symbol is found, so no address is called.
    let nothing = unsafe { Driver::from_symbols(|_| None) };
    assert!(nothing.is_err_and(|error| error.to_string().contains("cuInit")));

    let driver = match Driver::get() {
        Ok(driver) => driver,
        Err(error) => {
            writeln!(stdout(), "no driver: {error}")?;
            return Ok(());
        }
    };
    let mut version = 0;
    // SAFETY: `version` may be written to.
    unsafe { driver.cuDriverGetVersion(&raw mut version) }.result()?;
    writeln!(stdout(), "CUDA {}.{}", version / 1000, version % 1000 / 10)?;
    Ok(())
}
