//! Constructors on machines that lack a capability.

use rmm_core::{Device, Error, ErrorKind};
use rmm_resources::{
    CudaAsyncManagedMemoryResource, CudaAsyncMemoryResource, CudaAsyncPinnedMemoryResource,
    CudaAsyncViewMemoryResource, ExportHandleTypes, SamHeadroomMemoryResource,
    SystemMemoryResource, VirtualMemoryResource,
};
use rmm_sim::MachineBuilder;
use rmm_sys::{CuDeviceAttribute as Attribute, CuMemPool};

use crate::short::{lazy, unified};

/// Asserts that the constructor fails on the machine, with this message.
#[track_caller]
fn refused<R>(machine: MachineBuilder, make: impl Fn() -> Result<R, Error>, words: &str) {
    let machine = machine.enter();
    let Err(error) = make() else { panic!("made, although it should be refused: {words}") };
    assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
    assert_eq!(error.to_string(), words);
    assert_eq!(machine.leaks().len(), 0);
}

#[test]
fn the_refusal_names_the_device_and_what_it_lacks() {
    refused(
        lazy(),
        SystemMemoryResource::new,
        "system is not supported here: device 0 cannot use pageable memory of the host",
    );
    refused(
        lazy(),
        || SamHeadroomMemoryResource::new(0),
        "sam-headroom is not supported here: device 0 cannot use pageable memory of the host",
    );
    refused(
        unified().driver_version(12010),
        || SamHeadroomMemoryResource::new(0),
        "sam-headroom is not supported here: advice on where memory is kept needs a driver of CUDA 12.2",
    );
    let no_pools = || lazy().attribute(Attribute::MEMORY_POOLS_SUPPORTED, 0);
    refused(
        no_pools(),
        CudaAsyncMemoryResource::new,
        "cuda-async is not supported here: device 0 has no memory pools",
    );
    refused(
        no_pools(),
        || CudaAsyncViewMemoryResource::of_default_pool(Device::current()?),
        "cuda-async-view is not supported here: device 0 has no memory pools",
    );
    refused(
        lazy().attribute(Attribute::VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, 0),
        VirtualMemoryResource::new,
        "virtual is not supported here: device 0 has no virtual memory management",
    );
    refused(
        lazy().attribute(Attribute::MEMPOOL_SUPPORTED_HANDLE_TYPES, 1),
        || {
            let both = ExportHandleTypes::POSIX_FILE_DESCRIPTOR | ExportHandleTypes::FABRIC;
            CudaAsyncMemoryResource::builder().export_handle_types(both).build()
        },
        "cuda-async is not supported here: device 0 cannot export pools to ExportHandleTypes(FABRIC)",
    );
    refused(
        lazy().driver_version(12010),
        || CudaAsyncMemoryResource::builder().maximum_size(1 << 30).build(),
        "cuda-async is not supported here: a maximum size of a pool needs a driver of CUDA 12.2",
    );
    refused(
        lazy().driver_version(12090),
        CudaAsyncManagedMemoryResource::new,
        "cuda-async-managed is not supported here: a pool of managed memory needs a driver of CUDA 13.0",
    );
    refused(
        lazy().attribute(Attribute::CONCURRENT_MANAGED_ACCESS, 0),
        CudaAsyncManagedMemoryResource::new,
        "cuda-async-managed is not supported here: device 0 has no managed memory that the host may use at the same time",
    );
    refused(
        lazy().driver_version(12090),
        CudaAsyncPinnedMemoryResource::new,
        "cuda-async-pinned is not supported here: device 0 has no pools of host memory",
    );
    refused(
        lazy(),
        || CudaAsyncPinnedMemoryResource::builder().numa_node(0).build(),
        "cuda-async-pinned is not supported here: device 0 has no pools of host memory on a NUMA node",
    );
}

#[test]
fn a_null_pool_is_no_pool() {
    let _machine = lazy().enter();
    // SAFETY: there is no pool.
    let error = unsafe { CudaAsyncViewMemoryResource::from_raw(CuMemPool::NULL) }.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
}
