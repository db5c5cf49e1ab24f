//! Two requests of which one always asks a full upstream while the other decides whether to ask
//! again; and how far a pool grows for its caches.

use std::alloc::Layout;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock};
use std::thread::{self, ThreadId};
use std::time::{Duration, Instant};

use rmm_core::siblings::MayBeWaitedFor;
use rmm_core::sys::{CuCaptureMode, CuResult};
use rmm_core::{
    CudaStream, DeviceAccessible, DevicePtr, Effort, Error, HasProperty, OomReason, Query, Remedy,
    RemedyAction, Resource, StreamRef, SynchronousResource, current_driver, effort,
};
use rmm_resources::CudaMemoryResource;
use rmm_sim::{Kernel, Machine, Schedule};

use crate::suballocators::pool::api::pool::PoolMemoryResource;
use crate::suballocators::pool::state::core::PoolCore;
use crate::suballocators::pool::state::pool_state::PoolState;
use crate::suballocators::pool::values::growth::Pace;
use crate::suballocators::pool::values::policy::GrowthPolicy;

const SMALL: usize = 256;
const LARGE: usize = 4 << 20;
/// So much is live that idle memory is not released as surplus.
const USED: usize = 4 * LARGE;
/// Small blocks that are there at first. Each call for a large one frees one.
const HELD: usize = 64;

fn layout(bytes: usize) -> Layout {
    Layout::from_size_align(bytes, 256).expect("a power of two")
}

#[derive(Debug, Default)]
struct Turns {
    /// Calls for large blocks that have begun, and who began the last.
    asked: usize,
    last: Option<ThreadId>,
    /// Calls that release memory and have begun.
    returned: usize,
    /// Whether one of the two requests is over.
    is_over: bool,
    held: Vec<DevicePtr>,
}

/// Has small blocks and no large ones. A request that is refused a large one and then returns
/// memory is held there until the other request asks, and one that asks until the other has
/// decided.
#[derive(Debug, Default)]
struct InTurns {
    turns: Mutex<Turns>,
    changed: Condvar,
    pool: OnceLock<Arc<PoolCore>>,
}

impl InTurns {
    fn turns(&self) -> MutexGuard<'_, Turns> {
        self.turns.lock().expect("no thread panics with the lock held")
    }

    fn change(&self, change: impl FnOnce(&mut Turns)) {
        change(&mut self.turns());
        self.changed.notify_all();
    }

    fn wait_while(&self, condition: impl FnMut(&mut Turns) -> bool) {
        let turns = self.changed.wait_while(self.turns(), condition);
        drop(turns.expect("no thread panics with the lock held"));
    }

    /// Frees a small block, so that there is something to return. Then it waits for the call of
    /// the other request to end, which mostly keeps the pool's lock until it has decided, and waits
    /// for this call.
    fn ask(&self) {
        let pool = self.pool.get().expect("large blocks come last");
        let settled = pool.lock().settled;
        let held = self.turns().held.pop();
        if let Some(block) = held {
            pool.deallocate(None, block, layout(SMALL));
        }
        let mut is_alone = false;
        self.change(|turns| {
            is_alone = turns.asked == 0 || turns.is_over;
            turns.asked += 1;
            turns.last = Some(thread::current().id());
        });
        if !is_alone {
            // That call may have ended before this one began: then the other request is over, or is
            // away without a call of its own, since it waits for this one.
            let is_waited_for = |state: &PoolState| {
                state.away > 1 && state.pending == LARGE as u64 && state.releasing == 0
            };
            let goes_on = |state: &mut PoolState| {
                state.settled == settled && !is_waited_for(state) && !self.turns().is_over
            };
            let state = pool.settled.wait_while(pool.lock(), goes_on);
            drop(state.expect("no thread panics with the lock held"));
        }
    }

    fn wait_for_the_other_to_ask(&self) {
        self.change(|turns| turns.returned += 1);
        let this = Some(thread::current().id());
        self.wait_while(|turns| turns.last == this && !turns.is_over);
    }
}

