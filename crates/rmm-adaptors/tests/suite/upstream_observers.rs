//! What a pool reports to its observers of the memory that it has from upstream.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use rmm_adaptors::{Contents, PoolMemoryResource, UpstreamChange, UpstreamObserver};
use rmm_core::{DevicePtr, SynchronousResource};
use rmm_resources::{CudaMemoryResource, VirtualMemoryResource};
use rmm_sim::{Fault, Machine};
use rmm_sys::CuResult;

use crate::support::{MIB, layout};

/// The memory that a pool has, as it told.
#[derive(Clone)]
struct Told {
    machine: Machine,
    ranges: Arc<Mutex<BTreeMap<u64, u64>>>,
}

impl Told {
    fn on(machine: &Machine) -> Self {
        Self { machine: machine.clone(), ranges: Arc::default() }
    }

    fn observe(&self, pool: &PoolMemoryResource) -> UpstreamObserver {
        let told = self.clone();
        pool.observe_upstream(move |change| told.note(*change))
    }

    fn note(&self, change: UpstreamChange) {
        let mut ranges = self.ranges.lock().unwrap_or_else(PoisonError::into_inner);
        let in_use = self.machine.memory_in_use(0) as u64;
        let told = ranges.values().sum::<u64>();
        match change {
            UpstreamChange::Allocated { base, bytes } => {
                let before = ranges.range(..base.0 + bytes).next_back();
                assert!(before.is_none_or(|(start, size)| start + size <= base.0), "twice");
                assert!(in_use >= told + bytes, "it is not there yet");
                ranges.insert(base.0, bytes);
            }
            UpstreamChange::Released { base, bytes } => {
                assert_eq!(ranges.remove(&base.0), Some(bytes), "it was not there");
                assert!(in_use >= told, "it is gone already");
            }
            other => panic!("{other:?}"),
        }
    }

    fn bytes(&self) -> u64 {
        self.ranges.lock().expect("nothing was wrong").values().sum()
    }

    fn has(&self, block: DevicePtr, bytes: usize) -> bool {
        let ranges = self.ranges.lock().expect("nothing was wrong");
        let (mut at, end) = (block.0, block.0 + bytes as u64);
        while at < end {
            let Some((start, size)) = ranges.range(..=at).next_back() else { return false };
            if start + size <= at {
                return false;
            }
            at = start + size;
        }
        true
    }
}

fn over_virtual_memory() -> PoolMemoryResource {
    let upstream = VirtualMemoryResource::new().expect("virtual memory");
    PoolMemoryResource::builder(upstream).build().expect("a pool")
}

fn over_cuda_malloc() -> PoolMemoryResource {
    PoolMemoryResource::builder(CudaMemoryResource::new()).build().expect("a pool")
}

/// Frees a block that no work uses.
fn free(pool: &PoolMemoryResource, block: DevicePtr, bytes: usize) {
    // SAFETY: the tests allocated it with this size, and enqueue no work.
    unsafe { pool.deallocate_sync(block, layout(bytes)) };
}

#[test]
fn every_range_is_told_before_it_is_used_and_before_it_goes() {
    for make in [over_virtual_memory, over_cuda_malloc] {
        let machine = Machine::builder().memory(256 << 20).enter();
        let (pool, told) = (make(), Told::on(&machine));
        let guard = told.observe(&pool);
        let mut random = 7_u64;
        let mut below = |bound: usize| {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (random >> 33) as usize % bound
        };
        let mut blocks: Vec<(DevicePtr, usize)> = Vec::new();
        for step in 0..600 {
            match below(8) {
                0..4 => {
                    let bytes = (1 + below(6)) * MIB;
                    if let Ok(block) = pool.allocate_sync(layout(bytes)) {
                        assert!(told.has(block, bytes), "step {step}");
                        blocks.push((block, bytes));
                    }
                }
                4..7 if !blocks.is_empty() => {
                    let (block, bytes) = blocks.swap_remove(below(blocks.len()));
                    free(&pool, block, bytes);
                }
                _ => {
                    pool.trim(0);
                }
            }
            assert_eq!(told.bytes(), pool.reserved_bytes(), "step {step}");
        }
        for (block, bytes) in blocks {
            free(&pool, block, bytes);
        }
        drop(pool);
        assert_eq!(told.bytes(), 0, "at the end of the pool");
        drop(guard);
        assert_eq!(machine.leaks(), []);
    }
}

