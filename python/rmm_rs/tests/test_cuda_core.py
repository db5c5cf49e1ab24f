"""`cuda.core` on our resources: buffers of a device, streams both ways."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

START = """
import gc
import warnings
from cuda.core import Device
import rmm_rs
from rmm_rs import mr
from rmm_rs.integrations.cuda_core import MemoryResource
from rmm_rs.pylibrmm.stream import Stream
device = Device()
device.set_current()
pool = mr.PoolMemoryResource(mr.CudaMemoryResource(), "1MiB", "64MiB")
counted = mr.StatisticsResourceAdaptor(pool)
live = lambda: counted.allocation_counts.current_bytes
device.memory_resource = MemoryResource(counted)
stream = device.create_stream()
"""

PROGRAMS = {
    "a device allocates": """
buffer = device.allocate(1000, stream=stream)
assert buffer.size == 1000 and buffer.memory_resource is device.memory_resource
assert live() == 1000 and int(buffer.handle) != 0
assert buffer.is_device_accessible and not buffer.is_host_accessible and buffer.device_id == 0
other = device.allocate(1000, stream=device.default_stream)
buffer.close(stream)
assert live() == 1000
other.close()
assert live() == 0
""",
    "dropped buffers are freed": """
buffers = [device.allocate(100, stream=stream) for _ in range(10)]
assert live() == 1000
del buffers
gc.collect()
assert live() == 0
""",
    "buffers are copied": """
source = rmm_rs.DeviceBuffer.to_device(bytes(range(100)))
buffer = device.allocate(100, stream=stream)
view = type(buffer).from_handle(source.ptr, 100, owner=source)
buffer.copy_from(view, stream=stream)
twice = buffer.copy_to(stream=stream)
stream.sync()
assert twice.memory_resource is device.memory_resource and live() == 200
ours = rmm_rs.DeviceBuffer(ptr=int(twice.handle), size=100, stream=Stream(stream))
stream.sync()
assert ours.tobytes() == bytes(range(100))
del twice, buffer, view
assert live() == 0
""",
    "out of memory raises": """
try:
    device.allocate(1 << 30, stream=stream)
except MemoryError as error:
    assert "out_of_memory" in str(error)
else:
    raise SystemExit("no error")
assert live() == 0
""",
    "resources are told apart": """
managed = MemoryResource(mr.PoolMemoryResource(mr.ManagedMemoryResource(), "1MiB"))
assert managed.is_managed and managed.is_host_accessible and managed.device_id == 0
pinned = MemoryResource(mr.PinnedHostMemoryResource())
assert pinned.is_host_accessible and not pinned.is_managed and pinned.is_device_accessible
assert device.memory_resource.mr is counted
assert type(MemoryResource().mr) is mr.CudaMemoryResource
try:
    MemoryResource(object())
except TypeError:
    pass
else:
    raise SystemExit("no error")
""",
    "what the host may use is said by the memory": """
for text, host in {
    "statistics(pool(pinned))": True, "cuda-async-pinned": True, "limiting(managed, limit=1GiB)": True,
    "pool(cuda)": False, "pool": False,
}.items():
    resource = MemoryResource(mr.SpecMemoryResource(text))
    assert (resource.is_host_accessible, resource.is_device_accessible) == (host, True), text
    assert resource.is_managed == ("managed" in text), text
""",
    "all devices allocate from our current resources": """
from threading import Thread
from rmm_rs.integrations.cuda_core import install
mr.set_current_device_resource(counted)
def allocates(expected):
    own = Device(0)
    own.set_current()
    if expected:
        install()
    buffer = own.allocate(1000, stream=own.default_stream)
    assert live() == expected
    buffer.close()
for expected in (1000, 0):  # a device of cuda.core belongs to a thread
    failed = []
    def act():
        try:
            allocates(expected)
        except BaseException as error:
            failed.append(error)
    thread = Thread(target=act)
    thread.start()
    thread.join()
    assert not failed, failed
assert live() == 0
""",
    "dropped buffers are freed on their stream": """
for number in range(100):
    one = device.create_stream()
    first = device.allocate(4096, stream=one)
    first.fill(1, stream=one)
    if number % 3 == 0:
        one.close()
    elif number % 3 == 1:
        first.close()
    del first, one
    # What was freed on this stream is reused on it at once.
    second = device.allocate(4096, stream=device.default_stream)
    second.fill(2, stream=device.default_stream)
    second.close(device.default_stream)
assert live() == 0
""",
    "streams that were closed are not mistaken": """
for _ in range(50):
    first, second = device.create_stream(), device.create_stream()
    one = device.allocate(4096, stream=first)
    one.close(first)
    first.close()
    # It may get the handle of the one that was closed.
    third = device.create_stream()
    two = device.allocate(4096, stream=third)
    two.fill(1, stream=third)
    second.wait(third)
    two.close(second)
    second.sync()
    second.close()
    third.close()
assert live() == 0
""",
    "default streams are those of cuda.core": """
assert Stream(device.default_stream).__cuda_stream__() == device.default_stream.__cuda_stream__()
own = Stream()
theirs = device.create_stream(own)
buffer = device.allocate(100, stream=theirs)
buffer.close(theirs)
assert live() == 0
""",
}

def test_the_module_is_imported_without_cuda_core(
    run: Callable[..., Any], tmp_path: Path
) -> None:
    (tmp_path / "cuda.py").write_text("raise ImportError\n")
    result = run(
        """
from rmm_rs.integrations.cuda_core import MemoryResource
try:
    MemoryResource()
except ModuleNotFoundError as error:
    assert "cuda.core" in str(error)
else:
    raise SystemExit("no error")
""",
        env={"PYTHONPATH": str(tmp_path)},
    )
    assert (result.returncode, result.stderr) == (0, "")


@pytest.mark.usefixtures("checked")
@pytest.mark.parametrize("name", PROGRAMS)
def test_programs_of_cuda_core(
    run: Callable[..., Any], driver: dict[str, str], needs: Callable[..., None], name: str
) -> None:
    needs("cuda.core", "cuda.bindings")
    result = run(START + PROGRAMS[name], env=driver)
    assert result.returncode == 0, result.stderr
