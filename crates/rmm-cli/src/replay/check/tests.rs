//! A resource that breaks stream order is reported, and a pool is not.

use std::alloc::Layout;
use std::fmt::Write as _;
use std::sync::Mutex;

use rmm_adaptors::PoolMemoryResource;
use rmm_core::{
    DeviceAccessible, DevicePtr, HasProperty, Resource, StreamRef, SynchronousResource,
};
use rmm_resources::CudaMemoryResource;
use rmm_sim::ViolationKind;

use super::*;

/// Keeps what is freed and returns it for the next request, on any stream, without any ordering.
#[derive(Debug, Default)]
struct Careless {
    upstream: CudaMemoryResource,
    kept: Mutex<Vec<(DevicePtr, Layout)>>,
}

impl Drop for Careless {
    fn drop(&mut self) {
        for (pointer, layout) in self.kept.get_mut().expect("no holder panics").drain(..) {
            // SAFETY: it came from there with this layout, and the driver waits for its uses.
            unsafe { self.upstream.deallocate_sync(pointer, layout) };
        }
    }
}

// SAFETY: a block has one owner at a time; that it may still be in use is the fault to be
// found.
unsafe impl SynchronousResource for Careless {
    fn name(&self) -> &'static str {
        "careless"
    }

    fn do_allocate_sync(&self, layout: Layout) -> Result<DevicePtr, Error> {
        let mut kept = self.kept.lock().expect("no holder panics");
        match kept.iter().position(|&(_, other)| other == layout) {
            Some(index) => Ok(kept.swap_remove(index).0),
            None => self.upstream.allocate_sync(layout),
        }
    }

    unsafe fn do_deallocate_sync(&self, pointer: DevicePtr, layout: Layout) {
        self.kept.lock().expect("no holder panics").push((pointer, layout));
    }
}

// SAFETY: as above.
unsafe impl Resource for Careless {
    fn do_allocate(&self, _stream: StreamRef<'_>, layout: Layout) -> Result<DevicePtr, Error> {
        self.allocate_sync(layout)
    }

    unsafe fn do_deallocate(&self, _stream: StreamRef<'_>, pointer: DevicePtr, layout: Layout) {
        // SAFETY: the caller's.
        unsafe { self.deallocate_sync(pointer, layout) };
    }
}

// SAFETY: what the upstream resource provides can be accessed by the device.
unsafe impl HasProperty<DeviceAccessible> for Careless {}

impl PartialEq for Careless {
    fn eq(&self, other: &Self) -> bool {
        std::ptr::eq(self, other)
    }
}

fn careless() -> AnyResource {
    AnyResource::new(Careless::default())
}

fn pool() -> Result<AnyResource, Error> {
    Ok(AnyResource::new(PoolMemoryResource::builder(CudaMemoryResource::new()).build()?))
}

/// A block that goes from one stream to another, and one that is freed on another stream than it
/// was allocated on.
const LOG: &str = "Thread,Time,Action,Pointer,Size,Stream
1,0,allocate,0x1000,4096,1
1,0,free,0x1000,4096,1
1,0,allocate,0x1000,4096,2
1,0,free,0x1000,4096,3
";

fn check_with(make: impl FnOnce() -> Result<AnyResource, Error>) -> Checked {
    check_log(LOG, None, make)
}

fn check_log(
    log: &str,
    memory: Option<&str>,
    make: impl FnOnce() -> Result<AnyResource, Error>,
) -> Checked {
    let memory = memory.map(|size| size.parse().expect("a size"));
    let device = OpenDevice::checked(memory).expect("always there");
    let trace = rmm_report::trace::read_from("log.csv", log.as_bytes()).expect("a good log");
    let options = ReplayOptions { repeat: 2, ..ReplayOptions::default() };
    check_on(&device, &trace, options, &|_| {}, make).expect("it can be made")
}

#[test]
fn reuse_without_a_wait_is_found() {
    let checked = check_with(|| Ok(careless()));
    let violation = checked.violations.first().expect("the second stream does not wait");
    assert_eq!(violation.kind, ViolationKind::Race, "{violation}");
    let text = violation.to_string();
    assert!(text.contains("last use") && text.contains("first use"), "{text}");
}

#[test]
fn a_pool_is_in_order_and_so_are_frees_on_other_streams() {
    let checked = check_with(pool);
    assert!(checked.violations.is_empty(), "{:?}", checked.violations);
    assert_eq!((checked.events, checked.failures), (4, 0));
}

/// Four streams that take turns in using eight blocks of 1 MiB, never more at once.
fn turns() -> String {
    let mut log = String::from("Thread,Time,Action,Pointer,Size,Stream\n");
    for turn in 0..16 {
        for action in ["allocate", "free"] {
            for block in 1..=8 {
                let stream = 1 + turn % 4;
                writeln!(log, "1,0,{action},{block:#x}00000,1048576,{stream}").expect("a string");
            }
        }
    }
    log
}

#[test]
fn where_memory_is_short_streams_wait_for_each_other() {
    let short = check_log(&turns(), Some("8MiB"), pool);
    assert_eq!((short.failures, short.violations.len()), (0, 0), "{:?}", short.first_failure);
    let plenty = check_log(&turns(), None, pool);
    let waits = (short.stream_waits, plenty.stream_waits);
    assert!(waits.0 > 0 && waits.0 > waits.1, "{waits:?}");
}

#[test]
fn a_careless_resource_is_found_where_memory_is_short() {
    let checked = check_log(&turns(), Some("16MiB"), || Ok(careless()));
    assert_eq!(checked.failures, 0);
    assert!(!checked.violations.is_empty());
}
