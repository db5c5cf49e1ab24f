//! Pools and streams of different devices: the stream decides when memory may be used.

use std::ffi::c_int;

use rmm_sim::{Machine, MachineGuard, Schedule};
use rmm_sys::{
    CuContext, CuDevice, CuDevicePtr, CuMemPool, CuMemPoolAttribute, CuResult, CuStream,
};

use crate::common::{Log, MIB, enter, event, peek, stream};

/// A machine of two devices with 32 MiB each, of which the first is current.
fn two_devices() -> (Machine, MachineGuard) {
    enter(Machine::builder().devices(2).memory(32 * MIB).schedule(Schedule::Lazy).build())
}

/// Runs a closure with the second device current.
fn on_the_second<R>(run: impl FnOnce() -> R) -> R {
    let mut context = CuContext::NULL;
    ok!(cuDevicePrimaryCtxRetain(&raw mut context, CuDevice(1)));
    ok!(cuCtxPushCurrent_v2(context));
    let result = run();
    ok!(cuCtxPopCurrent_v2(&raw mut context));
    result
}

fn pool_of(device: c_int) -> CuMemPool {
    let mut pool = CuMemPool::NULL;
    ok!(cuDeviceGetDefaultMemPool(&raw mut pool, CuDevice(device)));
    pool
}

fn alloc_from(pool: CuMemPool, bytes: usize, stream: CuStream) -> Result<CuDevicePtr, CuResult> {
    let mut pointer = CuDevicePtr::NULL;
    cu!(cuMemAllocFromPoolAsync(&raw mut pointer, bytes, pool, stream)).result().map(|()| pointer)
}

#[test]
fn the_order_of_an_allocation_is_that_of_the_stream() {
    let (machine, _here) = two_devices();
    let (first, second) = (stream(), on_the_second(stream));
    let pointer = alloc_from(pool_of(0), MIB, second).unwrap();
    ok!(cuMemsetD8Async(pointer, 7, MIB, second));
    ok!(cuMemFreeAsync(pointer, second));
    let other = alloc_from(pool_of(0), MIB, first).unwrap();
    assert_ne!(other, pointer, "nothing orders the free before it");
    assert_eq!(
        alloc_from(pool_of(0), MIB, second),
        Ok(pointer),
        "the stream itself is ordered after it"
    );
    ok!(cuMemFreeAsync(pointer, second));
    let event = on_the_second(event);
    ok!(cuEventRecord(event, second));
    ok!(cuStreamWaitEvent(first, event, 0));
    assert_eq!(alloc_from(pool_of(0), MIB, first), Ok(pointer), "an event orders them");
    ok!(cuMemsetD8Async(pointer, 8, MIB, first));
    ok!(cuStreamSynchronize(first));
    assert_eq!(peek(&machine, pointer), 8);
    machine.assert_no_violations();
}

#[test]
fn memory_freed_on_a_stream_of_another_device_is_waited_for() {
    let (machine, _here) = two_devices();
    let (pool, mut no) = (pool_of(0), 0_u64);
    let internal = CuMemPoolAttribute::REUSE_ALLOW_INTERNAL_DEPENDENCIES;
    ok!(cuMemPoolSetAttribute(pool, internal, (&raw mut no).cast()));
    let (first, second, log) = (stream(), on_the_second(stream), Log::default());
    let all = alloc_from(pool, 32 * MIB, second).unwrap();
    log.enqueue(&machine, second, 1);
    ok!(cuMemFreeAsync(all, second));
    assert_eq!(alloc_from(pool, 32 * MIB, first), Ok(all), "rather than refused");
    assert_eq!(log.seen(), [1]);
}
