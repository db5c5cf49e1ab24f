"""RMM's classes over ours, and ours over RMM's."""

from __future__ import annotations

import ctypes
import gc
import os
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import rmm
import rmm.mr
import rmm.statistics
import rmm_rs.mr
from rmm.pylibrmm.stream import DEFAULT_STREAM, Stream
from rmm_rs_plugin import PoolMemoryResource, RustMemoryResource, forget_stream, install, unwrap, wrap

MIB = 1 << 20


def rust_pool(size: str = "64MiB") -> rmm_rs.mr.PoolMemoryResource:
    return rmm_rs.mr.PoolMemoryResource(rmm_rs.mr.CudaMemoryResource(), "1MiB", size)


def test_rmms_statistics_count_what_a_wrapped_pool_allocates() -> None:
    pool = rust_pool()
    counting = rmm.mr.StatisticsResourceAdaptor(wrap(pool))
    rmm.mr.set_current_device_resource(counting)
    first = rmm.DeviceBuffer(size=1000)
    second = rmm.DeviceBuffer(size=3000, stream=Stream())
    assert counting.allocation_counts.current_bytes == 4000
    assert pool.statistics()["live_bytes"] >= 4000
    del first, second
    assert counting.allocation_counts.current_bytes == 0
    assert counting.allocation_counts.total_count == 2
    assert pool.statistics()["live_bytes"] == 0


def test_rmms_pool_takes_its_memory_from_ours() -> None:
    ours = PoolMemoryResource(None, 0, "64MiB")
    pool = rmm.mr.PoolMemoryResource(ours, 4 * MIB, 8 * MIB)
    assert ours.statistics()["live_bytes"] == 4 * MIB
    buffers = [rmm.DeviceBuffer(size=MIB, mr=pool) for _ in range(6)]
    assert 6 * MIB <= ours.statistics()["live_bytes"] <= 8 * MIB
    with pytest.raises(MemoryError, match="[Mm]aximum pool size exceeded"):
        pool.allocate(4 * MIB)
    del buffers, pool
    assert ours.statistics()["live_bytes"] == 0


UPSTREAMS: dict[str, Callable[[], rmm.mr.DeviceMemoryResource]] = {
    "cuda": rmm.mr.CudaMemoryResource,
    "statistics": lambda: rmm.mr.StatisticsResourceAdaptor(rmm.mr.CudaMemoryResource()),
    "pool": lambda: rmm.mr.PoolMemoryResource(rmm.mr.CudaMemoryResource(), 64 * MIB, 64 * MIB),
    "limiting": lambda: rmm.mr.LimitingResourceAdaptor(rmm.mr.CudaMemoryResource(), 64 * MIB),
    "ours": lambda: PoolMemoryResource(None, 0),
    "wrapped": lambda: wrap(rmm_rs.mr.CudaMemoryResource()),
    "ours below rmm's": lambda: rmm.mr.StatisticsResourceAdaptor(PoolMemoryResource(None, 0)),
}


@pytest.mark.parametrize("name", UPSTREAMS)
def test_our_pool_takes_its_memory_from_rmms_resources(name: str) -> None:
    if name == "pool" and os.environ.get("RMM_DRIVER") != "cuda":
        pytest.skip("RMM's pool synchronizes by the CUDA runtime")
    upstream = UPSTREAMS[name]()
    pool = PoolMemoryResource(upstream, "2MiB", "32MiB")
    assert pool.upstream_mr is upstream
    assert pool.get_upstream() is upstream
    assert pool.statistics()["reserved_bytes"] == 2 * MIB
    buffers = [rmm.DeviceBuffer(size=MIB, mr=pool, stream=Stream()) for _ in range(8)]
    assert 8 * MIB <= pool.statistics()["reserved_bytes"] <= 32 * MIB
    assert len({buffer.ptr for buffer in buffers}) == 8
    del buffers
    assert pool.statistics()["live_bytes"] == 0


def test_an_upstreams_bytes_are_those_that_the_pool_reserved() -> None:
    upstream = rmm.mr.StatisticsResourceAdaptor(rmm.mr.CudaMemoryResource())
    pool = PoolMemoryResource(upstream, "2MiB")
    pool.deallocate(pool.allocate(5 * MIB), 5 * MIB)
    assert upstream.allocation_counts.current_bytes == pool.statistics()["reserved_bytes"]
    released = 0
    for _ in range(100):
        DEFAULT_STREAM.synchronize()
        released += pool.trim()
    assert released >= 5 * MIB
    assert upstream.allocation_counts.current_bytes == pool.statistics()["reserved_bytes"] < 5 * MIB
    del pool
    assert upstream.allocation_counts.current_bytes == 0


