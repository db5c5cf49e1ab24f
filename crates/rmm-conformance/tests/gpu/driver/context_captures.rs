//! `cuCtxRecordEvent` and captures: "The API will return `CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED` if
//! the specified context hCtx has a stream in the capture mode. In such a case, the call will
//! invalidate all the conflicting captures" (CUDA driver API). A pool therefore must not make the
//! call while a capture may be under way, in whichever mode and on whichever thread.

use std::sync::mpsc::channel;

use rmm_conformance::{CheckResult, Environment, Failure};
use rmm_sys::{CuCaptureMode, CuCaptureStatus, CuResult};

use super::capture_calls::{FINE, Found, MODES, during};
use super::context_events::has_context_events;
use super::library::OtherContext;
use super::raw::{Event, Memory, Stream, context, synchronize_context};
use super::raw_graph::exchange;
use super::{all, answers, works};
use crate::run::in_every_environment_unwatched;

const SPOILT: Found = (
    CuResult::STREAM_CAPTURE_UNSUPPORTED,
    Ok(CuCaptureStatus::INVALIDATED),
    CuResult::STREAM_CAPTURE_INVALIDATED,
);

/// Runs in every environment whose driver has the call. The software device is not to report that
/// captures are spoilt.
#[track_caller]
fn with_context_events(probe: impl Fn(&Environment) -> CheckResult) {
    in_every_environment_unwatched(
        |environment| {
            if has_context_events()? { probe(environment) } else { Ok(()) }
        },
    );
}

