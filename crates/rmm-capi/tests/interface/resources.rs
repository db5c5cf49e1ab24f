//! Making resources, and what they report.

use std::collections::BTreeSet;
use std::ffi::CStr;
use std::ptr;

use rmm_rs::calls::access::*;
use rmm_rs::calls::adaptors::*;
use rmm_rs::calls::allocate::*;
use rmm_rs::calls::base::*;
use rmm_rs::calls::failure_callback::*;
use rmm_rs::calls::logging::*;
use rmm_rs::calls::pool::*;
use rmm_rs::calls::registry::*;
use rmm_rs::calls::statistics::*;
use rmm_rs::calls::suballocators::*;
use rmm_rs::calls::tracking::*;
use rmm_rs::calls::trim::*;
use rmm_rs::calls::upstream::*;
use rmm_rs::handle::library::*;
use rmm_rs::handle::resource::*;
use rmm_rs::handle::status::*;
use rmm_sim::Machine;
use rmm_spec::stacks::{NamedStack, STACKS};

use super::common::*;

type Make = unsafe extern "C" fn(*mut *const rmm_rs::ResourceHandle) -> i32;

type Number = unsafe extern "C" fn(*const rmm_rs::ResourceHandle, *mut u64) -> i32;

const LEGACY: *mut std::ffi::c_void = ptr::null_mut();

fn name(resource: &Owned) -> &str {
    c!(CStr::from_ptr(rmm_rs_resource_name(resource.0))).to_str().expect("UTF-8")
}

/// A pool over `cudaMalloc`.
pub(crate) fn pool_with(options: Option<PoolOptions>) -> Owned {
    let cuda = made(|out| c!(rmm_rs_cuda_resource_new(out))).expect("cuda");
    let options = options.as_ref().map_or(ptr::null(), ptr::from_ref);
    made(|out| c!(rmm_rs_pool_new(cuda.0, options, out))).expect("a pool")
}

pub(crate) fn options() -> PoolOptions {
    PoolOptions {
        size: size_of::<PoolOptions>(),
        initial_size: 0,
        maximum_size: 0,
        soft_maximum_size: 0,
        preset: 0,
        stream_policy: 0,
        budget: 0,
        flags: 0,
        budget_fraction: 0.0,
        budget_bytes: 0,
        release_above: 0,
        release_after_ms: 0,
        segment_size: 0,
    }
}

/// Whether the first argument of a specification is an upstream, not an option.
fn has_upstream(spec: &str) -> bool {
    let first = spec.split_once('(').and_then(|(_, inside)| inside.split([',', '(', ')']).next());
    first.is_some_and(|first| !first.contains('='))
}

/// The resources at the top of the stacks that have no upstream, or have one. Pools and callbacks
/// have tests of their own.
fn listed(is_base: bool) -> BTreeSet<&'static str> {
    let stacks = STACKS.iter().filter(|stack| has_upstream(stack.spec) != is_base);
    stacks.map(NamedStack::top).filter(|top| !["pool", "callback"].contains(top)).collect()
}

