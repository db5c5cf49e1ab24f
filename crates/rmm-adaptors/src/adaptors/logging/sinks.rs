//! The writers of a log, and the list of all logs that are flushed when the process exits.

use rmm_core::fork;
use std::io::{self, Write};
use std::mem::ManuallyDrop;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError, Weak};
use std::thread;

pub(super) type Sink = Box<dyn Write + Send>;

/// A function of the program that gets each line, without its end.
pub(super) type OnLine = Box<dyn Fn(&str) + Send + Sync>;

/// All logs that may have lines to flush. Lock order: before the lock of a log; do not take it
/// while holding one.
static LOGS: Mutex<Vec<Weak<Sinks>>> = Mutex::new(Vec::new());

/// Whether exit handlers run: lines that are logged later must be flushed at once.
static EXITING: AtomicBool = AtomicBool::new(false);

/// How often the exit handler tries to lock a log whose lock another thread holds: that thread may
/// never run again.
const TRIES: usize = 1000;

/// The writers of one log.
pub(super) struct Sinks {
    /// Never dropped in a child of the process that made them: writers of files flush then.
    state: ManuallyDrop<Mutex<State>>,
    /// Called without the lock, before the writers get the line.
    functions: Vec<OnLine>,
    /// Which [process](fork::generation) made them. Their buffers hold lines of that one, which it
    /// writes itself.
    generation: u64,
    /// Lines between two flushes.
    flush_every: u64,
    /// Makes the last line, if there is to be one.
    end_mark: Option<EndMark>,
    lost: AtomicU64,
}

/// Makes the line that is written last.
pub(super) type EndMark = Box<dyn Fn() -> Vec<u8> + Send + Sync>;

struct State {
    sinks: Vec<Sink>,
    /// Lines since the last flush.
    unflushed: u64,
    /// Whether the last line is the end mark.
    is_ended: bool,
}

impl Sinks {
    /// Writes the header to every writer and flushes it, and passes it to every function.
    pub(super) fn new(
        mut sinks: Vec<Sink>,
        functions: Vec<OnLine>,
        header: &str,
        flush_every: u64,
        end_mark: Option<EndMark>,
    ) -> io::Result<Arc<Self>> {
        for sink in &mut sinks {
            writeln!(sink, "{header}")?;
            sink.flush()?;
        }
        fork::watch_forks();
        let state = ManuallyDrop::new(Mutex::new(State { sinks, unflushed: 0, is_ended: false }));
        let (generation, lost) = (fork::generation(), AtomicU64::new(0));
        let sinks = Arc::new(Self { state, functions, generation, flush_every, end_mark, lost });
        sinks.pass_on(header.as_bytes());
        let mut logs = fork::lock(&LOGS);
        logs.retain(|log| log.strong_count() > 0);
        logs.push(Arc::downgrade(&sinks));
        drop(logs);
        flush_at_exit();
        Ok(sinks)
    }

    /// Writes a line to every writer, in the process that made them.
    pub(super) fn write(&self, line: &[u8]) {
        if self.check_process().is_err() {
            self.lost.fetch_add(1, Ordering::Relaxed);
            return;
        }
        self.pass_on(line);
        let mut state = self.lock();
        let State { sinks, unflushed, is_ended } = &mut *state;
        *is_ended = false;
        *unflushed += 1;
        let flushes = *unflushed >= self.flush_every || EXITING.load(Ordering::Relaxed);
        for sink in sinks {
            // Catch panics too: unwinding from here would leak an allocation, and may leave a
            // `Drop` that frees.
            let written = catch_unwind(AssertUnwindSafe(|| {
                sink.write_all(line)?;
                if flushes { sink.flush() } else { Ok(()) }
            }));
            if !matches!(written, Ok(Ok(()))) {
                self.lost.fetch_add(1, Ordering::Relaxed);
            }
        }
        if flushes {
            *unflushed = 0;
        }
        if EXITING.load(Ordering::Relaxed) {
            state.end_quietly(self.end_mark.as_ref());
        }
    }

