"""The modules that make rmm-rs the allocator of PyTorch, one for each version that is served.

Programs call `rmm_rs.torch.install`, which loads the module for the PyTorch that is there.
"""

from __future__ import annotations

import os
import warnings

from rmm_rs_torch._built_for import TORCH_VERSIONS
from rmm_rs_torch._check import UnservedVersion, load
from rmm_rs_torch._memory_saver import register as register_memory_saver
from rmm_rs_torch._sleeper import DEFAULT_POOL, GRAPHS, Sleeper, Usage
from rmm_rs_torch._vllm import register as register_vllm

__all__ = [
    "DEFAULT_POOL",
    "GRAPHS",
    "TORCH_VERSIONS",
    "Sleeper",
    "UnservedVersion",
    "Usage",
    "install_if_wanted",
    "load",
    "register_memory_saver",
    "register_vllm",
]


def install_if_wanted() -> None:
    """Installs the allocator if `RMM_RS_TORCH` is 1 or a specification. ``import torch`` calls it,
    which an exception would break: a failure is a warning."""
    wanted = os.environ.get("RMM_RS_TORCH", "")
    if wanted in ("", "0"):
        return
    try:
        import rmm_rs.torch

        rmm_rs.torch.install(None if wanted == "1" else wanted)
    except Exception as error:
        warnings.warn(f"RMM_RS_TORCH={wanted} has no effect: {error}", RuntimeWarning, stacklevel=2)
