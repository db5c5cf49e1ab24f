//! Streams whose end is announced, found by their raw handles.

use std::sync::{Arc, Barrier};
use std::thread;

use rmm_core::{CudaStream, Device, Error, StreamId, StreamLifetime, StreamRef};
use rmm_sim::Machine;
use rmm_sys::CuStream;

use crate::foreign_streams::{adopt, destroy, made_by_others, noted, watched};

fn id_of(stream: StreamRef<'_>) -> StreamId {
    stream.id()
}

/// The id of the announced stream with this handle.
fn announced(handle: CuStream) -> Option<StreamId> {
    // SAFETY: no announcement ends in a call of the tests.
    unsafe { StreamRef::with_announced(handle, id_of) }.ok()
}

fn until_dropped(handle: CuStream) -> Result<CudaStream, Error> {
    adopt(handle, StreamLifetime::UntilDropped)
}

#[test]
fn a_stream_is_found_until_its_last_announcement_ends() -> Result<(), Error> {
    let machine = rmm_sim::enter();
    let log = Arc::default();
    let handle = made_by_others()?;
    assert_eq!(announced(handle), None);
    let stream = until_dropped(handle)?;
    let (id, _watcher) = (stream.id(), watched(&stream, &log));
    let calls = machine.calls();
    let [first, second] = [stream.announce(), stream.announce()];
    drop(stream);
    assert_eq!(announced(handle), Some(id));
    drop(first);
    assert_eq!(announced(handle), Some(id));
    assert_eq!(machine.calls(), calls);
    drop(second);
    assert_eq!(announced(handle), None);
    assert_eq!(noted(&log), [format!("retires {id} true")], "the last reference was the table's");
    Ok(())
}

#[test]
fn a_stream_is_found_until_it_is_forgotten() -> Result<(), Error> {
    let _machine = rmm_sim::enter();
    let stream = until_dropped(made_by_others()?)?;
    let handle = stream.as_raw();
    stream.announce_until_forgotten();
    let announcement = stream.announce();
    assert_eq!(announced(handle), Some(stream.id()));
    CudaStream::forget_raw(handle);
    assert_eq!(announced(handle), None);
    // An announcement that was forgotten ends no later one of another stream.
    drop(stream);
    destroy(handle);
    assert_eq!(made_by_others()?, handle, "the device reuses the handle at once");
    let next = until_dropped(handle)?;
    next.announce_until_forgotten();
    drop(announcement);
    assert_eq!(announced(handle), Some(next.id()));
    CudaStream::forget_raw(handle);
    CudaStream::forget_raw(handle);
    assert_eq!(announced(handle), None);
    Ok(())
}

#[test]
fn a_release_leaves_what_is_announced_until_it_is_forgotten() -> Result<(), Error> {
    let _machine = rmm_sim::enter();
    for is_kept_first in [true, false] {
        let stream = until_dropped(made_by_others()?)?;
        let (handle, id) = (stream.as_raw(), stream.id());
        if is_kept_first {
            stream.announce_until_forgotten();
        }
        let announcement = stream.announce();
        if !is_kept_first {
            stream.announce_until_forgotten();
        }
        drop((announcement, stream));
        assert_eq!(announced(handle), Some(id));
        CudaStream::forget_raw(handle);
        assert_eq!(announced(handle), None);
    }
    Ok(())
}

#[test]
fn a_handle_that_comes_back_is_announced_anew() -> Result<(), Error> {
    let _machine = rmm_sim::enter();
    let former = until_dropped(made_by_others()?)?;
    let handle = former.as_raw();
    former.announce_until_forgotten();
    assert_eq!(announced(handle), Some(former.id()));
    // No one has said that it ended.
    destroy(handle);
    assert_eq!(made_by_others()?, handle, "the device reuses the handle at once");
    let next = until_dropped(handle)?;
    let announcement = next.announce();
    assert_ne!(next, former);
    assert_eq!(announced(handle), Some(next.id()));
    drop(announcement);
    assert_eq!(announced(handle), None);
    Ok(())
}

