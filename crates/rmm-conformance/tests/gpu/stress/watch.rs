//! A watchdog: prints what the threads of a stuck round are doing, since a test that merely does
//! not end cannot be repeated.

use std::io::Write as _;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Duration;

/// A round in which nothing was begun for so long stands still: far longer than any step, on the
/// slowest machine.
const PATIENCE: Duration = Duration::from_secs(100);

/// Where the threads of a round say what they are at.
pub(super) struct Board {
    /// How many steps were begun.
    begun: AtomicU64,
    /// Index: a thread's number.
    doing: Vec<Mutex<&'static str>>,
}

impl Board {
    pub(super) fn new(threads: usize) -> Self {
        let doing = (0..threads).map(|_| Mutex::new("start")).collect();
        Self { begun: AtomicU64::new(0), doing }
    }

    /// A thread begins something.
    pub(super) fn begin(&self, thread: usize, what: &'static str) {
        self.begun.fetch_add(1, Ordering::Relaxed);
        *self.doing[thread].lock().unwrap_or_else(PoisonError::into_inner) = what;
    }

    /// Does something, and ends the program if the threads stand still meanwhile.
    pub(super) fn watch<R>(&self, act: impl FnOnce() -> R) -> R {
        thread::scope(|scope| {
            let (end, ended) = channel::<()>();
            scope.spawn(move || {
                let mut begun = 0;
                while ended.recv_timeout(PATIENCE) == Err(RecvTimeoutError::Timeout) {
                    let now = self.begun.load(Ordering::Relaxed);
                    if now == begun {
                        self.give_up();
                    }
                    begun = now;
                }
            });
            let result = act();
            drop(end);
            result
        })
    }

    fn give_up(&self) -> ! {
        let doing =
            self.doing.iter().map(|what| *what.lock().unwrap_or_else(PoisonError::into_inner));
        let doing: Vec<&str> = doing.collect();
        // Not by `println!`, which the test runner keeps to itself.
        let say = |line: &str| drop(writeln!(std::io::stderr(), "{line}"));
        say(&format!("nothing was begun for {PATIENCE:?}; the threads are at {doing:?}"));
        for line in system_threads() {
            say(&line);
        }
        std::process::abort();
    }
}

/// What the system says of this program's threads, if it does: whether they run or wait, for
/// what, and how long they have run.
fn system_threads() -> Vec<String> {
    let Ok(tasks) = std::fs::read_dir("/proc/self/task") else { return Vec::new() };
    let read = |path: PathBuf| std::fs::read_to_string(path).unwrap_or_default();
    let describe = |task: std::fs::DirEntry| {
        let of = |name: &str| read(task.path().join(name));
        // What follows the name, which may hold anything: first the state, and as the 12th the time
        // it ran, in ticks.
        let stat = of("stat");
        let fields: Vec<&str> =
            stat.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
        let field = |number: usize| fields.get(number).copied().unwrap_or("?");
        let (name, call) = (of("comm"), of("syscall"));
        format!("{}: {}, ran {} ticks, in {}", name.trim(), field(0), field(11), call.trim())
    };
    tasks.flatten().map(describe).collect()
}