#[test]
fn every_base_resource_allocates_and_frees() {
    let pageable = rmm_core::sys::CuDeviceAttribute::PAGEABLE_MEMORY_ACCESS;
    let machine = Machine::builder().attribute(pageable, 1).enter();
    let plain: [(&str, u32, Make); 8] = [
        ("cuda", 1, rmm_rs_cuda_resource_new),
        ("cuda-async-managed", 3, rmm_rs_async_managed_resource_new),
        ("cuda-async-pinned", 3, rmm_rs_async_pinned_resource_new),
        ("managed", 3, rmm_rs_managed_resource_new),
        ("pinned", 3, rmm_rs_pinned_resource_new),
        ("system", 3, rmm_rs_system_resource_new),
        ("host", 2, rmm_rs_host_resource_new),
        ("virtual", 1, rmm_rs_virtual_resource_new),
    ];
    let plain = plain.map(|(name, properties, make)| (name, properties, made(|out| c!(make(out)))));
    let others = [
        ("cuda-async", 1, made(|out| c!(rmm_rs_async_resource_new(0, u64::MAX, out)))),
        (
            "cuda-async-view",
            1,
            made(|out| c!(rmm_rs_async_view_resource_new(ptr::null_mut(), out))),
        ),
        (
            "host-virtual",
            3,
            made(|out| c!(rmm_rs_host_virtual_resource_new(RMM_RS_NUMA_NODE_OF_DEVICE, 0, out))),
        ),
        ("sam-headroom", 3, made(|out| c!(rmm_rs_sam_headroom_resource_new(1 << 20, out)))),
        (
            "registered",
            3,
            made(|out| c!(rmm_rs_registered_resource_new(1, RMM_RS_NUMA_NODE_ANY, out))),
        ),
    ];
    let all: Vec<_> = plain.into_iter().chain(others).collect();
    // No specification describes memory of the host alone; the default pool stands on `backing`.
    let names =
        all.iter().map(|(name, ..)| *name).filter(|&name| name != "host").chain(["backing"]);
    assert_eq!(names.collect::<BTreeSet<_>>(), listed(true));
    for (expected, properties, resource) in all {
        let resource = resource.unwrap_or_else(|_| panic!("{expected}: {}", last_error()));
        assert_eq!(name(&resource), expected);
        assert_eq!(c!(rmm_rs_resource_properties(resource.0)), properties, "{expected}");
        let block = allocate(&resource, LEGACY, 1000).expect(expected);
        assert!(!block.is_null() && block.addr().is_multiple_of(256));
        assert_eq!(free(&resource, LEGACY, block, 1000), RMM_RS_OK);
        let mut block = ptr::null_mut();
        let status = c!(rmm_rs_resource_allocate_sync(resource.0, 64, 16, &raw mut block));
        assert_eq!(status, RMM_RS_OK, "{expected}");
        let status = c!(rmm_rs_resource_deallocate_sync(resource.0, block, 64, 16));
        assert_eq!(status, RMM_RS_OK, "{expected}");
    }
    assert!(machine.leaks().is_empty(), "{:?}", machine.leaks());
}

extern "C-unwind" fn never(_: *mut std::ffi::c_void, _: usize) -> bool {
    false
}

#[test]
fn every_suballocator_and_adaptor_stands_on_a_pool() {
    let _machine = rmm_sim::enter();
    let pool = pool_with(None);
    let up = pool.0;
    let stacks = c!([
        made(|out| rmm_rs_arena_new(up, 64 << 20, false, out)),
        made(|out| rmm_rs_fixed_size_new(up, 1 << 16, 4, out)),
        made(|out| rmm_rs_binning_new(up, 12, 16, out)),
        made(|out| rmm_rs_limiting_new(up, 1 << 20, out)),
        made(|out| rmm_rs_aligned_new(up, 4096, 0, out)),
        made(|out| rmm_rs_logging_new(up, c"/dev/null".as_ptr(), true, out)),
        made(|out| rmm_rs_recorder_new(up, 16, true, ptr::null(), out)),
        made(|out| rmm_rs_statistics_new(up, out)),
        made(|out| rmm_rs_tracking_new(up, true, out)),
        made(|out| rmm_rs_failure_callback_new(up, Some(never), ptr::null_mut(), None, out)),
        made(|out| rmm_rs_prefetch_new(up, out)),
        made(|out| rmm_rs_thread_safe_new(up, out)),
        made(|out| rmm_rs_fallback_new(up, up, out)),
    ]);
    // C has no function for tags.
    let mut names = BTreeSet::from(["tagged".to_owned()]);
    for resource in stacks {
        let resource = resource.unwrap_or_else(|_| panic!("{}", last_error()));
        names.insert(name(&resource).to_owned());
        assert_eq!(c!(rmm_rs_resource_properties(resource.0)), RMM_RS_DEVICE_ACCESSIBLE);
        let upstream = made(|out| c!(rmm_rs_resource_upstream(resource.0, out)));
        let upstream = upstream.expect("a reference");
        assert_eq!(name(&upstream), "pool", "below {}", name(&resource));
        assert!(c!(rmm_rs_resource_equal(upstream.0, up)));
        let block = allocate(&resource, LEGACY, 1000).expect("memory");
        assert_eq!(free(&resource, LEGACY, block, 1000), RMM_RS_OK);
        let mut reserved = 0;
        assert_eq!(c!(rmm_rs_pool_reserved_bytes(resource.0, &raw mut reserved)), RMM_RS_OK);
        assert!(reserved > 0);
    }
    assert!(names.iter().map(String::as_str).eq(listed(false)), "{names:?}");
    let none = made(|out| c!(rmm_rs_resource_upstream(of_spec("cuda").0, out)));
    assert!(none.expect("no failure").0.is_null());
}

