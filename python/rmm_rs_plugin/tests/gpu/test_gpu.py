"""The real driver: data in the pool's memory, CuPy and PyTorch, and the device's memory run out."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import rmm
import rmm.mr
import rmm_rs.mr
from rmm.pylibrmm.stream import DEFAULT_STREAM, Stream
from rmm_rs_plugin import PoolMemoryResource, forget_stream, install, wrap

if os.environ.get("RMM_DRIVER") != "cuda":
    pytest.skip("needs a GPU: run.sh", allow_module_level=True)

MIB = 1 << 20

STACKS: dict[str, Callable[[], Any]] = {
    "pool": lambda: PoolMemoryResource(None, "64MiB"),
    "pool, streams kept": lambda: PoolMemoryResource(None, "64MiB", stream_policy="kept"),
    "pool over rmm's cuda": lambda: PoolMemoryResource(rmm.mr.CudaMemoryResource(), "64MiB"),
    "pool over rmm's async": lambda: PoolMemoryResource(
        rmm.mr.CudaAsyncMemoryResource(), "64MiB", preset="compact"
    ),
    "rmm's pool over ours": lambda: rmm.mr.PoolMemoryResource(
        PoolMemoryResource(None, "64MiB"), 64 * MIB
    ),
    "rmm's statistics over ours": lambda: rmm.mr.StatisticsResourceAdaptor(
        PoolMemoryResource(None, "64MiB")
    ),
    "wrapped arena": lambda: wrap(
        rmm_rs.mr.ArenaMemoryResource(rmm_rs.mr.CudaMemoryResource(), "256MiB")
    ),
    "wrapped async": lambda: wrap(rmm_rs.mr.CudaAsyncMemoryResource()),
}


@pytest.fixture(params=STACKS)
def stack(request: pytest.FixtureRequest) -> Iterator[rmm.mr.DeviceMemoryResource]:
    resource = STACKS[request.param]()
    rmm.mr.set_current_device_resource(resource)
    yield resource
    rmm.mr.set_current_device_resource(rmm.mr.CudaMemoryResource())


@pytest.fixture
def streams(stack: rmm.mr.DeviceMemoryResource) -> Iterator[list[Any]]:
    """Streams of CuPy's, which destroys them with their objects, before the stack ends."""
    cupy = pytest.importorskip("cupy")
    made = [cupy.cuda.Stream(non_blocking=True) for _ in range(4)]
    yield made
    for stream in made:
        stream.synchronize()
        # The policy "kept" asks for it; of the others none knows the stream.
        forget_stream(Stream(stream))
    made.clear()


def test_what_is_copied_in_comes_out(stack: rmm.mr.DeviceMemoryResource) -> None:
    chosen = random.Random(1)
    kept = []
    for _ in range(200):
        data = chosen.randbytes(chosen.randrange(1, 100_000))
        kept.append((data, rmm.DeviceBuffer.to_device(data)))
        if len(kept) > 20:
            expected, buffer = kept.pop(chosen.randrange(len(kept)))
            assert buffer.tobytes() == expected
    for expected, buffer in kept:
        copied = buffer.copy()
        del buffer
        assert copied.tobytes() == expected


