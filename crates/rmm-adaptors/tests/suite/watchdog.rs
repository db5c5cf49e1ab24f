//! A watchdog for tests of calls that could wait for themselves.

use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

/// What the work returns, on a thread of its own. Fails if it has not returned after a minute: then
/// a thread waits for itself, or for one that waits for it.
pub(crate) fn within_a_minute<T: Send + 'static>(
    what: &str,
    work: impl FnOnce() -> T + Send + 'static,
) -> T {
    let (sender, receiver) = channel();
    thread::spawn(move || sender.send(work()).expect("the test waits for it"));
    match receiver.recv_timeout(Duration::from_secs(60)) {
        Ok(outcome) => outcome,
        Err(RecvTimeoutError::Timeout) => panic!("{what}: it never returns"),
        Err(RecvTimeoutError::Disconnected) => panic!("{what}: it panics, as said above"),
    }
}
