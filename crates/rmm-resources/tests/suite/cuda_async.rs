//! Resources over driver pools, and their options.

use rmm_core::{Device, Error, ErrorKind, Resource, SynchronousResource};
use rmm_resources::{
    CudaAsyncManagedMemoryResource, CudaAsyncMemoryResource, CudaAsyncPinnedMemoryResource,
    CudaAsyncViewMemoryResource,
};
use rmm_sim::Machine;
use rmm_sys::{CuDeviceAttribute, CuMemAccessFlags};

use crate::short::{MIB, calls, layout, lazy, mib, peek, poke, stream};

#[test]
fn a_pool_takes_its_initial_size_and_keeps_to_its_maximum() {
    let machine = lazy().enter();
    let resource = CudaAsyncMemoryResource::builder()
        .initial_size(mib(32))
        .maximum_size(mib(64))
        .hardware_decompress(false)
        .build()
        .unwrap();
    assert_eq!(resource.reserved_bytes().unwrap(), 32 << 20);
    let error = resource.allocate_sync(layout(65 * MIB, 256)).unwrap_err();
    assert!(error.is_out_of_memory(), "{error}");
    let pointer = resource.allocate_sync(layout(60 * MIB, 256)).unwrap();
    // SAFETY: allocated above with this layout, and not used.
    unsafe { resource.deallocate_sync(pointer, layout(60 * MIB, 256)) };
    drop(resource);
    assert_eq!(machine.memory_in_use(0), 0);
}

#[test]
fn the_last_clone_destroys_the_pool_and_a_view_does_not() {
    let machine = lazy().enter();
    let resource = CudaAsyncMemoryResource::new().unwrap();
    let clone = resource.clone();
    // SAFETY: the pool lives longer than the view.
    let view = unsafe { CudaAsyncViewMemoryResource::from_raw(resource.as_raw()) }.unwrap();
    drop(view);
    drop(resource);
    assert_eq!(machine.leaks().len(), 1, "the clone keeps it");
    drop(clone);
    assert_eq!(machine.leaks().len(), 0);
}

#[test]
fn a_view_allocates_from_the_pool_that_it_is_over() {
    let machine = Machine::builder().devices(2).enter();
    let _current = Device::new(1).unwrap().make_current().unwrap();
    let view = CudaAsyncViewMemoryResource::of_default_pool(Device::new(1).unwrap()).unwrap();
    let stream = stream();
    let asked = layout(MIB, 256);
    let pointer = view.allocate(&stream, asked).unwrap();
    assert_eq!(view.pool().used_bytes().unwrap(), 1 << 20);
    assert_eq!(machine.memory_in_use(0), 0);
    // SAFETY: allocated above with this layout; its only stream is this one.
    unsafe { view.deallocate(&stream, pointer, asked) };
    assert_eq!(view.pool().used_bytes().unwrap(), 0);
}

#[test]
fn the_managed_pools_threshold_is_set_only_on_request() {
    let _machine = lazy().enter();
    let left_alone = CudaAsyncManagedMemoryResource::with_release_threshold(None).unwrap();
    assert_eq!(left_alone.pool().release_threshold().unwrap(), 0);
    let set = CudaAsyncManagedMemoryResource::new().unwrap();
    assert_eq!(set, left_alone);
    assert_eq!(left_alone.pool().release_threshold().unwrap(), u64::MAX);
    let chosen = CudaAsyncManagedMemoryResource::with_release_threshold(Some(5)).unwrap();
    assert_eq!(chosen.pool().release_threshold().unwrap(), 5);
}

#[test]
fn every_device_may_use_a_pinned_pool() {
    let machine =
        lazy().devices(3).attribute(CuDeviceAttribute::HOST_NUMA_MEMORY_POOLS_SUPPORTED, 1).build();
    let _entered = machine.enter();
    let resource = CudaAsyncPinnedMemoryResource::builder()
        .initial_size(mib(1))
        .release_threshold(1 << 40)
        .build()
        .unwrap();
    assert!(resource.pool().reserved_bytes().unwrap() >= 1 << 20);
    assert_eq!(resource.pool().release_threshold().unwrap(), 1 << 40);
    assert_eq!(machine.memory_in_use(0), 0, "it is not the device's memory");
    let on_node = CudaAsyncPinnedMemoryResource::builder().numa_node(0).build().unwrap();
    for number in 0..3 {
        let device = Device::new(number).unwrap();
        for pool in [resource.pool(), on_node.pool()] {
            assert_eq!(pool.access(device).unwrap(), CuMemAccessFlags::READ_WRITE);
        }
        let _current = device.make_current().unwrap();
        let (stream, asked) = (stream(), layout(1000, 256));
        let pointer = resource.allocate(&stream, asked).unwrap();
        // SAFETY: allocated above with this layout; its only stream is this one.
        unsafe { resource.deallocate(&stream, pointer, asked) };
    }
}

