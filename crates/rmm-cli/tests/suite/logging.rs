//! A log of the logging adaptor can be read back.

use std::alloc::Layout;
use std::thread;

use rmm_adaptors::{LoggingResourceAdaptor, PoolMemoryResource};
use rmm_core::{CudaStream, Resource, StreamFlags, SynchronousResource};
use rmm_report::trace::{self, Action};
use rmm_resources::CudaMemoryResource;
use rmm_sim::Machine;

use super::common::Folder;

fn layout(bytes: usize) -> Layout {
    Layout::from_size_align(bytes, 256).expect("a small size")
}

#[test]
fn what_was_logged_is_read_back() {
    let machine = Machine::builder().memory(64 << 20).enter();
    let (folder, name) = (Folder::new(), "log.csv");
    let path = folder.path(name);
    let pool = PoolMemoryResource::builder(CudaMemoryResource::new()).build().expect("a pool");
    let logged = LoggingResourceAdaptor::create(pool, &path).expect("a file");
    let stream = CudaStream::with_flags(StreamFlags::NON_BLOCKING, 0).expect("a stream");

    let first = logged.allocate(&stream, layout(1000)).expect("memory");
    let nothing = logged.allocate(&stream, layout(0)).expect("no memory"); // not logged
    logged.allocate(&stream, layout(1 << 40)).expect_err("more than there is");
    let second = logged.allocate_sync(layout(300)).expect("memory");
    thread::scope(|scope| {
        scope.spawn(|| {
            let _entered = machine.enter();
            // SAFETY: allocated above with this layout, and not used.
            unsafe { logged.deallocate(&stream, first, layout(1000)) };
        });
    });
    // SAFETY: as above.
    unsafe { logged.deallocate(&stream, nothing, layout(0)) };
    // SAFETY: as above.
    unsafe { logged.deallocate_sync(second, layout(300)) };
    assert_eq!(logged.lost_lines(), 0);
    drop(logged);

    let trace = trace::read(path.as_ref()).expect("it is a log");
    let found: Vec<_> =
        trace.events.iter().map(|event| (event.thread, event.stream, event.action)).collect();
    assert_eq!(
        found,
        [
            (0, 0, Action::Allocate { block: 0, size: 1000 }),
            (0, 0, Action::AllocateFailure { size: 1 << 40 }),
            (0, 1, Action::Allocate { block: 1, size: 300 }),
            (1, 0, Action::Free { block: 0, size: 1000 }),
            (0, 1, Action::Free { block: 1, size: 300 }),
        ]
    );
    assert_eq!((trace.threads.len(), trace.peak_live), (2, 1300));
    assert_eq!(trace.streams, [stream.as_raw().addr() as u64, 0]);
}
