"""Python functions that the engine calls, and what they raise."""

from __future__ import annotations

import gc
import sys
import threading
import weakref
from typing import Any

import pytest

from rmm_rs import DeviceBuffer, mr
from rmm_rs.pylibrmm.stream import DEFAULT_STREAM, Stream


def test_functions_are_called_with_size_and_stream() -> None:
    base, calls = mr.CudaMemoryResource(), []

    def allocate(size: int, stream: Stream) -> int:
        calls.append(("allocate", size, stream))
        return base.allocate(size, stream)

    def deallocate(address: int, size: int, stream: Stream) -> None:
        calls.append(("deallocate", size, stream))
        base.deallocate(address, size, stream)

    resource = mr.CallbackMemoryResource(allocate, deallocate)
    own = Stream()
    for stream in (DEFAULT_STREAM, own):
        del calls[:]
        buffer = DeviceBuffer(size=100, stream=stream, mr=resource)
        del buffer
        assert calls == [("allocate", 100, stream), ("deallocate", 100, stream)]
        assert all(isinstance(call[2], Stream) for call in calls)


class Stop(BaseException):
    pass


@pytest.mark.parametrize("raised", [ValueError("text"), KeyError("text"), Stop("text")])
@pytest.mark.parametrize("over", ["alone", "pool", "statistics"])
def test_an_exception_comes_out_as_the_cause(raised: BaseException, over: str) -> None:
    def allocate(size: int, stream: Stream) -> int:
        raise raised

    resource: mr.DeviceMemoryResource = mr.CallbackMemoryResource(allocate, lambda *_: None)
    if over == "pool":
        resource = mr.PoolMemoryResource(resource, 0)
    elif over == "statistics":
        resource = mr.StatisticsResourceAdaptor(resource)
    with pytest.raises(RuntimeError) as caught:
        resource.allocate(100)
    assert str(caught.value) == str(raised)
    assert caught.value.__cause__ is raised


def test_a_memory_error_stays_one() -> None:
    def allocate(size: int, stream: Stream) -> int:
        raise MemoryError("mine")

    resource = mr.CallbackMemoryResource(allocate, lambda *_: None)
    for above in (resource, mr.PoolMemoryResource(resource, 0)):
        with pytest.raises(MemoryError, match="^mine$"):
            above.allocate(100)
    with pytest.raises(MemoryError, match="^mine$"):
        mr.PoolMemoryResource(resource, "1MiB")


def test_a_wrong_answer_is_an_error() -> None:
    for answer in (None, "text", -1):
        resource = mr.CallbackMemoryResource(lambda *_, answer=answer: answer, lambda *_: None)
        with pytest.raises(RuntimeError):
            resource.allocate(100)


def test_an_exception_that_had_no_consequence_is_forgotten() -> None:
    def allocate(size: int, stream: Stream) -> int:
        raise MemoryError("mine")

    limited = mr.LimitingResourceAdaptor(mr.CudaMemoryResource(), 256)
    both = mr.FallbackMemoryResource(mr.CallbackMemoryResource(allocate, lambda *_: None), limited)
    buffer = DeviceBuffer(size=256, mr=both)
    with pytest.raises(MemoryError, match="^std::bad_alloc: out_of_memory"):
        limited.allocate(256)
    del buffer


def test_an_exception_in_a_free_is_unraisable(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Any] = []
    monkeypatch.setattr(sys, "unraisablehook", seen.append)
    base = mr.CudaMemoryResource()

    def deallocate(address: int, size: int, stream: Stream) -> None:
        base.deallocate(address, size, stream)
        raise ValueError("text")

    resource = mr.CallbackMemoryResource(base.allocate, deallocate)
    DeviceBuffer(size=10, mr=resource)
    assert [str(one.exc_value) for one in seen] == ["text"]


def test_a_failure_callback_may_free_memory() -> None:
    kept: list[DeviceBuffer] = []
    sizes: list[int] = []
    limited = mr.LimitingResourceAdaptor(mr.CudaMemoryResource(), 1024)

    def on_failure(size: int) -> bool:
        sizes.append(size)
        if kept:
            kept.pop()
            return True
        return False

    resource = mr.FailureCallbackResourceAdaptor(limited, on_failure)
    kept += [DeviceBuffer(size=512, mr=resource) for _ in range(2)]
    buffer = DeviceBuffer(size=1024, mr=resource)
    assert sizes == [1024, 1024] and kept == []
    with pytest.raises(MemoryError, match="out_of_memory"):
        DeviceBuffer(size=1024, mr=resource)
    del buffer


