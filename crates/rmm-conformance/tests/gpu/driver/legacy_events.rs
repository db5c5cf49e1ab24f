//! An event on the legacy default stream as the work that orders blocking streams: a block that is
//! freed and allocated on the legacy stream, used on one blocking stream before and on another one
//! after, is ordered by nothing else.

use rmm_conformance::{CheckResult, Failure};

use super::raw::{Event, Memory, Stream};
use super::stall::Stall;
use super::{waits, works};
use crate::run::in_every_environment;

/// Records an event on the legacy stream and does nothing with it.
fn record_on_legacy() -> Result<Event, Failure> {
    let event = Event::new()?;
    works("the record on the legacy stream", event.record(&Stream::LEGACY))?;
    Ok(event)
}

/// Fails unless the later stream waits for the stalled one.
fn is_ordered(later: &Stream, memory: &Memory, stall: Stall) -> CheckResult {
    works("the work of the second user", later.fill(memory, 2))?;
    waits("the query of the second user", later.query())?;
    stall.release()?;
    works("the wait for the second user", later.synchronize())?;
    memory.holds(2)
}

#[test]
fn an_event_on_the_legacy_stream_orders_blocking_streams() {
    in_every_environment(|environment| {
        for is_made_before in [true, false] {
            let (memory, first) = (Memory::words()?, Stream::blocking()?);
            let before = if is_made_before { Some(Stream::blocking()?) } else { None };
            let stall = Stall::on(environment.handle(), &first)?;
            works("the work of the first user", first.fill(&memory, 1))?;
            let event = record_on_legacy()?;
            let later = match before {
                Some(before) => before,
                None => Stream::blocking()?,
            };
            is_ordered(&later, &memory, stall)?;
            works("the query of the event", event.query())?;
        }
        Ok(())
    });
}

#[test]
fn an_event_on_the_legacy_stream_may_be_gone_before_it_orders() {
    in_every_environment(|environment| {
        let (memory, first, later) = (Memory::words()?, Stream::blocking()?, Stream::blocking()?);
        let stall = Stall::on(environment.handle(), &first)?;
        works("the work of the first user", first.fill(&memory, 1))?;
        drop(record_on_legacy()?);
        is_ordered(&later, &memory, stall)
    });
}

#[test]
fn an_event_on_the_legacy_stream_orders_threads_streams() {
    in_every_environment(|environment| {
        let (memory, first) = (Memory::words()?, Stream::blocking()?);
        let stall = Stall::on(environment.handle(), &first)?;
        works("the work of the first user", first.fill(&memory, 1))?;
        drop(record_on_legacy()?);
        is_ordered(&Stream::PER_THREAD, &memory, stall)
    });
}

#[test]
fn one_event_on_the_legacy_stream_orders_after_many_streams() {
    const USERS: usize = 8;
    in_every_environment(|environment| {
        let (memory, busy) = (Memory::words()?, Stream::non_blocking()?);
        let users = std::iter::repeat_with(Stream::blocking).take(USERS);
        let users: Vec<Stream> = users.collect::<Result<_, _>>()?;
        let gate = Event::new()?;
        for user in &users {
            // One after the other, so that no other user holds the event up.
            let stall = Stall::on(environment.handle(), &busy)?;
            works("the record of the gate", gate.record(&busy))?;
            works("the wait of the first user", user.wait_for(&gate))?;
            works("the work of the first user", user.fill(&memory, 1))?;
            drop(record_on_legacy()?);
            let later = Stream::blocking()?;
            is_ordered(&later, &memory, stall)?;
        }
        Ok(())
    });
}

#[test]
fn an_event_on_the_legacy_stream_leaves_out_later_users() {
    in_every_environment(|environment| {
        let (memory, other) = (Memory::words()?, Memory::words()?);
        let (first, later) = (Stream::blocking()?, Stream::blocking()?);
        let event = record_on_legacy()?;
        works("the wait for the event", event.synchronize())?;
        // Uses that come after the record need a record of their own.
        let stall = Stall::on(environment.handle(), &first)?;
        works("the work of the first user", first.fill(&memory, 1))?;
        works("the work of another user", later.fill(&other, 2))?;
        works("the wait for it", later.synchronize())?;
        works("the query of the event", event.query())?;
        waits("the query of the first user", first.query())?;
        stall.release()?;
        works("the wait for the first user", first.synchronize())?;
        memory.holds(1)?;
        other.holds(2)
    });
}

#[test]
fn a_wait_on_the_legacy_stream_orders_blocking_streams() {
    in_every_environment(|environment| {
        let (memory, first, later) = (Memory::words()?, Stream::blocking()?, Stream::blocking()?);
        let (done, idle) = (Event::new()?, Stream::non_blocking()?);
        works("the record of a complete event", done.record(&idle))?;
        works("the wait for it", done.synchronize())?;
        let stall = Stall::on(environment.handle(), &first)?;
        works("the work of the first user", first.fill(&memory, 1))?;
        works("the wait of the legacy stream", Stream::LEGACY.wait_for(&done))?;
        // Whether a wait for what is complete is work is not documented: only what follows it is.
        let probe = Stream::LEGACY.query();
        waits("the query of the legacy stream", probe)?;
        works("the work of the second user", later.fill(&memory, 2))?;
        super::report("blocking streams behind a wait for what is complete", &later.query());
        stall.release()?;
        works("the wait for the second user", later.synchronize())?;
        works("the wait for the first user", first.synchronize())
    });
}
