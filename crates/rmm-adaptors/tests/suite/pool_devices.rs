//! Tests of the pool with several devices: calls for another device fail, and nothing depends on
//! which device is current.

use rmm_adaptors::{
    ArenaMemoryResource, BinningMemoryResource, FallbackMemoryResource, FixedSizeMemoryResource,
    LimitingResourceAdaptor, PoolMemoryResource, PoolPreset,
};
use rmm_core::{AnyResource, CudaStream, Device, DeviceGuard, ErrorKind, Resource};
use rmm_resources::{CudaAsyncMemoryResource, CudaMemoryResource, VirtualMemoryResource};

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
    let error = pool.allocate(&foreign, layout(MIB)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    assert_eq!(machine.memory_in_use(1), 0);
}

#[test]
fn suballocators_are_of_a_device_that_may_use_the_memory() {
    let machine = two_devices().enter();
    let pages = VirtualMemoryResource::new().expect("virtual memory of the first device");
    let below = PoolMemoryResource::builder(pages.clone()).build().expect("it is current");
    let second = second_device();
    let refused = [
        PoolMemoryResource::builder(pages.clone()).build().err(),
        PoolMemoryResource::builder(LimitingResourceAdaptor::new(pages.clone(), 64 << 20))
            .build()
            .err(),
        PoolMemoryResource::builder(below).build().err(),
        FixedSizeMemoryResource::builder(pages.clone()).blocks(1).build().err(),
        ArenaMemoryResource::builder(pages.clone()).build().err(),
    ];
    for error in refused {
        let error = error.expect("the second device may not use it");
        assert_eq!(error.kind(), ErrorKind::InvalidArgument);
        let text = error.to_string();
        assert!(text.contains("device 1 is current, and may not use the memory of"), "{text}");
    }
    pages.grant_access(Device::new(1).expect("two devices")).expect("they are peers");
    let pool = PoolMemoryResource::builder(pages).build().expect("it may use it");
    let own = stream();
    let block = pool.allocate(&own, layout(MIB)).expect("there is memory");
    write(&machine, &own, block, 7);
    free(&pool, &own, block, MIB);
    drop((pool, second));
    machine.assert_no_violations();
}

/// How many suballocators there are.
const SUBALLOCATORS: usize = 6;

/// Suballocators of the current device.
fn suballocators() -> [(&'static str, AnyResource); SUBALLOCATORS] {
    let upstream = CudaMemoryResource::new;
    let pool = || {
        PoolMemoryResource::builder(upstream())
            .maximum_size(mib(8))
            .build()
            .expect("there is memory")
    };
    let blocks = |bytes| {
        let builder = FixedSizeMemoryResource::builder(upstream()).block_size(bytes).blocks(2);
        builder.build().expect("there is memory")
    };
    let bins =
        BinningMemoryResource::builder(pool()).bin_of(4096, blocks(4096)).expect("there is memory");
    let arena = ArenaMemoryResource::builder(upstream())
        .arena_size(mib(8))
        .build()
        .expect("there is memory");
    let compact = PoolMemoryResource::builder(upstream()).preset(PoolPreset::Compact);
    let reserved =
        FallbackMemoryResource::new(pool().reserve(mib(3)).expect("there is memory"), pool());
    [
        ("pool", AnyResource::new(pool())),
        (
            "compact pool",
            AnyResource::new(compact.maximum_size(mib(8)).build().expect("there is memory")),
        ),
        ("fixed size", AnyResource::new(blocks(mib(2)))),
        ("binning", AnyResource::new(bins.build())),
        ("arena", AnyResource::new(arena)),
        ("reservation", AnyResource::new(reserved)),
    ]
}

/// Allocates a block, writes to it on the stream, and frees it.
fn use_block(machine: &Machine, resource: &AnyResource, on: &CudaStream, bytes: usize, tag: u64) {
    let block = resource.allocate(on, layout(bytes)).expect("it is served");
    write(machine, on, block, tag);
    free(resource, on, block, bytes);
}

#[test]
fn a_default_stream_of_another_device_is_served_in_its_order() {
    for number in 0..SUBALLOCATORS {
        for is_legacy in [true, false] {
            for bytes in [1000, 100_000, 2 * MIB] {
                for uses_before in 0..3 {
                    let machine = two_devices().enter();
                    let first_device = Device::new(0).and_then(Device::make_current).unwrap();
                    let (name, resource) = suballocators().into_iter().nth(number).unwrap();
                    let what = format!("{name}, legacy {is_legacy}, {bytes} bytes, {uses_before}");
                    let first = current_context();
                    let default = || {
                        if is_legacy { CudaStream::legacy() } else { CudaStream::per_thread() }
                    };
                    // Whether the stream is known, and the thread has a cached block.
                    for tag in 0..uses_before {
                        use_block(&machine, &resource, &default(), bytes, tag);
                    }
                    {
                        let _second = second_device();
                        allow_use_of(first);
                        for tag in 10..13 {
                            use_block(&machine, &resource, &default(), bytes, tag);
                        }
                    }
                    for tag in 20..23 {
                        use_block(&machine, &resource, &default(), bytes, tag);
                    }
                    machine.run_all();
                    let violations = machine.violations();
                    assert!(violations.is_empty(), "{what}: {violations:?}");
                    drop(resource);
                    drop(first_device);
                    assert_eq!(machine.memory_in_use(1), 0, "{what}");
                }
            }
        }
    }
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
    let machine = two_devices().enter();
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
