//! Memory of the host that Python objects lend.

use std::ffi::c_void;

use pyo3::buffer::PyUntypedBuffer;
use pyo3::exceptions::{PyBufferError, PyValueError};
use pyo3::prelude::*;

/// The bytes of an object, for as long as this exists.
pub(crate) struct HostBytes(PyUntypedBuffer);

impl HostBytes {
    /// Bytes to read.
    ///
    /// # Errors
    /// `TypeError` if the object has no memory; `ValueError` unless it is one contiguous dimension
    /// of unsigned bytes.
    pub(crate) fn to_read(object: &Bound<'_, PyAny>) -> PyResult<Self> {
        let buffer = PyUntypedBuffer::get(object)?;
        let text = if buffer.dimensions() != 1 {
            format!(
                "Buffer has wrong number of dimensions (expected 1, got {})",
                buffer.dimensions()
            )
        } else if buffer.format() != c"B" {
            let format = buffer.format().to_string_lossy();
            format!("Buffer dtype mismatch, expected unsigned bytes ('B') but got {format:?}")
        } else if !buffer.is_c_contiguous() {
            "the buffer is not contiguous".to_owned()
        } else {
            return Ok(Self(buffer));
        };
        Err(PyValueError::new_err(text))
    }

    /// Bytes to write.
    ///
    /// # Errors
    /// The errors of [`to_read`](Self::to_read), and `BufferError` if they are read-only.
    pub(crate) fn to_write(object: &Bound<'_, PyAny>) -> PyResult<Self> {
        let bytes = Self::to_read(object)?;
        if bytes.0.readonly() {
            return Err(PyBufferError::new_err("the buffer is read-only"));
        }
        Ok(bytes)
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len_bytes()
    }

    /// The address, which is exposed to the driver.
    pub(crate) fn address(&self) -> u64 {
        self.0.buf_ptr().cast::<c_void>().expose_provenance() as u64
    }
}
