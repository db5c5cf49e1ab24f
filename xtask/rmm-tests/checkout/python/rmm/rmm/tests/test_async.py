"""Resources over pools of the driver."""

import numpy as np
import pytest
from cuda.bindings import runtime

import rmm
from rmm.pylibrmm import stream as streams

from .support import DTYPES, HAS_ASYNC_MANAGED, SIZES, round_trip, use

SUCCESS = runtime.cudaError_t.cudaSuccess


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("size", SIZES)
def test_own_pool(dtype, size):
    resource = use(rmm.mr.CudaAsyncMemoryResource())
    assert type(resource) is type(rmm.mr.get_current_device_resource())
    round_trip(dtype, size)


@pytest.mark.parametrize("threshold", [None, 0, 1 << 18, 1 << 21])
@pytest.mark.parametrize("first", [None, 0, "2MiB", 1 << 20])
def test_sizes_of_the_pool(first, threshold):
    use(rmm.mr.CudaAsyncMemoryResource(initial_pool_size=first, release_threshold=threshold))
    round_trip(np.float64, 1024)


@pytest.mark.parametrize("handles", [{"enable_ipc": True}, {"enable_fabric": True}])
def test_handles_for_other_processes(handles):
    try:
        resource = rmm.mr.CudaAsyncMemoryResource(**handles)
    except RuntimeError as error:
        assert str(error).endswith("Requested IPC memory handle type not supported")
        pytest.skip("no such handles here")
    use(resource)
    round_trip(np.float64, 128)


@pytest.mark.parametrize("kind", ["default", "per thread", "created"])
@pytest.mark.parametrize("size", [1, 1 << 20])
def test_allocations_on_streams(kind, size):
    stream = {
        "default": lambda: streams.DEFAULT_STREAM,
        "per thread": lambda: streams.PER_THREAD_DEFAULT_STREAM,
        "created": streams.Stream,
    }[kind]()
    resource = rmm.mr.CudaAsyncMemoryResource()
    pointer = resource.allocate(size, stream=stream)
    assert pointer
    resource.deallocate(pointer, size, stream=stream)
    stream.synchronize()


@pytest.mark.parametrize("size", SIZES)
def test_a_default_stream_waits_for_created_ones(size):
    use(rmm.mr.CudaAsyncMemoryResource())
    before = np.full(size, 5, dtype="u1")
    buffer = rmm.DeviceBuffer.to_device(before, stream=streams.Stream())
    np.testing.assert_array_equal(buffer.copy_to_host(), before)


def default_pool():
    status, device = runtime.cudaGetDevice()
    assert status == SUCCESS
    status, pool = runtime.cudaDeviceGetDefaultMemPool(device)
    assert status == SUCCESS
    return pool


def created_pool():
    properties = runtime.cudaMemPoolProps()
    properties.allocType = runtime.cudaMemAllocationType.cudaMemAllocationTypePinned
    properties.location.type = runtime.cudaMemLocationType.cudaMemLocationTypeDevice
    properties.location.id = rmm._cuda.gpu.getDevice()
    status, pool = runtime.cudaMemPoolCreate(properties)
    assert status == SUCCESS
    return pool


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("size", SIZES)
def test_view_of_the_default_pool(dtype, size):
    pool = default_pool()
    resource = use(rmm.mr.CudaAsyncViewMemoryResource(pool))
    assert resource.pool_handle() == int(pool)
    round_trip(dtype, size)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("size", SIZES)
def test_view_of_a_pool_that_ends(dtype, size):
    pool = created_pool()
    use(rmm.mr.CudaAsyncViewMemoryResource(pool))
    round_trip(dtype, size)
    (status,) = runtime.cudaMemPoolDestroy(pool)
    assert status == SUCCESS
    with pytest.raises(MemoryError):
        round_trip(dtype, size)


@pytest.mark.parametrize("wrong", [None, "pool", 0, 1.5])
def test_a_view_needs_a_pool(wrong):
    with pytest.raises(ValueError):
        rmm.mr.CudaAsyncViewMemoryResource(wrong)


@pytest.mark.skipif(not HAS_ASYNC_MANAGED, reason="no pools of managed memory")
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("size", SIZES)
def test_managed_pool(dtype, size):
    resource = use(rmm.mr.experimental.CudaAsyncManagedMemoryResource())
    assert resource.pool_handle() != 0
    round_trip(dtype, size)
