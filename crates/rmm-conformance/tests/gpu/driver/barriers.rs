//! Implicit waits of the legacy default stream, and waits for it.

use rmm_conformance::Failure;
use rmm_sys::CuDevicePtr;

use super::memory::{free_pinned, pinned};
use super::raw::{Event, Memory, Stream, driver};
use super::stall::Stall;
use super::{answers, waits, works};
use crate::run::{in_every_environment, in_every_place};

#[test]
fn the_legacy_stream_waits_for_blocking_streams() {
    in_every_environment(|environment| {
        let (memory, blocking) = (Memory::words()?, Stream::blocking()?);
        let stall = Stall::on(environment.handle(), &blocking)?;
        works("the first work", blocking.fill(&memory, 1))?;
        works("the second work", Stream::LEGACY.fill(&memory, 2))?;
        waits("the query of the legacy stream", Stream::LEGACY.query())?;
        stall.release()?;
        works("the wait for the legacy stream", Stream::LEGACY.synchronize())?;
        memory.holds(2)
    });
}

#[test]
fn asking_for_the_legacy_stream_is_asking_for_blocking_streams() {
    in_every_environment(|environment| {
        let blocking = Stream::blocking()?;
        let stall = Stall::on(environment.handle(), &blocking)?;
        waits("the query of the legacy stream, which has no work", Stream::LEGACY.query())?;
        stall.release()?;
        works("the wait for the legacy stream", Stream::LEGACY.synchronize())?;
        works("the query of the blocking stream", blocking.query())
    });
}

#[test]
fn blocking_streams_wait_for_the_legacy_stream() {
    in_every_environment(|environment| {
        let (memory, other) = (Memory::words()?, Memory::words()?);
        let blocking = Stream::blocking()?;
        let stall = Stall::on(environment.handle(), &Stream::LEGACY)?;
        works("the first work", Stream::LEGACY.fill(&memory, 1))?;
        works("the second work", blocking.fill(&memory, 2))?;
        waits("the query of the blocking stream", blocking.query())?;
        works("the work of the thread's stream", Stream::PER_THREAD.fill(&other, 3))?;
        waits("the query of the thread's stream", Stream::PER_THREAD.query())?;
        stall.release()?;
        works("the wait for the thread's stream", Stream::PER_THREAD.synchronize())?;
        works("the wait for the blocking stream", blocking.synchronize())?;
        memory.holds(2)?;
        other.holds(3)
    });
}

#[test]
fn blocking_streams_do_not_wait_for_each_other() {
    in_every_environment(|environment| {
        let (memory, other) = (Memory::words()?, Memory::words()?);
        let (busy, blocking) = (Stream::blocking()?, Stream::blocking()?);
        let stall = Stall::on(environment.handle(), &busy)?;
        works("the work", blocking.fill(&memory, 1))?;
        works("the wait for the blocking stream", blocking.synchronize())?;
        works("the work of the thread's stream", Stream::PER_THREAD.fill(&other, 2))?;
        works("the wait for the thread's stream", Stream::PER_THREAD.synchronize())?;
        waits("the query of the busy stream", busy.query())?;
        stall.release()?;
        works("the wait for the busy stream", busy.synchronize())?;
        memory.holds(1)?;
        other.holds(2)
    });
}

#[test]
fn blocking_streams_wait_for_each_other_through_the_legacy_stream() {
    in_every_environment(|environment| {
        let (memory, other) = (Memory::words()?, Memory::words()?);
        let (busy, blocking) = (Stream::blocking()?, Stream::blocking()?);
        let stall = Stall::on(environment.handle(), &busy)?;
        works("the first work", busy.fill(&memory, 1))?;
        works("the work in between", Stream::LEGACY.fill(&other, 1))?;
        works("the last work", blocking.fill(&memory, 2))?;
        waits("the query of the blocking stream", blocking.query())?;
        stall.release()?;
        works("the wait for the blocking stream", blocking.synchronize())?;
        memory.holds(2)
    });
}

#[test]
fn non_blocking_streams_and_the_legacy_stream_do_not_wait_for_each_other() {
    in_every_environment(|environment| {
        let (memory, other) = (Memory::words()?, Memory::words()?);
        let own = Stream::non_blocking()?;
        let stall = Stall::on(environment.handle(), &Stream::LEGACY)?;
        works("the work beside the legacy stream", own.fill(&memory, 1))?;
        works("the wait for it", own.synchronize())?;
        waits("the query of the legacy stream", Stream::LEGACY.query())?;
        stall.release()?;
        works("the wait for the legacy stream", Stream::LEGACY.synchronize())?;

        let stall = Stall::on(environment.handle(), &own)?;
        works("the work on the legacy stream", Stream::LEGACY.fill(&other, 2))?;
        works("the wait for the legacy stream", Stream::LEGACY.synchronize())?;
        waits("the query of the non-blocking stream", own.query())?;
        stall.release()?;
        works("the wait for the non-blocking stream", own.synchronize())?;
        memory.holds(1)?;
        other.holds(2)
    });
}