#[test]
fn a_pool_keeps_to_its_options_and_tells_what_it_holds() {
    let _machine = rmm_sim::enter();
    let pool = pool_with(Some(PoolOptions {
        initial_size: 1 << 20,
        maximum_size: 4 << 20,
        preset: RMM_RS_POOL_COMPACT,
        ..options()
    }));
    let block = allocate(&pool, LEGACY, 1 << 19).expect("memory");
    assert_eq!(allocate(&pool, LEGACY, 8 << 20), Err(RMM_RS_OUT_OF_MEMORY));
    assert!(last_error().starts_with("out of memory: pool"), "{}", last_error());
    let unknown = u64::MAX;
    let mut detail = ErrorDetail {
        size: size_of::<ErrorDetail>(),
        status: -1,
        cuda_code: -1,
        requested: 0,
        limit: 0,
        reserved: 0,
        live: 0,
        largest_free: 0,
    };
    assert_eq!(c!(rmm_rs_last_error_detail(&raw mut detail)), RMM_RS_OK);
    let (status, requested) = (detail.status, detail.requested);
    assert_eq!((status, requested, detail.limit), (RMM_RS_OUT_OF_MEMORY, 8 << 20, 4 << 20));
    assert_eq!((detail.reserved, detail.live), (1 << 20, 1 << 19));
    assert!(detail.largest_free != unknown && detail.largest_free > 0);

    let mut figures = no_figures();
    assert_eq!(c!(rmm_rs_pool_statistics_get(pool.0, &raw mut figures)), RMM_RS_OK);
    let PoolFigures { reserved_bytes, live_bytes, allocations, deallocations, .. } = figures;
    assert_eq!((reserved_bytes, live_bytes), (1 << 20, 1 << 19));
    assert_eq!((allocations, deallocations), (1, 0));
    let PoolFigures { cached_allocations, upstream_allocations, .. } = figures;
    assert_eq!((cached_allocations, upstream_allocations), (0, 1));
    let mut most = 0;
    assert_eq!(c!(rmm_rs_pool_maximum_size(pool.0, &raw mut most)), RMM_RS_OK);
    assert_eq!(most, 4 << 20);

    assert_eq!(free(&pool, LEGACY, block, 1 << 19), RMM_RS_OK);
    rmm_core::Device::synchronize_current().expect("the driver works");
    let mut released = 0;
    assert_eq!(c!(rmm_rs_resource_trim(pool.0, 0, &raw mut released)), RMM_RS_OK);
    assert_eq!(released, 1 << 20);
    assert_eq!(c!(rmm_rs_resource_trim(of_spec("cuda").0, 0, &raw mut released)), 5);
}

fn no_figures() -> PoolFigures {
    PoolFigures {
        size: size_of::<PoolFigures>(),
        reserved_bytes: 0,
        live_bytes: 0,
        peak_reserved_bytes: 0,
        peak_live_bytes: 0,
        largest_free_bytes: 0,
        allocations: 0,
        deallocations: 9,
        unknown_frees: 0,
        wrong_frees: 0,
        cached_allocations: 0,
        lock_waits: 0,
        flushes: 0,
        flushed_blocks: 0,
        spans: 0,
        upstream_allocations: 0,
        upstream_frees: 0,
        events_recorded: 0,
        event_queries: 0,
        stream_waits: 0,
        host_waits: 0,
        asleep_bytes: 0,
    }
}

