"""Functions of the CUDA runtime that RMM's tests call, beside the package."""

import numpy as np
import pytest
from cuda.bindings import runtime
from numba import cuda

import rmm
from rmm.allocators.numba import RMMNumbaManager
from rmm.pylibrmm.stream import Stream

SUCCESS = runtime.cudaError_t.cudaSuccess

cuda.set_memory_manager(RMMNumbaManager)


@pytest.fixture(autouse=True)
def first_resource_again():
    yield
    rmm.reinitialize()


def round_trip():
    before = np.arange(1000)
    np.testing.assert_array_equal(cuda.to_device(before).copy_to_host(), before)


def default_pool():
    status, device = runtime.cudaGetDevice()
    assert status == SUCCESS
    return runtime.cudaDeviceGetDefaultMemPool(device)


def created_pool():
    properties = runtime.cudaMemPoolProps()
    properties.allocType = runtime.cudaMemAllocationType.cudaMemAllocationTypePinned
    properties.location.type = runtime.cudaMemLocationType.cudaMemLocationTypeDevice
    properties.location.id = rmm._cuda.gpu.getDevice()
    return runtime.cudaMemPoolCreate(properties)


@pytest.mark.parametrize("make", [default_pool, created_pool])
def test_a_view_of_a_pool(make):
    status, pool = make()
    assert status == SUCCESS
    rmm.mr.set_current_device_resource(rmm.mr.CudaAsyncViewMemoryResource(pool))
    round_trip()
    if make is created_pool:
        assert runtime.cudaMemPoolDestroy(pool) == (SUCCESS,)


def test_the_last_prefetch():
    rmm.reinitialize(managed_memory=True)
    buffer = rmm.DeviceBuffer(size=1 << 20)
    buffer.prefetch(device=runtime.cudaCpuDeviceId, stream=Stream())
    attribute = runtime.cudaMemRangeAttribute.cudaMemRangeAttributeLastPrefetchLocation
    status, place = runtime.cudaMemRangeGetAttribute(4, attribute, buffer.ptr, buffer.size)
    assert (status, place) == (SUCCESS, runtime.cudaCpuDeviceId)


def test_two_devices():
    assert rmm._cuda.gpu.getDeviceCount() == 2
