//! Streams: their identity, flags and destruction.

use std::collections::HashSet;
use std::ffi::c_int;

use rmm_conformance::{Failure, ensure};
use rmm_sys::{CuCaptureStatus, CuResult, STREAM_DEFAULT, STREAM_NON_BLOCKING};

use super::raw::{Event, Memory, Stream, context, driver, synchronize_context};
use super::stall::Stall;
use super::{answers, in_every_pair, waits, works};
use crate::pair::on;
use crate::run::{
    in_every_environment, in_every_environment_unwatched, in_every_place, in_every_place_unwatched,
};

#[test]
fn default_streams_keep_their_ids() {
    in_every_environment(|environment| {
        let (legacy, own) = (Stream::LEGACY.id()?, Stream::PER_THREAD.id()?);
        answers("the id of the null stream", &Stream::NULL.id()?, &legacy)?;
        let handle = environment.handle();
        let there = std::thread::scope(|scope| {
            let run = || -> Result<_, Failure> {
                let _current = handle.make_current()?;
                rmm_core::driver_in_context()?;
                Ok((Stream::LEGACY.id()?, Stream::PER_THREAD.id()?))
            };
            scope.spawn(run).join().map_err(|_| Failure::new("the thread panicked"))?
        })?;
        answers("the legacy stream's id on another thread", &there.0, &legacy)?;
        ensure(there.1 != own, || format!("the streams of two threads have one id, {own}"))?;
        answers("the legacy stream's id, again", &Stream::LEGACY.id()?, &legacy)?;
        answers("the thread's stream's id, again", &Stream::PER_THREAD.id()?, &own)
    });
}

#[test]
fn default_streams_are_those_of_the_current_context() {
    in_every_pair(|pair| {
        let ids = || Ok([Stream::LEGACY.id()?, Stream::PER_THREAD.id()?]);
        let (home, other) = (on(pair.home, ids)?, on(pair.other, ids)?);
        let all: HashSet<u64> = home.into_iter().chain(other).collect();
        ensure(all.len() == 4, || format!("ids at home {home:?}, elsewhere {other:?}"))
    });
}

#[test]
fn streams_tell_how_they_were_made() {
    in_every_place(|| {
        let own = context()?;
        for (what, stream, flags) in [
            ("a blocking stream", Stream::blocking()?, STREAM_DEFAULT),
            ("a non-blocking stream", Stream::non_blocking()?, STREAM_NON_BLOCKING),
            ("the legacy stream", Stream::LEGACY, STREAM_DEFAULT),
            ("the null stream", Stream::NULL, STREAM_DEFAULT),
            ("the thread's stream", Stream::PER_THREAD, STREAM_DEFAULT),
        ] {
            answers(&format!("the flags of {what}"), &stream.flags(), &Ok(flags))?;
            answers(&format!("the priority of {what}"), &stream.priority(), &Ok(0))?;
            answers(&format!("the context of {what}"), &stream.context(), &Ok(own))?;
        }
        Ok(())
    });
}

#[test]
fn streams_have_no_flags_that_do_not_exist() {
    in_every_place_unwatched(|| {
        let made = Stream::made(1 << 8, 0).err();
        answers("a stream with an unknown flag", &made, &Some(CuResult::INVALID_VALUE))
    });
}

#[test]
fn priorities_are_clamped() {
    in_every_place(|| {
        let (mut least, mut greatest): (c_int, c_int) = (-1, 1);
        // SAFETY: both may be written to.
        let code =
            unsafe { driver().cuCtxGetStreamPriorityRange(&raw mut least, &raw mut greatest) };
        works("the range", code)?;
        answers("the least priority", &least, &0)?;
        ensure(greatest <= least, || format!("the greatest priority is {greatest}"))?;
        for (wish, expected) in
            [(least, least), (least + 10, least), (greatest, greatest), (greatest - 10, greatest)]
        {
            let stream = Stream::made(STREAM_NON_BLOCKING, wish)?;
            answers(&format!("the priority for {wish}"), &stream.priority(), &Ok(expected))?;
        }
        Ok(())
    });
}

#[test]
fn a_stream_that_is_destroyed_finishes_its_work() {
    // What runs the stalled work may still wait for the stream.
    in_every_environment_unwatched(|environment| {
        let (event, memory, stream) = (Event::new()?, Memory::words()?, Stream::non_blocking()?);
        let stall = Stall::on(environment.handle(), &stream)?;
        works("the work", stream.fill(&memory, 1))?;
        works("the record", event.record(&stream))?;
        works("the end of the stream", stream.destroy())?;
        waits("the query of the event", event.query())?;
        stall.release()?;
        works("the wait for the event", event.synchronize())?;
        memory.holds(1)
    });
}

#[test]
fn waiting_for_the_context_is_waiting_for_streams_that_are_gone() {
    // What runs the stalled work may still wait for the stream.
    in_every_environment_unwatched(|environment| {
        let (memory, stream) = (Memory::words()?, Stream::non_blocking()?);
        let stall = Stall::on(environment.handle(), &stream)?;
        works("the work", stream.fill(&memory, 1))?;
        works("the end of the stream", stream.destroy())?;
        stall.release()?;
        works("the wait for the context", synchronize_context())?;
        memory.holds(1)
    });
}

#[test]
fn streams_are_not_captured_by_themselves() {
    in_every_place(|| {
        for stream in [Stream::non_blocking()?, Stream::blocking()?, Stream::PER_THREAD] {
            let mut status = CuCaptureStatus::ACTIVE;
            // SAFETY: `status` may be written to, and the stream exists.
            let code = unsafe { driver().cuStreamIsCapturing(stream.raw(), &raw mut status) };
            works("the question", code)?;
            answers("the status", &status, &CuCaptureStatus::NONE)?;
        }
        Ok(())
    });
}
