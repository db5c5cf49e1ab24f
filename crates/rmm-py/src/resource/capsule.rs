//! The C interface, for extension modules that are compiled apart, such as the plug-in for RMM.
//!
//! They link to no library: they import this module, and take a table of functions from the capsule
//! `_C_API`. `include/rmm_rs_python.h` declares it. So there is one engine in the process.
//!
//! ```text
//! capsule "rmm_rs._rmm.c_api_v1"  -->  size | function | function | ..  new ones at the end
//! capsule "rmm_rs.resource_v1"    -->  a reference to a resource, released with the capsule
//! ```

use std::ffi::{CStr, c_void};
use std::ptr::NonNull;

use pyo3::exceptions::PyMemoryError;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PyCapsule;

use crate::interpreter::fork;
use crate::interpreter::without_the_lock;
use crate::resource::Upstream;

/// The name of the capsule with the table.
const TABLE_NAME: &CStr = c"rmm_rs._rmm.c_api_v1";
/// The name of a capsule with a resource.
const RESOURCE_NAME: &CStr = c"rmm_rs.resource_v1";

/// A function of the C interface.
#[derive(Clone, Copy, Debug)]
#[repr(transparent)]
struct Function(*const c_void);

// SAFETY: it points to code.
unsafe impl Sync for Function {}

macro_rules! table {
    ($($layer:ident::$module:ident: $($name:ident)*;)*) => {
        /// The functions' names, in the table's order.
        const NAMES: &[&str] = &[$($(stringify!($name)),*),*];

        /// What C reads.
        #[derive(Debug)]
        #[repr(C)]
        struct Table {
            size: usize,
            functions: [Function; NAMES.len()],
        }

        static TABLE: Table = Table {
            size: size_of::<Table>(),
            functions: [$($(Function(rmm_rs::$layer::$module::$name as *const c_void)),*),*],
        };
    };
}

table! {
    handle::library: rmm_rs_abi_version rmm_rs_version rmm_rs_driver_status
        rmm_rs_last_error_message rmm_rs_last_error_detail rmm_rs_set_last_error;
    handle::resource: rmm_rs_resource_retain rmm_rs_resource_release rmm_rs_resource_equal
        rmm_rs_resource_name rmm_rs_resource_properties;
    calls::upstream: rmm_rs_resource_upstream;
    handle::resource: rmm_rs_resource_describe;
    calls::trim: rmm_rs_resource_trim;
    calls::allocate: rmm_rs_resource_allocate rmm_rs_resource_deallocate
        rmm_rs_resource_allocate_sync rmm_rs_resource_deallocate_sync;
    calls::base: rmm_rs_cuda_resource_new rmm_rs_async_resource_new rmm_rs_async_view_resource_new
        rmm_rs_async_managed_resource_new rmm_rs_async_pinned_resource_new
        rmm_rs_managed_resource_new rmm_rs_pinned_resource_new rmm_rs_system_resource_new
        rmm_rs_sam_headroom_resource_new rmm_rs_host_resource_new rmm_rs_virtual_resource_new;
    calls::suballocators: rmm_rs_arena_new rmm_rs_fixed_size_new rmm_rs_binning_new;
    calls::adaptors: rmm_rs_limiting_new rmm_rs_aligned_new;
    calls::logging: rmm_rs_logging_new;
    calls::adaptors: rmm_rs_statistics_new rmm_rs_tracking_new;
    calls::failure_callback: rmm_rs_failure_callback_new;
    calls::adaptors: rmm_rs_prefetch_new rmm_rs_thread_safe_new rmm_rs_fallback_new;
    calls::spec: rmm_rs_resource_from_spec;
    calls::callbacks: rmm_rs_resource_from_callbacks rmm_rs_resource_callbacks;
    calls::pool: rmm_rs_pool_new rmm_rs_pool_statistics_get rmm_rs_pool_reserved_bytes
        rmm_rs_pool_maximum_size rmm_rs_pool_trim rmm_rs_pool_stream_policy;
    calls::statistics: rmm_rs_statistics_get rmm_rs_statistics_push rmm_rs_statistics_pop;
    calls::tracking: rmm_rs_tracking_outstanding_bytes rmm_rs_tracking_outstanding;
    streams::stream: rmm_rs_stream_new rmm_rs_stream_adopt rmm_rs_stream_handle
        rmm_rs_stream_release rmm_rs_stream_forget;
    calls::registry: rmm_rs_get_per_device_resource rmm_rs_set_per_device_resource
        rmm_rs_reset_per_device_resource;
    frameworks::torch: rmm_rs_torch_allocate rmm_rs_torch_deallocate rmm_rs_torch_record_stream
        rmm_rs_torch_reset rmm_rs_torch_set_memory_fraction;
    frameworks::ort: rmm_rs_ort_allocate rmm_rs_ort_deallocate rmm_rs_ort_empty_cache
        rmm_rs_ort_bind_stream;
    calls::trim: rmm_rs_resource_trim_blocking;
    calls::remedies: rmm_rs_last_error_remedy_count rmm_rs_last_error_remedy;
    calls::pool: rmm_rs_pool_release_unused;
    calls::sleep: rmm_rs_pool_sleep rmm_rs_pool_wake rmm_rs_pool_is_asleep;
    calls::reservation: rmm_rs_pool_reserve rmm_rs_reservation_remaining rmm_rs_reservation_release;
    calls::pressure: rmm_rs_pool_on_pressure rmm_rs_pressure_callback_release;
    calls::base: rmm_rs_registered_resource_new;
    calls::pool: rmm_rs_default_pool_new rmm_rs_pool_set_maximum_size;
    calls::adaptors: rmm_rs_limiting_set_limit;
    calls::remedies: rmm_rs_resource_limit_id;
    calls::graphs: rmm_rs_pool_release_graph_memory;
    frameworks::client: rmm_rs_client_new rmm_rs_client_retain rmm_rs_client_release
        rmm_rs_client_allocate rmm_rs_client_free rmm_rs_client_record_stream rmm_rs_client_find
        rmm_rs_client_walk rmm_rs_client_statistics_get rmm_rs_client_reset_peaks
        rmm_rs_client_reset_accumulated rmm_rs_client_settle rmm_rs_client_set_memory_fraction
        rmm_rs_client_memory_fraction;
    streams::capture: rmm_rs_capture_announce rmm_rs_capture_withdraw;
    calls::pool_walk: rmm_rs_pool_walk;
    frameworks::client: rmm_rs_client_checkpoint rmm_rs_checkpoint_restore
        rmm_rs_checkpoint_release rmm_rs_client_resource;
    calls::access: rmm_rs_resource_grant_access;
    calls::pool: rmm_rs_pool_reset_peak_reserved;
    calls::segments: rmm_rs_pool_on_segment rmm_rs_segment_callback_release;
    calls::sleep: rmm_rs_pool_can_sleep rmm_rs_pool_read_asleep;
    calls::logging: rmm_rs_logging_new_with_columns;
    calls::adaptors: rmm_rs_recorder_new rmm_rs_recorder_save;
    calls::effort: rmm_rs_effort_push rmm_rs_effort_pop;
    calls::driver_pools: rmm_rs_async_resource_new_with_options rmm_rs_resource_pool_handle;
    calls::adaptors: rmm_rs_limiting_new_with_alignment rmm_rs_limiting_allocated_bytes
        rmm_rs_limiting_allocation_limit;
    calls::suballocators: rmm_rs_binning_new_with_bins rmm_rs_fixed_size_block_size;
    calls::logging: rmm_rs_logging_new_with_callback rmm_rs_logging_flush rmm_rs_logging_header;
    calls::tracking: rmm_rs_tracking_walk;
    calls::failure_callback: rmm_rs_failure_callback_new_with_kinds;
    calls::sharing: rmm_rs_virtual_resource_for_export rmm_rs_export_kinds rmm_rs_export
        rmm_rs_pieces_release rmm_rs_import rmm_rs_import_release;
    calls::elastic: rmm_rs_elastic_reserve rmm_rs_elastic_commit rmm_rs_elastic_decommit
        rmm_rs_elastic_record_stream rmm_rs_elastic_end_graph_uses rmm_rs_elastic_figures_get
        rmm_rs_elastic_next_range rmm_rs_elastic_release;
    calls::watch: rmm_rs_watch rmm_rs_end_watching rmm_rs_watch_resource;
    calls::lease: rmm_rs_lease_connect rmm_rs_lease_lock rmm_rs_lease_commit rmm_rs_lease_detach
        rmm_rs_lease_attach rmm_rs_lease_put rmm_rs_lease_get rmm_rs_lease_walk_names;
    calls::base: rmm_rs_host_virtual_resource_new;
    calls::sharing: rmm_rs_import_grant_access rmm_rs_export_has_single_handle;
    frameworks::client: rmm_rs_client_free_for_graph rmm_rs_graph_block_release;
}