#[test]
fn wrong_frees_fail_where_the_program_asks_for_checks() {
    let _machine = rmm_sim::enter();
    let cuda = of_spec("cuda");
    let options = PoolOptions { flags: RMM_RS_POOL_CHECK_FREES, ..options() };
    let pool = made(|out| c!(rmm_rs_pool_new(cuda.0, &raw const options, out))).expect("a pool");
    let logged =
        made(|out| c!(rmm_rs_statistics_new(pool.0, out))).expect("an adaptor over the pool");
    let tracked = made(|out| c!(rmm_rs_tracking_new(cuda.0, true, out))).expect("a tracker");
    for (name, resource) in [("pool", &pool), ("adaptor", &logged), ("tracker", &tracked)] {
        let block = allocate(resource, LEGACY, 1000).expect("memory");
        assert_eq!(free(resource, LEGACY, block, 500), RMM_RS_INVALID_ARGUMENT, "{name}");
        let text = last_error();
        let address = format!("{block:?}");
        for part in [&address, "1000", "500", "allocated at ", "common.rs", "freed at "] {
            assert!(text.contains(part), "{name}: {text}");
        }
        if name == "tracker" {
            // It passes on what it does not know.
            continue;
        }
        assert_eq!(free(resource, LEGACY, block, 1000), RMM_RS_INVALID_ARGUMENT, "{name}");
    }
    let mut figures = no_figures();
    assert_eq!(c!(rmm_rs_pool_statistics_get(pool.0, &raw mut figures)), RMM_RS_OK);
    assert_eq!((figures.live_bytes, figures.unknown_frees, figures.wrong_frees), (0, 2, 2));
}

/// As a newer header has it: a field follows that this library does not know.
#[repr(C)]
struct Newer(PoolOptions, u64);

#[test]
fn structures_of_older_and_newer_headers_are_understood() {
    let _machine = rmm_sim::enter();
    // As an older header had it: it ended with the maximum.
    let older = std::mem::offset_of!(PoolOptions, soft_maximum_size);
    let pool_of = |options: PoolOptions| pool_with(Some(options));
    let pool = pool_of(PoolOptions {
        size: older,
        maximum_size: 1 << 20,
        preset: 77,
        stream_policy: 77,
        ..options()
    });
    let mut most = 0;
    assert_eq!(c!(rmm_rs_pool_maximum_size(pool.0, &raw mut most)), RMM_RS_OK);
    assert_eq!(most, 1 << 20);
    let newer = Newer(PoolOptions { size: size_of::<Newer>(), ..options() }, 77);
    let cuda = of_spec("cuda");
    let made_of = |options| made(|out| c!(rmm_rs_pool_new(cuda.0, options, out)));
    assert!(made_of((&raw const newer).cast()).is_ok());
    // Nothing is written behind what an older header has.
    let mut figures: PoolFigures = c!(std::mem::zeroed());
    figures.size = std::mem::offset_of!(PoolFigures, allocations);
    figures.allocations = 77;
    figures.deallocations = 77;
    let block = allocate(&pool, LEGACY, 100).expect("memory");
    assert_eq!(c!(rmm_rs_pool_statistics_get(pool.0, &raw mut figures)), RMM_RS_OK);
    assert_eq!((figures.live_bytes, figures.allocations, figures.deallocations), (256, 77, 77));
    assert_eq!(free(&pool, LEGACY, block, 100), RMM_RS_OK);
    // A size that was not set.
    assert_eq!(made_of(&PoolOptions { size: 0, ..options() }).err(), Some(3));
    assert!(last_error().contains("the field `size`"), "{}", last_error());
    // One that ends within a field.
    assert_eq!(made_of(&PoolOptions { size: 12, ..options() }).err(), Some(3));
    assert!(last_error().contains("the structure's size"), "{}", last_error());
    assert_eq!(made_of(&PoolOptions { preset: 77, ..options() }).err(), Some(3));
    assert_eq!(made_of(&PoolOptions { stream_policy: 77, ..options() }).err(), Some(3));
}

