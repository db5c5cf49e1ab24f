//! Resources made of functions.

use std::cell::Cell;
use std::ffi::c_void;
use std::ptr;
use std::sync::atomic::{AtomicUsize, Ordering};

use rmm_rs::calls::adaptors::*;
use rmm_rs::calls::allocate::*;
use rmm_rs::calls::base::*;
use rmm_rs::calls::callbacks::*;
use rmm_rs::calls::failure_callback::*;
use rmm_rs::calls::pool::*;
use rmm_rs::calls::pressure::*;
use rmm_rs::calls::registry::*;
use rmm_rs::calls::spec::*;
use rmm_rs::calls::upstream::*;
use rmm_rs::handle::library::*;
use rmm_rs::handle::resource::*;
use rmm_rs::handle::status::*;
use rmm_rs::streams::stream::*;

use super::common::*;

/// An upstream as C would write it, around a resource of this library.
struct Upstream {
    below: Owned,
    references: AtomicUsize,
    live: AtomicUsize,
}

thread_local! {
    /// What the next allocation does in place of its work: a status, or -1 for a panic.
    static NEXT: Cell<i32> = const { Cell::new(0) };
}

fn of<'a>(context: *mut c_void) -> &'a Upstream {
    c!(&*context.cast::<Upstream>())
}

fn served(allocate: impl FnOnce() -> i32) -> i32 {
    match NEXT.replace(0) {
        0 => allocate(),
        -1 => panic!("the upstream panics"),
        status => {
            c!(rmm_rs_set_last_error(c"the upstream says no".as_ptr()));
            status
        }
    }
}

unsafe extern "C-unwind" fn allocate_on(
    context: *mut c_void,
    stream: *mut c_void,
    bytes: usize,
    alignment: usize,
    out: *mut *mut c_void,
) -> i32 {
    let this = of(context);
    this.live.fetch_add(1, Ordering::Relaxed);
    served(|| c!(rmm_rs_resource_allocate(this.below.0, stream, bytes, alignment, out)))
}

unsafe extern "C-unwind" fn deallocate_on(
    context: *mut c_void,
    stream: *mut c_void,
    pointer: *mut c_void,
    bytes: usize,
    alignment: usize,
) -> i32 {
    let this = of(context);
    this.live.fetch_sub(1, Ordering::Relaxed);
    c!(rmm_rs_resource_deallocate(this.below.0, stream, pointer, bytes, alignment))
}

unsafe extern "C-unwind" fn allocate_sync(
    context: *mut c_void,
    bytes: usize,
    alignment: usize,
    out: *mut *mut c_void,
) -> i32 {
    let this = of(context);
    this.live.fetch_add(1, Ordering::Relaxed);
    served(|| c!(rmm_rs_resource_allocate_sync(this.below.0, bytes, alignment, out)))
}

unsafe extern "C-unwind" fn deallocate_sync(
    context: *mut c_void,
    pointer: *mut c_void,
    bytes: usize,
    alignment: usize,
) -> i32 {
    let this = of(context);
    this.live.fetch_sub(1, Ordering::Relaxed);
    c!(rmm_rs_resource_deallocate_sync(this.below.0, pointer, bytes, alignment))
}

unsafe extern "C-unwind" fn retain(context: *mut c_void) -> *mut c_void {
    of(context).references.fetch_add(1, Ordering::Relaxed);
    context
}

unsafe extern "C-unwind" fn release(context: *mut c_void) {
    of(context).references.fetch_sub(1, Ordering::Relaxed);
}

unsafe extern "C-unwind" fn equal(context: *mut c_void, other: *mut c_void) -> bool {
    c!(rmm_rs_resource_equal(of(context).below.0, of(other).below.0))
}

#[expect(clippy::unnecessary_box_returns, reason = "C has its address")]
fn upstream() -> Box<Upstream> {
    let below = made(|out| c!(rmm_rs_cuda_resource_new(out))).expect("cuda");
    Box::new(Upstream { below, references: AtomicUsize::new(0), live: AtomicUsize::new(0) })
}

