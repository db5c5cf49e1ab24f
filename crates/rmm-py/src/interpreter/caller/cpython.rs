//! Functions of CPython that are not among those to which this module is bound when it is loaded
//! (the limited API): looked up by name.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::mem;
use std::ptr::{self, NonNull};
use std::sync::OnceLock;

use pyo3::ffi;
use pyo3::prelude::*;

type Current = unsafe extern "C" fn() -> *mut ffi::PyThreadState;
type Back = unsafe extern "C" fn(*mut ffi::PyFrameObject) -> *mut ffi::PyFrameObject;
type LastInstruction = unsafe extern "C" fn(*mut ffi::PyFrameObject) -> c_int;

// Declared as in POSIX.
unsafe extern "C" {
    fn dlsym(handle: *mut c_void, name: *const c_char) -> *mut c_void;
}

/// A function of the process.
fn found(name: &CStr) -> Option<NonNull<c_void>> {
    // SAFETY: a null handle searches the libraries of the process (on macOS it finds nothing); the
    // name ends with a zero byte.
    NonNull::new(unsafe { dlsym(ptr::null_mut(), name.as_ptr()) })
}

/// Whether the calling thread holds the interpreter's lock now, whatever PyO3 counts.
///
/// `PyGILState_Check` would not do: in a process that ever had a second interpreter it is 1 on
/// every thread.
pub(super) fn holds_the_lock() -> bool {
    static CURRENT: OnceLock<Option<Current>> = OnceLock::new();

    // The first is of Python 3.13 and later, the second of earlier releases.
    let current = CURRENT.get_or_init(|| {
        let names = [c"PyThreadState_GetUnchecked", c"_PyThreadState_UncheckedGet"];
        let function = names.into_iter().find_map(found)?;
        // SAFETY: CPython's functions of these names have this signature.
        Some(unsafe { mem::transmute::<*mut c_void, Current>(function.as_ptr()) })
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

/// What a frame's caller and its place in its code are.
#[derive(Clone, Copy)]
pub(super) struct OfFrames {
    back: Back,
    last_instruction: LastInstruction,
}

/// `None` where the interpreter has no such functions.
pub(super) fn of_frames() -> Option<OfFrames> {
    static OF_FRAMES: OnceLock<Option<OfFrames>> = OnceLock::new();

    *OF_FRAMES.get_or_init(|| {
        let (back, last) = (found(c"PyFrame_GetBack")?, found(c"PyFrame_GetLasti")?);
        // SAFETY: CPython's function of this name, of its public API since 3.9, has this signature.
        let back = unsafe { mem::transmute::<*mut c_void, Back>(back.as_ptr()) };
        // SAFETY: likewise, since 3.11.
        let last_instruction =
            unsafe { mem::transmute::<*mut c_void, LastInstruction>(last.as_ptr()) };
        Some(OfFrames { back, last_instruction })
    })
}

impl OfFrames {
    /// The frame that called this one. `None` for the outermost.
    pub(super) fn caller<'py>(self, frame: &Bound<'py, PyAny>) -> Option<Bound<'py, PyAny>> {
        // SAFETY: it is a frame of the attached thread.
        let back = unsafe { (self.back)(frame.as_ptr().cast()) };
        // SAFETY: it is null or a new reference.
        unsafe { Bound::from_owned_ptr_or_opt(frame.py(), back.cast()) }
    }

    /// The place of the frame in its code, at which the line follows from the code.
    pub(super) fn last_instruction(self, frame: &Bound<'_, PyAny>) -> u64 {
        // SAFETY: it is a frame of the attached thread.
        let place = unsafe { (self.last_instruction)(frame.as_ptr().cast()) };
        u64::from(place.cast_unsigned())
    }
}