#[test]
fn bad_arguments_are_refused_with_a_reason() {
    let _machine = rmm_sim::enter();
    let pool = pool_with(None);
    let (none, nowhere) = (ptr::null(), ptr::null_mut());
    let mut block = ptr::null_mut();
    let refused = |status: i32, reason: &str| {
        assert_eq!(status, RMM_RS_INVALID_ARGUMENT, "{reason}");
        assert!(last_error().contains(reason), "{:?} has not {reason:?}", last_error());
    };
    c! {
        refused(rmm_rs_resource_allocate(none, LEGACY, 1, 1, &raw mut block), "resource is null");
        refused(rmm_rs_resource_allocate(pool.0, LEGACY, 1, 1, nowhere), "place for the address");
        refused(rmm_rs_resource_allocate(pool.0, LEGACY, 1, 3, &raw mut block), "power of two");
        refused(rmm_rs_resource_allocate(pool.0, LEGACY, 1, 0, &raw mut block), "power of two");
        let status = rmm_rs_resource_allocate(pool.0, LEGACY, usize::MAX, 256, &raw mut block);
        assert_eq!(status, RMM_RS_OUT_OF_MEMORY);
        refused(rmm_rs_resource_allocate_sync(none, 1, 1, &raw mut block), "resource is null");
        refused(
            rmm_rs_resource_deallocate(none, LEGACY, ptr::null_mut(), 1, 1),
            "resource is null",
        );
        assert_eq!(free(&pool, LEGACY, ptr::null_mut(), 1), RMM_RS_OK);
        refused(made(|out| rmm_rs_pool_new(none, ptr::null(), out)).err().unwrap(), "null");
        refused(rmm_rs_cuda_resource_new(ptr::null_mut()), "place for the resource");
        refused(made(|out| rmm_rs_statistics_new(none, out)).err().unwrap(), "null");
        let host = of_host();
        let over_host = made(|out| rmm_rs_pool_new(host.0, ptr::null(), out));
        refused(over_host.err().unwrap(), "the device cannot use the memory");
        let spec = made(|out| rmm_rs::calls::spec::rmm_rs_resource_from_spec(c"pool(".as_ptr(), out));
        refused(spec.err().unwrap(), "pool(");
        let spec = c"pool(\xff)".as_ptr();
        let spec = made(|out| rmm_rs::calls::spec::rmm_rs_resource_from_spec(spec, out));
        refused(spec.err().unwrap(), "UTF-8");
        refused(made(|out| rmm_rs_aligned_new(pool.0, 100, 0, out)).err().unwrap(), "100");
        refused(made(|out| rmm_rs_binning_new(pool.0, -1, 4, out)).err().unwrap(), "-1");
        refused(rmm_rs_set_per_device_resource(0, none, ptr::null_mut()), "null");
        refused(made(|out| rmm_rs_get_per_device_resource(-1, out)).err().unwrap(), "-1");
        let status = rmm_rs_statistics_get(pool.0, ptr::null_mut());
        assert_eq!(status, RMM_RS_REFUSED);
        assert!(last_error().contains("counts allocations"), "{}", last_error());
        assert_eq!(rmm_rs_resource_properties(none), 0);
        assert_eq!(rmm_rs_resource_describe(none, ptr::null_mut(), 0), 0);
        rmm_rs_resource_release(none);
        assert!(rmm_rs_resource_retain(none).is_null());
    }
}

fn of_host() -> Owned {
    made(|out| c!(rmm_rs_host_resource_new(out))).expect("host")
}

#[test]
fn texts_are_cut_off_where_the_buffer_ends() {
    let _machine = rmm_sim::enter();
    let pool = of_spec("statistics(pool(cuda))");
    let whole = c!(rmm_rs_resource_describe(pool.0, ptr::null_mut(), 0));
    let mut buffer = [b'?'; 8];
    let text = buffer.as_mut_ptr().cast();
    assert_eq!(c!(rmm_rs_resource_describe(pool.0, text, 5)), whole);
    assert_eq!(&buffer, b"stat\0???");
    assert_eq!(c!(rmm_rs_resource_describe(pool.0, text, 0)), whole);
    assert_eq!(&buffer, b"stat\0???");
}

