# cython: language_level=3
"""A pool of the C library."""

from libc.stdint cimport int32_t


cdef extern from "rmm_rs.h":
    ctypedef struct rmm_rs_resource:
        pass
    int32_t rmm_rs_resource_from_spec(const char* spec, const rmm_rs_resource** out)
    int32_t rmm_rs_resource_allocate_sync(const rmm_rs_resource* resource, size_t bytes, size_t alignment, void** out)
    int32_t rmm_rs_resource_deallocate_sync(const rmm_rs_resource* resource, void* pointer, size_t bytes, size_t alignment)
    void rmm_rs_resource_release(const rmm_rs_resource* resource)
    size_t rmm_rs_last_error_message(char* buffer, size_t capacity)


cdef str last_error():
    cdef char[1000] buffer
    rmm_rs_last_error_message(buffer, sizeof(buffer))
    return (<const char*>buffer).decode()


def allocates(spec: str, bytes: int) -> str:
    """Allocates and frees so much; the error's text, or nothing."""
    cdef const rmm_rs_resource* resource = NULL
    cdef void* pointer = NULL
    text = spec.encode()
    if rmm_rs_resource_from_spec(text, &resource) != 0:
        return last_error()
    status = rmm_rs_resource_allocate_sync(resource, bytes, 256, &pointer)
    message = last_error() if status != 0 else ""
    if status == 0:
        rmm_rs_resource_deallocate_sync(resource, pointer, bytes, 256)
    rmm_rs_resource_release(resource)
    return message
