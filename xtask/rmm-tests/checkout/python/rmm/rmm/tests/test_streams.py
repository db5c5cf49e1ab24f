"""Streams of ours and of others."""

import pytest
from cuda.core import Device
from numba import cuda

import rmm
from rmm.pylibrmm import CudaStreamFlags, CudaStreamPool
from rmm.pylibrmm.stream import (
    DEFAULT_STREAM,
    LEGACY_DEFAULT_STREAM,
    PER_THREAD_DEFAULT_STREAM,
    Stream,
)

try:
    import cupy
except ImportError:
    cupy = None


def use_stream(stream):
    buffer = rmm.DeviceBuffer.to_device(b"abc", stream=stream)
    assert buffer.tobytes(stream=stream) == b"abc"
    rmm.reinitialize(pool_allocator=True, initial_pool_size="1MiB")
    assert rmm.DeviceBuffer(size=3, stream=stream).ptr != 0
    stream.synchronize()


@pytest.mark.parametrize("flags", [None, *CudaStreamFlags])
def test_a_new_stream(flags):
    stream = Stream() if flags is None else Stream(flags=flags)
    assert not stream.is_default()
    assert stream == Stream(stream)
    assert hash(stream) == hash(Stream(stream))
    assert stream != Stream()
    use_stream(stream)


def test_default_streams():
    streams = [DEFAULT_STREAM, LEGACY_DEFAULT_STREAM, PER_THREAD_DEFAULT_STREAM]
    for handle, stream in enumerate(streams):
        assert stream.__cuda_stream__() == (0, handle)
        assert stream.is_default() == (handle < 2)
    assert len(set(streams)) == 3
    for stream in streams:
        use_stream(stream)


@pytest.mark.parametrize(
    "make",
    [
        cuda.stream,
        cuda.default_stream,
        cuda.legacy_default_stream,
        cuda.per_thread_default_stream,
    ],
)
def test_streams_of_numba(make):
    use_stream(Stream(make()))


def test_streams_of_cuda_core():
    device = Device()
    device.set_current()
    own = device.create_stream()
    stream = Stream(own)
    assert stream.__cuda_stream__() == own.__cuda_stream__()
    use_stream(stream)
    assert device.create_stream(stream).__cuda_stream__() == own.__cuda_stream__()


@pytest.mark.skipif(cupy is None, reason="CuPy is not installed")
def test_streams_of_cupy():
    use_stream(Stream(cupy.cuda.Stream()))


def test_the_protocol():
    class Own:
        def __init__(self, version):
            self.version = version

        def __cuda_stream__(self):
            return (self.version, 0)

    assert Stream(Own(0)) == DEFAULT_STREAM
    with pytest.raises(NotImplementedError, match="version: '1'"):
        Stream(Own(1))


@pytest.mark.parametrize("wrong", [1, "stream", object()])
def test_what_is_no_stream(wrong):
    with pytest.raises(TypeError):
        Stream(wrong)


def test_flags_are_for_new_streams():
    with pytest.raises(ValueError, match="flags may only be specified when obj is None"):
        Stream(Stream(), flags=CudaStreamFlags.NON_BLOCKING)


@pytest.mark.parametrize("flags", list(CudaStreamFlags))
@pytest.mark.parametrize("size", [1, 10])
def test_a_pool_of_streams(size, flags):
    pool = CudaStreamPool(pool_size=size, flags=flags)
    assert pool.get_pool_size() == size
    streams = [pool.get_stream() for _ in range(size)]
    assert len(set(streams)) == size
    assert pool.get_stream() == streams[0]
    assert pool.get_stream(size + 1) == streams[1 % size]
    use_stream(streams[0])


def test_a_pool_of_no_streams():
    with pytest.raises(RuntimeError):
        CudaStreamPool(0)