/// The names of the table's functions, in their order.
#[pyfunction]
fn _c_api_names() -> Vec<&'static str> {
    NAMES.to_vec()
}

/// A reference to a resource, in a place that C releases.
struct Reference(*const rmm_rs::ResourceHandle);

// SAFETY: resources are `Send` and `Sync`, by an assertion of the crate that has them.
unsafe impl Send for Reference {}

unsafe extern "C" fn release(capsule: *mut ffi::PyObject) {
    // SAFETY: Python calls it with a capsule of this name, which has a resource.
    let resource = unsafe { ffi::PyCapsule_GetPointer(capsule, RESOURCE_NAME.as_ptr()) };
    let resource = Reference(resource.cast::<rmm_rs::ResourceHandle>().cast_const());
    if fork::in_child() {
        return;
    }
    without_the_lock(move || {
        let whole = resource;
        // SAFETY: it is the reference that the capsule was made with, and its last use.
        unsafe { rmm_rs::handle::resource::rmm_rs_resource_release(whole.0) };
    });
}

/// A capsule with a reference to the resource, for C. It is released with the capsule; a caller
/// that keeps the resource longer retains it.
#[pyfunction]
pub(crate) fn _c_resource<'py>(
    py: Python<'py>,
    mr: Upstream<'_>,
) -> PyResult<Bound<'py, PyCapsule>> {
    fork::check()?;
    let resource = rmm_rs::ResourceHandle::handle_of(mr.engine()?.narrow());
    let pointer = NonNull::new(resource.cast_mut().cast::<c_void>());
    let pointer = pointer.ok_or_else(|| PyMemoryError::new_err("the reference is null"))?;
    // SAFETY: the pointer is what `release` takes, which does not unwind.
    unsafe { PyCapsule::new_with_pointer_and_destructor(py, pointer, RESOURCE_NAME, Some(release)) }
}

/// Adds the capsule and its functions.
pub(crate) fn add_to(module: &Bound<'_, PyModule>) -> PyResult<()> {
    let table = NonNull::from(&TABLE).cast::<c_void>();
    // SAFETY: the table is a static, and is only read.
    let capsule = unsafe { PyCapsule::new_with_pointer(module.py(), table, TABLE_NAME) }?;
    module.add("_C_API", capsule)?;
    module.add_function(wrap_pyfunction!(_c_api_names, module)?)?;
    module.add_function(wrap_pyfunction!(_c_resource, module)?)
}