#[test]
fn a_resource_lives_as_long_as_its_last_reference() {
    let machine = rmm_sim::enter();
    let pool = pool_with(None);
    let statistics = made(|out| c!(rmm_rs_statistics_new(pool.0, out))).expect("made");
    let same = Owned(c!(rmm_rs_resource_retain(statistics.0)));
    drop((pool, statistics));
    let block = allocate(&same, LEGACY, 4096).expect("memory");
    let mut figures: CountedBlocks = c!(std::mem::zeroed());
    figures.size = size_of::<CountedBlocks>();
    assert_eq!(c!(rmm_rs_statistics_get(same.0, &raw mut figures)), RMM_RS_OK);
    assert_eq!((figures.current_bytes, figures.total_allocations), (4096, 1));
    assert_eq!(c!(rmm_rs_statistics_push(same.0, ptr::null_mut())), RMM_RS_OK);
    assert_eq!(free(&same, LEGACY, block, 4096), RMM_RS_OK);
    assert_eq!(c!(rmm_rs_statistics_pop(same.0, &raw mut figures)), RMM_RS_OK);
    assert_eq!(figures.current_bytes, -4096);
    assert_eq!(c!(rmm_rs_statistics_pop(same.0, ptr::null_mut())), 3);
    assert!(last_error().starts_with("out of range in "), "{}", last_error());
    drop(same);
    assert!(machine.leaks().is_empty(), "{:?}", machine.leaks());
}

#[test]
fn tracking_names_what_is_left() {
    let _machine = rmm_sim::enter();
    for resource in [of_spec("tracking(pool(cuda))"), {
        made(|out| c!(rmm_rs_tracking_new(pool_with(None).0, false, out))).expect("made")
    }] {
        let block = allocate(&resource, LEGACY, 4096).expect("memory");
        let mut bytes = 0;
        let status = c!(rmm_rs_tracking_outstanding_bytes(resource.0, &raw mut bytes));
        assert_eq!((status, bytes), (RMM_RS_OK, 4096));
        let mut buffer = [0_u8; 256];
        let text = buffer.as_mut_ptr().cast();
        let length = c!(rmm_rs_tracking_outstanding(resource.0, text, buffer.len()));
        let report = String::from_utf8_lossy(&buffer[..length.min(255)]).into_owned();
        assert!(report.contains("4096"), "{report}");
        assert_eq!(free(&resource, LEGACY, block, 4096), RMM_RS_OK);
    }
}

#[test]
fn another_device_gets_access_to_a_pool_over_virtual_memory() {
    let machine = Machine::builder().devices(2).enter();
    let base = made(|out| c!(rmm_rs_virtual_resource_new(out))).expect("a resource");
    let with = options();
    let pool = made(|out| c!(rmm_rs_pool_new(base.0, &raw const with, out))).expect("a pool");
    let block = allocate(&pool, LEGACY, 1 << 20).expect("memory");
    let grant = |device| c!(rmm_rs_resource_grant_access(pool.0, device));
    let calls = calls_of(&machine, "cuMemSetAccess");
    assert_eq!([grant(1), grant(1), grant(0)], [RMM_RS_OK; 3]);
    assert_eq!(calls_of(&machine, "cuMemSetAccess"), calls + 1, "one block, once");
    assert_eq!([grant(2), grant(-1)], [RMM_RS_INVALID_ARGUMENT; 2]);
    assert_eq!(free(&pool, LEGACY, block, 1 << 20), RMM_RS_OK);
}

