//! A function of the caller, which a resource keeps.

use std::ffi::c_void;

use super::guard;

/// Releases a context.
pub(crate) type Release = Option<unsafe extern "C-unwind" fn(context: *mut c_void)>;

/// A function with its context, which is released with it.
pub(crate) struct Callback<F> {
    pub(crate) function: F,
    pub(crate) context: *mut c_void,
    release: Release,
}

// SAFETY: by the clause on callbacks, both functions may be called with this context on any thread.
unsafe impl<F: Send> Send for Callback<F> {}
// SAFETY: by the clause on callbacks, the function may be called on several threads at once.
unsafe impl<F: Sync> Sync for Callback<F> {}

impl<F> Callback<F> {
    /// Takes the context, which is the callback's from now on.
    ///
    /// # Safety
    /// The clause on callbacks holds for the three.
    pub(crate) unsafe fn new(function: F, context: *mut c_void, release: Release) -> Self {
        Self { function, context, release }
    }
}

impl<F> Drop for Callback<F> {
    fn drop(&mut self) {
        if let Some(release) = self.release
            && !rmm_core::process_is_exiting()
        {
            // SAFETY: by the clause on callbacks, it may be called once with this context, which no
            // call of the function uses any more. A drop must not unwind.
            guard::value((), || unsafe { release(self.context) });
        }
    }
}
