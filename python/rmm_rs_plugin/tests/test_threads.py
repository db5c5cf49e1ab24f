"""Many threads, and Python's lock."""

from __future__ import annotations

import ctypes
import random
import threading
from collections.abc import Callable
from typing import Any

import pytest
import rmm
import rmm.mr
import rmm_rs.mr
from rmm.pylibrmm.stream import DEFAULT_STREAM, Stream
from rmm_rs_plugin import PoolMemoryResource, forget_stream, wrap

MIB = 1 << 20


def in_threads(work: Callable[[int], None], count: int = 8) -> None:
    """Runs the work on threads, and fails if it fails or hangs on one."""
    failures: list[BaseException] = []

    def guarded(number: int) -> None:
        try:
            work(number)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=guarded, args=(n,), daemon=True) for n in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=60)
    assert not any(thread.is_alive() for thread in threads), "a thread hangs"
    if failures:
        raise failures[0]


def churn(mr: rmm.mr.DeviceMemoryResource, rounds: int = 100) -> Callable[[int], None]:
    """Buffers of random sizes, on a default stream or one that is destroyed at the end."""

    def work(number: int) -> None:
        chosen = random.Random(number)
        stream = DEFAULT_STREAM if number % 2 else Stream()
        kept: list[rmm.DeviceBuffer] = []
        for _ in range(rounds):
            kept.append(rmm.DeviceBuffer(size=chosen.randrange(1, MIB), mr=mr, stream=stream))
            if len(kept) > 4:
                del kept[chosen.randrange(len(kept))]
        kept.clear()
        if stream is not DEFAULT_STREAM:
            forget_stream(stream)

    return work


@pytest.mark.parametrize("policy", ["checked", "kept"])
def test_threads_share_a_pool(policy: Any) -> None:
    pool = PoolMemoryResource(rmm.mr.CudaMemoryResource(), "1MiB", stream_policy=policy)
    counting = rmm.mr.StatisticsResourceAdaptor(pool)
    in_threads(churn(counting))
    assert counting.allocation_counts.total_count == 800
    assert counting.allocation_counts.current_bytes == 0
    figures = pool.statistics()
    assert (figures["allocations"], figures["frees"]) == (800, 800)


def test_threads_wait_for_python_in_the_upstream() -> None:
    base = rmm.mr.CudaMemoryResource()
    turn = threading.Lock()

    def allocate(size: int, stream: Stream) -> int:
        with turn:
            return base.allocate(size, stream)

    def deallocate(pointer: int, size: int, stream: Stream) -> None:
        with turn:
            base.deallocate(pointer, size, stream)

    upstream = rmm.mr.CallbackMemoryResource(allocate, deallocate)
    pool = PoolMemoryResource(upstream, "1MiB", preset="compact")

    def work(number: int) -> None:
        for _ in range(20):
            churn(pool, 5)(number)
            pool.trim()
            pool.statistics()

    in_threads(work, 4)
    assert pool.statistics()["live_bytes"] == 0


def test_no_call_keeps_pythons_lock(runtime: ctypes.CDLL) -> None:
    before = runtime.stand_in_calls(), runtime.stand_in_calls_with_lock()
    for make in (
        lambda: PoolMemoryResource(rmm.mr.CudaMemoryResource(), "1MiB"),
        lambda: rmm.mr.StatisticsResourceAdaptor(
            PoolMemoryResource(rmm.mr.CudaMemoryResource(), "1MiB")
        ),
    ):
        resource = make()
        # A new block of the upstream, and its return.
        resource.deallocate(resource.allocate(5 * MIB), 5 * MIB)
        buffer = rmm.DeviceBuffer(size=9 * MIB, mr=resource)
        del buffer
        pool: Any = resource if isinstance(resource, PoolMemoryResource) else resource.upstream_mr
        pool.trim()
        # What the pool returns as it ends.
        resource.deallocate(resource.allocate(5 * MIB), 5 * MIB)
        del pool, resource
    after = runtime.stand_in_calls(), runtime.stand_in_calls_with_lock()
    assert after[0] - before[0] >= 12
    assert after[1] == before[1]


def test_resources_are_dropped_while_others_allocate() -> None:
    ours = rmm_rs.mr.PoolMemoryResource(rmm_rs.mr.CudaMemoryResource(), "1MiB")

    def work(number: int) -> None:
        for _ in range(20):
            churn(wrap(ours), 5)(number)
            churn(PoolMemoryResource(wrap(ours), 0), 5)(number)

    in_threads(work)
    assert ours.statistics()["live_bytes"] == 0