#[test]
fn the_registry_returns_what_was_set_with_its_policy() {
    let machine = Machine::builder().devices(2).enter();
    let kept =
        pool_with(Some(PoolOptions { stream_policy: RMM_RS_STREAM_POLICY_KEPT, ..options() }));
    let get = |device| made(|out| c!(rmm_rs_get_per_device_resource(device, out)));
    let first = get(1).expect("a resource");
    assert_eq!(name(&first), "cuda");
    let before = made(|out| c!(rmm_rs_set_per_device_resource(1, kept.0, out)));
    assert_eq!(name(&before.expect("the one before")), "cuda");
    assert!(c!(rmm_rs_resource_equal(get(1).expect("set").0, kept.0)));
    assert!(!c!(rmm_rs_resource_equal(get(0).expect("not set").0, kept.0)));
    let stream = rmm_core::CudaStream::new().expect("a stream");
    let handle = stream.as_raw().as_raw();
    let found = get(1).expect("set");
    let block = allocate(&found, handle, 100).expect("memory");
    let asked = calls_of(&machine, "cuStreamGetId");
    assert_eq!(free(&found, handle, block, 100), RMM_RS_OK);
    assert_eq!(calls_of(&machine, "cuStreamGetId"), asked, "kept streams are not asked for ids");
    c!(rmm_rs::streams::stream::rmm_rs_stream_forget(handle));
    // Rust sets another, and then the first again.
    let current = rmm_core::Device::new(1).and_then(rmm_core::Device::make_current);
    let other = rmm_resources::CudaMemoryResource::new();
    rmm_resources::with_current_device_resource(&other, || {
        assert_eq!(name(&get(1).expect("set")), "cuda");
    })
    .expect("a device");
    drop(current.expect("a device"));
    let block = allocate(&get(1).expect("set"), handle, 100).expect("memory");
    let asked = calls_of(&machine, "cuStreamGetId");
    assert_eq!(free(&get(1).expect("set"), handle, block, 100), RMM_RS_OK);
    assert_eq!(calls_of(&machine, "cuStreamGetId"), asked, "its policy is set again, too");
    c!(rmm_rs::streams::stream::rmm_rs_stream_forget(handle));
    assert_eq!(rmm_rs_reset_per_device_resource(1), RMM_RS_OK);
    assert_eq!(name(&get(1).expect("reset")), "cuda");
    assert_eq!(get(2).err(), Some(RMM_RS_INVALID_ARGUMENT));
}

pub(crate) fn calls_of(machine: &Machine, function: &str) -> u64 {
    machine.call_counts().iter().find(|(name, _)| *name == function).map_or(0, |(_, calls)| *calls)
}

#[test]
fn versions_and_the_driver() {
    assert_eq!(rmm_rs_abi_version(), RMM_RS_ABI_VERSION);
    let version = c!(CStr::from_ptr(rmm_rs_version()));
    assert_eq!(version.to_str(), Ok(env!("CARGO_PKG_VERSION")));
    let _machine = rmm_sim::enter();
    assert_eq!(rmm_rs_driver_status(), RMM_RS_OK);
}

#[test]
fn a_structure_is_checked_before_counters_change() {
    let _machine = rmm_sim::enter();
    let resource = of_spec("statistics(pool(cuda))");
    let mut figures: CountedBlocks = c!(std::mem::zeroed());
    assert_eq!(c!(rmm_rs_statistics_push(resource.0, &raw mut figures)), 3, "it has no size");
    assert_eq!(c!(rmm_rs_statistics_pop(resource.0, ptr::null_mut())), 3, "nothing was pushed");
    assert_eq!(c!(rmm_rs_statistics_push(resource.0, ptr::null_mut())), RMM_RS_OK);
    assert_eq!(c!(rmm_rs_statistics_pop(resource.0, &raw mut figures)), 3, "it has no size");
    assert_eq!(c!(rmm_rs_statistics_pop(resource.0, ptr::null_mut())), RMM_RS_OK, "still there");
}

