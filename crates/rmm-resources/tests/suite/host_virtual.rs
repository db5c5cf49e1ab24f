//! Virtual memory of the host.

use std::alloc::Layout;

use rmm_core::{
    AnyResource, CudaStream, Device, ErrorKind, ExtendableResource, HostAccessible, Introspect,
    MemoryKind, Resource, SynchronousResource,
};
use rmm_resources::{
    Export, ExportHandleTypes, HostVirtualMemoryResource, ImportAccess, ImportedMemory, Location,
    VirtualMemoryResource, export_range,
};
use rmm_sim::Kernel;
use rmm_sys::{CuDeviceAttribute, CuDevicePtr};

use crate::short::{MIB, unified};

const PAGE: usize = 2 * MIB;
const FILE: ExportHandleTypes = ExportHandleTypes::POSIX_FILE_DESCRIPTOR;

fn layout(bytes: usize) -> Layout {
    crate::short::layout(bytes, 256)
}

fn bytes_at<'a>(start: rmm_core::DevicePtr, len: usize) -> &'a mut [u8] {
    let address = usize::try_from(start.0).expect("it fits");
    let start: *mut u8 = std::ptr::with_exposed_provenance_mut(address);
    // SAFETY: memory of a resource that the host may use, while no work does.
    unsafe { std::slice::from_raw_parts_mut(start, len) }
}

#[test]
fn the_host_and_several_devices_use_the_same_bytes() {
    let machine = unified().devices(3).enter();
    let device_memory = machine.memory_in_use(0);
    let resource = HostVirtualMemoryResource::new().unwrap();
    let block = resource.allocate_sync(layout(3 * MIB)).unwrap();
    assert_eq!(machine.memory_in_use(0), device_memory, "it is the host's");
    assert_eq!(resource.statistics().mapped_bytes, 4 << 20);
    bytes_at(block, 3 * MIB).fill(6);
    let mut found = [0; 8];
    machine.read(CuDevicePtr(block.0 + 1000), &mut found).unwrap();
    assert_eq!(found, [6; 8]);
    let other = Device::new(1).unwrap();
    let stream = {
        let _current = other.make_current().unwrap();
        CudaStream::new().unwrap()
    };
    let error = resource.allocate(&stream, layout(MIB)).unwrap_err();
    assert!(error.is_invalid_argument() && error.to_string().contains("grant_access"), "{error}");
    resource.grant_access(other).unwrap();
    let kernel = Kernel::new("reads", |_| ()).reads(CuDevicePtr(block.0), MIB);
    machine.launch(stream.as_raw(), kernel).unwrap();
    stream.synchronize().unwrap();
    let theirs = resource.allocate(&stream, layout(MIB)).unwrap();
    // SAFETY: allocated above with this layout, and not used.
    unsafe { resource.deallocate(&stream, theirs, layout(MIB)) };
    // SAFETY: allocated above with this layout, and its uses are complete.
    unsafe { resource.deallocate_sync(block, layout(3 * MIB)) };
    drop((stream, resource));
    machine.assert_no_violations();
    assert_eq!(machine.leaks(), []);
}

#[test]
fn a_node_is_not_taken_for_the_device_of_its_number() {
    let machine = unified().devices(2).enter();
    let (zero, one) = (Device::new(0).unwrap(), Device::new(1).unwrap());
    let stream = CudaStream::new().unwrap();
    let resource = {
        let _current = one.make_current().unwrap();
        VirtualMemoryResource::builder().build_at(Location::HostNuma(0)).unwrap()
    };
    let error = resource.allocate(&stream, layout(MIB)).unwrap_err();
    assert!(error.is_invalid_argument() && error.to_string().contains("grant_access"), "{error}");
    resource.grant_access(zero).unwrap();
    let block = resource.allocate(&stream, layout(MIB)).unwrap();
    let kernel = Kernel::new("reads", |_| ()).reads(CuDevicePtr(block.0), MIB);
    machine.launch(stream.as_raw(), kernel).unwrap();
    stream.synchronize().unwrap();
    // SAFETY: allocated above with this layout, and its uses are complete.
    unsafe { resource.deallocate(&stream, block, layout(MIB)) };
    drop((stream, resource));
    machine.assert_no_violations();
    assert_eq!(machine.leaks(), []);
}