fn table(upstream: &Upstream) -> Callbacks {
    Callbacks {
        size: size_of::<Callbacks>(),
        properties: RMM_RS_DEVICE_ACCESSIBLE,
        flags: RMM_RS_CALLBACKS_STREAM_ORDERED,
        context: ptr::from_ref(upstream).cast_mut().cast(),
        allocate: Some(allocate_on),
        deallocate: Some(deallocate_on),
        allocate_sync: Some(allocate_sync),
        deallocate_sync: Some(deallocate_sync),
        equal: Some(equal),
        retain: Some(retain),
        release: Some(release),
    }
}

fn resource(table: &Callbacks) -> Result<Owned, i32> {
    made(|out| c!(rmm_rs_resource_from_callbacks(table, out)))
}

#[test]
fn a_pool_takes_its_memory_from_callbacks_and_returns_it() {
    let _machine = rmm_sim::enter();
    let upstream = upstream();
    let below = resource(&table(&upstream)).expect("a resource");
    let pool = made(|out| c!(rmm_rs_pool_new(below.0, ptr::null(), out))).expect("a pool");
    drop(below);
    assert_eq!(upstream.references.load(Ordering::Relaxed), 1, "the pool's");
    let block = allocate(&pool, ptr::null_mut(), 1 << 20).expect("memory");
    assert_eq!(upstream.live.load(Ordering::Relaxed), 1);
    assert_eq!(free(&pool, ptr::null_mut(), block, 1 << 20), RMM_RS_OK);
    drop(pool);
    assert_eq!(upstream.live.load(Ordering::Relaxed), 0);
    assert_eq!(upstream.references.load(Ordering::Relaxed), 0);
}

#[test]
fn without_stream_order_a_free_waits_for_the_stream() {
    let machine = rmm_sim::enter();
    let upstream = upstream();
    let unordered = Callbacks { flags: 0, allocate: None, deallocate: None, ..table(&upstream) };
    let resource = resource(&unordered).expect("a resource");
    let block = allocate(&resource, ptr::null_mut(), 4096).expect("memory");
    let before = super::resources::calls_of(&machine, "cuStreamSynchronize");
    assert_eq!(free(&resource, ptr::null_mut(), block, 4096), RMM_RS_OK);
    assert_eq!(super::resources::calls_of(&machine, "cuStreamSynchronize"), before + 1);
    assert_eq!(upstream.live.load(Ordering::Relaxed), 0);
}

#[test]
fn a_status_comes_back_with_its_text_and_a_panic_is_contained() {
    let _machine = rmm_sim::enter();
    let upstream = upstream();
    let resource = resource(&table(&upstream)).expect("a resource");
    for (status, comes_back) in [
        (RMM_RS_OUT_OF_MEMORY, RMM_RS_OUT_OF_MEMORY),
        (RMM_RS_ALLOCATION_FAILED, RMM_RS_ALLOCATION_FAILED),
        (RMM_RS_INVALID_ARGUMENT, RMM_RS_INVALID_ARGUMENT),
        (RMM_RS_CUDA_ERROR, RMM_RS_ALLOCATION_FAILED),
        (RMM_RS_REFUSED, RMM_RS_ALLOCATION_FAILED),
    ] {
        NEXT.set(status);
        assert_eq!(allocate(&resource, ptr::null_mut(), 4096), Err(comes_back));
        assert!(last_error().contains("the upstream says no"), "{}", last_error());
    }
    NEXT.set(-1);
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| {}));
    let allocated = allocate(&resource, ptr::null_mut(), 4096);
    std::panic::set_hook(hook);
    assert_eq!(allocated, Err(RMM_RS_PANIC));
    assert_eq!(last_error(), "panic: the upstream panics");
}

unsafe extern "C-unwind" fn says_no(_: *mut c_void, _: usize) -> bool {
    c!(rmm_rs_set_last_error(c"the callback says no".as_ptr()));
    false
}

unsafe extern "C-unwind" fn frees_nothing(_: *mut c_void, _: *const PressureInfo) -> bool {
    c!(rmm_rs_set_last_error(c"the callback says no".as_ptr()));
    false
}

