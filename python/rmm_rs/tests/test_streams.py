"""Streams, pools of streams, and what is taken as a stream."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import pytest

from rmm_rs import DeviceBuffer, mr
from rmm_rs.pylibrmm import CudaStreamFlags, CudaStreamPool
from rmm_rs.pylibrmm.stream import (
    DEFAULT_STREAM,
    LEGACY_DEFAULT_STREAM,
    PER_THREAD_DEFAULT_STREAM,
    Stream,
)
from rmm_rs.pylibrmm.utils import as_stream

DEFAULTS = (DEFAULT_STREAM, LEGACY_DEFAULT_STREAM, PER_THREAD_DEFAULT_STREAM)


class Protocol:
    """A stream of another library."""

    def __init__(self, stream: Stream, version: int = 0) -> None:
        self.stream, self.version = stream, version

    def __cuda_stream__(self) -> tuple[int, int]:
        return (self.version, self.stream.__cuda_stream__()[1])


def test_default_streams_have_cudas_handles() -> None:
    assert [stream.__cuda_stream__() for stream in DEFAULTS] == [(0, 0), (0, 1), (0, 2)]
    assert [stream.is_default() for stream in DEFAULTS] == [True, True, False]
    assert len(set(DEFAULTS)) == 3
    for stream in DEFAULTS:
        stream.synchronize()


def test_streams_are_equal_by_handle() -> None:
    stream = Stream()
    same = Stream(stream)
    assert stream == same and hash(stream) == hash(same) and {stream: 1}[same] == 1
    assert stream != Stream() and stream != stream.__cuda_stream__()[1] and stream != None  # noqa: E711
    assert stream.__cuda_stream__() == same.__cuda_stream__()
    assert not stream.is_default()


@pytest.mark.parametrize("flags", [*CudaStreamFlags, 0, 1])
def test_flags_make_a_stream(flags: Any) -> None:
    Stream(flags=flags).synchronize()
    CudaStreamPool(2, flags).get_stream().synchronize()


def test_a_handle_may_come_in_a_list() -> None:
    class Listed(Protocol):
        def __cuda_stream__(self) -> Any:
            return list(super().__cuda_stream__())

    own = Stream()
    assert Stream(Listed(own)) == own
    with pytest.raises(ValueError, match="length 2"):
        Stream(type("Three", (), {"__cuda_stream__": lambda self: (0, 0, 0)})())


def test_flags_are_for_new_streams() -> None:
    with pytest.raises(ValueError, match="^flags may only be specified when obj is None"):
        Stream(Stream(), CudaStreamFlags.NON_BLOCKING)
    with pytest.raises(ValueError):
        Stream(flags=7)


def test_a_copy_keeps_the_stream_that_it_is_of() -> None:
    stream = Stream()
    same = Stream(stream)
    del stream
    gc.collect()
    same.synchronize()
    DeviceBuffer(size=10, stream=same)


def test_the_protocol_makes_a_stream() -> None:
    own = Stream()
    foreign = Protocol(own)
    stream = Stream(foreign)
    assert stream == own
    kept = weakref.ref(foreign)
    del foreign
    gc.collect()
    assert kept() is not None, "the stream keeps the object"
    del stream
    assert kept() is None
    with pytest.raises(NotImplementedError, match="version: '3'"):
        Stream(Protocol(own, version=3))
    for wrong in (3, "stream", object()):
        with pytest.raises(TypeError, match="^Cannot create stream from "):
            Stream(wrong)


def test_an_argument_may_be_of_another_library() -> None:
    own = Stream()
    foreign = Protocol(own)
    assert as_stream(own) is own and as_stream(foreign) == own
    pool = mr.PoolMemoryResource(mr.CudaMemoryResource(), "1MiB")
    for _ in range(3):
        buffer = DeviceBuffer(size=100, stream=foreign, mr=pool)
        assert buffer.stream == own
        pool.deallocate(pool.allocate(100, foreign), 100, foreign)
        buffer.resize(1000, stream=foreign)
        assert len(buffer.tobytes(foreign)) == 1000
    with pytest.raises(TypeError):
        as_stream(None)  # type: ignore[arg-type]


def _class_of(module: str, name: str) -> type:
    return type(name, (), {"__module__": module})


@pytest.mark.parametrize(
    ("module", "name", "attributes"),
    [
        ("cupy.cuda.stream", "Stream", lambda own: {"ptr": own.__cuda_stream__()[1]}),
        ("cupy.cuda.stream", "ExternalStream", lambda own: {"ptr": own.__cuda_stream__()[1]}),
        ("numba.cuda.cudadrv.driver", "Stream",
         lambda own: {"__int__": lambda self: own.__cuda_stream__()[1], "external": False}),
    ],
)
def test_older_streams_are_known_by_their_classes(
    module: str, name: str, attributes: Any
) -> None:
    own = Stream()
    foreign = type(name, (), {"__module__": module, **attributes(own)})()
    stream = Stream(foreign)
    assert stream == own
    pool = mr.PoolMemoryResource(mr.CudaMemoryResource(), "1MiB")
    DeviceBuffer(size=10, stream=stream, mr=pool)
    stream.synchronize()


def test_a_pool_hands_streams_out_in_turn() -> None:
    pool = CudaStreamPool(3)
    assert (pool.get_pool_size(), CudaStreamPool().get_pool_size()) == (3, 16)
    streams = [pool.get_stream() for _ in range(6)]
    assert streams[:3] == streams[3:] and len(set(streams)) == 3
    assert pool.get_stream(4) == streams[1] == pool.get_stream(stream_id=1)
    kept = weakref.ref(pool)
    del pool
    gc.collect()
    assert kept() is not None, "the streams keep their pool"
    streams[0].synchronize()
    del streams
    gc.collect()
    assert kept() is None
    with pytest.raises(RuntimeError):
        CudaStreamPool(0)
    with pytest.raises(OverflowError):
        CudaStreamPool(-1)
    with pytest.raises(TypeError):
        type("Derived", (CudaStreamPool,), {})


def test_a_stream_can_be_derived_from() -> None:
    class Named(Stream):
        pass

    assert Named() != Named()
