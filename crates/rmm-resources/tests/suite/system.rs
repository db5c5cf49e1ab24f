//! Pageable memory that devices access, and its location.

use rmm_core::{Resource, SynchronousResource, copy};
use rmm_resources::{SamHeadroomMemoryResource, SystemMemoryResource};
use rmm_sim::{Fault, TraceEntry};
use rmm_sys::CuResult;

use crate::allocator::live;
use crate::short::{MIB, calls, layout, mib, peek, stream, unified};

#[test]
fn devices_fill_and_copy_pageable_memory() {
    let _machine = unified().enter();
    let (resource, stream) = (SystemMemoryResource::new().unwrap(), stream());
    let asked = layout(4 * MIB, 1 << 12);
    let pointer = resource.allocate(&stream, asked).unwrap();
    assert_eq!((pointer.0 % (1 << 12), live()), (0, 4 * MIB));
    // SAFETY: the memory is used on this stream only, and within its bounds.
    unsafe { copy::fill(pointer, 7, 4 * MIB, &stream) }.unwrap();
    let mut back = [0u8; 16];
    // SAFETY: as above, and the target lives until the stream is waited for.
    unsafe { copy::device_to_host(back.as_mut_ptr().cast(), pointer, 16, &stream) }.unwrap();
    stream.synchronize().unwrap();
    assert_eq!((back, peek(pointer)), ([7; 16], 7));
    // SAFETY: allocated above with this layout; its only stream is this one.
    unsafe { resource.deallocate(&stream, pointer, asked) };
    assert_eq!(live(), 0);
}

#[test]
fn blocks_are_aligned_and_rounded_to_256_bytes() {
    let _machine = unified().enter();
    let resource = SystemMemoryResource::new().unwrap();
    let asked = layout(4 * MIB + 1, 1);
    let pointer = resource.allocate_sync(asked).unwrap();
    assert_eq!((pointer.0 % 256, live()), (0, 4 * MIB + 256));
    // SAFETY: allocated above with this layout, and not used.
    unsafe { resource.deallocate_sync(pointer, asked) };
    assert_eq!(live(), 0);
}

/// The calls of `cuMemAdvise_v2` that succeeded while `run` ran.
fn advised(machine: &rmm_sim::Machine, run: impl FnOnce()) -> usize {
    machine.set_tracing(true);
    run();
    let is_advice = |entry: &&TraceEntry| {
        matches!(
            entry,
            TraceEntry::Call { name: "cuMemAdvise_v2", result: Some(CuResult::SUCCESS), .. }
        )
    };
    let count = machine.trace().iter().filter(is_advice).count();
    machine.set_tracing(false);
    count
}

#[test]
fn the_headroom_decides_how_much_is_on_the_device() {
    let machine = unified().memory(64 * MIB).enter();
    // (headroom, bytes, parts): all on the device, all on the host, some of both.
    for (headroom, bytes, parts) in
        [(0, MIB, 1), (mib(64), MIB, 1), (u64::MAX, MIB, 1), (mib(63), 2 * MIB, 2), (0, 100, 1)]
    {
        let resource = SamHeadroomMemoryResource::new(headroom).unwrap();
        assert_eq!(resource.headroom(), headroom);
        let asked = layout(bytes, 256);
        let mut pointer = None;
        let count = advised(&machine, || pointer = Some(resource.allocate_sync(asked).unwrap()));
        // A block below 256 bytes is not worth a part of its own on the device.
        assert_eq!(count, parts, "{headroom} {bytes}");
        let withdrawn = advised(&machine, || {
            // SAFETY: allocated above with this layout, and not used.
            unsafe { resource.deallocate_sync(pointer.unwrap(), asked) };
        });
        assert_eq!(withdrawn, 1, "{headroom} {bytes}");
    }
}

#[test]
fn a_block_whose_advice_is_refused_is_freed() {
    let machine = unified().memory(64 * MIB).enter();
    let resource = SamHeadroomMemoryResource::new(mib(60)).unwrap();
    let asked = layout(8 * MIB, 256);
    for (function, number) in [("cuMemAdvise_v2", 1), ("cuMemAdvise_v2", 2), ("cuMemGetInfo_v2", 1)]
    {
        machine.fail(Fault::nth(function, number, CuResult::INVALID_DEVICE));
        let error = resource.allocate_sync(asked).unwrap_err();
        assert_eq!((error.origin(), error.requested()), (function, Some(8 * MIB)));
        assert_eq!(live(), 0, "{function} {number}");
        machine.clear_faults();
    }
    assert_eq!(calls(&machine, "cuMemAdvise_v2"), 3);
}
