//! Regression tests for defects of RMM's base resources, with its issue numbers, and for hazards in
//! its source.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rmm_core::{Device, ErrorKind, Resource, StreamRef, SynchronousResource};
use rmm_resources::{
    CudaAsyncManagedMemoryResource, CudaAsyncMemoryResource, CudaAsyncPinnedMemoryResource,
    CudaAsyncViewMemoryResource, CudaMemoryResource,
};
use rmm_sim::{Kernel, Machine};

use crate::every::{OWN_ALLOCATOR, for_each};
use crate::short::{MIB, calls, layout, lazy, mib, stream, unified};

/// Enqueues work that accesses no memory; the returned flag says whether it has run.
fn work_on(machine: &Machine, stream: StreamRef<'_>) -> Arc<AtomicBool> {
    let has_run = Arc::new(AtomicBool::new(false));
    let flag = Arc::clone(&has_run);
    let kernel = Kernel::new("work", move |_| flag.store(true, Ordering::Relaxed));
    machine.launch(stream.as_raw(), kernel).expect("a launch");
    has_run
}

// RMM #2393: alignments above 256 were ignored. RMM #2107: one that is not a power of two was
// replaced; a `Layout` rules that out.
#[test]
fn an_unsupported_alignment_is_refused_without_a_driver_call() {
    for_each(|name, machine, resource| {
        if OWN_ALLOCATOR.contains(&name) {
            let pointer = resource.allocate_sync(layout(1, 1 << 16)).unwrap();
            assert!(pointer.0.is_multiple_of(1 << 16), "{name}");
            // SAFETY: allocated just now with this layout, and not used.
            unsafe { resource.deallocate_sync(pointer, layout(1, 1 << 16)) };
            return;
        }
        let stream = stream();
        let before = machine.calls();
        for asked in [layout(1, 512), layout(MIB, 1 << 20)] {
            let errors = [
                resource.allocate_sync(asked),
                resource.do_allocate(stream.as_stream_ref(), asked),
            ];
            for error in errors.map(Result::unwrap_err) {
                assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{name}: {error}");
                assert_eq!(error.alignment(), Some(asked.align()), "{name}");
            }
        }
        assert_eq!(machine.calls(), before, "{name}");
    });
}

// RMM #2401, #2448: driver pools returned from `deallocate_sync` before the free, and from
// `allocate_sync` before the allocation, had completed on the default stream.
#[test]
fn synchronous_pool_calls_wait_for_the_default_stream() {
    for_each(|name, machine, resource| {
        if !name.starts_with("cuda-async") {
            return;
        }
        let asked = layout(4096, 256);
        let before = work_on(machine, StreamRef::legacy());
        let pointer = resource.allocate_sync(asked).unwrap();
        assert!(before.load(Ordering::Relaxed), "{name} allocates");
        let before = work_on(machine, StreamRef::legacy());
        // SAFETY: allocated above with this layout, and not used.
        unsafe { resource.deallocate_sync(pointer, asked) };
        assert!(before.load(Ordering::Relaxed), "{name} frees");
    });
}

// RMM #1655: pageable memory was freed while work still used it.
#[test]
fn synchronous_memory_is_freed_after_the_streams_work() {
    for_each(|name, machine, resource| {
        if name.starts_with("cuda-async") {
            return;
        }
        let stream = stream();
        let pointer = resource.do_allocate(stream.as_stream_ref(), layout(4096, 256)).unwrap();
        let has_run = work_on(machine, stream.as_stream_ref());
        // SAFETY: allocated above with this layout; its only stream is this one.
        unsafe { resource.do_deallocate(stream.as_stream_ref(), pointer, layout(4096, 256)) };
        assert!(has_run.load(Ordering::Relaxed), "{name}");
    });
}

