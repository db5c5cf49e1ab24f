//! Remedies of a failed request.

use pyo3::prelude::*;
use rmm_core::{Error, Remedy as Engine, RemedyAction};

/// One thing that would make memory available to a request that failed: in `remedies` of the
/// `MemoryError`, the best first. Not in RMM.
///
/// Attributes
/// ----------
/// action : str
///     "wait": synchronize the stream, or the device if there is no name, and repeat the request;
///     "trim": trim the suballocator, with `wait=True`; "raise-limit": raise the resource's limit;
///     "more-effort": the thread limited the request.
/// name : str or None
///     Of the stream or the resource.
/// nbytes : int
///     What it makes available; for a limit, by how much to raise it.
/// limit_id : int or None
///     Whose limit to raise, as the `limit_id` of a pool or a limiting adaptor has it.
/// is_enough : bool
///     Whether that is enough for the request by itself, as far as bytes decide.
#[derive(Debug)]
#[pyclass(frozen, module = "rmm_rs")]
pub(crate) struct Remedy {
    #[pyo3(get)]
    action: &'static str,
    #[pyo3(get)]
    name: Option<String>,
    #[pyo3(get)]
    nbytes: u64,
    #[pyo3(get)]
    limit_id: Option<u64>,
    #[pyo3(get)]
    is_enough: bool,
    text: String,
}

impl From<&Engine> for Remedy {
    fn from(remedy: &Engine) -> Self {
        let (action, name) = match remedy.action {
            RemedyAction::WaitForStream { stream } => ("wait", stream.map(|it| it.to_string())),
            RemedyAction::TrimSibling { resource } => ("trim", Some(resource.to_owned())),
            RemedyAction::RaiseLimit { resource, .. } => ("raise-limit", Some(resource.to_owned())),
            RemedyAction::SpendMoreEffort { .. } => ("more-effort", None),
            _ => ("other", None),
        };
        let limit_id = match remedy.action {
            RemedyAction::RaiseLimit { limit, .. } => Some(limit.get()),
            _ => None,
        };
        Self {
            action,
            name,
            nbytes: remedy.bytes,
            limit_id,
            is_enough: remedy.is_enough,
            text: remedy.to_string(),
        }
    }
}

#[pymethods]
impl Remedy {
    fn __str__(&self) -> &str {
        &self.text
    }

    fn __repr__(&self) -> String {
        format!("<Remedy: {}>", self.text)
    }
}

/// The exception, with the error's remedies as its attribute.
#[cold]
pub(crate) fn with_remedies(py: Python<'_>, raised: PyErr, error: &Error) -> PyErr {
    let remedies: Vec<Remedy> = error.remedies().iter().map(Remedy::from).collect();
    // Without memory for the list the exception goes without it.
    let _ignored = raised.value(py).setattr("remedies", remedies);
    raised
}
