/* The C interface of rmm-rs out of the Python package `rmm_rs`, for extension modules that link to no library of it:
 *
 *     rmm_rs_python_table const* api = rmm_rs_python_import();          // once; null: a Python exception is set
 *     rmm_rs_resource const* resource = rmm_rs_python_resource(api, object);  // a new reference
 *     api->rmm_rs_resource_allocate(resource, stream, 1000, 256, &memory);
 *
 * The functions are those of <rmm_rs.h>. Functions are added at the end of the table, and none is removed: a table that
 * is smaller than the one of this header is refused.
 */
#ifndef RMM_RS_PYTHON_H
#define RMM_RS_PYTHON_H

#include <Python.h>
#include <stddef.h>

#include "rmm_rs.h"

#define RMM_RS_PYTHON_FUNCTIONS(X)                       \
    X(rmm_rs_abi_version)                          \
    X(rmm_rs_version)                              \
    X(rmm_rs_driver_status)                        \
    X(rmm_rs_last_error_message)                   \
    X(rmm_rs_last_error_detail)                    \
    X(rmm_rs_set_last_error)                       \
    X(rmm_rs_resource_retain)                      \
    X(rmm_rs_resource_release)                     \
    X(rmm_rs_resource_equal)                       \
    X(rmm_rs_resource_name)                        \
    X(rmm_rs_resource_properties)                  \
    X(rmm_rs_resource_upstream)                    \
    X(rmm_rs_resource_describe)                    \
    X(rmm_rs_resource_trim)                        \
    X(rmm_rs_resource_allocate)                    \
    X(rmm_rs_resource_deallocate)                  \
    X(rmm_rs_resource_allocate_sync)               \
    X(rmm_rs_resource_deallocate_sync)             \
    X(rmm_rs_cuda_resource_new)                    \
    X(rmm_rs_async_resource_new)                   \
    X(rmm_rs_async_view_resource_new)              \
    X(rmm_rs_async_managed_resource_new)           \
    X(rmm_rs_async_pinned_resource_new)            \
    X(rmm_rs_managed_resource_new)                 \
    X(rmm_rs_pinned_resource_new)                  \
    X(rmm_rs_system_resource_new)                  \
    X(rmm_rs_sam_headroom_resource_new)            \
    X(rmm_rs_host_resource_new)                    \
    X(rmm_rs_virtual_resource_new)                 \
    X(rmm_rs_arena_new)                            \
    X(rmm_rs_fixed_size_new)                       \
    X(rmm_rs_binning_new)                          \
    X(rmm_rs_limiting_new)                         \
    X(rmm_rs_aligned_new)                          \
    X(rmm_rs_logging_new)                          \
    X(rmm_rs_statistics_new)                       \
    X(rmm_rs_tracking_new)                         \
    X(rmm_rs_failure_callback_new)                 \
    X(rmm_rs_prefetch_new)                         \
    X(rmm_rs_thread_safe_new)                      \
    X(rmm_rs_fallback_new)                         \
    X(rmm_rs_resource_from_spec)                   \
    X(rmm_rs_resource_from_callbacks)              \
    X(rmm_rs_resource_callbacks)                   \
    X(rmm_rs_pool_new)                             \
    X(rmm_rs_pool_statistics_get)                  \
    X(rmm_rs_pool_reserved_bytes)                  \
    X(rmm_rs_pool_maximum_size)                    \
    X(rmm_rs_pool_trim)                            \
    X(rmm_rs_pool_stream_policy)                   \
    X(rmm_rs_statistics_get)                       \
    X(rmm_rs_statistics_push)                      \
    X(rmm_rs_statistics_pop)                       \
    X(rmm_rs_tracking_outstanding_bytes)           \
    X(rmm_rs_tracking_outstanding)                 \
    X(rmm_rs_stream_new)                           \
    X(rmm_rs_stream_adopt)                         \
    X(rmm_rs_stream_handle)                        \
    X(rmm_rs_stream_release)                       \
    X(rmm_rs_stream_forget)                        \
    X(rmm_rs_get_per_device_resource)              \
    X(rmm_rs_set_per_device_resource)              \
    X(rmm_rs_reset_per_device_resource)            \
    X(rmm_rs_torch_allocate)                       \
    X(rmm_rs_torch_deallocate)                     \
    X(rmm_rs_torch_record_stream)                  \
    X(rmm_rs_torch_reset)                          \
    X(rmm_rs_torch_set_memory_fraction)            \
    X(rmm_rs_ort_allocate)                         \
    X(rmm_rs_ort_deallocate)                       \
    X(rmm_rs_ort_empty_cache)                      \
    X(rmm_rs_ort_bind_stream)                      \
    X(rmm_rs_resource_trim_blocking)               \
    X(rmm_rs_last_error_remedy_count)              \
    X(rmm_rs_last_error_remedy)                    \
    X(rmm_rs_pool_release_unused)                  \
    X(rmm_rs_pool_sleep)                           \
    X(rmm_rs_pool_wake)                            \
    X(rmm_rs_pool_is_asleep)                       \
    X(rmm_rs_pool_reserve)                         \
    X(rmm_rs_reservation_remaining)                \
    X(rmm_rs_reservation_release)                  \
    X(rmm_rs_pool_on_pressure)                     \
    X(rmm_rs_pressure_callback_release)            \
    X(rmm_rs_registered_resource_new)              \
    X(rmm_rs_default_pool_new)                     \
    X(rmm_rs_pool_set_maximum_size)                \
    X(rmm_rs_limiting_set_limit)                   \
    X(rmm_rs_resource_limit_id)                    \
    X(rmm_rs_pool_release_graph_memory)            \
    X(rmm_rs_client_new)                           \
    X(rmm_rs_client_retain)                        \
    X(rmm_rs_client_release)                       \
    X(rmm_rs_client_allocate)                      \
    X(rmm_rs_client_free)                          \
    X(rmm_rs_client_record_stream)                 \
    X(rmm_rs_client_find)                          \
    X(rmm_rs_client_walk)                          \
    X(rmm_rs_client_statistics_get)                \
    X(rmm_rs_client_reset_peaks)                   \
    X(rmm_rs_client_reset_accumulated)             \
    X(rmm_rs_client_settle)                        \
    X(rmm_rs_client_set_memory_fraction)           \
    X(rmm_rs_client_memory_fraction)               \
    X(rmm_rs_capture_announce)                     \
    X(rmm_rs_capture_withdraw)                     \
    X(rmm_rs_pool_walk)                            \
    X(rmm_rs_client_checkpoint)                    \
    X(rmm_rs_checkpoint_restore)                   \
    X(rmm_rs_checkpoint_release)                   \
    X(rmm_rs_client_resource)                      \
    X(rmm_rs_resource_grant_access)                \
    X(rmm_rs_pool_reset_peak_reserved)             \
    X(rmm_rs_pool_on_segment)                      \
    X(rmm_rs_segment_callback_release)             \
    X(rmm_rs_pool_can_sleep)                       \
    X(rmm_rs_pool_read_asleep)                     \
    X(rmm_rs_logging_new_with_columns)             \
    X(rmm_rs_recorder_new)                         \
    X(rmm_rs_recorder_save)                        \
    X(rmm_rs_effort_push)                          \
    X(rmm_rs_effort_pop)                           \
    X(rmm_rs_async_resource_new_with_options)      \
    X(rmm_rs_resource_pool_handle)                 \
    X(rmm_rs_limiting_new_with_alignment)          \
    X(rmm_rs_limiting_allocated_bytes)             \
    X(rmm_rs_limiting_allocation_limit)            \
    X(rmm_rs_binning_new_with_bins)                \
    X(rmm_rs_fixed_size_block_size)                \
    X(rmm_rs_logging_new_with_callback)            \
    X(rmm_rs_logging_flush)                        \
    X(rmm_rs_logging_header)                       \
    X(rmm_rs_tracking_walk)                        \
    X(rmm_rs_failure_callback_new_with_kinds)      \
    X(rmm_rs_virtual_resource_for_export)          \
    X(rmm_rs_export_kinds)                         \
    X(rmm_rs_export)                               \
    X(rmm_rs_pieces_release)                       \
    X(rmm_rs_import)                               \
    X(rmm_rs_import_release)                       \
    X(rmm_rs_elastic_reserve)                      \
    X(rmm_rs_elastic_commit)                       \
    X(rmm_rs_elastic_decommit)                     \
    X(rmm_rs_elastic_record_stream)                \
    X(rmm_rs_elastic_end_graph_uses)               \
    X(rmm_rs_elastic_figures_get)                  \
    X(rmm_rs_elastic_next_range)                   \
    X(rmm_rs_elastic_release)                      \
    X(rmm_rs_watch)                                \
    X(rmm_rs_end_watching)                         \
    X(rmm_rs_watch_resource)                       \
    X(rmm_rs_lease_connect)                        \
    X(rmm_rs_lease_lock)                           \
    X(rmm_rs_lease_commit)                         \
    X(rmm_rs_lease_detach)                         \
    X(rmm_rs_lease_attach)                         \
    X(rmm_rs_lease_put)                            \
    X(rmm_rs_lease_get)                            \
    X(rmm_rs_lease_walk_names)                     \
    X(rmm_rs_host_virtual_resource_new)            \
    X(rmm_rs_import_grant_access)                  \
    X(rmm_rs_export_has_single_handle)             \
    X(rmm_rs_client_free_for_graph)                \
    X(rmm_rs_graph_block_release)

