//! Events: which work they capture, and when they complete.

use rmm_conformance::{Failure, ensure};
use rmm_sys::{CuResult, EVENT_DEFAULT, EVENT_DISABLE_TIMING};

use super::raw::{Event, Memory, Stream};
use super::stall::Stall;
use super::{answers, in_every_pair, in_every_pair_unwatched, is_refused, waits, works};
use crate::pair::on;
use crate::run::{in_every_environment, in_every_place, in_every_place_unwatched};

#[test]
fn an_event_that_was_never_recorded_is_complete() {
    in_every_environment(|environment| {
        let (event, memory) = (Event::new()?, Memory::words()?);
        let (busy, own) = (Stream::non_blocking()?, Stream::non_blocking()?);
        let stall = Stall::on(environment.handle(), &busy)?;
        works("the query", event.query())?;
        works("the wait of the host", event.synchronize())?;
        works("the wait of a stream", own.wait_for(&event))?;
        works("the stream's next work", own.fill(&memory, 1))?;
        works("the wait for the stream", own.synchronize())?;
        stall.release()?;
        memory.holds(1)
    });
}

#[test]
fn an_event_is_not_ready_until_what_it_was_recorded_behind_is_done() {
    in_every_environment(|environment| {
        let (event, memory, own) = (Event::new()?, Memory::words()?, Stream::non_blocking()?);
        let stall = Stall::on(environment.handle(), &own)?;
        works("the work", own.fill(&memory, 1))?;
        works("the record", event.record(&own))?;
        for _ in 0..10 {
            waits("the query", event.query())?;
        }
        stall.release()?;
        works("the wait", event.synchronize())?;
        works("the query after the wait", event.query())?;
        memory.holds(1)
    });
}

#[test]
fn work_after_the_record_is_nothing_to_the_event() {
    in_every_environment(|environment| {
        let (event, memory, own) = (Event::new()?, Memory::words()?, Stream::non_blocking()?);
        works("the work", own.fill(&memory, 1))?;
        works("the record", event.record(&own))?;
        let stall = Stall::on(environment.handle(), &own)?;
        works("the wait while the stream is busy again", event.synchronize())?;
        works("the query after it", event.query())?;
        waits("the query of the stream", own.query())?;
        stall.release()?;
        works("the wait for the stream", own.synchronize())?;
        memory.holds(1)
    });
}

#[test]
fn a_wait_is_for_what_the_event_stood_for_then() {
    in_every_environment(|environment| {
        let (event, memory) = (Event::new()?, Memory::words()?);
        let (busy, idle) = (Stream::non_blocking()?, Stream::non_blocking()?);
        let waiting = Stream::non_blocking()?;
        let stall = Stall::on(environment.handle(), &busy)?;
        works("the first work", busy.fill(&memory, 1))?;
        works("the first record", event.record(&busy))?;
        works("the wait of a stream", waiting.wait_for(&event))?;
        works("the second work", waiting.fill(&memory, 2))?;
        works("the second record", event.record(&idle))?;
        works("the wait of the host for the second", event.synchronize())?;
        waits("the query of the stream that waits for the first", waiting.query())?;
        stall.release()?;
        works("the wait for the stream", waiting.synchronize())?;
        memory.holds(2)
    });
}

#[test]
fn a_wait_is_not_for_what_is_recorded_after_it() {
    in_every_environment(|environment| {
        let (event, memory) = (Event::new()?, Memory::words()?);
        let (busy, idle) = (Stream::non_blocking()?, Stream::non_blocking()?);
        let waiting = Stream::non_blocking()?;
        works("the first record", event.record(&idle))?;
        works("the wait of a stream", waiting.wait_for(&event))?;
        let stall = Stall::on(environment.handle(), &busy)?;
        works("the second record", event.record(&busy))?;
        works("the work", waiting.fill(&memory, 1))?;
        works("the wait for the stream", waiting.synchronize())?;
        waits("the query of the second", event.query())?;
        stall.release()?;
        works("the wait of the host", event.synchronize())?;
        memory.holds(1)
    });
}

#[test]
fn an_event_may_be_destroyed_while_a_stream_waits_for_it() {
    in_every_environment(|environment| {
        let (event, memory) = (Event::new()?, Memory::words()?);
        let (busy, waiting) = (Stream::non_blocking()?, Stream::non_blocking()?);
        let stall = Stall::on(environment.handle(), &busy)?;
        works("the first work", busy.fill(&memory, 1))?;
        works("the record", event.record(&busy))?;
        works("the wait of a stream", waiting.wait_for(&event))?;
        drop(event);
        works("the second work", waiting.fill(&memory, 2))?;
        waits("the query of the stream that waits", waiting.query())?;
        stall.release()?;
        works("the wait for the stream", waiting.synchronize())?;
        memory.holds(2)
    });
}