    /// Passes a line to every function. No lock is held.
    fn pass_on(&self, line: &[u8]) {
        if self.functions.is_empty() {
            return;
        }
        let line = String::from_utf8_lossy(line.strip_suffix(b"\n").unwrap_or(line));
        for function in &self.functions {
            // As for writers: unwinding from here would leak an allocation.
            if catch_unwind(AssertUnwindSafe(|| function(&line))).is_err() {
                self.lost.fetch_add(1, Ordering::Relaxed);
            }
        }
    }

    /// Flushes all writers.
    pub(super) fn flush(&self) -> io::Result<()> {
        self.check_process()?;
        self.lock().flush()
    }

    pub(super) fn lost_lines(&self) -> u64 {
        self.lost.load(Ordering::Relaxed)
    }

    pub(super) fn len(&self) -> usize {
        self.lock().sinks.len() + self.functions.len()
    }

    /// # Errors
    /// In a child of the process that made the writers.
    fn check_process(&self) -> io::Result<()> {
        if self.generation == fork::generation() {
            return Ok(());
        }
        Err(io::Error::other(
            "the log is the parent's, and this is a process that it forked: create another",
        ))
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        fork::lock(&self.state)
    }

    /// Writes the end mark and flushes, but gives up if the lock stays taken.
    fn end_unless_locked(&self) {
        for _ in 0..TRIES {
            let mut state = match self.state.try_lock() {
                Ok(state) => state,
                Err(TryLockError::Poisoned(state)) => state.into_inner(),
                Err(TryLockError::WouldBlock) => {
                    thread::yield_now();
                    continue;
                }
            };
            state.end_quietly(self.end_mark.as_ref());
            return;
        }
    }
}

impl State {
    fn flush(&mut self) -> io::Result<()> {
        self.unflushed = 0;
        self.sinks.iter_mut().map(Write::flush).fold(Ok(()), io::Result::and)
    }

    /// Writes the end mark and flushes, where errors and panics cannot be reported.
    fn end_quietly(&mut self, end_mark: Option<&EndMark>) {
        let mark = end_mark.filter(|_| !self.is_ended).map(|mark| mark());
        self.is_ended = true;
        for sink in &mut self.sinks {
            // There is nowhere to report a failed write.
            let _ignored = catch_unwind(AssertUnwindSafe(|| {
                if let Some(mark) = &mark {
                    sink.write_all(mark)?;
                }
                sink.flush()
            }));
        }
    }
}

impl Drop for Sinks {
    fn drop(&mut self) {
        if self.check_process().is_ok() {
            let mark = self.end_mark.as_ref();
            self.state.get_mut().unwrap_or_else(PoisonError::into_inner).end_quietly(mark);
            // SAFETY: dropped here only, and not used afterwards.
            unsafe { ManuallyDrop::drop(&mut self.state) };
        }
    }
}

/// Registers an exit handler that ends all logs.
#[cfg(unix)]
fn flush_at_exit() {
    use std::ffi::c_int;
    use std::sync::Once;

    // Declared as in C11, 7.22.4.2.
    unsafe extern "C" {
        fn atexit(handler: extern "C" fn()) -> c_int;
    }

    extern "C" fn end_all() {
        EXITING.store(true, Ordering::Relaxed);
        // A thread that holds this lock is creating a log, whose header it has flushed already.
        let Ok(logs) = LOGS.try_lock() else { return };
        let logs = logs.iter().filter_map(Weak::upgrade);
        for log in logs.filter(|log| log.check_process().is_ok()) {
            log.end_unless_locked();
        }
    }

    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        // SAFETY: the handler is a function without arguments that neither unwinds nor ends the
        // process. If that fails, the last lines are lost.
        let _ignored = unsafe { atexit(end_all) };
    });
}

#[cfg(not(unix))]
fn flush_at_exit() {}
