//! Lost contexts: after a kernel failed, every later call in its context returns the kernel's code
//! (a sticky error).
#![forbid(unsafe_code)]

use rmm_sys::{CuResult, CuStream};

use crate::engine::session::Session;
use crate::engine::state::State;
use crate::model::context::Scope;
use crate::model::handle::{self, HandleKind, Hint};
use crate::model::virtual_memory::HOST;
use crate::model::work::Work;

/// Whether a call works although the current context is lost.
fn needs_no_context(call: &str) -> bool {
    call.starts_with("cuDevice")
        || matches!(
            call,
            "cuInit"
                | "cuDriverGetVersion"
                | "cuCtxGetCurrent"
                | "cuCtxSetCurrent"
                | "cuCtxPushCurrent_v2"
                | "cuCtxPopCurrent_v2"
                | "cuCtxGetDevice"
                | "cuCtxGetId"
                | "cuThreadExchangeStreamCaptureMode"
                | "cuGraphDestroy"
                | "cuMemAddressReserve"
                | "cuMemAddressFree"
                | "cuMemGetAllocationGranularity"
                | "cuMemGetDefaultMemPool"
                | "cuMemGetMemPool"
        )
}

/// Whether a call returns failures of the work that it waited for or queried.
fn looks_at_work(call: &str) -> bool {
    call.ends_with("Synchronize") || call.ends_with("Query") || call.starts_with("cuMemcpy")
}

impl State {
    /// # Errors
    /// What a kernel of a device's context has failed with.
    pub(crate) fn failure_of(&self, device: usize) -> Result<(), CuResult> {
        self.devices[device].failed.map_or(Ok(()), Err)
    }

    /// # Errors
    /// What a kernel has failed with in the context of a stream.
    pub(crate) fn refuse_on_failed_stream(&self, stream: u64) -> Result<(), CuResult> {
        self.streams.get(stream).map_or(Ok(()), |stream| self.failure_of(stream.device))
    }

    /// The device that an argument belongs to. Contexts are not counted: calls accept other
    /// contexts than their own.
    fn device_named(&self, hint: Hint) -> Option<usize> {
        let word = match hint {
            Hint::Address(address) => return self.allocation_at(address).map(|found| found.device),
            Hint::Handle(word) => word,
        };
        let slot = |kind| handle::decode(word, self.machine, kind);
        let key = |kind, slots: &handle::Slots| slot(kind).and_then(|slot| slots.get(slot));
        if let Some(stream) = key(HandleKind::Stream, &self.stream_slots) {
            return self.streams.get(stream).map(|stream| stream.device);
        }
        if let Some(event) = key(HandleKind::Event, &self.event_slots) {
            return self.events.get(&event).map(|event| event.device);
        }
        if let Some(pool) = key(HandleKind::Pool, &self.pool_slots) {
            return self.pools.get(&pool).map(|pool| pool.device);
        }
        let physical = key(HandleKind::Physical, &self.virtual_memory.slots)?;
        let home = self.virtual_memory.physical.get(&physical).map(|physical| physical.home);
        home.filter(|&home| home != HOST)
    }

    /// Discards the queued work of streams. Memory that it was to release is released.
    pub(crate) fn abandon_work(&mut self, scope: Scope) {
        for item in self.streams.abandon(scope) {
            if let Work::Release { allocation } = item.work {
                self.allocations.release(allocation);
            }
        }
    }
}

impl Session<'_> {
    /// Refuses a call in a context in which a kernel has failed.
    ///
    /// # Errors
    /// What the kernel failed with.
    pub(crate) fn refuse_in_failed_context(
        &self,
        call: &str,
        hints: &[Hint],
    ) -> Result<(), CuResult> {
        if self.devices.iter().all(|device| device.failed.is_none()) || needs_no_context(call) {
            return Ok(());
        }
        let mut names_one = false;
        for &hint in hints {
            if let Some(device) = self.device_named(hint) {
                self.failure_of(device)?;
                names_one = true;
            }
        }
        // Default streams belong to the current context.
        let defaults = [CuStream::NULL, CuStream::LEGACY, CuStream::PER_THREAD].map(CuStream::addr);
        let names_default =
            |hint: &Hint| matches!(hint, Hint::Handle(word) if defaults.contains(word));
        if !names_one || hints.iter().any(names_default) {
            let stack = self.context_stacks.get(&self.thread());
            let current = stack.and_then(|stack| stack.last().copied());
            current.map_or(Ok(()), |context| self.failure_of(self.contexts[context].device))?;
        }
        Ok(())
    }

    /// Fails a call that waited for work, or queried it, if a kernel failed meanwhile.
    ///
    /// # Errors
    /// What the kernel failed with.
    pub(crate) fn report_failure_meanwhile(
        &self,
        call: &str,
        hints: &[Hint],
    ) -> Result<(), CuResult> {
        if looks_at_work(call) { self.refuse_in_failed_context(call, hints) } else { Ok(()) }
    }

    /// Loses the contexts of a device after a kernel failed: its queued work never runs. Work of a
    /// lost context no longer accesses memory, so nothing races with it.
    pub(crate) fn fail_context(&mut self, device: usize, code: CuResult) {
        if self.devices[device].failed.is_some() {
            return;
        }
        self.devices[device].failed = Some(code);
        let known = self.clock_of_abandoned(Scope::Device(device));
        self.abandon_work(Scope::Device(device));
        self.join_host_clock_of(Scope::Device(device), &known);
        self.machine.0.ran.notify_all();
    }
}
