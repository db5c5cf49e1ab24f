"""rmm-rs as the allocator of PyTorch, with all that the native one does::

    import torch
    import rmm_rs.torch

    rmm_rs.torch.install()  # before the first use of CUDA

It needs the package rmm-rs-torch, which has a compiled module for each version of PyTorch that is
served. `RMM_RS_TORCH=1` in the environment installs it in every process that imports PyTorch.

`Sleeper` returns the memory of parts of a program to the device for a while.
"""

from __future__ import annotations

import importlib
import os
import re
import warnings
from typing import Any, Literal

from rmm_rs._cuda.gpu import getDevice
from rmm_rs._rmm import DeviceMemoryResource, _check_spec

__all__ = ["install"]

#: Where PyTorch looks for settings of allocators, and those that mean something here.
_SETTINGS = ("PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_HIP_ALLOC_CONF")
_OBEYED = ("per_process_memory_fraction", "throw_on_cudamalloc_oom")

#: The pool that `install` was called with, once it has succeeded.
_installed: list[DeviceMemoryResource | str | None] = []


def install(
    pool: DeviceMemoryResource | str | None = None,
    graphs: bool = True,
    fallback: Literal["error", "pluggable"] = "error",
) -> None:
    """Makes PyTorch allocate from rmm-rs.

    Parameters
    ----------
    pool
        A resource, for the device that is current now; a specification such as ``"pool(cuda)"``, of
        which each device gets its own; or None: the device's current resource at each allocation.
    graphs
        Whether CUDA graphs and ``torch.cuda.MemPool`` are to work, which need a pool in the
        resource: without one a given resource is refused here.
    fallback
        What happens with a PyTorch that rmm-rs-torch has no module for: ``"error"``, or
        ``"pluggable"`` for `rmm_rs.allocators.torch`, with a warning. That one has neither graphs
        nor statistics, and takes the current resource.

    Raises
    ------
    ImportError
        Without the package rmm-rs-torch, or a module for this PyTorch.
    RuntimeError
        If PyTorch has used CUDA, or has another allocator than its native one.
    ValueError
        If `pool` is a text and no specification.
    """
    if fallback not in ("error", "pluggable"):
        raise ValueError(f"{fallback!r} is no fallback: 'error' and 'pluggable' are")
    if _installed:
        if _installed[0] is pool or _installed[0] == pool:
            return
        raise RuntimeError("rmm-rs is PyTorch's allocator already, with another pool")
    if isinstance(pool, str):
        # Now, and not at the first tensor of a device.
        _check_spec(pool)
    # By functions: no module of this package imports PyTorch when it is imported.
    torch = importlib.import_module("torch")
    if torch.cuda.is_initialized():
        raise RuntimeError(
            "PyTorch has used CUDA in this process: call rmm_rs.torch.install() directly after "
            "`import torch`"
        )
    try:
        module = _module_for(torch.__version__)
    except ImportError as error:
        if fallback == "error":
            raise
        _install_pluggable(torch, pool, str(error))
        return
    if graphs and isinstance(pool, DeviceMemoryResource) and not module.has_pool(pool):
        raise ValueError("CUDA graphs need a pool in the resource: give one, or graphs=False")
    device = getDevice() if isinstance(pool, DeviceMemoryResource) else 0
    module.install(pool, device)
    # `name` is the last of the class's functions, and moves with each new one.
    backend = torch.cuda.memory.get_allocator_backend()
    if backend != "rmm-rs":
        raise RuntimeError(
            f"{module.__file__} does not fit PyTorch {torch.__version__}, which takes it for "
            f"{backend!r}: end this process"
        )
    _installed.append(pool)
    _warn_of_settings()


def __getattr__(name: str) -> Any:
    # `rmm_rs_torch.Sleeper`, without an import of that package by this module's.
    if name == "Sleeper":
        try:
            return _package().Sleeper
        except ImportError as error:
            raise AttributeError(str(error)) from error
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def _warn_of_settings() -> None:
    """Names the settings of PyTorch's own allocator in the environment that have no effect now."""
    text = next((os.environ[name] for name in _SETTINGS if name in os.environ), "")
    names = re.findall(r"(?:^|,)\s*(\w+)\s*:", re.sub(r"\[.*?\]", "", text))
    # Pinned memory is of another allocator.
    ignored = [name for name in names if name not in _OBEYED and not name.startswith("pinned_")]
    if ignored:
        warnings.warn(
            f"settings of PyTorch's own allocator have no effect on rmm-rs: {', '.join(ignored)}",
            RuntimeWarning,
            stacklevel=3,
        )


def _module_for(version: str) -> Any:
    """The compiled module for a version of PyTorch."""
    return _package().load(version)


def _package() -> Any:
    """The package with the compiled modules."""
    try:
        return importlib.import_module("rmm_rs_torch")
    except ModuleNotFoundError as error:
        raise ImportError(
            "the class for PyTorch is in a package of its own: pip install rmm-rs-torch"
        ) from error


def _install_pluggable(torch: Any, pool: DeviceMemoryResource | str | None, why: str) -> None:
    """Installs the allocator of five functions."""
    if pool is not None:
        raise ValueError(
            "the pluggable allocator takes the current resource: set that one, and no `pool`"
        )
    from rmm_rs.allocators.torch import rmm_torch_allocator

    if rmm_torch_allocator is None:
        raise RuntimeError("PyTorch finds no GPU")
    torch.cuda.memory.change_current_allocator(rmm_torch_allocator)
    warnings.warn(
        f"PyTorch's pluggable allocator is used, without graphs, statistics and snapshots: {why}",
        RuntimeWarning,
        stacklevel=3,
    )
    _installed.append(pool)
