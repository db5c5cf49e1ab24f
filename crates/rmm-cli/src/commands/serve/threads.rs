//! Threads that end together.

use std::io;
use std::thread::{self, ScopedJoinHandle};

/// Does each work on a thread of its own. Where one fails or panics, `end` is called, which lets
/// the others return. Returns what went wrong, after the name of each.
pub(super) fn run<W, E>(works: Vec<(String, W)>, end: E) -> Vec<String>
where
    W: FnOnce() -> io::Result<()> + Send,
    E: Fn() + Sync,
{
    let end = &end;
    thread::scope(|scope| {
        let start = |(name, work): (String, W)| {
            let does = move || {
                let mut others = EndsOthers { end, is_armed: true };
                let outcome = work();
                others.is_armed = outcome.is_err();
                outcome
            };
            let thread = thread::Builder::new().spawn_scoped(scope, does);
            if thread.is_err() {
                end();
            }
            (name, thread)
        };
        // All are started before one is waited for.
        let threads: Vec<_> = works.into_iter().map(start).collect();
        let joined = threads.into_iter().map(|(name, thread)| (name, join(thread)));
        joined.filter_map(|(name, outcome)| Some(format!("{name}: {}", outcome.err()?))).collect()
    })
}

fn join(thread: io::Result<ScopedJoinHandle<'_, io::Result<()>>>) -> Result<(), String> {
    let thread = thread.map_err(|error| format!("no thread could be started: {error}"))?;
    let outcome = thread.join().map_err(|_| "its thread has panicked".to_owned())?;
    outcome.map_err(|error| format!("cannot go on: {error}"))
}

/// Ends the others when dropped, also by a panic.
struct EndsOthers<'a, E: Fn()> {
    end: &'a E,
    is_armed: bool,
}

impl<E: Fn()> Drop for EndsOthers<'_, E> {
    fn drop(&mut self) {
        if self.is_armed {
            (self.end)();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;
    use std::sync::mpsc;
    use std::time::Duration;

    use super::*;

    /// What went wrong where one thread does this, and another waits until it is ended.
    fn failures(first: fn() -> io::Result<()>) -> Vec<String> {
        let (sender, receiver) = mpsc::channel();
        let sender = Mutex::new(sender);
        let waits: Box<dyn FnOnce() -> io::Result<()> + Send> = Box::new(move || {
            receiver.recv_timeout(Duration::from_secs(20)).map_err(io::Error::other)
        });
        let works = vec![("waits".to_owned(), waits), ("first".to_owned(), Box::new(first) as _)];
        run(works, || {
            // It may have ended already.
            let _ignored = sender.lock().expect("no panic has it").send(());
        })
    }

    #[test]
    fn a_thread_that_fails_or_panics_ends_the_others() {
        let failed = failures(|| Err(io::Error::other("no sockets")));
        assert_eq!(failed, ["first: cannot go on: no sockets"]);
        let panicked = failures(|| panic!("on purpose"));
        assert_eq!(panicked, ["first: its thread has panicked"]);
    }
}
