//! Peer access: kernels need it for memory of another device, copies do not.

use std::ffi::c_int;

use rmm_sim::{Kernel, Machine, MachineGuard, Schedule, ViolationKind};
use rmm_sys::{
    CuContext, CuDevice, CuDevicePtr, CuMemAccessDesc, CuMemAccessFlags, CuMemLocation,
    CuMemLocationType, CuMemPool, CuResult, CuStream,
};

use crate::common::{MIB, alloc, alloc_async, default_pool, enter, peek, stream};

/// A machine of two devices, of which the first is current, and a stream of the second.
fn two_devices() -> (Machine, MachineGuard, CuStream) {
    let machine = Machine::builder().devices(2).memory(64 * MIB).schedule(Schedule::Lazy).build();
    let (machine, entered) = enter(machine);
    let second = on_the_second(stream);
    (machine, entered, second)
}

fn on_the_second<R>(run: impl FnOnce() -> R) -> R {
    let mut context = CuContext::NULL;
    ok!(cuDevicePrimaryCtxRetain(&raw mut context, CuDevice(1)));
    ok!(cuCtxPushCurrent_v2(context));
    let result = run();
    ok!(cuCtxPopCurrent_v2(&raw mut context));
    result
}

/// Gives the second device access to memory of the first.
fn enable_peers() {
    let mut first = CuContext::NULL;
    ok!(cuCtxGetCurrent(&raw mut first));
    on_the_second(|| ok!(cuCtxEnablePeerAccess(first, 0)));
}

fn grant(pool: CuMemPool, device: c_int, flags: CuMemAccessFlags) {
    let location = CuMemLocation { kind: CuMemLocationType::DEVICE, id: device };
    let access = CuMemAccessDesc { location, flags };
    ok!(cuMemPoolSetAccess(pool, &raw const access, 1));
}

fn write(machine: &Machine, stream: CuStream, pointer: CuDevicePtr) -> Result<(), CuResult> {
    let kernel = Kernel::new("write", move |memory| {
        // A refused access is reported.
        let _ignored = memory.write(pointer, &[9; 64]);
    });
    machine.launch(stream, kernel.writes(pointer, 64))
}

fn read(machine: &Machine, stream: CuStream, pointer: CuDevicePtr) -> Result<(), CuResult> {
    machine.launch(stream, Kernel::new("read", |_| {}).reads(pointer, 64))
}

fn kinds(machine: &Machine) -> Vec<ViolationKind> {
    machine.violations().iter().map(|violation| violation.kind).collect()
}

#[test]
fn a_kernel_needs_peer_access_to_memory_of_another_device() {
    let (machine, _here, second) = two_devices();
    let memory = alloc(64);
    assert_eq!(read(&machine, second, memory), Err(CuResult::INVALID_VALUE));
    assert_eq!(write(&machine, second, memory), Err(CuResult::INVALID_VALUE));
    assert_eq!(kinds(&machine), [ViolationKind::NoAccess; 2]);
    let detail = machine.violations()[0].detail.clone();
    assert!(detail.contains("of device 0 that device 1 may not read"), "{detail}");
    assert!(detail.contains("without cuCtxEnablePeerAccess"), "{detail}");
}

#[test]
fn a_kernel_with_peer_access_may_use_memory_of_another_device() {
    let (machine, _here, second) = two_devices();
    enable_peers();
    let memory = alloc(64);
    write(&machine, second, memory).unwrap();
    ok!(cuStreamSynchronize(second));
    assert_eq!(peek(&machine, memory), 9);
    machine.assert_no_violations();
}

#[test]
fn peer_access_is_one_directional() {
    let (machine, _here, _) = two_devices();
    enable_peers();
    let (theirs, first) = (on_the_second(|| alloc(64)), stream());
    assert_eq!(write(&machine, first, theirs), Err(CuResult::INVALID_VALUE));
    assert_eq!(kinds(&machine), [ViolationKind::NoAccess]);
}

#[test]
fn memory_of_a_pool_needs_access_to_the_pool() {
    let (machine, _here, second) = two_devices();
    // Peer access has no effect on pools.
    enable_peers();
    let (pool, first) = (default_pool(), stream());
    let memory = alloc_async(64, first);
    ok!(cuStreamSynchronize(first));
    assert_eq!(write(&machine, second, memory), Err(CuResult::INVALID_VALUE));
    let detail = machine.violations()[0].detail.clone();
    assert!(detail.contains("without cuMemPoolSetAccess"), "{detail}");

    grant(pool, 1, CuMemAccessFlags::READ);
    read(&machine, second, memory).unwrap();
    assert_eq!(write(&machine, second, memory), Err(CuResult::INVALID_VALUE));
    grant(pool, 1, CuMemAccessFlags::READ_WRITE);
    write(&machine, second, memory).unwrap();
    ok!(cuStreamSynchronize(second));
    assert_eq!((peek(&machine, memory), machine.violations().len()), (9, 2));
}

#[test]
fn access_that_is_revoked_before_the_kernel_runs_is_missed() {
    let (machine, _here, second) = two_devices();
    let (pool, first) = (default_pool(), stream());
    grant(pool, 1, CuMemAccessFlags::READ_WRITE);
    let memory = alloc_async(64, first);
    ok!(cuMemsetD8Async(memory, 1, 64, first));
    ok!(cuStreamSynchronize(first));
    write(&machine, second, memory).unwrap();
    grant(pool, 1, CuMemAccessFlags::NONE);
    ok!(cuStreamSynchronize(second));
    assert_eq!((kinds(&machine), peek(&machine, memory)), (vec![ViolationKind::NoAccess], 1));
}

#[test]
fn copies_need_no_peer_access() {
    let (machine, _here, second) = two_devices();
    let (ours, theirs) = (alloc(64), on_the_second(|| alloc(64)));
    ok!(cuMemsetD8_v2(ours, 4, 64));
    ok!(cuCtxSynchronize());
    ok!(cuMemcpyAsync(theirs, ours, 64, second));
    ok!(cuStreamSynchronize(second));
    assert_eq!(peek(&machine, theirs), 4);
    machine.assert_no_violations();
}
