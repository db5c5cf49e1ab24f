//! A session: a thread's lock on a machine for the duration of a driver call.
#![forbid(unsafe_code)]

use std::ops::{Deref, DerefMut};
use std::sync::{MutexGuard, PoisonError};

use rmm_sys::{CuContext, CuEvent, CuMemPool, CuResult};

use crate::engine::machine::Machine;
use crate::engine::state::State;
use crate::engine::thread;
use crate::model::handle::{self, HandleKind};
use crate::model::trace::TraceEntry;

/// The locked machine. Host functions and kernels run without the lock, so anything read from the
/// state before work ran may have changed afterwards.
#[derive(Debug)]
pub(crate) struct Session<'a> {
    pub(crate) machine: &'a Machine,
    state: Option<MutexGuard<'a, State>>,
    thread: u64,
    /// The driver function of this call; empty outside of one.
    call: &'static str,
    /// The index of this call in the trace.
    entry: Option<usize>,
}

impl Deref for Session<'_> {
    type Target = State;

    fn deref(&self) -> &State {
        self.state.as_ref().expect("the lock is held except inside `unlocked` and `wait`")
    }
}

impl DerefMut for Session<'_> {
    fn deref_mut(&mut self) -> &mut State {
        self.state.as_mut().expect("the lock is held except inside `unlocked` and `wait`")
    }
}

impl Drop for Session<'_> {
    fn drop(&mut self) {
        if self.state.as_ref().is_some_and(|state| state.background > 0) {
            // The call may have enqueued work.
            self.machine.0.ran.notify_all();
        }
    }
}

impl<'a> Session<'a> {
    pub(crate) fn open(machine: &'a Machine) -> Self {
        Self {
            machine,
            state: Some(machine.lock()),
            thread: thread::number(),
            call: "",
            entry: None,
        }
    }

    /// The calling thread's number.
    pub(crate) fn thread(&self) -> u64 {
        self.thread
    }

    /// Runs `run` without the lock.
    pub(crate) fn unlocked<R>(&mut self, run: impl FnOnce() -> R) -> R {
        self.state = None;
        let result = run();
        self.state = Some(self.machine.lock());
        result
    }

    /// Waits until another thread has finished a piece of work or, in the background, enqueued
    /// some.
    pub(crate) fn wait(&mut self) {
        if let Some(state) = self.state.take() {
            let state = self.machine.0.ran.wait(state);
            self.state = Some(state.unwrap_or_else(PoisonError::into_inner));
        }
    }

    /// Begins a driver call: counts it, charges its time, and adds it to the trace.
    pub(crate) fn begin_call(&mut self, name: &'static str) {
        self.call = name;
        self.sim_time.charge(name);
        *self.calls.entry(name).or_default() += 1;
        if self.tracing {
            self.entry = Some(self.trace.len());
            self.trace.push(TraceEntry::Call { name, detail: String::new(), result: None });
        }
    }

    /// Completes the call's entry in the trace.
    pub(crate) fn end_call(&mut self, code: CuResult) {
        if let Some(entry) = self.entry
            && let Some(TraceEntry::Call { result, .. }) = self.trace.get_mut(entry)
        {
            *result = Some(code);
        }
    }

    /// Fails an allocation within this call if a fault applies.
    pub(crate) fn check_allocation_fault(&mut self, bytes: usize) -> Result<(), CuResult> {
        let name = self.call;
        self.faults.check_allocation(name, bytes)
    }

    /// Ensures that this call takes some time, so that polling makes progress.
    pub(crate) fn keep_clock_going(&mut self) {
        let call = self.call;
        self.sim_time.tick(call);
    }

    /// Adds an address to the call's entry in the trace.
    pub(crate) fn trace_address(&mut self, address: usize) {
        let Some(entry) = self.entry else { return };
        let place = self.describe(address);
        if let Some(TraceEntry::Call { detail, .. }) = self.trace.get_mut(entry) {
            *detail = place;
        }
    }

    /// The device of the calling thread's current context.
    pub(crate) fn context(&self) -> Result<usize, CuResult> {
        self.current().map(|(_, device)| device)
    }

    /// The calling thread's current context and its device.
    pub(crate) fn current(&self) -> Result<(usize, usize), CuResult> {
        self.current_context().map(|context| (context, self.contexts[context].device))
    }

    /// The calling thread's current context.
    pub(crate) fn current_context(&self) -> Result<usize, CuResult> {
        let context = self.context_stacks.get(&self.thread).and_then(|stack| stack.last().copied());
        let context = context.ok_or(CuResult::INVALID_CONTEXT)?;
        if self.contexts[context].id.is_none() {
            Err(CuResult::CONTEXT_IS_DESTROYED)
        } else {
            Ok(context)
        }
    }

    /// The calling thread's stack of contexts.
    pub(crate) fn context_stack(&mut self) -> &mut Vec<usize> {
        let thread = self.thread;
        self.context_stacks.entry(thread).or_default()
    }

    /// The context of a handle.
    pub(crate) fn context_of(&self, context: CuContext) -> Result<usize, CuResult> {
        let slot = handle::decode(context.addr(), self.machine_id(), HandleKind::Context);
        let context =
            slot.filter(|&slot| slot < self.contexts.len()).ok_or(CuResult::INVALID_CONTEXT)?;
        if self.contexts[context].id.is_none() {
            Err(CuResult::CONTEXT_IS_DESTROYED)
        } else {
            Ok(context)
        }
    }

    /// The handle of a context.
    pub(crate) fn context_handle(&self, context: usize) -> CuContext {
        CuContext::from_raw(handle::encode(self.machine_id(), HandleKind::Context, context))
    }

    /// The key of an event.
    pub(crate) fn event(&self, event: CuEvent) -> Result<u64, CuResult> {
        let slot = handle::decode(event.addr(), self.machine_id(), HandleKind::Event);
        slot.and_then(|slot| self.event_slots.get(slot)).ok_or(CuResult::INVALID_HANDLE)
    }

    /// The key of a pool.
    pub(crate) fn pool(&self, pool: CuMemPool) -> Result<u64, CuResult> {
        let slot = handle::decode(pool.addr(), self.machine_id(), HandleKind::Pool);
        slot.and_then(|slot| self.pool_slots.get(slot)).ok_or(CuResult::INVALID_VALUE)
    }

    /// The handle of a pool; null for one that was destroyed.
    pub(crate) fn pool_handle(&self, pool: u64) -> CuMemPool {
        let slot = self.pool_slots.slot_of(pool);
        slot.map_or(CuMemPool::NULL, |slot| {
            CuMemPool::from_raw(handle::encode(self.machine_id(), HandleKind::Pool, slot))
        })
    }

    pub(crate) fn machine_id(&self) -> u32 {
        self.deref().machine
    }
}
