"""Numba-CUDA on our resources, by its environment variable and by a call.

No kernel runs on the software driver.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import pytest

START = """
import gc
import numpy as np
from numba import cuda
import rmm_rs
from rmm_rs import mr
counted = mr.StatisticsResourceAdaptor(mr.PoolMemoryResource(mr.CudaMemoryResource(), "1MiB"))
mr.set_current_device_resource(counted)
live = lambda: counted.allocation_counts.current_bytes
"""

PROGRAMS = {
    "arrays are of the pool": """
host = np.arange(1000, dtype=np.float32)
array = cuda.to_device(host)
assert live() == 4000
other = cuda.device_array_like(array)
other.copy_to_device(array)
np.testing.assert_array_equal(other.copy_to_host(), host)
assert live() == 8000
del array
gc.collect()
cuda.current_context().deallocations.clear()
assert live() == 4000, live()
part = other[100:200]
np.testing.assert_array_equal(part.copy_to_host(), host[100:200])
del other, part
gc.collect()
assert live() == 0, live()
""",
    "streams": """
stream = cuda.stream()
array = cuda.to_device(np.ones(100), stream=stream)
buffer = rmm_rs.DeviceBuffer.to_device(bytes(100), rmm_rs.pylibrmm.stream.Stream(stream))
view = cuda.as_cuda_array(buffer)
view.copy_to_device(np.full(100, 7, dtype=np.uint8), stream=stream)
stream.synchronize()
assert buffer.tobytes() == bytes([7]) * 100
del array, view
gc.collect()
assert live() == 100
""",
    "a context that is closed": """
array = cuda.to_device(np.ones(100))
assert live() == 800
cuda.current_context().reset()
del array
gc.collect()
assert live() == 0
""",
    "arrays at the end of the process": """
import builtins
builtins.kept = cuda.to_device(np.ones(100))
also_kept = cuda.device_array(10)
""",
    "its pinned and mapped memory is its own": """
pinned = cuda.pinned_array(10)
pinned[:] = 3
mapped = cuda.mapped_array(10)
mapped[:] = 4
assert pinned.sum() == 30 and mapped.sum() == 40
assert live() == 0
""",
    "a device that has no handles for other processes": """
from rmm_rs._cuda.gpu import CUDADriverError
array = cuda.to_device(np.arange(100))
try:
    array[10:20].get_ipc_handle()
except CUDADriverError as error:
    assert "NOT_SUPPORTED" in str(error), error
""",
    "how much memory is free is not known": """
try:
    cuda.current_context().get_memory_info()
except NotImplementedError:
    pass
else:
    raise SystemExit("no error")
""",
}

CALL = """
from rmm_rs.allocators.numba import RMMNumbaManager
cuda.set_memory_manager(RMMNumbaManager)
"""


@pytest.mark.usefixtures("checked")
@pytest.mark.parametrize("by", ["variable", "call"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_programs_of_numba(
    run: Callable[..., Any], driver: dict[str, str], needs: Callable[..., None], name: str, by: str
) -> None:
    needs("numba_cuda", "cuda.bindings")
    lines = CALL if by == "call" else ""
    variables = {} if by == "call" else {"NUMBA_CUDA_MEMORY_MANAGER": "rmm_rs.allocators.numba"}
    result = run(START + lines + PROGRAMS[name], env={**driver, **variables})
    if "DynamicLibNotFoundError" in result.stderr:
        pytest.skip("needs the library of CUDA's runtime")
    assert (result.returncode, result.stderr) == (0, "")


@pytest.mark.skipif("RMM_CUDA_LIBRARY" in os.environ, reason="needs a GPU")
def test_kernels_of_numba(run: Callable[..., Any], needs: Callable[..., None]) -> None:
    needs("numba_cuda", "cuda.bindings")
    result = run(
        START
        + CALL
        + """
@cuda.jit
def add(a, b, out):
    i = cuda.grid(1)
    if i < out.size:
        out[i] = a[i] + 2 * b[i]

n = 100_001
a, b = cuda.to_device(np.arange(n, dtype=np.float64)), cuda.to_device(np.ones(n))
out = cuda.device_array(n)
add[(n + 255) // 256, 256](a, b, out)
np.testing.assert_array_equal(out.copy_to_host(), np.arange(n) + 2.0)
assert live() == 3 * 8 * n
del a, b, out
gc.collect()
cuda.current_context().deallocations.clear()
assert live() == 0, live()
"""
    )
    assert result.returncode == 0, result.stderr


@pytest.mark.skipif("RMM_CUDA_LIBRARY" in os.environ, reason="needs a GPU")
def test_another_process_opens_memory_of_numba(
    run: Callable[..., Any], needs: Callable[..., None], tmp_path: Any
) -> None:
    """Of the allocation that the pool has from the driver, and where in it the array is."""
    needs("numba_cuda", "cuda.bindings")
    program = tmp_path / "program.py"
    program.write_text(
        START
        + CALL
        + """
import multiprocessing
from rmm_rs._cuda.gpu import CUDADriverError

def read(handle, queue):
    with handle as array:
        queue.put(array.copy_to_host().tolist())

if __name__ == "__main__":
    before = cuda.device_array(1000)
    array = cuda.to_device(np.arange(100))[10:20]
    try:
        handle = array.get_ipc_handle()
    except CUDADriverError as error:
        print("skipped:", error)
        raise SystemExit
    context = multiprocessing.get_context("spawn")
    queue = context.Queue()
    process = context.Process(target=read, args=(handle, queue))
    process.start()
    assert queue.get(timeout=60) == list(range(10, 20))
    process.join()
"""
    )
    result = run("", arguments=(str(program),))
    assert result.returncode == 0, result.stderr
    if result.stdout.startswith("skipped:"):
        pytest.skip(result.stdout.strip())
