//! Random stacks of adaptors under random programs: in every stack, no block is overwritten while
//! in use, and when all blocks are freed, every adaptor counts zero and nothing leaks.

use std::alloc::Layout;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use proptest::prelude::*;
use rmm_adaptors::{
    AlignedResourceAdaptor, ArenaMemoryResource, CallbackMemoryResource,
    FailureCallbackResourceAdaptor, FallbackMemoryResource, LimitingResourceAdaptor,
    LoggingResourceAdaptor, PoolMemoryResource, PrefetchResourceAdaptor, RecorderResourceAdaptor,
    StatisticsResourceAdaptor, Tag, TaggedResourceAdaptor, ThreadSafeResourceAdaptor,
    TrackingResourceAdaptor,
};
use rmm_core::{
    AnyResource, DeviceAccessible, DevicePtr, Error, HasProperty, Introspect, Resource, StreamRef,
    SynchronousResource,
};
use rmm_sim::{Checker, Machine, Schedule};
use rmm_sys::CuResult;

use crate::harness::{Allocator, Fixture, Runner};
use crate::programs::{Op, drawn, ops};
use crate::suballocators::{LEAST, Upstream};

/// An adaptor of a stack.
#[derive(Clone, Copy, Debug)]
enum Adaptor {
    Aligned,
    Callback,
    FailureCallback,
    Fallback,
    Limiting,
    Logging,
    Pool,
    Prefetch,
    Recorder,
    Statistics,
    Tagged,
    ThreadSafe,
    Tracking,
}

/// The resource at the bottom of a stack.
#[derive(Clone, Copy, Debug)]
enum Base {
    Plain,
    Pool,
    Arena,
}

const ALL: [Adaptor; 13] = [
    Adaptor::Aligned,
    Adaptor::Callback,
    Adaptor::FailureCallback,
    Adaptor::Fallback,
    Adaptor::Limiting,
    Adaptor::Logging,
    Adaptor::Pool,
    Adaptor::Prefetch,
    Adaptor::Recorder,
    Adaptor::Statistics,
    Adaptor::Tagged,
    Adaptor::ThreadSafe,
    Adaptor::Tracking,
];

fn adaptors() -> impl Strategy<Value = Vec<Adaptor>> {
    proptest::collection::vec(proptest::sample::select(&ALL[..]), 1..6)
}

type Any = AnyResource;
/// The live bytes or blocks that a resource of the stack counts.
type Count = Box<dyn Fn() -> u64 + Send + Sync>;

/// A stack, and the counts that must be zero at the end.
#[derive(Clone)]
struct Stack {
    top: Any,
    /// Without resources below a pool, which may keep memory that was freed to it.
    counts: Arc<Vec<Count>>,
    /// Findings of trackers, until the stack is dropped.
    findings: Arc<AtomicU64>,
}

fn base(base: Base, upstream: Upstream) -> Result<Any, Error> {
    Ok(match base {
        Base::Plain => Any::new(Owned(Arc::new(upstream))),
        Base::Pool => Any::new(PoolMemoryResource::builder(upstream).maximum_size(LEAST).build()?),
        Base::Arena => Any::new(ArenaMemoryResource::builder(upstream).arena_size(LEAST).build()?),
    })
}

impl Stack {
    fn new(on: Base, upstream: Upstream, adaptors: &[Adaptor]) -> Result<Self, Error> {
        let mut top = base(on, upstream)?;
        let mut counts: Vec<Count> = Vec::new();
        let findings = Arc::new(AtomicU64::new(0));
        for &adaptor in adaptors {
            let below = top.clone();
            let mut count = |count: Count| counts.push(count);
            top = match adaptor {
                Adaptor::Aligned => {
                    Any::new(AlignedResourceAdaptor::with_threshold(below, 1024, 10_000)?)
                }
                Adaptor::Callback => Any::new(callback(below)),
                Adaptor::FailureCallback => {
                    let builder = FailureCallbackResourceAdaptor::builder(below).max_retries(2);
                    Any::new(builder.build(|failure| failure.attempt.get() < 2))
                }
                Adaptor::Fallback => {
                    let first = LimitingResourceAdaptor::new(below.clone(), 300 << 10);
                    let limit = first.clone();
                    let fallback = FallbackMemoryResource::new(first, below);
                    let same = fallback.clone();
                    count(Box::new(move || same.fallback_bytes() + limit.allocated_bytes()));
                    Any::new(fallback)
                }
                Adaptor::Limiting => {
                    let limiting = LimitingResourceAdaptor::new(below, 1 << 20);
                    let same = limiting.clone();
                    count(Box::new(move || same.allocated_bytes()));
                    Any::new(limiting)
                }
                Adaptor::Logging => {
                    let logging = LoggingResourceAdaptor::to_writer(below, std::io::sink());
                    Any::new(logging.expect("it takes every line"))
                }
                Adaptor::Pool => {
                    counts.clear();
                    Any::new(PoolMemoryResource::builder(below).build()?)
                }
                Adaptor::Prefetch => Any::new(PrefetchResourceAdaptor::new(below)),
                Adaptor::Recorder => {
                    let recorder = RecorderResourceAdaptor::builder(below).events(16).build();
                    let same = recorder.clone();
                    count(Box::new(move || live_blocks(&same)));
                    Any::new(recorder)
                }
                Adaptor::Statistics => {
                    let counted = StatisticsResourceAdaptor::new(below);
                    let same = counted.clone();
                    count(Box::new(move || {
                        let counters = same.counters();
                        counters.bytes.value.unsigned_abs()
                            + counters.allocations.value.unsigned_abs()
                    }));
                    Any::new(counted)
                }
                Adaptor::Tagged => {
                    let tagged = TaggedResourceAdaptor::new(below);
                    let same = tagged.clone();
                    count(Box::new(move || same.usage_of(Tag::UNTAGGED).live_bytes));
                    Any::new(tagged)
                }
                Adaptor::ThreadSafe => Any::new(ThreadSafeResourceAdaptor::new(below)),
                Adaptor::Tracking => {
                    let found = Arc::clone(&findings);
                    let tracked = TrackingResourceAdaptor::builder(below)
                        .on_finding(move |_| _ = found.fetch_add(1, Ordering::Relaxed));
                    let same = tracked.clone();
                    count(Box::new(move || same.allocated_bytes()));
                    Any::new(tracked)
                }
            };
        }
        Ok(Self { top, counts: Arc::new(counts), findings })
    }
}

