//! The child of a `fork`. Its memory is a copy of the parent's, the driver does not work in it, and
//! a lock that another thread of the parent held is never released there.
//!
//! - Calls that can fail do so, by [`check`] or since there is [no driver](crate::current_driver).
//! - Frees and drops do nothing, as while the process [exits](crate::process_is_exiting).
//! - What remains takes locks with [`lock`], and panics instead of waiting for ever.

#![forbid(unsafe_code)]

use std::sync::{
    Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard, TryLockError,
    TryLockResult,
};
use std::thread;

pub use rmm_sys::process::{generation, is_child, watch_forks};
use rmm_sys::{LoadError, process};

use crate::{Error, wait};

/// How often a child tries to take a lock, which another thread of its own may hold.
const TRIES: usize = 1000;

/// # Errors
/// In a child.
#[inline]
pub fn check() -> Result<(), Error> {
    if process::is_child() { Err(LoadError::forked().into()) } else { Ok(()) }
}

/// Takes a lock. A poisoned one is taken all the same.
///
/// # Panics
/// In a child, if the lock is another thread's and stays so.
#[inline]
pub fn lock<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    taken(mutex.try_lock()).unwrap_or_else(|| {
        let wait = || mutex.lock().unwrap_or_else(PoisonError::into_inner);
        contended(|| taken(mutex.try_lock()), wait)
    })
}

/// Takes a lock for reading. A poisoned one is taken all the same.
///
/// # Panics
/// Where [`lock`] panics.
#[inline]
pub fn read<T: ?Sized>(shared: &RwLock<T>) -> RwLockReadGuard<'_, T> {
    taken(shared.try_read()).unwrap_or_else(|| {
        let wait = || shared.read().unwrap_or_else(PoisonError::into_inner);
        contended(|| taken(shared.try_read()), wait)
    })
}

/// Takes a lock for writing. A poisoned one is taken all the same.
///
/// # Panics
/// Where [`lock`] panics.
#[inline]
pub fn write<T: ?Sized>(shared: &RwLock<T>) -> RwLockWriteGuard<'_, T> {
    taken(shared.try_write()).unwrap_or_else(|| {
        let wait = || shared.write().unwrap_or_else(PoisonError::into_inner);
        contended(|| taken(shared.try_write()), wait)
    })
}

/// Called before a wait for another thread: in a child it may be one that the child does not have.
/// Runs the [hook](crate::wait) of the call.
///
/// # Panics
/// In a child.
#[inline]
pub fn check_wait() {
    wait::about_to_wait();
    if process::is_child() {
        refuse();
    }
}

fn taken<G>(attempt: TryLockResult<G>) -> Option<G> {
    match attempt {
        Ok(guard) => Some(guard),
        Err(TryLockError::Poisoned(guard)) => Some(guard.into_inner()),
        Err(TryLockError::WouldBlock) => None,
    }
}

#[cold]
fn contended<G>(attempt: impl Fn() -> Option<G>, wait: impl FnOnce() -> G) -> G {
    wait::about_to_wait();
    if !process::is_child() {
        return wait();
    }
    let mut attempts = (0..TRIES).map(|_| {
        thread::yield_now();
        attempt()
    });
    attempts.find_map(|guard| guard).unwrap_or_else(|| refuse())
}

#[cold]
fn refuse() -> ! {
    panic!("{}", LoadError::forked())
}
