//! Options and results of trims, sleep, reservations, budgets, remedies and callbacks under
//! pressure, as they arrive in C. What these do is tested in Rust.

use std::cell::{Cell, RefCell};
use std::ffi::{CStr, c_void};
use std::ptr;

use rmm_rs::calls::adaptors::*;
use rmm_rs::calls::base::*;
use rmm_rs::calls::graphs::*;
use rmm_rs::calls::pool::*;
use rmm_rs::calls::pressure::*;
use rmm_rs::calls::remedies::*;
use rmm_rs::calls::reservation::*;
use rmm_rs::calls::segments::*;
use rmm_rs::calls::sleep::*;
use rmm_rs::calls::trim::*;
use rmm_rs::calls::upstream::*;
use rmm_rs::handle::library::RMM_RS_UNKNOWN;
use rmm_rs::handle::resource::*;
use rmm_rs::handle::status::*;
use rmm_sim::{Machine, Schedule};

use super::common::*;
use super::resources::options;

const LEGACY: *mut c_void = ptr::null_mut();
const MIB: u64 = 1 << 20;

type Number = unsafe extern "C" fn(*const rmm_rs::ResourceHandle, *mut u64) -> i32;

fn pool_over(
    make: unsafe extern "C" fn(*mut *const rmm_rs::ResourceHandle) -> i32,
    with: PoolOptions,
) -> Owned {
    let base = made(|out| c!(make(out))).expect("a resource");
    made(|out| c!(rmm_rs_pool_new(base.0, &raw const with, out))).expect("a pool")
}

/// The status and number of a function that has one.
fn number(function: Number, resource: &Owned) -> (i32, u64) {
    let mut number = 77;
    let status = c!(function(resource.0, &raw mut number));
    (status, number)
}

type Set = unsafe extern "C" fn(*const rmm_rs::ResourceHandle, u64) -> i32;
type Trim = unsafe extern "C" fn(*const rmm_rs::ResourceHandle, u64, *mut u64) -> i32;

/// The status of a trim to nothing, and the bytes that it released.
fn number_of_trim(function: Trim, resource: &Owned) -> (i32, u64) {
    let mut released = 77;
    let status = c!(function(resource.0, 0, &raw mut released));
    (status, released)
}

fn of(resource: &Owned) -> u64 {
    number(rmm_rs_pool_reserved_bytes, resource).1
}

/// Allocates and frees a block, which work of the stream uses in between.
fn use_and_free(pool: &Owned, bytes: usize) {
    let block = allocate(pool, LEGACY, bytes).expect("memory");
    let address = rmm_core::DevicePtr::new(block.addr() as u64);

    c!(rmm_core::copy::fill(address, 1, bytes, rmm_core::StreamRef::legacy())).expect("a fill");
    assert_eq!(free(pool, LEGACY, block, bytes), RMM_RS_OK);
}

#[test]
fn each_preset_has_a_number() {
    let _machine = rmm_sim::enter();
    let reserved = |preset| {
        let pool = pool_over(rmm_rs_virtual_resource_new, PoolOptions { preset, ..options() });
        let blocks =
            [64, 2].map(|mib| (mib << 20, allocate(&pool, LEGACY, mib << 20).expect("memory")));
        let reserved = of(&pool);
        for (bytes, block) in blocks {
            assert_eq!(free(&pool, LEGACY, block, bytes), RMM_RS_OK);
        }
        reserved
    };
    assert_eq!(reserved(RMM_RS_POOL_LOW_LATENCY), 128 << 20, "it doubles");
    let others = [RMM_RS_POOL_THROUGHPUT, RMM_RS_POOL_COMPACT, RMM_RS_POOL_DETERMINISTIC];
    assert!(others.map(reserved).iter().all(|&bytes| bytes < 128 << 20));
    let cuda = made(|out| c!(rmm_rs_cuda_resource_new(out))).expect("cuda");
    let wrong = PoolOptions { preset: 4, ..options() };
    let wrong = made(|out| c!(rmm_rs_pool_new(cuda.0, &raw const wrong, out)));
    assert_eq!(wrong.err(), Some(RMM_RS_INVALID_ARGUMENT));
}

