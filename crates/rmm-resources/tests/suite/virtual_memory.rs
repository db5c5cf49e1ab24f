//! Virtual memory: the addresses of blocks, and when they are unmapped.

use std::alloc::Layout;

use rmm_core::{
    AnyResource, CudaStream, Device, DevicePtr, ErrorKind, ExtendableResource, Introspect,
    Resource, SynchronousResource,
};
use rmm_resources::VirtualMemoryResource;
use rmm_sim::{Fault, Kernel, Machine};
use rmm_sys::{CuDevicePtr, CuResult};

use crate::short::{MIB, calls, layout, unified};

const PAGE: usize = 2 * MIB;

fn pages(count: usize) -> Layout {
    layout(count * PAGE, 256)
}

fn after(start: DevicePtr, pages: usize) -> DevicePtr {
    DevicePtr(start.0 + (pages * PAGE) as u64)
}

/// Frees a block whose use has completed.
fn free(resource: &VirtualMemoryResource, start: DevicePtr, layout: Layout) {
    // SAFETY: each test frees what it allocated, with its layout, once its work is done.
    unsafe { resource.deallocate_sync(start, layout) };
}

#[track_caller]
fn assert_clean(machine: &Machine) {
    machine.run_all();
    machine.assert_no_violations();
    assert_eq!(machine.leaks().len(), 0, "{:?}", machine.leaks());
}

#[test]
fn work_runs_across_adjacent_blocks_until_one_is_freed() {
    let machine = unified().enter();
    let resource = VirtualMemoryResource::new().unwrap();
    let first = resource.allocate_sync(pages(1)).unwrap();
    let second = resource.allocate_sync(layout(PAGE - 1, 256)).unwrap();
    assert_eq!(second, after(first, 1));
    resource.allocate_at(after(first, 2), pages(2)).unwrap();
    assert_eq!(resource.statistics().mapped_bytes, 4 * PAGE as u64);

    let stream = CudaStream::new().unwrap();
    let kernel = Kernel::new("all of it", |_| ()).writes(CuDevicePtr(first.0), 4 * PAGE);
    machine.launch(stream.as_raw(), kernel).unwrap();
    stream.synchronize().unwrap();

    free(&resource, second, layout(PAGE - 1, 256));
    assert_eq!(resource.statistics().blocks, 2);
    // The hole is the lowest free range, and is filled.
    assert_eq!(resource.allocate_sync(pages(2)).unwrap(), after(first, 4));
    resource.allocate_at(second, pages(1)).unwrap();
    for (start, count) in [(first, 1), (second, 1), (after(first, 2), 2), (after(first, 4), 2)] {
        free(&resource, start, pages(count));
    }
    assert_eq!(resource.statistics().mapped_bytes, 0);
    drop((resource, stream));
    assert_clean(&machine);
}

#[test]
fn addresses_that_are_in_use_or_foreign_are_refused() {
    let machine = unified().enter();
    let resource =
        VirtualMemoryResource::builder().address_space((8 * PAGE) as u64).build().unwrap();
    let first = resource.allocate_sync(pages(2)).unwrap();
    let kind = |at, count| resource.allocate_at(at, pages(count)).unwrap_err().kind();
    assert_eq!(kind(first, 1), ErrorKind::OutOfRange, "in use");
    assert_eq!(kind(after(first, 1), 4), ErrorKind::OutOfRange, "in use in part");
    assert_eq!(kind(after(first, 2), 7), ErrorKind::OutOfRange, "beyond the end");
    assert_eq!(kind(DevicePtr(first.0 + 256), 1), ErrorKind::InvalidArgument);
    assert_eq!(kind(after(first, 2), 0), ErrorKind::InvalidArgument);
    // No free range is large enough: another is reserved.
    let second = resource.allocate_sync(pages(7)).unwrap();
    assert_eq!(resource.statistics().reserved_bytes, 16 * PAGE as u64);
    free(&resource, first, pages(2));
    free(&resource, second, pages(7));
    drop(resource);
    assert_clean(&machine);
}

#[test]
fn a_failed_unmap_is_not_reused_and_is_retried_at_drop() {
    let machine = unified().enter();
    let resource = VirtualMemoryResource::new().unwrap();
    let first = resource.allocate_sync(pages(1)).unwrap();
    machine.fail(Fault::nth("cuMemUnmap", 1, CuResult::UNKNOWN));
    free(&resource, first, pages(1));
    let second = resource.allocate_sync(pages(1)).unwrap();
    assert_ne!(second, first);
    assert_eq!(resource.statistics().mapped_bytes, 2 * PAGE as u64);
    free(&resource, second, pages(1));
    drop(resource);
    assert_clean(&machine);
}

