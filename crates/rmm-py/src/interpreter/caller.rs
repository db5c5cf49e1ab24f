//! The lines of the program that calls the engine.

use std::ffi::{c_char, c_void};
use std::mem;
use std::path::Path;
use std::ptr::{self, NonNull};
use std::sync::OnceLock;

use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyString;
use rmm_core::wait;

use crate::interpreter::{attached, has_let_go};

/// Passes on the lines of Python that the calling thread runs outside of this package, the
/// innermost first, until it returns `false`: the file, the line and the function. It passes
/// nothing in a thread without one, while the interpreter ends, and, unless it may wait, in a
/// thread that came without the interpreter's lock. Where the call itself has let go of the lock,
/// as at the first use of a device, it takes the lock again for a moment.
pub(crate) fn frames(may_wait: bool, each: &mut dyn FnMut(&str, u32, &str) -> bool) {
    if holds_the_lock() {
        // SAFETY: the thread holds the lock.
        let py = unsafe { Python::assume_attached() };
        // A finalizer that waits must not let go of the lock by the hook of this call.
        wait::outside(|| walk(py, each));
    } else if may_wait || has_let_go() {
        // `None` in an interpreter that has ended.
        let _ignored = attached(|py| walk(py, each));
    }
}

/// Whether the calling thread holds the interpreter's lock now, whatever PyO3 counts.
///
/// `PyGILState_Check` would not do: in a process that ever had a second interpreter it is 1 on
/// every thread.
fn holds_the_lock() -> bool {
    type Current = unsafe extern "C" fn() -> *mut ffi::PyThreadState;
    static CURRENT: OnceLock<Option<Current>> = OnceLock::new();

    // Declared as in POSIX.
    unsafe extern "C" {
        fn dlsym(handle: *mut c_void, name: *const c_char) -> *mut c_void;
    }

    // The first is of Python 3.13 and later, the second of earlier releases. They are not among
    // those to which this module is bound when it is loaded (the limited API).
    let current = CURRENT.get_or_init(|| {
        let names = [c"PyThreadState_GetUnchecked", c"_PyThreadState_UncheckedGet"];
        let found = names.iter().find_map(|name| {
            // SAFETY: a null handle searches the libraries of the process (on macOS it finds
            // nothing); the name ends with a zero byte.
            NonNull::new(unsafe { dlsym(ptr::null_mut(), name.as_ptr()) })
        })?;
        // SAFETY: CPython's functions of these names have this signature.
        Some(unsafe { mem::transmute::<*mut c_void, Current>(found.as_ptr()) })
    });
    current.is_some_and(|current| {
        // SAFETY: it may be called at any time.
        if unsafe { ffi::Py_IsInitialized() } == 0 {
            return false;
        }
        // SAFETY: it may be called on any thread, with the lock or without, while the interpreter
        // is initialized. It reads the thread's own state, null for a thread that has none.
        let own = unsafe { ffi::PyGILState_GetThisThreadState() };
        // SAFETY: as above. It is the state of the thread that holds the lock (to 3.11), or that of
        // this thread if it does; so it is equal to this thread's own only if this one holds it.
        !own.is_null() && unsafe { current() } == own
    })
}

fn walk(py: Python<'_>, each: &mut dyn FnMut(&str, u32, &str) -> bool) {
    // A free may be part of the unwinding of an exception.
    let pending = PyErr::take(py);
    // No collection begins here, whose finalizers could use the resource that is asked.
    // SAFETY: the thread is attached.
    let was_enabled = unsafe { ffi::PyGC_Disable() } == 1;
    // Out of host memory: the rest is left out.
    let _ignored = pass_on(py, each);
    if was_enabled {
        // SAFETY: as above.
        unsafe { ffi::PyGC_Enable() };
    }
    if let Some(pending) = pending {
        pending.restore(py);
    }
}

fn pass_on(py: Python<'_>, each: &mut dyn FnMut(&str, u32, &str) -> bool) -> PyResult<()> {
    static OWN: PyOnceLock<String> = PyOnceLock::new();
    let own = OWN.get_or_try_init(py, || folder(py))?;
    // SAFETY: the thread is attached; the result is null or borrowed.
    let frame = unsafe { ffi::PyEval_GetFrame() }.cast::<ffi::PyObject>();
    // SAFETY: it is null or a frame of the thread, which runs meanwhile.
    let mut next = unsafe { Bound::from_borrowed_ptr_or_opt(py, frame) };
    while let Some(frame) = next.filter(|frame| !frame.is_none()) {
        let pointer = frame.as_ptr().cast::<ffi::PyFrameObject>();
        // SAFETY: it is a frame; the result is a new reference, and never null.
        let code = unsafe { ffi::PyFrame_GetCode(pointer) }.cast::<ffi::PyObject>();
        // SAFETY: as above.
        let code = unsafe { Bound::from_owned_ptr(py, code) };
        let file = code.getattr(pyo3::intern!(py, "co_filename"))?;
        let file = file.cast::<PyString>().map_err(PyErr::from)?.to_str()?;
        if !file.starts_with(own.as_str()) {
            let function = code.getattr(pyo3::intern!(py, "co_qualname"))?;
            let function = function.cast::<PyString>().map_err(PyErr::from)?.to_str()?;
            // SAFETY: it is a frame.
            let line = unsafe { ffi::PyFrame_GetLineNumber(pointer) };
            if !each(file, u32::try_from(line).unwrap_or(0), function) {
                break;
            }
        }
        next = Some(frame.getattr(pyo3::intern!(py, "f_back"))?);
    }
    Ok(())
}

/// The folder of this package, with a separator at its end.
fn folder(py: Python<'_>) -> PyResult<String> {
    let file: String = py.import("rmm_rs")?.getattr("__file__")?.extract()?;
    let folder = Path::new(&file).parent().unwrap_or(Path::new(&file));
    Ok(format!("{}{}", folder.display(), std::path::MAIN_SEPARATOR))
}
