//! Memory pools: what the legacy stream reuses, what a full pool does, and the memory that a pool
//! keeps. The probes of the conformance suite state which streams reuse what.

use rmm_sim::{Machine, Schedule};
use rmm_sys::{
    CuDevicePtr, CuMemAllocationProp, CuMemHandle, CuMemLocation, CuMemLocationType, CuMemPool,
    CuMemPoolAttribute as Attribute, CuMemPoolProps, CuResult, CuStream,
};

use crate::common::{
    Log, MIB, alloc_async, blocking_stream, default_pool, enter, event, start, stream,
    try_alloc_async,
};

fn get(pool: CuMemPool, attribute: Attribute) -> u64 {
    let mut value = 0_u64;
    ok!(cuMemPoolGetAttribute(pool, attribute, (&raw mut value).cast()));
    value
}

fn set(pool: CuMemPool, attribute: Attribute, mut value: u64) {
    ok!(cuMemPoolSetAttribute(pool, attribute, (&raw mut value).cast()));
}

fn create(max_size: usize) -> CuMemPool {
    let mut props =
        CuMemPoolProps::pinned(CuMemLocation { kind: CuMemLocationType::DEVICE, id: 0 });
    props.max_size = max_size;
    let mut pool = CuMemPool::NULL;
    ok!(cuMemPoolCreate(&raw mut pool, &raw const props));
    pool
}

fn alloc_from(pool: CuMemPool, bytes: usize, stream: CuStream) -> Result<CuDevicePtr, CuResult> {
    let mut pointer = CuDevicePtr::NULL;
    cu!(cuMemAllocFromPoolAsync(&raw mut pointer, bytes, pool, stream)).result().map(|()| pointer)
}

#[test]
fn the_legacy_stream_reuses_memory_of_blocking_streams() {
    let (_machine, _here) = start(Schedule::Lazy);
    let (blocking, other, event) = (blocking_stream(), stream(), event());
    let [first, second, third] = [0; 3].map(|_| alloc_async(MIB, other));
    ok!(cuEventRecord(event, other));
    ok!(cuStreamWaitEvent(blocking, event, 0));
    ok!(cuMemFreeAsync(second, blocking));
    assert_eq!(alloc_async(MIB, CuStream::NULL), second);
    ok!(cuMemFreeAsync(first, other));
    assert_ne!(alloc_async(MIB, CuStream::NULL), first, "nothing orders that free");
    ok!(cuEventRecord(event, other));
    ok!(cuStreamWaitEvent(blocking, event, 0));
    assert_eq!(
        alloc_async(MIB, CuStream::NULL),
        first,
        "it is behind what the blocking stream waits for"
    );
    ok!(cuMemFreeAsync(third, CuStream::NULL));
    assert_eq!(alloc_async(MIB, blocking), third, "and the other way round");
}

#[test]
fn the_host_waits_if_streams_may_not() {
    let (machine, _here) =
        enter(Machine::builder().memory(32 * MIB).schedule(Schedule::Lazy).build());
    set(default_pool(), Attribute::REUSE_ALLOW_INTERNAL_DEPENDENCIES, 0);
    let (a, b, log) = (stream(), stream(), Log::default());
    let all = alloc_async(32 * MIB, a);
    log.enqueue(&machine, a, 1);
    ok!(cuMemFreeAsync(all, a));
    alloc_async(20 * MIB, b);
    assert_eq!(log.seen(), [1]);
    assert_eq!(try_alloc_async(20 * MIB, b), Err(CuResult::OUT_OF_MEMORY));
}

#[test]
fn a_synchronisation_releases_memory_down_to_the_threshold() {
    let (machine, _here) = start(Schedule::Lazy);
    let stream = stream();
    for (threshold, left) in [(0, 0), (40 << 20, 64), (1 << 40, 96)] {
        set(default_pool(), Attribute::RELEASE_THRESHOLD, threshold);
        let blocks = [0; 3].map(|_| alloc_async(32 * MIB, stream));
        for block in blocks {
            ok!(cuMemFreeAsync(block, stream));
        }
        assert_eq!(machine.memory_in_use(0), 96 * MIB);
        ok!(cuStreamSynchronize(stream));
        assert_eq!(machine.memory_in_use(0), left * MIB);
    }
    ok!(cuMemPoolTrimTo(default_pool(), 64 * MIB));
    assert_eq!(machine.memory_in_use(0), 64 * MIB);
    ok!(cuMemPoolTrimTo(default_pool(), 0));
    assert_eq!(machine.memory_in_use(0), 0);
}

