//! Tests of what an error says about a device that is full.

use rmm_adaptors::{
    LimitingResourceAdaptor, PoolMemoryResource, StatisticsResourceAdaptor, Tag,
    TaggedResourceAdaptor, ThreadSafeResourceAdaptor,
};
use rmm_core::{AnyResource, Error, Resource, SynchronousResource};
use rmm_resources::{CudaMemoryResource, PinnedHostMemoryResource, VirtualMemoryResource};
use rmm_sim::{Machine, Schedule};

use crate::driver_pools::{From, Library};
use crate::siblings::ASKERS;
use crate::support::{MIB, Pool, free, layout, mib, stream};

fn machine() -> Machine {
    Machine::builder().memory(64 * MIB).schedule(Schedule::Lazy).build()
}

fn named(name: &str) -> Pool {
    Pool::builder(CudaMemoryResource::new()).name(name).build().expect("a pool")
}

/// Names, with the bytes reserved and live.
fn holders(error: &Error) -> Vec<(&'static str, u64, u64)> {
    let device = error.device_usage().expect("the device has refused");
    device.pools.iter().map(|(name, usage)| (*name, usage.reserved, usage.live)).collect()
}

#[test]
fn every_resource_names_who_holds_the_device() {
    for (who, make) in ASKERS {
        let machine = machine().enter();
        let (asker, on) = (make(), stream());
        let (weights, cache, library) =
            (named("weights"), named("cache"), Library::new(From::Default, u64::MAX));
        let plain = CudaMemoryResource::new();
        let past = plain.allocate(&on, layout(4 * MIB)).unwrap();
        let of_library = library.allocate(8 * MIB);
        let blocks = [
            weights.allocate(&on, layout(12 * MIB)).unwrap(),
            cache.allocate(&on, layout(6 * MIB)).unwrap(),
        ];
        let error = asker.allocate(&on, layout(48 * MIB)).expect_err("others hold it");
        let (all, device) = (holders(&error), error.device_usage().unwrap());
        let has = |holder| assert!(all.contains(&holder), "{who}: {all:?}");
        has(("weights", mib(12), mib(12)));
        has(("cache", mib(6), mib(6)));
        has(("driver-pools", mib(32), mib(8)));
        assert_eq!(device.memory.total, mib(64), "{who}");
        // What the asker has reserved is not listed where the error has it anyway.
        let listed: u64 = all.iter().map(|(_, reserved, _)| reserved).sum();
        let own = error.usage().map_or(0, |usage| usage.reserved);
        let rest = mib(64) - device.memory.free - listed - own;
        assert!(device.elsewhere == mib(4) && rest >= mib(4), "{who}: {error}");
        let text = error.to_string();
        for part in [
            "of the device's 64.0 MiB, ",
            "driver-pools holds 32.0 MiB (8.0 MiB live), ",
            "weights holds 12.0 MiB (12.0 MiB live), cache holds 6.0 MiB (6.0 MiB live)",
            "4.0 MiB are held by other processes, by contexts, or without a pool",
            ": free some of it, or request less",
        ] {
            assert!(text.contains(part), "{who}: no `{part}` in {text}");
        }
        assert!(!text.contains('\n'), "{who}: {text}");
        library.free(of_library);
        free(&plain, &on, past, 4 * MIB);
        free(&weights, &on, blocks[0], 12 * MIB);
        free(&cache, &on, blocks[1], 6 * MIB);
        drop((asker, weights, cache, library));
        machine.assert_no_violations();
    }
}

#[test]
fn a_pool_over_a_pool_counts_once() {
    let _machine = machine().enter();
    let (lower, on) = (named("lower"), stream());
    let limited = LimitingResourceAdaptor::new(lower.clone(), mib(64));
    let upper = PoolMemoryResource::builder(limited).name("upper").build().unwrap();
    let block = upper.allocate(&on, layout(32 * MIB)).unwrap();
    let error = named("asker").allocate(&on, layout(48 * MIB)).unwrap_err();
    assert_eq!(holders(&error), [("lower", mib(32), mib(32))]);
    assert_eq!(error.device_usage().unwrap().elsewhere, 0);
    free(&upper, &on, block, 32 * MIB);
}