#[test]
fn a_stream_whose_end_was_not_said_is_not_taken_for_the_next_of_its_handle() -> Result<(), Error> {
    let machine = rmm_sim::enter();
    for former in [until_dropped(made_by_others()?)?, CudaStream::new()?] {
        let log = Arc::default();
        let (handle, id, _watcher) = (former.as_raw(), former.id(), watched(&former, &log));
        former.announce_until_forgotten();
        drop(former);
        destroy(handle);
        assert_eq!(made_by_others()?, handle, "the device reuses the handle at once");
        // SAFETY: the stream exists, belongs to the current context, and nothing else destroys it.
        let next = unsafe { CudaStream::from_raw(handle) }?;
        let announcement = next.announce();
        assert_eq!(noted(&log), [format!("retires {id} false")], "an event would be of the next");
        next.synchronize()?;
        drop(announcement);
    }
    machine.assert_no_violations();
    Ok(())
}

#[test]
fn other_threads_notice_the_end_of_an_announcement() -> Result<(), Error> {
    let _machine = rmm_sim::enter();
    let stream = CudaStream::new()?;
    let handle = stream.as_raw();
    let announcement = stream.announce();
    let step = Barrier::new(2);
    thread::scope(|scope| {
        let other = scope.spawn(|| {
            let before = announced(handle);
            step.wait();
            step.wait();
            (before, announced(handle))
        });
        step.wait();
        drop(announcement);
        step.wait();
        assert_eq!(other.join().expect("no panic"), (Some(stream.id()), None));
    });
    Ok(())
}

#[test]
fn handles_in_one_slot_of_a_thread_are_two_streams() -> Result<(), Error> {
    let _machine = rmm_sim::enter();
    // More than a thread has slots.
    let streams: Vec<_> = (0..600).map(|_| CudaStream::new()).collect::<Result<_, _>>()?;
    let _announcements: Vec<_> = streams.iter().map(CudaStream::announce).collect();
    for stream in streams.iter().chain(&streams) {
        assert_eq!(announced(stream.as_raw()), Some(stream.id()));
    }
    Ok(())
}

#[test]
fn an_announced_handle_is_of_unknown_lifetime_for_others() -> Result<(), Error> {
    let machine = rmm_sim::enter();
    let stream = CudaStream::new()?;
    let handle = stream.as_raw();
    // SAFETY: the stream exists until the test ends.
    let unknown = || unsafe { StreamRef::with_raw(handle, id_of) };
    let id = unknown()?;
    assert_eq!(announced(handle), None);
    assert_eq!(until_dropped(handle)?, stream);
    let announcement = stream.announce();
    let calls = machine.calls();
    for _ in 0..2 {
        assert_eq!((announced(handle), unknown()?), (Some(stream.id()), id));
    }
    drop(announcement);
    assert_eq!((announced(handle), unknown()?), (None, id));
    assert_eq!(machine.calls(), calls, "both are remembered");
    Ok(())
}

#[test]
fn default_streams_need_no_announcement() -> Result<(), Error> {
    let _machine = rmm_sim::enter();
    drop(CudaStream::legacy().announce());
    for (handle, stream) in [
        (CuStream::NULL, CudaStream::legacy()),
        (CuStream::LEGACY, CudaStream::legacy()),
        (CuStream::PER_THREAD, CudaStream::per_thread()),
    ] {
        assert_eq!(announced(handle), Some(stream.id()));
        // SAFETY: the default streams never end.
        assert_eq!(unsafe { CudaStream::adopt_of_any_context(handle) }?, stream);
    }
    Ok(())
}

#[test]
fn a_stream_of_another_context_is_adopted_in_its_own() -> Result<(), Error> {
    let _machine = Machine::builder().devices(2).enter();
    let stream = CudaStream::new()?;
    let _current = Device::new(1)?.make_current()?;
    // SAFETY: the stream exists until the test ends.
    let adopted = unsafe { CudaStream::adopt_of_any_context(stream.as_raw()) }?;
    assert_eq!((&adopted, adopted.own_context()), (&stream, stream.own_context()));
    Ok(())
}
