//! Segments of a pool, and the callbacks that hear of them.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex, PoisonError};

use rmm_adaptors::{Contents, PoolMemoryResource, Segment, SegmentEvent, SegmentGuard};
use rmm_core::{DevicePtr, Error, Introspect, SynchronousResource};
use rmm_resources::{CudaMemoryResource, VirtualMemoryResource};
use rmm_sim::{Fault, Machine};
use rmm_sys::{CuDevicePtr, CuResult};

use crate::support::{MIB, layout};

#[path = "segments/threads.rs"]
mod threads;

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

    fn observe(&self, pool: &PoolMemoryResource) -> SegmentGuard {
        let told = self.clone();
        let note = move |event| -> Result<(), Error> {
            told.note(event);
            Ok(())
        };
        pool.on_segment(note).expect("it takes all")
    }

    fn note(&self, event: SegmentEvent) {
        let mut ranges = self.ranges.lock().unwrap_or_else(PoisonError::into_inner);
        let in_use = self.machine.memory_in_use(0) as u64;
        let told = ranges.values().sum::<u64>();
        match event {
            SegmentEvent::Added(segment) => {
                let (base, bytes) = (segment.base(), segment.bytes());
                let before = ranges.range(..base.0 + bytes).next_back();
                assert!(before.is_none_or(|(start, size)| start + size <= base.0), "twice");
                assert!(in_use >= told + bytes, "it is not there yet");
                ranges.insert(base.0, bytes);
                let size = usize::try_from(bytes).expect("it fits");
                self.machine.register(CuDevicePtr(base.0), size).expect("it is not registered");
            }
            SegmentEvent::Removing(segment) => {
                let (base, bytes) = (segment.base(), segment.bytes());
                assert_eq!(ranges.remove(&base.0), Some(bytes), "it was not there");
                assert!(in_use >= told, "it is gone already");
                self.machine.deregister(CuDevicePtr(segment.base().0)).expect("it is registered");
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
        machine.assert_no_violations();
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
    machine.assert_no_violations();
}

/// A callback that fails as told, and what it has.
#[derive(Clone, Default)]
struct Registry {
    has: Arc<Mutex<BTreeMap<u64, u64>>>,
    calls: Arc<AtomicUsize>,
    refuses_new: Arc<AtomicBool>,
    refuses_end: Arc<AtomicBool>,
    panics: Arc<AtomicBool>,
}

impl Registry {
    fn call(&self, event: SegmentEvent) -> Result<(), &'static str> {
        self.calls.fetch_add(1, Ordering::Relaxed);
        let refuses = match event {
            SegmentEvent::Added(_) => &self.refuses_new,
            _ => &self.refuses_end,
        };
        if refuses.load(Ordering::Relaxed) {
            assert!(!self.panics.load(Ordering::Relaxed), "the callback's own");
            return Err("no space in the table");
        }
        let mut has = self.has.lock().expect("no panic with it");
        match event {
            SegmentEvent::Added(it) => assert_eq!(has.insert(it.base().0, it.bytes()), None),
            SegmentEvent::Removing(it) => assert_eq!(has.remove(&it.base().0), Some(it.bytes())),
            other => panic!("{other:?}"),
        }
        Ok(())
    }

    fn register(&self, pool: &PoolMemoryResource) -> Result<SegmentGuard, Error> {
        let registry = self.clone();
        pool.on_segment(move |event| registry.call(event))
    }

    fn bytes(&self) -> u64 {
        self.has.lock().expect("no panic with it").values().sum()
    }

    fn calls(&self) -> usize {
        self.calls.load(Ordering::Relaxed)
    }
}

#[test]
fn a_callback_hears_of_the_segments_that_exist_and_lets_go_at_its_end() {
    for make in [over_virtual_memory, over_cuda_malloc] {
        let machine = Machine::builder().memory(64 << 20).enter();
        let (pool, registry) = (make(), Registry::default());
        let block = pool.allocate_sync(layout(5 * MIB)).expect("memory");
        let guard = registry.register(&pool).expect("it takes all");
        assert_eq!(registry.bytes(), pool.reserved_bytes());
        let all = pool.segments();
        assert_eq!(all.iter().map(Segment::bytes).sum::<u64>(), pool.reserved_bytes());
        assert!(all.iter().any(|segment| segment.range().contains(&block.0)));
        let described = pool.describe().to_string();
        assert!(described.contains("registered"), "{described}");
        drop(guard);
        assert_eq!(registry.bytes(), 0);
        let calls = registry.calls();
        free(&pool, block, 5 * MIB);
        drop(pool);
        assert_eq!((registry.calls(), machine.leaks()), (calls, Vec::new()));
    }
}

#[test]
fn a_segment_that_a_callback_refuses_is_not_used() {
    for (make, panics) in [
        (over_virtual_memory as fn() -> _, false),
        (over_cuda_malloc, false),
        (over_virtual_memory, true),
        (over_cuda_malloc, true),
    ] {
        let machine = Machine::builder().memory(64 << 20).enter();
        let (pool, first, second) = (make(), Registry::default(), Registry::default());
        let guards = [first.register(&pool), second.register(&pool)].map(Result::unwrap);
        second.panics.store(panics, Ordering::Relaxed);
        second.refuses_new.store(true, Ordering::Relaxed);
        let error = pool.allocate_sync(layout(9 * MIB)).expect_err("it is refused");
        assert!(error.is_unsupported() && error.to_string().contains("on_segment"), "{error}");
        assert_eq!((first.bytes(), pool.reserved_bytes(), machine.memory_in_use(0)), (0, 0, 0));
        // The same in the middle of a pool that holds memory.
        second.refuses_new.store(false, Ordering::Relaxed);
        let block = pool.allocate_sync(layout(MIB)).expect("memory");
        second.refuses_new.store(true, Ordering::Relaxed);
        let held = pool.reserved_bytes();
        pool.allocate_sync(layout(20 * MIB)).expect_err("it is refused");
        assert_eq!((first.bytes(), second.bytes(), pool.reserved_bytes()), (held, held, held));
        // A callback that refuses what there is, is not registered.
        let third = Registry::default();
        third.refuses_new.store(true, Ordering::Relaxed);
        third.register(&pool).expect_err("it refuses");
        second.refuses_new.store(false, Ordering::Relaxed);
        let large = pool.allocate_sync(layout(20 * MIB)).expect("memory");
        assert_eq!(third.calls(), 1);
        free(&pool, large, 20 * MIB);
        free(&pool, block, MIB);
        drop(pool);
        assert_eq!((first.bytes(), second.bytes(), machine.leaks()), (0, 0, Vec::new()));
        drop(guards);
    }
}

#[test]
fn a_segment_that_a_callback_keeps_stays_and_serves() {
    for make in [over_virtual_memory, over_cuda_malloc] {
        let machine = Machine::builder().memory(64 << 20).enter();
        let (pool, first, second) = (make(), Registry::default(), Registry::default());
        let guards = [first.register(&pool), second.register(&pool)].map(Result::unwrap);
        let block = pool.allocate_sync(layout(8 * MIB)).expect("memory");
        free(&pool, block, 8 * MIB);
        let held = pool.reserved_bytes();
        for panics in [false, true] {
            second.panics.store(panics, Ordering::Relaxed);
            second.refuses_end.store(true, Ordering::Relaxed);
            assert_eq!(pool.trim(0), 0, "it stays");
            assert_eq!((pool.reserved_bytes(), machine.memory_in_use(0) as u64), (held, held));
            assert_eq!((first.bytes(), second.bytes()), (held, held), "both have it");
            let again = pool.allocate_sync(layout(2 * MIB)).expect("memory");
            assert_eq!(pool.reserved_bytes(), held, "it serves");
            free(&pool, again, 2 * MIB);
        }
        // A request that needs the room fails, and loses nothing.
        pool.allocate_sync(layout(60 * MIB)).expect_err("there is too little");
        assert_eq!((pool.reserved_bytes(), second.bytes()), (held, held));
        second.refuses_end.store(false, Ordering::Relaxed);
        let large = pool.allocate_sync(layout(60 * MIB)).expect("the room was made");
        free(&pool, large, 60 * MIB);
        assert!(pool.trim(0) > 0);
        assert_eq!((first.bytes(), second.bytes(), machine.memory_in_use(0)), (0, 0, 0));
        // At the pool's end it stays allocated.
        let block = pool.allocate_sync(layout(MIB)).expect("memory");
        free(&pool, block, MIB);
        second.refuses_end.store(true, Ordering::Relaxed);
        drop(pool);
        assert!(second.bytes() > 0);
        assert!(machine.memory_in_use(0) as u64 >= second.bytes());
        drop(guards);
    }
}

#[test]
fn a_pool_does_not_sleep_with_memory_that_a_callback_keeps() {
    let machine = Machine::builder().memory(64 << 20).enter();
    let (pool, first, second) = (over_virtual_memory(), Registry::default(), Registry::default());
    let _guards = [first.register(&pool), second.register(&pool)].map(Result::unwrap);
    let block = pool.allocate_sync(layout(8 * MIB)).expect("memory");
    let held = pool.reserved_bytes();
    for contents in [Contents::ToHost, Contents::Discard] {
        // SAFETY: no work uses the memory.
        let sleep = || unsafe { pool.sleep(contents) };
        second.refuses_end.store(true, Ordering::Relaxed);
        let error = sleep().expect_err("a callback keeps it");
        assert!(error.to_string().contains("does not let go"), "{error}");
        assert_eq!((first.bytes(), second.bytes(), pool.is_asleep()), (held, held, false));
        second.refuses_end.store(false, Ordering::Relaxed);
        assert_eq!(sleep().expect("it sleeps"), held);
        assert_eq!((first.bytes(), second.bytes(), pool.segments()), (0, 0, Vec::new()));
        // It does not wake with memory that a callback refuses.
        second.refuses_new.store(true, Ordering::Relaxed);
        let error = pool.wake().expect_err("a callback refuses");
        assert!(error.to_string().contains("does not take"), "{error}");
        assert_eq!((pool.is_asleep(), machine.memory_in_use(0)), (true, 0));
        assert_eq!((first.bytes(), second.bytes()), (0, 0));
        second.refuses_new.store(false, Ordering::Relaxed);
        assert_eq!(pool.wake().expect("it wakes"), held);
        assert_eq!((first.bytes(), second.bytes()), (held, held));
    }
    free(&pool, block, 8 * MIB);
}

#[test]
fn a_callback_allocates_what_the_pool_holds_and_no_more() {
    for make in [over_virtual_memory, over_cuda_malloc] {
        let machine = Machine::builder().memory(64 << 20).enter();
        let pool = make();
        let [first, hole, last] =
            [(); 3].map(|()| pool.allocate_sync(layout(4096)).expect("memory"));
        free(&pool, hole, 4096);
        let (inner, outcomes) = (pool.clone(), Arc::new(Mutex::new(Vec::new())));
        let noted = Arc::clone(&outcomes);
        let guard = pool.on_segment(move |event| -> Result<(), Error> {
            if let SegmentEvent::Added(_) = event {
                let block = inner.allocate_sync(layout(4096))?;
                free(&inner, block, 4096);
                let error = inner.allocate_sync(layout(40 * MIB)).expect_err("it would grow");
                noted.lock().expect("no panic with it").push((error, inner.trim(0)));
            }
            Ok(())
        });
        let guard = guard.expect("it takes all");
        let large = pool.allocate_sync(layout(20 * MIB)).expect("memory");
        for (error, trimmed) in outcomes.lock().expect("no panic with it").iter() {
            assert!(error.is_unsupported() && error.to_string().contains("grow within"), "{error}");
            assert_eq!(*trimmed, 0);
        }
        free(&pool, large, 20 * MIB);
        free(&pool, first, 4096);
        free(&pool, last, 4096);
        drop(guard);
        drop(pool);
        assert_eq!(machine.leaks(), []);
    }
}

#[test]
fn others_are_served_while_a_callback_blocks() {
    let machine = Machine::builder().memory(64 << 20).enter();
    let pool = over_virtual_memory();
    let small = pool.allocate_sync(layout(256)).expect("memory");
    let (arrived, arrival) = channel();
    let (go_on, signal) = channel::<()>();
    let blocks = Mutex::new((arrived, signal));
    let armed = Arc::new(AtomicBool::new(false));
    let blocks_once = Arc::clone(&armed);
    let guard = pool.on_segment(move |event| -> Result<(), Error> {
        if matches!(event, SegmentEvent::Added(_)) && blocks_once.swap(false, Ordering::Relaxed) {
            let (arrived, signal) = &*blocks.lock().expect("no panic with it");
            arrived.send(()).expect("the test waits");
            signal.recv().expect("the test goes on");
        }
        Ok(())
    });
    let guard = guard.expect("it takes all");
    armed.store(true, Ordering::Relaxed);
    std::thread::scope(|scope| {
        let (pool, machine) = (&pool, &machine);
        let grows = scope.spawn(move || {
            let _machine = machine.enter();
            let large = pool.allocate_sync(layout(48 * MIB)).expect("memory");
            free(pool, large, 48 * MIB);
        });
        arrival.recv().expect("the callback is called");
        let block = pool.allocate_sync(layout(256)).expect("a hit does not wait");
        free(pool, block, 256);
        go_on.send(()).expect("the callback waits");
        grows.join().expect("no panic");
    });
    free(&pool, small, 256);
    drop(guard);
}

#[test]
fn a_hit_calls_no_callback() {
    let _machine = Machine::builder().memory(64 << 20).enter();
    let (pool, registry) = (over_virtual_memory(), Registry::default());
    let _guard = registry.register(&pool).expect("it takes all");
    let first = pool.allocate_sync(layout(MIB)).expect("memory");
    let calls = registry.calls();
    for _ in 0..100_000 {
        let block = pool.allocate_sync(layout(256)).expect("memory");
        free(&pool, block, 256);
    }
    assert_eq!(registry.calls(), calls);
    free(&pool, first, MIB);
}

#[test]
fn segments_have_their_size_and_stay_when_they_are_pinned() {
    for single in [false, true] {
        let machine = Machine::builder().memory(256 << 20).enter();
        let upstream = VirtualMemoryResource::new().expect("virtual memory");
        let builder = PoolMemoryResource::builder(upstream).single_handle(single);
        let refused = builder.clone().segment_size(3 * MIB as u64).build();
        assert!(refused.expect_err("no power of two").is_invalid_argument());
        let builder = builder.segment_size(16 << 20).pinned_segments(true);
        let pool = builder.initial_size(1 << 20).build().expect("a pool");
        let large = pool.allocate_sync(layout(40 * MIB)).expect("memory");
        let within = |it: &Segment| {
            it.range().start <= large.0 && large.0 + 40 * MIB as u64 <= it.range().end
        };
        let segments = pool.segments();
        assert_eq!(segments.iter().any(within), single);
        let is_whole = |it: &Segment| it.bytes().is_multiple_of(16 << 20);
        assert!(segments.iter().all(is_whole), "{segments:?}");
        assert!(single || segments.iter().all(|it| it.bytes() == 16 << 20), "{segments:?}");
        free(&pool, large, 40 * MIB);
        let held = pool.reserved_bytes();
        assert_eq!((pool.trim(0), pool.trim_blocking(0), pool.reserved_bytes()), (0, 0, held));
        // SAFETY: no work uses the memory.
        let error = unsafe { pool.sleep(Contents::Discard) }.expect_err("it is pinned");
        assert!(error.to_string().contains("pinned"), "{error}");
        assert!(pool.allocate_sync(layout(300 * MIB)).is_err());
        assert_eq!(pool.segments(), segments);
        let described = pool.describe().to_string();
        assert!(described.contains("pinned"), "{described}");
        drop(pool);
        assert_eq!(machine.leaks(), []);
    }
}

#[test]
fn nothing_registered_is_lost_when_a_call_of_the_driver_fails() {
    let calls = ["cuMemCreate", "cuMemMap", "cuMemSetAccess", "cuMemUnmap", "cuMemRelease"];
    for call in calls {
        for nth in 1..6 {
            let machine = Machine::builder().memory(64 << 20).enter();
            let (pool, registry) = (over_virtual_memory(), Registry::default());
            let _guard = registry.register(&pool).expect("it takes all");
            machine.fail(Fault::nth(call, nth, CuResult::UNKNOWN));
            for bytes in [MIB, 9 * MIB, 3 * MIB] {
                if let Ok(block) = pool.allocate_sync(layout(bytes)) {
                    free(&pool, block, bytes);
                }
                assert_eq!(registry.bytes(), pool.reserved_bytes(), "{call} {nth}");
                pool.trim(4 << 20);
                assert_eq!(registry.bytes(), pool.reserved_bytes(), "{call} {nth}");
            }
            drop(pool);
            assert_eq!(registry.bytes(), 0, "{call} {nth}");
        }
    }
}

#[test]
fn a_segment_is_exported_where_its_memory_can_be() {
    let _machine = Machine::builder().memory(64 << 20).enter();
    let pool = over_cuda_malloc();
    let block = pool.allocate_sync(layout(MIB)).expect("memory");
    assert!(pool.segments()[0].export().expect_err("cudaMalloc").is_unsupported());
    free(&pool, block, MIB);
    let types = rmm_resources::ExportHandleTypes::POSIX_FILE_DESCRIPTOR;
    let upstream = VirtualMemoryResource::builder().export(types).build().expect("exportable");
    let pool = PoolMemoryResource::builder(upstream).build().expect("a pool");
    let block = pool.allocate_sync(layout(9 * MIB)).expect("memory");
    for segment in pool.segments() {
        let pieces = segment.export().expect("it can be exported");
        assert_eq!(pieces.len(), 1, "each is one allocation of the driver");
        assert_eq!(pieces[0].range.handle_bytes, segment.bytes());
    }
    free(&pool, block, 9 * MIB);
}

/// Panics when it is dropped.
struct PanicsAtItsEnd;

impl Drop for PanicsAtItsEnd {
    fn drop(&mut self) {
        assert!(std::thread::panicking(), "the callback's own");
    }
}

#[test]
fn a_callback_whose_end_in_its_own_call_panics_changes_nothing() {
    for make in [over_virtual_memory, over_cuda_malloc] {
        let machine = Machine::builder().memory(64 << 20).enter();
        let pool = make();
        let guard: Arc<Mutex<Option<SegmentGuard>>> = Arc::default();
        let (own, last) = (Arc::clone(&guard), PanicsAtItsEnd);
        let callback = pool.on_segment(move |_| -> Result<(), Error> {
            let _captured = &last;
            let guard = own.lock().expect("no panic with it").take();
            drop(guard);
            Ok(())
        });
        *guard.lock().expect("no panic with it") = Some(callback.expect("there is nothing"));
        let block = pool.allocate_sync(layout(MIB)).expect("memory");
        assert_eq!(machine.memory_in_use(0) as u64, pool.reserved_bytes(), "all is the pool's");
        free(&pool, block, MIB);
        drop(pool);
        assert_eq!(machine.leaks(), []);
    }
}

#[test]
fn a_callback_whose_end_panics_ends_with_its_guard_or_the_pool() {
    for ends_with_pool in [false, true] {
        let machine = Machine::builder().memory(64 << 20).enter();
        let pool = over_virtual_memory();
        let block = pool.allocate_sync(layout(MIB)).expect("memory");
        let last = PanicsAtItsEnd;
        let callback = move |_| -> Result<(), Error> {
            let _captured = &last;
            Ok(())
        };
        let guard = pool.on_segment(callback).expect("it takes all");
        if ends_with_pool {
            guard.detach();
        } else {
            drop(guard);
        }
        free(&pool, block, MIB);
        drop(pool);
        assert_eq!(machine.leaks(), []);
    }
}

#[test]
fn a_pool_that_can_neither_sleep_nor_go_back_says_what_refuses() {
    let _machine = Machine::builder().memory(64 << 20).enter();
    let (pool, first, second) = (over_virtual_memory(), Registry::default(), Registry::default());
    let _guards = [first.register(&pool), second.register(&pool)].map(Result::unwrap);
    let block = pool.allocate_sync(layout(8 * MIB)).expect("memory");
    // The second one keeps it; the first one, which has let go, does not take it again.
    first.refuses_new.store(true, Ordering::Relaxed);
    second.refuses_end.store(true, Ordering::Relaxed);
    // SAFETY: no work uses the memory.
    let error = unsafe { pool.sleep(Contents::ToHost) }.expect_err("it is kept");
    assert_eq!(error.kind(), rmm_core::ErrorKind::NotReady);
    let text = error.to_string();
    assert!(text.contains("does not take") && !text.contains("driver"), "{text}");
    let reason = std::error::Error::source(&error).expect("the first refusal").to_string();
    assert!(reason.contains("does not let go"), "{reason}");
    first.refuses_new.store(false, Ordering::Relaxed);
    second.refuses_end.store(false, Ordering::Relaxed);
    pool.wake().expect("both take it");
    assert_eq!((first.bytes(), second.bytes()), (pool.reserved_bytes(), pool.reserved_bytes()));
    free(&pool, block, 8 * MIB);
}
