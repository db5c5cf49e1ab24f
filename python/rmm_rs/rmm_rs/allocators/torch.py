"""An allocator for PyTorch.

::

    import torch
    from rmm_rs.allocators.torch import rmm_torch_allocator
    torch.cuda.memory.change_current_allocator(rmm_torch_allocator)
"""

from __future__ import annotations

from typing import Any


def _make() -> Any:
    """The allocator, or None without a PyTorch that has a GPU."""
    try:
        from torch.cuda import is_available
        from torch.cuda.memory import CUDAPluggableAllocator
    except (ImportError, OSError):
        # `OSError`: PyTorch finds no library of the CUDA toolkit.
        return None
    if not is_available():
        return None
    from rmm_rs import _rmm

    # The library is loaded already: this one path makes PyTorch find the same one.
    return CUDAPluggableAllocator(
        _rmm.__file__,
        alloc_fn_name="rmm_rs_torch_allocate",
        free_fn_name="rmm_rs_torch_deallocate",
    )


rmm_torch_allocator = _make()
