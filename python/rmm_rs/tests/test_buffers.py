"""`DeviceBuffer` and the functions beside it."""

from __future__ import annotations

import copy
import gc
import pickle
import sys
import weakref

import numpy as np
import pytest

import rmm_rs
from rmm_rs import DeviceBuffer, mr
from rmm_rs.pylibrmm.device_buffer import (
    copy_device_to_ptr,
    copy_host_to_ptr,
    copy_ptr_to_host,
    to_device,
)
from rmm_rs.pylibrmm.stream import DEFAULT_STREAM, PER_THREAD_DEFAULT_STREAM, Stream


@pytest.mark.parametrize("size", [0, 1, 4, 1000])
def test_a_buffer_has_a_size(size: int) -> None:
    buffer = DeviceBuffer(size=size)
    assert (buffer.size, buffer.nbytes, len(buffer), buffer.capacity()) == (size,) * 4
    assert (buffer.ptr == 0) == (size == 0)
    assert buffer.__sizeof__() == size and sys.getsizeof(buffer) >= size
    with pytest.raises(AttributeError):
        buffer.size = 3  # type: ignore[misc]


def test_arguments_are_keywords() -> None:
    with pytest.raises(TypeError):
        DeviceBuffer(0, 4)  # type: ignore[call-arg]


@pytest.mark.parametrize(
    "stream", [DEFAULT_STREAM, PER_THREAD_DEFAULT_STREAM, Stream()], ids=["0", "2", "own"]
)
@pytest.mark.parametrize("size", [0, 1, 5000])
def test_contents_come_back(stream: Stream, size: int) -> None:
    contents = np.arange(size).astype("u1")
    buffer = to_device(contents, stream=stream)
    stream.synchronize()
    assert buffer.tobytes(stream=stream) == contents.tobytes()
    assert bytes(buffer) == contents.tobytes()
    array = buffer.copy_to_host(stream=stream)
    assert isinstance(array, np.ndarray) and array.dtype == np.uint8
    np.testing.assert_array_equal(array, contents)
    target = bytearray(size + 3)
    assert buffer.copy_to_host(target) is target
    assert target[:size] == contents.tobytes()


def test_a_buffer_copies_from_an_address() -> None:
    source = np.arange(10, dtype="u1")
    buffer = DeviceBuffer(ptr=source.ctypes.data, size=10)
    assert bytes(buffer) == source.tobytes()
    again = DeviceBuffer(ptr=buffer.ptr, size=4)
    assert bytes(again) == source[:4].tobytes()


def test_copies_go_into_a_buffer() -> None:
    buffer = to_device(bytes(10))
    buffer.copy_from_host(b"abc")
    other = to_device(b"xyzw")
    assert bytes(buffer) == b"abc" + bytes(7)
    buffer.copy_from_device(other)
    assert bytes(buffer) == b"xyzw" + bytes(6)
    copy_device_to_ptr(other.ptr, buffer.ptr + 4, 4)
    copy_host_to_ptr(b"!", buffer.ptr + 8)
    host = bytearray(10)
    copy_ptr_to_host(buffer.ptr, host)
    assert host == b"xyzwxyzw!" + bytes(1)


@pytest.mark.parametrize(
    ("interface", "refused"),
    [({"shape": (2, 2)}, "1-D"), ({"shape": (2,), "strides": (16,)}, "non-contiguous"),
     ({"shape": (20,)}, "too large")],
)
def test_arrays_that_do_not_fit_are_refused(interface: dict[str, object], refused: str) -> None:
    buffer = DeviceBuffer(size=80)

    class Array:
        __cuda_array_interface__ = {
            "data": (buffer.ptr, False), "strides": None, "typestr": "<f8", "version": 3,
            **interface,
        }

    with pytest.raises(ValueError, match=refused):
        buffer.copy_from_device(Array())
    with pytest.raises(ValueError):
        buffer.copy_from_device(b"host")  # type: ignore[arg-type]


def test_a_buffer_has_numbas_array_interface() -> None:
    buffer = DeviceBuffer(size=3)
    assert buffer.__cuda_array_interface__ == {
        "data": (buffer.ptr, False), "shape": (3,), "strides": None, "typestr": "|u1", "version": 0,
    }


