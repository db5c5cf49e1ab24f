"""Streams of other libraries that are destroyed while their work is pending, and whose handles are
used again.

A pool gives memory that was freed on a stream to the next allocation on that stream, without
waiting. If it knew a stream by its handle alone, it would do so for another stream that has got the
handle, whose work does not come after that of the first: the software driver reports that as a
violation.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.skipif(
    "RMM_CUDA_LIBRARY" not in os.environ, reason="the software driver checks the order"
)

Run = Callable[..., Any]

START = """
import ctypes, gc, os
import rmm_rs
from rmm_rs import DeviceBuffer, mr
from rmm_rs.pylibrmm.stream import Stream
rmm_rs.DeviceBuffer(size=1)
driver = ctypes.CDLL(os.environ["RMM_CUDA_LIBRARY"])

def create():
    handle = ctypes.c_void_p()
    assert driver.cuStreamCreate(ctypes.byref(handle), 1) == 0
    return handle.value

def destroy(handle):
    assert driver.cuStreamDestroy_v2(ctypes.c_void_p(handle)) == 0

def write(address, size, handle):
    memory = ctypes.c_uint64(address), ctypes.c_ubyte(1), ctypes.c_size_t(size)
    assert driver.cuMemsetD8Async(*memory, ctypes.c_void_p(handle)) == 0

class Foreign:
    def __init__(self, handle):
        self.ptr = handle
    def __cuda_stream__(self):
        return (0, self.ptr)

pool = mr.PoolMemoryResource(mr.CudaMemoryResource(), "1MiB", "64MiB")
handles, addresses = set(), set()

def once(handle, stream, size=4096):
    # Memory that is freed while the stream still writes to it.
    address = pool.allocate(size, stream)
    write(address, size, handle)
    pool.deallocate(address, size, stream)
    handles.add(handle)
    addresses.add(address)
"""

#: The class of CuPy's streams that are its own: the runtime that it calls does not start on the
#: software driver.
CUPYS_OWN = """
class Owner(Foreign):
    __module__ = "cupy.cuda.stream"
    def __init__(self):
        super().__init__(create())
    def __del__(self):
        destroy(self.ptr)
Owner.__name__ = "Stream"
new = Owner
"""

#: How an object of a library is made for the handle of a stream that it does not own.
BORROWED = {
    "anything with the protocol": "make = Foreign",
    "CuPy's ExternalStream": "import warnings; warnings.simplefilter('ignore')\n"
    "import cupy; make = cupy.cuda.ExternalStream",
    "CuPy's from_external": "import warnings; warnings.simplefilter('ignore')\n"
    "import cupy; make = lambda handle: cupy.cuda.Stream.from_external(Foreign(handle))",
    "Numba's external_stream": "from numba import cuda; make = cuda.external_stream",
}


@pytest.fixture
def imported(needs: Callable[..., None], driver: dict[str, str]) -> Callable[[str], dict[str, str]]:
    def for_kind(kind: str) -> dict[str, str]:
        if "CuPy" in kind:
            needs("cupy")
        if "Numba" in kind:
            needs("numba_cuda", "cuda.core")
        return driver

    return for_kind


@pytest.mark.usefixtures("checked")
@pytest.mark.parametrize("kind", BORROWED)
def test_a_handle_is_another_stream_when_it_is_used_again(
    run: Run, kind: str, imported: Callable[[str], dict[str, str]]
) -> None:
    result = run(
        f"""{START}
{BORROWED[kind]}
for _ in range(200):
    handle = create()
    once(handle, Stream(make(handle)))
    destroy(handle)
# The same object for both: nothing says that its stream was destroyed, but for the driver.
for _ in range(100):
    handle = create()
    stream = Stream(make(handle))
    once(handle, stream)
    destroy(handle)
    assert create() == handle
    once(handle, stream)
    destroy(handle)
