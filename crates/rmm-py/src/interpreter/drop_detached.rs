//! Objects of the engine that Python objects own.

use std::mem::ManuallyDrop;

use pyo3::prelude::*;

use crate::interpreter::fork;
use crate::interpreter::without_the_lock;

/// An object of the engine. It is dropped without the interpreter's lock, since that may call the
/// driver, wait, or call back into Python; and never in the child of a fork, where the driver and
/// the locks are the parent's.
#[derive(Debug)]
pub(crate) struct DropDetached<T: Send>(ManuallyDrop<T>);

impl<T: Send> DropDetached<T> {
    pub(crate) fn new(object: T) -> Self {
        Self(ManuallyDrop::new(object))
    }

    /// The object, to call it.
    ///
    /// # Errors
    /// `RuntimeError` in the child of a fork.
    #[inline]
    pub(crate) fn get(&self) -> PyResult<&T> {
        fork::check()?;
        Ok(&self.0)
    }

    /// The object, to end it by a call that can fail; none in the child of a fork.
    pub(crate) fn take(self) -> Option<T> {
        let mut own = ManuallyDrop::new(self);
        // SAFETY: `own` is neither dropped nor used afterwards.
        let object = unsafe { ManuallyDrop::take(&mut own.0) };
        if !fork::in_child() {
            return Some(object);
        }
        let _leaked = ManuallyDrop::new(object);
        None
    }

    /// The object, for calls that neither take a lock nor call the driver.
    #[inline]
    pub(crate) fn peek(&self) -> &T {
        &self.0
    }
}

impl<T: Send> Drop for DropDetached<T> {
    fn drop(&mut self) {
        if !fork::in_child() {
            // SAFETY: nothing uses the field after `drop`.
            let object = unsafe { ManuallyDrop::take(&mut self.0) };
            without_the_lock(|| drop(object));
        }
    }
}