#[test]
fn waits_are_transitive() {
    in_every_environment(|environment| {
        let (first, second, memory) = (Event::new()?, Event::new()?, Memory::words()?);
        let (busy, between) = (Stream::non_blocking()?, Stream::non_blocking()?);
        let last = Stream::non_blocking()?;
        let stall = Stall::on(environment.handle(), &busy)?;
        works("the first work", busy.fill(&memory, 1))?;
        works("the first record", first.record(&busy))?;
        works("the wait in between", between.wait_for(&first))?;
        works("the second record", second.record(&between))?;
        works("the last wait", last.wait_for(&second))?;
        works("the last work", last.fill(&memory, 2))?;
        waits("the query of the last stream", last.query())?;
        waits("the query of the event in between", second.query())?;
        stall.release()?;
        works("the wait for the last stream", last.synchronize())?;
        memory.holds(2)
    });
}

#[test]
fn a_stream_waits_for_an_event_of_another_device() {
    in_every_pair(|pair| {
        let (event, memory) = (Event::new()?, Memory::words()?);
        let busy = Stream::non_blocking()?;
        let foreign = on(pair.other, || Ok(Stream::non_blocking()?))?;
        let foreign_memory = on(pair.other, || Ok(Memory::words()?))?;
        let stall = Stall::on(pair.handle(), &busy)?;
        works("the first work", busy.fill(&memory, 1))?;
        works("the record", event.record(&busy))?;
        works("the wait of the other device's stream", foreign.wait_for(&event))?;
        works("the second work", foreign.fill(&foreign_memory, 2))?;
        waits("the query of the stream that waits", foreign.query())?;
        stall.release()?;
        works("the wait for the stream", foreign.synchronize())?;
        works("the query of the event", event.query())?;
        foreign_memory.holds(2)
    });
}

#[test]
fn an_event_is_recorded_on_streams_of_its_own_context_only() {
    in_every_pair_unwatched(|pair| {
        let event = Event::new()?;
        let foreign = on(pair.other, || Ok(Stream::non_blocking()?))?;
        answers("the record", &event.record(&foreign), &CuResult::INVALID_HANDLE)?;
        works("the query after it", event.query())
    });
}

#[test]
fn time_is_measured_between_events_that_are_complete() {
    in_every_environment(|environment| {
        let (start, end) = (Event::with_flags(EVENT_DEFAULT)?, Event::with_flags(EVENT_DEFAULT)?);
        let own = Stream::non_blocking()?;
        let never = Err(CuResult::INVALID_HANDLE);
        answers("between events never recorded", &end.elapsed_since(&start), &never)?;
        works("the record of the start", start.record(&own))?;
        works("the wait for the start", start.synchronize())?;
        answers("to an event never recorded", &end.elapsed_since(&start), &never)?;
        let stall = Stall::on(environment.handle(), &own)?;
        works("the record of the end", end.record(&own))?;
        let pending = Err(CuResult::NOT_READY);
        answers("to an event that is pending", &end.elapsed_since(&start), &pending)?;
        answers("from an event that is pending", &start.elapsed_since(&end), &pending)?;
        stall.release()?;
        works("the wait for the end", end.synchronize())?;
        let (forth, back) = (end.elapsed_since(&start)?, start.elapsed_since(&end)?);
        let &[time, ..] = &*forth else { return Err(Failure::new("the driver measures no time")) };
        ensure(time >= 0.0, || format!("the time from start to end is {time} ms"))?;
        answers("the time by each form", &forth, &vec![time; forth.len()])?;
        answers("the time back", &back, &vec![-time; forth.len()])?;
        let none = Ok(vec![0.0; forth.len()]);
        answers("the time from an event to itself", &end.elapsed_since(&end), &none)
    });
}

#[test]
fn events_without_time_tell_none() {
    in_every_place(|| {
        let (timed, timeless) = (Event::with_flags(EVENT_DEFAULT)?, Event::new()?);
        let own = Stream::non_blocking()?;
        works("the record of one", timed.record(&own))?;
        works("the record of the other", timeless.record(&own))?;
        works("the wait", own.synchronize())?;
        let none = Err(CuResult::INVALID_HANDLE);
        answers("from one without", &timed.elapsed_since(&timeless), &none)?;
        answers("to one without", &timeless.elapsed_since(&timed), &none)
    });
}

#[test]
fn events_and_waits_take_no_flags_that_do_not_exist() {
    in_every_place_unwatched(|| {
        let refused = Some(CuResult::INVALID_VALUE);
        answers("an event with an unknown flag", &Event::with_flags(1 << 8).err(), &refused)?;
        let (event, own) = (Event::with_flags(EVENT_DISABLE_TIMING)?, Stream::non_blocking()?);
        is_refused("a wait with an unknown flag", own.wait_with_flags(&event, 1 << 8))
    });
}

/// The flag is for streams that are being captured.
#[test]
fn a_wait_outside_of_captures_is_not_external() {
    const EXTERNAL: u32 = 1;
    in_every_place_unwatched(|| {
        let (event, own) = (Event::new()?, Stream::non_blocking()?);
        let code = own.wait_with_flags(&event, EXTERNAL);
        answers("a wait with that flag", &code, &CuResult::ILLEGAL_STATE)
    });
}
