"""A memory resource for `cuda.core`, so that its devices allocate from a resource of this package.

::

    from cuda.core import Device
    from rmm_rs import mr
    from rmm_rs.integrations.cuda_core import MemoryResource

    device = Device()
    device.set_current()
    device.memory_resource = MemoryResource(mr.PoolMemoryResource(mr.CudaMemoryResource()))
    buffer = device.allocate(1 << 20, stream=device.create_stream())

The builder of a graph is a stream too, but the driver does not say which one while it is captured
(`CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED`, as a `MemoryError`): allocate what a graph uses on another
stream, before the builder begins.

Streams of `cuda.core` may be closed at any time, so the driver is asked whether a stream is still
the same one.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from rmm_rs import mr as _mr
from rmm_rs._cuda import gpu
from rmm_rs.pylibrmm.stream import DEFAULT_STREAM


def _import() -> Any:
    """`cuda.core`, or its module before it had one of that name; None if it is not installed."""
    for name in ("cuda.core", "cuda.core.experimental"):
        try:
            module: Any = importlib.import_module(name)
        except ImportError:
            continue
        if hasattr(module, "MemoryResource"):
            return module
    return None


_core = _import()
_Base: Any = getattr(_core, "MemoryResource", object)

@contextmanager
def _current(device: int) -> Iterator[None]:
    """Makes a device current: the handle of a default stream means that of the current one."""
    before = gpu.getDevice()
    if before == device:
        yield
        return
    gpu.setDevice(device)
    try:
        yield
    finally:
        gpu.setDevice(before)


def _stream(stream: Any) -> Any:
    """What this package takes as a stream; a graph's builder has one."""
    if stream is None:
        return DEFAULT_STREAM
    return stream if hasattr(stream, "__cuda_stream__") else stream.stream


class MemoryResource(_Base):  # type: ignore[misc]
    """Memory of a resource of this package, as `cuda.core` asks for it.

    Parameters
    ----------
    mr : DeviceMemoryResource, optional
        The resource; the one that is current when this is made, if it is left out.

    Raises
    ------
    ModuleNotFoundError
        Without `cuda.core`.

    Examples
    --------
    See the module.
    """

    def __init__(self, mr: _mr.DeviceMemoryResource | None = None) -> None:
        if _core is None:
            raise ModuleNotFoundError("No module named 'cuda.core'")
        self._mr = _mr.get_current_device_resource() if mr is None else mr
        if not isinstance(self._mr, _mr.DeviceMemoryResource):
            raise TypeError(f"mr must be a resource of rmm_rs, not {type(mr).__name__}")
        self._device = int(_core.Device().device_id)
        # Where a buffer does not keep it: the stream of each that lives, by its address.
        self._streams: dict[int, Any] = {}

    @property
    def mr(self) -> _mr.DeviceMemoryResource:
        """The resource of this package."""
        return self._mr

    def allocate(self, size: int, stream: Any = None) -> Any:
        """A buffer of `size` bytes, freed on `stream` unless it is closed on another.

        Raises
        ------
        MemoryError
            If the resource has not that much.
        """
        with _current(self._device):
            address = self._mr.allocate(size, _stream(stream))
        options = {"stream": stream} if _KEEPS_STREAM and stream is not None else {}
        if not _KEEPS_STREAM and address and stream is not None:
            self._streams[address] = stream
        try:
            return _core.Buffer.from_handle(address, size, self, **options)
        except BaseException:
            self._streams.pop(address, None)
            self._free(address, size, stream)
            raise

    def deallocate(self, ptr: Any, size: int, stream: Any = None) -> None:
        """Frees memory of `allocate` on a stream, as `cuda.core` does for a buffer that ends."""
        address = int(ptr)
        own = self._streams.pop(address, None)
        if own is not None:
            with _current(self._device):
                stream = _ordered(stream, own)
        self._free(address, size, stream)

    def _free(self, address: int, size: int, stream: Any) -> None:
        with _current(self._device):
            self._mr.deallocate(address, size, _stream(stream))

    @property
    def is_device_accessible(self) -> bool:
        """Whether kernels can use the memory."""
        return self._mr.is_device_accessible

    @property
    def is_host_accessible(self) -> bool:
        """Whether the host can: pinned, system and managed memory."""
        return self._mr.is_host_accessible

    @property
    def is_managed(self) -> bool:
        """Whether it is managed memory."""
        return self._mr.is_managed

    @property
    def device_id(self) -> int:
        """The device that was current when this was made."""
        return self._device

    def __repr__(self) -> str:
        return f"<MemoryResource of {self._mr!r}>"


def install(devices: Iterable[int] | None = None) -> None:
    """Makes the devices of `cuda.core` allocate from our current resource of each.

    `cuda.core` keeps a device's resource for each thread: call it on each thread that allocates, as
    in the initializer of a thread pool.

    Parameters
    ----------
    devices : iterable of int, optional
        Their numbers; all, if it is left out.

    Raises
    ------
    ModuleNotFoundError
        Without `cuda.core`.
    """
    if _core is None:
        raise ModuleNotFoundError("No module named 'cuda.core'")
    for number in range(gpu.getDeviceCount()) if devices is None else devices:
        with _current(number):
            device = _core.Device(number)
            device.set_current()
            device.memory_resource = MemoryResource(_mr.get_per_device_resource(number))


def _ordered(stream: Any, own: Any) -> Any:
    """The stream on which memory of `own` is freed, if `cuda.core` says `stream`.

    It says nothing, or the default stream, also where the program named none: then what was queued
    on `own` may not have come to its end.
    """
    if not int(own.handle):
        # It was closed, so it cannot be waited for.
        importlib.import_module("cuda.bindings.driver").cuCtxSynchronize()
        return stream
    if stream is None:
        return own
    if stream.__cuda_stream__()[1] in _DEFAULT_STREAMS:
        stream.wait(own)
    return stream


_DEFAULT_STREAMS = (0, 1, 2)

#: Whether a buffer keeps the stream on which it is freed, as from cuda.core 1.1 on.
_KEEPS_STREAM = _core is not None and "stream :" in (_core.Buffer.from_handle.__doc__ or "")
