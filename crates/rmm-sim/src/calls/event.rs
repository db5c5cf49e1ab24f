//! Events.

use std::ffi::{c_float, c_uint};

use rmm_sys::{
    CuEvent, CuResult, CuStream, EVENT_BLOCKING_SYNC, EVENT_DISABLE_TIMING, EVENT_INTERPROCESS,
};

use crate::calls::call::driver_calls;
use crate::engine::session::Session;
use crate::model::event::Event;
use crate::model::handle::{self, HandleKind};
use crate::model::trace::LeakKind;
use crate::model::vector_clock::{Point, VectorClock};
use crate::model::work::Work;

impl Session<'_> {
    /// The points that a wait for an event waits for, and the event's device.
    fn awaited(&self, event: CuEvent) -> Result<(Vec<Point>, usize), CuResult> {
        let key = self.event(event)?;
        let event = self.events.get(&key).ok_or(CuResult::INVALID_HANDLE)?;
        Ok((self.open_points(&event.points), event.device))
    }

    /// The vector clock that the host joins once it has seen an event complete.
    fn known_by(&self, event: CuEvent) -> Result<VectorClock, CuResult> {
        let key = self.event(event)?;
        let event = self.events.get(&key).ok_or(CuResult::INVALID_HANDLE)?;
        Ok(if self.checks.is_on() { event.frontier.clone() } else { VectorClock::default() })
    }

    /// The simulated time at which an event is complete.
    pub(super) fn end_of_event(&self, event: CuEvent) -> Result<u64, CuResult> {
        let key = self.event(event)?;
        let event = self.events.get(&key).ok_or(CuResult::INVALID_HANDLE)?;
        Ok(event.time.unwrap_or(0))
    }

    /// The simulated time at which a timing event was complete.
    fn time_of(&self, event: CuEvent) -> Result<u64, CuResult> {
        let key = self.event(event)?;
        let event = self.events.get(&key).ok_or(CuResult::INVALID_HANDLE)?;
        if !event.keeps_time {
            return Err(CuResult::INVALID_HANDLE);
        }
        if self.open_points(&event.points).is_empty() {
            event.time.ok_or(CuResult::INVALID_HANDLE)
        } else {
            Err(CuResult::NOT_READY)
        }
    }

    /// The simulated time between two timing events, negative if `end` precedes `start`.
    fn milliseconds_between(&self, start: CuEvent, end: CuEvent) -> Result<c_float, CuResult> {
        let (start, end) = (self.time_of(start)?, self.time_of(end)?);
        let (elapsed, sign) = if end >= start { (end - start, 1.0) } else { (start - end, -1.0) };
        #[expect(clippy::cast_precision_loss, reason = "the driver gives a float, too")]
        let elapsed = elapsed as c_float;
        Ok(sign * elapsed / 1e6)
    }
}

driver_calls! {
    fn cuEventCreate(event: *mut CuEvent, flags: c_uint) by [] |session| {
        let owner = session.current()?;
        event.required()?;
        if flags & !(EVENT_BLOCKING_SYNC | EVENT_DISABLE_TIMING | EVENT_INTERPROCESS) != 0 {
            return Err(CuResult::INVALID_VALUE);
        }
        if flags & EVENT_INTERPROCESS != 0 {
            return Err(CuResult::NOT_SUPPORTED);
        }
        let key = session.next_key();
        session.events.insert(key, Event::new(owner, flags & EVENT_DISABLE_TIMING == 0));
        let slot = session.event_slots.insert(key);
        session.note_origin(LeakKind::Event, key);
        event.put(CuEvent::from_raw(handle::encode(session.machine_id(), HandleKind::Event, slot)))
    }

    fn cuEventDestroy_v2(event: CuEvent) by [event] |session| {
        let slot = handle::decode(event.addr(), session.machine_id(), HandleKind::Event);
        let key = slot.and_then(|slot| session.event_slots.remove(slot)).ok_or(CuResult::INVALID_HANDLE)?;
        session.events.remove(&key);
        Ok(())
    }

    fn cuEventRecord(event: CuEvent, stream: CuStream) by [event, stream] |session| {
        let key = session.event(event)?;
        let of_event = session.events.get(&key).ok_or(CuResult::INVALID_HANDLE)?;
        let owner = (of_event.context, of_event.device);
        let id = session.stream(stream)?;
        let of_stream = session.streams.get(id).ok_or(CuResult::INVALID_HANDLE)?;
        if of_stream.context != owner.0 {
            let device = of_stream.device;
            session.check_foreign("cuEventRecord", device, owner.1);
            return Err(CuResult::INVALID_HANDLE);
        }
        if let Some(captured) = session.capture_record(id)? {
            if let Some(event) = session.events.get_mut(&key) {
                *event = Event { captured: Some(captured), ..Event::new(owner, event.keeps_time) };
            }
            return Ok(());
        }
        let point = session.enqueue(id, Work::Record { event: key })?;
        let state = &mut **session;
        let mut frontier = state.frontier(id);
        frontier.add(point);
        if let Some(event) = state.events.get_mut(&key) {
            event.time = Some(state.sim_time.end_of_stream(id));
            (event.points, event.frontier, event.captured) = (VectorClock::from_iter([point]), frontier, None);
        }
        Ok(())
    }

    fn cuEventQuery(event: CuEvent) by [event] |session| {
        session.admit_wait_for_event(event)?;
        let (points, _) = session.awaited(event)?;
        let known = session.known_by(event)?;
        if session.poll(&points) {
            session.join_host_clock(&known);
            Ok(())
        } else {
            Err(CuResult::NOT_READY)
        }
    }

    fn cuEventSynchronize(event: CuEvent) by [event] |session| {
        session.admit_wait_for_event(event)?;
        let done = session.end_of_event(event)?;
        let (points, device) = session.awaited(event)?;
        let known = session.known_by(event)?;
        session.finish(points);
        session.sim_time.wait_until(done);
        session.join_host_clock(&known);
        session.release_free_segments(device);
        Ok(())
    }

    fn cuEventElapsedTime(milliseconds: *mut c_float, start: CuEvent, end: CuEvent) by [start, end] |session| {
        let elapsed = session.milliseconds_between(start, end)?;
        milliseconds.put(elapsed)
    }

    fn cuEventElapsedTime_v2(milliseconds: *mut c_float, start: CuEvent, end: CuEvent) by [start, end] |session| {
        let elapsed = session.milliseconds_between(start, end)?;
        milliseconds.put(elapsed)
    }
}