/// The blocks that are live at the end of a recorder's log.
fn live_blocks(recorder: &RecorderResourceAdaptor<Any>) -> u64 {
    let mut log = Vec::new();
    recorder.write_log(&mut log).expect("memory");
    let log = String::from_utf8(log).expect("UTF-8");
    let count = |action: &str| log.matches(&format!(",{action},0x")).count() as u64;
    count("allocate") - count("free")
}

fn callback(below: Any) -> CallbackMemoryResource {
    let same = below.clone();
    let allocate = move |stream: StreamRef<'_>, layout| below.allocate(stream, layout);
    let free = move |stream: StreamRef<'_>, pointer, layout| {
        // SAFETY: it was allocated by the other function, with this layout.
        unsafe { same.deallocate(stream, pointer, layout) }
    };
    // SAFETY: the functions are a resource's.
    unsafe { CallbackMemoryResource::new(allocate, free) }
}

/// An upstream as a resource that equals its clones.
#[derive(Clone, Debug)]
struct Owned(Arc<Upstream>);

// SAFETY: its memory is that of the device.
unsafe impl HasProperty<DeviceAccessible> for Owned {}

impl PartialEq for Owned {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

macro_rules! pass_on {
    ($type:ty, |$this:ident| $target:expr) => {
        // SAFETY: every call goes to a resource that keeps the contract.
        unsafe impl SynchronousResource for $type {
            fn do_allocate_sync(&self, layout: Layout) -> Result<DevicePtr, Error> {
                let $this = self;
                $target.allocate_sync(layout)
            }

            unsafe fn do_deallocate_sync(&self, pointer: DevicePtr, layout: Layout) {
                let $this = self;
                // SAFETY: the caller's contract is the same.
                unsafe { $target.deallocate_sync(pointer, layout) };
            }

            fn name(&self) -> &'static str {
                let $this = self;
                $target.name()
            }
        }

        // SAFETY: every call goes to a resource that keeps the contract.
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

    fn live_and_unknown(&self) -> (u64, u64) {
        let left = self.counts.iter().map(|count| count()).sum();
        (left, self.findings.load(Ordering::Relaxed))
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, ..ProptestConfig::default() })]

    #[test]
    fn any_stack_keeps_blocks_apart_and_leaks_none(
        on in proptest::sample::select(vec![Base::Plain, Base::Pool, Base::Arena]),
        adaptors in adaptors(),
        failing_allocation in 0..20_u64,
        is_ordered in any::<bool>(),
        seed in any::<u64>(),
        steps in ops(150),
    ) {
        run(on, &adaptors, (failing_allocation, is_ordered), seed, &steps);
    }
}

fn run(
    on: Base,
    adaptors: &[Adaptor],
    (failing_allocation, is_ordered): (u64, bool),
    seed: u64,
    steps: &[Op],
) {
    let machine = Machine::builder().memory(64 << 20).schedule(Schedule::Seeded(seed)).build();
    let entered = machine.enter();
    let upstream = Upstream::failing(failing_allocation, is_ordered);
    if let Ok(stack) = Stack::new(on, upstream, adaptors) {
        let findings = Arc::clone(&stack.findings);
        let fixture = Fixture::over(&machine, stack);
        let mut runner = Runner::on_streams(fixture, 0, crate::programs::STREAMS);
        for step in steps {
            runner.step(step);
        }
        runner.finish();
        drop(runner);
        assert_eq!(findings.load(Ordering::Relaxed), 0, "nothing is left at the end, either");
    }
    machine.assert_no_violations();
    assert!(machine.leaks().is_empty(), "{:?}", machine.leaks());
    drop(entered);
}

/// Fails each call of the driver once, under all adaptors at the same time.
#[test]
fn any_driver_call_may_fail_under_all_adaptors() {
    for seed in 0..2 {
        let steps = drawn(ops(60), seed, 0);
        let machine = Machine::builder().memory(64 << 20).schedule(Schedule::Seeded(seed));
        let failed = Checker::new().machine(machine).fail_each_call(CuResult::UNKNOWN, |machine| {
            let upstream = machine.without_faults(|| Upstream::new(seed == 1));
            let Ok(stack) = Stack::new(Base::Pool, upstream, &ALL) else { return };
            let fixture = Fixture::over(machine, stack);
            let mut runner =
                machine.without_faults(|| Runner::on_streams(fixture, 0, crate::programs::STREAMS));
            for step in &steps {
                runner.step(step);
            }
            runner.finish();
        });
        assert!(failed > 20, "only {failed} calls could fail");
    }
}