#[test]
fn a_trim_waits_only_where_that_is_asked_for() {
    let _machine = Machine::builder().schedule(Schedule::Lazy).enter();
    let pool = pool_over(rmm_rs_cuda_resource_new, options());
    use_and_free(&pool, 8 << 20);
    assert_eq!(number_of_trim(rmm_rs_resource_trim, &pool), (RMM_RS_OK, 0), "work is pending");
    assert_eq!(number_of_trim(rmm_rs_resource_trim_blocking, &pool), (RMM_RS_OK, 8 << 20));
    let cuda = made(|out| c!(rmm_rs_cuda_resource_new(out))).expect("cuda");
    let of_cuda = number_of_trim(rmm_rs_resource_trim_blocking, &cuda);
    assert_eq!(of_cuda, (RMM_RS_REFUSED, 0), "nothing there holds memory");
}

#[test]
fn a_pool_sleeps_and_wakes_up() {
    let _machine = Machine::builder().schedule(Schedule::Lazy).enter();
    let pool = pool_over(rmm_rs_virtual_resource_new, options());
    let block = allocate(&pool, LEGACY, 8 << 20).expect("memory");
    use_and_free(&pool, 4 << 20);
    let held = of(&pool);
    let sleep = |with: *const SleepSettings| {
        let mut bytes = 77;
        (c!(rmm_rs_pool_sleep(pool.0, with, &raw mut bytes)), bytes)
    };
    assert_eq!(sleep(ptr::null()), (RMM_RS_NOT_READY, 0), "work is pending");
    assert!(last_error().contains("work is pending"), "{}", last_error());
    let pinned = made(|out| c!(rmm_rs_pinned_resource_new(out))).expect("pinned");
    use_and_free(&pool, 4 << 20);
    let with = SleepSettings {
        size: size_of::<SleepSettings>(),
        contents: RMM_RS_SLEEP_TO_HOST,
        wait_for_work: 1,
        host_memory: pinned.0,
    };
    assert_eq!(sleep(&SleepSettings { wait_for_work: 0, ..with }), (RMM_RS_NOT_READY, 0));
    for wrong in [
        SleepSettings { contents: 2, ..with },
        SleepSettings { host_memory: pool.0, ..with },
        SleepSettings { size: 0, ..with },
    ] {
        assert_eq!(sleep(&raw const wrong).0, RMM_RS_INVALID_ARGUMENT);
    }
    assert!(!c!(rmm_rs_pool_is_asleep(pool.0)));
    assert_eq!(sleep(&raw const with), (RMM_RS_OK, held));
    assert!(c!(rmm_rs_pool_is_asleep(pool.0)));
    let mut kept = [0_u8; 64];
    let read =
        |from: *const c_void, out: *mut c_void| c!(rmm_rs_pool_read_asleep(pool.0, from, 64, out));
    let out = kept.as_mut_ptr().cast();
    assert_eq!(read(block, out), RMM_RS_OK, "{}", last_error());
    assert_eq!(read(ptr::null(), out), RMM_RS_INVALID_ARGUMENT);
    assert_eq!(read(block, ptr::null_mut()), RMM_RS_INVALID_ARGUMENT);
    assert_eq!(allocate(&pool, LEGACY, 1 << 20), Err(RMM_RS_ALLOCATION_FAILED));
    assert_eq!(number(rmm_rs_pool_wake, &pool), (RMM_RS_OK, held));
    assert_eq!(free(&pool, LEGACY, block, 8 << 20), RMM_RS_OK);
    let cuda = made(|out| c!(rmm_rs_cuda_resource_new(out))).expect("cuda");
    assert_eq!(number(rmm_rs_pool_wake, &cuda), (RMM_RS_REFUSED, 0));
    let over_cuda = pool_over(rmm_rs_cuda_resource_new, options());
    assert!(c!(rmm_rs_pool_can_sleep(pool.0)));
    assert!(!c!(rmm_rs_pool_can_sleep(over_cuda.0)) && !c!(rmm_rs_pool_can_sleep(cuda.0)));
    assert_eq!(c!(rmm_rs_pool_read_asleep(pool.0, block, 64, out)), RMM_RS_NOT_READY);
    let status = c!(rmm_rs_pool_sleep(over_cuda.0, ptr::null(), ptr::null_mut()));
    assert_eq!(status, RMM_RS_REFUSED, "{}", last_error());
}

