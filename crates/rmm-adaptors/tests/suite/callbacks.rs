//! Tests that every call of a pool ends inside all code of the program that a pool runs: on the
//! thread that runs it, and on a worker that this code waits for.

use std::alloc::Layout;
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Barrier, Mutex, OnceLock, PoisonError};
use std::thread;

use rmm_adaptors::{
    CallbackMemoryResource, Contents, FailureCallbackResourceAdaptor, LimitingResourceAdaptor,
    PoolMemoryResource, SleepOptions,
};
use rmm_core::{
    AnyResource, CudaStream, Device, DeviceAccessible, DevicePtr, Error, ErrorKind,
    ExtendableResource, HasProperty, Introspect, Query, Resource, StreamRef, Structure,
    SynchronousResource,
};
use rmm_resources::{CudaMemoryResource, VirtualMemoryResource};
use rmm_sim::{Machine, Schedule};

use crate::support::{MIB, free, layout, mib, stream};
use crate::watchdog::within_a_minute;

type Pool = PoolMemoryResource;

/// Code of the program: does nothing until a test says what, and does nothing inside itself.
#[derive(Clone, Default)]
struct Code(Arc<Inside>);

#[derive(Default)]
struct Inside {
    act: Mutex<Option<Arc<dyn Fn() + Send + Sync>>>,
    runs: AtomicBool,
    count: AtomicUsize,
}

impl fmt::Debug for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Code")
    }
}

impl Code {
    fn set(&self, act: impl Fn() + Send + Sync + 'static) {
        *self.0.act.lock().unwrap_or_else(PoisonError::into_inner) = Some(Arc::new(act));
    }

    fn clear(&self) {
        *self.0.act.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    fn run(&self) {
        let act = self.0.act.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if let Some(act) = act
            && !self.0.runs.swap(true, Ordering::SeqCst)
        {
            self.0.count.fetch_add(1, Ordering::SeqCst);
            act();
            self.0.runs.store(false, Ordering::SeqCst);
        }
    }

    fn has_run(&self) -> bool {
        self.0.count.load(Ordering::SeqCst) > 0
    }
}

/// Which hook runs the code.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum At {
    Allocate,
    Free,
}

/// An adaptor of a program.
#[derive(Clone, Debug)]
struct Hooks<R> {
    upstream: R,
    code: Code,
    at: At,
}

rmm_core::adaptor! {
    Hooks<R> over upstream, name = "hooks";
    fn allocate(&self, below, layout) {
        if self.at == At::Allocate {
            self.code.run();
        }
        below.allocate(layout)
    }
    fn freed(&self, _layout) {
        if self.at == At::Free {
            self.code.run();
        }
    }
}

/// A resource that a program implements itself, over virtual memory.
#[derive(Clone, Debug)]
struct ByHand {
    upstream: VirtualMemoryResource,
    code: Code,
    at: At,
}

impl PartialEq for ByHand {
    fn eq(&self, other: &Self) -> bool {
        self.upstream == other.upstream
    }
}

impl ByHand {
    fn at(&self, at: At) {
        if self.at == at {
            self.code.run();
        }
    }
}

// SAFETY: the contract is kept by the virtual memory.
unsafe impl SynchronousResource for ByHand {
    fn do_allocate_sync(&self, layout: Layout) -> Result<DevicePtr, Error> {
        self.at(At::Allocate);
        self.upstream.allocate_sync(layout)
    }

    unsafe fn do_deallocate_sync(&self, pointer: DevicePtr, layout: Layout) {
        self.at(At::Free);
        // SAFETY: the caller's contract is the same.
        unsafe { self.upstream.deallocate_sync(pointer, layout) }
    }

    fn name(&self) -> &'static str {
        "by hand"
    }

    fn structure(&self) -> Structure<'_>
    where
        Self: 'static,
    {
        Structure::default().with_extendable(self)
    }

    fn provide<'a>(&'a self, query: &mut Query<'a>) {
        query.properties_from(&self.upstream);
    }
}

// SAFETY: as above.
unsafe impl Resource for ByHand {
    fn do_allocate(&self, stream: StreamRef<'_>, layout: Layout) -> Result<DevicePtr, Error> {
        self.at(At::Allocate);
        self.upstream.do_allocate(stream, layout)
    }

