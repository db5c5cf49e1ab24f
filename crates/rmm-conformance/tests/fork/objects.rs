//! The methods that only some types have.

use std::alloc::Layout;
use std::hint::black_box;
use std::mem::ManuallyDrop;
use std::task::{Context as Task, Waker};

use rmm_adaptors::{
    ArenaMemoryResource, Contents, LoggingResourceAdaptor, PoolMemoryResource,
    StatisticsResourceAdaptor, Tag, TaggedResourceAdaptor, TrackingResourceAdaptor,
};
use rmm_async::{completed, wait_for_abandoned};
use rmm_containers::{DeviceBuffer, DeviceScalar, DeviceUVector, ElasticBuffer, PinnedVec};
use rmm_core::{
    Context, CudaEvent, CudaStream, CudaStreamPool, Device, Error, Resource, StreamFlags,
    SynchronousResource, TimedEvent,
};
use rmm_resources::{
    CudaMemoryResource, CurrentResourceGuard, VirtualMemoryResource, current_device_resource,
    reset_current_device_resource, set_current_device_resource,
};
use rmm_sim::Machine;

use crate::child::{call_each, does, drop_of, refused, says};

/// Allocates and frees blocks of some sizes.
fn churn(resource: &impl Resource) {
    let stream = CudaStream::non_blocking().expect("a stream").with_name("churn");
    for size in [1000, 5000, 100_000, 3 << 20] {
        let layout = Layout::from_size_align(size, 256).expect("valid");
        if let Ok(block) = resource.allocate(&stream, layout) {
            // SAFETY: allocated above with this layout on this stream, and not used.
            unsafe { resource.deallocate(&stream, block, layout) };
        }
    }
}

pub(crate) fn call_all(machine: &Machine, wrong: &mut Vec<String>) {
    pools(machine, wrong);
    adaptors(machine, wrong);
    logs(machine, wrong);
    streams(machine, wrong);
    containers(machine, wrong);
    futures(machine, wrong);
}

fn pools(machine: &Machine, wrong: &mut Vec<String>) {
    let memory = VirtualMemoryResource::new().expect("the device has it");
    let pool = PoolMemoryResource::builder(memory).build().expect("a pool");
    let arena = ArenaMemoryResource::builder(CudaMemoryResource::new()).build().expect("an arena");
    let layout = Layout::from_size_align(1000, 256).expect("valid");
    let kept: Vec<_> = (0..2000).map(|_| pool.allocate_sync(layout).expect("memory")).collect();
    let reservation = pool.reserve(1 << 20).expect("memory");
    let guard = pool.on_pressure(|_| false);
    let segments = pool.on_segment(|_| {
        if rmm_core::fork::is_child() {
            // SAFETY: ends the child at once, as one that failed.
            unsafe { libc::_exit(9) };
        }
        Ok::<(), Error>(())
    });
    let segments = segments.expect("it takes all");
    let busy = || {
        churn(&pool);
        churn(&arena);
        black_box((pool.blocks(), pool.statistics(), pool.pending_bytes(), arena.report()));
        drop(pool.on_pressure(|_| false));
        reservation.remaining();
    };
    let calls = [
        says("reserved_bytes", || pool.reserved_bytes()),
        says("statistics", || pool.statistics()),
        says("pending_bytes", || drop(pool.pending_bytes())),
        says("blocks", || drop(pool.blocks())),
        says("is_asleep", || pool.is_asleep()),
        does("release_unused", || pool.release_unused()),
        // SAFETY: there are no graphs.
        does("release_graph_memory", || unsafe { pool.release_graph_memory() }),
        // SAFETY: no work uses the memory.
        does("sleep", || refused(unsafe { pool.sleep(Contents::Discard) })),
        does("wake", || refused(pool.wake())),
        does("reserve", || refused(pool.reserve(1000))),
        says("on_pressure", || drop(pool.on_pressure(|_| false))),
        does("drop of a callback's guard", || drop_of(&guard)),
        says("segments", || drop(pool.segments())),
        does("on_segment", || refused(pool.on_segment(|_| Ok::<(), Error>(())))),
        does("drop of the guard of a callback for segments", || drop_of(&segments)),
        says("remaining", || reservation.remaining()),
        says("release", || reservation.release()),
        does("drop of a reservation", || drop_of(&reservation)),
        does("build", || {
            refused(PoolMemoryResource::builder(CudaMemoryResource::new()).build());
        }),
        says("the arena's statistics", || arena.statistics()),
        says("the arena's report", || arena.report()),
        does("drop of a pool", || drop_of(&pool)),
        does("drop of an arena", || drop_of(&arena)),
    ];
    call_each(machine, "pool", &busy, &calls, wrong);
    for block in kept {
        // SAFETY: allocated above with this layout, and not used.
        unsafe { pool.deallocate_sync(block, layout) };
    }
}

