"""Buffers: construction, contents, copies, pickles."""

import copy
import gc
import pickle
import sys
from itertools import product

import numpy as np
import pytest
from numba import cuda

import rmm
from rmm.pylibrmm.device_buffer import (
    DeviceBuffer,
    copy_device_to_ptr,
    copy_host_to_ptr,
    copy_ptr_to_host,
    to_device,
)
from rmm.pylibrmm.stream import DEFAULT_STREAM, Stream

from . import support

assert support.DTYPES


@pytest.mark.parametrize("size", [0, 5])
@pytest.mark.parametrize("pointer", ["none", "host", "device"])
@pytest.mark.parametrize("own_stream", [False, True])
def test_an_empty_buffer_or_a_copy(size, pointer, own_stream):
    stream = Stream() if own_stream else DEFAULT_STREAM
    source = np.arange(5, dtype="u1")
    there = to_device(source)
    address = {"none": 0, "host": source.ctypes.data, "device": there.ptr}[pointer]
    buffer = DeviceBuffer(ptr=address if size else 0, size=size, stream=stream)
    assert len(buffer) == buffer.size == buffer.nbytes == size
    assert sys.getsizeof(buffer) >= size
    assert (buffer.ptr != 0) == (size != 0)
    assert buffer.capacity() >= size
    stream.synchronize()
    if size and pointer != "none":
        assert buffer.tobytes(stream=stream) == bytes(range(5))
    described = buffer.__cuda_array_interface__
    assert described["data"] == (buffer.ptr, False)
    assert described["shape"] == (size,)
    assert described["strides"] is None
    assert described["typestr"] == "|u1"
    assert described["version"] == 0


@pytest.mark.parametrize("arguments", [(1,), (0, 10)])
def test_arguments_are_named(arguments):
    with pytest.raises(TypeError):
        DeviceBuffer(*arguments)


@pytest.mark.parametrize("wrong", [-1, 1 << 64])
def test_sizes_have_64_bits(wrong):
    with pytest.raises(OverflowError):
        DeviceBuffer(size=wrong)


@pytest.mark.parametrize(
    "host", [b"", b"abc", bytearray(b"abc"), memoryview(b"abc"), np.array([97, 98, 99], dtype="u1")]
)
def test_bytes_go_there_and_back(host):
    buffer = DeviceBuffer.to_device(host)
    assert buffer.size == len(host)
    assert bytes(buffer) == buffer.tobytes() == bytes(host)
    assert buffer.copy_to_host().tobytes() == bytes(host)


@pytest.mark.parametrize("host", [None, "abc", 123])
def test_what_is_no_bytes(host):
    with pytest.raises(TypeError):
        to_device(host)


@pytest.mark.parametrize(
    "host",
    [
        np.array([[97, 98]], dtype="u1"),
        np.arange(6, dtype="u1")[::2],
        np.arange(3, dtype="u4"),
        np.arange(3, dtype="i1"),
    ],
)
def test_bytes_of_another_shape(host):
    with pytest.raises(ValueError):
        to_device(host)


@pytest.mark.parametrize("kind", [np.zeros, bytearray, memoryview, None])
def test_copy_to_host(kind):
    buffer = to_device(b"abc")
    if kind is None:
        result = buffer.copy_to_host()
        assert isinstance(result, np.ndarray) and result.dtype == np.dtype("u1")
    else:
        target = {
            np.zeros: lambda: np.zeros(3, dtype="u1"),
            bytearray: lambda: bytearray(3),
            memoryview: lambda: memoryview(bytearray(3)),
        }[kind]()
        result = buffer.copy_to_host(ary=target)
        assert result is target
    assert bytes(result) == b"abc"


@pytest.mark.parametrize("length", [0, 2])
def test_a_target_that_is_too_small(length):
    with pytest.raises(ValueError, match="Argument `ary` is too small"):
        to_device(b"abc").copy_to_host(ary=np.zeros(length, dtype="u1"))


def test_a_target_that_cannot_be_written():
    with pytest.raises(BufferError):
        to_device(b"abc").copy_to_host(ary=b"xyz")


@pytest.mark.parametrize("host", [b"abc", np.array([97, 98, 99], dtype="u1")])
@pytest.mark.parametrize("own_stream", [False, True])
def test_copy_from_host(host, own_stream):
    stream = Stream() if own_stream else DEFAULT_STREAM
    buffer = DeviceBuffer(size=10, stream=stream)
    buffer.copy_from_host(host, stream=stream)
    assert buffer.tobytes(stream=stream)[:3] == b"abc"


def test_a_source_that_is_too_large():
    with pytest.raises(ValueError, match="Argument `ary` is too large"):
        DeviceBuffer(size=2).copy_from_host(b"abc")


@pytest.mark.parametrize("make", [cuda.to_device, lambda host: to_device(host)])
def test_copy_from_device(make):
    source = make(np.array([97, 98, 99], dtype="u1"))
    buffer = DeviceBuffer(size=10)
    buffer.copy_from_device(source)
    assert bytes(buffer)[:3] == b"abc"


