"""Exported buffers, in this process and in others."""

from __future__ import annotations

import os
import pickle
import re
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import rmm_rs
from rmm_rs import mr

Run = Callable[..., Any]

SIZE = 5 << 20


def pool() -> mr.PoolMemoryResource:
    return mr.PoolMemoryResource(mr.VirtualMemoryResource(export="posix_fd"), 0)


def bytes_of(memory: rmm_rs.ImportedMemory) -> bytes:
    """A copy of the memory on the host."""
    buffer = rmm_rs.DeviceBuffer(ptr=memory.ptr, size=memory.size)
    return buffer.tobytes()


def test_a_buffer_is_exported_and_mapped_again() -> None:
    contents = os.urandom(SIZE)
    buffer = rmm_rs.DeviceBuffer.to_device(contents)
    with pytest.raises(RuntimeError, match="not made for it|not of a VirtualMemoryResource"):
        rmm_rs.export(buffer)
    mr.set_current_device_resource(pool())
    buffer = rmm_rs.DeviceBuffer.to_device(contents)
    pieces = rmm_rs.export(buffer)
    assert sum(piece.size for piece in pieces) == SIZE
    assert all(piece.fileno() > 2 and piece.handle_size >= piece.size for piece in pieces)
    assert repr(pieces[0]).startswith(f"<Piece 0 of {len(pieces)}: ")
    for writable in (False, True):
        with rmm_rs.import_memory(pieces, writable=writable) as memory:
            assert (memory.size, bytes_of(memory)) == (SIZE, contents)
            interface = memory.__cuda_array_interface__
            assert interface["data"] == (memory.ptr, not writable)
            assert interface["shape"] == (SIZE,)
            copied = rmm_rs.DeviceBuffer(size=SIZE)
            copied.copy_from_device(memory)
            assert copied.tobytes() == contents
        with pytest.raises(ValueError, match="was closed"):
            _ = memory.ptr
        memory.close()


def test_memory_that_cannot_be_closed_stays() -> None:
    mr.set_current_device_resource(pool())
    memory = rmm_rs.import_memory(rmm_rs.export(rmm_rs.DeviceBuffer.to_device(b"shared")))
    with rmm_rs.capture_scope(), pytest.raises(RuntimeError, match="may be under capture"):
        memory.close()
    assert bytes_of(memory) == b"shared"
    memory.close()
    with pytest.raises(ValueError, match="was closed"):
        _ = memory.ptr


def test_another_device_is_granted_access(two_devices: None) -> None:
    mr.set_current_device_resource(pool())
    pieces = rmm_rs.export(rmm_rs.DeviceBuffer.to_device(b"shared"))
    with rmm_rs.import_memory(pieces) as memory:
        memory.grant_access(1)
        memory.grant_access(1, writable=True)
        with pytest.raises((ValueError, RuntimeError)):
            memory.grant_access(99)
    with pytest.raises(ValueError, match="was closed"):
        memory.grant_access(1)


def test_a_new_thread_exports() -> None:
    buffer = rmm_rs.DeviceBuffer(size=100, mr=pool())
    exported: list[Any] = []
    thread = threading.Thread(target=lambda: exported.extend(rmm_rs.export(buffer)))
    thread.start()
    thread.join()
    with rmm_rs.import_memory(exported) as memory:
        assert memory.size == 100


def test_what_is_no_export_is_refused() -> None:
    mr.set_current_device_resource(pool())
    with pytest.raises(ValueError, match="0 bytes"):
        rmm_rs.export(rmm_rs.DeviceBuffer())
    with pytest.raises(TypeError, match="^a DeviceBuffer or a Segment of a pool can be .*bytes'"):
        rmm_rs.export(b"bytes")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="no pieces"):
        rmm_rs.import_memory([])
    buffers = [rmm_rs.DeviceBuffer(size=100) for _ in range(2)]
    first, second = (rmm_rs.export(buffer)[0] for buffer in buffers)
    with pytest.raises(ValueError, match="piece 1 of 2: it is of another export|has 1 pieces"):
        rmm_rs.import_memory([first, second])
    with pytest.raises(TypeError, match="multiprocessing"):
        pickle.dumps(first)
    os.close(second.fileno())
    with pytest.raises(ValueError, match="piece 0 of 1: its file descriptor was closed"):
        rmm_rs.import_memory([second])
    for kind in (mr.VirtualMemoryResource, mr.HostVirtualMemoryResource):
        with pytest.raises(ValueError, match="posix_fd"):
            kind(export="file")
        with pytest.raises((RuntimeError, MemoryError), match="fabric"):
            kind(export="fabric")
        rmm_rs.export(rmm_rs.DeviceBuffer(size=100, mr=kind(export="fabric_or_posix_fd")))


def test_readers_map_what_a_killed_writer_wrote(run: Run, tmp_path: Path) -> None:
    guide = Path(__file__).resolve().parents[3] / "docs" / "sharing-memory.md"
    block, *_ = re.findall(r"```python\n(.*?)```", guide.read_text(), re.DOTALL)
    program = tmp_path / "program.py"
    program.write_text(block)
    env = {"RMM_SIM_SHARED": str(tmp_path / "device")}
    result = run("", arguments=(str(program),), env=env)
    assert (result.returncode, result.stdout.strip()) == (0, "equal\nequal"), result.stderr


COUNTED = """
import multiprocessing

import rmm_rs
from rmm_rs import mr

MIB = 1 << 20


def hold(pipe):
    kept = rmm_rs.DeviceBuffer(size=64 * MIB, mr=mr.CudaMemoryResource())
    pipe.send(mr.available_device_memory()[0])
    pipe.recv()
    del kept


if __name__ == "__main__":
    context = multiprocessing.get_context("spawn")
    total = mr.available_device_memory()[0]
    own = rmm_rs.DeviceBuffer(size=64 * MIB, mr=mr.CudaMemoryResource())
    pipes = [context.Pipe() for _ in range(2)]
    holders = [context.Process(target=hold, args=(theirs,)) for _, theirs in pipes]
    for number, ((ours, _), holder) in enumerate(zip(pipes, holders)):
        holder.start()
        assert ours.recv() == total - (number + 2) * 64 * MIB
    assert mr.available_device_memory()[0] == total - 3 * 64 * MIB
    try:
        rmm_rs.DeviceBuffer(size=total - 2 * 64 * MIB, mr=mr.CudaMemoryResource())
    except MemoryError:
        print("refused")
    for holder in holders:
        holder.kill()
        holder.join()
    assert mr.available_device_memory()[0] == total - 64 * MIB
    rmm_rs.DeviceBuffer(size=total - 2 * 64 * MIB, mr=mr.CudaMemoryResource())
    print("served")
"""


def test_free_memory_and_refusals_are_those_of_all_processes(
    run: Run, driver: dict[str, str], tmp_path: Path
) -> None:
    if not driver:
        pytest.skip("a GPU has other processes")
    program = tmp_path / "program.py"
    program.write_text(COUNTED)
    env = {"RMM_SIM_SHARED": str(tmp_path / "device"), "RMM_SIM_MEMORY": str(512 << 20)}
    result = run("", arguments=(str(program),), env=env)
    assert (result.returncode, result.stdout.split()) == (0, ["refused", "served"]), result.stderr
