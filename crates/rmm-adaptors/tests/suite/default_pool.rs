//! The default pool, on devices with virtual memory and without.

use rmm_adaptors::{
    Contents, LimitingResourceAdaptor, PoolMemoryResource, PoolPreset, default_pool,
};
use rmm_core::{
    AnyResource, Device, HostAccessible, HostDeviceAccessible, Introspect, MemoryKind, Resource,
    SynchronousResource, copy, current_driver,
};
use rmm_resources::{
    CudaMemoryResource, DefaultDeviceMemory, HostMemoryResource, PinnedHostMemoryResource,
    VirtualMemoryResource,
};
use rmm_sim::{Checker, Machine, MachineBuilder, create_context, destroy_context};
use rmm_sys::{CuContext, CuDevice, CuDeviceAttribute as Attribute, CuPointerAttribute, CuResult};

use crate::support::{MIB, free, layout, mib, stream, write};

/// A machine whose devices have virtual memory management, or not.
fn machine(has_virtual: bool) -> MachineBuilder {
    let attribute = Attribute::VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED;
    Machine::builder().memory(256 * MIB).attribute(attribute, i32::from(has_virtual))
}

fn names(pool: &PoolMemoryResource) -> Vec<&'static str> {
    pool.stack().map(SynchronousResource::name).collect()
}

#[test]
fn one_type_serves_devices_with_virtual_memory_and_without() {
    for (has_virtual, below) in [(true, "virtual"), (false, "cuda")] {
        Checker::new().machine(machine(has_virtual)).run(|machine| {
            let pool: PoolMemoryResource = default_pool().expect("a pool");
            assert_eq!(names(&pool), ["pool", below]);
            let (first, second) = (stream(), stream());
            let block = pool.allocate(&first, layout(MIB)).expect("memory");
            write(machine, &first, block, 1);
            free(&pool, &first, block, MIB);
            for stream in [&first, &second] {
                let block = pool.allocate(stream, layout(3 * MIB)).expect("memory");
                write(machine, stream, block, 2);
                free(&pool, stream, block, 3 * MIB);
            }
            assert!(pool.trim_blocking(0) >= mib(3));
            assert_eq!(pool.reserved_bytes(), 0);
        });
    }
}

/// What only virtual memory gives: growth by what is missing, and sleep.
#[test]
fn it_grows_in_place_and_sleeps_where_there_is_virtual_memory() {
    for has_virtual in [true, false] {
        let _machine = machine(has_virtual).enter();
        let builder = PoolMemoryResource::default_builder().expect("a device");
        let pool = builder.preset(PoolPreset::Compact).maximum_size(mib(64)).build();
        let (pool, stream) = (pool.expect("a pool"), stream());
        let blocks = [(); 2].map(|()| pool.allocate(&stream, layout(10 * MIB)).expect("memory"));
        for block in blocks {
            free(&pool, &stream, block, 10 * MIB);
        }
        let large = pool.allocate(&stream, layout(30 * MIB)).expect("memory");
        // Two blocks of `cudaMalloc` cannot be one, so they were returned first.
        let statistics = pool.statistics();
        assert_eq!(pool.reserved_bytes(), mib(30), "{statistics:?}");
        assert_eq!(statistics.upstream_frees == 0, has_virtual, "{statistics:?}");
        free(&pool, &stream, large, 30 * MIB);
        // SAFETY: no work is enqueued, and none uses the blocks, which are free.
        let slept = unsafe { pool.sleep(Contents::Discard) };
        assert_eq!(slept.is_ok(), has_virtual, "{slept:?}");
    }
}

#[test]
fn it_is_found_by_its_type_below_adaptors() {
    let _machine = machine(true).enter();
    for pool in [
        default_pool().expect("a pool"),
        PoolMemoryResource::builder(CudaMemoryResource::new()).build().expect("a pool"),
    ] {
        let any = AnyResource::<()>::new(LimitingResourceAdaptor::new(pool.clone(), mib(1)));
        let found = any.find::<PoolMemoryResource>().expect("it is in the stack");
        assert_eq!((found, found.default_memory()), (&pool, pool.default_memory()));
        assert_eq!(found.upstream(), pool.upstream());
    }
}

