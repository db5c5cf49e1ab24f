//! The extension module `rmm_rs._rmm`: RMM's Python classes over the engine of rmm-rs.
//!
//! The Python tree in `python/rmm_rs` gives them RMM's module layout.
//!
//! ```text
//! above   the package rmm_rs in python/rmm_rs
//! here    rmm-py: its extension module
//! below   rmm-capi, rmm-lease, rmm-report, rmm-interop-dlpack > .. > rmm-core > rmm-sys
//! ```
//!
//! ```text
//!   buffer        buffers, their copies and exports
//!     |
//!  resource       memory resources: all classes, callbacks, the current one of each device
//!     |
//!   stream        streams and devices
//!     |
//! interpreter     the lock, forks, errors, arguments: no class of memory
//! ```
//!
//! Each folder uses those below it. A new class is in the folder of what it stands for: a kind of
//! resource, or what a resource returns, in `resource`.
//!
//! # The interpreter's lock
//!
//! 1. Allocations and frees keep it until the engine is about to wait, and a hit in a cache to the
//!    end ([`interpreter`]). It is let go of for everything else, in `Drop` too
//!    ([`drop_detached`]).
//! 2. No thread waits for a lock of this crate while it holds the interpreter's, but for locks that
//!    are held only to read or write some fields; and none calls Python while it holds one.
//! 3. Callbacks attach with [`interpreter::attached`]: while the interpreter ends, an allocation by
//!    them fails, and a free leaves the memory allocated.
//! 4. After a fork nothing of the driver is called ([`fork`]).
#![expect(
    clippy::doc_markdown,
    clippy::needless_pass_by_value,
    clippy::same_name_method,
    reason = "Python's docstrings and signatures: PyO3 passes arguments by value, and an instance has \
              a `__traverse__` of its own beside that of its base"
)]

mod buffer;
mod interpreter;
mod resource;
mod stream;

use pyo3::exceptions::PyImportError;
use pyo3::prelude::*;

/// Refuses the module to all interpreters of the process but the main one: classes and the
/// resources of devices are the process's.
fn check_interpreter(_attached: Python<'_>) -> PyResult<()> {
    // SAFETY: the thread is attached to an interpreter, as the argument shows.
    let current = unsafe { pyo3::ffi::PyInterpreterState_Get() };
    // SAFETY: it is the current interpreter.
    let id = unsafe { pyo3::ffi::PyInterpreterState_GetID(current) };
    // Python numbers interpreters from 0, with which the main one begins.
    if id == 0 {
        return Ok(());
    }
    Err(PyImportError::new_err("rmm_rs does not support more than one interpreter"))
}

#[pymodule]
fn _rmm(module: &Bound<'_, PyModule>) -> PyResult<()> {
    check_interpreter(module.py())?;
    rmm_adaptors::name_frames_by(interpreter::caller::frames, interpreter::caller::number);
    rmm_report::page::draw_failure_reports();
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add("_IS_OPTIMIZED", !cfg!(debug_assertions))?;
    stream::add_to(module)?;
    module.add_class::<stream::stream_pool::CudaStreamPool>()?;
    module.add_class::<stream::capture_scope::CaptureScope>()?;
    module.add_class::<resource::DeviceMemoryResource>()?;
    module.add_class::<resource::UpstreamResourceAdaptor>()?;
    resource::base::add_to(module)?;
    resource::pool::add_to(module)?;
    resource::suballocators::add_to(module)?;
    module.add_class::<interpreter::remedy::Remedy>()?;
    module.add_class::<resource::callbacks::CallbackMemoryResource>()?;
    module.add_class::<resource::callbacks::FailureCallbackResourceAdaptor>()?;
    resource::adaptors::add_to(module)?;
    resource::logging::add_to(module)?;
    resource::recorder::add_to(module)?;
    module.add_class::<resource::counting::StatisticsResourceAdaptor>()?;
    module.add_class::<resource::spec::SpecMemoryResource>()?;
    module.add_function(wrap_pyfunction!(resource::spec::_check_spec, module)?)?;
    module.add_class::<resource::tag::TagContext>()?;
    module.add_class::<resource::effort::EffortContext>()?;
    resource::registry::add_to(module)?;
    buffer::add_to(module)?;
    buffer::copies::add_to(module)?;
    buffer::sharing::add_to(module)?;
    #[cfg(target_os = "linux")]
    buffer::lease::add_to(module)?;
    stream::device::add_to(module)?;
    module.add_function(wrap_pyfunction!(interpreter::sizes::parse_bytes, module)?)?;
    resource::report::add_to(module)?;
    resource::watch::add_to(module)?;
    resource::capsule::add_to(module)?;
    // Programs import names from the modules of the tree, which say what is exported.
    module.delattr("__all__")
}