    unsafe fn do_deallocate(&self, stream: StreamRef<'_>, pointer: DevicePtr, layout: Layout) {
        self.at(At::Free);
        // SAFETY: the caller's contract is the same.
        unsafe { self.upstream.do_deallocate(stream, pointer, layout) }
    }
}

// SAFETY: as above.
unsafe impl ExtendableResource for ByHand {
    fn page_size(&self) -> u64 {
        self.upstream.page_size()
    }

    fn allocate_at(&self, start: DevicePtr, layout: Layout) -> Result<(), Error> {
        self.at(At::Allocate);
        self.upstream.allocate_at(start, layout)
    }

    unsafe fn suspend(&self, blocks: &[(DevicePtr, Layout)]) -> Result<(), Error> {
        // SAFETY: the caller's contract is the same.
        unsafe { self.upstream.suspend(blocks) }
    }

    fn resume(&self, blocks: &[(DevicePtr, Layout)]) -> Result<(), Error> {
        self.upstream.resume(blocks)
    }
}

// SAFETY: the memory is that of the virtual memory.
unsafe impl HasProperty<DeviceAccessible> for ByHand {}

/// A pool with code of the program, and what else the test holds.
struct Stage {
    machine: Machine,
    code: Code,
    pool: Pool,
    /// The upstream that a program may use itself.
    below: AnyResource,
    on: CudaStream,
    /// A block of the pool that a call may free.
    spare: Mutex<Option<DevicePtr>>,
    kept: Mutex<Vec<Box<dyn Send>>>,
}

impl Stage {
    fn new(machine: &Machine, code: Code, below: AnyResource) -> Arc<Self> {
        let pool = PoolMemoryResource::builder(below.clone()).maximum_size(mib(16));
        let (pool, on) = (pool.build().expect("a pool"), stream());
        let spare = pool.allocate(&on, layout(2 * MIB)).expect("there is room");
        let (spare, machine) = (Mutex::new(Some(spare)), machine.clone());
        Arc::new(Self { machine, code, pool, below, on, spare, kept: Mutex::default() })
    }

    fn over(machine: &Machine, make: impl FnOnce(Code) -> AnyResource) -> Arc<Self> {
        let code = Code::default();
        let below = make(code.clone());
        Self::new(machine, code, below)
    }

    /// Allocates and frees, if there is memory; a call may fail.
    fn try_use(&self, bytes: usize) {
        if let Ok(block) = self.pool.allocate(&self.on, layout(bytes)) {
            free(&self.pool, &self.on, block, bytes);
        }
        if let Ok(block) = self.pool.allocate_sync(layout(bytes)) {
            // SAFETY: allocated above with this layout, and not used.
            unsafe { self.pool.deallocate_sync(block, layout(bytes)) };
        }
    }

    fn free_spare(&self) {
        let spare = self.spare.lock().expect("no panic").take();
        if let Some(block) = spare {
            free(&self.pool, &self.on, block, 2 * MIB);
        }
    }
}

fn cuda() -> AnyResource {
    AnyResource::new(CudaMemoryResource::new())
}

fn limited() -> AnyResource {
    AnyResource::new(LimitingResourceAdaptor::new(cuda(), mib(8)))
}

fn callback_resource(code: &Code, at: At) -> AnyResource {
    let (allocates, frees) = (code.clone(), code.clone());
    let allocate = move |stream: StreamRef<'_>, layout: Layout| {
        if at == At::Allocate {
            allocates.run();
        }
        CudaMemoryResource::new().allocate(stream, layout)
    };
    let free = move |stream: StreamRef<'_>, pointer, layout| {
        if at == At::Free {
            frees.run();
        }
        // SAFETY: it was allocated by the other function, with this layout.
        unsafe { CudaMemoryResource::new().deallocate(stream, pointer, layout) }
    };
    // SAFETY: the functions are those of a resource.
    AnyResource::new(unsafe { CallbackMemoryResource::new(allocate, free) })
}

fn hooks(code: Code, at: At) -> AnyResource {
    AnyResource::new(Hooks { upstream: cuda(), code, at })
}

fn by_hand(code: Code, at: At) -> AnyResource {
    let upstream = VirtualMemoryResource::new().expect("pages");
    AnyResource::new(ByHand { upstream, code, at })
}

