"""CuPy's programs on our pool: results as on CuPy's own, and no memory is left."""

from __future__ import annotations

import gc
import os
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

if "RMM_CUDA_LIBRARY" in os.environ:
    reason = "needs a GPU: CUDA's runtime does not start on the software driver"
    pytest.skip(reason, allow_module_level=True)

cupy = pytest.importorskip("cupy")

import numpy as np  # noqa: E402

import rmm_rs  # noqa: E402
from rmm_rs import DeviceBuffer, mr  # noqa: E402
from rmm_rs.allocators.cupy import rmm_cupy_allocator  # noqa: E402

pytestmark = pytest.mark.filterwarnings("default")


@pytest.fixture
def pool() -> Iterator[Any]:
    """CuPy allocates from our pool, whose bytes are counted."""
    tracking = mr.StatisticsResourceAdaptor(
        mr.PoolMemoryResource(mr.CudaMemoryResource(), "64MiB", "8GiB")
    )
    mr.set_current_device_resource(tracking)
    cupy.cuda.set_allocator(rmm_cupy_allocator)
    yield tracking
    cupy.cuda.set_allocator(cupy.get_default_memory_pool().malloc)


def elementwise() -> Any:
    x = cupy.linspace(0, 10, 1 << 20)
    return cupy.asnumpy(cupy.sin(x) ** 2 + cupy.cos(x) ** 2 * x)


def products() -> Any:
    random = cupy.random.RandomState(1)
    a, b = (random.standard_normal((700, 700)) for _ in range(2))
    return cupy.asnumpy(a @ b)


def transforms() -> Any:
    signal = cupy.arange(1 << 16, dtype=cupy.float64) % 97
    return cupy.asnumpy(abs(cupy.fft.fft(signal)))


def sorts() -> Any:
    values = (cupy.arange(1 << 20, dtype=cupy.int64) * 2654435761) % 1000003
    order = cupy.argsort(values, kind="stable")
    return cupy.asnumpy(cupy.concatenate([cupy.sort(values), cupy.unique(values), order]))


def reductions() -> Any:
    x = cupy.arange(3 * 5 * 7 * 1000, dtype=cupy.float64).reshape(3, 5, 7, 1000)
    parts = [x.sum(axis=axis).ravel() for axis in range(4)]
    return cupy.asnumpy(cupy.concatenate([*parts, x.std(axis=(1, 3)).ravel()]))


def kernels() -> Any:
    add = cupy.RawKernel(
        'extern "C" __global__ void add(const float* a, const float* b, float* c, int n) {'
        "  int i = blockDim.x * blockIdx.x + threadIdx.x; if (i < n) c[i] = a[i] + 2 * b[i]; }",
        "add",
    )
    n = 100_001
    a, b = cupy.arange(n, dtype=cupy.float32), cupy.ones(n, dtype=cupy.float32)
    c = cupy.empty_like(a)
    add(((n + 255) // 256,), (256,), (a, b, c, np.int32(n)))
    return cupy.asnumpy(c)


def streams() -> Any:
    """Two streams, one waits for the other, arrays die while their work runs."""
    first, second, ready = (
        cupy.cuda.Stream(non_blocking=True),
        cupy.cuda.Stream(),
        cupy.cuda.Event(),
    )
    total = cupy.zeros(1 << 16)
    cupy.cuda.runtime.deviceSynchronize()
    for number in range(50):
        with first:
            x = cupy.full(1 << 16, number, dtype=cupy.float64)
            y = x * 2 + 1
            ready.record()
        second.wait_event(ready)
        with second:
            total += y
        # `y` was allocated on `first`, which must not use it again before `second` has read it.
        first.wait_event(second.record())
        del x, y
    second.synchronize()
    return cupy.asnumpy(total)


@pytest.mark.parametrize(
    "program", [elementwise, products, transforms, sorts, reductions, kernels, streams]
)
def test_results_are_those_of_cupys_own_pool(program: Callable[[], Any], request: Any) -> None:
    expected = program()
    pool = request.getfixturevalue("pool")
    found = program()
    assert pool.allocation_counts.total_count > 0
    if expected.dtype.kind == "f":
        np.testing.assert_allclose(found, expected, rtol=1e-10, atol=1e-8)
    else:
        np.testing.assert_array_equal(found, expected)


def test_no_memory_is_left(pool: Any) -> None:
    for program in (elementwise, sorts, reductions, kernels):
        program()
    cupy.fft.config.get_plan_cache().clear()
    gc.collect()
    assert pool.allocation_counts.current_bytes == 0
    assert pool.allocation_counts.peak_bytes >= 8 << 20


def test_an_array_has_the_bytes_that_were_asked_for(pool: Any) -> None:
    array = cupy.zeros(1000, dtype=cupy.float32)
    assert pool.allocation_counts.current_bytes == 4000
    assert isinstance(array.data.mem._owner, DeviceBuffer)
    empty = cupy.empty(0)
    assert empty.size == 0
    del array, empty
    assert pool.allocation_counts.current_bytes == 0


def test_more_than_the_pool_has_raises(pool: Any) -> None:
    with pytest.raises(MemoryError, match="out_of_memory"):
        cupy.empty(1 << 40, dtype=cupy.uint8)
    assert int(cupy.ones(10).sum()) == 10


def test_buffers_and_arrays_are_exchanged(pool: Any) -> None:
    buffer = DeviceBuffer.to_device(bytes(range(200)))
    for view in (cupy.asarray(buffer), cupy.from_dlpack(buffer)):
        assert view.dtype == cupy.uint8 and int(view.sum()) == sum(range(200))
        assert view.data.ptr == buffer.ptr
    other = DeviceBuffer(size=200)
    other.copy_from_device(cupy.arange(200, dtype=cupy.uint8) + 1)
    assert other.tobytes() == bytes((n + 1) % 256 for n in range(200))


def test_streams_of_cupy_are_taken(pool: Any) -> None:
    stream = cupy.cuda.Stream(non_blocking=True)
    buffer = DeviceBuffer(size=1 << 20, stream=rmm_rs.pylibrmm.stream.Stream(stream))
    view = cupy.asarray(buffer)
    with stream:
        view[:] = 7
    stream.synchronize()
    assert set(buffer.tobytes()) == {7}
    with cupy.cuda.ExternalStream(stream.ptr):
        assert int(cupy.ones(1000).sum()) == 1000


def test_threads_with_streams_of_their_own(pool: Any) -> None:
    errors: list[str] = []

    def work(number: int) -> None:
        with cupy.cuda.Stream(non_blocking=True) as stream:
            for step in range(100):
                size = 1000 + 997 * ((number * 31 + step) % 17)
                array = cupy.full(size, number, dtype=cupy.int64)
                total = int((array * 2).sum())
                if total != 2 * number * size:
                    errors.append(f"thread {number}, step {step}: {total}")
            stream.synchronize()

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []


def test_a_graph_of_our_memory_is_launched(pool: Any) -> None:
    stream = cupy.cuda.Stream(non_blocking=True)
    with stream:
        source, target = cupy.arange(1000.0), cupy.zeros(1000)
        cupy.multiply(source, 2, out=target)
        stream.synchronize()
        stream.begin_capture()
        cupy.multiply(source, 3, out=target)
        graph = stream.end_capture()
        graph.launch(stream)
        stream.synchronize()
    np.testing.assert_array_equal(cupy.asnumpy(target), np.arange(1000.0) * 3)
