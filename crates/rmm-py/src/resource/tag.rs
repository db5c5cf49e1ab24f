//! Tags: which part of a program allocates.
//!
//! Python's part of the program is a thread, or a task of `asyncio` on it: the tags that were
//! entered are in a variable of the context (`contextvars`), which both have of their own. The
//! engine's is the thread, so its tag is set to the context's before each allocation, once a
//! program uses tags.

use std::cell::Cell;
use std::mem::ManuallyDrop;
use std::sync::atomic::{AtomicBool, Ordering};

use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyDict, PyTuple};
use rmm_adaptors::Tag;

/// A context manager: memory that is allocated inside, by this thread or this task of `asyncio`,
/// counts for this tag in every `TaggedResourceAdaptor`. One object may be used by several at once.
/// Not in RMM.
///
/// Parameters
/// ----------
/// name : str
#[derive(Debug)]
#[pyclass(name = "tag", frozen, module = "rmm_rs")]
pub(crate) struct TagContext {
    tag: Tag,
}

/// Whether a program has entered a tag.
static ARE_USED: AtomicBool = AtomicBool::new(false);

/// The variable of the context: `None`, or a pair of the `TagContext` that was entered last and the
/// value before.
static ENTERED: PyOnceLock<Py<PyAny>> = PyOnceLock::new();

thread_local! {
    /// The engine's tag of the thread, as far as it was set here.
    static SET: Cell<Tag> = const { Cell::new(Tag::UNTAGGED) };
}

fn entered(py: Python<'_>) -> PyResult<&Bound<'_, PyAny>> {
    let make = || -> PyResult<Py<PyAny>> {
        let options = PyDict::new(py);
        options.set_item("default", py.None())?;
        let class = py.import("contextvars")?.getattr("ContextVar")?;
        Ok(class.call(("rmm_rs.tag",), Some(&options))?.unbind())
    };
    Ok(ENTERED.get_or_try_init(py, make)?.bind(py))
}

/// A tag that was entered, and what was there before.
type Pair<'py> = (Bound<'py, TagContext>, Bound<'py, PyAny>);

fn pair<'py>(value: &Bound<'py, PyAny>) -> PyResult<Option<Pair<'py>>> {
    if value.is_none() { Ok(None) } else { value.extract().map(Some) }
}

/// What the context has entered.
fn current(py: Python<'_>) -> PyResult<Bound<'_, PyAny>> {
    entered(py)?.call_method0(pyo3::intern!(py, "get"))
}

/// Gives the thread the tag of its context.
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
        // The innermost entry of this tag: others inside it may end later.
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
