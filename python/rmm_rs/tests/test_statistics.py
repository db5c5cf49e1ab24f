"""Counters and the profiler."""

from __future__ import annotations

import inspect

import pytest

from rmm_rs import DeviceBuffer, mr
from rmm_rs.statistics import (
    ProfilerRecords,
    Statistics,
    _get_descriptive_name_of_object,
    enable_statistics,
    get_statistics,
    pop_statistics,
    profiler,
    push_statistics,
    statistics,
)


def test_nothing_is_counted_until_it_is_enabled() -> None:
    assert get_statistics() is push_statistics() is pop_statistics() is None
    enable_statistics()
    top = mr.get_current_device_resource()
    enable_statistics()
    assert mr.get_current_device_resource() is top
    assert get_statistics() == Statistics(0, 0, 0, 0, 0, 0)


def test_a_context_restores_the_very_resource() -> None:
    before = mr.get_current_device_resource()
    with statistics():
        inside = mr.get_current_device_resource()
        buffer = DeviceBuffer(size=10)
        with statistics():
            assert mr.get_current_device_resource() is inside
            assert get_statistics() == Statistics(0, 0, 0, 0, 0, 0)
            del buffer
            counted = get_statistics()
            assert counted is not None and counted.current_bytes == -10
        counted = get_statistics()
        assert counted is not None and counted.current_bytes == 0
    assert mr.get_current_device_resource() is before


def test_a_context_notices_another_resource() -> None:
    with pytest.raises(ValueError), statistics():
        mr.set_current_device_resource(mr.CudaMemoryResource())


def test_a_profiler_measures_functions_and_blocks() -> None:
    records = ProfilerRecords()

    @profiler(records=records)
    def work(size: int) -> DeviceBuffer:
        return DeviceBuffer(size=size)

    work(10)
    assert records.records == {} and "wasn't enabled" in str(records)
    enable_statistics()
    for size in (10, 30, 20):
        work(size)
    with profiler(records=records, name="block"):
        DeviceBuffer(size=5)
    name = _get_descriptive_name_of_object(work)
    line = inspect.getsourcelines(inspect.unwrap(work))[1]
    assert name.endswith(f"test_statistics.py:{line}({work.__qualname__})")
    record = records.records[name]
    assert (record.num_calls, record.memory_total, record.memory_peak) == (3, 60, 30)
    report = records.report(ordered_by="num_calls")
    assert report.index(name) < report.rindex("block") and "Ordered by: num_calls" in report
    with pytest.raises(ValueError), profiler(records=records):
        pass


def test_figures_are_asked_for_by_name() -> None:
    figures = Statistics(1, 2, 3, 4, 5, 6)
    assert figures["peak_bytes"] == 3
    with pytest.raises(KeyError):
        figures["other"]