/// A pool is found by each set of properties that its memory has, and by no other.
#[test]
fn a_pool_of_other_memory_is_found_by_what_its_memory_can_do() {
    let _machine = machine(true).enter();
    let pinned = PinnedHostMemoryResource::new();
    let both = PoolMemoryResource::<HostDeviceAccessible>::builder_with_properties(pinned).build();
    let both = both.expect("a pool");
    let any = AnyResource::<()>::new(both.clone());
    assert_eq!(any.downcast_ref(), Some(&both));
    assert!(any.find::<PoolMemoryResource>().is_some());
    assert!(any.find::<PoolMemoryResource<HostAccessible>>().is_some());
    assert!(any.find::<PoolMemoryResource<()>>().is_some());
    assert_eq!(both.default_memory(), None);

    // Any two handles of one pool are equal, in either order; `MemoryKind` is a set of a program.
    let handles = [
        AnyResource::<()>::of(any.find::<PoolMemoryResource>().expect("it is one")),
        AnyResource::of(any.find::<PoolMemoryResource<()>>().expect("it is one")),
        any.clone(),
    ];
    for one in &handles {
        assert!(handles.iter().all(|other| one == other));
    }
    let pinned = PinnedHostMemoryResource::new();
    let kind = PoolMemoryResource::<MemoryKind>::builder_with_properties(pinned).build();
    let of_kind = AnyResource::<()>::new(kind.expect("a pool"));
    let bare = AnyResource::<()>::of(of_kind.find::<PoolMemoryResource<()>>().expect("it is one"));
    assert_eq!(bare, of_kind);
    assert_eq!(of_kind, bare);
    assert_ne!(of_kind, any);

    let host =
        PoolMemoryResource::<HostAccessible>::builder_with_properties(HostMemoryResource::new());
    let host = host.build().expect("a pool");
    assert!(host.find::<PoolMemoryResource>().is_none(), "the device cannot use its memory");
    assert!(host.find::<PoolMemoryResource<()>>().is_some());
}

#[test]
fn over_cuda_malloc_it_takes_memory_in_its_own_context() {
    let machine = machine(false).devices(2).enter();
    assert_eq!(Device::count().expect("a driver"), 2);
    let mut created = CuContext::NULL;
    // SAFETY: `created` is valid for a write.
    assert_eq!(unsafe { create_context(&raw mut created, 0, CuDevice(1)) }, CuResult::SUCCESS);
    {
        let pool = default_pool().expect("a pool");
        let _first = Device::new(0).and_then(Device::make_current).expect("a device");
        let block = pool.allocate_sync(layout(MIB)).expect("memory");
        let (mut of_block, attribute) = (CuContext::NULL, CuPointerAttribute::CONTEXT);
        let driver = current_driver().expect("the software driver");
        // SAFETY: this attribute is a `CuContext`, which may be written to.
        let code =
            unsafe { driver.cuPointerGetAttribute((&raw mut of_block).cast(), attribute, block) };
        assert_eq!((code, of_block), (CuResult::SUCCESS, created));
        // SAFETY: allocated above with this layout, and not used.
        unsafe { pool.deallocate_sync(block, layout(MIB)) };
    }
    assert_eq!(destroy_context(created), CuResult::SUCCESS);
    machine.assert_no_violations();
}

/// As kernels do, copies of the driver need access to virtual memory. Memory of `cudaMalloc` can be
/// copied without.
#[test]
fn memory_is_copied_by_devices_that_it_is_accessible_from() {
    for (backing, shared, copied) in [
        (DefaultDeviceMemory::VirtualMemory, false, false),
        (DefaultDeviceMemory::VirtualMemory, true, true),
        (DefaultDeviceMemory::CudaMalloc, false, true),
    ] {
        let _machine = machine(true).devices(2).enter();
        let second = Device::new(1).expect("a device");
        let builder = VirtualMemoryResource::builder();
        let pages = if shared { builder.accessible_from(second) } else { builder };
        let builder = match backing {
            DefaultDeviceMemory::CudaMalloc => {
                PoolMemoryResource::builder(CudaMemoryResource::new())
            }
            _ => PoolMemoryResource::builder(pages.build().expect("a resource")),
        };
        let pool = builder.build().expect("a pool");
        let blocks = [(); 2].map(|()| pool.allocate_sync(layout(MIB)).expect("memory"));
        let of_second = {
            let _current = second.make_current().expect("a device");
            stream()
        };
        // SAFETY: both are as long, and no other work uses them.
        let copy = unsafe { copy::device_to_device(blocks[0], blocks[1], MIB, &of_second) };
        assert_eq!(copy.is_ok(), copied, "{backing}, shared: {shared}: {copy:?}");
        of_second.synchronize().expect("it runs");
        for block in blocks {
            // SAFETY: allocated above with this layout; its use has completed.
            unsafe { pool.deallocate_sync(block, layout(MIB)) };
        }
    }
}
