"""Libraries that move memory by themselves register whole segments of a pool: NCCL and cuFile."""

from __future__ import annotations

import ctypes
import os
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

if "RMM_CUDA_LIBRARY" in os.environ:
    reason = "needs a GPU: CUDA's runtime does not start on the software driver"
    pytest.skip(reason, allow_module_level=True)

import rmm_rs  # noqa: E402
from rmm_rs import DeviceBuffer, mr  # noqa: E402

MIB = 1 << 20


pytestmark = pytest.mark.filterwarnings("default")


def library(name: str) -> ctypes.CDLL:
    """A library of NVIDIA's wheels or of the system."""
    of_wheels = [found for path in sys.path for found in Path(path).glob(f"nvidia/*/lib/{name}")]
    for candidate in [*map(str, of_wheels), name]:
        try:
            return ctypes.CDLL(candidate, mode=ctypes.RTLD_GLOBAL)
        except OSError as error:
            reason = str(error)
    pytest.skip(f"{name} is not there: {reason}")


class Registry:
    """What a library has registered. Registering and deregistering raise what the library says."""

    def __init__(self) -> None:
        self.sizes: dict[int, int] = {}
        self.calls = 0

    def __call__(self, event: str, segment: rmm_rs.Segment) -> None:
        self.calls += 1
        if event == "added":
            self.register(segment.ptr, segment.size)
            self.sizes[segment.ptr] = segment.size
        else:
            self.deregister(segment.ptr)
            del self.sizes[segment.ptr]

    def register(self, pointer: int, size: int) -> None:
        raise NotImplementedError

    def deregister(self, pointer: int) -> None:
        raise NotImplementedError


class Nccl(Registry):
    """A communicator of one rank."""

    def __init__(self) -> None:
        super().__init__()
        self.library = library("libnccl.so.2")
        self.library.ncclGetErrorString.restype = ctypes.c_char_p
        self.handles: dict[int, ctypes.c_void_p] = {}
        self.communicator = ctypes.c_void_p()
        self.call("ncclCommInitAll", ctypes.byref(self.communicator), 1, None)

    def call(self, name: str, *arguments: Any) -> None:
        code = getattr(self.library, name)(*arguments)
        if code != 0:
            text = self.library.ncclGetErrorString(code).decode()
            raise RuntimeError(f"{name}: {text}")

    def register(self, pointer: int, size: int) -> None:
        handle = ctypes.c_void_p()
        pair = ctypes.c_void_p(pointer), ctypes.c_size_t(size)
        self.call("ncclCommRegister", self.communicator, *pair, ctypes.byref(handle))
        self.handles[pointer] = handle

    def deregister(self, pointer: int) -> None:
        self.call("ncclCommDeregister", self.communicator, self.handles.pop(pointer))

    def sum(self, source: DeviceBuffer, target: DeviceBuffer) -> None:
        """The sum over all ranks, on the default stream."""
        uint8, total = 1, 0
        pointers = ctypes.c_void_p(source.ptr), ctypes.c_void_p(target.ptr)
        size = ctypes.c_size_t(source.size)
        self.call("ncclAllReduce", *pointers, size, uint8, total, self.communicator, None)

    def close(self) -> None:
        self.call("ncclCommDestroy", self.communicator)


class CuFileError(ctypes.Structure):
    _fields_ = (("code", ctypes.c_int), ("of_driver", ctypes.c_int))


class Description(ctypes.Structure):
    """Of a file: its kind, 1 for a descriptor; the descriptor; functions of a file system."""

    _fields_ = (("kind", ctypes.c_int), ("file", ctypes.c_int64), ("functions", ctypes.c_void_p))