def test_a_copy_is_of_the_sources_resource_and_stream() -> None:
    stream = Stream()
    resource = mr.StatisticsResourceAdaptor(mr.CudaMemoryResource())
    buffer = DeviceBuffer(size=5, stream=stream, mr=resource)
    buffer.copy_from_host(b"hello")
    for copied in (buffer.copy(), copy.copy(buffer)):
        stream.synchronize()
        assert bytes(copied) == b"hello"
        assert copied.ptr != buffer.ptr
        assert copied.mr is resource and copied.stream is stream
    assert resource.allocation_counts.total_count == 3


@pytest.mark.parametrize("stream", [DEFAULT_STREAM, Stream()], ids=["0", "own"])
def test_a_buffer_keeps_its_contents_as_it_grows(stream: Stream) -> None:
    resource = mr.TrackingResourceAdaptor(mr.CudaMemoryResource())
    mr.set_current_device_resource(resource)
    buffer = to_device(b"0123456789")
    former = buffer.ptr
    buffer.resize(4, stream=stream)
    assert (buffer.size, buffer.capacity(), buffer.ptr) == (4, 10, former)
    assert buffer.stream is stream
    buffer.reserve(1000, stream=stream)
    assert (buffer.size, buffer.capacity()) == (4, 1000)
    assert buffer.tobytes(stream=stream) == b"0123"
    buffer.resize(2000, stream=stream)
    assert (buffer.size, buffer.capacity()) == (2000, 2000)
    assert buffer.tobytes(stream=stream)[:4] == b"0123"
    assert resource.get_allocated_bytes() == 2000
    buffer.resize(0, stream=stream)
    assert (buffer.size, buffer.ptr) == (0, 0)
    del buffer
    assert resource.get_allocated_bytes() == 0


@pytest.mark.parametrize("protocol", range(2, pickle.HIGHEST_PROTOCOL + 1))
def test_a_buffer_is_pickled(protocol: int) -> None:
    buffer = to_device(b"contents")
    assert bytes(pickle.loads(pickle.dumps(buffer, protocol))) == b"contents"


@pytest.mark.parametrize("contents", [b"", b"contents"])
def test_a_pickle_has_one_buffer_out_of_band(contents: bytes) -> None:
    lent: list[pickle.PickleBuffer] = []
    frame = pickle.dumps(to_device(contents), 5, buffer_callback=lent.append)
    assert len(lent) == 1
    assert b"rmm_rs.pylibrmm.device_buffer" in frame
    assert bytes(pickle.loads(frame, buffers=lent)) == contents


def test_a_buffer_keeps_its_resource() -> None:
    resource = mr.StatisticsResourceAdaptor(mr.CudaMemoryResource())
    buffer = DeviceBuffer(size=10, mr=resource)
    kept = weakref.ref(resource)
    del resource
    gc.collect()
    assert kept() is buffer.mr
    del buffer
    assert kept() is None


def test_a_buffer_is_of_the_resource_at_its_beginning() -> None:
    before = mr.get_current_device_resource()
    buffer = DeviceBuffer(size=10)
    mr.set_current_device_resource(mr.PoolMemoryResource(mr.CudaMemoryResource(), "1MiB"))
    assert buffer.mr is before
    assert DeviceBuffer(size=10).mr is mr.get_current_device_resource()


def test_the_stream_of_a_buffer_may_go_first() -> None:
    stream = Stream()
    buffer = DeviceBuffer(size=10, stream=stream)
    del stream
    gc.collect()
    del buffer


def test_managed_memory_is_prefetched() -> None:
    managed = DeviceBuffer(size=4096, mr=mr.ManagedMemoryResource())
    for device in (None, 0, -1):
        managed.prefetch(device=device)
        managed.prefetch(device=device, stream=Stream())
    DeviceBuffer(size=4096).prefetch()


def test_a_buffer_can_be_derived_from() -> None:
    class Named(DeviceBuffer):
        name = "name"

    buffer = Named(size=3)
    buffer.other = 1  # type: ignore[attr-defined]
    assert (buffer.name, buffer.size) == ("name", 3)
    assert weakref.ref(buffer)() is buffer


def test_buffers_have_no_host_memory_to_lend() -> None:
    with pytest.raises(TypeError):
        memoryview(rmm_rs.DeviceBuffer(size=3))  # type: ignore[arg-type]
