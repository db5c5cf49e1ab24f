//! Tests of who is asked for idle memory: siblings of the resource's own device, those over the
//! limit that has refused, and none that could not help.

use std::thread;

use rmm_adaptors::{
    FixedSizeMemoryResource, GrowthPolicy, LimitingResourceAdaptor, PoolMemoryResource,
};
use rmm_core::{AnyResource, Device, Resource, StreamRef, SynchronousResource};
use rmm_resources::{CudaAsyncMemoryResource, CudaMemoryResource, VirtualMemoryResource};
use rmm_sim::{Machine, Schedule};

use crate::siblings::{Make, arena, hold, hold_pending, machine, pages, pool};
use crate::support::{MIB, Pool, free, keep_busy, layout, mib, stream};

/// Device `number`, current until the guard is dropped.
fn enter_device(number: usize) -> rmm_core::DeviceGuard {
    Device::new(number).and_then(Device::make_current).expect("there are two devices")
}

#[test]
fn siblings_of_the_resource_s_own_device_are_asked() {
    let askers: [(&str, Make); 5] = [
        ("pool", || AnyResource::new(pool())),
        ("pool of pages", || AnyResource::new(pages())),
        ("cuda", || AnyResource::new(CudaMemoryResource::new())),
        ("virtual", || AnyResource::new(VirtualMemoryResource::new().expect("pages"))),
        ("cuda-async", || AnyResource::new(CudaAsyncMemoryResource::new().expect("a pool"))),
    ];
    for (name, make) in askers {
        let machine = Machine::builder().memory(64 * MIB).devices(2).schedule(Schedule::Lazy);
        let _machine = machine.enter();
        let first = enter_device(0);
        let (asker, own, on) = (make(), pool(), stream());
        hold(&own, &on, 48 * MIB);
        drop(first);
        let _second = enter_device(1);
        let elsewhere = pool();
        hold(&elsewhere, &stream(), 48 * MIB);
        let block = asker.allocate(&on, layout(48 * MIB));
        let block = block.unwrap_or_else(|error| panic!("{name}: {error:?}"));
        let reserved = (own.reserved_bytes(), elsewhere.reserved_bytes());
        assert_eq!(reserved, (0, mib(48)), "{name}: the other device's pool was not asked");
        free(&asker, &on, block, 48 * MIB);
    }
}

#[test]
fn a_limit_asks_the_pools_of_all_devices_over_it() {
    for (holder, effort_is_idle) in [(0, true), (1, true), (0, false), (1, false)] {
        for by_pool in [false, true] {
            let machine = Machine::builder().memory(64 * MIB).devices(2).schedule(Schedule::Lazy);
            let machine = machine.enter();
            let limit = LimitingResourceAdaptor::new(CudaMemoryResource::new(), mib(16));
            let pools = [0, 1].map(|device| {
                let _current = enter_device(device);
                let pool = PoolMemoryResource::builder(limit.clone()).build().expect("a pool");
                (pool, stream())
            });
            let (beside, on) = (pool(), stream());
            hold(&beside, &on, 16 * MIB);
            {
                let _current = enter_device(holder);
                let (pool, on) = &pools[holder];
                if effort_is_idle {
                    hold(pool, on, 12 * MIB);
                } else {
                    hold_pending(&machine, pool, on, 12 * MIB);
                }
            }
            let _current = enter_device(1 - holder);
            let (asker, on) = &pools[1 - holder];
            let asker: &dyn Resource = if by_pool { asker } else { &limit };
            let block = asker.do_allocate(StreamRef::from(on), layout(12 * MIB));
            let what = format!("pool of device {holder}, asked by a pool: {by_pool}");
            let block = block.unwrap_or_else(|error| panic!("{what}: {error:?}"));
            assert_eq!(beside.reserved_bytes(), mib(16), "{what}: it is not over the limit");
            // SAFETY: allocated above with this layout; its only stream is the one it is freed on.
            unsafe { asker.do_deallocate(StreamRef::from(on), block, layout(12 * MIB)) };
        }
    }
}

