"""Memory management for Numba-CUDA.

::

    from numba import cuda
    from rmm_rs.allocators.numba import RMMNumbaManager
    cuda.set_memory_manager(RMMNumbaManager)

or the environment variable ``NUMBA_CUDA_MEMORY_MANAGER=rmm_rs.allocators.numba``.
"""

from __future__ import annotations

import ctypes
import importlib
from abc import ABCMeta
from collections.abc import Callable
from typing import Any

from rmm_rs.pylibrmm.device_buffer import DeviceBuffer


def _import() -> tuple[Any, Exception | None]:
    """Numba's module; or why it cannot be imported.

    Type checkers know it where it is installed, so not by `import`.
    """
    try:
        return importlib.import_module("numba.cuda"), None
    except (ImportError, RuntimeError) as error:
        # `RuntimeError`: cuda-bindings finds no library of the CUDA runtime.
        return None, error


def _address_type() -> Any:
    try:
        return importlib.import_module("cuda.bindings.driver").CUdeviceptr
    except ImportError:
        return ctypes.c_uint64


cuda, _missing = _import()
HostOnlyCUDAMemoryManager: Any = getattr(cuda, "HostOnlyCUDAMemoryManager", object)
IpcHandle: Any = getattr(cuda, "IpcHandle", None)
MemoryPointer: Any = getattr(cuda, "MemoryPointer", None)
_Address = _address_type()


def _release(address: int, allocations: dict[int, Any]) -> Callable[[], None]:
    """What is called when Numba is done with memory."""

    def release() -> None:
        # Numba empties the table when it resets the context, and calls this as Python ends.
        allocations.pop(address, None)

    return release


class RMMNumbaManager(HostOnlyCUDAMemoryManager, metaclass=ABCMeta):  # type: ignore[misc]
    """Numba's device memory, of the current device's resource."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        if cuda is None:
            raise ModuleNotFoundError("No module named 'numba.cuda'") from _missing
        super().__init__(*args, **kwargs)

    def initialize(self) -> None:
        """Nothing has to be done for a context."""

    def memalloc(self, size: int) -> Any:
        """Memory of `size` bytes."""
        buffer = DeviceBuffer(size=size)
        address = buffer.ptr
        self.allocations[address] = buffer
        pointer = _Address(address)
        finalizer = _release(address, self.allocations)
        return MemoryPointer(self.context, pointer, size, finalizer=finalizer)

    def get_ipc_handle(self, memory: Any) -> Any:
        """A handle for another process: of the allocation that the memory is in, and the offset."""
        from cuda.bindings.driver import cuIpcGetMemHandle

        start, _ = cuda.cudadrv.driver.device_extents(memory)
        status, handle = cuIpcGetMemHandle(start)
        if status:
            from rmm_rs._cuda.gpu import CUDADriverError

            raise CUDADriverError(status)
        identity = cuda.current_context().device.get_device_identity()
        offset = int(memory.handle) - int(start)
        return IpcHandle(memory, handle, memory.size, identity, offset=offset)

    def get_memory_info(self) -> Any:
        """Not known: the resource may be a pool.

        Raises
        ------
        NotImplementedError
            Always.
        """
        raise NotImplementedError

    @property
    def interface_version(self) -> int:
        """The version of Numba's interface."""
        return 1


#: What Numba looks for in a module that `NUMBA_CUDA_MEMORY_MANAGER` names.
_numba_memory_manager = RMMNumbaManager
