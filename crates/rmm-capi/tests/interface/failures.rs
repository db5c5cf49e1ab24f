//! Any driver call may fail: the functions return a status, lose nothing and do not abort.

use std::ffi::c_void;
use std::ptr;

use rmm_core::sys::CuResult;
use rmm_rs::calls::adaptors::*;
use rmm_rs::calls::allocate::*;
use rmm_rs::calls::base::*;
use rmm_rs::calls::pool::*;
use rmm_rs::calls::registry::*;
use rmm_rs::calls::sleep::*;
use rmm_rs::calls::suballocators::*;
use rmm_rs::calls::trim::*;
use rmm_rs::handle::library::*;
use rmm_rs::streams::stream::*;

use super::common::*;

/// Calls every function that can reach the driver, for resources that wait for nothing when they
/// free.
fn most() {
    rmm_rs_driver_status();
    let mut stream = ptr::null_mut();
    let handle = match c!(rmm_rs_stream_new(0, &raw mut stream)) {
        0 => c!(rmm_rs_stream_handle(stream)),
        _ => ptr::null_mut(),
    };
    c! {
        let resources = [
            made(|out| rmm_rs_cuda_resource_new(out)),
            made(|out| rmm_rs_async_resource_new(1 << 20, 0, out)),
            made(|out| rmm_rs_async_view_resource_new(ptr::null_mut(), out)),
        ];
        for resource in resources.into_iter().flatten() {
            use_once(&resource, handle);
        }
        if let Ok(cuda) = made(|out| rmm_rs_cuda_resource_new(out)) {
            let over = [
                made(|out| rmm_rs_pool_new(cuda.0, ptr::null(), out)),
                made(|out| rmm_rs_arena_new(cuda.0, 16 << 20, false, out)),
                made(|out| rmm_rs_fixed_size_new(cuda.0, 0, 0, out)),
                made(|out| rmm_rs_binning_new(cuda.0, 12, 14, out)),
                made(|out| rmm_rs_prefetch_new(cuda.0, out)),
            ];
            for resource in over.into_iter().flatten() {
                use_once(&resource, handle);
                rmm_rs_resource_trim(resource.0, 0, ptr::null_mut());
            }
            sleep_once();
            rmm_rs_set_per_device_resource(0, cuda.0, ptr::null_mut());
        }
        drop(made(|out| rmm_rs_get_per_device_resource(0, out)));
        rmm_rs_reset_per_device_resource(0);
        rmm_rs_stream_release(stream);
    }
}

/// A pool that cannot sleep is awake, and one that cannot wake up sleeps.
fn sleep_once() {
    let Ok(pages) = made(|out| c!(rmm_rs_virtual_resource_new(out))) else { return };
    let Ok(pool) = made(|out| c!(rmm_rs_pool_new(pages.0, ptr::null(), out))) else { return };
    // A whole page, which the pool asks for also if the first growth fails.
    let block = allocate(&pool, ptr::null_mut(), 2 << 20);
    let slept = c!(rmm_rs_pool_sleep(pool.0, ptr::null(), ptr::null_mut()));
    while c!(rmm_rs_pool_is_asleep(pool.0)) {
        let woken = c!(rmm_rs_pool_wake(pool.0, ptr::null_mut()));
        assert!(woken == 0 || slept == 0 || !last_error().is_empty());
    }
    if let Ok(block) = block {
        free_once(&pool, ptr::null_mut(), block, 2 << 20);
    }
}

/// A failed free leaves the memory allocated, and another one succeeds.
fn free_once(resource: &Owned, stream: *mut c_void, block: *mut c_void, bytes: usize) {
    if free(resource, stream, block, bytes) != 0 {
        assert_eq!(free(resource, stream, block, bytes), 0, "{}", last_error());
    }
}

fn use_once(resource: &Owned, stream: *mut c_void) {
    for handle in [stream, ptr::null_mut(), ptr::without_provenance_mut(2)] {
        if let Ok(block) = allocate(resource, handle, 4096) {
            free_once(resource, handle, block, 4096);
        }
    }
    let mut block = ptr::null_mut();
    if c!(rmm_rs_resource_allocate_sync(resource.0, 4096, 256, &raw mut block)) == 0 {
        let status = c!(rmm_rs_resource_deallocate_sync(resource.0, block, 4096, 256));
        assert_eq!(status, 0, "{}", last_error());
    }
}

/// The same for those that synchronize with the stream first. If that fails the memory stays
/// allocated, since the device may use it.
fn others() {
    let resources = c!([
        made(|out| rmm_rs_managed_resource_new(out)),
        made(|out| rmm_rs_pinned_resource_new(out)),
        made(|out| rmm_rs_virtual_resource_new(out)),
    ]);
    for resource in resources.into_iter().flatten() {
        use_once(&resource, ptr::null_mut());
    }
}

#[test]
fn each_driver_call_may_fail() {
    for code in [CuResult::UNKNOWN, CuResult::OUT_OF_MEMORY] {
        let failed = rmm_sim::fail_each_call(code, |_| most());
        assert!(failed > 100, "{failed} calls");
        let checker = rmm_sim::Checker::new().leaks(false);
        let failed = checker.fail_each_call(code, |_| others());
        assert!(failed > 20, "{failed} calls");
    }
}
