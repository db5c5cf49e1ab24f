//! Tests of the figures of running programs. The registry is the process's, and a reading counts as
//! a user of a pool's lock, so one test runs at a time.

use std::alloc::Layout;
use std::sync::{Mutex, MutexGuard, PoisonError};

use rmm_adaptors::monitor::{self, PoolReading};
use rmm_adaptors::{
    BinningMemoryResource, FixedSizeMemoryResource, PoolMemoryResource, PoolStatistics,
    StatisticsResourceAdaptor, Tag, TaggedResourceAdaptor,
};
use rmm_core::{AnyResource, Device, DevicePtr, Error, Introspect as _, SynchronousResource};
use rmm_resources::{
    CudaMemoryResource, CurrentResourceGuard, reset_per_device_resource, set_per_device_resource,
};

#[cfg(feature = "metrics")]
#[path = "monitor/metrics.rs"]
mod metrics;
#[path = "monitor/price.rs"]
mod price;

const MIB: u64 = 1 << 20;

static ALONE: Mutex<()> = Mutex::new(());

fn alone() -> MutexGuard<'static, ()> {
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

fn pool(bytes: u64) -> Result<PoolMemoryResource, Error> {
    PoolMemoryResource::builder(CudaMemoryResource::new()).initial_size(bytes).build()
}

fn layout(bytes: usize) -> Layout {
    Layout::from_size_align(bytes, 256).expect("a layout")
}

fn free(resource: &impl SynchronousResource, block: DevicePtr, bytes: usize) {
    // SAFETY: the tests below free each block once, with its layout, and use none.
    unsafe { resource.deallocate_sync(block, layout(bytes)) };
}

/// What is read under names that begin so.
fn named(prefix: &str) -> Vec<PoolReading> {
    let all = monitor::read().pools.into_iter();
    all.filter(|reading| reading.pool.starts_with(prefix)).collect()
}

/// What is read of this pool.
fn of(pool: &PoolMemoryResource) -> Vec<PoolReading> {
    let all = monitor::read().pools.into_iter();
    all.filter(|reading| reading.statistics == pool.statistics()).collect()
}

#[test]
fn a_registered_pool_is_read_with_its_own_counters_and_device() -> Result<(), Error> {
    let _alone = alone();
    let _machine = rmm_sim::Machine::builder().devices(2).enter();
    let second = Device::new(1)?.make_current()?;
    let pool = pool(4 * MIB)?;
    drop(second);
    monitor::register("own", &pool);
    let block = pool.allocate_sync(layout(1000))?;
    let [reading] = named("own").try_into().expect("one pool");
    assert_eq!(reading.statistics, pool.statistics());
    assert_eq!(reading.statistics.live_bytes, 1024);
    assert_eq!((reading.device, reading.resource), (Some(1), "pool"));
    let maps = monitor::maps();
    let map = maps.iter().find(|map| &*map.pool == "own").expect("it is mapped");
    assert_eq!(map.blocks, pool.blocks());
    free(&pool, block, 1000);
    Ok(())
}

#[test]
fn what_is_registered_is_not_kept_alive() -> Result<(), Error> {
    let _alone = alone();
    let machine = rmm_sim::Machine::new();
    let _entered = machine.enter();
    let free_before = Device::memory_info()?.free;
    let tagged = TaggedResourceAdaptor::new(pool(4 * MIB)?);
    monitor::register("kept", &AnyResource::<rmm_core::DeviceAccessible>::of(&tagged));
    free(&tagged, tagged.allocate_sync(layout(1000))?, 1000);
    assert_eq!(named("kept").len(), 1);
    assert!(monitor::read().tags.iter().any(|tag| &*tag.pool == "kept"));
    drop(tagged);
    assert_eq!(Device::memory_info()?.free, free_before);
    assert!(named("kept").is_empty());
    assert!(!monitor::read().tags.iter().any(|tag| &*tag.pool == "kept"));
    Ok(())
}

#[test]
fn current_resources_of_all_devices_are_read() -> Result<(), Error> {
    let _alone = alone();
    let _machine = rmm_sim::Machine::builder().devices(2).enter();
    let pools = [pool(2 * MIB)?, {
        let _second = Device::new(1)?.make_current()?;
        pool(3 * MIB)?
    }];
    for (ordinal, pool) in pools.iter().enumerate() {
        // An adaptor of its own: handles are seen through.
        let counted = StatisticsResourceAdaptor::new(pool.clone());
        set_per_device_resource(Device::new(ordinal)?, &counted)?;
    }
    for (ordinal, pool) in pools.iter().enumerate() {
        let [reading] = of(pool).try_into().expect("it is read once");
        assert_eq!((&*reading.pool, reading.device), (monitor::CURRENT, Some(ordinal)));
    }
    // A name of its own goes before.
    monitor::register("second", &pools[1]);
    let [reading] = of(&pools[1]).try_into().expect("it is read once");
    assert_eq!(&*reading.pool, "second");
    monitor::unregister("second");
    assert_eq!(&*of(&pools[1])[0].pool, monitor::CURRENT);
    for ordinal in 0..2 {
        reset_per_device_resource(Device::new(ordinal)?)?;
    }
    assert!(of(&pools[0]).is_empty() && of(&pools[1]).is_empty());
    Ok(())
}