assert len(handles) < 10, "the driver uses handles again"
""",
        env=imported(kind),
    )
    assert (result.returncode, result.stderr) == (0, "")


@pytest.mark.usefixtures("checked")
@pytest.mark.parametrize("kind", BORROWED)
def test_memory_of_a_borrowed_stream_is_reused_on_it(
    run: Run, kind: str, imported: Callable[[str], dict[str, str]]
) -> None:
    """An identity that is asked for anew finds what the same stream has freed."""
    result = run(
        f"""{START}
{BORROWED[kind]}
handle = create()
for _ in range(200):
    once(handle, Stream(make(handle)))
assert len(addresses) == 1, addresses
destroy(handle)
""",
        env=imported(kind),
    )
    assert (result.returncode, result.stderr) == (0, "")


@pytest.mark.usefixtures("checked")
@pytest.mark.parametrize("library", ["CuPy", "Numba"])
def test_a_stream_lives_as_long_as_memory_on_it(
    run: Run, library: str, imported: Callable[[str], dict[str, str]]
) -> None:
    """The library's object owns the stream, and destroys it with itself: each buffer keeps it."""
    make = CUPYS_OWN if library == "CuPy" else "from numba import cuda; new = cuda.stream"
    result = run(
        f"""{START}
{make}
mr.set_current_device_resource(pool)
for _ in range(200):
    theirs = new()
    handle = theirs.__cuda_stream__()[1]
    buffer = DeviceBuffer(size=4096, stream=Stream(theirs))
    write(buffer.ptr, 4096, handle)
    del theirs
    gc.collect()
    write(buffer.ptr, 4096, handle)
    handles.add(handle)
    del buffer
del new
""",
        env={
            **imported("" if library == "CuPy" else library),
            "NUMBA_CUDA_WARN_ON_IMPLICIT_COPY": "0",
        },
    )
    assert (result.returncode, result.stderr) == (0, "")


@pytest.mark.parametrize(
    ("kind", "make", "calls_a_pair"),
    [
        ("CuPy's own", f"{CUPYS_OWN}\nstream = Stream(new())", 0),
        ("Numba's own", "from numba import cuda; stream = Stream(cuda.stream())", 0),
        ("this package's", "stream = Stream()", 0),
        # Whether it is still the stream that it was: once for the allocation, once for the free.
        ("borrowed", "handle = create(); stream = Stream(Foreign(handle))", 2),
    ],
)
def test_an_owned_stream_takes_no_driver_call(
    run: Run,
    kind: str,
    make: str,
    calls_a_pair: int,
    needs: Callable[..., None],
    driver: dict[str, str],
    tmp_path: Path,
) -> None:
    """Calls of the driver, by its own count, in a steady state."""
    if "Numba" in kind:
        needs("numba_cuda", "cuda.core")

    def calls(pairs: int) -> int:
        folder = tmp_path / str(pairs)
        folder.mkdir()
        pair = "pool.deallocate(pool.allocate(4096, stream), 4096, stream)"
        code = f"{START}\n{make}\nfor _ in range({pairs}): {pair}"
        result = run(code, env={**driver, "RMM_SIM_REPORT": str(folder)})
        assert (result.returncode, result.stderr) == (0, "")
        (report,) = folder.glob("*.txt")
        return int(report.read_text().split()[1])

    assert calls(3000) - calls(2000) == 1000 * calls_a_pair


def test_the_driver_reports_a_stream_that_is_taken_for_another(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """There is a violation where the driver is not asked: an owner that destroys it too early."""
    monkeypatch.setenv("RMM_SIM_REPORT", str(tmp_path))
    result = run(f"""{START}
Owner = type("Stream", (Foreign,), {{"__module__": "cupy.cuda.stream"}})
for _ in range(100):
    handle = create()
    stream = Stream(Owner(handle))
    once(handle, stream)
    destroy(handle)
    assert create() == handle
    once(handle, stream)
    destroy(handle)
""")
    (report,) = tmp_path.glob("*.txt")
    assert "violation" in report.read_text(), result.stderr