#[test]
fn a_success_leaves_the_last_error_whatever_callbacks_do() {
    let _machine = rmm_sim::enter();
    let (upstream, cuda) = (upstream(), of_spec("cuda"));
    let asked = resource(&table(&upstream)).expect("a resource");
    let limited = of_spec("pool(cuda, max=1MiB)");
    let mut guard = ptr::null_mut();
    let none = ptr::null_mut();
    let registered =
        c!(rmm_rs_pool_on_pressure(limited.0, Some(frees_nothing), none, None, &raw mut guard));
    assert_eq!(registered, RMM_RS_OK);
    let failing =
        made(|out| c!(rmm_rs_failure_callback_new(limited.0, Some(says_no), none, None, out)));
    let failing = failing.expect("a resource");
    let ways = [("an upstream", &asked, 1000), ("a pool and its adaptor", &failing, 2 << 20)];
    for (name, first, bytes) in ways {
        let both = made(|out| c!(rmm_rs_fallback_new(first.0, cuda.0, out))).expect("a resource");
        let spec = c"pol(cuda)";
        assert!(made(|out| c!(rmm_rs_resource_from_spec(spec.as_ptr(), out))).is_err());
        let before = last_error();
        assert!(before.contains("pol"), "{before}");
        NEXT.set(RMM_RS_OUT_OF_MEMORY);
        let block = allocate(&both, ptr::null_mut(), bytes).expect("the second serves it");
        assert_eq!(last_error(), before, "{name}");
        assert_eq!(free(&both, ptr::null_mut(), block, bytes), RMM_RS_OK);
        assert_eq!(last_error(), before, "{name}");
        NEXT.set(0);
    }
    c!(rmm_rs_pressure_callback_release(guard));
}

#[test]
fn tables_that_lack_a_function_are_refused() {
    let _machine = rmm_sim::enter();
    let upstream = upstream();
    for lacking in [
        Callbacks { allocate_sync: None, ..table(&upstream) },
        Callbacks { deallocate_sync: None, ..table(&upstream) },
        Callbacks { allocate: None, ..table(&upstream) },
        Callbacks { deallocate: None, ..table(&upstream) },
    ] {
        assert_eq!(resource(&lacking).err(), Some(RMM_RS_INVALID_ARGUMENT));
        assert!(last_error().contains("missing"), "{}", last_error());
    }
    assert_eq!(upstream.references.load(Ordering::Relaxed), 0);
}

#[test]
fn equality_is_what_the_callbacks_say() {
    let _machine = rmm_sim::enter();
    let (one, two) = (upstream(), upstream());
    let [first, second] = [&one, &two].map(|up| resource(&table(up)).expect("a resource"));
    assert!(c!(rmm_rs_resource_equal(first.0, second.0)), "both are over cudaMalloc");
    let [first, second] = [&one, &two]
        .map(|up| resource(&Callbacks { equal: None, ..table(up) }).expect("a resource"));
    assert!(!c!(rmm_rs_resource_equal(first.0, second.0)));
    let same = resource(&Callbacks { equal: None, ..table(&one) }).expect("a resource");
    assert!(c!(rmm_rs_resource_equal(first.0, same.0)));
}

#[test]
fn the_table_of_a_resource_makes_the_same_resource() {
    let machine = rmm_sim::enter();
    let pool = of_spec("pool(cuda)");
    let mut table: Callbacks = c!(std::mem::zeroed());
    table.size = size_of::<Callbacks>();
    assert_eq!(c!(rmm_rs_resource_callbacks(pool.0, &raw mut table)), RMM_RS_OK);
    let same = resource(&table).expect("a resource");
    assert!(c!(rmm_rs_resource_equal(pool.0, same.0)));
    let block = allocate(&pool, ptr::null_mut(), 4096).expect("memory");
    drop(pool);
    assert_eq!(free(&same, ptr::null_mut(), block, 4096), RMM_RS_OK);
    drop(same);
    assert!(machine.leaks().is_empty(), "{:?}", machine.leaks());
}

