//! Tests of the `tracing` events of allocations, and of the growth and waits of a pool or an arena.
#![cfg(feature = "tracing")]

use std::alloc::Layout;
use std::fmt::{self, Write as _};
use std::sync::{Arc, Mutex};

use rmm_adaptors::{ArenaMemoryResource, PoolMemoryResource, TracingResourceAdaptor};
use rmm_core::{
    CaptureScope, CudaStream, DevicePtr, Resource, StreamFlags, SynchronousResource, current_driver,
};
use rmm_resources::CudaMemoryResource;
use rmm_sim::{Kernel, Machine, Schedule};
use rmm_sys::{CuCaptureMode, CuGraph, CuResult};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

/// A subscriber that records everything from one target and its descendants.
#[derive(Clone, Debug)]
struct Listener {
    target: &'static str,
    recorded: Arc<Mutex<Vec<String>>>,
}

struct Line(String);

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        write!(self.0, " {}={value:?}", field.name()).expect("a string takes it");
    }
}

impl Listener {
    fn new(target: &'static str) -> Self {
        Self { target, recorded: Arc::default() }
    }

    fn hear(&self, what: &str, record: impl FnOnce(&mut Line)) {
        let mut line = Line(what.to_owned());
        record(&mut line);
        self.recorded.lock().expect("no panic under it").push(line.0);
    }

    fn recorded(&self) -> Vec<String> {
        self.recorded.lock().expect("no panic under it").clone()
    }

    fn while_it_listens<R>(&self, run: impl FnOnce() -> R) -> R {
        tracing::subscriber::with_default(self.clone(), run)
    }
}

impl Subscriber for Listener {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target().starts_with(self.target)
    }

    fn new_span(&self, span: &Attributes<'_>) -> Id {
        self.hear(span.metadata().name(), |line| span.record(line));
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, values: &Record<'_>) {
        self.hear("ended", |line| values.record(line));
    }

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let metadata = event.metadata();
        self.hear(&format!("{} {}", metadata.level(), metadata.target()), |line| {
            event.record(line);
            // Timelines label an event with its name; formatters print the message.
            assert!(line.0.contains(&format!("message={} ", metadata.name())), "{}", line.0);
        });
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

fn layout(bytes: usize) -> Layout {
    Layout::from_size_align(bytes, 256).expect("a size")
}

fn free(resource: &impl Resource, stream: &CudaStream, pointer: DevicePtr, bytes: usize) {
    // SAFETY: every test allocates the block with this layout, and orders its uses before this
    // free.
    unsafe { resource.deallocate(stream, pointer, layout(bytes)) }
}

#[test]
fn calls_are_events_with_their_fields() {
    let _machine = Machine::builder().memory(64 << 20).enter();
    let (listener, stream) = (Listener::new("rmm::"), CudaStream::new().unwrap());
    let traced = TracingResourceAdaptor::new(CudaMemoryResource::new());
    let block = listener.while_it_listens(|| {
        let block = traced.allocate(&stream, layout(1000)).unwrap();
        free(&traced, &stream, block, 1000);
        traced.allocate_sync(layout(1 << 40)).unwrap_err();
        block
    });
    let fields = "resource=\"cuda\" bytes=1000 alignment=256";
    let (id, address) = (stream.id(), block.0);
    let [allocate, free, failure] = &listener.recorded()[..] else {
        panic!("{:?}", listener.recorded())
    };
    let expected = |call| format!("message={call} {fields} stream={id} address={address:#x}");
    assert_eq!(*allocate, format!("TRACE rmm::allocate {}", expected("allocate")));
    assert_eq!(*free, format!("TRACE rmm::free {}", expected("free")));
    assert!(failure.starts_with("WARN rmm::allocate message=allocate failure"), "{failure}");
    assert!(
        failure.contains("stream=none") && failure.contains("error=out of memory"),
        "{failure}"
    );
}

#[test]
fn growth_is_a_span_that_records_success() {
    let _machine = Machine::builder().memory(16 << 20).enter();
    let listener = Listener::new("rmm::grow");
    listener.while_it_listens(|| {
        let pool = PoolMemoryResource::builder(CudaMemoryResource::new())
            .initial_size(2 << 20)
            .build()
            .unwrap();
        pool.allocate_sync(layout(32 << 20)).unwrap_err();
    });
    let recorded = listener.recorded();
    assert_eq!(recorded[..2], ["grow resource=\"pool\" bytes=2097152", "ended is_granted=true"]);
    assert!(recorded.last().is_some_and(|last| last == "ended is_granted=false"), "{recorded:?}");
}

