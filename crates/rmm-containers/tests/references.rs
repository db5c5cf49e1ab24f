//! Resource references, as RMM's functions take them: containers and pools made from one outlive
//! it.

use rmm_adaptors::PoolMemoryResource;
use rmm_containers::{DeviceBuffer, DeviceUVector};
use rmm_core::{
    AnyResource, CudaStream, DeviceAsyncResourceRef, Error, HostDeviceAsyncResourceRef, StreamRef,
};
use rmm_resources::{
    CudaMemoryResource, ManagedMemoryResource, current_device_resource, set_current_device_resource,
};

/// `rmm::device_buffer{10, stream, mr}`
fn device_buffer(
    bytes: usize,
    stream: StreamRef<'_>,
    resource: DeviceAsyncResourceRef<'_>,
) -> Result<DeviceBuffer, Error> {
    DeviceBuffer::uninit_in(bytes, stream, &resource.try_to_owned()?)
}

/// `rmm::mr::set_current_device_resource(mr)`
fn set_current(resource: DeviceAsyncResourceRef<'_>) -> Result<AnyResource, Error> {
    set_current_device_resource(&resource.try_to_owned()?)
}

/// `rmm::mr::pool_memory_resource{mr, initial_size}`
fn pool_over(resource: DeviceAsyncResourceRef<'_>) -> Result<PoolMemoryResource, Error> {
    PoolMemoryResource::builder(resource.try_to_owned()?).initial_size(1 << 20).build()
}

#[test]
fn a_buffer_outlives_the_reference_that_it_was_made_from() {
    let machine = rmm_sim::enter();
    let stream = CudaStream::new().unwrap();
    let (buffer, any) = {
        let pool = PoolMemoryResource::builder(CudaMemoryResource::new()).build().unwrap();
        let reference = DeviceAsyncResourceRef::new(&pool);
        let buffer = device_buffer(10, stream.as_stream_ref(), reference).unwrap();
        (buffer, AnyResource::of(&pool))
    };
    assert_eq!((buffer.len(), buffer.resource()), (10, &any));
    let copy = DeviceUVector::from_slice_in(&[1u8, 2, 3], &stream, buffer.resource()).unwrap();
    assert_eq!(copy.to_vec_on(&stream).unwrap(), [1, 2, 3]);
    drop((buffer, copy, any));
    drop(stream);
    assert_eq!(machine.leaks().len(), 0);
}

#[test]
fn a_reference_becomes_the_current_resource() {
    let _machine = rmm_sim::enter();
    let managed = ManagedMemoryResource::new();
    let both = HostDeviceAsyncResourceRef::new(&managed);
    let before = set_current(both.into()).unwrap();
    assert_eq!(current_device_resource().unwrap().downcast_ref(), Some(&managed));
    set_current(before.as_resource_ref()).unwrap();
    assert_eq!(current_device_resource().unwrap(), before);
}

#[test]
fn a_pool_is_built_over_a_reference() {
    let _machine = rmm_sim::enter();
    let upstream = CudaMemoryResource::new();
    let pool = pool_over(DeviceAsyncResourceRef::new(&upstream)).unwrap();
    assert!(pool.upstream().is_equal(&upstream));
    let over_pool = pool_over(DeviceAsyncResourceRef::new(&pool)).unwrap();
    assert!(over_pool.upstream().is_equal(&pool));
}
