//! The work that `cuCtxRecordEvent` covers: every stream of its context that has work, of whatever
//! kind, destroyed or of an ended thread, and no more than that. A pool that reaches memory of
//! streams which it cannot name relies on each of these.

use rmm_conformance::{CheckResult, Environment, Failure};
use rmm_sys::CuResult;

use super::gate::Gate;
use super::raw::{Event, Memory, Stream, context, driver};
use super::stall::Stall;
use super::{answers, waits, works};
use crate::run::in_every_environment;

/// Whether the driver has the call: 12.5 and newer.
pub(super) fn has_context_events() -> Result<bool, Failure> {
    let mut version = 0;
    // SAFETY: `version` may be written to.
    unsafe { driver().cuDriverGetVersion(&raw mut version) }.result()?;
    Ok(version >= 12050)
}

/// Runs in every environment whose driver has the call.
#[track_caller]
fn with_context_events(probe: impl Fn(&Environment) -> CheckResult) {
    in_every_environment(
        |environment| {
            if has_context_events()? { probe(environment) } else { Ok(()) }
        },
    );
}

/// An event of the current context, recorded now.
fn recorded() -> Result<Event, Failure> {
    let event = Event::new()?;
    works("the record of the context", event.record_all_of(context()?))?;
    Ok(event)
}

/// Fails unless an event that is recorded now is behind what waits at the gate, orders a stream
/// after it, and is complete once the gate is open.
fn covers_what_waits(gate: Gate, memory: &Memory) -> CheckResult {
    let later = Stream::non_blocking()?;
    let event = recorded()?;
    waits("the query", event.query())?;
    works("the wait of a stream", later.wait_for(&event))?;
    works("the work behind it", later.fill(memory, 2))?;
    waits("the query of the stream behind it", later.query())?;
    gate.open()?;
    works("the wait for the event", event.synchronize())?;
    works("the query after it", event.query())?;
    works("the wait for the stream", later.synchronize())?;
    memory.holds(2)
}

/// Runs on another thread, in the same context.
fn on_a_thread<T: Send>(
    environment: &Environment,
    run: impl FnOnce() -> Result<T, Failure> + Send,
) -> Result<T, Failure> {
    let handle = environment.handle();
    std::thread::scope(|scope| {
        let run = || {
            let _current = handle.make_current()?;
            rmm_core::driver_in_context()?;
            run()
        };
        scope.spawn(run).join().map_err(|_| Failure::new("the thread panicked"))?
    })
}

#[test]
fn a_context_event_covers_each_kind_of_stream() {
    with_context_events(|environment| {
        let made = [Stream::non_blocking()?, Stream::blocking()?];
        for stream in made.iter().chain([&Stream::LEGACY, &Stream::PER_THREAD]) {
            let (memory, gate) = (Memory::words()?, Gate::closed(environment)?);
            gate.stops(stream)?;
            works("the work", stream.fill(&memory, 1))?;
            covers_what_waits(gate, &memory)?;
        }
        Ok(())
    });
}

#[test]
fn a_context_event_covers_a_stream_that_only_waits() {
    with_context_events(|environment| {
        let made = [Stream::non_blocking()?, Stream::blocking()?];
        for stream in made.iter().chain([&Stream::LEGACY, &Stream::PER_THREAD]) {
            let (memory, gate) = (Memory::words()?, Gate::closed(environment)?);
            gate.stops(stream)?;
            covers_what_waits(gate, &memory)?;
        }
        Ok(())
    });
}

#[test]
fn a_context_event_covers_streams_destroyed_with_work() {
    with_context_events(|environment| {
        for make in [Stream::non_blocking, Stream::blocking] {
            let (memory, stream) = (Memory::words()?, make()?);
            let gate = Gate::closed(environment)?;
            gate.stops(&stream)?;
            works("the work", stream.fill(&memory, 1))?;
            works("the end of the stream", stream.destroy())?;
            covers_what_waits(gate, &memory)?;
        }
        Ok(())
    });
}

#[test]
fn a_context_event_covers_a_destroyed_stream_that_only_waits() {
    with_context_events(|environment| {
        let (memory, stream) = (Memory::words()?, Stream::non_blocking()?);
        let gate = Gate::closed(environment)?;
        gate.stops(&stream)?;
        works("the end of the stream", stream.destroy())?;
        covers_what_waits(gate, &memory)
    });
}