#[test]
fn a_message_names_the_four_largest_holders() {
    let _machine = machine().enter();
    let on = stream();
    let pools = ["a", "b", "c", "d", "e", "f"].map(named);
    let blocks = pools.each_ref().map(|pool| pool.allocate(&on, layout(8 * MIB)).unwrap());
    let error = named("asker").allocate(&on, layout(32 * MIB)).unwrap_err();
    assert_eq!(holders(&error).len(), 6);
    let text = error.to_string();
    assert!(text.contains("2 more pools hold 16.0 MiB: free"), "{text}");
    for (pool, block) in pools.iter().zip(blocks) {
        free(pool, &on, block, 8 * MIB);
    }
}

#[test]
fn an_error_of_a_limit_names_no_holder_of_the_device() {
    let _machine = machine().enter();
    let on = stream();
    let capped = Pool::builder(CudaMemoryResource::new()).maximum_size(mib(4)).build().unwrap();
    let limited = LimitingResourceAdaptor::new(CudaMemoryResource::new(), mib(4));
    let over = PoolMemoryResource::builder(limited.clone()).build().unwrap();
    for resource in [AnyResource::new(capped), AnyResource::new(limited), AnyResource::new(over)]
        as [AnyResource; 3]
    {
        let error = resource.allocate(&on, layout(8 * MIB)).unwrap_err();
        assert!(error.device_usage().is_none(), "{error}");
    }
    let pinned = PinnedHostMemoryResource::new();
    let error = PoolMemoryResource::builder(pinned).build().unwrap();
    let error = error.allocate_sync(layout(1 << 60)).unwrap_err();
    assert!(error.device_usage().is_none(), "that is no memory of the device: {error}");
}

#[test]
fn errors_name_the_three_largest_tags() {
    let _machine = machine().enter();
    let on = stream();
    let pool = named("pool");
    let tagged = TaggedResourceAdaptor::new(StatisticsResourceAdaptor::new(pool));
    let sizes = [("loader", 2), ("model", 16), ("cache", 8), ("small", 1)];
    let blocks = sizes.map(|(tag, size)| {
        let _scope = Tag::named(tag).enter();
        (tagged.allocate(&on, layout(size * MIB)).unwrap(), size * MIB)
    });
    let error = tagged.allocate(&on, layout(48 * MIB)).unwrap_err();
    let text = error.to_string();
    let named = "; largest tags: model 16.0 MiB, cache 8.0 MiB, loader 2.0 MiB; of the device's";
    assert!(text.contains(named), "{text}");
    for (block, size) in blocks {
        free(&tagged, &on, block, size);
    }
}

#[test]
fn adaptors_with_locks_pass_on_who_holds_the_device() {
    let _machine = machine().enter();
    let (holder, on) = (named("holder"), stream());
    let block = holder.allocate(&on, layout(32 * MIB)).unwrap();
    let pages = PoolMemoryResource::builder(VirtualMemoryResource::new().unwrap()).build().unwrap();
    let resources: [AnyResource; 3] = [
        AnyResource::new(ThreadSafeResourceAdaptor::new(CudaMemoryResource::new())),
        AnyResource::new(ThreadSafeResourceAdaptor::new(named("below"))),
        AnyResource::new(StatisticsResourceAdaptor::new(ThreadSafeResourceAdaptor::new(pages))),
    ];
    for resource in resources {
        let error = resource.allocate(&on, layout(48 * MIB)).unwrap_err();
        assert_eq!(holders(&error), [("holder", mib(32), mib(32))], "{error}");
    }
    free(&holder, &on, block, 32 * MIB);
}