// SAFETY: what it gives comes from `CudaMemoryResource`, which keeps the contract.
unsafe impl SynchronousResource for InTurns {
    fn do_allocate_sync(&self, layout: Layout) -> Result<DevicePtr, Error> {
        // The first `HELD` calls come from requests that never end.
        if layout.size() == LARGE && self.turns().asked < HELD {
            self.ask();
            return Err(Error::out_of_memory("full").with_layout(layout));
        }
        CudaMemoryResource::new().allocate_sync(layout)
    }

    unsafe fn do_deallocate_sync(&self, pointer: DevicePtr, layout: Layout) {
        self.wait_for_the_other_to_ask();
        // SAFETY: the caller's contract is the same.
        unsafe { CudaMemoryResource::new().deallocate_sync(pointer, layout) }
    }

    fn name(&self) -> &'static str {
        "in turns"
    }

    fn provide<'a>(&'a self, query: &mut Query<'a>) {
        query.value(|| MayBeWaitedFor);
    }
}

// SAFETY: as above; memory that every stream may use may be used by one.
unsafe impl Resource for InTurns {
    fn do_allocate(&self, _: StreamRef<'_>, layout: Layout) -> Result<DevicePtr, Error> {
        self.do_allocate_sync(layout)
    }

    unsafe fn do_deallocate(&self, stream: StreamRef<'_>, pointer: DevicePtr, layout: Layout) {
        if stream.synchronize().is_ok() {
            // SAFETY: the caller's contract; all uses have completed.
            unsafe { self.do_deallocate_sync(pointer, layout) };
        }
    }
}

// SAFETY: its memory is that of the device.
unsafe impl HasProperty<DeviceAccessible> for InTurns {}

impl PartialEq for InTurns {
    fn eq(&self, other: &Self) -> bool {
        std::ptr::eq(self, other)
    }
}

#[test]
fn two_that_ask_a_full_upstream_in_turns_give_up() {
    let machine = Machine::builder().memory(64 << 20).enter();
    // While a stream is under capture no request waits for the device instead.
    let stream = CudaStream::new().expect("a stream");
    let driver = current_driver().expect("a driver");
    // SAFETY: the stream lives.
    let begun = unsafe { driver.cuStreamBeginCapture_v2(stream.as_raw(), CuCaptureMode::RELAXED) };
    assert_eq!(begun, CuResult::SUCCESS);
    let upstream = Arc::new(InTurns::default());
    let pool = PoolMemoryResource::builder(Arc::clone(&upstream))
        .growth(GrowthPolicy::Exact)
        .maximum_size((USED + HELD * SMALL + LARGE) as u64) // room for one of the two
        .build()
        .expect("a pool");
    let _used = pool.allocate_sync(layout(USED)).expect("there is memory");
    upstream.pool.set(Arc::clone(&pool.inner.core)).expect("it is the only one");
    let held = (0..HELD).map(|_| pool.allocate_sync(layout(SMALL)).expect("there is memory"));
    let held = held.collect();
    upstream.change(|turns| turns.held = held);
    thread::scope(|scope| {
        for is_second in [false, true] {
            let (pool, upstream, machine) = (&pool, &upstream, &machine);
            scope.spawn(move || {
                let _entered = machine.enter();
                upstream.wait_while(|turns| is_second && turns.returned == 0);
                let outcome = pool.allocate_sync(layout(LARGE));
                upstream.change(|turns| turns.is_over = true);
                // A call of the other may wait: it has let go of the lock, or will see this.
                drop(pool.inner.core.lock());
                pool.inner.core.settled.notify_all();
                assert!(outcome.expect_err("there is no memory").is_out_of_memory());
            });
        }
    });
    // A thread that waits for the lock gets it between two steps of the other, which may then find
    // that nothing has changed, and give up sooner.
    let asked = upstream.turns().asked;
    assert!(asked > 3, "each asks, and again once the other has asked: {asked} calls");
    let most = 2 * 5 + 1;
    assert!(asked <= most, "each asks four times again, and once more who is left alone: {asked}");
}

