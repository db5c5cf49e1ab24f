"""An allocator for CuPy.

::

    import cupy
    from rmm_rs.allocators.cupy import rmm_cupy_allocator
    cupy.cuda.set_allocator(rmm_cupy_allocator)
"""

from __future__ import annotations

import threading
from typing import Any

from rmm_rs.pylibrmm.device_buffer import DeviceBuffer
from rmm_rs.pylibrmm.stream import Stream

try:
    import cupy
except ImportError:
    cupy = None


class _Last(threading.local):
    """The stream of CuPy that a thread used last, and ours for it.

    Making one asks the driver whether it knows the stream, which costs more than an allocation.
    CuPy's object is kept, so that no other can be at its address.
    """

    cupys: Any = None
    own: Any = None


_last = _Last()


def rmm_cupy_allocator(nbytes: int) -> Any:
    """Memory for CuPy, of the current device's resource on CuPy's current stream.

    The last stream of each thread is kept until the thread allocates on another one.

    Raises
    ------
    ModuleNotFoundError
        Without CuPy.
    """
    if cupy is None:
        raise ModuleNotFoundError("No module named 'cupy'")
    cuda, last = cupy.cuda, _last
    current = cuda.get_current_stream()
    if last.cupys is not current:
        last.own = Stream(current)
        last.cupys = current
    buffer = DeviceBuffer(size=nbytes, stream=last.own)
    address = buffer.ptr
    # CuPy asks the driver for the device of an address, which an empty buffer has not.
    device = -1 if address else cuda.device.get_device_id()
    memory = cuda.UnownedMemory(ptr=address, size=nbytes, owner=buffer, device_id=device)
    return cuda.memory.MemoryPointer(memory, 0)