fn adaptors(machine: &Machine, wrong: &mut Vec<String>) {
    let counted = StatisticsResourceAdaptor::new(CudaMemoryResource::new());
    let scope = counted.scope();
    let tagged = TaggedResourceAdaptor::new(CudaMemoryResource::new());
    let tracked = TrackingResourceAdaptor::new(CudaMemoryResource::new());
    let layout = Layout::from_size_align(1000, 256).expect("valid");
    let kept: Vec<_> = (0..2000).map(|_| tracked.allocate_sync(layout).expect("memory")).collect();
    let busy = || {
        let _tag = Tag::named("busy").enter();
        churn(&counted);
        churn(&tagged);
        churn(&tracked);
        drop(counted.scope());
        black_box((tracked.outstanding(), tagged.usage(), Tag::named("other")));
    };
    let calls = [
        says("counters", || counted.counters()),
        says("bytes_counter", || counted.bytes_counter()),
        says("push_counters", || counted.push_counters()),
        says("pop_counters", || counted.pop_counters()),
        says("scope", || counted.scope().end()),
        does("drop of a scope", || drop_of(&scope)),
        says("usage", || drop(tagged.usage())),
        says("usage_of", || tagged.usage_of(Tag::UNTAGGED)),
        says("named", || Tag::named("child")),
        says("outstanding", || drop(tracked.outstanding())),
        says("report", || drop(tracked.report().to_string())),
        does("allocated_bytes", || tracked.allocated_bytes()),
        does("drop of a tracker", || drop_of(&tracked)),
    ];
    call_each(machine, "adaptor", &busy, &calls, wrong);
    for block in kept {
        // SAFETY: allocated above with this layout, and not used.
        unsafe { tracked.deallocate_sync(block, layout) };
    }
}

/// Lines of the parent that are not flushed yet are its own to write, however a child ends.
fn logs(machine: &Machine, wrong: &mut Vec<String>) {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("log.csv");
    let logged = LoggingResourceAdaptor::create(CudaMemoryResource::new(), &path).expect("a log");
    let (buffered, buffered_path) = {
        let path = folder.path().join("buffered.csv");
        let log = LoggingResourceAdaptor::create(CudaMemoryResource::new(), &path).expect("a log");
        churn(&log);
        (log, path)
    };
    let busy = || {
        churn(&logged);
        logged.flush().expect("the file can be written to");
    };
    // SAFETY: handlers of the parent that may run in a child.
    let exits = || unsafe { libc::exit(0) };
    let calls = [
        does("flush", || {
            let error = logged.flush().expect_err("it is the parent's");
            assert!(error.to_string().contains("forked"), "{error}");
        }),
        does("lost_lines", || logged.lost_lines()),
        does("a refused allocation", || {
            refused(buffered.allocate_sync(Layout::from_size_align(1, 1).expect("valid")));
        }),
        does("drop of a log", || drop_of(&buffered)),
        does("exit", exits),
    ];
    call_each(machine, "log", &busy, &calls, wrong);
    buffered.flush().expect("the file can be written to");
    let text = std::fs::read_to_string(&buffered_path).expect("the log");
    let lines = text.lines().count();
    if lines != 9 {
        wrong.push(format!("log: {lines} lines instead of the header and 8:\n{text}"));
    }
}

fn streams(machine: &Machine, wrong: &mut Vec<String>) {
    let stream = CudaStream::new().expect("a stream").with_name("parent");
    let (event, timed) = (CudaEvent::new().expect("one"), TimedEvent::new().expect("one"));
    let pool = CudaStreamPool::new(2, StreamFlags::NON_BLOCKING).expect("streams");
    let resource = CudaMemoryResource::new();
    let guard = CurrentResourceGuard::set(&resource).expect("a device");
    let context = Context::current().expect("a context");
    let device = Device::current().expect("a device");
    let busy = || {
        let other = CudaStream::new().expect("a stream").with_name("other");
        black_box(other.wait_for(&stream)).expect("both exist");
        black_box(current_device_resource()).expect("a device");
        black_box(device.capabilities()).expect("a device");
        black_box(other.name());
    };
    let calls = [
        does("new", || refused(CudaStream::new())),
        does("synchronize", || refused(stream.synchronize())),
        does("is_idle", || refused(stream.is_idle())),
        does("wait_for", || refused(stream.wait_for(pool.get()))),
        does("record", || refused(event.record(&stream))),
        does("is_complete", || refused(event.is_complete())),
        does("event's synchronize", || refused(event.synchronize())),
        does("elapsed_since", || refused(timed.elapsed_since(&timed))),
        does("name", || (stream.name(), stream.id().to_string())),
        does("Debug", || format!("{stream:?} {event:?} {pool:?}")),
        says("with_name", || drop(CudaStream::clone(&stream).with_name("child"))),
        does("drop of a stream", || drop_of(&stream)),
        does("drop of events", || (drop_of(&event), drop_of(&timed))),
        does("drop of a pool", || drop_of(&pool)),
        does("enter", || refused(context.enter())),
        does("check", || refused(context.check())),
        does("current", || refused(Device::current())),
        does("make_current", || refused(device.make_current())),
        does("synchronize_current", || refused(Device::synchronize_current())),
        does("memory_info", || refused(Device::memory_info())),
        does("current_device_resource", || refused(current_device_resource())),
        does("set_current_device_resource", || {
            refused(set_current_device_resource(&CudaMemoryResource::new()));
        }),
        does("reset_current_device_resource", || refused(reset_current_device_resource())),
        does("drop of a guard", || drop_of(&guard)),
    ];
    call_each(machine, "stream", &busy, &calls, wrong);
}