#[test]
fn a_pool_that_sleeps_has_nothing_until_it_wakes() {
    let machine = Machine::builder().memory(64 << 20).enter();
    let (pool, told) = (over_virtual_memory(), Told::on(&machine));
    let _guard = told.observe(&pool);
    let block = pool.allocate_sync(layout(8 * MIB)).expect("memory");
    let held = told.bytes();
    let sleep = || {
        // SAFETY: no work uses the memory.
        unsafe { pool.sleep(Contents::ToHost) }
    };
    assert_eq!(sleep().expect("it sleeps"), held);
    assert_eq!(told.bytes(), 0);
    // Others take its memory: it cannot wake.
    let others = CudaMemoryResource::new();
    let theirs = others.allocate_sync(layout(60 * MIB)).expect("memory");
    pool.wake().expect_err("there is no memory");
    assert_eq!(told.bytes(), 0, "what could not be mapped was not told");
    // SAFETY: allocated above with this size, and not used.
    unsafe { others.deallocate_sync(theirs, layout(60 * MIB)) };
    pool.wake().expect("there is memory");
    assert_eq!((told.bytes(), told.has(block, 8 * MIB)), (held, true));
    // The driver refuses half-way: it is awake, and everything is there again.
    machine.fail(Fault::nth("cuMemUnmap", 1, CuResult::UNKNOWN));
    sleep().expect_err("the driver refuses");
    assert_eq!(told.bytes(), held);
    // The contents cannot be copied back: the memory goes again.
    sleep().expect("it sleeps");
    machine.fail(Fault::nth("cuMemcpyAsync", 1, CuResult::UNKNOWN));
    pool.wake().expect_err("the driver refuses");
    assert_eq!(told.bytes(), 0);
    pool.wake().expect("it wakes");
    assert_eq!(told.bytes(), held);
    sleep().expect("it sleeps");
    drop(pool);
    assert_eq!(told.bytes(), 0, "what sleeps does not go a second time");
}

#[test]
fn an_observer_that_panics_or_is_gone_changes_nothing() {
    let machine = Machine::builder().memory(64 << 20).enter();
    let pool = over_virtual_memory();
    let (calls, told) = (Arc::new(AtomicUsize::new(0)), Told::on(&machine));
    let count = Arc::clone(&calls);
    let panics = pool.observe_upstream(move |_| {
        count.fetch_add(1, Ordering::Relaxed);
        panic!("the observer's own");
    });
    let guard = told.observe(&pool);
    let block = pool.allocate_sync(layout(MIB)).expect("memory");
    let held = pool.reserved_bytes();
    assert_eq!((calls.load(Ordering::Relaxed) > 0, told.bytes()), (true, held));
    drop((panics, guard));
    let before = calls.load(Ordering::Relaxed);
    free(&pool, block, MIB);
    pool.trim(0);
    assert_eq!((calls.load(Ordering::Relaxed), told.bytes()), (before, held));
    drop(pool);
    assert_eq!(machine.leaks(), []);
}

#[test]
fn an_observer_may_use_the_pool() {
    let _machine = Machine::builder().memory(64 << 20).enter();
    let pool = over_virtual_memory();
    let observed = pool.clone();
    let guard = pool.observe_upstream(move |_| {
        let _statistics = observed.statistics();
        if let Ok(block) = observed.allocate_sync(layout(256)) {
            free(&observed, block, 256);
        }
    });
    let small = pool.allocate_sync(layout(256)).expect("memory");
    let large = pool.allocate_sync(layout(20 * MIB)).expect("memory");
    free(&pool, large, 20 * MIB);
    free(&pool, small, 256);
    pool.trim(0);
    drop(guard);
}

/// Panics when it is dropped.
struct PanicsAtItsEnd;

impl Drop for PanicsAtItsEnd {
    fn drop(&mut self) {
        assert!(std::thread::panicking(), "the observer's own");
    }
}

#[test]
fn an_observer_whose_end_in_its_own_call_panics_changes_nothing() {
    for make in [over_virtual_memory, over_cuda_malloc] {
        let machine = Machine::builder().memory(64 << 20).enter();
        let pool = make();
        let guard: Arc<Mutex<Option<UpstreamObserver>>> = Arc::default();
        let (own, last) = (Arc::clone(&guard), PanicsAtItsEnd);
        let observer = pool.observe_upstream(move |_| {
            let _captured = &last;
            drop(own.lock().expect("no one panics with it").take());
        });
        *guard.lock().expect("no one panics with it") = Some(observer);
        let block = pool.allocate_sync(layout(MIB)).expect("memory");
        assert_eq!(machine.memory_in_use(0) as u64, pool.reserved_bytes(), "all is the pool's");
        free(&pool, block, MIB);
        drop(pool);
        assert_eq!(machine.leaks(), []);
    }
}
