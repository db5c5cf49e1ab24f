"""The allocators for other libraries, with stand-ins that make the calls of the real ones."""

from __future__ import annotations

import ctypes
import gc
import importlib
import sys
import threading
import types
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import rmm_rs
from rmm_rs import DeviceBuffer, mr
from rmm_rs.pylibrmm.stream import Stream


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., types.ModuleType]]:
    """Puts a module in the place of a library, for the import of an allocator."""

    def install(name: str, **attributes: Any) -> types.ModuleType:
        module = types.ModuleType(name)
        module.__dict__.update(attributes)
        module.__path__ = []
        monkeypatch.setitem(sys.modules, name, module)
        return module

    yield install
    for name in ("cupy", "numba", "torch"):
        sys.modules.pop(f"rmm_rs.allocators.{name}", None)


def _load(name: str) -> Any:
    sys.modules.pop(f"rmm_rs.allocators.{name}", None)
    return importlib.import_module(f"rmm_rs.allocators.{name}")


@pytest.mark.parametrize("name", ["cupy", "numba", "torch"])
def test_a_module_is_imported_without_its_library(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, name, None)
    module = _load(name)
    if name == "torch":
        assert module.rmm_torch_allocator is None
    else:
        call = module.rmm_cupy_allocator if name == "cupy" else module.RMMNumbaManager
        with pytest.raises(ModuleNotFoundError):
            call(10) if name == "cupy" else call()
    sys.modules.pop(f"rmm_rs.allocators.{name}", None)


