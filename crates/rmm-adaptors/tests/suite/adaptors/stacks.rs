//! Random stacks of adaptors under random programs: whatever stands on what, blocks are never
//! shared, and when all is freed all books are empty and nothing is left behind.

use std::alloc::Layout;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use proptest::prelude::*;
use rmm_adaptors::{
    AlignedResourceAdaptor, ArenaMemoryResource, CallbackMemoryResource,
    FailureCallbackResourceAdaptor, FallbackMemoryResource, LimitingResourceAdaptor,
    LoggingResourceAdaptor, PoolMemoryResource, PrefetchResourceAdaptor, StatisticsResourceAdaptor,
    Tag, TaggedResourceAdaptor, ThreadSafeResourceAdaptor, TrackingResourceAdaptor,
};
use rmm_core::{AnyResource, DevicePtr, Error, Introspect, Resource, StreamRef, SyncResource};
use rmm_sim::{Checker, Machine, Schedule};
use rmm_sys::CuResult;

use crate::kinds::{LEAST, Upstream};
use crate::program::{Op, drawn, ops};
use crate::world::{Allocator, Common, World};

/// What stands on another resource.
#[derive(Clone, Copy, Debug)]
enum Storey {
    Aligned,
    Callback,
    FailureCallback,
    Fallback,
    Limiting,
    Logging,
    Pool,
    Prefetch,
    Statistics,
    Tagged,
    ThreadSafe,
    Tracking,
}

/// What is at the bottom.
#[derive(Clone, Copy, Debug)]
enum Ground {
    Plain,
    Pool,
    Arena,
}

const ALL: [Storey; 12] = [
    Storey::Aligned,
    Storey::Callback,
    Storey::FailureCallback,
    Storey::Fallback,
    Storey::Limiting,
    Storey::Logging,
    Storey::Pool,
    Storey::Prefetch,
    Storey::Statistics,
    Storey::Tagged,
    Storey::ThreadSafe,
    Storey::Tracking,
];

fn storeys() -> impl Strategy<Value = Vec<Storey>> {
    proptest::collection::vec(proptest::sample::select(&ALL[..]), 1..6)
}

type Any = AnyResource<()>;
/// How much a resource of the stack has in its books.
type Books = Box<dyn Fn() -> u64 + Send + Sync>;

/// A stack, and what to ask each of its resources at the end.
#[derive(Clone)]
struct Stack {
    top: Any,
    /// Of those that no pool stands on: it may keep what is freed to it.
    books: Arc<Vec<Books>>,
    /// What trackers have found, up to the end of the stack.
    findings: Arc<AtomicU64>,
}

fn ground(ground: Ground, upstream: Upstream) -> Result<Any, Error> {
    Ok(match ground {
        Ground::Plain => Any::new(Owned(Arc::new(upstream))),
        Ground::Pool => {
            Any::new(PoolMemoryResource::builder(upstream).maximum_size(LEAST).build()?)
        }
        Ground::Arena => {
            Any::new(ArenaMemoryResource::builder(upstream).arena_size(LEAST).build()?)
        }
    })
}

impl Stack {
    fn new(on: Ground, upstream: Upstream, storeys: &[Storey]) -> Result<Self, Error> {
        let mut top = ground(on, upstream)?;
        let mut books: Vec<Books> = Vec::new();
        let findings = Arc::new(AtomicU64::new(0));
        for &storey in storeys {
            let below = top.clone();
            let mut book = |book: Books| books.push(book);
            top = match storey {
                Storey::Aligned => {
                    Any::new(AlignedResourceAdaptor::with_threshold(below, 1024, 10_000)?)
                }
                Storey::Callback => Any::new(callback(below)),
                Storey::FailureCallback => {
                    let builder = FailureCallbackResourceAdaptor::builder(below).max_retries(2);
                    Any::new(builder.build(|failure| failure.attempt.get() < 2))
                }
                Storey::Fallback => {
                    let first = LimitingResourceAdaptor::new(below.clone(), 300 << 10);
                    let fallback = FallbackMemoryResource::new(first, below);
                    let same = fallback.clone();
                    book(Box::new(move || {
                        same.fallback_bytes() + same.upstream().allocated_bytes()
                    }));
                    Any::new(fallback)
                }
                Storey::Limiting => {
                    let limiting = LimitingResourceAdaptor::new(below, 1 << 20);
                    let same = limiting.clone();
                    book(Box::new(move || same.allocated_bytes()));
                    Any::new(limiting)
                }
                Storey::Logging => {
                    let logging = LoggingResourceAdaptor::to_writer(below, std::io::sink());
                    Any::new(logging.expect("it takes every line"))
                }
                Storey::Pool => {
                    books.clear();
                    Any::new(PoolMemoryResource::builder(below).build()?)
                }
                Storey::Prefetch => Any::new(PrefetchResourceAdaptor::new(below)),
                Storey::Statistics => {
                    let counted = StatisticsResourceAdaptor::new(below);
                    let same = counted.clone();
                    book(Box::new(move || {
                        let counters = same.counters();
                        counters.bytes.value.unsigned_abs()
                            + counters.allocations.value.unsigned_abs()
                    }));
                    Any::new(counted)
                }
                Storey::Tagged => {
                    let tagged = TaggedResourceAdaptor::new(below);
                    let same = tagged.clone();
                    book(Box::new(move || same.usage_of(Tag::UNTAGGED).live_bytes));
                    Any::new(tagged)
                }
                Storey::ThreadSafe => Any::new(ThreadSafeResourceAdaptor::new(below)),
                Storey::Tracking => {
                    let found = Arc::clone(&findings);
                    let tracked = TrackingResourceAdaptor::builder(below)
                        .on_finding(move |_| _ = found.fetch_add(1, Ordering::Relaxed));
                    let same = tracked.clone();
                    book(Box::new(move || same.allocated_bytes()));
                    Any::new(tracked)
                }
            };
        }
        Ok(Self { top, books: Arc::new(books), findings })
    }
}

