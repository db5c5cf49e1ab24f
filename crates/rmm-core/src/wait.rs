//! A hook that runs before a thread waits for the first time within a call: for a caller that holds
//! a lock of its own, such as the global interpreter lock of Python, and lets go of it only where
//! the call may take long.
//!
//! ```text
//! before_first_wait(let_go, take_back, call)
//!   call -- hit in a thread's cache ---------------------------------------------> returned
//!   call -- contended lock, driver, code of the program -- let_go -- waits ... -- take_back
//! ```
//!
//! The slow places announce themselves with [`about_to_wait`]:
//!
//! | place | where |
//! |---|---|
//! | a contended lock | [`fork::lock`](crate::fork::lock), `read`, `write`; [`backoff::spin_until`](crate::backoff::spin_until) |
//! | a wait for a condition | [`fork::check_wait`](crate::fork::check_wait) |
//! | a call of the driver | [`current_driver`](crate::current_driver), not `Driver::get` |
//! | code of the program | [`siblings::in_program`](crate::siblings::in_program), callback resources |
//! | a pool's call to its upstream | `Session::call_upstream` |
//!
//! A thread without a hook reads and writes one thread-local cell there, and nothing elsewhere.
//! Files, and work that is linear in the number of blocks, are announced as well.

#![forbid(unsafe_code)]

use std::cell::Cell;
use std::mem::ManuallyDrop;

thread_local! {
    /// The hook of the call that the thread is in, until it has run. Without a destructor: at the
    /// end of the thread, too, it is there.
    static HOOK: Cell<Option<fn()>> = const { Cell::new(None) };
}

/// Makes a call, and runs `let_go` on this thread before the first wait in it, if there is one. If
/// it has run, `take_back` runs at the end of the call, also by a panic. Each runs once at most.
/// Returns what the call returned, and whether they have run.
///
/// `let_go` may run while locks of this library are held, so it must not panic, call this library,
/// or wait for a thread that needs one of them. When `take_back` runs, this call holds none.
///
/// Calls nest: within, the hook of the innermost one runs.
///
/// ```
/// use std::alloc::Layout;
/// use std::cell::Cell;
/// use rmm_core::{CudaStream, Resource, wait};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let _machine = rmm_sim::enter();
/// # let resource = rmm_resources::CudaMemoryResource::new();
/// thread_local! { static LOCKS: Cell<u32> = const { Cell::new(1) } }
/// let (let_go, take_back) = (|| LOCKS.set(LOCKS.get() - 1), || LOCKS.set(LOCKS.get() + 1));
///
/// let (stream, layout) = (CudaStream::new()?, Layout::from_size_align(1000, 256)?);
/// let (block, has_waited) =
///     wait::before_first_wait(let_go, take_back, || resource.allocate(&stream, layout));
/// assert!(has_waited, "`cudaMalloc` is a call of the driver");
/// assert_eq!(LOCKS.get(), 1);
/// # // SAFETY: allocated above with this layout, and not used.
/// # unsafe { resource.deallocate(&stream, block?, layout) };
/// # Ok(())
/// # }
/// ```
#[inline]
pub fn before_first_wait<T>(let_go: fn(), take_back: fn(), call: impl FnOnce() -> T) -> (T, bool) {
    let hooked = Hooked { outer: HOOK.replace(Some(let_go)), take_back };
    let returned = call();
    (returned, hooked.end())
}

/// Runs the hook of the call that this thread is in, if there is one that has not run.
///
/// Authors of a resource or an adaptor call it before they wait otherwise than by a call of this
/// library or by [`current_driver`](crate::current_driver): for a lock of their own, or a file.
#[inline]
pub fn about_to_wait() {
    if let Some(hook) = HOOK.take() {
        hook();
    }
}

/// Runs code that holds the caller's lock again, such as a callback, within a call. Waits in it do
/// not run the call's hook.
#[inline]
pub fn outside<T>(code: impl FnOnce() -> T) -> T {
    let _outer = Outside(HOOK.take());
    code()
}

/// A call with a hook. Its end puts back the hook of the call outside.
struct Hooked {
    outer: Option<fn()>,
    take_back: fn(),
}

impl Hooked {
    /// Returns whether the hook has run.
    #[inline]
    fn end(self) -> bool {
        // What `drop` does.
        ManuallyDrop::new(self).put_back()
    }

    #[inline]
    fn put_back(&self) -> bool {
        let has_run = HOOK.replace(self.outer).is_none();
        if has_run {
            (self.take_back)();
        }
        has_run
    }
}

impl Drop for Hooked {
    /// At a panic.
    #[cold]
    fn drop(&mut self) {
        // It does not matter whether the hook has run.
        let _ignored = self.put_back();
    }
}

/// Code without a hook. Its end puts back the hook of the call outside.
struct Outside(Option<fn()>);

impl Drop for Outside {
    #[inline]
    fn drop(&mut self) {
        HOOK.set(self.0);
    }
}

