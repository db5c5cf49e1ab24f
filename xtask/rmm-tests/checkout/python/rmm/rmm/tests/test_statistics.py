"""Counters and the profiler."""

import rmm
import rmm.statistics
from rmm.statistics import ProfilerRecords, Statistics, default_profiler_records, profiler

from .support import use


def test_counters_of_an_adaptor(counted):
    assert counted.allocation_counts == Statistics(0, 0, 0, 0, 0, 0)
    kept = [rmm.DeviceBuffer(size=1000) for _ in range(10)]
    del kept[:5]
    assert counted.allocation_counts == Statistics(
        current_bytes=5 * 1000,
        current_count=5,
        peak_bytes=10 * 1000,
        peak_count=10,
        total_bytes=10 * 1000,
        total_count=10,
    )
    above = use(rmm.mr.StatisticsResourceAdaptor(counted))
    more = [rmm.DeviceBuffer(size=1000) for _ in range(2)]
    assert above.allocation_counts.total_count == 2
    assert counted.allocation_counts.total_count == 12
    del more, kept


def test_levels(counted):
    first = rmm.DeviceBuffer(size=10)
    assert counted.push_counters().total_bytes == 10
    second = rmm.DeviceBuffer(size=30)
    del first
    assert counted.allocation_counts == Statistics(20, 0, 30, 1, 30, 1)
    assert counted.pop_counters() == Statistics(20, 0, 30, 1, 30, 1)
    assert counted.allocation_counts == Statistics(30, 1, 40, 2, 40, 2)
    del second


def test_the_context():
    assert rmm.statistics.get_statistics() is None
    with rmm.statistics.statistics():
        kept = rmm.DeviceBuffer(size=20)
        assert rmm.statistics.get_statistics() == Statistics(20, 1, 20, 1, 20, 1)
        with rmm.statistics.statistics():
            also = rmm.DeviceBuffer(size=30)
            assert rmm.statistics.get_statistics() == Statistics(30, 1, 30, 1, 30, 1)
        assert rmm.statistics.get_statistics() == Statistics(50, 2, 50, 2, 50, 2)
    assert rmm.statistics.get_statistics() is None
    del kept, also


def test_pushing_and_popping():
    assert rmm.statistics.push_statistics() is None
    assert rmm.statistics.pop_statistics() is None
    rmm.statistics.enable_statistics()
    assert rmm.statistics.push_statistics() == Statistics(0, 0, 0, 0, 0, 0)
    kept = rmm.DeviceBuffer(size=10)
    assert rmm.statistics.pop_statistics() == Statistics(10, 1, 10, 1, 10, 1)
    del kept


def test_a_profiled_function():
    records = ProfilerRecords()

    @profiler(records=records)
    def outer():
        kept = rmm.DeviceBuffer(size=256)
        inner()
        del kept

    @profiler(records=records, name="inner")
    def inner():
        rmm.DeviceBuffer(size=512)

    rmm.statistics.enable_statistics()
    outer()
    inner()
    found = records.records
    (name,) = [name for name in found if name != "inner"]
    assert "outer" in name and __file__.rpartition("/")[2] in name
    assert found["inner"] == ProfilerRecords.MemoryRecord(2, 1024, 512)
    assert found[name] == ProfilerRecords.MemoryRecord(1, 768, 768)
    assert "inner" in records.report()


def test_a_profiled_block():
    rmm.statistics.enable_statistics()
    with profiler(name="a block"):
        rmm.DeviceBuffer(size=100)
    assert default_profiler_records.records["a block"].memory_total == 100
