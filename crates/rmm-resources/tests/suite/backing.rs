//! The choice between virtual memory and `cudaMalloc`, and memory of either kind.

use rmm_core::{AnyResource, Device, ErrorKind, Introspect, Metric, Resource, SyncResource};
use rmm_resources::{
    Backing, BackingMemoryResource, BackingMemoryResourceBuilder, CudaMemoryResource,
    VirtualMemoryResource,
};
use rmm_sim::{Fault, MachineBuilder};
use rmm_sys::{CuDeviceAttribute as Attribute, CuResult};

use crate::short::{MIB, calls, device_of, layout, lazy, stream, stream_of_second};

/// A machine whose devices have no virtual memory management.
fn older() -> MachineBuilder {
    lazy().attribute(Attribute::VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, 0)
}

fn demanding(backing: Backing) -> Result<BackingMemoryResource, rmm_core::Error> {
    BackingMemoryResource::builder().backing(backing).build()
}

/// Allocates a block of each kind and frees it, and returns the names of the stack.
fn used(resource: &BackingMemoryResource) -> Vec<&'static str> {
    let (stream, size) = (stream(), layout(MIB, 256));
    let block = resource.allocate(&stream, size).expect("memory");
    // SAFETY: allocated above with this layout; its only stream is the one it is freed on.
    unsafe { resource.deallocate(&stream, block, size) };
    let block = resource.allocate_sync(size).expect("memory");
    // SAFETY: allocated above with this layout, and not used.
    unsafe { resource.deallocate_sync(block, size) };
    resource.stack().map(SyncResource::name).collect()
}

#[test]
fn the_backing_is_virtual_memory_where_the_device_has_it() {
    for (machine, backing, names, function) in [
        (lazy(), Backing::VirtualMemory, ["backing", "virtual"], "cuMemMap"),
        (older(), Backing::CudaMalloc, ["backing", "cuda"], "cuMemAlloc_v2"),
    ] {
        let machine = machine.build();
        let _entered = machine.enter();
        let resource = BackingMemoryResource::new().unwrap();
        assert_eq!(resource.backing(), backing);
        assert_eq!(used(&resource), names);
        assert_eq!(calls(&machine, function), 2, "a call for each block");
        assert_eq!(resource.as_extendable().is_some(), backing == Backing::VirtualMemory);
        assert_eq!(
            resource.find::<VirtualMemoryResource>().is_some(),
            resource.as_extendable().is_some()
        );
        let memory = Metric::Text(backing.to_string());
        assert_eq!(resource.describe().metric("memory"), Some(&memory));
        assert!(
            AnyResource::<()>::new(resource.clone()).find::<BackingMemoryResource>()
                == Some(&resource)
        );
        drop(resource);
        machine.assert_no_violations();
        assert_eq!(machine.leaks().len(), 0);
    }
}

#[test]
fn cuda_malloc_is_used_where_it_is_demanded() {
    let machine = lazy().build();
    let _entered = machine.enter();
    let resource = demanding(Backing::CudaMalloc).unwrap();
    assert_eq!(resource.backing(), Backing::CudaMalloc);
    assert_eq!(used(&resource), ["backing", "cuda"]);
    assert!(resource.find::<CudaMemoryResource>().is_some());
    assert_eq!((calls(&machine, "cuMemCreate"), calls(&machine, "cuMemAddressReserve")), (0, 0));
    let report = "backing: memory cudaMalloc, reason demanded\n└─ cuda";
    assert_eq!(resource.describe().to_string(), report);
}

#[test]
fn a_demand_that_cannot_be_met_says_what_to_do() {
    let machine = older().build();
    let _entered = machine.enter();
    let error = demanding(Backing::VirtualMemory).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    assert_eq!(
        error.to_string(),
        "backing is not supported here: `backing(VirtualMemory)` needs virtual memory that \
         device 0 lacks: leave it out to have `cudaMalloc`"
    );
    let cause = std::error::Error::source(&error).expect("what the device lacks");
    assert!(cause.to_string().contains("device 0 has no virtual memory management"), "{cause}");
}

#[test]
fn an_option_of_virtual_memory_is_never_dropped() {
    let machine = older().devices(2).build();
    let _entered = machine.enter();
    let shared = || BackingMemoryResource::builder().accessible_from(Device::new(1).unwrap());
    let error = shared().build().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    assert!(error.to_string().contains("`accessible_from` needs virtual memory"), "{error}");
    let error = shared().backing(Backing::CudaMalloc).build().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    assert!(error.to_string().contains("`accessible_from`"), "{error}");
}