fn containers(machine: &Machine, wrong: &mut Vec<String>) {
    let stream = CudaStream::non_blocking().expect("a stream");
    let pool = PoolMemoryResource::builder(CudaMemoryResource::new()).build().expect("a pool");
    let buffer = DeviceBuffer::from_slice_in(&[1; 1000], &stream, &pool).expect("memory");
    let vector = DeviceUVector::from_slice(&[1_u32; 1000], &stream).expect("memory");
    let scalar = DeviceScalar::new(1_u32, &stream).expect("memory");
    let pinned = PinnedVec::from_slice(&[1_u32; 1000]).expect("memory");
    let pages = VirtualMemoryResource::new().expect("the device has it");
    let reserve = || ElasticBuffer::reserve(16 << 20, &stream, &pages);
    let mut elastic = reserve().expect("addresses");
    elastic.commit(0..4 << 20).expect("memory");
    elastic.slice_mut(0..1000).expect("it is there").fill_on(1, &stream).expect("a fill");
    let busy = || {
        let other = CudaStream::non_blocking().expect("a stream");
        let copy = buffer.try_clone_on(&other).expect("memory");
        let _value = scalar.value_on(&other).expect("it has one");
        let more = pinned.device_slice().to_device(&other).expect("memory");
        let mut moving = reserve().expect("addresses");
        moving.commit(0..2 << 20).expect("memory");
        drop((copy, more, moving));
        churn(&pool);
    };
    // SAFETY: the child ends without a use of the values that these are copies of.
    let own_vector = || unsafe { std::ptr::read(&raw const vector) };
    // SAFETY: as above; it is not dropped.
    let own_elastic = || unsafe { ManuallyDrop::new(std::ptr::read(&raw const elastic)) };
    let calls = [
        does("reserve", || refused(reserve())),
        does("commit", || refused(own_elastic().commit(4 << 20..6 << 20))),
        does("decommit", || refused(own_elastic().decommit(0..2 << 20))),
        does("decommit_blocking", || refused(own_elastic().decommit_blocking(0..2 << 20))),
        does("record_stream", || refused(elastic.record_stream(0..1, &stream))),
        does("committed", || assert_eq!(elastic.committed().count(), 1)),
        does("drop of elastic memory", || drop_of(&elastic)),
        does("from_slice", || refused(DeviceBuffer::from_slice(&[1], &stream))),
        does("from_slice_in", || refused(DeviceBuffer::from_slice_in(&[1], &stream, &pool))),
        says("try_clone", || refused(buffer.try_clone())),
        says("resize", || refused(own_vector().resize(1_000_000))),
        says("to_vec", || refused(vector.to_vec())),
        says("value", || refused(scalar.value())),
        says("as_slice", || pinned.as_slice().map(<[u32]>::len)),
        says("Debug", || drop(format!("{buffer:?} {vector:?} {scalar:?} {pinned:?}"))),
        does("drop of a buffer", || drop_of(&buffer)),
        does("drop of a vector", || drop_of(&vector)),
        does("drop of a scalar", || drop_of(&scalar)),
        does("drop of pinned memory", || drop_of(&pinned)),
    ];
    call_each(machine, "container", &busy, &calls, wrong);
}

fn futures(machine: &Machine, wrong: &mut Vec<String>) {
    let stream = CudaStream::non_blocking().expect("a stream");
    let pinned = || PinnedVec::from_slice(&[1_u32; 10]).expect("memory");
    let kept = completed(&stream).expect("a place").keep(pinned());
    let abandoned = || drop(completed(&stream).expect("a place").keep(pinned()));
    let busy = || {
        abandoned();
        let mut future = completed(&stream).expect("a place");
        let _ignored =
            Future::poll(std::pin::Pin::new(&mut future), &mut Task::from_waker(Waker::noop()));
    };
    let calls = [
        does("completed", || refused(completed(&stream))),
        does("wait_for_abandoned", wait_for_abandoned),
        does("drop of a future", || drop_of(&kept)),
        does("poll", || {
            // SAFETY: the child ends without a use of the value that it was read from.
            let mut future = unsafe { std::ptr::read(&raw const kept) };
            let mut task = Task::from_waker(Waker::noop());
            match Future::poll(std::pin::Pin::new(&mut future), &mut task) {
                std::task::Poll::Ready(outcome) => refused(outcome.map(drop)),
                std::task::Poll::Pending => panic!("it would wait"),
            }
        }),
    ];
    call_each(machine, "future", &busy, &calls, wrong);
    drop(calls);
    drop(kept);
    wait_for_abandoned();
}