#[cfg(test)]
mod tests {
    use std::panic::catch_unwind;
    use std::sync::mpsc::channel;
    use std::sync::{Mutex, RwLock};
    use std::thread;
    use std::time::Duration;

    use super::*;
    use crate::fork;
    use crate::siblings::in_program;

    /// Longer than any thread is kept from running.
    const LONG: Duration = Duration::from_secs(60);

    thread_local! {
        static RUNS: Cell<u32> = const { Cell::new(0) };
    }

    fn run() {
        RUNS.set(RUNS.get() + 1);
    }

    fn no_end() {}

    /// How often the hook ran in a call.
    fn runs(call: impl FnOnce()) -> u32 {
        RUNS.set(0);
        let ((), has_run) = before_first_wait(run, no_end, call);
        assert_eq!(has_run, RUNS.get() > 0);
        RUNS.get()
    }

    #[test]
    fn a_hook_runs_once_before_the_first_wait() {
        assert_eq!(runs(|| {}), 0);
        assert_eq!(runs(about_to_wait), 1);
        let twice = || {
            about_to_wait();
            about_to_wait();
        };
        assert_eq!(runs(twice), 1);
        RUNS.set(0);
        about_to_wait();
        assert_eq!(RUNS.get(), 0, "the thread is in no call");
    }

    #[test]
    fn each_slow_place_runs_the_hook() {
        let _machine = rmm_sim::enter();
        assert_eq!(runs(fork::check_wait), 1);
        assert_eq!(runs(|| in_program(|| ())), 1);
        assert_eq!(runs(|| assert!(crate::current_driver().is_ok())), 1);
        assert_eq!(runs(|| assert!(crate::driver_for_drop().is_some())), 1);
        assert_eq!(runs(|| assert!(crate::Context::current().is_ok())), 1);
    }

    /// Takes a lock on another thread until the hook of this one has run.
    fn contends<G>(hold: impl FnOnce() -> G + Send, take: impl FnOnce()) {
        thread_local! {
            static LET_GO: Cell<Option<std::sync::mpsc::Sender<()>>> = const { Cell::new(None) };
        }
        let (let_go, is_let_go) = channel();
        let (took, is_taken) = channel();
        LET_GO.set(Some(let_go));
        thread::scope(|scope| {
            scope.spawn(move || {
                let guard = hold();
                took.send(()).expect("the test waits");
                let has_run = is_let_go.recv_timeout(LONG);
                drop(guard);
                assert_eq!(has_run, Ok(()), "the hook ran");
            });
            is_taken.recv().expect("the thread takes the lock");
            let send = || LET_GO.take().expect("it runs once").send(()).expect("the thread waits");
            let ((), has_run) = before_first_wait(send, no_end, take);
            assert!(has_run);
        });
    }

    #[test]
    fn a_contended_lock_runs_the_hook_and_a_free_one_does_not() {
        let (mutex, shared) = (Mutex::new(()), RwLock::new(()));
        contends(|| fork::lock(&mutex), || drop(fork::lock(&mutex)));
        contends(|| fork::write(&shared), || drop(fork::read(&shared)));
        contends(|| fork::read(&shared), || drop(fork::write(&shared)));
        let free = || {
            drop(fork::lock(&mutex));
            drop(fork::read(&shared));
            drop(fork::write(&shared));
        };
        assert_eq!(runs(free), 0);
    }

    #[test]
    fn the_innermost_hook_runs_and_the_outer_one_is_back_afterwards() {
        fn inner() {
            RUNS.set(RUNS.get() + 10);
        }
        let outer = || {
            let ((), has_run) = before_first_wait(inner, no_end, about_to_wait);
            assert!(has_run);
            assert_eq!(RUNS.get(), 10);
            outside(about_to_wait);
            assert_eq!(RUNS.get(), 10);
            about_to_wait();
        };
        assert_eq!(runs(outer), 11);
    }

    #[test]
    fn a_panic_ends_the_call_as_a_return_does() {
        fn end() {
            RUNS.set(RUNS.get() + 10);
        }
        for (waits, runs) in [(true, 11), (false, 0)] {
            RUNS.set(0);
            let panicked = catch_unwind(|| {
                before_first_wait(run, end, || {
                    if waits {
                        about_to_wait();
                    }
                    panic!("it does")
                })
            });
            assert!(panicked.is_err());
            assert_eq!(RUNS.get(), runs);
            about_to_wait();
            assert_eq!(RUNS.get(), runs, "the thread is in no call");
        }
    }

    #[test]
    fn what_was_let_go_of_is_taken_back_at_the_end() {
        fn end() {
            RUNS.set(RUNS.get() + 10);
        }
        RUNS.set(0);
        let seen = before_first_wait(run, end, || {
            about_to_wait();
            RUNS.get()
        });
        assert_eq!((seen, RUNS.get()), ((1, true), 11));
        assert_eq!((before_first_wait(run, end, || ()), RUNS.get()), (((), false), 11));
    }
}
