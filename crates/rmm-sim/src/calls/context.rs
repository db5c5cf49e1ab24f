//! Contexts: one primary context per device, those that programs create, and a stack of current
//! contexts per thread.

use std::ffi::{c_int, c_uint, c_ulonglong};

use rmm_sys::{CuContext, CuDevice, CuEvent, CuResult};

use crate::calls::call::driver_calls;
use crate::engine::current;
use crate::model::context::Scope;
use crate::model::trace::LeakKind;
use crate::model::vector_clock::VectorClock;
use crate::model::work::Work;

/// Every flag of a context (`CU_CTX_FLAGS_MASK`): how to wait, mapped memory, core dumps.
const FLAGS: c_uint = 0xff;

/// # Errors
/// `INVALID_VALUE` for a flag that a context does not have.
fn check_flags(flags: c_uint) -> Result<(), CuResult> {
    if flags & !FLAGS == 0 { Ok(()) } else { Err(CuResult::INVALID_VALUE) }
}

driver_calls! {
    fn cuDevicePrimaryCtxRetain(context: *mut CuContext, device: CuDevice) by [] |session| {
        context.required()?;
        let device = session.device(device.0)?;
        session.retain_context(device)?;
        context.put(session.context_handle(device))
    }

    fn cuDevicePrimaryCtxRelease_v2(device: CuDevice) by [] |session| {
        let device = session.device(device.0)?;
        match session.devices[device].retained {
            0 => return Err(CuResult::INVALID_CONTEXT),
            1 => {
                session.drain(Scope::Context(device));
                session.end_context(device, "cuDevicePrimaryCtxRelease_v2");
            }
            _ => {}
        }
        let retained = &mut session.devices[device].retained;
        // Another thread may have released it during the wait.
        *retained = retained.checked_sub(1).ok_or(CuResult::INVALID_CONTEXT)?;
        Ok(())
    }

    fn cuDevicePrimaryCtxReset_v2(device: CuDevice) by [] |session| {
        let device = session.device(device.0)?;
        session.end_context(device, "cuDevicePrimaryCtxReset_v2");
        Ok(())
    }

    fn cuDevicePrimaryCtxGetState(device: CuDevice, flags: *mut c_uint, active: *mut c_int) by [] |session| {
        let device = session.device(device.0)?;
        flags.put(session.contexts[device].flags)?;
        active.put(c_int::from(session.contexts[device].id.is_some()))
    }

    // These are not in the table: they are called by the libraries of `rmm-sim-cuda`.
    fn cuCtxCreate_v2(context: *mut CuContext, flags: c_uint, device: CuDevice) by [] |session| {
        context.required()?;
        check_flags(flags)?;
        let device = session.device(device.0)?;
        let created = session.create_context(device, flags)?;
        session.note_origin(LeakKind::Context, created as u64);
        session.context_stack().push(created);
        current::set_last_context(session.machine);
        context.put(session.context_handle(created))
    }

    fn cuCtxDestroy_v2(context: CuContext) by [context] |session| {
        let context = session.context_of(context)?;
        if session.is_primary(context) {
            return Err(CuResult::INVALID_CONTEXT);
        }
        session.drain(Scope::Context(context));
        session.end_context(context, "cuCtxDestroy_v2");
        // On other threads that have it current, calls return `CONTEXT_IS_DESTROYED`.
        let stack = session.context_stack();
        if stack.last() == Some(&context) {
            stack.pop();
        }
        Ok(())
    }

    fn cuDevicePrimaryCtxSetFlags_v2(device: CuDevice, flags: c_uint) by [] |session| {
        check_flags(flags)?;
        let device = session.device(device.0)?;
        session.contexts[device].flags = flags;
        Ok(())
    }

    fn cuCtxGetFlags(flags: *mut c_uint) by [] |session| {
        let current = session.current_context()?;
        flags.put(session.contexts[current].flags)
    }

    fn cuCtxSetFlags(flags: c_uint) by [] |session| {
        check_flags(flags)?;
        let current = session.current_context()?;
        session.contexts[current].flags = flags;
        Ok(())
    }

    fn cuCtxGetId(context: CuContext, id: *mut c_ulonglong) by [context] |session| {
        let context = if context.is_null() {
            // Seen on an H200: the failure of the current context is returned, that of a named one
            // is not.
            let (current, device) = session.current()?;
            session.failure_of(device)?;
            current
        } else {
            session.context_of(context)?
        };
        id.put(session.contexts[context].id.ok_or(CuResult::CONTEXT_IS_DESTROYED)?)
    }

    fn cuCtxGetCurrent(context: *mut CuContext) by [] |session| {
        let current = session.context_stack().last().copied();
        context.put(current.map_or(CuContext::NULL, |current| session.context_handle(current)))
    }

    fn cuCtxSetCurrent(context: CuContext) by [context] |session| {
        if context.is_null() {
            session.context_stack().pop();
            return Ok(());
        }
        let context = session.context_of(context)?;
        let stack = session.context_stack();
        stack.pop();
        stack.push(context);
        current::set_last_context(session.machine);
        Ok(())
    }

    fn cuCtxPushCurrent_v2(context: CuContext) by [context] |session| {
        let context = session.context_of(context)?;
        session.context_stack().push(context);
        current::set_last_context(session.machine);
        Ok(())
    }

    fn cuCtxPopCurrent_v2(context: *mut CuContext) by [] |session| {
        let popped = session.context_stack().pop().ok_or(CuResult::INVALID_CONTEXT)?;
        // The result is optional.
        let handle = session.context_handle(popped);
        if context.required().is_ok() { context.put(handle) } else { Ok(()) }
    }

    fn cuCtxGetDevice(device: *mut CuDevice) by [] |session| {
        let ordinal = session.context()?;
        device.put(CuDevice(c_int::try_from(ordinal).expect("fewer than 2^31 devices")))
    }

    fn cuCtxSynchronize() by [] |session| {
        let (context, device) = session.current()?;
        session.check_context(context)?;
        let scope = Scope::Context(context);
        let known = session.clock_of_scope(scope);
        session.drain(scope);
        session.join_host_clock_of(scope, &known);
        session.release_free_segments(device);
        Ok(())
    }

    fn cuCtxEnablePeerAccess(peer: CuContext, flags: c_uint) by [peer] |session| {
        let device = session.context()?;
        let peer = session.context_of(peer)?;
        let peer = session.contexts[peer].device;
        if flags != 0 {
            return Err(CuResult::INVALID_VALUE);
        }
        if device == peer {
            return Err(CuResult::INVALID_DEVICE);
        }
        if session.devices[device].peers.insert(peer) { Ok(()) } else { Err(CuResult::PEER_ACCESS_ALREADY_ENABLED) }
    }

    fn cuCtxGetStreamPriorityRange(least: *mut c_int, greatest: *mut c_int) by [] |session| {
        session.context()?;
        least.put(0)?;
        greatest.put(crate::model::streams::GREATEST_PRIORITY)
    }

    fn cuCtxRecordEvent(context: CuContext, event: CuEvent) by [context, event] |session| {
        let context = session.context_of(context)?;
        let (device, scope) = (session.contexts[context].device, Scope::Context(context));
        let key = session.event(event)?;
        session.check_context(context)?;
        let state = &mut **session;
        let ends = state.streams.iter().filter(|(_, stream)| stream.is_in(scope));
        let ends: Vec<_> = ends.map(|(id, _)| state.streams.end_of(id)).collect();
        let points: VectorClock = ends.iter().copied().collect();
        let mut frontier = points.clone();
        for point in ends {
            if let Some(stream) = state.streams.get(point.stream) {
                frontier.join(&stream.frontier);
            }
        }
        for removed in state.streams.removed(scope) {
            frontier.join(&removed.all);
        }
        let event = state.events.get_mut(&key).ok_or(CuResult::INVALID_HANDLE)?;
        if event.context != context {
            return Err(CuResult::INVALID_HANDLE);
        }
        let done = state.sim_time.end_of_device(device);
        (event.points, event.frontier, event.time, event.captured) = (points, frontier, Some(done), None);
        Ok(())
    }

    fn cuCtxWaitEvent(context: CuContext, event: CuEvent) by [context, event] |session| {
        let context = session.context_of(context)?;
        let device = session.contexts[context].device;
        let key = session.event(event)?;
        session.check_context(context)?;
        session.check_outside_captures(key)?;
        let state = &mut **session;
        let event = state.events.get(&key).ok_or(CuResult::INVALID_HANDLE)?;
        let (frontier, done) = (event.frontier.clone(), event.time.unwrap_or(0));
        let ids: Vec<u64> =
            state.streams.iter().filter(|(_, stream)| stream.context == context && !stream.destroyed).map(|(id, _)| id).collect();
        for id in ids {
            state.sim_time.hold(id, done);
            state.enqueue_after(id, Work::Marker("wait for an event"), &frontier)?;
        }
        state.contexts[context].barrier.join(&frontier);
        state.sim_time.hold_new_streams(device, done);
        Ok(())
    }
}
