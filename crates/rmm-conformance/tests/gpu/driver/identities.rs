//! Identities of streams, over reused handles, contexts, threads and resets: `cuStreamGetId` and
//! `cuStreamGetCtx`. "A unique Id for the life of the program", the documentation says of the id.

use std::collections::HashSet;

use rmm_conformance::{Environment, Failure, ensure};
use rmm_core::Device;
use rmm_sys::CuContext;

use super::alone::{in_a_process_of_its_own, leave};
use super::library::OtherContext;
use super::raw::{Event, Memory, Stream, context, driver, synchronize_context};
use super::{answers, report, waits, works};
use crate::run::{in_every_environment, in_every_place};

#[test]
fn ids_are_new_where_handles_are_reused() {
    const STREAMS: usize = 200;
    in_every_place(|| {
        let (mut ids, mut handles) = (HashSet::new(), HashSet::new());
        let mut reused = 0;
        for number in 0..STREAMS {
            let stream =
                if number % 2 == 0 { Stream::non_blocking()? } else { Stream::blocking()? };
            let id = stream.id()?;
            ensure(ids.insert(id), || format!("stream {number} has an earlier one's id, {id}"))?;
            reused += usize::from(!handles.insert(stream.raw()));
            works("the end of the stream", stream.destroy())?;
        }
        report(&format!("handles of {STREAMS} streams that an earlier one had"), &reused);
        ensure(reused > 0, || "no handle was reused, which is what ids are for".to_owned())
    });
}

/// The ids of the default streams and of a new stream, which is gone then.
fn ids_here() -> Result<[u64; 3], Failure> {
    Ok([Stream::LEGACY.id()?, Stream::PER_THREAD.id()?, Stream::non_blocking()?.id()?])
}

#[test]
fn ids_differ_between_contexts_of_one_device() {
    in_every_environment(|environment| {
        let other = OtherContext::new(environment)?;
        let (here, there) = (ids_here()?, other.within(ids_here)?);
        let again = ids_here()?;
        let all: HashSet<u64> = here.into_iter().chain(there).collect();
        ensure(all.len() == 6, || format!("ids here {here:?}, in the other context {there:?}"))?;
        answers("the default streams' ids, again", &again[..2].to_vec(), &here[..2].to_vec())?;
        ensure(!all.contains(&again[2]), || format!("an id came back: {}", again[2]))
    });
}

#[test]
fn a_stream_reports_its_own_context() {
    in_every_environment(|environment| {
        let (home, made) = (context()?, Stream::non_blocking()?);
        let other = OtherContext::new(environment)?;
        let foreign = other.within(|| {
            let foreign = Stream::blocking()?;
            answers("the context of a stream of another one", &made.context(), &Ok(home))?;
            let its = [foreign.context(), Stream::LEGACY.context(), Stream::PER_THREAD.context()];
            answers("the contexts of its own streams", &its, &[Ok(other.raw); 3])?;
            Ok(foreign)
        })?;
        answers("the context of the other's stream", &foreign.context(), &Ok(other.raw))?;
        answers("the id of its context", &is_same_context(home, other.raw)?, &false)?;
        drop(foreign);
        Ok(())
    });
}

fn context_id(context: CuContext) -> Result<u64, Failure> {
    let mut id = 0;
    // SAFETY: `id` may be written to, and the context exists.
    unsafe { driver().cuCtxGetId(context, &raw mut id) }.result()?;
    Ok(id)
}

fn is_same_context(one: CuContext, other: CuContext) -> Result<bool, Failure> {
    Ok(context_id(one)? == context_id(other)?)
}

#[test]
fn work_is_given_to_streams_of_contexts_that_are_not_current() {
    in_every_environment(|environment| {
        let (memory, own) = (Memory::words()?, Stream::non_blocking()?);
        let event = Event::new()?;
        let other = OtherContext::new(environment)?;
        other.within(|| {
            works("the record on a stream of another context", event.record(&own))?;
            works("its own wait for it", own.wait_for(&event))
        })?;
        works("the work", own.fill(&memory, 1))?;
        works("the wait for it", own.synchronize())?;
        memory.holds(1)
    });
}