#[test]
fn a_context_event_covers_many_destroyed_streams() {
    const STREAMS: usize = 300;
    with_context_events(|environment| {
        let memory = Memory::words()?;
        let streams = std::iter::repeat_with(Stream::non_blocking).take(STREAMS);
        let streams: Vec<Stream> = streams.collect::<Result<_, _>>()?;
        let gate = Gate::closed(environment)?;
        // The first of them waits; what comes and goes after it takes its handle, or its place in
        // whatever the driver keeps.
        let mut streams = streams.into_iter();
        let first = streams.next().ok_or_else(|| Failure::new("there are streams"))?;
        gate.stops(&first)?;
        works("the work", first.fill(&memory, 1))?;
        works("the end of the first", first.destroy())?;
        for stream in streams {
            gate.stops(&stream)?;
            works("the end of another", stream.destroy())?;
        }
        covers_what_waits(gate, &memory)
    });
}

#[test]
fn a_context_event_covers_the_stream_of_another_thread() {
    with_context_events(|environment| {
        let memory = Memory::words()?;
        let gate = Gate::closed(environment)?;
        let (begun, is_begun) = std::sync::mpsc::channel();
        let (end, must_end) = std::sync::mpsc::channel::<()>();
        let (handle, shared) = (environment.handle(), (&gate, &memory));
        std::thread::scope(|scope| {
            scope.spawn(move || -> CheckResult {
                let (gate, memory) = shared;
                let _current = handle.make_current()?;
                rmm_core::driver_in_context()?;
                gate.stops(&Stream::PER_THREAD)?;
                works("the work of the thread", Stream::PER_THREAD.fill(memory, 1))?;
                // The thread sleeps on, with work left.
                let _ignored = begun.send(());
                let _ignored = must_end.recv();
                Ok(())
            });
            is_begun.recv().map_err(|_| Failure::new("the thread failed"))?;
            let event = recorded()?;
            let asked = waits("the query", event.query());
            drop(end);
            asked
        })?;
        covers_what_waits(gate, &memory)
    });
}

#[test]
fn a_context_event_covers_streams_of_ended_threads() {
    with_context_events(|environment| {
        let memory = Memory::words()?;
        let gate = Gate::closed(environment)?;
        on_a_thread(environment, || {
            gate.stops(&Stream::PER_THREAD)?;
            works("the work of the thread", Stream::PER_THREAD.fill(&memory, 1))
        })?;
        // Threads that come after it may be given its stream.
        for _ in 0..4 {
            on_a_thread(environment, || {
                // Ready or not.
                let _ignored = Stream::PER_THREAD.query();
                Ok(())
            })?;
        }
        covers_what_waits(gate, &memory)
    });
}

#[test]
fn a_context_event_is_no_barrier() {
    with_context_events(|environment| {
        for busy in [Stream::non_blocking()?, Stream::blocking()?] {
            let (memory, other) = (Memory::words()?, Memory::words()?);
            let (free, blocking) = (Stream::non_blocking()?, Stream::blocking()?);
            let stall = Stall::on(environment.handle(), &busy)?;
            let event = recorded()?;
            works("the work of a stream", free.fill(&memory, 1))?;
            works("the wait for it", free.synchronize())?;
            works("the work of a blocking stream", blocking.fill(&other, 1))?;
            works("the wait for it", blocking.synchronize())?;
            waits("the query of the event", event.query())?;
            waits("the query of the busy stream", busy.query())?;
            stall.release()?;
            works("the wait for the event", event.synchronize())?;
            memory.holds(1)?;
            other.holds(1)?;
        }
        Ok(())
    });
}

#[test]
fn a_context_event_leaves_out_later_work() {
    with_context_events(|environment| {
        let (memory, stream) = (Memory::words()?, Stream::non_blocking()?);
        works("the work", stream.fill(&memory, 1))?;
        let event = recorded()?;
        works("the wait for it", event.synchronize())?;
        let stall = Stall::on(environment.handle(), &stream)?;
        works("the query while the stream is busy again", event.query())?;
        stall.release()?;
        works("the wait for the stream", stream.synchronize())?;
        memory.holds(1)
    });
}

#[test]
fn the_same_event_stands_for_the_last_record_of_the_context() {
    with_context_events(|environment| {
        let (memory, stream) = (Memory::words()?, Stream::non_blocking()?);
        let event = recorded()?;
        works("the wait for the first", event.synchronize())?;
        let gate = Gate::closed(environment)?;
        gate.stops(&stream)?;
        works("the second record", event.record_all_of(context()?))?;
        waits("the query", event.query())?;
        gate.open()?;
        works("the wait for the second", event.synchronize())?;
        works("the work", stream.fill(&memory, 1))?;
        works("the wait for the stream", stream.synchronize())?;
        memory.holds(1)
    });
}

#[test]
fn a_context_event_leaves_out_other_contexts() {
    with_context_events(|environment| {
        // The gate's own stream is busy, in the other context, and nothing waits there.
        let gate = Gate::closed(environment)?;
        let event = recorded()?;
        works("the query", event.query())?;
        let wrong = event.record_all_of(gate.other_context());
        answers("the record of the other context", &wrong, &CuResult::INVALID_HANDLE)?;
        gate.open()
    });
}