#[test]
fn a_callback_that_says_nothing_does_not_repeat_an_older_failure() {
    unsafe extern "C-unwind" fn silent(
        _: *mut c_void,
        _: *mut c_void,
        _: usize,
        _: usize,
        _: *mut *mut c_void,
    ) -> i32 {
        RMM_RS_OUT_OF_MEMORY
    }
    let _machine = rmm_sim::enter();
    let upstream = upstream();
    let resource =
        resource(&Callbacks { allocate: Some(silent), ..table(&upstream) }).expect("a resource");
    assert_eq!(c!(rmm_rs_cuda_resource_new(ptr::null_mut())), RMM_RS_INVALID_ARGUMENT);
    let before = last_error();
    assert_eq!(allocate(&resource, ptr::null_mut(), 4096), Err(RMM_RS_OUT_OF_MEMORY));
    assert!(!last_error().contains(&before), "{}", last_error());
}

/// Returns the address that the context points to.
unsafe extern "C-unwind" fn address_of_context(
    context: *mut c_void,
    _: usize,
    _: usize,
    out: *mut *mut c_void,
) -> i32 {
    c!(out.write(context.cast::<*mut c_void>().read()));
    RMM_RS_OK
}

unsafe extern "C-unwind" fn count_free(_: *mut c_void, _: *mut c_void, _: usize, _: usize) -> i32 {
    NEXT.set(NEXT.get() + 1);
    RMM_RS_OK
}

#[test]
fn a_success_without_an_aligned_address_is_a_failure() {
    let _machine = rmm_sim::enter();
    let address = Cell::new(ptr::null_mut::<c_void>());
    let careless = Callbacks {
        flags: 0,
        context: address.as_ptr().cast(),
        allocate: None,
        deallocate: None,
        allocate_sync: Some(address_of_context),
        deallocate_sync: Some(count_free),
        equal: None,
        retain: None,
        release: None,
        ..table(&upstream())
    };
    let resource = resource(&careless).expect("a resource");
    assert_eq!(allocate(&resource, ptr::null_mut(), 4096), Err(RMM_RS_OUT_OF_MEMORY));
    assert_eq!(NEXT.get(), 0, "null is not freed");
    address.set(ptr::without_provenance_mut(0x1008));
    assert_eq!(allocate(&resource, ptr::null_mut(), 4096), Err(RMM_RS_ALLOCATION_FAILED));
    assert!(last_error().contains("not aligned"), "{}", last_error());
    assert_eq!(NEXT.replace(0), 1, "what cannot be used was freed");
}

#[test]
fn flags_and_properties_of_a_newer_header_are_refused() {
    let _machine = rmm_sim::enter();
    let upstream = upstream();
    for newer in [
        Callbacks { flags: 3, ..table(&upstream) },
        Callbacks { properties: 5, ..table(&upstream) },
    ] {
        assert_eq!(resource(&newer).err(), Some(RMM_RS_INVALID_ARGUMENT));
    }
    assert_eq!(upstream.references.load(Ordering::Relaxed), 0);
}

#[test]
fn a_table_with_a_function_of_the_program_is_no_longer_the_librarys() {
    let _machine = rmm_sim::enter();
    let upstream = upstream();
    let mut wrapped: Callbacks = c!(std::mem::zeroed());
    wrapped.size = size_of::<Callbacks>();
    assert_eq!(c!(rmm_rs_resource_callbacks(upstream.below.0, &raw mut wrapped)), RMM_RS_OK);
    let plain = resource(&wrapped).expect("a resource");
    assert!(c!(rmm_rs_resource_equal(plain.0, upstream.below.0)));
    wrapped.deallocate_sync = Some(count_free);
    let wrapped = resource(&wrapped).expect("a resource");
    assert!(!c!(rmm_rs_resource_equal(wrapped.0, upstream.below.0)));
    let block = ptr::without_provenance_mut(4096);
    let status = c!(rmm_rs_resource_deallocate_sync(wrapped.0, block, 4096, 256));
    assert_eq!((status, NEXT.replace(0)), (RMM_RS_OK, 1), "the program's function is called");
}

