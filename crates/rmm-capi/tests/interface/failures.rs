//! Any driver call may fail: the functions return a status, lose nothing and do not abort.

use std::ptr;

use rmm_core::sys::CuResult;
use rmm_rs::adaptors::*;
use rmm_rs::allocate::*;
use rmm_rs::base::*;
use rmm_rs::library::*;
use rmm_rs::pool::*;
use rmm_rs::registry::*;
use rmm_rs::resource::*;
use rmm_rs::stream::*;
use rmm_rs::suballocators::*;

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
            rmm_rs_set_per_device_resource(0, cuda.0, ptr::null_mut());
        }
        drop(made(|out| rmm_rs_get_per_device_resource(0, out)));
        rmm_rs_reset_per_device_resource(0);
        rmm_rs_stream_release(stream);
    }
}

fn use_once(resource: &Owned, stream: *mut std::ffi::c_void) {
    for handle in [stream, ptr::null_mut(), ptr::without_provenance_mut(2)] {
        if let Ok(block) = allocate(resource, handle, 4096) {
            // A failed free leaves the memory allocated, and another one succeeds.
            if free(resource, handle, block, 4096) != 0 {
                assert_eq!(free(resource, handle, block, 4096), 0, "{}", last_error());
            }
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
