//! Tests of every way to a block in every state in which the memory is not there: after the end of
//! a context, and while a pool sleeps, falls asleep or wakes up. None is handed out.
//!
//! In a process of its own: the end of a context makes every pool of the process call the driver.

#[expect(dead_code, reason = "other test binaries use the rest")]
#[path = "suite/support.rs"]
mod support;

use std::alloc::Layout;

use rmm_adaptors::{
    AlignedResourceAdaptor, ArenaMemoryResource, BinningMemoryResource, CallbackMemoryResource,
    Contents, FallbackMemoryResource, FixedSizeMemoryResource, LimitingResourceAdaptor,
    PoolMemoryResource, PoolPreset, SleepOptions, StatisticsResourceAdaptor,
    ThreadSafeResourceAdaptor,
};
use rmm_core::{
    AnyResource, Context, CudaStream, Device, DeviceAccessible, DevicePtr, Error, HasProperty,
    Introspect as _, Resource, StreamRef, SynchronousResource,
};
use rmm_resources::{CudaMemoryResource, PinnedHostMemoryResource, VirtualMemoryResource};
use rmm_sim::{Kernel, Machine, Schedule};
use rmm_sys::CuResult;

use crate::support::{MIB, free, layout, mib, stream, write};

type Any = AnyResource;
/// The pool at the bottom.
type Base = PoolMemoryResource;

/// Of a thread's cache, of a larger class, above all size classes, and larger.
const SIZES: [usize; 4] = [1000, 64 << 10, 3 * MIB / 2, 2 * MIB];

fn over<U>(upstream: U) -> Any
where
    U: Resource + PartialEq + HasProperty<DeviceAccessible> + 'static,
{
    Any::new(PoolMemoryResource::builder(upstream).build().expect("a pool"))
}

fn arena_over<U>(upstream: U) -> Any
where
    U: Resource + PartialEq + HasProperty<DeviceAccessible> + 'static,
{
    let builder = ArenaMemoryResource::builder(upstream).arena_size(mib(16));
    Any::new(builder.build().expect("an arena"))
}

fn blocks_over<U>(upstream: U) -> FixedSizeMemoryResource
where
    U: Resource + PartialEq + HasProperty<DeviceAccessible> + 'static,
{
    let builder = FixedSizeMemoryResource::builder(upstream).block_size(mib(2)).blocks(8);
    builder.build().expect("blocks")
}

/// Functions that call the pool: what is above them sees no resource below.
fn opaque(pool: &Base) -> CallbackMemoryResource {
    let (allocates, frees) = (pool.clone(), pool.clone());
    let allocate = move |stream: StreamRef<'_>, layout: Layout| allocates.allocate(stream, layout);
    let deallocate = move |stream: StreamRef<'_>, pointer: DevicePtr, layout: Layout| {
        // SAFETY: it came from the other function with this layout.
        unsafe { frees.deallocate(stream, pointer, layout) }
    };
    // SAFETY: the functions are those of a pool of device memory.
    unsafe { CallbackMemoryResource::new(allocate, deallocate) }
}

/// Makes what stands over a pool.
type Make = fn(&Base) -> Any;

/// Every way to a block of a pool's memory.
const WAYS: [(&str, Make); 21] = [
    ("the pool", |pool| Any::new(pool.clone())),
    ("a reservation", |pool| Any::new(pool.reserve(mib(80)).expect("there is room"))),
    ("an arena", |pool| arena_over(pool.clone())),
    ("fixed-size blocks", |pool| Any::new(blocks_over(pool.clone()))),
    ("bins", |pool| {
        let builder = BinningMemoryResource::builder(pool.clone());
        Any::new(builder.bins_of_powers(10..=16).expect("bins").build())
    }),
    ("a pool over it", |pool| over(pool.clone())),
    ("a compact pool over it", |pool| {
        let builder = PoolMemoryResource::builder(pool.clone()).preset(PoolPreset::Compact);
        Any::new(builder.build().expect("a pool"))
    }),
    ("a pool over it that clears blocks", |pool| {
        let builder = PoolMemoryResource::builder(pool.clone()).clear_blocks(true);
        Any::new(builder.build().expect("a pool"))
    }),
    ("a pool over a pool over it", |pool| over(over(pool.clone()))),
    ("an arena over a pool over it", |pool| arena_over(over(pool.clone()))),
    ("a pool over an arena over it", |pool| over(arena_over(pool.clone()))),
    ("a pool over a reservation", |pool| over(pool.reserve(mib(80)).expect("there is room"))),
    ("fixed-size blocks over a reservation", |pool| {
        Any::new(blocks_over(pool.reserve(mib(80)).expect("there is room")))
    }),
    ("a reservation of a pool over it", |pool| {
        let above = PoolMemoryResource::builder(pool.clone()).build().expect("a pool");
        Any::new(above.reserve(mib(80)).expect("there is room"))
    }),
    ("functions of the program", |pool| Any::new(opaque(pool))),
    ("a pool over functions of the program", |pool| over(opaque(pool))),
    ("an arena over functions of the program", |pool| arena_over(opaque(pool))),
    ("a pool over two resources", |pool| {
        let first = LimitingResourceAdaptor::new(pool.clone(), mib(100));
        over(FallbackMemoryResource::new(first, pool.clone()))
    }),
    ("an aligned resource", |pool| {
        Any::new(AlignedResourceAdaptor::new(pool.clone(), 4096).expect("an adaptor"))
    }),
    ("a pool over adaptors", |pool| {
        let counted = StatisticsResourceAdaptor::new(pool.clone());
        over(ThreadSafeResourceAdaptor::new(LimitingResourceAdaptor::new(counted, mib(100))))
    }),
    ("adaptors over a pool over it", |pool| {
        let limited = LimitingResourceAdaptor::new(over(pool.clone()), mib(100));
        Any::new(StatisticsResourceAdaptor::new(limited))
    }),
];

