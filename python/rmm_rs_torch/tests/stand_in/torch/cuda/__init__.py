"""The CUDA part of the stand-in."""

from __future__ import annotations

import ctypes
import os

library: ctypes.CDLL
for _path in os.environ["STAND_IN_LIBRARIES"].split(":"):
    library = ctypes.CDLL(_path, ctypes.RTLD_GLOBAL)
library.stand_in_allocate.restype = ctypes.c_void_p
library.stand_in_backend.restype = ctypes.c_char_p

_is_initialized = False

from torch.cuda import memory as memory  # noqa: E402


def init() -> None:
    """The first use of CUDA."""
    global _is_initialized
    library.stand_in_init()
    _is_initialized = True


def is_initialized() -> bool:
    """Whether CUDA was used."""
    return _is_initialized
