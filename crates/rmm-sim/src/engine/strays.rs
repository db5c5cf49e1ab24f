//! Strays: driver calls of threads that are on no machine, which no check sees.
#![forbid(unsafe_code)]

use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::engine::thread;

/// The calls of strays, while programs are checked.
#[derive(Debug)]
struct Strays {
    /// How many checks are running.
    checks: usize,
    calls: Vec<Stray>,
}

/// A call of a thread that is on no machine.
#[derive(Debug)]
struct Stray {
    thread: u64,
    call: &'static str,
}

static STRAYS: Mutex<Strays> = Mutex::new(Strays { checks: 0, calls: Vec::new() });
/// Upper bound on the calls that are kept.
const MAX_CALLS: usize = 1000;

fn lock() -> MutexGuard<'static, Strays> {
    STRAYS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Records a call of the calling thread, which is on no machine, if a check is running.
pub(crate) fn record(call: &'static str) {
    let mut strays = lock();
    if strays.checks > 0 && strays.calls.len() < MAX_CALLS {
        strays.calls.push(Stray { thread: thread::number(), call });
    }
}

/// A running check: it sees the calls that threads on no machine make from now on.
#[derive(Debug)]
pub(crate) struct Watch {
    /// How many calls there were before.
    first: usize,
    /// The last thread that had called the driver before.
    last_thread: u64,
}

impl Watch {
    pub(crate) fn begin() -> Self {
        let mut strays = lock();
        strays.checks += 1;
        Self { first: strays.calls.len(), last_thread: thread::last_number() }
    }

    /// The calls made since on no machine, by threads that had made none before: those that the
    /// program started, and not the other tests of the process.
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
