//! The host function that wakes a task.
//!
//! It runs on a thread of the driver, where calls of the driver are forbidden. Dropping a waker may
//! drop its task, and the task may own memory, streams and events, whose destructors call the
//! driver. So the waker is called here, and dropped by the watcher's thread.

use std::ffi::c_void;
use std::sync::Arc;

use rmm_core::{Error, StreamRef, check, driver_in_context};

use crate::signal::{Signal, catch};
use crate::watcher::discard;

/// Enqueues a host function that marks the current end of `stream` as reached. After a fault it
/// never runs, and the signal is leaked.
///
/// # Errors
/// Whatever the driver reports.
pub(crate) fn enqueue(signal: &Arc<Signal>, stream: StreamRef<'_>) -> Result<(), Error> {
    let (driver, _) = driver_in_context()?;
    let data = Arc::into_raw(Arc::clone(signal));
    // SAFETY: 1. the stream exists while it is borrowed. 2. The function is called once with this
    // pointer, which is counted for it, on any thread.
    let code =
        unsafe { driver.cuLaunchHostFunc(stream.as_raw(), Some(reached), data.cast_mut().cast()) };
    check("cuLaunchHostFunc", code).inspect_err(|_| {
        // SAFETY: the pointer is from `Arc::into_raw`, and the function will not be called.
        drop(unsafe { Arc::from_raw(data) });
    })
}

/// The host function. It calls no driver and does not unwind.
///
/// # Safety
/// `data` is from `Arc::into_raw` of a `Signal`, and is passed once.
unsafe extern "C" fn reached(data: *mut c_void) {
    // SAFETY: the caller's contract.
    let signal = unsafe { Arc::from_raw(data.cast_const().cast::<Signal>()) };
    if let Some(waker) = signal.reach() {
        catch(|| waker.wake_by_ref());
        discard(waker);
    }
}

#[cfg(test)]
mod tests {
    use std::mem::ManuallyDrop;
    use std::sync::Weak;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::mpsc::{Sender, channel};
    use std::task::{Wake, Waker};
    use std::thread::{self, ThreadId};

    use super::*;

    /// Calls the host function.
    fn call(signal: &Arc<Signal>) {
        // SAFETY: the pointer is from `Arc::into_raw`.
        unsafe { reached(Arc::into_raw(Arc::clone(signal)).cast_mut().cast()) };
    }

    /// A task that reports the thread it is dropped on.
    struct Task {
        woken: AtomicUsize,
        dropped: Sender<ThreadId>,
    }

    impl Wake for Task {
        fn wake(self: Arc<Self>) {
            self.woken.fetch_add(1, Ordering::Relaxed);
        }
    }

    impl Drop for Task {
        fn drop(&mut self) {
            self.dropped.send(thread::current().id()).expect("the test waits");
        }
    }

    /// A task whose waker panics.
    struct Panics;

    impl Wake for Panics {
        fn wake(self: Arc<Self>) {
            panic!("woken");
        }
    }

    #[test]
    fn a_task_is_woken_here_and_dropped_elsewhere() {
        let (sender, dropped) = channel();
        let (signal, woken) = (Arc::new(Signal::default()), AtomicUsize::new(0));
        let task = Arc::new(Task { woken, dropped: sender });
        let seen = Arc::downgrade(&task);
        assert!(signal.wait(&Waker::from(task)), "the last handle to the task");
        call(&signal);
        assert_eq!(Arc::strong_count(&signal), 1);
        assert_ne!(dropped.recv().expect("it is dropped"), thread::current().id());
        assert_eq!(Weak::strong_count(&seen), 0);
        assert!(!signal.wait(Waker::noop()), "the place is reached");
    }

    #[test]
    fn a_panic_of_a_waker_does_not_leave_the_host_function() {
        let signal = Arc::new(Signal::default());
        assert!(signal.wait(&Waker::from(Arc::new(Panics))));
        call(&signal);
        assert!(!signal.wait(Waker::noop()));
    }

    #[test]
    fn the_last_waker_is_the_one_that_is_called() {
        let signal = Arc::new(Signal::default());
        let task = || {
            let (dropped, receiver) = channel();
            // The task is never dropped, so the receiver need not be there.
            drop(receiver);
            ManuallyDrop::new(Arc::new(Task { woken: AtomicUsize::new(0), dropped }))
        };
        let (first, second) = (task(), task());
        assert!(signal.wait(&Waker::from(Arc::clone(&first))));
        assert!(signal.wait(&Waker::from(Arc::clone(&second))));
        call(&signal);
        call(&signal);
        let count = |task: &Task| task.woken.load(Ordering::Relaxed);
        assert_eq!((count(&first), count(&second)), (0, 1));
    }
}
