//! A thread's hold of a machine for the length of a driver call.
#![forbid(unsafe_code)]

use std::ops::{Deref, DerefMut};
use std::sync::{MutexGuard, PoisonError};

use rmm_sys::{CuContext, CuEvent, CuMemPool, CuResult, CuStream};

use crate::current;
use crate::handle::{self, Kind};
use crate::machine::Machine;
use crate::schedule::Schedule;
use crate::state::State;
use crate::stream::Order;
use crate::trace::TraceEntry;

/// The locked machine. The lock is let go of while host functions and kernels run, so what was read
/// of the state before anything ran may have changed after.
#[derive(Debug)]
pub(crate) struct Session<'a> {
    pub(crate) machine: &'a Machine,
    state: Option<MutexGuard<'a, State>>,
    thread: u64,
    /// The driver function that is being called, if one is.
    call: &'static str,
    /// The place of this call in the trace.
    entry: Option<usize>,
}

impl Deref for Session<'_> {
    type Target = State;

    fn deref(&self) -> &State {
        self.state.as_ref().expect("the lock is held but inside `unlocked` and `wait`")
    }
}

impl DerefMut for Session<'_> {
    fn deref_mut(&mut self) -> &mut State {
        self.state.as_mut().expect("the lock is held but inside `unlocked` and `wait`")
    }
}

impl<'a> Session<'a> {
    pub(crate) fn open(machine: &'a Machine) -> Self {
        Self {
            machine,
            state: Some(machine.lock()),
            thread: current::thread(),
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

    /// Waits until another thread has finished a piece of work.
    pub(crate) fn wait(&mut self) {
        if let Some(state) = self.state.take() {
            let state = self.machine.0.ran.wait(state);
            self.state = Some(state.unwrap_or_else(PoisonError::into_inner));
        }
    }

    /// Lets a call in: counts it, and refuses it if a fault or the machine says so. Work may run
    /// before it.
    pub(crate) fn admit(&mut self, name: &'static str) -> Result<(), CuResult> {
        self.call = name;
        self.clock.charge(name);
        *self.calls.entry(name).or_default() += 1;
        if self.tracing {
            self.entry = Some(self.trace.len());
            self.trace.push(TraceEntry::Call { name, detail: String::new(), result: None });
        }
        if self.dead {
            return Err(CuResult::DEINITIALIZED);
        }
        self.faults.see(name)?;
        if !current::is_initialised() && !matches!(name, "cuInit" | "cuDriverGetVersion") {
            return Err(CuResult::NOT_INITIALIZED);
        }
        if self.lacking.contains(name) {
            return Err(CuResult::NOT_SUPPORTED);
        }
        self.admit_to_captures(name)?;
        self.run_some();
        Ok(())
    }

    /// Refuses an allocation within this call if a fault says so.
    pub(crate) fn admit_allocation(&mut self, bytes: usize) -> Result<(), CuResult> {
        let name = self.call;
        self.faults.see_allocation(name, bytes)
    }

    /// Makes sure that this call has taken some time.
    pub(crate) fn keep_clock_going(&mut self) {
        let call = self.call;
        self.clock.tick(call);
    }

    /// Ends a call.
    pub(crate) fn settle(&mut self, outcome: Result<(), CuResult>) -> CuResult {
        if self.schedule == Schedule::Eager {
            self.run_pending(None);
        }
        let code = outcome.err().unwrap_or(CuResult::SUCCESS);
        if let Some(entry) = self.entry
            && let Some(TraceEntry::Call { result, .. }) = self.trace.get_mut(entry)
        {
            *result = Some(code);
        }
        code
    }

    /// Adds an address to the call's entry in the trace.
    pub(crate) fn note(&mut self, address: usize) {
        let Some(entry) = self.entry else { return };
        let place = self.describe(address);
        if let Some(TraceEntry::Call { detail, .. }) = self.trace.get_mut(entry) {
            *detail = place;
        }
    }

    /// The device of the calling thread's current context.
    pub(crate) fn context(&self) -> Result<usize, CuResult> {
        let device = self.context_stacks.get(&self.thread).and_then(|stack| stack.last().copied());
        let device = device.ok_or(CuResult::INVALID_CONTEXT)?;
        if self.devices[device].context_id.is_none() {
            Err(CuResult::CONTEXT_IS_DESTROYED)
        } else {
            Ok(device)
        }
    }

    /// The calling thread's stack of contexts.
    pub(crate) fn context_stack(&mut self) -> &mut Vec<usize> {
        let thread = self.thread;
        self.context_stacks.entry(thread).or_default()
    }

    /// The device of a context.
    pub(crate) fn context_of(&self, context: CuContext) -> Result<usize, CuResult> {
        let slot = handle::decode(context.addr(), self.state_machine(), Kind::Context);
        let device =
            slot.filter(|&slot| slot < self.devices.len()).ok_or(CuResult::INVALID_CONTEXT)?;
        if self.devices[device].context_id.is_none() {
            Err(CuResult::CONTEXT_IS_DESTROYED)
        } else {
            Ok(device)
        }
    }

    /// The handle of a device's context.
    pub(crate) fn context_handle(&self, device: usize) -> CuContext {
        CuContext::from_raw(handle::encode(self.state_machine(), Kind::Context, device))
    }

    /// The id of a stream. The default ones are those of the current context, or else, for the
    /// checks, of the device `near`.
    pub(crate) fn stream_near(
        &mut self,
        stream: CuStream,
        near: Option<usize>,
    ) -> Result<u64, CuResult> {
        if stream == CuStream::NULL || stream == CuStream::LEGACY {
            let device = self.context().or_else(|code| near.ok_or(code))?;
            return Ok(self.devices[device].legacy_stream);
        }
        if stream == CuStream::PER_THREAD {
            let device = self.context().or_else(|code| near.ok_or(code))?;
            let key = (self.thread, device);
            if let Some(&id) = self.thread_streams.get(&key) {
                return Ok(id);
            }
            let id = self.create_stream(device, Order::Blocking, 0)?;
            self.thread_streams.insert(key, id);
            return Ok(id);
        }
        let slot = handle::decode(stream.addr(), self.state_machine(), Kind::Stream);
        slot.and_then(|slot| self.stream_slots.get(slot)).ok_or(CuResult::INVALID_HANDLE)
    }

    /// The id of a stream.
    pub(crate) fn stream(&mut self, stream: CuStream) -> Result<u64, CuResult> {
        self.stream_near(stream, None)
    }

    /// The key of an event.
    pub(crate) fn event(&self, event: CuEvent) -> Result<u64, CuResult> {
        let slot = handle::decode(event.addr(), self.state_machine(), Kind::Event);
        slot.and_then(|slot| self.event_slots.get(slot)).ok_or(CuResult::INVALID_HANDLE)
    }

    /// The key of a pool.
    pub(crate) fn pool(&self, pool: CuMemPool) -> Result<u64, CuResult> {
        let slot = handle::decode(pool.addr(), self.state_machine(), Kind::Pool);
        slot.and_then(|slot| self.pool_slots.get(slot)).ok_or(CuResult::INVALID_VALUE)
    }

    /// The handle of a pool; null for one that was destroyed.
    pub(crate) fn pool_handle(&self, pool: u64) -> CuMemPool {
        let slot = self.pool_slots.slot_of(pool);
        slot.map_or(CuMemPool::NULL, |slot| {
            CuMemPool::from_raw(handle::encode(self.state_machine(), Kind::Pool, slot))
        })
    }

    pub(crate) fn state_machine(&self) -> u32 {
        self.deref().machine
    }
}
