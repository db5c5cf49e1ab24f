//! Tests that a pool below or above any adaptor, and a request that the program makes of the
//! adaptor itself, get each other's idle memory, and never wait for a lock of their own thread.

use std::alloc::Layout;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;

use rmm_adaptors::{
    AlignedResourceAdaptor, CallbackMemoryResource, FailureCallbackResourceAdaptor,
    FallbackMemoryResource, LimitingResourceAdaptor, PoolMemoryResource, StatisticsResourceAdaptor,
    TaggedResourceAdaptor, ThreadSafeResourceAdaptor, TrackingResourceAdaptor,
};
use rmm_core::{
    AnyResource, DeviceAccessible, DevicePtr, Error, HasProperty, Introspect, Query, Resource,
    StreamRef, Structure, Synchronized, SynchronousResource,
};
use rmm_resources::{
    CudaAsyncMemoryResource, CudaMemoryResource, ManagedMemoryResource, PinnedHostMemoryResource,
    VirtualMemoryResource,
};
use rmm_sim::{Machine, Schedule};

use crate::support::{MIB, free, layout, mib, stream};
use crate::watchdog::within_a_minute;

/// An adaptor of a program with a mutex, which it holds while it calls its upstream.
#[derive(Clone, Debug)]
struct Counted<R> {
    upstream: R,
    bytes: Arc<Mutex<usize>>,
}

rmm_core::adaptor! {
    Counted<R> over upstream, name = "counted";
    fn allocate(&self, below, layout) {
        let mut bytes = self.bytes.lock().expect("no panic");
        let block = below.allocate(layout)?;
        *bytes += layout.size();
        Ok(block)
    }
    fn freed(&self, layout) {
        *self.bytes.lock().expect("no panic") -= layout.size();
    }
}

/// The same, of a program that implements the traits itself.
#[derive(Clone, Debug)]
struct ByHand<R> {
    upstream: R,
    lock: Arc<Mutex<()>>,
}

// SAFETY: every call goes to the upstream, which keeps the contract.
unsafe impl<R: SynchronousResource> SynchronousResource for ByHand<R> {
    fn do_allocate_sync(&self, layout: Layout) -> Result<DevicePtr, Error> {
        let _locked = self.lock.lock().expect("no panic");
        self.upstream.allocate_sync(layout)
    }

    unsafe fn do_deallocate_sync(&self, pointer: DevicePtr, layout: Layout) {
        let _locked = self.lock.lock().expect("no panic");
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
        Structure::over(&self.upstream)
    }

    fn provide<'a>(&'a self, query: &mut Query<'a>) {
        query.properties_from(&self.upstream);
    }
}

// SAFETY: as above.
unsafe impl<R: Resource> Resource for ByHand<R> {
    fn do_allocate(&self, stream: StreamRef<'_>, layout: Layout) -> Result<DevicePtr, Error> {
        let _locked = self.lock.lock().expect("no panic");
        self.upstream.do_allocate(stream, layout)
    }

    unsafe fn do_deallocate(&self, stream: StreamRef<'_>, pointer: DevicePtr, layout: Layout) {
        let _locked = self.lock.lock().expect("no panic");
        // SAFETY: the caller's contract is the same.
        unsafe { self.upstream.do_deallocate(stream, pointer, layout) }
    }
}

impl<R: PartialEq> PartialEq for ByHand<R> {
    fn eq(&self, other: &Self) -> bool {
        self.upstream == other.upstream
    }
}

// SAFETY: the memory is the upstream's.
unsafe impl<R: HasProperty<DeviceAccessible>> HasProperty<DeviceAccessible> for ByHand<R> {}

type Make = fn() -> AnyResource;
type Adapt = fn(AnyResource) -> AnyResource;
type Stack = (&'static str, Adapt);

fn callbacks(upstream: AnyResource) -> AnyResource {
    let lock = Arc::new(Mutex::new(()));
    let (frees, its) = (upstream.clone(), Arc::clone(&lock));
    let allocate = move |stream: StreamRef<'_>, layout: Layout| {
        let _locked = lock.lock().expect("no panic");
        upstream.allocate(stream, layout)
    };
    let free = move |stream: StreamRef<'_>, pointer, layout| {
        let _locked = its.lock().expect("no panic");
        // SAFETY: it was allocated by the other function, with this layout.
        unsafe { frees.deallocate(stream, pointer, layout) }
    };
    // SAFETY: the functions are those of a resource.
    AnyResource::new(unsafe { CallbackMemoryResource::new(allocate, free) })
}

