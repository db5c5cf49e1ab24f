"""Segments of a pool, and the callbacks that register them with other libraries. Not in RMM."""

from __future__ import annotations

import gc
import re
import subprocess
import sys
import threading
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import rmm_rs
from rmm_rs import mr

MIB = 1 << 20


class Library:
    """What a library has registered: bytes by address. It refuses what it is told to."""

    def __init__(self) -> None:
        self.ranges: dict[int, int] = {}
        self.calls = 0
        self.fails: str | None = None
        self.error: BaseException = KeyError("no space in the table")

    def __call__(self, event: str, segment: rmm_rs.Segment) -> None:
        self.calls += 1
        if event == self.fails:
            raise self.error
        if event == "added":
            assert segment.ptr not in self.ranges
            self.ranges[segment.ptr] = segment.size
        else:
            assert event == "removing" and self.ranges.pop(segment.ptr) == segment.size

    @property
    def size(self) -> int:
        return sum(self.ranges.values())


def pool_of(**options: Any) -> mr.PoolMemoryResource:
    return mr.PoolMemoryResource(mr.VirtualMemoryResource(), 0, **options)


@pytest.fixture
def unraisable(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    found: list[str] = []
    monkeypatch.setattr(sys, "unraisablehook", lambda raised: found.append(str(raised.exc_value)))
    yield found


def test_a_library_has_what_the_pool_has() -> None:
    pool, library = pool_of(segment_size="4MiB"), Library()
    first = rmm_rs.DeviceBuffer(size=3 * MIB, mr=pool)
    with pool.on_segment(library):
        assert library.size == pool.pool_size() == 4 * MIB
        second = rmm_rs.DeviceBuffer(size=9 * MIB, mr=pool)
        assert library.size == pool.pool_size() == 12 * MIB
        segments = pool.segments()
        assert {it.ptr: it.size for it in segments} == library.ranges
        assert any(it.ptr <= second.ptr < it.ptr + it.size for it in segments)
        assert segments == pool.segments() and len(set(segments)) == len(segments)
        assert "bytes at 0x" in repr(segments[0])
        assert "registered" in pool.describe()
        small = rmm_rs.DeviceBuffer(size=256, mr=pool)
        calls, size = library.calls, pool.pool_size()
        for _ in range(1000):
            pool.deallocate(pool.allocate(256), 256)
        assert library.calls == calls, "hits do not call it"
        del first, second, small
        pool.sleep(wait=True)
        assert (library.ranges, pool.segments()) == ({}, [])
        pool.wake()
        assert library.size == pool.pool_size() == size
    assert library.ranges == {}, "the guard lets go of all"
    calls = library.calls
    pool.deallocate(pool.allocate(32 * MIB), 32 * MIB)
    assert library.calls == calls, "it was removed"


def test_options_of_segments() -> None:
    pool = pool_of(segment_size=8 * MIB, single_handle=True, pinned_segments=True)
    pool.deallocate(pool.allocate(20 * MIB), 20 * MIB)
    assert [it.size % (8 * MIB) for it in pool.segments()] == [0] * len(pool.segments())
    with pytest.raises(RuntimeError, match="pinned"):
        pool.sleep(wait=True)
    rmm_rs.pylibrmm.stream.DEFAULT_STREAM.synchronize()
    pool.release_unused()
    assert pool.pool_size() >= 20 * MIB
    with pytest.raises(ValueError, match="power of two"):
        pool_of(segment_size=3 * MIB)


def test_what_cannot_be_called_is_no_callback() -> None:
    pool = mr.PoolMemoryResource(mr.VirtualMemoryResource(), 0)
    for register in (pool.on_segment, pool.on_pressure):
        with pytest.raises(TypeError, match="callable, and is <class 'int'>"):
            register(5)  # type: ignore[arg-type]
    assert rmm_rs.DeviceBuffer(size=100, mr=pool).size == 100


def test_a_segment_is_exported() -> None:
    pages = mr.VirtualMemoryResource(export="posix_fd")
    pool = mr.PoolMemoryResource(pages, 0, segment_size="4MiB")
    exported: list[int] = []

    def register(event: str, segment: rmm_rs.Segment) -> None:
        if event == "added":
            exported.append(sum(piece.size for piece in rmm_rs.export(segment)))

    with pool.on_segment(register):
        buffer = rmm_rs.DeviceBuffer(size=3 * MIB, mr=pool)
        assert exported == [4 * MIB] and buffer.size == 3 * MIB
    other = pool_of()
    other.deallocate(other.allocate(MIB), MIB)
    with pytest.raises(RuntimeError, match="export"):
        rmm_rs.export(other.segments()[0])


@pytest.mark.parametrize("error", [KeyError("no space in the table"), MemoryError("no space in the table")])
def test_what_is_refused_is_not_used(error: Exception) -> None:
    pool, first, second = pool_of(), Library(), Library()
    guards = [pool.on_segment(first), pool.on_segment(second)]
    held = rmm_rs.DeviceBuffer(size=MIB, mr=pool)
    size, second.fails, second.error = pool.pool_size(), "added", error
    kind = MemoryError if isinstance(error, MemoryError) else RuntimeError
    with pytest.raises(kind, match="no space") as caught:
        rmm_rs.DeviceBuffer(size=40 * MIB, mr=pool)
    assert error in (caught.value, caught.value.__cause__)
    assert first.size == second.size == pool.pool_size() == size
    with pytest.raises(kind, match="no space"):
        pool.on_segment(second)
    second.fails = None
    assert rmm_rs.DeviceBuffer(size=40 * MIB, mr=pool).size + held.size == 41 * MIB
    for guard in guards:
        guard.remove()
        guard.remove()
    assert first.size == second.size == 0


def test_what_is_kept_stays(unraisable: list[str]) -> None:
    pool, library = pool_of(), Library()
    guard = pool.on_segment(library)
    pool.deallocate(pool.allocate(8 * MIB), 8 * MIB)
    size, library.fails = pool.pool_size(), "removing"
    with pytest.raises(RuntimeError, match="does not let go of.*no space"):
        pool.sleep(wait=True)
    assert (library.size, pool.pool_size(), pool.is_asleep) == (size, size, False)
    assert unraisable and set(unraisable) == {"'no space in the table'"}
    # A request is not mistaken for what the callback raised before.
    pool.set_maximum_pool_size(size)
    with pytest.raises(MemoryError):
        rmm_rs.DeviceBuffer(size=2 * size, mr=pool)
    unraisable.clear()
    guard.remove()
    assert len(unraisable) == len(pool.segments())


def test_a_callback_goes_with_its_object() -> None:
    class Engine:
        def __init__(self, registered: dict[int, int]) -> None:
            self.pool = pool_of()
            self.held = rmm_rs.DeviceBuffer(size=MIB, mr=self.pool)
            self.registered = registered
            self.guard = self.pool.on_segment(self.register)

        def register(self, event: str, segment: rmm_rs.Segment) -> None:
            if event == "added":
                self.registered[segment.ptr] = segment.size
            else:
                del self.registered[segment.ptr]

    registered: dict[int, int] = {}
    engine = Engine(registered)
    pool, alive = engine.pool, weakref.ref(engine)
    assert registered and sum(registered.values()) == pool.pool_size()
    del engine
    gc.collect()
    assert alive() is None, "the cycle was found"
    assert registered == {}, "it has let go before"
    guard = pool.on_segment(Library())
    library = Library()
    guard = pool.on_segment(library)
    assert library.size == pool.pool_size()
    del guard
    assert library.size == 0


def test_a_callback_allocates_what_the_pool_holds() -> None:
    pool = pool_of()
    first, hole, last = (rmm_rs.DeviceBuffer(size=4096, mr=pool) for _ in range(3))
    del hole
    outcomes: list[str] = []

    def register(event: str, _segment: rmm_rs.Segment) -> None:
        if event == "added":
            pool.deallocate(pool.allocate(4096), 4096)
            try:
                pool.allocate(64 * MIB)
            except MemoryError as raised:
                outcomes.append(str(raised))

    with pool.on_segment(register):
        pool.deallocate(pool.allocate(16 * MIB), 16 * MIB)
    assert len(outcomes) > 1 and all("grow within its growth" in it for it in outcomes), outcomes
    assert first.size + last.size == 8192


def test_others_are_served_while_a_callback_blocks() -> None:
    pool = pool_of()
    first, hole, last = (rmm_rs.DeviceBuffer(size=4096, mr=pool) for _ in range(3))
    del hole
    arrived, go_on = threading.Event(), threading.Event()
    armed = False

    def register(event: str, _segment: rmm_rs.Segment) -> None:
        if armed and event == "added":
            arrived.set()
            assert go_on.wait(60)

    with pool.on_segment(register):
        armed = True
        thread = threading.Thread(target=lambda: pool.deallocate(pool.allocate(48 * MIB), 48 * MIB))
        thread.start()
        assert arrived.wait(60)
        for _ in range(100):
            pool.deallocate(pool.allocate(4096), 4096)
        assert pool.segments()
        armed = False
        go_on.set()
        thread.join()
    assert first.size + last.size == 8192


def test_threads_grow_while_callbacks_come_and_go() -> None:
    pool, library, ends = pool_of(), Library(), threading.Event()
    failures: list[BaseException] = []
    lock = threading.Lock()

    def register(event: str, segment: rmm_rs.Segment) -> None:
        with lock:
            library(event, segment)

    def churn() -> None:
        try:
            while not ends.is_set():
                pool.deallocate(pool.allocate(24 * MIB), 24 * MIB)
                pool.trim()
        except BaseException as raised:
            failures.append(raised)

    threads = [threading.Thread(target=churn) for _ in range(3)]
    for thread in threads:
        thread.start()
    try:
        guards: list[Callable[[], None]] = []
        for _ in range(50):
            guards.append(pool.on_segment(lambda event, segment: None).remove)
            if len(guards) > 3:
                guards.pop(0)()
        with pool.on_segment(register):
            for _ in range(20):
                pool.deallocate(pool.allocate(MIB), MIB)
    finally:
        ends.set()
        for thread in threads:
            thread.join()
    assert failures == []
    assert library.size == 0


HELD_AT_EXIT = """
import atexit, sys, rmm_rs
from rmm_rs import mr

pool = mr.PoolMemoryResource(mr.VirtualMemoryResource(), 0)
held = rmm_rs.DeviceBuffer(size=1 << 20, mr=pool)
calls = []

def register(event, segment):
    calls.append(event)
    if sys.is_finalizing():
        print("called")

guard = pool.on_segment(register)

class Engine:
    def __init__(self):
        self.pool = mr.PoolMemoryResource(mr.VirtualMemoryResource(), 0)
        self.buffer = rmm_rs.DeviceBuffer(size=1 << 20, mr=self.pool)
        self.guard = self.pool.on_segment(self.register)

    def register(self, event, segment):
        register(event, segment)

engine = Engine()
kept = [pool.on_segment(lambda event, segment: register(event, segment)), pool]
register.cycle = kept
assert calls == ["added"] * 3, calls
{end}
"""


@pytest.mark.parametrize("end", ["", "sys.exit(0)", "del pool, held, guard", "atexit.register(guard.remove)"])
def test_no_callback_is_called_while_the_interpreter_ends(
    run: Callable[..., subprocess.CompletedProcess[str]], end: str
) -> None:
    result = run(HELD_AT_EXIT.replace("{end}", end))
    assert (result.returncode, result.stdout, result.stderr) == (0, "", "")


#: A library in the place of NCCL, whose functions succeed.
LIBRARY = """
import ctypes, types

names = ["ncclCommInitAll", "ncclCommRegister", "ncclCommDeregister"]
ctypes.CDLL = lambda name: types.SimpleNamespace(**{name: lambda *arguments: 0 for name in names})
"""


def test_the_guides_examples_run(run: Callable[..., subprocess.CompletedProcess[str]]) -> None:
    guide = Path(__file__).resolve().parents[3] / "docs" / "sharing-memory.md"
    blocks = re.findall(r"```python\n(.*?)```", guide.read_text(), re.DOTALL)
    block, of_nccl = (block for block in blocks if "pool.on_segment(register)" in block)
    result = run(block)
    assert (result.returncode, result.stderr) == (0, "")
    result = run(LIBRARY + of_nccl + "assert set(handles) == {it.ptr for it in pool.segments()}")
    assert (result.returncode, result.stderr) == (0, "")