#[test]
fn a_pool_is_known_as_one_however_it_was_made() {
    let _machine = rmm_sim::enter();
    let made_so = made(|out| c!(rmm_rs_default_pool_new(out))).expect("a pool");
    for pool in [made_so, of_spec("pool"), of_spec("statistics(pool(virtual))")] {
        use_and_free(&pool, 1 << 20);
        let held = of(&pool);
        assert!(held > 0);
        assert_eq!(c!(rmm_rs_resource_trim_blocking(pool.0, u64::MAX, ptr::null_mut())), 0);
        assert_eq!(c!(rmm_rs_pool_sleep(pool.0, ptr::null(), ptr::null_mut())), RMM_RS_OK);
        assert_eq!(number(rmm_rs_pool_wake, &pool), (RMM_RS_OK, held));
        let reserved = made(|out| c!(rmm_rs_pool_reserve(pool.0, 256, out))).expect("memory");
        assert_eq!(number(rmm_rs_reservation_remaining, &reserved), (RMM_RS_OK, 256));
    }
}

#[test]
fn a_reservation_says_what_remains() {
    let _machine = rmm_sim::enter();
    let pool = of_spec("pool(cuda, max=4MiB)");
    let reserved = made(|out| c!(rmm_rs_pool_reserve(pool.0, 3 << 20, out))).expect("memory");
    let block = allocate(&reserved, LEGACY, 2 << 20).expect("reserved memory");
    assert_eq!(number(rmm_rs_reservation_remaining, &reserved), (RMM_RS_OK, 1 << 20));
    let upstream = made(|out| c!(rmm_rs_resource_upstream(reserved.0, out))).expect("a pool");
    assert!(c!(rmm_rs_resource_equal(upstream.0, pool.0)));
    assert_eq!(free(&reserved, LEGACY, block, 2 << 20), RMM_RS_OK);
    assert_eq!(number(rmm_rs_reservation_release, &reserved), (RMM_RS_OK, 1 << 20));
    assert_eq!(number(rmm_rs_reservation_release, &reserved), (RMM_RS_OK, 0));
    for (bytes, status) in [(5 << 20, RMM_RS_OUT_OF_MEMORY), (u64::MAX, RMM_RS_INVALID_ARGUMENT)] {
        let refused = made(|out| c!(rmm_rs_pool_reserve(pool.0, bytes, out)));
        assert_eq!(refused.err(), Some(status));
    }
    assert_eq!(number(rmm_rs_reservation_remaining, &pool), (RMM_RS_REFUSED, 0));
}

#[test]
fn a_budget_is_a_maximum() {
    let _machine = Machine::builder().memory(1 << 30).enter();
    let maximum = |with: PoolOptions| {
        let cuda = made(|out| c!(rmm_rs_cuda_resource_new(out))).expect("cuda");
        let pool = made(|out| c!(rmm_rs_pool_new(cuda.0, &raw const with, out)))?;
        Ok(number(rmm_rs_pool_maximum_size, &pool).1)
    };
    let budget = |budget, budget_fraction, budget_bytes| {
        maximum(PoolOptions { budget, budget_fraction, budget_bytes, ..options() })
    };
    assert_eq!(budget(RMM_RS_BUDGET_NONE, 0.5, 1), Ok(RMM_RS_UNKNOWN));
    assert_eq!(budget(RMM_RS_BUDGET_FREE_FRACTION, 0.5, 1), Ok(512 * MIB));
    assert_eq!(budget(RMM_RS_BUDGET_FREE_EXCEPT, 0.5, MIB), Ok(1023 * MIB));
    assert!(budget(RMM_RS_BUDGET_HOST_FRACTION, 0.5, 1).is_ok_and(|bytes| bytes < RMM_RS_UNKNOWN));
    let smaller = PoolOptions {
        maximum_size: MIB,
        budget: RMM_RS_BUDGET_FREE_FRACTION,
        budget_fraction: 0.5,
        ..options()
    };
    assert_eq!(maximum(smaller), Ok(MIB), "the smaller one counts");
    assert_eq!(budget(RMM_RS_BUDGET_FREE_FRACTION, 1.5, 0), Err(RMM_RS_INVALID_ARGUMENT));
    assert_eq!(budget(RMM_RS_BUDGET_FREE_FRACTION, f64::NAN, 0), Err(RMM_RS_INVALID_ARGUMENT));
    assert_eq!(budget(4, 0.5, 0), Err(RMM_RS_INVALID_ARGUMENT));
    for flags in [64, RMM_RS_POOL_GRAPHS | RMM_RS_POOL_CHECK_FREES] {
        assert_eq!(maximum(PoolOptions { flags, ..options() }), Err(RMM_RS_INVALID_ARGUMENT));
    }
}