#[test]
fn pools_of_a_stack_are_numbered_from_the_top() -> Result<(), Error> {
    let _alone = alone();
    let _machine = rmm_sim::enter();
    let lower = pool(8 * MIB)?;
    let upper = PoolMemoryResource::builder(lower.clone()).initial_size(2 * MIB).build()?;
    let tagged = TaggedResourceAdaptor::new(StatisticsResourceAdaptor::new(upper.clone()));
    monitor::register("stack", &tagged);
    let names = |readings: &[PoolReading]| -> Vec<String> {
        readings.iter().map(|reading| reading.pool.to_string()).collect()
    };
    let readings = named("stack");
    assert_eq!(names(&readings), ["stack", "stack/2"]);
    assert_eq!(readings[0].statistics, upper.statistics());
    assert_eq!(readings[1].statistics, lower.statistics());

    let block = {
        let _scope = Tag::named("numbered").enter();
        tagged.allocate_sync(layout(700))?
    };
    let tags = monitor::read().tags;
    let tag = tags.iter().find(|tag| tag.usage.tag == Tag::named("numbered")).expect("it has some");
    assert_eq!((&*tag.pool, tag.device, tag.usage.live_bytes), ("stack", Some(0), 700));
    assert_eq!(tag.usage, tagged.usage_of(Tag::named("numbered")));
    free(&tagged, block, 700);

    // The name goes to another; `stack/2` was part of it, `stack/other` is not.
    monitor::register("stack/other", &lower);
    monitor::register("stack", &upper);
    assert_eq!(names(&named("stack")), ["stack/other", "stack"]);
    monitor::unregister("stack");
    assert_eq!(names(&named("stack")), ["stack/other"]);
    Ok(())
}

#[test]
fn branches_are_read_and_shared_pools_once() -> Result<(), Error> {
    let _alone = alone();
    let _machine = rmm_sim::enter();
    let upstream = pool(64 * MIB)?;
    let bins = BinningMemoryResource::builder(upstream).bins_of_powers(18..=19)?.build();
    monitor::register("bins", &bins);
    let kinds: Vec<&str> = named("bins").iter().map(|reading| reading.resource).collect();
    assert_eq!(kinds, ["pool", "fixed-size", "fixed-size"]);
    let fixed = bins.find::<FixedSizeMemoryResource>().expect("it has some");
    assert!(named("bins").iter().any(|reading| reading.statistics == fixed.statistics()));
    Ok(())
}

#[test]
fn requests_that_fail_are_counted_once_each() -> Result<(), Error> {
    let _alone = alone();
    let _machine = rmm_sim::enter();
    let builder = PoolMemoryResource::builder(CudaMemoryResource::new());
    let pool = builder.maximum_size(4 * MIB).build()?;
    let failed = || pool.statistics().failed_allocations;
    pool.allocate_sync(layout(8 << 20)).expect_err("it is larger than the pool");
    assert_eq!(failed(), 1);
    let most = pool.allocate_sync(layout(4 << 20))?;
    assert_eq!(failed(), 1);
    // Of a size class, so that it is tried with the class and with the exact size.
    pool.allocate_sync(layout(33_000)).expect_err("the pool is full");
    assert_eq!(failed(), 2);
    free(&pool, most, 4 << 20);
    // There is room for the exact size only.
    let most = pool.allocate_sync(layout((4 << 20) - 33_024))?;
    let block = pool.allocate_sync(layout(33_000))?;
    assert_eq!(failed(), 2);
    free(&pool, block, 33_000);
    free(&pool, most, (4 << 20) - 33_024);
    Ok(())
}

#[test]
fn a_guard_of_the_current_resource_is_enough() -> Result<(), Error> {
    let _alone = alone();
    let _machine = rmm_sim::enter();
    let pool = pool(5 * MIB)?;
    let guard = CurrentResourceGuard::set(&pool)?;
    assert_eq!(of(&pool).len(), 1);
    drop(guard);
    assert_eq!(of(&pool).len(), 0);
    assert_ne!(pool.statistics(), PoolStatistics::default());
    Ok(())
}