/// Has the pool's first request wait in upstream until a second one is over.
#[derive(Debug, Default)]
struct Slow {
    /// Whether it is enough that the second one waits.
    ends_when_waited_for: bool,
    pool: OnceLock<Arc<PoolCore>>,
    is_asked: AtomicBool,
    is_over: AtomicBool,
}

// SAFETY: what it gives comes from `CudaMemoryResource`, which keeps the contract.
unsafe impl SynchronousResource for Slow {
    fn do_allocate_sync(&self, layout: Layout) -> Result<DevicePtr, Error> {
        let is_first = !self.is_asked.swap(true, Ordering::SeqCst);
        let pool = self.pool.get().expect("the pool is empty at first");
        let is_waited_for = || self.ends_when_waited_for && pool.lock().away > 1;
        while is_first && !is_waited_for() && !self.is_over.load(Ordering::SeqCst) {
            thread::yield_now();
        }
        CudaMemoryResource::new().allocate_sync(layout)
    }

    unsafe fn do_deallocate_sync(&self, pointer: DevicePtr, layout: Layout) {
        // SAFETY: the caller's contract is the same.
        unsafe { CudaMemoryResource::new().deallocate_sync(pointer, layout) }
    }

    fn name(&self) -> &'static str {
        "slow"
    }

    fn provide<'a>(&'a self, query: &mut Query<'a>) {
        query.value(|| MayBeWaitedFor);
    }
}

// SAFETY: as above; memory that every stream may use may be used by one.
unsafe impl Resource for Slow {
    fn do_allocate(&self, _: StreamRef<'_>, layout: Layout) -> Result<DevicePtr, Error> {
        self.do_allocate_sync(layout)
    }

    unsafe fn do_deallocate(&self, stream: StreamRef<'_>, pointer: DevicePtr, layout: Layout) {
        if stream.synchronize().is_ok() {
            // SAFETY: the caller's contract; all uses have completed.
            unsafe { self.do_deallocate_sync(pointer, layout) };
        }
    }
}

// SAFETY: its memory is that of the device.
unsafe impl HasProperty<DeviceAccessible> for Slow {}

impl PartialEq for Slow {
    fn eq(&self, other: &Self) -> bool {
        std::ptr::eq(self, other)
    }
}

/// What a second request gets while the first grows the pool to its limit.
fn second_request(limited: Effort, ends_when_waited_for: bool) -> Result<DevicePtr, Error> {
    let machine = Machine::builder().memory(64 << 20).build();
    let _entered = machine.enter();
    let upstream = Arc::new(Slow { ends_when_waited_for, ..Slow::default() });
    let builder = PoolMemoryResource::builder(Arc::clone(&upstream)).initial_size(0);
    let builder = builder.maximum_size(LARGE as u64).growth(GrowthPolicy::FixedStep(LARGE as u64));
    let pool = builder.build().expect("a pool");
    upstream.pool.set(Arc::clone(&pool.inner.core)).expect("it is the only one");
    thread::scope(|scope| {
        scope.spawn(|| {
            let _entered = machine.enter();
            pool.allocate_sync(layout(SMALL)).expect("there is memory");
        });
        while !upstream.is_asked.load(Ordering::SeqCst) {
            thread::yield_now();
        }
        let _scope = effort(limited);
        let outcome = pool.allocate_sync(layout(SMALL));
        upstream.is_over.store(true, Ordering::SeqCst);
        outcome
    })
}

