"""An allocator for CuPy.

::

    import cupy
    from rmm_rs.allocators.cupy import rmm_cupy_allocator
    cupy.cuda.set_allocator(rmm_cupy_allocator)
"""

from __future__ import annotations

from typing import Any

from rmm_rs.pylibrmm.device_buffer import DeviceBuffer
from rmm_rs.pylibrmm.stream import Stream

try:
    import cupy
except ImportError:
    cupy = None


def rmm_cupy_allocator(nbytes: int) -> Any:
    """Memory for CuPy, of the current device's resource on CuPy's current stream.

    Raises
    ------
    ModuleNotFoundError
        Without CuPy.
    """
    if cupy is None:
        raise ModuleNotFoundError("No module named 'cupy'")
    stream = Stream(cupy.cuda.get_current_stream())
    buffer = DeviceBuffer(size=nbytes, stream=stream)
    # CuPy asks the driver for the device of an address, which an empty buffer has not.
    device = -1 if buffer.ptr else cupy.cuda.device.get_device_id()
    memory = cupy.cuda.UnownedMemory(
        ptr=buffer.ptr, size=buffer.size, owner=buffer, device_id=device
    )
    return cupy.cuda.memory.MemoryPointer(memory, 0)