#ifdef __cplusplus
#define RMM_RS_PYTHON_MEMBER(name) decltype(&::name) name;
#else
#define RMM_RS_PYTHON_MEMBER(name) __typeof__(&name) name;
#endif

/* The table that the capsule `rmm_rs._rmm._C_API` has. */
typedef struct rmm_rs_python_table {
    size_t size; /* of the table in bytes */
    RMM_RS_PYTHON_FUNCTIONS(RMM_RS_PYTHON_MEMBER)
} rmm_rs_python_table;

/* Imports the package and returns its table, which stays. Null, with an exception, if there is none or it is too old.
 * The thread is attached to the interpreter. */
static inline rmm_rs_python_table const* rmm_rs_python_import(void)
{
    PyObject* module = PyImport_ImportModule("rmm_rs._rmm");
    if (!module) { return NULL; }
    PyObject* capsule = PyObject_GetAttrString(module, "_C_API");
    Py_DECREF(module);
    if (!capsule) { return NULL; }
    rmm_rs_python_table const* table =
        (rmm_rs_python_table const*)PyCapsule_GetPointer(capsule, "rmm_rs._rmm.c_api_v1");
    Py_DECREF(capsule);
    if (table && table->size < sizeof(rmm_rs_python_table)) {
        PyErr_SetString(PyExc_ImportError, "rmm_rs is older than this extension module: upgrade it");
        return NULL;
    }
    return table;
}

/* A new reference to the resource of a Python object, which `rmm_rs_resource_release` releases. Null, with an exception,
 * if the object is none. */
static inline rmm_rs_resource const* rmm_rs_python_resource(rmm_rs_python_table const* api, PyObject* object)
{
    PyObject* module = PyImport_ImportModule("rmm_rs._rmm");
    if (!module) { return NULL; }
    PyObject* capsule = PyObject_CallMethod(module, "_c_resource", "O", object);
    Py_DECREF(module);
    if (!capsule) { return NULL; }
    rmm_rs_resource const* resource =
        (rmm_rs_resource const*)PyCapsule_GetPointer(capsule, "rmm_rs.resource_v1");
    if (resource) { resource = api->rmm_rs_resource_retain(resource); }
    Py_DECREF(capsule);
    return resource;
}

#undef RMM_RS_PYTHON_MEMBER
#endif