#[test]
fn the_memory_of_graphs_is_returned_once_they_are_gone() {
    let _machine = rmm_sim::enter();
    let with = PoolOptions { flags: RMM_RS_POOL_GRAPHS, ..options() };
    let pool = pool_over(rmm_rs_cuda_resource_new, with);
    use_and_free(&pool, 8 << 20);
    rmm_core::StreamRef::legacy().synchronize().expect("no failure");
    let trim = || {
        assert_eq!(c!(rmm_rs_pool_trim(pool.0, 0, ptr::null_mut())), RMM_RS_OK);
        of(&pool)
    };
    assert_eq!(trim(), 8 << 20);
    assert_eq!(c!(rmm_rs_pool_release_graph_memory(pool.0)), RMM_RS_OK);
    assert_eq!(trim(), 0);
}

#[test]
fn a_pool_returns_memory_by_itself() {
    let _machine = rmm_sim::enter();
    let kept = |with: PoolOptions| {
        let pool = pool_over(rmm_rs_cuda_resource_new, with);
        use_and_free(&pool, 8 << 20);
        rmm_core::StreamRef::legacy().synchronize().expect("no failure");
        assert_eq!(number(rmm_rs_pool_release_unused, &pool).0, RMM_RS_OK);
        of(&pool)
    };
    assert_eq!(kept(options()), 8 << 20);
    assert_eq!(kept(PoolOptions { flags: RMM_RS_POOL_RELEASE_ABOVE, ..options() }), 0);
    let above =
        PoolOptions { flags: RMM_RS_POOL_RELEASE_ABOVE, release_above: 8 << 20, ..options() };
    assert_eq!(kept(above), 8 << 20);
    let forever = PoolOptions { release_after_ms: u64::MAX, ..options() };
    assert_eq!(kept(forever), 8 << 20);
}

#[test]
fn a_block_is_cleared_where_that_is_asked_for() {
    let _machine = rmm_sim::enter();
    let first_byte = |flags| {
        let pool = pool_over(rmm_rs_cuda_resource_new, PoolOptions { flags, ..options() });
        use_and_free(&pool, 8 << 20);
        let block = allocate(&pool, LEGACY, 8 << 20).expect("memory");

        let mut byte = [9_u8];
        let address = rmm_core::DevicePtr::new(block.addr() as u64);
        let stream = rmm_core::StreamRef::legacy();
        c!(rmm_core::copy::device_to_host(byte.as_mut_ptr().cast(), address, 1, stream))
            .expect("a copy");
        stream.synchronize().expect("no failure");
        assert_eq!(free(&pool, LEGACY, block, 8 << 20), RMM_RS_OK);
        byte[0]
    };
    assert_eq!((first_byte(0), first_byte(RMM_RS_POOL_CLEAR_BLOCKS)), (1, 0));
}

fn empty_remedy() -> RemedyDetail {
    RemedyDetail {
        size: size_of::<RemedyDetail>(),
        action: 0,
        is_enough: 0,
        bytes: 0,
        name: [0; 48],
        limit_id: 0,
    }
}

