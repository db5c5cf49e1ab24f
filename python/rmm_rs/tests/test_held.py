"""What a pool does about the memory that it holds. Not in RMM."""

from __future__ import annotations

import gc
import threading
import weakref
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import Any

import pytest

import rmm_rs
from rmm_rs import mr
from rmm_rs.pylibrmm.stream import Stream

MIB = 1 << 20


def virtual_pool(**options: Any) -> mr.PoolMemoryResource:
    return mr.PoolMemoryResource(mr.VirtualMemoryResource(), 0, **options)


def cuda_pool(**options: Any) -> mr.PoolMemoryResource:
    return mr.PoolMemoryResource(mr.CudaMemoryResource(), 0, **options)


def refused(call: Callable[[], object]) -> list[rmm_rs.Remedy]:
    """The remedies of a call that runs out of memory."""
    with pytest.raises(MemoryError) as caught:
        call()
    remedies = getattr(caught.value, "remedies")
    assert isinstance(remedies, list)
    return remedies


@pytest.fixture
def free() -> Callable[[], int]:
    def free_bytes() -> int:
        return mr.available_device_memory()[0]

    return free_bytes


def test_each_preset_has_a_name() -> None:
    def reserved(preset: str) -> int:
        pool = virtual_pool(preset=preset)
        buffers = [rmm_rs.DeviceBuffer(size=size * MIB, mr=pool) for size in (64, 2)]
        assert len(buffers) == 2
        return pool.pool_size()

    assert reserved("low-latency") == 128 * MIB, "it doubles"
    assert all(reserved(name) < 128 * MIB for name in ("throughput", "compact", "deterministic"))
    with pytest.raises(ValueError, match='"low-latency"'):
        cuda_pool(preset="fast")


def test_a_trim_returns_the_bytes_that_it_released() -> None:
    top = mr.LimitingResourceAdaptor(cuda_pool(), 1 << 30)
    buffer = rmm_rs.DeviceBuffer(size=8 * MIB, mr=top)
    del buffer
    assert (top.trim(wait=True), top.trim()) == (8 * MIB, 0)
    assert mr.CudaMemoryResource().trim() == 0, "it holds nothing"
    with pytest.raises(RuntimeError, match="holds unused memory"):
        rmm_rs.trim(mr.CudaMemoryResource())


def test_another_device_gets_access(two_devices: None) -> None:
    pool = mr.StatisticsResourceAdaptor(mr.PoolMemoryResource(mr.VirtualMemoryResource()))
    buffer = rmm_rs.DeviceBuffer(size=MIB, mr=pool)
    pool.grant_access(1)
    pool.grant_access(1)
    del buffer
    with pytest.raises(ValueError, match="77"):
        pool.grant_access(77)


SUBALLOCATORS: dict[str, Callable[[], mr.DeviceMemoryResource]] = {
    "pool": cuda_pool,
    "arena": lambda: mr.ArenaMemoryResource(mr.CudaMemoryResource(), 64 * MIB),
    "fixed size": lambda: mr.FixedSizeMemoryResource(mr.CudaMemoryResource()),
    "binning": lambda: mr.BinningMemoryResource(cuda_pool(), 18, 22),
    "the driver's": mr.CudaAsyncMemoryResource,
    "specification": lambda: mr.SpecMemoryResource("statistics(pool(cuda))"),
}


@pytest.mark.parametrize("name", SUBALLOCATORS)
def test_every_suballocator_can_be_trimmed(name: str) -> None:
    resource = mr.StatisticsResourceAdaptor(SUBALLOCATORS[name]())
    buffer = rmm_rs.DeviceBuffer(size=MIB, mr=resource)
    del buffer
    assert rmm_rs.trim(resource, wait=True) >= MIB