#[test]
fn virtual_memory_may_be_shared_with_another_device() {
    let machine = lazy().devices(2).build();
    let _entered = machine.enter();
    let resource = BackingMemoryResource::builder().accessible_from(Device::new(1).unwrap());
    let resource = resource.build().unwrap();
    let (second, size) = (stream_of_second(), layout(MIB, 256));
    let block = resource.allocate(&second, size).expect("a stream of the other device is served");
    // SAFETY: allocated above with this layout; its only stream is the one it is freed on.
    unsafe { resource.deallocate(&second, block, size) };
}

/// A failure is an error, and no reason for another kind of memory.
#[test]
fn only_a_refusal_as_unsupported_leads_to_cuda_malloc() {
    let granularity = "cuMemGetAllocationGranularity";
    for (code, outcome) in [
        (CuResult::NOT_SUPPORTED, Ok(Backing::CudaMalloc)),
        (CuResult::UNKNOWN, Err(ErrorKind::Driver)),
        (CuResult::OUT_OF_MEMORY, Err(ErrorKind::OutOfMemory)),
    ] {
        let machine = lazy().build();
        let _entered = machine.enter();
        machine.fail(Fault::nth(granularity, 1, code));
        let made = BackingMemoryResource::new();
        assert_eq!(made.map(|made| made.backing()).map_err(|error| error.kind()), outcome);
    }
}

#[test]
fn memory_is_of_the_device_on_which_the_resource_was_made() {
    for backing in [Backing::VirtualMemory, Backing::CudaMalloc] {
        let machine = lazy().devices(2).build();
        let _entered = machine.enter();
        let (resource, size) = (demanding(backing).unwrap(), layout(MIB, 256));
        let second = stream_of_second();
        let _current = Device::new(1).unwrap().make_current().unwrap();
        let block = resource.allocate_sync(size).unwrap();
        assert_eq!(device_of(block), 0, "{backing}");
        assert_eq!(Device::current().unwrap().ordinal(), 1, "it is current still");
        // SAFETY: allocated above with this layout, and not used.
        unsafe { resource.deallocate_sync(block, size) };
        let refused = resource.allocate(&second, size).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::InvalidArgument, "{refused}");
        assert!(refused.to_string().contains("the stream is of device 1"), "{refused}");
    }
}

#[test]
fn clones_are_equal_and_others_are_not() {
    let machine = lazy().devices(2).build();
    let _entered = machine.enter();
    let ranges = [(); 2].map(|()| demanding(Backing::VirtualMemory).unwrap());
    assert!(ranges[0] == ranges[0].clone() && ranges[0] != ranges[1]);
    let plain = demanding(Backing::CudaMalloc).unwrap();
    assert!(plain == demanding(Backing::CudaMalloc).unwrap() && plain != ranges[0]);
    let _current = Device::new(1).unwrap().make_current().unwrap();
    assert!(plain != demanding(Backing::CudaMalloc).unwrap(), "memory of another device");
}

/// The backing of a resource that was used, or the kind of error.
fn makes(builder: BackingMemoryResourceBuilder) -> Result<Backing, ErrorKind> {
    let resource = builder.build().map_err(|error| error.kind())?;
    used(&resource);
    Ok(resource.backing())
}

#[test]
fn memory_is_for_rdma_where_the_device_has_virtual_memory_for_it() {
    let attribute = Attribute::GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED;
    let builder = BackingMemoryResource::builder;
    let (mapped, plain) = (Ok(Backing::VirtualMemory), Ok(Backing::CudaMalloc));
    for (has_rdma, required) in [(1, mapped), (0, plain)] {
        let machine = lazy().attribute(attribute, has_rdma).build();
        let _entered = machine.enter();
        assert_eq!(makes(builder()), mapped);
        assert_eq!(makes(builder().rdma(false)), mapped);
        assert_eq!(makes(builder().rdma(true)), required);
        assert_eq!(makes(builder().rdma(true).backing(Backing::CudaMalloc)), plain);
        let both = makes(builder().rdma(true).backing(Backing::VirtualMemory));
        assert_eq!(both, if has_rdma == 1 { mapped } else { Err(ErrorKind::Unsupported) });
    }
    let machine = older().build();
    let _entered = machine.enter();
    assert_eq!(makes(builder().rdma(true)), plain);
}

#[test]
fn shareable_memory_is_virtual_or_refused() {
    let attribute = Attribute::HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED;
    {
        let machine = lazy().attribute(attribute, 1).build();
        let _entered = machine.enter();
        assert_eq!(
            makes(BackingMemoryResource::builder().shareable(true)),
            Ok(Backing::VirtualMemory)
        );
    }
    let builder = || BackingMemoryResource::builder().shareable(true);
    for machine in [lazy().attribute(attribute, 0), older().attribute(attribute, 1)] {
        let machine = machine.build();
        let _entered = machine.enter();
        assert_eq!(makes(builder()), Err(ErrorKind::Unsupported));
        let refused = builder().backing(Backing::CudaMalloc).build().unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::InvalidArgument);
    }
}