#[test]
fn a_request_waits_for_the_growth_of_another_until_its_deadline() {
    let hour = Effort::Until(Instant::now() + Duration::from_secs(3600));
    second_request(hour, true).expect("the first has grown the pool for both");
    second_request(Effort::NoGrowth, true).expect("it may wait");
    let soon = Effort::Until(Instant::now() + Duration::from_millis(20));
    for limited in [Effort::NoHostWait, Effort::Until(Instant::now()), soon] {
        let error = second_request(limited, false).expect_err("the growth takes longer");
        let reason = error.usage().and_then(|usage| usage.reason);
        assert_eq!(reason, Some(OomReason::LimitedEffort), "{error}");
    }
}

/// A pool of one block that a stream has freed behind work which takes longer than any test.
fn pending(machine: &Machine) -> (PoolMemoryResource, CudaStream) {
    let builder = PoolMemoryResource::builder(CudaMemoryResource::new());
    let pool = builder.maximum_size(LARGE as u64).build().expect("a pool");
    let stream = CudaStream::non_blocking().expect("a stream");
    let block = pool.allocate(&stream, layout(LARGE)).expect("there is memory");
    let work = Kernel::new("write", |_| {}).writes(block, 8).lasts(Duration::from_secs(10_000));
    machine.launch(stream.as_raw(), work).expect("a launch");
    // SAFETY: allocated just now on this stream with this layout.
    unsafe { pool.deallocate(&stream, block, layout(LARGE)) };
    (pool, stream)
}

#[test]
fn a_request_is_refused_at_its_deadline_while_another_thread_has_the_lock() {
    let machine = Machine::builder().memory(64 << 20).schedule(Schedule::Timed).build();
    let _entered = machine.enter();
    let (pool, _stream) = pending(&machine);
    let core = &pool.inner.core;
    let error = thread::scope(|scope| {
        let waiting = scope.spawn(|| {
            let _entered = machine.enter();
            let _scope = effort(Effort::Until(Instant::now() + Duration::from_millis(300)));
            pool.allocate_sync(layout(LARGE))
        });
        while core.state.patient() == 0 {
            thread::yield_now();
        }
        // It naps, and will never have the lock again.
        let taken = core.lock();
        let outcome = waiting.join().expect("no panic");
        drop(taken);
        outcome.expect_err("the memory is in use")
    });
    assert!(error.is_out_of_memory(), "{error}");
    assert_eq!(error.usage().map(|usage| usage.reserved), Some(LARGE as u64), "{error}");
    let more = |remedy: &Remedy| matches!(remedy.action, RemedyAction::SpendMoreEffort { .. });
    assert!(error.remedies().iter().any(more), "{error}");
    assert_eq!((pool.statistics().failed_allocations, core.state.patient()), (1, 0));
    let block = pool.allocate_sync(layout(LARGE)).expect("after a wait");
    // SAFETY: allocated just now with this layout, and not used.
    unsafe { pool.deallocate_sync(block, layout(LARGE)) };
    machine.assert_no_violations();
}

#[test]
fn a_pool_retains_what_caches_may_hold_while_threads_wait_for_each_other() {
    let _machine = rmm_sim::enter();
    let (pool, stream) = (crate::default_pool().expect("a pool"), CudaStream::new().expect("one"));
    for _ in 0..2 {
        let block = pool.allocate(&stream, layout(SMALL)).expect("there is memory");
        // SAFETY: allocated just now on this stream with this layout, and not used.
        unsafe { pool.deallocate(&stream, block, layout(SMALL)) };
    }
    let core = &pool.inner.core;
    let retained = || {
        [Pace::Loading, Pace::Steady].map(|pace| {
            (core.retain_target_extendable(1 << 30, pace), core.retain_limit(1 << 30, pace))
        })
    };
    let before = retained();
    core.caches.set_contended(true);
    let room = core.caches.room();
    assert!(room >= 16 << 20, "one cache has {room} bytes more");
    assert_eq!(retained(), before.map(|(target, limit)| (target + room, limit + room)));
}