def test_a_callback_of_python_is_an_upstream() -> None:
    base = rmm.mr.CudaMemoryResource()
    sizes: list[int] = []

    def allocate(size: int, stream: Stream) -> int:
        sizes.append(size)
        return base.allocate(size, stream)

    def deallocate(pointer: int, size: int, stream: Stream) -> None:
        sizes.remove(size)
        base.deallocate(pointer, size, stream)

    pool = PoolMemoryResource(rmm.mr.CallbackMemoryResource(allocate, deallocate), "1MiB")
    assert sizes == [MIB]
    buffer = rmm.DeviceBuffer(size=4 * MIB, mr=pool)
    assert sum(sizes) >= 5 * MIB
    del buffer, pool
    assert sizes == []


@pytest.mark.parametrize(
    ("raised", "comes_out", "text"),
    [
        (MemoryError("mine"), MemoryError, "mine|upstream is out of memory"),
        (KeyError("mine"), (RuntimeError, MemoryError), "mine"),
    ],
)
def test_an_exception_of_a_callback_comes_out_of_the_pool(
    raised: Exception, comes_out: Any, text: str
) -> None:
    def allocate(size: int, stream: Stream) -> int:
        raise raised

    upstream = rmm.mr.CallbackMemoryResource(allocate, lambda pointer, size, stream: None)
    with pytest.raises(comes_out, match=text):
        PoolMemoryResource(upstream, "1MiB")
    pool = PoolMemoryResource(upstream, 0)
    with pytest.raises(comes_out, match=text):
        pool.allocate(1000)
    counting = rmm.mr.StatisticsResourceAdaptor(pool)
    with pytest.raises(comes_out, match=text):
        rmm.DeviceBuffer(size=1000, mr=counting)
    assert counting.allocation_counts.total_count == 0


def stacks(pool: PoolMemoryResource) -> list[rmm.mr.DeviceMemoryResource]:
    return [
        pool,
        rmm.mr.StatisticsResourceAdaptor(pool),
        rmm.mr.TrackingResourceAdaptor(pool),
        rmm.mr.LimitingResourceAdaptor(pool, 1 << 60),
        rmm.mr.PoolMemoryResource(pool, 0),
    ]


def test_out_of_memory_is_a_memory_error_in_every_stack() -> None:
    for resource in stacks(PoolMemoryResource(None, "1MiB", "4MiB")):
        for ask in (resource.allocate, lambda size, mr=resource: rmm.DeviceBuffer(size=size, mr=mr)):
            with pytest.raises(MemoryError, match="out_of_memory"):
                ask(5 * MIB)
        # The device's memory, not a limit.
    for resource in stacks(PoolMemoryResource(None, "1MiB")):
        with pytest.raises(MemoryError, match="out_of_memory"):
            resource.allocate(1 << 50)


def test_rmms_failure_callback_is_asked_when_ours_is_out_of_memory() -> None:
    pool = PoolMemoryResource(None, "1MiB", "4MiB")
    kept = [pool.allocate(2 * MIB), pool.allocate(2 * MIB)]
    asked: list[int] = []

    def free_something(size: int) -> bool:
        asked.append(size)
        if not kept:
            return False
        pool.deallocate(kept.pop(), 2 * MIB)
        return True

    retrying = rmm.mr.FailureCallbackResourceAdaptor(pool, free_something)
    buffer = rmm.DeviceBuffer(size=2 * MIB, mr=retrying)
    assert (len(asked), len(kept), buffer.size) == (1, 1, 2 * MIB)


def test_python_objects_go_before_the_buffers() -> None:
    rmm.mr.set_current_device_resource(
        rmm.mr.StatisticsResourceAdaptor(PoolMemoryResource(rmm.mr.CudaMemoryResource(), "1MiB"))
    )
    buffers = [rmm.DeviceBuffer(size=1000 * size) for size in range(1, 20)]
    rmm.mr.set_current_device_resource(wrap(rust_pool()))
    buffers += [rmm.DeviceBuffer(size=1000) for _ in range(3)]
    rmm.mr.set_current_device_resource(rmm.mr.CudaMemoryResource())
    gc.collect()
    while buffers:
        buffers.pop()


def test_rmms_statistics_and_logs_go_over_ours(tmp_path: Path) -> None:
    (pool,) = install("1MiB")
    rmm.statistics.enable_statistics()
    with rmm.statistics.statistics():
        buffer = rmm.DeviceBuffer(size=5000)
        counted = rmm.statistics.get_statistics()
    assert counted is not None
    assert counted.current_bytes == 5000
    rmm.enable_logging(log_file_name=str(tmp_path / "rmm.csv"))
    del buffer
    buffer = rmm.DeviceBuffer(size=7000)
    assert pool.statistics()["live_bytes"] >= 7000
    del buffer
    rmm.disable_logging()
    rmm.mr.set_current_device_resource(pool)
    gc.collect()
    assert ",allocate," in (tmp_path / "rmm.dev0.csv").read_text()
    assert pool.statistics()["live_bytes"] == 0


