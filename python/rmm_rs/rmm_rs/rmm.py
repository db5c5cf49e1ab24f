"""Initialization, at the place where RMM has it."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from rmm_rs import mr
from rmm_rs.pylibrmm.memory_resource._memory_resource import _initialize

F = TypeVar("F", bound=Callable[..., Any])


class RMMError(Exception):
    """An error with a code. Nothing raises it; programs that catch it keep working.

    Parameters
    ----------
    errcode : int
    msg : str
    """

    def __init__(self, errcode: int, msg: str) -> None:
        super().__init__(msg)
        self.errcode = errcode


_hooks: list[tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]]] = []
_hooks_lock = threading.Lock()


def reinitialize(
    pool_allocator: bool = False,
    managed_memory: bool = False,
    initial_pool_size: int | str | None = None,
    maximum_pool_size: int | str | None = None,
    devices: int | Iterable[int] | None = 0,
    logging: bool = False,
    log_file_name: str | os.PathLike[str] | None = None,
) -> None:
    """Gives each device a new resource; those of all other devices are forgotten.

    Memory of the former ones stays valid: each buffer keeps the resource that it is from. If the
    environment variable ``RMM_OOM_REPORT`` names a directory, a request that fails for lack of
    memory leaves a report there.

    Parameters
    ----------
    pool_allocator : bool
        Whether to use a pool.
    managed_memory : bool
        Whether to use managed memory.
    initial_pool_size, maximum_pool_size : int or str, optional
        Sizes of the pool: half of the free memory, and no maximum, by default.
    devices : int or list of int
        Which devices get a resource.
    logging : bool
        Whether to log each allocation and free.
    log_file_name : str or path, optional
        Where to; by default to the file that ``RMM_LOG_FILE`` names.
    """
    with _hooks_lock:
        hooks = _hooks[::-1]
    for function, args, kwargs in hooks:
        function(*args, **kwargs)
    _initialize(
        pool_allocator=pool_allocator,
        managed_memory=managed_memory,
        initial_pool_size=initial_pool_size,
        maximum_pool_size=maximum_pool_size,
        devices=devices,
        logging=logging,
        log_file_name=log_file_name,
    )


def is_initialized() -> bool:
    """Whether every resource that was set has memory."""
    return mr.is_initialized()


def register_reinitialize_hook(func: F, *args: Any, **kwargs: Any) -> F:
    """Has a function called first thing in `reinitialize`, the last registered one first.

    It may be registered several times. Returns the function.
    """
    with _hooks_lock:
        _hooks.append((func, args, kwargs))
    return func


def unregister_reinitialize_hook(func: Callable[..., Any]) -> None:
    """Removes all registrations of a function; one that is not registered is ignored."""
    with _hooks_lock:
        _hooks[:] = [hook for hook in _hooks if hook[0] != func]
