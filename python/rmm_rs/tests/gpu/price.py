"""Prices of one package in this process, as JSON:

`price.py rmm|rmm_rs [--milliseconds N] [--libraries cupy,torch]`.

A row is nanoseconds of one operation (a block allocated and freed), the least and the median of
five measurements of N milliseconds; with several threads, wall time over the operations of all.
Both packages run the same lines of Python, so the loop costs them the same.
"""

from __future__ import annotations

import argparse
import gc
import importlib
import json
import random
import statistics
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from typing import Any

MEASUREMENTS = 5
POOL, MAXIMUM = 256 << 20, 4 << 30
LIVE, STEPS = 256, 2048

Loop = Callable[[int], None]


def timed(loops: list[Loop], count: int) -> float:
    """Seconds until every thread has run its loop."""
    if len(loops) == 1:
        begin = time.perf_counter()
        loops[0](count)
        return time.perf_counter() - begin
    start = threading.Barrier(len(loops) + 1)
    errors: list[BaseException] = []

    def run(loop: Loop) -> None:
        start.wait()
        try:
            loop(count)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(loop,)) for loop in loops]
    for thread in threads:
        thread.start()
    start.wait()
    begin = time.perf_counter()
    for thread in threads:
        thread.join()
    seconds = time.perf_counter() - begin
    if errors:
        raise errors[0]
    return seconds


def price(loops: list[Loop], seconds: float) -> tuple[float, float]:
    """Nanoseconds of one operation: the least and the median."""
    count = 4
    while (took := timed(loops, count)) < seconds / 4 and count < 1 << 24:
        count *= 2 if took > seconds / 32 else 4
    count = max(1, int(count * seconds / took))
    gc.collect()
    gc.disable()
    try:
        times = [timed(loops, count) for _ in range(MEASUREMENTS)]
    finally:
        gc.enable()
    each = [1e9 * took / (count * len(loops)) for took in times]
    return min(each), statistics.median(each)


def pairs(resource: Any, size: int, stream: Any) -> Loop:
    """A block is allocated and freed."""
    allocate, deallocate = resource.allocate, resource.deallocate

    def loop(count: int) -> None:
        for _ in range(count):
            deallocate(allocate(size, stream), size, stream)

    return loop


def buffers(make: Any, size: int, stream: Any) -> Loop:
    """A `DeviceBuffer` of the current resource is made and dropped."""

    def loop(count: int) -> None:
        for _ in range(count):
            make(size=size, stream=stream)

    return loop


def mixed(resource: Any, stream: Any, seed: int) -> Loop:
    """Blocks of 256 B to 4 MiB, of which 256 live at a time: one is freed and one is allocated."""
    choice = random.Random(seed)
    steps = [(choice.randrange(LIVE), int(256 * 2 ** choice.uniform(0, 14))) for _ in range(STEPS)]
    allocate, deallocate = resource.allocate, resource.deallocate

    def loop(count: int) -> None:
        live = [(0, 0)] * LIVE
        for number in range(count):
            slot, size = steps[number % STEPS]
            address, old = live[slot]
            if address:
                deallocate(address, old, stream)
            live[slot] = (allocate(size, stream), size)
        for address, old in live:
            if address:
                deallocate(address, old, stream)

    return loop


