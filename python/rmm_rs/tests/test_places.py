"""Buffers on a default stream that are used, or end, elsewhere than where they were made: with
another device current, on another thread, or both.

The handle of a default stream names another stream there. Work of the buffer's own default stream is
pending, and what comes next has to be ordered after it: the software driver reports what is not.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import pytest

pytestmark = pytest.mark.skipif(
    "RMM_CUDA_LIBRARY" not in os.environ, reason="the software driver checks the order"
)

RESOURCES = {
    "cuda": "mr.CudaMemoryResource()",
    "async": "mr.CudaAsyncMemoryResource(release_threshold=1 << 24)",
    "pinned": "mr.PinnedHostMemoryResource()",
    "managed": "mr.ManagedMemoryResource()",
    "pool": "mr.PoolMemoryResource(mr.CudaMemoryResource(), '16MiB')",
    "arena": "mr.ArenaMemoryResource(mr.CudaMemoryResource(), '16MiB')",
    "fixed size": "mr.FixedSizeMemoryResource(mr.CudaMemoryResource(), 1 << 20)",
    "bins": "bins()",
    "fallback": "mr.FallbackMemoryResource(mr.CudaAsyncMemoryResource(release_threshold=1 << 24),"
    " mr.CudaMemoryResource())",
    "callback": "callback()",
}

#: The buffer is made by `make` and given to `use` where the key says.
PLACES = {
    "another device": "buffer = make(); setDevice(1); use(buffer)",
    "another thread": "use(elsewhere(make))",
    "a thread that ended": "use(elsewhere(make, ends=True))",
    "another device and thread": "buffer = elsewhere(make); setDevice(1); use(buffer)",
}

PROGRAM = """
import ctypes, gc, os, pickle, threading
import numpy
from rmm_rs import DeviceBuffer, mr
from rmm_rs._cuda.gpu import setDevice
from rmm_rs.pylibrmm import CudaStreamFlags
from rmm_rs.pylibrmm import stream as streams

SIZE = 1 << 18
driver = ctypes.CDLL(os.environ["RMM_CUDA_LIBRARY"])
setDevice(1)
setDevice(0)

def write(address, handle):
    memory = ctypes.c_uint64(address), ctypes.c_ubyte(1), ctypes.c_size_t(SIZE)
    assert driver.cuMemsetD8Async(*memory, ctypes.c_void_p(handle)) == 0

def wait():
    setDevice(0)
    assert driver.cuCtxSynchronize() == 0

def callback():
    pool = mr.CudaAsyncMemoryResource(release_threshold=1 << 24)
    return mr.CallbackMemoryResource(pool.allocate, pool.deallocate)

def bins():
    made = mr.BinningMemoryResource(mr.PoolMemoryResource(mr.CudaMemoryResource(), "16MiB"))
    made.add_bin(1 << 20, mr.CudaAsyncMemoryResource(release_threshold=1 << 24))
    return made

def elsewhere(make, *, ends=False):
    made, done, left = [], threading.Event(), threading.Event()
    def work():
        setDevice(0)
        made.append(make())
        done.set()
        left.wait(0 if ends else 60)
    thread = threading.Thread(target=work)
    thread.start()
    assert done.wait(60)
    if ends:
        thread.join()
    else:
        threads.append((thread, left))
    return made.pop()

def free(buffer):
    pass

def collect(buffer):
    cycle = [buffer]
    cycle.append(cycle)

def copy(buffer):
    other = buffer.copy()
    setDevice(0)
    write(other.ptr, handle)

def tensor(**options):
    def export(buffer):
        capsule = buffer.__dlpack__(**options)
        consumer = options["stream"] or 1
        if options.get("copy"):
            return
        setDevice(0)
        write(buffer.ptr, consumer)
        wait()
    return export

ways = {
    "free": free,
    "collect": collect,
    "copy": copy,
    "resize": lambda buffer: buffer.resize(2 * SIZE, stream=stream),
    "shrink": lambda buffer: buffer.resize(10, stream=stream),
    "reserve": lambda buffer: buffer.reserve(2 * SIZE, stream=stream),
    "tobytes": lambda buffer: buffer.tobytes(stream=stream),
    "copy_to_host": lambda buffer: buffer.copy_to_host(host, stream=stream),
    "copy_from_host": lambda buffer: buffer.copy_from_host(host, stream=stream),
    "copy_from_device": lambda buffer: buffer.copy_from_device(other, stream=stream),
    "pickle": pickle.dumps,
    "prefetch": lambda buffer: buffer.prefetch(0),
    "tensor": tensor(stream=None),
    "tensor on 1": tensor(stream=1),
    "tensor on 2": tensor(stream=2),
    "tensor of a copy": tensor(stream=1, copy=True),
}
gc.disable()
host = numpy.zeros(SIZE, numpy.uint8)
threads = []
for stream in (streams.DEFAULT_STREAM, streams.LEGACY_DEFAULT_STREAM, streams.PER_THREAD_DEFAULT_STREAM):
    handle = stream.__cuda_stream__()[1]
    for name, way in ways.items():
        setDevice(0)
        resource = {resource}
        other = DeviceBuffer(size=SIZE, mr=resource)
        write(other.ptr, 0)
        wait()

        def make():
            buffer = DeviceBuffer(size=SIZE, stream=stream, mr=resource)
            write(buffer.ptr, handle)
            return buffer

        def use(buffer):
            way(buffer)

        {place}
        buffer = None
        gc.collect()
        # Whoever gets the memory next, on a stream that waits for no other.
        setDevice(0)
        next_stream = streams.Stream(flags=CudaStreamFlags.NON_BLOCKING)
        next_handle = next_stream.__cuda_stream__()[1]
        new = [DeviceBuffer(size=SIZE, stream=next_stream, mr=resource) for _ in range(3)]
        for one in new:
            write(one.ptr, next_handle)
        wait()
        del new, one, other, resource
for thread, left in threads:
    left.set()
    thread.join()
"""


@pytest.mark.usefixtures("checked")
@pytest.mark.parametrize("resource", RESOURCES)
@pytest.mark.parametrize("place", PLACES)
def test_what_follows_comes_after_the_own_default_stream(
    run: Callable[..., Any], place: str, resource: str
) -> None:
    code = PROGRAM.replace("{resource}", RESOURCES[resource]).replace("{place}", PLACES[place])
    result = run(code, env={"RMM_SIM_DEVICES": "2"})
    assert (result.returncode, result.stderr) == (0, "")