#[test]
fn the_legacy_stream_waits_for_the_stream_of_a_thread_that_has_ended() {
    // "The legacy default stream is an implicit stream which synchronizes with all other streams in
    // the same CUcontext except for non-blocking streams" (CUDA driver API, "Stream synchronization
    // behavior"): nothing is said of the end of the thread whose per-thread default stream one of
    // these is. Containers rely on it: `rmm-containers/src/order/place.rs`.
    in_every_environment(|environment| {
        let (memory, later) = (Memory::words()?, Memory::words()?);
        let (busy, gate) = (Stream::non_blocking()?, Event::new()?);
        let stall = Stall::on(environment.handle(), &busy)?;
        works("the record on the busy stream", gate.record(&busy))?;
        let handle = environment.handle();
        std::thread::scope(|scope| {
            let run = || -> Result<_, Failure> {
                let _current = handle.make_current()?;
                rmm_core::driver_in_context()?;
                works("the wait of the thread's stream", Stream::PER_THREAD.wait_for(&gate))?;
                works("the work of the thread", Stream::PER_THREAD.fill(&memory, 1))?;
                Ok(())
            };
            scope.spawn(run).join().map_err(|_| Failure::new("the thread panicked"))?
        })?;
        works("the work on the legacy stream", Stream::LEGACY.fill(&later, 2))?;
        let event = Event::new()?;
        works("the record on the legacy stream", event.record(&Stream::LEGACY))?;
        let own = Stream::non_blocking()?;
        works("the wait for the event", own.wait_for(&event))?;
        works("the work behind it", own.fill(&memory, 3))?;
        waits("the query of the legacy stream", Stream::LEGACY.query())?;
        waits("the query of the event", event.query())?;
        waits("the query of the stream behind the event", own.query())?;
        stall.release()?;
        works("the wait for the legacy stream", Stream::LEGACY.synchronize())?;
        works("the wait for the stream behind the event", own.synchronize())?;
        memory.holds(3)?;
        later.holds(2)
    });
}

#[test]
fn a_new_blocking_stream_waits_for_the_legacy_stream_too() {
    in_every_environment(|environment| {
        let memory = Memory::words()?;
        let stall = Stall::on(environment.handle(), &Stream::LEGACY)?;
        works("the first work", Stream::LEGACY.fill(&memory, 1))?;
        let late = Stream::blocking()?;
        works("the second work", late.fill(&memory, 2))?;
        waits("the query of the new stream", late.query())?;
        stall.release()?;
        works("the wait for the new stream", late.synchronize())?;
        memory.holds(2)
    });
}

#[test]
fn what_the_legacy_stream_waits_for_holds_up_blocking_streams() {
    in_every_environment(|environment| {
        let (event, memory) = (Event::new()?, Memory::words()?);
        let (busy, blocking) = (Stream::non_blocking()?, Stream::blocking()?);
        let stall = Stall::on(environment.handle(), &busy)?;
        works("the first work", busy.fill(&memory, 1))?;
        works("the record", event.record(&busy))?;
        works("the wait of the legacy stream", Stream::LEGACY.wait_for(&event))?;
        works("the second work", blocking.fill(&memory, 2))?;
        waits("the query of the blocking stream", blocking.query())?;
        stall.release()?;
        works("the wait for the blocking stream", blocking.synchronize())?;
        memory.holds(2)
    });
}

/// Fills and copies within a device only say by their names that they wait.
#[test]
fn work_on_device_memory_does_not_wait_for_the_device() {
    in_every_environment(|environment| {
        let (from, to, blocking) = (Memory::words()?, Memory::words()?, Stream::blocking()?);
        // SAFETY: both hold a word, and freeing them waits for the device.
        let copy = || unsafe { driver().cuMemcpy(to.pointer, from.pointer, 4) };
        works("the first copy", copy())?;
        works("the wait for it", Stream::LEGACY.synchronize())?;
        let stall = Stall::on(environment.handle(), &blocking)?;
        // SAFETY: the memory holds a word, and freeing it waits for the device.
        works("the fill", unsafe { driver().cuMemsetD32_v2(from.pointer, 3, 1) })?;
        works("the copy", copy())?;
        waits("the query of the legacy stream", Stream::LEGACY.query())?;
        stall.release()?;
        works("the wait for the legacy stream", Stream::LEGACY.synchronize())?;
        to.holds(3)
    });
}

/// "The Memset functions are asynchronous with respect to the host except when the target memory is
/// pinned host memory" (CUDA driver API, "API synchronization behavior").
#[test]
fn a_fill_of_pinned_memory_is_complete_on_return() {
    in_every_place(|| {
        let bytes = pinned(1 << 12, 0)?;
        let at = CuDevicePtr(bytes.addr() as u64);
        // SAFETY: the memory is so long, and no other work uses it.
        let filled = unsafe { driver().cuMemsetD8_v2(at, 6, 1 << 12) };
        let words = bytes.cast::<[u8; 1 << 12]>();
        // SAFETY: the memory is the host's, too, and no work uses it.
        let [.., last] = unsafe { words.read_volatile() };
        // SAFETY: allocated above, and no work uses it.
        works("the free", unsafe { free_pinned(bytes) })?;
        works("the fill", filled)?;
        answers("the last byte", &last, &6)
    });
}