fn pages() -> AnyResource {
    AnyResource::new(VirtualMemoryResource::new().expect("pages"))
}

/// A pool that takes idle memory from a sibling, whose frees run the code.
fn beside_a_sibling(machine: &Machine) -> Arc<Stage> {
    let code = Code::default();
    let stage = Stage::new(machine, code.clone(), cuda());
    let sibling = PoolMemoryResource::builder(callback_resource(&code, At::Free));
    let sibling = sibling.build().expect("a pool");
    let rest = Device::memory_info().expect("it says").free - mib(4);
    let rest = usize::try_from(rest).expect("few");
    let block = sibling.allocate(&stage.on, layout(rest)).expect("there is room");
    free(&sibling, &stage.on, block, rest);
    stage.on.synchronize().expect("it runs");
    stage.kept.lock().expect("no panic").push(Box::new(sibling));
    stage
}

fn grow(stage: &Stage) {
    stage.try_use(6 * MIB);
}

fn grow_and_trim(stage: &Stage) {
    stage.try_use(6 * MIB);
    stage.on.synchronize().expect("it runs");
    stage.pool.trim(0);
}

fn run_short(stage: &Stage) {
    // It is refused.
    let _ignored = stage.pool.allocate_sync(layout(15 * MIB));
}

/// Sleeps, once no capture of another test keeps the pool from it.
fn sleep_with(stage: &Stage, options: impl Fn() -> SleepOptions<'static>) {
    // SAFETY: no work uses the pool's memory.
    while let Err(error) = unsafe { stage.pool.sleep_with(options()) } {
        assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
        thread::yield_now();
    }
}

fn sleep(stage: &Stage) {
    sleep_with(stage, || {
        let code = stage.code.clone();
        let options = SleepOptions::new(Contents::ToHost).wait_for_work(true);
        options.on_progress(move |_| code.run())
    });
}

fn sleep_and_wake(stage: &Stage) {
    sleep_with(stage, || SleepOptions::new(Contents::ToHost));
    stage.pool.wake_with(|_| stage.code.run()).expect("there is memory");
}

fn with_on_pressure(machine: &Machine, below: AnyResource) -> Arc<Stage> {
    let code = Code::default();
    let stage = Stage::new(machine, code.clone(), below);
    let guard = stage.pool.on_pressure(move |_| {
        code.run();
        false
    });
    stage.kept.lock().expect("no panic").push(Box::new(guard));
    stage
}

type Place = (&'static str, fn(&Machine) -> Arc<Stage>, fn(&Stage));

/// Where code of the program runs, and what makes it run.
const PLACES: [Place; 13] = [
    (
        "a failure callback",
        |it| {
            Stage::over(it, |code| {
                let callback = move |_: &rmm_adaptors::FailedAllocation<'_>| {
                    code.run();
                    false
                };
                AnyResource::new(FailureCallbackResourceAdaptor::new(limited(), callback))
            })
        },
        |stage| drop(stage.pool.allocate_sync(layout(12 * MIB))),
    ),
    (
        "a callback's allocate",
        |it| Stage::over(it, |code| callback_resource(&code, At::Allocate)),
        grow,
    ),
    (
        "a callback's free",
        |it| Stage::over(it, |code| callback_resource(&code, At::Free)),
        grow_and_trim,
    ),
    ("a hook's allocate", |it| Stage::over(it, |code| hooks(code, At::Allocate)), grow),
    ("a hook's free", |it| Stage::over(it, |code| hooks(code, At::Free)), grow_and_trim),
    ("an own allocate", |it| Stage::over(it, |code| by_hand(code, At::Allocate)), grow),
    ("an own free", |it| Stage::over(it, |code| by_hand(code, At::Free)), grow_and_trim),
    (
        "a hook above a pool",
        |it| {
            Stage::over(it, |code| {
                let lower = PoolMemoryResource::builder(hooks(code, At::Allocate));
                AnyResource::new(lower.build().expect("a pool"))
            })
        },
        grow,
    ),
    ("pressure", |it| with_on_pressure(it, cuda()), run_short),
    ("pressure over pages", |it| with_on_pressure(it, pages()), run_short),
    ("progress of sleep", |it| Stage::over(it, |_| pages()), sleep),
    ("progress of wake", |it| Stage::over(it, |_| pages()), sleep_and_wake),
    ("a sibling's free", beside_a_sibling, |stage| stage.try_use(8 * MIB)),
];