/// A non-blocking and a blocking stream.
fn kinds() -> Result<[(&'static str, Stream); 2], CuResult> {
    Ok([("non-blocking", Stream::non_blocking()?), ("blocking", Stream::blocking()?)])
}

#[test]
fn recording_a_context_spoils_its_captures() {
    with_context_events(|_| {
        let (event, own) = (Event::new()?, context()?);
        all(kinds()?.iter().flat_map(|(kind, stream)| {
            MODES.map(|mode| {
                let found = during(stream, mode, || event.record_all_of(own));
                answers(&format!("a {kind} stream, {mode:?}"), &found, &Ok(SPOILT))
            })
        }))
    });
}

#[test]
fn recording_a_context_spoils_captures_of_relaxed_threads() {
    with_context_events(|_| {
        let (event, own) = (Event::new()?, context()?);
        let former = exchange(CuCaptureMode::RELAXED)?;
        let outcome = all(kinds()?.iter().flat_map(|(kind, stream)| {
            MODES.map(|mode| {
                let found = during(stream, mode, || event.record_all_of(own));
                answers(&format!("a {kind} stream, {mode:?}"), &found, &Ok(SPOILT))
            })
        }));
        exchange(former)?;
        outcome
    });
}

/// Another thread captures, and waits until this one has recorded the context.
fn of_another_thread(environment: &Environment, mode: CuCaptureMode) -> Result<Found, Failure> {
    let (event, own, captured) = (Event::new()?, context()?, Stream::non_blocking()?);
    let (begun, is_begun) = channel();
    let (answer, answered) = channel::<CuResult>();
    std::thread::scope(|scope| {
        let (handle, captured) = (environment.handle(), &captured);
        let capturing = scope.spawn(move || -> Result<Found, Failure> {
            let _current = handle.make_current()?;
            rmm_core::driver_in_context()?;
            Ok(during(captured, mode, || {
                // The other thread may have ended.
                let _ignored = begun.send(());
                answered.recv().unwrap_or(CuResult::UNKNOWN)
            })?)
        });
        let code = match is_begun.recv() {
            Ok(()) => event.record_all_of(own),
            Err(_) => CuResult::UNKNOWN,
        };
        // The other thread may have ended.
        let _ignored = answer.send(code);
        capturing.join().map_err(|_| Failure::new("the thread panicked"))?
    })
}

#[test]
fn recording_a_context_spoils_captures_of_other_threads() {
    with_context_events(|environment| {
        all(MODES.map(|mode| {
            let found = of_another_thread(environment, mode)?;
            answers(&format!("a capture of another thread, {mode:?}"), &found, &SPOILT)
        }))
    });
}

#[test]
fn recording_a_context_leaves_captures_of_others_alone() {
    with_context_events(|environment| {
        let (event, own) = (Event::new()?, context()?);
        let other = OtherContext::new(environment)?;
        let stream = other.within(|| Ok(Stream::non_blocking()?))?;
        let outcome = all(MODES.map(|mode| {
            let found = during(&stream, mode, || event.record_all_of(own));
            answers(&format!("a capture in another context, {mode:?}"), &found, &Ok(FINE))
        }));
        drop(stream);
        outcome
    });
}

#[test]
fn a_refused_record_leaves_the_event_as_it_was() {
    with_context_events(|_| {
        let (event, own, captured) = (Event::new()?, context()?, Stream::non_blocking()?);
        let memory = Memory::words()?;
        works("the record before", event.record_all_of(own))?;
        works("the wait for it", event.synchronize())?;
        let found = during(&captured, CuCaptureMode::RELAXED, || event.record_all_of(own));
        answers("the record meanwhile", &found, &Ok(SPOILT))?;
        works("the query", event.query())?;
        works("the record after", event.record_all_of(own))?;
        works("the wait for that", event.synchronize())?;
        works("work on the stream after it", captured.fill(&memory, 1))?;
        works("the wait for the stream", captured.synchronize())?;
        memory.holds(1)
    });
}

#[test]
fn a_captured_stream_does_not_wait_for_a_context_event() {
    with_context_events(|_| {
        let (event, own) = (Event::new()?, context()?);
        works("the record", event.record_all_of(own))?;
        let isolated = (
            CuResult::STREAM_CAPTURE_ISOLATION,
            Ok(CuCaptureStatus::INVALIDATED),
            CuResult::STREAM_CAPTURE_INVALIDATED,
        );
        all(kinds()?.iter().flat_map(|(kind, stream)| {
            MODES.map(|mode| {
                let found = during(stream, mode, || stream.wait_for(&event));
                answers(&format!("a {kind} stream, {mode:?}"), &found, &Ok(isolated))
            })
        }))
    });
}

#[test]
fn other_streams_wait_for_a_context_event_during_a_capture() {
    with_context_events(|_| {
        let (event, own, memory) = (Event::new()?, context()?, Memory::words()?);
        let (captured, other) = (Stream::non_blocking()?, Stream::non_blocking()?);
        works("the record", event.record_all_of(own))?;
        let claims = MODES.map(|mode| {
            let found = during(&captured, mode, || match other.wait_for(&event) {
                CuResult::SUCCESS => other.fill(&memory, 1),
                refused => refused,
            });
            answers(&format!("another stream, {mode:?}"), &found, &Ok(FINE))
        });
        all(claims)?;
        works("the wait for the stream", other.synchronize())?;
        memory.holds(1)
    });
}

#[test]
fn a_context_that_waits_spoils_its_captures() {
    with_context_events(|_| {
        let (event, own, captured) = (Event::new()?, context()?, Stream::non_blocking()?);
        works("the record", event.record(&Stream::LEGACY))?;
        works("the wait for it", event.synchronize())?;
        all(MODES.map(|mode| {
            let found = during(&captured, mode, || event.hold_up(own));
            answers(&format!("a capture, {mode:?}"), &found, &Ok(SPOILT))
        }))
    });
}

#[test]
fn waiting_for_a_context_leaves_captures_of_others_alone() {
    in_every_environment_unwatched(|environment| {
        let other = OtherContext::new(environment)?;
        let stream = other.within(|| Ok(Stream::non_blocking()?))?;
        let found = during(&stream, CuCaptureMode::RELAXED, synchronize_context);
        drop(stream);
        answers("a capture in another context", &found, &Ok(FINE))
    });
}
