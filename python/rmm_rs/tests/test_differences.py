"""What is not as in RMM, on purpose: the rows of docs/python.md that no other test has."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rmm_rs import mr
from rmm_rs.pylibrmm.stream import Stream

Calls = list[tuple[Any, ...]]


def counting(address: int = 4096) -> tuple[mr.CallbackMemoryResource, Calls]:
    """A resource of functions that note their calls, and hand out one address."""
    calls: Calls = []

    def allocate(size: int, stream: Stream) -> int:
        calls.append(("allocate", size))
        return address

    def free(address: int, size: int, stream: Stream) -> None:
        calls.append(("free", address, size))

    return mr.CallbackMemoryResource(allocate, free), calls


def test_no_bytes_ask_no_resource() -> None:
    resource, calls = counting()
    counted = mr.StatisticsResourceAdaptor(resource)
    assert counted.allocate(0) == 0
    counted.deallocate(0, 10)
    counted.deallocate(4096, 0)
    assert calls == [] and counted.allocation_counts.total_count == 0


def test_address_0_is_out_of_memory() -> None:
    resource, _ = counting(0)
    with pytest.raises(MemoryError, match="^std::bad_alloc: out_of_memory: "):
        resource.allocate(10)


def test_an_address_that_is_not_aligned_is_freed() -> None:
    resource, calls = counting(4097)
    with pytest.raises(MemoryError, match="not aligned"):
        resource.allocate(10)
    assert calls == [("allocate", 10), ("free", 4097, 10)]


@pytest.mark.parametrize("make", [
    lambda resource: resource.allocate(1.5),
    lambda resource: mr.LimitingResourceAdaptor(resource, 0.5 * 1000),  # type: ignore[arg-type]
])
def test_a_float_is_no_size(make: Callable[[Any], Any]) -> None:
    with pytest.raises(TypeError):
        make(counting()[0])


def test_a_log_numbers_threads_and_names_the_legacy_stream(tmp_path: Path) -> None:
    logging = mr.LoggingResourceAdaptor(mr.CudaMemoryResource(), str(tmp_path / "log"))
    logging.deallocate(logging.allocate(1000), 1000)
    logging.deallocate(logging.allocate(0), 0)
    logging.flush()
    rows = [line.split(",") for line in (tmp_path / "log.dev0").read_text().splitlines()[1:]]
    assert [(row[2], row[5]) for row in rows] == [("allocate", "0x1"), ("free", "0x1")]
    assert rows[0][0] == rows[1][0] != str(threading.get_native_id())


def test_a_list_of_outstanding_allocations_is_not_in_rmm() -> None:
    tracking = mr.TrackingResourceAdaptor(counting()[0])
    tracking.allocate(10)
    assert tracking.outstanding() == [{"ptr": 4096, "size": 10, "place": None, "stack": None}]
    tracking.deallocate(4096, 10)
    assert tracking.outstanding() == []


@pytest.mark.parametrize("device", [-1, 99])
def test_a_device_that_is_not_there_has_no_resource(device: int) -> None:
    with pytest.raises((ValueError, RuntimeError), match="there is no device"):
        mr.set_per_device_resource(device, counting()[0])


def test_a_bin_has_a_size() -> None:
    resource, _ = counting()
    with pytest.raises(ValueError, match="the size of a bin must not be 0"):
        mr.BinningMemoryResource(resource).add_bin(0, resource)


def test_a_request_asks_again_once_pools_have_returned_memory() -> None:
    cuda = mr.CudaMemoryResource()
    free, _ = mr.available_device_memory()
    pool = mr.PoolMemoryResource(cuda, 0)
    most, part = free // 4 * 3, free // 2
    pool.deallocate(pool.allocate(most), most)
    Stream(None).synchronize()
    calls: list[int] = []

    def allocate(size: int, stream: Stream) -> int:
        calls.append(size)
        return cuda.allocate(size, stream)

    resource = mr.CallbackMemoryResource(allocate, cuda.deallocate)
    address = resource.allocate(part)
    assert set(calls) == {part} and len(calls) > 1
    resource.deallocate(address, part)
