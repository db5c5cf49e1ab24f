//! Numbers of bytes, as integers or as text.

use std::alloc::Layout;

use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyFloat, PyInt, PyString};
use rmm_core::CUDA_ALLOCATION_ALIGNMENT;

use crate::interpreter::errors;

/// The layout of a request.
///
/// # Errors
/// `MemoryError` if the size overflows once it is aligned.
#[inline]
pub(crate) fn layout(bytes: usize) -> PyResult<Layout> {
    Layout::from_size_align(bytes, CUDA_ALLOCATION_ALIGNMENT).map_err(|_| {
        errors::out_of_memory(format_args!("{bytes} bytes are more than any device has"))
    })
}

/// Bytes of an argument that may be text.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bytes(pub(crate) u64);

impl<'py> FromPyObject<'_, 'py> for Bytes {
    type Error = PyErr;

    fn extract(object: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        Ok(Self(parse_bytes(&object.to_owned())?.extract()?))
    }
}

/// The number of bytes that `s` says: an integer, or text such as `"2 GiB"` or `"1.5kb"`.
#[pyfunction]
pub(crate) fn parse_bytes<'py>(s: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    if s.is_instance_of::<PyInt>() {
        return Ok(s.clone());
    }
    let Ok(text) = s.cast::<PyString>() else {
        let kind = s.get_type().name()?;
        return Err(PyTypeError::new_err(format!("a size is an int or a str, not {kind}")));
    };
    let text = text.to_cow()?;
    let number = bytes_of(&text).filter(|number| number.is_finite()).ok_or_else(|| {
        PyValueError::new_err(format!("Could not parse {text} as a byte specification"))
    })?;
    PyFloat::new(s.py(), number).call_method0("__int__")
}

/// `digits [. digits] blanks [unit]`, in floating point, as RMM computes it.
fn bytes_of(text: &str) -> Option<f64> {
    let is_number = |c: char| c.is_ascii_digit() || c == '.';
    let end = text.find(|c: char| !is_number(c)).unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    let begins_with_digit = number.starts_with(|c: char| c.is_ascii_digit());
    if !begins_with_digit || number.matches('.').count() > 1 {
        return None;
    }
    let unit = unit.trim_start_matches([' ', '\t']).to_ascii_lowercase();
    let (power, base) = match unit.strip_suffix('b') {
        None if unit.is_empty() => (0, 1.0),
        None => return None,
        Some("") => (0, 1.0),
        Some(prefix) => {
            let (prefix, base) = match prefix.strip_suffix('i') {
                Some(prefix) => (prefix, 1024.0),
                None => (prefix, 1000.0),
            };
            let power = 1 + ["k", "m", "g", "t", "p"].iter().position(|&known| known == prefix)?;
            (i32::try_from(power).ok()?, base)
        }
    };
    Some(number.parse::<f64>().ok()? * f64::powi(base, power))
}