def test_cpp_alone_keeps_the_upstreams_python_object(runtime: ctypes.CDLL) -> None:
    class Functions:
        def __init__(self) -> None:
            self.base = rmm.mr.CudaMemoryResource()
            self.sizes: list[int] = []

        def allocate(self, size: int, stream: Stream) -> int:
            self.sizes.append(size)
            return self.base.allocate(size, stream)

        def deallocate(self, pointer: int, size: int, stream: Stream) -> None:
            self.base.deallocate(pointer, size, stream)

    functions = Functions()
    sizes, alive = functions.sizes, weakref.ref(functions)
    upstream = rmm.mr.CallbackMemoryResource(functions.allocate, functions.deallocate)
    rmm.mr.set_current_device_resource(PoolMemoryResource(upstream, "1MiB"))
    runtime.stand_in_keep()
    rmm.mr.set_current_device_resource(rmm.mr.CudaMemoryResource())
    del functions, upstream
    gc.collect()
    assert alive() is not None
    runtime.stand_in_allocate.restype = ctypes.c_void_p
    pointer = runtime.stand_in_allocate(ctypes.c_size_t(5 * MIB))
    assert len(sizes) == 2
    runtime.stand_in_deallocate(ctypes.c_void_p(pointer), ctypes.c_size_t(5 * MIB))
    runtime.stand_in_drop()
    for _ in range(1000):
        # The main thread is asked to release the object.
        pass
    assert alive() is None


def walk(mr: Any) -> list[Any]:
    """The stack of resources, as Dask-CUDA finds it."""
    return [mr, *walk(mr.upstream_mr)] if hasattr(mr, "upstream_mr") else [mr]


def test_a_stack_is_walked_to_its_end() -> None:
    base = rmm.mr.CudaMemoryResource()
    pool = PoolMemoryResource(base, "1MiB")
    counting = rmm.mr.StatisticsResourceAdaptor(pool)
    assert walk(counting) == [counting, pool, base]
    kinds = [type(mr).__name__ for mr in walk(PoolMemoryResource(None, "1MiB"))]
    assert kinds == ["PoolMemoryResource", "WrappedMemoryResource"]
    ours = rmm_rs.mr.StatisticsResourceAdaptor(rust_pool())
    wrapped = walk(wrap(ours))
    assert [unwrap(mr) for mr in wrapped] == walk(ours)
    assert len(wrapped) == 3
    with pytest.raises(AttributeError):
        wrapped[-1].get_upstream()


def test_unwrap_returns_what_was_wrapped() -> None:
    ours = rust_pool()
    assert unwrap(wrap(ours)) is ours
    alive = weakref.ref(wrap(ours))
    gc.collect()
    assert alive() is None
    others: list[Any] = [rmm.mr.CudaMemoryResource(), PoolMemoryResource(None, 0), ours, None]
    for other in others:
        with pytest.raises(TypeError):
            unwrap(other)


def test_memory_that_the_device_cannot_use_is_refused() -> None:
    others: list[Any] = [rmm.mr.CudaMemoryResource(), 3, None]
    for wrong in others:
        with pytest.raises(TypeError):
            wrap(wrong)
    with pytest.raises(RuntimeError):
        wrap(rmm_rs.mr.DeviceMemoryResource())


@pytest.mark.parametrize(
    ("arguments", "options", "error", "text"),
    [
        ((None, 2 * MIB, MIB), {}, RuntimeError, "Initial pool size exceeds the maximum pool size"),
        ((None, 1000), {}, RuntimeError, "Initial pool size required to be a multiple of 256"),
        ((None, 0, 1000), {}, RuntimeError, "Maximum pool size required to be a multiple of 256"),
        ((None, -256), {}, OverflowError, "-256"),
        ((None, 1 << 64), {}, OverflowError, "bytes"),
        ((None, "2 bananas"), {}, ValueError, "Could not parse"),
        ((None, 1.5), {}, TypeError, "float"),
        ((None, 0), {"preset": "fast"}, ValueError, "'fast' is no preset"),
        ((None, 0), {"stream_policy": "trusted"}, ValueError, "'trusted' is no policy"),
        ((3, 0), {}, TypeError, "upstream_mr"),
        ((rmm_rs.mr.CudaMemoryResource(), 0), {}, TypeError, "upstream_mr"),
        ((rmm.mr.DeviceMemoryResource(), 0), {}, RuntimeError, "no memory"),
        ((None, 0, None, "compact"), {}, TypeError, "argument"),
        ((None, "1PiB"), {}, MemoryError, "out_of_memory"),
    ],
)
def test_wrong_arguments_are_refused(
    arguments: tuple[Any, ...], options: dict[str, Any], error: type[Exception], text: str
) -> None:
    with pytest.raises(error, match=text):
        PoolMemoryResource(*arguments, **options)


