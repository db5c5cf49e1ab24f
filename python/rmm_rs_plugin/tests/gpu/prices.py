"""Prices of RMM's classes over RMM's resources and over ours, in one process: `prices.py OUT [--milliseconds N]`.

A row is the nanoseconds of one operation in a loop of Python, the least and the median of several passes; the
resources take turns in each pass. With several threads: wall time over the operations of all.
"""

from __future__ import annotations

import argparse
import gc
import json
import statistics
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import rmm
import rmm.mr
from rmm.pylibrmm.stream import DEFAULT_STREAM, Stream
from rmm_rs_plugin import PoolMemoryResource

Loop = Callable[[int], None]
POOL, MAXIMUM = 1 << 30, 8 << 30
KEPT_STREAMS: list[Stream] = []


def resources() -> dict[str, Callable[[], Any]]:
    cuda = rmm.mr.CudaMemoryResource
    return {
        "RMM: CudaMemoryResource": cuda,
        "RMM: CudaAsyncMemoryResource": lambda: rmm.mr.CudaAsyncMemoryResource(POOL),
        "RMM: PoolMemoryResource": lambda: rmm.mr.PoolMemoryResource(cuda(), POOL, MAXIMUM),
        "ours": lambda: PoolMemoryResource(None, POOL, MAXIMUM),
        "ours, streams kept": lambda: PoolMemoryResource(None, POOL, MAXIMUM, stream_policy="kept"),
        "ours over RMM: CudaMemoryResource": lambda: PoolMemoryResource(cuda(), POOL, MAXIMUM),
        "RMM: StatisticsResourceAdaptor over RMM: PoolMemoryResource": lambda: (
            rmm.mr.StatisticsResourceAdaptor(rmm.mr.PoolMemoryResource(cuda(), POOL, MAXIMUM))
        ),
        "RMM: StatisticsResourceAdaptor over ours": lambda: rmm.mr.StatisticsResourceAdaptor(
            PoolMemoryResource(None, POOL, MAXIMUM)
        ),
    }


def buffers(size: int) -> Callable[[Any, Any], Loop]:
    """A `DeviceBuffer` is made and dropped."""

    def make(mr: Any, stream: Any) -> Loop:
        def loop(count: int) -> None:
            new = rmm.DeviceBuffer
            for _ in range(count):
                new(size=size, stream=stream, mr=mr)

        return loop

    return make


def pairs(size: int) -> Callable[[Any, Any], Loop]:
    """A block is allocated and freed."""

    def make(mr: Any, stream: Any) -> Loop:
        def loop(count: int) -> None:
            allocate, deallocate = mr.allocate, mr.deallocate
            for _ in range(count):
                deallocate(allocate(size, stream), size, stream)

        return loop

    return make


def live(mr: Any, stream: Any) -> Loop:
    """256 buffers of 256 B to 4 MiB live; one is dropped and one is made."""
    import random

    choice = random.Random(5)
    steps = [(choice.randrange(256), int(256 * 2 ** choice.uniform(0, 14))) for _ in range(2048)]

    def loop(count: int) -> None:
        new = rmm.DeviceBuffer
        slots: list[Any] = [None] * 256
        for number in range(count):
            slot, size = steps[number % 2048]
            slots[slot] = None
            slots[slot] = new(size=size, stream=stream, mr=mr)

    return loop


OPERATIONS: dict[str, Callable[[Any, Any], Loop]] = {
    "DeviceBuffer of 4 KiB": buffers(4096),
    "DeviceBuffer of 1 MiB": buffers(1 << 20),
    "allocate and free 4 KiB": pairs(4096),
    "256 live buffers of 256 B to 4 MiB": live,
}


def timed(loops: list[Loop], count: int) -> float:
    """Seconds until every thread has run its loop."""
    if len(loops) == 1:
        begin = time.perf_counter()
        loops[0](count)
        return time.perf_counter() - begin
    start = threading.Barrier(len(loops) + 1)
    failures: list[BaseException] = []

    def run(loop: Loop) -> None:
        start.wait()
        try:
            loop(count)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=run, args=(loop,)) for loop in loops]
    for thread in threads:
        thread.start()
    start.wait()
    begin = time.perf_counter()
    for thread in threads:
        thread.join()
    took = time.perf_counter() - begin
    if failures:
        raise failures[0]
    return took


class Row:
    """One resource in one case."""

    def __init__(self, name: str, make: Callable[[], Any], case: tuple[str, str, int]) -> None:
        operation, streams, threads = case
        self.name, self.case = name, case
        self.resource = make()
        self.loops = []
        for _ in range(threads):
            stream = DEFAULT_STREAM if streams == "default" else Stream()
            # The policy "kept" wants them to stay.
            KEPT_STREAMS.append(stream)
            self.loops.append(OPERATIONS[operation](self.resource, stream))
        self.times: list[float] = []

    def measure(self, seconds: float) -> None:
        count = 8
        while (took := timed(self.loops, count)) < seconds / 4:
            count *= 2
        count = max(1, int(count * seconds / took))
        gc.collect()
        gc.disable()
        took = min(timed(self.loops, count) for _ in range(2))
        gc.enable()
        self.times.append(1e9 * took / (count * len(self.loops)))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("out", type=Path)
    parser.add_argument("--milliseconds", type=float, default=20)
    parser.add_argument("--passes", type=int, default=5)
    parser.add_argument("--only", default="", help="resources with this in their names")
    options = parser.parse_args()
    results: dict[str, dict[str, Any]] = {}
    lines = []
    for operation in OPERATIONS:
        lines += ["", f"{operation}, ns: least (median)", ""]
        columns = [("default", 1), ("own", 1), ("default", 4), ("own", 4)]
        heads = [f"{kind} stream, {n} thread{'s' if n > 1 else ''}" for kind, n in columns]
        lines += ["| resource | " + " | ".join(heads) + " |", "|---|" + "---|" * len(columns)]
        cells: dict[str, list[str]] = {}
        for kind, threads in columns:
            case = (operation, kind, threads)
            rows = []
            for name, make in resources().items():
                if options.only in name:
                    try:
                        rows.append(Row(name, make, case))
                    except Exception as error:
                        cells.setdefault(name, []).append(f"{type(error).__name__}: {error}"[:60])
            for _ in range(options.passes):
                for row in list(rows):
                    try:
                        row.measure(options.milliseconds / 1e3)
                    except Exception as error:
                        rows.remove(row)
                        cells.setdefault(row.name, []).append(f"{type(error).__name__}: {error}"[:60])
            for row in rows:
                least, median = min(row.times), statistics.median(row.times)
                cells.setdefault(row.name, []).append(f"{least:,.0f} ({median:,.0f})")
                results.setdefault(" | ".join(map(str, case)), {})[row.name] = [least, median]
            rows.clear()
            gc.collect()
        lines += [f"| {name} | " + " | ".join(row) + " |" for name, row in cells.items()]
    text = "\n".join(lines) + "\n"
    print(text)
    options.out.mkdir(parents=True, exist_ok=True)
    (options.out / "prices.md").write_text(text)
    (options.out / "prices.json").write_text(json.dumps(results, indent=1))


if __name__ == "__main__":
    main()