/// Asserts that the options were refused with this message.
#[track_caller]
fn refused<R>(made: Result<R, Error>, words: &str) {
    let Err(error) = made else { panic!("made, although it should be refused: {words}") };
    assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
    assert_eq!(error.to_string(), words);
}

#[test]
fn sizes_that_contradict_each_other_are_refused() {
    let machine = lazy().enter();
    let builder = || CudaAsyncMemoryResource::builder().initial_size(mib(2));
    refused(
        builder().maximum_size(mib(1)).build(),
        "invalid argument to cuda-async: an initial size of 2097152 bytes is above the maximum size of 1048576",
    );
    refused(
        builder().release_threshold(1).build(),
        "invalid argument to cuda-async: an initial size of 2097152 bytes is above the release threshold of 1",
    );
    let builder = || CudaAsyncPinnedMemoryResource::builder().initial_size(mib(2));
    refused(
        builder().maximum_size(mib(1)).build(),
        "invalid argument to cuda-async-pinned: an initial size of 2097152 bytes is above the maximum size of 1048576",
    );
    refused(
        builder().release_threshold(1).build(),
        "invalid argument to cuda-async-pinned: an initial size of 2097152 bytes is above the release threshold of 1",
    );
    let builder = CudaAsyncManagedMemoryResource::builder().initial_size(mib(2));
    refused(
        builder.release_threshold(1).build(),
        "invalid argument to cuda-async-managed: an initial size of 2097152 bytes is above the release threshold of 1",
    );
    assert_eq!(calls(&machine, "cuMemPoolCreate"), 0);
    let equal = CudaAsyncMemoryResource::builder().initial_size(mib(2)).maximum_size(mib(2));
    equal.release_threshold(2 << 20).build().unwrap();
}

#[test]
fn an_owned_managed_pool_is_separate_and_freed_with_its_clones() {
    let machine = lazy().enter();
    let default = CudaAsyncManagedMemoryResource::with_release_threshold(None).unwrap();
    let own =
        CudaAsyncManagedMemoryResource::builder().initial_size(mib(1)).release_threshold(2 << 20);
    let own = own.build().unwrap();
    assert_eq!(own.pool().release_threshold().unwrap(), 2 << 20);
    assert_eq!(default.pool().release_threshold().unwrap(), 0);
    assert_ne!(own, default);
    let (clone, asked) = (own.clone(), layout(MIB, 256));
    drop(own);
    let pointer = clone.allocate_sync(asked).unwrap();
    assert_eq!(default.pool().used_bytes().unwrap(), 0);
    poke(pointer, 5);
    assert_eq!(peek(pointer), 5);
    // SAFETY: allocated above with this layout, and not used any more.
    unsafe { clone.deallocate_sync(pointer, asked) };
    drop(clone);
    assert_eq!(machine.leaks().len(), 0);
}

#[test]
fn the_default_pinned_pool_is_shared_by_all_devices() {
    let _machine = lazy().devices(2).enter();
    let resource = CudaAsyncPinnedMemoryResource::of_default_pool().unwrap();
    assert_eq!(resource, CudaAsyncPinnedMemoryResource::of_default_pool().unwrap());
    assert_ne!(resource, CudaAsyncPinnedMemoryResource::new().unwrap());
    assert_eq!(resource.pool().release_threshold().unwrap(), 0, "it is left alone");
    for device in Device::all().unwrap() {
        assert_eq!(resource.pool().access(device).unwrap(), CuMemAccessFlags::READ_WRITE);
    }
    let (stream, asked) = (stream(), layout(MIB, 256));
    let pointer = resource.allocate(&stream, asked).unwrap();
    drop(resource);
    let again = CudaAsyncPinnedMemoryResource::of_default_pool().unwrap();
    assert_eq!(again.pool().used_bytes().unwrap(), 1 << 20, "it outlives who looks at it");
    // SAFETY: allocated above with this layout from the same pool; its only stream is this one.
    unsafe { again.deallocate(&stream, pointer, asked) };
}