def test_the_defaults_are_rmms() -> None:
    free, _ = rmm_rs.mr.available_device_memory()
    pool = PoolMemoryResource()
    reserved = pool.statistics()["reserved_bytes"]
    assert reserved % 256 == 0
    assert free * 0.45 < reserved <= free / 2


@pytest.mark.parametrize("preset", ["throughput", "low-latency", "compact", "deterministic"])
@pytest.mark.parametrize("policy", ["checked", "kept"])
def test_every_option_makes_a_pool(preset: Any, policy: Any) -> None:
    pool = PoolMemoryResource(None, "1MiB", preset=preset, stream_policy=policy)
    streams = [Stream() for _ in range(4)]
    for _ in range(3):
        buffers = [rmm.DeviceBuffer(size=5000, mr=pool, stream=stream) for stream in streams]
        del buffers
    figures = pool.statistics()
    assert (figures["allocations"], figures["frees"], figures["live_bytes"]) == (12, 12, 0)
    assert (figures["upstream_allocations"], figures["lock_waits"]) == (1, 0)
    for stream in streams:
        forget_stream(stream)


def test_a_bare_instance_allocates_nothing() -> None:
    for bare in (RustMemoryResource(), RustMemoryResource("anything", at=1)):
        with pytest.raises(ValueError, match="null"):
            bare.allocate(10)
        with pytest.raises((ValueError, RuntimeError)):
            bare.statistics()
        assert "RustMemoryResource" in repr(bare)


def test_a_pool_describes_itself() -> None:
    pool = PoolMemoryResource(None, "1MiB", "4MiB")
    assert repr(pool).startswith("<PoolMemoryResource: pool: live 0 B")
    assert pool.describe().splitlines()[1].strip().endswith("cuda")
    assert wrap(rmm_rs.mr.CudaMemoryResource()).describe() == "cuda"
    with pytest.raises(RuntimeError):
        wrap(rmm_rs.mr.CudaMemoryResource()).statistics()
    with pytest.raises(RuntimeError):
        wrap(rmm_rs.mr.CudaMemoryResource()).trim()


def test_classes_are_derived_in_python() -> None:
    class Named(PoolMemoryResource):
        itself: Named

        def __init__(self, *args: Any, name: str, **kwargs: Any) -> None:
            self.name = name

        def __new__(cls, *args: Any, name: str, **kwargs: Any) -> Named:
            return super().__new__(cls, *args, **kwargs)

    pool = Named(None, "1MiB", name="mine")
    pool.itself = pool
    alive = weakref.ref(pool)
    assert rmm.DeviceBuffer(size=100, mr=pool).size == 100
    del pool
    gc.collect()
    assert alive() is None


def test_install_sets_a_pool_for_each_device() -> None:
    pools = install("1MiB", "8MiB")
    assert pools == [rmm.mr.get_current_device_resource()]
    buffer = rmm.DeviceBuffer(size=1000)
    assert pools[0].statistics()["live_bytes"] >= 1000
    with pytest.raises(RuntimeError, match="exceeds"):
        install("2MiB", "1MiB")
    assert rmm.mr.get_current_device_resource() is pools[0]
    del buffer
    assert pools[0].statistics()["live_bytes"] == 0


def test_install_leaves_the_current_device(runtime: ctypes.CDLL) -> None:
    from rmm._cuda.gpu import getDevice, setDevice

    pools = install("1MiB", devices=(1, 0), preset="compact", stream_policy="kept")
    assert [rmm.mr.get_per_device_resource(device) for device in (1, 0)] == pools
    assert getDevice() == 0
    setDevice(1)
    try:
        buffer = rmm.DeviceBuffer(size=1000)
        assert [pool.statistics()["live_bytes"] > 0 for pool in pools] == [True, False]
        with pytest.raises(Exception, match="."):
            install("1MiB", devices=[0, 9])
        assert getDevice() == 1
        assert rmm.mr.get_per_device_resource(0) is pools[1]
        del buffer
        rmm.mr.set_per_device_resource(1, rmm.mr.CudaMemoryResource())
        del pools
    finally:
        setDevice(0)