/// Whatever a call returns.
fn ignore<T>(_: T) {}

type Call = (&'static str, fn(&Stage));

/// The public calls of a pool.
const CALLS: [Call; 22] = [
    ("allocate what fits", |stage| stage.try_use(1024)),
    ("allocate what needs growth", |stage| stage.try_use(5 * MIB)),
    ("allocate what does not fit", |stage| stage.try_use(15 * MIB)),
    ("allocate more than there is", |stage| stage.try_use(1 << 40)),
    ("free", Stage::free_spare),
    ("trim", |stage| ignore(stage.pool.trim(0))),
    ("trim and wait", |stage| ignore(stage.pool.trim_blocking(0))),
    ("trim the stack", |stage| ignore(stage.pool.trim_stack_blocking(0))),
    ("release what is unused", |stage| ignore(stage.pool.release_unused())),
    ("sleep", |stage| {
        // SAFETY: no work uses the pool's memory.
        let _ignored = unsafe { stage.pool.sleep(Contents::Discard) };
    }),
    ("sleep and wake", |stage| {
        let options = SleepOptions::new(Contents::ToHost).wait_for_work(true);
        // SAFETY: no work uses the pool's memory.
        let _ignored = unsafe { stage.pool.sleep_with(options) };
        let _ignored = stage.pool.wake();
    }),
    ("wake", |stage| ignore(stage.pool.wake())),
    ("reserve", |stage| {
        if let Ok(reservation) = stage.pool.reserve(mib(1)) {
            let block = reservation.allocate_sync(layout(1024)).expect("it is reserved");
            // SAFETY: allocated above with this layout, and not used.
            unsafe { reservation.deallocate_sync(block, layout(1024)) };
        }
    }),
    ("reserve what does not fit", |stage| ignore(stage.pool.reserve(mib(15)))),
    ("statistics", |stage| ignore((stage.pool.statistics(), stage.pool.is_asleep()))),
    ("blocks", |stage| ignore((stage.pool.blocks(), stage.pool.pending_bytes()))),
    ("describe", |stage| ignore((stage.pool.describe(), format!("{:?}", stage.pool)))),
    ("drop a clone", |stage| ignore(stage.pool.clone())),
    ("build and drop another", |stage| {
        let other = PoolMemoryResource::builder(stage.below.clone()).build().expect("a pool");
        if let Ok(block) = other.allocate(&stage.on, layout(MIB)) {
            free(&other, &stage.on, block, MIB);
        }
    }),
    ("use the upstream", |stage| {
        if let Ok(block) = stage.below.allocate(&stage.on, layout(4 * MIB)) {
            free(&stage.below, &stage.on, block, 4 * MIB);
        }
    }),
    // SAFETY: there are no graphs.
    ("release graph memory", |stage| unsafe { stage.pool.release_graph_memory() }),
    ("register for pressure", |stage| ignore(stage.pool.on_pressure(|_| false))),
];

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum By {
    Itself,
    Worker,
}

/// Makes a call on this thread, or on one that this waits for.
fn make(call: fn(&Stage), stage: &Stage, by: By) {
    if by == By::Itself {
        return call(stage);
    }
    let machine = &stage.machine;
    let worker = || {
        let _entered = machine.enter();
        let _current = Device::new(0).and_then(Device::make_current).expect("a device");
        call(stage);
    };
    thread::scope(|scope| scope.spawn(worker).join().expect("no panic"));
}

fn run_cell(place: Place, call: Call, by: By) {
    let machine = Machine::builder().memory(32 * MIB).schedule(Schedule::Eager).enter();
    let (_, build, trigger) = place;
    let stage = build(&machine);
    {
        let (weak, call) = (Arc::downgrade(&stage), call.1);
        stage.code.set(move || make(call, &weak.upgrade().expect("it is in use"), by));
    }
    trigger(&stage);
    stage.code.clear();
    assert!(stage.code.has_run(), "the code has not run");
    let _ignored = stage.pool.wake();
    stage.free_spare();
    stage.kept.lock().expect("no panic").clear();
    let bytes = stage.pool.statistics().live_bytes;
    drop(stage);
    machine.assert_no_violations();
    // `run_short` keeps nothing, and no other call does.
    assert_eq!((bytes, machine.leaks().len()), (0, 0), "{:?}", machine.leaks());
}

fn every_call_ends(by: By) {
    for place in PLACES {
        for call in CALLS {
            let what = format!("{} inside {}, by {by:?}", call.0, place.0);
            within_a_minute(&what, move || run_cell(place, call, by));
        }
    }
}

#[test]
fn every_call_ends_inside_all_code_of_the_program() {
    every_call_ends(By::Itself);
}

#[test]
fn every_call_of_a_worker_ends_that_such_code_waits_for() {
    every_call_ends(By::Worker);
}

/// A ring of pools, each of which puts the next to sleep when it runs short.
#[test]
fn pools_that_put_each_other_to_sleep_end() {
    for count in 1..=3 {
        within_a_minute(&format!("{count} pools"), move || {
            let machine = Machine::builder().memory(64 * MIB).schedule(Schedule::Eager).enter();
            let pools: Vec<Pool> = (0..count)
                .map(|_| {
                    PoolMemoryResource::builder(pages()).maximum_size(mib(8)).build().expect("it")
                })
                .collect();
            let live: Vec<DevicePtr> = pools
                .iter()
                .map(|pool| pool.allocate_sync(layout(6 * MIB)).expect("room"))
                .collect();
            let barrier = Arc::new(Barrier::new(count));
            let guards: Vec<_> = (0..count)
                .map(|number| {
                    let (next, barrier) =
                        (pools[(number + 1) % count].clone(), Arc::clone(&barrier));
                    let once = OnceLock::new();
                    pools[number].on_pressure(move |_| {
                        if once.set(()).is_ok() {
                            barrier.wait();
                            // SAFETY: no work uses the pool's memory.
                            unsafe { next.sleep(Contents::Discard) }
                                .expect("no call is in progress");
                        }
                        true
                    })
                })
                .collect();
            let refused = thread::scope(|scope| {
                let ask = |pool| {
                    let machine = &machine;
                    let pool: &Pool = pool;
                    scope.spawn(move || {
                        let _entered = machine.enter();
                        let _current = Device::new(0).and_then(Device::make_current).expect("it");
                        pool.allocate_sync(layout(4 * MIB)).expect_err("there is no memory")
                    })
                };
                let threads: Vec<_> = pools.iter().map(ask).collect();
                threads.into_iter().map(|it| it.join().expect("no panic")).collect::<Vec<_>>()
            });
            drop(guards);
            assert!(pools.iter().all(Pool::is_asleep));
            assert!(
                refused.iter().all(|it| it.is_not_ready() || it.is_out_of_memory()),
                "{refused:?}"
            );
            for (pool, block) in pools.iter().zip(live) {
                pool.wake().expect("there is memory");
                // SAFETY: allocated above with this layout, and not used.
                unsafe { pool.deallocate_sync(block, layout(6 * MIB)) };
            }
        });
    }
}

/// A sleep does not wait for a request that is in the middle of code of the program, and leaves the
/// pool awake.
#[test]
fn a_pool_whose_request_runs_code_refuses_to_sleep() {
    within_a_minute("a sleep inside an own allocate", || {
        let machine = Machine::builder().memory(32 * MIB).schedule(Schedule::Eager).enter();
        for by in [By::Itself, By::Worker] {
            let stage = Stage::over(&machine, |code| by_hand(code, At::Allocate));
            let weak = Arc::downgrade(&stage);
            stage.code.set(move || {
                let stage = weak.upgrade().expect("it is in use");
                make(
                    |stage| {
                        // SAFETY: no work uses the pool's memory.
                        let slept = unsafe { stage.pool.sleep(Contents::Discard) };
                        assert!(slept.expect_err("a request is in progress").is_not_ready());
                        assert!(!stage.pool.is_asleep());
                    },
                    &stage,
                    by,
                );
            });
            let block = stage.pool.allocate(&stage.on, layout(6 * MIB)).expect("it is served");
            free(&stage.pool, &stage.on, block, 6 * MIB);
            stage.code.clear();
            assert!(stage.code.has_run());
            stage.free_spare();
        }
    });
}
