"""Limits, tracking, callbacks and prefetches."""

import gc

import numpy as np
import pytest
from cuda.bindings import runtime

import rmm
from rmm.pylibrmm.stream import Stream

from .support import use

MIB = 1 << 20


@pytest.mark.parametrize("managed", [False, True])
def test_a_limit(managed):
    upstream = rmm.mr.ManagedMemoryResource() if managed else rmm.mr.CudaMemoryResource()
    resource = use(rmm.mr.LimitingResourceAdaptor(upstream, allocation_limit=MIB))
    assert (resource.get_allocation_limit(), resource.get_allocated_bytes()) == (MIB, 0)
    first = rmm.DeviceBuffer(size=MIB // 4)
    assert resource.get_allocated_bytes() == MIB // 4
    second = rmm.DeviceBuffer(size=MIB * 3 // 4)
    assert resource.get_allocated_bytes() == MIB
    with pytest.raises(MemoryError):
        rmm.DeviceBuffer(size=1)
    del first, second
    assert resource.get_allocated_bytes() == 0


def test_tracked_allocations():
    resource = use(
        rmm.mr.TrackingResourceAdaptor(rmm.mr.CudaMemoryResource(), capture_stacks=True)
    )
    kept = [rmm.DeviceBuffer(size=1000) for _ in range(10)]
    assert resource.get_allocated_bytes() == 10000
    del kept[5:]
    assert resource.get_allocated_bytes() == 5000
    above = rmm.mr.TrackingResourceAdaptor(resource)
    rmm.mr.set_current_device_resource(above)
    also = rmm.DeviceBuffer(size=1024)
    assert (above.get_allocated_bytes(), resource.get_allocated_bytes()) == (1024, 6024)
    text = resource.get_outstanding_allocations_str()
    assert len(text) > 0
    del kept, also
    gc.collect()
    assert (above.get_allocated_bytes(), resource.get_allocated_bytes()) == (0, 0)
    assert above.get_outstanding_allocations_str() == ""


def test_the_owner_of_memory_is_told_by_its_resource():
    tracked = use(rmm.mr.TrackingResourceAdaptor(rmm.mr.CudaMemoryResource()))
    buffer = rmm.DeviceBuffer(size=256)
    rmm.mr.set_current_device_resource(rmm.mr.CudaMemoryResource())
    assert tracked.get_allocated_bytes() == 256
    del buffer
    assert tracked.get_allocated_bytes() == 0


@pytest.mark.parametrize("again", [False, True])
def test_a_failure_is_reported(again):
    asked = []

    def callback(nbytes):
        asked.append(nbytes)
        return again and len(asked) < 3

    use(rmm.mr.FailureCallbackResourceAdaptor(rmm.mr.CudaMemoryResource(), callback))
    with pytest.raises(MemoryError):
        rmm.DeviceBuffer(size=1 << 60)
    assert asked == [1 << 60] * (3 if again else 1)


def test_an_exception_of_a_failure_callback():
    def callback(nbytes):
        raise RuntimeError("MyError")

    use(rmm.mr.FailureCallbackResourceAdaptor(rmm.mr.CudaMemoryResource(), callback))
    with pytest.raises(RuntimeError, match="MyError"):
        rmm.DeviceBuffer(size=1 << 60)


def test_functions_are_a_resource():
    base = rmm.mr.CudaMemoryResource()
    calls = []

    def allocate(size, stream):
        calls.append(("allocate", size, isinstance(stream, Stream)))
        return base.allocate(size, stream)

    def deallocate(pointer, size, stream):
        calls.append(("deallocate", size, isinstance(stream, Stream)))
        base.deallocate(pointer, size, stream)

    use(rmm.mr.CallbackMemoryResource(allocate, deallocate))
    buffer = rmm.DeviceBuffer(size=256)
    del buffer
    assert calls == [("allocate", 256, True), ("deallocate", 256, True)]


def test_functions_print(capsys):
    base = rmm.mr.CudaMemoryResource()

    def allocate(size, stream):
        print(f"allocate {size}")
        return base.allocate(size, stream)

    def deallocate(pointer, size, stream):
        print(f"deallocate {size}")
        return base.deallocate(pointer, size, stream)

    use(rmm.mr.CallbackMemoryResource(allocate_func=allocate, deallocate_func=deallocate))
    rmm.DeviceBuffer(size=256)
    assert capsys.readouterr().out == "allocate 256\ndeallocate 256\n"


def test_memory_without_a_buffer():
    resource = rmm.mr.TrackingResourceAdaptor(rmm.mr.get_current_device_resource())
    pointer = resource.allocate(1 << 23)
    assert resource.get_allocated_bytes() == 1 << 23
    resource.deallocate(pointer, 1 << 23)
    assert resource.get_allocated_bytes() == 0


@pytest.mark.parametrize(
    "error", [MemoryError, RuntimeError, ValueError, TypeError, Exception, BaseException]
)
def test_exceptions_of_functions(error):
    def allocate(size, stream):
        raise error("my alloc error")

    use(rmm.mr.CallbackMemoryResource(allocate, print))
    expected = MemoryError if error is MemoryError else RuntimeError
    with pytest.raises(expected, match="my alloc error"):
        rmm.DeviceBuffer(size=256)


def last_prefetch(buffer):
    status, place = runtime.cudaMemRangeGetAttribute(
        4,
        runtime.cudaMemRangeAttribute.cudaMemRangeAttributeLastPrefetchLocation,
        buffer.ptr,
        buffer.size,
    )
    assert status == runtime.cudaError_t.cudaSuccess
    return place


@pytest.mark.parametrize("pool", [False, True])
def test_memory_is_prefetched_as_it_is_allocated(pool):
    base = rmm.mr.ManagedMemoryResource()
    if pool:
        base = rmm.mr.PoolMemoryResource(base, initial_pool_size=0, maximum_pool_size=1 << 26)
    use(rmm.mr.PrefetchResourceAdaptor(base))
    buffer = rmm.DeviceBuffer.to_device(np.zeros(256, dtype="u1"))
    assert last_prefetch(buffer) == rmm._cuda.gpu.getDevice()


@pytest.mark.parametrize("pool", [False, True])
@pytest.mark.parametrize("size", [1, 256, 1 << 20])
def test_a_buffer_is_prefetched(size, pool):
    rmm.reinitialize(managed_memory=True, pool_allocator=pool, initial_pool_size="4MiB")
    buffer = rmm.DeviceBuffer.to_device(np.zeros(size, dtype="u1"))
    stream = Stream()
    assert last_prefetch(buffer) == runtime.cudaInvalidDeviceId
    buffer.prefetch()
    assert last_prefetch(buffer) == rmm._cuda.gpu.getDevice()
    buffer.prefetch(device=runtime.cudaCpuDeviceId, stream=stream)
    assert last_prefetch(buffer) == runtime.cudaCpuDeviceId
    buffer.prefetch(0, stream)
    assert last_prefetch(buffer) == 0
    stream.synchronize()


def test_a_buffer_of_a_resource_of_its_own():
    sizes = []
    base = rmm.mr.CudaMemoryResource()

    def allocate(size, stream):
        sizes.append(size)
        return base.allocate(size, stream)

    resource = rmm.mr.CallbackMemoryResource(allocate, base.deallocate)
    rmm.DeviceBuffer(size=10)
    assert sizes == []
    rmm.DeviceBuffer(size=256, mr=resource)
    assert sizes == [256]


def test_what_cannot_migrate_is_not_prefetched():
    rmm.DeviceBuffer.to_device(np.zeros(256, dtype="u1")).prefetch()