class Prices:
    """The cases of one package."""

    def __init__(self, name: str, seconds: float) -> None:
        self.package = importlib.import_module(name)
        self.name = name
        self.mr = importlib.import_module(f"{name}.mr")
        streams = importlib.import_module(f"{name}.pylibrmm.stream")
        self.new_stream = streams.Stream
        self.default_stream = streams.DEFAULT_STREAM
        self.seconds = seconds
        self.rows: dict[str, dict[str, Any]] = {}

    def resources(self) -> Iterator[tuple[str, Any]]:
        yield "CudaMemoryResource", self.mr.CudaMemoryResource()
        yield "CudaAsyncMemoryResource", self.mr.CudaAsyncMemoryResource(POOL)
        base = self.mr.CudaMemoryResource()
        yield "PoolMemoryResource", self.mr.PoolMemoryResource(base, POOL, MAXIMUM)

    def row(self, *key: object, loops: Callable[[], list[Loop]]) -> None:
        name = " | ".join(str(part) for part in key)
        try:
            least, median = price(loops(), self.seconds)
            self.rows[name] = {"least": round(least, 1), "median": round(median, 1)}
        except Exception as error:
            traceback.print_exc()
            self.rows[name] = {"error": f"{type(error).__name__}: {error}"}

    def streams(self, kind: str, threads: int) -> list[Any]:
        if kind == "default":
            return [self.default_stream] * threads
        return [self.new_stream() for _ in range(threads)]

    def own(self) -> None:
        """The package alone."""
        for name, resource in self.resources():
            self.mr.set_current_device_resource(resource)
            make = self.package.DeviceBuffer
            for kind in ("default", "own"):
                for threads in (1, 4):
                    key = (name, kind, threads)
                    streams = self.streams(kind, threads)
                    self.row(
                        "allocate and free, 4 KiB",
                        *key,
                        loops=lambda: [pairs(resource, 4096, stream) for stream in streams],
                    )
                    self.row(
                        "DeviceBuffer, 4 KiB",
                        *key,
                        loops=lambda: [buffers(make, 4096, stream) for stream in streams],
                    )
                    if name == "CudaMemoryResource":
                        continue
                    self.row(
                        "256 live blocks, 256 B to 4 MiB",
                        *key,
                        loops=lambda: [mixed(resource, s, n) for n, s in enumerate(streams)],
                    )
            self.mr.set_current_device_resource(self.mr.CudaMemoryResource())

    def cupy(self) -> None:
        """CuPy's arrays on the package's resources."""
        import cupy

        allocator = importlib.import_module(f"{self.name}.allocators.cupy").rmm_cupy_allocator

        def arrays(stream: Any) -> Loop:
            def loop(count: int) -> None:
                empty, kind = cupy.empty, cupy.uint8
                with stream:
                    for _ in range(count):
                        empty(4096, kind)

            return loop

        for name, resource in self.resources():
            self.mr.set_current_device_resource(resource)
            cupy.cuda.set_allocator(allocator)
            for kind in ("default", "own"):
                for threads in (1, 4):
                    new = cupy.cuda.Stream
                    streams = [new.null if kind == "default" else new() for _ in range(threads)]
                    self.row(
                        "cupy.empty, 4 KiB",
                        name,
                        kind,
                        threads,
                        loops=lambda: [arrays(stream) for stream in streams],
                    )
            cupy.cuda.set_allocator(None)
            self.mr.set_current_device_resource(self.mr.CudaMemoryResource())

    def torch(self) -> None:
        """PyTorch's tensors on the package's resources."""
        import torch

        allocator = importlib.import_module(f"{self.name}.allocators.torch").rmm_torch_allocator
        torch.cuda.memory.change_current_allocator(allocator)

        def tensors(stream: Any) -> Loop:
            def loop(count: int) -> None:
                empty, kind = torch.empty, torch.uint8
                with torch.cuda.stream(stream):
                    for _ in range(count):
                        empty(4096, dtype=kind, device="cuda")

            return loop

        for name, resource in self.resources():
            self.mr.set_current_device_resource(resource)
            for kind in ("default", "own"):
                for threads in (1, 4):
                    default = torch.cuda.default_stream()
                    new = torch.cuda.Stream
                    streams = [default if kind == "default" else new() for _ in range(threads)]
                    self.row(
                        "torch.empty, 4 KiB",
                        name,
                        kind,
                        threads,
                        loops=lambda: [tensors(stream) for stream in streams],
                    )
            torch.cuda.synchronize()
            self.mr.set_current_device_resource(self.mr.CudaMemoryResource())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("package")
    parser.add_argument("--milliseconds", type=float, default=15)
    parser.add_argument("--libraries", default="cupy,torch")
    arguments = parser.parse_args()
    prices = Prices(arguments.package, arguments.milliseconds / 1000)
    for part in ("own", *filter(None, arguments.libraries.split(","))):
        try:
            getattr(prices, part)()
        except Exception as error:
            traceback.print_exc()
            prices.rows[f"{part} | | |"] = {"error": f"{type(error).__name__}: {error}"}
        # All of it after each part: a library that ends the process takes nothing along.
        print(json.dumps(prices.rows), flush=True)


if __name__ == "__main__":
    main()