@pytest.mark.parametrize(
    ("library", "error"), [("cupy", ImportError), ("numba", RuntimeError), ("torch", OSError)]
)
def test_a_module_is_imported_where_its_library_lacks_another(
    library: str, error: type[Exception], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """CuPy raises ImportError, cuda-bindings below Numba RuntimeError, and PyTorch OSError."""
    (tmp_path / f"{library}.py").write_text(f"raise {error.__name__}('libcudart.so.13')\n")
    for name in [name for name in sys.modules if name.partition(".")[0] == library]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.syspath_prepend(tmp_path)
    module = _load(library)
    if library == "torch":
        assert module.rmm_torch_allocator is None
    else:
        with pytest.raises(ModuleNotFoundError):
            module.rmm_cupy_allocator(10) if library == "cupy" else module.RMMNumbaManager()
    sys.modules.pop(f"rmm_rs.allocators.{library}", None)
    sys.modules.pop(library, None)


def test_cupy_gets_memory_on_its_stream(fake: Callable[..., types.ModuleType]) -> None:
    own = Stream()

    class Foreign:
        def __cuda_stream__(self) -> tuple[int, int]:
            return own.__cuda_stream__()

    memories: list[dict[str, Any]] = []

    def unowned(**arguments: Any) -> dict[str, Any]:
        memories.append(arguments)
        return arguments

    cuda = types.SimpleNamespace(
        get_current_stream=Foreign,
        UnownedMemory=unowned,
        memory=types.SimpleNamespace(MemoryPointer=lambda memory, offset: (memory, offset)),
        device=types.SimpleNamespace(get_device_id=lambda: 5),
    )
    fake("cupy", cuda=cuda)
    allocate = _load("cupy").rmm_cupy_allocator
    memory, offset = allocate(100)
    assert offset == 0 and type(memory["owner"]) is DeviceBuffer
    assert (memory["ptr"], memory["size"]) == (memory["owner"].ptr, 100)
    assert memory["device_id"] == -1 and memory["owner"].stream == own
    assert allocate(0)[0]["device_id"] == 5


def test_cupys_stream_is_looked_up_when_it_changes(fake: Callable[..., types.ModuleType]) -> None:
    """A thread keeps the last one: to ask the driver for it costs more than the memory."""
    asked: list[int] = []

    class Foreign:
        def __init__(self, stream: Stream) -> None:
            # As CuPy's objects own their streams: a buffer's stream keeps this object.
            self.owner = stream
            self.handle = stream.__cuda_stream__()[1]

        def __cuda_stream__(self) -> tuple[int, int]:
            asked.append(self.handle)
            return (0, self.handle)

    owners = [Stream(), Stream()]
    first, second = map(Foreign, owners)
    current = [first]
    cuda = types.SimpleNamespace(
        get_current_stream=lambda: current[0],
        UnownedMemory=lambda **arguments: arguments["owner"],
        memory=types.SimpleNamespace(MemoryPointer=lambda memory, offset: memory),
    )
    fake("cupy", cuda=cuda)
    allocate = _load("cupy").rmm_cupy_allocator
    buffers = [allocate(100) for _ in range(10)]
    assert asked == [first.handle]
    current[0] = second
    buffers += [allocate(100) for _ in range(10)]
    assert asked == [first.handle, second.handle]
    current[0] = Foreign(owners[0])
    buffers.append(allocate(100))
    assert asked == [first.handle, second.handle, first.handle]
    handles = [buffer.stream.__cuda_stream__()[1] for buffer in buffers]
    assert handles == [first.handle] * 10 + [second.handle] * 10 + [first.handle]
    other: list[Any] = []
    thread = threading.Thread(target=lambda: other.append(allocate(100)))
    thread.start()
    thread.join()
    assert len(asked) == 4, "a thread has its own"


def test_numba_gets_memory_that_it_releases(
    fake: Callable[..., types.ModuleType], monkeypatch: pytest.MonkeyPatch
) -> None:
    class Base:
        def __init__(self) -> None:
            self.allocations: dict[int, Any] = {}
            self.context = "context"

    pointers: list[Any] = []

    def pointer(context: Any, address: Any, size: int, finalizer: Any) -> Any:
        pointers.append((context, address.value, size, finalizer))
        return pointers[-1]

    cuda = fake(
        "numba.cuda", HostOnlyCUDAMemoryManager=Base, IpcHandle=object, MemoryPointer=pointer
    )
    fake("numba", cuda=cuda)
    # Then an address is one of ctypes.
    monkeypatch.setitem(sys.modules, "cuda.bindings.driver", None)
    module = _load("numba")
    manager = module._numba_memory_manager()
    assert manager.interface_version == 1 and manager.initialize() is None
    tracking = mr.TrackingResourceAdaptor(mr.CudaMemoryResource())
    mr.set_current_device_resource(tracking)
    _, address, size, finalizer = manager.memalloc(100)
    assert size == 100 and manager.allocations[address].ptr == address
    finalizer()
    assert tracking.get_allocated_bytes() == 0
    finalizer()
    with pytest.raises(NotImplementedError):
        manager.get_memory_info()


class PluggableAllocator:
    """`torch.cuda.memory.CUDAPluggableAllocator`: it loads two functions by name, and the object
    within takes the addresses of others."""

    def __init__(self, path: str, alloc_fn_name: str, free_fn_name: str) -> None:
        self.path = path
        library: Any = ctypes.CDLL(path)
        self.allocate = library[alloc_fn_name]
        self.allocate.restype = ctypes.c_void_p
        self.allocate.argtypes = [ctypes.c_ssize_t, ctypes.c_int, ctypes.c_void_p]
        self.free = library[free_fn_name]
        self.free.argtypes = [ctypes.c_void_p, ctypes.c_ssize_t, ctypes.c_int, ctypes.c_void_p]

    def allocator(self) -> PluggableAllocator:
        return self

    def set_record_stream_fn(self, address: int) -> None:
        self.record = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)(address)

    def set_reset_fn(self, address: int) -> None:
        self.empty_cache = ctypes.CFUNCTYPE(None)(address)

    def set_memory_fraction_fn(self, address: int) -> None:
        self.limit = ctypes.CFUNCTYPE(None, ctypes.c_double, ctypes.c_int)(address)


@pytest.fixture
def torch_allocator(fake: Callable[..., types.ModuleType]) -> Any:
    memory = fake("torch.cuda.memory", CUDAPluggableAllocator=PluggableAllocator)
    fake("torch", cuda=fake("torch.cuda", is_available=lambda: True, memory=memory))
    return _load("torch").rmm_torch_allocator


def test_torch_gets_the_loaded_library(
    torch_allocator: Any, fake: Callable[..., types.ModuleType]
) -> None:
    from rmm_rs import _rmm

    assert isinstance(torch_allocator, PluggableAllocator)
    assert torch_allocator.path == _rmm.__file__
    fake("torch.cuda", is_available=lambda: False)
    assert _load("torch").rmm_torch_allocator is None