#[test]
fn a_context_is_released_once_without_a_function_that_retains_it() {
    let _machine = rmm_sim::enter();
    let upstream = upstream();
    upstream.references.store(1, Ordering::Relaxed);
    let first = resource(&Callbacks { retain: None, ..table(&upstream) }).expect("a resource");
    let mut table: Callbacks = c!(std::mem::zeroed());
    table.size = size_of::<Callbacks>();
    assert_eq!(c!(rmm_rs_resource_callbacks(first.0, &raw mut table)), RMM_RS_OK);
    let second = resource(&table).expect("a resource");
    assert!(c!(rmm_rs_resource_equal(first.0, second.0)));
    drop(second);
    assert_eq!(upstream.references.load(Ordering::Relaxed), 1, "the first one's");
    drop(first);
    assert_eq!(upstream.references.load(Ordering::Relaxed), 0);
}

#[test]
fn only_contexts_of_the_same_functions_are_compared() {
    unsafe extern "C-unwind" fn yes(_: *mut c_void, _: *mut c_void) -> bool {
        true
    }
    let _machine = rmm_sim::enter();
    let upstream = upstream();
    let first = resource(&Callbacks { equal: Some(yes), ..table(&upstream) }).expect("a resource");
    let second = resource(&table(&upstream)).expect("a resource");
    assert!(!c!(rmm_rs_resource_equal(first.0, second.0)));
}

#[test]
fn what_keeps_no_stream_order_is_not_reached_as_an_upstream() {
    let _machine = rmm_sim::enter();
    let upstream = upstream();
    let of_flags = |flags| {
        let below = resource(&Callbacks { flags, ..table(&upstream) }).expect("a resource");
        let pool = made(|out| c!(rmm_rs_pool_new(below.0, ptr::null(), out))).expect("a pool");
        let below = made(|out| c!(rmm_rs_resource_upstream(pool.0, out))).expect("callbacks");
        let mut last = ptr::dangling();
        assert_eq!(c!(rmm_rs_resource_upstream(below.0, &raw mut last)), RMM_RS_OK);
        drop(Owned(last));
        last.is_null()
    };
    assert!(of_flags(RMM_RS_CALLBACKS_STREAM_ORDERED));
    assert!(of_flags(0));
}

/// Calls what keeps tables of its own, and then allocates.
unsafe extern "C-unwind" fn allocate_and_call(
    context: *mut c_void,
    stream: *mut c_void,
    bytes: usize,
    alignment: usize,
    out: *mut *mut c_void,
) -> i32 {
    let mut again = ptr::null_mut();
    let lifetime = RMM_RS_STREAM_UNTIL_RELEASED;
    assert_eq!(c!(rmm_rs_stream_adopt(stream, lifetime, &raw mut again)), RMM_RS_OK);
    c!(rmm_rs_stream_release(again));
    let below = of(context).below.0;
    assert_eq!(c!(rmm_rs_set_per_device_resource(0, below, ptr::null_mut())), RMM_RS_OK);
    assert_eq!(rmm_rs_reset_per_device_resource(0), RMM_RS_OK);
    c!(allocate_on(context, stream, bytes, alignment, out))
}

#[test]
fn a_callback_may_call_the_library() {
    let _machine = rmm_sim::enter();
    let upstream = upstream();
    let calls = Callbacks { allocate: Some(allocate_and_call), ..table(&upstream) };
    let resource = resource(&calls).expect("a resource");
    let mut stream = ptr::null_mut();
    assert_eq!(c!(rmm_rs_stream_new(0, &raw mut stream)), RMM_RS_OK);
    let handle = c!(rmm_rs_stream_handle(stream));
    let pool = made(|out| c!(rmm_rs_pool_new(resource.0, ptr::null(), out))).expect("a pool");
    for upper in [&resource, &pool] {
        for round in 0..2 {
            // In the first round the stream is new to the thread.
            let block = allocate(upper, handle, 4096).expect("memory");
            assert_eq!(free(upper, handle, block, 4096), RMM_RS_OK, "round {round}");
        }
    }
    c!(rmm_rs_stream_release(stream));
}