fn callback(below: Any) -> CallbackMemoryResource {
    let same = below.clone();
    let allocate = move |stream: StreamRef<'_>, layout| below.allocate(stream, layout);
    let free = move |stream: StreamRef<'_>, pointer, layout| {
        // SAFETY: it came from the other function, with this layout.
        unsafe { same.deallocate(stream, pointer, layout) }
    };
    // SAFETY: the functions are a resource's.
    unsafe { CallbackMemoryResource::new(allocate, free) }
}

/// An upstream as a resource that is equal to its clones.
#[derive(Clone, Debug)]
struct Owned(Arc<Upstream>);

impl PartialEq for Owned {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

macro_rules! pass_on {
    ($type:ty, |$this:ident| $target:expr) => {
        // SAFETY: every call goes to a resource that keeps the contract.
        unsafe impl SyncResource for $type {
            fn allocate_sync(&self, layout: Layout) -> Result<DevicePtr, Error> {
                let $this = self;
                $target.allocate_sync(layout)
            }

            unsafe fn deallocate_sync(&self, pointer: DevicePtr, layout: Layout) {
                let $this = self;
                // SAFETY: the caller's contract is the same.
                unsafe { $target.deallocate_sync(pointer, layout) };
            }

            fn name(&self) -> &'static str {
                let $this = self;
                $target.name()
            }
        }

        // SAFETY: as above.
        unsafe impl Resource for $type {
            fn do_allocate(
                &self,
                stream: StreamRef<'_>,
                layout: Layout,
            ) -> Result<DevicePtr, Error> {
                let $this = self;
                $target.allocate(stream, layout)
            }

            unsafe fn do_deallocate(
                &self,
                stream: StreamRef<'_>,
                pointer: DevicePtr,
                layout: Layout,
            ) {
                let $this = self;
                // SAFETY: the caller's contract is the same.
                unsafe { $target.deallocate(stream, pointer, layout) };
            }
        }
    };
}

pass_on!(Owned, |this| this.0);
pass_on!(Stack, |this| this.top);

impl fmt::Debug for Stack {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.top.describe())
    }
}

impl Allocator for Stack {
    fn reserved(&self) -> u64 {
        0
    }

    fn waits(&self) -> u64 {
        0
    }

    fn books(&self) -> (u64, u64) {
        let left = self.books.iter().map(|book| book()).sum();
        (left, self.findings.load(Ordering::Relaxed))
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, ..ProptestConfig::default() })]

    #[test]
    fn any_stack_keeps_blocks_apart_and_loses_none(
        on in proptest::sample::select(vec![Ground::Plain, Ground::Pool, Ground::Arena]),
        storeys in storeys(),
        refused in 0..20_u64,
        is_ordered in any::<bool>(),
        seed in any::<u64>(),
        steps in ops(150),
    ) {
        run(on, &storeys, (refused, is_ordered), seed, &steps);
    }
}

fn run(
    on: Ground,
    storeys: &[Storey],
    (refused, is_ordered): (u64, bool),
    seed: u64,
    steps: &[Op],
) {
    let machine = Machine::builder().memory(64 << 20).schedule(Schedule::Seeded(seed)).build();
    let entered = machine.enter();
    let upstream = Upstream::refusing(refused, is_ordered);
    if let Ok(stack) = Stack::new(on, upstream, storeys) {
        let findings = Arc::clone(&stack.findings);
        let common = Common::over(&machine, stack);
        let mut world = World::on_streams(common, 0, crate::program::STREAMS);
        for step in steps {
            world.step(step);
        }
        world.finish();
        drop(world);
        assert_eq!(findings.load(Ordering::Relaxed), 0, "nothing is left at the end, either");
    }
    machine.assert_no_violations();
    assert!(machine.leaks().is_empty(), "{:?}", machine.leaks());
    drop(entered);
}

/// Each call of the driver fails once, under every adaptor at once.
#[test]
fn any_call_of_the_driver_may_fail_under_all_adaptors() {
    for seed in 0..2 {
        let steps = drawn(ops(60), seed, 0);
        let machine = Machine::builder().memory(64 << 20).schedule(Schedule::Seeded(seed));
        let failed = Checker::new().machine(machine).fail_each_call(CuResult::UNKNOWN, |machine| {
            let upstream = machine.without_faults(|| Upstream::new(seed == 1));
            let Ok(stack) = Stack::new(Ground::Pool, upstream, &ALL) else { return };
            let common = Common::over(machine, stack);
            let mut world =
                machine.without_faults(|| World::on_streams(common, 0, crate::program::STREAMS));
            for step in &steps {
                world.step(step);
            }
            world.finish();
        });
        assert!(failed > 20, "only {failed} calls could fail");
    }
}
