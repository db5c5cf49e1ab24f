//! The lines of the program that calls the engine.

mod cpython;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Mutex;

use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyString;
use rmm_core::wait;

use crate::interpreter::{attached, has_let_go};
use cpython::holds_the_lock;

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

/// A number for the first `most` frames that [`frames`] would pass. `None` in a thread that does
/// not hold the interpreter's lock, and for code whose lines were not passed before. It runs no
/// Python code, and looks at no name.
pub(crate) fn number(most: usize) -> Option<u64> {
    if !holds_the_lock() {
        return None;
    }
    // SAFETY: the thread holds the lock.
    let py = unsafe { Python::assume_attached() };
    without_collections(|| number_of(py, most))
}

fn number_of(py: Python<'_>, most: usize) -> Option<u64> {
    let of_frames = cpython::of_frames()?;
    // Taken by another thread in the parent of a fork only.
    let codes = CODES.try_lock().ok()?;
    let (mut number, mut frames) = (0xcbf2_9ce4_8422_2325_u64, 0);
    // SAFETY: the thread is attached; the result is null or borrowed.
    let innermost = unsafe { ffi::PyEval_GetFrame() };
    // SAFETY: it is null or a frame of the thread, which runs meanwhile.
    let innermost = unsafe { Bound::from_borrowed_ptr_or_opt(py, innermost.cast()) };
    let mut next = innermost;
    while let Some(frame) = next {
        let code = code_of(py, &frame);
        let address = code.as_ptr().addr();
        if !codes.get(&address)?.is_own {
            number = mixed(number, address as u64);
            // The place within the code, of which there are more than lines.
            number = mixed(number, of_frames.last_instruction(&frame));
            frames += 1;
            if frames == most {
                break;
            }
        }
        next = of_frames.caller(&frame);
    }
    (frames > 0).then_some(number)
}

/// FNV-1a over words.
fn mixed(number: u64, word: u64) -> u64 {
    (number.rotate_left(5) ^ word).wrapping_mul(0x0000_0100_0000_01b3)
}

/// A code object whose lines were passed on. It is kept, so that its address stays its own.
struct Code {
    _kept: Py<PyAny>,
    /// Whether it is of this package.
    is_own: bool,
}

/// By address. Written and read under the interpreter's lock.
static CODES: Mutex<BTreeMap<usize, Code>> = Mutex::new(BTreeMap::new());

/// The most code objects that are kept. Sites of others are looked up by name each time.
const MOST_CODES: usize = 1 << 14;

/// Keeps a code object for [`number`].
fn keep(code: &Bound<'_, PyAny>, is_own: bool) {
    let Ok(mut codes) = CODES.try_lock() else { return };
    if codes.len() < MOST_CODES {
        codes
            .entry(code.as_ptr().addr())
            .or_insert_with(|| Code { _kept: code.clone().unbind(), is_own });
    }
}

fn code_of<'py>(py: Python<'py>, frame: &Bound<'py, PyAny>) -> Bound<'py, PyAny> {
    // SAFETY: it is a frame; the result is a new reference, and never null.
    let code = unsafe { ffi::PyFrame_GetCode(frame.as_ptr().cast()) }.cast::<ffi::PyObject>();
    // SAFETY: as above.
    unsafe { Bound::from_owned_ptr(py, code) }
}

/// Runs `act` so that no collection begins in it, whose finalizers could use the resource that is
/// asked.
fn without_collections<T>(act: impl FnOnce() -> T) -> T {
    // SAFETY: the callers are attached.
    let was_enabled = unsafe { ffi::PyGC_Disable() } == 1;
    let result = act();
    if was_enabled {
        // SAFETY: as above.
        unsafe { ffi::PyGC_Enable() };
    }
    result
}

fn walk(py: Python<'_>, each: &mut dyn FnMut(&str, u32, &str) -> bool) {
    // A free may be part of the unwinding of an exception.
    let pending = PyErr::take(py);
    // Out of host memory: the rest is left out.
    let _ignored = without_collections(|| pass_on(py, each));
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
        let code = code_of(py, &frame);
        let file = code.getattr(pyo3::intern!(py, "co_filename"))?;
        let file = file.cast::<PyString>().map_err(PyErr::from)?.to_str()?;
        let is_own = file.starts_with(own.as_str());
        keep(&code, is_own);
        if !is_own {
            let function = code.getattr(pyo3::intern!(py, "co_qualname"))?;
            let function = function.cast::<PyString>().map_err(PyErr::from)?.to_str()?;
            // SAFETY: it is a frame.
            let line = unsafe { ffi::PyFrame_GetLineNumber(frame.as_ptr().cast()) };
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
