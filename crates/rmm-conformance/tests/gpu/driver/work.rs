//! Work on streams: its order, and operations of zero bytes.

use std::ffi::{c_uint, c_void};
use std::sync::{Arc, Mutex, PoisonError};

use rmm_conformance::ensure;
use rmm_sys::CuDevicePtr;

use super::raw::{Memory, Stream, driver};
use super::stall::Stall;
use super::{answers, is_refused, waits, works};
use crate::run::{in_every_environment, in_every_place, in_every_place_unwatched};

/// The numbers of the host functions that ran.
type Ran = Arc<Mutex<Vec<u32>>>;

fn list(ran: &Ran) -> Vec<u32> {
    ran.lock().unwrap_or_else(PoisonError::into_inner).clone()
}

/// A host function: notes its number.
unsafe extern "C" fn note(data: *mut c_void) {
    // SAFETY: `launch` gave this away, and the driver calls the function once.
    let (ran, number) = *unsafe { Box::from_raw(data.cast::<(Ran, u32)>()) };
    ran.lock().unwrap_or_else(PoisonError::into_inner).push(number);
}

fn launch(stream: &Stream, ran: &Ran, number: u32) -> rmm_sys::CuResult {
    let data = Box::into_raw(Box::new((Arc::clone(ran), number)));
    // SAFETY: the stream exists, and the function may be called once with this, from any thread.
    unsafe { driver().cuLaunchHostFunc(stream.raw(), Some(note), data.cast::<c_void>()) }
}

#[test]
fn host_functions_run_in_the_order_of_their_stream() {
    in_every_environment(|environment| {
        let (ran, memory, own) = (Ran::default(), Memory::words()?, Stream::non_blocking()?);
        let stall = Stall::on(environment.handle(), &own)?;
        for number in 1..=3 {
            works("the function", launch(&own, &ran, number))?;
            works("the work in between", own.fill(&memory, number))?;
        }
        waits("the query", own.query())?;
        answers("what ran before the stall ended", &list(&ran), &vec![])?;
        stall.release()?;
        works("the wait", own.synchronize())?;
        answers("what ran", &list(&ran), &vec![1, 2, 3])?;
        memory.holds(3)
    });
}

/// Writes a word as one piece of work.
fn write_value(own: &Stream, at: CuDevicePtr, value: u32, flags: c_uint) -> rmm_sys::CuResult {
    // SAFETY: probes name words of memory that outlives the stream's work.
    unsafe { driver().cuStreamWriteValue32_v2(own.raw(), at, value, flags) }
}

#[test]
fn values_are_written_in_the_order_of_the_stream() {
    in_every_environment(|environment| {
        let (memory, own) = (Memory::words()?, Stream::non_blocking()?);
        let stall = Stall::on(environment.handle(), &own)?;
        works("the fill", own.fill(&memory, 1))?;
        works("the value", write_value(&own, memory.pointer, 2, 0))?;
        waits("the query", own.query())?;
        stall.release()?;
        works("the wait", own.synchronize())?;
        memory.holds(2)
    });
}

#[test]
fn fills_and_copies_of_nothing_are_nothing() {
    in_every_place(|| {
        let (memory, own) = (Memory::words()?, Stream::non_blocking()?);
        let at = memory.pointer;
        // SAFETY: nothing is touched.
        works("a fill", unsafe { driver().cuMemsetD32Async(at, 1, 0, own.raw()) })?;
        // SAFETY: as above.
        works("a copy", unsafe { driver().cuMemcpyDtoDAsync_v2(at, at, 0, own.raw()) })?;
        works("the wait", own.synchronize())?;
        memory.holds(0)
    });
}

#[test]
fn words_are_filled_at_multiples_of_four_only() {
    in_every_place_unwatched(|| {
        let (memory, own) = (Memory::words()?, Stream::non_blocking()?);
        let crooked = CuDevicePtr(memory.pointer.0 + 2);
        // SAFETY: the memory is longer; the driver documents that the address is aligned.
        let code = unsafe { driver().cuMemsetD32Async(crooked, 1, 1, own.raw()) };
        is_refused("a fill at an address that is none", code)?;
        works("the wait", own.synchronize())?;
        memory.holds(0)
    });
}

#[test]
fn work_of_two_idle_streams_is_done_whichever_is_waited_for_first() {
    in_every_place(|| {
        let (memory, other) = (Memory::words()?, Memory::words()?);
        let (first, second) = (Stream::non_blocking()?, Stream::non_blocking()?);
        ensure(first.raw() != second.raw(), || "both have one handle".to_owned())?;
        works("the first work", first.fill(&memory, 1))?;
        works("the second work", second.fill(&other, 2))?;
        works("the wait for the second", second.synchronize())?;
        works("the wait for the first", first.synchronize())?;
        memory.holds(1)?;
        other.holds(2)
    });
}
