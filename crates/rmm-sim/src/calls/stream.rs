//! Streams, and work on them other than copies and fills.

use std::ffi::{c_int, c_uint, c_ulonglong, c_void};

use rmm_sys::{
    CuCaptureStatus, CuContext, CuDevicePtr, CuEvent, CuHostFn, CuResult, CuStream, STREAM_DEFAULT,
    STREAM_NON_BLOCKING,
};

use crate::calls::arguments::address;
use crate::calls::call::driver_calls;
use crate::model::handle::{self, HandleKind};
use crate::model::memory::Side;
use crate::model::operation::Operation;
use crate::model::streams::{GREATEST_PRIORITY, StreamKind};
use crate::model::trace::LeakKind;
use crate::model::work::{HostData, Work};

/// `CU_EVENT_WAIT_EXTERNAL`: the wait becomes a node of the graph that is being captured.
const EXTERNAL: c_uint = 1;

driver_calls! {
    fn cuStreamCreateWithPriority(stream: *mut CuStream, flags: c_uint, priority: c_int) by [] |session| {
        let context = session.current_context()?;
        stream.required()?;
        let kind = match flags {
            STREAM_DEFAULT => StreamKind::Blocking,
            STREAM_NON_BLOCKING => StreamKind::NonBlocking,
            _ => return Err(CuResult::INVALID_VALUE),
        };
        let id = session.create_stream(context, kind, priority.clamp(GREATEST_PRIORITY, 0))?;
        let slot = session.stream_slots.insert(id);
        session.note_origin(LeakKind::Stream, id);
        stream.put(CuStream::from_raw(handle::encode(session.machine_id(), HandleKind::Stream, slot)))
    }

    fn cuStreamDestroy_v2(stream: CuStream) by [stream] |session| {
        let slot = handle::decode(stream.addr(), session.machine_id(), HandleKind::Stream);
        let id = slot.and_then(|slot| session.stream_slots.remove(slot)).ok_or(CuResult::INVALID_HANDLE)?;
        session.remove_from_captures(id);
        session.streams.retire(id);
        Ok(())
    }

    fn cuStreamSynchronize(stream: CuStream) by [stream] |session| {
        let id = session.stream(stream)?;
        session.admit_wait_for_stream(id)?;
        let device = session.streams.get(id).ok_or(CuResult::INVALID_HANDLE)?.device;
        let points = session.streams.points_of(id);
        let known = session.clock_of(id);
        let done = session.end_of_wait(id);
        session.finish(points);
        session.sim_time.wait_until(done);
        session.join_host_clock(&known);
        session.release_free_segments(device);
        Ok(())
    }

    fn cuStreamQuery(stream: CuStream) by [stream] |session| {
        let id = session.stream(stream)?;
        session.admit_wait_for_stream(id)?;
        let points = session.streams.points_of(id);
        let known = session.clock_of(id);
        if session.poll(&points) {
            session.join_host_clock(&known);
            Ok(())
        } else {
            Err(CuResult::NOT_READY)
        }
    }

    fn cuStreamWaitEvent(stream: CuStream, event: CuEvent, flags: c_uint) by [stream, event] |session| {
        let id = session.stream(stream)?;
        let key = session.event(event)?;
        match flags {
            0 => {}
            // Valid only on streams under capture (seen on an H200).
            EXTERNAL if session.captures.has(id) => return Err(CuResult::NOT_SUPPORTED),
            EXTERNAL => return Err(CuResult::ILLEGAL_STATE),
            _ => return Err(CuResult::INVALID_VALUE),
        }
        if session.capture_wait(id, key)? {
            return Ok(());
        }
        let frontier = session.events.get(&key).ok_or(CuResult::INVALID_HANDLE)?.frontier.clone();
        let done = session.end_of_event(event)?;
        session.sim_time.hold(id, done);
        session.enqueue_after(id, Work::Marker("wait for an event"), &frontier)?;
        Ok(())
    }

    fn cuStreamGetId(stream: CuStream, id: *mut c_ulonglong) by [stream] |session| {
        let stream = session.stream(stream)?;
        if session.captures.has(stream) {
            // Refused in a global capture (seen on an H200). That it is not in a relaxed mode, and
            // that it ends the capture, is assumed.
            session.admit_unsafe_call()?;
        }
        id.put(stream)
    }

    fn cuStreamGetCtx(stream: CuStream, context: *mut CuContext) by [stream] |session| {
        let id = session.stream(stream)?;
        let of_stream = session.streams.get(id).ok_or(CuResult::INVALID_HANDLE)?.context;
        context.put(session.context_handle(of_stream))
    }

    fn cuStreamGetFlags(stream: CuStream, flags: *mut c_uint) by [stream] |session| {
        let id = session.stream(stream)?;
        let kind = session.streams.get(id).ok_or(CuResult::INVALID_HANDLE)?.kind;
        flags.put(if kind == StreamKind::NonBlocking { STREAM_NON_BLOCKING } else { STREAM_DEFAULT })
    }

    fn cuStreamGetPriority(stream: CuStream, priority: *mut c_int) by [stream] |session| {
        let id = session.stream(stream)?;
        priority.put(session.streams.get(id).ok_or(CuResult::INVALID_HANDLE)?.priority)
    }

    fn cuStreamIsCapturing(stream: CuStream, status: *mut CuCaptureStatus) by [stream] |session| {
        let id = session.stream(stream)?;
        status.put(session.capture_status(id)?)
    }

    fn cuLaunchHostFunc(stream: CuStream, function: CuHostFn, data: *mut c_void) by [stream] |session| {
        let id = session.stream(stream)?;
        let function = function.ok_or(CuResult::INVALID_VALUE)?;
        session.enqueue(id, Work::Host { function, data: HostData(data.as_raw()) })?;
        Ok(())
    }

    fn cuStreamWriteValue32_v2(stream: CuStream, target: CuDevicePtr, value: u32, flags: c_uint) by [stream, target] |session| {
        let to = session.usable_place(("value write", Operation::Write), address(target), 4, Side::Device)?;
        if !to.address.is_multiple_of(4) || flags > 1 {
            return Err(CuResult::INVALID_VALUE);
        }
        let id = session.stream(stream)?;
        session.enqueue(id, Work::Fill { to, pattern: value.to_ne_bytes(), width: 4 })?;
        Ok(())
    }
}