/// What a program does between a free and another request.
type Between = fn(CuStream);

/// Each with whether the host has waited then.
const BETWEEN: [(&str, Between, bool); 6] = [
    ("nothing", |_| (), false),
    (
        "the free is complete",
        |stream| while cu!(cuStreamQuery(stream)) == CuResult::NOT_READY {},
        false,
    ),
    ("a trim", |_| ok!(cuMemPoolTrimTo(default_pool(), 0)), false),
    ("a wait for the stream", |stream| ok!(cuStreamSynchronize(stream)), true),
    ("a wait for the context", |_| ok!(cuCtxSynchronize()), true),
    (
        "a wait for an event",
        |stream| {
            let event = event();
            ok!(cuEventRecord(event, stream));
            ok!(cuEventSynchronize(event));
        },
        true,
    ),
];

type Request = fn(CuStream) -> CuResult;

const OTHERS: [(&str, Request); 3] = [
    ("cuMemAlloc", |_| {
        let mut pointer = CuDevicePtr::NULL;
        cu!(cuMemAlloc_v2(&raw mut pointer, 40 * MIB))
    }),
    ("cuMemCreate", |_| {
        let on_device = CuMemLocation { kind: CuMemLocationType::DEVICE, id: 0 };
        let properties = CuMemAllocationProp::pinned(on_device);
        let mut handle = CuMemHandle(0);
        cu!(cuMemCreate(&raw mut handle, 40 * MIB, &raw const properties, 0))
    }),
    ("another pool", |stream| {
        alloc_from(create(0), 40 * MIB, stream).err().unwrap_or(CuResult::SUCCESS)
    }),
];

#[test]
fn others_get_freed_memory_once_the_host_has_waited() {
    for threshold in [0, u64::MAX] {
        for (between, run, has_waited) in BETWEEN {
            for (other, request) in OTHERS {
                let case = format!("{other} after {between}, threshold {threshold}");
                let (_machine, _here) =
                    enter(Machine::builder().memory(64 * MIB).schedule(Schedule::Lazy).build());
                let pool = default_pool();
                set(pool, Attribute::RELEASE_THRESHOLD, threshold);
                let stream = stream();
                let block = alloc_async(48 * MIB, stream);
                ok!(cuMemFreeAsync(block, stream));
                run(stream);
                let kept = if has_waited && threshold == 0 { 0 } else { 48 << 20 };
                assert_eq!(get(pool, Attribute::RESERVED_MEM_CURRENT), kept, "{case}");
                assert_eq!(get(pool, Attribute::USED_MEM_CURRENT), 0, "{case}");
                let expected = if has_waited { CuResult::SUCCESS } else { CuResult::OUT_OF_MEMORY };
                assert_eq!(request(stream), expected, "{case}");
                let kept = if has_waited { 0 } else { 48 << 20 };
                assert_eq!(get(pool, Attribute::RESERVED_MEM_CURRENT), kept, "{case}");
                // The pool itself has it all the time.
                let own = try_alloc_async(48 * MIB, stream).is_ok();
                assert_eq!(own, !has_waited, "{case}");
            }
        }
    }
}

#[test]
fn a_free_without_a_stream_waits_for_no_work_on_a_pools_memory() {
    let (machine, _here) = start(Schedule::Lazy);
    let stream = stream();
    let block = alloc_async(MIB, stream);
    ok!(cuStreamSynchronize(stream));
    ok!(cuMemsetD8Async(block, 1, MIB, stream));
    ok!(cuMemFree_v2(block));
    assert_eq!(cu!(cuStreamQuery(stream)), CuResult::NOT_READY);
    let kinds: Vec<_> = machine.violations().iter().map(|violation| violation.kind).collect();
    assert_eq!(kinds[0], rmm_sim::ViolationKind::FreedInUse);
}

#[test]
fn a_destroyed_pool_lives_as_long_as_its_memory() {
    let (machine, _here) = start(Schedule::Lazy);
    let (pool, stream) = (create(10 * MIB), stream());
    let block = alloc_from(pool, 9 * MIB, stream).unwrap();
    ok!(cuMemPoolDestroy(pool));
    assert_eq!(cu!(cuMemPoolTrimTo(pool, 0)), CuResult::INVALID_VALUE);
    assert_eq!(machine.memory_in_use(0), 10 * MIB);
    ok!(cuMemFreeAsync(block, stream));
    ok!(cuStreamSynchronize(stream));
    assert_eq!(machine.memory_in_use(0), 0);
}