def test_torchs_memory_is_of_the_current_resource(torch_allocator: Any) -> None:
    counted = [mr.StatisticsResourceAdaptor(mr.CudaMemoryResource()) for _ in range(2)]

    def live() -> list[int]:
        return [resource.allocation_counts.current_bytes for resource in counted]

    mr.set_current_device_resource(counted[0])
    first = torch_allocator.allocate(1000, 0, None)
    mr.set_current_device_resource(counted[1])
    second = torch_allocator.allocate(3000, 0, None)
    assert live() == [1000, 3000]
    torch_allocator.free(first, 1000, 0, None)
    assert live() == [0, 3000]
    rmm_rs.reinitialize()
    torch_allocator.free(second, 3000, 0, None)
    assert live() == [0, 0]


def test_torchs_memory_keeps_its_resource(torch_allocator: Any) -> None:
    cuda = mr.CudaMemoryResource()
    chunks: list[int] = []

    def allocate(size: int, stream: Stream) -> int:
        chunks.append(cuda.allocate(size, stream))
        return chunks[-1]

    def deallocate(address: int, size: int, stream: Stream) -> None:
        chunks.remove(address)
        cuda.deallocate(address, size, stream)

    upstream = mr.CallbackMemoryResource(allocate, deallocate)
    mr.set_current_device_resource(mr.PoolMemoryResource(upstream, "1MiB"))
    pool = weakref.ref(mr.get_current_device_resource())
    memory = torch_allocator.allocate(1000, 0, None)
    rmm_rs.reinitialize()
    gc.collect()
    assert pool() is None
    assert len(chunks) == 1, "the pool is there, without its object"
    torch_allocator.free(memory, 1000, 0, None)
    assert chunks == []


@pytest.mark.parametrize("is_recorded", [False, True])
def test_torchs_memory_waits_for_recorded_streams(
    torch_allocator: Any, is_recorded: bool, stalled: Callable[[Any], Any]
) -> None:
    mr.set_current_device_resource(mr.PoolMemoryResource(mr.CudaMemoryResource(), "8MiB"))
    own, side = Stream(), Stream()
    handles = [stream.__cuda_stream__()[1] for stream in (own, side)]
    memory = torch_allocator.allocate(1 << 20, 0, handles[0])
    with stalled(side):
        if is_recorded:
            torch_allocator.record(memory, handles[1])
        torch_allocator.free(memory, 1 << 20, 0, handles[0])
        other = torch_allocator.allocate(1 << 20, 0, handles[0])
        assert (other == memory) is not is_recorded
        torch_allocator.free(other, 1 << 20, 0, handles[0])


def test_torchs_empty_cache_returns_what_is_idle(
    torch_allocator: Any, trimmed: Callable[[Callable[[], int]], int]
) -> None:
    pool = mr.PoolMemoryResource(mr.CudaMemoryResource(), 0)
    mr.set_current_device_resource(pool)
    torch_allocator.free(torch_allocator.allocate(8 << 20, 0, None), 8 << 20, 0, None)
    before = pool.pool_size()

    def empty() -> int:
        torch_allocator.empty_cache()
        return before - pool.pool_size()

    assert before >= 8 << 20 and trimmed(empty) == before


def test_torchs_memory_fraction_is_kept(run: Callable[..., Any]) -> None:
    """An allocation beyond it ends a program that catches no exception of C++."""
    code = """
import ctypes, sys
from rmm_rs import _rmm
library = ctypes.CDLL(_rmm.__file__)
library.rmm_rs_torch_set_memory_fraction.argtypes = [ctypes.c_double, ctypes.c_int]
library.rmm_rs_torch_set_memory_fraction(float(sys.argv[1]), 0)
library.rmm_rs_torch_allocate.restype = ctypes.c_void_p
print(library.rmm_rs_torch_allocate(ctypes.c_ssize_t(1 << 20), 0, None) is not None)
"""
    whole, nothing = (run("", arguments=("-c", code, text)) for text in ("1", "0"))
    assert whole.stdout == "True\n", whole.stderr
    assert nothing.returncode != 0 and "memory fraction" in nothing.stderr, nothing.stderr