/// All adaptors, over one upstream.
const ADAPTORS: [Stack; 12] = [
    ("aligned", |it| AnyResource::new(AlignedResourceAdaptor::new(it, 512).expect("aligned"))),
    ("failure-callback", |it| AnyResource::new(FailureCallbackResourceAdaptor::new(it, |_| false))),
    ("fallback", |it| {
        let none = LimitingResourceAdaptor::new(CudaMemoryResource::new(), 0);
        AnyResource::new(FallbackMemoryResource::new(it, none))
    }),
    ("limiting", |it| AnyResource::new(LimitingResourceAdaptor::new(it, mib(60)))),
    ("statistics", |it| AnyResource::new(StatisticsResourceAdaptor::new(it))),
    ("synchronized", |it| AnyResource::new(Synchronized::new(it))),
    ("tagged", |it| AnyResource::new(TaggedResourceAdaptor::new(it))),
    ("tracking", |it| AnyResource::new(TrackingResourceAdaptor::new(it))),
    ("thread-safe", |it| AnyResource::new(ThreadSafeResourceAdaptor::new(it))),
    ("callbacks", callbacks),
    ("of a program", |it| AnyResource::new(Counted { upstream: it, bytes: Arc::default() })),
    ("twice", |it| {
        let safe: AnyResource = AnyResource::new(ThreadSafeResourceAdaptor::new(it));
        AnyResource::new(Counted { upstream: safe, bytes: Arc::default() })
    }),
];

fn by_hand(upstream: AnyResource) -> AnyResource {
    AnyResource::new(ByHand { upstream, lock: Arc::default() })
}

/// All resources whose memory is the device's, and runs out.
const BASES: [(&str, Make); 4] = [
    ("cuda", || AnyResource::new(CudaMemoryResource::new())),
    ("virtual", || AnyResource::new(VirtualMemoryResource::new().expect("pages"))),
    ("cuda-async", || AnyResource::new(CudaAsyncMemoryResource::new().expect("a pool"))),
    ("pool", || {
        let pool = PoolMemoryResource::builder(CudaMemoryResource::new()).maximum_size(mib(60));
        AnyResource::new(pool.build().expect("a pool"))
    }),
];

fn machine() -> Machine {
    Machine::builder().memory(64 * MIB).schedule(Schedule::Eager).build()
}

const LARGE: usize = 48 * MIB;

/// What a request of the adaptor returns while a pool over a clone of it holds as much idle; and
/// whether the request is served.
fn is_served(what: &str, base: Make, adaptor: Adapt) -> bool {
    within_a_minute(what, move || {
        let machine = machine().enter();
        let resource = adaptor(base());
        let pool = PoolMemoryResource::builder(resource.clone()).build().expect("a pool");
        let on = stream();
        let block = pool.allocate(&on, layout(LARGE)).expect("there is room");
        free(&pool, &on, block, LARGE);
        on.synchronize().expect("it runs");
        let served = resource.allocate(&on, layout(LARGE));
        let is_served = served.is_ok();
        if let Ok(block) = served {
            free(&resource, &on, block, LARGE);
        }
        on.synchronize().expect("it runs");
        drop((pool, resource, on));
        machine.assert_no_violations();
        assert!(machine.leaks().is_empty(), "{:?}", machine.leaks());
        is_served
    })
}

#[test]
fn an_adaptor_gets_what_a_pool_over_it_holds() {
    for (name, adaptor) in ADAPTORS {
        for (below, base) in BASES {
            let what = format!("{name} over {below}");
            let is_served = is_served(&what, base, adaptor);
            // That the functions use a pool with a maximum is known to the program alone.
            let is_hidden = (name, below) == ("callbacks", "pool");
            assert!(is_served || is_hidden, "{what}");
        }
    }
}

#[test]
fn an_adaptor_with_a_lock_that_is_unknown_never_hangs() {
    for (below, base) in BASES {
        // Nothing below knows of its lock, so the pool over it is not asked.
        is_served(&format!("by hand over {below}"), base, by_hand);
    }
}

#[test]
fn host_memory_below_a_lock_that_runs_out_is_refused() {
    let bases: [Make; 2] = [
        || AnyResource::new(ManagedMemoryResource::new()),
        || AnyResource::new(PinnedHostMemoryResource::new()),
    ];
    for base in bases {
        for (name, adaptor) in ADAPTORS {
            within_a_minute(name, move || {
                let _machine = machine().enter();
                let resource = adaptor(base());
                let pool = PoolMemoryResource::builder(resource.clone()).build().expect("a pool");
                let on = stream();
                let outcomes =
                    [pool.allocate(&on, layout(1 << 46)), resource.allocate(&on, layout(1 << 46))];
                assert!(outcomes.iter().all(Result::is_err));
            });
        }
    }
}