/// Allocates all 4 MiB of a resource on one stream, then on another, then without a stream. Returns
/// the recorded waits.
fn waits_of<R: Resource>(make: impl FnOnce() -> R) -> Vec<String> {
    let machine = Machine::builder().schedule(Schedule::Lazy).enter();
    let listener = Listener::new("rmm::wait");
    let resource = make();
    let stream = || CudaStream::with_flags(StreamFlags::NON_BLOCKING, 0).expect("a stream");
    let (first, second) = (stream(), stream());
    listener.while_it_listens(|| {
        for stream in [&first, &second] {
            let block = resource.allocate(stream, layout(4 << 20)).expect("memory");
            // Each event query makes the device complete one item.
            for _ in 0..10 {
                machine
                    .launch(stream.as_raw(), Kernel::new("busy", |_| {}))
                    .expect("a stream takes it");
            }
            free(&resource, stream, block, 4 << 20);
        }
        let block = resource.allocate_sync(layout(4 << 20)).expect("memory");
        // SAFETY: allocated just now with this layout, and not used.
        unsafe { resource.deallocate_sync(block, layout(4 << 20)) };
    });
    listener.recorded()
}

fn waits_told_of(resource: &str) -> [String; 2] {
    [
        format!("DEBUG rmm::wait message=streams wait for others resource=\"{resource}\" waits=1"),
        format!("wait for the device resource=\"{resource}\""),
    ]
}

#[test]
fn waits_of_a_pool_are_reported_without_its_lock() {
    let recorded = waits_of(|| {
        let pool = PoolMemoryResource::builder(CudaMemoryResource::new());
        pool.initial_size(4 << 20).maximum_size(4 << 20).build().unwrap()
    });
    assert_eq!(recorded, waits_told_of("pool"));
}

#[test]
fn waits_of_an_arena_are_reported_with_its_name() {
    let recorded = waits_of(|| {
        ArenaMemoryResource::builder(CudaMemoryResource::new()).arena_size(4 << 20).build().unwrap()
    });
    assert_eq!(recorded, waits_told_of("arena"));
}

#[test]
fn a_default_pool_tells_where_its_memory_comes_from() {
    let attribute = rmm_sys::CuDeviceAttribute::VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED;
    for (has_virtual, backing) in [(1, "virtual memory"), (0, "cudaMalloc")] {
        let _machine = Machine::builder().attribute(attribute, has_virtual).enter();
        let listener = Listener::new("rmm::backing");
        listener.while_it_listens(|| rmm_adaptors::default_pool().expect("a pool"));
        let recorded = listener.recorded();
        assert_eq!(recorded.len(), 1, "{recorded:?}");
        assert!(recorded[0].ends_with(&format!("device=0 backing={backing}")), "{recorded:?}");
    }
}

/// Begins a capture when a pool is about to wait for the device.
struct Capturer {
    stream: CudaStream,
    scope: Mutex<Option<CaptureScope>>,
}

impl Subscriber for Capturer {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target() == "rmm::wait"
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        *self.scope.lock().expect("no panic under it") = Some(CaptureScope::announce());
        let driver = current_driver().expect("the software driver");
        let stream = self.stream.as_raw();
        // SAFETY: the stream exists.
        let code = unsafe { driver.cuStreamBeginCapture_v2(stream, CuCaptureMode::GLOBAL) };
        assert_eq!(code, CuResult::SUCCESS);
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn event(&self, _: &Event<'_>) {}
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}

#[test]
fn a_wait_for_the_device_does_not_invalidate_a_capture_that_has_begun() {
    let machine = Machine::builder().schedule(Schedule::Lazy).enter();
    let pool = PoolMemoryResource::builder(CudaMemoryResource::new());
    let pool = pool.initial_size(4 << 20).maximum_size(4 << 20).build().unwrap();
    let stream = || CudaStream::with_flags(StreamFlags::NON_BLOCKING, 0).expect("a stream");
    let (user, other) = (stream(), stream());
    let block = pool.allocate(&user, layout(4 << 20)).expect("memory");
    for _ in 0..10 {
        machine.launch(user.as_raw(), Kernel::new("busy", |_| {})).expect("a stream takes it");
    }
    free(&pool, &user, block, 4 << 20);
    let capturer = Capturer { stream: other.clone(), scope: Mutex::default() };
    let refused = tracing::subscriber::with_default(capturer, || {
        pool.allocate_sync(layout(4 << 20)).map(|_| ())
    });
    assert!(refused.is_err(), "the memory is in use, and the device was not waited for");
    let driver = current_driver().expect("the software driver");
    let mut graph = CuGraph::NULL;
    // SAFETY: the stream exists, and `graph` may be written to.
    let ended = unsafe { driver.cuStreamEndCapture(other.as_raw(), &raw mut graph) };
    assert_eq!(ended, CuResult::SUCCESS, "the capture went on");
    machine.assert_no_violations();
}