#[test]
fn it_says_what_it_is_also_after_erasure() {
    let _machine = unified().enter();
    let builder = VirtualMemoryResource::builder().page_size(4 << 20).export(FILE);
    let resource = builder.build_at(Location::HostNuma(0)).unwrap();
    assert_eq!((resource.page_size(), resource.name()), (4 << 20, "host-virtual"));
    let erased: AnyResource = AnyResource::new(resource);
    assert!(erased.has_property::<HostAccessible>());
    assert_eq!(erased.try_property::<MemoryKind>(), Some(MemoryKind::Pinned));
    assert_eq!(erased.try_property::<Export>().unwrap().handles, FILE);
}

#[test]
fn what_is_exported_is_used_by_device_and_host_where_it_is_imported() {
    let machine = unified().enter();
    let builder = VirtualMemoryResource::builder().export(FILE);
    let resource = builder.build_at(Location::default()).unwrap();
    let block = resource.allocate_sync(layout(PAGE)).unwrap();
    bytes_at(block, PAGE).fill(8);
    let device = Device::new(0).unwrap();
    let map = || {
        let pieces = export_range(block, PAGE as u64).unwrap();
        ImportedMemory::map(pieces, device, ImportAccess::ReadWrite).unwrap()
    };
    let memory = map();
    assert_ne!(memory.as_ptr(), block);
    assert_eq!(bytes_at(memory.as_ptr(), PAGE), vec![8; PAGE]);
    bytes_at(memory.as_ptr(), 16).fill(9);
    let mut found = [0; 17];
    machine.read(CuDevicePtr(block.0), &mut found).unwrap();
    assert_eq!(found, [&[9; 16][..], &[8]].concat()[..]);
    // SAFETY: allocated above with this layout, and not used.
    unsafe { resource.deallocate_sync(block, layout(PAGE)) };
    // The memory lives as long as it is mapped.
    assert_eq!(bytes_at(memory.as_ptr(), 1), [9]);
    drop((memory, resource));
    machine.assert_no_violations();
    assert_eq!(machine.leaks(), []);
}

#[test]
fn what_the_machine_lacks_is_named() {
    let lacks = |attribute| {
        let _machine = unified().attribute(attribute, 0).enter();
        HostVirtualMemoryResource::new().unwrap_err()
    };
    let error = lacks(CuDeviceAttribute::HOST_NUMA_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED);
    assert!(error.is_unsupported() && error.to_string().contains("of the host"), "{error}");
    assert!(lacks(CuDeviceAttribute::VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED).is_unsupported());
    let _machine = unified().attribute(CuDeviceAttribute::HOST_NUMA_ID, 0).enter();
    let build = |location| VirtualMemoryResource::builder().build_at(location);
    build(Location::HostNumaOfDevice).unwrap();
    let error = build(Location::HostNuma(1)).unwrap_err();
    assert!(error.is_invalid_argument() && error.to_string().contains("NUMA node 1"), "{error}");
    let error = build(Location::HostNuma(u32::MAX)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    let rdma = VirtualMemoryResource::builder().rdma(true).build_at(Location::HostNuma(0));
    assert!(rdma.unwrap_err().to_string().contains("RDMA"));
    let fabric = VirtualMemoryResource::builder().export(ExportHandleTypes::FABRIC);
    let error = fabric.build_at(Location::HostNuma(0)).unwrap_err();
    assert!(error.is_unsupported() && error.to_string().contains("as fabric handles"), "{error}");
    let resource = build(Location::HostNuma(0)).unwrap();
    let most = resource.most_bytes().unwrap();
    let layout = layout(usize::try_from(most).unwrap() + PAGE);
    assert!(resource.allocate_sync(layout).unwrap_err().is_out_of_memory());
}