fn remedy(index: usize) -> Result<RemedyDetail, i32> {
    let mut remedy = empty_remedy();
    match c!(rmm_rs_last_error_remedy(index, &raw mut remedy)) {
        RMM_RS_OK => Ok(remedy),
        status => Err(status),
    }
}

#[test]
fn a_failure_says_what_would_have_helped() {
    let _machine = rmm_sim::enter();
    assert_eq!(rmm_rs_last_error_remedy_count(), 0, "no call of this thread failed");
    let pool =
        pool_over(rmm_rs_cuda_resource_new, PoolOptions { maximum_size: 4 << 20, ..options() });
    let top = made(|out| c!(rmm_rs_statistics_new(pool.0, out))).expect("an adaptor");
    assert_eq!(allocate(&top, LEGACY, 6 << 20), Err(RMM_RS_OUT_OF_MEMORY));
    assert_eq!(rmm_rs_last_error_remedy_count(), 1);
    let first = remedy(0).expect("a remedy");
    assert_eq!(
        (first.action, first.is_enough, first.bytes),
        (RMM_RS_REMEDY_RAISE_LIMIT, 1, 2 << 20)
    );
    assert_eq!(c!(CStr::from_ptr(first.name.as_ptr())), c"pool");
    let mut id = 0;
    assert_eq!(c!(rmm_rs_resource_limit_id(top.0, &raw mut id)), RMM_RS_OK);
    assert_eq!((first.limit_id, id > 0), (id, true));
    let mut old = RemedyDetail { size: 16, ..empty_remedy() };
    assert_eq!(c!(rmm_rs_last_error_remedy(0, &raw mut old)), RMM_RS_OK);
    assert_eq!((old.action, old.is_enough, old.bytes), (RMM_RS_REMEDY_RAISE_LIMIT, 1, 0));
    assert_eq!(remedy(1).err(), Some(RMM_RS_INVALID_ARGUMENT));
    assert_eq!(rmm_rs_last_error_remedy_count(), 0, "that failure has none");
}

#[test]
fn limits_are_changed_and_named() {
    let _machine = rmm_sim::enter();
    let pool =
        pool_over(rmm_rs_cuda_resource_new, PoolOptions { maximum_size: 4 << 20, ..options() });
    let limiting = made(|out| c!(rmm_rs_limiting_new(pool.0, 2 << 20, out))).expect("an adaptor");
    for (resource, set) in
        [(&limiting, rmm_rs_limiting_set_limit as Set), (&pool, rmm_rs_pool_set_maximum_size)]
    {
        let (status, id) = number(rmm_rs_resource_limit_id, resource);
        assert_eq!(status, RMM_RS_OK);
        assert_eq!(allocate(&limiting, LEGACY, 6 << 20), Err(RMM_RS_OUT_OF_MEMORY));
        assert_eq!(remedy(0).expect("a remedy").limit_id, id);
        assert_eq!(c!(set(limiting.0, 8 << 20)), RMM_RS_OK);
    }
    let block = allocate(&limiting, LEGACY, 6 << 20).expect("both limits allow it");
    assert_eq!(free(&limiting, LEGACY, block, 6 << 20), RMM_RS_OK);
    assert_eq!(c!(rmm_rs_pool_set_maximum_size(pool.0, 255)), RMM_RS_INVALID_ARGUMENT);
    assert_eq!(c!(rmm_rs_pool_set_maximum_size(pool.0, u64::MAX)), RMM_RS_OK);
    assert_eq!(number(rmm_rs_pool_maximum_size, &pool), (RMM_RS_OK, u64::MAX));
    let plain = made(|out| c!(rmm_rs_cuda_resource_new(out))).expect("a resource");
    assert_ne!(c!(rmm_rs_limiting_set_limit(plain.0, 1)), RMM_RS_OK);
    assert_ne!(c!(rmm_rs_pool_set_maximum_size(plain.0, 256)), RMM_RS_OK);
    assert_ne!(number(rmm_rs_resource_limit_id, &plain).0, RMM_RS_OK);
}

