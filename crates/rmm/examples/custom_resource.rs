//! A custom memory resource, under adaptors of the library: `cargo run -p rmm-rs --example
//! custom_resource`.
//!
//! `Slabs` serves requests of up to 1 MiB from blocks of 1 MiB. A freed block is reused on the
//! stream that it was freed on: that is always in order, and needs no event. Only streams that the
//! library owns have such blocks: a default stream is another one on each device or thread, and a
//! foreign handle may name another stream at each call.

#![expect(clippy::print_stdout, reason = "an example shows what it does")]

mod device;

use std::alloc::Layout;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use rmm::LoggingResourceAdaptor;
use rmm::custom::{Query, Structure};
use rmm::prelude::*;
use rmm::property::{DeviceAccessible, HasProperty};
use rmm::stream::{StreamId, StreamKind};
use rmm::{DevicePtr, LimitingResourceAdaptor, StatisticsResourceAdaptor};

#[repr(align(256))]
struct Slab(#[expect(dead_code, reason = "for its size")] [u8; 1 << 20]);
const SLAB: Layout = Layout::new::<Slab>();

/// A handle: clones are the same resource.
#[derive(Clone, Debug)]
struct Slabs(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    upstream: AnyResource,
    /// Free slabs by the owned stream that they were freed on. The handle keeps the stream alive.
    free: Mutex<HashMap<StreamId, (CudaStream, Vec<DevicePtr>)>>,
}

impl Slabs {
    fn new(upstream: AnyResource) -> Self {
        Self(Arc::new(Inner { upstream, free: Mutex::default() }))
    }

    /// Whether a slab serves requests of this layout.
    fn serves(layout: Layout) -> bool {
        layout.size() <= SLAB.size() && layout.align() <= SLAB.align()
    }
}

/// Equal resources free each other's memory.
impl PartialEq for Slabs {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

// SAFETY: all memory comes from the upstream, which keeps the contract.
unsafe impl SynchronousResource for Slabs {
    fn do_allocate_sync(&self, layout: Layout) -> rmm::Result<DevicePtr> {
        self.0.upstream.allocate_sync(layout)
    }

    unsafe fn do_deallocate_sync(&self, pointer: DevicePtr, layout: Layout) {
        // SAFETY: the caller's contract is the same.
        unsafe { self.0.upstream.deallocate_sync(pointer, layout) }
    }

    fn name(&self) -> &'static str {
        "slabs"
    }

    fn structure(&self) -> Structure<'_>
    where
        Self: 'static,
    {
        Structure::over(&self.0.upstream)
    }

    fn provide<'a>(&'a self, query: &mut Query<'a>) {
        query.properties(self).has::<DeviceAccessible>();
    }
}

// SAFETY: a slab is allocated or reused in the order of one stream, and has one user at a time.
unsafe impl Resource for Slabs {
    fn do_allocate(&self, stream: StreamRef<'_>, layout: Layout) -> rmm::Result<DevicePtr> {
        if !Self::serves(layout) {
            return self.0.upstream.allocate(stream, layout);
        }
        let mut free = self.0.free.lock().unwrap_or_else(PoisonError::into_inner);
        match free.get_mut(&stream.id()).and_then(|(_, slabs)| slabs.pop()) {
            Some(slab) => Ok(slab),
            None => self.0.upstream.allocate(stream, SLAB),
        }
    }

    unsafe fn do_deallocate(&self, stream: StreamRef<'_>, pointer: DevicePtr, layout: Layout) {
        if !Self::serves(layout) {
            // SAFETY: the memory is the upstream's, and the caller's contract is the same.
            return unsafe { self.0.upstream.deallocate(stream, pointer, layout) };
        }
        if stream.kind() != StreamKind::Owned {
            // SAFETY: allocated there with this layout; the stream is the caller's.
            return unsafe { self.0.upstream.deallocate(stream, pointer, SLAB) };
        }
        let mut free = self.0.free.lock().unwrap_or_else(PoisonError::into_inner);
        free.entry(stream.id()).or_insert_with(|| (stream.to_owned(), Vec::new())).1.push(pointer);
    }
}

// SAFETY: the memory is the upstream's, which is device-accessible by the type `AnyResource`.
unsafe impl HasProperty<DeviceAccessible> for Slabs {}

impl Drop for Inner {
    fn drop(&mut self) {
        let free = self.free.get_mut().unwrap_or_else(PoisonError::into_inner);
        for (stream, slabs) in free.values() {
            for slab in slabs {
                // SAFETY: allocated with this layout, and freed on this stream.
                unsafe { self.upstream.deallocate(stream, *slab, SLAB) };
            }
        }
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let _device = device::open();
    let stream = CudaStream::new()?;
    let slabs = Slabs::new(AnyResource::new(CudaMemoryResource::new()));
    let file = tempfile::NamedTempFile::new()?;
    let log = LoggingResourceAdaptor::create(slabs.clone(), file.path())?;
    let mr = StatisticsResourceAdaptor::new(LimitingResourceAdaptor::new(log.clone(), 4 << 20));

    for round in 0..10 {
        let vector = DeviceUVector::filled_in(round, 1000, &stream, &mr)?;
        assert_eq!(vector.element(999)?, round);
    }
    let error = DeviceBuffer::uninit_in(5 << 20, &stream, &mr).expect_err("the limit is 4 MiB");
    println!("{error}\n{}", mr.describe());
    assert!(error.is_out_of_memory());
    assert_eq!(mr.counters().allocations.total, 10);
    let free = slabs.0.free.lock().expect("no thread panicked");
    assert_eq!(free.values().map(|(_, slabs)| slabs.len()).sum::<usize>(), 1, "reused ten times");
    drop(free);

    // The type-erased stack still finds the resources that it is made of.
    let erased: AnyResource = AnyResource::new(mr);
    assert_eq!(erased.find::<Slabs>(), Some(&slabs));
    assert!(erased.find::<CudaMemoryResource>().is_some());
    log.flush()?;
    assert_eq!(std::fs::read_to_string(file.path())?.lines().count(), 1 + 20);
    Ok(())
}

#[test]
fn it_runs() {
    main().expect("it runs");
}
