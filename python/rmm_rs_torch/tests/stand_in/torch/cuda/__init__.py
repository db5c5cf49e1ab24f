"""The CUDA part of the stand-in."""

from __future__ import annotations

import ctypes
import os
from typing import Any

library: ctypes.CDLL
for _path in os.environ["STAND_IN_LIBRARIES"].split(":"):
    library = ctypes.CDLL(_path, ctypes.RTLD_GLOBAL)
library.stand_in_allocate.restype = ctypes.c_void_p
library.stand_in_backend.restype = ctypes.c_char_p
library.stand_in_copy.restype = ctypes.c_bool
library.stand_in_free_memory.restype = ctypes.c_size_t

_is_initialized = False
_last_pool = 0

from torch.cuda import memory as memory  # noqa: E402


class graph:
    """A capture, on a stream of its own."""

    def __init__(
        self,
        cuda_graph: Any,
        pool: tuple[int, int] | None = None,
        stream: Any = None,
        capture_error_mode: str = "global",
    ) -> None:
        self.pool = pool or graph_pool_handle()

    def __enter__(self) -> None:
        library.stand_in_begin_capture(*map(ctypes.c_uint64, self.pool))

    def __exit__(self, *_: object) -> None:
        library.stand_in_end_capture(*map(ctypes.c_uint64, self.pool))


def graph_pool_handle() -> tuple[int, int]:
    """A new id."""
    global _last_pool
    _last_pool += 1
    return (0, _last_pool)


def current_device() -> int:
    """The device."""
    return int(library.stand_in_current_device())


def set_device(device: int) -> None:
    """The device of what follows."""
    assert library.stand_in_set_device(device)


def empty_cache() -> None:
    """Returns what is not used."""
    library.stand_in_empty_cache()


def free_memory() -> int:
    """The device's free bytes."""
    return int(library.stand_in_free_memory())


def write(pointer: int, data: bytes) -> None:
    """Copies to the device."""
    assert library.stand_in_copy(ctypes.c_void_p(pointer), data, ctypes.c_size_t(len(data)))


def read(pointer: int, size: int) -> bytes:
    """Copies to the host."""
    out = ctypes.create_string_buffer(size)
    assert library.stand_in_copy(out, ctypes.c_void_p(pointer), ctypes.c_size_t(size))
    return out.raw


def init() -> None:
    """The first use of CUDA."""
    global _is_initialized
    library.stand_in_init()
    _is_initialized = True


def is_initialized() -> bool:
    """Whether CUDA was used."""
    return _is_initialized