/// What a refusal says.
type Expected = fn(&Error) -> bool;

fn is_lost(error: &Error) -> bool {
    error.is_context_lost()
}

fn is_asleep(error: &Error) -> bool {
    error.is_not_ready()
}

/// What a test does with a pool.
struct Scene<'m> {
    machine: &'m Machine,
    pool: Base,
    way: Any,
    streams: Vec<CudaStream>,
    /// Blocks that were allocated that way, to be freed while the memory is not there.
    live: Vec<(DevicePtr, usize)>,
}

impl Scene<'_> {
    fn stream(&self) -> StreamRef<'_> {
        self.streams[0].as_stream_ref()
    }

    fn streams(&self) -> impl Iterator<Item = StreamRef<'_>> {
        let own = self.streams.iter().map(CudaStream::as_stream_ref);
        own.chain([StreamRef::legacy(), StreamRef::per_thread()])
    }

    /// Fills all caches, and allocates the live blocks.
    fn warm_up(&mut self) {
        for stream in self.streams() {
            for size in SIZES {
                let blocks = (0..4).map_while(|_| self.way.allocate(stream, layout(size)).ok());
                for block in blocks.collect::<Vec<_>>() {
                    free(&self.way, stream, block, size);
                }
            }
        }
        let allocate = |size| Some((self.way.allocate(self.stream(), layout(size)).ok()?, size));
        self.live = SIZES.into_iter().filter_map(allocate).collect();
        for stream in &self.streams {
            stream.synchronize().expect("no work");
        }
    }

    /// Asks in every way, and frees the live blocks meanwhile. Returns what was not refused.
    fn ask_all(&mut self, expected: Expected, name: &str) -> Vec<String> {
        let mut seen = self.ask(expected, name);
        for (block, size) in std::mem::take(&mut self.live) {
            free(&self.way, self.stream(), block, size);
        }
        seen.extend(self.ask(expected, name));
        seen
    }

    fn ask(&self, expected: Expected, name: &str) -> Vec<String> {
        let mut seen = Vec::new();
        let mut judge = |call: String, answer: Result<DevicePtr, Error>| match answer {
            Err(error) if expected(&error) => {}
            Err(error) => seen.push(format!("{name}, {call}: {error}")),
            Ok(block) => seen.push(format!("{name}, {call}: {block:?}")),
        };
        for size in SIZES {
            for (number, stream) in self.streams().enumerate() {
                let call = format!("allocate {size} on stream {number}");
                judge(call, self.way.allocate(stream, layout(size)));
            }
            judge(format!("allocate_sync {size}"), self.way.allocate_sync(layout(size)));
        }
        seen
    }

    /// Whether memory is handed out again, and is there.
    fn is_served(&self) {
        for size in SIZES {
            let block = self.way.allocate(self.stream(), layout(size)).expect("it is awake");
            write(self.machine, &self.streams[0], block, 1);
            free(&self.way, self.stream(), block, size);
        }
    }
}

