"""`ElasticBuffer`: memory that grows and shrinks in place."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rmm_rs import DeviceBuffer, ElasticBuffer, mr
from rmm_rs.pylibrmm.device_buffer import copy_device_to_ptr
from rmm_rs.pylibrmm.stream import DEFAULT_STREAM, Stream

PAGE = 2 << 20


def test_ranges_come_and_go() -> None:
    buffer = ElasticBuffer(8 * PAGE - 1)
    assert (buffer.capacity, buffer.page_size) == (8 * PAGE, PAGE)
    assert type(buffer.mr) is mr.VirtualMemoryResource
    assert buffer.committed() == []
    assert buffer.__cuda_array_interface__["data"] == (0, False)
    buffer.commit(0, 2 * PAGE)
    buffer.commit(4 * PAGE, PAGE)
    assert buffer.committed() == [(0, 2 * PAGE), (4 * PAGE, PAGE)]
    assert buffer.__cuda_array_interface__ == {
        "data": (buffer.ptr, False),
        "shape": (2 * PAGE,),
        "strides": None,
        "typestr": "|u1",
        "version": 0,
    }
    assert buffer.decommit(0, PAGE) == PAGE
    assert buffer.committed() == [(PAGE, PAGE), (4 * PAGE, PAGE)]
    assert buffer.__cuda_array_interface__["shape"] == (0,)
    assert repr(buffer).endswith(f"{2 * PAGE} of {8 * PAGE} bytes are committed)")


def test_wrong_ranges_are_named() -> None:
    buffer = ElasticBuffer(4 * PAGE)
    buffer.commit(PAGE, PAGE)
    with pytest.raises(ValueError, match=r"1\.\.2097153 of 8388608: the range is not"):
        buffer.commit(1, PAGE)
    with pytest.raises(ValueError, match="the range is empty"):
        buffer.commit(0, 0)
    with pytest.raises(ValueError, match="the page at 2097152 is committed"):
        buffer.commit(0, 2 * PAGE)
    with pytest.raises(IndexError, match=r"8388608\.\.10485760 of 8388608"):
        buffer.commit(4 * PAGE, PAGE)
    with pytest.raises(IndexError, match="the page at 0 is not committed"):
        buffer.decommit(0, 2 * PAGE, blocking=True)
    with pytest.raises(IndexError):
        buffer.record_stream(DEFAULT_STREAM, 0, 1)
    with pytest.raises(ValueError):
        ElasticBuffer(0)
    with pytest.raises(MemoryError):
        big = ElasticBuffer(1 << 46)
        big.commit(0, 1 << 46)


def test_work_that_was_recorded_is_waited_for() -> None:
    buffer, stream = ElasticBuffer(4 * PAGE), Stream()
    buffer.commit(0, PAGE)
    source = DeviceBuffer.to_device(bytes(1000))
    copy_device_to_ptr(source.ptr, buffer.ptr, 1000, stream)
    buffer.record_stream(stream)
    buffer.record_stream(stream, 0, 1000)
    while not (bytes_returned := buffer.decommit(0, PAGE)):
        stream.synchronize()
    assert bytes_returned == PAGE
    buffer.commit(0, PAGE)
    copy_device_to_ptr(source.ptr, buffer.ptr, 1000, stream)
    buffer.record_stream(stream)
    assert buffer.decommit(0, PAGE, blocking=True) == PAGE
    buffer.end_graph_uses()


BEHIND_A_GAP = """
from rmm_rs import DeviceBuffer, ElasticBuffer
from rmm_rs.pylibrmm.device_buffer import copy_device_to_ptr
from rmm_rs.pylibrmm.stream import Stream

page = 2 << 20
buffer, stream = ElasticBuffer(8 * page), Stream()
buffer.commit(4 * page, 2 * page)
source = DeviceBuffer.to_device(bytes(1000))
copy_device_to_ptr(source.ptr, buffer.ptr + 5 * page, 1000, stream)
buffer.record_stream(stream, 4 * page)
assert buffer.decommit(5 * page, page, blocking=True) == page
"""


def test_a_range_behind_a_gap_is_recorded(run: Callable[..., Any], tmp_path: Path) -> None:
    result = run(BEHIND_A_GAP, env={"RMM_SIM_REPORT": str(tmp_path)})
    assert (result.returncode, result.stderr) == (0, "")
    for report in tmp_path.iterdir():
        assert "freed while in use" not in report.read_text()
    with pytest.raises(IndexError, match="the page at 2097152 is not committed"):
        ElasticBuffer(2 * PAGE).record_stream(DEFAULT_STREAM, PAGE)


IN_A_CALLBACK = """
from rmm_rs import DeviceBuffer, ElasticBuffer, mr

page = 2 << 20
buffer = ElasticBuffer(64 * page)
buffer.commit(0, page)
pool = mr.PoolMemoryResource(mr.VirtualMemoryResource(), 0)
guard = pool.on_segment(lambda event, segment: buffer.committed())
DeviceBuffer(size=20 * page, mr=pool)  # the pool keeps its memory
buffer.commit(4 * page, 20 * page)
assert buffer.committed() == [(0, page), (4 * page, 20 * page)]
"""


def test_a_callback_of_a_pool_may_use_the_buffer_that_asks_for_memory(
    run: Callable[..., Any],
) -> None:
    result = run(IN_A_CALLBACK, env={"RMM_SIM_MEMORY": str(64 << 20)})
    assert (result.returncode, result.stderr) == (0, "")


def test_it_is_of_virtual_memory_itself() -> None:
    resource = mr.VirtualMemoryResource()
    buffer = ElasticBuffer(PAGE, resource)
    assert buffer.mr is resource
    buffer.commit(0, PAGE)
    for other in [mr.CudaMemoryResource(), mr.PoolMemoryResource(resource)]:
        with pytest.raises(TypeError, match="VirtualMemoryResource itself"):
            ElasticBuffer(PAGE, mr=other)


def test_it_ends_with_its_last_reference() -> None:
    buffer = ElasticBuffer(PAGE)
    buffer.commit(0, PAGE)
    end = weakref.ref(buffer)
    del buffer
    gc.collect()
    assert end() is None
