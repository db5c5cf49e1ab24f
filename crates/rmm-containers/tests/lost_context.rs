//! Containers whose device is reset return an error that says so, and free no memory of the next
//! context. New containers work.

use rmm_containers::{DeviceUVector, PinnedVec};
use rmm_core::{CudaStream, Device};
use rmm_resources::{CudaMemoryResource, VirtualMemoryResource};
use rmm_sim::{Kernel, Machine, Schedule};
use rmm_sys::CuResult;

fn reset() {
    let device = Device::new(0).expect("a device").as_raw();
    // SAFETY: the library supports a reset followed by what these tests do.
    let code = unsafe { rmm_sim::driver().cuDevicePrimaryCtxReset_v2(device) };
    assert_eq!(code, CuResult::SUCCESS);
}

const HOST: [u32; 1024] = [7; 1024];

#[test]
fn a_container_owned_by_another_devices_stream_outlives_a_reset() {
    let machine = Machine::builder().devices(2).memory(64 << 20).schedule(Schedule::Lazy).enter();
    let (cuda, own) = (CudaMemoryResource::new(), CudaStream::new().expect("the device works"));
    let of_second = {
        let second = Device::new(1).and_then(Device::make_current);
        let _current = second.expect("the device works");
        CudaStream::new().expect("the device works")
    };
    let mut vector = DeviceUVector::from_slice_in(&HOST, &own, &cuda).expect("the device works");
    // This stream outlives the reset, and does not indicate that the memory is gone.
    vector.set_stream(&of_second).expect("the device works");
    reset();
    let _next_is_current = Device::new(0).and_then(Device::make_current).expect("the device works");
    let stream = CudaStream::new().expect("the device works");
    let next = DeviceUVector::from_slice_in(&HOST, &stream, &cuda).expect("the device works");
    assert_eq!(next.as_ptr(), vector.as_ptr(), "the driver reuses the address");
    drop(vector);
    assert_eq!(next.to_vec_on(&stream).expect("it is still there"), HOST);
    drop(next);
    machine.assert_no_violations();
}

#[test]
fn a_container_whose_owning_stream_ended_is_not_freed_early() {
    let machine = Machine::builder().devices(2).memory(64 << 20).schedule(Schedule::Lazy).enter();
    let first = Device::new(1).and_then(Device::make_current).expect("the device works");
    let own = CudaStream::new().expect("the device works");
    let resource = VirtualMemoryResource::new().expect("the device works");
    let mut vector = DeviceUVector::<u32>::uninit_in(1024, &own, &resource).expect("it works");
    let used = vector.use_on_mut(&own).expect("the device works");
    let slow = Kernel::new("slow", |_| ()).writes(used.as_ptr(), used.bytes());
    machine.launch(own.as_raw(), slow).expect("it is enqueued");
    let of_other = {
        let _current = Device::new(0).and_then(Device::make_current).expect("the device works");
        CudaStream::new().expect("the device works")
    };
    vector.set_stream(&of_other).expect("it waits for the kernel");
    reset();
    drop(vector);
    // No wait has shown that the kernel is complete.
    assert_eq!(resource.statistics().blocks, 1);
    own.synchronize().expect("the device works");
    machine.assert_no_violations();
    drop(first);
}

#[test]
fn an_idle_host_vector_of_a_reset_context_frees_no_memory() {
    let machine = Machine::builder().memory(64 << 20).enter();
    // No work uses it, so that its drop has nothing to wait for.
    let old = PinnedVec::from_slice(&HOST).expect("the device works");
    reset();
    let _next_is_current = Device::new(0).and_then(Device::make_current).expect("the device works");
    let next = PinnedVec::from_slice(&HOST).expect("the device works");
    drop(old); // the reset freed its memory, whose address may be that of `next`
    assert_eq!(next.as_slice().expect("the device works"), HOST);
    drop(next);
    assert!(machine.leaks().is_empty(), "{:?}", machine.leaks());
    machine.assert_no_violations();
}