/// A state in which no memory is there: brings a scene into it, and asks.
type State = fn(&mut Scene<'_>, &str) -> Vec<String>;

fn reset(ordinal: usize) {
    let device = Device::new(ordinal).expect("a device").as_raw();
    // SAFETY: nothing uses the memory of the old context afterwards, except through the library.
    let code = unsafe { rmm_sim::driver().cuDevicePrimaryCtxReset_v2(device) };
    assert_eq!(code, CuResult::SUCCESS);
}

const LOST: [(&str, State); 3] = [
    ("after a reset", |scene, name| {
        reset(0);
        scene.ask_all(is_lost, name)
    }),
    ("after a reset, in the next context", |scene, name| {
        reset(0);
        let _next = Device::new(0).and_then(Device::make_current).expect("a device");
        scene.streams.push(stream());
        let seen = scene.ask_all(is_lost, name);
        // The state ends with the guard, and with it what is made in the context.
        scene.streams.pop();
        seen
    }),
    ("after a failed kernel", |scene, name| {
        let kernel = Kernel::new("bad", |_| ()).fails(CuResult::ILLEGAL_ADDRESS);
        scene.machine.launch(scene.streams[0].as_raw(), kernel).expect("it is enqueued");
        scene.streams[0].synchronize().expect_err("it fails");
        scene.ask_all(is_lost, name)
    }),
];

/// Lets the pool sleep, and calls `report` meanwhile.
fn sleep_with(pool: &Base, report: impl FnMut()) {
    let mut report = report;
    let options = SleepOptions::new(Contents::ToHost).wait_for_work(true);
    let options = options.on_progress(|_| report());
    // SAFETY: no work uses the pool's memory until it is awake again.
    unsafe { pool.sleep_with(options) }.expect("it falls asleep");
}

const ASLEEP: [(&str, State); 3] = [
    ("asleep", |scene, name| {
        let pool = scene.pool.clone();
        sleep_with(&pool, || ());
        let seen = scene.ask_all(is_asleep, name);
        pool.wake().expect("there is memory");
        scene.is_served();
        seen
    }),
    ("falling asleep", |scene, name| {
        let (pool, mut seen) = (scene.pool.clone(), Vec::new());
        sleep_with(&pool, || seen.extend(scene.ask_all(is_asleep, name)));
        pool.wake().expect("there is memory");
        scene.is_served();
        seen
    }),
    ("waking up", |scene, name| {
        let (pool, mut seen) = (scene.pool.clone(), Vec::new());
        sleep_with(&pool, || ());
        let woken = pool.wake_with(|_| seen.extend(scene.ask_all(is_asleep, name)));
        woken.expect("there is memory");
        scene.is_served();
        seen
    }),
];

/// Brings every way into a state, and asserts that it hands out nothing.
fn assert_refused(states: &[(&str, State)], upstream: fn() -> AnyResource) {
    let mut seen = Vec::new();
    for (state, enter) in states {
        for (way, make) in WAYS {
            let machine = Machine::builder().memory(512 * MIB).schedule(Schedule::Eager).enter();
            let _current = Device::new(0).and_then(Device::make_current).expect("a device");
            let pool = PoolMemoryResource::builder(upstream()).build().expect("a pool");
            let streams = vec![stream(), stream()];
            let kept = pool.allocate(&streams[0], layout(4096)).expect("there is room");
            let way_to = make(&pool);
            let mut scene =
                Scene { machine: &machine, pool, way: way_to, streams, live: Vec::new() };
            scene.warm_up();
            assert_eq!(scene.live.len(), SIZES.len(), "{way}");
            seen.extend(enter(&mut scene, &format!("{way}, {state}")));
            free(&scene.pool, scene.stream(), kept, 4096);
            drop(scene);
            machine.assert_no_violations();
        }
    }
    assert!(seen.is_empty(), "{} were not refused:\n{}", seen.len(), seen.join("\n"));
}

#[test]
fn a_pool_without_a_context_hands_out_no_device_memory() {
    assert_refused(&LOST, || AnyResource::new(CudaMemoryResource::new()));
}

#[test]
fn a_pool_without_a_context_hands_out_no_virtual_memory() {
    assert_refused(&LOST, || AnyResource::new(VirtualMemoryResource::new().expect("pages")));
}

#[test]
fn a_pool_without_a_context_hands_out_no_pinned_memory() {
    assert_refused(&LOST, || AnyResource::new(PinnedHostMemoryResource::new()));
}

#[test]
fn nothing_above_a_pool_hands_out_memory_that_sleeps() {
    assert_refused(&ASLEEP, || AnyResource::new(VirtualMemoryResource::new().expect("pages")));
}

/// What divides the memory of a pool in another device's context ends with either context. Through
/// functions of the program it cannot be seen.
#[test]
fn what_stands_above_a_pool_ends_with_the_pool_s_context() {
    let mut seen = Vec::new();
    let seen_through = |way: &&(&str, Make)| !way.0.contains("over functions");
    for (name, make) in WAYS.iter().filter(seen_through) {
        for ordinal in [0, 1] {
            let machine = Machine::builder().devices(2).memory(512 * MIB).enter();
            let below = Device::new(0).and_then(Device::make_current).expect("a device");
            let upstream = CudaMemoryResource::new();
            let pool = PoolMemoryResource::builder(upstream).build().expect("a pool");
            drop(below);
            let _above = Device::new(1).and_then(Device::make_current).expect("a device");
            let way = make(&pool);
            let warm = way.allocate_sync(layout(4096)).expect("there is room");
            // SAFETY: allocated above with this layout, and not used.
            unsafe { way.deallocate_sync(warm, layout(4096)) };
            let current = Context::current().expect("a device");
            let is_above = way.try_value::<Context>() == Some(current);
            if ordinal == 1 && !is_above {
                continue;
            }
            reset(ordinal);
            let _next = Device::new(1).and_then(Device::make_current).expect("a device");
            match way.allocate_sync(layout(4096)) {
                Err(error) if error.is_context_lost() => {}
                answer => seen.push(format!("{name}, device {ordinal}: {answer:?}")),
            }
            drop((way, pool));
            machine.assert_no_violations();
        }
    }
    assert!(seen.is_empty(), "{} were not refused:\n{}", seen.len(), seen.join("\n"));
}
