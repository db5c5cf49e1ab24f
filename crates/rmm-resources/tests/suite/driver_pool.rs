//! Driver pools: attributes, access and sharing.

use rmm_core::{Device, ErrorKind, Resource, SynchronousResource, current_driver};
use rmm_resources::{
    CudaAsyncManagedMemoryResource, CudaAsyncMemoryResource, CudaAsyncPinnedMemoryResource,
    DriverPool, ExportHandleTypes, ImportedPool, PoolReuse,
};
use rmm_sys::{CuDeviceAttribute, CuMemAccessFlags, CuMemAllocationType, CuMemLocationType};

use crate::short::{MIB, layout, lazy, mib, stream};

#[test]
fn counters_follow_what_is_allocated() {
    let _machine = lazy().enter();
    let resource = CudaAsyncMemoryResource::new().unwrap();
    let pool = resource.pool();
    let (stream, asked) = (stream(), layout(MIB, 256));
    let pointer = resource.allocate(&stream, asked).unwrap();
    assert_eq!(pool.used_bytes().unwrap(), 1 << 20);
    // SAFETY: allocated above with this layout; its only stream is this one.
    unsafe { resource.deallocate(&stream, pointer, asked) };
    assert_eq!((pool.used_bytes().unwrap(), pool.peak_used_bytes().unwrap()), (0, 1 << 20));
    stream.synchronize().unwrap();
    assert!(pool.reserved_bytes().unwrap() >= 1 << 20, "nothing is released by itself");
    resource.trim(0).unwrap();
    assert_eq!(pool.reserved_bytes().unwrap(), 0);
    assert_eq!(pool.peak_reserved_bytes().unwrap(), resource.peak_reserved_bytes().unwrap());
    assert!(pool.peak_reserved_bytes().unwrap() >= 1 << 20);
    pool.reset_peaks().unwrap();
    assert_eq!((pool.peak_used_bytes().unwrap(), pool.peak_reserved_bytes().unwrap()), (0, 0));
}

#[test]
fn the_release_threshold_decides_what_is_retained() {
    let _machine = lazy().enter();
    let resource = CudaAsyncMemoryResource::builder().release_threshold(0).build().unwrap();
    let use_some = || {
        let pointer = resource.allocate_sync(layout(MIB, 256)).unwrap();
        // SAFETY: allocated just now with this layout, and not used.
        unsafe { resource.deallocate_sync(pointer, layout(MIB, 256)) };
        resource.reserved_bytes().unwrap()
    };
    assert_eq!(use_some(), 0);
    resource.pool().set_release_threshold(u64::MAX).unwrap();
    assert_eq!(resource.pool().release_threshold().unwrap(), u64::MAX);
    assert!(use_some() > 0);
}

#[test]
fn reuse_is_read_back_as_it_was_set() {
    let _machine = lazy().enter();
    let resource = CudaAsyncMemoryResource::new().unwrap();
    let pool = resource.pool();
    assert_eq!(pool.reuse().unwrap(), PoolReuse::all());
    for bits in 0..8 {
        let reuse = PoolReuse::from_bits(bits).unwrap();
        pool.set_reuse(reuse).unwrap();
        assert_eq!(pool.reuse().unwrap(), reuse);
    }
}

#[test]
fn access_is_granted_and_revoked() {
    let _machine = lazy().devices(3).enter();
    let [own, other, third] = [0, 1, 2].map(|number| Device::new(number).unwrap());
    let resource = CudaAsyncMemoryResource::new().unwrap();
    let pool = resource.pool();
    let access = |device| pool.access(device).unwrap();
    let (none, all) = (CuMemAccessFlags::NONE, CuMemAccessFlags::READ_WRITE);
    assert_eq!([own, other, third].map(access), [all, none, none]);
    pool.grant_access(&[]).unwrap();
    pool.grant_access(&[other, third]).unwrap();
    assert_eq!([own, other, third].map(access), [all; 3]);
    // SAFETY: no work uses the pool.
    unsafe { pool.revoke_access(&[third]) }.unwrap();
    assert_eq!([own, other, third].map(access), [all, all, none]);
    // SAFETY: as above.
    unsafe { pool.revoke_access(&[own]) }.unwrap_err();
    assert_eq!(access(own), all);
}

#[test]
fn an_export_from_a_device_without_support_is_an_error() {
    use std::os::fd::AsFd;
    let _machine = lazy().enter();
    let resource = CudaAsyncMemoryResource::new().unwrap();
    let pool = resource.pool();
    let refused = pool.export_file_descriptor().unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Unsupported, "{refused}");
    let pointer = resource.allocate_sync(layout(MIB, 256)).unwrap();
    let refused = pool.export_pointer(pointer).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Unsupported, "{refused}");
    // SAFETY: allocated above with this layout, and not used.
    unsafe { resource.deallocate_sync(pointer, layout(MIB, 256)) };
    let refused = ImportedPool::from_file_descriptor(std::io::stdin().as_fd()).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Unsupported, "{refused}");
}

