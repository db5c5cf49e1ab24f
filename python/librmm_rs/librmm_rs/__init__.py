"""The C library of rmm-rs, for packages in C, C++ and Cython that are compiled against it.

::

    import librmm_rs

    librmm_rs.load_library()  # before a module that is linked with librmm_rs.so.1
    from my_package import _module

A build finds headers and the library by `get_include` and `get_library_dir`, by CMake's
``find_package(rmm_rs)`` or by pkg-config.
"""

from __future__ import annotations

import ctypes
import os
from pathlib import Path

__all__ = ["get_include", "get_library_dir", "load_library"]

_FOLDER = Path(__file__).resolve().parent


def get_include() -> str:
    """The folder of the headers ``rmm_rs.h`` and ``rmm_rs.hpp``."""
    return str(_FOLDER / "include")


def get_library_dir() -> str:
    """The folder of ``librmm_rs.so.1``, and of the files for CMake and pkg-config."""
    return str(_FOLDER / "lib")


def load_library() -> ctypes.CDLL:
    """Loads ``librmm_rs.so.1`` into the process, where modules that are linked with it find it.

    One that the process has loaded already, from wherever, stays the only one.

    Raises
    ------
    OSError
        If the library does not load on this machine.
    """
    name = "librmm_rs.so.1"
    try:
        return ctypes.CDLL(name, mode=os.RTLD_NOLOAD | os.RTLD_LOCAL)
    except OSError:
        return ctypes.CDLL(os.path.join(get_library_dir(), name), mode=os.RTLD_LOCAL)
