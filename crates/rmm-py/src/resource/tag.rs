//! `rmm_rs.tag`: attributes allocations to a tag of the current thread or `asyncio` task.
//!
//! The engine has one current tag for each thread, but several `asyncio` tasks may share a thread.
//! So the tags that were entered are kept in a context variable (Python's `contextvars`), of which
//! each thread and each task has its own value. Before each allocation, the engine's tag of the
//! thread is set to that of the context. Programs that enter no tag skip this.

use std::cell::Cell;
use std::mem::ManuallyDrop;
use std::sync::atomic::{AtomicBool, Ordering};

use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyDict, PyTuple};
use rmm_adaptors::Tag;

/// A context manager that attributes memory to a tag: every `TaggedResourceAdaptor` counts what
/// this thread or `asyncio` task allocates inside. Several threads and tasks may use one object at
/// once. Not in RMM.
///
/// Parameters
/// ----------
/// name : str
#[derive(Debug)]
#[pyclass(name = "tag", frozen, module = "rmm_rs")]
pub(crate) struct TagContext {
    tag: Tag,
}

/// Whether the program has entered any tag.
static ARE_USED: AtomicBool = AtomicBool::new(false);

/// The context variable. Its value is the stack of tags that were entered, as a linked list:
/// `None`, or a pair of the innermost `TagContext` and the value before it was entered.
static ENTERED: PyOnceLock<Py<PyAny>> = PyOnceLock::new();

thread_local! {
    /// The tag that this module has last set as the engine's tag of the thread.
    static SET: Cell<Tag> = const { Cell::new(Tag::UNTAGGED) };
}

/// The context variable; makes it at the first call.
fn entered(py: Python<'_>) -> PyResult<&Bound<'_, PyAny>> {
    let make = || -> PyResult<Py<PyAny>> {
        let options = PyDict::new(py);
        options.set_item("default", py.None())?;
        let class = py.import("contextvars")?.getattr("ContextVar")?;
        Ok(class.call(("rmm_rs.tag",), Some(&options))?.unbind())
    };
    Ok(ENTERED.get_or_try_init(py, make)?.bind(py))
}

/// The innermost tag of a stack, and the rest of the stack.
type Pair<'py> = (Bound<'py, TagContext>, Bound<'py, PyAny>);

/// Splits a stack into its innermost tag and the rest; `None` if it is empty.
fn pair<'py>(value: &Bound<'py, PyAny>) -> PyResult<Option<Pair<'py>>> {
    if value.is_none() { Ok(None) } else { value.extract().map(Some) }
}

/// The stack of tags of the current context.
fn current(py: Python<'_>) -> PyResult<Bound<'_, PyAny>> {
    entered(py)?.call_method0(pyo3::intern!(py, "get"))
}

/// Sets the engine's tag of the thread to the innermost tag of the context.
#[inline]
pub(crate) fn follow_context(py: Python<'_>) -> PyResult<()> {
    if ARE_USED.load(Ordering::Relaxed) { set_of_context(py) } else { Ok(()) }
}

#[cold]
fn set_of_context(py: Python<'_>) -> PyResult<()> {
    let tag = pair(&current(py)?)?.map_or(Tag::UNTAGGED, |(context, _)| context.get().tag);
    if SET.replace(tag) != tag {
        let _leaked = ManuallyDrop::new(tag.enter());
    }
    Ok(())
}

#[pymethods]
impl TagContext {
    #[new]
    fn py_new(name: &str) -> Self {
        Self { tag: Tag::named(name) }
    }

    fn __enter__(slf: Bound<'_, Self>) -> PyResult<Bound<'_, Self>> {
        let py = slf.py();
        ARE_USED.store(true, Ordering::Relaxed);
        let value = (slf.clone(), current(py)?).into_pyobject(py)?;
        let _token = entered(py)?.call_method1(pyo3::intern!(py, "set"), (value,))?;
        set_of_context(py)?;
        Ok(slf)
    }

    #[pyo3(signature = (*_exception))]
    fn __exit__(slf: &Bound<'_, Self>, _exception: &Bound<'_, PyTuple>) -> PyResult<()> {
        let py = slf.py();
        let mut inner = Vec::new();
        let mut value = current(py)?;
        // Remove the innermost entry of this object. Tags that were entered after it stay.
        let before = loop {
            let Some((context, before)) = pair(&value)? else { return Ok(()) };
            if context.is(slf) {
                break before;
            }
            inner.push(context);
            value = before;
        };
        let mut value = before;
        for context in inner.into_iter().rev() {
            value = (context, value).into_pyobject(py)?.into_any();
        }
        let _token = entered(py)?.call_method1(pyo3::intern!(py, "set"), (value,))?;
        set_of_context(py)
    }

    fn __repr__(&self) -> String {
        format!("rmm_rs.tag({:?})", self.tag.name())
    }
}