/// Two pools of two devices that need in turn what the other holds within one limit.
#[test]
fn pools_of_two_devices_share_a_limit_on_two_threads() {
    let machine = Machine::builder().memory(64 * MIB).devices(2).enter();
    let limit = LimitingResourceAdaptor::new(CudaMemoryResource::new(), mib(40));
    thread::scope(|scope| {
        for device in 0..2 {
            let (machine, limit) = (&machine, limit.clone());
            scope.spawn(move || {
                let _entered = machine.enter();
                let _current = enter_device(device);
                let pool = PoolMemoryResource::builder(limit).build().expect("a pool");
                let on = stream();
                for round in 0..60 {
                    let bytes = (17 + (round + device) % 4) * MIB;
                    let block = pool.allocate(&on, layout(bytes));
                    let block = block.unwrap_or_else(|error| panic!("round {round}: {error:?}"));
                    keep_busy(machine, &on);
                    free(&pool, &on, block, bytes);
                }
            });
        }
    });
    machine.assert_no_violations();
}

#[test]
fn suballocators_ask_those_over_them() {
    let lowers: [(&str, Make); 3] = [
        ("pool", || {
            let lower = Pool::builder(CudaMemoryResource::new()).maximum_size(mib(16));
            AnyResource::new(lower.build().expect("a pool"))
        }),
        ("arena", || AnyResource::new(arena(mib(16), mib(16)))),
        ("fixed-size", || {
            let blocks = FixedSizeMemoryResource::builder(CudaMemoryResource::new());
            let blocks = blocks.block_size(mib(12)).blocks(1).maximum_size(mib(12));
            AnyResource::new(blocks.build().expect("blocks"))
        }),
    ];
    for (name, make) in lowers {
        let _machine = machine(64).enter();
        let (lower, beside, on) = (make(), pool(), stream());
        hold(&beside, &on, 16 * MIB);
        let [first, second] = [0; 2].map(|_| {
            let upper = PoolMemoryResource::builder(lower.clone()).growth(GrowthPolicy::Exact);
            upper.build().expect("a pool")
        });
        for resource in [&first as &dyn Resource, &second, &lower] {
            let block = resource.do_allocate(StreamRef::from(&on), layout(12 * MIB));
            let block = block.unwrap_or_else(|error| panic!("over {name}: {error:?}"));
            // SAFETY: allocated above with this layout; its only stream is the one it is freed on.
            unsafe { resource.do_deallocate(StreamRef::from(&on), block, layout(12 * MIB)) };
            on.synchronize().expect("it runs");
        }
        assert_eq!(beside.reserved_bytes(), mib(16), "{name}: it is not over it");
    }
}

#[test]
fn a_refusal_that_no_sibling_can_avert_empties_none() {
    type Refuse = fn(&Pool) -> AnyResource;
    let refusals: [(&str, Refuse); 4] = [
        ("a used-up reservation", |lower| {
            let reservation = lower.reserve(mib(8)).expect("there is room");
            let _used = reservation.allocate_sync(layout(6 * MIB)).expect("it is reserved");
            AnyResource::new(reservation)
        }),
        ("a fixed size", |_| {
            let blocks = FixedSizeMemoryResource::builder(CudaMemoryResource::new());
            AnyResource::new(blocks.block_size(mib(1)).blocks(1).build().expect("blocks"))
        }),
        ("a maximum", |_| {
            let capped = Pool::builder(CudaMemoryResource::new()).maximum_size(mib(4));
            AnyResource::new(capped.build().expect("a pool"))
        }),
        ("a limit", |_| {
            AnyResource::new(LimitingResourceAdaptor::new(CudaMemoryResource::new(), mib(4)))
        }),
    ];
    for (name, make) in refusals {
        let _machine = machine(64).enter();
        let (lower, beside, on) = (pool(), pool(), stream());
        let full = make(&lower);
        hold(&beside, &on, 16 * MIB);
        let upper = PoolMemoryResource::builder(full.clone()).growth(GrowthPolicy::Exact);
        let upper = upper.build().expect("a pool");
        for resource in [&upper as &dyn Resource, &full] {
            let refusal = resource.do_allocate(StreamRef::from(&on), layout(6 * MIB));
            assert!(refusal.expect_err("there is none").is_out_of_memory(), "{name}");
        }
        assert_eq!(beside.reserved_bytes(), mib(16), "{name}: it could not help");
    }
}