def test_a_pool_sleeps_while_buffers_live() -> None:
    pool = virtual_pool()
    buffer = rmm_rs.DeviceBuffer(size=4 * MIB, mr=pool)
    buffer.copy_from_host(bytes(range(256)) * (4 * MIB // 256))
    assert pool.sleep("host", wait=True) == 4 * MIB
    assert pool.is_asleep
    with pytest.raises(MemoryError, match="sleep"):
        rmm_rs.DeviceBuffer(size=1, mr=pool)
    with pytest.raises(RuntimeError):
        pool.sleep()
    assert (pool.wake(), pool.wake(), pool.is_asleep) == (4 * MIB, 0, False)
    assert buffer.tobytes() == bytes(range(256)) * (4 * MIB // 256)


def test_a_pool_does_not_sleep_while_work_is_pending(
    stalled: Callable[[Stream], AbstractContextManager[None]],
) -> None:
    pool = virtual_pool()
    stream = Stream()
    buffer = rmm_rs.DeviceBuffer(size=MIB, mr=pool, stream=stream)
    with stalled(stream):
        with pytest.raises(RuntimeError, match="work is pending"):
            pool.sleep()
        assert not pool.is_asleep and buffer.size == MIB
    assert pool.sleep(wait=True) > 0
    pool.wake()


def test_contents_go_to_memory_that_was_there_before() -> None:
    pinned = mr.PoolMemoryResource(mr.PinnedHostMemoryResource(), 64 * MIB)
    pool = virtual_pool()
    buffer = rmm_rs.DeviceBuffer.to_device(b"weights")
    kept = rmm_rs.DeviceBuffer(ptr=buffer.ptr, size=7, mr=pool)
    pool.sleep("host", wait=True, host_mr=pinned)
    assert pinned.statistics()["live_bytes"] > 0
    pool.wake()
    assert (kept.tobytes(), pinned.statistics()["live_bytes"]) == (b"weights", 0)
    with pytest.raises(ValueError, match="the host cannot use"):
        pool.sleep("host", host_mr=mr.CudaMemoryResource())
    with pytest.raises(ValueError, match="contents"):
        pool.sleep("disk")
    with pytest.raises(RuntimeError, match="VirtualMemoryResource"):
        cuda_pool().sleep()


def test_a_pool_sleeps_for_a_block() -> None:
    pool = virtual_pool()
    kept = rmm_rs.DeviceBuffer(size=MIB, mr=pool)
    kept.copy_from_host(b"a" * MIB)
    with pytest.raises(KeyError), rmm_rs.asleep(pool, "host", wait=True):
        assert pool.is_asleep
        raise KeyError
    assert not pool.is_asleep and kept.tobytes() == b"a" * MIB


def test_the_default_pool_sleeps() -> None:
    pool = rmm_rs.default_pool()
    kept = rmm_rs.DeviceBuffer(size=MIB, mr=pool)
    with rmm_rs.asleep(pool, wait=True):
        assert pool.is_asleep and kept.size == MIB


def test_other_threads_run_while_a_pool_falls_asleep() -> None:
    pool = virtual_pool()
    buffers = [rmm_rs.DeviceBuffer(size=16 * MIB, mr=pool) for _ in range(4)]
    done = threading.Event()
    count = 0

    def run() -> None:
        nonlocal count
        while not done.is_set():
            count += 1

    thread = threading.Thread(target=run)
    thread.start()
    for _ in range(5):
        assert pool.sleep("host", wait=True) == pool.wake()
    done.set()
    thread.join()
    assert count > 0 and len(buffers) == 4


def test_a_reservation_says_what_remains() -> None:
    pool = cuda_pool(maximum_pool_size=4 * MIB)
    with pool.reserve("3 MiB") as reserved:
        assert isinstance(reserved, mr.Reservation)
        assert (reserved.remaining, reserved.upstream_mr) == (3 * MIB, pool)
        buffer = rmm_rs.DeviceBuffer(size=2 * MIB, mr=reserved)
        assert reserved.remaining == MIB
    assert reserved.remaining == 0, "it went back although there is a buffer"
    assert rmm_rs.DeviceBuffer(size=2 * MIB, mr=pool).size == buffer.size
    kept = pool.reserve(MIB)
    assert (kept.release(), kept.release()) == (MIB, 0)
    refused(lambda: pool.reserve(8 * MIB))
    with pytest.raises(TypeError):
        type(kept)(pool)


def test_a_reservation_is_returned_when_it_is_dropped() -> None:
    pool = cuda_pool(maximum_pool_size=4 * MIB)
    reserved = pool.reserve(4 * MIB)
    alive = weakref.ref(reserved)
    del reserved
    gc.collect()
    assert alive() is None
    assert rmm_rs.DeviceBuffer(size=4 * MIB, mr=pool).size == 4 * MIB


def test_a_budget_is_a_maximum(free: Callable[[], int]) -> None:
    half = free() // 2 // 256 * 256
    assert mr.Budget.free_fraction(0.5).resolve() == half
    assert mr.Budget.free_except("1 MiB").resolve() == free() - MIB
    assert 0 < mr.Budget.host_fraction(0.01).resolve() < mr.Budget.host_fraction(0.5).resolve()
    quarter = mr.Budget.free_fraction(0.25)
    pool = mr.PoolMemoryResource(mr.CudaMemoryResource(), maximum_pool_size=quarter)
    assert pool.pool_size() <= half // 2 + 256, "the first size is no more than the budget"
    refused(lambda: rmm_rs.DeviceBuffer(size=half, mr=pool))
    for fraction in (-0.1, 1.5, float("nan")):
        with pytest.raises(ValueError, match="between 0 and 1"):
            cuda_pool(maximum_pool_size=mr.Budget.free_fraction(fraction))
    with pytest.raises(TypeError):
        cuda_pool(maximum_pool_size=0.5)
    with pytest.raises(RuntimeError, match="exceeds the maximum"):
        mr.PoolMemoryResource(mr.CudaMemoryResource(), free(), mr.Budget.free_fraction(0.25))


def test_an_error_says_what_would_help() -> None:
    pool = cuda_pool(maximum_pool_size=4 * MIB)
    first = refused(lambda: mr.StatisticsResourceAdaptor(pool).allocate(6 * MIB))[0]
    assert (first.action, first.name, first.nbytes) == ("raise-limit", "pool", 2 * MIB)
    assert first.is_enough
    assert (str(first), repr(first)) == (
        "raise the limit of pool by 2.0 MiB",
        "<Remedy: raise the limit of pool by 2.0 MiB>",
    )
    assert isinstance(first, rmm_rs.Remedy)
    assert refused(lambda: mr.CudaMemoryResource().allocate(1 << 50)) == []


def test_the_limit_that_an_error_names_is_raised() -> None:
    pool = cuda_pool(maximum_pool_size=4 * MIB, name="kv-cache")
    limiting = mr.LimitingResourceAdaptor(pool, 2 * MIB)
    first = refused(lambda: limiting.allocate(6 * MIB))[0]
    assert (first.name, first.limit_id) == ("limiting", limiting.limit_id)
    limiting.set_allocation_limit(2 * MIB + first.nbytes)
    first = refused(lambda: limiting.allocate(6 * MIB))[0]
    assert (first.name, first.limit_id) == ("kv-cache", pool.limit_id)
    assert str(first) == "raise the limit of kv-cache by 2.0 MiB"
    pool.set_maximum_pool_size("6MiB")
    rmm_rs.DeviceBuffer(size=6 * MIB, mr=limiting)
    pool.set_maximum_pool_size(None)
    with pytest.raises(RuntimeError, match="multiple of 256"):
        pool.set_maximum_pool_size(255)


def test_a_callback_frees_what_a_request_lacks() -> None:
    pool = cuda_pool(maximum_pool_size=4 * MIB)
    cached = [rmm_rs.DeviceBuffer(size=3 * MIB, mr=pool)]
    seen: list[tuple[int, int]] = []

    def spill(pressure: rmm_rs.Pressure) -> bool:
        seen.append((pressure.requested, pressure.missing))
        return bool(cached) and cached.pop().size > 0

    with pool.on_pressure(spill):
        buffer = rmm_rs.DeviceBuffer(size=3 * MIB, mr=pool)
        assert (seen, cached) == ([(3 * MIB, 3 * MIB)], [])
        refused(lambda: rmm_rs.DeviceBuffer(size=3 * MIB, mr=pool))
        assert len(seen) == 2, "nothing was left to spill"
    refused(lambda: rmm_rs.DeviceBuffer(size=3 * MIB, mr=pool))
    assert len(seen) == 2 and buffer.size == 3 * MIB, "it was removed"


def test_what_a_callback_under_pressure_raises_comes_out() -> None:
    pool = cuda_pool(maximum_pool_size=2 * MIB)
    held = rmm_rs.DeviceBuffer(size=MIB, mr=pool)

    def spill(_pressure: rmm_rs.Pressure) -> bool:
        raise KeyError(f"no spill of {held.size}")

    guard = pool.on_pressure(spill)
    with pytest.raises(RuntimeError, match="no spill") as caught:
        rmm_rs.DeviceBuffer(size=2 * MIB, mr=pool)
    assert isinstance(caught.value.__cause__, KeyError)
    guard.remove()
    guard.remove()
    refused(lambda: rmm_rs.DeviceBuffer(size=2 * MIB, mr=pool))


def test_a_callback_goes_with_its_object() -> None:
    class Cache:
        def __init__(self) -> None:
            self.pool = cuda_pool(maximum_pool_size=2 * MIB)
            self.held = rmm_rs.DeviceBuffer(size=MIB, mr=self.pool)
            self.calls = 0
            self.guard = self.pool.on_pressure(self.spill)

        def spill(self, _pressure: rmm_rs.Pressure) -> bool:
            self.calls += 1
            return False

    cache = Cache()
    refused(lambda: cache.pool.allocate(2 * MIB))
    assert cache.calls == 1
    pool, alive = cache.pool, weakref.ref(cache)
    del cache
    gc.collect()
    assert alive() is None, "the cycle was found"
    assert rmm_rs.DeviceBuffer(size=2 * MIB, mr=pool).size == 2 * MIB


def test_threads_under_pressure_call_back_without_a_deadlock() -> None:
    pool = cuda_pool(maximum_pool_size=8 * MIB)
    lock = threading.Lock()
    spilled = 0

    def spill(_pressure: rmm_rs.Pressure) -> bool:
        nonlocal spilled
        with lock:
            spilled += 1
        return False

    def churn() -> None:
        for _ in range(50):
            try:
                rmm_rs.DeviceBuffer(size=3 * MIB, mr=pool)
            except MemoryError:
                pass

    with pool.on_pressure(spill):
        held = rmm_rs.DeviceBuffer(size=4 * MIB, mr=pool)
        threads = [threading.Thread(target=churn) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert held.size == 4 * MIB


@pytest.fixture
def released() -> Iterator[Callable[..., int]]:
    def kept(**options: Any) -> int:
        pool = cuda_pool(**options)
        pool.deallocate(pool.allocate(8 * MIB), 8 * MIB)
        rmm_rs.pylibrmm.stream.DEFAULT_STREAM.synchronize()
        pool.release_unused()
        return pool.pool_size()

    yield kept


def test_a_pool_returns_memory_by_itself(released: Callable[..., int]) -> None:
    assert released() == 8 * MIB
    assert released(release=0) == 0
    assert released(release="8 MiB") == 8 * MIB
    assert released(release_after=3600) == 8 * MIB, "it was in use in this hour"
    for seconds in (-1.0, float("nan"), float("inf")):
        with pytest.raises(ValueError, match="release_after"):
            released(release_after=seconds)


@pytest.mark.parametrize("clear", [False, True])
def test_a_block_is_cleared_where_that_is_asked_for(clear: bool) -> None:
    pool = cuda_pool(clear_blocks=clear)
    secret = rmm_rs.DeviceBuffer(size=8 * MIB, mr=pool)
    secret.copy_from_host(b"\1" * (8 * MIB))
    pointer = secret.ptr
    del secret
    after = rmm_rs.DeviceBuffer(size=8 * MIB, mr=pool)
    assert after.ptr == pointer
    assert after.tobytes()[:1] == (b"\0" if clear else b"\1")


def test_memory_of_graphs_stays_in_its_pool_until_they_are_gone() -> None:
    pool = mr.PoolMemoryResource(mr.CudaMemoryResource(), 0, for_graphs=True)
    stream = Stream()
    del_later = rmm_rs.DeviceBuffer(size=8 * MIB, stream=stream, mr=pool)
    pointer = del_later.ptr
    del del_later
    stream.synchronize()
    other = rmm_rs.DeviceBuffer(size=8 * MIB, stream=Stream(), mr=pool)
    assert other.ptr != pointer
    again = rmm_rs.DeviceBuffer(size=8 * MIB, stream=stream, mr=pool)
    assert again.ptr == pointer
    del again, other
    assert pool.statistics()["events_recorded"] == 0
    assert pool.trim(wait=True) == 0
    with rmm_rs.capture_scope() as scope, scope:
        # No trim waits for the device.
        assert pool.trim(wait=True) == 0
    pool.release_graph_memory()
    assert pool.trim(wait=True) == 16 * MIB
    with pytest.raises(ValueError, match="leave out one"):
        mr.PoolMemoryResource(mr.CudaMemoryResource(), 0, for_graphs=True, check_frees=True)


def test_requests_of_limited_effort_are_refused() -> None:
    pool = mr.PoolMemoryResource(mr.CudaMemoryResource(), 0, 4 * MIB)
    with rmm_rs.effort(growth=False):
        actions = [remedy.action for remedy in refused(lambda: pool.allocate(MIB))]
        with rmm_rs.effort(deadline=3600):
            pool.deallocate(pool.allocate(4 * MIB), 4 * MIB)
    assert actions == ["more-effort"]
    with rmm_rs.effort(host_wait=False) as effort, effort:
        pool.deallocate(pool.allocate(MIB), MIB)
    with pytest.raises(ValueError, match="give one of"):
        rmm_rs.effort()
    with pytest.raises(ValueError, match="give one of"):
        rmm_rs.effort(growth=False, host_wait=False)
    with pytest.raises(ValueError, match="a deadline of -1"):
        rmm_rs.effort(deadline=-1)


def test_registered_memory_is_pinned_memory() -> None:
    for resource in (
        mr.RegisteredHostMemoryResource(),
        mr.RegisteredHostMemoryResource(threads=2, numa_node="any"),
        mr.RegisteredHostMemoryResource(numa_node=0),
        mr.RegisteredHostMemoryResource(1, "device"),
    ):
        pool = mr.PoolMemoryResource(resource, MIB)
        assert rmm_rs.DeviceBuffer(size=1000, mr=pool).size == 1000
    for arguments in ((0,), (1, "nowhere"), (1, -1)):
        with pytest.raises(ValueError):
            mr.RegisteredHostMemoryResource(*arguments)