#[test]
fn a_full_device_is_out_of_memory_and_leaks_nothing() {
    let machine = unified().memory(8 * PAGE).enter();
    let resource = VirtualMemoryResource::new().unwrap();
    let first = resource.allocate_sync(pages(6)).unwrap();
    for _ in 0..3 {
        assert!(resource.allocate_at(after(first, 6), pages(4)).unwrap_err().is_out_of_memory());
        assert!(resource.allocate_sync(pages(4)).unwrap_err().is_out_of_memory());
    }
    assert!(resource.allocate_sync(pages(9)).unwrap_err().is_out_of_memory());
    free(&resource, first, pages(6));
    let all = resource.allocate_sync(pages(8)).unwrap();
    free(&resource, all, pages(8));
    drop(resource);
    assert_clean(&machine);
}

#[test]
fn peers_are_given_access_with_every_block() {
    let machine = unified().devices(2).enter();
    let other = Device::new(1).unwrap();
    let built = VirtualMemoryResource::builder().accessible_from(other).build();
    if !other.can_access_peer(Device::new(0).unwrap()).unwrap() {
        assert_eq!(built.unwrap_err().kind(), ErrorKind::Unsupported);
        return;
    }
    let resource = built.unwrap();
    let start = resource.allocate_sync(pages(1)).unwrap();
    {
        let _current = other.make_current().unwrap();
        let stream = CudaStream::new().unwrap();
        let kernel = Kernel::new("from afar", |_| ()).writes(CuDevicePtr(start.0), PAGE);
        machine.launch(stream.as_raw(), kernel).unwrap();
        stream.synchronize().unwrap();
    }
    free(&resource, start, pages(1));
    drop(resource);
    assert_clean(&machine);
}

#[test]
fn clones_and_erased_handles_are_the_same_resource() {
    let machine = unified().enter();
    let resource = VirtualMemoryResource::new().unwrap();
    let any: AnyResource = AnyResource::of(&resource);
    assert_ne!(any, AnyResource::of(&VirtualMemoryResource::new().unwrap()));
    let start = any.allocate_sync(pages(1)).unwrap();
    any.as_extendable().unwrap().allocate_at(after(start, 1), pages(1)).unwrap();
    drop(any);
    free(&resource, start, pages(1));
    let stream = CudaStream::new().unwrap();
    // SAFETY: allocated above with this layout, and not used.
    unsafe { resource.deallocate(&stream, after(start, 1), pages(1)) };
    assert_eq!(calls(&machine, "cuMemUnmap"), 2);
    drop((resource, stream));
    assert_clean(&machine);
}

#[test]
fn suspended_blocks_keep_their_addresses() {
    let machine = rmm_sim::enter();
    let resource = VirtualMemoryResource::new().unwrap();
    let blocks =
        [1, 3, 2].map(|count| (resource.allocate_sync(pages(count)).unwrap(), pages(count)));
    // SAFETY: allocated above with these layouts, and not used.
    unsafe { resource.suspend(&blocks) }.unwrap();
    // SAFETY: as above: they are suspended already.
    unsafe { resource.suspend(&blocks[1..]) }.unwrap();
    let (page, total) = (pages(1).size() as u64, pages(6).size() as u64);
    let held = resource.statistics();
    assert_eq!((held.mapped_bytes, held.suspended_bytes, held.blocks), (0, total, 3));
    let error = resource.allocate_at(blocks[0].0, pages(1)).unwrap_err();
    assert!(error.is_out_of_range(), "{error}");
    // One is freed, the others come back.
    // SAFETY: allocated above with this layout, and not used.
    unsafe { resource.deallocate_sync(blocks[0].0, blocks[0].1) };
    resource.allocate_at(blocks[0].0, pages(1)).expect("its addresses are free");
    resource.resume(&blocks[1..]).unwrap();
    let held = resource.statistics();
    assert_eq!((held.mapped_bytes, held.suspended_bytes, held.blocks), (6 * page, 0, 3));
    for (block, layout) in blocks {
        // SAFETY: allocated above with this layout, and not used.
        unsafe { resource.deallocate_sync(block, layout) };
    }
    drop(resource);
    machine.assert_no_violations();
    assert!(machine.leaks().is_empty(), "{:?}", machine.leaks());
}
