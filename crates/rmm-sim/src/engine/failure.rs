//! Contexts that a failed kernel has lost: every later call in one returns what the kernel failed
//! with.
#![forbid(unsafe_code)]

use rmm_sys::{CuResult, CuStream};

use crate::engine::session::Session;
use crate::engine::state::State;
use crate::model::handle::{self, HandleKind, Hint};
use crate::model::work::Work;

/// Whether a call works whatever has become of the current context.
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

/// Whether a call tells of failures of the work that it has waited for or asked about.
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

    /// The device whose context an argument is of. Contexts themselves name none: calls take them
    /// for other contexts than their own.
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
        self.virtual_memory.physical.get(&physical).map(|physical| physical.device)
    }

    /// Takes away what is queued for a device. Memory that it was to let go of is gone.
    pub(crate) fn abandon_work(&mut self, device: usize) {
        for item in self.streams.abandon(device) {
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
        // Default streams are those of the current context.
        let defaults = [CuStream::NULL, CuStream::LEGACY, CuStream::PER_THREAD].map(CuStream::addr);
        let names_default =
            |hint: &Hint| matches!(hint, Hint::Handle(word) if defaults.contains(word));
        if !names_one || hints.iter().any(names_default) {
            let stack = self.context_stacks.get(&self.thread());
            let current = stack.and_then(|stack| stack.last().copied());
            current.map_or(Ok(()), |device| self.failure_of(device))?;
        }
        Ok(())
    }

    /// A call that waited for work, or asked about it, tells that a kernel failed meanwhile.
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

    /// A kernel of a device has failed: what is queued in its context never runs. Work of a context
    /// that is lost is known to be at nothing any more, so that nothing races with it.
    pub(crate) fn fail_context(&mut self, device: usize, code: CuResult) {
        if self.devices[device].failed.is_some() {
            return;
        }
        self.devices[device].failed = Some(code);
        let known = self.clock_of_device(device);
        self.abandon_work(device);
        self.join_host_clock_of_device(device, &known);
        self.machine.0.ran.notify_all();
    }
}
