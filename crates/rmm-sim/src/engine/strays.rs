//! Strays: driver calls of threads that entered no machine. They go to the default machine, which
//! is not checked, so a check fails if its program makes any.
#![forbid(unsafe_code)]

use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::engine::thread;

/// The stray calls made while checks are running.
#[derive(Debug)]
struct Strays {
    /// How many checks are running.
    checks: usize,
    calls: Vec<Stray>,
}

/// A call of a thread that entered no machine.
#[derive(Debug)]
struct Stray {
    thread: u64,
    call: &'static str,
}

static STRAYS: Mutex<Strays> = Mutex::new(Strays { checks: 0, calls: Vec::new() });
/// Upper bound on the calls that are recorded.
const MAX_CALLS: usize = 1000;

fn lock() -> MutexGuard<'static, Strays> {
    STRAYS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Records a stray call of the calling thread, if a check is running.
pub(crate) fn record(call: &'static str) {
    let mut strays = lock();
    if strays.checks > 0 && strays.calls.len() < MAX_CALLS {
        strays.calls.push(Stray { thread: thread::number(), call });
    }
}

/// A running check, which observes stray calls from now on.
#[derive(Debug)]
pub(crate) struct Watch {
    /// The number of calls recorded before.
    first: usize,
    /// The largest thread number when the check began.
    last_thread: u64,
}

impl Watch {
    pub(crate) fn begin() -> Self {
        let mut strays = lock();
        strays.checks += 1;
        Self { first: strays.calls.len(), last_thread: thread::last_number() }
    }

    /// The stray calls since then, of threads that made their first call since then: those that the
    /// program started, not other tests of the process.
    pub(crate) fn strays(&self) -> Vec<&'static str> {
        let strays = lock();
        let since = strays.calls.iter().skip(self.first);
        since.filter(|stray| stray.thread > self.last_thread).map(|stray| stray.call).collect()
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        let mut strays = lock();
        strays.checks -= 1;
        if strays.checks == 0 {
            strays.calls.clear();
        }
    }
}