@pytest.mark.parametrize("source", [np.zeros((2, 2), "u1"), np.arange(8, dtype="u1")[::2]])
def test_copy_from_device_of_another_shape(source):
    whole = cuda.to_device(np.ascontiguousarray(source))
    described = dict(whole.__cuda_array_interface__)
    described["shape"], described["strides"] = source.shape, source.strides

    class Described:
        __cuda_array_interface__ = described

    with pytest.raises(ValueError):
        DeviceBuffer(size=20).copy_from_device(Described())


@pytest.mark.parametrize("cuda_array", [None, "abc", np.zeros(3)])
def test_copy_from_what_is_not_there(cuda_array):
    with pytest.raises((AttributeError, TypeError, ValueError)):
        DeviceBuffer(size=20).copy_from_device(cuda_array)


def test_functions_of_the_module():
    source, target, host = to_device(b"abc"), DeviceBuffer(size=3), bytearray(3)
    copy_device_to_ptr(source.ptr, target.ptr, 3, DEFAULT_STREAM)
    copy_ptr_to_host(target.ptr, host, DEFAULT_STREAM)
    assert host == b"abc"
    copy_host_to_ptr(b"xyz", target.ptr, DEFAULT_STREAM)
    assert bytes(target) == b"xyz"


@pytest.mark.parametrize("function", ["copy_to_host", "copy_from_host", "to_device", "resize"])
def test_no_stream_is_no_stream(function):
    buffer = to_device(b"abc")
    call = {
        "copy_to_host": lambda: buffer.copy_to_host(stream=None),
        "copy_from_host": lambda: buffer.copy_from_host(b"abc", stream=None),
        "to_device": lambda: to_device(b"abc", stream=None),
        "resize": lambda: buffer.resize(1, stream=None),
    }[function]
    with pytest.raises(TypeError, match="stream argument cannot be None"):
        call()


def test_resize_keeps_contents():
    buffer = to_device(b"abc")
    buffer.resize(2)
    assert bytes(buffer) == b"ab"
    assert buffer.capacity() >= 3
    buffer.resize(1000)
    assert (buffer.size, bytes(buffer)[:2]) == (1000, b"ab")


def test_reserve_keeps_contents_and_size():
    buffer = to_device(b"abc")
    buffer.reserve(1000)
    assert (buffer.size, bytes(buffer)) == (3, b"abc")
    assert buffer.capacity() >= 1000


@pytest.mark.parametrize("size", [0, 1, 1000])
def test_memory_without_contents_is_read_and_resized(size):
    buffer = DeviceBuffer(size=size)
    described = buffer.__cuda_array_interface__
    assert set(described) == {"data", "shape", "strides", "typestr", "version"}
    host = buffer.tobytes()
    assert isinstance(host, bytes) and len(host) == size
    assert len(DeviceBuffer.to_device(host)) == size
    buffer.resize(2)
    assert buffer.size == 2 <= buffer.capacity()


@pytest.mark.parametrize("make", [copy.copy, copy.deepcopy, DeviceBuffer.copy])
def test_a_copy_has_memory_of_its_own(make):
    buffer = to_device(b"abc")
    other = make(buffer)
    assert other.ptr != buffer.ptr
    assert bytes(other) == b"abc"
    buffer.copy_from_host(b"xyz")
    assert bytes(other) == b"abc"


def test_a_copy_is_of_the_same_resource(counted):
    buffer = DeviceBuffer(size=100)
    rmm.reinitialize()
    also = buffer.copy()
    assert counted.allocation_counts.current_count == 2
    del also
    assert counted.allocation_counts.current_count == 1


@pytest.mark.parametrize(
    "size, protocol", list(product([0, 3, 1000], range(pickle.HIGHEST_PROTOCOL + 1)))
)
def test_pickles(size, protocol):
    host = bytes(range(256)) * 4
    buffer = to_device(host[:size])
    again = pickle.loads(pickle.dumps(buffer, protocol=protocol))
    assert bytes(again) == host[:size]
    assert type(again) is DeviceBuffer


@pytest.mark.parametrize("size", [0, 3])
def test_a_pickle_out_of_band(size):
    buffers = []
    text = pickle.dumps(to_device(b"abc"[:size]), protocol=5, buffer_callback=buffers.append)
    assert len(buffers) == 1
    assert isinstance(buffers[0], pickle.PickleBuffer)
    assert bytes(pickle.loads(text, buffers=buffers)) == b"abc"[:size]


def test_numba_reads_a_buffer():
    buffer = to_device(np.arange(10, dtype="u1"))
    view = cuda.as_cuda_array(buffer)
    np.testing.assert_array_equal(view.copy_to_host(), np.arange(10, dtype="u1"))


def test_a_buffer_keeps_its_resource():
    resource = rmm.mr.PoolMemoryResource(rmm.mr.CudaMemoryResource(), 1 << 20)
    buffer = DeviceBuffer(size=100, mr=resource)
    del resource
    gc.collect()
    buffer.copy_from_host(b"abc")
    assert bytes(buffer)[:3] == b"abc"
