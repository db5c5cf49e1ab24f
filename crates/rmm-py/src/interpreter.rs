//! Releases the interpreter's lock (the GIL) at the first wait of a call of the engine.
//!
//! ```text
//! kept_until_wait(py, call)
//!   lock held -- hit in a cache --------------------------------> returned, lock held
//!   lock held -- about to wait: let_go -- lock free -- attached(callback) -- take_back
//! ```
//!
//! PyO3 counts per thread whether it is attached, and does not see [`let_go`]. So while the engine
//! is called, what touches Python objects, their release included, goes through [`attached`], which
//! takes the lock again if it was let go of, and out of which no Python object comes. Nothing else
//! of this crate attaches.

pub(crate) mod caller;
pub(crate) mod collector;
pub(crate) mod debug_log;
pub(crate) mod drop_detached;
pub(crate) mod errors;
pub(crate) mod fork;
pub(crate) mod functions;
pub(crate) mod remedy;
pub(crate) mod sizes;
pub(crate) mod truth;

use std::cell::Cell;
use std::mem::ManuallyDrop;
use std::ptr;

use pyo3::ffi;
use pyo3::prelude::*;
use rmm_core::{DevicePtr, Error, wait};

thread_local! {
    /// What calls of the engine that the thread is in have let go of. Without a destructor.
    static LET_GO: Cell<LetGo> = const { Cell::new(LetGo::NOTHING) };
}

/// The state of a thread without the lock.
#[derive(Clone, Copy)]
struct LetGo {
    state: *mut ffi::PyThreadState,
    /// By how many calls. More than one nest only where C code that the outer one calls has taken
    /// the lock by itself and called Python: then the state is the same.
    calls: u32,
}

impl LetGo {
    const NOTHING: Self = Self { state: ptr::null_mut(), calls: 0 };
}

/// What holds no Python object: it may be dropped without the lock.
pub(crate) trait Plain {}

impl Plain for () {}
impl Plain for bool {}
impl Plain for u32 {}
impl Plain for String {}
impl Plain for DevicePtr {}
impl Plain for Error {}
impl<T: Plain> Plain for Option<T> {}
impl<T: Plain, E: Plain> Plain for Result<T, E> {}

/// Calls the engine with the lock, and without it from the first wait on. Returns whether the lock
/// was held all the time: then nothing has announced a wait.
///
/// # Safety
/// `call` reaches Python objects only through [`attached`].
#[inline]
pub(crate) unsafe fn kept_until_wait<T: Send>(
    _attached: Python<'_>,
    call: impl FnOnce() -> T + Send,
) -> (T, bool) {
    let (returned, has_waited) = wait::before_first_wait(let_go, take_back, call);
    (returned, !has_waited)
}

/// Lets go of the lock. It may run under locks of the engine. It may wait until a thread that asked
/// for the interpreter's lock has it: that thread needs no lock of the engine for it.
#[cold]
fn let_go() {
    let outer = LET_GO.get();
    // SAFETY: the thread is attached: `kept_until_wait` has a token that says so, and this runs
    // once in it, not within `attached`.
    let state = unsafe { ffi::PyEval_SaveThread() };
    LET_GO.set(LetGo { state, calls: outer.calls + 1 });
}

/// Whether a call of the engine that the thread is in has let go of the lock.
pub(crate) fn has_let_go() -> bool {
    LET_GO.get().calls > 0
}

/// Takes the lock again, at the end of a call that has let go of it. No lock of the engine is held.
#[cold]
fn take_back() {
    let LetGo { state, calls } = LET_GO.get();
    LET_GO.set(if calls > 1 { LetGo { state, calls: calls - 1 } } else { LetGo::NOTHING });
    // SAFETY: `let_go` has saved it on this thread, and it was not restored: `attached` has let go
    // of the lock where it took it.
    unsafe { ffi::PyEval_RestoreThread(state) };
}

/// Runs code that touches Python objects, on any thread. `None` where the interpreter has ended:
/// then `act` is leaked, with the Python objects in it.
#[inline]
pub(crate) fn attached<T: Plain>(act: impl FnOnce(Python<'_>) -> T) -> Option<T> {
    wait::outside(|| {
        // PyO3 may count the thread as attached although it is not: this crate, or C code that
        // calls it, has let go of the lock.
        let act = ManuallyDrop::new(act);
        let _guard = AttachGuard::attach()?;
        let act = ManuallyDrop::into_inner(act);
        Python::try_attach(act)
    })
}

/// The lock, held again within a call that has let go of it.
struct AttachGuard {
    outer: LetGo,
    before: ffi::PyGILState_STATE,
}

impl AttachGuard {
    #[cold]
    fn attach() -> Option<Self> {
        // SAFETY: it may be called at any time.
        if unsafe { ffi::Py_IsInitialized() } == 0 {
            return None;
        }
        // SAFETY: the interpreter is initialized. C code that called this may have the lock by now.
        let before = unsafe { ffi::PyGILState_Ensure() };
        Some(Self { outer: LET_GO.replace(LetGo::NOTHING), before })
    }
}

impl Drop for AttachGuard {
    fn drop(&mut self) {
        LET_GO.set(self.outer);
        // SAFETY: it is what `attach` got on this thread.
        unsafe { ffi::PyGILState_Release(self.before) };
    }
}

/// Runs `act` without the lock, whether or not the thread has it.
pub(crate) fn without_the_lock(act: impl FnOnce() + Send) {
    let mut act = Some(act);
    // `None` while the interpreter ends: then no other thread waits for its lock.
    let _ignored = attached(|py| {
        if let Some(act) = act.take() {
            py.detach(act);
        }
    });
    if let Some(act) = act {
        act();
    }
}
