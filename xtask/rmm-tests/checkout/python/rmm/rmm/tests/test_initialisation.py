"""`reinitialize`, its hooks, and the resource of each device."""

import gc
import weakref

import pytest

import rmm
import rmm._cuda.gpu

from .support import use


def test_sizes_as_text():
    rmm.reinitialize(pool_allocator=True, initial_pool_size="2MiB", maximum_pool_size="8MiB")
    resource = rmm.mr.get_current_device_resource()
    assert type(resource) is rmm.mr.PoolMemoryResource
    assert resource.pool_size() == 2 << 20


@pytest.mark.parametrize("wrong", ["2 foos", "2k", "", "inf"])
def test_sizes_that_are_none(wrong):
    with pytest.raises(ValueError, match="Could not parse"):
        rmm.reinitialize(pool_allocator=True, initial_pool_size=wrong)


@pytest.mark.parametrize("first, largest", [("2kib", "8kib"), (0, "16MiB"), (1 << 20, None)])
def test_a_largest_size(first, largest):
    rmm.reinitialize(
        pool_allocator=True, initial_pool_size=first, maximum_pool_size=largest
    )
    rmm.DeviceBuffer().resize(2000)


def test_a_largest_size_that_is_exceeded():
    rmm.reinitialize(pool_allocator=True, initial_pool_size=0, maximum_pool_size=1 << 23)
    with pytest.raises(MemoryError):
        rmm.DeviceBuffer().resize(1 << 24)


def test_a_first_size_above_the_largest():
    with pytest.raises(RuntimeError, match="Initial pool size exceeds the maximum pool size"):
        rmm.reinitialize(pool_allocator=True, initial_pool_size="2KiB", maximum_pool_size="1KiB")


def test_hooks_run_before_with_their_arguments():
    calls = []

    def hook(*args, **kwargs):
        calls.append((args, kwargs))

    for arguments in [(), (1,), (2, 3)]:
        assert rmm.register_reinitialize_hook(hook, *arguments, word="x") is hook
    rmm.reinitialize()
    assert calls == [((2, 3), {"word": "x"}), ((1,), {"word": "x"}), ((), {"word": "x"})]
    rmm.unregister_reinitialize_hook(hook)
    rmm.reinitialize()
    assert len(calls) == 3


def test_one_hook_of_two():
    calls = []
    first, second = (lambda: calls.append(1)), (lambda: calls.append(2))
    rmm.register_reinitialize_hook(first)
    rmm.register_reinitialize_hook(second)
    rmm.unregister_reinitialize_hook(first)
    rmm.reinitialize()
    rmm.unregister_reinitialize_hook(second)
    assert calls == [2]


def test_what_is_set_is_what_is_got():
    resource = rmm.mr.PoolMemoryResource(rmm.mr.CudaMemoryResource(), 1 << 20)
    use(resource)
    assert rmm.mr.get_per_device_resource(rmm._cuda.gpu.getDevice()) is resource


@pytest.mark.parametrize("wrong", [None, 1, rmm.mr.CudaMemoryResource])
def test_only_resources_are_set(wrong):
    with pytest.raises(TypeError):
        rmm.mr.set_current_device_resource(wrong)


def test_several_devices():
    count = rmm._cuda.gpu.getDeviceCount()
    before = rmm._cuda.gpu.getDevice()
    rmm.reinitialize(pool_allocator=True, initial_pool_size=1 << 20, devices=list(range(count)))
    assert rmm._cuda.gpu.getDevice() == before
    for device in range(count):
        assert type(rmm.mr.get_per_device_resource(device)) is rmm.mr.PoolMemoryResource


@pytest.mark.skipif(rmm._cuda.gpu.getDeviceCount() < 2, reason="one device")
def test_memory_is_of_the_device_that_was_current():
    rmm.reinitialize(devices=[0, 1])
    rmm._cuda.gpu.setDevice(1)
    try:
        buffer = rmm.DeviceBuffer.to_device(b"abc")
    finally:
        rmm._cuda.gpu.setDevice(0)
    assert bytes(buffer) == b"abc"


def test_a_resource_lives_as_long_as_what_uses_it():
    upstream = rmm.mr.CudaMemoryResource()
    pool = rmm.mr.PoolMemoryResource(upstream, 1 << 20)
    buffer = rmm.DeviceBuffer(size=10, mr=pool)
    del upstream, pool
    gc.collect()
    assert buffer.copy().size == 10
    del buffer


def test_a_cycle_is_collected():
    class Holder:
        pass

    holder = Holder()
    tracked = rmm.mr.TrackingResourceAdaptor(rmm.mr.CudaMemoryResource())
    holder.buffer = rmm.DeviceBuffer(size=100, mr=tracked)
    holder.itself = holder
    gone = weakref.ref(holder)
    del holder
    gc.collect()
    assert gone() is None
    assert tracked.get_allocated_bytes() == 0


def test_the_version_is_a_text():
    assert isinstance(rmm.__version__, str) and rmm.__version__
    assert isinstance(rmm.__git_commit__, str)


def test_free_memory():
    free, total = rmm.mr.available_device_memory()
    assert 0 < free <= total


def test_devices():
    gpu = rmm._cuda.gpu
    assert gpu.driverGetVersion() >= 12000
    assert gpu.runtimeGetVersion() >= 12000
    assert isinstance(gpu.deviceGetName(0), str)
    assert gpu.getDeviceProperties(0).totalGlobalMem > 0
    with pytest.raises(gpu.CUDARuntimeError, match="cudaErrorInvalidDevice"):
        gpu.setDevice(999)
