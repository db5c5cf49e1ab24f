//! Events that stand for all of a context, and contexts that wait as a whole.

use rmm_conformance::Failure;
use rmm_sys::CuResult;

use super::raw::{Event, Memory, Stream, context, driver};
use super::stall::Stall;
use super::{answers, in_every_pair, waits, works};
use crate::pair::on;
use crate::run::{in_every_environment, in_every_environment_unwatched};

/// Whether the driver has these calls: 12.5 and newer.
fn has_them() -> Result<bool, Failure> {
    let mut version = 0;
    // SAFETY: `version` may be written to.
    unsafe { driver().cuDriverGetVersion(&raw mut version) }.result()?;
    Ok(version >= 12050)
}

#[test]
fn an_event_of_a_context_stands_for_all_of_its_streams() {
    in_every_environment(|environment| {
        if !has_them()? {
            return Ok(());
        }
        for busy in [Stream::blocking()?, Stream::non_blocking()?, Stream::LEGACY] {
            let (event, own) = (Event::new()?, context()?);
            let stall = Stall::on(environment.handle(), &busy)?;
            works("the record", event.record_all_of(own))?;
            waits("the query", event.query())?;
            stall.release()?;
            works("the wait", event.synchronize())?;
            works("the query after the wait", event.query())?;
            works("the stream at the end", busy.synchronize())?;
        }
        Ok(())
    });
}

#[test]
fn an_event_of_a_context_stands_for_streams_that_are_gone() {
    // What runs the stalled work may still wait for the stream.
    in_every_environment_unwatched(|environment| {
        if !has_them()? {
            return Ok(());
        }
        let (event, memory, stream) = (Event::new()?, Memory::words()?, Stream::non_blocking()?);
        let own = context()?;
        let stall = Stall::on(environment.handle(), &stream)?;
        works("the work", stream.fill(&memory, 1))?;
        works("the end of the stream", stream.destroy())?;
        works("the record", event.record_all_of(own))?;
        waits("the query", event.query())?;
        stall.release()?;
        works("the wait", event.synchronize())?;
        memory.holds(1)
    });
}

#[test]
fn an_event_of_a_context_orders_a_stream() {
    in_every_environment(|environment| {
        if !has_them()? {
            return Ok(());
        }
        let (event, memory) = (Event::new()?, Memory::words()?);
        let (busy, other) = (Stream::non_blocking()?, Stream::non_blocking()?);
        let own = context()?;
        let stall = Stall::on(environment.handle(), &busy)?;
        works("the first work", busy.fill(&memory, 1))?;
        works("the record", event.record_all_of(own))?;
        works("the wait of a stream", other.wait_for(&event))?;
        works("the second work", other.fill(&memory, 2))?;
        waits("the query of the stream", other.query())?;
        stall.release()?;
        works("the wait for the stream", other.synchronize())?;
        memory.holds(2)
    });
}

#[test]
fn a_context_that_waits_holds_up_all_of_its_streams() {
    in_every_environment(|environment| {
        if !has_them()? {
            return Ok(());
        }
        let memory = [Memory::words()?, Memory::words()?, Memory::words()?];
        let (event, own) = (Event::new()?, context()?);
        let (busy, old) = (Stream::non_blocking()?, Stream::non_blocking()?);
        let stall = Stall::on(environment.handle(), &busy)?;
        works("the record", event.record(&busy))?;
        works("the wait of the context", event.hold_up(own))?;
        let new = Stream::non_blocking()?;
        let streams = [
            ("a stream made before", &old),
            ("one made after", &new),
            ("the legacy stream", &Stream::LEGACY),
        ];
        for ((what, stream), memory) in streams.iter().zip(&memory) {
            works(&format!("the work of {what}"), stream.fill(memory, 1))?;
            waits(&format!("the query of {what}"), stream.query())?;
        }
        stall.release()?;
        for ((what, stream), memory) in streams.iter().zip(&memory) {
            works(&format!("the wait for {what}"), stream.synchronize())?;
            memory.holds(1)?;
        }
        Ok(())
    });
}

#[test]
fn a_context_waits_for_an_event_that_was_never_recorded_without_end_nor_effect() {
    in_every_environment(|_| {
        if !has_them()? {
            return Ok(());
        }
        let (event, memory, own) = (Event::new()?, Memory::words()?, Stream::non_blocking()?);
        works("the wait of the context", event.hold_up(context()?))?;
        works("the work", own.fill(&memory, 1))?;
        works("the wait for the stream", own.synchronize())?;
        memory.holds(1)
    });
}

#[test]
fn an_event_stands_for_its_own_context_only() {
    in_every_pair(|pair| {
        if !has_them()? {
            return Ok(());
        }
        let (event, other) = (Event::new()?, on(pair.other, context)?);
        answers("the record", &event.record_all_of(other), &CuResult::INVALID_HANDLE)?;
        works("the query after it", event.query())
    });
}
