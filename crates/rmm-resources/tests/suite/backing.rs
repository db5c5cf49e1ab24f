//! The choice between virtual memory and `cudaMalloc`.

use rmm_core::{AnyResource, ErrorKind, Introspect, Resource, SynchronousResource};
use rmm_resources::{
    CudaMemoryResource, DefaultDeviceMemory, Export, ExportHandleTypes, ManagedMemoryResource,
    VirtualMemoryResource,
};
use rmm_sim::{Fault, MachineBuilder};
use rmm_sys::{CuDeviceAttribute as Attribute, CuResult};

use crate::short::{MIB, calls, layout, lazy, stream};

/// A machine whose devices have no virtual memory management.
fn older() -> MachineBuilder {
    lazy().attribute(Attribute::VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, 0)
}

/// Allocates a block with a stream and one without, and frees them.
fn use_once(resource: &AnyResource) {
    let (stream, size) = (stream(), layout(MIB, 256));
    let block = resource.allocate(&stream, size).expect("memory");
    // SAFETY: allocated above with this layout; its only stream is the one it is freed on.
    unsafe { resource.deallocate(&stream, block, size) };
    let block = resource.allocate_sync(size).expect("memory");
    // SAFETY: allocated above with this layout, and not used.
    unsafe { resource.deallocate_sync(block, size) };
}

#[test]
fn memory_is_virtual_where_the_device_has_it() {
    for (machine, backing, name, function) in [
        (lazy(), DefaultDeviceMemory::VirtualMemory, "virtual", "cuMemMap"),
        (older(), DefaultDeviceMemory::CudaMalloc, "cuda", "cuMemAlloc_v2"),
    ] {
        let machine = machine.enter();
        let resource = DefaultDeviceMemory::of_device().expect("memory");
        assert_eq!((DefaultDeviceMemory::of(&resource), resource.name()), (Some(backing), name));
        use_once(&resource);
        assert_eq!(calls(&machine, function), 2, "a call for each block");
        assert_eq!(
            resource.as_extendable().is_some(),
            backing == DefaultDeviceMemory::VirtualMemory
        );
        drop(resource);
        machine.assert_no_violations();
        assert_eq!(machine.leaks().len(), 0);
    }
}

#[test]
fn a_stack_has_the_backing_of_what_is_below() {
    let _machine = lazy().enter();
    let pages = AnyResource::<()>::new(VirtualMemoryResource::new().expect("memory"));
    assert_eq!(DefaultDeviceMemory::of(&pages), Some(DefaultDeviceMemory::VirtualMemory));
    assert_eq!(
        DefaultDeviceMemory::of(&Box::new(CudaMemoryResource::new())),
        Some(DefaultDeviceMemory::CudaMalloc)
    );
    assert_eq!(DefaultDeviceMemory::of(&ManagedMemoryResource::new()), None);
}

/// A failure is an error, and no reason for another kind of memory.
#[test]
fn only_a_refusal_as_unsupported_leads_to_cuda_malloc() {
    let granularity = "cuMemGetAllocationGranularity";
    for (code, outcome) in [
        (CuResult::NOT_SUPPORTED, Ok(Some(DefaultDeviceMemory::CudaMalloc))),
        (CuResult::UNKNOWN, Err(ErrorKind::Driver)),
        (CuResult::OUT_OF_MEMORY, Err(ErrorKind::OutOfMemory)),
    ] {
        let machine = lazy().enter();
        machine.fail(Fault::nth(granularity, 1, code));
        let made = DefaultDeviceMemory::of_device();
        assert_eq!(
            made.map(|made| DefaultDeviceMemory::of(&made)).map_err(|error| error.kind()),
            outcome
        );
    }
}

#[test]
fn virtual_memory_is_for_rdma_where_the_device_can() {
    let attribute = Attribute::GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED;
    for has_rdma in [1, 0] {
        let _machine = lazy().attribute(attribute, has_rdma).enter();
        let resource = DefaultDeviceMemory::of_device().expect("memory");
        assert_eq!(DefaultDeviceMemory::of(&resource), Some(DefaultDeviceMemory::VirtualMemory));
        use_once(&resource);
        let required = VirtualMemoryResource::builder().rdma(true).build();
        assert_eq!(required.is_ok(), has_rdma == 1);
    }
}

#[test]
fn virtual_memory_is_for_other_processes_where_the_device_can() {
    let (file, none) = (ExportHandleTypes::POSIX_FILE_DESCRIPTOR, ExportHandleTypes::empty());
    let attribute = Attribute::HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED;
    // What the attribute says, and how the driver answers when a page is made to find out.
    for (says_yes, answer, expected) in [
        (0, None, Ok(none)),
        (1, None, Ok(file)),
        (1, Some(CuResult::NOT_PERMITTED), Ok(none)),
        (1, Some(CuResult::OUT_OF_MEMORY), Ok(none)),
        (1, Some(CuResult::UNKNOWN), Err(ErrorKind::Driver)),
    ] {
        let machine = lazy().attribute(attribute, says_yes).enter();
        if let Some(code) = answer {
            machine.fail(Fault::nth("cuMemCreate", 1, code));
        }
        let made = DefaultDeviceMemory::of_device();
        let handles = made.as_ref().map(|made| made.try_property::<Export>().unwrap().handles);
        assert_eq!(handles.map_err(rmm_core::Error::kind), expected, "{says_yes} {answer:?}");
        if let Ok(resource) = &made {
            use_once(resource);
        }
        drop(made);
        assert_eq!(machine.leaks().len(), 0);
    }
}
