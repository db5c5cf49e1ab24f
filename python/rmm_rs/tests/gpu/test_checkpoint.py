"""A process whose memory is a pool's is checkpointed and restored by the driver: bytes are equal."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, Protocol

import pytest

if "RMM_CUDA_LIBRARY" in os.environ:
    reason = "needs a GPU: the software driver has no checkpoints"
    pytest.skip(reason, allow_module_level=True)

import rmm_rs  # noqa: E402

pytestmark = pytest.mark.filterwarnings("default")

#: Without an export, and with one: a pool's memory that was made for it, exported while it lives.
KINDS = {
    "pool": "rmm_rs.default_pool()",
    "pool for export": "mr.PoolMemoryResource(mr.VirtualMemoryResource(export='posix_fd'), 0)",
    "export": "mr.PoolMemoryResource(mr.VirtualMemoryResource(export='posix_fd'), 0)",
}

PROGRAM = """
import sys

import rmm_rs
from rmm_rs import DeviceBuffer, mr

pool = {pool}
mr.set_current_device_resource(pool)
sizes = [1000, 3 << 20, 100 << 20, 5 << 20]
contents = [bytes([1 + place]) * size for place, size in enumerate(sizes)]
buffers = [DeviceBuffer.to_device(content) for content in contents]
del buffers[3], contents[3]
pieces = rmm_rs.export(buffers[1]) if {exports} else []
pointers = [buffer.ptr for buffer in buffers]
held = pool.pool_size() if hasattr(pool, "pool_size") else 0
print("ready", held, flush=True)
sys.stdin.readline()
assert [buffer.ptr for buffer in buffers] == pointers
assert [buffer.tobytes() for buffer in buffers] == contents
more = [DeviceBuffer.to_device(content) for content in contents]
assert [buffer.tobytes() for buffer in more] == contents
if pieces:
    # The driver that made the handle maps it as before.
    with rmm_rs.import_memory(pieces) as memory:
        copy = DeviceBuffer(ptr=memory.ptr, size=memory.size)
        assert copy.tobytes() == contents[1]
print("equal", flush=True)
"""


class Checkpoints(Protocol):
    def lock(self, timeout_ms: int) -> None: ...
    def checkpoint(self) -> None: ...
    def restore(self) -> None: ...
    def unlock(self) -> None: ...


class OfDriver:
    """The driver's own calls, where cuda.core is not there."""

    def __init__(self, process: int) -> None:
        self.process = process
        self.driver = ctypes.CDLL("libcuda.so.1")
        self.call("cuInit", 0)

    def call(self, name: str, *arguments: Any) -> None:
        code = getattr(self.driver, name)(*arguments)
        if code != 0:
            raise RuntimeError(f"{name}: {code}")

    def lock(self, timeout_ms: int) -> None:
        arguments = (ctypes.c_uint * 16)(timeout_ms)
        self.call("cuCheckpointProcessLock", self.process, arguments)

    def checkpoint(self) -> None:
        self.call("cuCheckpointProcessCheckpoint", self.process, None)

    def restore(self) -> None:
        self.call("cuCheckpointProcessRestore", self.process, None)

    def unlock(self) -> None:
        self.call("cuCheckpointProcessUnlock", self.process, None)


def checkpoints(process: int) -> Checkpoints:
    try:
        from cuda.core.checkpoint import Process
    except ImportError:
        return OfDriver(process)
    OfDriver(process)
    found: Checkpoints = Process(process)
    return found


@pytest.mark.parametrize("kind", KINDS)
def test_a_pool_is_checkpointed_and_restored(kind: str) -> None:
    program = PROGRAM.replace("{pool}", KINDS[kind]).replace("{exports}", str(kind == "export"))
    package = str(Path(rmm_rs.__file__).resolve().parents[1])
    path = os.pathsep.join(filter(None, [package, os.environ.get("PYTHONPATH")]))
    child = subprocess.Popen(
        [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, text=True, env={**os.environ, "PYTHONPATH": path},
    )
    try:
        assert child.stdout is not None
        ready = child.stdout.readline().split()
        assert ready[:1] == ["ready"], child.communicate()[1]
        process = checkpoints(child.pid)
        begun = time.perf_counter()
        try:
            process.lock(timeout_ms=20_000)
            process.checkpoint()
        except RuntimeError as error:
            pytest.skip(f"the driver makes no checkpoint of it: {type(process).__name__}: {error}")
        saved = time.perf_counter()
        process.restore()
        process.unlock()
        restored = time.perf_counter()
        print(
            f"{kind}, by {type(process).__module__}: {int(ready[1]) >> 20} MiB, checkpoint "
            f"{saved - begun:.3f} s, restore {restored - saved:.3f} s"
        )
        output, errors = child.communicate("go\n", timeout=120)
        assert (child.returncode, output) == (0, "equal\n"), errors
    finally:
        child.kill()
        child.communicate()
