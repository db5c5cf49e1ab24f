//! The debug log, `rmm_rs.pylibrmm.logger`, to which findings go.

use std::io::Write as _;

use pyo3::prelude::*;
use rmm_core::Error;

use crate::interpreter::attached;

/// Writes a line to the debug log, if it has lines of this level: the name of a member of
/// `level_enum`.
pub(crate) fn log(py: Python<'_>, level: &str, line: String) -> PyResult<()> {
    let logger = py.import("rmm_rs.pylibrmm.logger")?;
    let level = logger.getattr("level_enum")?.getattr(level)?;
    logger.call_method1("_log", (level, line)).map(drop)
}

/// Writes the refusal of a pool to the file of the debug log, if there is one.
#[cold]
pub(crate) fn log_refusal(py: Python<'_>, error: &Error) -> PyResult<()> {
    let logger = py.import("rmm_rs.pylibrmm.logger")?;
    logger.call_method1("_log_refusal", (error.to_string(),)).map(drop)
}

/// The same as [`log`] on a thread that may be without the interpreter's lock. What cannot be
/// logged, since the interpreter ends, goes to the standard error stream.
pub(crate) fn log_detached(level: &str, line: &str) {
    let is_logged = attached(|py| log(py, level, line.to_owned()).is_ok());
    if is_logged != Some(true) {
        // There is no one to report a failed write to.
        let _ignored = writeln!(std::io::stderr(), "rmm: {line}");
    }
}