def test_a_failure_callback_may_raise() -> None:
    raised = ValueError("text")

    def on_failure(size: int) -> bool:
        raise raised

    limited = mr.LimitingResourceAdaptor(mr.CudaMemoryResource(), 256)
    resource = mr.FailureCallbackResourceAdaptor(limited, on_failure)
    with pytest.raises(RuntimeError, match="^text$") as caught:
        resource.allocate(1024)
    assert caught.value.__cause__ is raised


def test_other_errors_do_not_call_back() -> None:
    def allocate(size: int, stream: Stream) -> int:
        raise ValueError("text")

    calls: list[int] = []
    callback = mr.CallbackMemoryResource(allocate, lambda *_: None)
    def on_failure(size: int) -> bool:
        calls.append(size)
        return False

    resource = mr.FailureCallbackResourceAdaptor(callback, on_failure)
    with pytest.raises(RuntimeError, match="^text$"):
        resource.allocate(10)
    assert calls == []


class Owner:
    """Has methods that its resources call: a cycle."""

    def __init__(self, tracking: mr.TrackingResourceAdaptor) -> None:
        self.tracking = tracking
        self.resource = mr.CallbackMemoryResource(self.allocate, self.deallocate)
        self.failing = mr.FailureCallbackResourceAdaptor(tracking, self.on_failure)

    def allocate(self, size: int, stream: Stream) -> int:
        return self.tracking.allocate(size, stream)

    def deallocate(self, address: int, size: int, stream: Stream) -> None:
        self.tracking.deallocate(address, size, stream)

    def on_failure(self, size: int) -> bool:
        return False


def test_a_cycle_is_collected_once_its_memory_is_freed() -> None:
    tracking = mr.TrackingResourceAdaptor(mr.CudaMemoryResource())
    owner = Owner(tracking)
    pool = mr.PoolMemoryResource(owner.resource, "1MiB")
    assert tracking.get_allocated_bytes() == 1 << 20
    gone: list[weakref.ref[Any]] = [weakref.ref(owner), weakref.ref(owner.resource)]
    del owner
    gc.collect()
    assert all(one() is not None for one in gone), "the pool's memory goes back by its methods"
    del pool
    assert tracking.get_allocated_bytes() == 0
    gc.collect()
    assert [one() for one in gone] == [None] * 2


def test_memory_in_a_cycle_keeps_the_functions_that_free_it() -> None:
    """The collector clears the objects of a cycle in any order, and may not call what it has cleared."""
    tracking = mr.TrackingResourceAdaptor(mr.CudaMemoryResource())
    owner = Owner(tracking)
    owner.buffer = DeviceBuffer(size=100, mr=owner.resource)  # type: ignore[attr-defined]
    gone = weakref.ref(owner)
    del owner
    gc.collect()
    found = gone()
    assert found is not None
    del found.buffer  # type: ignore[attr-defined]
    assert tracking.get_allocated_bytes() == 0
    del found
    gc.collect()
    assert gone() is None


def test_a_buffer_in_a_cycle_is_collected() -> None:
    class Derived(DeviceBuffer):
        pass

    tracking = mr.TrackingResourceAdaptor(mr.CudaMemoryResource())
    buffer = Derived(size=100, mr=tracking)
    buffer.itself = buffer  # type: ignore[attr-defined]
    del buffer
    gc.collect()
    assert tracking.get_allocated_bytes() == 0


def test_the_engine_keeps_functions_that_python_dropped(trimmed: Any) -> None:
    base = mr.CudaMemoryResource()
    pool = mr.PoolMemoryResource(mr.CallbackMemoryResource(base.allocate, base.deallocate), 0)
    del base
    gc.collect()
    DeviceBuffer(size=100, mr=pool)
    assert trimmed(pool.trim) > 0


def test_threads_grow_a_pool_over_callbacks_without_a_deadlock() -> None:
    base = mr.CudaMemoryResource()

    def allocate(size: int, stream: Stream) -> int:
        gc.collect(0)
        return base.allocate(size, stream)

    resource = mr.CallbackMemoryResource(allocate, base.deallocate)
    pool = mr.PoolMemoryResource(mr.StatisticsResourceAdaptor(resource), 0)
    failures: list[BaseException] = []

    def work(seed: int) -> None:
        try:
            stream = Stream()
            for turn in range(150):
                buffers = [
                    DeviceBuffer(size=(seed + turn) * 5_000 + 1, stream=stream, mr=pool)
                    for _ in range(4)
                ]
                buffers[0].copy()
                if turn % 30 == seed:
                    pool.trim()
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(seed,), daemon=True) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=60)
    assert failures == [] and not any(thread.is_alive() for thread in threads)
    assert pool.statistics()["live_bytes"] == 0
