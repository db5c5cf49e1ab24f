//! Names of streams and of memory in reports.

use rmm_sim::{Machine, Schedule};
use rmm_sys::{Annotations, CuDevicePtr, CuStream};

use crate::checks::{annotate, only, order};
use crate::common::{alloc, alloc_async, start, stream};

fn annotations() -> &'static Annotations {
    rmm_sim::driver().annotations.expect("the software device listens")
}

fn name_stream(stream: CuStream, name: &str) {
    annotations().stream_named(stream, name);
}

fn name_memory(memory: CuDevicePtr, bytes: usize, name: Option<&str>) {
    annotations().memory_named(memory, bytes, name);
}

/// The names of the memory in all reports so far.
fn memory_names(machine: &Machine) -> Vec<Option<String>> {
    let name = |violation: rmm_sim::Violation| violation.memory_name.map(|name| name.to_string());
    machine.violations().into_iter().map(name).collect()
}

#[test]
fn a_report_names_both_streams_and_the_memory() {
    let (machine, _here) = start(Schedule::Lazy);
    let (a, b, memory) = (stream(), stream(), alloc(4096));
    name_stream(a, "load");
    name_stream(b, "upload");
    name_stream(b, "train");
    name_memory(memory, 4096, Some("weights"));
    ok!(cuMemsetD8Async(memory, 1, 4096, a));
    ok!(cuMemsetD8Async(CuDevicePtr(memory.0 + 1024), 2, 64, b));
    assert_eq!(
        only(&machine).to_string(),
        "race: 64 bytes at d0+0x400 in \"weights\": \
         fill writes it as item 1 of stream 2 \"load\", \
         then fill writes it as item 1 of stream 3 \"train\": \
         stream 3 \"train\" is not ordered after stream 2 \"load\"; \
         record an event on stream 2 after item 1 and let stream 3 wait for it"
    );
}

#[test]
fn a_name_is_that_of_the_stream_and_not_of_its_handle() {
    let (machine, _here) = start(Schedule::Eager);
    let (a, memory) = (stream(), alloc(64));
    name_stream(a, "first");
    ok!(cuMemsetD8Async(memory, 1, 64, a));
    ok!(cuStreamDestroy_v2(a));
    let b = stream();
    assert_eq!(b, a, "the device reuses the handle at once");
    ok!(cuMemsetD8Async(memory, 1, 64, b));
    let report = only(&machine).to_string();
    assert!(report.contains("item 1 of stream 2 \"first\", then"), "{report}");
    assert!(report.contains("item 1 of stream 3: "), "{report}");
    assert!(report.contains("stream 3 is not ordered after stream 2 \"first\";"), "{report}");
}

#[test]
fn the_name_of_a_suballocation_ends_when_it_is_allocated_again() {
    let (machine, _here) = start(Schedule::Lazy);
    let (a, b, chunk) = (stream(), stream(), alloc(1 << 20));
    annotate(true, 1, chunk, 256, Some(a));
    name_memory(chunk, 256, Some("weights"));
    ok!(cuMemsetD8Async(chunk, 1, 256, a));
    annotate(false, 1, chunk, 256, Some(a));
    name_memory(chunk, 256, None);
    ok!(cuMemsetD8Async(chunk, 1, 10, a)); // used after it was freed
    annotate(true, 1, chunk, 256, Some(b)); // allocated while `a` may use it
    assert_eq!(memory_names(&machine), [Some("weights".into()), Some("weights".into())]);
    ok!(cuMemsetD8Async(chunk, 1, 257, b)); // out of bounds
    assert_eq!(memory_names(&machine)[2..], [None]);
}

#[test]
fn the_name_of_an_allocation_ends_with_it() {
    let (machine, _here) = start(Schedule::Eager);
    let (a, b) = (stream(), stream());
    let memory = alloc_async(64, a);
    name_memory(memory, 64, Some("weights"));
    ok!(cuMemFreeAsync(memory, a));
    let _ignored = cu!(cuMemsetD8Async(memory, 1, 64, a));
    let report = only(&machine).to_string();
    assert!(report.starts_with("use after free: 64 bytes at d0+0x0 in \"weights\""), "{report}");
    assert_eq!(alloc_async(64, a), memory);
    order(a, b);
    ok!(cuMemsetD8Async(memory, 1, 64, a));
    ok!(cuMemsetD8Async(memory, 1, 64, b));
    assert_eq!(memory_names(&machine)[1..], [None]);
}

#[test]
fn memory_of_an_allocator_without_annotations_loses_its_name_on_request() {
    let (machine, _here) = start(Schedule::Lazy);
    let (a, b, chunk) = (stream(), stream(), alloc(1 << 20));
    name_memory(chunk, 64, Some("weights"));
    name_memory(chunk, 64, None);
    ok!(cuMemsetD8Async(chunk, 1, 64, a));
    ok!(cuMemsetD8Async(chunk, 1, 64, b));
    assert_eq!(memory_names(&machine), [None]);
}