// RMM #2379: pools released freed memory at each synchronization.
#[test]
fn a_new_pool_retains_freed_memory() {
    let _machine = lazy().enter();
    for threshold in [
        CudaAsyncMemoryResource::new().unwrap().pool().release_threshold(),
        CudaAsyncPinnedMemoryResource::new().unwrap().pool().release_threshold(),
        CudaAsyncManagedMemoryResource::builder().build().unwrap().pool().release_threshold(),
        // RMM #2510: the release threshold of the managed pool was not set.
        CudaAsyncManagedMemoryResource::new().unwrap().pool().release_threshold(),
    ] {
        assert_eq!(threshold.unwrap(), u64::MAX);
    }
}

// RMM #2051: half of the device's memory was allocated before any request.
#[test]
fn a_new_pool_holds_nothing() {
    let machine = lazy().enter();
    let device = CudaAsyncMemoryResource::new().unwrap();
    let pinned = CudaAsyncPinnedMemoryResource::new().unwrap();
    let managed = CudaAsyncManagedMemoryResource::builder().build().unwrap();
    for pool in [device.pool(), pinned.pool(), managed.pool()] {
        assert_eq!((pool.reserved_bytes().unwrap(), pool.peak_reserved_bytes().unwrap()), (0, 0));
    }
    assert_eq!(calls(&machine, "cuMemAllocFromPoolAsync"), 0);
}

// RMM #1753: access was granted to a pool's own device, which the driver refuses for exportable
// pools.
#[test]
fn a_devices_access_to_its_own_pool_is_never_set() {
    let machine = lazy().devices(2).enter();
    let _second = Device::new(1).unwrap().make_current().unwrap();
    let _own = CudaAsyncMemoryResource::builder().initial_size(mib(1)).build().unwrap();
    let _managed = CudaAsyncManagedMemoryResource::new().unwrap();
    let _view = CudaAsyncViewMemoryResource::of_default_pool(Device::current().unwrap()).unwrap();
    assert_eq!(calls(&machine, "cuMemPoolSetAccess"), 0);
}

// RMM #1854, #2424: support for the decompression engine was decided by the headers, not by the
// installed driver.
#[test]
fn pools_support_decompression_where_the_driver_does() {
    for version in [12010, 12070, 12080, 13000] {
        let _machine = lazy().driver_version(version).enter();
        CudaAsyncMemoryResource::new().unwrap();
    }
    let _machine = lazy().driver_version(13020).enter();
    for wanted in [true, false] {
        let builder = CudaAsyncMemoryResource::builder().hardware_decompress(wanted);
        let resource = builder.build().unwrap();
        assert_eq!(resource.pool().is_hardware_decompress_enabled().unwrap(), wanted);
    }
}

// Sizes near the maximum wrapped when padding for an alignment was added.
#[test]
fn sizes_near_the_largest_are_refused_and_not_wrapped() {
    for_each(|name, machine, resource| {
        let largest = isize::MAX.unsigned_abs();
        let sizes = [((1 << 50) + 1, 1), (largest, 1), (largest - 255, 256), (largest - 264, 1)];
        for (bytes, alignment) in sizes {
            let asked = layout(bytes, alignment);
            let error = resource.allocate_sync(asked).unwrap_err();
            assert!(error.is_out_of_memory(), "{name}: {error}");
            assert_eq!(error.requested(), Some(bytes), "{name}");
        }
        assert_eq!(machine.memory_in_use(0), 0, "{name}");
    });
}

// `cuMemFree` waits for the memory's own device, not for another one that uses the memory: on two
// H200s it returned while a stream of the other device had work left.
#[test]
fn memory_freed_on_another_devices_stream_waits_for_it() {
    let machine = unified().devices(2).enter();
    let (resource, asked) = (CudaMemoryResource::new(), layout(4096, 256));
    let pointer = resource.allocate_sync(asked).unwrap();
    let other = {
        let _current = Device::new(1).unwrap().make_current().unwrap();
        stream()
    };
    let has_run = work_on(&machine, other.as_stream_ref());
    // SAFETY: allocated above with this layout; its only stream is this one.
    unsafe { resource.deallocate(&other, pointer, asked) };
    assert!(has_run.load(Ordering::Relaxed));
    drop(other);
    assert_eq!(machine.leaks().len(), 0);
}
