"""What a program can do before a pool refuses a request."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    from rmm_rs_plugin._plugin import PressureCallback, RustMemoryResource

__all__ = ["Pressure", "spill_on_pressure"]


class Pressure(NamedTuple):
    """A request that is about to fail for lack of memory."""

    #: The bytes that were requested, rounded up as the pool does.
    requested: int
    #: The fewest bytes that have to be freed; more if memory is fragmented.
    missing: int


class _SpillManager(Protocol):
    def spill(self, amount: int, /) -> int: ...


class _BufferResource(Protocol):
    @property
    def spill_manager(self) -> _SpillManager: ...


def spill_on_pressure(
    pool: RustMemoryResource, buffer_resource: _BufferResource
) -> PressureCallback:
    """Has a `BufferResource` of rapidsmpf spill the missing bytes before `pool` refuses a request.

    Parameters
    ----------
    pool : RustMemoryResource
        A pool of this package, or a resource with one below it: usually the one that the
        `BufferResource` was made of.
    buffer_resource : rapidsmpf.memory.buffer_resource.BufferResource
        The one whose `spill_manager` is called, on the thread of the request. If the thread's
        request comes from a spill function that this has called, that request fails.

    Returns
    -------
    PressureCallback
        Keep it: spilling ends with it. It keeps the `BufferResource`.

    Raises
    ------
    TypeError
        If `pool` is no resource of this package, or `buffer_resource` has no spill manager.
    RuntimeError
        If there is no pool.
    """
    register = getattr(pool, "on_pressure", None)
    if register is None:
        raise TypeError(f"pool must be a resource of rmm_rs_plugin, not {type(pool).__name__}")
    if not hasattr(getattr(buffer_resource, "spill_manager", None), "spill"):
        kind = type(buffer_resource).__name__
        raise TypeError(f"buffer_resource must be a BufferResource of rapidsmpf, not {kind}")
    on_thread = threading.local()

    def spill(pressure: Pressure) -> bool:
        # The spill manager holds a mutex while it calls functions: a second call waits for itself.
        if getattr(on_thread, "spills", False):
            return False
        on_thread.spills = True
        try:
            return buffer_resource.spill_manager.spill(pressure.missing) > 0
        finally:
            on_thread.spills = False

    callback: PressureCallback = register(spill)
    return callback
