//! Regression tests for defects of RMM's base resources, with its issue numbers, and for hazards in
//! its source.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rmm_core::{Device, DevicePtr, ErrorKind, Resource, StreamRef, SyncResource, copy};
use rmm_resources::{
    CudaAsyncManagedMemoryResource, CudaAsyncMemoryResource, CudaAsyncPinnedMemoryResource,
    CudaAsyncViewMemoryResource, CudaMemoryResource, ManagedMemoryResource,
    PinnedHostMemoryResource,
};
use rmm_sim::{Kernel, Machine};
use rmm_sys::CuDeviceAttribute;

use crate::every::{OWN_ALLOCATOR, for_each};
use crate::short::{MIB, calls, layout, lazy, mib, on_host, stream, unified};

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

/// Enqueues work that writes a byte.
fn write_on(machine: &Machine, stream: StreamRef<'_>, pointer: DevicePtr, value: u8) {
    let kernel = Kernel::new("write", move |memory| {
        memory.write(pointer, &[value]).expect("declared memory");
    });
    let kernel = kernel.writes(pointer, 1);
    // SAFETY: the tests look at the memory by its address only, when the stream has been waited
    // for.
    unsafe { machine.launch_on_shared(stream.as_raw(), kernel) }.expect("a launch");
}

// RMM #2165: only the default stream could use memory when `allocate_sync` returned.
#[test]
fn memory_allocated_synchronously_is_every_streams_at_once() {
    for_each(|name, machine, resource| {
        if name == "host" {
            return;
        }
        let (asked, legacy, other) = (layout(4096, 256), StreamRef::legacy(), stream());
        // A driver pool reuses the block, in the order of the default stream.
        let freed = resource.do_allocate(legacy, asked).unwrap();
        write_on(machine, legacy, freed, 1);
        // SAFETY: allocated above with this layout; its only stream is this one.
        unsafe { resource.do_deallocate(legacy, freed, asked) };

        let pointer = resource.allocate_sync(asked).unwrap();
        assert!(pointer == freed || !name.starts_with("cuda-async"), "{name} reuses it");
        write_on(machine, other.as_stream_ref(), pointer, 2);
        other.synchronize().unwrap();
        machine.run_all();
        let mut byte = [0u8];
        let target = byte.as_mut_ptr().cast();
        // SAFETY: the block is alive, and the target lives until the stream is waited for.
        unsafe { copy::device_to_host(target, pointer, 1, &other) }.unwrap();
        other.synchronize().unwrap();
        assert_eq!(byte, [2], "{name}: what was before came after");
        // SAFETY: allocated above with this layout, and all uses have completed.
        unsafe { resource.deallocate_sync(pointer, asked) };
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
    let machine = lazy().build();
    let _entered = machine.enter();
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
    let machine = lazy().build();
    let _entered = machine.enter();
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
    let machine = lazy().devices(2).build();
    let _entered = machine.enter();
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
        let machine = lazy().driver_version(version).build();
        let _entered = machine.enter();
        CudaAsyncMemoryResource::new().unwrap();
    }
    let machine = lazy().driver_version(13020).build();
    let _entered = machine.enter();
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
        for (bytes, alignment) in [(largest, 1), (largest - 255, 256), (largest - 264, 1)] {
            let asked = layout(bytes, alignment);
            let error = resource.allocate_sync(asked).unwrap_err();
            assert!(error.is_out_of_memory(), "{name}: {error}");
            assert_eq!(error.requested(), Some(bytes), "{name}");
        }
        assert_eq!(machine.memory_in_use(0), 0, "{name}");
    });
}

// The capabilities of the first device were used for all devices.
#[test]
fn capabilities_are_queried_for_each_device() {
    let with_pools = |value| {
        let attribute = CuDeviceAttribute::MEMORY_POOLS_SUPPORTED;
        let machine = lazy().attribute(attribute, value).build();
        machine.scope(|| CudaAsyncMemoryResource::new().map(drop))
    };
    with_pools(1).unwrap();
    assert_eq!(with_pools(0).unwrap_err().kind(), ErrorKind::Unsupported);
    with_pools(1).unwrap();
}

// RMM #1714: memory of the wrong kind was accepted.
#[test]
fn host_and_device_access_the_same_bytes() {
    let machine = unified().build();
    let _entered = machine.enter();
    let resources: [&dyn Resource; 2] =
        [&ManagedMemoryResource::new(), &PinnedHostMemoryResource::new()];
    for resource in resources {
        let (stream, asked) = (stream(), layout(4096, 256));
        let pointer = resource.do_allocate(stream.as_stream_ref(), asked).unwrap();
        // SAFETY: the memory is used on its own stream only, and within its bounds.
        unsafe { copy::fill(pointer, 9, 4096, &stream) }.unwrap();
        stream.synchronize().unwrap();
        // SAFETY: the block is alive, was filled, and no work uses it.
        let seen = unsafe { std::slice::from_raw_parts(on_host(pointer), 4096) };
        assert!(seen.iter().all(|&byte| byte == 9), "{}", resource.name());
        // SAFETY: allocated above with this layout, and all uses have completed.
        unsafe { resource.deallocate_sync(pointer, asked) };
    }
}

// `cuMemFree` waits for the memory's own device, not for another one that uses the memory: on two
// H200s it returned while a stream of the other device had work left.
#[test]
fn memory_freed_on_another_devices_stream_waits_for_it() {
    let machine = unified().devices(2).build();
    let _entered = machine.enter();
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