#[test]
fn remedies_are_read_by_their_index() {
    let _machine = Machine::builder().memory(64 << 20).enter();
    let pool =
        pool_over(rmm_rs_cuda_resource_new, PoolOptions { maximum_size: 8 << 20, ..options() });
    let over = made(|out| c!(rmm_rs_pool_new(pool.0, ptr::null(), out))).expect("a pool");
    let kept = allocate(&over, LEGACY, 1 << 20).expect("memory");
    assert!(allocate(&pool, LEGACY, 16 << 20).is_err());
    let count = rmm_rs_last_error_remedy_count();
    let all: Vec<_> = (0..count).map(|index| remedy(index).expect("a remedy")).collect();
    assert!(all.iter().any(|it| it.action == RMM_RS_REMEDY_RAISE_LIMIT), "{all:?}");
    assert_eq!(free(&over, LEGACY, kept, 1 << 20), RMM_RS_OK);
}

/// What a callback frees, and how often it was called and released.
struct Spill {
    pool: *const rmm_rs::ResourceHandle,
    block: Cell<*mut c_void>,
    calls: Cell<u32>,
    missing: Cell<u64>,
    releases: Cell<u32>,
}

unsafe extern "C-unwind" fn spill(context: *mut c_void, pressure: *const PressureInfo) -> bool {
    let spill = c!(&*context.cast::<Spill>());
    let pressure = c!(*pressure);
    assert_eq!(pressure.size, size_of::<PressureInfo>());
    assert_eq!(pressure.requested, 3 << 20);
    spill.missing.set(pressure.missing);
    spill.calls.set(spill.calls.get() + 1);
    let block = spill.block.replace(ptr::null_mut());
    if block.is_null() {
        return false;
    }
    let freed = c!(rmm_rs::calls::allocate::rmm_rs_resource_deallocate(
        spill.pool,
        LEGACY,
        block,
        3 << 20,
        256
    ));
    freed == RMM_RS_OK
}

unsafe extern "C-unwind" fn released(context: *mut c_void) {
    let spill = c!(&*context.cast::<Spill>());
    spill.releases.set(spill.releases.get() + 1);
}

/// What a callback for segments has heard.
#[derive(Default)]
struct Heard {
    changes: RefCell<Vec<(u32, usize, u64)>>,
    releases: Cell<u32>,
    refuses: Cell<bool>,
}

unsafe extern "C-unwind" fn heard(
    context: *mut c_void,
    what: u32,
    base: *mut c_void,
    bytes: u64,
) -> bool {
    // SAFETY: the test registers it with this type, and calls the pool on this thread alone.
    let heard = unsafe { &*context.cast::<Heard>() };
    heard.changes.borrow_mut().push((what, base.addr(), bytes));
    !heard.refuses.get()
}

unsafe extern "C-unwind" fn heard_is_released(context: *mut c_void) {
    // SAFETY: as above.
    let heard = unsafe { &*context.cast::<Heard>() };
    heard.releases.set(heard.releases.get() + 1);
}

#[test]
fn a_callback_hears_of_segments() {
    let _machine = rmm_sim::enter();
    let pool = pool_over(rmm_rs_virtual_resource_new, options());
    let context = Heard::default();
    let address = ptr::from_ref(&context).cast_mut().cast();
    let mut registered = ptr::dangling_mut();
    let register = |out, function: rmm_rs_segment_function| {
        c!(rmm_rs_pool_on_segment(pool.0, function, address, Some(heard_is_released), out))
    };
    assert_eq!(register(&raw mut registered, None), RMM_RS_INVALID_ARGUMENT);
    assert!(registered.is_null());
    assert_eq!(context.releases.get(), 0, "what was not taken is not released");
    assert_eq!(register(&raw mut registered, Some(heard)), RMM_RS_OK);
    let block = allocate(&pool, LEGACY, 100).expect("memory");
    let first = *context.changes.borrow().first().expect("the pool grew");
    assert_eq!((first.0, first.1), (RMM_RS_SEGMENT_ADDED, block.addr()));
    assert_eq!(free(&pool, LEGACY, block, 100), RMM_RS_OK);
    context.refuses.set(true);
    assert_eq!(number_of_trim(rmm_rs_pool_trim, &pool).1, 0, "it stays");
    context.refuses.set(false);
    assert!(number_of_trim(rmm_rs_pool_trim, &pool).1 > 0);
    let count = context.changes.borrow().len();
    assert!(context.changes.borrow().contains(&(RMM_RS_SEGMENT_REMOVING, first.1, first.2)));
    c!(rmm_rs_segment_callback_release(registered));
    c!(rmm_rs_segment_callback_release(ptr::null_mut()));
    assert_eq!(context.releases.get(), 1);
    let block = allocate(&pool, LEGACY, 100).expect("memory");
    assert_eq!(context.changes.borrow().len(), count, "it was removed");
    assert_eq!(free(&pool, LEGACY, block, 100), RMM_RS_OK);
    assert_eq!(register(ptr::null_mut(), Some(heard)), RMM_RS_OK);
    drop(pool);
    assert_eq!(context.changes.borrow().len(), count + 2, "it was there, and went");
    assert_eq!(context.releases.get(), 2, "at the end of the pool");
}

