//! The lifetime of primary contexts: created by a retain, lost by a failing kernel, ended by a
//! reset or the last release.
//!
//! A reset frees the memory of the context and destroys its streams and events. It does not release
//! the context: the retain count stays, and the next retain creates a new context with the same
//! handle, as CUDA documents for `cuDevicePrimaryCtxReset`. Handles and addresses are reused
//! immediately, so that a program which keeps one fails.
#![forbid(unsafe_code)]

use rmm_sys::CuResult;

use crate::engine::session::Session;
use crate::engine::state::State;
use crate::model::context::{Context, Scope};
use crate::model::memory::{Allocation, AllocationKind};
use crate::model::pool::{Medium, Pool};
use crate::model::streams::StreamKind;
use crate::model::vector_clock::VectorClock;

/// Whether a call ends a context.
pub(crate) fn ends_contexts(call: &str) -> bool {
    matches!(
        call,
        "cuDevicePrimaryCtxReset_v2" | "cuDevicePrimaryCtxRelease_v2" | "cuCtxDestroy_v2"
    )
}

impl State {
    /// Retains the primary context of a device; creates it if there is none.
    ///
    /// # Errors
    /// The code of a failed kernel, if the context that it lost has ended since.
    pub(crate) fn retain_context(&mut self, device: usize) -> Result<(), CuResult> {
        if self.contexts[device].id.is_none() {
            self.failure_of(device)?;
        }
        let id = self.next_key();
        self.devices[device].retained += 1;
        self.contexts[device].id.get_or_insert(id);
        Ok(())
    }

    /// Creates a context beside the primary one; returns its index. That of an ended context of the
    /// device is reused, so that its handle is, as those of a driver may be.
    ///
    /// # Errors
    /// The code of a failed kernel of the device.
    pub(crate) fn create_context(&mut self, device: usize, flags: u32) -> Result<usize, CuResult> {
        self.failure_of(device)?;
        let mut created = self.contexts.iter().enumerate().skip(self.devices.len());
        let ended = created.find(|(_, context)| context.device == device && context.id.is_none());
        let ended = ended.map(|(index, _)| index);
        let context = ended.unwrap_or_else(|| self.add_context(device));
        let id = self.next_key();
        let created = &mut self.contexts[context];
        (created.id, created.flags) = (Some(id), flags);
        Ok(context)
    }

    pub(crate) fn is_primary(&self, context: usize) -> bool {
        context < self.devices.len()
    }

    /// Whether an allocation ends with its context.
    fn is_of_context(&self, allocation: &Allocation) -> bool {
        match allocation.kind {
            AllocationKind::Device
            | AllocationKind::Managed
            | AllocationKind::Pinned
            | AllocationKind::Registered => true,
            AllocationKind::Pool(_, Medium::Device | Medium::Managed) => self.reset_ends_all,
            AllocationKind::Pool(_, Medium::Host)
            | AllocationKind::Mapped
            | AllocationKind::Imported { .. } => false,
        }
    }

    fn end_allocations(&mut self, context: usize, by: &'static str) {
        let device = self.contexts[context].device;
        let ended: Vec<Allocation> = self.allocations.iter().copied().collect();
        for allocation in ended {
            if allocation.context != context || !self.is_of_context(&allocation) {
                continue;
            }
            let range = allocation.start..allocation.start + allocation.bytes;
            self.check_ended(&range, by);
            self.end_imports(&allocation);
            self.allocations.forget(&allocation);
            self.allocations.release(allocation.id);
            match allocation.kind {
                AllocationKind::Device => {
                    self.devices[device].deallocate(allocation.start, allocation.bytes);
                }
                AllocationKind::Managed | AllocationKind::Pinned => {
                    self.host.deallocate(allocation.start, allocation.bytes);
                }
                // The memory of a pool is freed with the pool.
                AllocationKind::Pool(..)
                | AllocationKind::Registered
                | AllocationKind::Mapped
                | AllocationKind::Imported { .. } => {}
            }
        }
    }

    /// Destroys the pools of a device; the default pools stay, and are empty afterwards.
    fn end_pools(&mut self, device: usize) {
        let of_device = |pool: &Pool| pool.device == device && pool.medium != Medium::Host;
        let keys: Vec<u64> =
            self.pools.iter().filter(|(_, pool)| of_device(pool)).map(|(&key, _)| key).collect();
        for key in keys {
            let Some(mut pool) = self.pools.remove(&key) else { continue };
            for (start, len) in pool.take_segments() {
                match pool.medium {
                    Medium::Device => self.devices[device].deallocate(start, len),
                    Medium::Managed | Medium::Host => self.host.deallocate(start, len),
                }
            }
            if pool.is_default {
                self.pools.insert(key, Pool::new(device, pool.medium, 0, true));
            }
        }
        let Self { pools, pool_slots, devices, .. } = self;
        pool_slots.retain(|key| pools.contains_key(&key));
        devices[device].current_pool = devices[device].default_pool;
    }
}

impl Session<'_> {
    /// Ends a context and everything in it. Waits for work that is running; queued work never runs.
    pub(crate) fn end_context(&mut self, context: usize, by: &'static str) {
        let Context { id, device, flags, .. } = self.contexts[context];
        if id.is_none() {
            return;
        }
        let scope = Scope::Context(context);
        self.abandon_work(scope);
        while self.streams.is_running(scope) {
            self.wait();
            self.abandon_work(scope);
        }
        let known = self.clock_of_abandoned(scope);
        self.join_host_clock_of(scope, &known);
        let state = &mut **self;
        let of_context = state.streams.iter().filter(|(_, stream)| stream.is_in(scope));
        let of_context: Vec<u64> = of_context.map(|(id, _)| id).collect();
        for &id in &of_context {
            state.remove_from_captures(id);
        }
        let State { streams, stream_slots, events, event_slots, thread_streams, .. } = state;
        streams.end_all_of(context);
        stream_slots.retain(|id| streams.get(id).is_some());
        thread_streams.retain(|&(_, of), _| of != context);
        events.retain(|_, event| event.context != context);
        event_slots.retain(|key| events.contains_key(&key));
        state.end_allocations(context, by);
        if state.is_primary(context) {
            if state.reset_ends_all {
                state.end_virtual_memory(device, by);
                state.end_pools(device);
            }
            for other in &mut state.devices {
                other.peers.remove(&device);
            }
            state.devices[device].peers.clear();
        }
        let legacy_stream = state.streams.create((context, device), StreamKind::Legacy, 0);
        let barrier = VectorClock::default();
        // `failed` stays: after a kernel failed, an H200 creates no new context for the process,
        // even after a reset.
        state.contexts[context] = Context { device, id: None, flags, legacy_stream, barrier };
        self.machine.0.ran.notify_all();
    }
}