#[cfg(target_os = "linux")]
#[test]
fn an_imported_pool_leads_to_the_exporters_memory() {
    use std::os::fd::AsFd;
    let machine = lazy().attribute(CuDeviceAttribute::MEMPOOL_SUPPORTED_HANDLE_TYPES, 1).enter();
    let types = ExportHandleTypes::POSIX_FILE_DESCRIPTOR;
    let resource = CudaAsyncMemoryResource::builder().export_handle_types(types).build().unwrap();
    let (home, away) = (stream(), stream());
    let pointer = resource.allocate(&home, layout(MIB, 256)).unwrap();
    home.synchronize().unwrap();
    machine.write(pointer, &[3; 16]).unwrap();

    let file = resource.pool().export_file_descriptor().unwrap();
    let imported = ImportedPool::from_file_descriptor(file.as_fd()).unwrap();
    drop(file);
    let name = resource.pool().export_pointer(pointer).unwrap();
    // SAFETY: the name is that of a live allocation of the pool that was imported.
    let theirs = unsafe { imported.import_pointer(name) }.unwrap();
    let mut found = [0; 16];
    machine.read(theirs, &mut found).unwrap();
    assert_eq!(found, [3; 16]);
    // SAFETY: imported above, and no work uses it.
    unsafe { imported.release(away.as_stream_ref(), theirs) };
    away.synchronize().unwrap();
    // SAFETY: allocated above with this layout; the import was released.
    unsafe { resource.deallocate(&home, pointer, layout(MIB, 256)) };
    drop((imported, resource));
    machine.assert_no_violations();
}

#[test]
fn a_pool_reports_its_creation_attributes() {
    let _machine = lazy()
        .devices(2)
        .driver_version(13020)
        .attribute(CuDeviceAttribute::HOST_NUMA_MEMORY_POOLS_SUPPORTED, 1)
        .enter();
    let facts = |pool: &DriverPool| {
        assert!(pool.export_handle_types().unwrap().is_empty());
        let place = pool.location().unwrap();
        (pool.allocation_type().unwrap(), place.kind, place.id, pool.maximum_size().unwrap())
    };
    let (fixed, moving) = (CuMemAllocationType::PINNED, CuMemAllocationType::MANAGED);
    let pinned = CudaAsyncPinnedMemoryResource::builder().maximum_size(mib(8)).build().unwrap();
    assert_eq!(facts(pinned.pool()), (fixed, CuMemLocationType::HOST, 0, 8 << 20));
    let on_node = CudaAsyncPinnedMemoryResource::builder().numa_node(0).build().unwrap();
    assert_eq!(facts(on_node.pool()), (fixed, CuMemLocationType::HOST_NUMA, 0, 0));
    let _second = Device::new(1).unwrap().make_current().unwrap();
    let own = CudaAsyncMemoryResource::builder().maximum_size(mib(64)).build().unwrap();
    assert_eq!(facts(own.pool()), (fixed, CuMemLocationType::DEVICE, 1, 64 << 20));
    let managed = CudaAsyncManagedMemoryResource::builder().build().unwrap();
    assert_eq!(
        managed.pool().access(Device::current().unwrap()).unwrap(),
        CuMemAccessFlags::NONE,
        "no block needs any"
    );
    assert_eq!(facts(managed.pool()), (moving, CuMemLocationType::DEVICE, 1, 0));
}

#[test]
fn creation_attributes_need_a_newer_driver() {
    let _machine = lazy().driver_version(13010).enter();
    let resource = CudaAsyncMemoryResource::new().unwrap();
    let pool = resource.pool();
    for error in [
        pool.allocation_type().unwrap_err(),
        pool.location().unwrap_err(),
        pool.maximum_size().unwrap_err(),
        pool.export_handle_types().unwrap_err(),
        pool.is_hardware_decompress_enabled().unwrap_err(),
    ] {
        assert_eq!(error.kind(), ErrorKind::Unsupported);
        let words = "DriverPool is not supported here: what a pool was made with needs a driver of CUDA 13.2";
        assert_eq!(error.to_string(), words);
    }
}

#[test]
fn nothing_is_freed_on_a_stream_whose_context_was_reset() {
    let machine = lazy().enter();
    let resource = CudaAsyncMemoryResource::new().unwrap();
    let (old, asked) = (stream(), layout(MIB, 256));
    let pointer = resource.allocate(&old, asked).unwrap();
    let device = Device::current().unwrap();
    // SAFETY: what follows is what the library promises to bear.
    let code = unsafe { current_driver().unwrap().cuDevicePrimaryCtxReset_v2(device.as_raw()) };
    assert!(code.is_success(), "{code}");
    let _next_is_current = device.make_current().unwrap();
    // Its handle may equal that of the old one.
    let _new = stream();
    // SAFETY: allocated above with this layout on this stream; all work has ended with the context.
    unsafe { resource.deallocate(&old, pointer, asked) };
    let frees = machine.call_counts().into_iter().filter(|&(name, _)| name == "cuMemFreeAsync");
    assert_eq!(frees.map(|(_, count)| count).sum::<u64>(), 0, "it stays allocated");
    machine.assert_no_violations();
}