#[test]
fn a_callback_frees_what_a_request_lacks() {
    let _machine = rmm_sim::enter();
    let pool =
        pool_over(rmm_rs_cuda_resource_new, PoolOptions { maximum_size: 4 << 20, ..options() });
    let top = made(|out| c!(rmm_rs_statistics_new(pool.0, out))).expect("an adaptor");
    let block = allocate(&pool, LEGACY, 3 << 20).expect("memory");
    let context = Spill {
        pool: pool.0,
        block: Cell::new(block),
        calls: Cell::new(0),
        missing: Cell::new(0),
        releases: Cell::new(0),
    };
    let address = ptr::from_ref(&context).cast_mut().cast();
    let mut guard = ptr::dangling_mut();
    let register = |guard, callback: rmm_rs_pressure_function| {
        c!(rmm_rs_pool_on_pressure(top.0, callback, address, Some(released), guard))
    };
    assert_eq!(register(&raw mut guard, None), RMM_RS_INVALID_ARGUMENT);
    assert!(guard.is_null());
    assert_eq!(register(ptr::null_mut(), Some(spill)), RMM_RS_INVALID_ARGUMENT);
    assert_eq!(context.releases.get(), 0, "what was not taken is not released");
    assert_eq!(register(&raw mut guard, Some(spill)), RMM_RS_OK);
    let block = allocate(&pool, LEGACY, 3 << 20).expect("in the place of the spilled one");
    assert_eq!((context.calls.get(), context.missing.get()), (1, 3 << 20));
    assert!(allocate(&pool, LEGACY, 3 << 20).is_err(), "nothing is left to spill");
    assert_eq!(context.calls.get(), 2);
    c!(rmm_rs_pressure_callback_release(guard));
    assert_eq!(context.releases.get(), 1);
    assert!(allocate(&pool, LEGACY, 3 << 20).is_err());
    assert_eq!(context.calls.get(), 2, "it was removed");
    c!(rmm_rs_pressure_callback_release(ptr::null_mut()));
    assert_eq!(free(&pool, LEGACY, block, 3 << 20), RMM_RS_OK);
}

#[test]
fn registered_memory_is_pinned_memory() {
    let machine = rmm_sim::enter();
    for (threads, node) in [(0, RMM_RS_NUMA_NODE_OF_DEVICE), (2, RMM_RS_NUMA_NODE_ANY), (1, 0)] {
        let resource = made(|out| c!(rmm_rs_registered_resource_new(threads, node, out)));
        let resource = resource.expect("a resource");
        let both = RMM_RS_DEVICE_ACCESSIBLE | RMM_RS_HOST_ACCESSIBLE;
        assert_eq!(c!(rmm_rs_resource_properties(resource.0)), both);
        let block = allocate(&resource, LEGACY, 1000).expect("memory");
        assert_eq!(free(&resource, LEGACY, block, 1000), RMM_RS_OK);
    }
    let wrong = made(|out| c!(rmm_rs_registered_resource_new(0, -3, out)));
    assert_eq!(wrong.err(), Some(RMM_RS_INVALID_ARGUMENT));
    assert!(machine.leaks().is_empty(), "{:?}", machine.leaks());
}
