//! Calls in children, beside threads of the parent that work.

use std::any::Any;
use std::hint::black_box;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::{fmt, thread};

use rmm_sim::Machine;

/// Children for each call: whether a lock is held at a fork is chance.
const CHILDREN: usize = 4;

/// The seconds after which a child is ended by a signal.
const LONG: libc::c_uint = 60;

/// What every refusal says.
const REASON: &str = "CUDA cannot be used after fork";

/// What a child does, and how it may end.
pub(crate) struct Call<'a> {
    name: &'static str,
    act: Box<dyn Fn() + 'a>,
    may_panic: bool,
}

/// A call that returns.
pub(crate) fn does<'a, R>(name: &'static str, act: impl Fn() -> R + 'a) -> Call<'a> {
    Call {
        name,
        act: Box::new(move || {
            black_box(act());
        }),
        may_panic: false,
    }
}

/// A call that has no other way to refuse than a panic with the reason.
pub(crate) fn says<'a, R>(name: &'static str, act: impl Fn() -> R + 'a) -> Call<'a> {
    Call { may_panic: true, ..does(name, act) }
}

/// Drops a value in a child, of which the parent keeps its own copy.
pub(crate) fn drop_of<T>(value: &T) {
    // SAFETY: the child ends without a use of the value that it was read from.
    drop(unsafe { std::ptr::read(value) });
}

/// Keeps panics that a child expects out of the output.
pub(crate) fn silence_refusals() {
    let before = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        if !rmm_core::fork::is_child() {
            before(info);
        }
    }));
}

/// Panics unless the call was refused with the reason.
pub(crate) fn refused<T, E: fmt::Display + fmt::Debug>(outcome: Result<T, E>) {
    let error = outcome.err().expect("it is refused");
    let text = format!("{error} {error:?}");
    assert!(text.contains(REASON), "{text}");
}

/// Makes each call in children of its own, while two threads do `busy` over and over.
pub(crate) fn call_each(
    machine: &Machine,
    what: &str,
    busy: &(dyn Fn() + Sync),
    calls: &[Call<'_>],
    wrong: &mut Vec<String>,
) {
    let ends = AtomicBool::new(false);
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                let _entered = machine.enter();
                while !ends.load(Ordering::Relaxed) {
                    busy();
                }
            });
        }
        for call in calls {
            let failed = (0..CHILDREN).find_map(|_| in_child(call).err());
            wrong.extend(failed.map(|how| format!("{what}, {}: {how}", call.name)));
        }
        ends.store(true, Ordering::Relaxed);
    });
}

fn in_child(call: &Call<'_>) -> Result<(), String> {
    // SAFETY: the child calls the library, which this test is about, and ends without handlers.
    let child = unsafe { libc::fork() };
    if child == 0 {
        // SAFETY: the signal's default action ends the child.
        unsafe { libc::alarm(LONG) };
        let status = match catch_unwind(AssertUnwindSafe(&call.act)) {
            Ok(()) => 0,
            Err(panic) if call.may_panic && text_of(&*panic).contains(REASON) => 0,
            Err(panic) => {
                let text = format!("    {}\n", text_of(&*panic));
                // SAFETY: the text is readable. There is nowhere to report a failed write.
                let _ignored = unsafe { libc::write(2, text.as_ptr().cast(), text.len()) };
                1
            }
        };
        // SAFETY: ends the child at once.
        unsafe { libc::_exit(status) };
    }
    let mut status = 0;
    // SAFETY: it is a child of this process, and the status may be written to.
    assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
    match (libc::WIFEXITED(status), libc::WEXITSTATUS(status)) {
        (true, 0) => Ok(()),
        (true, _) => Err("it panics".to_owned()),
        _ if libc::WTERMSIG(status) == libc::SIGALRM => Err("it waits for ever".to_owned()),
        _ => Err(format!("signal {}", libc::WTERMSIG(status))),
    }
}

fn text_of(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or_default()
}
