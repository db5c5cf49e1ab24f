//! The line of the program that calls the engine.

use pyo3::prelude::*;

use crate::interpreter::attached;

/// The innermost line of Python that the calling thread runs, outside of this package: for reports
/// of blocks. `None` in a thread without one, and while the interpreter ends.
pub(crate) fn name() -> Option<String> {
    attached(|py| {
        // A free may be part of the unwinding of an exception.
        let pending = PyErr::take(py);
        let place = place(py).ok();
        if let Some(pending) = pending {
            pending.restore(py);
        }
        place
    })?
}

fn place(py: Python<'_>) -> PyResult<String> {
    let mut frame = py.import("sys")?.call_method0("_getframe")?;
    while is_ours(&frame)? {
        frame = frame.getattr("f_back")?;
    }
    let code = frame.getattr("f_code")?;
    let (file, function) = (code.getattr("co_filename")?, code.getattr("co_name")?);
    Ok(format!("{file}:{} in {function}", frame.getattr("f_lineno")?))
}

/// Whether a frame runs code of this package.
fn is_ours(frame: &Bound<'_, PyAny>) -> PyResult<bool> {
    let name = frame.getattr("f_globals")?.call_method1("get", ("__name__", ""))?;
    let name = name.to_string();
    Ok(name == "rmm_rs" || name.starts_with("rmm_rs."))
}