def test_work_of_streams_and_threads_keeps_its_data(streams: list[Any]) -> None:
    cupy = pytest.importorskip("cupy")
    failures: list[str] = []

    def view(buffer: rmm.DeviceBuffer) -> Any:
        memory = cupy.cuda.UnownedMemory(buffer.ptr, buffer.size, buffer)
        pointer = cupy.cuda.MemoryPointer(memory, 0)
        return cupy.ndarray((buffer.size // 4,), cupy.uint32, pointer)

    def work(number: int) -> None:
        try:
            chosen = random.Random(number)
            kept: list[tuple[int, Any, Any]] = []
            for turn in range(300):
                which = chosen.randrange(len(streams))
                size = 4 * chosen.randrange(1, 1 << 18)
                with streams[which]:
                    buffer = rmm.DeviceBuffer(size=size, stream=Stream(streams[which]))
                    value = number << 24 | turn
                    view(buffer).fill(value)
                    kept.append((value, buffer, streams[which]))
                if len(kept) > 6:
                    value, buffer, stream = kept.pop(chosen.randrange(len(kept)))
                    with stream:
                        right = bool((view(buffer) == value).all())
                    # Freed at once, on the stream that used it.
                    del buffer
                    if not right:
                        failures.append(f"thread {number}, turn {turn}")
        except BaseException as error:
            failures.append(repr(error))

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []


def test_cupy_computes_the_same(stack: rmm.mr.DeviceMemoryResource) -> None:
    cupy = pytest.importorskip("cupy")
    import numpy
    from rmm.allocators.cupy import rmm_cupy_allocator

    def program() -> list[float]:
        numbers = numpy.random.default_rng(7).random((2000, 1000))
        values = cupy.asarray(numbers)
        order = cupy.argsort(values[:, 0])
        sums = cupy.cumsum(values, axis=1)[:, -1] + (values * values).sum(axis=1)
        return [*(sums[order][:5].tolist()), float(order[:100].sum()), float(cupy.median(values))]

    before = cupy.cuda.get_allocator()
    expected = program()
    try:
        cupy.cuda.set_allocator(rmm_cupy_allocator)
        assert program() == expected
    finally:
        cupy.cuda.set_allocator(before)


TORCH = """
import gc, sys, torch
if sys.argv[1] == "ours":
    import rmm, rmm.mr, rmm_rs_plugin
    from rmm.allocators.torch import rmm_torch_allocator
    pool = rmm_rs_plugin.install("256MiB")[0]
    torch.cuda.memory.change_current_allocator(rmm_torch_allocator)
torch.use_deterministic_algorithms(True)
def train():
    torch.manual_seed(3)
    layers = torch.nn.Linear(256, 512), torch.nn.ReLU(), torch.nn.Linear(512, 10)
    model = torch.nn.Sequential(*layers).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(20):
        data, target = torch.randn(64, 256).cuda(), torch.randint(10, (64,)).cuda()
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(model(data), target)
        loss.backward()
        optimizer.step()
    if sys.argv[1] == "ours":
        assert pool.statistics()["live_bytes"] > 1 << 20, pool.describe()
    return loss.item()
def live():
    gc.collect()
    torch._C._cuda_clearCublasWorkspaces()
    return pool.statistics()["live_bytes"] if sys.argv[1] == "ours" else 0
print(train())
after = live()
print(train())
# What PyTorch keeps from the first use on is no more after the second.
print(live() - after, file=sys.stderr)
"""


def test_pytorch_trains_the_same() -> None:
    pytest.importorskip("torch")

    def loss(who: str) -> tuple[str, str]:
        env = {**os.environ, "CUBLAS_WORKSPACE_CONFIG": ":4096:8"}
        command = [sys.executable, "-c", TORCH, who]
        done = subprocess.run(command, capture_output=True, text=True, check=False, env=env)
        assert done.returncode == 0, done.stderr
        return done.stdout, done.stderr

    expected, _ = loss("torch's")
    result, live = loss("ours")
    assert result == expected
    assert live.split()[-1] == "0"


def test_the_devices_memory_runs_out_and_comes_back() -> None:
    pool = install("64MiB")[0]
    _, total = rmm.mr.available_device_memory()
    with pytest.raises(MemoryError, match="out_of_memory"):
        rmm.DeviceBuffer(size=2 * total)
    kept = []
    with pytest.raises(MemoryError, match="out_of_memory"):
        while True:
            kept.append(rmm.DeviceBuffer(size=4 << 30))
    assert len(kept) * (4 << 30) > total // 2
    kept.clear()
    assert rmm.DeviceBuffer(size=8 << 30).size == 8 << 30
    DEFAULT_STREAM.synchronize()
    while pool.trim():
        pass
    assert pool.statistics()["live_bytes"] == 0
