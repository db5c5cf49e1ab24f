//! Two devices: a container is on the device of its stream, whichever device is current.

use rmm_containers::{DeviceBuffer, DeviceScalar, DeviceUVector, PinnedVec};
use rmm_core::{
    Context, CudaStream, Device, DevicePtr, StreamFlags, StreamRef, SynchronousResource as _,
    current_driver,
};
use rmm_resources::{
    CudaAsyncMemoryResource, CudaMemoryResource, current_device_resource, per_device_resource,
    set_per_device_resource,
};
use rmm_sim::{Machine, Schedule};
use rmm_sys::CuPointerAttribute;

fn two_devices() -> Machine {
    Machine::builder().devices(2).memory(64 << 20).schedule(Schedule::Lazy).build()
}

/// The ordinal of the device that the memory is on.
fn device_of(pointer: DevicePtr) -> i32 {
    let driver = current_driver().expect("the software driver");
    let (mut ordinal, attribute) = (-1_i32, CuPointerAttribute::DEVICE_ORDINAL);
    // SAFETY: this attribute is a `c_int`, which may be written to.
    let code =
        unsafe { driver.cuPointerGetAttribute((&raw mut ordinal).cast(), attribute, pointer) };
    assert!(code.is_success(), "{code}");
    ordinal
}

#[test]
fn containers_are_on_the_device_of_their_stream() {
    let machine = two_devices().enter();
    let second = Device::new(1).unwrap();
    let (stream, context, pool) = {
        let _current = second.make_current().unwrap();
        let stream = CudaStream::with_flags(StreamFlags::NON_BLOCKING, 0).unwrap();
        (stream, Context::current().unwrap(), CudaAsyncMemoryResource::new().unwrap())
    };
    set_per_device_resource(second, &pool).unwrap();
    // Device 0 is current, and has another resource.
    assert!(!current_device_resource().unwrap().is_equal(&pool));
    let vector = DeviceUVector::from_slice(&[1u32, 2, 3], &stream).unwrap();
    assert!(vector.resource().is_equal(&pool));
    assert_eq!(device_of(vector.as_ptr()), 1);
    assert_eq!(vector.to_vec_on(&stream).unwrap(), [1, 2, 3]);
    let scalar = DeviceScalar::new(1.5f32, &stream).unwrap();
    assert_eq!(device_of(scalar.as_ptr()), 1);
    let buffer = DeviceBuffer::uninit_in(100, &stream, &CudaMemoryResource::new()).unwrap();
    assert_eq!((device_of(buffer.as_ptr()), buffer.context()), (1, context));
    assert_eq!(Device::current().unwrap().ordinal(), 0, "the current device is unchanged");
    drop((vector, scalar, buffer));
    stream.synchronize().unwrap();
    machine.assert_no_violations();
    assert_eq!(per_device_resource(Device::new(0).unwrap()).unwrap().name(), "cuda");
}

#[test]
fn a_resource_of_another_device_is_refused() {
    let _machine = two_devices().enter();
    let of_first = CudaAsyncMemoryResource::new().unwrap();
    let stream = {
        let _current = Device::new(1).unwrap().make_current().unwrap();
        CudaStream::new().unwrap()
    };
    let refused = DeviceUVector::from_slice_in(&[1u32], &stream, &of_first).unwrap_err();
    assert!(refused.is_invalid_argument(), "{refused}");
}

#[test]
fn a_copy_from_another_device_waits_for_its_default_stream() {
    let machine = two_devices().enter();
    let default = StreamRef::legacy();
    let resource = CudaAsyncMemoryResource::new().unwrap();
    let mut first = DeviceUVector::<u32>::uninit_in(4, default, &resource).unwrap();
    let _second_is_current = Device::new(1).unwrap().make_current().unwrap();
    let resource = CudaAsyncMemoryResource::new().unwrap();
    let mut second = DeviceUVector::<u32>::uninit_in(4, default, &resource).unwrap();
    first.fill(1).unwrap(); // enqueued only
    second.as_slice_mut().copy_from_on(first.as_slice(), default).unwrap();
    assert_eq!(second.to_vec_on(default).unwrap(), [1; 4]);
    machine.run_all();
    machine.assert_no_violations();
}

#[test]
fn streams_of_two_devices_take_turns_with_one_vector() {
    let machine = two_devices().enter();
    let mut pinned = PinnedVec::<u32>::zeroed(1).unwrap();
    let vectors: Vec<_> = (0..2)
        .map(|number| {
            let _current = Device::new(number).unwrap().make_current().unwrap();
            let stream = CudaStream::with_flags(StreamFlags::NON_BLOCKING, 0).unwrap();
            DeviceUVector::from_slice(&[u32::try_from(number).unwrap()], &stream).unwrap()
        })
        .collect();
    // Each copy makes the end marker of an earlier one spare. An event can be recorded on streams
    // of its own device only.
    for round in 0..6 {
        let vector = &vectors[round / 2 % 2];
        pinned.copy_from_device(vector.as_slice(), vector.stream()).unwrap();
    }
    assert_eq!(pinned.as_slice().unwrap(), [0]);
    drop((vectors, pinned));
    machine.assert_no_violations();
}