#[test]
fn a_function_that_fails_stores_0_and_no_text() {
    let _machine = rmm_sim::enter();
    let cuda = made(|out| c!(rmm_rs_cuda_resource_new(out))).expect("cuda");
    let trims =
        |trim: unsafe extern "C" fn(*const rmm_rs::ResourceHandle, u64, *mut u64) -> i32| {
            let mut number = 77;
            assert_eq!(c!(trim(cuda.0, 0, &raw mut number)), RMM_RS_REFUSED);
            number
        };
    assert_eq!((trims(rmm_rs_resource_trim), trims(rmm_rs_pool_trim)), (0, 0));
    let numbers: [Number; 3] =
        [rmm_rs_pool_reserved_bytes, rmm_rs_pool_maximum_size, rmm_rs_tracking_outstanding_bytes];
    for function in numbers {
        let mut number = 77;
        assert_eq!(c!(function(cuda.0, &raw mut number)), RMM_RS_REFUSED);
        assert_eq!(number, 0);
    }
    let mut text = [b'?'; 4];
    assert_eq!(c!(rmm_rs_tracking_outstanding(cuda.0, text.as_mut_ptr().cast(), 4)), 0);
    assert_eq!(&text, b"\0???");
}

#[test]
fn no_number_is_a_defect_of_the_library() {
    const MOST: u64 = u64::MAX;
    let _machine = rmm_sim::enter();
    let cuda = made(|out| c!(rmm_rs_cuda_resource_new(out))).expect("cuda");
    let of_pool = |options| made(|out| c!(rmm_rs_pool_new(cuda.0, &raw const options, out)));
    let pools = [
        PoolOptions { initial_size: MOST, ..options() },
        PoolOptions { maximum_size: 1, ..options() },
        PoolOptions { maximum_size: MOST, soft_maximum_size: MOST, ..options() },
        PoolOptions { initial_size: 2, maximum_size: 1, ..options() },
    ]
    .map(of_pool);
    let others = c!([
        made(|out| rmm_rs_async_resource_new(MOST, MOST, out)),
        made(|out| rmm_rs_sam_headroom_resource_new(MOST, out)),
        made(|out| rmm_rs_arena_new(cuda.0, MOST, false, out)),
        made(|out| rmm_rs_arena_new(cuda.0, 1, false, out)),
        made(|out| rmm_rs_fixed_size_new(cuda.0, MOST, MOST, out)),
        made(|out| rmm_rs_fixed_size_new(cuda.0, MOST, 1, out)),
        made(|out| rmm_rs_fixed_size_new(cuda.0, 1 << 63, 1, out)),
        made(|out| rmm_rs_fixed_size_new(cuda.0, 1, 1, out)),
        made(|out| rmm_rs_binning_new(cuda.0, 0, 63, out)),
        made(|out| rmm_rs_binning_new(cuda.0, 63, 63, out)),
        made(|out| rmm_rs_binning_new(cuda.0, 20, 10, out)),
        made(|out| rmm_rs_binning_new(cuda.0, i32::MAX, i32::MIN, out)),
        made(|out| rmm_rs_limiting_new(cuda.0, 0, out)),
        made(|out| rmm_rs_limiting_new(cuda.0, MOST, out)),
        made(|out| rmm_rs_aligned_new(cuda.0, usize::MAX, 0, out)),
        made(|out| rmm_rs_aligned_new(cuda.0, 1 << 63, usize::MAX, out)),
        made(|out| rmm_rs_logging_new(cuda.0, c"".as_ptr(), false, out)),
    ]);
    for resource in pools.into_iter().chain(others) {
        let Ok(resource) = resource.inspect_err(|&status| assert_ne!(status, RMM_RS_PANIC)) else {
            continue;
        };
        for (bytes, alignment) in
            [(1, 1), (1 << 12, 1 << 12), (1 << 62, 256), (isize::MAX as usize, 1), (1, 1 << 62)]
        {
            let mut block = ptr::null_mut();
            let status =
                c!(rmm_rs_resource_allocate(resource.0, LEGACY, bytes, alignment, &raw mut block));
            assert_ne!(status, RMM_RS_PANIC, "{}: {}", name(&resource), last_error());
            let freed = c!(rmm_rs_resource_deallocate(resource.0, LEGACY, block, bytes, alignment));
            assert_eq!(freed, RMM_RS_OK, "{}", last_error());
        }
        assert_ne!(c!(rmm_rs_resource_trim(resource.0, MOST, ptr::null_mut())), RMM_RS_PANIC);
    }
}
