"""What several files use: types and sizes of arrays, and a way through device memory and back."""

import numpy as np
from cuda.bindings import runtime
from numba import cuda

import rmm
from rmm.allocators.numba import RMMNumbaManager

cuda.set_memory_manager(RMMNumbaManager)

DTYPES = [np.int8, np.int16, np.int32, np.int64, np.float32, np.float64, np.bool_]
SIZES = [1, 2, 7, 8, 9, 32, 128]

_ATTRIBUTES = runtime.cudaDeviceAttr


def has(attribute):
    """Whether the current device has what an attribute says."""
    device = rmm._cuda.gpu.getDevice()
    return rmm._cuda.gpu.getDeviceAttribute(attribute, device) != 0


HAS_PAGEABLE_ACCESS = has(_ATTRIBUTES.cudaDevAttrPageableMemoryAccess)
HAS_ASYNC_MANAGED = rmm._cuda.gpu.runtimeGetVersion() >= 13000 and has(
    _ATTRIBUTES.cudaDevAttrConcurrentManagedAccess
)


def round_trip(dtype, size):
    """An array goes to the device, to another array there, and comes back."""
    before = np.full(size, 3.2, dtype)
    there = cuda.to_device(before)
    copy = cuda.device_array_like(there)
    copy.copy_to_device(there)
    np.testing.assert_array_equal(copy.copy_to_host(), before)


def use(resource):
    """Makes a resource the current one."""
    rmm.mr.set_current_device_resource(resource)
    assert rmm.mr.get_current_device_resource() is resource
    return resource
