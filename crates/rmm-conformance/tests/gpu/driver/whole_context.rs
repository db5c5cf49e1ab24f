//! Contexts that wait as a whole. `context_events.rs` has events that stand for all of a context.

use rmm_sys::CuResult;

use super::context_events::has_context_events;
use super::raw::{Event, Memory, Stream, context};
use super::stall::Stall;
use super::{answers, in_every_pair, waits, works};
use crate::pair::on;
use crate::run::in_every_environment;

#[test]
fn a_context_that_waits_holds_up_all_of_its_streams() {
    in_every_environment(|environment| {
        if !has_context_events()? {
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
        if !has_context_events()? {
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
        if !has_context_events()? {
            return Ok(());
        }
        let (event, other) = (Event::new()?, on(pair.other, context)?);
        answers("the record", &event.record_all_of(other), &CuResult::INVALID_HANDLE)?;
        works("the query after it", event.query())
    });
}