#[test]
fn ids_of_threads_that_end_are_not_those_of_live_streams() {
    const THREADS: usize = 16;
    in_every_environment(|environment| {
        let (own, made) = (Stream::PER_THREAD.id()?, Stream::non_blocking()?);
        let made_id = made.id()?;
        let mut ids = Vec::new();
        for _ in 0..THREADS {
            let id = id_of_a_thread(environment)?;
            ensure(id != own && id != made_id, || format!("a live stream has the id {id} too"))?;
            ids.push(id);
        }
        let different: HashSet<&u64> = ids.iter().collect();
        // A new thread may be given the stream of one that has ended: then it is the same stream.
        report(&format!("different ids of {THREADS} threads in turn"), &different.len());
        Ok(())
    });
}

fn id_of_a_thread(environment: &Environment) -> Result<u64, Failure> {
    let handle = environment.handle();
    std::thread::scope(|scope| {
        let run = || -> Result<u64, Failure> {
            let _current = handle.make_current()?;
            rmm_core::driver_in_context()?;
            Ok(Stream::PER_THREAD.id()?)
        };
        scope.spawn(run).join().map_err(|_| Failure::new("the thread panicked"))?
    })
}

#[test]
fn ids_are_new_after_a_reset() {
    let test = "driver::identities::ids_are_new_after_a_reset";
    in_a_process_of_its_own(test, |_| {
        let (device, before) = (Device::current()?.as_raw(), ids_here()?);
        let (old, kept) = (context_id(context()?)?, Stream::non_blocking()?);
        let kept_id = kept.id()?;
        leave(kept);
        // SAFETY: nothing else in this process uses the device.
        works("the reset", unsafe { driver().cuDevicePrimaryCtxReset_v2(device) })?;
        let mut renewed = CuContext::NULL;
        // SAFETY: `renewed` may be written to.
        let code = unsafe { driver().cuDevicePrimaryCtxRetain(&raw mut renewed, device) };
        works("the next context", code)?;
        // SAFETY: retained above.
        works("making it current", unsafe { driver().cuCtxSetCurrent(renewed) })?;
        let after = ids_here()?;
        let new = context_id(renewed)?;
        ensure(new != old, || format!("both contexts have the id {new}"))?;
        let all: HashSet<u64> = before.into_iter().chain(after).chain([kept_id]).collect();
        ensure(all.len() == 7, || format!("before {before:?} and {kept_id}, after {after:?}"))
    });
}

#[test]
fn the_legacy_streams_of_two_contexts_do_not_wait() {
    in_every_environment(|environment| {
        let (memory, blocking) = (Memory::words()?, Stream::blocking()?);
        let other = OtherContext::new(environment)?;
        let (stall, busy) = other.within(|| {
            let busy = Stream::blocking()?;
            let stall = super::stall::Stall::on(environment.handle(), &busy)?;
            waits("the query of the other's legacy stream", Stream::LEGACY.query())?;
            Ok((stall, busy))
        })?;
        works("the work of this legacy stream", Stream::LEGACY.fill(&memory, 1))?;
        works("the wait for it", Stream::LEGACY.synchronize())?;
        works("the work of a blocking stream", blocking.fill(&memory, 2))?;
        works("the wait for that", blocking.synchronize())?;
        waits("the query of the busy stream", busy.query())?;
        stall.release()?;
        works("the wait for the busy stream", busy.synchronize())?;
        memory.holds(2)
    });
}

#[test]
fn waiting_for_a_context_is_not_waiting_for_another() {
    in_every_environment(|environment| {
        let (busy, other) = (Stream::non_blocking()?, OtherContext::new(environment)?);
        let stall = super::stall::Stall::on(environment.handle(), &busy)?;
        other.within(|| works("the wait for the other context", synchronize_context()))?;
        waits("the query of the busy stream", busy.query())?;
        stall.release()?;
        works("the wait for it", busy.synchronize())
    });
}
