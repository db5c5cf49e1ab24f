//! Contexts: one primary context per device, and a stack of current contexts per thread.

use std::ffi::{c_int, c_uint, c_ulonglong};

use rmm_sys::{CuContext, CuDevice, CuEvent, CuResult};

use crate::calls::call::driver_calls;
use crate::engine::current;
use crate::model::vector_clock::VectorClock;
use crate::model::work::Work;

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
                session.drain(Some(device));
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
        // No call sets other flags here.
        flags.put(0)?;
        active.put(c_int::from(session.devices[device].context_id.is_some()))
    }

    fn cuCtxGetId(context: CuContext, id: *mut c_ulonglong) by [context] |session| {
        let device = if context.is_null() {
            // Seen on an H200: the failure of the current context is returned, that of a named one
            // is not.
            let current = session.context()?;
            session.failure_of(current)?;
            current
        } else {
            session.context_of(context)?
        };
        id.put(session.devices[device].context_id.ok_or(CuResult::CONTEXT_IS_DESTROYED)?)
    }

    fn cuCtxGetCurrent(context: *mut CuContext) by [] |session| {
        let device = session.context_stack().last().copied();
        context.put(device.map_or(CuContext::NULL, |device| session.context_handle(device)))
    }

    fn cuCtxSetCurrent(context: CuContext) by [context] |session| {
        if context.is_null() {
            session.context_stack().pop();
            return Ok(());
        }
        let device = session.context_of(context)?;
        let stack = session.context_stack();
        stack.pop();
        stack.push(device);
        current::set_last_context(session.machine);
        Ok(())
    }

    fn cuCtxPushCurrent_v2(context: CuContext) by [context] |session| {
        let device = session.context_of(context)?;
        session.context_stack().push(device);
        current::set_last_context(session.machine);
        Ok(())
    }

    fn cuCtxPopCurrent_v2(context: *mut CuContext) by [] |session| {
        let device = session.context_stack().pop().ok_or(CuResult::INVALID_CONTEXT)?;
        // The result is optional.
        let handle = session.context_handle(device);
        if context.required().is_ok() { context.put(handle) } else { Ok(()) }
    }

    fn cuCtxGetDevice(device: *mut CuDevice) by [] |session| {
        let ordinal = session.context()?;
        device.put(CuDevice(c_int::try_from(ordinal).expect("fewer than 2^31 devices")))
    }

    fn cuCtxSynchronize() by [] |session| {
        let device = session.context()?;
        session.check_context(device)?;
        let known = session.clock_of_device(device);
        session.drain(Some(device));
        session.join_host_clock_of_device(device, &known);
        session.release_free_segments(device);
        Ok(())
    }

    fn cuCtxEnablePeerAccess(peer: CuContext, flags: c_uint) by [peer] |session| {
        let device = session.context()?;
        let peer = session.context_of(peer)?;
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
        let device = session.context_of(context)?;
        let key = session.event(event)?;
        session.check_context(device)?;
        let state = &mut **session;
        let ends = state.streams.iter().filter(|(_, stream)| stream.device == device);
        let ends: Vec<_> = ends.map(|(id, _)| state.streams.end_of(id)).collect();
        let points: VectorClock = ends.iter().copied().collect();
        let mut frontier = points.clone();
        for point in ends {
            if let Some(stream) = state.streams.get(point.stream) {
                frontier.join(&stream.frontier);
            }
        }
        if let Some(removed) = state.streams.removed(device) {
            frontier.join(&removed.all);
        }
        let event = state.events.get_mut(&key).ok_or(CuResult::INVALID_HANDLE)?;
        if event.device != device {
            return Err(CuResult::INVALID_HANDLE);
        }
        let done = state.sim_time.end_of_device(device);
        (event.points, event.frontier, event.time, event.captured) = (points, frontier, Some(done), None);
        Ok(())
    }

    fn cuCtxWaitEvent(context: CuContext, event: CuEvent) by [context, event] |session| {
        let device = session.context_of(context)?;
        let key = session.event(event)?;
        session.check_context(device)?;
        session.check_outside_captures(key)?;
        let state = &mut **session;
        let event = state.events.get(&key).ok_or(CuResult::INVALID_HANDLE)?;
        let (frontier, done) = (event.frontier.clone(), event.time.unwrap_or(0));
        let ids: Vec<u64> =
            state.streams.iter().filter(|(_, stream)| stream.device == device && !stream.destroyed).map(|(id, _)| id).collect();
        for id in ids {
            state.sim_time.hold(id, done);
            state.enqueue_after(id, Work::Marker("wait for an event"), &frontier)?;
        }
        state.devices[device].barrier.join(&frontier);
        state.sim_time.hold_new_streams(device, done);
        Ok(())
    }
}