/// A pool over a pool over an adaptor, and pools beside it, on two threads which want all memory.
#[test]
fn two_threads_at_one_adaptor_never_wait_for_each_other() {
    let adaptors = ADAPTORS.into_iter().chain([("by hand", by_hand as Adapt)]);
    for (name, adaptor) in adaptors {
        within_a_minute(name, move || {
            let machine = machine().enter();
            let shared = adaptor(AnyResource::new(CudaMemoryResource::new()));
            let pool = |upstream: &AnyResource| {
                let pool = PoolMemoryResource::builder(upstream.clone()).build().expect("a pool");
                AnyResource::new(pool)
            };
            let over = pool(&shared);
            let above = adaptor(over.clone());
            let beside = pool(&AnyResource::new(CudaMemoryResource::new()));
            let all = [pool(&above), above, over, shared, beside];
            let all = &all;
            thread::scope(|scope| {
                for number in 0..2 {
                    let machine = &machine;
                    scope.spawn(move || {
                        let _entered = machine.enter();
                        let on = stream();
                        for round in 0..60 {
                            let resource = &all[(round * (number + 1) + number) % all.len()];
                            if let Ok(block) = resource.allocate(&on, layout(40 * MIB)) {
                                free(resource, &on, block, 40 * MIB);
                            }
                        }
                    });
                }
            });
            machine.assert_no_violations();
        });
    }
}

#[test]
fn pools_over_different_adaptors_help_each_other() {
    let adaptors = ADAPTORS.into_iter().chain([("by hand", by_hand as Adapt)]);
    for (name, adaptor) in adaptors {
        within_a_minute(name, move || {
            let _machine = machine().enter();
            let cuda = || AnyResource::new(CudaMemoryResource::new());
            let [first, second] = [adaptor(cuda()), adaptor(cuda())]
                .map(|below| PoolMemoryResource::builder(below).build().expect("a pool"));
            let on = stream();
            for pool in [&first, &second, &first] {
                let block = pool
                    .allocate(&on, layout(LARGE))
                    .unwrap_or_else(|error| panic!("{name}: the other pool has it: {error:?}"));
                free(pool, &on, block, LARGE);
                on.synchronize().expect("it runs");
            }
        });
    }
}

#[test]
fn a_refusal_by_an_adaptor_s_own_code_empties_no_pool() {
    #[derive(Clone, Debug)]
    struct Never<R> {
        upstream: R,
    }
    rmm_core::adaptor! {
        Never<R> over upstream, name = "never";
        fn allocate(&self, below, layout) {
            if layout.size() > MIB {
                return Err(Error::out_of_memory("never").with_layout(layout));
            }
            below.allocate(layout)
        }
    }
    let _machine = machine().enter();
    let pool = PoolMemoryResource::builder(CudaMemoryResource::new()).build().expect("a pool");
    let on = stream();
    let block = pool.allocate(&on, layout(LARGE)).expect("there is room");
    free(&pool, &on, block, LARGE);
    on.synchronize().expect("it runs");
    let never = Never { upstream: CudaMemoryResource::new() };
    assert!(never.allocate(&on, layout(2 * MIB)).expect_err("too large").is_out_of_memory());
    assert_eq!(pool.reserved_bytes(), LARGE as u64);
}

#[test]
fn callbacks_of_a_pool_run_after_the_adaptor_s_locks() {
    within_a_minute("a spill through the adaptor", || {
        let _machine = machine().enter();
        let pool = PoolMemoryResource::builder(CudaMemoryResource::new()).maximum_size(mib(8));
        let pool = pool.build().expect("a pool");
        let counted = Counted { upstream: pool.clone(), bytes: Arc::default() };
        let cached =
            Mutex::new(Some(counted.allocate_sync(layout(6 * MIB)).expect("there is room")));
        let has_run = Arc::new(AtomicBool::new(false));
        let guard = pool.on_pressure({
            let (counted, has_run) = (counted.clone(), Arc::clone(&has_run));
            move |pressure| {
                has_run.store(true, Ordering::SeqCst);
                assert_eq!(pressure.requested, mib(6));
                let Some(block) = cached.lock().expect("no panic").take() else { return false };
                // SAFETY: allocated above with this layout, and used no more.
                unsafe { counted.deallocate_sync(block, layout(6 * MIB)) };
                true
            }
        });
        let block = counted.allocate_sync(layout(6 * MIB)).expect("the spilled one's memory");
        assert!(has_run.load(Ordering::SeqCst));
        assert!(
            counted.allocate_sync(layout(6 * MIB)).expect_err("none is left").is_out_of_memory()
        );
        drop(guard);
        // SAFETY: allocated above with this layout, and not used.
        unsafe { counted.deallocate_sync(block, layout(6 * MIB)) };
        assert_eq!(*counted.bytes.lock().expect("no panic"), 0);
        assert_eq!(counted.describe().to_string().lines().count(), 3);
    });
}