class CuFile(Registry):
    def __init__(self) -> None:
        super().__init__()
        self.library = library("libcufile.so.0")
        try:
            self.call("cuFileDriverOpen")
        except RuntimeError as error:
            pytest.skip(str(error))

    def call(self, name: str, *arguments: Any) -> None:
        function = getattr(self.library, name)
        function.restype = CuFileError
        error = function(*arguments)
        if error.code != 0:
            raise RuntimeError(f"{name}: {error.code}, of the driver {error.of_driver}")

    def register(self, pointer: int, size: int) -> None:
        self.call("cuFileBufRegister", ctypes.c_void_p(pointer), ctypes.c_size_t(size), 0)

    def deregister(self, pointer: int) -> None:
        self.call("cuFileBufDeregister", ctypes.c_void_p(pointer))

    def move(self, name: str, file: ctypes.c_void_p, buffer: DeviceBuffer) -> None:
        """`cuFileWrite` or `cuFileRead` of a buffer, by its place in the registered segment."""
        (base,) = (it for it, size in self.sizes.items() if it <= buffer.ptr < it + size)
        move = getattr(self.library, name)
        move.restype = ctypes.c_ssize_t
        of_buffer = ctypes.c_void_p(base), ctypes.c_size_t(buffer.size)
        moved = move(file, *of_buffer, ctypes.c_int64(0), ctypes.c_int64(buffer.ptr - base))
        assert moved == buffer.size, f"{name}: {moved}"

    def close(self) -> None:
        self.call("cuFileDriverClose")


UPSTREAMS = {"virtual": mr.VirtualMemoryResource, "cuda": mr.CudaMemoryResource}


@pytest.fixture(params=UPSTREAMS)
def pool(request: pytest.FixtureRequest) -> Iterator[mr.PoolMemoryResource]:
    upstream = UPSTREAMS[request.param]()
    pool = mr.PoolMemoryResource(upstream, 0, segment_size=32 * MIB, single_handle=True)
    mr.set_current_device_resource(pool)
    yield pool


def registers_all(pool: mr.PoolMemoryResource, registry: Registry) -> list[DeviceBuffer]:
    """The library has each segment, and is called for none of 100,000 hits."""
    sizes = {it.ptr: it.size for it in pool.segments()}
    assert sizes and registry.sizes == sizes
    calls = registry.calls
    for _ in range(100_000):
        pool.deallocate(pool.allocate(4096), 4096)
    assert registry.calls == calls
    buffers = [DeviceBuffer(size=40 * MIB) for _ in range(3)]
    assert registry.calls > calls
    assert registry.sizes == {it.ptr: it.size for it in pool.segments()}
    return buffers


def test_nccl_registers_segments(pool: mr.PoolMemoryResource) -> None:
    source = DeviceBuffer.to_device(bytes(range(256)) * 4096)
    nccl = Nccl()
    with pool.on_segment(nccl):
        buffers = registers_all(pool, nccl)
        target = DeviceBuffer(size=source.size)
        nccl.sum(source, target)
        rmm_rs.pylibrmm.stream.DEFAULT_STREAM.synchronize()
        assert target.tobytes() == source.tobytes()
        size = pool.pool_size()
        del buffers
        assert pool.trim(0, wait=True) > 0 and pool.pool_size() < size
        assert nccl.sizes == {it.ptr: it.size for it in pool.segments()}
    assert (nccl.sizes, nccl.handles) == ({}, {})
    nccl.close()


def test_cufile_registers_segments(pool: mr.PoolMemoryResource, tmp_path: Path) -> None:
    source = DeviceBuffer.to_device(bytes(range(256)) * 4096)
    cufile = CuFile()
    with pool.on_segment(cufile), (tmp_path / "file").open("w+b") as file:
        buffers = registers_all(pool, cufile)
        handle = ctypes.c_void_p()
        description = Description(1, file.fileno(), None)
        try:
            cufile.call("cuFileHandleRegister", ctypes.byref(handle), ctypes.byref(description))
        except RuntimeError as error:
            # cuFile refuses the file system of temporary files. Segments are registered all the same.
            warnings.warn(f"no bytes are moved: {error}", stacklevel=1)
        else:
            target = DeviceBuffer(size=source.size)
            cufile.move("cuFileWrite", handle, source)
            cufile.move("cuFileRead", handle, target)
            cufile.library.cuFileHandleDeregister(handle)
            assert target.tobytes() == source.tobytes()
            assert (tmp_path / "file").read_bytes() == source.tobytes()
        size = pool.pool_size()
        del buffers
        assert pool.trim(0, wait=True) > 0 and pool.pool_size() < size
        assert cufile.sizes == {it.ptr: it.size for it in pool.segments()}
    assert cufile.sizes == {}
    cufile.close()
