"""A resource of this package for the real RMM, of any version, by callbacks of Python.

::

    import rmm, rmm_rs.mr
    from rmm_rs.fallback import callback_resource

    pool = rmm_rs.mr.PoolMemoryResource(rmm_rs.mr.CudaMemoryResource(), "1GiB")
    rmm.mr.set_current_device_resource(callback_resource(pool))

For debugging, where the package rmm-rs-plugin-cu13 has no release for the RMM that is installed: every
allocation takes Python's lock, on every thread of the C++ library that asks for it.
"""

from __future__ import annotations

import importlib
import warnings
from typing import Any

from rmm_rs._rmm import DeviceMemoryResource

__all__ = ["callback_resource"]

_has_warned = False


def callback_resource(mr: DeviceMemoryResource) -> Any:
    """RMM's ``CallbackMemoryResource`` over a resource of this package, which it keeps.

    Raises
    ------
    ImportError
        Without RMM, or if `rmm` is this package (`rmm_rs.as_rmm`): then it needs no callbacks.
    TypeError
        If `mr` is not a resource of this package.

    Warns
    -----
    RuntimeWarning
        At the first call in the process.
    """
    global _has_warned
    if not isinstance(mr, DeviceMemoryResource):
        kind = type(mr).__name__
        raise TypeError(f"callback_resource takes a resource of rmm_rs.mr, not {kind}")
    # By a function: no module of this package imports RMM when it is imported.
    real = importlib.import_module("rmm.mr")
    if real.__name__ != "rmm.mr":
        raise ImportError("rmm is rmm_rs in this process: the resource is one of rmm's as it is")
    if not _has_warned:
        _has_warned = True
        warnings.warn(
            "every allocation of RMM's users takes Python's lock now, which is for debugging: "
            "the package rmm-rs-plugin-cu13 does without",
            RuntimeWarning,
            stacklevel=2,
        )
    return real.CallbackMemoryResource(mr.allocate, mr.deallocate)
