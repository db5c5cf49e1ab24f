//! Calls that other threads wait for, and code of the program inside them, for which no thread
//! waits.
//!
//! A thread waits until another thread's call to upstream has ended, or until its [turn] is over.
//! Such a call may run code of the program: a callback, an adaptor's hook, a writer of a log. That
//! code may need what the waiting thread is about to do, by a lock or a join, so the waiting thread
//! goes on as soon as it begins:
//!
//! ```text
//!   begin(call)            in_program            in_library            end
//!   |--- waited for -------|     not waited for  |-- waited for --|    |
//! ```
//!
//! [turn]: super::Turn

use std::cell::{Cell, RefCell};
use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use super::thread_state::Flag;
use crate::wait;

/// Something of one thread that other threads wait for.
pub trait Awaited: Send + Sync {
    /// The thread enters code of the program: threads that wait go on.
    fn pause(&self);

    /// The thread has left that code.
    fn resume(&self);
}

/// What a resource [provides](crate::Query::value) that enters code of the program, and waits for
/// locks that such code may hold, by [`in_program`] alone. A call of another one counts as code of
/// the program.
#[derive(Clone, Copy, Debug)]
pub struct MayBeWaitedFor;

thread_local! {
    /// What other threads wait for, the outermost first.
    static AWAITED: RefCell<Vec<Arc<dyn Awaited>>> = const { RefCell::new(Vec::new()) };
    /// How many there are.
    static COUNT: Cell<usize> = const { Cell::new(0) };
    /// How many of them are paused: the first ones.
    static PAUSED: Cell<usize> = const { Cell::new(0) };
    /// How many were, outside of the innermost code of the program.
    static OUTSIDE: Cell<usize> = const { Cell::new(0) };
}

/// Other threads may wait for a call or a turn of this thread, until this is dropped.
pub(super) struct Awaiting {
    /// `None` at the end of the thread.
    awaited: Option<Arc<dyn Awaited>>,
    /// The list is the thread's.
    thread_bound: PhantomData<*const ()>,
}

impl fmt::Debug for Awaiting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Awaiting").finish_non_exhaustive()
    }
}

impl Awaiting {
    pub(super) fn begin(awaited: Arc<dyn Awaited>) -> Self {
        let entered = AWAITED.try_with(|all| all.borrow_mut().push(Arc::clone(&awaited)));
        let awaited = entered.is_ok().then_some(awaited);
        set_count(COUNT.get() + usize::from(awaited.is_some()));
        Self { awaited, thread_bound: PhantomData }
    }
}

impl Drop for Awaiting {
    fn drop(&mut self) {
        let Some(own) = &self.awaited else { return };
        let removed = AWAITED.try_with(|all| {
            let mut all = all.borrow_mut();
            all.iter().rposition(|it| Arc::ptr_eq(it, own)).map(|place| all.remove(place))
        });
        set_count(COUNT.get() - 1);
        drop(removed);
    }
}

fn set_count(count: usize) {
    COUNT.set(count);
    Flag::Awaited.set(count > 0);
}

/// Makes a call that other threads may wait for.
pub fn awaited<T>(by: Arc<dyn Awaited>, call: impl FnOnce() -> T) -> T {
    let _awaiting = Awaiting::begin(by);
    call()
}

/// Pauses the first `count`, and resumes the others.
fn pause_first(count: usize) {
    let before = PAUSED.replace(count);
    Flag::Paused.set(count > 0);
    // At the end of the thread nothing is in the list.
    let _ignored = AWAITED.try_with(|all| {
        let all = all.borrow();
        all.get(before..count).unwrap_or_default().iter().for_each(|it| it.pause());
        all.get(count..before).unwrap_or_default().iter().for_each(|it| it.resume());
    });
}

/// How many are paused, and were outside.
#[derive(Clone, Copy)]
struct Depths {
    paused: usize,
    outside: usize,
}

impl Depths {
    #[cold]
    fn restore(self) {
        OUTSIDE.set(self.outside);
        pause_first(self.paused);
    }
}

/// Restores what has changed, if anything has, also if the code in between panics.
struct Restore(Option<Depths>);

impl Restore {
    /// Code of the program begins.
    #[cold]
    fn after_program() -> Self {
        Self::switch(COUNT.get(), PAUSED.get())
    }

    /// A call of this library begins.
    #[cold]
    fn after_library() -> Self {
        Self::switch(OUTSIDE.get(), OUTSIDE.get())
    }

    fn switch(paused: usize, outside: usize) -> Self {
        let before = Depths { paused: PAUSED.get(), outside: OUTSIDE.replace(outside) };
        let restore = Self(Some(before));
        pause_first(paused);
        restore
    }
}

impl Drop for Restore {
    #[inline]
    fn drop(&mut self) {
        if let Some(before) = self.0 {
            before.restore();
        }
    }
}

/// Runs code of the program, after the [hook](crate::wait) of the call, since it may wait. No
/// thread waits for this one meanwhile.
#[inline]
pub fn in_program<T>(code: impl FnOnce() -> T) -> T {
    wait::about_to_wait();
    not_waited_for(code)
}

/// Runs code while no thread waits for this one, without the [hook](crate::wait) of the call: for
/// code that runs the hook itself where it waits, that of `adaptor!` and a wait for a lock. Else
/// use [`in_program`].
#[inline]
pub fn not_waited_for<T>(code: impl FnOnce() -> T) -> T {
    let _restore = if Flag::Awaited.is_set() { Restore::after_program() } else { Restore(None) };
    code()
}

/// Makes a call of this library within code of the program. It may be waited for, unless that code
/// was called by other code of the program.
#[inline]
pub fn in_library<T>(call: impl FnOnce() -> T) -> T {
    let _restore = if Flag::Paused.is_set() { Restore::after_library() } else { Restore(None) };
    call()
}

/// Whether this thread runs code of the program within a call that others would wait for.
pub fn is_in_program() -> bool {
    Flag::Paused.is_set()
}
