//! Streams of other Python libraries.
//!
//! | object | lifetime |
//! |---|---|
//! | CuPy's `Stream`, Numba's `Stream` of its own | the engine's stream keeps the object, which owns it |
//! | external ones of both (also CuPy's `Stream.from_external`), all else | its end is unknown |
//!
//! Classes are told by their names: none of the libraries is imported.

use std::sync::Arc;

use pyo3::prelude::*;
use pyo3::types::PyType;
use rmm_core::sys::{CuContext, CuStream};
use rmm_core::{Context, CudaStream, check, current_driver};

use crate::interpreter::errors::{unknown_version, wrong_type};
use crate::interpreter::functions::Functions;

/// What an object says about the end of its stream.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Lifetime {
    /// The stream exists for as long as the object does.
    Owned,
    Unknown,
}

/// The handle of an object's stream.
///
/// # Errors
/// `TypeError` if it is no stream.
pub(crate) fn stream(object: &Bound<'_, PyAny>) -> PyResult<(usize, Lifetime)> {
    let lifetime = lifetime_of(object);
    if object.hasattr("__cuda_stream__")? {
        // RMM takes a list too.
        let [version, handle]: [Bound<'_, PyAny>; 2] =
            object.call_method0("__cuda_stream__")?.extract()?;
        if !version.eq(0)? {
            return Err(unknown_version(&version));
        }
        return Ok((handle.extract()?, lifetime));
    }
    let handle = if is_of(object, "numba", &["Stream"]) {
        object.call_method0("__int__")?.extract()?
    } else if is_of(object, "cupy", &["Stream", "ExternalStream"]) {
        object.getattr("ptr")?.extract()?
    } else {
        let kind = object.get_type();
        return Err(wrong_type(format!("Cannot create stream from {kind}")));
    };
    Ok((handle, lifetime))
}

fn lifetime_of(object: &Bound<'_, PyAny>) -> Lifetime {
    let is_external = || {
        let external = object.getattr("external").and_then(|external| external.is_truthy());
        external.unwrap_or(true)
    };
    // CuPy's `Stream.from_external` is of the same class, and keeps an object that may be closed.
    let is_borrowed =
        || object.getattr("_foreign_stream_ref").is_ok_and(|foreign| !foreign.is_none());
    let is_owner = (is_of(object, "cupy", &["Stream"]) && !is_borrowed())
        || (is_of(object, "numba", &["Stream"]) && !is_external());
    if is_owner { Lifetime::Owned } else { Lifetime::Unknown }
}

/// Whether the object's class, or a base of it, is one of these of a package.
fn is_of(object: &Bound<'_, PyAny>, package: &str, names: &[&str]) -> bool {
    object.get_type().mro().iter().any(|class| {
        class.cast::<PyType>().is_ok_and(|class| {
            let in_package = class.module().is_ok_and(|module| {
                module.to_str().is_ok_and(|module| module.split('.').next() == Some(package))
            });
            let is_named = class
                .name()
                .is_ok_and(|name| name.to_str().is_ok_and(|name| names.contains(&name)));
            in_package && is_named
        })
    })
}

/// The engine's stream for one that a Python object owns. `None` if it is not of the current
/// context, or the driver does not say: then it is identified at each use.
pub(crate) fn adopt(handle: usize, owner: Py<PyAny>) -> Option<CudaStream> {
    let handle = CuStream::from_raw(std::ptr::with_exposed_provenance_mut(handle));
    let driver = current_driver().ok()?;
    let mut context = CuContext::NULL;
    // SAFETY: the stream exists while its owner does, and `context` may be written to.
    let code = unsafe { driver.cuStreamGetCtx(handle, &raw mut context) };
    check("cuStreamGetCtx", code).ok()?;
    if Context::current().ok()?.as_raw() != context {
        return None;
    }
    // SAFETY: it is a stream of the current context, and exists for as long as its owner.
    unsafe { CudaStream::adopt_owned_by(handle, Arc::new(Functions::new([owner]))) }.ok()
}
