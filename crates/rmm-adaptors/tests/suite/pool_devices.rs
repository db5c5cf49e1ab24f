//! Tests of the pool with several devices: calls for another device fail, and nothing depends on
//! which device is current.

use rmm_adaptors::PoolMemoryResource;
use rmm_core::{CudaStream, Device, DeviceGuard, ErrorKind, Resource, StreamRef};
use rmm_resources::CudaAsyncMemoryResource;

use crate::fixtures::pool_on;
use crate::support::{MIB, free, layout, mib, stream, write};
use rmm_sim::{Kernel, Machine, Schedule};
use rmm_sys::CuContext;

fn two_devices() -> Machine {
    Machine::builder().devices(2).memory(64 * MIB).schedule(Schedule::Lazy).build()
}

fn second_device() -> DeviceGuard {
    Device::new(1).and_then(Device::make_current).expect("two devices")
}

fn current_context() -> CuContext {
    let mut context = CuContext::NULL;
    // SAFETY: `context` is valid for a write.
    let code = unsafe { rmm_sim::driver().cuCtxGetCurrent(&raw mut context) };
    assert!(code.is_success());
    context
}

/// Lets kernels of the current device access memory of another context (peer access).
fn allow_use_of(context: CuContext) {
    // SAFETY: the contexts live to the end of the process.
    let code = unsafe { rmm_sim::driver().cuCtxEnablePeerAccess(context, 0) };
    assert!(code.is_success());
}

fn keep_busy_for_long(machine: &Machine, stream: &CudaStream) {
    for _ in 0..5 {
        machine.launch(stream.as_raw(), Kernel::new("busy", |_| {})).expect("a launch");
    }
}

#[test]
fn a_stream_of_another_device_fails() {
    let (machine, _entered, pool, []) = pool_on(two_devices(), |builder| builder);
    let _second = second_device();
    let foreign = stream();
    for stream in [foreign.as_stream_ref(), StreamRef::legacy(), StreamRef::per_thread()] {
        let error = pool.allocate(stream, layout(MIB)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{stream:?}");
    }
    assert_eq!(machine.memory_in_use(1), 0);
}

#[test]
fn a_free_on_a_stream_of_another_device_waits_for_it() {
    let (machine, _entered, pool, [own]) =
        pool_on(two_devices(), |builder| builder.maximum_size(mib(2)));
    let block = pool.allocate(&own, layout(2 * MIB)).unwrap();
    {
        let _second = second_device();
        let foreign = stream();
        keep_busy_for_long(&machine, &foreign);
        free(&pool, foreign.as_stream_ref(), block, 2 * MIB);
        assert!(foreign.is_idle().unwrap());
    }
    let again = pool.allocate(&own, layout(2 * MIB)).unwrap();
    assert_eq!(block, again);
    free(&pool, own.as_stream_ref(), again, 2 * MIB);
}

#[test]
fn a_free_on_a_peer_s_blocking_stream_waits_for_its_default() {
    let (machine, _entered, pool, [own]) =
        pool_on(two_devices(), |builder| builder.maximum_size(mib(2)));
    let block = pool.allocate(&own, layout(2 * MIB)).unwrap();
    own.synchronize().unwrap();
    let first = current_context();
    {
        let _second = second_device();
        allow_use_of(first);
        write(&machine, &CudaStream::legacy(), block, 1);
        // It is ordered after the default stream's work, although nothing was enqueued on it.
        free(&pool, &CudaStream::new().unwrap(), block, 2 * MIB);
    }
    let again = pool.allocate(&own, layout(2 * MIB)).unwrap();
    write(&machine, &own, again, 2);
    machine.assert_no_violations();
    free(&pool, own.as_stream_ref(), again, 2 * MIB);
}

#[test]
fn a_pool_grows_on_its_own_device() {
    let (machine, _entered, pool, [own]) = pool_on(two_devices(), |builder| builder);
    let _second = second_device();
    let block = pool.allocate(&own, layout(MIB)).unwrap();
    assert_eq!((machine.memory_in_use(0), machine.memory_in_use(1)), (2 * MIB, 0));
    free(&pool, own.as_stream_ref(), block, MIB);
}

#[test]
fn a_stream_may_be_destroyed_on_another_device() {
    let (machine, _entered, pool, [first, second]) =
        pool_on(two_devices(), |builder| builder.initial_size(mib(4)).maximum_size(mib(4)));
    let block = pool.allocate(&first, layout(2 * MIB)).unwrap();
    keep_busy_for_long(&machine, &first);
    free(&pool, first.as_stream_ref(), block, 2 * MIB);
    {
        let _second = second_device();
        drop(first);
    }
    let whole = pool.allocate(&second, layout(4 * MIB)).unwrap();
    assert_eq!(pool.statistics().host_waits, 0, "the stream was sealed before it went");
    free(&pool, second.as_stream_ref(), whole, 4 * MIB);
}

#[test]
fn a_pool_may_be_dropped_on_another_device() {
    let machine = two_devices();
    let _entered = machine.enter();
    let pool =
        PoolMemoryResource::builder(CudaAsyncMemoryResource::new().unwrap()).build().unwrap();
    let stream = stream();
    let block = pool.allocate(&stream, layout(MIB)).unwrap();
    let write = Kernel::new("write", move |memory| memory.write(block, &[1; 8]).expect("memory"));
    machine.launch(stream.as_raw(), write.writes(block, 8)).unwrap();
    free(&pool, stream.as_stream_ref(), block, MIB);
    {
        let _second = second_device();
        drop(pool);
    }
    machine.run_all();
    machine.assert_no_violations();
    assert_eq!(machine.memory_in_use(0), 0);
}
